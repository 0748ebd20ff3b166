package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// maxProducers bounds what is expected of one table.
	maxProducers = 1 << 20
	// rowsDue is what a column with a number of rows can always be called.
	rowsDue = "rows_due"
)

// expected reads what must be reported for the windows of the tables of results that p writes: the tables named by
// 'tidemark.completeness.SINK.expected', once, at the start of the job.
func (e *Engine) expected(ctx context.Context, s *sql.Session, p *plan.Plan, h Handler) (map[string]*job.Expected, error) {
	var out map[string]*job.Expected
	for _, t := range p.Results() {
		key := "tidemark.completeness." + t.Name + ".expected"
		from := s.Config().All()[key]
		if from == "" {
			continue
		}
		x, err := e.dueFor(ctx, s, p, t, from, h)
		if err != nil {
			return nil, fmt.Errorf("'%s' = '%s': %w", key, from, err)
		}
		if out == nil {
			out = map[string]*job.Expected{}
		}
		out[t.Name] = x
	}
	return out, nil
}

// dueTable plans the reading of the table called from: what is due for the windows of t, which p writes.
func (e *Engine) dueTable(s *sql.Session, p *plan.Plan, t *connector.Table, from string) (*dueTable, *plan.Plan, error) {
	read, err := e.planExpected(s, from)
	if err != nil {
		return nil, nil, err
	}
	d := &dueTable{s: read.Nodes[len(read.Nodes)-1].Schema, t: t, window: [2]int{-1, -1}, rows: -1, out: job.Expected{Table: from}}
	if err = d.shape(); err != nil {
		return nil, nil, err
	}
	if d.out.Count != "" && d.out.Count == t.Results.Column["input_count"] && countless(p, t) {
		return nil, nil, fmt.Errorf("the input_count of table %s is not known behind what the query does after the window aggregation (EXPLAIN says where); "+
			"count rows in a column of the result, and call the column of the rows due like it", t.Name)
	}
	if ends, err := e.ends(read); err != nil || !ends {
		return nil, nil, errors.Join(err, fmt.Errorf("it does not end, and what is expected is read once, at the start; bound it, such as with 'scan.bounded.mode' = 'latest-offset'"))
	}
	return d, read, nil
}

// countless reports whether p does not know of how many rows the results in t are made.
func countless(p *plan.Plan, t *connector.Table) bool {
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); !ok || s.Table != t {
			continue
		}
		for len(n.Inputs) > 0 {
			n = p.Nodes[n.Inputs[0].From]
			if rv, ok := n.Op.(*plan.Revise); ok {
				return rv.Count < 0
			}
		}
	}
	return false
}

