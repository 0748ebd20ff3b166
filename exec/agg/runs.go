package agg

import (
	"github.com/tidemark-stream/tidemark/state"
)

// What a group has may be in several parts, each made of some of its rows: stores that took rows one after
// the other, and saved ones. Accumulators of parts are merged (MergeOwn), their distinct values united
// (Union). Entries of values of a part that was saved are those of FreezeValues with a suffix of the
// owner's behind the key.

// Splits reports whether the parts of a group may be merged in any order.
func (s *Set) Splits() bool {
	for _, sl := range s.slots {
		if _, ok := sl.(*single); ok {
			return false
		}
	}
	return !s.ordered
}

// MergeOwn is Merge without distinct values, and without what follows from them.
func (s *Set) MergeOwn(dst, src *Store, d, sr []uint32) {
	for k, sl := range s.slots {
		if !s.derived[k] {
			sl.merge(dst, src, s.base+s.at[k], d, sr)
		}
	}
}

// ValueWeight is the memory that the distinct values take, bytes, and how much of it is free for others.
func (st *Store) ValueWeight() (held, free int64) {
	for _, vs := range st.vals {
		h, f := vs.t.Weight()
		held, free = held+h, free+f
	}
	return held, free
}

// FreezeValuesPart is FreezeValues of a part of the groups: suffix follows the keys. Values that were taken
// back altogether are deleted.
func (st *Store) FreezeValuesPart(k *state.Keeper, d *state.Delta, suffix []byte) {
	for i, vs := range st.vals {
		vs.freeze(k, k.State+i, d, suffix)
	}
}

// ValueSuffix returns what follows the keys of the group and of the value at the start of the key of an
// entry of set number i, without its prefix. Nothing stays in st.
func (st *Store) ValueSuffix(i int, key []byte) ([]byte, error) {
	key, err := skipKey(st.T, key)
	if err != nil {
		return nil, err
	}
	return skipKey(st.vals[i].t, key)
}

// skipKey returns what follows the key of t at the start of key.
func skipKey(t *state.Table, key []byte) ([]byte, error) {
	n := t.Len()
	rec, rest, err := t.UpsertKey(key, 0)
	if err == nil && t.Len() > n {
		t.Forget(rec)
	}
	return rest, err
}
