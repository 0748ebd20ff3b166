package sort

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// spilt is what a Temporal knows about rows that left memory. Entries of the store up to the time
// flushed are dead, whether the store knows that or not; of the others those whose number is in memory
// are there twice.
type spilt struct {
	spill    *state.Spill // nil: all rows are in memory
	cold     bool         // there are rows in the store only
	coldMin  int64        // no such row is earlier
	coldRows int          // about how many there are; not those that were there after a restart
	marks    marks
	held     int64 // bytes that were told
	stuck    bool
	dead     []byte // keys read by merge: length (4 bytes), key
}

// manyDead is from how many rows on those that are emitted are deleted by ranges of time.
const manyDead = 1 << 12

// tell says how many bytes are held.
func (o *spilt) tell(c *op.Context, bytes int64) {
	c.Budget.Add(bytes - o.held)
	o.spill.Hold(o.held, bytes)
	o.held = bytes
}

// Between implements state.Spiller: the rows that the store has are left to it. They come back once
// only, when they are emitted.
func (o *Temporal) Between() {
	o.tell(o.c, o.rows.Bytes()+8*int64(len(o.numbers)+len(o.waiting)))
	excess := o.spill.Excess(o.held)
	o.stuck = false
	if excess == 0 {
		return
	}
	n, _ := slices.BinarySearch(o.numbers, o.marks.clean(o.spill))
	if n == 0 {
		o.stuck = true
		return
	}
	if !o.cold {
		o.cold, o.coldMin = true, vec.MaxTime
		o.waiting, o.horizon = nil, o.emitted
	}
	for i := range n {
		o.coldMin = min(o.coldMin, o.time(o.rows, i))
	}
	rest := make([]int32, 0, o.rows.N-n)
	for i := n; i < o.rows.N; i++ {
		rest = append(rest, int32(i))
	}
	o.keepOnly(rest)
	o.coldRows += n
	state.CountEvicted(n)
	o.tell(o.c, o.rows.Bytes()+8*int64(len(o.numbers)+len(o.waiting)))
}

// NeedsFreeze implements state.Spiller.
func (o *Temporal) NeedsFreeze() bool {
	dirty := int64(o.Dirty())
	if o.stuck && !o.spill.Pending() {
		return dirty > 0
	}
	return o.spill.Much(dirty, o.held)
}

// timeAt is where the time stands in a key, after the mark that it is not NULL.
const timeAt = 1

// timeKey is how keys of a time begin.
func timeKey(t int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{1}, uint64(t)^1<<63)
}

func timeOf(key []byte) (int64, bool) {
	if len(key) < timeAt+8+8 || key[0] != 1 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(key[timeAt:]) ^ 1<<63), true
}

// each calls f with the rows in the store only whose time is above after, in order, until f returns
// false; done: there are no more.
func (o *Temporal) each(after int64, f func(t int64, key, value []byte) bool) (done bool, err error) {
	done = true
	e := o.spill.Entries(0, o.log.group, nil, timeKey(after), func(key, value []byte) bool {
		t, ok := timeOf(key)
		if !ok {
			err = errSaved
			return false
		}
		if t <= after {
			return true
		}
		n, _ := number(key)
		if _, hot := slices.BinarySearch(o.numbers, n); hot {
			return true
		}
		done = f(t, key, value)
		return done
	})
	if err == nil {
		err = e
	}
	return done && err == nil, err
}

// lookAhead makes waiting hold all times up to wm.
func (o *Temporal) lookAhead(wm int64) error {
	if wm <= o.horizon {
		return nil
	}
	for i := range o.rows.N {
		if t := o.time(o.rows, i); t > o.horizon && t <= wm {
			o.waiting = push(o.waiting, t)
		}
	}
	if o.cold && o.coldMin <= wm {
		if _, err := o.each(max(o.horizon, o.flushed), func(t int64, _, _ []byte) bool {
			if t <= wm {
				o.waiting = push(o.waiting, t)
			}
			return t <= wm
		}); err != nil {
			return err
		}
	}
	o.horizon = wm
	return nil
}

// merge emits the rows up to wm: due in memory, which sort has in order, and those in the store. Rows
// up to before were emitted before.
func (o *Temporal) merge(wm, before int64, due, sort []int32) (err error) {
	var own []byte
	next := func() {
		if len(sort) > 0 {
			own = o.log.key(own[:0], o.rows.Cols, int(sort[0]), o.numbers[sort[0]])
		}
	}
	next()
	o.batch.Reset(0)
	o.dead = o.dead[:0]
	last, n := before, 0
	done, e := o.each(before, func(t int64, key, value []byte) bool {
		if t > wm {
			o.coldMin = t
			return false
		}
		for len(sort) > 0 && bytes.Compare(own, key) < 0 && err == nil {
			err = o.give(sort[0])
			sort = sort[1:]
			next()
		}
		if err == nil {
			err = o.giveSaved(value)
		}
		if n++; n <= manyDead {
			o.dead = append(binary.LittleEndian.AppendUint32(o.dead, uint32(len(key))), key...)
		}
		last = t
		return err == nil
	})
	if err == nil {
		err = e
	}
	for ; len(sort) > 0 && err == nil; sort = sort[1:] {
		err = o.give(sort[0])
	}
	if err == nil && o.batch.N > 0 {
		err = o.out.Emit(o.batch)
	}
	if err != nil {
		return err
	}
	o.flushed = max(o.flushed, last)
	o.coldRows -= n
	o.bury(n, before, due)
	if done {
		o.cold = false
		for i := range o.rows.N {
			if t := o.time(o.rows, i); t > max(o.horizon, wm) {
				o.waiting = push(o.waiting, t)
			}
		}
		o.horizon = vec.MaxTime
	}
	return nil
}

// bury notes that the rows that were emitted are gone: due in memory, n in the store only.
func (o *Temporal) bury(n int, before int64, due []int32) {
	if n > manyDead {
		lo := uint64(0)
		if before > vec.MinTime {
			lo = uint64(before) ^ 1<<63 + 1
		}
		covers(lo, uint64(o.flushed)^1<<63, func(p []byte) {
			o.log.removeRange(append([]byte{1}, p...))
		})
		return
	}
	o.forget(due)
	for b := o.dead; len(b) > 0; {
		k := binary.LittleEndian.Uint32(b)
		o.log.removeKey(b[4 : 4+k])
		b = b[4+k:]
	}
}

// give adds a row in memory to what is emitted.
func (o *Temporal) give(row int32) error {
	if o.left < o.n.Offset {
		o.left++
		return nil
	}
	one := [1]int32{row}
	o.batch.Gather(o.rows, one[:])
	return o.sent()
}

// giveSaved adds a row of the store.
func (o *Temporal) giveSaved(value []byte) error {
	if o.left < o.n.Offset {
		o.left++
		return nil
	}
	if err := decodeRow(value, o.schema, o.batch); err != nil {
		return err
	}
	if o.stamped {
		for len(o.batch.Stamps) < o.batch.N {
			o.batch.Stamps = append(o.batch.Stamps, o.wm)
		}
	}
	return o.sent()
}

// sent emits a full batch.
func (o *Temporal) sent() error {
	if o.batch.N < vec.BatchRows {
		return nil
	}
	err := o.out.Emit(o.batch)
	o.batch.Reset(0)
	return err
}
