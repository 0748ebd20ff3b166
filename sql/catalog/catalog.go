// Package catalog holds what SQL names refer to: catalogs, databases, tables, views, and the
// session's configuration. A Catalog belongs to one session and is not safe for concurrent use.
package catalog

import (
	"maps"
	"sort"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// ColumnKind tells how a column of a table gets its values.
type ColumnKind uint8

// The column kinds.
const (
	Physical ColumnKind = iota
	Metadata
	Computed
)

// Column is one column of a table, in order of definition.
type Column struct {
	Name    string
	Type    types.Type // with its time attribute
	Kind    ColumnKind
	Comment string
	// Key and Virtual belong to metadata columns.
	Key     string
	Virtual bool
	// Expr computes a computed column; its expr.Column indexes point into Table.Columns.
	Expr expr.Expr
}

// Table is a table as defined, bound.
type Table struct {
	Path    []string // catalog, database, name
	Columns []Column
	// RowTime is the column of WATERMARK FOR, or -1; Watermark its expression over Columns,
	// converted to ms by the planner. SourceWatermark: the expression is SOURCE_WATERMARK().
	RowTime         int
	Watermark       expr.Expr
	SourceWatermark bool
	PrimaryKey      []string
	PartitionKeys   []string
	Options         map[string]string
	Comment         string
	Temporary       bool
	// Def is the statement that made it, for positions in errors and SHOW CREATE; Source names
	// the text it stands in.
	Def *ast.CreateTable
}

// Name is the last part of the path.
func (t *Table) Name() string { return t.Path[len(t.Path)-1] }

// OptionPos is where the definition gives an option.
func (t *Table) OptionPos(key string) (sqlerr.Span, bool) {
	if t.Def == nil || key == "" {
		return sqlerr.Span{}, false
	}
	for _, p := range t.Def.Options {
		if p.Key != nil && p.Key.Value == key {
			return p.Pos(), true
		}
	}
	return sqlerr.Span{}, false
}

// Schema returns all columns in order of definition.
func (t *Table) Schema() types.Schema {
	s := types.Schema{}
	for _, c := range t.Columns {
		s.Fields = append(s.Fields, types.Field{Name: c.Name, Type: c.Type, Comment: c.Comment})
	}
	return s
}

// Spec returns the table as connectors see it, with options overlaid.
func (t *Table) Spec(overlay map[string]string) *connector.Table {
	all := maps.Clone(t.Options)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, overlay)
	return t.SpecOf(all)
}

// SpecOf returns the table as connectors see it, with these options and no others. Metadata of results and of late
// rows are ordinary columns for connectors, behind the others.
func (t *Table) SpecOf(options map[string]string) *connector.Table {
	out := &connector.Table{Name: t.Name(), PrimaryKey: t.PrimaryKey, PartitionKeys: t.PartitionKeys,
		Comment: t.Comment, Options: maps.Clone(options), Connector: options["connector"]}
	for i, c := range t.Columns {
		switch {
		case c.Kind == Physical:
			out.Columns = append(out.Columns, types.Field{Name: c.Name, Type: c.Type.WithoutAttr(), Comment: c.Comment})
		case c.Kind == Metadata && !t.Filled(i):
			out.Metadata = append(out.Metadata, connector.MetadataColumn{Name: c.Name, Key: c.Key,
				Type: c.Type.WithoutAttr(), Virtual: c.Virtual})
		}
	}
	t.withFilled(out)
	return out
}

// View is a stored query. It is bound again at each use.
type View struct {
	Path      []string
	Columns   []string // names given in the definition, or nil
	Query     *ast.Query
	Comment   string
	Temporary bool
	Def       *ast.CreateView
}

// Catalog holds the objects of a session: one catalog, any number of databases.
type Catalog struct {
	Name      string // default_catalog
	Database  string // current database
	databases map[string]map[string]any
	// temporary holds the temporary objects, which hide others of their names.
	temporary map[string]map[string]any
}

// New returns a catalog with Flink's default names.
func New() *Catalog {
	return &Catalog{Name: "default_catalog", Database: "default_database",
		databases: map[string]map[string]any{"default_database": {}},
		temporary: map[string]map[string]any{"default_database": {}}}
}

// Qualify completes a name of one to three parts to catalog, database, name.
func (c *Catalog) Qualify(parts []string) []string {
	switch len(parts) {
	case 1:
		return []string{c.Name, c.Database, parts[0]}
	case 2:
		return []string{c.Name, parts[0], parts[1]}
	}
	return parts
}

// Lookup returns the *Table or *View of a name, the temporary one if there are two, or nil.
func (c *Catalog) Lookup(parts []string) any {
	if o := c.LookupKind(parts, true); o != nil {
		return o
	}
	return c.LookupKind(parts, false)
}

// LookupKind is Lookup among the temporary objects or among the others.
func (c *Catalog) LookupKind(parts []string, temporary bool) any {
	p := c.Qualify(parts)
	if len(p) != 3 || p[0] != c.Name {
		return nil
	}
	return c.objects(temporary)[p[1]][p[2]]
}

func (c *Catalog) objects(temporary bool) map[string]map[string]any {
	if temporary {
		return c.temporary
	}
	return c.databases
}

func isTemporary(object any) bool {
	switch o := object.(type) {
	case *Table:
		return o.Temporary
	case *View:
		return o.Temporary
	}
	return false
}

// Put stores a *Table or *View under its qualified path. The database must exist.
func (c *Catalog) Put(path []string, object any) {
	c.objects(isTemporary(object))[path[1]][path[2]] = object
}

// Drop removes the object of a qualified path that Lookup finds.
func (c *Catalog) Drop(path []string) { c.DropKind(path, c.LookupKind(path, true) != nil) }

// DropKind is Drop among the temporary objects or among the others.
func (c *Catalog) DropKind(path []string, temporary bool) {
	delete(c.objects(temporary)[path[1]], path[2])
}

// Each calls f for every object of a database, hidden ones too.
func (c *Catalog) Each(database string, f func(object any)) {
	for _, of := range []map[string]any{c.databases[database], c.temporary[database]} {
		for _, o := range of {
			f(o)
		}
	}
}

// HasDatabase reports whether the database exists.
func (c *Catalog) HasDatabase(name string) bool { return c.databases[name] != nil }

// CreateDatabase adds an empty database.
func (c *Catalog) CreateDatabase(name string) {
	c.databases[name], c.temporary[name] = map[string]any{}, map[string]any{}
}

// DropDatabase removes a database and what is in it.
func (c *Catalog) DropDatabase(name string) {
	delete(c.databases, name)
	delete(c.temporary, name)
}

// Databases lists the databases by name.
func (c *Catalog) Databases() []string { return sorted(c.databases) }

// Objects lists the names in a database, sorted.
func (c *Catalog) Objects(database string) []string {
	all := maps.Clone(c.databases[database])
	maps.Copy(all, c.temporary[database])
	return sorted(all)
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
