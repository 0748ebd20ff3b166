package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// createPrefix is what stands between CREATE and the kind of object.
type createPrefix struct {
	orReplace, orAlter, temporary, system bool
}

func (p *parser) create(start int) ast.Statement {
	p.advance()
	var c createPrefix
	if p.accept("OR") {
		if p.expectAny("REPLACE", "ALTER") == "ALTER" {
			c.orAlter = true
		} else {
			c.orReplace = true
		}
	}
	if p.accept("TEMPORARY") {
		c.temporary = true
		c.system = p.accept("SYSTEM")
	}
	at := p.tok()
	kinds := []string{"TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE", "MODEL", "CONNECTION", "MATERIALIZED"}
	kind := p.expectAny(kinds...)
	p.checkPrefix(c, kind, at.span())
	switch kind {
	case "TABLE":
		return p.createTable(start, c)
	case "VIEW":
		return p.createView(start, c)
	case "FUNCTION":
		return p.createFunction(start, c)
	case "CATALOG", "DATABASE":
		return p.createContainer(start, kind)
	case "MODEL":
		return p.createModel(start, c)
	case "CONNECTION":
		return p.createConnection(start, c)
	case "MATERIALIZED":
		p.expect("TABLE")
		return p.createMaterializedTable(start, c)
	}
	return &ast.Command{}
}

// checkPrefix refuses words between CREATE and the kind that the kind has not.
func (p *parser) checkPrefix(c createPrefix, kind string, at ast.Span) {
	if p.err != nil {
		return
	}
	refuse := func(bad bool, words string) {
		if bad {
			p.failAt(at, "remove "+words, "%s can't be created with %s", kind, words)
		}
	}
	refuse(c.orAlter && kind != "MATERIALIZED", "OR ALTER")
	refuse(c.orReplace && wordIn(kind, "FUNCTION", "CATALOG", "DATABASE", "CONNECTION"), "OR REPLACE")
	refuse(c.temporary && wordIn(kind, "CATALOG", "DATABASE", "MATERIALIZED"), "TEMPORARY")
	refuse(c.system && kind != "FUNCTION" && kind != "CONNECTION", "SYSTEM")
}

func (p *parser) ifNotExists() bool {
	return p.ifWords("NOT", "EXISTS")
}

// ifWords parses IF and these words. IF is also an ordinary name: it is one
// when something that can't go on as the clause follows.
func (p *parser) ifWords(words ...string) bool {
	if !p.at("IF") || !isWord(p.ahead(1), words[0]) && !isIdent(p.ahead(1)) {
		return false
	}
	p.advance()
	p.expect(words...)
	return true
}

func (p *parser) ifExists() bool {
	return p.ifWords("EXISTS")
}

// replaceTable parses REPLACE TABLE ... AS query.
func (p *parser) replaceTable(start int) ast.Statement {
	p.advance()
	p.expect("TABLE")
	s := p.createTable(start, createPrefix{}).(*ast.CreateTable)
	s.Replace = true
	if s.As == nil && p.err == nil {
		p.unexpected("AS with a query")
	}
	return s
}

func (p *parser) createTable(start int, c createPrefix) ast.Statement {
	s := &ast.CreateTable{OrReplace: c.orReplace, Temporary: c.temporary, IfNotExists: p.ifNotExists()}
	s.Name = p.name("table name")
	if p.atOp("(") {
		s.Schema, s.ColumnNames = p.tableSchema()
	}
	for p.tableClause(&s.Comment, &s.Distribution, &s.PartitionedBy, &s.Options) {
	}
	if p.at("LIKE") {
		s.Like = p.likeClause()
	}
	if p.accept("AS") {
		s.As = p.asQuery()
	}
	if s.ColumnNames != nil && s.As == nil && p.err == nil {
		p.failAt(s.ColumnNames[0].Span, "write a type behind each column name", "column %s has no type", s.ColumnNames[0].Name)
	}
	if p.at("WITH") && (s.Like != nil || s.As != nil) {
		p.failAt(p.tok().span(), "move it before LIKE or AS", "WITH stands too late")
	}
	s.Span = p.span(start)
	return s
}

