package explain

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Portable rewrites the short spellings of a script that Flink refuses as SET statements, which Flink steps over: the
// hint EMIT of INSERTs, metadata columns of results and of late rows, and our options in WITH. It leaves all
// other text as it is. Notes say, with their places in text, what has no portable spelling or changes by it.
func Portable(text string) (out string, notes []Finding, err error) {
	stmts, err := parse.Script(text)
	if err != nil {
		return "", nil, err
	}
	p := &porter{text: text, read: map[string]bool{}}
	for _, st := range stmts {
		p.reads(st)
	}
	for _, st := range stmts {
		p.statement(st, st.Pos().Start)
	}
	return p.apply(), p.notes, nil
}

// edit replaces text[start:end].
type edit struct {
	start, end int
	text       string
}

type porter struct {
	text  string
	edits []edit
	notes []Finding
	read  map[string]bool // tables that queries read, by the last part of the name
}

func (p *porter) note(at sqlerr.Span, what, effect string) {
	p.notes = append(p.notes, Finding{Pos: at, What: what, Effect: effect})
}

// apply makes the edits; those at one place stay in the order in which they were found.
func (p *porter) apply() string {
	sort.SliceStable(p.edits, func(i, j int) bool { return p.edits[i].start < p.edits[j].start })
	var b strings.Builder
	at := 0
	for _, e := range p.edits {
		b.WriteString(p.text[at:e.start] + e.text)
		at = e.end
	}
	b.WriteString(p.text[at:])
	return b.String()
}

// reads notes the tables that a statement's queries read.
func (p *porter) reads(st ast.Statement) {
	ast.Walk(st, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TableRef:
			p.read[n.Name.Last().Name] = true
		case *ast.TableArg:
			if n.Name != nil {
				p.read[n.Name.Last().Name] = true
			}
		case *ast.TableQuery:
			p.read[n.Name.Last().Name] = true
		}
		return true
	})
}

// statement rewrites st; SET statements go to place before.
func (p *porter) statement(st ast.Statement, before int) {
	switch st := st.(type) {
	case *ast.StatementSet:
		for _, one := range st.Statements {
			p.statement(one, before)
		}
	case *ast.Explain:
		p.statement(st.Statement, before)
	case *ast.Insert:
		p.insert(st, before)
	case *ast.CreateTable:
		p.table(st)
	default:
		for _, h := range emitHints(st) {
			p.note(h.Span, "the hint EMIT", "there is no portable spelling outside of an INSERT; Flink refuses the unknown hint")
		}
	}
}

// set puts a SET statement before the statement that starts at before, on a line of its own.
func (p *porter) set(before int, key, value string) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	p.edits = append(p.edits, edit{before, before, "SET " + quote(key) + " = " + quote(value) + ";\n"})
}

func emitHints(n ast.Node) []*ast.Hint {
	var out []*ast.Hint
	ast.Walk(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.Select); ok {
			for _, h := range s.Hints {
				if strings.EqualFold(h.Name.Name, "EMIT") {
					out = append(out, h)
				}
			}
		}
		return true
	})
	return out
}

// insert moves the hints EMIT of an INSERT out of it. SET says one thing for the whole statement, so
// hints that say different things stay.
func (p *porter) insert(st *ast.Insert, before int) {
	hints := emitHints(st.Query)
	said := map[string]string{}
	var keys []string
	for _, h := range hints {
		for _, o := range h.Options {
			if v, ok := said[o.Key.Value]; ok && v != o.Value.Value {
				p.note(h.Span, "the hint EMIT", "'"+o.Key.Value+"' has two values within one INSERT, and SET has one for all of it")
				return
			}
			if _, ok := said[o.Key.Value]; !ok {
				keys = append(keys, o.Key.Value)
			}
			said[o.Key.Value] = o.Value.Value
		}
	}
	outer, _ := st.Query.Body.(*ast.Select)
	for _, h := range hints {
		if outer == nil || !slices.Contains(outer.Hints, h) {
			p.note(h.Span, "the hint EMIT of a part of the query", "SET says it for all windows of the INSERT")
		}
	}
	for _, k := range keys {
		p.set(before, "tidemark.emit."+st.Table.Last().Name+"."+k, said[k])
	}
	ast.Walk(st.Query, func(n ast.Node) bool {
		if s, ok := n.(*ast.Select); ok {
			p.dropHints(s)
		}
		return true
	})
}

