package expr

import (
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for _, name := range []string{"CAST", "TRY_CAST"} {
		doc := "x as a value of the type; what does not convert fails the row."
		if name == "TRY_CAST" {
			doc = "x as a value of the type, or NULL where it does not convert."
		}
		Register(Func{
			Name: name, Usage: name + "(x AS type)", Doc: doc, Category: "Type conversion",
			Infer: func(Args) (Signature, error) { return Signature{}, errors.New("BUG: use Cast") },
		})
	}
}

// conv converts value i of in, which is not NULL, to value j of out; false where it cannot.
type conv func(in *vec.Vec, i int, out *vec.Vec, j int) bool

// compileCast passes vectors on where the values are stored alike, has loops for the usual
// numbers, and otherwise converts value by value.
func compileCast(c *compiler, call *Call, nd *node) error {
	from, to := call.Args[0].Type(), call.T
	if sameForm(from, to) {
		var view vec.Vec
		nd.view = true
		nd.run = func(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
			view = *p.eval(nd.args[0], n, sel)
			view.Type = to
			return &view
		}
		return nil
	}
	nd.run = runKernel
	if nd.kernel = castLoop(from, to); nd.kernel != nil {
		return nil
	}
	f := converter(from, to, c.env)
	if f == nil {
		return &Error{Pos: call.Pos, Msg: fmt.Sprintf("cannot cast %s to %s", from.AsNullable(), to.AsNullable())}
	}
	if call.Fn == "TRY_CAST" || c.env.LegacyCast {
		nd.kernel = EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			if !f(args[0], i, out, i) {
				out.SetNull(i)
			}
		})
		return nil
	}
	text := textOf(from, c.env)
	nd.kernel = EachRow(func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if !f(args[0], i, out, i) {
			out.SetNull(i)
			ctx.Fail(i, fmt.Errorf("cannot cast '%s' to %s", clip(text(nil, args[0], i)), to.AsNullable()))
		}
	})
	return nil
}

// clip shortens a value for an error.
func clip(b []byte) []byte {
	if len(b) > 100 {
		return append(b[:97], "..."...)
	}
	return b
}

// sameForm reports whether every value of from is stored as the same value of to is.
func sameForm(from, to types.Type) bool {
	switch {
	case from.Kind == types.Null:
		return false
	case from.IsString() && to.IsString():
		return to.Kind == types.VarChar && (to.Precision >= from.Precision || to.Precision == types.MaxLength) ||
			from.Kind == types.Char && to.Kind == types.Char && from.Precision == to.Precision
	case from.IsBinary() && to.IsBinary():
		return to.Kind == types.VarBinary && to.Precision >= from.Precision ||
			from.Kind == types.Binary && to.Kind == types.Binary && from.Precision == to.Precision
	case from.Kind == types.Decimal && to.Kind == types.Decimal:
		return from.Scale == to.Scale && from.Phys() == to.Phys() && from.Precision <= to.Precision
	case from.IsInteger() && to.IsInteger():
		return from.Phys() == to.Phys() && from.Kind <= to.Kind
	case from.Kind != to.Kind:
		return false
	case from.IsTimestamp():
		return from.Phys() == to.Phys() && from.Precision <= to.Precision
	case from.Kind == types.Time:
		return from.Precision <= to.Precision
	case from.IsNested():
		return len(from.Fields) == len(to.Fields) && eachChild(from, to, sameForm)
	}
	return true
}

// castLoop returns the kernel of a conversion that cannot fail, or nil.
func castLoop(from, to types.Type) Kernel {
	switch {
	case from.Phys() == types.PI32 && from.IsInteger() && to.Kind == types.BigInt:
		return widen(func(a []int32, r []int64, i int32) { r[i] = int64(a[i]) })
	case from.Phys() == types.PI32 && from.IsInteger() && to.Kind == types.Double:
		return widen(func(a []int32, r []float64, i int32) { r[i] = float64(a[i]) })
	case from.Kind == types.BigInt && to.Kind == types.Double:
		return widen(func(a []int64, r []float64, i int32) { r[i] = float64(a[i]) })
	case from.Kind == types.Float && to.Kind == types.Double:
		return widen(func(a []float32, r []float64, i int32) { r[i] = float64(a[i]) })
	case from.Kind == types.BigInt && to.Kind == types.Int:
		return widen(func(a []int64, r []int32, i int32) { r[i] = int32(a[i]) })
	case from.Kind == types.Decimal && to.Kind == types.Decimal:
		return decimalLoop(from, to)
	case from.Kind == types.Decimal && from.Phys() == types.PI64 && to.Kind == types.Double && from.Scale <= 15:
		s := from.Scale
		return Unary(func(a int64) float64 { return types.I128(a).Float64(s) })
	}
	return nil
}

