package join

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// chunk is how many pairs are looked at at once.
const chunk = vec.BatchRows

// pairs are candidates: the position of a row of the batch and a record of the other side. A
// record of 0 ends the pairs of a row.
type pairs struct {
	pos  []int32
	rank []int32
	rec  []uint32
}

func (p *pairs) reset() { p.pos, p.rank, p.rec = p.pos[:0], p.rank[:0], p.rec[:0] }

func (p *pairs) add(pos, rank int32, rec uint32) {
	p.pos, p.rank, p.rec = append(p.pos, pos), append(p.rank, rank), append(p.rec, rec)
}

// What a result is made of.
const (
	joined      = iota // a row of the batch and a record
	ownPadded          // a row of the batch and NULLs
	otherPadded        // NULLs and a record
)

// results are rows to emit.
type results struct {
	pos     []int32
	rec     []uint32
	what    []uint8
	kinds   []types.RowKind
	deletes bool
	padded  bool
}

func (m *results) reset() {
	m.pos, m.rec, m.what, m.kinds = m.pos[:0], m.rec[:0], m.what[:0], m.kinds[:0]
	m.deletes, m.padded = false, false
}

func (m *results) add(retract bool, pos int32, rec uint32, what uint8) {
	kind := types.Insert
	if retract {
		kind, m.deletes = types.Delete, true
	}
	m.padded = m.padded || what != joined
	m.pos, m.rec, m.what, m.kinds = append(m.pos, pos), append(m.rec, rec), append(m.what, what), append(m.kinds, kind)
}

// join pairs the rows of b with the rows of their keys on the other side.
func (o *Join) join(own, other *side, in int, b *vec.Batch) error {
	// Keys become the first of their rows in a pass of its own, whose cache misses overlap.
	for k, key := range o.others {
		if key != 0 && !o.skip[k] {
			o.others[k] = other.bag.Head(key)
		}
	}
	if o.filter == nil && !own.outer && !other.outer {
		return o.joinInner(own, other, in, b)
	}
	o.pairs.reset()
	o.made.reset()
	o.matches = 0
	for k, r := range o.rows {
		if o.skip[k] {
			continue
		}
		more := o.more != nil && o.more[k]
		if more {
			o.others[k] = other.bag.HeadOf(own.keyEnc, k)
		}
		for rec := o.others[k]; rec != 0; rec = other.bag.Next(rec) {
			if other.expired(rec, o.now) {
				continue
			}
			o.pairs.add(r, int32(k), rec)
			if len(o.pairs.pos) >= chunk {
				if err := o.judgePairs(own, other, in, b); err != nil {
					return err
				}
			}
		}
		if more {
			if err := o.rest(own, other, in, b, k); err != nil {
				return err
			}
		}
		if own.outer {
			o.pairs.add(r, int32(k), 0)
		}
	}
	if err := o.judgePairs(own, other, in, b); err != nil {
		return err
	}
	return o.emit(in, b)
}

// rest joins row k with the rows of its key that are in the store only, after those in memory. They
// leave again when they are joined, so nothing may point to them then.
func (o *Join) rest(own, other *side, in int, b *vec.Batch, k int) error {
	r := o.rows[k]
	return other.bag.Rest(own.keyEnc, k, func(recs []uint32) error {
		for _, rec := range recs {
			if other.expired(rec, o.now) {
				continue
			}
			o.pairs.add(r, int32(k), rec)
			if len(o.pairs.pos) >= chunk {
				if err := o.judgePairs(own, other, in, b); err != nil {
					return err
				}
			}
		}
		if err := o.judgePairs(own, other, in, b); err != nil {
			return err
		}
		return o.emit(in, b)
	})
}

