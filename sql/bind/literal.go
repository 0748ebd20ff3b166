package bind

import (
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
)

func itoa(n int) string { return strconv.Itoa(n) }

// literal binds a constant as written. Constants are NOT NULL, and as narrow as their text: 'abc'
// is CHAR(3), 0.908 is DECIMAL(4, 3).
func (b *Binder) literal(e ast.Expr) (*expr.Literal, error) {
	switch e := e.(type) {
	case *ast.NullLit:
		return &expr.Literal{T: types.NullType}, nil
	case *ast.BoolLit:
		if e.Unknown {
			return &expr.Literal{T: types.BooleanType}, nil
		}
		return &expr.Literal{Value: e.Value, T: types.BooleanType.NotNull()}, nil
	case *ast.StringLit:
		return stringLiteral(e.Value), nil
	case *ast.BinaryLit:
		return &expr.Literal{Value: e.Value,
			T: types.Type{Kind: types.Binary, Precision: len(e.Value)}}, nil
	case *ast.NumberLit:
		return numberLiteral(e, false)
	case *ast.TemporalLit:
		return b.temporalLiteral(e)
	case *ast.IntervalLit:
		return intervalLiteral(e)
	}
	panic("BUG: not a literal")
}

func stringLiteral(s string) *expr.Literal {
	return &expr.Literal{Value: s, T: types.CharType(utf8.RuneCountInString(s)).NotNull()}
}

func intLiteral(n int64) *expr.Literal {
	return &expr.Literal{Value: n, T: types.IntType.NotNull()}
}

// numberLiteral reads a number; its sign is not part of the text but of the value.
func numberLiteral(e *ast.NumberLit, negative bool) (*expr.Literal, error) {
	if e.Kind == ast.Approximate {
		f, err := strconv.ParseFloat(e.Text, 64)
		if err != nil && f != 0 {
			return nil, errAt(e.Span, "number %s is out of the range of DOUBLE", e.Text)
		}
		if negative {
			f = -f
		}
		return &expr.Literal{Value: f, T: types.DoubleType.NotNull()}, nil
	}
	// As in Flink, the precision is that of the text: 0.908 has four digits, 007 three.
	whole, frac, _ := strings.Cut(e.Text, ".")
	precision, scale := len(whole)+len(frac), len(frac)
	n, ok := new(big.Int).SetString(whole+frac, 10)
	if !ok {
		return nil, errAt(e.Span, "malformed number %s", e.Text)
	}
	if scale == 0 && n.IsInt64() {
		v, t := n.Int64(), types.BigIntType.NotNull()
		if v == int64(int32(v)) {
			t = types.IntType.NotNull()
		}
		if negative {
			v = -v
		}
		return &expr.Literal{Value: v, T: t}, nil
	}
	if digits := len(n.String()); digits > types.MaxPrecision || scale > types.MaxPrecision {
		return nil, errAt(e.Span, "number %s has more than %d digits", e.Text, types.MaxPrecision).
			WithHint("write it as a DOUBLE: %sE0", e.Text)
	}
	if negative {
		n.Neg(n)
	}
	return &expr.Literal{Value: int128(n),
		T: types.DecimalType(min(precision, types.MaxPrecision), scale).NotNull()}, nil
}

func int128(n *big.Int) types.Int128 {
	mod := new(big.Int).Lsh(big.NewInt(1), 128)
	u := new(big.Int).Mod(n, mod)
	lo := new(big.Int).And(u, new(big.Int).SetUint64(^uint64(0)))
	hi := new(big.Int).Rsh(u, 64)
	return types.Int128{Lo: lo.Uint64(), Hi: int64(hi.Uint64())}
}

// temporalLiteral reads DATE '...', TIME '...' and TIMESTAMP '...'. The precision is the number
// of fractional digits written.
func (b *Binder) temporalLiteral(e *ast.TemporalLit) (*expr.Literal, error) {
	form := map[ast.TemporalKind]string{ast.DateLit: "DATE 'yyyy-MM-dd'", ast.TimeLit: "TIME 'HH:mm:ss'",
		ast.TimestampLit: "TIMESTAMP 'yyyy-MM-dd HH:mm:ss'", ast.TimestampLTZLit: "'yyyy-MM-dd HH:mm:ss'"}[e.Kind]
	bad := func() error {
		err := errAt(e.ValueSpan, "malformed %s literal '%s'", strings.Fields(form)[0], e.Value)
		if e.Kind == ast.DateLit {
			return err.WithHint("write %s", form)
		}
		return err.WithHint("write %s, with a fraction of the second if needed", form)
	}
	text := strings.TrimSpace(e.Value)
	day, clock, both := strings.Cut(text, " ")
	if e.Kind == ast.TimeLit {
		day, clock = "", text
	} else if both != (e.Kind != ast.DateLit) {
		return nil, bad()
	}
	var days int64
	if e.Kind != ast.TimeLit {
		d, ok := parseDay(day)
		if !ok {
			return nil, bad()
		}
		days = d
		if e.Kind == ast.DateLit {
			return &expr.Literal{Value: days, T: types.DateType.NotNull()}, nil
		}
	}
	ms, nanos, precision, ok := parseClock(strings.TrimSpace(clock))
	if !ok {
		return nil, bad()
	}
	if e.Kind == ast.TimeLit {
		// As in Flink, a TIME literal has no fraction, whatever was written.
		return &expr.Literal{Value: ms - ms%1000, T: types.TimeType(0).NotNull()}, nil
	}
	at, t := days*86400000+ms, types.TimestampType(precision)
	if e.Kind == ast.TimestampLTZLit {
		u := time.UnixMilli(at).UTC()
		local := time.Date(u.Year(), u.Month(), u.Day(), u.Hour(), u.Minute(), u.Second(), 0, b.env.Zone)
		at, t = local.UnixMilli()+at%1000, types.TimestampLTZType(precision)
	}
	return &expr.Literal{Value: types.TS(at, nanos), T: t.NotNull()}, nil
}

