package clickhouse

import (
	"fmt"
	"strconv"
	"strings"
)

// kind is the form that values of a column have in a block.
type kind uint8

const (
	kInt        kind = iota // two's complement of size bytes, little endian, as all numbers
	kUint                   // without a sign
	kBool                   // a byte
	kFloat                  // 4 or 8 bytes
	kDecimal                // kInt, with prec digits of which scale are behind the point
	kString                 // length (uvarint), bytes
	kFixed                  // size bytes
	kUUID                   // two halves, each little endian
	kDate                   // days since 1970, 2 bytes
	kDate32                 // days since 1970, 4 bytes, signed
	kDateTime               // seconds since 1970, 4 bytes
	kDateTime64             // ticks of 10^-scale s since 1970, 8 bytes, signed
	kTime                   // seconds, 4 bytes, signed
	kTime64                 // ticks of 10^-scale s, 8 bytes, signed
	kEnum                   // 1 or 2 bytes
	kIPv4                   // 4 bytes, little endian
	kIPv6                   // 16 bytes as they are written
	kJSON                   // version of the form (8 bytes, once a column), then strings
	kNullable               // a byte a row, 1 for NULL; then the values of kids[0], anything where NULL
	kArray                  // end of each row (8 bytes), then the elements, kids[0]
	kMap                    // end of each row, then the keys, kids[0], then the values, kids[1]
	kTuple                  // the fields, one behind the other
)

// colType is the type of a column, as far as the form of its values goes: LowCardinality and the
// function of SimpleAggregateFunction are left out, and the server puts them back.
type colType struct {
	kind        kind
	size        int // bytes of a value, 0 where it varies or is nested
	prec, scale int
	zone        string           // of kDateTime and kDateTime64; "" is the server's
	names       []string         // of the fields of a kTuple that names them
	enum        map[string]int16 // labels of a kEnum
	kids        []*colType
	name        string // as blocks spell it
}

// inner is t without Nullable.
func (t *colType) inner() (_ *colType, nullable bool) {
	if t.kind == kNullable {
		return t.kids[0], true
	}
	return t, false
}

// plain are types without parameters.
var plain = map[string]colType{
	"Bool": {kind: kBool, size: 1}, "String": {kind: kString}, "UUID": {kind: kUUID, size: 16},
	"Int8": {kind: kInt, size: 1}, "Int16": {kind: kInt, size: 2}, "Int32": {kind: kInt, size: 4}, "Int64": {kind: kInt, size: 8},
	"Int128": {kind: kInt, size: 16}, "Int256": {kind: kInt, size: 32},
	"UInt8": {kind: kUint, size: 1}, "UInt16": {kind: kUint, size: 2}, "UInt32": {kind: kUint, size: 4}, "UInt64": {kind: kUint, size: 8},
	"UInt128": {kind: kUint, size: 16}, "UInt256": {kind: kUint, size: 32},
	"Float32": {kind: kFloat, size: 4}, "Float64": {kind: kFloat, size: 8},
	"Date": {kind: kDate, size: 2}, "Date32": {kind: kDate32, size: 4}, "DateTime": {kind: kDateTime, size: 4}, "Time": {kind: kTime, size: 4},
	"IPv4": {kind: kIPv4, size: 4}, "IPv6": {kind: kIPv6, size: 16}, "JSON": {kind: kJSON},
}

// Bounds on types, which also come out of segments that may be damaged.
const (
	maxTypeDepth = 32
	maxTypeText  = 1 << 20
	maxFixed     = 1 << 24
)

