package fn

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/expr/fn/jsonpath"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions that make JSON text. The binder passes ON NULL first, as a literal of kind types.Symbol:
//
//	JSON_OBJECT(onNull, key, value, key, value, ...)   onNull: NULL ABSENT
//	JSON_ARRAY(onNull, value, ...)
//
// A value made by JSON_OBJECT, JSON_ARRAY or JSON goes in as JSON; the binder wraps what FORMAT JSON
// marks, and JSON_OBJECTAGG and JSON_ARRAYAGG, in JSON(...). Members of objects are written in the
// order of their names, of equal names the last.

func init() {
	expr.Register(expr.Func{
		Name: "JSON_STRING", Usage: "JSON_STRING(x)", Category: catJSON,
		Doc:   "The value as JSON text; NULL for NULL.",
		Infer: inferMake(func(a expr.Args) types.Type { return types.StringType.WithNullable(a.AnyNullable()) }, 1, 1),
		Compile: func(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
			w := jsonWriter(c.Args[0].Type())
			return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				out.EndBytes(i, w(out.BeginBytes(), args[0], i))
			}), nil
		},
	})
	expr.Register(expr.Func{
		Name: "JSON_OBJECT", Usage: "JSON_OBJECT([[KEY] key VALUE x, ...] [{ NULL | ABSENT } ON NULL])", Category: catJSON,
		Doc:   "A JSON object of the members, in the order of their names. Members that are NULL are null, or left out with ABSENT ON NULL.",
		Infer: inferObject, Compile: compileObject,
	})
	expr.Register(expr.Func{
		Name: "JSON_ARRAY", Usage: "JSON_ARRAY([x, ...] [{ NULL | ABSENT } ON NULL])", Category: catJSON,
		Doc:   "A JSON array of the values. Those that are NULL are left out, or null with NULL ON NULL.",
		Infer: inferMake(never(jsonText), 0, -1), Compile: compileArray,
	})
	expr.Register(expr.Func{
		Name: "JSON", Usage: "JSON(string)", Category: catJSON,
		Doc:   "The string, which must be JSON text, for use as JSON within JSON_OBJECT and JSON_ARRAY.",
		Infer: sig(of(jsonText), 1, str),
		Compile: each(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			s := text(args, 0, i)
			if jsonpath.Check(s) == jsonpath.Invalid {
				ctx.Fail(i, errf("JSON: '%s' is not JSON", s))
				return
			}
			out.EndBytes(i, jsonpath.AppendCompact(out.BeginBytes(), s))
		}),
	})
	expr.Register(expr.Func{
		Name: "JSON_QUOTE", Usage: "JSON_QUOTE(string)", Category: catJSON,
		Doc:   "The string as a JSON string: in double quotes, with quotes, slashes, backslashes and control characters escaped.",
		Infer: sig(of(types.StringType), 1, str),
		Compile: each(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			out.EndBytes(i, quoteJSON(out.BeginBytes(), text(args, 0, i)))
		}),
	})
	expr.Register(expr.Func{
		Name: "JSON_UNQUOTE", Usage: "JSON_UNQUOTE(string)", Category: catJSON,
		Doc:   "The text of a JSON string without quotes and escapes; anything else as it is.",
		Infer: sig(of(types.StringType), 1, str),
		Compile: kernel(expr.BytesToBytes(func(dst, a []byte) ([]byte, bool) {
			if len(a) >= 2 && a[0] == '"' && a[len(a)-1] == '"' && jsonpath.Check(a) == jsonpath.String {
				return jsonpath.AppendText(dst, a), true
			}
			return append(dst, a...), true
		})),
	})
}

func quoteJSON(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		k := bytes.IndexByte(s, '/')
		if k < 0 {
			k = len(s)
		}
		q := jsonpath.AppendQuoted(dst, s[:k])
		// Drop the quotes of the piece.
		n := len(dst)
		dst = append(q[:n], q[n+1:len(q)-1]...)
		if s = s[k:]; len(s) > 0 {
			dst = append(dst, '\\', '/')
			s = s[1:]
		}
	}
	return append(dst, '"')
}

// inferMake checks that values have JSON forms; the keyword of ON NULL may come first.
func inferMake(r result, least, most int) inferFunc {
	return func(a expr.Args) (expr.Signature, error) {
		if err := a.Count(least, most); err != nil {
			return expr.Signature{}, err
		}
		s := expr.Signature{Params: make([]types.Type, a.Len())}
		for i := range s.Params {
			s.Params[i] = expr.Any
			t := a.Type(i)
			switch {
			case t.Kind == types.Null:
				s.Params[i] = types.StringType
			case (i > 0 || t.Kind != types.Symbol) && jsonWriter(t) == nil:
				return s, a.Mismatch(i, "a string, number, boolean, binary string, timestamp, ARRAY, ROW or MAP with string keys")
			}
		}
		s.Result = r(a)
		return s, nil
	}
}

