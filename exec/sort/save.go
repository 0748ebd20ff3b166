package sort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
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
//
// Rows of which there may be more than fit in memory lie in the order in which they are to come out:
// their key is the sort keys (appendOrder), then the number (8 bytes, big endian).
func rowState(s types.Schema, ordered bool) []state.Spec {
	sp := state.Spec{Name: "rows", Version: saveVersion,
		Key:   []types.Field{{Name: "number", Type: types.BigIntType.NotNull()}},
		Value: []types.Field{{Name: "kind", Type: types.TinyIntType.NotNull()}}}
	if ordered {
		sp.Name = "ordered rows"
		sp.Key = append([]types.Field{{Name: "order", Type: types.BytesType.NotNull()}}, sp.Key...)
	}
	for _, f := range s.Fields {
		sp.Value = append(sp.Value, types.Field{Name: f.Name, Type: f.Type.WithoutAttr()})
	}
	return []state.Spec{sp}
}

// mark says that rows with numbers below next were saved by the freeze of an epoch.
type mark struct{ epoch, next uint64 }

// marks are those of the freezes that the store may not have yet, and of the last one that it has.
type marks []mark

// froze notes that all rows below next were saved.
func (m *marks) froze(epoch, next uint64) {
	all := *m
	if n := len(all); n > 0 && all[n-1].epoch == epoch {
		all = all[:n-1]
	}
	*m = append(all, mark{epoch, next})
}

// clean is below which numbers the store has all rows.
func (m *marks) clean(s *state.Spill) uint64 {
	all, n := *m, 0
	for n < len(all) && s.Has(all[n].epoch) {
		n++
	}
	if n == 0 {
		return 0
	}
	*m = all[n-1:]
	return all[n-1].next
}

// log numbers rows and knows which of them are saved.
type log struct {
	on     bool // changes are noted
	group  int
	keys   []plan.SortKey // by which rows are saved; nil: by their numbers only
	next   uint64         // the number of the next row
	frozen uint64         // rows with lower numbers are saved
	gone   []byte         // keys of saved rows that are not there any more: length (4 bytes), key
	ranges []byte         // prefixes of such keys in the same form
	n      int            // keys and prefixes in gone and ranges
}

