package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Memory is a Store without a database, for tests and for results straight from a job. Methods may be called
// from several goroutines.
type Memory struct {
	l *Layout

	mu        sync.RWMutex
	rows      []memoryRow // by key, generation and revision; guarded by mu, as all that follows
	pointers  []Pointer   // the oldest first
	progress  []connector.Progress
	records   []Record
	conflicts map[string]string // the generation, by key, generation and revision
}

// memoryRow is a revision. Its values are as in Rows, in the order of the table's columns.
type memoryRow struct {
	key        string // sorts as the key does not have to
	generation string
	revision   int64
	at         int64 // when it was added
	values     []any
}

// NewMemory makes an empty store of a table of results.
func NewMemory(t *connector.Table) (*Memory, error) {
	l, err := LayoutOf(t)
	if err != nil {
		return nil, err
	}
	return &Memory{l: l, conflicts: map[string]string{}}, nil
}

// Add adds revisions, with values as in Rows, in the order of the table's columns. One that is there already
// changes nothing; one with other content is a conflict, and the first one stays.
func (m *Memory) Add(rows ...[]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UnixMilli()
	for _, values := range rows {
		r := memoryRow{key: m.keyOf(values), generation: Live, at: now, values: slices.Clone(values)}
		r.revision, _ = m.get(values, m.l.Of("revision")).(int64)
		if g, ok := m.get(values, m.l.Of("generation")).(string); ok {
			r.generation = g
		}
		at, there := slices.BinarySearchFunc(m.rows, r, compareRows)
		if !there {
			m.rows = slices.Insert(m.rows, at, r)
		} else if textOf(m.rows[at].values) != textOf(r.values) {
			m.conflicts[fmt.Sprintf("%s\x00%s\x00%d", r.key, r.generation, r.revision)] = r.generation
		}
	}
}

// AddProgress adds progress; the same checkpoint again changes nothing.
func (m *Memory) AddProgress(p connector.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, x := range m.progress {
		if x.Job == p.Job && x.Lineage == p.Lineage && x.Checkpoint == p.Checkpoint {
			m.progress[i] = p
			return
		}
	}
	m.progress = append(m.progress, p)
}

func compareRows(a, b memoryRow) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.generation, b.generation), cmp.Compare(a.revision, b.revision))
}

func (m *Memory) index(column string) int {
	return slices.IndexFunc(m.l.Table.Columns, func(f types.Field) bool { return f.Name == column })
}

func (m *Memory) get(values []any, column string) any {
	if i := m.index(column); i >= 0 {
		return values[i]
	}
	return nil
}

func (m *Memory) keyOf(values []any) string {
	var key []any
	for _, f := range m.l.Key {
		key = append(key, m.get(values, f.Name))
	}
	return textOf(key)
}

// textOf is unambiguous, and the same for the same values.
func textOf(values []any) string {
	var b strings.Builder
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b.WriteString("n;")
		case time.Time:
			fmt.Fprintf(&b, "t%d;", v.UnixNano())
		case string:
			fmt.Fprintf(&b, "%q;", v)
		default:
			fmt.Fprintf(&b, "%v;", v)
		}
	}
	return b.String()
}

// windowOf is the start or end of a row's window.
func (m *Memory) windowOf(values []any, f types.Field) (int64, bool) {
	if f.Name == "" {
		return 0, true
	}
	t, ok := m.get(values, f.Name).(time.Time)
	return t.UnixMilli(), ok
}

func (m *Memory) pointer() Pointer {
	if n := len(m.pointers); n > 0 {
		return m.pointers[n-1]
	}
	return Pointer{}
}

// newest calls f with the newest revision of each key among the rows that pass, deleted ones included.
func (m *Memory) newest(pass func(*memoryRow) bool, f func(*memoryRow)) {
	var best *memoryRow
	for i := range m.rows {
		r := &m.rows[i]
		if best != nil && best.key != r.key {
			f(best)
			best = nil
		}
		if pass(r) && (best == nil || r.revision > best.revision) {
			best = r
		}
	}
	if best != nil {
		f(best)
	}
}

