package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/vec"
)

// AdviseOptions say what sample to take.
type AdviseOptions struct {
	// Table is the only one to look at; "": all tables with a watermark that the script reads.
	Table string
	// Rows is how many rows of each table to read at most.
	Rows int64
	// Share is the share of rows that may be late by the delay that is recommended.
	Share float64
}

// Advice is what a sample says about the disorder of one table: for each delay of the watermark, how many
// rows would have been behind it, and how many too late for all of their windows. Each split is judged by
// itself, as if it alone made the watermark; with several the watermark is that of the slowest, so live
// runs drop fewer. Where an operator that keeps state is before the windows, such as one that knows entities, it is what
// that makes of the sample that may be too late, by the watermark of all splits.
type Advice struct {
	Table, TimeColumn string
	Rows              int64
	Splits            int
	Ended             bool // the sample is all that there is
	// Now is the delay of the watermark as it is declared, ms; -1 where it varies.
	Now int64
	// Windows are the window aggregations that the rows go into, and Into how many rows these get: Rows, or what
	// operators with state make of them, rows that are taken back included.
	Windows []string
	Into    int64
	// Disorder is how far the row that is furthest behind its split's newest one is behind it, ms.
	Disorder int64
	Curve    []AdvicePoint
	// Recommended is the smallest delay of the curve that keeps to the share.
	Recommended AdvicePoint
	// None is the smallest delay by which no row of the sample is late, ms.
	None int64
}

// AdvicePoint is one delay of the watermark.
type AdvicePoint struct {
	Delay  int64 // ms; results come at least so much after the end of their window
	Behind int64 // rows that come behind the watermark
	Late   int64 // rows dropped; where there are no windows, Behind
	Now    bool  // it is the declared one
}

// delays are the candidates, ms.
var delays = []int64{0, 100, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
	3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 2 * 86_400_000, 7 * 86_400_000, 30 * 86_400_000}

// Advise reads a sample of the tables of a script and says what a watermark's delay costs.
func (e *Engine) Advise(ctx context.Context, name, text string, o AdviseOptions) ([]Advice, error) {
	tables, err := e.timedTables(name, text, o.Table)
	if err != nil {
		return nil, err
	}
	var out []Advice
	for _, t := range tables {
		a, err := e.advise(ctx, t, o)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.node.Op.(*plan.Source).Table.Name, err)
		}
		out = append(out, *a)
	}
	return out, nil
}

// windowed is a window aggregation, and what tells its windows.
type windowed struct {
	agg     *plan.WindowAgg
	windows *window.Assigner
	last    []window.Interval // a buffer
	// from is the node whose rows go into the windows, by the time in column at, where these are not the rows of the
	// source but what an operator has made of them: changes of entities, say, of which one takes back a row of hours
	// ago. nil: they are those of the source.
	from *plan.Node
	at   int
}

// over is the watermark from which on a row of time t is late for all of its windows; ok is false where it has none.
func (w *windowed) over(t int64) (at int64, ok bool) {
	w.last = w.windows.Of(w.last[:0], t)
	for _, x := range w.last {
		if !ok || x.Over > at {
			at, ok = x.Over, true
		}
	}
	return at, ok
}

// firstWindows finds the first window aggregations behind n, whose times are the source's.
func firstWindows(p *plan.Plan, n *plan.Node, into map[string]*windowed) error {
	type path struct {
		win  *plan.Window // the window function before the node
		from *plan.Node   // what that reads
		made bool         // an operator that keeps state has made the rows
	}
	reached := map[int]path{n.ID: {}}
	for _, m := range p.Nodes {
		for _, in := range m.Inputs {
			x, ok := reached[in.From]
			if !ok || in.Late {
				continue
			}
			switch w := m.Op.(type) {
			case *plan.WindowTVF:
				reached[m.ID] = path{&w.Window, p.Nodes[in.From], x.made}
			case *plan.WindowAgg:
				if w.Attached && x.win == nil || w.Phase == plan.GlobalPhase {
					continue
				}
				agg, from := *w, p.Nodes[in.From]
				if w.Attached {
					agg.Window, from = *x.win, x.from
				}
				if agg.Window.ProcTime {
					continue
				}
				a, err := window.NewAssigner(&agg)
				if err != nil {
					return err
				}
				to := &windowed{agg: w, windows: a}
				if x.made {
					to.from, to.at = from, agg.Window.TimeCol
				}
				into[strings.TrimPrefix(m.Label, "Local")] = to
			default:
				x.made = x.made || m.StateGrowth != ""
				reached[m.ID] = x
			}
		}
	}
	return nil
}

