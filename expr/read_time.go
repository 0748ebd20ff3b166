package expr

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/types"
)

// ParseDate reads a date as Flink's CAST does: as types.ParseDate, but a day that the month does not
// have is no date.
func ParseDate(b []byte) (days int32, ok bool) {
	days, ok = types.ParseDate(b)
	if !ok {
		return 0, false
	}
	// A day beyond the month came out as one of the first three of the next.
	_, _, day := types.CivilFromDays(days)
	return days, day > 3 || dayOf(b) == day
}

// dayOf is the day in a text that ParseDate has read.
func dayOf(b []byte) (day int) {
	if i := bytes.IndexByte(b, ' '); i > 0 {
		b = b[:i]
	}
	if bytes.Count(b, []byte("-")) < 2 {
		return 1
	}
	for _, c := range types.TrimSpace(b[bytes.LastIndexByte(b, '-')+1:]) {
		day = 10*day + int(c-'0')
	}
	return day
}

// firstMs is 0001-01-01 00:00:00: Flink's texts of timestamps know no year 0 and none before.
const firstMs = -62135596800000

// ParseTimestamp reads a timestamp as Flink's CAST does: as types.ParseSQLTimestamp, from the year 1
// on, and 24:00:00 is the start of the next day.
func ParseTimestamp(b []byte) (ms int64, nanos int32, ok bool) {
	if ms, nanos, ok = types.ParseSQLTimestamp(b); !ok {
		ms, ok = endOfDay(b)
	}
	return ms, nanos, ok && ms >= firstMs
}

// endOfDay reads a timestamp at 24 o'clock.
func endOfDay(b []byte) (ms int64, ok bool) {
	at := bytes.IndexByte(b, ' ') + 1
	var midnight [48]byte
	if at == 0 || len(b) > len(midnight) || !bytes.HasPrefix(b[at:], []byte("24:")) {
		return 0, false
	}
	for _, c := range b[at+2:] {
		if c != '0' && c != ':' && c != '.' {
			return 0, false
		}
	}
	copy(midnight[:], b)
	midnight[at], midnight[at+1] = '0', '0'
	ms, _, ok = types.ParseSQLTimestamp(midnight[:len(b)])
	return ms + types.MsPerDay, ok
}