// of reports whether a row is of a generation; with "", of the one that counts for its window.
func (m *Memory) of(r *memoryRow, generation string, p *Pointer) bool {
	if generation != "" {
		return r.generation == generation
	}
	if !m.l.Windowed {
		return r.generation == p.Base()
	}
	w, _ := m.windowOf(r.values, m.l.Start)
	return r.generation == p.Of(w)
}

func (m *Memory) deleted(r *memoryRow) bool {
	d, _ := m.get(r.values, m.l.Of("is_deleted")).(bool)
	return d
}

// Statements implements Store: there is nothing to make.
func (m *Memory) Statements() []Statement { return nil }

// Ensure implements Store.
func (m *Memory) Ensure(context.Context) error { return nil }

// Query implements Store.
func (m *Memory) Query(_ context.Context, q Query) (*Rows, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, c := range slices.Concat(mapNames(q.Where), q.Group) {
		if m.index(c) < 0 {
			return nil, fmt.Errorf("table %s has no column %s", m.l.Table.Name, c)
		}
	}
	p := m.pointer()
	var rows [][]any
	take := func(r *memoryRow) {
		w, ok := m.windowOf(r.values, m.l.Start)
		bounded := q.From != vec.MinTime || q.To != vec.MaxTime
		if bounded && (!ok || w < q.From || w >= q.To) && m.l.Start.Name != "" || !q.Deleted && m.deleted(r) {
			return
		}
		for c, want := range q.Where {
			f, _ := m.l.Column(c)
			if !sameText(m.get(r.values, c), want, f.Type) {
				return
			}
		}
		rows = append(rows, r.values)
	}
	if q.History {
		for i := range m.rows {
			if r := &m.rows[i]; m.of(r, q.Generation, &p) {
				take(r)
			}
		}
	} else {
		m.newest(func(r *memoryRow) bool { return m.of(r, q.Generation, &p) }, take)
	}
	out := &Rows{Columns: m.l.Table.Columns, Rows: rows}
	if len(q.Group) > 0 || len(q.Sums) > 0 {
		var err error
		if out, err = m.grouped(q, rows); err != nil {
			return nil, err
		}
	}
	if err := m.sort(out, q); err != nil {
		return nil, err
	}
	if q.Limit > 0 {
		out.Rows = out.Rows[:min(q.Limit, len(out.Rows))]
	}
	return out, nil
}

