package expr_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// reader is just enough of SQL's expressions to write tests in: literals, operators, calls, CAST,
// CASE, IS, IN, constructors, element access, and columns by name. It panics with the error.
type reader struct {
	toks []string
	at   int
	env  *expr.Env
	cols []types.Field
}

// bindText reads and resolves an expression over columns cols.
func bindText(src string, env *expr.Env, cols ...types.Field) (e expr.Expr, err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case error:
			err = x
		default:
			panic(x)
		}
	}()
	r := &reader{toks: lex(src), env: env, cols: cols}
	e = r.or()
	if r.at < len(r.toks) {
		r.fail("unexpected %s", r.toks[r.at])
	}
	return e, nil
}

func lex(s string) (out []string) {
	for i := 0; i < len(s); {
		c := s[i]
		j := i + 1
		switch {
		case c == ' ' || c == '\n' || c == '\t':
			i++
			continue
		case c == '\'' || c == '`' || (c == 'x' || c == 'X') && j < len(s) && s[j] == '\'':
			if c != '\'' && c != '`' {
				j++
			}
			q := s[j-1]
			for j < len(s) {
				if s[j] == q {
					if j+1 < len(s) && s[j+1] == q {
						j += 2
						continue
					}
					break
				}
				j++
			}
			j++
		case word(c) && (c < '0' || c > '9'):
			for j < len(s) && word(s[j]) {
				j++
			}
		case c >= '0' && c <= '9' || c == '.' && j < len(s) && s[j] >= '0' && s[j] <= '9':
			for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '.' || s[j]|32 == 'e' ||
				(s[j] == '-' || s[j] == '+') && s[j-1]|32 == 'e') {
				j++
			}
		case j < len(s) && s[j] != ' ' && strings.Contains("<= >= <> != ||", s[i:j+1]):
			j++
		}
		out = append(out, s[i:min(j, len(s))])
		i = j
	}
	return out
}

func word(c byte) bool {
	return c == '_' || c|32 >= 'a' && c|32 <= 'z' || c >= '0' && c <= '9' || c >= 0x80
}

func (r *reader) fail(f string, args ...any) { panic(fmt.Errorf("test syntax: "+f, args...)) }

func (r *reader) peek(words ...string) bool {
	for k, w := range words {
		if r.at+k >= len(r.toks) || !strings.EqualFold(r.toks[r.at+k], w) {
			return false
		}
	}
	return true
}

func (r *reader) take(words ...string) bool {
	if r.peek(words...) {
		r.at += len(words)
		return true
	}
	return false
}

func (r *reader) want(w string) {
	if !r.take(w) {
		r.fail("want %s at %v", w, r.toks[r.at:])
	}
}

func (r *reader) call(fn string, args ...expr.Expr) expr.Expr {
	e, err := expr.Resolve(fn, args, r.env, expr.Pos{Start: 1, End: 2})
	if err != nil {
		panic(err)
	}
	return e
}

func (r *reader) or() expr.Expr {
	l := r.and()
	for r.take("OR") {
		l = r.call("OR", l, r.and())
	}
	return l
}

func (r *reader) and() expr.Expr {
	l := r.not()
	for r.take("AND") {
		l = r.call("AND", l, r.not())
	}
	return l
}

func (r *reader) not() expr.Expr {
	if r.take("NOT") {
		return r.call("NOT", r.not())
	}
	return r.compare()
}

func (r *reader) compare() expr.Expr {
	l := r.sum()
	for {
		not := r.peek("NOT") && !r.peek("NOT", "NULL")
		if not {
			r.at++
		}
		var e expr.Expr
		switch {
		case r.take("IS", "DISTINCT", "FROM"):
			e = r.call("IS DISTINCT FROM", l, r.sum())
		case r.take("IS", "NOT", "DISTINCT", "FROM"):
			e = r.call("IS NOT DISTINCT FROM", l, r.sum())
		case r.take("IS", "NOT"):
			e = r.call("IS NOT "+strings.ToUpper(r.next()), l)
		case r.take("IS"):
			e = r.call("IS "+strings.ToUpper(r.next()), l)
		case r.take("IN"):
			e = r.call("IN", append([]expr.Expr{l}, r.list("(", ")")...)...)
		case r.take("BETWEEN"):
			lo := r.sum()
			r.want("AND")
			e = r.call("AND", r.call(">=", l, lo), r.call("<=", l, r.sum()))
		case r.at < len(r.toks) && strings.Contains(" = <> < <= > >= != ", " "+r.toks[r.at]+" "):
			op := r.next()
			e = r.call(op, l, r.sum())
		default:
			return l
		}
		if not {
			e = r.call("NOT", e)
		}
		l = e
	}
}

func (r *reader) next() string {
	if r.at == len(r.toks) {
		r.fail("unexpected end")
	}
	r.at++
	return r.toks[r.at-1]
}

func (r *reader) sum() expr.Expr {
	l := r.product()
	for r.peek("+") || r.peek("-") || r.peek("||") {
		op := r.next()
		l = r.call(op, l, r.product())
	}
	return l
}

