package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	maxPoints    = 20_000 // rows read for one tile
	defaultSpan  = 48     // windows of a series
	sparkSpan    = 24     // windows behind a number
	maxSpark     = 500    // and at most
	defaultLines = 8      // lines of a series and
	defaultBars  = 12     // bars
	defaultRows  = 50     // and rows of a table, where the tile does not say
)

// Data is what a tile shows. Which of the parts is there follows from the tile's kind.
type Data struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	// Error says why there is nothing new; what else there is, is older then.
	Error string `json:"error,omitempty"`
	// Remedy is what helps against it, where that is known.
	Remedy string `json:"remedy,omitempty"`
	Label  string `json:"label,omitempty"` // of the value
	Unit   string `json:"unit,omitempty"`
	Tally  *Tally `json:"tally,omitempty"`
	// Generations are those that the cells are of.
	Generations []string `json:"generations,omitempty"`
	// Idle are the windows shown that closed while splits were idle, by start.
	Idle  int    `json:"idle,omitempty"`
	Note  string `json:"note,omitempty"` // what is not shown
	Empty string `json:"empty,omitempty"`

	Number *NumberData `json:"number,omitempty"`
	Series *SeriesData `json:"series,omitempty"`
	Bars   []Bar       `json:"bars,omitempty"`
	Table  *TableData  `json:"table,omitempty"`
}

// Tally counts cells by state.
type Tally struct {
	Final       int `json:"final"`
	Provisional int `json:"provisional"`
	Backfill    int `json:"backfill"`
}

func (t *Tally) count(state byte) {
	switch state {
	case final:
		t.Final++
	case backfill:
		t.Backfill++
	default:
		t.Provisional++
	}
}

// worst is the state of a value that is made of all.
func (t *Tally) worst() byte {
	switch {
	case t.Backfill > 0:
		return backfill
	case t.Provisional > 0:
		return provisional
	}
	return final
}

// NumberData is a number with the windows that it is of, and those before it.
type NumberData struct {
	Value    any    `json:"value"`
	State    string `json:"state"`
	Revision int64  `json:"revision,omitempty"`
	Windows  int    `json:"windows"`
	From     int64  `json:"from"` // the start of the first and
	To       int64  `json:"to"`   // the end of the last window
	Idle     bool   `json:"idle,omitempty"`
	Timed    bool   `json:"timed"`
	Spark    []any  `json:"spark,omitempty"` // a value a window, the oldest first
	States   string `json:"states,omitempty"`
}

// SeriesData is lines over windows.
type SeriesData struct {
	Start []int64  `json:"start"`
	End   []int64  `json:"end"`
	Gen   []string `json:"gen"`
	Idle  string   `json:"idle"` // a 1 a window that closed while splits were idle, else 0
	Lines []Line   `json:"lines"`
}

// Line is one line of a series: a value, a state and a revision a window. The state is a blank where there
// is no row.
type Line struct {
	Name      string  `json:"name"`
	Values    []any   `json:"values"`
	States    string  `json:"states"`
	Revisions []int64 `json:"revisions"`
}

