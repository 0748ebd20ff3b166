package fn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// FuzzPieces compares the pieces found in one pass, and piece, with strings.Split. The text stands
// between others, as in the buffer of a source.
func FuzzPieces(f *testing.F) {
	f.Add("https://www.nexmark.com/dxys/polw/wnz/item.htm?query=1", byte('/'), uint16(0b111000), "x/y", "/z")
	f.Add("", byte('a'), uint16(1), "", "")
	f.Add("aaaaaaaaa", byte('a'), uint16(0xFFFF), "aa", "aaaaaaaa")
	f.Add("a\x80\xff\x00\x80", byte(0x80), uint16(7), "", "\x80")
	f.Fuzz(func(t *testing.T, s string, sep byte, wanted uint16, before, after string) {
		var indexes []int
		for i := range 16 {
			if wanted>>i&1 != 0 {
				indexes = append(indexes, i)
			}
		}
		if len(indexes) == 0 {
			return
		}
		pieces := strings.Split(s, string([]byte{sep}))
		if s == "" {
			pieces = nil
		}
		a := vec.New(types.StringType, 1)
		a.Buf = []byte(before + s + after)
		a.Refs[0] = vec.Ref{Off: uint32(len(before)), Len: uint32(len(s))}
		out := make([]*vec.Vec, len(indexes))
		for i := range out {
			out[i] = vec.New(types.StringType, 1)
		}
		newPieceFinder(sep, indexes).run(a, out, 1, nil)
		for i, k := range indexes {
			got, want := "NULL", "NULL"
			if !out[i].IsNull(0) {
				got = string(out[i].Bytes(0))
			}
			if k < len(pieces) {
				want = pieces[k]
			}
			if got != want {
				t.Errorf("piece %d of %q at %q is %q, want %q", k, s, sep, got, want)
			}
			if from, to, ok := piece([]byte(s), []byte{sep}, k); ok != (k < len(pieces)) || ok && s[from:to] != want {
				t.Errorf("piece(%q, %q, %d) = %d %d %v, want %q", s, sep, k, from, to, ok, want)
			}
		}
	})
}

// TestSplitsAreFused says which calls are computed in one pass.
func TestSplitsAreFused(t *testing.T) {
	url := &expr.Column{Index: 0, Name: "url", T: types.StringType}
	other := &expr.Column{Index: 1, Name: "other", T: types.StringType}
	uuid := func() expr.Expr { return &expr.Call{Fn: "UUID", T: types.CharType(36)} }
	split := func(x expr.Expr, sep any, n int) *expr.Call {
		s := &expr.Literal{Value: sep, T: types.StringType}
		if i, ok := sep.(int); ok {
			s = number(i)
		}
		return &expr.Call{Fn: "SPLIT_INDEX", Args: []expr.Expr{x, s, number(n)}, T: types.StringType}
	}
	once := uuid()
	for _, c := range []struct {
		calls []*expr.Call
		want  string
	}{
		{[]*expr.Call{split(url, "/", 3), split(url, "/", 5), split(url, "/", 4)}, "A0 A2 A1"},
		{[]*expr.Call{split(url, "/", 3), split(url, 47, 4)}, "A0 A1"},
		{[]*expr.Call{split(url, "/", 3), split(url, "/", 3)}, "- -"},
		{[]*expr.Call{split(url, "/", 3), split(url, ".", 4), split(other, "/", 1)}, "- - -"},
		{[]*expr.Call{split(url, "/", 1), split(other, "/", 1), split(url, "/", 2), split(other, "/", 0)}, "A0 B1 A1 B0"},
		{[]*expr.Call{split(url, "//", 1), split(url, "//", 2), split(url, "", 1), split(url, "", 2)}, "- - - -"},
		{[]*expr.Call{split(url, "/", -1), split(url, "/", 2), split(url, "/", 1000)}, "- - -"},
		{[]*expr.Call{split(url, 200, 1), split(url, 200, 2), split(url, 0, 1), split(url, 0, 2)}, "- - - -"},
		{[]*expr.Call{split(uuid(), "-", 1), split(uuid(), "-", 2)}, "- -"},
		{[]*expr.Call{split(once, "-", 1), split(once, "-", 2)}, "A0 A1"},
	} {
		var parts []expr.Expr
		var got []string
		for _, e := range fuseSplits(c.calls) {
			if e == nil {
				got = append(got, "-")
				continue
			}
			f := e.(*expr.Call)
			k := slices.Index(parts, f.Args[0])
			if k < 0 {
				k = len(parts)
				parts = append(parts, f.Args[0])
			}
			n, _ := expr.ConstInt(f.Args[1])
			got = append(got, fmt.Sprintf("%c%d", 'A'+k, n))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v: %s, want %s", c.calls, s, c.want)
		}
	}
}

