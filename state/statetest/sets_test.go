package statetest

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// sets keeps, by key, a set of numbers with how often each came: groups, and members that belong to
// them and leave memory one by one. A number that has come four times is removed from its set, and a
// key now and then with all that belongs to it. Every step emits how often the numbers of its rows have come.
type sets struct {
	in           Instance
	mem          *state.Memory
	t, m         *state.Table
	enc, members *state.Encoder
	k, mk        *state.Keeper
	wiped        [][]byte // keys of groups whose members are to go, with their key group before
	restoring    bool
}

// Words of a group: members in memory, and whether the store may have others.
const (
	hotMembers = iota
	coldMembers
)

func startSets(in Instance) (Subject, error) {
	s := &sets{in: in, mem: in.Budget.NewMemory()}
	l := state.NewLayout([]types.Type{types.StringType}, false)
	ml := state.NewLayout([]types.Type{types.BigIntType}, true)
	s.t, s.enc = state.NewTable(s.mem, l, []uint64{0, 0}), state.NewEncoder(l)
	s.m, s.members = state.NewTable(s.mem, ml, []uint64{0}), state.NewEncoder(ml)
	s.t.Track()
	s.m.TrackOwned(func(dst []byte, rec uint32) ([]byte, uint32) {
		group := uint32(s.m.At(rec)[1])
		return s.t.AppendKey(dst, group), s.t.Hash(group)
	})
	s.k = &state.Keeper{MaxParallelism: in.MaxParallelism, Codec: setGroups{s}, Check: func(g int) {
		if !in.Owns(g) {
			panic(fmt.Sprintf("BUG: group %d", g))
		}
	}}
	mk := *s.k
	mk.State, mk.Codec = 1, setMembers{s}
	s.mk = &mk
	s.k.Spill(s.t, in.Spill)
	s.mk.SpillMembers(s.m, in.Spill, s.t)
	return s, nil
}

func (s *sets) group(rec uint32) []uint64   { return s.t.At(rec)[s.t.Base():] }
func (s *sets) count(rec uint32) *uint64    { return &s.m.At(rec)[s.m.Base()] }
func (s *sets) groupOf(rec uint32) []uint64 { return s.group(uint32(s.m.At(rec)[1])) }

type setGroups struct{ *sets }

// AppendValue implements state.Codec.
func (setGroups) AppendValue(dst []byte, _ uint32) []byte { return append(dst, 's') }

// LoadValue implements state.Codec.
func (s setGroups) LoadValue(rec uint32, v []byte) error {
	if string(v) != "s" {
		return errValue
	}
	if !s.restoring {
		s.group(rec)[coldMembers] = 1
	}
	return nil
}

// DropValue implements state.Dropper.
func (setGroups) DropValue(uint32) {}

// Pinned implements state.Pinner.
func (s setGroups) Pinned(rec uint32) bool { return s.group(rec)[hotMembers] > 0 }

// Fixed implements state.Fixer.
func (setGroups) Fixed() bool { return true }

type setMembers struct{ *sets }

// AppendValue implements state.Codec.
func (s setMembers) AppendValue(dst []byte, rec uint32) []byte {
	return binary.LittleEndian.AppendUint64(dst, *s.count(rec))
}

// LoadValue implements state.Codec.
func (s setMembers) LoadValue(rec uint32, v []byte) error {
	if len(v) != 8 {
		return errValue
	}
	*s.count(rec) = binary.LittleEndian.Uint64(v)
	s.groupOf(rec)[hotMembers]++
	return nil
}

// DropValue implements state.Dropper.
func (s setMembers) DropValue(rec uint32) {
	s.groupOf(rec)[hotMembers]--
	s.groupOf(rec)[coldMembers] = 1
}

// Cold implements state.Member.
func (s setMembers) Cold(rec uint32) bool { return s.groupOf(rec)[coldMembers] != 0 }

func (s *sets) States() []state.Spec {
	return []state.Spec{{Name: "groups", Version: 1}, {Name: "members", Version: 1}}
}

