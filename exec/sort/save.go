package sort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const saveVersion = 1

// rowState describes the one state of the operators of this package: their rows, in the key group of
// a key without columns, since they have one subtask.
//
//	key    number of the row in the order in which rows came (BIGINT, state.Table.AppendKey)
//	value  in the form of state.AppendValue: the kind of change (TINYINT), the columns
func rowState(s types.Schema) []state.Spec {
	sp := state.Spec{Name: "rows", Version: saveVersion,
		Key:   []types.Field{{Name: "number", Type: types.BigIntType.NotNull()}},
		Value: []types.Field{{Name: "kind", Type: types.TinyIntType.NotNull()}}}
	for _, f := range s.Fields {
		sp.Value = append(sp.Value, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
	}
	return []state.Spec{sp}
}

// log numbers rows and knows which of them are saved.
type log struct {
	on     bool // changes are noted
	group  int
	next   uint64   // the number of the next row
	frozen uint64   // rows with lower numbers are saved
	gone   []uint64 // of saved rows that are not there any more
}

func (l *log) open(c *op.Context) {
	l.on = c.Saves
	if !l.on {
		return
	}
	e := state.NewEncoder(state.NewLayout(nil, false))
	e.Encode(nil, []int32{0}, nil)
	l.group = state.KeyGroup(e.Hash(0), c.MaxParallelism)
	c.CheckGroup(l.group)
}

// number gives the next row its number.
func (l *log) number() uint64 {
	l.next++
	return l.next - 1
}

// remove notes that a row is not there any more.
func (l *log) remove(n uint64) {
	if l.on && n < l.frozen {
		l.gone = append(l.gone, n)
	}
}

// dirty is about the number of changes, of which as many as live may be rows that were not saved.
func (l *log) dirty(live int) int {
	return len(l.gone) + min(live, int(l.next-l.frozen))
}

const keyBytes = 3 + 8

func appendNumber(dst []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0, 0, 0), n)
}

// freeze adds the rows that are gone to d; the rows that came are the caller's to put.
func (l *log) freeze(d *state.Delta) {
	var key []byte
	for _, n := range l.gone {
		key = appendNumber(key[:0], n)
		d.Delete(0, l.group, key)
	}
	l.gone = l.gone[:0]
	l.frozen = l.next
}

// put adds a row, at position i of b, to d.
func (l *log) put(d *state.Delta, n uint64, b *vec.Batch, i int) {
	buf := appendNumber(d.BeginPut(0, l.group), n)
	end := len(buf)
	buf = binary.LittleEndian.AppendUint32(append(buf, 1), uint32(b.Kind(i)))
	for _, c := range b.Cols {
		buf = state.AppendValue(buf, c, i)
	}
	d.EndPut(buf, end)
}

var errSaved = errors.New("a saved row does not have the shape of the operator's rows")

// restore calls f with the saved rows in the order in which they came: each is appended to the batch
// that at returns.
func (l *log) restore(saved state.Saved, s types.Schema, at func() *vec.Batch, f func(n uint64)) error {
	return saved.Scan(0, func(_ int, key, value []byte) error {
		if err := l.load(s, at(), key, value); err != nil {
			return fmt.Errorf("entry %x: %w", key, err)
		}
		f(l.next - 1)
		return nil
	})
}

func (l *log) load(s types.Schema, b *vec.Batch, key, value []byte) error {
	if len(key) != keyBytes || key[0]|key[1]|key[2] != 0 || len(value) < 5 || value[1] > uint8(types.Delete) {
		return errSaved
	}
	n := binary.BigEndian.Uint64(key[3:])
	if n < l.next || n+1 < n {
		return errSaved
	}
	rest, ok := value[5:], true
	for _, f := range s.Fields {
		if rest, ok = state.CheckValue(rest, f.Type); !ok {
			return errSaved
		}
	}
	if len(rest) > 0 {
		return errSaved
	}
	l.next, l.frozen = n+1, n+1
	for len(b.Kinds) < b.N {
		b.Kinds = append(b.Kinds, types.Insert)
	}
	if kind := types.RowKind(value[1]); kind != types.Insert || b.Kinds != nil {
		b.Kinds = append(b.Kinds, kind)
	}
	rest = value[5:]
	for _, c := range b.Cols {
		c.Resize(b.N + 1)
		rest = state.DecodeValue(rest, c, b.N)
	}
	b.N++
	return nil
}

// States implements op.Stateful.
func (o *Sort) States() []state.Spec { return rowState(o.in) }

// stateful is the operator that does the work.
func (o *Sort) stateful() saver { return o.Operator.(saver) }

// saver is the part of op.Stateful that All, Top and Temporal have.
type saver interface {
	Freeze(d *state.Delta) error
	Dirty() int
	Head(dst []byte) ([]byte, error)
	Restore(saved state.Saved, heads [][]byte) error
}

// Freeze implements op.Stateful.
func (o *Sort) Freeze(d *state.Delta) error { return o.stateful().Freeze(d) }

// Dirty implements op.Stateful.
func (o *Sort) Dirty() int { return o.stateful().Dirty() }

// Head implements op.Stateful.
func (o *Sort) Head(dst []byte) ([]byte, error) { return o.stateful().Head(dst) }

// Restore implements op.Stateful.
func (o *Sort) Restore(saved state.Saved, heads [][]byte) error {
	return o.stateful().Restore(saved, heads)
}

