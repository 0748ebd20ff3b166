package window

import (
	"fmt"
	"math"
	"time"
)

// zone converts between instants and wall-clock time as Flink's TimeWindowUtil does. A nil zone
// is that of TIMESTAMP, where both are the same.
type zone struct {
	loc *time.Location
	// Between the instants from and to (exclusive) the offset is off: the last one looked up.
	from, to, off int64
}

func newZone(name string) (*zone, error) {
	if name == "" || name == "UTC" {
		return nil, nil
	}
	loc, err := LoadZone(name)
	if err != nil {
		return nil, err
	}
	return &zone{loc: loc}, nil
}

// LoadZone finds a time zone by its name in the time zone database or by an offset such as
// GMT+08:00.
func LoadZone(name string) (*time.Location, error) {
	if loc, err := time.LoadLocation(name); err == nil {
		return loc, nil
	}
	var sign rune
	var h, m int
	rest := name
	for _, p := range []string{"GMT", "UTC", "UT"} {
		if len(rest) > len(p) && rest[:len(p)] == p {
			rest = rest[len(p):]
			break
		}
	}
	if n, _ := fmt.Sscanf(rest, "%c%d:%d", &sign, &h, &m); n >= 2 && (sign == '+' || sign == '-') {
		secs := h*3600 + m*60
		if sign == '-' {
			secs = -secs
		}
		return time.FixedZone(name, secs), nil
	}
	return nil, fmt.Errorf("unknown time zone %q; write a name such as Europe/Berlin or an offset "+
		"such as GMT+08:00 in table.local-time-zone", name)
}

// offset is local time minus the instant.
func (z *zone) offset(instant int64) int64 {
	if instant >= z.from && instant < z.to {
		return z.off
	}
	t := time.UnixMilli(instant).In(z.loc)
	_, secs := t.Zone()
	start, end := t.ZoneBounds()
	z.from, z.to, z.off = math.MinInt64, math.MaxInt64, int64(secs)*1000
	if !start.IsZero() {
		z.from = start.UnixMilli()
	}
	if !end.IsZero() {
		z.to = end.UnixMilli()
	}
	return z.off
}

// local is the wall-clock time of an instant.
func (z *zone) local(instant int64) int64 {
	if z == nil {
		return instant
	}
	return instant + z.offset(instant)
}

const day = 24 * 60 * 60 * 1000

// instant is the instant of a wall-clock time: the earlier one where clocks were set back, and
// where they were set forward, what the clock would have shown without that.
func (z *zone) instant(local int64) int64 {
	if z == nil || local > math.MaxInt64-2*day || local < math.MinInt64+2*day {
		return local
	}
	before, after := z.offset(local-day), z.offset(local+day)
	if before == after {
		return local - before
	}
	if u := local - before; z.offset(u) == before {
		return u
	}
	if u := local - after; z.offset(u) == after {
		return u
	}
	return local - before
}

const hour = 60 * 60 * 1000

// timer is the instant at which a window whose last millisecond is local is over: the later one
// where clocks were set back.
func (z *zone) timer(local int64) int64 {
	if z == nil {
		return local
	}
	t1, t2 := z.instant(local), z.instant(local+hour)
	if t2-t1 > hour {
		return t2 - hour
	}
	return t1
}
