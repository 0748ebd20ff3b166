package agg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Track begins to note which groups and values change; see state.Table.Track. To be called while
// the store, whose groups have keys, is empty.
func (st *Store) Track() {
	st.T.Track()
	for _, vs := range st.vals {
		vs.tracked = true
		vs.t.TrackOwned(func(dst []byte, rec uint32) ([]byte, uint32) {
			group := uint32(vs.t.At(rec)[1])
			return st.T.AppendKey(dst, group), st.T.Hash(group)
		})
	}
}

// DirtyBytes is about how many bytes freezing the groups, of groupBytes each besides their key, and
// the values would add.
func (st *Store) DirtyBytes(groupBytes int) int {
	n := st.T.Dirty() * (groupBytes + 8*st.T.Layout().Words())
	for _, vs := range st.vals {
		n += vs.t.Dirty() * 8 * (st.T.Layout().Words() + vs.t.Stride())
	}
	return n
}

// ValueSpecs describes the states of the distinct values, one for each set of values, of groups
// whose keys are made of the columns group. Their entries are
//
//	key    the prefix of the keeper, the key of the group, the key of the value (state.Table.AppendKey)
//	value  columns in the form of state.AppendValue
func (s *Set) ValueSpecs(group []types.Field) []state.Spec {
	var out []state.Spec
	for k, v := range s.values {
		// The name goes by the order of the sets: columns may get other names between two starts.
		sp := state.Spec{Name: fmt.Sprintf("values of %d", k+1), Key: slices.Clone(group), Version: SaveVersion}
		for i, name := range v.names {
			sp.Key = append(sp.Key, types.Field{Name: name, Type: v.types[i]})
		}
		for i, f := range v.filters {
			switch {
			case v.counted && f < 0:
				sp.Value = append(sp.Value, bigint("rows"))
			case v.counted:
				sp.Value = append(sp.Value, bigint(fmt.Sprint("rows of filter ", i)))
			case i == 0:
				sp.Value = append(sp.Value, bigint("filters"))
			}
		}
		if v.seqAt >= 0 {
			sp.Value = append(sp.Value, bigint("sequence"))
		}
		sp.KeyParts = []state.KeyPart{{Columns: len(group), Form: state.KeyTable}, {Columns: len(v.types), Form: state.KeyTable}}
		out = append(out, sp)
	}
	return out
}

func bigint(name string) types.Field {
	return types.Field{Name: name, Type: types.BigIntType.NotNull()}
}

// FreezeValues adds the changes of the distinct values to d: as entries of the state k.State for
// the first set of values, the next one for the second and so on, in the key groups of their
// groups. The store must be tracked and its groups frozen too. k.Codec is not used.
func (st *Store) FreezeValues(k *state.Keeper, d *state.Delta) {
	for i, vs := range st.vals {
		vs.freezeWiped(k, k.State+i, d)
		vs.freeze(k, k.State+i, d, nil)
	}
}

// freeze adds the changes of one set of values to d, as entries of state at whose keys end with suffix.
func (vs *valueStore) freeze(k *state.Keeper, at int, d *state.Delta, suffix []byte) {
	var key []byte
	vs.t.Changes(func(rec uint32) {
		var hash uint32
		key, hash = vs.t.SavedKey(append(key[:0], k.Prefix...), rec)
		key = append(key, suffix...)
		g := state.KeyGroup(hash, k.MaxParallelism)
		k.Check(g)
		if !vs.spec.counts(vs.t.At(rec)) {
			d.Delete(at, g, key) // only a heap holds it, for a while
			return
		}
		buf := append(d.BeginPut(at, g), key...)
		end := len(buf)
		d.EndPut(vs.appendSaved(buf, rec), end)
	}, func(hash uint32, gone []byte) {
		key = append(append(append(key[:0], k.Prefix...), gone...), suffix...)
		d.Delete(at, state.KeyGroup(hash, k.MaxParallelism), key)
	})
}

// counts reports whether the entry w stands for any row.
func (v *valueSpec) counts(w []uint64) bool {
	n := v.layout.Words()
	for _, c := range w[n : n+v.nCounts] {
		if c != 0 {
			return true
		}
	}
	return false
}

var (
	errValue = errors.New("a saved distinct value does not have the shape of the operator's aggregates")
	errOwner = errors.New("a saved distinct value is of a group that was not saved")
)

// LoadValue adds a saved entry of set number i, as FreezeValues gave it to state k.State + i, to its
// group, which must have been loaded. key has no prefix any more. EndLoad is to follow.
func (st *Store) LoadValue(i int, key, value []byte) error {
	n := st.T.Len()
	group, rest, err := st.T.UpsertKey(key, 0)
	switch {
	case err != nil:
		return err
	case st.T.Len() > n:
		return errOwner
	}
	vs := st.vals[i]
	e, rest, err := vs.newEntry(rest, group)
	if err == nil && len(rest) > 0 {
		err = errValue
	}
	if err == nil {
		err = vs.fill(e, value)
	}
	if err != nil {
		return err
	}
	st.place(vs, group, e, vs.spec.seqAt < 0)
	return nil
}

