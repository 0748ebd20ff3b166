package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// CreateTable binds the definition of a table. It does not look whether the table exists.
func (b *Binder) CreateTable(st *ast.CreateTable) (*catalog.Table, error) {
	if st.Distribution != nil {
		return nil, unsupported(st.Distribution.Span, "DISTRIBUTED")
	}
	path, err := b.newPath(st.Name)
	if err != nil {
		return nil, err
	}
	if st.Like != nil {
		if st, err = b.mergeLike(st); err != nil {
			return nil, err
		}
	}
	t := &catalog.Table{Path: path, RowTime: -1, Temporary: st.Temporary, Def: st}
	if st.Comment != nil {
		t.Comment = st.Comment.Value
	}
	if t.Options, err = optionMap(st.Options); err != nil {
		return nil, err
	}
	if st.Schema == nil {
		return nil, errAt(st.Name.Span, "table %s has no columns", st.Name).
			WithHint("write CREATE TABLE %s (name TYPE, ...)", st.Name)
	}
	if err := b.tableSchema(t, st.Schema); err != nil {
		return nil, err
	}
	if err := b.partitionKeys(t, st.PartitionedBy); err != nil {
		return nil, err
	}
	return t, nil
}

// newPath qualifies the name of an object to be made.
func (b *Binder) newPath(n *ast.Name) ([]string, error) {
	path := b.cat.Qualify(n.Strings())
	switch {
	case len(path) > 3:
		return nil, errAt(n.Span, "a name has at most three parts: catalog, database and table")
	case path[0] != b.cat.Name:
		return nil, errAt(n.Parts[0].Span, "unknown catalog %s", path[0]).WithHint("the only catalog is %s", b.cat.Name)
	case !b.cat.HasDatabase(path[1]):
		return nil, errAt(n.Span, "unknown database %s", path[1]).
			WithHint("write CREATE DATABASE %s first; databases are %s", path[1], joinOr(b.cat.Databases()))
	}
	return path, nil
}

func optionMap(options []*ast.Option) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range options {
		if _, ok := out[o.Key.Value]; ok {
			return nil, errAt(o.Key.Span, "option '%s' is given twice", o.Key.Value)
		}
		out[o.Key.Value] = o.Value.Value
	}
	return out, nil
}

// tableSchema binds the columns, the watermark and the keys.
func (b *Binder) tableSchema(t *catalog.Table, schema *ast.TableSchema) error {
	if err := b.storedColumns(t, schema.Columns); err != nil {
		return err
	}
	if err := b.computedColumns(t, schema.Columns); err != nil {
		return err
	}
	if schema.Watermark != nil {
		if err := b.watermark(t, schema.Watermark); err != nil {
			return err
		}
	}
	return b.constraints(t, schema)
}

// storedColumns makes all columns; those that are computed get their type later, since they may
// use any column that is stored.
func (b *Binder) storedColumns(t *catalog.Table, columns []*ast.Column) error {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Name.Name] {
			return errAt(c.Name.Span, "column %s is defined twice", c.Name.Name)
		}
		seen[c.Name.Name] = true
		if c.Default != nil {
			return unsupported(c.Default.Pos(), "DEFAULT of a column")
		}
		out := catalog.Column{Name: c.Name.Name}
		if c.Comment != nil {
			out.Comment = c.Comment.Value
		}
		switch c.Kind {
		case ast.ComputedColumn:
			out.Kind = catalog.Computed
		case ast.MetadataColumn:
			out.Kind, out.Key, out.Virtual = catalog.Metadata, c.Name.Name, c.Virtual
			if c.MetadataKey != nil {
				out.Key = c.MetadataKey.Value
			}
		}
		if c.Type != nil {
			var err error
			if out.Type, err = typeOf(c.Type); err != nil {
				return err
			}
			if out.Type.Kind == types.Null || out.Type.IsInterval() && c.Kind == ast.PhysicalColumn {
				return errAt(c.Type.Span, "a column cannot be of type %s", out.Type)
			}
		}
		t.Columns = append(t.Columns, out)
	}
	return nil
}

// computedColumns binds the expressions of computed columns. One computed before may be used: its
// expression is put in its place.
func (b *Binder) computedColumns(t *catalog.Table, columns []*ast.Column) error {
	known := make([]bool, len(columns))
	for i, c := range columns {
		known[i] = c.Kind != ast.ComputedColumn
	}
	for i, c := range columns {
		if c.Kind != ast.ComputedColumn {
			continue
		}
		s := &scope{b: b, rel: &relation{}, clause: "a computed column"}
		var at []int
		for k, o := range t.Columns {
			if known[k] {
				s.rel.cols = append(s.rel.cols, column{name: o.Name, typ: o.Type})
				at = append(at, k)
			}
		}
		e, err := s.bind(c.Expr)
		if err != nil {
			return b.laterColumn(err, t, columns[i:], c)
		}
		if e.Type().Kind == types.Null {
			return errAt(c.Expr.Pos(), "computed column %s has no type: it is always NULL", c.Name.Name).
				WithHint("write CAST(NULL AS STRING)")
		}
		e = expr.Map(e, func(x expr.Expr) expr.Expr {
			ref, ok := x.(*expr.Column)
			if !ok {
				return x
			}
			if o := t.Columns[at[ref.Index]]; o.Kind == catalog.Computed {
				return o.Expr
			}
			moved := *ref
			moved.Index = at[ref.Index]
			return &moved
		})
		t.Columns[i].Expr, t.Columns[i].Type = e, e.Type()
		known[i] = true
	}
	return nil
}

