package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

func (p *parser) drop(start int) ast.Statement {
	p.advance()
	d := &ast.Drop{}
	if p.accept("TEMPORARY") {
		d.Temporary = true
		d.System = p.accept("SYSTEM")
	}
	d.Kind = p.objectKind(ast.ObjTable, ast.ObjView, ast.ObjFunction, ast.ObjCatalog, ast.ObjDatabase,
		ast.ObjModel, ast.ObjConnection, ast.ObjMaterializedTable)
	d.IfExists = p.ifExists()
	d.Name = p.name("name")
	d.Behavior = p.acceptAny("RESTRICT", "CASCADE")
	d.Span = p.span(start)
	return d
}

func (p *parser) alter(start int) ast.Statement {
	p.advance()
	a := &ast.Alter{}
	if p.accept("TEMPORARY") {
		a.Temporary = true
		a.System = p.accept("SYSTEM")
	}
	a.Kind = p.objectKind(ast.ObjTable, ast.ObjView, ast.ObjFunction, ast.ObjCatalog, ast.ObjDatabase,
		ast.ObjModel, ast.ObjConnection, ast.ObjMaterializedTable)
	a.IfExists = p.ifExists()
	a.Name = p.name("name")
	if a.Kind == ast.ObjTable && p.at("PARTITION") {
		a.Partition = p.partition()
	}
	at := p.start()
	switch {
	case a.Kind == ast.ObjFunction:
		a.Action = p.alterFunction(at)
	case p.accept("RENAME"):
		a.Action = p.alterRename(at, a.Kind)
	case p.accept("SET"):
		a.Action = p.alterSet(at, a.Kind)
	case p.accept("RESET"):
		a.Action = p.alterReset(at, a.Kind)
	case p.accept("COMMENT"):
		c := p.stringLit("comment")
		a.Action = &ast.AlterComment{Span: p.span(at), Comment: c}
	case p.accept("AS"):
		q := p.asQuery()
		a.Action = &ast.AlterAs{Span: p.span(at), Query: q}
	case a.Kind == ast.ObjTable || a.Kind == ast.ObjMaterializedTable:
		a.Action = p.alterTable(at, a.Kind)
	default:
		p.unexpected("RENAME, SET, RESET, COMMENT or AS")
	}
	a.Span = p.span(start)
	return a
}

func (p *parser) alterFunction(at int) ast.AlterAction {
	f := &ast.AlterFunction{}
	p.expect("AS")
	f.Class, f.Language, f.Using = p.functionBody()
	f.Span = p.span(at)
	return f
}

func (p *parser) alterRename(at int, kind ast.ObjectKind) ast.AlterAction {
	if p.accept("TO") {
		n := p.name("new name")
		return &ast.AlterRename{Span: p.span(at), To: n}
	}
	if kind != ast.ObjTable {
		p.unexpected("TO")
	}
	p.accept("COLUMN")
	r := &ast.AlterRenameColumn{From: p.name("column name or TO")}
	p.expect("TO")
	r.To = p.ident("new column name")
	r.Span = p.span(at)
	return r
}

func (p *parser) alterSet(at int, kind ast.ObjectKind) ast.AlterAction {
	if kind == ast.ObjMaterializedTable {
		if p.accept("FRESHNESS") {
			p.expectOp("=")
			x := p.expression()
			return &ast.AlterFreshness{Span: p.span(at), Freshness: x}
		}
		if p.accept("REFRESH_MODE") {
			p.expectOp("=")
			m := p.expectAny("FULL", "CONTINUOUS")
			return &ast.AlterRefreshMode{Span: p.span(at), Mode: m}
		}
	}
	o := p.options()
	return &ast.AlterSet{Span: p.span(at), Options: o}
}

func (p *parser) alterReset(at int, kind ast.ObjectKind) ast.AlterAction {
	if kind == ast.ObjMaterializedTable && p.accept("REFRESH_MODE") {
		return &ast.AlterRefreshMode{Span: p.span(at)}
	}
	r := &ast.AlterReset{}
	if p.atOp("(") && isOp(p.ahead(1), ")") {
		p.advance()
		p.advance()
	} else {
		p.parens(func() { r.Keys = append(r.Keys, p.stringLit("option key")) })
	}
	r.Span = p.span(at)
	return r
}

