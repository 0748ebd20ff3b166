package bind

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// relation is a node with the names by which its columns can be referred to. cols has one entry
// a column of the node's schema.
type relation struct {
	node logical.Node
	cols []column
}

// column is one column in scope.
type column struct {
	// table is the path that qualifies the column: an alias, or catalog, database and table;
	// empty for columns of an unnamed sub-query.
	table []string
	name  string
	// typ has the time attribute that the column has for SQL; the node's schema may have one
	// where the language has not (the time column behind a window function).
	typ types.Type
	win windowRole
	// hidden columns hold what sub-queries give; no name means them, nor does a star.
	hidden bool
	// byTable columns are found by qualified names only: a table's own column that USING merged.
	byTable bool
}

// windowRole marks the columns that a window function adds, as long as they are passed on
// unchanged.
type windowRole uint8

const (
	notWindow windowRole = iota
	windowStart
	windowEnd
	windowTime
)

// relationOf names the columns of a node by its schema.
func relationOf(n logical.Node) *relation {
	r := &relation{node: n}
	for _, f := range n.Schema().Fields {
		r.cols = append(r.cols, column{name: f.Name, typ: f.Type})
	}
	return r
}

// column returns the reference to column i.
func (r *relation) column(i int) *expr.Column {
	return &expr.Column{Index: i, Name: r.cols[i].name, T: r.cols[i].typ}
}

// qualified returns the relation with every column qualified by path only.
func (r *relation) qualified(path []string) *relation {
	out := &relation{node: r.node, cols: slices.Clone(r.cols)}
	for i := range out.cols {
		out.cols[i].table = path
	}
	return out
}

// renamed gives the columns new names, as t (a, b) does.
func (r *relation) renamed(names []ast.Ident, what string) (*relation, error) {
	if len(names) == 0 {
		return r, nil
	}
	if len(names) != len(r.cols) {
		return nil, errAt(names[0].Span.To(names[len(names)-1].Span),
			"%s has %d columns, but %d names are given", what, len(r.cols), len(names)).
			WithHint("the columns are %s", strings.Join(r.names(), ", "))
	}
	out := &relation{node: r.node, cols: slices.Clone(r.cols)}
	for i, n := range names {
		if at := slices.IndexFunc(names[:i], func(o ast.Ident) bool { return o.Name == n.Name }); at >= 0 {
			return nil, errAt(n.Span, "column %s is named twice", n.Name)
		}
		out.cols[i].name = n.Name
	}
	return out.projected(), nil
}

// names lists the column names.
func (r *relation) names() []string {
	out := make([]string, len(r.cols))
	for i, c := range r.cols {
		out[i] = c.name
	}
	return out
}

// projected makes the node's schema say what the scope says: names, and types without the time
// attributes that were lost. It adds a projection where they differ.
func (r *relation) projected() *relation {
	schema := r.node.Schema()
	same := true
	for i, c := range r.cols {
		f := schema.Fields[i]
		same = same && f.Name == c.name && f.Type.Equal(c.typ)
	}
	if same {
		return r
	}
	p := &logical.Project{Input: r.node, Names: r.names()}
	for i := range r.cols {
		p.Exprs = append(p.Exprs, r.column(i))
	}
	return &relation{node: p, cols: r.cols}
}

// withUniqueNames renames columns of one name to a, a0, a1 as Flink does, for results that are
// stored or shown.
func (r *relation) withUniqueNames() *relation {
	used := map[string]bool{}
	out := &relation{node: r.node, cols: slices.Clone(r.cols)}
	for i := range out.cols {
		out.cols[i].name = uniqueName(out.cols[i].name, used)
	}
	return out.projected()
}

func uniqueName(name string, used map[string]bool) string {
	got := name
	for n := 0; used[got]; n++ {
		got = name + itoa(n)
	}
	used[got] = true
	return got
}

// matchesTable reports whether the qualifier q (one to three parts) may mean the table of c.
func (c column) matchesTable(q []string) bool {
	if len(q) > len(c.table) || len(q) == 0 {
		return false
	}
	return slices.Equal(c.table[len(c.table)-len(q):], q)
}

// find returns the columns called name that the qualifier allows; a nil qualifier allows all.
func (r *relation) find(qualifier []string, name string) []int {
	var out []int
	for i, c := range r.cols {
		if c.name == name && !c.hidden && (qualifier == nil && !c.byTable || c.matchesTable(qualifier)) {
			out = append(out, i)
		}
	}
	return out
}

