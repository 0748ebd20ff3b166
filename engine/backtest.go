package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// CellChange is a cell that a changed script would show otherwise.
type CellChange struct {
	Table string            `json:"table"`
	Key   map[string]string `json:"key"`
	// Old and New are the columns that differ; nil where there is no such cell.
	Old map[string]string `json:"old"`
	New map[string]string `json:"new"`
	// Reason is appears, disappears or changes; Why says more, as far as what was kept of the generation tells.
	Reason string `json:"reason"`
	Why    string `json:"why,omitempty"`
}

// BacktestReport is how a script over history compares with what readers see.
type BacktestReport struct {
	Table       string       `json:"table"`
	Cells, Same int64        // of the script's run
	Changes     []CellChange `json:"changes"`
	More        int64        `json:"more"` // changes beyond the limit, which are only counted
	Took        time.Duration
}

// Backtest runs a script over history without touching any target, and compares what it computes for the windows that
// start in [from, to) with generation against of the tables that it would write ("": what readers see). At most limit changes a
// table are listed. The engine must be this call's own.
func (e *Engine) Backtest(ctx context.Context, name, text string, b BackfillOptions, against string, limit int, h Handler) ([]BacktestReport, error) {
	if err := b.localTimes(); err != nil {
		return nil, err
	}
	asked, err := b.span()
	if err != nil {
		return nil, err
	}
	b.Generation, b.Unversioned, b.AsWritten = "backtest", true, true // nothing is written
	if err := e.overHistory(name, text, &b); err != nil {
		return nil, err
	}
	tables, stores, err := e.OpenResults(ctx, name, text, b.Table)
	if err != nil {
		return nil, err
	}
	defer closeStores(stores)
	e.o.Dry = true
	e.o.Only = func(p *plan.Plan) bool { return writesResults(p, b.Table) }
	folds := map[string]*fold{}
	for _, t := range tables {
		folds[t.Name] = newFold(t)
	}
	h.Sunk = func(_ *Run, n *plan.Node, rows *vec.Batch) error {
		if f := folds[n.Op.(*plan.Sink).Table.Name]; f != nil {
			return f.add(n.Schema, rows)
		}
		return nil
	}
	began := time.Now()
	if err := e.Script(ctx, name, text, h); err != nil {
		return nil, err
	}
	var out []BacktestReport
	for i, t := range tables {
		q := results.Query{Generation: against, From: asked.From, To: asked.To, Order: t.Results.Key}
		seen, err := stores[i].Query(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		k, err := knownOf(ctx, stores[i], against)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		r := folds[t.Name].compare(seen, limit)
		for i := range r.Changes {
			k.explain(&r.Changes[i])
		}
		r.Took = time.Since(began)
		out = append(out, *r)
	}
	return out, nil
}

// fold keeps the newest revision of each cell, as text. Sinks of several subtasks add to it.
type fold struct {
	t     *connector.Table
	same  sameness
	mu    sync.Mutex
	progs *expr.Programs
	ectx  *expr.EvalCtx
	cells map[string]cell
}

type cell struct {
	revision int64
	first    int64 // revision that came
	deleted  bool
	values   []string // of t.Columns
	same     []string // likewise: what they are compared by
}

func newFold(t *connector.Table) *fold {
	return &fold{t: t, same: samenessOf(t), cells: map[string]cell{}}
}

// add takes revisions of schema s, which has the columns of the table.
func (f *fold) add(s types.Schema, b *vec.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.progs == nil {
		env := &expr.Env{Zone: time.UTC}
		var err error
		if f.progs, err = expr.CompileTexts(s, places(s.Len()), env); err != nil {
			return err
		}
		f.ectx = &expr.EvalCtx{Env: env}
	}
	f.ectx.Batch, f.ectx.Errs = b, f.ectx.Errs[:0]
	texts := f.progs.EvalAll(f.ectx, b)
	rev, del := s.Index(f.t.Results.Column["revision"]), -1
	if c := f.t.Results.Column["is_deleted"]; c != "" {
		del = s.Index(c)
	}
	b.Each(func(i int) {
		x := cell{revision: b.Cols[rev].I64[i], values: make([]string, len(texts)), same: make([]string, len(texts))}
		for c, v := range texts {
			x.same[c] = f.same.computed(b.Cols[c].Value(i), s.Fields[c].Type)
			if x.values[c] = "NULL"; !v.IsNull(i) {
				x.values[c] = string(v.Bytes(i))
			}
		}
		x.deleted = del >= 0 && x.values[del] == "TRUE"
		id := f.id(x.same)
		was, ok := f.cells[id]
		if x.first = x.revision; ok {
			x.first = was.first
		}
		if !ok || was.revision < x.revision {
			f.cells[id] = x
		}
	})
	return nil
}

// id is a cell's key; values are what they are compared by.
func (f *fold) id(values []string) string {
	var parts []string
	for i, c := range f.t.Columns {
		if slices.Contains(f.t.Results.Key, c.Name) {
			parts = append(parts, values[i])
		}
	}
	return strings.Join(parts, "\x00")
}

// compare tells the cells that differ from seen, the rows that readers see.
func (f *fold) compare(seen *results.Rows, limit int) *BacktestReport {
	r := &BacktestReport{Table: f.t.Name}
	at := map[string]int{}
	for i, c := range seen.Columns {
		at[c.Name] = i
	}
	meta := map[string]bool{}
	for _, c := range f.t.Results.Column {
		meta[c] = true
	}
	change := func(reason string, key []string, old, now, oldSame, nowSame []string) {
		if len(r.Changes) >= limit {
			r.More++
			return
		}
		c := CellChange{Table: f.t.Name, Key: map[string]string{}, Reason: reason}
		for i, col := range f.t.Columns {
			switch {
			case slices.Contains(f.t.Results.Key, col.Name):
				c.Key[col.Name] = key[i]
			case meta[col.Name]:
			case old == nil || now == nil || oldSame[i] != nowSame[i]:
				if old != nil {
					c.Old = put(c.Old, col.Name, old[i])
				}
				if now != nil {
					c.New = put(c.New, col.Name, now[i])
				}
			}
		}
		r.Changes = append(r.Changes, c)
	}
	known := map[string]bool{}
	for _, row := range seen.Rows {
		old, same := make([]string, len(f.t.Columns)), make([]string, len(f.t.Columns))
		for i, c := range f.t.Columns {
			if k, ok := at[c.Name]; ok {
				old[i], same[i] = sqlText(row[k], c.Type), f.same.stored(row[k], c.Type)
			}
		}
		id := f.id(same)
		known[id] = true
		now, ok := f.cells[id]
		if !ok || now.deleted {
			change("disappears", old, old, nil, nil, nil)
			continue
		}
		r.Cells++
		equal := true
		for i, c := range f.t.Columns {
			equal = equal && (meta[c.Name] || same[i] == now.same[i])
		}
		if equal {
			r.Same++
			continue
		}
		change("changes", old, old, now.values, same, now.same)
	}
	for _, id := range slices.Sorted(maps.Keys(f.cells)) {
		if x := f.cells[id]; !known[id] && !x.deleted {
			r.Cells++
			change("appears", x.values, nil, x.values, nil, nil)
		}
	}
	return r
}

func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// sqlText is a value of results.Rows as CAST(... AS STRING) writes values of type t.
func sqlText(v any, t types.Type) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return strings.ToUpper(fmt.Sprint(x))
	case time.Time:
		s := x.UTC().Format("2006-01-02 15:04:05.000000000")
		if t.Precision == 0 {
			return s[:len("2006-01-02 15:04:05")]
		}
		return s[:len("2006-01-02 15:04:05.")+t.Precision]
	case float64:
		if t.Kind == types.Float {
			return string(types.AppendFloat(nil, float32(x)))
		}
		return string(types.AppendDouble(nil, x))
	}
	return fmt.Sprint(v)
}

