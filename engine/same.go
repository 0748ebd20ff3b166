package engine

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// sameness turns values of a column into texts that are equal where the values are, whether they come from a job or
// from a table of results: rounded to what the table's target holds, and without what its texts have besides the value.
type sameness struct {
	digits int // of the fraction of a second
	// lists says that lists, maps and rows are never NULL in the target: they are empty there.
	lists bool
}

// nullText is the text of NULL, which no value has.
const nullText = "\x00"

// samenessOf is what a table's target does to values.
func samenessOf(t *connector.Table) sameness {
	switch t.Connector {
	case "postgres":
		return sameness{digits: 6}
	case "clickhouse":
		return sameness{digits: 9, lists: true}
	}
	return sameness{digits: 9}
}

// computed is the text of a job's value.
func (s sameness) computed(v types.Value, t types.Type) string {
	if v == nil {
		return s.null(t)
	}
	switch x := v.(type) {
	case bool:
		return strconv.FormatBool(x)
	case int64:
		switch t.Kind {
		case types.Date:
			return string(types.AppendDate(nil, int32(x)))
		case types.Time:
			return s.clock(int32(x), t)
		}
		return strconv.FormatInt(x, 10)
	case types.Int128:
		if t.IsTimestamp() {
			return s.instant(x.Hi, int64(int32(x.Lo)), t)
		}
		return plainDecimal(string(types.AppendDecimal(nil, x, t.Scale)))
	case float64:
		return floating(x, t)
	case string:
		return s.letters(x, t)
	case []byte:
		return hex.EncodeToString(x)
	case []types.Value:
		return s.list(x, t)
	}
	return fmt.Sprint(v)
}

// null is what NULL is in the target.
func (s sameness) null(t types.Type) string {
	if !s.lists || !t.IsNested() {
		return nullText
	}
	if t.Kind != types.Row {
		return join(nil)
	}
	var parts []string
	for _, f := range t.Fields {
		parts = append(parts, s.null(f.Type))
	}
	return join(parts)
}

// list is a list, a map or a row.
func (s sameness) list(x []types.Value, t types.Type) string {
	parts := make([]string, len(x))
	for i, v := range x {
		parts[i] = s.computed(v, part(t, i))
	}
	return s.parts(parts, t)
}

// part is the type of part i of a list, a map or a row.
func part(t types.Type, i int) types.Type {
	switch {
	case t.Kind == types.Row:
		return t.Fields[i].Type
	case t.Kind == types.Map && i%2 == 0:
		return *t.Key
	case t.Kind == types.Multiset && i%2 == 1:
		return types.IntType
	}
	return *t.Elem
}

// parts puts parts together; those of a map are in no order.
func (s sameness) parts(parts []string, t types.Type) string {
	if t.Kind != types.Map && t.Kind != types.Multiset {
		return join(parts)
	}
	var pairs []string
	for i := 0; i+1 < len(parts); i += 2 {
		pairs = append(pairs, join(parts[i:i+2]))
	}
	slices.Sort(pairs)
	return join(pairs)
}

// join writes texts so that they can be told apart.
func join(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%d:%s,", len(p), p)
	}
	return "[" + b.String() + "]"
}

func (s sameness) letters(x string, t types.Type) string {
	if t.Kind == types.Char {
		return strings.TrimRight(x, " ")
	}
	return x
}

