package physical

import (
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
)

// clocks refuses a clock of 'tidemark.state.ttl-clock' that some operator does not keep its state by. Joins, aggregations
// and rows kept by key count from when a row was written, which is the machine's time: by event time the outcome would
// depend on how rows of several subtasks interleave. Counters of revisions go by the windows of their keys.
func (b *builder) clocks() {
	want := b.cfg.Get(catalog.KeyTTLClock)
	if want == "" || b.batch {
		return
	}
	for _, n := range b.nodes {
		var event bool
		switch o := n.Op.(type) {
		case *plan.GroupAgg:
			if o.TTLMs == 0 {
				continue
			}
		case *plan.Join:
			if o.LeftTTLMs == 0 && o.RightTTLMs == 0 {
				continue
			}
		case *plan.Normalize:
			if o.TTLMs == 0 {
				continue // a horizon has its own rule
			}
		case *plan.Materialize:
			if o.TTLMs == 0 {
				continue
			}
		case *plan.Revise:
			if o.TTLMs == 0 {
				continue
			}
			event = n.time
		default:
			continue
		}
		switch {
		case event && want != "event-time":
			b.fail(n.pos, "not supported yet: '%s' = '%s' for %s, which forgets by event time", catalog.KeyTTLClock, want, n.what).
				WithHint("leave '%s' out: each operator then goes by its own clock, which EXPLAIN names", catalog.KeyTTLClock)
		case !event && want != "processing-time":
			b.fail(n.pos, "not supported yet: '%s' = '%s' for %s, which forgets by the machine's clock", catalog.KeyTTLClock, want, n.what).
				WithHint("leave '%s' out: each operator then goes by its own clock, which EXPLAIN names", catalog.KeyTTLClock)
		}
	}
}