// laterColumn explains a computed column that uses one defined behind it.
func (b *Binder) laterColumn(err error, t *catalog.Table, rest []*ast.Column, c *ast.Column) error {
	se, ok := err.(*sqlerr.Error)
	if !ok {
		return err
	}
	for _, o := range rest {
		unknown := se.Msg == "unknown column "+o.Name.Name || se.Msg == "unknown table or column "+o.Name.Name
		if o.Kind == ast.ComputedColumn && unknown {
			if o == c {
				return errAt(se.Pos, "computed column %s uses itself", c.Name.Name)
			}
			return errAt(se.Pos, "computed column %s uses %s, which is computed behind it", c.Name.Name, o.Name.Name).
				WithHint("define %s first", o.Name.Name)
		}
	}
	return err
}

// watermark binds WATERMARK FOR column AS expression.
func (b *Binder) watermark(t *catalog.Table, w *ast.Watermark) error {
	if len(w.Column.Parts) > 1 {
		return errAt(w.Column.Span, "WATERMARK FOR needs a column, not a field of one").
			WithHint("add a computed column: ts AS %s, and write WATERMARK FOR ts", ast.Format(w.Column))
	}
	rel := relationOfTable(t)
	i, _, err := rel.resolve(w.Column)
	if err != nil {
		return err
	}
	c := &t.Columns[i]
	if err := timeType(c.Type, w.Column.Span, "column "+c.Name, c.Name); err != nil {
		return err
	}
	t.RowTime = i
	if f, ok := w.Expr.(*ast.FuncCall); ok && f.Name.Upper() == "SOURCE_WATERMARK" && len(f.Args) == 0 {
		t.SourceWatermark = true
	} else {
		s := &scope{b: b, rel: rel, clause: "WATERMARK FOR"}
		if t.Watermark, err = s.bind(w.Expr); err != nil {
			return err
		}
		if err := timeType(t.Watermark.Type(), w.Expr.Pos(), "the watermark", ""); err != nil {
			return err
		}
	}
	c.Type.Attr = types.RowTime
	return nil
}

// maxTimePrecision is that of watermarks: ms.
const maxTimePrecision = 3

// timeType checks the type of a rowtime column or a watermark.
func timeType(t types.Type, at sqlerr.Span, what, column string) error {
	if t.IsTimestamp() && t.Precision <= maxTimePrecision && t.Attr != types.ProcTime {
		return nil
	}
	err := errAt(at, "%s must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p from 0 to 3, but is %s", what, t.AsNullable())
	switch {
	case t.Attr == types.ProcTime:
		return err.WithHint("processing time needs no watermark: leave WATERMARK FOR out")
	case column == "" && t.IsTimestamp():
		return err.WithHint("write CAST(... AS %s(3))", t.Kind)
	case column == "":
		return err.WithHint("write for example ts - INTERVAL '5' SECOND, where ts is the column")
	case t.IsTimestamp():
		return err.WithHint("declare it as %s %s(3)", column, t.Kind)
	case t.IsInteger():
		return err.WithHint("add a computed column: ts AS TO_TIMESTAMP_LTZ(%s, 3) (3 for ms, 0 for s), and write WATERMARK FOR ts", column)
	case t.IsString():
		return err.WithHint("add a computed column: ts AS TO_TIMESTAMP(%s), and write WATERMARK FOR ts", column)
	}
	return err
}

// relationOfTable is the scope of all columns of a table that is being defined.
func relationOfTable(t *catalog.Table) *relation {
	r := &relation{}
	for _, c := range t.Columns {
		r.cols = append(r.cols, column{table: t.Path, name: c.Name, typ: c.Type})
	}
	return r
}

// constraints sets the primary key from a clause or from a column.
func (b *Binder) constraints(t *catalog.Table, schema *ast.TableSchema) error {
	all := slices.Clone(schema.Constraints)
	for _, c := range schema.Columns {
		if c.Constraint != nil {
			inline := *c.Constraint
			inline.Columns = []ast.Ident{c.Name}
			all = append(all, &inline)
		}
	}
	for _, c := range all {
		if c.Kind == ast.Unique {
			return unsupported(c.Span, "UNIQUE")
		}
		if t.PrimaryKey != nil {
			return errAt(c.Span, "a table has one primary key only").WithHint("write PRIMARY KEY (a, b) NOT ENFORCED")
		}
		if c.Enforcement != ast.NotEnforced {
			return errAt(c.Span, "a primary key cannot be enforced: the data lies outside").
				WithHint("write PRIMARY KEY (...) NOT ENFORCED")
		}
		if err := primaryKey(t, c); err != nil {
			return err
		}
	}
	return nil
}

