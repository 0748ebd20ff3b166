package opt

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// Share makes all Reads of the same table with the same hints read the same columns, so that one
// scan serves a whole job. Where usesTime is true of the Read or of a node above it, the columns
// that the table's watermark needs are among them. Elsewhere nothing is read for the watermark
// alone.
func Share(roots []logical.Node, env *expr.Env, usesTime func(logical.Node) bool) []logical.Node {
	want := map[string]map[int]bool{}
	var collect func(logical.Node, bool)
	collect = func(n logical.Node, timed bool) {
		timed = timed || usesTime(n)
		if r, ok := n.(*Read); ok {
			k := ReadKey(r.Scan)
			if want[k] == nil {
				want[k] = map[int]bool{}
			}
			for _, c := range r.Cols {
				want[k][c] = true
			}
			if t := r.Scan.Table; timed && t.RowTime >= 0 {
				want[k][t.RowTime] = true
				if !t.SourceWatermark {
					expr.Columns(t.Watermark, want[k])
				}
			}
		}
		for _, in := range n.Inputs() {
			collect(in, timed)
		}
	}
	for _, n := range roots {
		collect(n, false)
	}
	r := &rewriter{env: env}
	out := make([]logical.Node, len(roots))
	for i, n := range roots {
		out[i] = r.tidy(widen(n, want))
	}
	return out
}

func widen(n logical.Node, want map[string]map[int]bool) logical.Node {
	r, ok := n.(*Read)
	if !ok {
		return mapInputs(n, func(in logical.Node) logical.Node { return widen(in, want) })
	}
	w := &Read{Scan: r.Scan}
	for c := range want[ReadKey(r.Scan)] {
		w.Cols = append(w.Cols, c)
	}
	sort.Ints(w.Cols)
	if slices.Equal(w.Cols, r.Cols) {
		return w
	}
	s := w.Schema()
	out := &Calc{Input: w}
	for _, c := range r.Cols {
		at := slices.Index(w.Cols, c)
		out.Exprs, out.Names = append(out.Exprs, column(s, at)), append(out.Names, s.Fields[at].Name)
	}
	return out
}

// ReadKey is the same for scans of the same table with the same hints.
func ReadKey(s *logical.Scan) string {
	var hints []string
	for k, v := range s.Hints {
		hints = append(hints, fmt.Sprintf("%q=%q", k, v))
	}
	sort.Strings(hints)
	// The table's address tells a table from one of the same name that was there before.
	return fmt.Sprintf("%p %s %s", s.Table, strings.Join(s.Table.Path, "."), strings.Join(hints, ","))
}
