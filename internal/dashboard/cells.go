package dashboard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// finalColumn is a column that rows of cells may have besides those of their table: whether the row is final.
// No table has a column of this name.
const finalColumn = "\x00final"

// cells are the newest rows of the keys of a table of results, in memory: one row a key, in columns. How many
// keys there are is bounded: the ones that were there first go first. Whoever has cells locks them.
type cells struct {
	table    *connector.Table
	schema   types.Schema
	limit    int   // keys
	maxBytes int64 // of rows; once they are reached no key is added without another one going. 0: no bound
	key      []int // columns
	rev      int
	deleted  int // -1: none
	text     []expr.Appender

	rows    *vec.Batch // one row a slot
	index   map[string]int32
	keys    []string // by slot
	next    int      // slot to give away next once all are taken
	stale   int      // rows written over since the vectors were last made anew
	dropped int64
	scratch []byte
}

// newCells makes room for rows of t; further columns may be part of the key.
func newCells(t *connector.Table, limit int, key ...string) cells {
	s := t.Schema()
	c := cells{table: t, schema: s, limit: limit, rev: s.Index(t.Results.Column["revision"]), deleted: -1, rows: vec.NewBatch(s), index: map[string]int32{}}
	if name := t.Results.Column["is_deleted"]; name != "" {
		c.deleted = s.Index(name)
	}
	for _, k := range slices.Concat(t.Results.Key, key) {
		c.key = append(c.key, s.Index(k))
	}
	for _, f := range s.Fields {
		c.text = append(c.text, expr.TextOf(f.Type, nil))
	}
	return c
}

// find looks for the slot of the key of row i of b, and leaves the key in scratch.
func (c *cells) find(b *vec.Batch, i int) (slot int32, ok bool) {
	c.scratch = c.scratch[:0]
	for _, k := range c.key {
		c.scratch = appendKey(c.scratch, b.Cols[k], i)
	}
	slot, ok = c.index[string(c.scratch)]
	return slot, ok
}

// add gives the key that find has left a slot: one more, or that of the key that has been there longest.
func (c *cells) add() int32 {
	key := string(c.scratch)
	slot := c.rows.N
	if slot < c.limit {
		c.rows.N++
		for _, v := range c.rows.Cols {
			v.Resize(c.rows.N)
		}
		c.keys = append(c.keys, key)
	} else {
		slot = c.next
		c.next = (c.next + 1) % c.limit
		delete(c.index, c.keys[slot])
		c.keys[slot] = key
		c.dropped++
		c.stale++
	}
	c.index[key] = int32(slot)
	return int32(slot)
}

// put writes row i of b into a slot.
func (c *cells) put(slot int32, b *vec.Batch, i int) {
	for k, v := range c.rows.Cols {
		v.Set(int(slot), b.Cols[k], i)
	}
}

// tidy makes the vectors anew where much was written over, so that texts that were leave memory. It is called
// after each batch.
func (c *cells) tidy() {
	full := c.maxBytes > 0 && c.rows.Bytes() > c.maxBytes
	if c.stale > c.rows.N+1024 || full && c.stale > c.rows.N/4 {
		fresh := vec.NewBatch(c.schema)
		fresh.Gather(c.rows, vec.Positions(c.rows.N))
		c.rows, c.stale = fresh, 0
		full = c.maxBytes > 0 && c.rows.Bytes() > c.maxBytes
	}
	if full && c.rows.N > 0 {
		c.limit = min(c.limit, c.rows.N)
	}
}

