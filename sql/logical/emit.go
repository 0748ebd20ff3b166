package logical

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// Emit says when the window aggregations of a query show results, as far as the hint EMIT or
// SET 'tidemark.emit.SINK.*' does. nil is "not said". The planner has the defaults.
type Emit struct {
	LatenessMs, EarlyMs, LateMs *int64
	EarlyRows, LateRows         *int64
	FinalOnly                   *bool
	// LateSink gets the rows that come too late.
	LateSink    *catalog.Table
	LateSinkPos expr.Pos
	// Hints are where it is said, innermost first.
	Hints []*EmitHint
}

// EmitHint is one hint EMIT as it was written, or where Set is not "" the keys that SET has for a sink: Set is the first
// of them, and Pos that of the sink.
type EmitHint struct {
	Options []EmitOption
	Set     string
	Pos     expr.Pos
}

// Unheeded says that no window aggregation goes by h, and what to do.
func (h *EmitHint) Unheeded() *sqlerr.Error {
	at := sqlerr.Span{Start: h.Pos.Start, End: h.Pos.End}
	const group = "group by window_start and window_end of TUMBLE, HOP, CUMULATE or SESSION, or "
	if h.Set != "" {
		return sqlerr.New(at, "'%s' is about window aggregations, and the query that is written here has none", h.Set).
			WithHint("%s", group+"RESET the key before")
	}
	return sqlerr.New(at, "the hint EMIT is about window aggregations, and the query that it stands in has none").
		WithHint("%s", group+"take the hint out")
}

// EmitOption is one option of a hint.
type EmitOption struct {
	Key, Value string
	Pos        expr.Pos
}

// Over returns what holds where e was said within a query of which outer was said: e is stronger.
func (e *Emit) Over(outer *Emit) *Emit {
	switch {
	case outer == nil:
		return e
	case e == nil:
		return outer
	}
	out := *e
	out.LatenessMs, out.EarlyMs, out.LateMs = or(e.LatenessMs, outer.LatenessMs), or(e.EarlyMs, outer.EarlyMs), or(e.LateMs, outer.LateMs)
	out.EarlyRows, out.LateRows = or(e.EarlyRows, outer.EarlyRows), or(e.LateRows, outer.LateRows)
	out.FinalOnly = or(e.FinalOnly, outer.FinalOnly)
	if e.LateSink == nil {
		out.LateSink, out.LateSinkPos = outer.LateSink, outer.LateSinkPos
	}
	out.Hints = append(append([]*EmitHint{}, e.Hints...), outer.Hints...)
	return &out
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// Late says how the rows that come too late for an aggregation go into a table.
type Late struct {
	Table *catalog.Table
	// Cols are the columns of the aggregation's input that the table takes. Exprs make the table's row: what its
	// sink gets, over the first Width of Cols and then plan.LateColumns. More than Width Cols: the
	// input has each row once a grouping set, and the last of Cols is the number of the set.
	Cols  []int
	Width int
	Exprs []expr.Expr
	Names []string
	// Err is why the rows do not fit the table, to be told if the aggregation is one of windows. Lacks
	// says that it is only for columns that they lack, which are NULL where the rows are results of
	// other windows.
	Err   *sqlerr.Error
	Lacks bool
	Pos   expr.Pos
}

// Remap returns l for an input whose column i stands at to[i].
func (l *Late) Remap(to []int) *Late {
	if l == nil {
		return nil
	}
	out := *l
	out.Cols = make([]int, len(l.Cols))
	for i, c := range l.Cols {
		out.Cols[i] = to[c]
	}
	return &out
}
