package fn

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/regex"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	for k, f := range []struct{ name, doc string }{
		{"MAP_KEYS", "The keys of the map as an ARRAY."}, {"MAP_VALUES", "The values of the map as an ARRAY."},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(map)", Doc: f.doc, Category: catCollection,
			Infer: sig(func(a expr.Args) types.Type {
				t := a.Type(0)
				if t.Kind != types.Map {
					return types.ArrayType(types.StringType)
				}
				e := *t.Key
				if k == 1 {
					e = *t.Elem
				}
				return types.ArrayType(e).WithNullable(t.Nullable)
			}, 1, mapping),
			Compile: each(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				from, r := begin(out), args[0].Refs[i]
				out.Kids[0].AppendRange(args[0].Kids[k], int(r.Off), int(r.Len))
				end(out, i, from)
			}),
		})
	}
	expr.Register(expr.Func{
		Name: "MAP_ENTRIES", Usage: "MAP_ENTRIES(map)", Category: catCollection,
		Doc: "The entries of the map as an ARRAY of ROW(key, value).",
		Infer: sig(func(a expr.Args) types.Type {
			t := a.Type(0)
			if t.Kind != types.Map {
				t = types.MapType(types.StringType, types.StringType)
			}
			e := types.RowType(types.Field{Name: "key", Type: *t.Key}, types.Field{Name: "value", Type: *t.Elem}).NotNull()
			return types.ArrayType(e).WithNullable(t.Nullable)
		}, 1, mapping),
		Compile: each(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			from, r, rows := begin(out), args[0].Refs[i], out.Kids[0]
			rows.Resize(from + int(r.Len))
			for n := range int(r.Len) {
				for k, f := range rows.Kids {
					f.Set(from+n, args[0].Kids[k], int(r.Off)+n)
				}
			}
			end(out, i, from)
		}),
	})
	expr.Register(expr.Func{
		Name: "MAP_FROM_ARRAYS", Usage: "MAP_FROM_ARRAYS(keys, values)", Category: catCollection,
		Doc: "The map with these keys and values, which must be as many; of equal keys the last counts.",
		Infer: sig(func(a expr.Args) types.Type {
			k, v := elemOf(0)(a), elemOf(1)(a)
			return types.MapType(k, v).WithNullable(a.AnyNullable())
		}, 2, array, array), Compile: compileFromArrays,
	})
	expr.Register(expr.Func{
		Name: "MAP_UNION", Usage: "MAP_UNION(map, ...)", Category: catCollection,
		Doc:   "The entries of all maps; of equal keys the value of the last map counts. NULL where one is NULL.",
		Infer: inferMapUnion, Compile: compileMapUnion,
	})
	expr.Register(expr.Func{
		Name: "STR_TO_MAP", Usage: "STR_TO_MAP(string [, pairs, key])", Category: catString,
		Doc: "The map of the pairs that the string lists, split by two regular expressions: between pairs, by default ',', and " +
			"between key and value, by default '='. A pair without value is NULL; of equal keys the last counts.",
		Infer: inferStrToMap, Compile: compileStrToMap,
	})
}

// entries adds entries to the map of one row, the value of a key that it has already replacing the
// one before.
type entries struct {
	out  *vec.Vec
	from int
	eq   equal
}

func (e entries) put(keys *vec.Vec, k int, values *vec.Vec, v int) {
	own := e.out.Kids[0]
	for n := e.from; n < own.Len(); n++ {
		if e.eq(own, n, keys, k) {
			e.out.Kids[1].Set(n, values, v)
			return
		}
	}
	own.Append(keys, k)
	e.out.Kids[1].Append(values, v)
}

func compileFromArrays(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	eq := equality(*c.T.Key)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		k, v := args[0].Refs[i], args[1].Refs[i]
		if k.Len != v.Len {
			ctx.Fail(i, errf("MAP_FROM_ARRAYS: %d keys, but %d values", k.Len, v.Len))
			return
		}
		e := entries{out, begin(out), eq}
		for n := range int(k.Len) {
			e.put(args[0].Kids[0], int(k.Off)+n, args[1].Kids[0], int(v.Off)+n)
		}
		end(out, i, e.from)
	}), nil
}

