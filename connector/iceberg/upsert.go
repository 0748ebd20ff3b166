package iceberg

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// upserter is the writer of rows that replace and delete others by key. It keeps the last row of each key
// in memory. When the epoch ends, or memory is used up, it writes a step: the keys whose older rows are
// to go, as equality deletes, and the rows. The steps of an epoch become snapshots of one commit, one
// after another, since deletes of a snapshot do not touch rows of the same one; usually there is one.
type upserter struct {
	s      *sink
	t      *target
	id     string // of the writer, like no other
	epoch  int
	memory int64
	rows   *files
	keys   *files
	steps  []step

	cols  []int                                // the columns of the key
	value []func([]byte, *vec.Vec, int) []byte // how their values are appended to a key
	table keyTable
	last  []int32    // by key: its newest row in buf, -1 for none
	gone  []bool     // by key: older rows of the table are to be deleted
	buf   *vec.Batch // rows
	key   *vec.Batch // one row a key; only the columns of the key have values
	spare *vec.Batch
	dead  int // rows of buf that are not the newest of their key

	scratch          []byte
	newRows, newKeys []int32
	sel              []int32
}

func newUpserter(s *sink, t *target, id string, memory int64) (*upserter, error) {
	schema := types.Schema{Fields: t.columns}
	w := &upserter{s: s, t: t, id: id, memory: memory, buf: vec.NewBatch(schema), key: vec.NewBatch(schema), spare: vec.NewBatch(schema)}
	only := make([]int, len(t.at))
	for i, f := range t.schema.Fields() {
		only[i] = -1
		if slices.Contains(t.ids, f.ID) {
			only[i] = t.at[i]
			w.cols = append(w.cols, t.at[i])
			w.value = append(w.value, identity(f.Type, t.columns[t.at[i]].Type))
		}
	}
	serial := new(int)
	var err error
	if w.rows, err = newFiles(t, t.at, false, "data-"+id, serial, memory); err != nil {
		return nil, err
	}
	w.keys, err = newFiles(t, only, true, "delete-"+id, serial, memory)
	return w, err
}

// Write implements connector.Writer.
func (w *upserter) Write(_ context.Context, b *vec.Batch) error {
	w.newRows, w.newKeys = w.newRows[:0], w.newKeys[:0]
	for _, i := range b.Selected() {
		e, fresh := w.table.find(w.appendKey(b, int(i)))
		if fresh {
			w.newKeys = append(w.newKeys, i)
			w.last, w.gone = append(w.last, -1), append(w.gone, false)
		}
		had := w.last[e] >= 0
		if had {
			w.dead++
		}
		retracts := b.Kind(int(i)).Retracts()
		// An insertion into a changelog without upserts has nothing to replace, and a row of the same
		// epoch is not in the table yet.
		if w.t.upsert || retracts && !had {
			w.gone[e] = true
		}
		if retracts {
			w.last[e] = -1
			continue
		}
		w.last[e] = int32(w.buf.N + len(w.newRows))
		w.newRows = append(w.newRows, i)
	}
	for c, v := range w.buf.Cols {
		v.Gather(b.Cols[c], w.newRows)
	}
	w.buf.N += len(w.newRows)
	for _, c := range w.cols {
		w.key.Cols[c].Gather(b.Cols[c], w.newKeys)
	}
	w.key.N += len(w.newKeys)
	if w.held() <= w.memory {
		return nil
	}
	if w.dead > w.buf.N/2 {
		w.compact()
		return nil
	}
	return w.step()
}

// appendKey gives the key of row i: the lengths of its values, and the values.
func (w *upserter) appendKey(b *vec.Batch, i int) []byte {
	k := w.scratch[:0]
	for n, c := range w.cols {
		at := len(k)
		k = append(k, 0, 0, 0, 0)
		k = w.value[n](k, b.Cols[c], i)
		le.PutUint32(k[at:], uint32(len(k)-at-4))
	}
	w.scratch = k
	return k
}

func (w *upserter) held() int64 { return w.buf.Bytes() + w.key.Bytes() + w.table.bytes() }

// compact drops rows that are not the newest of their key.
func (w *upserter) compact() {
	w.sel = w.sel[:0]
	for e, r := range w.last {
		if r >= 0 {
			w.last[e] = int32(len(w.sel))
			w.sel = append(w.sel, r)
		}
	}
	w.spare.Reset(0)
	for c, v := range w.spare.Cols {
		v.Gather(w.buf.Cols[c], w.sel)
	}
	w.spare.N = len(w.sel)
	w.buf, w.spare, w.dead = w.spare, w.buf, 0
}