// changes runs what is between the sources and the windows w, in a job of its own, and notes by which delays its rows
// would have been late.
func (m *sample) changes(ctx context.Context, e *Engine, t *timed, w *windowed, rows int64) error {
	p := &plan.Plan{Config: t.plan.Config, Name: t.plan.Name, File: t.plan.File, Text: t.plan.Text}
	at := map[int]int{} // nodes of the script's plan, by their place in p
	var add func(n *plan.Node) int
	add = func(n *plan.Node) int {
		if k, ok := at[n.ID]; ok {
			return k
		}
		x := *n
		x.Inputs = slices.Clone(n.Inputs)
		for i, in := range x.Inputs {
			x.Inputs[i].From = add(t.plan.Nodes[in.From])
		}
		if src, ok := n.Op.(*plan.Source); ok && src.RowTime >= 0 {
			// The watermark is the newest time, so that the stamp of a row tells how far it is behind.
			now := *src
			now.Watermark = &expr.Column{Index: src.RowTime, T: n.Schema.Fields[src.RowTime].Type}
			x.Op = &now
		}
		x.ID, x.NeedStamps, x.Parallelism = len(p.Nodes), true, 1
		at[n.ID] = x.ID
		p.Nodes = append(p.Nodes, &x)
		return x.ID
	}
	from := add(w.from)
	p.Nodes = append(p.Nodes, &plan.Node{ID: len(p.Nodes), Inputs: []plan.Edge{{From: from}}, Schema: w.from.Schema, Mode: w.from.Mode, RowTime: -1,
		NeedStamps: true, Label: "Sample", Op: &plan.Sink{Collect: true}})
	o := e.jobOptions(t.s, t.s.Config(), Handler{})
	o.Parallelism, o.BatchRows = 1, 256
	o.Trace = &job.Trace{Refused: func(*job.TraceRefusal) {}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running atomic.Pointer[job.Job]
	read := func() int64 {
		if j := running.Load(); j != nil {
			return j.Status().RowsRead
		}
		return 0
	}
	o.Collect = func(_ *plan.Node, b *vec.Batch) error {
		if read() > rows+int64(o.BatchRows) {
			return nil
		}
		times := b.Cols[w.at]
		b.Each(func(i int) {
			m.into++
			if stamp := b.Stamp(i); !times.IsNull(i) && stamp != vec.MinTime {
				if over, ok := w.over(times.I64[i]); ok && stamp >= over {
					m.needed = append(m.needed, stamp-over)
				}
			}
		})
		return nil
	}
	j, err := job.Start(ctx, p, o)
	if err != nil {
		return err
	}
	running.Store(j)
	for look := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-j.Done():
			look.Stop()
			if _, err = j.Wait(); errors.Is(context.Cause(ctx), errSampled) {
				err = nil
			}
			return err
		case <-look.C:
			if read() >= rows {
				cancel(errSampled)
			}
		}
	}
}

// sample is what one table's rows say.
type sample struct {
	max    map[string]int64 // by split
	behind []int64          // of rows behind the newest of their split: how far, ms
	needed []int64          // of rows whose windows may have been over: the delay that would not have kept them, ms
	rows   int64
	into   int64 // rows that go into windows, where an operator with state makes them
	now    int64
	varies bool
}

var errSampled = errors.New("the sample is large enough")

// timed is a table with a watermark, as a script's job reads it.
type timed struct {
	plan *plan.Plan
	node *plan.Node // of the source
	wins map[string]*windowed
	s    *sql.Session
	// refused is told of records and rows that cannot be used, r being the row as the table has it, nil of records that
	// could not be decoded. nil: they are passed over.
	refused func(r *timedRows, x *job.TraceRefusal) error
}

