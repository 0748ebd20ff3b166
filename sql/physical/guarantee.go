package physical

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
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

// guarantee joins what the sink does with its rows, whether checkpoints are taken, and, where they are,
// what the sources do after a restart.
func (b *builder) guarantee(n *node, s *plan.Sink) string {
	if s.Collect {
		return "rows are shown as they come; another run starts again"
	}
	how, words := delivery(s)
	var text string
	every, saves := b.interval()
	switch {
	case saves:
		text = withCheckpoints(how, words, every)
	case how == connector.ExactlyOnce && b.unsealed(n):
		return "none, as the job does not start: '" + keyDelivery + "' = 'exactly-once' needs checkpoints; " + setInterval
	default:
		text = withoutCheckpoints(how, words, n.bounded)
	}
	if gives := b.sourcesGive(n); gives != "" && saves { // else nobody notes the positions
		text += ". Sources: " + gives
	}
	return text
}

// unsealed reports whether the sink n is refused because no checkpoints are taken.
func (b *builder) unsealed(n *node) bool {
	for _, s := range b.sinks {
		if s.n == n {
			return b.refused(s, false) != nil && b.refused(s, true) == nil
		}
	}
	return false
}

const (
	keyInterval = "execution.checkpointing.interval"
	keyDelivery = "sink.delivery-guarantee"
	setInterval = "SET '" + keyInterval + "' = '10 s'"
)

// interval is how often checkpoints are taken, and whether they are.
func (b *builder) interval() (string, bool) {
	every := strings.TrimSpace(b.cfg.All()[keyInterval])
	d, err := option.ParseDuration(every)
	return every, err == nil && d > 0 && !b.batch
}

func withCheckpoints(how connector.Delivery, words, every string) string {
	const also = ", which has each row once"
	state := "after a crash the job goes on from its last checkpoint (there is one every " + every + "), with its state"
	switch how {
	case connector.ExactlyOnce:
		return said("exactly once", words, state)
	case connector.AtLeastOnce:
		if words == "" {
			words = "what was written since the last checkpoint may be written again"
		}
		return said("at least once", words, state+also)
	}
	return said("at most once", words, state+also)
}

func withoutCheckpoints(how connector.Delivery, words string, bounded bool) string {
	const lost = "state is lost in a crash, as no checkpoints are taken (" + setInterval + "): the next run starts with nothing, " +
		"and its sources begin where their options say"
	switch {
	case how == connector.ExactlyOnce && bounded:
		return said("exactly once", words, "output appears when the job ends; after a crash nothing has appeared, and the job starts again "+
			"from the beginning")
	case how == connector.ExactlyOnce:
		return said("output is never seen in part", words, "what has appeared stays, and "+lost)
	case how == connector.AtMostOnce:
		return said("at most once", words, "")
	case bounded:
		return said("at least once", words, "after a crash the job starts again from the beginning and writes its rows again")
	}
	return said("at least once", words, lost)
}

// said joins a guarantee with how it is kept and with what a crash means; the latter two may be "".
func said(what, how, crash string) string {
	if how != "" && crash != "" {
		return what + ": " + how + ". " + strings.ToUpper(crash[:1]) + crash[1:]
	}
	return what + ": " + how + crash
}

// delivery is what the sink's connector says.
func delivery(s *plan.Sink) (how connector.Delivery, words string) {
	f := connector.Lookup(s.Table.Connector)
	if f != nil && f.Delivery != nil {
		return f.Delivery(s.Table, option.Of(s.Table.Options, f.Options, connector.CommonOptions))
	}
	switch strings.ToLower(s.Table.Options[keyDelivery]) {
	case "exactly-once":
		return connector.ExactlyOnce, ""
	case "none":
		return connector.AtMostOnce, "rows that fail are lost"
	}
	return connector.AtLeastOnce, ""
}

// sourcesGive says what the sources of n do after a restart.
func (b *builder) sourcesGive(n *node) string {
	var gives []string
	for _, o := range b.sourcesOf(n, map[*node]bool{}) {
		if src, ok := o.Op.(*plan.Source); ok && b.gives[o] != "" {
			g := "`" + src.Table.Name + "`: " + b.gives[o]
			if !slices.Contains(gives, g) {
				gives = append(gives, g)
			}
		}
	}
	return strings.Join(gives, "; ")
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
