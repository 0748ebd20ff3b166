package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// statementWords are the words that start a statement and seldom anything else.
var statementWords = wordSet(
	"ADD", "ALTER", "ANALYZE", "BEGIN", "CALL", "CLEAR", "COMPILE", "CREATE", "DELETE", "DESC", "DESCRIBE", "DROP",
	"EXECUTE", "EXIT", "EXPLAIN", "HELP", "INSERT", "LOAD", "QUIT", "REMOVE", "REPLACE", "RESET", "SELECT", "SET",
	"SHOW", "STATEMENT", "STOP", "TRUNCATE", "UNLOAD", "UPDATE", "UPSERT", "USE", "VALUES", "WITH",
)

// statement parses one statement up to, not with, its semicolon.
func (p *parser) statement() ast.Statement {
	start := p.start()
	if p.atQueryParens() {
		q := p.query()
		if p.at("ON", "CONFLICT") {
			p.unexpected("the end of the statement")
		}
		return &ast.QueryStmt{Span: p.span(start), Query: q}
	}
	t := p.tok()
	if t.kind == kWord {
		if parse := statementParser(t.text); parse != nil {
			return parse(p, start)
		}
		hint := ""
		var words []string
		for w := range statementWords {
			words = append(words, w)
		}
		if near := sqlerr.Nearest(t.text, words); len(near) > 0 {
			hint = "did you mean " + near[0] + "?"
		}
		p.failAt(t.span(), hint, "unexpected %s, expected a statement", p.found())
	}
	p.unexpected("a statement")
	return &ast.Command{}
}

func statementParser(word string) func(p *parser, start int) ast.Statement {
	switch word {
	case "CREATE":
		return (*parser).create
	case "REPLACE":
		return (*parser).replaceTable
	case "ALTER":
		return (*parser).alter
	case "DROP":
		return (*parser).drop
	case "INSERT", "UPSERT":
		return (*parser).insert
	case "BEGIN", "EXECUTE", "STATEMENT":
		return (*parser).beginOrExecute
	case "EXPLAIN":
		return (*parser).explain
	case "DESCRIBE", "DESC":
		return (*parser).describe
	case "SHOW":
		return (*parser).show
	case "USE":
		return (*parser).use
	case "SET":
		return (*parser).set
	case "RESET":
		return (*parser).reset
	}
	return smallStatementParser(word)
}

func smallStatementParser(word string) func(p *parser, start int) ast.Statement {
	switch word {
	case "LOAD", "UNLOAD":
		return (*parser).module
	case "ADD", "REMOVE":
		return (*parser).jar
	case "CALL":
		return (*parser).callStatement
	case "ANALYZE":
		return (*parser).analyze
	case "COMPILE":
		return (*parser).compile
	case "STOP":
		return (*parser).stopJob
	case "UPDATE":
		return (*parser).update
	case "DELETE":
		return (*parser).delete
	case "TRUNCATE":
		return (*parser).truncate
	case "QUIT", "EXIT", "CLEAR", "HELP":
		return (*parser).command
	}
	return nil
}

func (p *parser) insert(start int) ast.Statement {
	s := &ast.Insert{Upsert: p.advance().text == "UPSERT"}
	if !s.Upsert && p.accept("OVERWRITE") {
		s.Overwrite = true
		p.accept("INTO")
	} else if !p.accept("INTO") {
		p.unexpected("INTO or OVERWRITE")
	}
	s.Table = p.name("table name")
	s.Hints = p.hints()
	if p.at("PARTITION") {
		s.Partition = p.partition()
	}
	if p.atOp("(") && !p.atQueryParens() {
		p.parens(func() { s.Columns = append(s.Columns, p.name("column name")) })
	}
	if p.at("PARTITION") {
		p.failAt(p.tok().span(), "write INSERT INTO t PARTITION (...) (columns)", "PARTITION stands before the columns")
	}
	if !p.atQueryParens() {
		p.unexpected("a query (SELECT, VALUES or WITH)")
	}
	s.Query = p.query()
	if p.accept("ON", "CONFLICT") {
		p.expect("DO")
		s.OnConflict = "DO " + p.expectAny("NOTHING", "ERROR", "DEDUPLICATE")
	}
	s.Span = p.span(start)
	return s
}

