package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// emitOptions says when windows of the query into one sink show results. -1 is off.
type emitOptions struct{ latenessMs, earlyMs, lateMs int64 }

// emitOptions reads table.exec.emit.* and, stronger, tidemark.emit.SINK.*.
func (b *builder) emitOptions(s *logical.Sink) emitOptions {
	o := emitOptions{earlyMs: -1, lateMs: -1}
	if b.batch {
		return o
	}
	const flink = "table.exec.emit."
	o.latenessMs = b.cfg.Duration(flink + "allow-lateness").Milliseconds()
	if b.cfg.Bool(flink + "early-fire.enabled") {
		o.earlyMs = b.cfg.Duration(flink + "early-fire.delay").Milliseconds()
	}
	if b.cfg.Bool(flink + "late-fire.enabled") {
		o.lateMs = b.cfg.Duration(flink + "late-fire.delay").Milliseconds()
	}
	if s.Table != nil {
		b.sinkEmit(s, &o)
	}
	if o.latenessMs > 0 && o.lateMs < 0 {
		o.lateMs = 0 // a late row that is let in shows at once
	}
	if o.latenessMs == 0 {
		o.lateMs = -1 // nothing late is let in
	}
	return o
}

func (b *builder) sinkEmit(s *logical.Sink, o *emitOptions) {
	own := b.cfg.Prefix("tidemark.emit." + s.Table.Name() + ".")
	keys := make([]string, 0, len(own))
	for k := range own {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		d, err := option.ParseDuration(own[k])
		switch {
		case k != "allowed-lateness" && k != "early-fire" && k != "late-fire":
			b.fail(s.Pos, "not supported yet: 'tidemark.emit.%s.%s'", s.Table.Name(), k).
				WithHint("RESET 'tidemark.emit.%s.%s'", s.Table.Name(), k)
		case err != nil:
			b.fail(s.Pos, "'tidemark.emit.%s.%s' cannot be '%s'", s.Table.Name(), k, own[k]).
				WithHint("write a number and a unit: 500 ms, 10 s, 5 min")
		case k == "allowed-lateness":
			o.latenessMs = d.Milliseconds()
		case k == "early-fire":
			o.earlyMs = d.Milliseconds()
		default:
			o.lateMs = d.Milliseconds()
		}
	}
}

// emitInto sets when op shows results and returns the lateness that operators after it inherit:
// a correction of a window is not late for them.
func (b *builder) emitInto(op *plan.WindowAgg, in *node) int64 {
	if op.Window.ProcTime || b.batch {
		if op.Window.ProcTime {
			op.EarlyFireMs = b.emit.earlyMs
		}
		return 0
	}
	op.EarlyFireMs, op.LateFireMs, op.AllowedLatenessMs = b.emit.earlyMs, b.emit.lateMs, b.emit.latenessMs
	if in.lateness > op.AllowedLatenessMs {
		op.AllowedLatenessMs = in.lateness
		if op.LateFireMs < 0 {
			op.LateFireMs = 0
		}
	}
	return op.AllowedLatenessMs
}
