package bind

import (
	"slices"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

var joinKinds = map[ast.JoinKind]plan.JoinKind{ast.InnerJoin: plan.InnerJoin, ast.CrossJoin: plan.InnerJoin,
	ast.CommaJoin: plan.InnerJoin, ast.LeftJoin: plan.LeftJoin, ast.RightJoin: plan.RightJoin, ast.FullJoin: plan.FullJoin}

// join binds a join. Its columns are no time attributes any more.
func (b *Binder) join(t *ast.Join, with *ctes) (*relation, error) {
	l, err := b.from(t.L, with)
	if err != nil {
		return nil, err
	}
	r, err := b.from(t.R, with)
	if err != nil {
		return nil, err
	}
	node := &logical.Join{L: l.node, R: r.node, Kind: joinKinds[t.Kind], Pos: pos(t.Span),
		LeftTTLMs: b.ttl.of(b.inputName(t.L, with)), RightTTLMs: b.ttl.of(b.inputName(t.R, with))}
	both := &relation{node: node, cols: append(slices.Clone(l.cols), r.cols...)}
	s := &scope{b: b, rel: both, clause: "ON"}
	var merged [][2]int
	switch {
	case t.On != nil:
		if node.Cond, err = s.condition(t.On); err != nil {
			return nil, err
		}
	case t.Natural || t.Using != nil:
		if merged, err = s.using(t, l, r); err != nil {
			return nil, err
		}
		for _, m := range merged {
			at := t.Span
			eq, err := s.resolve("=", at, b.plain(both.column(m[0])), b.plain(both.column(m[1])))
			if err != nil {
				return nil, err
			}
			if node.Cond == nil {
				node.Cond = eq
			} else if node.Cond, err = s.resolve("AND", at, node.Cond, eq); err != nil {
				return nil, err
			}
		}
	}
	out := joinedColumns(node, both.cols)
	if merged == nil {
		return out, nil
	}
	return s.mergeColumns(out, merged, t.Span)
}

// joinedColumns names the columns of a join, whose types are the node's.
func joinedColumns(node *logical.Join, cols []column) *relation {
	out := &relation{node: node, cols: slices.Clone(cols)}
	for i, f := range node.Schema().Fields {
		out.cols[i].typ = out.cols[i].typ.WithoutAttr().WithNullable(f.Type.Nullable)
		out.cols[i].win = notWindow
	}
	return out
}

// using pairs the columns that USING names, or those of one name for NATURAL. The second of a
// pair is a column of the join.
func (s *scope) using(t *ast.Join, l, r *relation) ([][2]int, error) {
	var out [][2]int
	pair := func(name string, at sqlerr.Span) error {
		x, y := l.find(nil, name), r.find(nil, name)
		for i, found := range [][]int{x, y} {
			side := [...]string{"left", "right"}[i]
			switch {
			case len(found) == 0:
				return errAt(at, "column %s of USING is not on the %s side of the join", name, side).
					WithHint("%s", suggest(name, []*relation{l, r}[i].names(), "its columns are "))
			case len(found) > 1:
				return errAt(at, "column %s is ambiguous: the %s side of the join has it %d times", name, side, len(found)).
					WithHint("write ON and qualify the columns")
			}
		}
		out = append(out, [2]int{x[0], len(l.cols) + y[0]})
		return nil
	}
	for _, n := range t.Using {
		if err := pair(n.Name, n.Span); err != nil {
			return nil, err
		}
	}
	if t.Natural {
		seen := map[string]bool{}
		for _, c := range l.cols {
			if c.hidden || c.byTable || seen[c.name] || len(r.find(nil, c.name)) == 0 {
				continue
			}
			seen[c.name] = true
			if err := pair(c.name, t.Span); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// mergeColumns puts the columns of USING first, each once, then the others of the left and of
// the right. A merged column has the value of the side that has one; a side's own column whose
// value may differ, or that is another one, is still found by its table.
func (s *scope) mergeColumns(rel *relation, merged [][2]int, at sqlerr.Span) (*relation, error) {
	node := &logical.Project{Input: rel.node}
	out := &relation{node: node}
	add := func(e expr.Expr, c column) {
		c.typ = e.Type()
		node.Exprs, node.Names = append(node.Exprs, e), append(node.Names, c.name)
		out.cols = append(out.cols, c)
	}
	in := map[int]bool{}
	var own []int
	for _, m := range merged {
		in[m[0]], in[m[1]] = true, true
		switch rel.node.(*logical.Join).Kind {
		case plan.RightJoin:
			own = append(own, m[0])
			add(rel.column(m[1]), rel.cols[m[1]])
		case plan.FullJoin:
			own = append(own, m[0], m[1])
			e, err := s.resolve("COALESCE", at, rel.column(m[0]), rel.column(m[1]))
			if err != nil {
				return nil, err
			}
			add(e, column{name: rel.cols[m[0]].name})
		default:
			own = append(own, m[1])
			add(rel.column(m[0]), rel.cols[m[0]])
		}
	}
	for i, c := range rel.cols {
		if !in[i] {
			add(rel.column(i), c)
		}
	}
	for _, i := range own {
		c := rel.cols[i]
		c.byTable = true
		add(rel.column(i), c)
	}
	return out, nil
}

// oneRowAtMost reports whether a relation can never hold two rows.
func oneRowAtMost(n logical.Node) bool {
	switch n := n.(type) {
	case *logical.Project:
		return oneRowAtMost(n.Input)
	case *logical.Filter:
		return oneRowAtMost(n.Input)
	case *logical.Sort:
		return n.Limit >= 0 && n.Limit <= 1 || oneRowAtMost(n.Input)
	case *logical.Values:
		return len(n.Rows) <= 1
	case *logical.Aggregate:
		return len(n.Keys) == 0 && n.Sets == nil && n.Window == nil
	case *logical.Join:
		return oneRowAtMost(n.L) && oneRowAtMost(n.R)
	}
	return false
}