// decimalLoop changes precision and scale; what does not fit is NULL.
func decimalLoop(from, to types.Type) Kernel {
	up := to.Scale - from.Scale
	wide := to.Precision-to.Scale >= from.Precision-from.Scale // every integer part fits
	switch {
	case up == 0 && from.Phys() == types.PI64 && to.Phys() == types.PI128:
		return widen(func(a []int64, r []types.Int128, i int32) { r[i] = types.I128(a[i]) })
	case up >= 0 && wide && from.Phys() == types.PI64 && to.Phys() == types.PI64:
		m := types.Pow10Int64(up)
		return widen(func(a []int64, r []int64, i int32) { r[i] = a[i] * m })
	case up >= 0 && up <= types.MaxSmallDecimal && wide && from.Phys() == types.PI64:
		m := types.Pow10Int64(up)
		return widen(func(a []int64, r []types.Int128, i int32) { r[i] = types.MulInt64(a[i], m) })
	case up == 0 && from.Phys() == types.PI128 && to.Phys() == types.PI128:
		p := to.Precision
		return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
			out.CopyValid(args[0].Valid)
			a, r := args[0].I128[:n], out.I128[:n]
			rows(out.Valid, n, sel, func(i int) {
				x := a[i]
				r[i] = x
				// A DECIMAL of over 18 digits holds every int64.
				if !x.IsInt64() && !x.FitsDecimal(p) {
					out.SetNull(i)
				}
			})
		}
	}
	sf, st := from.Scale, to.Scale
	return EachRow(func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if x, ok := exactAt(args[0], i).Rescale(sf, st); ok {
			SetDecimal(out, i, x)
		} else {
			out.SetNull(i)
		}
	})
}

// widen makes a kernel of a conversion that works on any bits, the slots of NULLs too.
//
//go:noinline
func widen[A, R Fixed](f func(a []A, r []R, i int32)) Kernel {
	return func(_ *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		out.CopyValid(args[0].Valid)
		a, r := Data[A](args[0])[:n], Data[R](out)[:n]
		if sel == nil {
			for i := range int32(n) {
				f(a, r, i)
			}
			return
		}
		for _, i := range sel {
			f(a, r, i)
		}
	}
}

// converter returns the conversion of one value, or nil where there is none.
func converter(from, to types.Type, env *Env) conv {
	if from.Kind == types.Null {
		return func(_ *vec.Vec, _ int, out *vec.Vec, j int) bool { out.SetNull(j); return true }
	}
	if sameForm(from, to) {
		return func(in *vec.Vec, i int, out *vec.Vec, j int) bool { out.Set(j, in, i); return true }
	}
	switch to.Kind {
	case types.Char, types.VarChar:
		return toText(from, to, env)
	case types.Binary, types.VarBinary:
		return toBinary(from, to)
	case types.Boolean:
		return toBoolean(from)
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt:
		return toInteger(from, to)
	case types.Float, types.Double:
		return toFloat(from, to)
	case types.Decimal:
		return toDecimal(from, to)
	case types.Date:
		return toDate(from, env)
	case types.Time:
		return toTime(from, to, env)
	case types.Timestamp, types.TimestampLTZ:
		return toTimestamp(from, to, env)
	case types.IntervalYearMonth, types.IntervalDayTime:
		if from.Kind == to.Kind {
			return func(in *vec.Vec, i int, out *vec.Vec, j int) bool { out.Set(j, in, i); return true }
		}
	case types.Array, types.Map, types.Multiset:
		return toList(from, to, env)
	case types.Row:
		return toRow(from, to, env)
	}
	return nil
}

func toList(from, to types.Type, env *Env) conv {
	if from.Kind != to.Kind {
		return nil
	}
	kids := []conv{nil, nil}
	switch to.Kind {
	case types.Map:
		kids[0], kids[1] = converter(*from.Key, *to.Key, env), converter(*from.Elem, *to.Elem, env)
	case types.Multiset:
		kids[0], kids[1] = converter(*from.Elem, *to.Elem, env), converter(types.IntType, types.IntType, env)
	default:
		kids = []conv{converter(*from.Elem, *to.Elem, env)}
	}
	for _, k := range kids {
		if k == nil {
			return nil
		}
	}
	return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
		r := in.Refs[i]
		at := out.Kids[0].Len()
		for k, f := range kids {
			src, dst := in.Kids[k], out.Kids[k]
			dst.Resize(at + int(r.Len))
			for e := 0; e < int(r.Len); e++ {
				if src.IsNull(int(r.Off) + e) {
					dst.SetNull(at + e)
				} else if !f(src, int(r.Off)+e, dst, at+e) {
					return false
				}
			}
		}
		out.Refs[j] = vec.Ref{Off: uint32(at), Len: r.Len}
		return true
	}
}

func toRow(from, to types.Type, env *Env) conv {
	if from.Kind != to.Kind || len(from.Fields) != len(to.Fields) {
		return nil
	}
	fs := make([]conv, len(to.Fields))
	for k := range fs {
		if fs[k] = converter(from.Fields[k].Type, to.Fields[k].Type, env); fs[k] == nil {
			return nil
		}
	}
	return func(in *vec.Vec, i int, out *vec.Vec, j int) bool {
		for k, f := range fs {
			if in.Kids[k].IsNull(i) {
				out.Kids[k].SetNull(j)
			} else if !f(in.Kids[k], i, out.Kids[k], j) {
				return false
			}
		}
		return true
	}
}
