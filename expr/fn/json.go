package fn

import (
	"errors"
	"strconv"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/jsonpath"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// JSON_EXISTS, JSON_VALUE, JSON_QUERY and IS JSON. The binder passes clauses as trailing arguments,
// keywords as literals of kind types.Symbol:
//
//	JSON_EXISTS(doc, path [, onError])            onError: TRUE FALSE UNKNOWN ERROR
//	JSON_VALUE(doc, path [, returning, onEmpty, emptyDefault, onError, errorDefault])
//	                                              onEmpty, onError: NULL ERROR DEFAULT
//	JSON_QUERY(doc, path [, returning, wrapper, onEmpty, onError])
//	                                              wrapper: WITHOUT CONDITIONAL UNCONDITIONAL
//	                                              onEmpty, onError: NULL ERROR, EMPTY ARRAY, EMPTY OBJECT
//
// returning is a NULL literal of the type of RETURNING, STRING where that is not given; a default
// that does not apply is an untyped NULL literal. Clauses come all or none.

func init() {
	expr.Register(expr.Func{
		Name: "JSON_EXISTS", Usage: "JSON_EXISTS(json, path [{ TRUE | FALSE | UNKNOWN | ERROR } ON ERROR])", Category: catJSON,
		Doc: "Whether the path leads to something in the JSON text. Without 'lax' before the path, a path that " +
			"leads nowhere and a text that is not JSON are errors, by default FALSE.",
		Infer: verify(sig(maybe(types.BooleanType), 2, str, str, symbol), jsonPathArg), Compile: compileExists,
	})
	expr.Register(expr.Func{
		Name: "JSON_VALUE", Usage: "JSON_VALUE(json, path [RETURNING type] [{ NULL | ERROR | DEFAULT x } ON EMPTY] [{ NULL | ERROR | DEFAULT x } ON ERROR])",
		Category: catJSON,
		Doc: "The scalar that the path leads to, as STRING, BOOLEAN, INTEGER, BIGINT or DOUBLE. With 'lax' before the path nothing " +
			"found, or an array or object, is empty; otherwise it is an error.",
		Infer: verify(inferJSONValue, jsonPathArg), Compile: compileValue,
	})
	expr.Register(expr.Func{
		Name: "JSON_QUERY", Usage: "JSON_QUERY(json, path [RETURNING type] [{ WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL] } [ARRAY] WRAPPER] [{ NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR } ON EMPTY] [{ NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR } ON ERROR])",
		Category: catJSON,
		Doc: "The array or object that the path leads to, as JSON text or ARRAY<STRING>. A wrapper puts it, or only what is not an " +
			"array, into an array. With 'lax' before the path a scalar is empty; otherwise it is an error.",
		Infer: verify(inferJSONQuery, jsonPathArg), Compile: compileQuery,
	})
	for _, not := range []bool{false, true} {
		for _, f := range []struct {
			name, what string
			ok         func(jsonpath.Kind) bool
		}{
			{"VALUE", "JSON text", func(k jsonpath.Kind) bool { return k != jsonpath.Invalid }},
			{"SCALAR", "JSON text of a string, number, boolean or null", jsonpath.Kind.IsScalar},
			{"ARRAY", "JSON text of an array", func(k jsonpath.Kind) bool { return k == jsonpath.Array }},
			{"OBJECT", "JSON text of an object", func(k jsonpath.Kind) bool { return k == jsonpath.Object }},
		} {
			is, doc := "IS JSON ", "Whether the string is "+f.what+"; FALSE for NULL."
			if not {
				is, doc = "IS NOT JSON ", "Whether the string is not "+f.what+"; TRUE for NULL."
			}
			expr.Register(expr.Func{
				Name: is + f.name, Usage: "string " + is + f.name, Category: catJSON, Doc: doc,
				Infer: sig(never(types.BooleanType), 1, str),
				Compile: kernel(expr.EachRowNullable(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
					out.Bool[i] = (!args[0].IsNull(i) && f.ok(jsonpath.Check(text(args, 0, i)))) != not
				})),
			})
		}
	}
}

// jsonPathArg checks a constant path.
var jsonPathArg = constText(1, reads(jsonpath.Compile))

var (
	errNotJSON   = errors.New("the text is not JSON")
	errNoMatch   = errors.New("the JSON path leads nowhere, or to null")
	errEmpty     = errors.New("nothing found, and ERROR ON EMPTY asks for an error")
	errScalar    = errors.New("an array or object is wanted, but the JSON path leads to a scalar")
	errNotScalar = errors.New("a scalar is wanted, but the JSON path leads to an array or object")
	errNotArray  = errors.New("an array is wanted, but the JSON path leads to something else")
)

// lookup evaluates paths. Results point into the text or into buf.
type lookup struct {
	path  func(args []*vec.Vec, i int) (*jsonpath.Path, error)
	buf   []byte
	first bool
	add   func(raw []byte)
}

