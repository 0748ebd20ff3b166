package fn

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mrand "math/rand/v2"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	expr.Register(expr.Func{
		Name: "RAND", Usage: "RAND([seed])", Category: catArithmetic, Volatile: true,
		Doc: "A pseudo-random DOUBLE from 0 to below 1. With a constant seed every task draws the " +
			"same sequence, that of Java's Random.",
		Infer: sig(of(types.DoubleType), 0, integer), Compile: compileRand,
	})
	expr.Register(expr.Func{
		Name: "RAND_INTEGER", Usage: "RAND_INTEGER([seed,] bound)", Category: catArithmetic, Volatile: true,
		Doc:   "A pseudo-random INT from 0 to below bound, which must be positive; the seed is that of RAND.",
		Infer: sig(of(types.IntType), 1, integer, integer), Compile: compileRandInt,
	})
	expr.Register(expr.Func{
		Name: "UUID", Usage: "UUID()", Category: catString, Volatile: true,
		Doc:   "A random identifier of 36 characters (RFC 4122, version 4).",
		Infer: sig(never(types.CharType(36)), 0), Compile: compileUUID,
	})
}

// javaRandom is the generator of java.util.Random: a linear congruence of 48 bits.
type javaRandom struct{ state uint64 }

const (
	randMul  = 0x5DEECE66D
	randMask = 1<<48 - 1
)

func newJavaRandom(seed int64) *javaRandom { return &javaRandom{(uint64(seed) ^ randMul) & randMask} }

func (r *javaRandom) next(bits uint) int32 {
	r.state = (r.state*randMul + 0xB) & randMask
	return int32(r.state >> (48 - bits))
}

func (r *javaRandom) float() float64 {
	hi := int64(r.next(26))
	return float64(hi<<27+int64(r.next(27))) * 0x1p-53
}

func (r *javaRandom) int(bound int32) int32 {
	v := r.next(31)
	if bound&(bound-1) == 0 {
		return int32(int64(bound) * int64(v) >> 31)
	}
	for {
		m := v % bound
		// The last, incomplete run of remainders is drawn again; the sum wraps around there.
		if v-m+(bound-1) >= 0 {
			return m
		}
		v = r.next(31)
	}
}

// source makes the generator of a call without a seed. With Env.Seed it depends on where the call
// stands, too: two calls never draw the same.
func source(c *expr.CompileCtx, call *expr.Call) *mrand.Rand {
	if c.Env.Seed != 0 {
		return mrand.New(mrand.NewPCG(c.Env.Seed, 0x7469_6465+uint64(call.Pos.Start)))
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, says package rand
	return mrand.New(mrand.NewPCG(binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])))
}

// seeded returns for each row the generator of a seed argument: one for all rows where the seed is
// constant, else a fresh one a row.
func seeded(call *expr.Call) func(args []*vec.Vec, i int) *javaRandom {
	if seed, ok := expr.ConstInt(call.Args[0]); ok {
		r := newJavaRandom(seed)
		return func([]*vec.Vec, int) *javaRandom { return r }
	}
	var r javaRandom
	return func(args []*vec.Vec, i int) *javaRandom {
		r = javaRandom{(uint64(int64(args[0].I32[i])) ^ randMul) & randMask}
		return &r
	}
}

func compileRand(c *expr.CompileCtx, call *expr.Call) (expr.Kernel, error) {
	if len(call.Args) == 1 {
		r := seeded(call)
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.F64[i] = r(args, i).float()
		}), nil
	}
	r := source(c, call)
	return expr.EachRow(func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, i int) {
		out.F64[i] = r.Float64()
	}), nil
}

func compileRandInt(c *expr.CompileCtx, call *expr.Call) (expr.Kernel, error) {
	last := len(call.Args) - 1
	draw := func([]*vec.Vec, int, int32) int32 { return 0 }
	if last == 1 {
		r := seeded(call)
		draw = func(args []*vec.Vec, i int, bound int32) int32 { return r(args, i).int(bound) }
	} else {
		r := source(c, call)
		draw = func(_ []*vec.Vec, _ int, bound int32) int32 { return r.Int32N(bound) }
	}
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		bound := args[last].I32[i]
		if bound <= 0 {
			ctx.Fail(i, errf("RAND_INTEGER: the bound must be positive, not %d", bound))
			return
		}
		out.I32[i] = draw(args, i, bound)
	}), nil
}

func compileUUID(c *expr.CompileCtx, call *expr.Call) (expr.Kernel, error) {
	r := source(c, call)
	return expr.EachRow(func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, i int) {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], r.Uint64())
		binary.LittleEndian.PutUint64(b[8:], r.Uint64())
		b[6] = b[6]&0x0f | 0x40
		b[8] = b[8]&0x3f | 0x80
		buf := out.BeginBytes()
		at := 0
		for _, n := range [...]int{4, 2, 2, 2, 6} {
			if at > 0 {
				buf = append(buf, '-')
			}
			buf = hex.AppendEncode(buf, b[at:at+n])
			at += n
		}
		out.EndBytes(i, buf)
	}), nil
}
