package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/vec"
)

// timeLayouts are the forms of a time on the command line, without a zone.
var timeLayouts = []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// ParseTime reads a local time as ms: 2013-01-31, 2013-01-31 12:00, with seconds and fractions, a blank or a T
// before the hour, or a number of ms. Windows have local times, so one with an offset is refused.
func ParseTime(s string) (int64, error) {
	s = strings.TrimSpace(s)
	if ms, ok := local(s); ok {
		return ms, nil
	}
	if t, ok := zoned(s); ok {
		return 0, fmt.Errorf("%q has an offset, and times of windows are local (as clocks show them in 'table.local-time-zone'); leave it out, as in '%s', if that is what they show there",
			s, FormatTime(t.UnixMilli()+offsetOf(t)))
	}
	return 0, fmt.Errorf("%q is no time; write it as 2013-01-31 or 2013-01-31 12:00:00", s)
}

// ParseInstant reads an instant as ms since 1970: as ParseTime, such a time being what clocks show in a zone (nil is
// UTC), or with an offset or a Z for UTC.
func ParseInstant(s string, zone *time.Location) (int64, error) {
	s = strings.TrimSpace(s)
	if t, ok := zoned(s); ok {
		return t.UnixMilli(), nil
	}
	ms, ok := local(s)
	if !ok {
		return 0, fmt.Errorf("%q is no time; write it as 2013-01-31, 2013-01-31 12:00:00 or 2013-01-31T12:00:00Z", s)
	}
	if _, err := strconv.ParseInt(s, 10, 64); err == nil || zone == nil {
		return ms, nil
	}
	at := time.UnixMilli(ms).UTC()
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), zone).UnixMilli(), nil
}

func local(s string) (int64, bool) {
	for _, l := range timeLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && len(s) > 8 {
		return ms, true
	}
	return 0, false
}

// zoned reads a time with an offset.
func zoned(s string) (time.Time, bool) {
	for _, l := range timeLayouts[:4] {
		for _, offset := range []string{"Z07:00", " Z07:00", "Z0700", " Z0700", "Z07"} {
			if t, err := time.Parse(l+offset, s); err == nil {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

func offsetOf(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds) * 1000
}

// localTimes reads the bounds and writes them as the planner reads them.
func (b *BackfillOptions) localTimes() error {
	for name, text := range map[string]*string{"--from": &b.From, "--to": &b.To} {
		if *text == "" {
			continue
		}
		ms, err := ParseTime(*text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*text = FormatTime(ms)
	}
	return nil
}

// FormatInstant writes an instant in ms as clocks in a zone show it; zone "" is UTC, or a time that is local.
func FormatInstant(ms int64, zone string) string {
	loc, err := time.LoadLocation(zone)
	if zone == "" || err != nil || ms == vec.MinTime || ms == vec.MaxTime {
		return FormatTime(ms)
	}
	_, offset := time.UnixMilli(ms).In(loc).Zone()
	return FormatTime(ms+int64(offset)*1000) + time.UnixMilli(ms).In(loc).Format(" -07:00")
}

// FormatTime writes a time in ms as ParseTime reads it; vec.MinTime and vec.MaxTime in words.
func FormatTime(ms int64) string {
	switch ms {
	case vec.MinTime:
		return "none yet"
	case vec.MaxTime:
		return "the end of time"
	}
	t := time.UnixMilli(ms).UTC()
	if ms%1000 == 0 {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("2006-01-02 15:04:05.000")
}