func newLookup(c *expr.Call) (*lookup, error) {
	l := &lookup{}
	l.add = func(raw []byte) {
		if !l.first {
			l.buf = append(l.buf, ',')
		}
		l.first = false
		l.buf = append(l.buf, raw...)
	}
	if s, ok := expr.ConstString(c.Args[1]); ok {
		p, err := jsonpath.Compile(s)
		if err != nil {
			return nil, err
		}
		l.path = func([]*vec.Vec, int) (*jsonpath.Path, error) { return p, nil }
		return l, nil
	}
	known := newCache(jsonpath.Compile)
	l.path = func(args []*vec.Vec, i int) (*jsonpath.Path, error) { return known.get(text(args, 1, i)) }
	return l, nil
}

// eval finds what the path leads to in row i: raw JSON, a list of it for a path that may match
// several. nil without an error means that nothing was found and the path is lax.
func (l *lookup) eval(args []*vec.Vec, i int) (raw []byte, lax bool, err error) {
	p, err := l.path(args, i)
	if err != nil {
		return nil, false, err
	}
	doc := text(args, 0, i)
	var valid, found bool
	if p.Definite {
		raw, valid = p.Find(doc)
		found = raw != nil && jsonpath.KindOf(raw) != jsonpath.Null
	} else {
		l.buf, l.first = append(l.buf[:0], '['), true
		valid, found = p.All(doc, l.add)
		l.buf = append(l.buf, ']')
		raw = l.buf
		found = found || p.Lax && valid
	}
	switch {
	case found:
		return raw, p.Lax, nil
	case valid && isNullText(doc):
		return nil, p.Lax, errNoMatch
	case p.Lax:
		return nil, true, nil
	case !valid:
		return nil, false, errNotJSON
	}
	return nil, false, errNoMatch
}

// isNullText reports that a valid text is null, which no path applies to.
func isNullText(doc []byte) bool {
	for len(doc) > 0 && doc[0] <= ' ' {
		doc = doc[1:]
	}
	return len(doc) > 0 && doc[0] == 'n'
}

// clause is the keyword argument k, or def where clauses are not given.
func clause(c *expr.Call, k int, def string) string {
	if k >= len(c.Args) {
		return def
	}
	s, _ := expr.ConstString(c.Args[k])
	return s
}

func compileExists(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	l, err := newLookup(c)
	if err != nil {
		return nil, err
	}
	onError := clause(c, 2, "FALSE")
	return only(expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		raw, _, err := l.eval(args, i)
		switch {
		case err == nil:
			out.Bool[i] = raw != nil
		case onError == "ERROR":
			ctx.Fail(i, errf("JSON_EXISTS: %w", err))
		case onError == "UNKNOWN":
			out.SetNull(i)
		default:
			out.Bool[i] = onError == "TRUE"
		}
	}), 0, 1), nil
}

func inferJSONValue(a expr.Args) (expr.Signature, error) {
	if a.Len() == 2 {
		return sig(maybe(types.StringType), 2, str, str)(a)
	}
	s, err := sig(maybe(types.StringType), 7, str, str, anything, symbol, anything, symbol, anything)(a)
	if err != nil {
		return s, err
	}
	t := a.Type(2).AsNullable()
	switch t.Kind {
	case types.VarChar, types.Char:
		t = types.StringType
	case types.Boolean, types.Int, types.BigInt, types.Double:
	default:
		return s, expr.Errorf("RETURNING %s is not supported", t).
			WithHint("use STRING, BOOLEAN, INTEGER, BIGINT or DOUBLE, and CAST the result")
	}
	for _, k := range []int{4, 6} {
		if !expr.CanCoerce(a.Type(k), t) {
			return s, expr.Errorf("the DEFAULT is %s, but must be %s as the result", a.Type(k).AsNullable(), t)
		}
		s.Params[k] = t
	}
	s.Params[2], s.Result = expr.Any, t
	return s, nil
}

func compileValue(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	l, err := newLookup(c)
	if err != nil {
		return nil, err
	}
	onEmpty, onError := clause(c, 3, "NULL"), clause(c, 5, "NULL")
	missing := func(ctx *expr.EvalCtx, what string, args []*vec.Vec, k int, out *vec.Vec, i int, err error) {
		switch what {
		case "ERROR":
			ctx.Fail(i, errf("JSON_VALUE: %w", err))
		case "DEFAULT":
			out.Set(i, args[k], i)
		default:
			out.SetNull(i)
		}
	}
	return expr.EachRowNullable(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		if args[0].IsNull(i) || args[1].IsNull(i) {
			out.SetNull(i)
			return
		}
		raw, lax, err := l.eval(args, i)
		if err == nil && raw != nil && !jsonpath.KindOf(raw).IsScalar() {
			raw = nil
			if !lax {
				err = errNotScalar
			}
		}
		if err == nil && raw == nil {
			missing(ctx, onEmpty, args, 4, out, i, errEmpty)
			return
		}
		if err == nil {
			if err = setScalar(out, i, raw); err == nil {
				return
			}
		}
		missing(ctx, onError, args, 6, out, i, err)
	}), nil
}

