package physical

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// node is a plan node in the making, with what only the planner needs to know.
type node struct {
	plan.Node
	in []input
	// bounded says that all sources above end.
	bounded bool
	// time says that watermarks come with the rows.
	time bool
	// lateness is how long after the watermark corrections come, ms. asked is the same as the text has it, where a
	// backfill waits for all rows.
	lateness, asked int64
	// part is the columns that a hash exchange put the rows of this node by, nil if none did;
	// single says that one subtask has them all.
	part   []int
	single bool
	pos    expr.Pos
	// what names the operator in messages: "GroupAggregate".
	what string
	// needUB says that some consumer needs -U rows.
	needUB bool
	id     int // order of creation, for keys
}

// ordering reports whether rows of several splits or subtasks of n are to be merged in the order of
// their stamps: they have stamps, and the input ends, so that waiting for the slowest is no danger.
// The parallelism makes no difference: one subtask reads several splits too. Merging is only right where the stamps
// that a subtask of n gives never go back; elsewhere it could put an older change of a row behind a newer one, whose
// order a channel keeps.
func (b *builder) ordering(n *node) bool { return n.bounded && n.time && b.inOrder(n) }

// inOrder reports whether the stamps of the rows that a subtask of n gives never go back. A row that is emitted
// with the stamp of an input row is in order if the input is; windows give stamps of their own.
func (b *builder) inOrder(n *node) bool {
	if ok, known := b.order[n]; known {
		return ok
	}
	ok := true
	if _, window := n.Op.(*plan.WindowAgg); !window {
		for _, in := range n.in {
			// Several channels that are not merged interleave.
			ok = ok && (in.ordered || (in.dist == plan.Forward || in.from.single) && b.inOrder(in.from))
		}
	}
	b.order[n] = ok
	return ok
}

type input struct {
	from    *node
	dist    plan.Distribution
	keys    []int
	ordered bool
	// late says that from is a window aggregation and the rows are those that were too late for it.
	late bool
}

type builder struct {
	cfg   *catalog.Config
	env   *expr.Env
	batch bool
	par   int
	// wide says that some source has a parallelism of its own.
	wide  bool
	nodes []*node
	memo  map[string]*node
	emit  *logical.Emit // defaults
	// heeded are the hints EMIT that some aggregation goes by.
	heeded map[*logical.EmitHint]bool
	late   []*lateTable
	// revised are the tables of results that have a sink.
	revised []*catalog.Table
	// targets are the names of these by what they are in their targets.
	targets map[string]string
	order   map[*node]bool // see inOrder
	// complete says that windows wait for all rows: a backfill of a table of results.
	complete bool
	sinks    []tableSink
	// gives is what each source gives after a restart, in words.
	gives map[*node]string
	err   error
}

func newBuilder(cfg *catalog.Config) *builder {
	b := &builder{cfg: cfg, env: cfg.Env(), batch: cfg.BatchMode(), par: cfg.Int(catalog.KeyParallelism),
		emit: emitDefaults(cfg), heeded: map[*logical.EmitHint]bool{}, targets: map[string]string{}, order: map[*node]bool{}, memo: map[string]*node{}, gives: map[*node]string{}}
	if p := cfg.Int("table.exec.resource.default-parallelism"); p > 0 {
		b.par = p
	}
	return b
}

// fail notes the first error; the builder goes on only as far as it must.
func (b *builder) fail(pos expr.Pos, format string, args ...any) *sqlerr.Error {
	e := sqlerr.New(span(pos), format, args...)
	if b.err == nil {
		b.err = e
	}
	return e
}

// add makes a node, or returns the one that computes the same from the same inputs.
func (b *builder) add(n *node) *node {
	key := b.key(n)
	if o := b.memo[key]; o != nil && key != "" {
		return o
	}
	n.id = len(b.nodes)
	if len(n.in) > 0 {
		n.bounded, n.time = true, false
	}
	for _, in := range n.in {
		n.bounded = n.bounded && in.from.bounded
		n.time = n.time || in.from.time
		n.lateness, n.asked = max(n.lateness, in.from.lateness), max(n.asked, in.from.asked)
	}
	b.nodes = append(b.nodes, n)
	b.memo[key] = n
	return n
}

