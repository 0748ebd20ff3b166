package sort

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Top keeps rows in order and shows those from offset up to offset+limit, as a changelog: after
// each batch, -D for the rows that left, then +I for those that came in. Of rows that nobody takes back
// it keeps only those that may still show; of a changelog all of them.
//
// Where memory is short, rows of a changelog behind those that are shown are left to the store, in
// which they lie in their order: top_spill.go. What is shown, and what OFFSET leaves out, stays.
type Top struct {
	keys          []plan.SortKey
	offset, limit int64
	schema        types.Schema
	changing      bool // rows may be taken back, so all are kept
	c             *op.Context
	out           op.Output
	rows          shelf // those in memory
	index         shelf // of rows, by what they are made of: where changing
	batch         *vec.Batch
	order, value  []byte // of the row that is looked at
	log           log
	goneIndex     []byte // keys of saved entries of the index that are not there any more
	window
	topSpill
}

// anyNumber is the limit where there is none.
const anyNumber = 1 << 62

func newTop(keys []plan.SortKey, offset, limit int64, s types.Schema, changing bool) *Top {
	o := &Top{keys: keys, offset: offset, limit: limit, schema: s, changing: changing, batch: vec.NewBatch(s)}
	o.rows.single = len(keys) == 0
	if len(keys) == 1 {
		switch s.Fields[keys[0].Col].Type.Phys() {
		case types.PBool, types.PI32, types.PI64, types.PF32, types.PF64:
			o.rows.short = true
		}
	}
	o.index.single = true
	return o
}

// Open implements op.Operator.
func (o *Top) Open(c *op.Context, out op.Output) error {
	o.c, o.out = c, out
	var keys []plan.SortKey
	if o.changing {
		keys = o.keys
	}
	o.log.open(c, keys)
	if o.log.on && o.changing && c.Spill != nil {
		o.spill, o.filter = c.Spill, state.NewFilter(c.Budget.NewMemory())
		o.spill.Attach(o)
	}
	return nil
}

// room is how many rows may show, or come before those, at most.
func (o *Top) room() int64 {
	if o.limit >= anyNumber-o.offset {
		return anyNumber
	}
	return o.offset + o.limit
}

// Process implements op.Operator.
func (o *Top) Process(_ int, b *vec.Batch) error {
	if err := o.prepare(b); err != nil {
		return err
	}
	o.start = o.log.next
	dropped, stale := 0, 0
	rows := b.Selected()
	for _, i := range rows {
		i := int(i)
		switch {
		case b.Kinds != nil && b.Kinds[i].Retracts():
			if !o.remove(b, i) {
				stale++
			}
		case o.behind(b, i):
			dropped++
		default:
			dropped += o.insert(b, i)
		}
	}
	stamp := int64(vec.MinTime)
	if len(rows) > 0 {
		stamp = b.Stamp(int(rows[len(rows)-1]))
	}
	if o.c.Counters != nil {
		if dropped > 0 {
			o.c.Counters.Drop(op.DropLimit, dropped)
		}
		if stale > 0 {
			o.c.Counters.Drop(op.DropStale, stale)
		}
	}
	o.count()
	return o.show(stamp)
}

func (o *Top) count() {
	if o.c.Counters != nil {
		o.c.Counters.StateEntries.Store(int64(o.rows.n + o.coldRows))
	}
}

// behind reports whether row i of b comes behind as many rows as are kept, where that is seen at a glance.
func (o *Top) behind(b *vec.Batch, i int) bool {
	if o.changing || o.rows.n == 0 || int64(o.rows.n) < o.room() {
		return false
	}
	head, ok := glance(o.keys[0], b.Cols[o.keys[0].Col], i)
	l := o.rows.leaves[len(o.rows.leaves)-1]
	return ok && head > l.recs[len(l.recs)-1].head
}

// glance is headOf of the order of row i by the key k, where it is found easily.
func glance(k plan.SortKey, v *vec.Vec, i int) (head uint64, ok bool) {
	if v.Valid != nil && v.IsNull(i) {
		return 0, false
	}
	switch v.Phys {
	case types.PI32:
		head = uint64(uint32(v.I32[i])^1<<31) << 32
	case types.PI64:
		head = uint64(v.I64[i]) ^ 1<<63
	case types.PF64:
		head = orderedFloat(v.F64[i])
	default:
		return 0, false
	}
	if k.Desc {
		head = ^head
		if v.Phys == types.PI32 {
			head &^= math.MaxUint32
		}
	}
	return head, true
}

