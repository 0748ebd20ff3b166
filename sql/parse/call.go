package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
)

// reservedFunctions are the reserved words that are functions when a
// parenthesis follows.
var reservedFunctions = wordSet(
	"ABS", "ANY_VALUE", "AVG", "ARRAY_CONCAT_AGG", "CARDINALITY", "CEIL", "CEILING", "CHAR", "CHAR_LENGTH",
	"CHARACTER_LENGTH", "CLASSIFIER", "COALESCE", "COLLECT", "CONVERT", "CORR", "COUNT", "COVAR_POP", "COVAR_SAMP",
	"CUME_DIST", "CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "DAY", "DENSE_RANK",
	"ELEMENT", "EVERY", "EXP", "FIRST_VALUE", "FLOOR", "FUSION", "GROUP_CONCAT", "GROUPING", "HASH", "HOUR",
	"INTERSECTION", "LAG", "LAST_VALUE", "LEAD", "LEFT", "LN", "LOCALTIME", "LOCALTIMESTAMP", "LOWER",
	"MATCH_NUMBER", "MAX", "MIN", "MINUTE", "MOD", "MONTH", "NEXT", "NTH_VALUE", "NTILE", "NULLIF", "OCTET_LENGTH",
	"PERCENT_RANK", "PERCENTILE_CONT", "PERCENTILE_DISC", "PERIOD", "POWER", "PREV", "RANK", "REGR_AVGX",
	"REGR_AVGY", "REGR_COUNT", "REGR_INTERCEPT", "REGR_R2", "REGR_SLOPE", "REGR_SXX", "REGR_SXY", "REGR_SYY",
	"REPLACE", "RIGHT", "ROW_NUMBER", "SECOND", "SOME", "SQRT", "STDDEV_POP", "STDDEV_SAMP", "STRING_AGG", "SUBSTRING",
	"SUM", "TIMESTAMP_LTZ", "TRANSLATE", "TRUNCATE", "UPPER", "USER", "VAR_POP", "VAR_SAMP", "WIDTH_BUCKET", "YEAR",
)

// niladic are the functions that are called without parentheses.
var niladic = wordSet(
	"CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_DEFAULT_TRANSFORM_GROUP", "CURRENT_PATH", "CURRENT_ROLE",
	"CURRENT_SCHEMA", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME", "LOCALTIMESTAMP",
	"SESSION_USER", "SYSTEM_USER", "USER",
)