// known is what was kept of how the cells that readers see came about.
type known struct {
	l       *results.Layout
	times   results.Times
	pointer results.Pointer
	against string // "": by the pointer
	missed  map[string][]connector.MissedWindow
	reached map[string]int64 // watermark, by generation
}

func knownOf(ctx context.Context, s results.Store, against string) (*known, error) {
	k := &known{l: s.Layout(), times: results.TimesOf(s.Layout().R), against: against, missed: map[string][]connector.MissedWindow{}, reached: map[string]int64{}}
	var err error
	if k.pointer, err = s.Pointer(ctx); err != nil {
		return nil, err
	}
	names := []string{against}
	if against == "" {
		names = k.pointer.Generations()
	}
	for _, g := range names {
		if k.missed[g], err = s.Missed(ctx, g, vec.MinTime); err != nil {
			return nil, err
		}
		p, err := s.Progress(ctx, g, 1)
		if err != nil {
			return nil, err
		}
		if len(p) > 0 {
			k.reached[g] = p[0].Watermark
		}
	}
	return k, nil
}

// explain says why a cell changes, where that is known.
func (k *known) explain(c *CellChange) {
	at := func(f types.Field) (int64, bool) {
		text, ok := c.Key[f.Name]
		for _, m := range []map[string]string{c.Old, c.New} {
			if !ok {
				text, ok = m[f.Name]
			}
		}
		ms, _, parsed := types.ParseTimestamp([]byte(strings.TrimSuffix(text, "Z")))
		return ms, ok && parsed
	}
	start, ok := at(k.l.Start)
	if !ok {
		return
	}
	g := k.against
	if g == "" {
		g = k.pointer.Of(start)
	}
	for _, m := range k.missed[g] {
		switch {
		case start < m.Start || start >= m.End && start != m.Start:
		case m.Count() > 1:
			c.Why = fmt.Sprintf("rows came too late for windows here when generation %s was computed", g)
			return
		default:
			c.Why = fmt.Sprintf("rows came too late for this window when generation %s was computed (%d), and are in it now", g, m.Rows)
			return
		}
	}
	wm, ok := k.reached[g]
	end, windowed := at(k.l.End)
	if size := k.l.R.Windows; !windowed && size != nil && !size.Cumulative {
		end, windowed = start+size.Size, true
	}
	switch {
	case !ok || !windowed:
	case !k.times.Over(end, wm):
		c.Why = fmt.Sprintf("generation %s has not come so far: its watermark is %s", g, FormatTime(wm))
	case !k.times.Final(end, wm):
		c.Why = fmt.Sprintf("generation %s may still correct this window: its watermark is %s", g, FormatTime(wm))
	}
}