// insert adds row i of b and returns how many rows that may not show any more were left out for it.
func (o *Top) insert(b *vec.Batch, i int) (dropped int) {
	o.order = appendOrder(o.order[:0], o.keys, b.Cols, i)
	head := headOf(o.order)
	full := !o.changing && int64(o.rows.n) >= o.room()
	if full {
		if o.rows.n == 0 {
			return 1
		}
		if l, r := o.rows.at(o.rows.last()); o.rows.compare(l, r, head, o.order, o.log.next) < 0 {
			return 1
		}
	}
	o.value = appendRow(o.value[:0], b.Cols, i)
	n := o.log.number()
	o.rows.insert(head, o.order, n, o.value, o.log.on)
	if o.changing {
		o.index.insert(xxh3.Hash128(o.value).Hi, nil, n, nil, false)
	}
	o.cameIn(head, n)
	if full {
		o.takeOut(o.rows.last())
		dropped = 1
	}
	return dropped
}

// appendRow appends what is saved of row i: see rowState.
func appendRow(dst []byte, cols []*vec.Vec, i int) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, 1), uint32(types.Insert))
	for _, c := range cols {
		dst = state.AppendValue(dst, c, i)
	}
	return dst
}

// remove takes out the first row that equals row i of b.
func (o *Top) remove(b *vec.Batch, i int) bool {
	if !o.changing {
		return false // the plan says that there are none
	}
	o.order = appendOrder(o.order[:0], o.keys, b.Cols, i)
	o.value = appendRow(o.value[:0], b.Cols, i)
	sum, head := xxh3.Hash128(o.value), headOf(o.order)
	number, in := uint64(math.MaxUint64), where{}
	for at, _ := o.index.find(sum.Hi, nil, 0); !o.index.end(at); at = o.index.next(at) {
		_, x := o.index.at(at)
		if x.head != sum.Hi {
			break
		}
		at, ok := o.rows.find(head, o.order, x.number)
		if !ok {
			continue
		}
		if l, r := o.rows.at(at); bytes.Equal(l.value(r), o.value) {
			number, in = x.number, at
			break
		}
	}
	switch n, ok := o.claim(sum, number); {
	case ok:
		o.takeCold(sum, head, n)
	case number < math.MaxUint64:
		o.takeOut(in)
	default:
		return false
	}
	return true
}

// takeOut takes a row in memory out.
func (o *Top) takeOut(at where) {
	l, r := o.rows.at(at)
	o.wentOut(r.head, l.order(r), r.number, l.value(r))
	o.forget(l.order(r), r.number, l.value(r))
	if o.changing {
		o.unindex(l, r)
	}
	o.rows.remove(at)
}

// unindex takes a row in memory out of the index.
func (o *Top) unindex(l *leaf, r *rec) {
	at, ok := o.index.find(xxh3.Hash128(l.value(r)).Hi, nil, r.number)
	if !ok {
		panic("BUG: a row is not in the index")
	}
	o.index.remove(at)
}

// forget notes that a row is not kept any more.
func (o *Top) forget(order []byte, number uint64, value []byte) {
	if !o.log.on || number >= o.log.frozen {
		return
	}
	at := len(o.log.gone)
	o.log.gone = o.saveKey(append(o.log.gone, 0, 0, 0, 0), order, number)
	binary.LittleEndian.PutUint32(o.log.gone[at:], uint32(len(o.log.gone)-at-4))
	o.log.n++
	if o.changing {
		o.goneIndex = appendIndexKey(o.goneIndex, xxh3.Hash128(value), number)
	}
	if o.spill != nil {
		o.bury(number)
	}
}

// Watermark implements op.Operator.
func (o *Top) Watermark(wm int64) error { return o.out.Watermark(wm) }

// Finish implements op.Operator.
func (o *Top) Finish() error { return nil }

// Close implements op.Operator.
func (o *Top) Close() error {
	if o.spill != nil {
		o.tell(0)
		o.filter.Reset()
		o.spill.Detach(o)
	}
	return nil
}
