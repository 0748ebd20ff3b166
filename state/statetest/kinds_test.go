package statetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// lists keeps, by key, a list of numbers in a Blob, and when the key was used last; keys expire some
// steps after that. Every step emits what the keys of its rows hold, and what has expired.
type lists struct {
	in    Instance
	mem   *state.Memory
	t     *state.Table
	blob  *state.Blob
	enc   *state.Encoder
	k     *state.Keeper
	types []types.Type
	ttl   int
	// expiry removes expired keys, where there is no Sweep.
	expiry *state.Expiry
	swept  state.SweepCursor
}

var errValue = errors.New("a saved list is damaged")

func startLists(ts []types.Type, ttl int) func(Instance) (Subject, error) {
	return func(in Instance) (Subject, error) {
		s := &lists{in: in, types: ts, ttl: ttl, mem: in.Budget.NewMemory()}
		l := state.NewLayout(ts, false)
		s.t, s.blob, s.enc = state.NewTable(s.mem, l, []uint64{0, 0}), state.NewBlob(s.mem), state.NewEncoder(l)
		s.t.Track()
		s.expiry = state.NewExpiry(s.t, s.t.Base()+1, int64(ttl), s.DropValue)
		s.k = &state.Keeper{MaxParallelism: in.MaxParallelism, Codec: s, Check: func(g int) {
			if !in.Owns(g) {
				panic(fmt.Sprintf("BUG: group %d", g))
			}
		}}
		s.k.Spill(s.t, in.Spill)
		return s, nil
	}
}

func (s *lists) words(rec uint32) []uint64 { return s.t.At(rec)[s.t.Base():] }

func (s *lists) AppendValue(dst []byte, rec uint32) []byte {
	w := s.words(rec)
	return append(binary.LittleEndian.AppendUint64(dst, w[1]), s.blob.Get(state.Ref(w[0]))...)
}

func (s *lists) LoadValue(rec uint32, v []byte) error {
	if len(v) < 8 {
		return errValue
	}
	w := s.words(rec)
	w[0], w[1] = uint64(s.blob.Put(v[8:])), binary.LittleEndian.Uint64(v)
	return nil
}

// LastUse implements state.Dated.
func (s *lists) LastUse(v []byte) (int64, bool) {
	if len(v) < 8 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(v)), true
}

func (s *lists) DropValue(rec uint32) { s.blob.Free(state.Ref(s.words(rec)[0])) }

func (s *lists) States() []state.Spec            { return []state.Spec{{Name: "lists", Version: 1}} }
func (s *lists) Freeze(d *state.Delta) error     { s.k.Freeze(s.t, d); return nil }
func (s *lists) Dirty() int                      { return s.t.Dirty() * 8 }
func (s *lists) Head(dst []byte) ([]byte, error) { return append(dst, "head"...), nil }

func (s *lists) Restore(saved state.Saved, heads [][]byte) error {
	for _, h := range heads {
		if string(h) != "head" {
			return errors.New("a head is wrong")
		}
	}
	return s.k.Restore(s.t, saved)
}

func (s *lists) Close() error {
	s.t.Release()
	s.blob.Release()
	s.mem.Close()
	return nil
}

// rows are the keys of step n that the instance owns, encoded.
func (s *lists) rows(n int) (*rand.Rand, int) {
	r := rand.New(rand.NewSource(int64(n)))
	size := r.Intn(30) + 1
	cols := make([]*vec.Vec, len(s.types))
	for c, t := range s.types {
		cols[c] = vec.New(t, 0)
		for range size {
			k := r.Intn(120)
			var v types.Value = int64(k)
			if t.Phys() == types.PBytes {
				v = fmt.Sprintf("%0*d", k%20+1, k)
			}
			if k%11 == 0 {
				v = nil
			}
			cols[c].AppendValue(v)
		}
	}
	all := make([]int32, size)
	for i := range all {
		all[i] = int32(i)
	}
	s.enc.Encode(cols, all, nil)
	mine := all[:0]
	for i := range size {
		if s.in.Owns(state.KeyGroup(s.enc.Hash(i), s.in.MaxParallelism)) {
			mine = append(mine, int32(i))
		}
	}
	s.enc.Encode(cols, mine, nil)
	return r, len(mine)
}

func (s *lists) Step(n int) (out []string, err error) {
	_, size := s.rows(n)
	recs := make([]uint32, size)
	if n%5 == 4 {
		// A lookup only.
		s.t.Find(s.enc, nil, recs)
		for _, rec := range recs {
			if rec == 0 || s.ttl > 0 && int(s.words(rec)[1])+s.ttl <= n {
				out = append(out, "nothing")
				continue
			}
			out = append(out, fmt.Sprintf("find %x %v", s.t.AppendKey(nil, rec), s.blob.Get(state.Ref(s.words(rec)[0]))))
		}
		return out, nil
	}
	s.t.Upsert(s.enc, nil, recs)
	for _, rec := range recs {
		if !state.Live(s.t.At(rec)) {
			continue // deleted by an earlier row of the same key
		}
		key, w := s.t.AppendKey(nil, rec), s.words(rec)
		if s.ttl > 0 && w[0] != 0 && int(w[1])+s.ttl <= n {
			s.DropValue(rec)
			w[0] = 0
		}
		out = append(out, fmt.Sprintf("list %x %v", key, s.blob.Get(state.Ref(w[0]))))
		w[0], w[1] = uint64(s.blob.Append(state.Ref(w[0]), []byte{byte(n)})), uint64(n)
		if len(s.blob.Get(state.Ref(w[0]))) > 4 {
			s.DropValue(rec)
			s.t.Delete(rec)
		}
	}
	if s.ttl > 0 && n%7 == 6 {
		s.expire(n)
	}
	if n%50 == 49 {
		out = append(out, s.all()...)
	}
	return out, nil
}

