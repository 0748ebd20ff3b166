package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// Fingerprint identifies a node between two plans.
type Fingerprint struct {
	// Computes is a hash of what the node itself computes: its operator with the types of the
	// columns that it uses, by their order, but neither names of columns nor what parallelism it
	// runs at or how long state is kept. That of a source or sink is the place it reads or writes.
	Computes string
	// Fed is a hash of Computes and of everything that feeds the node: the tables, the columns
	// that it uses by their origin, filters, joins. Columns that it does not use, names given on
	// the way, and the number of phases of aggregations do not matter. See Lineage for its parts.
	Fed string
	// Describe says in words what Computes is a hash of.
	Describe string
	Node     *Node // that it is of
}

// localPrefix begins Computes of the local phases of aggregations.
const localPrefix = "local:"

// Local reports whether a node with this Computes is the local phase of an aggregation, which holds
// nothing when a checkpoint is taken: it may come and go.
func Local(computes string) bool { return strings.HasPrefix(computes, localPrefix) }

// Lineage takes Fed apart: columns is a hash of the origin of the columns that the node uses, and
// of what was computed of them on the way, whichever rows came; sources are hashes of the tables
// that feed it, sorted.
func Lineage(fed string) (columns string, sources []string) {
	parts := strings.Split(fed, ".")
	if len(parts) < 2 {
		return "", nil
	}
	return parts[1], parts[2:]
}

// Fingerprints returns the fingerprints of a plan's nodes, by node number.
func Fingerprints(p *Plan) []Fingerprint {
	f := fingerprinter{p: p, shapes: make([]shape, len(p.Nodes))}
	out := make([]Fingerprint, len(p.Nodes))
	for i, n := range p.Nodes {
		m := f.node(n)
		f.shapes[i] = m.out
		describe := m.own.String()
		fp := Fingerprint{Computes: hash("computes", describe), Describe: describe, Node: n}
		if m.local {
			fp.Computes = localPrefix + fp.Computes
		}
		columns := hash("columns", m.used...)
		parts := []string{hash("fed", fp.Computes, columns, m.rows), columns}
		fp.Fed = strings.Join(append(parts, m.out.sources...), ".")
		out[i] = fp
	}
	return out
}

// shape is the output of a node, independent of the operators that led to it.
type shape struct {
	// rows identifies which rows there are: tables, filters, joins, the groups of aggregations.
	rows string
	// cols identifies what each column means for a row, whichever rows there are: the column of a
	// table, or what was computed of such columns.
	cols []string
	// time identifies the watermark, "" where there is none.
	time    string
	sources []string // sorted, each once
}

// made is what is known about one node.
type made struct {
	own   text     // what it computes, columns numbered
	used  []string // the origins of the columns that matter to what it computes
	rows  string   // which rows feed it, and how
	local bool
	out   shape
}

type fingerprinter struct {
	p      *Plan
	shapes []shape
}

func (f *fingerprinter) in(n *Node, i int) (*Node, shape) {
	from := n.Inputs[i].From
	return f.p.Nodes[from], f.shapes[from]
}

func (f *fingerprinter) node(n *Node) made {
	switch o := n.Op.(type) {
	case *Source:
		return source(o)
	case *Values:
		return values(o, n.Schema.Len())
	case *Union:
		return f.union(n)
	case *Join:
		return f.join(n, o)
	case *Sink:
		return f.sink(n, o)
	}
	from, in := f.in(n, 0)
	switch o := n.Op.(type) {
	case *Late:
		return f.late(n, from)
	case *Revise:
		return revise(o, from, in)
	case *Calc:
		return calc(o, from, in)
	case *Expand:
		return expand(o, from, in)
	case *WindowTVF:
		return windowTVF(o, n, from, in)
	case *GroupAgg:
		if o.Phase == GlobalPhase {
			keys := from.Op.(*GroupAgg).Keys
			from, in = f.in(from, 0)
			return groupAgg(o, keys, from, in)
		}
		return groupAgg(o, o.Keys, from, in)
	case *WindowAgg:
		if o.Phase == GlobalPhase {
			local := from.Op.(*WindowAgg)
			from, in = f.in(from, 0)
			return windowAgg(o, local.Keys, &local.Window, from, in)
		}
		return windowAgg(o, o.Keys, &o.Window, from, in)
	}
	return keeping(n, from, in)
}