// asQuery parses the query behind AS.
func (p *parser) asQuery() *ast.Query {
	if !p.atQueryParens() {
		p.unexpected("a query (SELECT, VALUES or WITH)")
	}
	return p.query()
}

// tableClause parses one of COMMENT, DISTRIBUTED, PARTITIONED BY and WITH; false
// if none comes.
func (p *parser) tableClause(comment **ast.StringLit, d **ast.Distribution, by *[]ast.Ident, o *[]*ast.Option) bool {
	at := p.tok()
	twice := false
	switch {
	case p.accept("COMMENT"):
		twice = *comment != nil
		*comment = p.stringLit("comment")
	case p.at("DISTRIBUTED"):
		twice = *d != nil
		*d = p.distribution()
	case p.accept("PARTITIONED"):
		twice = *by != nil
		p.expect("BY")
		*by = p.identList("column name")
	case p.accept("WITH"):
		twice = *o != nil
		*o = p.options()
	default:
		return false
	}
	if twice {
		p.failAt(at.span(), "keep one of them", "%s is given twice", at.text)
	}
	return true
}

// options parses ('key' = 'value', ...).
func (p *parser) options() []*ast.Option {
	open := p.start()
	p.expectOp("(")
	if p.acceptOp(")") {
		return []*ast.Option{}
	}
	var list []*ast.Option
	p.list(func() {
		start := p.start()
		o := &ast.Option{Key: p.stringLit("option key")}
		p.expectOp("=")
		o.Value = p.stringLit("option value")
		o.Span = p.span(start)
		list = append(list, o)
	})
	if t := p.tok(); t.kind == kString {
		p.failAt(t.span(), "separate the options with a comma", "unexpected %s behind an option", p.found())
	}
	p.closeParen(open)
	return list
}

// distribution parses DISTRIBUTED BY ..., or DISTRIBUTION BY ... of ALTER TABLE.
func (p *parser) distribution() *ast.Distribution {
	start := p.start()
	p.advance()
	d := &ast.Distribution{}
	if p.accept("BY") {
		d.Kind = p.acceptAny("HASH", "RANGE")
		d.Columns = p.identList("column name")
	}
	if p.accept("INTO") {
		d.Buckets = p.number("number of buckets")
		p.expect("BUCKETS")
	} else if d.Columns == nil {
		p.unexpected("BY or INTO")
	}
	d.Span = p.span(start)
	return d
}

func (p *parser) likeClause() *ast.LikeClause {
	start := p.start()
	p.advance()
	l := &ast.LikeClause{Table: p.name("table name")}
	if open := p.start(); p.acceptOp("(") {
		for !p.atOp(")") && p.err == nil {
			at := p.start()
			o := &ast.LikeOption{Merge: p.expectAny("INCLUDING", "EXCLUDING", "OVERWRITING")}
			o.Feature = p.expectAny("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS",
				"PARTITIONS", "WATERMARKS")
			o.Span = p.span(at)
			l.Options = append(l.Options, o)
		}
		p.closeParen(open)
	}
	l.Span = p.span(start)
	return l
}

func (p *parser) createView(start int, c createPrefix) ast.Statement {
	v := &ast.CreateView{OrReplace: c.orReplace, Temporary: c.temporary, IfNotExists: p.ifNotExists()}
	v.Name = p.name("view name")
	if p.atOp("(") {
		p.parens(func() {
			at := p.start()
			col := &ast.ViewColumn{Name: p.ident("column name")}
			if p.accept("COMMENT") {
				col.Comment = p.stringLit("comment")
			}
			col.Span = p.span(at)
			v.Columns = append(v.Columns, col)
		})
	}
	if p.accept("COMMENT") {
		v.Comment = p.stringLit("comment")
	}
	p.expect("AS")
	v.Query = p.asQuery()
	v.Span = p.span(start)
	return v
}