func inferObject(a expr.Args) (expr.Signature, error) {
	s, err := inferMake(never(jsonText), 0, -1)(a)
	if err != nil {
		return s, err
	}
	from := firstValue(a.Exprs)
	if (a.Len()-from)%2 != 0 {
		return s, expr.Errorf("a key without a value")
	}
	for i := from; i < a.Len(); i += 2 {
		if !a.Type(i).IsString() {
			return s, a.Mismatch(i, "a character string, as a key")
		}
	}
	return s, nil
}

// firstValue is 1 where the first argument is the keyword of ON NULL.
func firstValue(args []expr.Expr) int {
	if len(args) > 0 && args[0].Type().Kind == types.Symbol {
		return 1
	}
	return 0
}

// jsonText is the STRING that the functions here return. Unit, which means nothing for strings, marks
// it: so a constant that a call was folded into is still known for JSON.
var jsonText = func() types.Type {
	t := types.StringType
	t.Unit = types.UnitSecond
	return t
}()

func isJSONText(t types.Type) bool { return t.IsString() && t.Unit == jsonText.Unit }

// writer appends the JSON form of value i of v, which may be NULL.
type writer = func(dst []byte, v *vec.Vec, i int) []byte

// argWriters are the writers of arguments: those made by JSON functions are JSON already.
func argWriters(args []expr.Expr) []writer {
	ws := make([]writer, len(args))
	for i, a := range args {
		ws[i] = jsonWriter(a.Type())
		if isJSONText(a.Type()) {
			ws[i] = orNull(func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, v.Bytes(i)...) })
		}
	}
	return ws
}

func compileObject(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	from := firstValue(c.Args)
	absent := from == 1 && clause(c, 0, "") == "ABSENT"
	ws := argWriters(c.Args)
	var order []int // of the keys
	return expr.EachRowNullable(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		order = order[:0]
		for k := from; k < len(args); k += 2 {
			if args[k].IsNull(i) {
				ctx.Fail(i, errf("JSON_OBJECT: a key is NULL"))
				return
			}
			if !absent || !args[k+1].IsNull(i) {
				order = append(order, k)
			}
		}
		slices.SortStableFunc(order, func(x, y int) int { return bytes.Compare(args[x].Bytes(i), args[y].Bytes(i)) })
		buf := append(out.BeginBytes(), '{')
		first := true
		for n, k := range order {
			key := args[k].Bytes(i)
			if n+1 < len(order) && bytes.Equal(key, args[order[n+1]].Bytes(i)) {
				continue
			}
			if !first {
				buf = append(buf, ',')
			}
			first = false
			buf = append(jsonpath.AppendQuoted(buf, key), ':')
			buf = ws[k+1](buf, args[k+1], i)
		}
		out.EndBytes(i, append(buf, '}'))
	}), nil
}

func compileArray(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	from := firstValue(c.Args)
	absent := from == 0 || clause(c, 0, "") != "NULL"
	ws := argWriters(c.Args)
	return expr.EachRowNullable(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		buf := append(out.BeginBytes(), '[')
		first := true
		for k := from; k < len(args); k++ {
			if absent && args[k].IsNull(i) {
				continue
			}
			if !first {
				buf = append(buf, ',')
			}
			first = false
			buf = ws[k](buf, args[k], i)
		}
		out.EndBytes(i, append(buf, ']'))
	}), nil
}

func orNull(w writer) writer {
	return func(dst []byte, v *vec.Vec, i int) []byte {
		if v.IsNull(i) {
			return append(dst, "null"...)
		}
		return w(dst, v, i)
	}
}

// jsonWriter returns the writer of a type, or nil where it has no JSON form.
func jsonWriter(t types.Type) writer {
	switch t.Kind {
	case types.Char, types.VarChar:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte { return jsonpath.AppendQuoted(dst, v.Bytes(i)) })
	case types.Boolean:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte { return strconv.AppendBool(dst, v.Bool[i]) })
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte { return strconv.AppendInt(dst, expr.IntAt(v, i), 10) })
	case types.Float:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
			return notNumber(types.AppendFloat(dst, v.F32[i]), float64(v.F32[i]))
		})
	case types.Double:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
			return notNumber(types.AppendDouble(dst, v.F64[i]), v.F64[i])
		})
	case types.Decimal:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
			return appendBigDecimal(dst, expr.DecimalAt(v, i), v.Type.Scale)
		})
	case types.Binary, types.VarBinary:
		return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
			return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes(i)), '"')
		})
	case types.Timestamp, types.TimestampLTZ:
		return orNull(appendISO)
	case types.Array:
		return arrayWriter(*t.Elem)
	case types.Map, types.Multiset:
		return mapWriter(t)
	case types.Row:
		return rowWriter(t)
	}
	return nil
}