func wordSet(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// call parses the arguments of a function and the clauses behind them.
func (p *parser) call(name *ast.Name, start int) *ast.FuncCall {
	f := &ast.FuncCall{Name: name}
	open := p.start()
	p.expectOp("(")
	switch {
	case p.accept("DISTINCT"):
		f.Distinct = true
	case p.accept("ALL"):
		f.All = true
	}
	if !p.atOp(")") {
		if p.atOp("*") && isOp(p.ahead(1), ")") && !f.Distinct {
			f.Args = []ast.Expr{p.star()}
		} else {
			p.list(func() { f.Args = append(f.Args, p.argument()) })
		}
		p.nullTreatment(f)
		if p.at("ORDER") {
			f.OrderBy = p.orderBy()
		}
		if p.accept("SEPARATOR") {
			f.Args = append(f.Args, p.expression())
		}
		p.nullTreatment(f)
	}
	p.closeParen(open)
	p.callSuffix(f)
	f.Span = p.span(start)
	return f
}

func (p *parser) star() ast.Expr { return &ast.Star{Span: p.advance().span()} }

// nullTreatment parses IGNORE NULLS or RESPECT NULLS, which may stand inside or
// behind the parentheses.
func (p *parser) nullTreatment(f *ast.FuncCall) bool {
	switch {
	case p.accept("IGNORE", "NULLS"):
		f.Nulls = ast.IgnoreNulls
	case p.accept("RESPECT", "NULLS"):
		f.Nulls = ast.RespectNulls
	default:
		return false
	}
	return true
}

// callSuffix parses WITHIN GROUP, FILTER, null treatment and OVER.
func (p *parser) callSuffix(f *ast.FuncCall) {
	for {
		switch {
		case p.at("WITHIN", "GROUP") && f.WithinGroup == nil:
			p.advance()
			p.advance()
			open := p.start()
			p.expectOp("(")
			f.WithinGroup = p.orderBy()
			p.closeParen(open)
		case p.at("FILTER") && f.Filter == nil:
			p.advance()
			open := p.start()
			p.expectOp("(")
			p.expect("WHERE")
			f.Filter = p.expression()
			p.closeParen(open)
		case p.nullTreatment(f):
		case p.at("OVER") && f.Over == nil:
			p.advance()
			f.Over = p.windowSpec()
			return
		default:
			return
		}
	}
}

// argument parses one argument of a function: an expression, name => value, a
// table, a model, or DESCRIPTOR(...).
func (p *parser) argument() ast.Expr {
	t := p.tok()
	start := t.start
	if (t.kind == kWord || t.kind == kQuoted) && isOp(p.ahead(1), "=>") {
		p.advance()
		p.advance()
		name := ast.Ident{Span: t.span(), Name: t.text, Quoted: t.kind == kQuoted}
		if !name.Quoted {
			name = p.wordIdent(t)
		}
		x := p.argument()
		return &ast.NamedArg{Span: p.span(start), Name: name, Value: x}
	}
	switch {
	case p.at("TABLE"):
		return p.tableArg()
	case p.atAny("SELECT", "WITH", "VALUES"):
		q := p.query()
		return p.tableArgRest(&ast.TableArg{Query: q}, start)
	case p.at("MODEL") && isIdent(p.ahead(1)):
		p.advance()
		n := p.name("model name")
		return &ast.ModelArg{Span: p.span(start), Name: n}
	case p.at("DESCRIPTOR") && isOp(p.ahead(1), "("):
		return p.descriptor()
	}
	x := p.expression()
	if p.at("PARTITION", "BY") {
		switch x := x.(type) {
		case *ast.Name:
			return p.tableArgRest(&ast.TableArg{Name: x}, start)
		case *ast.Subquery:
			return p.tableArgRest(&ast.TableArg{Query: x.Query}, start)
		}
	}
	return x
}

// tableArg parses TABLE t, or TABLE (query), with what follows.
func (p *parser) tableArg() ast.Expr {
	start := p.start()
	p.advance()
	a := &ast.TableArg{}
	if p.atOp("(") {
		if p.queryInside(0) {
			a.Query = p.parenQuery()
		} else {
			open := p.start()
			p.advance()
			a.Name = p.name("table name")
			p.closeParen(open)
		}
	} else {
		a.Name = p.name("table name")
		a.Hints = p.hints()
	}
	return p.tableArgRest(a, start)
}

func (p *parser) tableArgRest(a *ast.TableArg, start int) ast.Expr {
	if p.accept("PARTITION", "BY") {
		if p.atOp("(") {
			open := p.start()
			p.advance()
			a.PartitionBy = p.exprList()
			p.closeParen(open)
		} else {
			a.PartitionBy = []ast.Expr{p.expression()}
			// In TABLE t PARTITION BY a, b a comma may end the argument; it goes
			// on with the list when a plain column follows and no call or
			// keyword argument does.
			for p.atOp(",") && p.columnFollows() {
				p.advance()
				a.PartitionBy = append(a.PartitionBy, p.expression())
			}
		}
	}
	if p.at("ORDER", "BY") {
		a.OrderBy = p.tableArgOrder()
	}
	if w := p.ahead(1).text; p.at("WITH") && (w == "ROW" || w == "SET") {
		p.advance()
		a.Semantics = p.advance().text
		p.expect("SEMANTICS")
	}
	a.Span = p.span(start)
	if a.Query != nil && a.PartitionBy == nil && a.OrderBy == nil && a.Semantics == "" {
		// A mere query needs no wrapping: it is the same as one in parentheses.
		return &ast.Subquery{Span: a.Span, Query: a.Query}
	}
	return a
}

// columnFollows reports whether a name without call or => stands behind the
// comma at hand.
func (p *parser) columnFollows() bool {
	n := 1
	for isIdent(p.ahead(n)) && isOp(p.ahead(n+1), ".") {
		n += 2
	}
	after := p.ahead(n + 1)
	return isIdent(p.ahead(n)) && !isOp(after, "(") && !isOp(after, "=>")
}

func (p *parser) tableArgOrder() []*ast.OrderItem {
	if !isOp(p.ahead(2), "(") {
		p.advance()
		p.advance()
		items := []*ast.OrderItem{p.orderItem()}
		for p.atOp(",") && p.columnFollows() {
			p.advance()
			items = append(items, p.orderItem())
		}
		return items
	}
	p.advance()
	p.advance()
	var items []*ast.OrderItem
	p.parens(func() { items = append(items, p.orderItem()) })
	return items
}

func (p *parser) descriptor() ast.Expr {
	start := p.start()
	p.advance()
	d := &ast.Descriptor{}
	p.parens(func() {
		d.Columns = append(d.Columns, p.name("column name"))
		if !p.atOp(",") && !p.atOp(")") && p.err == nil {
			p.typeName() // Flink allows a type here and ignores it.
		}
	})
	d.Span = p.span(start)
	return d
}
