package sql

import (
	"slices"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/bind"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// alter changes a definition: it edits the statement that made the object and binds that again,
// so that what holds for CREATE holds for ALTER too.
func (s *Session) alter(st *ast.Alter) (*Result, error) {
	if st.Kind != ast.ObjTable && st.Kind != ast.ObjView || len(st.Partition) > 0 {
		return nil, unsupported(st)
	}
	old := s.cat.Lookup(st.Name.Strings())
	if old == nil {
		if st.IfExists {
			return ok()
		}
		return nil, s.unknownObject(st.Name, kindWord(st.Kind))
	}
	if rename, ok := st.Action.(*ast.AlterRename); ok {
		return s.rename(st, old, rename)
	}
	switch o := old.(type) {
	case *catalog.Table:
		if st.Kind == ast.ObjTable {
			return s.alterTable(st, o)
		}
	case *catalog.View:
		if as, ok := st.Action.(*ast.AlterAs); ok && st.Kind == ast.ObjView {
			def := *o.Def
			def.Query, def.OrReplace = as.Query, true
			return s.createView(&def)
		}
	}
	return nil, unsupported(st)
}

func kindWord(k ast.ObjectKind) string {
	if k == ast.ObjView {
		return "view"
	}
	return "table"
}

func (s *Session) rename(st *ast.Alter, old any, to *ast.AlterRename) (*Result, error) {
	from := s.cat.Qualify(st.Name.Strings())
	path := s.cat.Qualify(to.To.Strings())
	if len(to.To.Parts) == 1 {
		path[1] = from[1]
	}
	switch {
	case len(path) != 3 || path[0] != from[0] || !s.cat.HasDatabase(path[1]):
		return nil, sqlerr.New(to.To.Span, "there is no database for %s", to.To)
	case s.cat.Lookup(path) != nil:
		return nil, sqlerr.New(to.To.Span, "%s exists already", to.To)
	}
	s.cat.Drop(from)
	switch o := old.(type) {
	case *catalog.Table:
		c := *o
		c.Path = path
		s.cat.Put(path, &c)
	case *catalog.View:
		c := *o
		c.Path = path
		s.cat.Put(path, &c)
	}
	return ok()
}

// alterTable edits a copy of the table's definition.
func (s *Session) alterTable(st *ast.Alter, t *catalog.Table) (*Result, error) {
	def := *t.Def
	schema := *def.Schema
	schema.Columns = slices.Clone(schema.Columns)
	schema.Constraints = slices.Clone(schema.Constraints)
	def.Schema = &schema
	def.Options = slices.Clone(def.Options)
	def.Name = ast.NewName(t.Path...)
	if err := editTable(&def, st); err != nil {
		return nil, err
	}
	changed, err := bind.New(s.cat, s.cfg).CreateTable(&def)
	if err != nil {
		return nil, err
	}
	s.cat.Put(changed.Path, changed)
	return ok()
}

func editTable(def *ast.CreateTable, st *ast.Alter) error {
	switch a := st.Action.(type) {
	case *ast.AlterSet:
		for _, o := range a.Options {
			def.Options = slices.DeleteFunc(def.Options, func(x *ast.Option) bool { return x.Key.Value == o.Key.Value })
			def.Options = append(def.Options, o)
		}
		return nil
	case *ast.AlterReset:
		for _, k := range a.Keys {
			def.Options = slices.DeleteFunc(def.Options, func(x *ast.Option) bool { return x.Key.Value == k.Value })
		}
		return nil
	case *ast.AlterComment:
		def.Comment = a.Comment
		return nil
	case *ast.AlterAdd:
		return addColumns(def, a)
	case *ast.AlterDropColumns:
		return dropColumns(def, a)
	case *ast.AlterRenameColumn:
		return renameColumn(def, a)
	case *ast.AlterDropWatermark:
		def.Schema.Watermark = nil
		return nil
	case *ast.AlterDropConstraint:
		def.Schema.Constraints = nil
		for i, c := range def.Schema.Columns {
			plain := *c
			plain.Constraint = nil
			def.Schema.Columns[i] = &plain
		}
		return nil
	}
	return unsupported(st)
}

func addColumns(def *ast.CreateTable, a *ast.AlterAdd) error {
	if a.Distribution != nil {
		return sqlerr.New(a.Span, "ALTER TABLE ADD DISTRIBUTION is not supported yet")
	}
	for _, c := range a.Schema.Columns {
		at := len(def.Schema.Columns)
		if p := c.Position; p != nil {
			at = 0
			if !p.First {
				after := columnIndex(def, p.After.Last().Name)
				if after < 0 {
					return unknownColumn(def, p.After)
				}
				at = after + 1
			}
		}
		plain := *c
		plain.Position = nil
		def.Schema.Columns = slices.Insert(def.Schema.Columns, at, &plain)
	}
	if w := a.Schema.Watermark; w != nil {
		if def.Schema.Watermark != nil {
			return sqlerr.New(w.Span, "the table has a watermark already").
				WithHint("write ALTER TABLE ... DROP WATERMARK first")
		}
		def.Schema.Watermark = w
	}
	def.Schema.Constraints = append(def.Schema.Constraints, a.Schema.Constraints...)
	return nil
}

func dropColumns(def *ast.CreateTable, a *ast.AlterDropColumns) error {
	for _, n := range a.Columns {
		i := columnIndex(def, n.Last().Name)
		if i < 0 {
			return unknownColumn(def, n)
		}
		def.Schema.Columns = slices.Delete(def.Schema.Columns, i, i+1)
	}
	return nil
}

func columnIndex(def *ast.CreateTable, name string) int {
	return slices.IndexFunc(def.Schema.Columns, func(c *ast.Column) bool { return c.Name.Name == name })
}

func unknownColumn(def *ast.CreateTable, n *ast.Name) error {
	var names []string
	for _, c := range def.Schema.Columns {
		names = append(names, c.Name.Name)
	}
	return sqlerr.New(n.Span, "unknown column %s", n).WithHint("%s", sqlerr.DidYouMean(n.Last().Name, names))
}

// renameColumn gives a column another name, in the primary key too. What reads the column in an
// expression keeps its text, so a column that others need is refused, as Flink does.
func renameColumn(def *ast.CreateTable, a *ast.AlterRenameColumn) error {
	old := a.From.Last().Name
	i := columnIndex(def, old)
	switch {
	case i < 0 || len(a.From.Parts) > 1:
		return unknownColumn(def, a.From)
	case a.To.Name != old && columnIndex(def, a.To.Name) >= 0:
		return sqlerr.New(a.To.Span, "column %s exists already", a.To.Name)
	}
	if user := columnUser(def, old); user != "" {
		return sqlerr.New(a.From.Span, "column %s is used by %s, so it cannot be renamed", old, user).
			WithHint("drop what uses it first, and add it again with the new name")
	}
	c := *def.Schema.Columns[i]
	if c.Kind == ast.MetadataColumn && c.MetadataKey == nil {
		c.MetadataKey = &ast.StringLit{Value: old}
	}
	c.Name = a.To
	def.Schema.Columns[i] = &c
	for k, con := range def.Schema.Constraints {
		renamed := *con
		renamed.Columns = slices.Clone(con.Columns)
		for j, id := range renamed.Columns {
			if id.Name == old {
				renamed.Columns[j].Name = a.To.Name
			}
		}
		def.Schema.Constraints[k] = &renamed
	}
	return nil
}

// columnUser says what of the table reads the column, or "".
func columnUser(def *ast.CreateTable, column string) string {
	for _, c := range def.Schema.Columns {
		if c.Expr != nil && mentions(c.Expr, column) {
			return "computed column " + c.Name.Name
		}
	}
	if w := def.Schema.Watermark; w != nil && mentions(w, column) {
		return "the watermark"
	}
	for _, id := range def.PartitionedBy {
		if id.Name == column {
			return "PARTITIONED BY"
		}
	}
	return ""
}

// mentions reports whether a name below n starts with the column.
func mentions(n ast.Node, column string) bool {
	found := false
	ast.Walk(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Name); ok && name.Parts[0].Name == column {
			found = true
		}
		return !found
	})
	return found
}