// parseDay reads a date as days since 1970-01-01.
func parseDay(s string) (int64, bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return 0, false
	}
	var n [3]int
	for i, p := range parts {
		v, ok := parseDigits(p, []int{4, 2, 2}[i])
		if !ok {
			return 0, false
		}
		n[i] = v
	}
	t := time.Date(n[0], time.Month(n[1]), n[2], 0, 0, 0, 0, time.UTC)
	if n[0] < 1 || t.Year() != n[0] || int(t.Month()) != n[1] || t.Day() != n[2] {
		return 0, false
	}
	return t.Unix() / 86400, true
}

// parseClock reads HH:mm:ss[.fffffffff] as ms of the day and nanoseconds within the ms.
func parseClock(s string) (ms int64, nanos int32, precision int, ok bool) {
	s, frac, point := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) != 3 || point && frac == "" || len(frac) > 9 {
		return 0, 0, 0, false
	}
	for i, p := range parts {
		v, ok := parseDigits(p, 2)
		if !ok || v >= []int{24, 60, 60}[i] {
			return 0, 0, 0, false
		}
		ms = ms*60 + int64(v)
	}
	ms *= 1000
	if frac != "" {
		v, err := strconv.ParseUint((frac + "00000000")[:9], 10, 64)
		if err != nil {
			return 0, 0, 0, false
		}
		ms += int64(v / 1000000)
		nanos = int32(v % 1000000)
	}
	return ms, nanos, len(frac), true
}

