package expr

import (
	"slices"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	Register(Func{
		Name: "AND", Usage: "a AND b", Category: "Logical", Infer: inferLogic,
		Doc: "TRUE where all are TRUE, FALSE where one is FALSE, otherwise NULL.",
	})
	Register(Func{
		Name: "OR", Usage: "a OR b", Category: "Logical", Infer: inferLogic,
		Doc: "TRUE where one is TRUE, FALSE where all are FALSE, otherwise NULL.",
	})
	Register(Func{
		Name: "NOT", Usage: "NOT a", Category: "Logical",
		Doc:   "TRUE where a is FALSE and FALSE where it is TRUE.",
		Infer: InferFixed(types.BooleanType, types.BooleanType),
		Compile: func(*CompileCtx, *Call) (Kernel, error) {
			return Unary(func(a bool) bool { return !a }), nil
		},
	})
	for _, t := range []struct {
		name          string
		onTrue, onNul bool // results for TRUE and NULL
		onFalse       bool
	}{
		{"IS TRUE", true, false, false}, {"IS NOT TRUE", false, true, true},
		{"IS FALSE", false, false, true}, {"IS NOT FALSE", true, true, false},
		{"IS UNKNOWN", false, true, false}, {"IS NOT UNKNOWN", true, false, true},
	} {
		Register(Func{
			Name: t.name, Usage: "a " + t.name, Category: "Logical",
			Doc:   "Tests a BOOLEAN; never NULL.",
			Infer: inferTest(types.BooleanType),
			Compile: func(*CompileCtx, *Call) (Kernel, error) {
				return EachRowNullable(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
					switch {
					case args[0].IsNull(i):
						out.Bool[i] = t.onNul
					case args[0].Bool[i]:
						out.Bool[i] = t.onTrue
					default:
						out.Bool[i] = t.onFalse
					}
				}), nil
			},
		})
	}
	for _, name := range []string{"IS NULL", "IS NOT NULL"} {
		null := name == "IS NULL"
		Register(Func{
			Name: name, Usage: "x " + name, Category: "Comparison",
			Doc:   "Tests a value of any type; never NULL.",
			Infer: inferTest(Any),
			Compile: func(*CompileCtx, *Call) (Kernel, error) {
				return EachRowNullable(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
					out.Bool[i] = args[0].IsNull(i) == null
				}), nil
			},
		})
	}
	Register(Func{
		Name: "CASE", Usage: "CASE WHEN a THEN x [WHEN b THEN y ...] [ELSE z] END",
		Doc:      "The value after the first condition that is TRUE, else z, or NULL without ELSE.",
		Category: "Conditional", Infer: inferCase,
	})
	Register(Func{
		Name: "IF", Usage: "IF(a, x, y)", Category: "Conditional", Infer: inferIf,
		Doc: "x where a is TRUE, otherwise y.",
	})
	Register(Func{
		Name: "COALESCE", Usage: "COALESCE(x, y, ...)", Category: "Conditional",
		Doc: "The first argument that is not NULL.", Infer: inferCoalesce(1, -1),
	})
	Register(Func{
		Name: "IFNULL", Usage: "IFNULL(x, y)", Category: "Conditional",
		Doc: "x, or y where x is NULL.", Infer: inferCoalesce(2, 2),
	})
	Register(Func{
		Name: "NULLIF", Usage: "NULLIF(x, y)", Category: "Conditional", Infer: inferNullIf,
		Doc: "NULL where x equals y, otherwise x.",
	})
	Register(Func{
		Name: "IN", Usage: "x IN (a, b, ...)", Category: "Comparison", Infer: inferIn,
		Doc: "TRUE where x equals one of the list; NULL where it does not and x or one of the list is NULL.",
	})
	rewrites["NULLIF"] = rewriteNullIf
}