func (r *reader) product() expr.Expr {
	l := r.unary()
	for r.peek("*") || r.peek("/") || r.peek("%") {
		op := r.next()
		l = r.call(op, l, r.unary())
	}
	return l
}

func (r *reader) unary() expr.Expr {
	if r.take("-") {
		return r.call("-", r.unary())
	}
	if r.take("+") {
		return r.unary()
	}
	e := r.primary()
	for r.take("[") {
		e = r.call("ITEM", e, r.or())
		r.want("]")
	}
	for r.take(".") {
		name := r.next()
		for i, f := range e.Type().Fields {
			if f.Name == name {
				e = r.call("FIELD", e, &expr.Literal{Value: int64(i), T: types.IntType.NotNull()})
			}
		}
	}
	return e
}

func (r *reader) list(open, end string) (out []expr.Expr) {
	r.want(open)
	for !r.take(end) {
		out = append(out, r.or())
		if !r.peek(end) {
			r.want(",")
		}
	}
	return out
}

func unquote(t string) string {
	q := t[:1]
	return strings.ReplaceAll(t[1:len(t)-1], q+q, q)
}

func (r *reader) primary() expr.Expr {
	t := r.next()
	switch {
	case t == "(":
		r.at--
		l := r.list("(", ")")
		if len(l) > 1 {
			return r.call("ROW", l...)
		}
		return l[0]
	case t[0] == '\'':
		s := unquote(t)
		return &expr.Literal{Value: s, T: types.CharType(utf8.RuneCountInString(s)).NotNull()}
	case len(t) > 1 && t[1] == '\'':
		b, err := hex.DecodeString(unquote(t[1:]))
		if err != nil {
			panic(err)
		}
		return &expr.Literal{Value: b, T: types.Type{Kind: types.Binary, Precision: len(b)}}
	case t[0] >= '0' && t[0] <= '9' || t[0] == '.':
		return numberText(t)
	}
	if lit := r.keyword(t); lit != nil {
		return lit
	}
	if r.peek("(") {
		return r.call(strings.Trim(t, "`"), r.list("(", ")")...)
	}
	for i, c := range r.cols {
		if c.Name == t {
			return &expr.Column{Index: i, Name: t, T: c.Type}
		}
	}
	r.fail("unknown name %s", t)
	return nil
}

func (r *reader) keyword(t string) expr.Expr {
	quoted := r.at < len(r.toks) && r.toks[r.at][0] == '\''
	switch strings.ToUpper(t) {
	case "NULL":
		return &expr.Literal{T: types.NullType}
	case "TRUE", "FALSE":
		return &expr.Literal{Value: strings.EqualFold(t, "true"), T: types.BooleanType.NotNull()}
	case "ARRAY", "MAP":
		if r.peek("[") {
			return r.call(t, r.list("[", "]")...)
		}
	case "CAST", "TRY_CAST":
		r.want("(")
		x := r.or()
		r.want("AS")
		to := r.typ()
		r.want(")")
		e, err := expr.Cast(x, to, strings.EqualFold(t, "try_cast"), r.env, expr.Pos{Start: 1, End: 2})
		if err != nil {
			panic(err)
		}
		return e
	case "CASE":
		var args []expr.Expr
		for r.take("WHEN") {
			args = append(args, r.or())
			r.want("THEN")
			args = append(args, r.or())
		}
		if r.take("ELSE") {
			args = append(args, r.or())
		}
		r.want("END")
		return r.call("CASE", args...)
	case "DATE", "TIME", "TIMESTAMP":
		if quoted {
			return temporalText(strings.ToUpper(t), unquote(r.next()))
		}
	case "INTERVAL":
		if quoted {
			return r.interval(unquote(r.next()))
		}
	}
	return nil
}

func numberText(t string) expr.Expr {
	if strings.ContainsAny(t, "eE") {
		f, _ := strconv.ParseFloat(t, 64)
		return &expr.Literal{Value: f, T: types.DoubleType.NotNull()}
	}
	whole, frac, _ := strings.Cut(t, ".")
	n, _ := new(big.Int).SetString(whole+frac, 10)
	switch {
	case frac == "" && n.IsInt64() && n.Int64() <= 1<<31-1:
		return &expr.Literal{Value: n.Int64(), T: types.IntType.NotNull()}
	case frac == "" && n.IsInt64():
		return &expr.Literal{Value: n.Int64(), T: types.BigIntType.NotNull()}
	}
	p := len(strings.TrimLeft(whole+frac, "0"))
	v, ok := types.ParseDecimal([]byte(t), types.MaxPrecision, len(frac))
	if !ok {
		panic(fmt.Errorf("test syntax: number %s", t))
	}
	return &expr.Literal{Value: v, T: types.DecimalType(max(p, len(frac), 1), len(frac)).NotNull()}
}