func inferMapUnion(a expr.Args) (expr.Signature, error) {
	if err := a.Count(1, -1); err != nil {
		return expr.Signature{}, err
	}
	ts := make([]types.Type, a.Len())
	for i := range ts {
		if ts[i] = a.Type(i); ts[i].Kind != types.Map && ts[i].Kind != types.Null {
			return expr.Signature{}, a.Mismatch(i, "a MAP")
		}
	}
	t, ok := expr.CommonType(ts...)
	if !ok || t.Kind != types.Map {
		return expr.Signature{}, expr.Errorf("the maps have no common type")
	}
	for i := range ts {
		ts[i] = t
	}
	return expr.Signature{Params: ts, Result: t.WithNullable(a.AnyNullable())}, nil
}

// compileMapUnion writes the NULL key first, where Java's hash map has it.
func compileMapUnion(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	eq := equality(*c.T.Key)
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		e := entries{out, begin(out), eq}
		for _, null := range [...]bool{true, false} {
			for _, m := range args {
				r := m.Refs[i]
				for k := int(r.Off); k < int(r.Off+r.Len); k++ {
					if m.Kids[0].IsNull(k) == null {
						e.put(m.Kids[0], k, m.Kids[1], k)
					}
				}
			}
		}
		end(out, i, e.from)
	}), nil
}

func inferStrToMap(a expr.Args) (expr.Signature, error) {
	if a.Len() == 2 {
		return expr.Signature{}, expr.Errorf("needs 1 or 3 arguments, not 2")
	}
	return sig(maybe(types.MapType(types.StringType, types.StringType)), 1, str, str, str)(a)
}

// splitter finds the next separator in s: its first byte and the one after the last, or -1.
type splitter func(s []byte) (from, to int)

// newSplitter reads a regular expression; most are plain text.
func newSplitter(p string) (splitter, error) {
	if p != "" && !hasMeta(p) {
		sep := []byte(p)
		return func(s []byte) (from, to int) {
			at := bytes.Index(s, sep)
			return at, at + len(sep)
		}, nil
	}
	re, err := regex.Compile(p)
	if err != nil {
		return nil, err
	}
	return func(s []byte) (from, to int) {
		m := re.Find(s, 0)
		if m != nil && m[1] == 0 && len(s) > 0 {
			m = re.Find(s, 1) // an empty match at the start splits nothing
		}
		if m == nil {
			return -1, -1
		}
		return m[0], m[1]
	}, nil
}

// splitAt makes the splitter of argument k, or of def where it is not given.
func splitAt(c *expr.Call, k int, def string) func(args []*vec.Vec, i int) splitter {
	pattern, constant := def, true
	if k < len(c.Args) {
		pattern, constant = expr.ConstString(c.Args[k])
	}
	known := newCache(newSplitter)
	if constant {
		s, _ := known.get([]byte(pattern))
		return func([]*vec.Vec, int) splitter { return s }
	}
	return func(args []*vec.Vec, i int) splitter {
		s, _ := known.get(text(args, k, i))
		return s
	}
}

func compileStrToMap(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	pairs, keys := splitAt(c, 1, ","), splitAt(c, 2, "=")
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		pair, key := pairs(args, i), keys(args, i)
		if pair == nil || key == nil {
			out.SetNull(i)
			return
		}
		s, from := text(args, 0, i), begin(out)
		// Java's split drops empty pieces at the end.
		for len(s) > 0 {
			at, next := pair(s)
			if at < 0 || at == len(s) {
				at, next = len(s), len(s)
			}
			if at > 0 || !allSeparators(pair, s) {
				putPair(out, from, s[:at], key)
			} else {
				break
			}
			s = s[next:]
		}
		end(out, i, from)
	}), nil
}

// allSeparators reports that s consists of separators only.
func allSeparators(sep splitter, s []byte) bool {
	for len(s) > 0 {
		from, to := sep(s)
		if from != 0 || to == 0 {
			return false
		}
		s = s[to:]
	}
	return true
}

// putPair adds a pair of text to the map of the row that began at from.
func putPair(out *vec.Vec, from int, pair []byte, key splitter) {
	keys, values := out.Kids[0], out.Kids[1]
	k, v := pair, []byte(nil)
	if at, next := key(pair); at >= 0 {
		k, v = pair[:at], pair[next:]
		if v == nil {
			v = []byte{}
		}
	}
	n := keys.Len()
	for m := from; m < keys.Len(); m++ {
		if bytes.Equal(keys.Bytes(m), k) {
			n = m
			break
		}
	}
	if n == keys.Len() {
		keys.Resize(n + 1)
		values.Resize(n + 1)
		keys.SetBytes(n, k)
	}
	if v == nil {
		values.SetNull(n)
		return
	}
	values.SetValid(n)
	values.SetBytes(n, v)
}