func inferLogic(a Args) (Signature, error) {
	if err := a.Count(1, -1); err != nil {
		return Signature{}, err
	}
	params := make([]types.Type, a.Len())
	for i := range params {
		if k := a.Type(i).Kind; k != types.Boolean && k != types.Null {
			return Signature{}, a.Mismatch(i, "BOOLEAN")
		}
		params[i] = types.BooleanType
	}
	return Sig(types.BooleanType.WithNullable(a.AnyNullable()), params...), nil
}

func inferTest(param types.Type) func(Args) (Signature, error) {
	return func(a Args) (Signature, error) {
		s, err := InferFixed(types.BooleanType, param)(a)
		s.Result = types.BooleanType.NotNull()
		return s, err
	}
}

// inferCase also adds the missing ELSE: Resolve does so before it asks.
func inferCase(a Args) (Signature, error) {
	n := a.Len()
	if n < 3 || n%2 == 0 {
		return Signature{}, Errorf("needs pairs of a condition and a value, and a value for ELSE")
	}
	params := make([]types.Type, n)
	var branches []types.Type
	for i := 0; i < n-1; i += 2 {
		if k := a.Type(i).Kind; k != types.Boolean && k != types.Null {
			return Signature{}, Errorf("the condition is %s, but must be BOOLEAN", a.Type(i).AsNullable())
		}
		params[i] = types.BooleanType
		branches = append(branches, a.Type(i+1))
	}
	branches = append(branches, a.Type(n-1))
	t, ok := CommonType(branches...)
	if !ok {
		return Signature{}, Errorf("illegal mixed types in the branches").
			WithHint("cast the branches to one type")
	}
	for i := 1; i < n; i += 2 {
		params[i] = t
	}
	params[n-1] = t
	return Sig(t, params...), nil
}

func inferIf(a Args) (Signature, error) {
	if err := a.Count(3, 3); err != nil {
		return Signature{}, err
	}
	return inferCase(a)
}

func inferCoalesce(min, max int) func(a Args) (Signature, error) {
	return func(a Args) (Signature, error) {
		if err := a.Count(min, max); err != nil {
			return Signature{}, err
		}
		ts := make([]types.Type, a.Len())
		null := true
		for i := range ts {
			ts[i] = a.Type(i)
			null = null && ts[i].Nullable
		}
		t, ok := CommonType(ts...)
		if !ok {
			return Signature{}, Errorf("could not find a common type for the arguments").
				WithHint("cast the arguments to one type")
		}
		t.Nullable = null
		return Sig(t, slices.Repeat([]types.Type{t}, len(ts))...), nil
	}
}

func inferNullIf(a Args) (Signature, error) {
	if err := a.Count(2, 2); err != nil {
		return Signature{}, err
	}
	_, err := comparable2(a.Type(0), a.Type(1), "=")
	return Sig(a.Type(0).AsNullable()), err
}

// rewriteNullIf makes CASE WHEN x = y THEN NULL ELSE x END.
func rewriteNullIf(args []Expr, env *Env, pos Pos) (Expr, error) {
	eq, err := Resolve("=", args, env, pos)
	if err != nil {
		return nil, err
	}
	t := args[0].Type().AsNullable()
	return Resolve("CASE", []Expr{eq, &Literal{T: t}, args[0]}, env, pos)
}

func inferIn(a Args) (Signature, error) {
	if err := a.Count(2, -1); err != nil {
		return Signature{}, err
	}
	x := a.Type(0)
	ts := []types.Type{x}
	for i := 1; i < a.Len(); i++ {
		p, err := comparable2(x, a.Type(i), "=")
		if err != nil {
			return Signature{}, err
		}
		if p[0].Kind != types.Null {
			ts = append(ts, p[0])
		} else if a.Type(i).Kind != types.Null {
			ts = append(ts, a.Type(i))
		}
	}
	t, ok := CommonType(ts...)
	if x.IsString() && !t.IsString() {
		// A string among dates is read as a date.
		t, ok = CommonType(ts[1:]...)
	}
	if !ok {
		return Signature{}, Errorf("the values have no common type")
	}
	// Strings of any length compare as they are.
	if t.IsString() || t.IsBinary() {
		t = Any
	}
	res := types.BooleanType.WithNullable(a.AnyNullable())
	return Sig(res, slices.Repeat([]types.Type{t}, a.Len())...), nil
}