func temporalText(kind, s string) expr.Expr {
	switch kind {
	case "DATE":
		d, _ := types.ParseDate([]byte(s))
		return &expr.Literal{Value: int64(d), T: types.DateType.NotNull()}
	case "TIME":
		ms, _ := types.ParseTime([]byte(s))
		return &expr.Literal{Value: int64(ms), T: types.TimeType(0).NotNull()}
	}
	ms, nanos, _ := types.ParseSQLTimestamp([]byte(s))
	_, frac, _ := strings.Cut(s, ".")
	return &expr.Literal{Value: types.TS(ms, nanos), T: types.TimestampType(len(frac)).NotNull()}
}

// interval reads a number of one unit, or days and a time.
func (r *reader) interval(s string) expr.Expr {
	unit := strings.ToUpper(r.next())
	if r.take("TO") {
		unit += " TO " + strings.ToUpper(r.next())
		if r.take("(") {
			r.at += 2
		}
	}
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	var v int64
	t := types.Type{Kind: types.IntervalDayTime, Precision: 3}
	n, _ := strconv.ParseFloat(s, 64)
	switch unit {
	case "YEAR", "MONTH", "YEAR TO MONTH":
		t.Kind = types.IntervalYearMonth
		v = int64(n)
		if unit == "YEAR" {
			v *= 12
		} else if y, m, ok := strings.Cut(s, "-"); ok {
			a, _ := strconv.Atoi(y)
			b, _ := strconv.Atoi(m)
			v = int64(a*12 + b)
		}
	case "DAY":
		v = int64(n) * types.MsPerDay
	case "HOUR":
		v = int64(n) * types.MsPerHour
	case "MINUTE":
		v = int64(n) * types.MsPerMinute
	case "SECOND":
		v = int64(n * 1000)
	default:
		d, clock, ok := strings.Cut(s, " ")
		if !ok {
			d, clock = "0", s
		}
		days, _ := strconv.Atoi(d)
		ms, _ := types.ParseTime([]byte(clock))
		v = int64(days)*types.MsPerDay + int64(ms)
	}
	if neg {
		v = -v
	}
	return &expr.Literal{Value: v, T: t}
}

func (r *reader) nums(def ...int) []int {
	if !r.take("(") {
		return def
	}
	out := append([]int{}, def...)
	for k := 0; !r.take(")"); k++ {
		out[k], _ = strconv.Atoi(r.next())
		r.take(",")
	}
	return out
}

func (r *reader) typ() types.Type {
	t := r.rootType()
	if r.take("NOT", "NULL") {
		return t.NotNull()
	}
	return t
}

func (r *reader) rootType() types.Type {
	switch name := strings.ToUpper(r.next()); name {
	case "BOOLEAN":
		return types.BooleanType
	case "TINYINT":
		return types.TinyIntType
	case "SMALLINT":
		return types.SmallIntType
	case "INT", "INTEGER":
		return types.IntType
	case "BIGINT":
		return types.BigIntType
	case "FLOAT":
		return types.FloatType
	case "DOUBLE":
		return types.DoubleType
	case "DECIMAL":
		n := r.nums(10, 0)
		return types.DecimalType(n[0], n[1])
	case "STRING":
		return types.StringType
	case "BYTES":
		return types.BytesType
	case "CHAR":
		return types.CharType(r.nums(1)[0])
	case "VARCHAR":
		return types.VarCharType(r.nums(types.MaxLength)[0])
	case "BINARY", "VARBINARY":
		k := types.Type{Kind: types.VarBinary, Nullable: true, Precision: types.MaxLength}
		if name == "BINARY" {
			k.Kind, k.Precision = types.Binary, 1
		}
		k.Precision = r.nums(k.Precision)[0]
		return k
	case "DATE":
		return types.DateType
	case "TIME":
		return types.TimeType(0 * r.nums(0)[0])
	case "TIMESTAMP":
		p := r.nums(6)[0]
		if r.take("WITH", "LOCAL", "TIME", "ZONE") {
			return types.TimestampLTZType(p)
		}
		return types.TimestampType(p)
	case "TIMESTAMP_LTZ":
		return types.TimestampLTZType(r.nums(6)[0])
	case "INTERVAL":
		if k := strings.ToUpper(r.next()); k == "MONTH" || k == "YEAR" {
			return types.Type{Kind: types.IntervalYearMonth, Nullable: true}
		}
		r.nums(3)
		return types.Type{Kind: types.IntervalDayTime, Nullable: true, Precision: 3}
	case "ARRAY", "MULTISET":
		r.want("<")
		t := types.ArrayType(r.typ())
		if name == "MULTISET" {
			t = types.MultisetType(*t.Elem)
		}
		r.close()
		return t
	case "MAP":
		r.want("<")
		k := r.typ()
		r.want(",")
		t := types.MapType(k, r.typ())
		r.close()
		return t
	case "ROW":
		var fs []types.Field
		r.want("<")
		for !r.peek(">") {
			n := strings.Trim(r.next(), "`")
			fs = append(fs, types.Field{Name: n, Type: r.typ()})
			r.take(",")
		}
		r.close()
		return types.RowType(fs...)
	default:
		r.fail("type %s", name)
	}
	return types.Type{}
}

// close reads the > that ends a type, which the lexer never joins with another.
func (r *reader) close() { r.want(">") }