func (p *parser) createFunction(start int, c createPrefix) ast.Statement {
	f := &ast.CreateFunction{Temporary: c.temporary, System: c.system, IfNotExists: p.ifNotExists()}
	f.Name = p.name("function name")
	p.expect("AS")
	f.Class, f.Language, f.Using = p.functionBody()
	if p.accept("WITH") {
		f.Options = p.options()
	}
	f.Span = p.span(start)
	return f
}

// functionBody parses 'class' [LANGUAGE l] [USING JAR 'path', ...].
func (p *parser) functionBody() (class *ast.StringLit, language string, using []*ast.Resource) {
	class = p.stringLit("class name")
	if p.accept("LANGUAGE") {
		language = p.expectAny("JAVA", "SCALA", "PYTHON", "SQL")
	}
	if p.accept("USING") {
		p.list(func() {
			at := p.start()
			r := &ast.Resource{Kind: p.expectAny("JAR", "FILE", "ARCHIVE", "ARTIFACT")}
			r.Path = p.stringLit("path")
			r.Span = p.span(at)
			using = append(using, r)
		})
	}
	return class, language, using
}

// createContainer parses CREATE CATALOG and CREATE DATABASE.
func (p *parser) createContainer(start int, kind string) ast.Statement {
	exists := p.ifNotExists()
	name := p.name(map[string]string{"CATALOG": "catalog name", "DATABASE": "database name"}[kind])
	var comment *ast.StringLit
	var options []*ast.Option
	if p.accept("COMMENT") {
		comment = p.stringLit("comment")
	}
	if p.accept("WITH") {
		options = p.options()
	}
	span := p.span(start)
	if kind == "DATABASE" {
		return &ast.CreateDatabase{Span: span, IfNotExists: exists, Name: name, Comment: comment, Options: options}
	}
	if len(name.Parts) > 1 {
		p.failAt(name.Span, "", "a catalog has a name of one part")
	}
	return &ast.CreateCatalog{Span: span, IfNotExists: exists, Name: name.Parts[0], Comment: comment, Options: options}
}

func (p *parser) createModel(start int, c createPrefix) ast.Statement {
	m := &ast.CreateModel{OrReplace: c.orReplace, Temporary: c.temporary, IfNotExists: p.ifNotExists()}
	m.Name = p.name("model name")
	columns := func() (list []*ast.Column) {
		p.parens(func() { list = append(list, p.column()) })
		return list
	}
	if p.accept("INPUT") {
		m.Input = columns()
	}
	if p.accept("OUTPUT") {
		m.Output = columns()
	}
	if p.accept("COMMENT") {
		m.Comment = p.stringLit("comment")
	}
	if p.accept("WITH") {
		m.Options = p.options()
	}
	if p.accept("AS") {
		m.As = p.asQuery()
	}
	m.Span = p.span(start)
	return m
}

func (p *parser) createConnection(start int, c createPrefix) ast.Statement {
	s := &ast.CreateConnection{Temporary: c.temporary, System: c.system, IfNotExists: p.ifNotExists()}
	s.Name = p.name("connection name")
	if p.accept("COMMENT") {
		s.Comment = p.stringLit("comment")
	}
	if p.accept("WITH") {
		s.Options = p.options()
	}
	s.Span = p.span(start)
	return s
}

func (p *parser) createMaterializedTable(start int, c createPrefix) ast.Statement {
	m := &ast.CreateMaterializedTable{OrAlter: c.orAlter, OrReplace: c.orReplace, IfNotExists: p.ifNotExists()}
	m.Name = p.name("table name")
	if p.atOp("(") {
		m.Schema, m.ColumnNames = p.tableSchema()
	}
	for p.tableClause(&m.Comment, &m.Distribution, &m.PartitionedBy, &m.Options) {
	}
	if p.accept("FRESHNESS") {
		p.expectOp("=")
		m.Freshness = p.expression()
	}
	if p.accept("REFRESH_MODE") {
		p.expectOp("=")
		m.RefreshMode = p.expectAny("FULL", "CONTINUOUS")
	}
	p.expect("AS")
	m.As = p.asQuery()
	m.Span = p.span(start)
	return m
}
