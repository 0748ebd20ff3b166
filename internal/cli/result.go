package cli

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/connector/print"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// maxSorted is how many rows are sorted for a look at some of them.
const maxSorted = 10000

// result keeps what a changelog adds up to: its rows in the order in which they first appeared. A
// row has a place there; an update takes the place of the row it replaces.
type result struct {
	schema types.Schema
	text   *print.Text
	keys   []int          // of an upsert changelog; nil: rows are found by all their values
	finds  bool           // false: there are only inserts, and no row is ever looked for
	limit  int            // of the rows kept, 0: none. The oldest are dropped, a quarter of the limit late.
	order  []plan.SortKey // how rows are shown; nil: by their places

	keep  *vec.Batch // rows as they came, those replaced or deleted among them
	row   []int32    // by place: the row in keep, -1 when it is gone
	same  []int32    // by place: the place before with the same key, -1 for none
	since []int64    // by place: when the row came, ms
	mark  []show.Mark
	// newest is the last place of each key, which is known by a hash of 128 bits.
	newest  map[xxh3.Uint128]int32
	live    int   // places whose row is not gone
	vacant  int32 // the place that the last change has left, if it was a -U, else -1
	dropped int64 // rows that the limit took
	key     []byte
	fresh   []int32 // positions of the batch that are kept
	one     *vec.Batch
}

// newResult keeps the rows of n, a node whose schema, mode and keys are those of the changes.
func newResult(n *plan.Node, text *print.Text) *result {
	r := &result{schema: n.Schema, text: text, finds: !n.Mode.IsInsertOnly(), keep: vec.NewBatch(n.Schema),
		one: vec.NewBatch(n.Schema), newest: map[xxh3.Uint128]int32{}, vacant: -1}
	if !n.Mode.Has(types.UpdateBefore) && len(n.UpsertKeys) > 0 {
		r.keys = n.UpsertKeys[0]
	}
	return r
}

// rows takes the changes of b, which come at nowMs.
func (r *result) rows(b *vec.Batch, nowMs int64) {
	r.fresh = r.fresh[:0]
	if !r.finds {
		r.fresh = append(r.fresh, b.Selected()...)
		for i := range r.fresh {
			r.place(int32(r.keep.N+i), -1, nowMs)
		}
	} else {
		cols := r.text.Columns(b)
		b.Each(func(i int) { r.change(b.Kind(i), i, r.hash(cols, i), nowMs) })
	}
	plain := vec.Batch{N: b.N, Cols: b.Cols}
	r.keep.Gather(&plain, r.fresh)
	r.compact()
}

// hash identifies row i by its key.
func (r *result) hash(cols []*vec.Vec, i int) xxh3.Uint128 {
	r.key = r.key[:0]
	for k, c := range cols {
		if r.keys != nil && !slices.Contains(r.keys, k) {
			continue
		}
		if c.IsNull(i) {
			r.key = append(r.key, 0)
			continue
		}
		r.key = binary.AppendUvarint(r.key, uint64(len(c.Bytes(i)))+1)
		r.key = append(r.key, c.Bytes(i)...)
	}
	return xxh3.Hash128(r.key)
}

func (r *result) change(kind types.RowKind, i int, key xxh3.Uint128, nowMs int64) {
	at, known := r.newest[key]
	vacant := r.vacant
	r.vacant = -1
	if kind.Retracts() {
		switch {
		case known:
			r.remove(key, at)
			if kind == types.UpdateBefore {
				r.vacant = at
			}
		case r.dropped > 0: // it was most likely among those
			r.dropped--
		}
		return
	}
	row := int32(r.keep.N + len(r.fresh))
	r.fresh = append(r.fresh, int32(i))
	switch {
	case known && r.keys != nil:
		r.row[at], r.since[at], r.mark[at] = row, nowMs, show.Changed
	case kind == types.UpdateAfter && vacant >= 0:
		r.row[vacant], r.since[vacant], r.mark[vacant], r.same[vacant] = row, nowMs, show.Changed, -1
		if known {
			r.same[vacant] = at
		}
		r.newest[key] = vacant
		r.live++
	default:
		if !known {
			at = -1
		}
		r.newest[key] = int32(len(r.row))
		r.place(row, at, nowMs)
	}
}

// place gives a new row the next place.
func (r *result) place(row, same int32, nowMs int64) {
	r.row = append(r.row, row)
	r.same = append(r.same, same)
	r.since = append(r.since, nowMs)
	r.mark = append(r.mark, show.Added)
	r.live++
}

// remove empties the newest place of key.
func (r *result) remove(key xxh3.Uint128, at int32) {
	r.row[at] = -1
	r.live--
	if before := r.same[at]; before >= 0 {
		r.newest[key] = before
		return
	}
	delete(r.newest, key)
}