// setScalar converts a JSON scalar to the type of out.
func setScalar(out *vec.Vec, i int, raw []byte) error {
	kind := jsonpath.KindOf(raw)
	switch out.Type.Kind {
	case types.Boolean:
		if kind == jsonpath.Bool {
			out.Bool[i] = raw[0] == 't'
			return nil
		}
	case types.Int, types.BigInt:
		bits := 32
		if out.Type.Kind == types.BigInt {
			bits = 64
		}
		if kind == jsonpath.Number {
			if v, err := strconv.ParseInt(string(raw), 10, bits); err == nil {
				expr.SetInt(out, i, v)
				return nil
			}
		}
	case types.Double:
		if kind == jsonpath.Number {
			if v, err := strconv.ParseFloat(string(raw), 64); err == nil {
				out.F64[i] = v
				return nil
			}
		}
	default:
		out.EndBytes(i, jsonpath.AppendText(out.BeginBytes(), raw))
		return nil
	}
	return errf("%s is not a %s", raw, out.Type.AsNullable())
}

func inferJSONQuery(a expr.Args) (expr.Signature, error) {
	if a.Len() == 2 {
		return sig(maybe(types.StringType), 2, str, str)(a)
	}
	s, err := sig(maybe(types.StringType), 6, str, str, anything, symbol, symbol, symbol)(a)
	if err != nil {
		return s, err
	}
	t := a.Type(2).AsNullable()
	switch {
	case t.Kind == types.Array && t.Elem.IsString():
		for k, when := range map[int]string{4: "EMPTY", 5: "ERROR"} {
			if w, _ := expr.ConstString(a.Exprs[k]); w == "EMPTY OBJECT" {
				return s, expr.Errorf("EMPTY OBJECT ON %s does not go with RETURNING %s", when, t).
					WithHint("write EMPTY ARRAY or NULL")
			}
		}
	case t.IsString():
		t = types.StringType
	default:
		return s, expr.Errorf("RETURNING %s is not supported", t).WithHint("use STRING or ARRAY<STRING>")
	}
	s.Params[2], s.Result = expr.Any, t
	return s, nil
}

func compileQuery(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	l, err := newLookup(c)
	if err != nil {
		return nil, err
	}
	wrapper := clause(c, 3, "WITHOUT")
	onEmpty, onError := clause(c, 4, "NULL"), clause(c, 5, "NULL")
	missing := func(ctx *expr.EvalCtx, what string, out *vec.Vec, i int, err error) {
		switch what {
		case "ERROR":
			ctx.Fail(i, errf("JSON_QUERY: %w", err))
		case "EMPTY ARRAY":
			setQuery(out, i, []byte("[]"), false)
		case "EMPTY OBJECT":
			setQuery(out, i, []byte("{}"), false)
		default:
			out.SetNull(i)
		}
	}
	return only(expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		raw, lax, err := l.eval(args, i)
		if err == nil && raw == nil {
			missing(ctx, onEmpty, out, i, errEmpty)
			return
		}
		if err == nil {
			kind := jsonpath.KindOf(raw)
			wrap := wrapper == "UNCONDITIONAL" || wrapper == "CONDITIONAL" && kind != jsonpath.Array
			switch {
			case !wrap && kind.IsScalar() && lax:
				missing(ctx, onEmpty, out, i, errEmpty)
				return
			case !wrap && kind.IsScalar():
				err = errScalar
			case out.Phys == types.PList && !wrap && kind != jsonpath.Array:
				err = errNotArray
			default:
				setQuery(out, i, raw, wrap)
				return
			}
		}
		missing(ctx, onError, out, i, err)
	}), 0, 1), nil
}

// setQuery stores JSON, perhaps wrapped into an array, as text or as an ARRAY of texts.
func setQuery(out *vec.Vec, i int, raw []byte, wrap bool) {
	if out.Phys != types.PList {
		buf := out.BeginBytes()
		if wrap {
			buf = append(buf, '[')
		}
		buf = jsonpath.AppendCompact(buf, raw)
		if wrap {
			buf = append(buf, ']')
		}
		out.EndBytes(i, buf)
		return
	}
	kid := out.Kids[0]
	from := kid.Len()
	add := func(e []byte) {
		n := kid.Len()
		kid.Resize(n + 1)
		switch k := jsonpath.KindOf(e); {
		case k == jsonpath.Null:
			kid.SetNull(n)
		case k.IsScalar():
			kid.EndBytes(n, jsonpath.AppendText(kid.BeginBytes(), e))
		default:
			kid.EndBytes(n, jsonpath.AppendCompact(kid.BeginBytes(), e))
		}
	}
	if wrap {
		add(raw)
	} else {
		jsonpath.Elements(raw, add)
	}
	out.Refs[i] = vec.Ref{Off: uint32(from), Len: uint32(kid.Len() - from)}
}
