package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// join makes a regular join: by hash of its keys or, without any, all in one subtask.
func (b *builder) join(j *logical.Join) *node {
	if j.Special != "" && !b.batch {
		e := b.fail(j.Pos, "%s is not supported yet", j.Special)
		if j.Special == "an interval join" {
			e.WithHint("if the inputs end, SET 'execution.runtime-mode' = 'batch', where it is a join like any other")
		}
		return nil
	}
	l := b.node(j.L, nil)
	r := b.node(j.R, nil)
	if l == nil || r == nil {
		return nil
	}
	plain := l.Mode.IsInsertOnly() && r.Mode.IsInsertOnly()
	if b.batch && !plain {
		b.fail(j.Pos, "a join of a changelog is not supported yet in batch mode").
			WithHint("SET 'execution.runtime-mode' = 'streaming'")
		return nil
	}
	out := &node{Node: plan.Node{Schema: joinSchema(j, l, r), RowTime: -1, Label: "Join", Mode: types.InsertOnly,
		Op: &plan.Join{Kind: j.Kind, LeftKeys: j.LeftKeys, RightKeys: j.RightKeys, NullSafe: j.NullSafe, Filter: j.Cond,
			LeftTTLMs: b.stateTTL(j.LeftTTLMs), RightTTLMs: b.stateTTL(j.RightTTLMs)}},
		pos: j.Pos, what: "Join"}
	out.Label = "Join(" + j.Kind.String()
	if len(j.LeftKeys) > 0 {
		out.Label += ", by " + names(l.Schema, j.LeftKeys)
	}
	out.Label += ")"
	if !b.batch && !(plain && j.Kind == plan.InnerJoin) {
		out.Mode |= 1 << types.Delete
	}
	out.StateGrowth = "all rows of both sides"
	out.in = []input{b.joinInput(l, j.LeftKeys), b.joinInput(r, j.RightKeys)}
	width := l.Schema.Len()
	switch j.Kind {
	case plan.InnerJoin, plan.LeftJoin:
		out.part, out.single = keyed(j.LeftKeys)
	case plan.RightJoin:
		out.part, out.single = keyed(shifted(j.RightKeys, width))
	default:
		// Rows padded on the left lie where their right key does, so no set of columns tells.
		out.single = len(j.LeftKeys) == 0
	}
	out.Parallelism = parallelismOf(out.single)
	out.UpsertKeys = joinKeys(j, l, r)
	return b.add(out)
}

// joinInput is exchange for an operator that does not ask for the order of rows. The two sides
// are put by hash alike, so an input stays where it is only if it has the default parallelism.
func (b *builder) joinInput(in *node, keys []int) input {
	e := b.exchange(in, keys)
	e.ordered = false
	if len(keys) > 0 && in.Parallelism != 0 {
		e.dist, e.keys = plan.Hash, keys
	}
	return e
}

// joinSchema is the columns of both inputs, as they come.
func joinSchema(j *logical.Join, l, r *node) types.Schema {
	s := j.Schema()
	for i, f := range append(slices.Clone(l.Schema.Fields), r.Schema.Fields...) {
		s.Fields[i].Type.Nullable = s.Fields[i].Type.Nullable || f.Type.Nullable
	}
	return s
}

func shifted(cols []int, n int) []int {
	out := make([]int, len(cols))
	for i, c := range cols {
		out[i] = c + n
	}
	return out
}

// joinKeys are the upsert keys of a join: those of one side where each of its rows meets at most
// one row of the other, else pairs of one of each side.
func joinKeys(j *logical.Join, l, r *node) [][]int {
	width := l.Schema.Len()
	one := func(n *node, keys []int) bool {
		return slices.ContainsFunc(n.UpsertKeys, func(k []int) bool { return subset(k, keys) })
	}
	oneLeft, oneRight := one(l, j.LeftKeys), one(r, j.RightKeys)
	var out [][]int
	if oneRight && (j.Kind == plan.InnerJoin || j.Kind == plan.LeftJoin) {
		out = append(out, l.UpsertKeys...)
	}
	if oneLeft && (j.Kind == plan.InnerJoin || j.Kind == plan.RightJoin) {
		for _, k := range r.UpsertKeys {
			out = append(out, shifted(k, width))
		}
	}
	if len(out) > 0 || j.Kind == plan.FullJoin {
		return out
	}
	for _, x := range l.UpsertKeys {
		for _, y := range r.UpsertKeys {
			out = append(out, append(slices.Clone(x), shifted(y, width)...))
		}
	}
	return out
}