// joinInner is join where every pair is a result and nothing is counted.
func (o *Join) joinInner(own, other *side, in int, b *vec.Batch) error {
	o.made.reset()
	for k, r := range o.rows {
		rec := o.others[k]
		if o.skip[k] || rec == 0 && o.more == nil {
			continue
		}
		retract := b.Kinds != nil && b.Kinds[r].Retracts()
		more := o.more != nil && o.more[k]
		if more {
			rec = other.bag.HeadOf(own.keyEnc, k)
		}
		for rec != 0 {
			w := other.row(rec)
			if other.expired(rec, o.now) {
				rec = uint32(w[linkAt] >> 32)
				continue
			}
			for range w[countAt] {
				o.made.add(retract, r, rec, joined)
				if len(o.made.pos) >= chunk {
					if err := o.emit(in, b); err != nil {
						return err
					}
				}
			}
			rec = uint32(w[linkAt] >> 32)
		}
		if more {
			if err := o.restInner(own, other, in, b, k, retract); err != nil {
				return err
			}
		}
	}
	return o.emit(in, b)
}

// restInner is rest for joinInner.
func (o *Join) restInner(own, other *side, in int, b *vec.Batch, k int, retract bool) error {
	r := o.rows[k]
	return other.bag.Rest(own.keyEnc, k, func(recs []uint32) error {
		for _, rec := range recs {
			if other.expired(rec, o.now) {
				continue
			}
			if err := o.repeat(other.row(rec)[countAt], in, b, retract, r, rec, joined); err != nil {
				return err
			}
		}
		return o.emit(in, b)
	})
}

// judgePairs turns the pairs that meet the condition into results.
func (o *Join) judgePairs(own, other *side, in int, b *vec.Batch) error {
	p := &o.pairs
	if len(p.pos) == 0 {
		return nil
	}
	if err := o.choose(other, in, b); err != nil {
		return err
	}
	at := 0
	for i, rec := range p.rec {
		r := p.pos[i]
		retract := b.Kinds != nil && b.Kinds[r].Retracts()
		if rec == 0 {
			o.endRow(own, retract, r, o.recs[p.rank[i]])
		} else if o.filter == nil || at < len(o.sel) && int(o.sel[at]) == i {
			at++
			if err := o.match(other, in, b, retract, r, rec); err != nil {
				return err
			}
		}
		if len(o.made.pos) >= chunk {
			if err := o.emit(in, b); err != nil {
				return err
			}
		}
	}
	p.reset()
	return nil
}

// choose sets sel to the pairs that meet the condition.
func (o *Join) choose(other *side, in int, b *vec.Batch) error {
	if o.filter == nil {
		return nil
	}
	p := &o.pairs
	o.picks = o.picks[:0]
	for i, rec := range p.rec {
		if rec != 0 {
			o.picks = append(o.picks, int32(i))
		}
	}
	o.sel = o.sel[:0]
	if len(o.picks) == 0 {
		return nil
	}
	o.fill(o.judge, in, b, p.pos, p.rec)
	o.judge.Sel = o.picks
	o.fctx.Batch, o.fctx.Errs = o.judge, o.fctx.Errs[:0]
	o.sel = o.filter.Select(&o.fctx, o.judge, o.sel)
	if len(o.fctx.Errs) > 0 {
		return o.refuse(o.fctx.Errs)
	}
	return nil
}

// refuse hands pairs whose condition cannot be computed to the dead-letter handling; they do not
// match.
func (o *Join) refuse(errs []expr.RowError) error {
	bad := map[int32]bool{}
	for _, e := range errs {
		if bad[int32(e.Row)] {
			continue
		}
		bad[int32(e.Row)] = true
		if err := o.ctx.BadRow(o.judge, e.Row, e.Pos, e.Err); err != nil {
			return err
		}
	}
	keep := o.sel[:0]
	for _, i := range o.sel {
		if !bad[i] {
			keep = append(keep, i)
		}
	}
	o.sel = keep
	return nil
}

// match makes the results of a row and a record that match.
func (o *Join) match(other *side, in int, b *vec.Batch, retract bool, r int32, rec uint32) error {
	w := other.row(rec)
	n := w[countAt]
	o.matches += n
	first, last := false, false
	if other.outer {
		o.touch(other, rec)
		if other.ttlMs > 0 {
			*other.word(rec, usedAt) = uint64(o.now)
		}
		if retract {
			w[matchAt]--
			last = w[matchAt] == 0
		} else {
			first = w[matchAt] == 0
			w[matchAt]++
		}
	}
	show := !o.ctx.BatchMode
	if first && show {
		if err := o.repeat(n, in, b, true, r, rec, otherPadded); err != nil {
			return err
		}
	}
	if err := o.repeat(n, in, b, retract, r, rec, joined); err != nil {
		return err
	}
	if last && show {
		return o.repeat(n, in, b, false, r, rec, otherPadded)
	}
	return nil
}