// Bar is one bar.
type Bar struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`
	State    string `json:"state"`
	Revision int64  `json:"revision,omitempty"`
	Windows  int    `json:"windows"`
	Idle     bool   `json:"idle,omitempty"`
}

// TableData is a page of rows.
type TableData struct {
	Columns []ColumnInfo `json:"columns"`
	Rows    []Row        `json:"rows"`
	// From is the place of the first row among all, from 0; Size how many rows a page has.
	From int `json:"from"`
	Size int `json:"size"`
	// Total is how many rows there are; More says that there are more than that, which nobody counted.
	Total int64 `json:"total"`
	More  bool  `json:"more,omitempty"`
	// Reach is how many rows can be paged to.
	Reach int `json:"reach"`
}

// Row is one row with what is known of it.
type Row struct {
	Cells      []any  `json:"cells"`
	State      string `json:"state"`
	Revision   int64  `json:"revision,omitempty"`
	Generation string `json:"generation,omitempty"`
	Idle       bool   `json:"idle,omitempty"`
}

// tile is a tile that fits its source.
type tile struct {
	Tile
	src   *Source
	b     *books
	value value
	field types.Field // of the value
	span  span
	only  bool // the closed report
	note  string
}

// resolve fits t to its source.
func (t *Tile) resolve(src *Source) (*tile, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	out := &tile{Tile: *t, src: src}
	out.span, _ = parseSpan(t.Last)
	has := func(what, name string) error {
		if _, ok := src.column(name); !ok {
			return fmt.Errorf("%s: table %s has no column %q; it has %s", what, src.Table.Name, name, strings.Join(src.Table.Schema().Names(), ", "))
		}
		return nil
	}
	if t.Kind != Table {
		out.value, _ = parseValue(t.Value)
		if out.value.column == "*" && out.value.fn == "count" {
			out.value.column = src.Table.Results.Column["revision"] // which is never NULL
		}
		if err := has("value", out.value.column); err != nil {
			return nil, err
		}
		out.field, _ = src.column(out.value.column)
		if fn := out.value.fn; fn != "count" && !numeric(out.field.Type) {
			return nil, fmt.Errorf("value: column %s is %s, which is no number; count(%s) would be one", out.field.Name, out.field.Type.AsNullable(), out.field.Name)
		}
	}
	if t.Kind == Series && src.Table.Results.WindowStart == "" {
		return nil, fmt.Errorf("table %s has no column with the start of a window: a series is over windows; take bars or a table", src.Table.Name)
	}
	for what, names := range map[string][]string{"by": t.By, "columns": t.Columns, "where": slices.Collect(maps.Keys(t.Where))} {
		for _, n := range names {
			if err := has(what, n); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range t.Order {
		if err := has("order", strings.TrimPrefix(n, "-")); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// point is one row behind a tile: a value of a window and of what the tile is by.
type point struct {
	w        window
	by       string
	v        any
	count    int64 // values behind v, for averages
	revision int64
	gen      string
	state    byte
	idle     bool
}

// load reads what the tile shows. b is the source's books, only says that it is for the closed report.
func (t *tile) load(ctx context.Context, b *books, only bool) (*Data, error) {
	d := t.blank(b, only)
	if t.Kind == Table {
		return d, t.table(ctx, d, 0)
	}
	d.Label = t.value.String()
	points, err := t.points(ctx)
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		d.Empty = "no rows yet"
		if only {
			d.Empty = "no window is final in a reconciled generation yet"
		}
		return d, nil
	}
	gens := map[string]bool{}
	for _, p := range points {
		gens[p.gen] = true
	}
	switch t.Kind {
	case Number:
		err = t.number(d, points)
	case Series:
		err = t.series(d, points)
	case Bars:
		err = t.bars(d, points)
	}
	d.Generations = slices.Sorted(maps.Keys(gens))
	if d.Note != "" && t.note != "" {
		t.note = "; " + t.note
	}
	d.Note += t.note
	return d, err
}

// blank is what a tile shows before it was read.
func (t *tile) blank(b *books, only bool) *Data {
	t.b, t.only = b, only
	d := &Data{ID: t.ID, Source: t.src.key(), Tally: &Tally{}, Unit: t.src.Table.Results.Units[t.field.Name]}
	if t.value.fn == "count" {
		d.Unit = ""
	}
	return d
}

// points reads the rows behind a number, a series or bars, the oldest window first.
func (t *tile) points(ctx context.Context) ([]point, error) {
	from, keep, err := t.from(ctx)
	if err != nil {
		return nil, err
	}
	q, at := t.query(from)
	rows, err := t.src.Store.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(rows.Rows) > maxPoints && !t.fewer(rows, at.start) {
		return nil, fmt.Errorf("the tile would read more than %d rows: show less of the past with last, or add up over fewer columns", maxPoints)
	}
	out := make([]point, 0, len(rows.Rows))
	for _, r := range rows.Rows {
		if p := at.point(t, r); !t.only || t.b.closed(p.w, p.gen, p.state) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.w.start, b.w.start), cmp.Compare(a.w.end, b.w.end), cmp.Compare(a.by, b.by))
	})
	return newest(out, keep), nil
}

// fewer leaves out the oldest windows of an answer that was cut, the newest window first, where the tile does not say how
// many it wants. false: there is not one that is whole.
func (t *tile) fewer(rows *results.Rows, start int) bool {
	if t.Last != "" || start < 0 {
		return false
	}
	n := len(rows.Rows)
	cut, _ := msOf(rows.Rows[n-1][start])
	for n > 0 {
		if ms, _ := msOf(rows.Rows[n-1][start]); ms != cut {
			break
		}
		n--
	}
	if rows.Rows = rows.Rows[:n]; n == 0 {
		return false
	}
	t.note = fmt.Sprintf("only the newest windows: more would be over %d rows; say how many with last, or add up over fewer columns", maxPoints)
	return true
}

// newest keeps the points of the last n windows; 0: all.
func newest(ps []point, n int) []point {
	if n == 0 {
		return ps
	}
	for i := len(ps) - 1; i >= 0; i-- {
		if i+1 == len(ps) || ps[i].w != ps[i+1].w {
			if n == 0 {
				return ps[i+1:]
			}
			n--
		}
	}
	return ps
}

// from is the first window to read, and how many of the newest to keep.
func (t *tile) from(ctx context.Context) (from int64, keep int, err error) {
	s := t.span
	if t.Kind == Number && !s.all && s.ms == 0 {
		s = span{windows: max(s.windows, sparkSpan)} // the windows before it are its course
	}
	if s.isZero() {
		s.windows = map[string]int{Series: defaultSpan, Bars: 1}[t.Kind]
	}
	if s.all || s.isZero() || t.src.Table.Results.WindowStart == "" {
		return vec.MinTime, 0, nil
	}
	find := t.b.newestOf
	if t.only {
		find = t.b.newestClosed
	}
	n, err := find(ctx, t.Generation)
	switch {
	case err != nil || !n.known && !t.only:
		return vec.MinTime, s.windows, err
	case !n.known:
		return vec.MaxTime, 0, nil // there is nothing
	}
	if s.windows > 0 {
		// The newest rows that fit may be of older windows than the newest of the table, and closed ones are:
		// read some more.
		spare := int64(sparkSpan)
		if t.only {
			spare = 4 * defaultSpan
		}
		return n.start - (int64(s.windows)+spare)*max(n.size, 1), s.windows, nil
	}
	return n.start - s.ms + 1, 0, nil
}

// places says where in a row of an answer the parts of a point are; -1 where they are not.
type places struct {
	start, end, gen, flag, value, count, revision int
	by                                            []int
}

// query asks for the points from a window on: by window, generation and what the tile is by.
func (t *tile) query(from int64) (results.Query, places) {
	r := t.src.Table.Results
	q := results.Query{Generation: t.Generation, From: from, To: vec.MaxTime, Where: t.Where, Limit: maxPoints + 1}
	if t.only {
		q.To = t.b.lastClosed()
	}
	if r.WindowStart != "" {
		q.Order = []string{"-" + r.WindowStart}
	}
	at := places{-1, -1, -1, -1, -1, -1, -1, nil}
	if t.value.fn == "" {
		for i, f := range t.src.Table.Columns {
			at.find(r.WindowStart, f.Name, &at.start, i)
			at.find(r.WindowEnd, f.Name, &at.end, i)
			at.find(r.Column["generation"], f.Name, &at.gen, i)
			at.find(r.Column["is_final"], f.Name, &at.flag, i)
			at.find(r.Column["revision"], f.Name, &at.revision, i)
			at.find(t.value.column, f.Name, &at.value, i)
		}
		if t.src.flagged() {
			at.flag = len(t.src.Table.Columns)
		}
		for _, n := range t.By {
			at.by = append(at.by, t.src.Table.Schema().Index(n))
		}
		return q, at
	}
	group := func(name string) int {
		if name == "" {
			return -1
		}
		if i := slices.Index(q.Group, name); i >= 0 {
			return i
		}
		q.Group = append(q.Group, name)
		return len(q.Group) - 1
	}
	at.start, at.end, at.gen = group(r.WindowStart), group(r.WindowEnd), group(r.Column["generation"])
	for _, n := range t.By {
		at.by = append(at.by, group(n))
	}
	at.value = len(q.Group)
	fn := t.value.fn
	if fn == "avg" {
		q.Sums = append(q.Sums, results.Sum{Fn: "sum", Column: t.value.column}, results.Sum{Fn: "count", Column: t.value.column})
		at.count = at.value + 1
	} else {
		q.Sums = append(q.Sums, results.Sum{Fn: fn, Column: t.value.column})
	}
	at.revision = len(q.Group) + len(q.Sums)
	q.Sums = append(q.Sums, results.Sum{Fn: "max", Column: r.Column["revision"]})
	if t.src.flagged() {
		at.flag = len(q.Group) + len(q.Sums)
		q.Sums = append(q.Sums, results.Sum{Fn: "min", Column: finalColumn})
	}
	return q, at
}

func (places) find(want, name string, to *int, i int) {
	if want != "" && want == name {
		*to = i
	}
}

// lastClosed is where the starts of windows end that may be final.
func (b *books) lastClosed() int64 {
	wm := vec.MinTime
	for _, g := range b.gens {
		if g.known {
			wm = max(wm, g.last.Watermark)
		}
	}
	if wm = b.times.Local(wm); wm > vec.MaxTime-2 || wm == vec.MinTime {
		return wm
	}
	return wm + 2
}

// point reads a row of an answer.
func (at *places) point(t *tile, row []any) point {
	get := func(i int) any {
		if i < 0 || i >= len(row) {
			return nil
		}
		return row[i]
	}
	p := point{v: get(at.value), count: 1}
	p.w.start, p.w.known = msOf(get(at.start))
	end, ok := msOf(get(at.end))
	if !ok {
		end, ok = t.src.endOf(p.w.start)
	}
	if p.w.end = end; !ok {
		p.w.end, p.w.endless = p.w.start+1, true
	}
	p.revision, _ = get(at.revision).(int64)
	p.gen = t.generationOf(get(at.gen), p.w)
	if at.count >= 0 {
		p.count, _ = get(at.count).(int64)
	}
	for i, k := range at.by {
		if i > 0 {
			p.by += between
		}
		p.by += nameOf(get(k))
	}
	flagged, _ := get(at.flag).(bool)
	p.state, p.idle = t.b.judge(p.w, p.gen, flagged)
	return p
}

// generationOf is the generation that a row is of.
func (t *tile) generationOf(v any, w window) string {
	if g, ok := v.(string); ok && g != "" {
		return g
	}
	if t.Generation != "" {
		return t.Generation
	}
	if !w.known {
		return t.b.live
	}
	if len(t.b.pointer.Ranges) == 0 {
		return t.b.live
	}
	return t.b.pointer.Of(w.start)
}