// parseDigits reads one to most digits.
func parseDigits(s string, most int) (int, bool) {
	if len(s) == 0 || len(s) > most {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// intervalField is one field of an interval: its unit, its worth in ms or months, and how much of
// it makes the next larger one.
type intervalField struct {
	unit  ast.TimeUnit
	worth int64
	limit int64
}

var dayTimeFields = []intervalField{
	{"DAY", 86400000, 0}, {"HOUR", 3600000, 24}, {"MINUTE", 60000, 60}, {"SECOND", 1000, 60},
}

var yearMonthFields = []intervalField{{"YEAR", 12, 0}, {"MONTH", 1, 12}}

// intervalUnit gives the interval's printed resolution; ok is false for an impossible pair.
func intervalUnit(q ast.IntervalQualifier) (kind types.Kind, unit types.Interval, ok bool) {
	switch q.From {
	case "QUARTER":
		return types.IntervalYearMonth, types.UnitMonth, q.To == ""
	case "WEEK":
		return types.IntervalDayTime, types.UnitDay, q.To == ""
	}
	want := string(q.From)
	if q.To != "" && q.To != q.From {
		want += " TO " + string(q.To)
	}
	for u := types.UnitYear; u <= types.UnitSecond; u++ {
		if u.String() == want {
			if u <= types.UnitMonth {
				return types.IntervalYearMonth, u, true
			}
			return types.IntervalDayTime, u, true
		}
	}
	return 0, 0, false
}

// intervalType is the type of an interval with the qualifier.
func intervalType(q ast.IntervalQualifier) (types.Type, error) {
	kind, unit, ok := intervalUnit(q)
	if !ok {
		what := string(q.From)
		if q.To != "" {
			what += " TO " + string(q.To)
		}
		return types.Type{}, errAt(q.Span, "there is no INTERVAL %s", what).
			WithHint("intervals are of YEAR, MONTH, YEAR TO MONTH, DAY, HOUR, MINUTE, SECOND or from one of the last four to a smaller one")
	}
	return types.Type{Kind: kind, Unit: unit}, nil
}

// leadingDigits is how many digits the first field of an interval may have unless the qualifier
// says otherwise.
const leadingDigits = 2

func intervalLiteral(e *ast.IntervalLit) (*expr.Literal, error) {
	t, err := intervalType(e.Qualifier)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(e.Value)
	negative := e.Negative
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		text, negative = strings.TrimSpace(rest), !negative
	} else {
		text = strings.TrimPrefix(text, "+")
	}
	v, err := intervalValue(text, e)
	if err != nil {
		return nil, err
	}
	if negative {
		v = -v
	}
	return &expr.Literal{Value: v, T: t}, nil
}

// intervalValue reads the fields of an interval literal.
func intervalValue(text string, e *ast.IntervalLit) (int64, error) {
	q := e.Qualifier
	switch q.From {
	case "QUARTER":
		return intervalFields(text, e, []intervalField{{"QUARTER", 3, 0}})
	case "WEEK":
		return intervalFields(text, e, []intervalField{{"WEEK", 7 * 86400000, 0}})
	}
	fields := dayTimeFields
	if q.From == "YEAR" || q.From == "MONTH" {
		fields = yearMonthFields
	}
	for fields[0].unit != q.From {
		fields = fields[1:]
	}
	last := q.To
	if last == "" {
		last = q.From
	}
	n := 0
	for fields[n].unit != last {
		n++
	}
	return intervalFields(text, e, fields[:n+1])
}

func intervalFields(text string, e *ast.IntervalLit, fields []intervalField) (int64, error) {
	parts := splitInterval(text, fields)
	malformed := errAt(e.ValueSpan, "malformed interval '%s'", e.Value).
		WithHint("write it as INTERVAL '%s' %s", intervalForm(fields), qualifierText(e.Qualifier))
	if parts == nil {
		return 0, malformed
	}
	var total int64
	for i, f := range fields {
		p := parts[i]
		var frac string
		if f.unit == "SECOND" {
			p, frac, _ = strings.Cut(p, ".")
		}
		v, ok := parseDigits(p, 10)
		fms, fok := fractionMs(frac)
		if !ok || !fok {
			return 0, malformed
		}
		if err := checkIntervalField(i, p, int64(v), f, e); err != nil {
			return 0, err
		}
		total += int64(v)*f.worth + fms
	}
	return total, nil
}

// checkIntervalField refuses fields that do not fit: 25 hours behind a day, 100 days in DAY(2).
func checkIntervalField(i int, text string, v int64, f intervalField, e *ast.IntervalLit) error {
	if i > 0 {
		if v >= f.limit {
			return errAt(e.ValueSpan, "%d is too large for the %s field of an interval", v, f.unit).
				WithHint("it goes up to %d", f.limit-1)
		}
		return nil
	}
	digits := leadingDigits
	if e.Qualifier.FromPrecision >= 0 {
		digits = e.Qualifier.FromPrecision
	}
	if n := len(strings.TrimLeft(text, "0")); n > digits {
		return errAt(e.ValueSpan.To(e.Qualifier.Span), "%d has more than the %d digits of %s(%d)",
			v, digits, f.unit, digits).
			WithHint("write INTERVAL '%s' %s(%d)%s", e.Value, f.unit, n, qualifierTail(e.Qualifier))
	}
	return nil
}

// splitInterval cuts "d h:m:s" into as many parts as there are fields, or returns nil.
func splitInterval(text string, fields []intervalField) []string {
	var parts []string
	sep := ":"
	if fields[0].unit == "YEAR" {
		sep = "-"
	}
	if fields[0].unit == "DAY" && len(fields) > 1 {
		day, rest, ok := strings.Cut(text, " ")
		if !ok {
			return nil
		}
		parts = append(parts, day)
		text = strings.TrimSpace(rest)
	}
	if len(fields) > len(parts) {
		parts = append(parts, strings.Split(text, sep)...)
	}
	if len(parts) != len(fields) {
		return nil
	}
	return parts
}

func intervalForm(fields []intervalField) string {
	sample := map[ast.TimeUnit]string{"DAY": "1", "HOUR": "02", "MINUTE": "30", "SECOND": "15.5",
		"YEAR": "1", "MONTH": "2", "WEEK": "1", "QUARTER": "1"}
	out := ""
	for i, f := range fields {
		switch {
		case i == 0:
		case f.unit == "HOUR":
			out += " "
		case f.unit == "MONTH":
			out += "-"
		default:
			out += ":"
		}
		out += sample[f.unit]
	}
	return out
}

func qualifierText(q ast.IntervalQualifier) string { return string(q.From) + qualifierTail(q) }

func qualifierTail(q ast.IntervalQualifier) string {
	if q.To == "" {
		return ""
	}
	return " TO " + string(q.To)
}

// fractionMs reads the digits behind the point of seconds; what is below a ms is cut off.
func fractionMs(s string) (int64, bool) {
	if s == "" {
		return 0, true
	}
	if _, ok := parseDigits(s, 9); !ok {
		return 0, false
	}
	v, _ := strconv.ParseInt((s + "00")[:3], 10, 64)
	return v, true
}
