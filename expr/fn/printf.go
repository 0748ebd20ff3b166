package fn

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	expr.Register(expr.Func{
		Name: "PRINTF", Usage: "PRINTF(format, x, ...)", Category: catString,
		Doc: "The format with each directive replaced by an argument, as Java's String.format does: %s %d %x %o %f %e %c %b %n %% with the " +
			"flags - 0 + , # blank ( and width, precision and position. NULL where the format is NULL or does not go with the arguments.",
		Infer: sigMany(maybe(types.StringType), 1, str, printable), Compile: kernel(expr.EachRowNullable(printf)),
	})
}

var printable = want{name: "a string, number, boolean or time", def: types.StringType,
	ok: func(t types.Type) bool {
		return !t.IsNested() && !t.IsBinary() && !t.IsInterval() && t.Kind != types.Symbol
	}}

// directive is one %... of a format.
type directive struct {
	flags     string
	width     int
	precision int // -1: not given
	verb      byte
}

func (d directive) has(flag byte) bool { return strings.IndexByte(d.flags, flag) >= 0 }

func printf(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
	if args[0].IsNull(i) {
		out.SetNull(i)
		return
	}
	buf, next := out.BeginBytes(), 1
	for f := string(args[0].Bytes(i)); f != ""; {
		k := strings.IndexByte(f, '%')
		if k < 0 {
			buf = append(buf, f...)
			break
		}
		buf, f = append(buf, f[:k]...), f[k+1:]
		d, index, rest, ok := readDirective(f)
		if !ok {
			out.SetNull(i)
			return
		}
		f = rest
		switch d.verb {
		case '%':
			buf = d.pad(buf, "%")
			continue
		case 'n':
			buf = append(buf, '\n')
			continue
		}
		at := index
		if at == 0 {
			at = next
			next++
		}
		if at >= len(args) {
			out.SetNull(i)
			return
		}
		if buf, ok = d.format(buf, args[at], i); !ok {
			out.SetNull(i)
			return
		}
	}
	out.EndBytes(i, buf)
}

// readDirective reads [position$][flags][width][.precision]verb.
func readDirective(f string) (d directive, index int, rest string, ok bool) {
	number := func() int {
		k := 0
		for k < len(f) && k < 6 && f[k] >= '0' && f[k] <= '9' {
			k++
		}
		n, _ := strconv.Atoi(f[:k])
		f = f[k:]
		return n
	}
	if f != "" && f[0] >= '1' && f[0] <= '9' {
		all := f
		n := number()
		if strings.HasPrefix(f, "$") {
			index, f = n, f[1:]
		} else {
			f = all
		}
	}
	k := 0
	for k < len(f) && strings.IndexByte("-#+ 0,(", f[k]) >= 0 {
		k++
	}
	d.flags, f = f[:k], f[k:]
	d.width, d.precision = number(), -1
	if strings.HasPrefix(f, ".") {
		f = f[1:]
		if f == "" || f[0] < '0' || f[0] > '9' {
			return d, 0, "", false
		}
		d.precision = number()
	}
	if f == "" || d.has('-') && (d.width == 0 || d.has('0')) {
		return d, 0, "", false
	}
	d.verb = f[0]
	return d, index, f[1:], true
}

// pad appends s with blanks up to the width.
func (d directive) pad(dst []byte, s string) []byte {
	fill := d.width - utf8.RuneCountInString(s)
	if d.has('-') {
		dst = append(dst, s...)
	}
	for ; fill > 0; fill-- {
		dst = append(dst, ' ')
	}
	if !d.has('-') {
		dst = append(dst, s...)
	}
	return dst
}

