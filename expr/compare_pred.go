package expr

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// cmpPred compiles a comparison to a pred, or returns nil where there is no form for its types.
func (c *compiler) cmpPred(call *Call) (pred, error) {
	op := cmpOps[call.Fn]
	x, y := call.Args[0], call.Args[1]
	if _, ok := x.(*Literal); ok {
		x, y, op = y, x, op.flip()
	}
	t := x.Type()
	if t.Kind == types.Decimal && (y.Type().Kind != types.Decimal || y.Type().Scale != t.Scale) ||
		y.Type().Phys() != t.Phys() {
		return nil, nil
	}
	l, constant := y.(*Literal)
	if constant && l.Value == nil {
		return noRows{}, nil
	}
	var one *vec.Vec
	if constant {
		one = vec.New(y.Type(), 1)
		one.SetValue(0, l.Value)
	}
	var pr *comparePred
	switch t.Phys() {
	case types.PI32:
		pr = &comparePred{pickFn: pickOrdered[int32](op, one)}
	case types.PI64:
		pr = &comparePred{pickFn: pickOrdered[int64](op, one)}
	case types.PF32:
		pr = &comparePred{pickFn: pickOrdered[float32](op, one)}
	case types.PF64:
		pr = &comparePred{pickFn: pickOrdered[float64](op, one)}
	case types.PI128:
		pr = &comparePred{pickFn: pickWide(op, one)}
	case types.PBytes:
		pr = &comparePred{pickFn: pickBytes(op, one)}
	default:
		return nil, nil
	}
	var err error
	if pr.x, err = c.node(x); err != nil {
		return nil, err
	}
	if !constant {
		pr.y, err = c.node(y)
	}
	return pr, err
}

type noRows struct{}

func (noRows) use(func(*node)) {}

func (noRows) pick(_ *Programs, _ int, _, dst []int32) []int32 { return dst }

// comparePred compares two nodes, or one with a constant, where y is nil.
type comparePred struct {
	x, y   *node
	pickFn func(a, b *vec.Vec, n int, in, dst []int32) []int32
}

func (c *comparePred) use(f func(*node)) {
	f(c.x)
	if c.y != nil {
		f(c.y)
	}
}

func (c *comparePred) pick(p *Programs, n int, in, dst []int32) []int32 {
	a := p.eval(c.x, n, in)
	var b *vec.Vec
	if c.y != nil {
		b = p.eval(c.y, n, in)
	}
	at := len(dst)
	dst = c.pickFn(a, b, n, in, dst)
	dst = dropNulls(dst, at, a.Valid)
	if b != nil {
		dst = dropNulls(dst, at, b.Valid)
	}
	return dst
}

func pickOrdered[T int32 | int64 | float32 | float64](op cmpOp, one *vec.Vec) func(a, b *vec.Vec, n int, in, dst []int32) []int32 {
	if one == nil {
		return func(av, bv *vec.Vec, n int, in, dst []int32) []int32 {
			return pickPair(op, Data[T](av)[:n], Data[T](bv)[:n], in, dst)
		}
	}
	c := Data[T](one)[0]
	return func(av, _ *vec.Vec, n int, in, dst []int32) []int32 {
		at := len(dst)
		dst = room(dst, n, in)
		a := Data[T](av)[:n]
		if in != nil {
			return dst[:at+pickConstIn(op, a, c, in, dst[at:])]
		}
		return dst[:at+pickConst(op, a, c, dst[at:])]
	}
}

// pickConst writes the positions of a that compare with c and returns their number. dst has room
// for one more than a. Each loop stores first and advances after, which spares a branch that
// could be mispredicted.
func pickConst[T int32 | int64 | float32 | float64](op cmpOp, a []T, c T, dst []int32) int {
	k := 0
	switch op {
	case opEq:
		for i, x := range a {
			dst[k] = int32(i)
			if x == c {
				k++
			}
		}
	case opNe:
		for i, x := range a {
			dst[k] = int32(i)
			if x != c {
				k++
			}
		}
	case opLt:
		for i, x := range a {
			dst[k] = int32(i)
			if x < c {
				k++
			}
		}
	case opLe:
		for i, x := range a {
			dst[k] = int32(i)
			if x <= c {
				k++
			}
		}
	case opGt:
		for i, x := range a {
			dst[k] = int32(i)
			if x > c {
				k++
			}
		}
	default:
		for i, x := range a {
			dst[k] = int32(i)
			if x >= c {
				k++
			}
		}
	}
	return k
}