// dueFor reads the table called from.
func (e *Engine) dueFor(ctx context.Context, s *sql.Session, of *plan.Plan, t *connector.Table, from string, h Handler) (*job.Expected, error) {
	d, p, err := e.dueTable(s, of, t, from)
	if err != nil {
		return nil, err
	}
	o := e.jobOptions(s, s.Config(), h)
	if d.texts, err = expr.CompileTexts(d.s, d.producer, o.Env); err != nil {
		return nil, err
	}
	d.ctx.Env = o.Env
	o.Collect = func(_ *plan.Node, b *vec.Batch) error { return d.take(b) }
	j, err := job.Start(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if _, err = j.Wait(); err != nil {
		return nil, err
	}
	if len(d.out.Due) == 0 {
		return nil, fmt.Errorf("it is empty, so nobody would be expected")
	}
	return &d.out, nil
}

// planExpected plans the reading of the table or view called name.
func (e *Engine) planExpected(s *sql.Session, name string) (*plan.Plan, error) {
	var quoted []string
	for _, part := range strings.Split(name, ".") {
		quoted = append(quoted, "`"+strings.ReplaceAll(strings.Trim(part, "`"), "`", "``")+"`")
	}
	stmts, err := parse.Script("SELECT * FROM " + strings.Join(quoted, "."))
	if err != nil {
		return nil, err
	}
	r, err := s.Execute(stmts[0])
	if err != nil {
		var se *sqlerr.Error
		if errors.As(err, &se) { // its place is in a statement that nobody wrote
			return nil, fmt.Errorf("it cannot be read: %s", strings.TrimSuffix(strings.TrimSpace(se.Msg+"; "+se.Hint), ";"))
		}
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if !r.Plan.Nodes[len(r.Plan.Nodes)-1].Mode.IsInsertOnly() {
		return nil, fmt.Errorf("its rows are corrected while it is read; use a table or view of rows that stay")
	}
	return r.Plan, nil
}

// dueTable is a table of what is due, while it is read.
type dueTable struct {
	s        types.Schema
	t        *connector.Table
	producer []int  // columns that say who, as columns of the result's key
	window   [2]int // columns that say in which window: by start, by end; or -1
	rows     int    // column with the number of rows; -1: producers are due
	out      job.Expected

	mu    sync.Mutex // take is called by several subtasks
	texts *expr.Programs
	ctx   expr.EvalCtx
	name  []byte
}

// shape finds out by the columns what the table says:
//
//   - columns of the result's key, but not the window's, say who;
//   - columns called like the start or the end of the result's window say in which window, without them it is in
//     each;
//   - a column of whole numbers called like a value or the input_count of the result, or rows_due, says how many
//     rows. Where there is a column of the window, one BIGINT that is nothing else may have any name.
func (d *dueTable) shape() error {
	r := d.t.Results
	if r.WindowStart == "" || r.WindowEnd == "" {
		return fmt.Errorf("what must have been reported is asked for each window, and the columns of table %s do not say which window a row is of; "+
			"add window_start and window_end to it", d.t.Name)
	}
	var named, others []int
	for i, f := range d.s.Fields {
		switch {
		case f.Name == r.WindowStart:
			d.window[0] = i
		case f.Name == r.WindowEnd:
			d.window[1] = i
		case slices.Contains(r.Key, f.Name):
			d.producer = append(d.producer, i)
			d.out.Columns = append(d.out.Columns, f.Name)
		case whole(f.Type) && (strings.EqualFold(f.Name, rowsDue) || d.counted(f.Name)):
			named = append(named, i)
		default:
			others = append(others, i)
		}
	}
	d.out.Start, d.out.End = d.window[0] >= 0, d.window[1] >= 0
	windowed := d.out.Start || d.out.End
	switch {
	case len(named) > 1:
		return fmt.Errorf("both its columns %s and %s may be the number of rows due; use a view that has one of them", d.s.Fields[named[0]].Name, d.s.Fields[named[1]].Name)
	case len(named) == 1:
		d.rows = named[0]
	case len(others) == 1 && whole(d.s.Fields[others[0]].Type) && windowed:
		d.rows = others[0]
	case len(others) == 1 && whole(d.s.Fields[others[0]].Type) && len(d.producer) > 0:
		return fmt.Errorf("its column %s may be the number of rows due or not; call it %s if it is, else use a view without it", d.s.Fields[others[0]].Name, rowsDue)
	case len(d.producer) == 0:
		return d.misfit()
	}
	for k, name := range []string{r.WindowStart, r.WindowEnd} {
		if err := d.fits(d.window[k], name); err != nil {
			return err
		}
	}
	return d.counts()
}

// whole reports whether values of type t are whole numbers that a number of rows can be.
func whole(t types.Type) bool { return t.Kind == types.BigInt || t.Kind == types.Int }

// counted reports whether name is a column of the result that may say how many rows it is made of.
func (d *dueTable) counted(name string) bool {
	r := d.t.Results
	return name == r.Column["input_count"] && name != "" || slices.ContainsFunc(r.Values(d.t), func(f types.Field) bool { return f.Name == name && whole(f.Type) })
}

// misfit says what the table could be.
func (d *dueTable) misfit() error {
	r := d.t.Results
	var window []string
	for _, w := range []string{r.WindowStart, r.WindowEnd} {
		if w != "" {
			window = append(window, w)
		}
	}
	return fmt.Errorf("its columns (%s) say neither who must report for table %s nor how many rows are due; give it columns with the names of those of the primary key (%s) for who; "+
		"or a BIGINT column %s for how many rows, with columns of the key and of the window (%s) if the number is not the same for all",
		strings.Join(d.s.Names(), ", "), d.t.Name, strings.Join(r.Key, ", "), rowsDue, strings.Join(window, ", "))
}

// fits refuses column i, which says in which window, where it has another type than that of the result.
func (d *dueTable) fits(i int, name string) error {
	if i < 0 {
		return nil
	}
	got := d.s.Fields[i].Type
	for _, f := range d.t.Schema().Fields {
		if f.Name == name && (f.Type.Kind != got.Kind || got.Phys() != types.PI64) {
			return fmt.Errorf("its column %s is %s, and that of table %s is %s; declare it so, or use a view with CAST", name, got.WithoutAttr(), d.t.Name, f.Type)
		}
	}
	return nil
}

// counts finds the column of the result that the number of rows is compared with.
func (d *dueTable) counts() error {
	if d.rows < 0 {
		return nil
	}
	name := d.s.Fields[d.rows].Name
	if d.counted(name) {
		d.out.Count = name
		return nil
	}
	if d.out.Count = d.t.Results.Column["input_count"]; d.out.Count == "" {
		return fmt.Errorf("its column %s is the number of rows due, and table %s does not say how many rows its results are made of; add input_count BIGINT METADATA to "+
			"its definition, or call the column like the one of the result that counts them", name, d.t.Name)
	}
	return nil
}

// take reads rows.
func (d *dueTable) take(b *vec.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx.Batch, d.ctx.Errs = b, d.ctx.Errs[:0]
	texts := d.texts.EvalAll(&d.ctx, b)
	for _, i := range b.Selected() {
		var due job.Due
		for k, to := range []*int64{&due.Start, &due.End} {
			c := d.window[k]
			if c < 0 {
				continue
			}
			if b.Cols[c].IsNull(int(i)) {
				return fmt.Errorf("a row of it has NULL in column %s; leave such rows out", d.s.Fields[c].Name)
			}
			*to = b.Cols[c].I64[i]
		}
		if d.rows >= 0 {
			v := b.Cols[d.rows]
			switch {
			case v.IsNull(int(i)):
			case v.Phys == types.PI32:
				due.Rows = int64(v.I32[i])
			default:
				due.Rows = v.I64[i]
			}
			if v.IsNull(int(i)) || due.Rows < 0 {
				return fmt.Errorf("a row of it has no number of rows, or one below 0, in column %s; correct it, or leave it out", d.s.Fields[d.rows].Name)
			}
		}
		d.name = d.name[:0]
		for c, v := range texts {
			if c > 0 {
				d.name = append(d.name, ", "...)
			}
			if v.IsNull(int(i)) {
				d.name = append(d.name, "NULL"...)
			} else {
				d.name = append(d.name, v.Bytes(int(i))...)
			}
		}
		due.Producer = string(d.name)
		d.out.Due = append(d.out.Due, due)
	}
	if len(d.out.Due) > maxProducers {
		return fmt.Errorf("it has more than %d rows", maxProducers)
	}
	return nil
}
