package sql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/agg"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/bind"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

func (s *Session) show(st *ast.Show) (*Result, error) {
	switch st.What {
	case "CATALOGS":
		return s.list("catalog name", []string{s.cat.Name}, st)
	case "CURRENT CATALOG":
		return s.list("current catalog name", []string{s.cat.Name}, st)
	case "DATABASES":
		return s.list("database name", s.cat.Databases(), st)
	case "CURRENT DATABASE":
		return s.list("current database name", []string{s.cat.Database}, st)
	case "TABLES", "VIEWS":
		return s.showObjects(st)
	case "FUNCTIONS":
		return s.list("function name", functionNames(), st)
	case "USER FUNCTIONS":
		return s.list("function name", nil, st)
	case "MODULES":
		return s.list("module name", []string{"core"}, st)
	case "JARS":
		return s.list("jars", nil, st)
	case "COLUMNS":
		return s.showColumns(st)
	case "CREATE TABLE", "CREATE VIEW":
		return s.showCreate(st)
	}
	return nil, sqlerr.New(st.Span, "SHOW %s is not supported yet", st.What)
}

// list answers with one column of names, filtered by LIKE.
func (s *Session) list(column string, names []string, st *ast.Show) (*Result, error) {
	r := &Result{Schema: stringColumns(column)}
	for _, n := range names {
		if matches(n, st) {
			r.Rows = append(r.Rows, []types.Value{n})
		}
	}
	return r, nil
}

// matches applies [NOT] LIKE or ILIKE of a SHOW.
func matches(name string, st *ast.Show) bool {
	if st.Like == nil {
		return true
	}
	// Text that is not UTF-8 matches no name.
	pattern := regexp.QuoteMeta(strings.ToValidUTF8(st.Like.Value, "\uFFFD"))
	pattern = strings.NewReplacer("%", ".*", "_", ".").Replace(pattern)
	flags := "(?s)"
	if st.ILike {
		flags = "(?si)"
	}
	return regexp.MustCompile(flags+"^"+pattern+"$").MatchString(name) != st.Negated
}

func functionNames() []string {
	names := agg.Names()
	for _, f := range expr.All() {
		if f.Name[0] >= 'A' && f.Name[0] <= 'Z' && !strings.Contains(f.Name, " ") {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *Session) showObjects(st *ast.Show) (*Result, error) {
	database := s.cat.Database
	if st.Name != nil {
		var err error
		if database, err = s.database(st.Name); err != nil {
			return nil, err
		}
		if !s.cat.HasDatabase(database) {
			return nil, s.unknownDatabase(st.Name)
		}
	}
	var names []string
	for _, n := range s.cat.Objects(database) {
		_, view := s.cat.Lookup([]string{database, n}).(*catalog.View)
		// As in Flink, views are among the tables.
		if st.What == "TABLES" || view {
			names = append(names, n)
		}
	}
	return s.list(strings.ToLower(strings.TrimSuffix(st.What, "S"))+" name", names, st)
}

func (s *Session) showColumns(st *ast.Show) (*Result, error) {
	if st.Name == nil {
		return nil, sqlerr.New(st.Span, "SHOW COLUMNS needs a table").WithHint("write SHOW COLUMNS FROM t")
	}
	r, err := s.columns(st.Name)
	if err != nil {
		return nil, err
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row []types.Value) bool { return !matches(row[0].(string), st) })
	return r, nil
}

func (s *Session) describe(st *ast.Describe) (*Result, error) {
	switch st.Kind {
	case ast.ObjTable, ast.ObjView, "":
		return s.columns(st.Name)
	case ast.ObjDatabase:
		name, err := s.database(st.Name)
		if err != nil {
			return nil, err
		}
		if !s.cat.HasDatabase(name) {
			return nil, s.unknownDatabase(st.Name)
		}
		return &Result{Schema: stringColumns("database_description_item", "database_description_value"),
			Rows: [][]types.Value{{"Name", name}}}, nil
	case ast.ObjFunction:
		return s.describeFunction(st)
	}
	return nil, unsupported(st)
}

func (s *Session) describeFunction(st *ast.Describe) (*Result, error) {
	name := st.Name.Upper()
	r := &Result{Schema: stringColumns("info name", "info value")}
	if f := expr.Lookup(name); f != nil {
		r.Rows = [][]types.Value{{"name", f.Name}, {"usage", f.Usage}, {"description", f.Doc}, {"category", f.Category},
			{"deterministic", fmt.Sprint(!f.Volatile)}}
		return r, nil
	}
	for _, f := range agg.All() {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			r.Rows = [][]types.Value{{"name", f.Name}, {"usage", f.Usage}, {"description", f.Doc}, {"category", "Aggregate"}}
			return r, nil
		}
	}
	return nil, sqlerr.New(st.Name.Span, "unknown function %s", name).
		WithHint("%s", sqlerr.DidYouMean(name, functionNames()))
}