// parseType reads the name of a type as the server writes it. Types that no value can be written to
// are refused.
func parseType(s string) (*colType, error) {
	if len(s) > maxTypeText {
		return nil, fmt.Errorf("the name of a type has %d bytes", len(s))
	}
	p := typeParser{s: s}
	t, err := p.typ(0)
	if err == nil && p.at < len(p.s) {
		err = p.wrong("the end")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

type typeParser struct {
	s  string
	at int
}

func (p *typeParser) wrong(want string) error {
	return fmt.Errorf("the type %.200q is not understood: %s is expected at %d", p.s, want, p.at)
}

func (p *typeParser) space() {
	for p.at < len(p.s) && p.s[p.at] == ' ' {
		p.at++
	}
}

func (p *typeParser) take(c byte) bool {
	p.space()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

// word reads a name, also one in backquotes or double quotes.
func (p *typeParser) word() string {
	p.space()
	if p.at < len(p.s) && (p.s[p.at] == '`' || p.s[p.at] == '"') {
		w, _ := p.quoted(p.s[p.at])
		return w
	}
	from := p.at
	for p.at < len(p.s) && (p.s[p.at] == '_' || p.s[p.at] >= '0' && p.s[p.at] <= '9' || p.s[p.at]|0x20 >= 'a' && p.s[p.at]|0x20 <= 'z' || p.s[p.at] >= 0x80) {
		p.at++
	}
	return p.s[from:p.at]
}

// quoted reads text between quotes, with escapes by a backslash or a second quote.
func (p *typeParser) quoted(quote byte) (string, bool) {
	if !p.take(quote) {
		return "", false
	}
	var b strings.Builder
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		switch {
		case c == '\\' && p.at < len(p.s):
			c = p.s[p.at]
			p.at++
			if i := strings.IndexByte("abfnrtv0", c); i >= 0 {
				c = "\a\b\f\n\r\t\v\x00"[i]
			}
			b.WriteByte(c)
		case c == quote && p.at < len(p.s) && p.s[p.at] == quote:
			p.at++
			b.WriteByte(c)
		case c == quote:
			return b.String(), true
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func (p *typeParser) number() (int, error) {
	p.space()
	from := p.at
	if p.at < len(p.s) && p.s[p.at] == '-' {
		p.at++
	}
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.ParseInt(p.s[from:p.at], 10, 32)
	if err != nil {
		return 0, p.wrong("a number")
	}
	return int(n), nil
}

func (p *typeParser) expect(c byte) error {
	if !p.take(c) {
		return p.wrong("'" + string(c) + "'")
	}
	return nil
}

func (p *typeParser) typ(depth int) (*colType, error) {
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("the type %.80q... is nested too deep", p.s)
	}
	p.space()
	from := p.at
	name := p.word()
	if t, ok := plain[name]; ok && !(p.at < len(p.s) && p.s[p.at] == '(') {
		t.name = name
		return &t, nil
	}
	if p.at < len(p.s) && p.s[p.at] == '(' {
		p.at++
		t, err := p.args(name, depth+1)
		if err != nil {
			return nil, err
		}
		if err := p.expect(')'); err != nil {
			return nil, err
		}
		if t.name == "" {
			t.name = p.s[from:p.at]
		}
		return t, nil
	}
	return nil, fmt.Errorf("values of type %.200q cannot be written", name)
}

// args reads what is in the parentheses behind name.
func (p *typeParser) args(name string, depth int) (*colType, error) {
	switch name {
	case "Nullable", "Array":
		kid, err := p.typ(depth)
		if err != nil {
			return nil, err
		}
		if name == "Array" {
			return &colType{kind: kArray, kids: []*colType{kid}, name: "Array(" + kid.name + ")"}, kid.nests()
		}
		if kid.size == 0 && kid.kind != kString {
			return nil, fmt.Errorf("values of type Nullable(%.200s) cannot be written", kid.name)
		}
		return &colType{kind: kNullable, kids: []*colType{kid}, name: "Nullable(" + kid.name + ")"}, nil
	case "LowCardinality":
		return p.typ(depth)
	case "SimpleAggregateFunction":
		if err := p.skipArgument(); err != nil {
			return nil, err
		}
		return p.typ(depth)
	case "Map":
		return p.mapOf(depth)
	case "Tuple":
		return p.tuple(depth)
	case "Nested":
		t, err := p.tuple(depth)
		if err != nil {
			return nil, err
		}
		return &colType{kind: kArray, kids: []*colType{t}, name: "Array(" + t.name + ")"}, nil
	case "JSON":
		for depth := 1; p.at < len(p.s); p.at++ {
			switch c := p.s[p.at]; {
			case c == '\'' || c == '`' || c == '"':
				if _, ok := p.quoted(c); !ok {
					return nil, p.wrong("the end of a quote")
				}
				p.at--
			case c == '(':
				depth++
			case c == ')':
				if depth--; depth == 0 {
					return &colType{kind: kJSON}, nil
				}
			}
		}
		return nil, p.wrong("')'")
	case "Enum8", "Enum16", "Enum":
		return p.enum(name)
	}
	return p.scalar(name)
}

// skipArgument skips the function of a SimpleAggregateFunction, and the comma behind it.
func (p *typeParser) skipArgument() error {
	for depth := 0; p.at < len(p.s); p.at++ {
		switch p.s[p.at] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				p.at++
				return nil
			}
		}
	}
	return p.wrong("','")
}

func (p *typeParser) mapOf(depth int) (*colType, error) {
	key, err := p.typ(depth)
	if err != nil {
		return nil, err
	}
	if err := p.expect(','); err != nil {
		return nil, err
	}
	value, err := p.typ(depth)
	if err != nil {
		return nil, err
	}
	if err := key.nests(); err != nil {
		return nil, err
	}
	return &colType{kind: kMap, kids: []*colType{key, value}, name: "Map(" + key.name + ", " + value.name + ")"}, value.nests()
}

// nests refuses types that cannot be written within others.
func (t *colType) nests() error {
	if t.kind == kJSON {
		return fmt.Errorf("values of type %.200s within other types cannot be written", t.name)
	}
	return nil
}

func (p *typeParser) tuple(depth int) (*colType, error) {
	t := &colType{kind: kTuple}
	var names []string
	for {
		p.space()
		from := p.at
		name := p.word()
		p.space()
		if p.at >= len(p.s) || strings.IndexByte("(,)", p.s[p.at]) >= 0 { // no name: the word was the type
			p.at, name = from, ""
		}
		kid, err := p.typ(depth)
		if err != nil {
			return nil, err
		}
		if err := kid.nests(); err != nil {
			return nil, err
		}
		t.kids = append(t.kids, kid)
		if name != "" {
			t.names = append(t.names, name)
			names = append(names, quote(name)+" "+kid.name)
		} else {
			names = append(names, kid.name)
		}
		if !p.take(',') {
			break
		}
	}
	if len(t.names) != len(t.kids) {
		t.names = nil
	}
	t.name = "Tuple(" + strings.Join(names, ", ") + ")"
	return t, nil
}

func (p *typeParser) enum(name string) (*colType, error) {
	t := &colType{kind: kEnum, size: 1, enum: map[string]int16{}}
	if name == "Enum16" {
		t.size = 2
	}
	for {
		p.space()
		label, ok := p.quoted('\'')
		if !ok {
			return nil, p.wrong("a label in quotes")
		}
		if err := p.expect('='); err != nil {
			return nil, err
		}
		n, err := p.number()
		if err != nil {
			return nil, err
		}
		if n < -1<<15 || n >= 1<<15 || t.size == 1 && (n < -1<<7 || n >= 1<<7) {
			return nil, p.wrong("a smaller number")
		}
		t.enum[label] = int16(n)
		if !p.take(',') {
			return t, nil
		}
	}
}

// scalar reads the parameters of types that only have numbers and a time zone.
func (p *typeParser) scalar(name string) (*colType, error) {
	var nums []int
	zone := ""
	for {
		p.space()
		if p.at < len(p.s) && p.s[p.at] == '\'' {
			zone, _ = p.quoted('\'')
		} else {
			n, err := p.number()
			if err != nil {
				return nil, fmt.Errorf("values of type %.200q cannot be written", name)
			}
			nums = append(nums, n)
		}
		if !p.take(',') {
			break
		}
	}
	n := func(i int) int {
		if i < len(nums) {
			return nums[i]
		}
		return 0
	}
	t := &colType{zone: zone, scale: n(0)}
	switch name {
	case "FixedString":
		t.kind, t.size, t.scale = kFixed, n(0), 0
		if t.size < 1 || t.size > maxFixed {
			return nil, p.wrong("another length")
		}
	case "DateTime":
		t.kind, t.size, t.scale = kDateTime, 4, 0
	case "DateTime64", "Time64":
		t.kind, t.size = kDateTime64, 8
		if name == "Time64" {
			t.kind = kTime64
		}
		if t.scale < 0 || t.scale > 9 {
			return nil, p.wrong("a scale of 0 to 9")
		}
	case "Decimal", "Decimal32", "Decimal64", "Decimal128", "Decimal256":
		t.kind, t.prec, t.scale = kDecimal, n(0), n(1)
		if fixed := map[string]int{"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}[name]; fixed > 0 {
			t.prec, t.scale = fixed, n(0)
		}
		if t.prec < 1 || t.prec > 76 || t.scale < 0 || t.scale > t.prec {
			return nil, p.wrong("another precision")
		}
		switch {
		case t.prec <= 9:
			t.size = 4
		case t.prec <= 18:
			t.size = 8
		case t.prec <= 38:
			t.size = 16
		default:
			t.size = 32
		}
	default:
		return nil, fmt.Errorf("values of type %.200q cannot be written", name)
	}
	return t, nil
}