// source is a table: what it means for state is the place it reads.
func source(o *Source) made {
	place := placeOf(o.Table)
	m := made{own: text{"Source(", place, ")"}}
	id := hash("table", place)
	format := o.Table.Options["format"]
	if v := o.Table.Options["value.format"]; v != "" {
		format = v
	}
	var base []string
	for _, i := range o.Columns {
		c := o.Table.Columns[i]
		name := "name " + c.Name
		if format == "csv" || format == "raw" {
			name = "place " + strconv.Itoa(i) // such records have no names
		}
		base = append(base, hash("column", id, name, typeText(c.Type)))
	}
	for _, i := range o.Metadata {
		c := o.Table.Metadata[i]
		base = append(base, hash("metadata", id, c.Key, typeText(c.Type)))
	}
	at := func(i int) string { return base[i] }
	for _, e := range o.Project {
		m.out.cols = append(m.out.cols, origin(e, at))
	}
	if o.Project == nil {
		m.out.cols = base
	}
	if o.RowTime >= 0 {
		m.out.time = hash("watermark", id)
		if o.Watermark != nil {
			m.out.time = hash("watermark", id, canon(o.Watermark, func(i int) string { return m.out.cols[i] }))
		}
	}
	m.out.rows = hash("rows", id, format)
	m.out.sources = []string{id}
	return m
}

func values(o *Values, width int) made {
	m := made{own: text{"Values("}}
	for _, row := range o.Rows {
		m.own.add(fmt.Sprint(row))
	}
	m.own.add(")")
	id := hash("values", m.own.String())
	m.out = shape{rows: id, sources: []string{id}}
	for i := range width {
		m.out.cols = append(m.out.cols, hash("column", id, strconv.Itoa(i)))
	}
	return m
}

func calc(o *Calc, from *Node, in shape) made {
	m := made{out: in}
	num := number(exprColumns(append(slices.Clone(o.Project), o.Filter)...), from.Schema)
	at := func(i int) string { return in.cols[i] }
	m.own.add("Calc(")
	m.rows = in.rows
	if o.Filter != nil {
		m.own.add("where ", canon(o.Filter, num.name), "; ")
		m.out.rows = hash("filter", in.rows, canon(o.Filter, at))
		m.rows = m.out.rows
	}
	m.out.cols = nil
	var own []string
	for _, e := range o.Project {
		own = append(own, canon(e, num.name))
		m.out.cols = append(m.out.cols, origin(e, at))
	}
	m.own.add(strings.Join(own, ", "), ")")
	m.used = m.out.cols
	return m
}

func expand(o *Expand, from *Node, in shape) made {
	m := made{out: in, rows: in.rows}
	at := func(i int) string { return in.cols[i] }
	var all [][]string
	var lists []string
	for _, list := range o.Projects {
		num := number(exprColumns(list...), from.Schema)
		var own, cols []string
		for _, e := range list {
			if e == nil {
				own, cols = append(own, "NULL"), append(cols, "NULL")
				continue
			}
			own, cols = append(own, canon(e, num.name)), append(cols, origin(e, at))
		}
		lists = append(lists, "["+strings.Join(own, ", ")+"]")
		all = append(all, cols)
		m.used = append(m.used, cols...)
	}
	m.own = text{"Expand(", strings.Join(lists, ", "), ")"}
	m.out.cols = nil
	for i := range all[0] {
		var parts []string
		for _, cols := range all {
			parts = append(parts, cols[i])
		}
		m.out.cols = append(m.out.cols, hash("expand", parts...))
	}
	m.out.rows = hash("expand", append([]string{in.rows}, m.used...)...)
	return m
}

// union does not mind the order of its inputs.
func (f *fingerprinter) union(n *Node) made {
	ins := make([]shape, len(n.Inputs))
	for i := range n.Inputs {
		_, ins[i] = f.in(n, i)
	}
	slices.SortStableFunc(ins, func(a, b shape) int { return strings.Compare(a.rows, b.rows) })
	m := made{own: text{"Union(", strconv.Itoa(len(ins)), ")"}}
	rows, times := []string{}, []string{}
	for _, in := range ins {
		rows, times = append(rows, in.rows), append(times, in.time)
		m.out.sources = append(m.out.sources, in.sources...)
		m.used = append(m.used, in.cols...)
	}
	for i := range n.Schema.Fields {
		var parts []string
		for _, in := range ins {
			parts = append(parts, in.cols[i])
		}
		if len(slices.Compact(slices.Clone(parts))) == 1 {
			m.out.cols = append(m.out.cols, parts[0]) // the same column of all
			continue
		}
		m.out.cols = append(m.out.cols, hash("union", parts...))
	}
	m.out.rows = hash("union", rows...)
	if n.RowTime >= 0 {
		m.out.time = hash("times", times...)
	}
	m.rows = m.out.rows
	m.out.sources = set(m.out.sources)
	return m
}