func floating(x float64, t types.Type) string {
	if t.Kind == types.Float {
		return strconv.FormatFloat(float64(float32(x)), 'g', -1, 32)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// plainDecimal is a decimal without the zeros that say nothing.
func plainDecimal(x string) string {
	if strings.Contains(x, ".") {
		x = strings.TrimRight(strings.TrimRight(x, "0"), ".")
	}
	if x == "-0" || x == "" {
		return "0"
	}
	return x
}

// clock is a time of the day in ms.
func (s sameness) clock(ms int32, t types.Type) string {
	unit := [...]int32{1000, 100, 10, 1}[min(max(t.Precision, 0), 3)]
	return strconv.Itoa(int(ms / unit * unit))
}

// instant is a time in ms and ns beyond.
func (s sameness) instant(ms, nanos int64, t types.Type) string {
	unit := int64(1)
	for range 9 - min(t.Precision, s.digits) {
		unit *= 10
	}
	secs, rest := ms/1000, ms%1000
	if rest < 0 {
		secs, rest = secs-1, rest+1000
	}
	nanos += rest * 1_000_000
	return fmt.Sprintf("%d.%09d", secs, nanos/unit*unit)
}

// stored is the text of a value of results.Rows.
func (s sameness) stored(v any, t types.Type) string {
	switch x := v.(type) {
	case nil:
		return s.null(t)
	case bool:
		return strconv.FormatBool(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return floating(x, t)
	case time.Time:
		return s.instant(x.UnixMilli(), int64(x.Nanosecond()%1_000_000), t)
	case string:
		if !t.IsNested() {
			return s.scalar(x, t)
		}
		p := nestedText{s: s, text: x}
		if out, ok := p.value(t, ""); ok && strings.TrimSpace(p.text) == "" {
			return out
		}
		return x
	}
	return fmt.Sprint(v)
}

// scalar is the text of a value that a target has written as text. What is not understood stays as it is.
func (s sameness) scalar(x string, t types.Type) string {
	switch {
	case t.Kind == types.Boolean:
		return strconv.FormatBool(x == "t" || x == "true" || x == "1")
	case t.IsApprox():
		if f, err := strconv.ParseFloat(x, 64); err == nil {
			return floating(f, t)
		}
	case t.Kind == types.Decimal:
		return plainDecimal(x)
	case t.IsString():
		return s.letters(x, t)
	case t.IsBinary():
		return strings.ToLower(strings.TrimPrefix(x, `\x`))
	case t.Kind == types.Date:
		if d, ok := types.ParseDate([]byte(x)); ok {
			return string(types.AppendDate(nil, d))
		}
	case t.Kind == types.Time:
		if ms, ok := types.ParseTime([]byte(x)); ok {
			return s.clock(ms, t)
		}
	case t.IsTimestamp():
		offset := int64(0)
		if m := offsetPattern.FindStringSubmatch(x); m != nil && strings.Contains(x, ":") {
			h, _ := strconv.ParseInt(m[1], 10, 64)
			min, _ := strconv.ParseInt(m[1][:1]+"0"+m[2], 10, 64)
			offset, x = (h*60+min)*60_000, strings.TrimSuffix(x, m[0])
		}
		if ms, nanos, ok := types.ParseTimestamp([]byte(x)); ok {
			return s.instant(ms-offset, int64(nanos), t)
		}
	case t.IsInterval():
		if n, ok := interval(x, t); ok {
			return strconv.FormatInt(n, 10)
		}
	}
	return x
}

var offsetPattern = regexp.MustCompile(`([+-]\d\d):?(\d\d)?$`)

// interval reads a number, or PostgreSQL's text: "1 year 2 mons", "3 days -04:05:06.7".
func interval(x string, t types.Type) (int64, bool) {
	if n, err := strconv.ParseInt(x, 10, 64); err == nil {
		return n, true
	}
	total := int64(0)
	words := strings.Fields(x)
	for i := 0; i < len(words); i++ {
		if strings.Contains(words[i], ":") {
			sign, clock := int64(1), words[i]
			if c, minus := strings.CutPrefix(clock, "-"); minus {
				sign, clock = -1, c
			}
			var h, m int64
			var sec float64
			if n, err := fmt.Sscanf(strings.ReplaceAll(clock, ":", " "), "%d %d %g", &h, &m, &sec); n != 3 || err != nil {
				return 0, false
			}
			total += sign * ((h*60+m)*60_000 + int64(sec*1000+0.5))
			continue
		}
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil || i+1 == len(words) {
			return 0, false
		}
		i++
		unit := map[string]int64{"year": 12, "mon": 1, "day": 86_400_000}[strings.TrimSuffix(words[i], "s")]
		if unit == 0 || (unit > 12) != (t.Kind == types.IntervalDayTime) {
			return 0, false
		}
		total += n * unit
	}
	return total, len(words) > 0
}

// nestedText reads lists, maps and rows as ClickHouse ([1,NULL], {'k':1}, (1,'a')) and PostgreSQL ({1,NULL,"a b"}) write
// them.
type nestedText struct {
	s    sameness
	text string // what is left
}

// value reads a value of type t, which ends before one of the letters of ends where it is not quoted.
func (p *nestedText) value(t types.Type, ends string) (string, bool) {
	p.text = strings.TrimLeft(p.text, " ")
	if !t.IsNested() {
		return p.scalar(t, ends)
	}
	if p.text == "" {
		return "", false
	}
	end := map[byte]string{'[': "]", '{': "}", '(': ")"}[p.text[0]]
	if end == "" {
		if strings.HasPrefix(p.text, "NULL") {
			p.text = p.text[4:]
			return p.s.null(t), true
		}
		return "", false
	}
	p.text = p.text[1:]
	var parts []string
	for i := 0; ; i++ {
		p.text = strings.TrimLeft(p.text, " ")
		if strings.HasPrefix(p.text, end) {
			p.text = p.text[1:]
			return p.s.parts(parts, t), true
		}
		if i > 0 {
			if p.text == "" || !strings.ContainsRune(",:", rune(p.text[0])) {
				return "", false
			}
			p.text = p.text[1:]
		}
		if t.Kind == types.Row && i >= len(t.Fields) {
			return "", false
		}
		stop := "," + end
		if (t.Kind == types.Map || t.Kind == types.Multiset) && i%2 == 0 {
			stop = ":"
		}
		x, ok := p.value(part(t, i), stop)
		if !ok {
			return "", false
		}
		parts = append(parts, x)
	}
}

// scalar reads a quoted value, or one up to a letter of ends.
func (p *nestedText) scalar(t types.Type, ends string) (string, bool) {
	if p.text == "" {
		return "", false
	}
	if q := p.text[0]; q == '\'' || q == '"' {
		x, ok := p.quoted(q)
		if !ok {
			return "", false
		}
		if t.IsBinary() && q == '\'' {
			return hex.EncodeToString([]byte(x)), true
		}
		return p.s.scalar(x, t), true
	}
	n := strings.IndexAny(p.text, ends)
	if n < 0 {
		n = len(p.text)
	}
	x := strings.TrimRight(p.text[:n], " ")
	p.text = p.text[n:]
	if x == "NULL" {
		return p.s.null(t), true
	}
	return p.s.scalar(x, t), true
}

// escapes are what stands behind a backslash in ClickHouse's texts, if not for itself.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '0': 0}

// quoted reads a quoted text.
func (p *nestedText) quoted(q byte) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(p.text); i++ {
		c := p.text[i]
		switch {
		case c == '\\' && i+1 < len(p.text):
			i++
			c = p.text[i]
			if e, ok := escapes[c]; ok && q == '\'' {
				c = e
			}
			b.WriteByte(c)
		case c == q && i+1 < len(p.text) && p.text[i+1] == q:
			i++
			b.WriteByte(c)
		case c == q:
			p.text = p.text[i+1:]
			return b.String(), true
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
