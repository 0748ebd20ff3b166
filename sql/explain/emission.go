package explain

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
)

// byTheClock marks what is not a function of the input alone.
const byTheClock = "by the clock: which revisions are seen depends on when rows come"

// emission says when a window aggregation shows results: what is in force, whoever asked for it.
func emission(p *plan.Plan, n *plan.Node, o *plan.WindowAgg) []detail {
	if p.Batch {
		return []detail{{"emits", "each window once, when the input has ended"}}
	}
	var d []detail
	if early := fires(o.EarlyFireMs, o.EarlyFireRows); early != "" {
		d = append(d, detail{"early", early})
	}
	if o.Window.ProcTime {
		return append(d, detail{"emits", "each window when its time is over, by the clock"})
	}
	late := lateTo(p, n)
	if o.AllowedLatenessMs == 0 && d == nil {
		return []detail{{"emits", "each window once, when the watermark passes its end; later rows " + late}}
	}
	if o.AllowedLatenessMs == 0 {
		return append(d, detail{"on time", "when the watermark passes the window's end"}, detail{"late", "rows that come after that " + late})
	}
	beyond := duration(o.AllowedLatenessMs)
	if o.FinalOnly && o.AllowedLatenessMs >= 36500*24*3600*1000 {
		return append(d, detail{"final only", "each window once, when the input has ended: a backfill waits for all rows"})
	}
	if o.FinalOnly {
		return append(d, detail{"final only", "each window once, " + beyond + " after the watermark passes its end: rows are let in until then"},
			detail{"late", "rows that come after that " + late})
	}
	return append(d, detail{"on time", "when the watermark passes the window's end"},
		detail{"late", "rows are let in for " + beyond + "; corrections " + fires(o.LateFireMs, o.LateFireRows)},
		detail{"too late", "rows that come after that " + late})
}

// fires says when results are shown besides those on time; "" for never.
func fires(ms, rows int64) string {
	var parts []string
	switch {
	case ms == 0:
		parts = append(parts, "at every row")
	case ms > 0:
		parts = append(parts, "every "+duration(ms)+", "+byTheClock)
	}
	if rows > 0 && ms != 0 {
		parts = append(parts, fmt.Sprintf("after every %d rows of a window", rows))
	}
	return strings.Join(parts, "; ")
}

// lateTo says what becomes of the rows that are too late for n.
func lateTo(p *plan.Plan, n *plan.Node) string {
	var to []string
	var sinks func(id int)
	sinks = func(id int) {
		for _, m := range p.Nodes {
			for _, e := range m.Inputs {
				if e.From != id || id == n.ID && !e.Late {
					continue
				}
				if s, ok := m.Op.(*plan.Sink); ok && s.Table != nil {
					to = append(to, s.Table.Name)
				}
				sinks(m.ID)
			}
		}
	}
	if o := n.Op.(*plan.WindowAgg); o.Late {
		sinks(n.ID)
	}
	if to == nil {
		return "are dropped and counted"
	}
	return "go to table " + strings.Join(to, ", ")
}

// revise says what revisions are counted for and when a row is final.
func revise(n *plan.Node, o *plan.Revise) []detail {
	d := []detail{{"revisions", "counted from 1 for each (" + columns(n.Schema, o.Keys) + ") in generation '" + o.Generation +
		"'; a row that is as it was before is none"}}
	var names []string
	for i, m := range o.Metadata {
		f := n.Schema.Fields[o.Columns+i].Name
		if key := plan.ResultColumns[m].Name; key != f {
			f = key + " AS " + f
		}
		names = append(names, f)
	}
	d = append(d, detail{"adds", strings.Join(names, ", ")})
	switch {
	case o.End < 0:
		d = append(d, detail{"final", "never: it is not known which window a row is of, or the primary key does not tell it"})
	case o.LatenessMs > 0:
		d = append(d, detail{"final", "when the watermark is " + duration(o.LatenessMs) + " past the window's end"})
	default:
		d = append(d, detail{"final", "when the watermark passes the window's end"})
	}
	return d
}

// normalize says how an upsert stream becomes a changelog.
func normalize(n *plan.Node, o *plan.Normalize) []detail {
	var d []detail
	switch o.Ties {
	case plan.TiesFirst:
		return []detail{{"ties", "of rows of one time the first that came is kept"}}
	case plan.TiesLast:
		return []detail{{"ties", "of rows of one time the last that came is kept"}}
	}
	if o.Versioned {
		d = append(d, detail{"versions", "the highest " + n.Schema.Fields[o.Version].Name + " of an entity counts; lower ones are dropped as stale, " +
			"the same again as duplicates, another row of the same version is refused as a conflict"})
	}
	if o.HorizonMs > 0 {
		clock := "processing time"
		if o.RowTime >= 0 {
			clock = "event time"
		}
		d = append(d, detail{"horizon", "an entity is remembered for " + duration(o.HorizonMs) + " of " + clock + " after its last version; rows of unknown " +
			"entities that are older than that are refused as expired"})
	}
	return d
}