// compileIn looks constants up in a set; other lists are compared one by one, as OR.
func compileIn(c *compiler, call *Call, nd *node) error {
	if find, set, hasNull, ok := constantList(call); ok {
		if set != nil {
			find = func(v *vec.Vec, i int) bool { return set.find(v.Buf, v.Refs[i]) < len(set.texts) }
		}
		nd.run = runKernel
		nd.kernel = func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
			v := args[0]
			out.CopyValid(v.Valid)
			forRows(n, sel, func(i int32) {
				if v.IsNull(int(i)) {
					out.SetNull(int(i))
					return
				}
				hit := find(v, int(i))
				out.Bool[i] = hit
				if hasNull && !hit {
					out.SetNull(int(i))
				}
			})
		}
		return nil
	}
	or := &Call{Fn: "OR", T: call.T, Pos: call.Pos}
	for _, a := range call.Args[1:] {
		or.Args = append(or.Args, &Call{Fn: "=", Args: []Expr{call.Args[0], a}, T: call.T, Pos: call.Pos})
	}
	inner, err := c.node(or)
	if err != nil {
		return err
	}
	nd.view = true
	nd.needs = func(f func(*node)) { f(inner) }
	nd.run = func(p *Programs, _ *node, n int, sel []int32) *vec.Vec { return p.eval(inner, n, sel) }
	return nil
}

// constantList returns how to look a value up in the list of an IN, where that holds constants only:
// for strings set, else find. hasNull says that NULL is in the list.
func constantList(call *Call) (find func(v *vec.Vec, i int) bool, set *constants, hasNull, ok bool) {
	x := call.Args[0].Type()
	if x.IsNested() {
		return nil, nil, false, false
	}
	list := vec.New(x, 0)
	for _, a := range call.Args[1:] {
		l, ok := a.(*Literal)
		if !ok {
			return nil, nil, false, false
		}
		if l.Value == nil {
			hasNull = true
			continue
		}
		list.AppendValue(l.Value)
	}
	if list.Phys == types.PBytes {
		texts := make([]string, list.Len())
		for i := range texts {
			texts[i] = string(list.Bytes(i))
		}
		return nil, newConstants(texts), hasNull, true
	}
	return membership(x, list), nil, hasNull, true
}

// membership returns a function that looks a value of type t, not a string, up among the values of list.
func membership(t types.Type, list *vec.Vec) func(v *vec.Vec, i int) bool {
	switch t.Phys() {
	case types.PI32:
		return inSet(list.I32, func(v *vec.Vec) []int32 { return v.I32 })
	case types.PI64:
		return inSet(list.I64, func(v *vec.Vec) []int64 { return v.I64 })
	case types.PI128:
		return inSet(list.I128, func(v *vec.Vec) []types.Int128 { return v.I128 })
	}
	f := comparator(t)
	return func(v *vec.Vec, i int) bool {
		for k := 0; k < list.Len(); k++ {
			if f(v, i, list, k) == 0 {
				return true
			}
		}
		return false
	}
}

// inSet searches short lists one by one, which is faster than hashing.
func inSet[T comparable](list []T, data func(v *vec.Vec) []T) func(v *vec.Vec, i int) bool {
	list = slices.Clone(list)
	if len(list) <= 8 {
		return func(v *vec.Vec, i int) bool { return slices.Contains(list, data(v)[i]) }
	}
	set := map[T]bool{}
	for _, x := range list {
		set[x] = true
	}
	return func(v *vec.Vec, i int) bool { return set[data(v)[i]] }
}