// notNumber puts quotes around what JSON has no number for.
func notNumber(dst []byte, f float64) []byte {
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		return dst
	}
	n := len(dst) - len(types.AppendDouble(nil, f))
	return append(append(append(dst[:n:n], '"'), dst[n:]...), '"')
}

// appendBigDecimal writes a decimal as Java's BigDecimal without trailing zeros prints itself: 1.5,
// but 1E+2 for a hundred.
func appendBigDecimal(dst []byte, x types.Int128, scale int) []byte {
	var buf [48]byte
	b := types.AppendDecimal(buf[:0], x, 0)
	if b[0] == '-' {
		dst, b = append(dst, '-'), b[1:]
	}
	if string(b) == "0" {
		return append(dst, '0')
	}
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
		scale--
	}
	exponent, whole := len(b)-1-scale, len(b)-scale
	switch {
	case scale == 0:
		return append(dst, b...)
	case scale > 0 && whole > 0:
		return append(append(append(dst, b[:whole]...), '.'), b[whole:]...)
	case scale > 0 && exponent >= -6:
		dst = append(dst, "0.000000"[:2-whole]...)
		return append(dst, b...)
	}
	dst = append(dst, b[0])
	if len(b) > 1 {
		dst = append(append(dst, '.'), b[1:]...)
	}
	dst = append(dst, 'E')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}

var isoTime = mustPattern("yyyy-MM-dd'T'HH:mm:ss")

func mustPattern(p string) *datefmt.Formatter {
	f, err := datefmt.Compile(p)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return f
}

// appendISO writes a timestamp in the form of ISO 8601, UTC with a Z, with as many digits of the
// second's fraction as it needs: 2024-01-05T07:03:00.5
func appendISO(dst []byte, v *vec.Vec, i int) []byte {
	ms, nanos := expr.TimestampAt(v, i)
	dst = isoTime.Append(append(dst, '"'), ms, nanos)
	frac := ms%1000*1000000 + int64(nanos)
	if frac < 0 {
		frac += 1000000000
	}
	if frac != 0 {
		dst = append(dst, '.')
		dst = append(dst, strconv.FormatInt(1000000000+frac, 10)[1:]...)
		dst = bytes.TrimRight(dst, "0")
	}
	if v.Type.Kind == types.TimestampLTZ {
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}

func arrayWriter(elem types.Type) writer {
	w := jsonWriter(elem)
	if w == nil {
		return nil
	}
	return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
		dst = append(dst, '[')
		r := v.Refs[i]
		for k := r.Off; k < r.Off+r.Len; k++ {
			if k > r.Off {
				dst = append(dst, ',')
			}
			dst = w(dst, v.Kids[0], int(k))
		}
		return append(dst, ']')
	})
}

func mapWriter(t types.Type) writer {
	key, elem := t.Key, t.Elem
	if t.Kind == types.Multiset {
		count := types.IntType
		key, elem = t.Elem, &count
	}
	w := jsonWriter(*elem)
	if !key.IsString() || w == nil {
		return nil
	}
	var order []uint32
	return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
		r, keys := v.Refs[i], v.Kids[0]
		mine := len(order) // nested maps use the same memory further on
		for k := r.Off; k < r.Off+r.Len; k++ {
			order = append(order, k)
		}
		slices.SortFunc(order[mine:], func(x, y uint32) int { return bytes.Compare(keys.Bytes(int(x)), keys.Bytes(int(y))) })
		dst = append(dst, '{')
		for n := mine; n < mine+int(r.Len); n++ {
			if n > mine {
				dst = append(dst, ',')
			}
			k := int(order[n])
			if keys.IsNull(k) {
				dst = append(dst, `"null"`...)
			} else {
				dst = jsonpath.AppendQuoted(dst, keys.Bytes(k))
			}
			dst = w(append(dst, ':'), v.Kids[1], k)
		}
		order = order[:mine]
		return append(dst, '}')
	})
}

func rowWriter(t types.Type) writer {
	ws := make([]writer, len(t.Fields))
	order := make([]int, len(t.Fields))
	names := make([][]byte, len(t.Fields))
	for k, f := range t.Fields {
		order[k] = k
		names[k] = append(jsonpath.AppendQuoted(nil, []byte(f.Name)), ':')
		if ws[k] = jsonWriter(f.Type); ws[k] == nil {
			return nil
		}
	}
	slices.SortFunc(order, func(x, y int) int { return bytes.Compare([]byte(t.Fields[x].Name), []byte(t.Fields[y].Name)) })
	return orNull(func(dst []byte, v *vec.Vec, i int) []byte {
		dst = append(dst, '{')
		for n, k := range order {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = ws[k](append(dst, names[k]...), v.Kids[k], i)
		}
		return append(dst, '}')
	})
}
