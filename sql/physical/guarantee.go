package physical

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
)

// guarantees writes what each sink's whole path gives, in words.
func (b *builder) guarantees() {
	for _, n := range b.nodes {
		if s, ok := n.Op.(*plan.Sink); ok {
			s.Guarantee = b.guarantee(n, s)
		}
	}
}

// guarantee joins what the sink does with its rows and what its sources do after a restart. There
// are no checkpoints, so nothing of the operators' state outlives a crash.
func (b *builder) guarantee(n *node, s *plan.Sink) string {
	if s.Collect {
		return "rows are shown as they come; another run starts again"
	}
	sources := b.sourcesOf(n, map[*node]bool{})
	var gives []string
	for _, o := range sources {
		if src, ok := o.Op.(*plan.Source); ok && b.gives[o] != "" {
			g := "`" + src.Table.Name + "`: " + b.gives[o]
			if !slices.Contains(gives, g) {
				gives = append(gives, g)
			}
		}
	}
	var text string
	switch how := delivery(s); {
	case how == whole && n.bounded:
		text = "exactly once: the files appear when the job ends. After a crash nothing has appeared, and the job " +
			"starts again from the beginning"
	case how == whole:
		text = "no file appears before it is complete. After a crash the files that have appeared stay, the unfinished " +
			"ones are gone, and state is lost, since there are no checkpoints yet: results go on from where the sources do"
	case how == upserts:
		text = "at least once: a version of a row may be written again, and the newest one by key stands. After a crash " +
			"state is lost, since there are no checkpoints yet"
	case how == none:
		text = "rows are written as they come and none is kept back; another run writes them again"
	case n.bounded:
		text = "at least once: after a crash the job starts again from the beginning and writes its rows again"
	default:
		text = "at least once: after a crash rows may be written again, and state is lost, since there are no " +
			"checkpoints yet"
	}
	if len(gives) > 0 && !n.bounded {
		text += ". Sources: " + strings.Join(gives, "; ")
	}
	return text
}

// How a connector writes.
const (
	atLeastOnce = iota
	whole       // output appears whole or not at all
	upserts     // rewriting changes nothing
	none        // nothing is promised
)

func delivery(s *plan.Sink) int {
	switch s.Table.Connector {
	case "filesystem":
		return whole
	case "upsert-kafka":
		return upserts
	case "print", "blackhole":
		return none
	}
	if strings.EqualFold(option.Of(s.Table.Options).Get("sink.delivery-guarantee"), "none") {
		return none
	}
	return atLeastOnce
}

func (b *builder) sourcesOf(n *node, seen map[*node]bool) []*node {
	if seen[n] {
		return nil
	}
	seen[n] = true
	if _, ok := n.Op.(*plan.Source); ok {
		return []*node{n}
	}
	var out []*node
	for _, in := range n.in {
		out = append(out, b.sourcesOf(in.from, seen)...)
	}
	return out
}