// join keeps whole rows of both sides.
func (f *fingerprinter) join(n *Node, o *Join) made {
	ln, left := f.in(n, 0)
	rn, right := f.in(n, 1)
	m := made{out: shape{cols: slices.Concat(left.cols, right.cols), sources: set(slices.Concat(left.sources, right.sources))}}
	m.own.add(o.Kind.String(), " Join(on ")
	var on []string
	for i := range o.LeftKeys {
		eq := "="
		if o.NullSafe != nil && o.NullSafe[i] {
			eq = "IS NOT DISTINCT FROM"
		}
		m.own.add(fmt.Sprintf("#%d %s #%d, ", o.LeftKeys[i], eq, len(left.cols)+o.RightKeys[i]))
		on = append(on, left.cols[o.LeftKeys[i]], eq, right.cols[o.RightKeys[i]])
	}
	if o.Filter != nil {
		m.own.add(canon(o.Filter, func(i int) string { return "#" + strconv.Itoa(i) }), ", ")
		on = append(on, canon(o.Filter, func(i int) string { return m.out.cols[i] }))
	}
	m.own.add("left ", schemaText(ln.Schema), ", right ", schemaText(rn.Schema), ")")
	m.used = append(slices.Clone(m.out.cols), on...)
	m.out.rows = hash("join", append([]string{o.Kind.String(), left.rows, right.rows}, on...)...)
	m.rows = m.out.rows
	return m
}

// late keeps nothing; its rows are those of the aggregation's input.
func (f *fingerprinter) late(n, from *Node) made {
	_, in := f.in(from, 0)
	m := made{own: text{"Late()"}, used: in.cols, rows: hash("late", in.rows, f.shapes[from.ID].time)}
	m.out = shape{rows: m.rows, cols: slices.Clone(in.cols), sources: in.sources}
	for _, c := range n.Schema.Fields[len(in.cols):] {
		m.out.cols = append(m.out.cols, hash("late", from.Label, c.Name))
	}
	return m
}

// revise counts by key and generation.
func revise(o *Revise, from *Node, in shape) made {
	m := made{rows: in.rows, out: shape{rows: in.rows, cols: slices.Clone(in.cols[:o.Columns]), sources: in.sources}}
	m.own.add("Revise(by ", places(o.Keys), " of ", schemaText(types.Schema{Fields: from.Schema.Fields[:o.Columns]}),
		", generation ", strconv.Quote(o.Generation), ")")
	for _, k := range o.Keys {
		m.used = append(m.used, in.cols[k])
	}
	m.used = append(m.used, in.cols[:o.Columns]...)
	for _, c := range o.Metadata {
		m.out.cols = append(m.out.cols, hash("revision", in.rows, ResultColumns[c].Name))
	}
	return m
}

func (f *fingerprinter) sink(n *Node, o *Sink) made {
	_, in := f.in(n, 0)
	place := "the caller"
	if !o.Collect {
		place = placeOf(o.Table)
	}
	m := made{own: text{"Sink(", place, ")"}, used: in.cols, rows: in.rows, out: in}
	for _, k := range slices.Sorted(mapKeys(o.StaticPartition)) {
		m.used = append(slices.Clone(m.used), k+"="+o.StaticPartition[k])
	}
	return m
}

// keeping are the operators whose rows are those of the input, some left out.
func keeping(n, from *Node, in shape) made {
	m := made{out: in, rows: in.rows, used: in.cols}
	all := schemaText(from.Schema)
	at := func(cols []int) []string {
		var out []string
		for _, c := range cols {
			out = append(out, in.cols[c])
		}
		return out
	}
	switch o := n.Op.(type) {
	case *Normalize:
		m.own.add("Normalize(by ", places(o.Keys), " of ", all, ")")
		if o.Versioned {
			m.own.add(fmt.Sprintf(", newest #%d", o.Version))
			if o.Ties != TiesConflict {
				m.own.add(fmt.Sprintf(", ties %d", o.Ties))
			}
		}
		m.out.rows = hash("normalize", append([]string{in.rows}, at(o.Keys)...)...)
		m.used = append(at(o.Keys), in.cols...)
	case *Materialize:
		m.own.add("Materialize(by ", places(o.Keys), " of ", all, ")")
		m.used = append(at(o.Keys), in.cols...)
	case *DropUpdateBefore:
		m.own.add("DropUpdateBefore()")
	case *Sort:
		keys := []string{}
		m.own.add("Sort(by ")
		for _, k := range o.Keys {
			m.own.add(fmt.Sprintf("#%d desc=%t nulls-first=%t, ", k.Col, k.Desc, k.NullsFirst))
			keys = append(keys, fmt.Sprint(in.cols[k.Col], k.Desc, k.NullsFirst))
		}
		m.own.add(fmt.Sprintf("offset %d, limit %d, of %s)", o.Offset, o.Limit, all))
		m.used = append(keys, in.cols...)
		if o.Limit >= 0 || o.Offset > 0 {
			m.out.rows = hash("limit", append([]string{in.rows, fmt.Sprint(o.Offset, o.Limit)}, keys...)...)
		}
	case *Limit:
		m.own.add(fmt.Sprintf("Limit(offset %d, limit %d)", o.Offset, o.Limit))
		m.out.rows = hash("limit", in.rows, fmt.Sprint(o.Offset, o.Limit))
	default:
		panic(fmt.Sprintf("BUG: no fingerprint of %T", n.Op))
	}
	return m
}