func mapNames(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// sameText reports whether a value is what a text says.
func sameText(v any, text string, t types.Type) bool {
	switch v := v.(type) {
	case nil:
		return false
	case time.Time:
		ms, nanos, ok := types.ParseTimestamp([]byte(text))
		return ok && v.Equal(time.UnixMilli(ms).Add(time.Duration(nanos)))
	case string:
		if t.Kind == types.Decimal {
			a, ok1 := new(big.Rat).SetString(v)
			b, ok2 := new(big.Rat).SetString(text)
			return ok1 && ok2 && a.Cmp(b) == 0
		}
		return v == text
	}
	return fmt.Sprint(v) == text
}

// sort sorts rows as q asks.
func (m *Memory) sort(rows *Rows, q Query) error {
	type by struct {
		col  int
		desc bool
	}
	names := q.Order
	if len(names) == 0 {
		names = q.Group
		if len(q.Group) == 0 && len(q.Sums) == 0 {
			names = append(slices.Clone(m.l.R.Key), m.l.Of("generation"), m.l.Of("revision"))
		}
	}
	var order []by
	for _, n := range names {
		name, desc := strings.CutPrefix(n, "-")
		i := slices.IndexFunc(rows.Columns, func(f types.Field) bool { return f.Name == name || strings.HasSuffix(f.Name, "("+name+")") })
		if i < 0 && name != "" {
			return fmt.Errorf("column %s of table %s cannot be sorted by: it is not among the columns of the query", name, m.l.Table.Name)
		}
		if i >= 0 {
			order = append(order, by{i, desc})
		}
	}
	if len(q.Group) == 0 && len(q.Sums) == 0 {
		rows.Rows = slices.Clone(rows.Rows)
	}
	slices.SortStableFunc(rows.Rows, func(a, b []any) int {
		for _, o := range order {
			x, y := a[o.col], b[o.col]
			if x == nil || y == nil { // NULL comes last
				if (x == nil) != (y == nil) {
					if x == nil {
						return 1
					}
					return -1
				}
				continue
			}
			c := compareValues(x, y, rows.Columns[o.col].Type)
			if o.desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

func compareValues(x, y any, t types.Type) int {
	switch a := x.(type) {
	case int64:
		if b, ok := y.(int64); ok {
			return cmp.Compare(a, b)
		}
	case float64:
		if b, ok := y.(float64); ok {
			return cmp.Compare(a, b)
		}
	case time.Time:
		return a.Compare(y.(time.Time))
	case bool:
		return cmp.Compare(strconv.FormatBool(a), fmt.Sprint(y))
	case string:
		if t.Kind == types.Decimal {
			p, ok1 := new(big.Rat).SetString(a)
			q, ok2 := new(big.Rat).SetString(y.(string))
			if ok1 && ok2 {
				return p.Cmp(q)
			}
		}
	}
	return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y))
}

// grouped adds rows up.
func (m *Memory) grouped(q Query, rows [][]any) (*Rows, error) {
	out := &Rows{}
	for _, g := range q.Group {
		f, _ := m.l.Column(g)
		out.Columns = append(out.Columns, f)
	}
	for _, s := range q.Sums {
		t, err := m.sumType(s)
		if err != nil {
			return nil, err
		}
		out.Columns = append(out.Columns, types.Field{Name: s.Fn + "(" + s.Column + ")", Type: t})
	}
	groups := map[string][][]any{}
	var order []string
	for _, r := range rows {
		var key []any
		for _, g := range q.Group {
			key = append(key, m.get(r, g))
		}
		k := textOf(key)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	if len(q.Group) == 0 && len(order) == 0 {
		order = append(order, "")
	}
	for _, k := range order {
		var row []any
		for _, g := range q.Group {
			row = append(row, m.get(groups[k][0], g))
		}
		for i, s := range q.Sums {
			row = append(row, m.aggregate(s, groups[k], out.Columns[len(q.Group)+i].Type))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func (m *Memory) sumType(s Sum) (types.Type, error) {
	if s.Fn == "count" {
		return types.BigIntType.NotNull(), nil
	}
	f, ok := m.l.Column(s.Column)
	if !ok {
		return f.Type, fmt.Errorf("table %s has no column %s", m.l.Table.Name, s.Column)
	}
	switch {
	case s.Fn == "min" || s.Fn == "max":
		return f.Type.AsNullable(), nil
	case s.Fn != "sum" && s.Fn != "avg" || !f.Type.IsNumeric():
		return f.Type, fmt.Errorf("there is no aggregate %s of column %s, which is %s", s.Fn, s.Column, f.Type.AsNullable())
	case s.Fn == "avg" || f.Type.IsApprox():
		return types.DoubleType, nil
	case f.Type.Kind == types.Decimal:
		return types.DecimalType(38, f.Type.Scale), nil
	}
	return types.BigIntType, nil
}

// aggregate is one aggregate over rows.
func (m *Memory) aggregate(s Sum, rows [][]any, t types.Type) any {
	var vals []any
	for _, r := range rows {
		if s.Column == "" || s.Column == "*" {
			vals = append(vals, true)
		} else if v := m.get(r, s.Column); v != nil {
			vals = append(vals, v)
		}
	}
	switch {
	case s.Fn == "count":
		return int64(len(vals))
	case len(vals) == 0:
		return nil
	case s.Fn == "min":
		return slices.MinFunc(vals, func(a, b any) int { return compareValues(a, b, t) })
	case s.Fn == "max":
		return slices.MaxFunc(vals, func(a, b any) int { return compareValues(a, b, t) })
	}
	sum := new(big.Rat)
	odd, some := 0.0, false // the sum of what is no number or infinite
	for _, v := range vals {
		if x, ok := new(big.Rat).SetString(fmt.Sprint(v)); ok {
			sum.Add(sum, x)
		} else if f, ok := notFinite(fmt.Sprint(v)); ok {
			odd, some = odd+f, true
		}
	}
	switch {
	case some:
		return odd
	case s.Fn == "avg":
		f, _ := sum.Quo(sum, new(big.Rat).SetInt64(int64(len(vals)))).Float64()
		return f
	case t.Kind == types.Decimal:
		return sum.FloatString(t.Scale)
	case t.IsApprox():
		f, _ := sum.Float64()
		return f
	}
	return sum.Num().Int64()
}

// Progress implements Store.
func (m *Memory) Progress(_ context.Context, generation string, n int) ([]connector.Progress, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []connector.Progress
	for _, p := range m.progress {
		if generation == "" || p.Generation == generation {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b connector.Progress) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Checkpoint, a.Checkpoint))
	})
	return out[:min(n, len(out))], nil
}

// Missed implements Store.
func (m *Memory) Missed(ctx context.Context, generation string, after int64) ([]connector.MissedWindow, error) {
	rows, err := m.Progress(ctx, generation, math.MaxInt)
	rows = slices.DeleteFunc(rows, func(p connector.Progress) bool { return p.At <= after || p.Generation != generation })
	return MergeMissed(rows), err
}

// Pointer implements Store.
func (m *Memory) Pointer(context.Context) (Pointer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pointer(), nil
}

// Pointers implements Store.
func (m *Memory) Pointers(context.Context) ([]Pointer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := slices.Clone(m.pointers)
	slices.Reverse(out)
	return out, nil
}

// Point implements Store.
func (m *Memory) Point(_ context.Context, p Pointer) error {
	if err := m.l.CheckRange(&p); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.pointer(); p.Version != now.Version+1 {
		return ErrMoved
	}
	m.pointers = append(m.pointers, p)
	return nil
}

// Generations implements Store.
func (m *Memory) Generations(context.Context) ([]Generation, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	by := map[string]*Generation{}
	keys := map[string]string{}
	for i := range m.rows {
		r := &m.rows[i]
		g := by[r.generation]
		if g == nil {
			g = &Generation{Name: r.generation, FirstWindow: vec.MaxTime, LastWindow: vec.MinTime}
			by[r.generation] = g
		}
		if w, ok := m.windowOf(r.values, m.l.Start); ok {
			g.FirstWindow, g.LastWindow = min(g.FirstWindow, w), max(g.LastWindow, w)
		}
		g.Revisions++
		if keys[r.generation] != r.key {
			keys[r.generation] = r.key
			g.Keys++
		}
	}
	var out []Generation
	for _, g := range by {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Generation) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Totals implements Store.
func (m *Memory) Totals(_ context.Context, generation string, from, to int64) ([]Total, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	byWindow := map[int64][]*memoryRow{}
	m.newest(func(r *memoryRow) bool { return r.generation == generation }, func(r *memoryRow) {
		w, ok := m.windowOf(r.values, m.l.Start)
		if !m.deleted(r) && (m.l.Start.Name == "" || ok && w >= from && w < to) {
			byWindow[w] = append(byWindow[w], r)
		}
	})
	var out []Total
	for w, rows := range byWindow {
		t := Total{Window: w, Keys: int64(len(rows)), Sums: map[string]string{}}
		var all [][]any
		for _, r := range rows {
			h := fnv.New64a()
			var vals []any
			for _, f := range slices.Concat(m.l.Key, m.l.Values) {
				vals = append(vals, m.get(r.values, f.Name))
			}
			h.Write([]byte(textOf(vals)))
			t.Hash += h.Sum64()
			all = append(all, r.values)
		}
		for _, f := range m.l.Summed() {
			st, _ := m.sumType(Sum{"sum", f.Name})
			t.Sums[f.Name] = ""
			if v := m.aggregate(Sum{"sum", f.Name}, all, st); v != nil {
				t.Sums[f.Name] = fmt.Sprint(v)
			}
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b Total) int { return cmp.Compare(a.Window, b.Window) })
	return out, nil
}

// Corrected implements Store.
func (m *Memory) Corrected(_ context.Context, generation string, from, to, after int64) ([]connector.MissedWindow, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	byStart := map[int64]*connector.MissedWindow{}
	for i := range m.rows {
		r := &m.rows[i]
		w, ok := m.windowOf(r.values, m.l.Start)
		if r.generation != generation || r.at <= after || m.l.Start.Name == "" || !ok || w < from || w >= to {
			continue
		}
		c := byStart[w]
		if c == nil {
			c = &connector.MissedWindow{Start: w, End: w}
			byStart[w] = c
		}
		if e, ok := m.windowOf(r.values, m.l.End); ok {
			c.End = max(c.End, e)
		}
		if g := m.l.R.Windows; m.l.End.Name == "" && g != nil {
			c.End = c.Start + g.Size
		}
		c.Rows++
	}
	var out []connector.MissedWindow
	for _, c := range byStart {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b connector.MissedWindow) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}

// Conflicts implements Store.
func (m *Memory) Conflicts(_ context.Context, generation string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var n int64
	for _, g := range m.conflicts {
		if generation == "" || g == generation {
			n++
		}
	}
	return n, nil
}

// Layout implements Store.
func (m *Memory) Layout() *Layout { return m.l }

// Note implements Store.
func (m *Memory) Note(_ context.Context, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r)
	return nil
}

// Records implements Store.
func (m *Memory) Records(_ context.Context, kind string) ([]Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Record
	for _, r := range slices.Backward(m.records) {
		if kind == "" || r.Kind == kind {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Compare(b.At, a.At) })
	return out, nil
}

// ErrShown says that a generation cannot be dropped.
var ErrShown = errors.New("the generation is shown")

// Drop implements Store.
func (m *Memory) Drop(_ context.Context, generation string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pointer(); slices.Contains(p.Generations(), generation) {
		return ErrShown
	}
	m.rows = slices.DeleteFunc(m.rows, func(r memoryRow) bool { return r.generation == generation })
	m.progress = slices.DeleteFunc(m.progress, func(p connector.Progress) bool { return p.Generation == generation })
	return nil
}

// Prune implements Store.
func (m *Memory) Prune(_ context.Context, generation string, before int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest := map[string]int64{}
	m.newest(func(r *memoryRow) bool { return r.generation == generation }, func(r *memoryRow) { newest[r.key] = r.revision })
	was := len(m.rows)
	m.rows = slices.DeleteFunc(m.rows, func(r memoryRow) bool {
		w, ok := m.windowOf(r.values, m.l.Start)
		return r.generation == generation && ok && w < before && r.revision < newest[r.key]
	})
	return int64(was - len(m.rows)), nil
}

// Now implements Store.
func (m *Memory) Now(context.Context) (int64, error) { return time.Now().UnixMilli(), nil }

// PruneProgress implements Store.
func (m *Memory) PruneProgress(_ context.Context, before int64) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stay []connector.Progress
	for i, gone := range Superseded(m.progress) {
		if gone && m.progress[i].At < before {
			n++
			continue
		}
		stay = append(stay, m.progress[i])
	}
	m.progress = stay
	return n, nil
}

// Lint implements Store.
func (m *Memory) Lint(context.Context) ([]string, error) { return nil, nil }

// Health implements Store.
func (m *Memory) Health(context.Context) (map[string]float64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return map[string]float64{"rows": float64(len(m.rows))}, nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }
