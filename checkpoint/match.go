package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Match finds the operators of a checkpoint in a plan: by what they compute and by everything that
// feeds them; then, where only the input has changed, those with state by what they compute of the
// same columns of the same tables, if there is no doubt about it; sources and sinks by the place
// that they read or write. fps are the plan's fingerprints, states, by node, the states of the operators
// that keep any. What nobody takes is in the report. The error says that rows on their way between
// operators have nowhere to go.
func Match(m *Manifest, fps []plan.Fingerprint, states map[int][]state.Spec) (*Report, error) {
	a := matcher{m: m, fps: fps, states: states, old: map[int]int{}, taken: map[int]bool{}, why: map[int]string{},
		out: &Report{from: m, taken: map[int]*Operator{}}}
	a.byFed()
	a.out.Same = len(a.old) == len(fps) && len(a.old) == len(m.Operators)
	a.byPlace()
	a.byComputes()
	for node := range fps {
		a.verdict(node)
	}
	a.dropped()
	for node, i := range a.old {
		a.out.taken[node] = &m.Operators[i]
	}
	if err := a.channels(); err != nil {
		return nil, err
	}
	return a.out, nil
}

// DroppedError says what of a checkpoint no operator of the plan wants.
type DroppedError struct {
	Checkpoint *Manifest
	Lost       []Line
}

// Error implements error.
func (e *DroppedError) Error() string {
	var lost []string
	for _, l := range e.Lost {
		lost = append(lost, l.lost+l.Label)
	}
	return fmt.Sprintf("%s holds what the changed job would leave behind: %s; start with --allow-dropped-state "+
		"(or '%s' = 'true') if that is meant", e.Checkpoint.title(), strings.Join(lost, ", "), KeyAllowDropped)
}

func (m *Manifest) title() string {
	if m.Savepoint {
		return fmt.Sprintf("savepoint %d", m.ID)
	}
	return fmt.Sprintf("checkpoint %d", m.ID)
}

// matcher pairs nodes of the plan with operators of the manifest.
type matcher struct {
	m      *Manifest
	fps    []plan.Fingerprint
	states map[int][]state.Spec
	out    *Report
	old    map[int]int    // by node: the index in m.Operators
	taken  map[int]bool   // indexes of m.Operators
	why    map[int]string // by node: why it starts empty, where that is known
}

func (a *matcher) pair(node, old int) { a.old[node], a.taken[old] = old, true }

// byFed pairs what does the same with the same input. Of several that are alike in all, the first
// go with the first.
func (a *matcher) byFed() {
	places := map[string][]int{}
	for i := range a.m.Operators {
		o := &a.m.Operators[i]
		if o.Fed != "" {
			places[o.Fed] = append(places[o.Fed], i)
		}
	}
	for node, fp := range a.fps {
		if at := places[fp.Fed]; len(at) > 0 {
			a.pair(node, at[0])
			places[fp.Fed] = at[1:]
		}
	}
}

// kind tells sources and sinks from what is between them.
func (a *matcher) kind(node int) byte {
	switch a.fps[node].Node.Op.(type) {
	case *plan.Source:
		return 's'
	case *plan.Sink:
		return 't'
	}
	return 'o'
}

// byPlace pairs sinks whose input has changed.
func (a *matcher) byPlace() {
	for node, fp := range a.fps {
		if _, done := a.old[node]; done || a.kind(node) != 't' {
			continue
		}
		olds, news := a.alike(node, func(plan.Fingerprint, *Operator) bool { return true })
		if len(olds) == 1 && len(news) == 1 {
			a.pair(node, olds[0])
		} else if len(olds) > 0 {
			a.why[node] = fmt.Sprintf("%s is there %d times, so that it is not known which one this was", fp.Describe, max(len(olds), len(news)))
		}
	}
}

// byComputes pairs operators with state that compute the same of the same columns, though of other
// rows.
func (a *matcher) byComputes() {
	for node, fp := range a.fps {
		if _, done := a.old[node]; done || !a.keeps(node) {
			continue
		}
		columns, sources := plan.Lineage(fp.Fed)
		same := func(f plan.Fingerprint, o *Operator) bool {
			c1, s1 := plan.Lineage(f.Fed)
			c2, s2 := plan.Lineage(o.Fed)
			return c1 == columns && c2 == columns && meets(s1, sources) && meets(s2, sources)
		}
		olds, news := a.alike(node, same)
		if len(olds) != 1 || len(news) != 1 { // perhaps the same tables decide
			o, n := a.alike(node, func(f plan.Fingerprint, o *Operator) bool {
				_, s1 := plan.Lineage(f.Fed)
				_, s2 := plan.Lineage(o.Fed)
				return same(f, o) && slices.Equal(s1, sources) && slices.Equal(s2, sources)
			})
			if len(o) > 0 {
				olds, news = o, n
			}
		}
		switch {
		case len(olds) == 1 && len(news) == 1:
			if a.m.Operators[olds[0]].Ended {
				a.why[node] = "its input has changed, and the old one had ended: the state was given up then"
				break
			}
			a.pair(node, olds[0])
		case len(olds) > 0:
			a.why[node] = fmt.Sprintf("its input has changed, and %d operators compute this, so that it is not known which one it was",
				max(len(olds), len(news)))
		}
	}
}

// alike returns the operators and the nodes that are not paired yet, do the same as node, and pass
// the test with node or with each other.
func (a *matcher) alike(node int, test func(plan.Fingerprint, *Operator) bool) (olds, news []int) {
	fp := a.fps[node]
	for i := range a.m.Operators {
		if o := &a.m.Operators[i]; !a.taken[i] && o.Computes == fp.Computes && test(fp, o) {
			olds = append(olds, i)
		}
	}
	for n, f := range a.fps {
		if _, done := a.old[n]; done || f.Computes != fp.Computes {
			continue
		}
		if n == node || len(olds) > 0 && test(f, &a.m.Operators[olds[0]]) {
			news = append(news, n)
		}
	}
	return olds, news
}

func meets(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// keeps reports whether a node is an operator that keeps state over a checkpoint.
func (a *matcher) keeps(node int) bool {
	_, stateful := a.states[node]
	return stateful && a.kind(node) == 'o' && !plan.Local(a.fps[node].Computes)
}

// kept reports whether the checkpoint holds state of an operator.
func (o *Operator) kept() bool {
	return !o.Ended && !plan.Local(o.Computes) &&
		(len(o.States) > 0 || slices.ContainsFunc(o.Heads, func(h []byte) bool { return len(h) > 0 }))
}

func (a *matcher) verdict(node int) {
	switch a.kind(node) {
	case 's':
		a.source(node)
	case 't':
		a.sink(node)
	default:
		if a.keeps(node) {
			a.operator(node)
		}
	}
}

func (a *matcher) line(node int, v Verdict, detail string) {
	if v == StartsEmpty && a.why[node] != "" {
		detail = a.why[node]
	}
	a.out.Lines = append(a.out.Lines, Line{Node: node, Label: a.fps[node].Node.Label, Verdict: v, Detail: detail})
}

// same reports whether a paired node is fed as it was.
func (a *matcher) same(node int) bool { return a.m.Operators[a.old[node]].Fed == a.fps[node].Fed }

func (a *matcher) source(node int) {
	if _, paired := a.old[node]; paired {
		a.line(node, Reused, "")
		return
	}
	a.line(node, StartsEmpty, "it was not read before; it is read from where its options say")
}

func (a *matcher) sink(node int) {
	_, paired := a.old[node]
	switch {
	case a.fps[node].Node.Op.(*plan.Sink).Collect:
	case !paired:
		a.line(node, StartsEmpty, "it was not written before")
	case a.same(node):
		a.line(node, Reused, "")
	default:
		a.line(node, ReusedInputChanged, "what was written stays as it is, and other rows follow")
	}
}

func (a *matcher) operator(node int) {
	i, paired := a.old[node]
	if !paired {
		a.line(node, StartsEmpty, a.whyEmpty(node))
		return
	}
	o := &a.m.Operators[i]
	if o.Ended {
		a.line(node, Reused, "its input had ended")
		return
	}
	how, why := readable(o.States, a.states[node])
	switch {
	case why != "":
		delete(a.old, node)
		delete(a.taken, i)
		a.out.Same = false
		a.line(node, StartsEmpty, why)
	case how != "":
		a.line(node, Migrated, how)
	case a.same(node):
		a.line(node, Reused, "")
	default:
		a.line(node, ReusedInputChanged, "its results go on from those of the old input")
	}
}

// whyEmpty says why an operator finds no state.
func (a *matcher) whyEmpty(node int) string {
	fp := a.fps[node]
	head, aggs, _ := strings.Cut(fp.Describe, plan.AggregatesMark)
	columns, sources := plan.Lineage(fp.Fed)
	for i := range a.m.Operators {
		o := &a.m.Operators[i]
		if a.taken[i] || !o.kept() {
			continue
		}
		was, of := plan.Lineage(o.Fed)
		oldHead, oldAggs, _ := strings.Cut(o.Describe, plan.AggregatesMark)
		switch {
		case o.Computes == fp.Computes && columns != was && meets(of, sources):
			return "it computes of other columns, or of other expressions, than " + o.Label + " did"
		case aggs != "" && head == oldHead && aggs != oldAggs && meets(of, sources):
			return "its aggregates were (" + strings.TrimSuffix(oldAggs, ")") + "); what was kept for these cannot be read for others"
		case o.Label == a.fps[node].Node.Label && meets(of, sources):
			return "it computes something else: it was " + o.Describe
		}
	}
	for _, s := range a.m.Sources {
		if n := a.nodeOf(s.Node); n >= 0 && meets(a.sourcesOf(n), sources) {
			return "it is not in the " + a.m.kind() + "; it sees the rows from there on"
		}
	}
	return "it is not in the " + a.m.kind()
}

func (m *Manifest) kind() string {
	if m.Savepoint {
		return "savepoint"
	}
	return "checkpoint"
}

func (a *matcher) sourcesOf(node int) []string {
	_, s := plan.Lineage(a.fps[node].Fed)
	return s
}

// nodeOf returns the node that has taken the place of one of the manifest, or -1.
func (a *matcher) nodeOf(old int) int {
	for node, i := range a.old {
		if a.m.Operators[i].Node == old {
			return node
		}
	}
	return -1
}

// dropped lists what of the manifest nobody takes.
func (a *matcher) dropped() {
	lost := func(what, label, detail string) {
		a.out.Lines = append(a.out.Lines, Line{Node: -1, Label: label, Verdict: Dropped, Detail: detail, lost: what})
	}
	label := func(node int, or string) string {
		for i := range a.m.Operators {
			if o := &a.m.Operators[i]; o.Node == node && o.Label != "" {
				return o.Label
			}
		}
		return or
	}
	for i := range a.m.Operators {
		if o := &a.m.Operators[i]; !a.taken[i] && o.kept() {
			lost("the state of ", o.Label, o.Describe)
		}
	}
	for i := range a.m.Sources {
		if s := &a.m.Sources[i]; len(s.Splits) > 0 && a.nodeOf(s.Node) < 0 {
			lost("the positions of ", label(s.Node, s.Table), fmt.Sprintf("how far its splits were read (there are %d)", len(s.Splits)))
		}
	}
	foreign := a.foreign()
	for i := range a.m.Sinks {
		if s := &a.m.Sinks[i]; len(s.Pending) == 0 && foreign && a.nodeOf(s.Node) < 0 {
			lost("the end of what goes to ", label(s.Node, s.Table), "the plan does not write it any more")
		} else if len(s.Pending) > 0 && a.nodeOf(s.Node) < 0 {
			lost("output for ", label(s.Node, s.Table), fmt.Sprintf("its output of checkpoint %d, unless that was committed since",
				s.Pending[len(s.Pending)-1].Checkpoint))
		}
	}
}

// foreign reports whether the plan writes nothing of what the checkpoint's job wrote: it is perhaps
// that of another job.
func (a *matcher) foreign() bool {
	for i := range a.m.Operators {
		o := &a.m.Operators[i]
		if !slices.ContainsFunc(a.m.Sinks, func(s Sink) bool { return s.Node == o.Node }) {
			continue
		}
		if slices.ContainsFunc(a.fps, func(f plan.Fingerprint) bool { return f.Computes == o.Computes }) {
			return false
		}
	}
	return true
}

// ChannelError says that rows on their way between operators have nowhere to go in the plan.
type ChannelError struct{ Checkpoint *Manifest }

// Error implements error.
func (e *ChannelError) Error() string {
	return fmt.Sprintf("%s holds rows on their way between operators that have changed since; start the old job "+
		"once more, stop it with a savepoint, which holds none, and start from that, or start with --fresh", e.Checkpoint.title())
}

// channels checks that rows on their way find the way that they were on.
func (a *matcher) channels() error {
	for _, ch := range a.m.Channels {
		from, to := a.nodeOf(ch.From), a.nodeOf(ch.To)
		ok := from >= 0 && to >= 0
		if ok {
			in := a.fps[to].Node.Inputs
			ok = ch.Input < len(in) && in[ch.Input].From == from &&
				slices.EqualFunc(ch.Schema.Fields, a.fps[from].Node.Schema.Fields, sameType)
		}
		if !ok {
			return &ChannelError{a.m}
		}
	}
	return nil
}

func sameType(a, b types.Field) bool {
	return a.Type.WithoutAttr().EqualIgnoreNull(b.Type.WithoutAttr())
}
