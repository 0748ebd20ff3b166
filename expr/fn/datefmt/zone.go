package datefmt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Zone converts between UTC and local time of one location. It remembers the last period of
// constant offset, so that rows close in time cost a comparison. Not safe for concurrent use.
type Zone struct {
	Loc *time.Location
	// The period [from, until) of UTC ms in which offset, in ms, holds.
	from, until int64
	offset      int64
	fixed       bool
}

// NewZone returns a converter for loc; nil means UTC.
func NewZone(loc *time.Location) *Zone {
	if loc == nil {
		loc = time.UTC
	}
	z := &Zone{Loc: loc, fixed: loc == time.UTC}
	if z.fixed {
		z.from, z.until = math.MinInt64, math.MaxInt64
	}
	return z
}

// Offset is what to add to the UTC time ms to get local time, in ms.
func (z *Zone) Offset(ms int64) int64 {
	if ms >= z.from && ms < z.until {
		return z.offset
	}
	return z.lookup(ms)
}

func (z *Zone) lookup(ms int64) int64 {
	if z.fixed {
		return 0
	}
	t := time.UnixMilli(ms).In(z.Loc)
	_, off := t.Zone()
	z.offset = int64(off) * 1000
	z.from, z.until = math.MinInt64, math.MaxInt64
	from, until := t.ZoneBounds()
	if !from.IsZero() {
		z.from = from.UnixMilli()
	}
	if !until.IsZero() {
		z.until = until.UnixMilli()
	}
	return z.offset
}

// Local turns UTC ms into local ms.
func (z *Zone) Local(ms int64) int64 { return ms + z.Offset(ms) }

// UTC turns local ms into UTC ms as java.time does: a time that a clock change skips moves on by
// the gap, one that comes twice is the earlier.
func (z *Zone) UTC(local int64) int64 {
	before, after := z.candidates(local)
	if before == after {
		return local - before
	}
	if utc := local - before; z.Offset(utc) == before {
		return utc // unambiguous before the change, or the earlier of two
	}
	if utc := local - after; z.Offset(utc) == after {
		return utc
	}
	return local - before // in the gap
}

// UTCLate is UTC except that a time that comes twice is the later, as java.util.Calendar has it.
func (z *Zone) UTCLate(local int64) int64 {
	before, after := z.candidates(local)
	if before == after {
		return local - before
	}
	if utc := local - after; z.Offset(utc) == after {
		return utc
	}
	return local - before
}

// candidates returns the offsets in force a day before and a day after a local time: zones do not
// change twice within that.
func (z *Zone) candidates(local int64) (before, after int64) {
	if local-Day >= z.from && local+Day < z.until && local-z.offset >= z.from && local-z.offset < z.until {
		return z.offset, z.offset
	}
	return z.Offset(local - Day), z.Offset(local + Day)
}

// LoadZone reads a time zone name as Java's TimeZone does: a region of the tz database, GMT+8,
// GMT+08:00, or UTC. ok is false for names that it does not know; Java takes those for GMT.
func LoadZone(name string) (loc *time.Location, ok bool) {
	for _, p := range []string{"GMT", "UTC", "UT", ""} {
		if rest, found := strings.CutPrefix(name, p); found && rest != "" &&
			(rest[0] == '+' || rest[0] == '-') {
			if off, good := parseOffset(rest); good {
				return time.FixedZone(fmt.Sprintf("GMT%s", rest), off), true
			}
			return time.UTC, false
		}
	}
	switch name {
	case "", "Local":
		return time.UTC, false
	case "Z", "UTC", "GMT", "UT":
		return time.UTC, true
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC, false
	}
	return loc, true
}

// parseOffset reads +8, +08, +0800, +08:00 in seconds.
func parseOffset(s string) (int, bool) {
	sign := 1
	if s[0] == '-' {
		sign = -1
	}
	h, m, colon := strings.Cut(s[1:], ":")
	if !colon && len(h) > 2 {
		h, m = h[:len(h)-2], h[len(h)-2:]
	}
	if m == "" {
		m = "0"
	}
	hh, err1 := strconv.Atoi(h)
	mm, err2 := strconv.Atoi(m)
	if err1 != nil || err2 != nil || hh < 0 || hh > 23 || mm < 0 || mm > 59 || len(m) > 2 {
		return 0, false
	}
	return sign * (hh*3600 + mm*60), true
}
