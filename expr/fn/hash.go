package fn

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"math"

	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for _, f := range []struct {
		name string
		size int
		make func() hash.Hash
	}{
		{"MD5", 32, md5.New}, {"SHA1", 40, sha1.New}, {"SHA224", 56, sha256.New224},
		{"SHA256", 64, sha256.New}, {"SHA384", 96, sha512.New384}, {"SHA512", 128, sha512.New},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(string)", Category: catHash,
			Doc:   "The " + f.name + " digest of the string's bytes in lower-case hexadecimal.",
			Infer: sig(of(types.CharType(f.size)), 1, strBin),
			Compile: func(*expr.CompileCtx, *expr.Call) (expr.Kernel, error) {
				return digest(f.make()), nil
			},
		})
	}
	expr.Register(expr.Func{
		Name: "SHA2", Usage: "SHA2(string, bits)", Category: catHash,
		Doc:   "The digest of the string's bytes by the SHA-2 function of 224, 256, 384 or 512 bits, in lower-case hexadecimal.",
		Infer: verify(sig(of(types.VarCharType(128)), 2, strBin, integer), checkBits), Compile: compileSHA2,
	})
	expr.Register(expr.Func{
		Name: "HASH_CODE", Usage: "HASH_CODE(string)", Category: catHash,
		Doc:   "The absolute value of Java's hash of the string.",
		Infer: sig(of(types.IntType), 1, str), Compile: kernel(expr.FromBytes(hashCode)),
	})
}

// digest makes a kernel that hashes each value with h.
func digest(h hash.Hash) expr.Kernel {
	sum := make([]byte, 0, 64)
	return expr.BytesToBytes(func(dst, a []byte) ([]byte, bool) {
		h.Reset()
		h.Write(a)
		sum = h.Sum(sum[:0])
		return appendHex(dst, sum), true
	})
}

func checkBits(a expr.Args) error {
	if b, ok := expr.ConstInt(a.Exprs[1]); ok && b != 224 && b != 256 && b != 384 && b != 512 {
		return errf("no digest of %d bits: use 224, 256, 384 or 512", b)
	}
	return nil
}

func compileSHA2(_ *expr.CompileCtx, _ *expr.Call) (expr.Kernel, error) {
	hs := map[int32]hash.Hash{224: sha256.New224(), 256: sha256.New(), 384: sha512.New384(), 512: sha512.New()}
	var sum []byte
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		h := hs[args[1].I32[i]]
		if h == nil {
			ctx.Fail(i, errf("SHA2: no digest of %d bits: use 224, 256, 384 or 512", args[1].I32[i]))
			return
		}
		h.Reset()
		h.Write(text(args, 0, i))
		sum = h.Sum(sum[:0])
		out.EndBytes(i, appendHex(out.BeginBytes(), sum))
	}), nil
}

// hashCode is |s.hashCode()| of Java, which counts UTF-16 units.
func hashCode(b []byte) int32 {
	var h int32
	for len(b) > 0 {
		r, w := rune(b[0]), 1
		if r >= utf8.RuneSelf {
			r, w = utf8.DecodeRune(b)
		}
		b = b[w:]
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + (0xd800 + r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	if h == math.MinInt32 {
		return h
	}
	return max(h, -h)
}
