package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// RecordQuestion asks what happened to a record: one at a place, or those with certain values.
type RecordQuestion struct {
	// Table is the source table; "": the script's only one with a watermark.
	Table string
	// Split and Position name a record (topic-partition and offset; path and byte); Split "" leaves them out.
	Split    string
	Position int64
	// Values are columns and the text that they must have; At is the event time, likewise.
	Values map[string]string
	At     string
	// Limit is how many records to tell of.
	Limit int
}

// RecordAnswer is what happened to one record, as a run that reads its table from the beginning sees it: the
// split whose watermark is lowest first. A live run may have judged otherwise where splits were apart then.
type RecordAnswer struct {
	Table, Split string
	Position     int64
	Row          map[string]string
	Time         int64 // event time, ms
	NoTime       bool  // it has none, and is dropped
	// Watermark is that of the record's split when it came, vec.MinTime before the first; Others that of the other
	// splits, by name, as far as they had been read.
	Watermark int64
	Others    map[string]int64
	// Driver is the record that had moved the watermark so far, its event time and how many records before.
	DriverPosition, DriverTime, DriverAgo int64
	// Combined is the watermark of the table, and Holds the split that held it there: the one that was lowest.
	Combined int64
	Holds    string
	Windows  []RecordWindow
}

// RecordWindow is a window that a record belongs to.
type RecordWindow struct {
	Aggregation string
	Start, End  int64 // local time of the window
	LatenessMs  int64 // that is allowed
	// LateBy is by how much the record missed it, judged by its split's watermark, ms; negative: it was in time.
	LateBy int64
	// Keep is the delay of the watermark by which it would have been in time, ms; 0 where it was.
	Keep int64
}

// follower sees the watermarks of the splits of a table.
type follower struct {
	at map[string]*followed
}

type followed struct {
	wm            int64 // of the split
	newest        int64 // event time
	driver        int64 // position of the record that wm comes from
	driverTime    int64
	driven, count int64
}

// WhyRecord reads a table from its beginning and tells what happened to records.
func (e *Engine) WhyRecord(ctx context.Context, name, text string, q RecordQuestion) ([]RecordAnswer, error) {
	tables, err := e.timedTables(name, text, q.Table)
	if err != nil {
		return nil, err
	}
	if len(tables) > 1 {
		var names []string
		for _, t := range tables {
			names = append(names, t.node.Op.(*plan.Source).Table.Name)
		}
		return nil, fmt.Errorf("%s reads several tables with a WATERMARK; say which one the record is of with --source: %s", name, strings.Join(names, ", "))
	}
	t := tables[0]
	if err := t.whole(); err != nil {
		return nil, err
	}
	match, err := matcher(t.node.Schema, q)
	if err != nil {
		return nil, err
	}
	f := &follower{at: map[string]*followed{}}
	var out []RecordAnswer
	err = e.read(ctx, t, func(r *timedRows) error {
		s := f.at[r.split()]
		if s == nil {
			s = &followed{wm: vec.MinTime, newest: vec.MinTime}
			f.at[r.split()] = s
		}
		var enough error
		r.b.Each(func(i int) {
			if enough == nil && match(r, i) {
				out = append(out, f.answer(t, r, i, s))
				if len(out) >= q.Limit || q.Split != "" {
					enough = errSampled
				}
			}
			s.see(r, i)
		})
		return enough
	})
	if err != nil && !errors.Is(err, errSampled) {
		return nil, err
	}
	return out, nil
}

// whole has all columns of the table read, and not only those that the job needs.
func (t *timed) whole() error {
	stmts, err := parse.Script("SELECT * FROM `" + strings.ReplaceAll(t.node.Op.(*plan.Source).Table.Name, "`", "``") + "`")
	if err != nil {
		return err
	}
	r, err := t.s.Execute(stmts[0])
	if err != nil {
		return err
	}
	for _, n := range r.Plan.Nodes {
		if src, ok := n.Op.(*plan.Source); ok && src.RowTime >= 0 && src.Watermark != nil {
			t.plan, t.node = r.Plan, n
		}
	}
	return nil
}

// see takes note of a row.
func (s *followed) see(r *timedRows, i int) {
	s.count++
	if r.times.IsNull(i) {
		return
	}
	s.newest = max(s.newest, r.times.I64[i])
	if !r.marks.IsNull(i) && r.marks.I64[i] > s.wm {
		s.wm, s.driver, s.driverTime, s.driven = r.marks.I64[i], r.position(i), r.times.I64[i], s.count
	}
}

// position is the place of row i in its split, -1 if unknown.
func (r *timedRows) position(i int) int64 {
	if r.b.Pos == nil {
		return -1
	}
	return r.b.Pos[i]
}

