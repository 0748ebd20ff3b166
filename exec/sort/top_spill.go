package sort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// topSpill is what a Top knows about rows that left memory. The store has each row twice: in its order,
// and in an index by what it is made of, by which one that is taken back is found whose number nobody
// knows. What is in the store counts unless it is in memory too, or was taken out and the store does
// not know that yet (dead).
type topSpill struct {
	spill    *state.Spill // nil: all rows are in memory
	cold     bool         // there are rows in the store only
	coldRows int
	low      []byte // the keys of all of them are greater; nil: any
	asleep   bool   // nothing was read since the start
	marks    marks
	held     int64 // bytes that were told
	stuck    bool

	dead   []uint64 // numbers of saved rows that were taken out since the last freeze
	sorted bool     // dead is
	graves []grave  // those before that the store may still have

	// filter knows rows in the store only; unknown says that it does not know all yet, which it
	// learns from the key learnt on, or, where it would be too large, not at all.
	filter              *state.Filter
	unknown, filterless bool
	learnt              []byte

	found []coldRow // rows in the store only that equal rows that the batch takes back
	sums  []xxh3.Uint128
	names [][]byte
	flat  []byte
	key   []byte
}

// grave is the numbers of rows, ascending, whose end was frozen in an epoch.
type grave struct {
	epoch   uint64
	numbers []uint64
}

// coldRow is a row in the store only; number is gone when it was taken out.
type coldRow struct {
	sum    xxh3.Uint128
	number uint64
}

const gone = math.MaxUint64

// indexKey is the length of a key of the index: the sum of what is saved of the row, its number (both
// big endian).
const indexKey = 16 + 8

func appendIndexKey(dst []byte, sum xxh3.Uint128, number uint64) []byte {
	be := binary.BigEndian
	return be.AppendUint64(be.AppendUint64(be.AppendUint64(dst, sum.Hi), sum.Lo), number)
}

// saveKey appends the key of a row in the store.
func (o *Top) saveKey(dst, order []byte, number uint64) []byte {
	if o.log.keys == nil {
		dst = append(dst, 0, 0, 0)
	} else {
		dst = append(dst, order...)
	}
	return binary.BigEndian.AppendUint64(dst, number)
}

// parseKey takes a key apart.
func (o *Top) parseKey(key []byte) (order []byte, n uint64, ok bool) {
	n, ok = number(key)
	if !ok {
		return nil, 0, false
	}
	if order = key[:len(key)-8]; o.log.keys == nil {
		return nil, n, string(order) == "\x00\x00\x00"
	}
	return order, n, true
}

// need is how many of the first rows have to be in memory.
func (o *Top) need() int64 {
	if o.limit >= anyNumber {
		return o.offset + 1
	}
	return o.room()
}

// spare is how many more are kept, so that the store is not read for each row that is missing.
func (o *Top) spare() int64 {
	if o.rows.n == 0 {
		return spareRows
	}
	return min(spareRows, o.c.Budget.Limit()/64/(o.rows.held/int64(o.rows.n)+1))
}

const spareRows = 256