// key is equal for nodes that compute the same; "" for nodes that are never shared.
func (b *builder) key(n *node) string {
	var s strings.Builder
	switch o := n.Op.(type) {
	case *plan.Source, *plan.Sink, *plan.Values:
		// Sources have keys of their own (translate.go); sinks and values are not worth it.
		return fmt.Sprintf("#%d", len(b.nodes))
	case *plan.Calc:
		if o.Filter != nil && opt.Volatile(o.Filter) || slices.ContainsFunc(o.Project, opt.Volatile) {
			return fmt.Sprintf("#%d", len(b.nodes)) // two RAND() are two random numbers
		}
		fmt.Fprintf(&s, "calc %s|%s", exprKey(o.Filter), exprKeys(o.Project))
	case *plan.Expand:
		s.WriteString("expand")
		for _, p := range o.Projects {
			s.WriteString("|" + exprKeys(p))
		}
	case *plan.WindowAgg:
		c := *o
		c.Aggs, c.ArgSchema = nil, types.Schema{}
		fmt.Fprintf(&s, "%+v %s", c, aggKeys(o.Aggs))
	case *plan.Join:
		fmt.Fprintf(&s, "join %d %v %v %v %s", o.Kind, o.LeftKeys, o.RightKeys, o.NullSafe, exprKey(o.Filter))
	case *plan.GroupAgg:
		c := *o
		c.Aggs, c.ArgSchema = nil, types.Schema{}
		fmt.Fprintf(&s, "%+v %s", c, aggKeys(o.Aggs))
	default:
		fmt.Fprintf(&s, "%T %+v", o, o)
	}
	for _, in := range n.in {
		fmt.Fprintf(&s, " <%d %d %v %v %v", in.from.id, in.dist, in.keys, in.ordered, in.late)
	}
	return s.String()
}

func aggKeys(aggs []plan.AggCall) string {
	var s strings.Builder
	for _, a := range aggs {
		fmt.Fprintf(&s, "|%s %v %v %d %s %v", a.Fn, a.Args, a.Distinct, a.Filter, a.T, a.Options)
		for _, c := range a.Consts {
			if c != nil {
				s.WriteString(exprKey(c))
			}
		}
	}
	return s.String()
}

func exprKeys(es []expr.Expr) string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = exprKey(e)
	}
	return strings.Join(out, ",")
}

// exprKey prints e so that equal text means equal expressions. Names do not count.
func exprKey(e expr.Expr) string {
	switch e := e.(type) {
	case nil:
		return "-"
	case *expr.Column:
		return fmt.Sprintf("$%d", e.Index)
	case *expr.Literal:
		return fmt.Sprintf("%q:%s", expr.FormatLiteral(e.Value, e.T), e.T)
	case *expr.Call:
		return fmt.Sprintf("%q(%s):%s", e.Fn, exprKeys(e.Args), e.T)
	}
	panic(fmt.Sprintf("BUG: unknown expression %T", e))
}

// number orders the nodes that sinks reach so that inputs come first, and gives them their ids.
func (b *builder) number() []*plan.Node {
	var out []*plan.Node
	seen := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, in := range n.in {
			visit(in.from)
		}
		n.Inputs = nil
		for _, in := range n.in {
			n.Inputs = append(n.Inputs, plan.Edge{From: in.from.ID, Dist: in.dist, Keys: in.keys, Ordered: in.ordered, Late: in.late})
		}
		n.ID = len(out)
		out = append(out, &n.Node)
	}
	for _, n := range b.nodes {
		if _, ok := n.Op.(*plan.Sink); ok {
			visit(n)
		}
	}
	return out
}

// names lists columns of s for labels.
func names(s types.Schema, cols []int) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = s.Fields[c].Name
	}
	return strings.Join(out, ", ")
}

// by is the end of an aggregation's label.
func by(s types.Schema, keys []int) string {
	if len(keys) == 0 {
		return ""
	}
	return "(by " + names(s, keys) + ")"
}

// places maps input columns to where exprs pass them on; -1 where they do not.
func places(exprs []expr.Expr, width int) []int {
	to := make([]int, width)
	for i := range to {
		to[i] = -1
	}
	for i, e := range exprs {
		if c, ok := e.(*expr.Column); ok && to[c.Index] < 0 {
			to[c.Index] = i
		}
	}
	return to
}

// moved maps cols through to, or returns nil where one is gone. Empty sets stay.
func moved(cols, to []int) []int {
	if cols == nil {
		return nil
	}
	out := make([]int, len(cols))
	for i, c := range cols {
		if out[i] = to[c]; out[i] < 0 {
			return nil
		}
	}
	return out
}

func movedSets(sets [][]int, to []int) [][]int {
	var out [][]int
	for _, s := range sets {
		if m := moved(s, to); m != nil {
			out = append(out, m)
		}
	}
	return out
}

func subset(a, b []int) bool {
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}
