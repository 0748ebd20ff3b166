package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// aggregate is what group and window aggregations have in common.
type aggregate struct {
	keys    []int // of the input of the first phase
	aggs    []AggCall
	schema  columnTypes
	num     numbering
	in      shape
	rows    string // which come: those of in, as its watermark lets them
	retract bool
}

func (a *aggregate) number(more ...int) {
	cols := append(slices.Clone(a.keys), more...)
	for i := range a.aggs {
		c := &a.aggs[i]
		for _, arg := range c.Args {
			if arg >= 0 {
				cols = append(cols, arg)
			}
		}
		if c.Filter >= 0 {
			cols = append(cols, c.Filter)
		}
	}
	a.num = number(cols, a.schema)
}

// own names a column of an aggregate's arguments. Whether it may be NULL decides what accumulators
// hold.
func (a *aggregate) own(col int) string { return a.num.name(col) + nullText(a.schema.Fields[col].Type) }

func nullText(t types.Type) string {
	if t.Nullable {
		return ""
	}
	return " NOT NULL"
}

// calls gives the aggregates, columns by what col says.
func (a *aggregate) calls(col func(int) string) []string {
	var out []string
	for i := range a.aggs {
		c := &a.aggs[i]
		var args []string
		if c.Distinct {
			args = append(args, "DISTINCT")
		}
		for k, arg := range c.Args {
			if k < len(c.Consts) && c.Consts[k] != nil {
				args = append(args, canon(c.Consts[k], col))
			} else {
				args = append(args, col(arg))
			}
		}
		s := c.Fn + "(" + strings.Join(append(args, c.Options...), ", ") + ")"
		if len(c.Args) == 0 {
			s = c.Fn + "(*)"
		}
		if c.Filter >= 0 {
			s += " FILTER " + col(c.Filter)
		}
		out = append(out, s+" "+typeText(c.T)+nullText(c.T))
	}
	return out
}

func (a *aggregate) keyTexts(col func(int) string) []string {
	var out []string
	for _, k := range a.keys {
		out = append(out, col(k))
	}
	return out
}

// finish makes the fingerprint of an aggregation: what is the head of its description, and by what
// else than the keys rows are grouped.
func (a *aggregate) finish(head string, by []string) made {
	at := func(i int) string { return a.in.cols[i] }
	m := made{rows: a.rows}
	m.own.add(head, "(by ", strings.Join(a.keyTexts(a.num.name), ", "))
	if a.retract {
		m.own.add("; of changes")
	}
	m.own.add(AggregatesMark, strings.Join(a.calls(a.own), ", "), ")")
	group := append(a.keyTexts(at), by...)
	calls := a.calls(at)
	m.used = slices.Concat(group, calls)
	m.out = shape{rows: hash("groups", append([]string{a.rows}, group...)...), sources: a.in.sources}
	for _, k := range a.keys {
		m.out.cols = append(m.out.cols, at(k))
	}
	of := hash("of", group...)
	for _, c := range calls {
		m.out.cols = append(m.out.cols, hash("aggregate", of, c))
	}
	return m
}

// AggregatesMark stands in Describe of aggregations between what rows are grouped by and the
// aggregates.
const AggregatesMark = "; aggregates "

func groupAgg(o *GroupAgg, keys []int, from *Node, in shape) made {
	a := aggregate{keys: keys, aggs: o.Aggs, schema: from.Schema, in: in, rows: in.rows, retract: o.InputRetracts}
	a.number()
	m := a.finish("GroupAgg", nil)
	m.local = o.Phase == LocalPhase
	return m
}

func windowAgg(o *WindowAgg, keys []int, w *Window, from *Node, in shape) made {
	a := aggregate{keys: keys, aggs: o.Aggs, schema: from.Schema, in: in, rows: in.rows, retract: o.InputRetracts}
	head, by := "WindowAgg("+windowText(w, o.Attached), []string{windowText(w, o.Attached)}
	var more []int
	switch {
	case o.Attached:
		for _, c := range []int{o.StartCol, o.EndCol} {
			if c >= 0 {
				more = append(more, c)
				by = append(by, in.cols[c])
			}
		}
	case !w.ProcTime:
		by = append(by, in.cols[w.TimeCol])
	}
	head += keptForResults(o)
	if !w.ProcTime {
		a.rows = hash("timed", in.rows, in.time)
	}
	a.number(more...)
	m := a.finish(head+")", by)
	m.local = o.Phase == LocalPhase
	m.out.time = in.time
	of := hash("window", by...)
	for _, p := range o.Props {
		m.out.cols = append(m.out.cols, hash("property", of, strconv.Itoa(int(p))))
	}
	return m
}

// keptForResults says what a window aggregation keeps besides its aggregates, for the sake of the results
// that it shows.
func keptForResults(o *WindowAgg) string {
	rows := o.EarlyFireRows > 0 || o.LateFireRows > 0
	corrected := !o.FinalOnly && (rows || o.EarlyFireMs >= 0 || o.LateFireMs >= 0 || o.AllowedLatenessMs > 0)
	cause := slices.Contains(o.Props, WindowCause)
	switch {
	case !corrected && !cause && slices.Contains(o.Props, WindowCount):
		return ", rows counted"
	case !corrected && !cause:
		return ""
	case o.Window.Kind == Session && !o.Attached:
		return ", corrected" // what was shown is remembered, and all else that may be
	}
	kept := ", corrected"
	if rows && !o.FinalOnly {
		kept += ", rows since shown"
	}
	if cause {
		kept += ", causes"
	}
	return kept
}

func windowTVF(o *WindowTVF, n, from *Node, in shape) made {
	w := &o.Window
	m := made{rows: in.rows, out: in, used: in.cols}
	m.own.add("WindowTVF(", windowText(w, false))
	by := []string{windowText(w, false)}
	if !w.ProcTime {
		by = append(by, in.cols[w.TimeCol])
		m.rows = hash("timed", in.rows, in.time)
	}
	if w.Kind == Session {
		m.own.add(", by ", places(w.PartitionKeys), " of ", schemaText(from.Schema))
		for _, k := range w.PartitionKeys {
			by = append(by, in.cols[k])
		}
	}
	m.own.add(")")
	m.used = append(by, in.cols...)
	m.out.rows = hash("windows", append([]string{m.rows}, by...)...)
	m.out.cols = slices.Clone(in.cols)
	of := hash("window", by...)
	for i := len(in.cols); i < n.Schema.Len(); i++ {
		m.out.cols = append(m.out.cols, hash("property", of, strconv.Itoa(i-len(in.cols))))
	}
	return m
}

func windowText(w *Window, attached bool) string {
	if attached {
		return "windows of the rows in " + strconv.Quote(w.Zone)
	}
	time := "event time"
	if w.ProcTime {
		time = "processing time"
	}
	return fmt.Sprintf("%s size %d step %d offset %d ms in %q, %s", w.Kind, w.Size, w.Step, w.Offset, w.Zone, time)
}