// compact drops rows that are gone when they outnumber the others, and the oldest beyond the limit.
func (r *result) compact() {
	drop := 0
	if r.limit > 0 && r.live > r.limit+r.limit/4 {
		drop = r.live - r.limit
	}
	if n := max(r.keep.N, len(r.row)); drop == 0 && (n < 4096 || r.live*2 > n) {
		return
	}
	r.dropped += int64(drop)
	r.live -= drop
	moved := make([]int32, len(r.row)) // places from old to new, -1: gone
	rows := make([]int32, 0, r.live)
	for p, row := range r.row {
		moved[p] = -1
		switch {
		case row < 0:
		case drop > 0:
			drop--
		default:
			moved[p] = int32(len(rows))
			rows = append(rows, row)
		}
	}
	kept := func(p int32) int32 { // the place p, or the next one of its key that is not gone
		for ; p >= 0; p = r.same[p] {
			if moved[p] >= 0 {
				return moved[p]
			}
		}
		return -1
	}
	for key, p := range r.newest {
		if p = kept(p); p >= 0 {
			r.newest[key] = p
		} else {
			delete(r.newest, key)
		}
	}
	for p, to := range moved {
		if to < 0 {
			continue
		}
		r.since[to], r.mark[to] = r.since[p], r.mark[p]
		r.row[to] = kept(r.same[p]) // of same, for which row has room here
	}
	copy(r.same, r.row[:len(rows)])
	next := vec.NewBatch(r.schema)
	next.Gather(r.keep, rows)
	r.keep = next
	r.row, r.same, r.since, r.mark = r.row[:len(rows)], r.same[:len(rows)], r.since[:len(rows)], r.mark[:len(rows)]
	for p := range r.row {
		r.row[p] = int32(p)
	}
	r.vacant = -1
}

// places returns up to n places that have a row, in the order in which they are shown: the first,
// or the last.
func (r *result) places(n int, last bool) []int32 {
	if r.order != nil && (n >= r.live || r.live <= maxSorted) {
		list := r.sorted()
		if last {
			return list[max(0, len(list)-n):]
		}
		return list[:min(n, len(list))]
	}
	var list []int32
	for i := 0; i < len(r.row) && len(list) < n; i++ {
		p := i
		if last {
			p = len(r.row) - 1 - i
		}
		if r.row[p] >= 0 {
			list = append(list, int32(p))
		}
	}
	if last {
		slices.Reverse(list)
	}
	return list
}

// sorted returns all places that have a row by r.order.
func (r *result) sorted() []int32 {
	list := make([]int32, 0, r.live)
	for p, row := range r.row {
		if row >= 0 {
			list = append(list, int32(p))
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		for _, k := range r.order {
			v := r.keep.Cols[k.Col]
			if c := compareKey(k, v.Value(int(r.row[a])), v.Value(int(r.row[b]))); c != 0 {
				return c
			}
		}
		return 0
	})
	return list
}

// compareKey compares two values as ORDER BY does. Values that it cannot order are equal.
func compareKey(k plan.SortKey, a, b types.Value) int {
	if a == nil || b == nil {
		switch {
		case a == nil && b == nil:
			return 0
		case (a == nil) == k.NullsFirst:
			return -1
		}
		return 1
	}
	c := 0
	switch x := a.(type) {
	case int64:
		c = cmp.Compare(x, b.(int64))
	case float64:
		y := b.(float64)
		if c = cmp.Compare(x, y); x != x || y != y {
			c = -c // NaN is greater than every number
		}
	case string:
		c = strings.Compare(x, b.(string))
	case []byte:
		c = bytes.Compare(x, b.([]byte))
	case types.Int128:
		c = x.Cmp(b.(types.Int128))
	}
	if k.Desc {
		return -c
	}
	return c
}

// some returns up to n rows as text: the first, or the last, those that came at freshMs or later
// with their marks.
func (r *result) some(n int, last bool, freshMs int64) []show.LiveRow {
	places := r.places(n, last)
	rows := make([]int32, len(places))
	out := make([]show.LiveRow, len(places))
	for i, p := range places {
		rows[i] = r.row[p]
		if r.since[p] >= freshMs {
			out[i].Mark = r.mark[p]
		}
	}
	r.one.Reset(0)
	r.one.Gather(r.keep, rows)
	cols := r.text.Columns(r.one)
	for i := range out {
		out[i].Cells = cells(cols, i)
	}
	return out
}

// each gives f all rows, in batches.
func (r *result) each(f func(*vec.Batch) error) error {
	for places := range slices.Chunk(r.places(r.live, false), vec.BatchRows) {
		rows := make([]int32, len(places))
		for i, p := range places {
			rows[i] = r.row[p]
		}
		r.one.Reset(0)
		r.one.Gather(r.keep, rows)
		if err := f(r.one); err != nil {
			return err
		}
	}
	return nil
}

// cells returns the text of row i.
func cells(cols []*vec.Vec, i int) []string {
	out := make([]string, len(cols))
	for k, c := range cols {
		if c.IsNull(i) {
			out[k] = "NULL"
			continue
		}
		out[k] = string(c.Bytes(i))
	}
	return out
}
