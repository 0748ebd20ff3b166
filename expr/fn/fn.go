// Package fn is the library of scalar functions: everything that Flink SQL calls by name, beyond
// the operators and special forms of package expr. Importing it fills the registry; each file
// holds a family, each function one entry with its names, usage, documentation, types and kernel.
//
// Semantics are those of Apache Flink 1.20; what 2.x added follows 2.x. Kernels belong to one
// Program, which one goroutine runs, so their closures own scratch memory. In functions on strings
// positions count Unicode code points.
package fn

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Categories of the documentation, in Flink's order.
const (
	catComparison  = "Comparison"
	catArithmetic  = "Arithmetic"
	catString      = "String"
	catTemporal    = "Temporal"
	catConditional = "Conditional"
	catCollection  = "Collection"
	catJSON        = "JSON"
	catHash        = "Hash"
)

// compileFunc is expr.Func.Compile.
type compileFunc = func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error)

// inferFunc is expr.Func.Infer.
type inferFunc = func(expr.Args) (expr.Signature, error)

// row is what expr.EachRow calls.
type row = func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int)

// each compiles to a kernel that calls f for rows without NULL arguments. f must own no scratch
// memory.
func each(f row) compileFunc {
	k := expr.EachRow(f)
	return func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) { return k, nil }
}

// kernel compiles to k whatever the call. k must own no scratch memory.
func kernel(k expr.Kernel) compileFunc {
	return func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) { return k, nil }
}

// want is what an argument must be.
type want struct {
	name string
	ok   func(types.Type) bool
	// def is the type that an untyped NULL becomes and, when cast is set, every argument.
	def  types.Type
	cast bool
	// as is the type to suggest a CAST to for an argument that is not what it must be.
	as string
}

// The usual parameters.
var (
	str     = want{name: "a character string", ok: types.Type.IsString, def: types.StringType, as: "STRING"}
	bin     = want{name: "a binary string", ok: types.Type.IsBinary, def: types.BytesType}
	strBin  = want{name: "a character or binary string", ok: isStrBin, def: types.StringType, as: "STRING"}
	numeric = want{name: "a number", ok: types.Type.IsNumeric, def: types.IntType, as: "DOUBLE"}
	double  = want{name: "a number", ok: types.Type.IsNumeric, def: types.DoubleType, cast: true, as: "DOUBLE"}
	// integer takes any integer as INT; BIGINT is narrowed.
	integer  = want{name: "an integer", ok: types.Type.IsInteger, def: types.IntType, cast: true, as: "INT"}
	long     = want{name: "an integer", ok: types.Type.IsInteger, def: types.BigIntType, cast: true, as: "BIGINT"}
	boolean  = want{name: "BOOLEAN", ok: isKind(types.Boolean), def: types.BooleanType}
	array    = want{name: "an ARRAY", ok: isKind(types.Array), def: types.ArrayType(types.IntType)}
	mapping  = want{name: "a MAP", ok: isKind(types.Map), def: types.MapType(types.StringType, types.StringType)}
	symbol   = want{name: "a keyword", ok: isSymbol, def: types.StringType}
	anything = want{name: "any value", ok: func(types.Type) bool { return true }, def: types.StringType}
)

func isStrBin(t types.Type) bool { return t.IsString() || t.IsBinary() }

// isSymbol also takes strings: a unit may come as a literal.
func isSymbol(t types.Type) bool { return t.Kind == types.Symbol || t.IsString() }

func isKind(k types.Kind) func(types.Type) bool {
	return func(t types.Type) bool { return t.Kind == k }
}

// result decides the type of a call from its checked arguments.
type result func(a expr.Args) types.Type

// of is t, nullable where an argument is.
func of(t types.Type) result {
	return func(a expr.Args) types.Type { return t.WithNullable(a.AnyNullable()) }
}

// maybe is t, always nullable.
func maybe(t types.Type) result {
	return func(expr.Args) types.Type { return t.AsNullable() }
}