// query answers q. final says of a slot whether its row is final; the rows have a column more for it then.
func (c *cells) query(q *results.Query, final func(slot int) bool) (*results.Rows, error) {
	if q.History {
		return nil, fmt.Errorf("memory holds the newest revision of each key only; ask the target for the history of table %s", c.table.Name)
	}
	at, err := c.slots(q)
	if err != nil {
		return nil, err
	}
	if len(q.Group) > 0 || len(q.Sums) > 0 {
		out, err := c.group(at, q, final)
		if err == nil {
			err = order(out, q.Order)
		}
		if q.Limit > 0 && err == nil {
			out.Rows = out.Rows[:min(q.Limit, len(out.Rows))]
		}
		return out, err
	}
	if err := c.sort(at, q.Order); err != nil {
		return nil, err
	}
	if q.Limit > 0 {
		at = at[:min(q.Limit, len(at))]
	}
	out := &results.Rows{Columns: c.table.Columns, Rows: make([][]any, 0, len(at))}
	if final != nil {
		out.Columns = append(slices.Clip(out.Columns), types.Field{Name: finalColumn, Type: types.BooleanType})
	}
	for _, slot := range at {
		row := make([]any, len(c.rows.Cols), len(out.Columns))
		for k := range c.rows.Cols {
			row[k] = c.value(k, int(slot))
		}
		if final != nil {
			row = append(row, final(int(slot)))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// slots are those of the rows that q asks for.
func (c *cells) slots(q *results.Query) ([]int32, error) {
	gen, start := -1, -1
	if name := c.table.Results.Column["generation"]; name != "" && q.Generation != "" {
		gen = c.schema.Index(name)
	}
	if name := c.table.Results.WindowStart; name != "" && (q.From != vec.MinTime || q.To != vec.MaxTime) {
		start = c.schema.Index(name)
	}
	where := map[int]string{}
	for k, v := range q.Where {
		i := c.schema.Index(k)
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %s", c.table.Name, k)
		}
		where[i] = v
	}
	cols := c.rows.Cols
	var out []int32
next:
	for i := range c.rows.N {
		if c.deleted >= 0 && !q.Deleted && !cols[c.deleted].IsNull(i) && cols[c.deleted].Bool[i] {
			continue
		}
		if gen >= 0 && string(cols[gen].Bytes(i)) != q.Generation {
			continue
		}
		if start >= 0 {
			if ms, ok := c.ms(start, i); !ok || ms < q.From || q.To != vec.MaxTime && ms >= q.To {
				continue
			}
		}
		for k, want := range where {
			if v := c.value(k, i); v == nil || textOf(v) != want {
				continue next
			}
		}
		out = append(out, int32(i))
	}
	return out, nil
}

// ms is the point in time in column k of a slot; false where there is none.
func (c *cells) ms(k, slot int) (int64, bool) {
	v := c.rows.Cols[k]
	if v.Type.IsTimestamp() {
		if v.IsNull(slot) {
			return 0, false
		}
		ms, _ := expr.TimestampAt(v, slot)
		return ms, true
	}
	return msOf(c.value(k, slot))
}

// value is column k of a slot as results.Rows has it.
func (c *cells) value(k, slot int) any { return cellOf(c.rows.Cols[k], slot, c.text[k]) }

// sort sorts slots by columns, "-" before those that descend.
func (c *cells) sort(at []int32, by []string) error {
	type column struct {
		v    *vec.Vec
		k    int
		sign int
	}
	var cols []column
	for _, n := range by {
		name, desc := cutDesc(n)
		k := c.schema.Index(name)
		if k < 0 {
			return noOrder(name)
		}
		cols = append(cols, column{c.rows.Cols[k], k, desc})
	}
	slices.SortStableFunc(at, func(a, b int32) int {
		for _, x := range cols {
			if n := c.compare(x.v, x.k, int(a), int(b)); n != 0 {
				return n * x.sign
			}
		}
		return 0
	})
	return nil
}

// compare orders two values of a column; NULL comes first.
func (c *cells) compare(v *vec.Vec, k, a, b int) int {
	if an, bn := v.IsNull(a), v.IsNull(b); an || bn {
		switch {
		case an && bn:
			return 0
		case an:
			return -1
		}
		return 1
	}
	switch v.Phys {
	case types.PI32:
		return cmp.Compare(v.I32[a], v.I32[b])
	case types.PI64:
		return cmp.Compare(v.I64[a], v.I64[b])
	case types.PI128:
		return cmp.Or(cmp.Compare(v.I128[a].Hi, v.I128[b].Hi), cmp.Compare(v.I128[a].Lo, v.I128[b].Lo))
	case types.PF32:
		return cmp.Compare(v.F32[a], v.F32[b])
	case types.PF64:
		return cmp.Compare(v.F64[a], v.F64[b])
	case types.PBytes:
		return bytes.Compare(v.Bytes(a), v.Bytes(b))
	}
	return compareValues(c.value(k, a), c.value(k, b))
}

// group adds rows up.
func (c *cells) group(at []int32, q *results.Query, final func(slot int) bool) (*results.Rows, error) {
	out := &results.Rows{}
	var by, of []int
	for _, g := range q.Group {
		k := c.schema.Index(g)
		if k < 0 {
			return nil, fmt.Errorf("table %s has no column %s", c.table.Name, g)
		}
		by, out.Columns = append(by, k), append(out.Columns, c.schema.Fields[k])
	}
	for _, x := range q.Sums {
		k, t := c.schema.Index(x.Column), types.BooleanType
		switch {
		case k >= 0:
			t = c.schema.Fields[k].Type
		case x.Column != finalColumn || final == nil:
			return nil, fmt.Errorf("table %s has no column %s", c.table.Name, x.Column)
		}
		switch x.Fn {
		case "count":
			t = types.BigIntType
		case "avg":
			t = types.DoubleType
		}
		of, out.Columns = append(of, k), append(out.Columns, types.Field{Name: x.Fn + "_" + x.Column, Type: t})
	}
	type pile struct {
		row  []any
		sums []adder
	}
	piles := map[string]*pile{}
	var list []*pile
	for _, slot := range at {
		i := int(slot)
		c.scratch = c.scratch[:0]
		for _, k := range by {
			c.scratch = c.appendGroup(c.scratch, k, i)
		}
		p := piles[string(c.scratch)]
		if p == nil {
			p = &pile{sums: make([]adder, len(of))}
			for j := range of {
				p.sums[j].fn = q.Sums[j].Fn
			}
			for _, k := range by {
				p.row = append(p.row, c.value(k, i))
			}
			piles[string(c.scratch)] = p
			list = append(list, p)
		}
		for j, k := range of {
			var v any
			switch {
			case k < 0:
				v = final(i)
			case q.Sums[j].Fn == "count":
				v = int64(0)
				if !c.rows.Cols[k].IsNull(i) {
					v = int64(1)
				}
			default:
				v = c.value(k, i)
			}
			p.sums[j].add(v, 1)
		}
	}
	for _, p := range list {
		for j := range p.sums {
			p.row = append(p.row, p.sums[j].result())
		}
		out.Rows = append(out.Rows, p.row)
	}
	return out, nil
}

// appendGroup appends what tells a value of column k from others.
func (c *cells) appendGroup(dst []byte, k, slot int) []byte {
	if hasKey(c.rows.Cols[k].Phys) {
		return appendKey(dst, c.rows.Cols[k], slot)
	}
	return append(append(dst, textOf(c.value(k, slot))...), 0)
}

// generation is what the rows of a generation add up to; with "", those of all.
func (c *cells) generation(name string) (results.Generation, error) {
	g := results.Generation{Name: name, FirstWindow: math.MaxInt64, LastWindow: math.MinInt64}
	at, err := c.slots(&results.Query{Generation: name, From: vec.MinTime, To: vec.MaxTime})
	if err != nil {
		return g, err
	}
	start := -1
	if name := c.table.Results.WindowStart; name != "" {
		start = c.schema.Index(name)
	}
	for _, slot := range at {
		g.Keys++
		g.Revisions += revisionAt(c.rows.Cols[c.rev], int(slot))
		if start >= 0 {
			if ms, ok := c.ms(start, int(slot)); ok {
				g.FirstWindow, g.LastWindow = min(g.FirstWindow, ms), max(g.LastWindow, ms)
			}
		}
	}
	return g, nil
}

// hasKey reports whether appendKey knows values of that kind.
func hasKey(p types.Phys) bool {
	switch p {
	case types.PBool, types.PI32, types.PI64, types.PI128, types.PF32, types.PF64, types.PBytes:
		return true
	}
	return false
}

// appendKey appends what tells value i of v from others.
func appendKey(dst []byte, v *vec.Vec, i int) []byte {
	if v.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	case types.PI32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.I32[i]))
	case types.PI64:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.I64[i]))
	case types.PI128:
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v.I128[i].Hi))
		return binary.LittleEndian.AppendUint64(dst, v.I128[i].Lo)
	case types.PF32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.F32[i]))
	case types.PF64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.F64[i]))
	case types.PBytes:
		b := v.Bytes(i)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b)))
		return append(dst, b...)
	}
	panic(fmt.Sprintf("BUG: a key of type %s", v.Type))
}

