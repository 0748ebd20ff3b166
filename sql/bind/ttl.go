package bind

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// stateTTL holds the hints STATE_TTL of one select block. As in Flink they are about the joins of the
// block's FROM and about its grouping, where an input is a table, view or sub-query of FROM: what a
// join of more than two inputs joined before has no name, and keeps what table.exec.state.ttl says.
type stateTTL struct {
	keys   []*ast.Option
	ms     []int64
	inputs [][]string // the names of what FROM has
}

// stateTTL reads the hints of a select block; nil without any.
func (b *Binder) stateTTL(q *ast.Select) (*stateTTL, error) {
	var out *stateTTL
	for _, h := range q.Hints {
		if !strings.EqualFold(h.Name.Name, "STATE_TTL") {
			continue
		}
		if len(h.Options) == 0 || len(h.Args) > 0 {
			return nil, errAt(h.Span, "the hint STATE_TTL needs tables and durations").
				WithHint("write STATE_TTL('orders' = '1 d')")
		}
		if out == nil {
			out = &stateTTL{}
		}
		// The first hint that names an input counts; in one hint, the last mention.
		for _, o := range slices.Backward(h.Options) {
			d, err := option.ParseDuration(o.Value.Value)
			if err != nil || d < 0 {
				return nil, errAt(o.Value.Span, "'%s' is not a duration", o.Value.Value).
					WithHint("write a whole number and a unit, such as '12 h' or '1 d'; '0 s' keeps state for ever")
			}
			out.keys, out.ms = append(out.keys, o), append(out.ms, d.Milliseconds())
		}
	}
	return out, nil
}

// input notes a member of FROM.
func (t *stateTTL) input(name []string) {
	if t != nil && name != nil {
		t.inputs = append(t.inputs, name)
	}
}

// of returns how long the hint says that rows of an input are kept, ms; nil where it says nothing.
func (t *stateTTL) of(name []string) *int64 {
	if t == nil {
		return nil
	}
	for i, k := range t.keys {
		if matchesKey(name, k.Key.Value) {
			return &t.ms[i]
		}
	}
	return nil
}

// matchesKey reports whether the key of a hint, which may be qualified, names an input.
func matchesKey(name []string, key string) bool {
	parts := strings.Split(key, ".")
	return name != nil && len(parts) <= len(name) && slices.Equal(name[len(name)-len(parts):], parts)
}

// check refuses keys that name no input of the block.
func (t *stateTTL) check() error {
	if t == nil {
		return nil
	}
	for _, k := range t.keys {
		if slices.ContainsFunc(t.inputs, func(n []string) bool { return matchesKey(n, k.Key.Value) }) {
			continue
		}
		var have []string
		for _, n := range t.inputs {
			have = append(have, n[len(n)-1])
		}
		return errAt(k.Key.Span, "the hint STATE_TTL names %s, which FROM does not have", k.Key.Value).
			WithHint("%s", suggest(k.Key.Value, have, "it names tables, views or sub-queries of FROM by their alias, where they have one; FROM has "))
	}
	return nil
}

// inputName is what a member of FROM is called: its alias, else its own name; nil if it has none.
func (b *Binder) inputName(t ast.TableExpr, with *ctes) []string {
	var alias *ast.TableAlias
	switch t := t.(type) {
	case *ast.TableRef:
		if t.Alias == nil {
			if len(t.Name.Parts) == 1 && with.find(t.Name.Parts[0].Name) != nil {
				return t.Name.Strings()
			}
			return b.cat.Qualify(t.Name.Strings())
		}
		alias = t.Alias
	case *ast.DerivedTable:
		alias = t.Alias
	case *ast.TableFunc:
		alias = t.Alias
	}
	if alias == nil {
		return nil
	}
	return []string{alias.Name.Name}
}

// distinctTTL says how long the DISTINCT of a block without grouping keeps what it has seen.
func distinctTTL(q *ast.Select, rel *relation, ttl *int64) {
	if a, ok := rel.node.(*logical.Aggregate); ok && q.Distinct {
		a.TTLMs = ttl
	}
}