func (l *log) open(c *op.Context, keys []plan.SortKey) {
	l.on, l.keys = c.Saves, keys
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

// key appends the key of a row with the columns cols at position i.
func (l *log) key(dst []byte, cols []*vec.Vec, i int, n uint64) []byte {
	if l.keys == nil {
		dst = append(dst, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint64(appendOrder(dst, l.keys, cols, i), n)
}

// remove notes that a row is not there any more.
func (l *log) remove(cols []*vec.Vec, i int, n uint64) {
	if l.on && n < l.frozen {
		at := len(l.gone)
		l.gone = l.key(append(l.gone, 0, 0, 0, 0), cols, i, n)
		binary.LittleEndian.PutUint32(l.gone[at:], uint32(len(l.gone)-at-4))
		l.n++
	}
}

// removeKey is remove of a row by its key.
func (l *log) removeKey(key []byte) {
	l.gone = append(binary.LittleEndian.AppendUint32(l.gone, uint32(len(key))), key...)
	l.n++
}

// removeRange notes that no row is there any more whose key begins with prefix.
func (l *log) removeRange(prefix []byte) {
	l.ranges = append(binary.LittleEndian.AppendUint32(l.ranges, uint32(len(prefix))), prefix...)
	l.n++
}

// dirty is about the number of changes, of which as many as live may be rows that were not saved.
func (l *log) dirty(live int) int {
	return l.n + min(live, int(l.next-l.frozen))
}

// number takes the number out of a key.
func number(key []byte) (n uint64, ok bool) {
	if len(key) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[len(key)-8:]), true
}

// freeze adds the rows that are gone to d; the rows that came are the caller's to put.
func (l *log) freeze(d *state.Delta) {
	le := binary.LittleEndian
	for b := l.gone; len(b) > 0; {
		n := le.Uint32(b)
		d.Delete(0, l.group, b[4:4+n])
		b = b[4+n:]
	}
	for b := l.ranges; len(b) > 0; {
		n := le.Uint32(b)
		d.DeletePrefix(0, l.group, b[4:4+n])
		b = b[4+n:]
	}
	if cap(l.gone) > 1<<20 {
		l.gone = nil
	}
	l.gone, l.ranges, l.n = l.gone[:0], l.ranges[:0], 0
	l.frozen = l.next
}

// put adds a row, at position i of b, to d.
func (l *log) put(d *state.Delta, n uint64, b *vec.Batch, i int) {
	buf := l.key(d.BeginPut(0, l.group), b.Cols, i, n)
	end := len(buf)
	buf = binary.LittleEndian.AppendUint32(append(buf, 1), uint32(b.Kind(i)))
	for _, c := range b.Cols {
		buf = state.AppendValue(buf, c, i)
	}
	d.EndPut(buf, end)
}

// head appends the number of the next row.
func (l *log) head(dst []byte) []byte { return binary.LittleEndian.AppendUint64(dst, l.next) }

// restoreHead reads what head wrote.
func (l *log) restoreHead(h []byte) { l.next = max(l.next, binary.LittleEndian.Uint64(h)) }

var errSaved = errors.New("a saved row does not have the shape of the operator's rows")

// restore returns the saved rows and their numbers in the order in which they came.
func (l *log) restore(saved state.Saved, s types.Schema) (*vec.Batch, []uint64, error) {
	b := vec.NewBatch(s)
	var numbers []uint64
	err := saved.Scan(0, func(_ int, key, value []byte) error {
		n, err := l.load(s, b, key, value)
		if err != nil {
			return fmt.Errorf("entry %x: %w", key, err)
		}
		numbers = append(numbers, n)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if !slices.IsSorted(numbers) {
		at := make([]int32, b.N)
		for i := range at {
			at[i] = int32(i)
		}
		slices.SortFunc(at, func(i, j int32) int { return cmp.Compare(numbers[i], numbers[j]) })
		inOrder := vec.NewBatch(s)
		inOrder.Gather(b, at)
		b = inOrder
		slices.Sort(numbers)
	}
	for k, n := range numbers {
		if k > 0 && n == numbers[k-1] || n+1 < n {
			return nil, nil, errSaved
		}
		l.next = max(l.next, n+1)
	}
	l.frozen = l.next
	return b, numbers, nil
}

// load appends a saved row to b and returns its number.
func (l *log) load(s types.Schema, b *vec.Batch, key, value []byte) (uint64, error) {
	n, ok := number(key)
	if !ok {
		return 0, errSaved
	}
	if err := decodeRow(value, s, b); err != nil {
		return 0, err
	}
	if !bytes.Equal(l.key(nil, b.Cols, b.N-1, n), key) {
		return 0, errSaved
	}
	return n, nil
}

// checkRow reports whether value is one of a row of schema s.
func checkRow(value []byte, s types.Schema) error {
	if len(value) < 5 || value[1] > uint8(types.Delete) {
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
	return nil
}

// decodeRow appends the row of a saved value to b, with its kind where there are kinds or it is none
// of an insert.
func decodeRow(value []byte, s types.Schema, b *vec.Batch) error {
	if err := checkRow(value, s); err != nil {
		return err
	}
	if kind := types.RowKind(value[1]); kind != types.Insert || b.Kinds != nil {
		for len(b.Kinds) < b.N {
			b.Kinds = append(b.Kinds, types.Insert)
		}
		b.Kinds = append(b.Kinds, kind)
	}
	rest := value[5:]
	for _, c := range b.Cols {
		c.Resize(b.N + 1)
		rest = state.DecodeValue(rest, c, b.N)
	}
	b.N++
	return nil
}

// States implements op.Stateful.
func (o *Sort) States() []state.Spec {
	if o.n.Limit >= 0 && o.changing {
		return topStates(o.in, true)
	}
	return rowState(o.in, o.n.Limit < 0)
}

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
