// Package resultstest is the suite that every store of results passes: the newest revision of each cell,
// totals, the pointer, generations that come and go, and readers that look all the while.
package resultstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Target is an empty table of results, made from the definition that Table returns.
type Target struct {
	Store results.Store
	// Write adds revisions and progress as one checkpoint of a sink does.
	Write func(t testing.TB, rows [][]types.Value, p *connector.Progress)
	// Merge makes the target do now what it does in its own time, such as merging parts. May be nil.
	Merge func(t testing.TB)
	// Conflicts says that the target can hold two contents of one revision, or remembers that it was given
	// them.
	Conflicts bool
}

// Table is the definition of the suite's table, for a connector with options.
func Table(name, conn string, options map[string]string) *connector.Table {
	ts := types.TimestampType(3)
	t := &connector.Table{Name: name, Connector: conn, Options: options, Columns: []types.Field{
		{Name: "origin", Type: types.StringType.NotNull()},
		{Name: "window_start", Type: ts.NotNull()},
		{Name: "window_end", Type: ts.NotNull()},
		{Name: "flights", Type: types.BigIntType.NotNull()},
		{Name: "delay", Type: types.DecimalType(12, 2), Comment: "unit: minutes"},
		{Name: "share", Type: types.DoubleType},
		{Name: "note", Type: types.StringType},
		{Name: "revision", Type: types.BigIntType.NotNull()},
		{Name: "generation", Type: types.StringType.NotNull()},
		{Name: "watermark", Type: types.TimestampLTZType(3)},
		{Name: "is_final", Type: types.BooleanType.NotNull()},
		{Name: "is_deleted", Type: types.BooleanType.NotNull()},
		{Name: "emit_reason", Type: types.StringType.NotNull()},
		{Name: "input_count", Type: types.BigIntType},
		{Name: "cause", Type: types.StringType},
	}}
	column := map[string]string{}
	for _, f := range t.Columns[7:] {
		column[f.Name] = f.Name
	}
	t.PrimaryKey = []string{"origin", "window_start", "generation", "revision"}
	t.Results = &connector.Results{Key: []string{"origin", "window_start"}, WindowStart: "window_start", WindowEnd: "window_end", Column: column,
		Units: map[string]string{"delay": "minutes"}, Generation: results.Live, LatenessMs: 2 * hour}
	return t
}

const hour = int64(3_600_000)

// base is the start of the suite's first window; they are an hour long.
var base = time.Date(2013, 1, 31, 20, 0, 0, 0, time.UTC).UnixMilli()

func at(w int) int64 { return base + int64(w)*hour }

// cell is a revision of a cell.
type cell struct {
	origin     string
	window     int // hours since base
	generation string
	revision   int64
	flights    int64
	deleted    bool
	note       string // "": NULL
}

func (c cell) row() []types.Value {
	dec := func(n int64) types.Value { return n * 25 } // unscaled: quarters
	out := []types.Value{c.origin, at(c.window), at(c.window + 1), c.flights, dec(c.flights), float64(c.flights) / 8, nil,
		c.revision, c.generation, at(c.window + 1), false, c.deleted, "on-time", c.flights * 2, nil}
	if c.note != "" {
		out[6], out[14] = c.note, "f:0-9"
	}
	if c.deleted {
		out[2], out[3], out[4], out[5], out[6], out[13] = nil, nil, nil, nil, nil, nil
		out[11] = true
	}
	return out
}

func rowsOf(cells []cell) [][]types.Value {
	var out [][]types.Value
	for _, c := range cells {
		out = append(out, c.row())
	}
	return out
}

