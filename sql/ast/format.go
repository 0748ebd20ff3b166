package ast

import (
	"strconv"
	"strings"
)

// Format turns a node into SQL text that parses to an equal tree, positions
// apart. Comments are lost; a CREATE statement is broken into lines, all else is
// one line. It panics for a node that is no part of this package.
func Format(n Node) string {
	var p printer
	p.node(n)
	return p.b.String()
}

// QuoteIdent returns name as an identifier in SQL text, in backticks if it needs
// them.
func QuoteIdent(name string) string {
	if isPlainWord(name) && !IsReserved(name) {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// QuoteString returns s as a string literal in SQL text.
func QuoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// isPlainWord reports whether s can stand as a word without quotes.
func isPlainWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

type printer struct{ b strings.Builder }

func (p *printer) w(parts ...string) {
	for _, s := range parts {
		p.b.WriteString(s)
	}
}

func (p *printer) num(n int) { p.w(strconv.Itoa(n)) }

// opt writes text when on is set.
func (p *printer) opt(on bool, text string) {
	if on {
		p.w(text)
	}
}

// join writes n items with a separator.
func (p *printer) join(n int, sep string, item func(i int)) {
	for i := range n {
		if i > 0 {
			p.w(sep)
		}
		item(i)
	}
}

func (p *printer) node(n Node) {
	switch n := n.(type) {
	case Statement:
		p.statement(n)
	case QueryBody:
		if q, ok := n.(*Query); ok {
			p.query(q)
			return
		}
		p.body(n)
	case TableExpr:
		p.table(n)
	case Expr:
		p.expr(n, 0)
	case *TypeName:
		p.typ(n)
	case AlterAction:
		p.action(n)
	case Pattern:
		p.pattern(n, 0)
	case *Column:
		p.column(n)
	case *Watermark:
		p.watermark(n)
	case *Constraint:
		p.constraint(n)
	case *OrderItem:
		p.orderItem(n)
	case *SelectItem:
		p.selectItem(n)
	case *GroupItem:
		p.groupItem(n)
	case *WindowSpec:
		p.window(n)
	case *Option:
		p.option(n)
	default:
		panic("BUG: ast.Format: node without a text form")
	}
}

func (p *printer) ident(id Ident) {
	if id.Quoted {
		p.w("`", strings.ReplaceAll(id.Name, "`", "``"), "`")
		return
	}
	if isForeignWord(id.Name) {
		p.w(id.Name)
		return
	}
	p.w(QuoteIdent(id.Name))
}

// isForeignWord reports whether name is an unquoted word with letters beyond
// ASCII; the lexer alone knows which it takes, and it took this one.
func isForeignWord(name string) bool {
	foreign := false
	for _, r := range name {
		if r >= 0x80 {
			foreign = true
		} else if !isPlainWord("_" + string(r)) {
			return false
		}
	}
	return foreign && !IsReserved(name) && (name[0] < '0' || name[0] > '9')
}

// word writes an identifier that may be a reserved word without quotes: the name
// of a function or an argument.
func (p *printer) word(id Ident) {
	if !id.Quoted && isPlainWord(id.Name) {
		p.w(id.Name)
		return
	}
	p.ident(id)
}

func (p *printer) idents(list []Ident) {
	p.w("(")
	p.join(len(list), ", ", func(i int) { p.ident(list[i]) })
	p.w(")")
}

func (p *printer) name(n *Name) {
	p.join(len(n.Parts), ".", func(i int) { p.ident(n.Parts[i]) })
}

func (p *printer) names(list []*Name) {
	p.w("(")
	p.join(len(list), ", ", func(i int) { p.name(list[i]) })
	p.w(")")
}

func (p *printer) str(s *StringLit) {
	switch {
	case s.Unicode:
		p.unicode(s.Value)
	case s.Charset == "N":
		p.w("N", QuoteString(s.Value))
	case s.Charset != "":
		p.w("_", s.Charset, QuoteString(s.Value))
	default:
		p.w(QuoteString(s.Value))
	}
}

// unicode writes U&'...' with escapes for all beyond ASCII.
func (p *printer) unicode(s string) {
	const digits = "0123456789ABCDEF"
	unit := func(u rune) {
		p.w(`\`)
		for shift := 12; shift >= 0; shift -= 4 {
			p.b.WriteByte(digits[u>>shift&0xf])
		}
	}
	p.w("U&'")
	for _, r := range s {
		switch {
		case r == '\'':
			p.w("''")
		case r == '\\':
			p.w(`\\`)
		case r < 0x80:
			p.b.WriteRune(r)
		case r < 0x10000:
			unit(r)
		default:
			r -= 0x10000
			unit(0xd800 + r>>10)
			unit(0xdc00 + r&0x3ff)
		}
	}
	p.w("'")
}

func (p *printer) option(o *Option) {
	p.str(o.Key)
	p.w(" = ")
	p.str(o.Value)
}

func (p *printer) options(list []*Option) {
	p.w("(")
	p.join(len(list), ", ", func(i int) { p.option(list[i]) })
	p.w(")")
}

// with writes WITH (...) unless the clause was not given.
func (p *printer) with(list []*Option) {
	if list != nil {
		p.w(" WITH ")
		p.options(list)
	}
}

func (p *printer) comment(s *StringLit) {
	if s != nil {
		p.w(" COMMENT ")
		p.str(s)
	}
}

func (p *printer) hints(list []*Hint) {
	if len(list) == 0 {
		return
	}
	p.w(" /*+ ")
	p.join(len(list), ", ", func(i int) {
		h := list[i]
		p.ident(h.Name)
		if len(h.Options)+len(h.Args) == 0 {
			return
		}
		p.w("(")
		p.join(len(h.Options), ", ", func(i int) { p.option(h.Options[i]) })
		p.opt(len(h.Options) > 0 && len(h.Args) > 0, ", ")
		p.join(len(h.Args), ", ", func(i int) { p.expr(h.Args[i], 0) })
		p.w(")")
	})
	p.w(" */")
}

func (p *printer) typ(t *TypeName) {
	switch t.Name {
	case "USER":
		p.name(t.Ref)
	case "TIMESTAMP_TZ", "TIME_TZ", "TIME_LTZ":
		base, zone, _ := strings.Cut(t.Name, "_")
		p.w(base)
		p.typeParams(t)
		p.w(map[string]string{"TZ": " WITH TIME ZONE", "LTZ": " WITH LOCAL TIME ZONE"}[zone])
	case "INTERVAL":
		p.w("INTERVAL ")
		p.qualifier(*t.Interval)
	case "MAP":
		p.w("MAP<")
		p.typ(t.Key)
		p.w(", ")
		p.typ(t.Elem)
		p.w(">")
	case "ARRAY", "MULTISET":
		p.w(t.Name, "<")
		p.typ(t.Elem)
		p.w(">")
	case "RAW":
		p.w("RAW(", QuoteString(t.Strings[0]), ", ", QuoteString(t.Strings[1]), ")")
	case "ROW", "STRUCTURED":
		p.w(t.Name, "<")
		p.join(len(t.Strings), ", ", func(i int) { p.w(QuoteString(t.Strings[i])) })
		p.opt(len(t.Strings) > 0 && len(t.Fields) > 0, ", ")
		p.join(len(t.Fields), ", ", func(i int) { p.typeField(t.Fields[i]) })
		p.w(">")
	default:
		p.w(t.Name)
		p.typeParams(t)
	}
	p.opt(t.Null != NullUnset, " "+t.Null.String())
}

func (p *printer) typeParams(t *TypeName) {
	if len(t.Params) > 0 {
		p.w("(")
		p.join(len(t.Params), ", ", func(i int) { p.num(t.Params[i]) })
		p.w(")")
	}
}

func (p *printer) typeField(f *TypeField) {
	p.ident(f.Name)
	p.w(" ")
	p.typ(f.Type)
	if f.Comment != nil {
		p.w(" ")
		p.str(f.Comment)
	}
}

func (p *printer) qualifier(q IntervalQualifier) {
	p.w(string(q.From))
	if q.FromPrecision >= 0 {
		p.w("(")
		p.num(q.FromPrecision)
		if q.To == "" && q.ToPrecision >= 0 {
			p.w(", ")
			p.num(q.ToPrecision)
		}
		p.w(")")
	}
	if q.To != "" {
		p.w(" TO ", string(q.To))
		if q.ToPrecision >= 0 {
			p.w("(")
			p.num(q.ToPrecision)
			p.w(")")
		}
	}
}
