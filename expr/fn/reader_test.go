package fn_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// reader reads the calls that the cases are written in. Arguments are
//
//	'text'  12  12L  1.5 (DECIMAL)  1.5e0 (DOUBLE)  1.5f (FLOAT)  TRUE  FALSE  NULL
//	DATE'2024-01-05'  TIME'07:03:00'  TS'2024-01-05 07:03:00.5'  LTZ'...' (UTC)  BYTES'00ff'
//	MONTHS'5'  MS'1000'  NULL'type'  :KEYWORD  TYPE:type (a NULL of RETURNING)
//	[a, b]  {k: v, k: v}  F(x, ...)  "A NAME WITH BLANKS"(x)  column
//
// In 'text' a quote is doubled and \n \t \r \\ mean what they do in Go. It panics with an error.
type reader struct {
	s       string
	env     *expr.Env
	columns []types.Field
}

func read(s string, env *expr.Env) (expr.Expr, error) { return readOver(s, env, nil) }

// readOver reads an expression that may name columns.
func readOver(s string, env *expr.Env, columns []types.Field) (e expr.Expr, err error) {
	defer func() {
		if x, ok := recover().(error); ok {
			err = x
		}
	}()
	r := &reader{s: s, env: env, columns: columns}
	e = r.value()
	if r.space(); r.s != "" {
		panic(fmt.Errorf("test syntax: %q is left", r.s))
	}
	return e, nil
}

func (r *reader) space() { r.s = strings.TrimLeft(r.s, " ") }

func (r *reader) take(s string) bool {
	r.space()
	if strings.HasPrefix(r.s, s) {
		r.s = r.s[len(s):]
		return true
	}
	return false
}

func (r *reader) want(s string) {
	if !r.take(s) {
		panic(fmt.Errorf("test syntax: want %s at %q", s, r.s))
	}
}