// pickConstIn is pickConst over the rows in.
func pickConstIn[T int32 | int64 | float32 | float64](op cmpOp, a []T, c T, in, dst []int32) int {
	k := 0
	switch op {
	case opEq:
		for _, i := range in {
			dst[k] = i
			if a[i] == c {
				k++
			}
		}
	case opNe:
		for _, i := range in {
			dst[k] = i
			if a[i] != c {
				k++
			}
		}
	case opLt:
		for _, i := range in {
			dst[k] = i
			if a[i] < c {
				k++
			}
		}
	case opLe:
		for _, i := range in {
			dst[k] = i
			if a[i] <= c {
				k++
			}
		}
	case opGt:
		for _, i := range in {
			dst[k] = i
			if a[i] > c {
				k++
			}
		}
	default:
		for _, i := range in {
			dst[k] = i
			if a[i] >= c {
				k++
			}
		}
	}
	return k
}

func pickPair[T int32 | int64 | float32 | float64](op cmpOp, a, b []T, in, dst []int32) []int32 {
	if op == opGt || op == opGe {
		a, b, op = b, a, op.flip()
	}
	at := len(dst)
	dst = room(dst, len(a), in)
	k := at
	n := len(a)
	if in != nil {
		n = len(in)
	}
	for r := 0; r < n; r++ {
		i := int32(r)
		if in != nil {
			i = in[r]
		}
		dst[k] = i
		var hit bool
		switch op {
		case opEq:
			hit = a[i] == b[i]
		case opNe:
			hit = a[i] != b[i]
		case opLt:
			hit = a[i] < b[i]
		default:
			hit = a[i] <= b[i]
		}
		if hit {
			k++
		}
	}
	return dst[:k]
}

// pickWide compares 128-bit numbers.
//
//go:noinline
func pickWide(op cmpOp, one *vec.Vec) func(a, b *vec.Vec, n int, in, dst []int32) []int32 {
	return func(av, bv *vec.Vec, n int, in, dst []int32) []int32 {
		k := len(dst)
		dst = room(dst, n, in)
		a := av.I128[:n]
		var c types.Int128
		if one != nil {
			c = one.I128[0]
		}
		if in != nil {
			n = len(in)
		}
		for r := 0; r < n; r++ {
			i := int32(r)
			if in != nil {
				i = in[r]
			}
			if one == nil {
				c = bv.I128[i]
			}
			dst[k] = i
			var hit bool
			switch x := a[i]; op {
			case opEq:
				hit = x == c
			case opNe:
				hit = x != c
			case opLt:
				hit = x.Less(c)
			case opLe:
				hit = !c.Less(x)
			case opGt:
				hit = c.Less(x)
			default:
				hit = !x.Less(c)
			}
			if hit {
				k++
			}
		}
		return dst[:k]
	}
}

// pickBytes compares strings. NULLs have to be skipped here: their slots may point anywhere.
func pickBytes(op cmpOp, one *vec.Vec) func(a, b *vec.Vec, n int, in, dst []int32) []int32 {
	if one != nil && (op == opEq || op == opNe) {
		return pickBytesEq(string(one.Bytes(0)), op == opEq)
	}
	return func(a, b *vec.Vec, n int, in, dst []int32) []int32 {
		forRows(n, in, func(r int32) {
			i := int(r)
			if a.IsNull(i) {
				return
			}
			var y []byte
			if one != nil {
				y = one.Bytes(0)
			} else if b.IsNull(i) {
				return
			} else {
				y = b.Bytes(i)
			}
			if op.holds(bytes.Compare(a.Bytes(i), y)) {
				dst = append(dst, r)
			}
		})
		return dst
	}
}

//go:noinline
func pickBytesEq(s string, want bool) func(a, b *vec.Vec, n int, in, dst []int32) []int32 {
	size := uint32(len(s))
	return func(a, _ *vec.Vec, n int, in, dst []int32) []int32 {
		at := len(dst)
		dst = room(dst, n, in)
		k := at
		buf := a.Buf
		if in == nil {
			for i, r := range a.Refs[:n] {
				dst[k] = int32(i)
				same := r.Len == size && (a.Valid == nil || a.Valid.Get(i)) && string(buf[r.Off:r.Off+r.Len]) == s
				if same == want {
					k++
				}
			}
			return dst[:k]
		}
		for _, i := range in {
			dst[k] = i
			r := a.Refs[i]
			same := r.Len == size && (a.Valid == nil || a.Valid.Get(int(i))) && string(buf[r.Off:r.Off+r.Len]) == s
			if same == want {
				k++
			}
		}
		return dst[:k]
	}
}
