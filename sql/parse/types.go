package parse

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// typeSynonyms brings one-word type names to one spelling. Reserved words that
// are not listed are no types.
var typeSynonyms = map[string]string{
	"BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT",
	"BIGINT": "BIGINT", "FLOAT": "FLOAT", "REAL": "FLOAT", "DOUBLE": "DOUBLE",
	"DECIMAL": "DECIMAL", "DEC": "DECIMAL", "NUMERIC": "DECIMAL",
	"CHAR": "CHAR", "CHARACTER": "CHAR", "VARCHAR": "VARCHAR", "STRING": "STRING",
	"BINARY": "BINARY", "VARBINARY": "VARBINARY", "BYTES": "BYTES",
	"DATE": "DATE", "TIME": "TIME", "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
	"INTERVAL": "INTERVAL", "ARRAY": "ARRAY", "MULTISET": "MULTISET", "MAP": "MAP", "ROW": "ROW",
	"RAW": "RAW", "STRUCTURED": "STRUCTURED", "VARIANT": "VARIANT", "BITMAP": "BITMAP",
	"NULL": "NULL", "DESCRIPTOR": "DESCRIPTOR",
}

// typeNames are the names proposed for a misspelt type.
var typeNames = func() []string {
	var names []string
	for n := range typeSynonyms {
		names = append(names, n)
	}
	return names
}()

// typeName parses a data type with its nullability and the postfixes ARRAY and
// MULTISET.
func (p *parser) typeName() *ast.TypeName {
	if !p.enter() {
		return &ast.TypeName{Name: "NULL"}
	}
	defer p.leave()
	start := p.start()
	t := p.baseType()
	t.Span = p.span(start)
	for n := 1; p.chain(n); n++ {
		p.nullability(t)
		w := p.acceptAny("ARRAY", "MULTISET")
		if w == "" {
			break
		}
		t = &ast.TypeName{Name: w, Elem: t, Span: p.span(start)}
	}
	t.Span = p.span(start)
	return t
}

func (p *parser) nullability(t *ast.TypeName) {
	switch {
	case p.accept("NOT", "NULL"):
		t.Null = ast.NotNull
	// In RETURNING INT NULL ON EMPTY the NULL is not the type's.
	case p.at("NULL") && !isWord(p.ahead(1), "ON"):
		p.advance()
		t.Null = ast.Nullable
	}
}

func (p *parser) baseType() *ast.TypeName {
	w := p.tok()
	name, known := typeSynonyms[w.text]
	// A non-reserved type name followed by a dot is a type of a catalog.
	if w.kind != kWord || !known || !ast.IsReservedUpper(w.text) && isOp(p.ahead(1), ".") {
		return p.userType()
	}
	p.advance()
	t := &ast.TypeName{Name: name}
	switch w.text {
	case "DOUBLE":
		p.accept("PRECISION")
	case "CHAR", "CHARACTER":
		if p.accept("VARYING") {
			t.Name = "VARCHAR"
		}
		p.params(t, 1)
	case "BINARY":
		if p.accept("VARYING") {
			t.Name = "VARBINARY"
		}
		p.params(t, 1)
	case "VARCHAR", "VARBINARY", "TIMESTAMP_LTZ":
		p.params(t, 1)
	case "DECIMAL", "DEC", "NUMERIC":
		p.params(t, 2)
	case "TIME", "TIMESTAMP":
		p.params(t, 1)
		p.timeZone(t)
	case "INTERVAL":
		q := p.qualifier()
		t.Interval = &q
	case "ARRAY", "MULTISET":
		p.typeArgs(func() { t.Elem = p.typeName() })
	case "MAP":
		p.typeArgs(func() {
			t.Key = p.typeName()
			p.expectOp(",")
			t.Elem = p.typeName()
		})
	case "ROW":
		p.rowType(t)
	case "RAW":
		p.rawType(t)
	case "STRUCTURED":
		p.typeArgs(func() {
			t.Strings = []string{p.stringLit("class name").Value}
			for p.acceptOp(",") {
				t.Fields = append(t.Fields, p.typeField())
			}
		})
	}
	return t
}

func (p *parser) userType() *ast.TypeName {
	t := p.tok()
	if !p.atIdent() {
		p.unexpected("a data type")
		return &ast.TypeName{Name: "NULL"}
	}
	n := p.name("data type")
	if p.atOp("(") || p.atOp("<") {
		// No type of a catalog has parameters: a misspelt type.
		p.failAt(n.Span, sqlerr.DidYouMean(t.text, typeNames), "unknown data type %s", n.String())
	}
	return &ast.TypeName{Name: "USER", Ref: n}
}

// params parses up to most numbers in parentheses.
func (p *parser) params(t *ast.TypeName, most int) {
	open := p.start()
	if !p.acceptOp("(") {
		return
	}
	for {
		t.Params = append(t.Params, p.number("a length or precision"))
		if len(t.Params) == most || !p.acceptOp(",") {
			break
		}
	}
	p.closeParen(open)
}

// timeZone parses WITH [LOCAL] TIME ZONE or WITHOUT TIME ZONE.
func (p *parser) timeZone(t *ast.TypeName) {
	switch {
	case p.accept("WITHOUT", "TIME", "ZONE"):
	case p.accept("WITH", "LOCAL", "TIME", "ZONE"):
		t.Name += "_LTZ"
	case p.accept("WITH", "TIME", "ZONE"):
		t.Name += "_TZ"
	}
}

// typeArgs parses < args >.
func (p *parser) typeArgs(args func()) {
	open := p.start()
	p.expectOp("<")
	args()
	p.closeAngle(open)
}

func (p *parser) closeAngle(open int) {
	if p.acceptOp(">") {
		return
	}
	if p.tok().kind == kEOF {
		p.failAt(ast.Span{Start: open, End: open + 1}, "add the missing >", "type argument is not closed")
		return
	}
	p.unexpected("',' or '>'")
}

func (p *parser) rowType(t *ast.TypeName) {
	field := func() { t.Fields = append(t.Fields, p.typeField()) }
	switch {
	case p.acceptOp("<>"):
	case p.atOp("("):
		if isOp(p.ahead(1), ")") {
			p.advance()
			p.advance()
			return
		}
		p.parens(field)
	default:
		open := p.start()
		p.expectOp("<")
		p.list(field)
		p.closeAngle(open)
	}
}

func (p *parser) typeField() *ast.TypeField {
	start := p.start()
	f := &ast.TypeField{Name: p.ident("field name")}
	f.Type = p.typeName()
	p.accept("COMMENT")
	if p.tok().kind == kString {
		f.Comment = p.stringLit("comment")
	}
	f.Span = p.span(start)
	return f
}

// rawType parses RAW('class', 'serializer snapshot').
func (p *parser) rawType(t *ast.TypeName) {
	p.parens(func() { t.Strings = append(t.Strings, p.stringLit("class name or snapshot").Value) })
	if len(t.Strings) != 2 && p.err == nil {
		p.failAt(p.span(p.last-1), "write RAW('class', 'snapshot')", "RAW has %d arguments, not 2", len(t.Strings))
	}
}