// hasTable reports whether a qualifier names a table in scope.
func (r *relation) hasTable(q []string) bool {
	return slices.ContainsFunc(r.cols, func(c column) bool { return c.matchesTable(q) })
}

// resolve finds the column that a name means, and how many of its parts were used. As in Flink,
// a part that is a table in scope qualifies; otherwise the first part is a column and what
// follows are fields of it.
func (r *relation) resolve(n *ast.Name) (index, used int, err error) {
	parts := n.Strings()
	for q := min(len(parts)-1, 3); q >= 1; q-- {
		if found := r.find(parts[:q], parts[q]); len(found) > 0 {
			return r.only(n, q, found)
		}
	}
	if found := r.find(nil, parts[0]); len(found) > 0 {
		return r.only(n, 0, found)
	}
	return 0, 0, r.unknown(n)
}

// only returns the single match, or the error that names the candidates.
func (r *relation) only(n *ast.Name, at int, found []int) (int, int, error) {
	if len(found) == 1 {
		return found[0], at + 1, nil
	}
	var where []string
	for _, i := range found {
		label := r.cols[i].label()
		if len(r.cols[i].table) == 0 {
			label = "column " + itoa(i+1)
		}
		where = append(where, label)
	}
	return 0, 0, errAt(n.Parts[0].Span.To(n.Parts[at].Span), "column %s is ambiguous", n.Parts[at].Name).
		WithHint("it may be %s; qualify it with the table's name or alias, or give the columns different names",
			strings.Join(where, " or "))
}

// label names a column with its table, for messages.
func (c column) label() string {
	if len(c.table) == 0 {
		return c.name
	}
	return c.table[len(c.table)-1] + "." + c.name
}

// unknown is the error of a name that is no column, with the nearest ones.
func (r *relation) unknown(n *ast.Name) error {
	parts := n.Strings()
	if len(parts) > 1 && r.hasTable(parts[:1]) {
		var names []string
		for _, c := range r.cols {
			if c.matchesTable(parts[:1]) {
				names = append(names, c.name)
			}
		}
		return errAt(n.Parts[1].Span, "table %s has no column %s", parts[0], parts[1]).
			WithHint("%s", suggest(parts[1], names, "its columns are "))
	}
	e := errAt(n.Parts[0].Span, "unknown column %s", parts[0])
	if len(parts) > 1 {
		e.Msg = "unknown table or column " + parts[0]
	}
	if len(r.cols) == 0 {
		return e.WithHint("there is no FROM clause; write a string in single quotes")
	}
	if len(parts) > 1 {
		// The column is there, but under another table's name.
		if found := r.find(nil, parts[1]); len(found) > 0 {
			return e.WithHint("write %s", r.cols[found[0]].label())
		}
	}
	names := r.names()
	if near := sqlerr.Nearest(parts[0], names); len(near) > 0 {
		labels := []string{}
		for _, c := range r.cols {
			if slices.Contains(near, c.name) && !slices.Contains(labels, c.label()) {
				labels = append(labels, c.label())
			}
		}
		slices.SortStableFunc(labels, func(x, y string) int {
			return slices.Index(near, lastPart(x)) - slices.Index(near, lastPart(y))
		})
		return e.WithHint("did you mean %s?", joinOr(labels))
	}
	return e.WithHint("%s", suggest(parts[0], names, "the columns are "))
}

func lastPart(label string) string { return label[strings.LastIndexByte(label, '.')+1:] }

// suggest names the nearest of names, or lists them all.
func suggest(name string, names []string, lead string) string {
	if s := sqlerr.DidYouMean(name, names); s != "" {
		return s
	}
	const most = 12
	var seen []string
	for _, n := range names {
		if !slices.Contains(seen, n) {
			seen = append(seen, n)
		}
	}
	if len(seen) == 0 {
		return "there are none"
	}
	if len(seen) > most {
		return lead + strings.Join(seen[:most], ", ") + " and " + itoa(len(seen)-most) + " more"
	}
	return lead + strings.Join(seen, ", ")
}

func joinOr(s []string) string {
	if len(s) == 1 {
		return s[0]
	}
	return strings.Join(s[:len(s)-1], ", ") + " or " + s[len(s)-1]
}