// chunk is how many rows are written at a time.
const chunk = 8192

// step writes what is held.
func (w *upserter) step() error {
	w.sel = w.sel[:0]
	for _, r := range w.last {
		if r >= 0 {
			w.sel = append(w.sel, r)
		}
	}
	slices.Sort(w.sel)
	for rows := range slices.Chunk(w.sel, chunk) {
		if err := w.rows.write(w.buf, rows); err != nil {
			return err
		}
	}
	w.sel = w.sel[:0]
	for e, gone := range w.gone {
		if gone {
			w.sel = append(w.sel, int32(e))
		}
	}
	for rows := range slices.Chunk(w.sel, chunk) {
		if err := w.keys.write(w.key, rows); err != nil {
			return err
		}
	}
	data, err := w.rows.take()
	if err != nil {
		return err
	}
	// Until they are prepared they are dropped with the writer.
	w.steps = append(w.steps, step{Files: data})
	deletes, err := w.keys.take()
	if err != nil {
		return err
	}
	last := &w.steps[len(w.steps)-1]
	if last.Files = append(last.Files, deletes...); len(last.Files) == 0 {
		w.steps = w.steps[:len(w.steps)-1]
	}
	w.buf.Reset(0)
	w.key.Reset(0)
	w.table.reset()
	w.last, w.gone, w.dead = w.last[:0], w.gone[:0], 0
	return nil
}

// Flush implements connector.Writer. Exactly once, what is written is only safe when it is prepared.
func (w *upserter) Flush(ctx context.Context) error {
	if w.s.guarantee() == connector.ExactlyOnce {
		return nil
	}
	_, err := w.Prepare(ctx)
	return err
}

// Prepare implements connector.Writer.
func (w *upserter) Prepare(ctx context.Context) ([]connector.Committable, error) {
	if w.key.N > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	if len(w.steps) == 0 {
		return nil, nil
	}
	w.epoch++
	steps := w.steps
	w.steps = nil
	return w.s.prepared(ctx, &pending{ID: w.id + "-" + strconv.Itoa(w.epoch), Writer: w.id, Steps: steps}, w.t)
}

// Tick implements connector.Writer.
func (w *upserter) Tick(context.Context) error { return nil }

// Close implements connector.Writer. Files that were not prepared are removed.
func (w *upserter) Close() error {
	errs := []error{w.rows.drop(), w.keys.drop()}
	for _, s := range w.steps {
		for _, f := range s.Files {
			errs = append(errs, gone(w.t.files.get().Remove(f.Path)))
		}
	}
	w.steps = nil
	return errors.Join(errs...)
}

// keyTable numbers keys in the order in which they come. It has no pointers.
type keyTable struct {
	slots  []uint32 // number of the key + 1, 0 for none; twice as many as keys at least
	hashes []uint64
	ends   []uint32 // in arena
	arena  []byte
}

// find returns the number of a key; fresh says that it was not there.
func (t *keyTable) find(key []byte) (n int, fresh bool) {
	if 2*(len(t.hashes)+1) > len(t.slots) {
		t.grow()
	}
	h := xxh3.Hash(key)
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s == 0 {
			t.hashes = append(t.hashes, h)
			t.arena = append(t.arena, key...)
			t.ends = append(t.ends, uint32(len(t.arena)))
			t.slots[at] = uint32(len(t.hashes))
			return len(t.hashes) - 1, true
		}
		if n := int(s - 1); t.hashes[n] == h && bytes.Equal(t.key(n), key) {
			return n, false
		}
	}
}

func (t *keyTable) key(n int) []byte {
	from := uint32(0)
	if n > 0 {
		from = t.ends[n-1]
	}
	return t.arena[from:t.ends[n]]
}

func (t *keyTable) grow() {
	t.slots = make([]uint32, max(1024, 2*len(t.slots)))
	mask := uint64(len(t.slots) - 1)
	for n, h := range t.hashes {
		at := h & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = uint32(n + 1)
	}
}

func (t *keyTable) bytes() int64 {
	return int64(4*len(t.slots)+12*len(t.hashes)) + int64(len(t.arena))
}

func (t *keyTable) reset() {
	clear(t.slots)
	t.hashes, t.ends, t.arena = t.hashes[:0], t.ends[:0], t.arena[:0]
}