// partition parses PARTITION (a = 1, b).
func (p *parser) partition() []*ast.PartitionValue {
	p.expect("PARTITION")
	var list []*ast.PartitionValue
	p.parens(func() {
		start := p.start()
		v := &ast.PartitionValue{Column: p.ident("partition column")}
		if p.acceptOp("=") {
			v.Value = p.expression()
		}
		v.Span = p.span(start)
		list = append(list, v)
	})
	return list
}

// beginOrExecute parses BEGIN STATEMENT SET; ... END, EXECUTE STATEMENT SET
// BEGIN ... END, EXECUTE PLAN, and EXECUTE before a statement, which changes
// nothing.
func (p *parser) beginOrExecute(start int) ast.Statement {
	switch {
	case p.accept("BEGIN"):
		p.expect("STATEMENT", "SET")
		p.expectOp(";")
		return p.statementSet(start, "BEGIN STATEMENT SET")
	case p.at("STATEMENT"):
		return p.statementSetBlock(start)
	}
	p.expect("EXECUTE")
	switch {
	case p.at("STATEMENT"):
		return p.statementSetBlock(start)
	case p.accept("PLAN"):
		f := p.stringLit("file name")
		return &ast.ExecutePlan{Span: p.span(start), File: f}
	case p.atAny("INSERT", "UPSERT"):
		return p.insert(start)
	case p.atQueryParens():
		q := p.query()
		return &ast.QueryStmt{Span: p.span(start), Query: q}
	}
	p.unexpected("STATEMENT SET, PLAN, INSERT or a query")
	return &ast.Command{}
}

// statementSetBlock parses STATEMENT SET BEGIN ... END.
func (p *parser) statementSetBlock(start int) ast.Statement {
	p.expect("STATEMENT", "SET", "BEGIN")
	return p.statementSet(start, "BEGIN")
}

// statementSet parses statements, each with its semicolon, up to END.
func (p *parser) statementSet(start int, opening string) ast.Statement {
	s := &ast.StatementSet{}
	for !p.at("END") && p.err == nil {
		at := p.start()
		switch {
		case p.atAny("INSERT", "UPSERT"):
			s.Statements = append(s.Statements, p.insert(at))
		case p.accept("EXECUTE"):
			if !p.at("INSERT") {
				p.unexpected("INSERT")
			}
			s.Statements = append(s.Statements, p.insert(at))
		case p.tok().kind == kEOF:
			p.failAt(ast.Span{Start: start, End: start + len(opening)}, "end it with END;",
				"statement set is not closed")
		default:
			p.unexpected("INSERT or END")
		}
		if !p.acceptOp(";") && p.err == nil {
			p.unexpected("';' behind the statement")
		}
	}
	p.expect("END")
	s.Span = p.span(start)
	if len(s.Statements) == 0 && p.err == nil {
		p.failAt(s.Span, "put INSERT statements between BEGIN and END", "statement set is empty")
	}
	return s
}

var explainDetails = []string{"ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN", "AST"}

func (p *parser) explain(start int) ast.Statement {
	p.advance()
	e := &ast.Explain{}
	if p.at("PLAN", "FOR") {
		p.expect("PLAN", "FOR")
	} else if p.atAny(explainDetails...) {
		p.list(func() { e.Details = append(e.Details, p.expectAny(explainDetails...)) })
	}
	if !p.enter() {
		return e
	}
	defer p.leave()
	e.Statement = p.statement()
	e.Span = p.span(start)
	return e
}

func (p *parser) use(start int) ast.Statement {
	p.advance()
	u := &ast.Use{Kind: ast.ObjDatabase}
	switch {
	case p.accept("MODULES"):
		u.Kind = "MODULES"
		p.list(func() { u.Modules = append(u.Modules, p.ident("module name")) })
	case p.at("CATALOG") && isIdent(p.ahead(1)):
		p.advance()
		u.Kind = ast.ObjCatalog
		u.Name = p.name("catalog name")
	default:
		u.Name = p.name("database name")
	}
	u.Span = p.span(start)
	return u
}

