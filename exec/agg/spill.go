package agg

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/state"
)

// Groups may leave memory, with their keys as the operator's Codec saves them and what their slots
// keep in the Blob. Of their distinct values
//
//   - those of sets without heaps leave one by one, before their group, and come back one by one when
//     they are looked for: a group's set may be larger than memory;
//   - those of sets with heaps (MIN and MAX of rows that may be taken back) leave with their group and
//     come back with it (Fetch), since which is the least of them is known only of all.
//
// A group has an address as long as it, or one of its values, is in memory; so groups with values are
// not moved.

// Spill lets the groups, whose keeper is k, spill to s, and their values, whose states are those after
// that of the groups. To be called after Track, while the store is empty; nothing happens where s is
// nil. The operator's Codec, besides being a state.Dropper, hands Pinned, Fixed and Weight on to the
// store, calls Leave in DropValue, and Came in LoadValue for groups that come back.
func (st *Store) Spill(k *state.Keeper, s *state.Spill) {
	if s == nil {
		return
	}
	st.spill, st.keeper = s, *k
	k.Spill(st.T, s)
	for i, vs := range st.vals {
		if vs.spec.heaps == 0 {
			values := *k
			values.State, values.Codec = k.State+1+i, &member{st, vs}
			values.SpillMembers(vs.t, s, st.T)
		}
	}
}

// Pinned is that of state.Pinner: groups of which values are in memory that leave one by one stay.
func (st *Store) Pinned(rec uint32) bool {
	for _, vs := range st.vals {
		if vs.spec.heaps == 0 && first(st.word(rec, st.set.offset(vs.spec.head))) != 0 {
			return true
		}
	}
	return false
}

// Fixed is that of state.Fixer.
func (st *Store) Fixed() bool { return len(st.vals) > 0 }

// Weight is that of state.Weigher.
func (st *Store) Weight() (held, free int64) {
	held, free = st.Blob.Weight()
	for _, vs := range st.vals {
		if vs.spec.heaps > 0 {
			h, f := vs.t.Weight()
			held, free = held+h, free+f
		}
	}
	return held, free
}

// Leave gives back what a group keeps in memory outside of its record, which is about to leave.
func (st *Store) Leave(rec uint32) {
	one := [1]uint32{rec}
	for k, sl := range st.set.slots {
		if f, ok := sl.(freer); ok {
			f.free(st, st.set.offset(k), one[:])
		}
	}
	for _, vs := range st.vals {
		if vs.spec.heaps == 0 {
			continue // it has none
		}
		for e := first(st.word(rec, st.set.offset(vs.spec.head))); e != 0; {
			next := uint32(vs.t.At(e)[vs.spec.chainAt+1])
			vs.t.Forget(e)
			e = next
		}
	}
}

// Came says that a group has come back, whose values the store may have.
func (st *Store) Came(rec uint32) {
	for _, vs := range st.vals {
		*st.word(rec, st.set.offset(vs.spec.head)) |= chainCold
	}
}

// Fetch brings the values back that have to be in memory with their groups.
func (st *Store) Fetch(recs []uint32) {
	if st.spill == nil {
		return
	}
	for i, vs := range st.vals {
		if vs.spec.heaps == 0 {
			continue
		}
		off := st.set.offset(vs.spec.head)
		for _, rec := range recs {
			p := st.word(rec, off)
			if *p&chainCold == 0 {
				continue
			}
			*p &^= chainCold
			st.spillKey = st.T.AppendKey(append(st.spillKey[:0], st.keeper.Prefix...), rec)
			st.spill.EachEntry(st.keeper.State+1+i, st.keeper.MaxParallelism, st.T.Hash(rec), st.spillKey,
				func(key, value []byte) error {
					e, rest, err := vs.newEntry(key, rec)
					if err == nil && len(rest) > 0 {
						err = errValue
					}
					if err == nil {
						err = vs.fill(e, value)
					}
					if err == nil {
						st.place(vs, rec, e, true)
					}
					return err
				})
		}
	}
}