// dropHints takes the hints EMIT out of a select block, and the comment with them if it holds no others.
func (p *porter) dropHints(s *ast.Select) {
	isEmit := func(h *ast.Hint) bool { return strings.EqualFold(h.Name.Name, "EMIT") }
	if !slices.ContainsFunc(s.Hints, isEmit) {
		return
	}
	open := strings.LastIndex(p.text[:s.Hints[0].Start], "/*+")
	last := s.Hints[len(s.Hints)-1].End
	end := last + strings.Index(p.text[last:], "*/") + 2
	var kept []string
	for _, h := range s.Hints {
		if !isEmit(h) {
			kept = append(kept, p.text[h.Start:h.End])
		}
	}
	text := ""
	if kept != nil {
		text = "/*+ " + strings.Join(kept, ", ") + " */"
	} else if end < len(p.text) && p.text[end] == ' ' {
		end++
	}
	if text == "" && open > 0 && p.text[open-1] == ' ' && end < len(p.text) && p.text[end] == '\n' {
		open-- // no blank at the end of a line
	}
	if open > 0 && !strings.ContainsRune(" \t\r\n", rune(p.text[open-1])) && (text != "" || end < len(p.text) && p.text[end] != '\n') {
		text = " " + text // the comment parted two words
	}
	p.edits = append(p.edits, edit{open, end, text})
}

// table moves our options and metadata columns out of a definition.
func (p *porter) table(st *ast.CreateTable) {
	if st.Like != nil {
		return // what it takes over stands elsewhere
	}
	var options []sqlerr.Span
	var drop []bool
	before := st.Start
	prefix := "tidemark.table." + st.Name.Last().Name + "."
	for _, o := range st.Options {
		_, ours := ourOption(o.Key.Value)
		options, drop = append(options, o.Span), append(drop, ours)
		if ours {
			p.set(before, prefix+o.Key.Value, o.Value.Value)
		}
	}
	p.dropItems(options, drop)
	if st.Schema != nil {
		p.columns(st, prefix)
	}
}

// columns moves metadata columns of results and of late rows out of a definition.
func (p *porter) columns(st *ast.CreateTable, prefix string) {
	type item struct {
		at   sqlerr.Span
		drop bool
	}
	var items []item
	var keys []string
	option := catalog.OptionLate
	for _, c := range st.Schema.Columns {
		key := c.Name.Name
		if c.MetadataKey != nil {
			key = c.MetadataKey.Value
		}
		ours := c.Kind == ast.MetadataColumn && (slices.Contains(catalog.ResultKeys(), key) || slices.Contains(catalog.LateKeys(), key))
		if ours && p.read[st.Name.Last().Name] {
			p.note(c.Span, "metadata '"+key+"' of table `"+st.Name.Last().Name+"`", "queries read the table, and could not name the column any more; Flink refuses the unknown metadata")
			return
		}
		items = append(items, item{c.Span, ours})
		if !ours {
			continue
		}
		keys = append(keys, key)
		if key == "revision" {
			option = catalog.OptionResults
		}
		if key != c.Name.Name {
			p.note(c.Span, fmt.Sprintf("column `%s` of table `%s`", c.Name.Name, st.Name.Last().Name), "it is called "+key+" now")
		}
	}
	if keys == nil {
		return
	}
	if w := st.Schema.Watermark; w != nil {
		items = append(items, item{w.Span, false})
	}
	for _, c := range st.Schema.Constraints {
		items = append(items, item{c.Span, false})
	}
	sort.SliceStable(items, func(i, j int) bool { return items[i].at.Start < items[j].at.Start })
	var spans []sqlerr.Span
	var drop []bool
	for _, i := range items {
		spans, drop = append(spans, i.at), append(drop, i.drop)
	}
	p.set(st.Start, prefix+option, strings.Join(keys, ","))
	p.dropItems(spans, drop)
}

// dropItems takes items out of a list in parentheses, with their commas; one item at least stays.
func (p *porter) dropItems(items []sqlerr.Span, drop []bool) {
	for i := 0; i < len(items); i++ {
		if !drop[i] {
			continue
		}
		first := i
		for i+1 < len(items) && drop[i+1] {
			i++
		}
		switch {
		case i+1 < len(items):
			p.edits = append(p.edits, edit{items[first].Start, items[i+1].Start, ""})
		case first > 0:
			p.edits = append(p.edits, edit{items[first-1].End, items[i].End, ""})
		}
	}
}
