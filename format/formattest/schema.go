package formattest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// ParseSchema reads column definitions such as "a INT, b ROW<x STRING, y ARRAY<DECIMAL(5, 2)>>".
// It panics on anything else: it is for tests.
func ParseSchema(s string) types.Schema {
	p := &schemaParser{text: s}
	fields := p.fields()
	if p.text = strings.TrimSpace(p.text); p.text != "" {
		panic(fmt.Sprintf("BUG: schema %q: unread: %q", s, p.text))
	}
	return types.NewSchema(fields...)
}

type schemaParser struct{ text string }

func (p *schemaParser) fields() []types.Field {
	var out []types.Field
	for {
		name := p.word()
		out = append(out, types.Field{Name: name, Type: p.typ()})
		if !p.eat(",") {
			return out
		}
	}
}

// word reads an identifier, in backquotes where it is not a plain one.
func (p *schemaParser) word() string {
	p.text = strings.TrimLeft(p.text, " ")
	if p.eat("`") {
		name, rest, _ := strings.Cut(p.text, "`")
		p.text = rest
		return name
	}
	n := 0
	for n < len(p.text) && !strings.ContainsRune(" ,<>()`", rune(p.text[n])) {
		n++
	}
	w := p.text[:n]
	p.text = p.text[n:]
	return w
}

func (p *schemaParser) eat(s string) bool {
	p.text = strings.TrimLeft(p.text, " ")
	rest, ok := strings.CutPrefix(p.text, s)
	if ok {
		p.text = rest
	}
	return ok
}

// numbers reads (a) or (a, b), with defaults for what is not there.
func (p *schemaParser) numbers(a, b int) (int, int) {
	if !p.eat("(") {
		return a, b
	}
	a, _ = strconv.Atoi(p.word())
	if p.eat(",") {
		p.eat(" ")
		b, _ = strconv.Atoi(p.word())
	}
	p.eat(")")
	return a, b
}

var simple = map[string]types.Type{
	"BOOLEAN": types.BooleanType, "TINYINT": types.TinyIntType, "SMALLINT": types.SmallIntType,
	"INT": types.IntType, "BIGINT": types.BigIntType, "FLOAT": types.FloatType,
	"DOUBLE": types.DoubleType, "STRING": types.StringType, "BYTES": types.BytesType,
	"DATE": types.DateType,
}

func (p *schemaParser) typ() types.Type {
	w := p.word()
	if t, ok := simple[w]; ok {
		return t
	}
	switch w {
	case "DECIMAL":
		return types.DecimalType(p.numbers(10, 0))
	case "CHAR":
		n, _ := p.numbers(1, 0)
		return types.CharType(n)
	case "VARCHAR":
		n, _ := p.numbers(1, 0)
		return types.VarCharType(n)
	case "TIME":
		n, _ := p.numbers(0, 0)
		return types.TimeType(n)
	case "TIMESTAMP":
		n, _ := p.numbers(6, 0)
		return types.TimestampType(n)
	case "TIMESTAMP_LTZ":
		n, _ := p.numbers(6, 0)
		return types.TimestampLTZType(n)
	case "INTERVAL":
		return p.interval()
	}
	if !p.eat("<") {
		panic(fmt.Sprintf("BUG: type %q", w))
	}
	defer p.eat(">")
	switch w {
	case "ARRAY":
		return types.ArrayType(p.typ())
	case "MULTISET":
		return types.MultisetType(p.typ())
	case "ROW":
		return types.RowType(p.fields()...)
	case "MAP":
		key := p.typ()
		p.eat(",")
		return types.MapType(key, p.typ())
	}
	panic(fmt.Sprintf("BUG: type %q", w))
}

func (p *schemaParser) interval() types.Type {
	if p.eat("YEAR TO MONTH") {
		return types.Type{Kind: types.IntervalYearMonth, Nullable: true}
	}
	p.eat("DAY TO SECOND(3)")
	return types.Type{Kind: types.IntervalDayTime, Nullable: true, Precision: 3}
}