// rowBytes is about the size of a saved row.
func rowBytes(s types.Schema) int { return 32 + 16*len(s.Fields) }

// Freeze implements op.Stateful; rows of All only come.
func (o *All) Freeze(d *state.Delta) error {
	for n := o.log.frozen; n < o.log.next; n++ {
		p := o.rows[n]
		o.log.put(d, n, o.chunks[p.chunk], int(p.row))
	}
	o.log.freeze(d)
	return nil
}

// Dirty implements op.Stateful.
func (o *All) Dirty() int { return o.log.dirty(len(o.rows)) * rowBytes(o.schema) }

// Head implements op.Stateful.
func (o *All) Head(dst []byte) ([]byte, error) { return dst, nil }

// Restore implements op.Stateful.
func (o *All) Restore(saved state.Saved, _ [][]byte) error {
	return o.log.restore(saved, o.schema, func() *vec.Batch { return o.chunks[o.chunk()] }, func(uint64) {
		at := len(o.chunks) - 1
		o.rows = append(o.rows, place{int32(at), int32(o.chunks[at].N - 1)})
	})
}

// Freeze implements op.Stateful.
func (o *Top) Freeze(d *state.Delta) error {
	for _, r := range o.fresh {
		if !r.gone {
			o.log.put(d, r.number, r.b, 0)
		}
	}
	o.fresh = o.fresh[:0]
	o.log.freeze(d)
	return nil
}

// Dirty implements op.Stateful.
func (o *Top) Dirty() int { return o.log.dirty(len(o.rows)) * rowBytes(o.schema) }

// Head implements op.Stateful: whether rows may be taken back (1 byte).
func (o *Top) Head(dst []byte) ([]byte, error) {
	if o.changelog {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// Restore implements op.Stateful. The rows that are to be shown were shown.
func (o *Top) Restore(saved state.Saved, heads [][]byte) error {
	var b *vec.Batch
	err := o.log.restore(saved, o.schema, func() *vec.Batch {
		b = vec.NewBatch(o.schema)
		return b
	}, func(n uint64) { o.rows = append(o.rows, &topRow{b: b, number: n}) })
	if err != nil {
		return err
	}
	for _, h := range heads {
		if len(h) != 1 {
			return errSaved
		}
		o.changelog = o.changelog || h[0] != 0
	}
	slices.SortStableFunc(o.rows, func(x, y *topRow) int { return compareRows(o.keys, x.b.Cols, 0, y.b.Cols, 0) })
	for _, r := range o.window() {
		r.show = true
		o.shown = append(o.shown, r)
	}
	o.count()
	return nil
}

// Freeze implements op.Stateful.
func (o *Temporal) Freeze(d *state.Delta) error {
	at, _ := slices.BinarySearch(o.numbers, o.log.frozen)
	for i := at; i < len(o.numbers); i++ {
		o.log.put(d, o.numbers[i], o.rows, i)
	}
	o.log.freeze(d)
	return nil
}

// Dirty implements op.Stateful.
func (o *Temporal) Dirty() int { return o.log.dirty(o.rows.N) * rowBytes(o.schema) }

// Head implements op.Stateful: the watermark, the last time emitted, the rows left out for OFFSET (8
// bytes each, little endian).
func (o *Temporal) Head(dst []byte) ([]byte, error) {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64(le.AppendUint64(dst, uint64(o.wm)), uint64(o.emitted)), uint64(o.left)), nil
}

// Restore implements op.Stateful.
func (o *Temporal) Restore(saved state.Saved, heads [][]byte) error {
	le := binary.LittleEndian
	for _, h := range heads {
		if len(h) != 24 {
			return errSaved
		}
		o.wm = max(o.wm, int64(le.Uint64(h)))
		o.emitted = max(o.emitted, int64(le.Uint64(h[8:])))
		o.left = max(o.left, int64(le.Uint64(h[16:])))
	}
	err := o.log.restore(saved, o.schema, func() *vec.Batch { return o.rows }, func(n uint64) {
		o.numbers = append(o.numbers, n)
	})
	if err != nil {
		return err
	}
	for i := range o.rows.N {
		o.rows.Stamps = append(o.rows.Stamps, o.wm)
		if t := o.time(o.rows, i); !o.proc && t > o.emitted {
			o.waiting = push(o.waiting, t)
		}
	}
	o.count()
	return nil
}

// States implements op.Stateful.
func (o *Limit) States() []state.Spec { return rowState(o.in) }

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
// changelog, whose rows are kept (1 byte).
func (o *Limit) Head(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(o.seen))
	if o.top == nil {
		return append(dst, 0), nil
	}
	return append(dst, 1), nil
}

// Restore implements op.Stateful.
func (o *Limit) Restore(saved state.Saved, heads [][]byte) error {
	kept := false
	for _, h := range heads {
		if len(h) != 9 {
			return errSaved
		}
		o.seen = max(o.seen, int64(binary.LittleEndian.Uint64(h)))
		kept = kept || h[8] != 0
	}
	if !kept {
		return nil
	}
	if err := o.keep(); err != nil {
		return err
	}
	return o.top.Restore(saved, [][]byte{{1}})
}

var (
	_ op.Stateful = (*Sort)(nil)
	_ op.Stateful = (*Limit)(nil)
)