// repeat adds a result for each of the n copies of a record.
func (o *Join) repeat(n uint64, in int, b *vec.Batch, retract bool, r int32, rec uint32, what uint8) error {
	for range n {
		o.made.add(retract, r, rec, what)
		if len(o.made.pos) >= 2*chunk {
			if err := o.emit(in, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// endRow notes how many matches a row of an outer side had, and pads it if none.
func (o *Join) endRow(own *side, retract bool, r int32, rec uint32) {
	if !retract {
		own.row(rec)[matchAt] = o.matches
	}
	if o.matches == 0 && !o.ctx.BatchMode {
		o.made.add(retract, r, 0, ownPadded)
	}
	o.matches = 0
}

// fill makes dst the rows pos of b beside the records rec of the other side. Where rec is 0 what
// stands there is undefined.
func (o *Join) fill(dst *vec.Batch, in int, b *vec.Batch, pos []int32, rec []uint32) {
	dst.Reset(0)
	n := len(pos)
	dst.N = n
	own, other := dst.Cols[:o.sides[0].cols], dst.Cols[o.sides[0].cols:]
	if in == 1 {
		own, other = other, own
	}
	for c, v := range own {
		if b == nil {
			allNull(v, n)
		} else {
			v.Gather(b.Cols[c], pos)
		}
	}
	some := uint32(0)
	for _, id := range rec {
		if id != 0 {
			some = id
			break
		}
	}
	if some == 0 {
		for _, v := range other {
			allNull(v, n)
		}
		return
	}
	for i, id := range rec {
		if id == 0 {
			o.pads = append(o.pads, int32(i))
			rec[i] = some
		}
	}
	t := o.sides[1-in].rows
	for c, v := range other {
		v.Reset(n)
		t.KeyColumn(c, rec, v, 0)
	}
	for _, i := range o.pads {
		rec[i] = 0
	}
	o.pads = o.pads[:0]
}

// allNull makes v n NULLs.
func allNull(v *vec.Vec, n int) {
	v.Reset(n)
	for i := range n {
		v.SetNull(i)
	}
}

// emit gives the results made so far to the next operator.
func (o *Join) emit(in int, b *vec.Batch) error {
	m := &o.made
	n := len(m.pos)
	if n == 0 {
		return nil
	}
	o.fill(o.res, in, b, m.pos, m.rec)
	if m.padded {
		o.setNulls(in)
	}
	if m.deletes {
		o.res.Kinds = m.kinds
	}
	o.stampResults(b)
	m.reset()
	return o.out.Emit(o.res)
}

// setNulls makes the columns of the side that is missing NULL in padded results.
func (o *Join) setNulls(in int) {
	own, other := o.res.Cols[:o.sides[0].cols], o.res.Cols[o.sides[0].cols:]
	if in == 1 {
		own, other = other, own
	}
	for i, what := range o.made.what {
		cols := own
		switch what {
		case joined:
			continue
		case ownPadded:
			cols = other
		}
		for _, v := range cols {
			v.SetNull(i)
		}
	}
}

// stampResults gives the results the stamps of their rows. They never decrease, though the two
// inputs may be at different times.
func (o *Join) stampResults(b *vec.Batch) {
	if b != nil && b.Stamps != nil {
		o.stamped = true
	}
	if !o.stamped {
		return
	}
	o.stamps = room(o.stamps, len(o.made.pos))
	for i, r := range o.made.pos {
		if b != nil && b.Stamps != nil {
			o.stamp = max(o.stamp, b.Stamps[r])
		}
		o.stamps[i] = o.stamp
	}
	o.res.Stamps = o.stamps
}
