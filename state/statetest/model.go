package statetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-stream/tidemark/state"
)

// Model is a store in memory: what was frozen, applied to a map by complete key. It is a state.Cold,
// and gives a state.Saved of any range of key groups.
type Model struct {
	m      map[string][]byte
	sorted []string // keys of m, nil if they are to be sorted
}

// operator is the prefix of the keys of the operator under test.
const operator = 7

// Apply adds changes. A key that is deleted must be there, since only saved keys are to be deleted, or
// have gone with a prefix just before.
func (m *Model) Apply(changes []byte) error {
	if m.m == nil {
		m.m = map[string][]byte{}
	}
	m.sorted = nil
	swept := map[string]bool{}
	return state.EachChange(changes, func(c state.Change) error {
		k := string(append(state.AppendStoreKey(nil, operator, c.State, c.Group), c.Key...))
		switch c.Kind {
		case state.ChangePut:
			m.m[k] = bytes.Clone(c.Value)
		case state.ChangeDelete:
			if _, ok := m.m[k]; !ok && !swept[k] {
				return fmt.Errorf("key %x of state %d is deleted and was not saved", c.Key, c.State)
			}
			delete(m.m, k)
		case state.ChangeDeletePrefix:
			for o := range m.m {
				if len(o) >= len(k) && o[:len(k)] == k {
					delete(m.m, o)
					swept[o] = true
				}
			}
		}
		return nil
	})
}

// Len is the number of entries.
func (m *Model) Len() int { return len(m.m) }

// Clone returns a copy.
func (m *Model) Clone() *Model { return &Model{m: maps.Clone(m.m)} }

func (m *Model) keys() []string {
	if m.sorted == nil {
		m.sorted = slices.Sorted(maps.Keys(m.m))
	}
	return m.sorted
}

// Diff tells the first difference to o; with loose, values may differ.
func (m *Model) Diff(o *Model, loose bool) error {
	for _, k := range m.keys() {
		v, ok := o.m[k]
		if !ok {
			return fmt.Errorf("entry %x is in one only", k)
		}
		if !loose && !bytes.Equal(v, m.m[k]) {
			return fmt.Errorf("entry %x has the values %x and %x", k, m.m[k], v)
		}
	}
	if len(o.m) != len(m.m) {
		return fmt.Errorf("%d and %d entries", len(m.m), len(o.m))
	}
	return nil
}

// Lookup implements state.Cold.
func (m *Model) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	for i, k := range keys {
		if i > 0 && bytes.Compare(keys[i-1], k) >= 0 {
			return fmt.Errorf("keys %x and %x do not ascend", keys[i-1], k)
		}
		if v, ok := m.m[string(k)]; ok {
			if err := lent(v, func(v []byte) error { return found(i, v) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// lent calls f with a copy of b that is gone after the call.
func lent(b []byte, f func([]byte) error) error {
	c := bytes.Clone(b)
	err := f(c)
	for i := range c {
		c[i] = '#'
	}
	return err
}

// Range implements state.Cold.
func (m *Model) Range(lo, hi []byte, f func(key, value []byte) error) error {
	list := m.keys()
	i, _ := slices.BinarySearch(list, string(lo))
	for ; i < len(list) && list[i] < string(hi); i++ {
		if err := lent([]byte(list[i]), func(k []byte) error {
			return lent(m.m[list[i]], func(v []byte) error { return f(k, v) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// Saved returns the entries of the key groups from lo up to but not including hi.
func (m *Model) Saved(lo, hi int) state.Saved { return groups{m, lo, hi} }

type groups struct {
	m      *Model
	lo, hi int
}

// Scan implements state.Saved.
func (g groups) Scan(st int, f func(group int, key, value []byte) error) error {
	return g.m.Range(state.AppendStoreKey(nil, operator, st, g.lo), state.AppendStoreKey(nil, operator, st, g.hi),
		func(key, value []byte) error {
			return f(int(binary.BigEndian.Uint16(key[3:])), key[state.StoreHead:], value)
		})
}