// fill gives an entry what was saved of it.
func (vs *valueStore) fill(e uint32, value []byte) error {
	n := vs.savedWords()
	if len(value) != 9*n {
		return errValue
	}
	for k := range n {
		*vs.savedWord(e, k) = binary.LittleEndian.Uint64(value[9*k+1:])
	}
	if at := vs.spec.seqAt; at >= 0 {
		vs.seq = max(vs.seq, vs.t.At(e)[at])
	}
	if !vs.spec.counts(vs.t.At(e)) {
		return errValue
	}
	return nil
}

// appendSaved appends what is saved of an entry.
func (vs *valueStore) appendSaved(dst []byte, e uint32) []byte {
	for k := range vs.savedWords() {
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), *vs.savedWord(e, k))
	}
	return dst
}

// savedWords is the number of words of an entry that are saved, and savedWord one of them: the
// counts, or what is present, then the sequence number.
func (vs *valueStore) savedWords() int {
	if vs.spec.seqAt >= 0 {
		return vs.spec.nCounts + 1
	}
	return vs.spec.nCounts
}

func (vs *valueStore) savedWord(e uint32, k int) *uint64 {
	at := vs.spec.layout.Words() + k
	if k == vs.spec.nCounts {
		at = vs.spec.seqAt
	}
	return &vs.t.At(e)[at]
}

// newEntry adds the entry of a group whose key is at the start of key and returns the rest of key.
func (vs *valueStore) newEntry(key []byte, group uint32) (e uint32, rest []byte, err error) {
	e, rest, err = vs.t.UpsertKey(key, group)
	if err == nil && vs.spec.counts(vs.t.At(e)) {
		err = errValue // it was there
	}
	return e, rest, err
}

// place makes an entry that has its counts known to its group.
func (st *Store) place(vs *valueStore, group, e uint32, link bool) {
	v, s := vs.spec, st.set
	if v.head >= 0 && link {
		s.join(v, vs, st, group, e)
	}
	w := vs.t.At(e)
	for _, c := range v.consumers {
		if c.heap < 0 || int64(w[v.layout.Words()+c.filter]) <= 0 {
			continue
		}
		w[v.heldAt] |= 1 << c.heap
		p := st.word(group, s.offset(c.slot))
		*p = uint64(vs.heaps[c.heap].Push(state.Ref(*p), e))
	}
	vs.t.Saved(e)
}

// EndLoad is to be called when LoadValue was for all groups of a store, before anything else is done
// with it: values whose order matters are put into the order in which they came.
func (st *Store) EndLoad() {
	for _, vs := range st.vals {
		v := vs.spec
		if v.seqAt < 0 {
			continue
		}
		var all []uint32
		var c state.Cursor
		var ids [256]uint32
		for {
			got := vs.t.Scan(&c, ids[:])
			if len(got) == 0 {
				break
			}
			all = append(all, got...)
		}
		slices.SortFunc(all, func(a, b uint32) int {
			if vs.t.At(a)[v.seqAt] < vs.t.At(b)[v.seqAt] {
				return -1
			}
			return 1
		})
		for _, e := range all {
			st.set.link(v, vs, st, uint32(vs.t.At(e)[1]), e)
		}
	}
}

// AppendValues appends all distinct values of a group, which needs Options.Owned:
//
//	for each set of values: their number (4 bytes, little endian), then for each, in the order in
//	which they came: its key (state.Table.AppendKey), its counts (8 bytes each, little endian)
func (s *Set) AppendValues(dst []byte, st *Store, rec uint32) []byte {
	le := binary.LittleEndian
	for i, v := range s.values {
		vs := st.vals[i]
		head := len(dst)
		dst = le.AppendUint32(dst, 0)
		last, n := uint32(0), uint32(0)
		for e := first(st.word(rec, s.offset(v.head))); e != 0; e = uint32(vs.t.At(e)[v.chainAt+1]) {
			last = e
		}
		for e := last; e != 0; e = uint32(vs.t.At(e)[v.chainAt]) {
			w := vs.t.At(e)
			if !v.counts(w) {
				continue
			}
			n++
			dst = vs.t.AppendKey(dst, e)
			for _, c := range w[v.layout.Words():][:v.nCounts] {
				dst = le.AppendUint64(dst, c)
			}
		}
		le.PutUint32(dst[head:], n)
	}
	return dst
}

// LoadValues gives a group, which has none, the values that AppendValues appended.
func (s *Set) LoadValues(st *Store, rec uint32, b []byte) error {
	le := binary.LittleEndian
	for i, v := range s.values {
		if len(b) < 4 {
			return errValue
		}
		vs := st.vals[i]
		n := le.Uint32(b)
		b = b[4:]
		for ; n > 0; n-- {
			e, rest, err := vs.newEntry(b, rec)
			if err == nil && len(rest) < 8*v.nCounts {
				err = errValue
			}
			if err != nil {
				return err
			}
			for k := range v.nCounts {
				*vs.savedWord(e, k) = le.Uint64(rest[8*k:])
			}
			st.place(vs, rec, e, true)
			b = rest[8*v.nCounts:]
		}
	}
	if len(b) > 0 {
		return errValue
	}
	return nil
}
