package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

// rowsQuery asks for the rows of a table tile, as they are sorted.
func (t *tile) rowsQuery(ctx context.Context) (results.Query, error) {
	r := t.src.Table.Results
	q := results.Query{Generation: t.Generation, From: vec.MinTime, To: vec.MaxTime, Where: t.Where, Order: slices.Clone([]string(t.Order))}
	if !t.span.isZero() {
		var err error
		if q.From, _, err = t.from(ctx); err != nil {
			return q, err
		}
	}
	if len(q.Order) == 0 && r.WindowStart != "" {
		q.Order = []string{"-" + r.WindowStart}
	}
	for _, k := range r.Key { // rows that are equal otherwise keep their places
		if !slices.Contains(q.Order, k) && !slices.Contains(q.Order, "-"+k) {
			q.Order = append(slices.Clip(q.Order), k)
		}
	}
	if t.only {
		q.To = t.b.lastClosed()
	}
	return q, nil
}

// table reads a page of whole rows, which begins at row from. Where there are fewer rows, it is the last page.
func (t *tile) table(ctx context.Context, d *Data, from int) error {
	size := cmp.Or(t.Limit, defaultRows)
	if from < 0 || from > maxPoints-size {
		return fmt.Errorf("a page begins at a row from 0 to %d; where and last choose among more", maxPoints-size)
	}
	q, err := t.rowsQuery(ctx)
	if err != nil {
		return err
	}
	q.Limit = from + size + 1
	if t.only { // which rows are in it is known of rows that were read only
		q.Limit = maxPoints
	}
	rows, err := t.src.Store.Query(ctx, q)
	if err != nil {
		return err
	}
	points := t.judged(rows)
	whole := len(rows.Rows) < q.Limit
	d.Table = &TableData{Rows: []Row{}, Size: size, Total: int64(len(points)), More: !whole, Reach: maxPoints}
	if !whole && !t.only {
		if d.Table.Total, err = t.count(ctx, q); err != nil {
			return err
		}
		d.Table.Total, d.Table.More = max(d.Table.Total, int64(len(points))), false
	}
	if d.Table.Total > maxPoints || d.Table.More {
		d.Note = fmt.Sprintf("pages go to row %d; where and last choose among more, and order brings others to the front", maxPoints)
	}
	if from >= len(points) {
		from = max(0, len(points)-1) / size * size
	}
	d.Table.From = from
	t.page(d, points[from:min(from+size, len(points))])
	if len(d.Table.Rows) == 0 {
		d.Empty = "no rows yet"
		if t.only {
			d.Empty = "no window is final in a reconciled generation yet"
		}
	}
	return nil
}

// count counts all rows that q asks for.
func (t *tile) count(ctx context.Context, q results.Query) (int64, error) {
	q.Order, q.Limit, q.Sums = nil, 0, []results.Sum{{Fn: "count", Column: t.src.Table.Results.Column["revision"]}}
	rows, err := t.src.Store.Query(ctx, q)
	if err != nil || len(rows.Rows) == 0 {
		return 0, err
	}
	n, _ := rows.Rows[0][0].(int64)
	return n, nil
}

// judgedRow is a row of an answer with what is known of it.
type judgedRow struct {
	row []any
	point
}

// judged says of the rows of an answer how far they can be trusted, and leaves out those that the tile does not show.
func (t *tile) judged(rows *results.Rows) []judgedRow {
	r := t.src.Table.Results
	at := places{-1, -1, -1, -1, -1, -1, -1, nil}
	for i, f := range rows.Columns {
		at.find(r.WindowStart, f.Name, &at.start, i)
		at.find(r.WindowEnd, f.Name, &at.end, i)
		at.find(r.Column["generation"], f.Name, &at.gen, i)
		at.find(r.Column["is_final"], f.Name, &at.flag, i)
		at.find(finalColumn, f.Name, &at.flag, i) // which comes last
		at.find(r.Column["revision"], f.Name, &at.revision, i)
	}
	out := make([]judgedRow, 0, len(rows.Rows))
	for _, row := range rows.Rows {
		if p := at.point(t, row); !t.only || t.b.closed(p.w, p.gen, p.state) {
			out = append(out, judgedRow{row, p})
		}
	}
	return out
}

// page puts rows into d.
func (t *tile) page(d *Data, list []judgedRow) {
	shown := t.shown(d.Table)
	gens, idle := map[string]bool{}, map[window]bool{}
	for _, p := range list {
		out := Row{State: string(p.state), Revision: p.revision, Generation: p.gen, Idle: p.idle}
		for _, c := range shown {
			out.Cells = append(out.Cells, clip(jsonValue(p.row[c])))
		}
		d.Table.Rows = append(d.Table.Rows, out)
		d.Tally.count(p.state)
		gens[p.gen] = true
		if p.idle {
			idle[p.w] = true
		}
	}
	d.Generations, d.Idle = slices.Sorted(maps.Keys(gens)), len(idle)
}

// shown lists the columns of a table tile and where they are in the rows.
func (t *tile) shown(d *TableData) (at []int) {
	all := t.src.columns()
	names := t.Columns
	if len(names) == 0 {
		for _, c := range all {
			switch c.Role {
			case "key", "value", "start", "end":
				names = append(names, c.Name)
			}
		}
	}
	for _, n := range names {
		i := slices.IndexFunc(all, func(c ColumnInfo) bool { return c.Name == n })
		d.Columns = append(d.Columns, all[i])
		at = append(at, i)
	}
	return at
}
