package sort

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// window is which rows of a Top are shown: those from first up to and including last, if any. Rows
// that a batch adds have numbers from start on.
type window struct {
	some        bool
	first, last edge
	full        bool // as many are shown as may be
	start       uint64
	touched     bool // something changed that may change what is shown

	came    entries // rows that the batch added, without values, where they may be shown
	left    entries // rows that were shown and that the batch took out
	del, in entries
}

// edge is a row, as it is ordered.
type edge struct {
	head   uint64
	order  []byte
	number uint64
}

func (e *edge) set(l *leaf, r *rec) {
	e.head, e.order, e.number = r.head, append(e.order[:0], l.order(r)...), r.number
}

// entries are copies of rows: l.recs in l.buf.
type entries struct{ l leaf }

func (e *entries) add(head uint64, order []byte, number uint64, value []byte) {
	n := len(order)
	off := uint32(len(e.l.buf))
	e.l.buf = append(e.l.buf, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	e.l.buf = append(append(e.l.buf, order...), value...)
	e.l.recs = append(e.l.recs, rec{head, number, off, uint32(len(e.l.buf)) - off})
}

// reset takes all out, and gives back what many have taken.
func (e *entries) reset() {
	if cap(e.l.buf) > 1<<20 {
		e.l = leaf{}
	}
	e.l.recs, e.l.buf = e.l.recs[:0], e.l.buf[:0]
}

// beyond reports whether a row of the given order comes behind those that are shown, of which there is
// no lack.
func (o *Top) beyond(head uint64, order []byte, number uint64) bool {
	return o.full && o.order3(&o.last, head, order, number) < 0
}

// order3 compares e and a row.
func (o *Top) order3(e *edge, head uint64, order []byte, number uint64) int {
	if c := cmp.Compare(e.head, head); c != 0 {
		return c
	}
	if c := bytes.Compare(e.order, order); c != 0 {
		return c
	}
	return cmp.Compare(e.number, number)
}

// cameIn notes a row of the order o.order that was added.
func (o *Top) cameIn(head, number uint64) {
	if o.beyond(head, o.order, number) {
		return
	}
	o.touched = true
	o.came.add(head, o.order, number, nil)
}

// wentOut notes a row that is about to be taken out.
func (o *Top) wentOut(head uint64, order []byte, number uint64, value []byte) {
	if o.beyond(head, order, number) {
		return
	}
	o.touched = true
	if o.some && number < o.start && o.order3(&o.first, head, order, number) <= 0 {
		o.left.add(head, order, number, value)
	}
}

// span is the rows from a place up to another.
type span struct{ from, to where }

func before(a, b where) bool { return a.leaf < b.leaf || a.leaf == b.leaf && a.pos < b.pos }

func earlier(a, b where) where {
	if before(b, a) {
		return b
	}
	return a
}

func later(a, b where) where {
	if before(a, b) {
		return b
	}
	return a
}

// was is where the rows are that were shown, but for those that are gone; others may lie between them.
func (o *Top) was(now span) span {
	if !o.some {
		return span{now.from, now.from}
	}
	from, _ := o.rows.find(o.first.head, o.first.order, o.first.number)
	if o.limit >= anyNumber {
		return span{from, where{len(o.rows.leaves), 0}}
	}
	to, ok := o.rows.find(o.last.head, o.last.order, o.last.number)
	if ok {
		to = o.rows.next(to)
	}
	return span{from, to}
}

// are is where the rows are that are to be shown.
func (o *Top) are() span {
	to := where{len(o.rows.leaves), 0}
	if o.limit < anyNumber {
		to = o.rows.nth(o.room())
	}
	return span{o.rows.nth(o.offset), to}
}

// show emits the difference between the rows shown and those that are to be.
func (o *Top) show(stamp int64) error {
	if !o.touched {
		return nil
	}
	if err := o.fill(); err != nil {
		return err
	}
	o.touched = false
	now := o.are()
	was := o.was(now)
	o.del.reset()
	o.in.reset()
	o.walk(span{was.from, earlier(was.to, now.from)}, o.start, &o.del)
	o.walk(span{later(was.from, now.to), was.to}, o.start, &o.del)
	for i := range o.left.l.recs {
		r := &o.left.l.recs[i]
		o.del.add(r.head, o.left.l.order(r), r.number, o.left.l.value(r))
	}
	o.walk(span{now.from, earlier(now.to, was.from)}, o.log.next, &o.in)
	o.walk(span{later(now.from, was.to), now.to}, o.log.next, &o.in)
	from, to := later(now.from, was.from), earlier(now.to, was.to)
	for i := range o.came.l.recs {
		r := &o.came.l.recs[i]
		at, ok := o.rows.find(r.head, o.came.l.order(r), r.number)
		if ok && !before(at, from) && before(at, to) {
			l, r := o.rows.at(at)
			o.in.add(r.head, l.order(r), r.number, l.value(r))
		}
	}
	o.came.reset()
	o.left.reset()
	o.mark(now)
	o.batch.Reset(0)
	if err := o.emit(&o.del, types.Delete, stamp); err != nil {
		return err
	}
	if err := o.emit(&o.in, types.Insert, stamp); err != nil {
		return err
	}
	if o.batch.N == 0 {
		return nil
	}
	return o.out.Emit(o.batch)
}

// walk adds the rows of s to e whose numbers are below the given one.
func (o *Top) walk(s span, below uint64, e *entries) {
	for at := s.from; before(at, s.to); at = o.rows.next(at) {
		if l, r := o.rows.at(at); r.number < below {
			e.add(r.head, l.order(r), r.number, l.value(r))
		}
	}
}

// mark takes the rows of s for shown.
func (o *Top) mark(s span) {
	o.some = before(s.from, s.to)
	o.full = o.limit < anyNumber && int64(o.rows.n) >= o.room()
	if !o.some {
		o.full = false
		return
	}
	l, r := o.rows.at(s.from)
	o.first.set(l, r)
	if o.limit < anyNumber {
		l, r = o.rows.at(o.rows.prev(s.to))
		o.last.set(l, r)
	}
}

// emit emits rows in their order, the last of them when there are more.
func (o *Top) emit(e *entries, kind types.RowKind, stamp int64) error {
	slices.SortFunc(e.l.recs, func(a, b rec) int { return -o.rows.compare(&e.l, &b, a.head, e.l.order(&a), a.number) })
	for i := range e.l.recs {
		if err := decodeRow(e.l.value(&e.l.recs[i]), o.schema, o.batch); err != nil {
			return err
		}
		n := o.batch.N
		o.batch.Kinds = append(o.batch.Kinds[:n-1], kind)
		o.batch.Stamps = append(o.batch.Stamps, stamp)
		if n == vec.BatchRows {
			if err := o.out.Emit(o.batch); err != nil {
				return err
			}
			o.batch.Reset(0)
		}
	}
	return nil
}