// prepare reads what is shown, the first time after a restart, and looks for those rows in the store
// only that b takes back.
func (o *Top) prepare(b *vec.Batch) error {
	if o.asleep {
		if err := o.fill(); err != nil {
			return err
		}
		o.asleep = false
		o.mark(o.are())
	}
	o.found = o.found[:0]
	if !o.cold || b.Kinds == nil {
		return nil
	}
	sums := o.sums[:0]
	b.Each(func(i int) {
		if !b.Kind(i).Retracts() {
			return
		}
		o.value = appendRow(o.value[:0], b.Cols, i)
		if sum := xxh3.Hash128(o.value); o.unknown || o.filter.Has(sum.Hi) {
			sums = append(sums, sum)
		}
	})
	slices.SortFunc(sums, compareSums)
	sums = slices.Compact(sums)
	o.sums, o.flat, o.names = sums, o.flat[:0], o.names[:0]
	for _, s := range sums {
		o.flat = appendIndexKey(o.flat, s, 0)
	}
	for i := range sums {
		o.names = append(o.names, o.flat[i*indexKey:i*indexKey+16])
	}
	if len(sums) == 0 {
		return nil
	}
	var bad error
	err := o.spill.Prefixed(1, o.log.group, o.names, func(i int, key, _ []byte) bool {
		n, ok := number(key)
		if !ok || len(key) != indexKey {
			bad = errSaved
			return false
		}
		if _, hot := o.index.find(sums[i].Hi, nil, n); !hot && !o.isDead(n) {
			o.found = append(o.found, coldRow{sums[i], n})
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}

func compareSums(a, b xxh3.Uint128) int {
	if c := cmp.Compare(a.Hi, b.Hi); c != 0 {
		return c
	}
	return cmp.Compare(a.Lo, b.Lo)
}

// claim finds the first row in the store only that has the given sum, if its number is below the given
// one.
func (o *Top) claim(sum xxh3.Uint128, below uint64) (uint64, bool) {
	if len(o.found) == 0 {
		return 0, false
	}
	at, _ := slices.BinarySearchFunc(o.found, sum, func(r coldRow, s xxh3.Uint128) int { return compareSums(r.sum, s) })
	for ; at < len(o.found) && o.found[at].sum == sum; at++ {
		if n := o.found[at].number; n != gone {
			if n >= below {
				return 0, false
			}
			o.found[at].number = gone
			return n, true
		}
	}
	return 0, false
}

// takeCold takes a row out that is in the store only: that of o.order and o.value.
func (o *Top) takeCold(sum xxh3.Uint128, head, number uint64) {
	o.wentOut(head, o.order, number, o.value)
	o.coldRows--
	o.key = o.saveKey(o.key[:0], o.order, number)
	o.log.removeKey(o.key)
	o.goneIndex = appendIndexKey(o.goneIndex, sum, number)
	o.bury(number)
}

// bury notes that the store has a row that is not there any more.
func (o *Top) bury(number uint64) {
	o.dead = append(o.dead, number)
	o.sorted = false
}

func (o *Top) isDead(n uint64) bool {
	if !o.sorted {
		slices.Sort(o.dead)
		o.sorted = true
	}
	if _, ok := slices.BinarySearch(o.dead, n); ok {
		return true
	}
	for _, g := range o.graves {
		if _, ok := slices.BinarySearch(g.numbers, n); ok {
			return true
		}
	}
	return false
}

// lacks reports whether one of the first rows may be in the store only.
func (o *Top) lacks() bool {
	need := o.need()
	if !o.cold || need == 0 {
		return false
	}
	if o.low == nil || int64(o.rows.n) < need {
		return true
	}
	l, r := o.rows.at(o.rows.nth(need - 1))
	o.key = o.saveKey(o.key[:0], l.order(r), r.number)
	return bytes.Compare(o.key, o.low) > 0
}

// fill brings the first rows into memory.
func (o *Top) fill() error {
	for o.lacks() {
		want, read, more := o.missing(), int64(0), false
		var bad error
		err := o.spill.Entries(0, o.log.group, nil, o.low, func(key, value []byte) bool {
			if read >= want {
				more = true
				return false
			}
			order, n, ok := o.parseKey(key)
			if !ok || !o.isRow(value) {
				bad = errSaved
				return false
			}
			head := headOf(order)
			if _, hot := o.rows.find(head, order, n); !hot && !o.isDead(n) {
				o.rows.insert(head, order, n, value, false)
				o.index.insert(xxh3.Hash128(value).Hi, nil, n, nil, false)
				o.coldRows--
				read++
			}
			o.low = append(o.low[:0], key...)
			return true
		})
		if err == nil {
			err = bad
		}
		if err != nil {
			return err
		}
		if !more {
			o.cold, o.low, o.unknown, o.filterless, o.learnt = false, nil, false, false, nil
			o.filter.Reset()
			if o.coldRows != 0 {
				return fmt.Errorf("%d rows more should be in the store than there are", o.coldRows)
			}
		}
	}
	return nil
}

// missing is how many rows are to be read.
func (o *Top) missing() int64 {
	at := int64(0)
	for _, l := range o.rows.leaves {
		r := &l.recs[len(l.recs)-1]
		o.key = o.saveKey(o.key[:0], l.order(r), r.number)
		if o.low == nil || bytes.Compare(o.key, o.low) > 0 {
			break
		}
		at += int64(len(l.recs))
	}
	return max(o.need()-at, 1) + o.spare()
}

// isRow reports whether value is one that appendRow makes.
func (o *Top) isRow(value []byte) bool {
	return len(value) > 1 && value[1] == uint8(types.Insert) && checkRow(value, o.schema) == nil
}

// tell says how many bytes are held.
func (o *Top) tell(bytes int64) {
	o.c.Budget.Add(bytes - o.held)
	o.spill.Hold(o.held, bytes)
	o.held = bytes
}

// bytes is what is held besides the filter.
func (o *Top) bytes() int64 {
	n := o.rows.held + o.index.held + 8*int64(cap(o.dead)) + int64(cap(o.log.gone)+cap(o.goneIndex))
	for _, g := range o.graves {
		n += 8 * int64(cap(g.numbers))
	}
	return n
}

// Between implements state.Spiller.
func (o *Top) Between() {
	o.graves = slices.DeleteFunc(o.graves, func(g grave) bool { return o.spill.Has(g.epoch) })
	if o.unknown && !o.filterless {
		o.learn()
	}
	o.tell(o.bytes())
	excess := o.spill.Excess(o.held)
	o.stuck = false
	if excess > 0 {
		o.evict(excess)
		o.tell(o.bytes())
	}
	if b := o.c.Budget; b != nil && o.filter.Bytes() > b.Limit()/4 {
		o.filter.Reset()
		o.unknown, o.filterless = true, true
	}
}

// learnRows is how many rows of the store the filter learns at a time.
const learnRows = 1 << 10

// learn makes the filter know rows that the store has since before the restart.
func (o *Top) learn() {
	n := 0
	var bad error
	err := o.spill.Entries(1, o.log.group, nil, o.learnt, func(key, _ []byte) bool {
		if n == learnRows {
			return false
		}
		if len(key) != indexKey {
			bad = &state.ColdError{Err: errSaved}
			return false
		}
		n++
		o.filter.Add(binary.BigEndian.Uint64(key), 1<<16)
		o.learnt = append(o.learnt[:0], key...)
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		panic(err)
	}
	o.unknown = n == learnRows
}

// evict leaves rows to the store that it has, the last ones first, until excess bytes are free.
func (o *Top) evict(excess int64) {
	keep := o.need() + o.spare()
	if int64(o.rows.n) <= keep {
		return
	}
	clean, first := o.marks.clean(o.spill), o.rows.nth(keep)
	i, n, stays := len(o.rows.leaves)-1, 0, false
	for ; i >= first.leaf && excess > 0; i-- {
		from := 0
		if i == first.leaf {
			from = first.pos
		}
		l := o.rows.leaves[i]
		kept, out := l.recs[:from:from], 0
		for k := from; k < len(l.recs); k++ {
			r := &l.recs[k]
			if r.number >= clean {
				kept = append(kept, *r)
				stays = true
				continue
			}
			if out++; out == 1 {
				o.lower(l, r)
			}
			excess -= 2*recBytes + int64(r.size)
			if !o.filterless {
				o.filter.Add(xxh3.Hash128(l.value(r)).Hi, o.rows.n)
			}
			o.unindex(l, r)
		}
		if out > 0 {
			n += out
			o.rows.held -= l.bytes()
			size := 0
			for _, r := range kept {
				size += int(r.size)
			}
			l.compact(slices.Clone(kept), size)
			o.rows.held += l.bytes()
		}
	}
	o.rows.n -= n
	o.rows.tidy(i + 1)
	o.cold = o.cold || n > 0
	o.coldRows += n
	o.stuck = excess > 0 && stays
	state.CountEvicted(n)
}

// lower notes that a row, and what lies behind it, may be in the store only.
func (o *Top) lower(l *leaf, r *rec) {
	key := o.saveKey(o.key[:0], l.order(r), r.number)
	o.key = key
	// The greatest key below that any row may have, or what such keys are greater than.
	if at := key[len(key)-8:]; r.number > 0 {
		binary.BigEndian.PutUint64(at, r.number-1)
	} else {
		key = key[:len(key)-8]
	}
	if !o.cold || o.low != nil && bytes.Compare(key, o.low) < 0 {
		o.low, o.cold = append(o.low[:0], key...), true
	}
}

// NeedsFreeze implements state.Spiller.
func (o *Top) NeedsFreeze() bool {
	dirty := int64(o.Dirty())
	if o.stuck && !o.spill.Pending() {
		return dirty > 0
	}
	return o.spill.Much(dirty, o.held)
}
