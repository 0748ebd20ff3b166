package physical

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// emitDefaults reads table.exec.emit.*, which hold where a query says nothing.
func emitDefaults(cfg *catalog.Config) *logical.Emit {
	const flink = "table.exec.emit."
	ms := func(key string) *int64 {
		d := cfg.Duration(flink + key).Milliseconds()
		return &d
	}
	e := &logical.Emit{LatenessMs: ms("allow-lateness")}
	if cfg.Bool(flink + "early-fire.enabled") {
		e.EarlyMs = ms("early-fire.delay")
	}
	if cfg.Bool(flink + "late-fire.enabled") {
		e.LateMs = ms("late-fire.delay")
	}
	return e
}

// forEver is the lateness of a backfill, which waits for all rows: no history is longer.
const forEver = 36500 * 24 * 3600 * 1000

// emitInto sets when op, a window aggregation over in for which said was said, shows results. It returns
// the lateness that operators after it inherit, as a correction of a window is not late for them, and what it
// is by the text.
func (b *builder) emitInto(op *plan.WindowAgg, in *node, said *logical.Emit) (lateness, asked int64) {
	lateness = b.emitsOf(op, in, said)
	asked = lateness
	if in.lateness > in.asked && !op.Window.ProcTime { // over windows that wait for all rows
		asked = max(in.asked, value(said.Over(b.emit).LatenessMs, 0))
	}
	if b.complete && !b.batch && !op.Window.ProcTime {
		op.EarlyFireMs, op.EarlyFireRows, op.LateFireMs, op.LateFireRows = -1, 0, -1, 0
		op.FinalOnly, op.AllowedLatenessMs = true, forEver
		lateness = forEver
	}
	return lateness, asked
}

func (b *builder) emitsOf(op *plan.WindowAgg, in *node, said *logical.Emit) int64 {
	op.EarlyFireMs, op.LateFireMs = -1, -1
	if said != nil {
		for _, h := range said.Hints {
			b.heeded[h] = true
		}
	}
	if b.batch {
		return 0
	}
	e := said.Over(b.emit)
	if op.FinalOnly = e.FinalOnly != nil && *e.FinalOnly; !op.FinalOnly {
		op.EarlyFireMs, op.EarlyFireRows = value(e.EarlyMs, -1), value(e.EarlyRows, 0)
	}
	if op.Window.ProcTime {
		op.FinalOnly = false // nothing is ever late
		return 0
	}
	op.AllowedLatenessMs = max(value(e.LatenessMs, 0), in.lateness)
	if op.AllowedLatenessMs == 0 {
		op.FinalOnly = false // the result on time is final
		if said != nil && (said.LateMs != nil || said.LateRows != nil) {
			b.fail(lateFire(said), "'late-fire' has no effect, as no late row is let in").
				WithHint("add 'allowed-lateness' = '10 min', or leave it out")
		}
		return 0
	}
	if !op.FinalOnly {
		op.LateFireMs, op.LateFireRows = value(e.LateMs, -1), value(e.LateRows, 0)
		if op.LateFireMs < 0 && op.LateFireRows == 0 {
			op.LateFireMs = 0 // a late row that is let in shows at once
		}
	}
	return op.AllowedLatenessMs
}

func value[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// lateFire is where e says when late results are shown.
func lateFire(e *logical.Emit) expr.Pos {
	for _, h := range e.Hints {
		for _, o := range h.Options {
			if strings.HasPrefix(o.Key, "late-fire") {
				return o.Pos
			}
		}
	}
	for _, h := range e.Hints {
		if h.Set != "" {
			return h.Pos
		}
	}
	return expr.Pos{}
}

// corrects reports whether op may show a window more than once.
func corrects(op *plan.WindowAgg) bool {
	return op.EarlyFireMs >= 0 || op.EarlyFireRows > 0 || op.LateFireMs >= 0 || op.LateFireRows > 0
}

// emitMode is the kinds of rows that op emits.
func emitMode(op *plan.WindowAgg) types.ChangelogMode {
	if corrects(op) {
		return types.Retract
	}
	return types.InsertOnly
}

// heedEmits refuses a hint EMIT that held for no window.
func (b *builder) heedEmits(n logical.Node) {
	if b.batch {
		return
	}
	if a, ok := n.(*logical.Aggregate); ok && a.Emit != nil {
		for _, h := range a.Emit.Hints {
			if !b.heeded[h] {
				if b.err == nil {
					b.err = h.Unheeded()
				}
			}
		}
	}
	for _, in := range n.Inputs() {
		b.heedEmits(in)
	}
}