// quoted reads text up to the closing quote q, which was opened.
func (r *reader) quoted(q byte) string {
	var b strings.Builder
	for i := 0; i < len(r.s); i++ {
		switch c := r.s[i]; {
		case c == q && i+1 < len(r.s) && r.s[i+1] == q:
			b.WriteByte(q)
			i++
		case c == q:
			r.s = r.s[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(r.s):
			i++
			b.WriteString(map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\"}[r.s[i]])
		default:
			b.WriteByte(c)
		}
	}
	panic(fmt.Errorf("test syntax: quote not closed"))
}

func lit(v types.Value, t types.Type) expr.Expr {
	return &expr.Literal{Value: v, T: t.WithNullable(v == nil)}
}

func (r *reader) list(end string) []expr.Expr {
	var out []expr.Expr
	for !r.take(end) {
		if len(out) > 0 && !r.take(",") {
			r.want(":")
		}
		out = append(out, r.value())
	}
	return out
}

func (r *reader) value() expr.Expr {
	switch {
	case r.take("'"):
		s := r.quoted('\'')
		return lit(s, types.CharType(max(utf8.RuneCountInString(s), 0)))
	case r.take("\""):
		name := r.quoted('"')
		r.want("(")
		return r.call(name, r.list(")"))
	case r.take("["):
		return r.call("ARRAY", r.list("]"))
	case r.take("{"):
		return r.call("MAP", r.list("}"))
	case r.take(":"):
		return lit(strings.ReplaceAll(r.word(), "_", " "), types.Type{Kind: types.Symbol})
	case r.take("TYPE:"):
		return lit(nil, r.typ(r.word()))
	}
	if r.s != "" && (r.s[0] >= '0' && r.s[0] <= '9' || r.s[0] == '-') {
		return r.number()
	}
	w := r.word()
	switch {
	case r.take("'"):
		return r.typed(w, r.quoted('\''))
	case r.take("("):
		return r.call(w, r.list(")"))
	case w == "NULL":
		return lit(nil, types.NullType)
	case w == "TRUE" || w == "FALSE":
		return lit(w == "TRUE", types.BooleanType)
	}
	for i, f := range r.columns {
		if f.Name == w {
			return &expr.Column{Index: i, Name: w, T: f.Type}
		}
	}
	panic(fmt.Errorf("test syntax: %s", w))
}

func (r *reader) word() string {
	i := 0
	for i < len(r.s) && (r.s[i] == '_' || r.s[i] >= 'A' && r.s[i] <= 'Z' || r.s[i] >= '0' && r.s[i] <= '9' ||
		r.s[i] >= 'a' && r.s[i] <= 'z') {
		i++
	}
	w := r.s[:i]
	r.s = r.s[i:]
	return w
}

func (r *reader) number() expr.Expr {
	i := 1
	for i < len(r.s) && (r.s[i] >= '0' && r.s[i] <= '9' || r.s[i] == '.' || r.s[i] == 'e' || r.s[i] == '-') {
		i++
	}
	n := r.s[:i]
	r.s = r.s[i:]
	switch {
	case strings.Contains(n, "e"):
		f, _ := strconv.ParseFloat(n, 64)
		return lit(f, types.DoubleType)
	case r.take("f"):
		f, _ := strconv.ParseFloat(n, 32)
		return lit(f, types.FloatType)
	case strings.Contains(n, "."):
		whole, frac, _ := strings.Cut(strings.TrimPrefix(n, "-"), ".")
		t := types.DecimalType(len(whole)+len(frac), len(frac))
		v, _ := types.ParseDecimal([]byte(n), t.Precision, t.Scale)
		return lit(v, t)
	}
	v, _ := strconv.ParseInt(n, 10, 64)
	if r.take("L") {
		return lit(v, types.BigIntType)
	}
	return lit(v, types.IntType)
}

func (r *reader) typ(name string) types.Type {
	t, ok := map[string]types.Type{
		"INT": types.IntType, "BIGINT": types.BigIntType, "STRING": types.StringType, "DOUBLE": types.DoubleType,
		"BOOLEAN": types.BooleanType, "TS": types.TimestampType(3), "DATE": types.DateType, "DECIMAL": types.DecimalType(10, 2),
		"INTS": types.ArrayType(types.IntType), "STRINGS": types.ArrayType(types.StringType), "TINYINT": types.TinyIntType,
		"MAP": types.MapType(types.StringType, types.IntType), "BYTES": types.BytesType,
	}[name]
	if !ok {
		panic(fmt.Errorf("test syntax: type %s", name))
	}
	return t
}

// typed reads WORD'text'.
func (r *reader) typed(w, s string) expr.Expr {
	b := []byte(s)
	switch w {
	case "NULL":
		return lit(nil, r.typ(s))
	case "DATE":
		d, _ := types.ParseDate(b)
		return lit(int64(d), types.DateType)
	case "TIME":
		ms, _ := types.ParseTime(b)
		return lit(int64(ms), types.TimeType(0))
	case "TS", "LTZ":
		ms, nanos, _ := types.ParseTimestamp(b)
		_, frac, _ := strings.Cut(s, ".")
		if w == "TS" {
			return lit(types.TS(ms, nanos), types.TimestampType(len(frac)))
		}
		return lit(types.TS(ms, nanos), types.TimestampLTZType(len(frac)))
	case "BYTES":
		x, _ := hex.DecodeString(s)
		return lit(x, types.BytesType)
	case "MONTHS":
		v, _ := strconv.ParseInt(s, 10, 64)
		return lit(v, types.Type{Kind: types.IntervalYearMonth})
	case "MS":
		v, _ := strconv.ParseInt(s, 10, 64)
		return lit(v, types.Type{Kind: types.IntervalDayTime})
	case "TINYINT":
		v, _ := strconv.ParseInt(s, 10, 64)
		return lit(v, types.TinyIntType)
	}
	panic(fmt.Errorf("test syntax: %s'...'", w))
}

func (r *reader) call(fn string, args []expr.Expr) expr.Expr {
	e, err := expr.Resolve(fn, args, r.env, expr.Pos{Start: 1, End: 2})
	if err != nil {
		panic(err)
	}
	return e
}
