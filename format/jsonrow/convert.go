package jsonrow

import (
	"math"

	"github.com/tidemark-stream/tidemark/format/spell"
	"github.com/tidemark-stream/tidemark/types"
)

// whole reads a BIGINT or (narrow) an INT. A JSON number loses its fraction if it lies in the
// range of the type; text must be a whole number.
func whole(b []byte, isText, narrow bool) (int64, bool) {
	if isText {
		b = types.TrimSpace(b)
	}
	v, ok := spell.ParseInt(b)
	if ok || isText {
		return v, ok
	}
	f, ok := spell.ParseFloat(b, 64)
	low, high := float64(math.MinInt64), float64(math.MaxInt64)
	if narrow {
		low, high = math.MinInt32, math.MaxInt32
	}
	if !ok || !isFraction(b) || f < low || f > high {
		return 0, false
	}
	if f >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(f), true
}

func isFraction(b []byte) bool {
	for _, c := range b {
		if c == '.' || c|0x20 == 'e' {
			return true
		}
	}
	return false
}
