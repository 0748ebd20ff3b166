package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// tableSchema parses the list in parentheses of a table. A list of mere names,
// as CREATE TABLE t (a, b) AS query has it, is returned as such.
func (p *parser) tableSchema() (*ast.TableSchema, []ast.Ident) {
	start := p.start()
	s := &ast.TableSchema{}
	var names []ast.Ident
	p.parens(func() {
		if next := p.ahead(1); p.atIdent() && (isOp(next, ",") || isOp(next, ")")) {
			names = append(names, p.ident("column name"))
			return
		}
		p.schemaElement(s, false)
	})
	s.Span = p.span(start)
	if len(names) == 0 {
		return s, nil
	}
	if len(s.Columns) > 0 {
		p.failAt(names[0].Span, "write a type behind each column name", "column %s has no type", names[0].Name)
	}
	if s.Watermark == nil && s.Constraints == nil {
		return nil, names
	}
	return s, names
}

// schemaElement parses a column, watermark or constraint and adds it to s; in
// ALTER TABLE a column may have a position.
func (p *parser) schemaElement(s *ast.TableSchema, position bool) {
	start := p.start()
	switch {
	case p.accept("WATERMARK"):
		w := &ast.Watermark{}
		p.expect("FOR")
		w.Column = p.name("column name")
		p.expect("AS")
		w.Expr = p.expression()
		w.Span = p.span(start)
		if s.Watermark != nil {
			p.failAt(w.Span, "keep one of them", "table has more than one WATERMARK")
		}
		s.Watermark = w
	case p.atAny("CONSTRAINT", "PRIMARY", "UNIQUE"):
		s.Constraints = append(s.Constraints, p.constraint())
	default:
		c := p.column()
		if position {
			p.columnPosition(c)
		}
		s.Columns = append(s.Columns, c)
	}
}

func (p *parser) constraint() *ast.Constraint {
	start := p.start()
	c := &ast.Constraint{}
	if p.accept("CONSTRAINT") {
		n := p.ident("constraint name")
		c.Name = &n
	}
	p.constraintKind(c)
	c.Columns = p.identList("column name")
	p.enforcement(c)
	c.Span = p.span(start)
	return c
}

func (p *parser) constraintKind(c *ast.Constraint) {
	if p.accept("UNIQUE") {
		c.Kind = ast.Unique
		return
	}
	if !p.at("PRIMARY") {
		p.unexpected("PRIMARY KEY or UNIQUE")
	}
	p.expect("PRIMARY", "KEY")
}

func (p *parser) enforcement(c *ast.Constraint) {
	switch {
	case p.accept("NOT", "ENFORCED"):
		c.Enforcement = ast.NotEnforced
	case p.accept("ENFORCED"):
		c.Enforcement = ast.Enforced
	}
}

func (p *parser) column() *ast.Column {
	start := p.start()
	c := &ast.Column{Name: p.ident("column name")}
	// Flink's ALTER TABLE names nested columns with dots; only one part is a
	// column of its own.
	if p.accept("AS") {
		c.Kind = ast.ComputedColumn
		c.Expr = p.expression()
	} else {
		if p.atOp(",") || p.atOp(")") || p.atEnd() {
			p.unexpected("the data type of column " + c.Name.Name)
		}
		c.Type = p.typeName()
	}
	for p.columnClause(c) {
	}
	c.Span = p.span(start)
	if t := p.tok(); isIdent(t) && p.err == nil && !p.atAny("FIRST", "AFTER") {
		p.failAt(t.span(), "separate the columns with a comma", "unexpected %s behind column %s", p.found(), c.Name.Name)
	}
	return c
}

// columnClause parses one clause behind the type of a column; false if none
// comes.
func (p *parser) columnClause(c *ast.Column) bool {
	start := p.start()
	switch {
	case p.at("METADATA") && c.Kind == ast.PhysicalColumn:
		p.advance()
		c.Kind = ast.MetadataColumn
		if p.accept("FROM") {
			c.MetadataKey = p.stringLit("metadata key")
		}
		c.Virtual = p.accept("VIRTUAL")
	case p.atAny("CONSTRAINT", "PRIMARY", "UNIQUE") && c.Constraint == nil:
		k := &ast.Constraint{}
		if p.accept("CONSTRAINT") {
			n := p.ident("constraint name")
			k.Name = &n
		}
		p.constraintKind(k)
		p.enforcement(k)
		k.Span = p.span(start)
		c.Constraint = k
	case p.at("COMMENT") && c.Comment == nil:
		p.advance()
		c.Comment = p.stringLit("comment")
	case p.at("DEFAULT") && c.Default == nil:
		p.advance()
		c.Default = p.expression()
	default:
		return false
	}
	return true
}

func (p *parser) columnPosition(c *ast.Column) {
	start := p.start()
	switch {
	case p.accept("FIRST"):
		c.Position = &ast.ColumnPosition{Span: p.span(start), First: true}
	case p.accept("AFTER"):
		n := p.name("column name")
		c.Position = &ast.ColumnPosition{Span: p.span(start), After: n}
	default:
		return
	}
	c.Span.End = p.last
}