// timedTables finds the tables with a watermark that the jobs of a script read, each once: the one called table, or
// with "" all of them.
func (e *Engine) timedTables(name, text, table string) ([]*timed, error) {
	var out []*timed
	byName := map[string]*timed{}
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		for _, n := range r.Plan.Nodes {
			src, ok := n.Op.(*plan.Source)
			if !ok || src.RowTime < 0 || src.Watermark == nil || table != "" && src.Table.Name != table {
				continue
			}
			x := byName[src.Table.Name]
			if x == nil {
				x = &timed{plan: r.Plan, node: n, wins: map[string]*windowed{}, s: s}
				byName[src.Table.Name] = x
				out = append(out, x)
			}
			if err := firstWindows(r.Plan, n, x.wins); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(out) == 0 && table != "":
		return nil, fmt.Errorf("%s reads no table %s with a WATERMARK in a job", name, table)
	case len(out) == 0:
		return nil, fmt.Errorf("%s reads no table with a WATERMARK in a job", name)
	}
	return out, nil
}

// timedRows is a batch of rows of one split, in the order in which they lie there: as they are read, their times, and
// the watermark that each by itself asks for; nil where the table has no event time or its watermark is none of rows.
type timedRows struct {
	b            *vec.Batch
	times, marks *vec.Vec
	texts        func() []*vec.Vec // the columns cast to STRING
}

// text is column c of row i as text, "NULL" where it has no value.
func (r *timedRows) text(c, i int) string {
	if v := r.texts()[c]; !v.IsNull(i) {
		return string(v.Bytes(i))
	}
	return "NULL"
}

// split is the split that the rows are of.
func (r *timedRows) split() string {
	if r.b.Origin == nil {
		return ""
	}
	return r.b.Origin.Split
}

