package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Windows keep no timers: when they fire follows from their ends and from the watermark. TimerSchema
// is what that comes to, a row a window that has entries.
var TimerSchema = types.Schema{Fields: []types.Field{
	{Name: "window_start", Type: types.TimestampType(3)},
	{Name: "window_end", Type: types.TimestampType(3)},
	// When the watermark (or, by processing time, the clock) is there, the window is over.
	{Name: "fires_at", Type: types.TimestampLTZType(3)},
	{Name: "fired", Type: types.BooleanType},
	// Of slices, which several windows share, those of all that the window is made of.
	{Name: "entries", Type: types.BigIntType},
}}

// Timers is the name that the windows of an operator are looked at by, beside those of its states.
const Timers = "timers"

// TimerTable is the name of the table of an operator's timers, "" where it has none.
func TimerTable(o *checkpoint.Operator) string {
	if windowsOf(o) == nil {
		return ""
	}
	return fmt.Sprintf("%d/%s", o.Node, Timers)
}

// windows is what the description of an operator says of its windows.
type windows struct {
	kind               string // "" where rows bring their windows
	size, step, offset int64
	zone               *time.Location
	processing         bool
}

var (
	shapedWindows = regexp.MustCompile(`^WindowAgg\((\w+) size (\d+) step (\d+) offset (-?\d+) ms in ("(?:[^"\\]|\\.)*"), (event|processing) time`)
	givenWindows  = regexp.MustCompile(`^WindowAgg\(windows of the rows in ("(?:[^"\\]|\\.)*")`)
)

// windowsOf returns nil for operators without windows.
func windowsOf(o *checkpoint.Operator) *windows {
	w, zone := &windows{}, ""
	if m := shapedWindows.FindStringSubmatch(o.Describe); m != nil {
		w.kind, zone, w.processing = m[1], m[5], m[6] == "processing"
		for i, p := range []*int64{&w.size, &w.step, &w.offset} {
			n, err := strconv.ParseInt(m[2+i], 10, 64)
			if err != nil {
				return nil
			}
			*p = n
		}
	} else if m := givenWindows.FindStringSubmatch(o.Describe); m != nil {
		zone = m[1]
	} else {
		return nil
	}
	name, err := strconv.Unquote(zone)
	if err != nil {
		return nil
	}
	if w.zone = time.UTC; name != "" && name != "UTC" {
		if w.zone, err = window.LoadZone(name); err != nil {
			return nil
		}
	}
	return w
}

// span is a window in local time, ms. start is unknown where there is none.
type span struct{ start, end int64 }

const unknown = math.MinInt64

// Watermark returns how far time had come in an operator with windows: the least of its subtasks.
func Watermark(o *checkpoint.Operator) (wm int64, ok bool) {
	if windowsOf(o) == nil {
		return 0, false
	}
	wm = vec.MaxTime
	for _, h := range o.Heads {
		if len(h) < 13 || h[0] != 1 { // version, watermark, number of levels: see exec/window
			return 0, false
		}
		wm = min(wm, int64(binary.LittleEndian.Uint64(h[1:])))
	}
	return wm, len(o.Heads) > 0
}

// timers calls f with the windows of an operator that have entries, in the order in which they fire,
// in batches of TimerSchema.
func (s *Savepoint) timers(ctx context.Context, o *checkpoint.Operator, f func(b *vec.Batch) error) error {
	w := windowsOf(o)
	wm, _ := Watermark(o)
	found := map[span]int64{}
	for st, sp := range o.States {
		if isValues(sp) {
			continue
		}
		schema := EntrySchema(sp)
		at := func(name string) int { return schema.Index(name) }
		var of func(b *vec.Batch, i int)
		switch {
		case at("session_start") >= 0 && at("session_end") >= 0:
			from, to := at("session_start"), at("session_end")
			of = func(b *vec.Batch, i int) { found[span{b.Cols[from].I64[i], b.Cols[to].I64[i]}]++ }
		case at("window_end") >= 0:
			from, to := at("window_start"), at("window_end")
			of = func(b *vec.Batch, i int) {
				x := span{w.start(b.Cols[to].I64[i]), b.Cols[to].I64[i]}
				if from >= 0 {
					x.start = b.Cols[from].I64[i]
				}
				found[x]++
			}
		case at("slice_end") >= 0:
			end := at("slice_end")
			of = func(b *vec.Batch, i int) { w.ofSlice(b.Cols[end].I64[i], wm, found) }
		case at("window_start") >= 0 && w.kind == plan.Cumulate.String():
			from := at("window_start")
			of = func(b *vec.Batch, i int) { w.ofSlice(b.Cols[from].I64[i]+w.step, wm, found) }
		default:
			continue
		}
		if err := s.Entries(ctx, o, st, func(b *vec.Batch) error {
			for i := range b.N {
				of(b, i)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	order := slices.SortedFunc(maps.Keys(found), func(a, b span) int {
		return cmp.Or(cmp.Compare(w.timer(a.end-1), w.timer(b.end-1)), cmp.Compare(a.start, b.start))
	})
	b := vec.NewBatch(TimerSchema)
	for _, x := range order {
		var start types.Value
		if x.start != unknown {
			start = x.start
		}
		for k, v := range []types.Value{start, x.end, w.timer(x.end - 1), w.timer(x.end-1) <= wm, found[x]} {
			b.Cols[k].AppendValue(v)
		}
		b.N++
	}
	if b.N == 0 {
		return nil
	}
	return f(b)
}

// floorTo is the largest k*unit+offset that is not after t.
func floorTo(t, unit, offset int64) int64 {
	r := (t - offset) % unit
	if r < 0 {
		r += unit
	}
	return t - r
}

// start is the start of the window that ends at end.
func (w *windows) start(end int64) int64 {
	switch w.kind {
	case "":
		return unknown
	case plan.Cumulate.String():
		return floorTo(end-1, w.size, w.offset)
	}
	return end - w.size
}

// ofSlice counts an entry of the slice that ends at end for its windows that are not over.
func (w *windows) ofSlice(end, wm int64, found map[span]int64) {
	first, last := end, end
	switch w.kind {
	case plan.Hop.String():
		width := gcd(w.size, w.step)
		if first = floorTo(end-w.size, w.step, w.offset) + w.size; first < end {
			first += w.step
		}
		last = floorTo(end-width, w.step, w.offset) + w.size
	case plan.Cumulate.String():
		last = floorTo(end-w.step, w.size, w.offset) + w.size
	}
	for x := first; x <= last; x += max(w.step, 1) {
		if w.timer(x-1) > wm {
			found[span{w.start(x), x}]++
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// timer is the instant at which a window whose last millisecond is local is over: the later one where
// clocks were set back.
func (w *windows) timer(local int64) int64 {
	const hour, day = 60 * 60 * 1000, 24 * 60 * 60 * 1000
	if w.zone == time.UTC || local > vec.MaxTime-2*day || local < vec.MinTime+2*day {
		return local
	}
	offset := func(instant int64) int64 {
		_, secs := time.UnixMilli(instant).In(w.zone).Zone()
		return int64(secs) * 1000
	}
	instant := func(local int64) int64 {
		before, after := offset(local-day), offset(local+day)
		if u := local - after; before != after && offset(local-before) != before && offset(u) == after {
			return u
		}
		return local - before
	}
	t1, t2 := instant(local), instant(local+hour)
	if t2-t1 > hour {
		return t2 - hour
	}
	return t1
}