func (s *sets) Freeze(d *state.Delta) error {
	for _, w := range s.wiped {
		d.DeletePrefix(1, int(w[0]), w[1:])
	}
	s.wiped = nil
	s.k.Freeze(s.t, d)
	s.mk.Freeze(s.m, d)
	return nil
}

func (s *sets) Dirty() int                      { return 8 * (s.t.Dirty() + s.m.Dirty()) }
func (s *sets) Head(dst []byte) ([]byte, error) { return dst, nil }

func (s *sets) Restore(saved state.Saved, _ [][]byte) error {
	s.restoring = true
	defer func() { s.restoring = false }()
	if err := s.k.Restore(s.t, saved); err != nil {
		return err
	}
	if s.in.Spill.Stored() {
		return s.mk.Restore(s.m, saved)
	}
	return saved.Scan(1, func(_ int, key, value []byte) error {
		n := s.t.Len()
		group, rest, err := s.t.UpsertKey(key, 0)
		if err == nil && s.t.Len() > n {
			err = errValue
		}
		var rec uint32
		if err == nil {
			n = s.m.Len()
			rec, rest, err = s.m.UpsertKey(rest, group)
		}
		if err == nil && (len(rest) > 0 || s.m.Len() == n) {
			err = errValue
		}
		if err == nil {
			err = setMembers{s}.LoadValue(rec, value)
		}
		if err == nil {
			s.m.Saved(rec)
		}
		return err
	})
}

func (s *sets) Step(n int) (out []string, err error) {
	r := rand.New(rand.NewSource(int64(n)))
	size := r.Intn(30) + 1
	key, number := vec.New(types.StringType, 0), vec.New(types.BigIntType, 0)
	var keys []int
	for range size {
		k := r.Intn(8)
		keys = append(keys, k)
		key.AppendValue(fmt.Sprintf("%0*d", 4*k+1, k))
		number.AppendValue(int64(r.Intn(40)))
	}
	var mine []int32
	for i := range int32(size) {
		s.enc.Encode([]*vec.Vec{key}, []int32{i}, nil)
		if s.in.Owns(state.KeyGroup(s.enc.Hash(0), s.in.MaxParallelism)) {
			mine = append(mine, i)
		}
	}
	groups, recs := make([]uint32, len(mine)), make([]uint32, len(mine))
	s.enc.Encode([]*vec.Vec{key}, mine, nil)
	s.t.Upsert(s.enc, nil, groups)
	s.members.Encode([]*vec.Vec{number}, mine, groups)
	s.m.Upsert(s.members, nil, recs)
	for k, rec := range recs {
		if !state.Live(s.m.At(rec)) {
			continue // removed by an earlier row of this step
		}
		c := s.count(rec)
		if *c == 0 {
			s.group(groups[k])[hotMembers]++
		}
		*c++
		s.m.Touch(recs[k : k+1])
		out = append(out, fmt.Sprintf("%x has %x %d times", s.t.AppendKey(nil, groups[k]), s.m.AppendKey(nil, rec), *c))
		if *c == 4 {
			s.group(groups[k])[hotMembers]--
			s.m.Delete(rec)
		}
	}
	for k, i := range mine {
		if n%9 == 8 && keys[i] == n/9%8 {
			s.remove(groups[k])
			break
		}
	}
	return out, nil
}

// remove removes a group with all its members.
func (s *sets) remove(group uint32) {
	cold := s.group(group)[coldMembers] != 0
	if cold {
		g := byte(state.KeyGroup(s.t.Hash(group), s.in.MaxParallelism))
		s.wiped = append(s.wiped, s.t.AppendKey([]byte{g}, group))
	}
	var c state.Cursor
	ids := make([]uint32, s.m.Len())
	for _, rec := range s.m.Scan(&c, ids) {
		switch {
		case uint32(s.m.At(rec)[1]) != group:
		case cold:
			s.m.Forget(rec)
		default:
			s.m.Delete(rec)
		}
	}
	s.t.Delete(group)
}

func (s *sets) Close() error {
	s.t.Release()
	s.m.Release()
	s.mem.Close()
	return nil
}

func TestSets(t *testing.T) {
	Run(t, Kind{Start: startSets, Steps: 200, Spills: true})
}
