package bind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// Insert binds INSERT INTO or INSERT OVERWRITE.
func (b *Binder) Insert(st *ast.Insert) (*logical.Sink, error) {
	switch {
	case st.Upsert:
		return nil, unsupported(st.Span, "UPSERT INTO").
			WithHint("write INSERT INTO: a table with a primary key takes updates by it")
	case st.OnConflict != "":
		return nil, unsupported(st.Span, "ON CONFLICT")
	}
	t, err := b.target(st.Table)
	if err != nil {
		return nil, err
	}
	hints, err := b.optionsHint(st.Hints)
	if err != nil {
		return nil, err
	}
	if err := b.checkTable(t, st.Hints, st.Table.Span, writing); err != nil {
		return nil, err
	}
	sink := &logical.Sink{Table: t, Hints: hints, Overwrite: st.Overwrite, Pos: pos(st.Table.Span)}
	static, err := b.staticPartition(t, st.Partition)
	if err != nil {
		return nil, err
	}
	columns, err := b.targetColumns(t, st, static)
	if err != nil {
		return nil, err
	}
	emit, err := b.sinkEmit(t.Name(), st.Table.Span)
	if err != nil {
		return nil, err
	}
	rel, err := b.query(st.Query, nil)
	if err != nil {
		return nil, err
	}
	var found int
	if rel.node, found = b.withEmit(rel.node, emit); emit != nil && found == 0 {
		return nil, emit.Hints[0].Unheeded()
	}
	if err := b.sinkInput(sink, rel, columns, static, st); err != nil {
		return nil, err
	}
	for i, l := range static {
		if sink.StaticPartition == nil {
			sink.StaticPartition = map[string]string{}
		}
		sink.StaticPartition[t.Columns[i].Name] = partitionText(l)
	}
	return sink, nil
}

// target finds the table to write.
func (b *Binder) target(n *ast.Name) (*catalog.Table, error) {
	switch o := b.cat.Lookup(n.Strings()).(type) {
	case *catalog.Table:
		return o, nil
	case *catalog.View:
		return nil, errAt(n.Span, "%s is a view and cannot be written", n).WithHint("insert into a table")
	}
	return nil, b.unknownTable(n, nil)
}

// staticPartition binds PARTITION (k = 'v'): constants by index of column.
func (b *Binder) staticPartition(t *catalog.Table, parts []*ast.PartitionValue) (map[int]*expr.Literal, error) {
	out := map[int]*expr.Literal{}
	for _, p := range parts {
		i := t.Schema().Index(p.Column.Name)
		if i < 0 || !slices.Contains(t.PartitionKeys, p.Column.Name) {
			err := errAt(p.Column.Span, "%s is not partitioned by %s", t.Name(), p.Column.Name)
			if len(t.PartitionKeys) == 0 {
				return nil, err.WithHint("it has no PARTITIONED BY clause")
			}
			return nil, err.WithHint("it is partitioned by %s", strings.Join(t.PartitionKeys, ", "))
		}
		if p.Value == nil {
			continue // a dynamic partition column comes from the query
		}
		s := &scope{b: b, rel: &relation{}, clause: "PARTITION"}
		x, err := s.bind(p.Value)
		if err != nil {
			return nil, err
		}
		ct := t.Columns[i].Type
		cast, err := expr.Cast(x, ct, false, b.env, pos(p.Span))
		if err != nil {
			return nil, wrap(p.Span, err)
		}
		lit, ok := constant(cast, b.env)
		if !ok {
			return nil, errAt(p.Value.Pos(), "the value of a partition must be a constant of type %s", ct.AsNullable())
		}
		out[i] = lit
	}
	return out, nil
}

// partitionText is the value of a static partition as it stands in a path.
func partitionText(l *expr.Literal) string {
	if s, ok := l.Value.(string); ok {
		return s
	}
	text := expr.FormatLiteral(l.Value, l.T)
	if _, quoted, ok := strings.Cut(text, "'"); ok {
		return strings.TrimSuffix(quoted, "'")
	}
	return text
}

// writable reports whether queries give column i of t its values.
func writable(t *catalog.Table, i int) bool {
	c := t.Columns[i]
	return c.Kind == catalog.Physical || c.Kind == catalog.Metadata && !c.Virtual && !t.Filled(i)
}

