package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// showLists are the plural words behind SHOW.
var showLists = []string{
	"CATALOGS", "DATABASES", "TABLES", "VIEWS", "COLUMNS", "PARTITIONS", "FUNCTIONS", "PROCEDURES",
	"MODULES", "MODELS", "CONNECTIONS", "JARS", "JOBS",
}

func (p *parser) show(start int) ast.Statement {
	p.advance()
	s := &ast.Show{}
	switch {
	case p.accept("CURRENT"):
		s.What = "CURRENT " + p.expectAny("CATALOG", "DATABASE")
	case p.accept("CREATE"):
		kind := p.objectKind(ast.ObjTable, ast.ObjView, ast.ObjMaterializedTable, ast.ObjCatalog, ast.ObjDatabase,
			ast.ObjFunction, ast.ObjModel, ast.ObjConnection)
		s.What = "CREATE " + string(kind)
		s.Name = p.name("name")
	case p.accept("USER"):
		p.expect("FUNCTIONS")
		s.What = "USER FUNCTIONS"
		p.showRest(s)
	case p.accept("FULL"):
		p.expect("MODULES")
		s.What = "FULL MODULES"
		p.showRest(s)
	case p.accept("MATERIALIZED"):
		p.expect("TABLES")
		s.What = "MATERIALIZED TABLES"
		p.showRest(s)
	default:
		s.What = p.expectAny(append(showLists, "CREATE", "CURRENT", "USER FUNCTIONS", "FULL MODULES")...)
		p.showRest(s)
	}
	s.Span = p.span(start)
	return s
}

// showRest parses what may follow a list: FROM name, PARTITION, [NOT] LIKE.
func (p *parser) showRest(s *ast.Show) {
	switch s.What {
	case "PARTITIONS":
		s.Name = p.name("table name")
		if p.at("PARTITION") {
			s.Partition = p.partition()
		}
	case "COLUMNS":
		p.expectAny("FROM", "IN")
		s.Name = p.name("table name")
	case "JARS", "JOBS", "CATALOGS", "MODULES", "FULL MODULES":
	default:
		if p.acceptAny("FROM", "IN") != "" {
			s.Name = p.name("database name")
		}
	}
	s.Negated = p.accept("NOT")
	switch {
	case p.accept("LIKE"):
	case p.accept("ILIKE"):
		s.ILike = true
	default:
		if s.Negated {
			p.unexpected("LIKE or ILIKE")
		}
		return
	}
	s.Like = p.stringLit("pattern")
}

// objectKind consumes the words of one of the kinds.
func (p *parser) objectKind(kinds ...ast.ObjectKind) ast.ObjectKind {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		if k == ast.ObjMaterializedTable {
			if p.accept("MATERIALIZED", "TABLE") {
				return k
			}
		} else if p.accept(string(k)) {
			return k
		}
		words[i] = string(k)
	}
	p.unexpected(orList(words))
	return kinds[0]
}

func (p *parser) describe(start int) ast.Statement {
	p.advance()
	d := &ast.Describe{Kind: ast.ObjTable}
	if p.at("JOB") && p.ahead(1).kind == kString {
		p.advance()
		d.Kind = ast.ObjJob
		d.Job = p.stringLit("job id")
		d.Span = p.span(start)
		return d
	}
	// CATALOG, DATABASE, MODEL and CONNECTION may be table names; they are kinds
	// when a name follows.
	for _, k := range []ast.ObjectKind{ast.ObjCatalog, ast.ObjDatabase, ast.ObjFunction, ast.ObjModel,
		ast.ObjConnection, ast.ObjTable, ast.ObjView} {
		if p.at(string(k)) && (isIdent(p.ahead(1)) || isWord(p.ahead(1), "EXTENDED")) {
			p.advance()
			d.Kind = k
			break
		}
	}
	d.Extended = p.accept("EXTENDED")
	d.Name = p.name("name")
	d.Span = p.span(start)
	return d
}