func primaryKey(t *catalog.Table, c *ast.Constraint) error {
	for _, name := range c.Columns {
		i := t.Schema().Index(name.Name)
		switch {
		case i < 0:
			return errAt(name.Span, "primary key: unknown column %s", name.Name).
				WithHint("%s", suggest(name.Name, t.Schema().Names(), "the columns are "))
		case t.Columns[i].Kind != catalog.Physical:
			return errAt(name.Span, "primary key: column %s is not physical", name.Name).
				WithHint("computed and metadata columns cannot be part of a key")
		case slices.Contains(t.PrimaryKey, name.Name):
			return errAt(name.Span, "primary key: column %s is named twice", name.Name)
		}
		t.Columns[i].Type = t.Columns[i].Type.NotNull()
		t.PrimaryKey = append(t.PrimaryKey, name.Name)
	}
	return nil
}

func (b *Binder) partitionKeys(t *catalog.Table, keys []ast.Ident) error {
	for _, k := range keys {
		i := t.Schema().Index(k.Name)
		switch {
		case i < 0:
			return errAt(k.Span, "PARTITIONED BY: unknown column %s", k.Name).
				WithHint("%s", suggest(k.Name, t.Schema().Names(), "the columns are "))
		case t.Columns[i].Kind == catalog.Computed:
			return errAt(k.Span, "PARTITIONED BY: column %s is computed", k.Name)
		case slices.Contains(t.PartitionKeys, k.Name):
			return errAt(k.Span, "PARTITIONED BY: column %s is named twice", k.Name)
		}
		t.PartitionKeys = append(t.PartitionKeys, k.Name)
	}
	return nil
}

// CreateView binds the definition of a view: its query is checked now, and bound again at each
// use.
func (b *Binder) CreateView(st *ast.CreateView) (*catalog.View, error) {
	path, err := b.newPath(st.Name)
	if err != nil {
		return nil, err
	}
	b.unchecked = true
	rel, err := b.query(st.Query, nil)
	if err != nil {
		return nil, err
	}
	v := &catalog.View{Path: path, Query: st.Query, Temporary: st.Temporary, Def: st}
	if st.Comment != nil {
		v.Comment = st.Comment.Value
	}
	if len(st.Columns) > 0 && len(st.Columns) != len(rel.cols) {
		return nil, errAt(st.Columns[0].Span.To(st.Columns[len(st.Columns)-1].Span),
			"view %s names %d columns, but its query has %d", st.Name, len(st.Columns), len(rel.cols))
	}
	for _, c := range st.Columns {
		if slices.Contains(v.Columns, c.Name.Name) {
			return nil, errAt(c.Span, "column %s is named twice", c.Name.Name)
		}
		v.Columns = append(v.Columns, c.Name.Name)
	}
	return v, nil
}

// CreateTableAs binds CREATE TABLE ... AS query: the table, with the query's columns, and the
// INSERT that fills it once the table is in the catalog.
func (b *Binder) CreateTableAs(st *ast.CreateTable) (*catalog.Table, *ast.Insert, error) {
	rel, err := b.query(st.As, nil)
	if err != nil {
		return nil, nil, err
	}
	rel = rel.withUniqueNames()
	if len(st.ColumnNames) > 0 {
		return nil, nil, unsupported(st.ColumnNames[0].Span, "a list of columns in CREATE TABLE ... AS")
	}
	def := *st
	def.As = nil
	schema := &ast.TableSchema{Span: st.Name.Span}
	if st.Schema != nil {
		copied := *st.Schema
		schema = &copied
		for _, c := range schema.Columns {
			if c.Kind == ast.PhysicalColumn {
				return nil, nil, unsupported(c.Span, "a physical column in CREATE TABLE ... AS")
			}
		}
	}
	var queried []*ast.Column
	insert := &ast.Insert{Span: st.Span, Table: st.Name, Query: st.As}
	for _, c := range rel.cols {
		t, err := parse.Type(c.typ.WithoutAttr().String())
		if err != nil {
			return nil, nil, errAt(st.As.Span, "column %s is %s, which a table cannot have", c.name, c.typ).WithHint("CAST it")
		}
		queried = append(queried, &ast.Column{Span: st.Name.Span, Name: ast.Ident{Span: st.Name.Span, Name: c.name}, Type: t})
		insert.Columns = append(insert.Columns, ast.NewName(c.name))
	}
	schema.Columns = append(queried, schema.Columns...)
	def.Schema = schema
	t, err := b.CreateTable(&def)
	return t, insert, err
}
