package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-stream/tidemark/state"
)

// Apply adds changes, an encoded state.Delta of the operator op. A cut has all of them or none. It
// waits while the disk cannot keep up. An error leaves the store without use.
func (s *Store) Apply(op uint16, changes []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	n, plain := 0, true
	if err := state.EachChange(changes, func(c state.Change) error {
		n++
		plain = plain && c.Kind != state.ChangeDeletePrefix
		return nil
	}); err != nil {
		return s.wrap(err)
	}
	var err error
	if plain && len(changes) >= s.sorted && len(changes) < 1<<32 {
		err = s.ingest(op, changes, n)
	} else {
		err = s.batch(op, changes)
	}
	if err != nil {
		s.kill(err) // some of the changes may be there
	}
	s.applied.Add(int64(n))
	return s.wrap(err)
}

// batch gives the changes to the tree's sorted buffers.
func (s *Store) batch(op uint16, changes []byte) error {
	b := s.db.NewBatchWithSize(min(len(changes)+len(changes)/8, s.piece) + 1<<10)
	defer func() { b.Close() }()
	var key, end []byte
	if err := state.EachChange(changes, func(c state.Change) error {
		switch c.Kind {
		case state.ChangePut:
			d := b.SetDeferred(state.StoreHead+len(c.Key), len(c.Value))
			copy(state.AppendStoreKey(d.Key[:0], op, c.State, c.Group)[:len(d.Key)][state.StoreHead:], c.Key)
			copy(d.Value, c.Value)
			if err := d.Finish(); err != nil {
				return err
			}
		case state.ChangeDelete:
			d := b.DeleteDeferred(state.StoreHead + len(c.Key))
			copy(state.AppendStoreKey(d.Key[:0], op, c.State, c.Group)[:len(d.Key)][state.StoreHead:], c.Key)
			if err := d.Finish(); err != nil {
				return err
			}
		case state.ChangeDeletePrefix:
			key = append(state.AppendStoreKey(key[:0], op, c.State, c.Group), c.Key...)
			end = append(end[:0], state.Successor(key)...)
			if err := b.DeleteRange(key, end, nil); err != nil {
				return err
			}
		}
		if b.Len() < s.piece {
			return nil
		}
		return s.commit(&b)
	}); err != nil {
		return err
	}
	return s.commit(&b)
}

// commit hands b to the tree and replaces it by an empty one.
func (s *Store) commit(b **pebble.Batch) error {
	if (*b).Empty() {
		return nil
	}
	if err := s.room(); err != nil {
		return err
	}
	full := *b
	err := s.try(func() error { return full.Commit(pebble.NoSync) })
	if !s.abandoned() {
		full.Close()
	}
	*b = s.db.NewBatchWithSize(1 << 10)
	return err
}

// ref is a change at an offset of the encoded changes, with the first 16 bytes of what orders it:
// state, key group, key.
type ref struct {
	hi, lo uint64
	at     uint32
}

// ingest sorts the changes and makes tables of them that the tree takes as they are: they are copied
// once only, and need no buffer of the size of all.
func (s *Store) ingest(op uint16, changes []byte, n int) error {
	if err := s.room(); err != nil {
		return err
	}
	s.sort(changes, n)
	w := tableWriter{s: s, size: s.opt.TargetFileSizes[0]}
	defer w.abandon()
	var key []byte
	for i, r := range s.order {
		c := changeAt(changes, r.at)
		if i+1 < len(s.order) && sameKey(c, changeAt(changes, s.order[i+1].at)) {
			continue // the last one counts
		}
		key = append(state.AppendStoreKey(key[:0], op, c.State, c.Group), c.Key...)
		if err := w.add(c.Kind, key, c.Value); err != nil {
			return err
		}
	}
	if err := w.end(); err != nil {
		return err
	}
	tables := w.take()
	return s.try(func() error { return s.db.Ingest(context.Background(), tables) })
}

// changeHead is the length of what stands before the key of an encoded change: see state.Delta.
const changeHead = 12

func changeAt(b []byte, at uint32) state.Change {
	b = b[at:]
	le := binary.LittleEndian
	k := changeHead + le.Uint32(b[4:])
	v := k + le.Uint32(b[8:])
	return state.Change{Kind: state.ChangeKind(b[0]), State: int(b[1]), Group: int(le.Uint16(b[2:])), Key: b[changeHead:k:k], Value: b[k:v:v]}
}

func sameKey(a, b state.Change) bool {
	return a.Group == b.Group && a.State == b.State && bytes.Equal(a.Key, b.Key)
}

// sort fills s.order with the changes by key, those of one key in their order.
func (s *Store) sort(changes []byte, n int) {
	list := slices.Grow(s.order[:0], n)
	for at := uint32(0); int(at) < len(changes); {
		c := changeAt(changes, at)
		var head [16]byte
		head[0] = byte(c.State)
		binary.BigEndian.PutUint16(head[1:], uint16(c.Group))
		copy(head[3:], c.Key)
		list = append(list, ref{binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:]), at})
		at += uint32(changeHead + len(c.Key) + len(c.Value))
	}
	slices.SortFunc(list, func(a, b ref) int {
		switch {
		case a.hi != b.hi:
			return cmp.Compare(a.hi, b.hi)
		case a.lo != b.lo:
			return cmp.Compare(a.lo, b.lo)
		}
		if d := bytes.Compare(changeAt(changes, a.at).Key, changeAt(changes, b.at).Key); d != 0 {
			return d
		}
		return cmp.Compare(a.at, b.at)
	})
	s.order = list
}

// tableWriter writes ascending entries to tables of about size bytes.
type tableWriter struct {
	s     *Store
	size  int64
	w     *sstable.Writer
	bytes int64
	paths []string
}

func (w *tableWriter) add(kind state.ChangeKind, key, value []byte) error {
	if w.w != nil && w.bytes >= w.size {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.w == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.bytes += int64(len(key) + len(value) + 2)
	if kind == state.ChangeDelete {
		return w.w.Delete(key)
	}
	return w.w.Set(key, value)
}

func (w *tableWriter) begin() error {
	s := w.s
	dir := filepath.Join(s.dir, "new")
	if s.tables == 0 {
		if err := s.opt.FS.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	s.tables++
	path := filepath.Join(dir, fmt.Sprint(s.tables))
	f, err := s.opt.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w.paths, w.bytes = append(w.paths, path), 0
	w.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.opt.MakeWriterOptions(0, s.db.TableFormat()))
	return nil
}

func (w *tableWriter) end() error {
	if w.w == nil {
		return nil
	}
	err := w.w.Close()
	w.w = nil
	return err
}

// take returns the tables written, which are the caller's then.
func (w *tableWriter) take() []string {
	p := w.paths
	w.paths = nil
	return p
}

// abandon removes what was not taken.
func (w *tableWriter) abandon() {
	if w.w != nil {
		_ = w.w.Close()
	}
	for _, p := range w.paths {
		_ = w.s.opt.FS.Remove(p)
	}
}

// room waits until the tree has written what it got before. Were that left to the tree, nobody could
// be told that it fails to, nor could it be closed.
func (s *Store) room() error {
	for {
		if err := s.cause(); err != nil {
			return err
		}
		m := s.db.Metrics()
		if m.MemTable.Size <= s.waiting && m.Levels[0].Sublevels < maxSublevels {
			return nil
		}
		// What has ended may not be in the figures yet: look again before long.
		again := time.NewTimer(20 * time.Millisecond)
		select {
		case <-s.ended:
		case <-again.C:
		case <-s.failing():
		}
		again.Stop()
	}
}