// suite is one test of it.
type suite struct {
	testing.TB
	Target
	checkpoint int64
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// write writes cells as a checkpoint with a watermark.
func (s *suite) write(generation string, watermark int64, cells ...cell) *connector.Progress {
	s.Helper()
	s.checkpoint++
	p := &connector.Progress{Job: "board", Table: "board", Lineage: "l1", Checkpoint: s.checkpoint, Generation: generation, Watermark: watermark, MaxTime: at(3),
		Splits: 4, SplitsPassed: 3, SplitsDone: 1, Rows: int64(len(cells)), At: base + s.checkpoint}
	s.Target.Write(s, rowsOf(cells), p)
	return p
}

func (s *suite) merge() {
	if s.Merge != nil {
		s.Merge(s)
	}
}

// both runs f before and after a merge: it must make no difference.
func (s *suite) both(f func()) {
	s.Helper()
	f()
	s.merge()
	f()
}

var all = results.Query{From: vec.MinTime, To: vec.MaxTime}

// lines are the cells of an answer: origin, window, flights, revision, generation.
func (s *suite) lines(q results.Query) []string {
	s.Helper()
	rows, err := s.Store.Query(s.Context(), q)
	s.must(err)
	var out []string
	for _, r := range rows.Rows {
		get := func(name string) any {
			return r[slices.IndexFunc(rows.Columns, func(f types.Field) bool { return f.Name == name })]
		}
		out = append(out, fmt.Sprintf("%v %d %v r%v %v", get("origin"), (get("window_start").(time.Time).UnixMilli()-base)/hour, get("flights"), get("revision"), get("generation")))
	}
	return out
}

func (s *suite) expect(q results.Query, want ...string) {
	s.Helper()
	if got := s.lines(q); !slices.Equal(got, want) {
		s.Errorf("query %+v:\n got %q\nwant %q", q, got, want)
	}
}

// text is an answer as text.
func (s *suite) text(q results.Query) []string {
	s.Helper()
	rows, err := s.Store.Query(s.Context(), q)
	s.must(err)
	var out []string
	for _, r := range rows.Rows {
		var parts []string
		for _, v := range r {
			if t, ok := v.(time.Time); ok {
				v = t.Format("01-02 15:04")
			}
			parts = append(parts, fmt.Sprint(v))
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// Run runs the suite; make returns a new empty target.
func Run(t *testing.T, open func(t testing.TB) Target) {
	for _, x := range []struct {
		name string
		f    func(*suite)
	}{
		{"newest revision", (*suite).newest}, {"values", (*suite).values}, {"sums", (*suite).sums}, {"sums that are no numbers", (*suite).strange}, {"pointer", (*suite).pointer}, {"two set the pointer", (*suite).race},
		{"progress", (*suite).progress}, {"repeats", (*suite).repeats}, {"reconcile and promote", (*suite).promote}, {"corrections of promoted windows", (*suite).corrected},
		{"prune", (*suite).prune}, {"prune the progress", (*suite).pruneProgress}, {"drop", (*suite).drop}, {"conflicts", (*suite).conflict}, {"records", (*suite).records}, {"readers while generations change", (*suite).readers},
		{"nothing", (*suite).nothing},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &suite{TB: t, Target: open(t)}
			defer func() { s.must(s.Store.Close()) }()
			s.must(s.Store.Ensure(t.Context()))
			x.f(s)
		})
	}
}

// pruneProgress removes progress rows that say nothing of their own; what is known of windows stays.
func (s *suite) pruneProgress() {
	write := func(generation, lineage string, checkpoint int64, watermark int64, idle int, missed ...connector.MissedWindow) {
		s.Target.Write(s, nil, &connector.Progress{Job: "board", Table: "board", Lineage: lineage, Checkpoint: checkpoint, Generation: generation, Watermark: watermark, MaxTime: at(9),
			Splits: 2, SplitsPassed: 1, SplitsIdle: idle, Missed: missed, At: base + checkpoint})
	}
	// An hour a checkpoint, the third split idle from 3 to 5, a row late at 6, another lineage from 8 on.
	for c := int64(1); c <= 10; c++ {
		idle, lineage := 0, "l1"
		if c >= 3 && c <= 5 {
			idle = 1
		}
		if c >= 8 {
			lineage = "l2"
		}
		var missed []connector.MissedWindow
		if c == 6 {
			missed = append(missed, connector.MissedWindow{Start: at(0), End: at(1), Rows: 1})
		}
		write(results.Live, lineage, c, at(int(c)), idle, missed...)
	}
	write("g2", "b", 1, at(3), 0)
	write("g2", "b", 2, vec.MaxTime, 0)
	left := func(generation string) (out []int64) {
		rows, err := s.Store.Progress(s.Context(), generation, 100)
		s.must(err)
		for _, p := range rows {
			out = append(out, p.Checkpoint)
		}
		return out
	}
	judged := func() string {
		rows, err := s.Store.Progress(s.Context(), results.Live, 100)
		s.must(err)
		missed, err := s.Store.Missed(s.Context(), results.Live, vec.MinTime)
		s.must(err)
		j := &results.Judge{Of: map[string]results.Knowledge{results.Live: {Progress: rows, Missed: missed}}}
		var out strings.Builder
		for w := range 9 { // the first row at hand says nothing of what was before
			if w > 1 {
				fmt.Fprintf(&out, "%+v ", j.Status(at(w-1), at(w)))
			}
		}
		return out.String()
	}
	before := judged()
	n, err := s.Store.PruneProgress(s.Context(), base+10)
	s.must(err)
	// 2 and 5 end a run, 6 tells of a window, 7 and 10 are the last of a lineage; 10 is not old enough besides.
	if got := left(results.Live); n != 6 || !slices.Equal(got, []int64{10, 7, 6, 5, 2}) {
		s.Errorf("%d went, and there are %v", n, got)
	}
	if got := left("g2"); !slices.Equal(got, []int64{2}) {
		s.Errorf("of g2 there are %v", got)
	}
	if after := judged(); after != before {
		s.Errorf("windows are judged\n%s, and were\n%s", after, before)
	}
	if n, err := s.Store.PruneProgress(s.Context(), vec.MaxTime); err != nil || n != 0 {
		s.Errorf("again: %d, %v", n, err)
	}
}

// strange adds up doubles that are no numbers, infinite, or too large together. Each window says what its sum is, none
// keeps those of the others from being told, and the sums are those that the same rows have elsewhere.
func (s *suite) strange() {
	inf, nan, most := math.Inf(1), math.NaN(), math.MaxFloat64
	windows := [][]float64{{1e308, 1e308, 2}, {-1e308, -1e308}, {nan, 1}, {inf, 1}, {-inf, 1}, {inf, -inf}, {most}, {-most, 1}, {1e308, -1e308, 5}, {1e300, 1.5}, {0.1, 0.2}}
	var cells [][]types.Value
	tally := results.NewTally(s.Store.Layout())
	for w, values := range windows {
		for i, v := range values {
			row := cell{fmt.Sprintf("X%d", i), w, results.Live, 1, 0, false, ""}.row()
			row[5] = v
			cells = append(cells, row)
			s.must(tally.Add(at(w), func(column string) (string, bool) {
				switch column {
				case "share":
					return strconv.FormatFloat(v, 'g', -1, 64), true
				default:
					return "0", true
				}
			}))
		}
	}
	s.Target.Write(s, cells, &connector.Progress{Job: "board", Table: "board", Lineage: "l1", Checkpoint: 1, Generation: results.Live, Watermark: at(20), Rows: int64(len(cells)), At: base})
	got, err := s.Store.Totals(s.Context(), results.Live, vec.MinTime, vec.MaxTime)
	s.must(err)
	if len(got) != len(windows) {
		s.Fatalf("%d windows: %+v", len(got), got)
	}
	r := (&results.Counted{Totals: tally.Totals()}).Recount(s.Store.Layout(), got, results.Late(nil))
	if !r.Passed || r.Same != len(windows) {
		var b strings.Builder
		s.must(r.Text(&b, results.Live))
		s.Errorf("%s", &b)
	}
	rows, err := s.Store.Query(s.Context(), results.Query{From: vec.MinTime, To: vec.MaxTime, Group: []string{"window_start"}, Sums: []results.Sum{{Fn: "sum", Column: "share"}, {Fn: "avg", Column: "share"}}})
	s.must(err)
	for w, values := range windows {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		for i, want := range []float64{sum, sum / float64(len(values))} {
			v, ok := rows.Rows[w][1+i].(float64)
			overflows := i == 1 && math.IsInf(sum, 0) && !math.IsInf(values[0], 0) // the mean may be told all the same
			if ok = ok && (v == want || math.IsNaN(v) && math.IsNaN(want) || math.Abs(v-want) < 1e-9*math.Abs(want) || overflows); !ok {
				s.Errorf("of %v: %v, want %v", values, rows.Rows[w][1+i], want)
			}
		}
	}
}

func (s *suite) nothing() {
	s.expect(all)
	p, err := s.Store.Pointer(s.Context())
	s.must(err)
	if p.Version != 0 || p.Of(at(0)) != results.Live {
		s.Errorf("the pointer that nobody has set is %+v", p)
	}
	gens, err := s.Store.Generations(s.Context())
	s.must(err)
	totals, err := s.Store.Totals(s.Context(), results.Live, vec.MinTime, vec.MaxTime)
	s.must(err)
	rows, err := s.Store.Progress(s.Context(), "", 10)
	s.must(err)
	if len(gens)+len(totals)+len(rows) > 0 {
		s.Errorf("an empty table has %v, %v, %v", gens, totals, rows)
	}
	_, err = results.Rollback(s.Context(), s.Store)
	if err == nil {
		s.Error("went back from nothing")
	}
}

func (s *suite) newest() {
	s.write("live", at(1), cell{"SFO", 0, "live", 1, 10, false, ""}, cell{"JFK", 0, "live", 1, 5, false, ""})
	s.write("live", at(2), cell{"SFO", 0, "live", 2, 12, false, "late"}, cell{"SFO", 1, "live", 1, 7, false, ""}, cell{"SFO", 0, "live", 3, 13, false, ""}, cell{"JFK", 1, "live", 1, 1, false, ""})
	s.write("live", at(3), cell{"JFK", 0, "live", 2, 0, true, ""})
	s.write("g2", at(3), cell{"SFO", 0, "g2", 9, 99, false, ""})
	s.both(func() {
		s.Helper()
		s.expect(all, "JFK 1 1 r1 live", "SFO 0 13 r3 live", "SFO 1 7 r1 live")
		q := all
		q.Deleted = true
		s.expect(q, "JFK 0 <nil> r2 live", "JFK 1 1 r1 live", "SFO 0 13 r3 live", "SFO 1 7 r1 live")
		q = all
		q.History, q.Where = true, map[string]string{"origin": "SFO"}
		s.expect(q, "SFO 0 10 r1 live", "SFO 0 12 r2 live", "SFO 0 13 r3 live", "SFO 1 7 r1 live")
		s.expect(results.Query{Generation: "g2", From: vec.MinTime, To: vec.MaxTime}, "SFO 0 99 r9 g2")
		s.expect(results.Query{From: at(1), To: at(2)}, "JFK 1 1 r1 live", "SFO 1 7 r1 live")
		s.expect(results.Query{From: vec.MinTime, To: at(1)}, "SFO 0 13 r3 live")
		q = all
		q.Order, q.Limit = []string{"-flights"}, 2
		s.expect(q, "SFO 0 13 r3 live", "SFO 1 7 r1 live")
		q = all
		q.Where = map[string]string{"flights": "7", "window_start": "2013-01-31 21:00:00"}
		s.expect(q, "SFO 1 7 r1 live")
		q.Where = map[string]string{"note": "late"} // of a revision that is not the newest
		s.expect(q)
		q.Where = map[string]string{"delay": "3.25"}
		s.expect(q, "SFO 0 13 r3 live")
	})
	if _, err := s.Store.Query(s.Context(), results.Query{Where: map[string]string{"nope": "1"}}); err == nil || !strings.Contains(err.Error(), "nope") {
		s.Errorf("a column that does not exist: %v", err)
	}
}

func (s *suite) values() {
	s.write("live", at(1), cell{"it's \\ \"x\"", 0, "live", 1, 3, false, "= tab\tline\n\u00e9"}, cell{"b", 0, "live", 1, 4, false, ""})
	rows, err := s.Store.Query(s.Context(), results.Query{From: vec.MinTime, To: vec.MaxTime, Where: map[string]string{"origin": "it's \\ \"x\""}})
	s.must(err)
	if len(rows.Rows) != 1 {
		s.Fatalf("%d rows", len(rows.Rows))
	}
	r := rows.Rows[0]
	want := []any{"it's \\ \"x\"", time.UnixMilli(at(0)).UTC(), time.UnixMilli(at(1)).UTC(), int64(3), "0.75", 0.375, "= tab\tline\n\u00e9", int64(1), "live",
		time.UnixMilli(at(1)).UTC(), false, false, "on-time", int64(6), "f:0-9"}
	for i, w := range want {
		if t, ok := w.(time.Time); ok {
			if got, ok := r[i].(time.Time); !ok || !got.Equal(t) {
				s.Errorf("column %s is %v, not %v", rows.Columns[i].Name, r[i], w)
			}
		} else if r[i] != w {
			s.Errorf("column %s is %#v, not %#v", rows.Columns[i].Name, r[i], w)
		}
	}
}

func (s *suite) sums() {
	s.write("live", at(2), cell{"SFO", 0, "live", 1, 10, false, ""}, cell{"SFO", 0, "live", 2, 12, false, ""}, cell{"JFK", 0, "live", 1, 4, false, ""},
		cell{"JFK", 1, "live", 1, 3, false, ""}, cell{"SFO", 1, "live", 1, 9, false, ""}, cell{"SFO", 1, "live", 2, 0, true, ""})
	s.both(func() {
		s.Helper()
		q := all
		q.Group = []string{"window_start"}
		q.Sums = []results.Sum{{Fn: "sum", Column: "flights"}, {Fn: "count"}, {Fn: "sum", Column: "delay"}, {Fn: "max", Column: "revision"}, {Fn: "avg", Column: "flights"}, {Fn: "min", Column: "origin"}}
		if got, want := s.text(q), []string{"01-31 20:00 16 2 4.00 2 8 JFK", "01-31 21:00 3 1 0.75 1 3 JFK"}; !slices.Equal(got, want) {
			s.Errorf("sums are\n%q, not\n%q", got, want)
		}
		q = all
		q.Sums = []results.Sum{{Fn: "sum", Column: "flights"}, {Fn: "count", Column: "note"}}
		if got, want := s.text(q), []string{"19 0"}; !slices.Equal(got, want) {
			s.Errorf("sums of all are %q, not %q", got, want)
		}
		q = all
		q.Group, q.Sums, q.Order, q.Limit = []string{"origin"}, []results.Sum{{Fn: "sum", Column: "flights"}}, []string{"-flights"}, 1
		if got, want := s.text(q), []string{"SFO 12"}; !slices.Equal(got, want) {
			s.Errorf("the largest is %q, not %q", got, want)
		}
		totals, err := s.Store.Totals(s.Context(), "live", vec.MinTime, vec.MaxTime)
		s.must(err)
		if len(totals) != 2 || totals[0].Window != at(0) || totals[0].Keys != 2 || totals[1].Keys != 1 || totals[0].Sums["delay"] != "4.00" || totals[0].Sums["flights"] != "16" ||
			totals[0].Sums["input_count"] != "32" || totals[0].Hash == totals[1].Hash {
			s.Errorf("totals are %+v", totals)
		}
		gens, err := s.Store.Generations(s.Context())
		s.must(err)
		if want := []results.Generation{{Name: "live", FirstWindow: at(0), LastWindow: at(1), Keys: 4, Revisions: 6}}; !slices.Equal(gens, want) {
			s.Errorf("generations are %+v", gens)
		}
	})
}

// generations writes two: live with three windows, g2 with other numbers in the second and third.
func (s *suite) generations() {
	for w := range 3 {
		s.write("live", at(w+1), cell{"SFO", w, "live", 1, 10, false, ""}, cell{"JFK", w, "live", 1, 20, false, ""}, cell{"SFO", w, "live", 2, 11, false, ""})
	}
	for w := range 3 {
		n := int64(11)
		if w > 0 {
			n = 50
		}
		s.write("g2", at(w+1), cell{"SFO", w, "g2", 1, n, false, ""}, cell{"JFK", w, "g2", 1, 20, false, ""})
	}
}

func (s *suite) pointer() {
	s.generations()
	ctx := s.Context()
	p := results.Pointer{}
	p = p.Promote(at(1), at(2), "g2")
	p.At = 5
	s.must(s.Store.Point(ctx, p))
	s.both(func() {
		s.Helper()
		s.expect(all, "JFK 0 20 r1 live", "JFK 1 20 r1 g2", "JFK 2 20 r1 live", "SFO 0 11 r2 live", "SFO 1 50 r1 g2", "SFO 2 11 r2 live")
	})
	if err := s.Store.Point(ctx, p); !errors.Is(err, results.ErrMoved) {
		s.Errorf("the same version again: %v", err)
	}
	next := p.Promote(vec.MinTime, vec.MaxTime, "g2")
	next.Version++
	if err := s.Store.Point(ctx, next); !errors.Is(err, results.ErrMoved) {
		s.Errorf("a version left out: %v", err)
	}
	next.Version--
	s.must(s.Store.Point(ctx, next))
	s.expect(all, "JFK 0 20 r1 g2", "JFK 1 20 r1 g2", "JFK 2 20 r1 g2", "SFO 0 11 r1 g2", "SFO 1 50 r1 g2", "SFO 2 50 r1 g2")
	back := next.Promote(at(2), vec.MaxTime, "live")
	s.must(s.Store.Point(ctx, back))
	s.expect(all, "JFK 0 20 r1 g2", "JFK 1 20 r1 g2", "JFK 2 20 r1 live", "SFO 0 11 r1 g2", "SFO 1 50 r1 g2", "SFO 2 11 r2 live")
	got, err := s.Store.Pointers(ctx)
	s.must(err)
	if len(got) != 3 || got[0].Version != 3 || got[2].Version != 1 || got[2].At != 5 || !slices.Equal(got[2].Ranges, p.Ranges) {
		s.Errorf("pointers are %+v", got)
	}
}

// race has many set the same version: one of them does.
func (s *suite) race() {
	s.generations()
	for round := range 3 {
		now, err := s.Store.Pointer(s.Context())
		s.must(err)
		var won atomic.Int32
		var wg sync.WaitGroup
		names := make([]string, 6)
		for i := range names {
			names[i] = fmt.Sprintf("r%dg%d", round, i)
			wg.Go(func() {
				switch err := s.Store.Point(s.Context(), now.Promote(at(0), at(1), names[i])); {
				case err == nil:
					won.Add(1)
					names[i] += "!"
				case !errors.Is(err, results.ErrMoved):
					s.Errorf("set by %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		p, err := s.Store.Pointer(s.Context())
		s.must(err)
		if won.Load() != 1 || p.Version != now.Version+1 || !slices.Contains(names, p.Of(at(0))+"!") {
			s.Errorf("%d have set the pointer, which is %+v: %q", won.Load(), p, names)
		}
	}
}

func (s *suite) progress() {
	p1 := s.write("live", at(1), cell{"SFO", 0, "live", 1, 10, false, ""})
	s.checkpoint++
	p2 := *p1
	p2.Checkpoint, p2.At, p2.Watermark = s.checkpoint, base+s.checkpoint, vec.MaxTime
	p2.SplitsIdle, p2.IdleSplits, p2.Late, p2.Missing = 2, []string{"t-1", "it's"}, 7, []string{"store 4"}
	p2.Missed = []connector.MissedWindow{{Start: at(0), End: at(1), Rows: 3}, {Start: at(1), End: at(2), Rows: 4}}
	s.Target.Write(s, nil, &p2)
	s.checkpoint++
	p3 := p2
	p3.Checkpoint, p3.At, p3.Missed = s.checkpoint, base+s.checkpoint, p2.Missed[:1]
	s.Target.Write(s, nil, &p3)
	s.Target.Write(s, nil, &p3)
	other := p3
	other.Generation, other.Lineage, other.Watermark = "g2", "l2", vec.MinTime
	s.Target.Write(s, nil, &other)
	s.both(func() {
		s.Helper()
		got, err := s.Store.Progress(s.Context(), "live", 10)
		s.must(err)
		if len(got) != 3 || got[0].Checkpoint != p3.Checkpoint || got[2].Watermark != at(1) || got[1].Watermark != vec.MaxTime || !slices.Equal(got[1].IdleSplits, p2.IdleSplits) || got[1].Late != 7 {
			s.Errorf("progress is %+v", got)
		}
		if got, err := s.Store.Progress(s.Context(), "", 2); err != nil || len(got) != 2 {
			s.Errorf("progress of all is %+v, %v", got, err)
		}
		if got, err := s.Store.Progress(s.Context(), "g2", 10); err != nil || len(got) != 1 || got[0].Watermark != vec.MinTime {
			s.Errorf("progress of g2 is %+v, %v", got, err)
		}
		missed, err := s.Store.Missed(s.Context(), "live", vec.MinTime)
		s.must(err)
		if want := []connector.MissedWindow{{Start: at(0), End: at(1), Rows: 6}, {Start: at(1), End: at(2), Rows: 4}}; !slices.Equal(missed, want) {
			s.Errorf("missed are %+v", missed)
		}
		if missed, err = s.Store.Missed(s.Context(), "live", p2.At); err != nil || len(missed) != 1 || missed[0].Rows != 3 {
			s.Errorf("missed since are %+v, %v", missed, err)
		}
	})
	seen := 0
	s.must(results.Wait(s.Context(), s.Store, "", at(9), time.Millisecond, func(connector.Progress) { seen++ }))
	ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer cancel()
	if err := results.Wait(ctx, s.Store, "g2", at(9), time.Millisecond, nil); err == nil || seen != 1 {
		s.Errorf("waited for what does not come: %v, told %d times", err, seen)
	}
}

// repeats writes the same rows again, as after a crash.
func (s *suite) repeats() {
	p := s.write("live", at(1), cell{"SFO", 0, "live", 1, 10, false, ""}, cell{"JFK", 0, "live", 1, 20, false, "x"})
	again := *p
	s.Target.Write(s, rowsOf([]cell{{"SFO", 0, "live", 1, 10, false, ""}, {"JFK", 0, "live", 1, 20, false, "x"}}), &again)
	s.both(func() {
		s.Helper()
		s.expect(all, "JFK 0 20 r1 live", "SFO 0 10 r1 live")
		gens, err := s.Store.Generations(s.Context())
		s.must(err)
		if len(gens) != 1 || gens[0].Keys != 2 || gens[0].Revisions != 2 {
			s.Errorf("generations are %+v", gens)
		}
		n, err := s.Store.Conflicts(s.Context(), "")
		s.must(err)
		if n != 0 {
			s.Errorf("%d conflicts", n)
		}
	})
	s.merge()
	if h, err := s.Store.Health(s.Context()); err != nil || len(h) == 0 {
		s.Errorf("health is %v, %v", h, err)
	}
}

func (s *suite) promote() {
	s.generations()
	ctx := s.Context()
	if _, err := results.Promote(ctx, s.Store, "g2", at(0), at(1), false); err == nil || !strings.Contains(err.Error(), "reconcile") {
		s.Errorf("promoted without evidence: %v", err)
	}
	r, err := results.Reconcile(ctx, s.Store, "g2", "", at(0), at(1), nil)
	s.must(err)
	if !r.Equal() || r.Windows != 1 || r.Same != 1 || r.Against != "live" {
		s.Errorf("the first window: %+v", r)
	}
	if _, err := results.Promote(ctx, s.Store, "g2", at(0), at(2), false); err == nil || !strings.Contains(err.Error(), "only") {
		s.Errorf("promoted more than was compared: %v", err)
	}
	p, err := results.Promote(ctx, s.Store, "g2", at(0), at(1), false)
	s.must(err)
	if p.Version != 1 || p.Of(at(0)) != "g2" || p.Of(at(1)) != "live" {
		s.Errorf("the pointer is %+v", p)
	}
	r, err = results.Reconcile(ctx, s.Store, "g2", "live", vec.MinTime, vec.MaxTime, nil)
	s.must(err)
	if r.Equal() || r.Windows != 3 || r.Differing != 2 || !slices.Contains(r.Differences[0].Columns, "flights") || r.Sums["flights"] != "171" || r.AgainstSums["flights"] != "93" {
		s.Errorf("all windows: %+v", r)
	}
	if _, err := results.Promote(ctx, s.Store, "g2", at(1), at(3), false); err == nil || !strings.Contains(err.Error(), "2 windows") {
		s.Errorf("promoted what differs: %v", err)
	}
	// That rows came too late for these windows explains it.
	late := connector.Progress{Job: "board", Lineage: "l1", Checkpoint: 100, Generation: "live", Watermark: at(3), At: base + 100,
		Missed: []connector.MissedWindow{{Start: at(1), End: at(2), Rows: 78}, {Start: at(2), End: at(3), Rows: 77}}}
	s.Target.Write(s, nil, &late)
	r, err = results.Reconcile(ctx, s.Store, "g2", "live", vec.MinTime, vec.MaxTime, nil)
	s.must(err)
	if r.Equal() || r.Explained != 1 || r.Differences[0].Unlike != "input_count differs by 78, of 77 rows" {
		s.Errorf("one row less than they differ by: %+v", r)
	}
	late = connector.Progress{Job: "board", Lineage: "l1", Checkpoint: 101, Generation: "live", Watermark: at(3), At: base + 101,
		Missed: []connector.MissedWindow{{Start: at(2), End: at(3), Rows: 1}}}
	s.Target.Write(s, nil, &late)
	r, err = results.Reconcile(ctx, s.Store, "g2", "live", vec.MinTime, vec.MaxTime, nil)
	s.must(err)
	if !r.Equal() || r.Explained != 2 {
		s.Errorf("explained: %+v", r)
	}
	var text strings.Builder
	s.must(r.Text(&text))
	if !strings.Contains(text.String(), "78 rows came too late there") {
		s.Errorf("the evidence says\n%s", &text)
	}
	_, err = results.Promote(ctx, s.Store, "g2", vec.MinTime, vec.MaxTime, false)
	s.must(err)
	s.expect(results.Query{From: at(1), To: at(2)}, "JFK 1 20 r1 g2", "SFO 1 50 r1 g2")
	p, err = results.Rollback(ctx, s.Store)
	s.must(err)
	if p.Version != 3 || p.Of(at(0)) != "g2" || p.Of(at(1)) != "live" {
		s.Errorf("gone back to %+v", p)
	}
	p, err = results.Rollback(ctx, s.Store)
	s.must(err)
	if p.Of(at(0)) != "live" {
		s.Errorf("gone back to %+v", p)
	}
	if _, err := results.Rollback(ctx, s.Store); err == nil {
		s.Error("went back three times")
	}
	records, err := s.Store.Records(ctx, "")
	s.must(err)
	kinds := map[string]int{}
	for _, r := range records {
		kinds[r.Kind]++
	}
	if want := map[string]int{"reconcile": 4, "promote": 2, "rollback": 2}; !maps.Equal(kinds, want) {
		s.Errorf("records are %v", kinds)
	}
}

// corrected has the job correct a window that was promoted.
func (s *suite) corrected() {
	s.generations()
	ctx := s.Context()
	// What was written so far is in the backfill.
	time.Sleep(30 * time.Millisecond)
	began := time.Now().UnixMilli()
	time.Sleep(30 * time.Millisecond)
	s.must(s.Store.Note(ctx, results.Record{Kind: results.KindBackfill, Name: "g2", At: began, Document: []byte("{}")}))
	_, err := results.Promote(ctx, s.Store, "g2", at(0), at(2), true)
	s.must(err)
	t := Table("t", "x", nil).Results
	judge := func() *results.Judge {
		j, err := results.LoadJudge(ctx, s.Store, t, vec.MinTime, vec.MaxTime)
		s.must(err)
		return j
	}
	j := judge()
	if got := j.NeedsBackfill(vec.MinTime, vec.MaxTime); len(got) != 0 {
		s.Errorf("needed at once: %+v", got)
	}
	s.write("live", at(3), cell{"SFO", 0, "live", 3, 70, false, ""}, cell{"SFO", 2, "live", 3, 70, false, ""})
	j = judge()
	got, err := s.Store.Corrected(ctx, "live", vec.MinTime, vec.MaxTime, began)
	s.must(err)
	if want := []connector.MissedWindow{{Start: at(0), End: at(1), Rows: 1}, {Start: at(2), End: at(3), Rows: 1}}; !slices.Equal(got, want) {
		s.Errorf("corrected are %+v", got)
	}
	if st := j.Status(at(0), at(1)); st.State != results.NeedsBackfill || !st.Corrected || st.Generation != "g2" {
		s.Errorf("the corrected window is %+v", st)
	}
	if st := j.Status(at(1), at(2)); st.State == results.NeedsBackfill || st.Generation != "g2" {
		s.Errorf("the other promoted window is %+v", st)
	}
	if st := j.Status(at(2), at(3)); st.State == results.NeedsBackfill || st.Generation != "live" || !st.Over {
		s.Errorf("a window of the job is %+v", st)
	}
	if got := j.NeedsBackfill(vec.MinTime, vec.MaxTime); len(got) != 1 || got[0].Start != at(0) {
		s.Errorf("needed are %+v", got)
	}
}

func (s *suite) prune() {
	s.write("live", at(2), cell{"SFO", 0, "live", 1, 1, false, ""}, cell{"SFO", 0, "live", 2, 2, false, ""}, cell{"JFK", 0, "live", 1, 3, false, ""}, cell{"JFK", 0, "live", 2, 0, true, ""})
	s.write("live", at(3), cell{"SFO", 0, "live", 3, 3, false, ""}, cell{"SFO", 5, "live", 1, 4, false, ""}, cell{"SFO", 5, "live", 2, 5, false, ""}, cell{"SFO", 0, "g2", 1, 4, false, ""}, cell{"SFO", 0, "g2", 2, 5, false, ""})
	n, err := s.Store.Prune(s.Context(), "live", at(1))
	s.must(err)
	if n != 3 && n != -1 {
		s.Errorf("%d rows went", n)
	}
	s.both(func() {
		s.Helper()
		q := all
		q.History, q.Deleted = true, true
		s.expect(q, "JFK 0 <nil> r2 live", "SFO 0 3 r3 live", "SFO 5 4 r1 live", "SFO 5 5 r2 live")
		s.expect(results.Query{Generation: "g2", History: true, From: vec.MinTime, To: vec.MaxTime}, "SFO 0 4 r1 g2", "SFO 0 5 r2 g2")
		s.expect(all, "SFO 0 3 r3 live", "SFO 5 5 r2 live")
	})
	if n, err := s.Store.Prune(s.Context(), "live", at(1)); err != nil || n > 0 {
		s.Errorf("again: %d rows went, %v", n, err)
	}
}

func (s *suite) drop() {
	s.generations()
	ctx := s.Context()
	_, err := results.Promote(ctx, s.Store, "g2", at(1), at(2), true)
	s.must(err)
	if err := s.Store.Drop(ctx, "g2"); !errors.Is(err, results.ErrShown) {
		s.Errorf("dropped what is shown: %v", err)
	}
	s.write("g3", at(1), cell{"SFO", 0, "g3", 1, 1, false, ""})
	s.must(s.Store.Drop(ctx, "g3"))
	_, err = results.Promote(ctx, s.Store, "live", at(1), at(2), true)
	s.must(err)
	r, err := results.PruneAll(ctx, s.Store, results.PruneOptions{Before: vec.MinTime, Grace: time.Hour})
	s.must(err)
	if len(r.Dropped) != 0 || !strings.Contains(r.Kept["g2"], "shown until") {
		s.Errorf("dropped at once: %+v", r)
	}
	time.Sleep(2 * time.Millisecond)
	r, err = results.PruneAll(ctx, s.Store, results.PruneOptions{Before: vec.MaxTime})
	s.must(err)
	if !slices.Equal(r.Dropped, []string{"g2"}) || r.Kept["live"] == "" {
		s.Errorf("dropped: %+v", r)
	}
	gens, err := s.Store.Generations(ctx)
	s.must(err)
	if len(gens) != 1 || gens[0].Revisions != 6 {
		s.Errorf("generations are %+v", gens)
	}
	if rows, err := s.Store.Progress(ctx, "g2", 10); err != nil || len(rows) > 0 {
		s.Errorf("progress of what was dropped: %+v, %v", rows, err)
	}
	if _, err := results.Rollback(ctx, s.Store); err == nil || !strings.Contains(err.Error(), "dropped") {
		s.Errorf("went back to what is gone: %v", err)
	}
}

func (s *suite) conflict() {
	if !s.Conflicts {
		s.Skip("the target refuses them")
	}
	s.write("live", at(1), cell{"SFO", 0, "live", 1, 10, false, ""}, cell{"JFK", 0, "live", 1, 1, false, ""})
	s.write("live", at(1), cell{"SFO", 0, "live", 1, 11, false, ""})
	first := s.lines(all)
	s.both(func() {
		s.Helper()
		n, err := s.Store.Conflicts(s.Context(), "")
		s.must(err)
		if n != 1 {
			s.Errorf("%d conflicts", n)
		}
		s.expect(all, first...) // always the same of them
	})
}

func (s *suite) records() {
	ctx := s.Context()
	doc := `{"note":"it's a \\ \"test\"\n"}`
	for i, k := range []string{"backfill", "prune", "backfill"} {
		s.must(s.Store.Note(ctx, results.Record{Kind: k, Name: fmt.Sprint("g", i), At: int64(1000 + i/2), Document: []byte(doc)}))
	}
	s.both(func() {
		s.Helper()
		got, err := s.Store.Records(ctx, "backfill")
		s.must(err)
		if len(got) != 2 || got[0].Name != "g2" || got[1].Name != "g0" || string(got[1].Document) != doc || got[0].At != 1001 {
			s.Errorf("records are %+v", got)
		}
		if got, err = s.Store.Records(ctx, ""); err != nil || len(got) != 3 || got[1].Kind != "prune" {
			s.Errorf("all records are %+v, %v", got, err)
		}
	})
}

// readers look all the while that generations are promoted, taken back, pruned and dropped: no window may be
// of two generations, missing, or show a revision that was superseded.
func (s *suite) readers() {
	ctx := s.Context()
	const windows = 8
	var cells []cell
	for w := range windows {
		for r := range int64(3) {
			cells = append(cells, cell{"SFO", w, "live", r + 1, r, false, ""}, cell{"JFK", w, "live", r + 1, r, false, ""})
		}
	}
	s.write("live", at(windows), cells...)
	stop := make(chan struct{})
	var looks atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				rows, err := s.Store.Query(ctx, results.Query{From: vec.MinTime, To: vec.MaxTime, Group: []string{"window_start"},
					Sums: []results.Sum{{Fn: "count"}, {Fn: "min", Column: "generation"}, {Fn: "max", Column: "generation"}, {Fn: "min", Column: "flights"}}})
				if err != nil {
					s.Errorf("a reader: %v", err)
					return
				}
				if len(rows.Rows) != windows {
					s.Errorf("a reader sees %d windows", len(rows.Rows))
				}
				for _, r := range rows.Rows {
					if r[1] != int64(2) || r[2] != r[3] || r[4].(int64) < 2 {
						s.Errorf("a reader sees %v", r)
					}
				}
				looks.Add(1)
			}
		})
	}
	for round := range 5 {
		g := fmt.Sprintf("g%d", round)
		var cells []cell
		for w := range windows {
			cells = append(cells, cell{"SFO", w, g, 1, 2, false, ""}, cell{"JFK", w, g, 1, 2, false, ""}, cell{"SFO", w, "live", int64(4 + round), 9, false, ""})
		}
		s.write(g, at(windows), cells...)
		from, to := at(round%3), at(round%3+4)
		if round == 4 {
			from, to = vec.MinTime, vec.MaxTime
		}
		_, err := results.Promote(ctx, s.Store, g, from, to, true)
		s.must(err)
		for seen := looks.Load(); looks.Load() < seen+3 && !s.Failed(); {
			time.Sleep(time.Millisecond)
		}
		s.merge()
		_, err = s.Store.Prune(ctx, "live", at(windows))
		s.must(err)
		if round%2 == 1 {
			_, err = results.Rollback(ctx, s.Store)
			s.must(err)
		}
		p, err := s.Store.Pointer(ctx)
		s.must(err)
		for old := range round + 1 {
			if name := fmt.Sprintf("g%d", old); !slices.Contains(p.Generations(), name) {
				s.must(s.Store.Drop(ctx, name))
			}
		}
	}
	close(stop)
	wg.Wait()
	if looks.Load() < 6 {
		s.Errorf("readers looked %d times only", looks.Load())
	}
}
