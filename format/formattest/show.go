package formattest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Show prints position i of b as one line, such as +I(1, "a", NULL).
func Show(b *vec.Batch, i int) string {
	parts := make([]string, len(b.Cols))
	for c, v := range b.Cols {
		parts[c] = showValue(v, i)
	}
	return b.Kind(i).String() + "(" + strings.Join(parts, ", ") + ")"
}

// Rows prints the selected rows of b.
func Rows(b *vec.Batch) []string {
	var out []string
	b.Each(func(i int) { out = append(out, Show(b, i)) })
	return out
}

func showValue(v *vec.Vec, i int) string {
	if v.IsNull(i) {
		return "NULL"
	}
	switch v.Type.Kind {
	case types.Char, types.VarChar:
		return quote(string(v.Bytes(i)))
	case types.Binary, types.VarBinary:
		return fmt.Sprintf("x'%x'", v.Bytes(i))
	case types.Boolean:
		return fmt.Sprint(v.Bool[i])
	case types.Float:
		return string(types.AppendFloat(nil, v.F32[i]))
	case types.Double:
		return string(types.AppendDouble(nil, v.F64[i]))
	case types.Decimal:
		return string(types.AppendDecimal(nil, v.Value(i).(types.Int128), v.Type.Scale))
	case types.Timestamp, types.TimestampLTZ:
		ts := v.Value(i).(types.Int128)
		return string(types.AppendTimestamp(nil, ts.Hi, int32(ts.Lo), 9))
	case types.Array, types.Map, types.Multiset:
		return showList(v, i)
	case types.Row:
		parts := make([]string, len(v.Kids))
		for k, kid := range v.Kids {
			parts[k] = showValue(kid, i)
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprint(v.Value(i))
}

// showList prints an array in its order and a map by key.
func showList(v *vec.Vec, i int) string {
	var parts []string
	ref := v.Refs[i]
	for k := int(ref.Off); k < int(ref.Off+ref.Len); k++ {
		s := showValue(v.Kids[0], k)
		if len(v.Kids) == 2 {
			s += ": " + showValue(v.Kids[1], k)
		}
		parts = append(parts, s)
	}
	if len(v.Kids) == 1 {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	sort.Strings(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}

// quote prints s in double quotes, with JSON's escapes for what would not show.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f || r == 0x2028:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
