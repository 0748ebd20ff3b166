package types

import (
	"math"
	"time"
)

// Zone converts between instants and local times of a time zone, both in ms since
// 1970-01-01T00:00:00, remembering the offset of the last period looked at. Not safe for
// concurrent use.
type Zone struct {
	loc        *time.Location
	from, to   int64 // instants in ms for which offset holds: from <= t < to
	offset     int64 // ms to add to an instant
	isFixedUTC bool
}

// NewZone returns the Zone of loc; nil means UTC.
func NewZone(loc *time.Location) *Zone {
	if loc == nil {
		loc = time.UTC
	}
	return &Zone{loc: loc, isFixedUTC: loc == time.UTC || loc.String() == "UTC"}
}

// Offset returns the ms that local time is ahead of UTC at the instant ms.
func (z *Zone) Offset(ms int64) int64 {
	if z.isFixedUTC {
		return 0
	}
	if ms < z.from || ms >= z.to {
		z.look(ms)
	}
	return z.offset
}

func (z *Zone) look(ms int64) {
	t := time.UnixMilli(ms).In(z.loc)
	start, end := t.ZoneBounds()
	z.from, z.to = math.MinInt64, math.MaxInt64
	if !start.IsZero() {
		z.from = start.UnixMilli()
	}
	if !end.IsZero() {
		z.to = end.UnixMilli()
	}
	_, off := t.Zone()
	z.offset = int64(off) * MsPerSecond
}

// ToLocal returns the local time of an instant.
func (z *Zone) ToLocal(ms int64) int64 { return ms + z.Offset(ms) }

// ToInstant returns the instant of a local time. As in Java, a local time that occurs twice means
// the first, and one that is skipped moves on by the length of the gap.
func (z *Zone) ToInstant(local int64) int64 {
	if z.isFixedUTC {
		return local
	}
	// Away from a change of the offset the period known decides.
	if u := local - z.offset; u-MsPerDay >= z.from && u+MsPerDay < z.to {
		return u
	}
	before, after := z.Offset(local-MsPerDay), z.Offset(local+MsPerDay)
	if before == after || z.Offset(local-before) == before {
		return local - before
	}
	if z.Offset(local-after) == after {
		return local - after
	}
	return local - before
}