// never is t, never NULL.
func never(t types.Type) result {
	return func(expr.Args) types.Type { return t.NotNull() }
}

// typeOfArg is the type of argument i, nullable where an argument is; def stands for an untyped NULL.
func typeOfArg(i int, def types.Type) result {
	return func(a expr.Args) types.Type {
		t := a.Type(i).WithoutAttr()
		if t.Kind == types.Null {
			t = def
		}
		return t.WithNullable(a.AnyNullable())
	}
}

// varying is argument i's string type as VARCHAR.
func varying(i int) result {
	return func(a expr.Args) types.Type {
		t := a.Type(i)
		if !t.IsString() {
			return types.StringType.WithNullable(a.AnyNullable())
		}
		return types.VarCharType(max(t.Precision, 1)).WithNullable(a.AnyNullable())
	}
}

// nullable is r, always nullable.
func nullable(r result) result {
	return func(a expr.Args) types.Type { return r(a).AsNullable() }
}

// sig checks arguments against params, of which the first least must be there, and gives the result.
func sig(r result, least int, params ...want) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		if err := a.Count(least, len(params)); err != nil {
			return expr.Signature{}, err
		}
		return check(r, a, params[:a.Len()])
	}
}

// sigMany is sig where the last parameter may repeat.
func sigMany(r result, least int, params ...want) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		if err := a.Count(least, -1); err != nil {
			return expr.Signature{}, err
		}
		ws := make([]want, a.Len())
		for i := range ws {
			ws[i] = params[min(i, len(params)-1)]
		}
		return check(r, a, ws)
	}
}

func check(r result, a expr.Args, ws []want) (expr.Signature, error) {
	out := expr.Signature{Params: make([]types.Type, len(ws))}
	for i, w := range ws {
		t := a.Type(i)
		switch {
		case t.Kind == types.Null:
			out.Params[i] = w.def
		case !w.ok(t):
			err := a.Mismatch(i, w.name)
			if w.as != "" && !t.IsNested() && t.Kind != types.Symbol {
				err = err.WithHint("write CAST(%s AS %s)", a.Exprs[i], w.as)
			}
			return out, err
		case w.cast:
			out.Params[i] = w.def
		default:
			out.Params[i] = expr.Any
		}
	}
	out.Result = r(a)
	return out, nil
}

// oneOf is the first of several inferences that fits; the error is that of the last.
func oneOf(fs ...inferFunc) inferFunc {
	return func(a expr.Args) (s expr.Signature, err error) {
		for _, f := range fs {
			if s, err = f(a); err == nil {
				return s, nil
			}
		}
		return s, err
	}
}

// verify adds to an inference a check of what is constant in the arguments, so that a bad pattern is
// an error with its place in the text and not one at run time.
func verify(f inferFunc, check func(a expr.Args) error) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		s, err := f(a)
		if err == nil {
			err = check(a)
		}
		return s, err
	}
}

// constText checks argument i with read where it is a constant string.
func constText(i int, read func(string) error) func(a expr.Args) error {
	return func(a expr.Args) error {
		if i >= a.Len() {
			return nil
		}
		if s, ok := expr.ConstString(a.Exprs[i]); ok {
			return read(s)
		}
		return nil
	}
}

// reads turns a compiler of texts into a check.
func reads[T any](compile func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := compile(s)
		return err
	}
}

// text is the bytes of string argument k in row i.
func text(args []*vec.Vec, k, i int) []byte { return args[k].Bytes(i) }

// errf is a short fmt.Errorf for errors of rows.
func errf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// only hands a kernel some of the arguments; it hides keywords, which count as NULL.
func only(k expr.Kernel, idx ...int) expr.Kernel {
	some := make([]*vec.Vec, len(idx))
	return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		for j, a := range idx {
			some[j] = args[a]
		}
		k(ctx, some, out, n, sel)
	}
}