// expire removes what has expired. Nothing is emitted for it, as when it is found is open.
func (s *lists) expire(n int) {
	if n%2 == 0 {
		s.expiry.Step(int64(n), 10)
		return
	}
	ids := make([]uint32, 8)
	for range 3 {
		for _, rec := range s.t.Sweep(&s.swept, ids) {
			if int(s.words(rec)[1])+s.ttl <= n {
				s.DropValue(rec)
				s.t.Delete(rec)
			}
		}
	}
}

// all lists what has not expired, as an operator does that emits everything at the end.
func (s *lists) all() (out []string) {
	if s.ttl > 0 {
		return nil
	}
	ids := make([]uint32, 8)
	var c state.SweepCursor
	for list := s.t.Sweep(&c, ids); len(list) > 0; list = s.t.Sweep(&c, ids) {
		for _, rec := range list {
			out = append(out, fmt.Sprintf("all %x %v", s.t.AppendKey(nil, rec), s.blob.Get(state.Ref(s.words(rec)[0]))))
		}
	}
	return out
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		name  string
		types []types.Type
		ttl   int
	}{
		{"bigint", []types.Type{types.BigIntType}, 0},
		{"string and bigint", []types.Type{types.StringType, types.BigIntType}, 0},
		{"string", []types.Type{types.StringType}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			Run(t, Kind{Start: startLists(c.types, c.ttl), Steps: 150, Spills: true})
		})
	}
}

// TestLists_TTL: keys that expired are gone wherever they are; when they are swept differs, so what
// is saved may.
func TestLists_TTL(t *testing.T) {
	k := Kind{Start: startLists([]types.Type{types.BigIntType}, 20), Steps: 150, Spills: true}
	want := k.undisturbed(t)
	for seed := int64(1); seed <= 5; seed++ {
		k.disturbed(t, want, seed, []int{1, 3, 2}, false)
		k.disturbed(t, want, seed, []int{1, 3, 2}, true)
	}
}

// sliced keeps one table a slice of time, under the end of the slice as the prefix; slices are
// dropped as a whole.
type sliced struct {
	lists
	tabs map[int]*state.Table
	gone []int
}

const slicesSteps = 10

func startSlices(in Instance) (Subject, error) {
	s := &sliced{lists: lists{in: in, types: []types.Type{types.BigIntType}, mem: in.Budget.NewMemory()}}
	s.enc = state.NewEncoder(state.NewLayout(s.types, false))
	s.tabs = map[int]*state.Table{}
	return s, nil
}

func (s *sliced) tab(end int) *state.Table {
	if s.tabs[end] == nil {
		s.tabs[end] = state.NewTable(s.mem, s.enc.Layout, []uint64{0})
		s.tabs[end].Track()
	}
	return s.tabs[end]
}

type sliceCodec struct{ t *state.Table }

func (c sliceCodec) AppendValue(dst []byte, rec uint32) []byte {
	return binary.LittleEndian.AppendUint64(dst, c.t.At(rec)[c.t.Base()])
}

func (c sliceCodec) LoadValue(rec uint32, v []byte) error {
	if len(v) != 8 {
		return errValue
	}
	c.t.At(rec)[c.t.Base()] = binary.LittleEndian.Uint64(v)
	return nil
}

func (s *sliced) keeper(end int) *state.Keeper {
	return &state.Keeper{MaxParallelism: s.in.MaxParallelism, Prefix: binary.BigEndian.AppendUint32(nil, uint32(end)),
		Codec: sliceCodec{s.tab(end)}, Check: func(int) {}}
}

func (s *sliced) Freeze(d *state.Delta) error {
	lo, hi := state.Groups(s.in.Subtask, s.in.MaxParallelism, s.in.Parallelism)
	for _, end := range s.gone {
		for g := lo; g < hi; g++ {
			d.DeletePrefix(0, g, binary.BigEndian.AppendUint32(nil, uint32(end)))
		}
	}
	s.gone = s.gone[:0]
	for end := range 1000 {
		if t := s.tabs[end]; t != nil {
			s.keeper(end).Freeze(t, d)
		}
	}
	return nil
}

func (s *sliced) Dirty() int {
	n := 0
	for _, t := range s.tabs {
		n += t.Dirty()
	}
	return n
}

func (s *sliced) Restore(saved state.Saved, _ [][]byte) error {
	return saved.Scan(0, func(_ int, key, value []byte) error {
		if len(key) < 4 || binary.BigEndian.Uint32(key) > 1000 {
			return errValue
		}
		end := int(binary.BigEndian.Uint32(key))
		return s.keeper(end).Load(s.tab(end), key[4:], value)
	})
}

func (s *sliced) Step(n int) (out []string, err error) {
	r, size := s.rows(n)
	recs := make([]uint32, size)
	end := n/slicesSteps*slicesSteps + slicesSteps*(1+r.Intn(2))
	t := s.tab(end)
	t.Upsert(s.enc, nil, recs)
	for _, rec := range recs {
		t.At(rec)[t.Base()]++
	}
	if old := s.tabs[n]; old != nil {
		ids := make([]uint32, old.Len()+1)
		var c state.Cursor
		for _, rec := range old.Scan(&c, ids) {
			out = append(out, fmt.Sprintf("slice %d %x %d", n, old.AppendKey(nil, rec), old.At(rec)[old.Base()]))
		}
		old.Release()
		delete(s.tabs, n)
		s.gone = append(s.gone, n)
	}
	return out, nil
}

func (s *sliced) Close() error {
	for _, t := range s.tabs {
		t.Release()
	}
	s.mem.Close()
	return nil
}

func TestSlices(t *testing.T) { Run(t, Kind{Start: startSlices, Steps: 120}) }