// alterTable parses the actions that only tables have.
func (p *parser) alterTable(at int, kind ast.ObjectKind) ast.AlterAction {
	switch {
	case p.accept("ADD"):
		if p.atAny("PARTITION", "IF") {
			return p.addPartitions(at)
		}
		s, d := p.schemaChange()
		return &ast.AlterAdd{Span: p.span(at), Schema: s, Distribution: d}
	case p.accept("MODIFY"):
		s, d := p.schemaChange()
		return &ast.AlterModify{Span: p.span(at), Schema: s, Distribution: d}
	case p.accept("DROP"):
		return p.alterDrop(at)
	}
	if kind == ast.ObjMaterializedTable {
		switch {
		case p.accept("SUSPEND"):
			return &ast.AlterSuspend{Span: p.span(at)}
		case p.accept("RESUME"):
			r := &ast.AlterResume{}
			if p.accept("WITH") {
				r.Options = p.options()
			}
			r.Span = p.span(at)
			return r
		case p.accept("REFRESH"):
			r := &ast.AlterRefresh{}
			if p.at("PARTITION") {
				r.Partition = p.partition()
			}
			r.Span = p.span(at)
			return r
		}
	}
	p.unexpected("ADD, MODIFY, DROP, RENAME, SET or RESET")
	return &ast.AlterSuspend{}
}

// schemaChange parses what ADD and MODIFY have: a distribution, or one or more
// columns, constraints and watermarks.
func (p *parser) schemaChange() (*ast.TableSchema, *ast.Distribution) {
	if p.at("DISTRIBUTION") {
		return nil, p.distribution()
	}
	start := p.start()
	s := &ast.TableSchema{}
	if p.atOp("(") {
		p.parens(func() { p.schemaElement(s, true) })
	} else {
		p.schemaElement(s, true)
	}
	s.Span = p.span(start)
	return s, nil
}

func (p *parser) addPartitions(at int) ast.AlterAction {
	a := &ast.AlterAddPartitions{IfNotExists: p.ifNotExists()}
	for {
		start := p.start()
		s := &ast.PartitionSpec{Values: p.partition()}
		if p.accept("WITH") {
			s.Options = p.options()
		}
		s.Span = p.span(start)
		a.Partitions = append(a.Partitions, s)
		if !p.at("PARTITION") {
			break
		}
	}
	a.Span = p.span(at)
	return a
}

func (p *parser) alterDrop(at int) ast.AlterAction {
	switch {
	case p.at("IF") && isWord(p.ahead(1), "EXISTS"), p.at("PARTITION"):
		return p.dropPartitions(at)
	case p.accept("PRIMARY", "KEY"):
		return &ast.AlterDropConstraint{Span: p.span(at)}
	case p.accept("CONSTRAINT"):
		n := p.ident("constraint name")
		return &ast.AlterDropConstraint{Span: p.span(at), Name: &n}
	case p.accept("WATERMARK"):
		return &ast.AlterDropWatermark{Span: p.span(at)}
	case p.accept("DISTRIBUTION"):
		return &ast.AlterDropDistribution{Span: p.span(at)}
	}
	d := &ast.AlterDropColumns{}
	if p.atOp("(") {
		p.parens(func() { d.Columns = append(d.Columns, p.name("column name")) })
	} else {
		p.accept("COLUMN")
		d.Columns = []*ast.Name{p.name("column name")}
	}
	d.Span = p.span(at)
	return d
}

func (p *parser) dropPartitions(at int) ast.AlterAction {
	d := &ast.AlterDropPartitions{IfExists: p.ifExists()}
	for {
		start := p.start()
		s := &ast.PartitionSpec{Values: p.partition()}
		s.Span = p.span(start)
		d.Partitions = append(d.Partitions, s)
		if !p.acceptOp(",") {
			break
		}
	}
	d.Span = p.span(at)
	return d
}