// matcher returns what tells the records that are asked for.
func matcher(s types.Schema, q RecordQuestion) (func(r *timedRows, i int) bool, error) {
	cols := map[int]string{}
	for name, v := range q.Values {
		c := s.Index(name)
		if c < 0 {
			return nil, fmt.Errorf("the table, as the job reads it, has no column %s; there are %s", name, strings.Join(s.Names(), ", "))
		}
		cols[c] = v
	}
	at := int64(0)
	if q.At != "" {
		var err error
		if at, err = ParseTime(q.At); err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
	}
	if q.Split == "" && len(cols) == 0 && q.At == "" {
		return nil, errors.New("say which record: by its place, or by values of its columns")
	}
	return func(r *timedRows, i int) bool {
		if q.Split != "" && (r.split() != q.Split || r.position(i) != q.Position) {
			return false
		}
		if q.At != "" && (r.times.IsNull(i) || r.times.I64[i] != at) {
			return false
		}
		for c, v := range cols {
			if r.text(c, i) != v {
				return false
			}
		}
		return true
	}, nil
}

// answer tells of row i, which s has not seen yet.
func (f *follower) answer(t *timed, r *timedRows, i int, s *followed) RecordAnswer {
	a := RecordAnswer{Table: t.node.Op.(*plan.Source).Table.Name, Split: r.split(), Position: r.position(i), Row: map[string]string{},
		Watermark: s.wm, Others: map[string]int64{}, DriverPosition: s.driver, DriverTime: s.driverTime, DriverAgo: s.count - s.driven + 1, Combined: s.wm,
		Holds: r.split()}
	for c, field := range t.node.Schema.Fields {
		a.Row[field.Name] = r.text(c, i)
	}
	for name, x := range f.at {
		if name == r.split() {
			continue
		}
		a.Others[name] = x.wm
		if x.wm < a.Combined {
			a.Combined, a.Holds = x.wm, name
		}
	}
	if a.NoTime = r.times.IsNull(i); a.NoTime {
		return a
	}
	a.Time = r.times.I64[i]
	for _, label := range slices.Sorted(maps.Keys(t.wins)) {
		w := t.wins[label]
		for _, x := range w.windows.Of(nil, a.Time) {
			rw := RecordWindow{Aggregation: label, Start: x.Start, End: x.End, LatenessMs: w.agg.AllowedLatenessMs, LateBy: -1}
			if s.wm >= x.Over && s.wm > vec.MinTime {
				rw.LateBy = s.wm - x.Over
				// Now the delay is what lies between the driver's time and the watermark; one more ms than the
				// record was late keeps it.
				rw.Keep = s.driverTime - s.wm + rw.LateBy + 1
			}
			a.Windows = append(a.Windows, rw)
		}
	}
	return a
}

// timeLayouts are the forms of a time on the command line.
var timeLayouts = []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.RFC3339Nano, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// ParseTime reads a time as ms since 1970: 2013-01-31, 2013-01-31 12:00, with seconds and fractions, an RFC 3339
// time with its zone, or a number of milliseconds. Without a zone it is UTC.
func ParseTime(s string) (int64, error) {
	s = strings.TrimSpace(s)
	for _, l := range timeLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UnixMilli(), nil
		}
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && len(s) > 8 {
		return ms, nil
	}
	return 0, fmt.Errorf("%q is no time; write it as 2013-01-31, 2013-01-31 12:00:00 or 2013-01-31T12:00:00Z", s)
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

// CellAnswer is how one cell of a result came to be what it is.
type CellAnswer struct {
	Table     string
	Columns   []types.Field
	Revisions [][]any // by generation and revision
	Status    string  // what a reader is told of the cell now
}

// WhyCell reads the history of the cells of a table of results with certain values of key columns.
func (e *Engine) WhyCell(ctx context.Context, name, text, table string, key map[string]string, generation string) ([]CellAnswer, []*connector.Table, error) {
	tables, stores, err := e.OpenResults(ctx, name, text, table)
	if err != nil {
		return nil, nil, err
	}
	defer closeStores(stores)
	var out []CellAnswer
	for i, s := range stores {
		t := tables[i]
		for k := range key {
			if !slices.ContainsFunc(t.Columns, func(f types.Field) bool { return f.Name == k }) {
				return nil, nil, fmt.Errorf("table %s has no column %s; its key is %s", t.Name, k, strings.Join(t.Results.Key, ", "))
			}
		}
		order := slices.Clone(t.Results.Key)
		if g := t.Results.Column["generation"]; g != "" {
			order = append(order, g)
		}
		order = append(order, t.Results.Column["revision"])
		rows, err := s.Query(ctx, results.Query{Generation: generation, From: vec.MinTime, To: vec.MaxTime, Where: key, History: true, Deleted: true, Order: order, Limit: 1000})
		if err != nil {
			return nil, nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		out = append(out, CellAnswer{Table: t.Name, Columns: rows.Columns, Revisions: rows.Rows})
	}
	return out, tables, nil
}