// columns answers with the columns of a table or view, as DESCRIBE shows them.
func (s *Session) columns(n *ast.Name) (*Result, error) {
	r := &Result{Schema: stringColumns("name", "type", "null", "key", "extras", "watermark")}
	r.Schema.Fields[2].Type = types.BooleanType.NotNull()
	comments := false
	var rows []catalog.Column
	table, isTable := s.cat.Lookup(n.Strings()).(*catalog.Table)
	switch o := s.cat.Lookup(n.Strings()).(type) {
	case *catalog.Table:
		rows = o.Columns
	case *catalog.View:
		schema, err := s.viewSchema(n)
		if err != nil {
			return nil, err
		}
		for _, f := range schema.Fields {
			rows = append(rows, catalog.Column{Name: f.Name, Type: f.Type})
		}
	default:
		return nil, s.unknownObject(n, "table")
	}
	for i, c := range rows {
		key, watermark := "", ""
		if isTable {
			key = keyText(table, c)
			watermark = watermarkText(table, i)
		}
		comments = comments || c.Comment != ""
		r.Rows = append(r.Rows, []types.Value{c.Name, c.Type.AsNullable().String(), c.Type.Nullable, key, extras(c), watermark, c.Comment})
	}
	if comments {
		r.Schema.Fields = append(r.Schema.Fields, types.Field{Name: "comment", Type: types.StringType})
		return r, nil
	}
	for i := range r.Rows {
		r.Rows[i] = r.Rows[i][:6]
	}
	return r, nil
}

func (s *Session) viewSchema(n *ast.Name) (types.Schema, error) {
	q := &ast.Query{Span: n.Span, Body: &ast.TableQuery{Span: n.Span, Name: n}}
	return bind.New(s.cat, s.cfg).Schema(q)
}

func keyText(t *catalog.Table, c catalog.Column) string {
	if !slices.Contains(t.PrimaryKey, c.Name) {
		return ""
	}
	return "PRI(" + strings.Join(t.PrimaryKey, ", ") + ")"
}

func watermarkText(t *catalog.Table, i int) string {
	switch {
	case t.RowTime != i:
		return ""
	case t.SourceWatermark:
		return "SOURCE_WATERMARK()"
	}
	return t.Watermark.String()
}

func extras(c catalog.Column) string {
	switch c.Kind {
	case catalog.Computed:
		return "AS " + c.Expr.String()
	case catalog.Metadata:
		text := "METADATA"
		if c.Key != c.Name {
			text += " FROM '" + c.Key + "'"
		}
		if c.Virtual {
			text += " VIRTUAL"
		}
		return text
	}
	return ""
}

func (s *Session) showCreate(st *ast.Show) (*Result, error) {
	var def ast.Statement
	want := strings.ToLower(strings.TrimPrefix(st.What, "CREATE "))
	switch o := s.cat.Lookup(st.Name.Strings()).(type) {
	case *catalog.Table:
		if want != "table" {
			return nil, sqlerr.New(st.Name.Span, "%s is a table", st.Name).WithHint("write SHOW CREATE TABLE %s", st.Name)
		}
		copied := *o.Def
		copied.Name = ast.NewName(o.Path...)
		copied.OrReplace, copied.Replace, copied.IfNotExists = false, false, false
		def = &copied
	case *catalog.View:
		if want != "view" {
			return nil, sqlerr.New(st.Name.Span, "%s is a view", st.Name).WithHint("write SHOW CREATE VIEW %s", st.Name)
		}
		copied := *o.Def
		copied.Name = ast.NewName(o.Path...)
		copied.OrReplace, copied.IfNotExists = false, false
		def = &copied
	default:
		return nil, s.unknownObject(st.Name, want)
	}
	return &Result{Schema: stringColumns("result"), Rows: [][]types.Value{{ast.Format(def)}}}, nil
}