// FuzzCase compares UPPER and LOWER of batches with their values one by one.
func FuzzCase(f *testing.F) {
	f.Add([]byte("Apple,channel-1234,@AZ[`az{,,a rather Long Name of 30 letters"), uint8(0))
	f.Add([]byte("\xc3\x84pfel,ABC,\x00\x7f"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, skip uint8) {
		a := vec.New(types.StringType, 0)
		var sel []int32
		for i, s := range bytes.Split(b, []byte{','}) {
			switch {
			case i%5 == 3:
				a.AppendValue(nil)
			default:
				a.AppendValue(string(s))
			}
			if i%8 != int(skip) {
				sel = append(sel, int32(i))
			}
		}
		if skip >= 8 {
			sel = nil
		} else if sel == nil {
			return
		}
		for name, k := range map[string]struct {
			kernel expr.Kernel
			slow   func(dst, a []byte) ([]byte, bool)
		}{
			"UPPER": {asciiCase('a', 'z', upper), upper}, "LOWER": {asciiCase('A', 'Z', lower), lower},
		} {
			out := vec.New(types.StringType, a.Len())
			k.kernel(&expr.EvalCtx{}, []*vec.Vec{a}, out, a.Len(), sel)
			check := func(i int) {
				if a.IsNull(i) != out.IsNull(i) {
					t.Fatalf("%s of value %d: NULL is %v", name, i, out.IsNull(i))
				}
				if a.IsNull(i) {
					return
				}
				if want, _ := k.slow(nil, a.Bytes(i)); !bytes.Equal(want, out.Bytes(i)) {
					t.Fatalf("%s(%q) = %q, want %q", name, a.Bytes(i), out.Bytes(i), want)
				}
			}
			for i := range a.Len() {
				if sel == nil || slices.Contains(sel, int32(i)) {
					check(i)
				}
			}
		}
	})
}

// TestASCIICaseOfEveryByte compares with package unicode.
func TestASCIICaseOfEveryByte(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	a := vec.New(types.StringType, 0)
	for c := range 128 {
		b := bytes.Repeat([]byte{byte(c)}, 1+r.IntN(40))
		a.AppendValue(string(b))
	}
	out := vec.New(types.StringType, a.Len())
	asciiCase('a', 'z', upper)(&expr.EvalCtx{}, []*vec.Vec{a}, out, a.Len(), nil)
	for c := range 128 {
		want := bytes.Repeat([]byte{byte(unicode.ToUpper(rune(c)))}, len(a.Bytes(c)))
		if !bytes.Equal(out.Bytes(c), want) {
			t.Errorf("UPPER(%q) = %q", a.Bytes(c), out.Bytes(c))
		}
	}
}

// TestIsASCII puts a byte that is not ASCII at each place of texts of each length.
func TestIsASCII(t *testing.T) {
	for n := range 70 {
		b := bytes.Repeat([]byte{'a'}, n)
		if !isASCII(b) {
			t.Errorf("%d letters are not ASCII", n)
		}
		for at := range n {
			for _, c := range []byte{0x80, 0xFF} {
				b[at] = c
				if isASCII(b) {
					t.Errorf("byte %d of %d is not seen", at, n)
				}
			}
			b[at] = 0x7F
			if !isASCII(b) {
				t.Errorf("byte %d of %d is ASCII", at, n)
			}
		}
	}
}