// RestoreValues loads the values of all groups, which have been restored by k, from saved, or leaves
// them in the store where the groups are.
func (st *Store) RestoreValues(k *state.Keeper, saved state.Saved) error {
	stored := st.spill.Stored()
	for i, vs := range st.vals {
		at := k.State + 1 + i
		switch {
		case stored && vs.spec.heaps > 0: // Fetch brings them
		case stored:
			values := *k
			values.State = at
			if err := values.Restore(vs.t, saved); err != nil {
				return err
			}
		default:
			if err := saved.Scan(at, func(_ int, key, value []byte) error { return st.LoadValue(i, key, value) }); err != nil {
				return err
			}
		}
	}
	if !stored {
		st.EndLoad()
	}
	return nil
}

const (
	// wipeKeys is up to how many entries a group's are removed one by one: stores cope better with many
	// single keys than with many ranges.
	wipeKeys = 64
	// wipeCount is up to how many of them are counted.
	wipeCount = 1 << 14
)

// wipe notes that all entries of a group in the store are to go: those of set i.
func (vs *valueStore) wipe(st *Store, i int, rec uint32) {
	st.spillKey = st.T.AppendKey(append(st.spillKey[:0], st.keeper.Prefix...), rec)
	hash, at, n := st.T.Hash(rec), len(vs.wiped), 0
	st.spill.EachEntry(st.keeper.State+1+i, st.keeper.MaxParallelism, hash, st.spillKey, func(key, _ []byte) error {
		if n++; n > wipeCount {
			return state.Enough
		} else if n <= wipeKeys {
			vs.wiped = appendWiped(vs.wiped, hash, false, st.spillKey, key)
		}
		return nil
	})
	vs.t.Removed(n)
	if n > wipeKeys {
		vs.wiped = appendWiped(vs.wiped[:at], hash, true, st.spillKey, nil)
	}
}

func appendWiped(dst []byte, hash uint32, all bool, group, key []byte) []byte {
	n := uint32(len(group)+len(key)) << 1
	if all {
		n |= 1
	}
	le := binary.LittleEndian
	return append(append(le.AppendUint32(le.AppendUint32(dst, hash), n), group...), key...)
}

// freezeWiped adds what wipe noted to d, before anything new of these groups.
func (vs *valueStore) freezeWiped(k *state.Keeper, at int, d *state.Delta) {
	le := binary.LittleEndian
	for b := vs.wiped; len(b) > 0; {
		n := le.Uint32(b[4:])
		g, key := state.KeyGroup(le.Uint32(b), k.MaxParallelism), b[8:8+n>>1]
		if n&1 == 1 {
			d.DeletePrefix(at, g, key)
		} else {
			d.Delete(at, g, key)
		}
		b = b[8+n>>1:]
	}
	vs.wiped = vs.wiped[:0]
}

// member is the state.Member of the values of a set that leave memory one by one.
type member struct {
	st *Store
	vs *valueStore
}

// group is the word of the group that an entry belongs to.
func (m *member) group(e uint32) *uint64 {
	return m.st.word(uint32(m.vs.t.At(e)[1]), m.st.set.offset(m.vs.spec.head))
}

// AppendValue implements state.Codec.
func (m *member) AppendValue(dst []byte, e uint32) []byte { return m.vs.appendSaved(dst, e) }

// LoadValue implements state.Codec.
func (m *member) LoadValue(e uint32, value []byte) error {
	err := m.vs.fill(e, value)
	if err == nil {
		m.st.set.join(m.vs.spec, m.vs, m.st, uint32(m.vs.t.At(e)[1]), e)
	}
	return err
}

// DropValue implements state.Dropper.
func (m *member) DropValue(e uint32) {
	*m.group(e) |= chainCold
	m.st.set.leave(m.vs.spec, m.vs, m.st, e)
}

// Cold implements state.Member.
func (m *member) Cold(e uint32) bool { return *m.group(e)&chainCold != 0 }

// Fixed implements state.Fixer.
func (m *member) Fixed() bool { return m.vs.spec.chainAt >= 0 }