func (p *parser) module(start int) ast.Statement {
	unload := p.advance().text == "UNLOAD"
	p.expect("MODULE")
	name := p.ident("module name")
	if unload {
		return &ast.UnloadModule{Span: p.span(start), Name: name}
	}
	l := &ast.LoadModule{Name: name}
	if p.accept("WITH") {
		l.Options = p.options()
	}
	l.Span = p.span(start)
	return l
}

func (p *parser) jar(start int) ast.Statement {
	j := &ast.Jar{Remove: p.advance().text == "REMOVE"}
	p.expect("JAR")
	j.Path = p.stringLit("path of the jar")
	j.Span = p.span(start)
	return j
}

func (p *parser) callStatement(start int) ast.Statement {
	p.advance()
	at := p.start()
	name := p.name("procedure name")
	c := &ast.Call{Call: p.call(name, at)}
	c.Span = p.span(start)
	return c
}

func (p *parser) analyze(start int) ast.Statement {
	p.advance()
	p.expect("TABLE")
	a := &ast.Analyze{Table: p.name("table name")}
	if p.at("PARTITION") {
		a.Partition = p.partition()
	}
	p.expect("COMPUTE", "STATISTICS")
	if p.accept("FOR") {
		if p.accept("ALL") {
			p.expect("COLUMNS")
			a.AllColumns = true
		} else {
			p.expect("COLUMNS")
			p.list(func() { a.Columns = append(a.Columns, p.ident("column name")) })
		}
	}
	a.Span = p.span(start)
	return a
}

func (p *parser) compile(start int) ast.Statement {
	p.advance()
	c := &ast.CompilePlan{}
	if p.accept("AND") {
		p.expect("EXECUTE")
		c.Execute = true
	}
	p.expect("PLAN")
	c.File = p.stringLit("file name")
	c.IfNotExists = p.ifNotExists()
	p.expect("FOR")
	at := p.start()
	switch {
	case p.atAny("INSERT", "UPSERT"):
		c.Statement = p.insert(at)
	case p.atAny("STATEMENT", "EXECUTE", "BEGIN"):
		c.Statement = p.beginOrExecute(at)
	default:
		p.unexpected("INSERT or STATEMENT SET")
	}
	c.Span = p.span(start)
	return c
}

func (p *parser) stopJob(start int) ast.Statement {
	p.advance()
	p.expect("JOB")
	s := &ast.StopJob{ID: p.stringLit("job id")}
	for p.accept("WITH") {
		if p.expectAny("SAVEPOINT", "DRAIN") == "DRAIN" {
			s.Drain = true
		} else {
			s.Savepoint = true
		}
	}
	s.Span = p.span(start)
	return s
}

func (p *parser) update(start int) ast.Statement {
	p.advance()
	u := &ast.Update{Table: p.name("table name")}
	p.hints()
	u.Alias = p.simpleAlias()
	p.expect("SET")
	p.list(func() {
		at := p.start()
		a := &ast.Assignment{Column: p.name("column name")}
		p.expectOp("=")
		a.Value = p.expression()
		a.Span = p.span(at)
		u.Sets = append(u.Sets, a)
	})
	if p.accept("WHERE") {
		u.Where = p.expression()
	}
	u.Span = p.span(start)
	return u
}

func (p *parser) simpleAlias() *ast.Ident {
	if !p.accept("AS") && !p.atIdent() {
		return nil
	}
	a := p.ident("alias")
	return &a
}

func (p *parser) delete(start int) ast.Statement {
	p.advance()
	p.expect("FROM")
	d := &ast.Delete{Table: p.name("table name")}
	p.hints()
	d.Alias = p.simpleAlias()
	if p.accept("WHERE") {
		d.Where = p.expression()
	}
	d.Span = p.span(start)
	return d
}

func (p *parser) truncate(start int) ast.Statement {
	p.advance()
	p.expect("TABLE")
	n := p.name("table name")
	return &ast.Truncate{Span: p.span(start), Table: n}
}

func (p *parser) command(start int) ast.Statement {
	w := p.advance().text
	return &ast.Command{Span: p.span(start), Name: w}
}
