package sort

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// topStates describes the states of a Top of a changelog: its rows, and an index of them.
//
//	key    sum of the row's value in rows (16 bytes), number of the row (8 bytes), both big endian
//	value  none
func topStates(s types.Schema, ordered bool) []state.Spec {
	return append(rowState(s, ordered), state.Spec{Name: "rows by content", Version: saveVersion,
		Key:      []types.Field{{Name: "sum 1", Type: types.BigIntType.NotNull()}, {Name: "sum 2", Type: types.BigIntType.NotNull()}, {Name: "number", Type: types.BigIntType.NotNull()}},
		KeyParts: []state.KeyPart{{Columns: 3, Form: state.KeyU64}}})
}

// Freeze implements op.Stateful.
func (o *Top) Freeze(d *state.Delta) error {
	d.Grow(o.Dirty())
	if o.log.on && o.log.frozen < o.log.next {
		for _, l := range o.rows.leaves {
			if l.fresh {
				o.put(d, l)
			}
		}
	}
	o.log.freeze(d)
	for b := o.goneIndex; len(b) > 0; b = b[indexKey:] {
		d.Delete(1, o.log.group, b[:indexKey])
	}
	if o.goneIndex = o.goneIndex[:0]; cap(o.goneIndex) > 1<<20 {
		o.goneIndex = nil
	}
	if o.spill == nil {
		return nil
	}
	epoch := o.spill.Epoch()
	o.marks.froze(epoch, o.log.next)
	if len(o.dead) > 0 {
		o.isDead(0) // sorts
		o.graves = append(o.graves, grave{epoch, o.dead})
		o.dead = nil
	}
	return nil
}

// put adds the rows of a leaf that are not saved.
func (o *Top) put(d *state.Delta, l *leaf) {
	l.fresh = false
	for i := range l.recs {
		r := &l.recs[i]
		if r.number < o.log.frozen {
			continue
		}
		value := l.value(r)
		buf := o.saveKey(d.BeginPut(0, o.log.group), l.order(r), r.number)
		d.EndPut(append(buf, value...), len(buf))
		if o.changing {
			buf = appendIndexKey(d.BeginPut(1, o.log.group), xxh3.Hash128(value), r.number)
			d.EndPut(buf, len(buf))
		}
	}
}

// Dirty implements op.Stateful.
func (o *Top) Dirty() int {
	n := o.log.dirty(o.rows.n)
	if o.changing {
		return n * (rowBytes(o.schema) + indexKey)
	}
	return n * rowBytes(o.schema)
}

// Head implements op.Stateful: whether rows may be taken back (1 byte) and, if so, the number of the
// next row and how many there are (8 bytes each, little endian).
func (o *Top) Head(dst []byte) ([]byte, error) {
	if !o.changing {
		return append(dst, 0), nil
	}
	le := binary.LittleEndian
	return le.AppendUint64(o.log.head(append(dst, 1)), uint64(o.rows.n+o.coldRows)), nil
}

// topHead is the length of a Head of a changelog.
const topHead = 1 + 8 + 8

// Restore implements op.Stateful. The rows that are to be shown were shown.
func (o *Top) Restore(saved state.Saved, heads [][]byte) error {
	rows := int64(0)
	for _, h := range heads {
		switch {
		case !o.changing && len(h) == 1 && h[0] == 0:
		case o.changing && len(h) == topHead && h[0] == 1:
			o.log.restoreHead(h[1:])
			rows += int64(binary.LittleEndian.Uint64(h[9:]))
		default:
			return errSaved
		}
	}
	if rows < 0 {
		return errSaved
	}
	if o.spill.Stored() && o.changing {
		o.log.frozen = o.log.next
		o.coldRows, o.cold = int(rows), rows > 0
		o.asleep, o.unknown = o.cold, o.cold
		o.count()
		return nil
	}
	b := vec.NewBatch(o.schema)
	err := saved.Scan(0, func(_ int, key, value []byte) error {
		if err := o.load(b, key, value); err != nil {
			return fmt.Errorf("entry %x: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.log.frozen = o.log.next
	o.mark(o.are())
	o.count()
	return nil
}

// load adds a saved row; b is to be used for it.
func (o *Top) load(b *vec.Batch, key, value []byte) error {
	b.Reset(0)
	n, err := o.log.load(o.schema, b, key, value)
	switch {
	case err != nil:
		return err
	case n+1 < n || !o.isRow(value):
		return errSaved
	}
	o.order = appendOrder(o.order[:0], o.keys, b.Cols, 0)
	head := headOf(o.order)
	if _, twice := o.rows.find(head, o.order, n); twice {
		return errSaved
	}
	o.rows.insert(head, o.order, n, value, false)
	if o.changing {
		o.index.insert(xxh3.Hash128(value).Hi, nil, n, nil, false)
	}
	o.log.next = max(o.log.next, n+1)
	return nil
}

// States implements op.Stateful.
func (o *Limit) States() []state.Spec {
	if o.changing {
		return topStates(o.in, false)
	}
	return rowState(o.in, false)
}

// Freeze implements op.Stateful.
func (o *Limit) Freeze(d *state.Delta) error {
	if o.top == nil {
		return nil
	}
	return o.top.Freeze(d)
}

// Dirty implements op.Stateful.
func (o *Limit) Dirty() int {
	if o.top == nil {
		return 0
	}
	return o.top.Dirty()
}

// Head implements op.Stateful: the rows seen (8 bytes, little endian), and whether the input is a
// changelog, whose rows are kept (1 byte); if so, what Top has for a head follows.
func (o *Limit) Head(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(o.seen))
	if o.top == nil {
		return append(dst, 0), nil
	}
	return o.top.Head(append(dst, 1))
}

// Restore implements op.Stateful.
func (o *Limit) Restore(saved state.Saved, heads [][]byte) error {
	var tops [][]byte
	for _, h := range heads {
		if len(h) < 9 || (h[8] != 0) != (o.top != nil) || h[8] == 0 && len(h) > 9 {
			return errSaved
		}
		o.seen = max(o.seen, int64(binary.LittleEndian.Uint64(h)))
		tops = append(tops, h[9:])
	}
	if o.top == nil {
		return nil
	}
	return o.top.Restore(saved, tops)
}

var (
	_ op.Stateful = (*Sort)(nil)
	_ op.Stateful = (*Limit)(nil)
)