func revisionAt(v *vec.Vec, i int) int64 {
	switch v.Phys {
	case types.PI64:
		return v.I64[i]
	case types.PI32:
		return int64(v.I32[i])
	}
	return 0
}

// cellOf is value i of v as results.Rows has it.
func cellOf(v *vec.Vec, i int, text expr.Appender) any {
	if v.IsNull(i) {
		return nil
	}
	switch v.Type.Kind {
	case types.Boolean, types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double:
		return v.Value(i)
	case types.Timestamp, types.TimestampLTZ:
		ms, nanos := expr.TimestampAt(v, i)
		return time.UnixMilli(ms).Add(time.Duration(nanos)).UTC()
	case types.Char, types.VarChar:
		return string(v.Bytes(i))
	case types.Binary, types.VarBinary:
		return fmt.Sprintf("%x", v.Bytes(i))
	}
	return string(text(nil, v, i))
}

// order sorts rows by columns, "-" before those that descend.
func order(r *results.Rows, by []string) error {
	type column struct{ at, sign int }
	var cols []column
	s := types.Schema{Fields: r.Columns}
	for _, n := range by {
		name, sign := cutDesc(n)
		i := s.Index(name)
		if i < 0 {
			return noOrder(name)
		}
		cols = append(cols, column{i, sign})
	}
	slices.SortStableFunc(r.Rows, func(a, b []any) int {
		for _, c := range cols {
			if x := compareValues(a[c.at], b[c.at]); x != 0 {
				return x * c.sign
			}
		}
		return 0
	})
	return nil
}

// cutDesc takes a column to sort by apart: its name, and -1 where it descends.
func cutDesc(n string) (name string, sign int) {
	if len(n) > 1 && n[0] == '-' {
		return n[1:], -1
	}
	return n, 1
}

func noOrder(name string) error {
	return fmt.Errorf("rows cannot be sorted by %s, which they do not have", name)
}