// format appends value i of v, or returns false where the directive does not go with its type.
func (d directive) format(dst []byte, v *vec.Vec, i int) ([]byte, bool) {
	upper := d.verb >= 'A' && d.verb <= 'Z'
	s, ok := "null", true
	switch null := v.IsNull(i); d.verb | 0x20 {
	case 's':
		if !null {
			s = plainText(v, i)
		}
		s = d.cut(s)
	case 'b':
		s = strconv.FormatBool(!null && (v.Type.Kind != types.Boolean || v.Bool[i]))
		s = d.cut(s)
	case 'c':
		if !null {
			s, ok = character(v, i)
		}
	case 'd', 'x', 'o':
		ok = v.Type.IsInteger() && d.precision < 0 && d.verb != 'D' && d.verb != 'O'
		if ok && !null {
			s = d.whole(v, i)
		}
	case 'f', 'e':
		ok = (v.Type.IsApprox() || v.Type.Kind == types.Decimal) && d.verb != 'F'
		if ok && !null {
			s = d.fraction(v, i)
		}
	default:
		ok = false
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return d.pad(dst, s), ok
}

func (d directive) cut(s string) string {
	if d.precision >= 0 && d.precision < utf8.RuneCountInString(s) {
		return s[:offset([]byte(s), d.precision)]
	}
	return s
}

func character(v *vec.Vec, i int) (string, bool) {
	if v.Type.IsInteger() {
		r := expr.IntAt(v, i)
		return string(rune(r)), r >= 0 && r <= utf8.MaxRune
	}
	if !v.Type.IsString() {
		return "", false
	}
	s := v.Bytes(i)
	_, w := utf8.DecodeRune(s)
	return string(s), len(s) > 0 && w == len(s)
}

func (d directive) whole(v *vec.Vec, i int) string {
	x := expr.IntAt(v, i)
	if d.verb == 'd' {
		return d.signed(strconv.FormatInt(max(x, -x), 10), x < 0)
	}
	u := uint64(x)
	if v.Phys == types.PI32 {
		u = uint64(uint32(x))
	}
	s, prefix := strconv.FormatUint(u, 16), "0x"
	if d.verb == 'o' {
		s, prefix = strconv.FormatUint(u, 8), "0"
	}
	if !d.has('#') {
		prefix = ""
	}
	for d.has('0') && len(prefix)+len(s) < d.width {
		s = "0" + s
	}
	return prefix + s
}

func (d directive) fraction(v *vec.Vec, i int) string {
	p := d.precision
	if p < 0 {
		p = 6
	}
	if v.Type.Kind == types.Decimal && d.verb == 'f' {
		x := expr.DecimalAt(v, i)
		r, _ := x.Rescale(v.Type.Scale, min(p, types.MaxPrecision-v.Type.Precision+v.Type.Scale))
		s := strings.TrimPrefix(string(types.AppendDecimal(nil, r, min(p, types.MaxPrecision-v.Type.Precision+v.Type.Scale))), "-")
		return d.signed(s, x.Sign() < 0)
	}
	f := 0.0
	if v.Type.Kind == types.Decimal {
		f = expr.DecimalAt(v, i).Float64(v.Type.Scale)
	} else {
		f = expr.FloatAt(v, i)
	}
	s := strconv.FormatFloat(f, d.verb|0x20, p, 64)
	neg := strings.HasPrefix(s, "-")
	return d.signed(strings.TrimPrefix(s, "-"), neg)
}

// signed puts the sign, the zeros and the commas that the flags ask for around digits.
func (d directive) signed(s string, neg bool) string {
	if d.has(',') {
		whole, frac, point := strings.Cut(s, ".")
		for k := len(whole) - 3; k > 0; k -= 3 {
			whole = whole[:k] + "," + whole[k:]
		}
		if s = whole; point {
			s += "." + frac
		}
	}
	before, after := "", ""
	switch {
	case neg && d.has('('):
		before, after = "(", ")"
	case neg:
		before = "-"
	case d.has('+'):
		before = "+"
	case d.has(' '):
		before = " "
	}
	for d.has('0') && len(before)+len(s)+len(after) < d.width {
		s = "0" + s
	}
	return before + s + after
}

// plainText is value i as %s prints it.
func plainText(v *vec.Vec, i int) string {
	switch v.Type.Kind {
	case types.Char, types.VarChar:
		return string(v.Bytes(i))
	case types.Boolean:
		return strconv.FormatBool(v.Bool[i])
	case types.Float:
		return string(types.AppendFloat(nil, v.F32[i]))
	case types.Double:
		return string(types.AppendDouble(nil, v.F64[i]))
	case types.Decimal:
		return string(types.AppendDecimal(nil, expr.DecimalAt(v, i), v.Type.Scale))
	case types.Date:
		return string(types.AppendDate(nil, v.I32[i]))
	case types.Time:
		return string(types.AppendTime(nil, v.I32[i], v.Type.Precision))
	case types.Timestamp, types.TimestampLTZ:
		ms, nanos := expr.TimestampAt(v, i)
		return string(types.AppendTimestamp(nil, ms, nanos, v.Type.Precision))
	}
	return strconv.FormatInt(expr.IntAt(v, i), 10)
}
