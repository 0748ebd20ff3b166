package formattest

import (
	"math"

	"github.com/tidemark-stream/tidemark/types"
)

// value makes a random value of t. Values are such that every format can carry them: maps have
// distinct keys, floats are numbers.
func (h *harness) value(t types.Type) types.Value {
	if !(h.suite.FlatNulls && t.IsNested()) && h.rng.IntN(6) == 0 {
		return nil
	}
	switch t.Kind {
	case types.Boolean:
		return h.rng.IntN(2) == 0
	case types.TinyInt:
		return int64(int8(h.rng.Uint64()))
	case types.SmallInt:
		return int64(int16(h.rng.Uint64()))
	case types.Int:
		return int64(int32(h.bits()))
	case types.BigInt:
		return h.bits()
	case types.IntervalYearMonth, types.IntervalDayTime:
		return int64(h.rng.IntN(1000))
	case types.Float:
		return float64(float32(h.float()))
	case types.Double:
		return h.float()
	case types.Decimal:
		return h.decimal(t.Precision)
	case types.Char, types.VarChar:
		return h.text()
	case types.Binary, types.VarBinary:
		b := make([]byte, h.rng.IntN(12))
		for i := range b {
			b[i] = byte(h.rng.IntN(256))
		}
		return b
	case types.Date:
		return int64(h.rng.IntN(40000)) - 10000
	case types.Time:
		return int64(h.rng.IntN(86400)) * 1000
	case types.Timestamp, types.TimestampLTZ:
		return h.timestamp(t.Precision)
	}
	return h.nested(t)
}

func (h *harness) nested(t types.Type) types.Value {
	n := h.rng.IntN(4)
	if h.suite.FlatNulls {
		n++
	}
	var out []types.Value
	switch t.Kind {
	case types.Array:
		for range n {
			out = append(out, h.value(*t.Elem))
		}
	case types.Map, types.Multiset:
		for i := range n {
			out = append(out, h.text()+string(rune('a'+i)))
			if t.Kind == types.Multiset {
				out = append(out, int64(1+h.rng.IntN(9)))
				continue
			}
			out = append(out, h.value(*t.Elem))
		}
	case types.Row:
		for _, f := range t.Fields {
			out = append(out, h.value(f.Type))
		}
	}
	if out == nil {
		out = []types.Value{}
	}
	return out
}

// bits makes numbers of all lengths.
func (h *harness) bits() int64 {
	switch h.rng.IntN(8) {
	case 0:
		return math.MinInt64
	case 1:
		return math.MaxInt64
	}
	return int64(h.rng.Uint64()) >> h.rng.IntN(64)
}

func (h *harness) float() float64 {
	switch h.rng.IntN(4) {
	case 0:
		return float64(h.rng.IntN(100000)) / 100
	case 1:
		return -float64(h.rng.IntN(1000))
	case 2:
		return math.Float64frombits(h.rng.Uint64()&^(0x7ff<<52) | (1023-60+h.rng.Uint64N(120))<<52)
	}
	return h.rng.NormFloat64()
}

func (h *harness) decimal(precision int) types.Int128 {
	x := types.I128(0)
	for range h.rng.IntN(precision + 1) {
		x, _ = x.Mul(types.I128(10))
		x = x.Add(types.I128(int64(h.rng.IntN(10))))
	}
	if h.rng.IntN(2) == 0 {
		x = x.Neg()
	}
	return x
}

func (h *harness) timestamp(precision int) types.Int128 {
	ms := h.rng.Int64N(4e12) - 1e12
	if h.rng.IntN(3) == 0 {
		ms = ms / 1000 * 1000
	}
	if precision <= 3 {
		return types.TS(ms, 0)
	}
	return types.TS(ms, int32(h.rng.IntN(1e6)))
}

// text makes strings with the characters that formats care about.
func (h *harness) text() string {
	alphabets := []string{
		"abcdefghijklmnopqrstuvwxyz0123456789",
		"abc,;:\"\\/'{}[]#\n\t ",
		"a\u00e9\u4e2d\U0001f600\u2028",
		"\u0001\u001f\u007f\b\f\"\\",
	}
	letters := []rune(alphabets[h.rng.IntN(len(alphabets))])
	n := h.rng.IntN(12)
	if h.rng.IntN(8) == 0 {
		n += 60
	}
	out := make([]rune, n)
	for i := range out {
		out[i] = letters[h.rng.IntN(len(letters))]
	}
	return string(out)
}