// read runs a job of the source alone and gives its rows to f, which ends it with an error. Nothing is written.
func (e *Engine) read(ctx context.Context, t *timed, f func(r *timedRows) error) error {
	src := t.node.Op.(*plan.Source)
	only := *src
	only.Filter, only.Limit = nil, -1
	from := *t.node
	from.ID, from.Op, from.NeedPos, from.NeedStamps, from.Parallelism = 0, &only, true, src.RowTime >= 0, 1
	p := &plan.Plan{Config: t.plan.Config, Name: t.plan.Name, File: t.plan.File, Text: t.plan.Text, Nodes: []*plan.Node{&from,
		{ID: 1, Inputs: []plan.Edge{{From: 0}}, Schema: from.Schema, Mode: from.Mode, RowTime: -1, Label: "Sample", Op: &plan.Sink{Collect: true}}}}
	o := e.jobOptions(t.s, t.s.Config(), Handler{})
	o.Parallelism = 1
	marks, err := watermarks(src, o.Env)
	if err != nil {
		return err
	}
	text, err := expr.CompileTexts(from.Schema, places(from.Schema.Len()), o.Env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ec := &expr.EvalCtx{Env: o.Env}
	var ended error
	end := func(err error) {
		if ended = err; err != nil {
			cancel(err)
		}
	}
	o.Trace = &job.Trace{}
	if t.refused != nil {
		project, err := t.projected(o.Env)
		if err != nil {
			return err
		}
		o.Trace.Refused = func(x *job.TraceRefusal) {
			var r *timedRows
			if x.Batch != nil {
				r = project(x.Batch)
			}
			if ended == nil {
				end(t.refused(r, x))
			}
		}
	}
	o.Collect = func(_ *plan.Node, b *vec.Batch) error {
		if ended != nil {
			return nil
		}
		r := &timedRows{b: b}
		if src.RowTime >= 0 {
			r.times, r.marks = b.Cols[src.RowTime], marks(b)
		}
		r.texts = sync.OnceValue(func() []*vec.Vec {
			ec.Batch, ec.Errs = b, ec.Errs[:0]
			return text.EvalAll(ec, b)
		})
		end(f(r))
		return nil
	}
	j, err := job.Start(ctx, p, o)
	if err != nil {
		return err
	}
	if _, err = j.Wait(); ended != nil {
		err = ended
	}
	return err
}

// watermarks computes the watermark that each row by itself asks for.
func watermarks(src *plan.Source, env *expr.Env) (func(b *vec.Batch) *vec.Vec, error) {
	if src.Watermark == nil {
		return func(*vec.Batch) *vec.Vec { return nil }, nil
	}
	mark, err := expr.CompileAll([]expr.Expr{src.Watermark}, env)
	if err != nil {
		return nil, err
	}
	ec := &expr.EvalCtx{Env: env}
	return func(b *vec.Batch) *vec.Vec {
		ec.Batch, ec.Errs = b, ec.Errs[:0]
		return mark.EvalAll(ec, b)[0]
	}, nil
}

// places are 0 to n-1.
func places(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// advise reads a sample of one table.
func (e *Engine) advise(ctx context.Context, t *timed, o AdviseOptions) (*Advice, error) {
	m := &sample{max: map[string]int64{}, now: -1}
	err := e.read(ctx, t, func(r *timedRows) error {
		m.add(r, t.wins, o.Rows)
		if m.rows >= o.Rows {
			return errSampled
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSampled) {
		return nil, err
	}
	for _, w := range t.wins {
		if w.from != nil {
			if err := m.changes(ctx, e, t, w, m.rows); err != nil {
				return nil, err
			}
		}
	}
	a := m.advice(o.Share, len(t.wins) > 0)
	src := t.node.Op.(*plan.Source)
	a.Table, a.TimeColumn, a.Ended = src.Table.Name, t.node.Schema.Fields[src.RowTime].Name, err == nil
	a.Windows = slices.Sorted(maps.Keys(t.wins))
	return a, nil
}

// add takes rows of one split, in the order in which they lie there.
func (m *sample) add(r *timedRows, wins map[string]*windowed, limit int64) {
	split, times, marks := r.split(), r.times, r.marks
	newest, known := m.max[split]
	if !known {
		newest = vec.MinTime
	}
	r.b.Each(func(i int) {
		if m.rows >= limit || times.IsNull(i) || marks.IsNull(i) {
			return
		}
		m.rows++
		t, wm := times.I64[i], marks.I64[i]
		switch d := t - wm; {
		case m.now < 0 && !m.varies:
			m.now = d
		case d != m.now:
			m.now, m.varies = -1, true
		}
		if t < newest {
			m.behind = append(m.behind, newest-t)
			need := int64(-1)
			for _, w := range wins {
				if over, ok := w.over(t); ok && w.from == nil {
					need = max(need, newest-over)
				}
			}
			if need >= 0 {
				m.needed = append(m.needed, need)
			}
		}
		newest = max(newest, t)
	})
	m.max[split] = newest
}

// advice makes the curve.
func (m *sample) advice(share float64, windows bool) *Advice {
	slices.Sort(m.behind)
	slices.Sort(m.needed)
	a := &Advice{Rows: m.rows, Into: m.rows, Splits: len(m.max), Now: m.now}
	if m.into > 0 {
		a.Into = m.into
	}
	if n := len(m.behind); n > 0 {
		a.Disorder = m.behind[n-1]
	}
	// A row is behind the watermark when it is further back than the delay, and late when its last window
	// was over by then.
	from := func(s []int64, least int64) int64 {
		i, _ := slices.BinarySearch(s, least)
		return int64(len(s) - i)
	}
	point := func(d int64) AdvicePoint {
		p := AdvicePoint{Delay: d, Behind: from(m.behind, d+1), Now: d == m.now}
		p.Late = p.Behind
		if windows {
			p.Late = from(m.needed, d)
		}
		return p
	}
	if a.None = a.Disorder; windows {
		a.None = 0
		if n := len(m.needed); n > 0 {
			a.None = m.needed[n-1] + 1
		}
	}
	all := append(slices.Clone(delays), a.None)
	if m.now >= 0 {
		all = append(all, m.now)
	}
	slices.Sort(all)
	found := false
	for _, d := range slices.Compact(all) {
		if d > a.None && d > m.now {
			break
		}
		p := point(d)
		a.Curve = append(a.Curve, p)
		if !found && float64(p.Late) <= share*float64(a.Into) {
			a.Recommended, found = p, true
		}
	}
	return a
}

// Interval writes a time in ms as people and INTERVAL literals do: "1 min 30 s".
func Interval(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	var parts []string
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / u.d; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.d
		}
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}