// targetColumns are the columns that the query fills, in its order.
func (b *Binder) targetColumns(t *catalog.Table, st *ast.Insert, static map[int]*expr.Literal) ([]int, error) {
	var out []int
	if len(st.Columns) == 0 {
		for i := range t.Columns {
			if writable(t, i) && static[i] == nil {
				out = append(out, i)
			}
		}
		return out, nil
	}
	for _, n := range st.Columns {
		if len(n.Parts) > 1 {
			return nil, unsupported(n.Span, "writing a field of a column")
		}
		name := n.Parts[0].Name
		i := t.Schema().Index(name)
		switch {
		case i < 0:
			return nil, errAt(n.Span, "table %s has no column %s", t.Name(), name).
				WithHint("%s", suggest(name, t.Schema().Names(), "its columns are "))
		case t.Filled(i):
			return nil, errAt(n.Span, "column %s says of itself what a result or a late row is, and takes no value", name).
				WithHint("leave it out of the columns: it is filled in")
		case !writable(t, i):
			return nil, errAt(n.Span, "column %s cannot be written: it is computed or virtual", name)
		case slices.Contains(out, i):
			return nil, errAt(n.Span, "column %s is named twice", name)
		case static[i] != nil:
			return nil, errAt(n.Span, "column %s has its value from PARTITION already", name)
		}
		out = append(out, i)
	}
	for i, c := range t.Columns {
		if writable(t, i) && !c.Type.Nullable && static[i] == nil && !slices.Contains(out, i) {
			return nil, errAt(st.Columns[0].Span.To(st.Columns[len(st.Columns)-1].Span),
				"column %s of %s is NOT NULL and must be written", c.Name, t.Name()).WithHint("add %s to the columns", c.Name)
		}
	}
	return out, nil
}

// sinkInput casts the query's columns to the table's.
func (b *Binder) sinkInput(
	sink *logical.Sink, rel *relation, columns []int, static map[int]*expr.Literal, st *ast.Insert,
) error {
	t := sink.Table
	if len(rel.cols) != len(columns) {
		return b.columnCount(t, rel, columns, st)
	}
	p := &logical.Project{Input: rel.node}
	for i, c := range columns {
		want := t.Columns[c].Type
		e, ok := b.coerceTo(rel.column(i), want, itemSpan(st.Query, i))
		if !ok {
			return b.columnMismatch(t, rel, i, c, st)
		}
		p.Exprs = append(p.Exprs, e)
		p.Names = append(p.Names, t.Columns[c].Name)
	}
	order := slices.Clone(columns)
	for i := range t.Columns {
		if l := static[i]; l != nil {
			p.Exprs = append(p.Exprs, l)
			p.Names = append(p.Names, t.Columns[i].Name)
			order = append(order, i)
		}
	}
	sink.Columns = order
	sink.Input = p
	if identity(p) {
		sink.Input = rel.node
	}
	return nil
}

// columnCount is the error of a query with too many or too few columns.
func (b *Binder) columnCount(t *catalog.Table, rel *relation, columns []int, st *ast.Insert) error {
	var want []string
	for _, c := range columns {
		want = append(want, t.Columns[c].Name+" "+bare(t.Columns[c].Type))
	}
	err := errAt(st.Query.Span, "the query has %d columns, but %s takes %d", len(rel.cols), t.Name(), len(columns)).
		WithDetail("Query: %s.\n%s: %s.", describe(rel), t.Name(), strings.Join(want, ", "))
	if len(st.Columns) == 0 && len(rel.cols) < len(columns) {
		return err.WithHint("name the columns to write: INSERT INTO %s (...) SELECT ...", t.Name())
	}
	return err
}

func describe(rel *relation) string {
	var out []string
	for _, c := range rel.cols {
		out = append(out, c.name+" "+bare(c.typ))
	}
	return strings.Join(out, ", ")
}

// bare prints a type without its time attribute.
func bare(t types.Type) string { return t.WithoutAttr().String() }

// columnMismatch is the error of a column that is not converted to the table's.
func (b *Binder) columnMismatch(t *catalog.Table, rel *relation, i, c int, st *ast.Insert) error {
	from, to := rel.cols[i].typ.AsNullable().WithoutAttr(), t.Columns[c].Type.AsNullable().WithoutAttr()
	err := errAt(itemSpan(st.Query, i), "column %d (%s) of the query is %s, but column %s of %s is %s",
		i+1, rel.cols[i].name, from, t.Columns[c].Name, t.Name(), to)
	if _, bad := expr.Cast(rel.column(i), to, false, b.env, expr.Pos{}); bad != nil {
		return err.WithHint("%s", bad)
	}
	return err.WithHint("write CAST(%s AS %s)", itemText(st.Query, i, rel.cols[i].name), to)
}

// selectItemAt returns item i of a query's select list where it is not hidden behind a star.
func selectItemAt(q *ast.Query, i int) *ast.SelectItem {
	sel, ok := q.Body.(*ast.Select)
	if !ok || i >= len(sel.Items) {
		return nil
	}
	for _, it := range sel.Items[:i+1] {
		switch it.Expr.(type) {
		case *ast.Star, *ast.FieldStar:
			return nil
		}
	}
	return sel.Items[i]
}

func itemSpan(q *ast.Query, i int) sqlerr.Span {
	if it := selectItemAt(q, i); it != nil {
		return it.Span
	}
	return q.Span
}

func itemText(q *ast.Query, i int, name string) string {
	if it := selectItemAt(q, i); it != nil {
		return ast.Format(it.Expr)
	}
	return fmt.Sprintf("`%s`", name)
}
