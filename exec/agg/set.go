package agg

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Options say how a set of aggregates will be used.
type Options struct {
	// Retract says that rows may be taken back.
	Retract bool
	// CountRows asks for the number of rows of each group, whatever the aggregates are.
	CountRows bool
	// Owned says that single groups are freed (Store.Free), so that what a group keeps outside
	// its record must be found from it.
	Owned bool
	// Unmerged says that groups are not merged into others, so that the order in which their distinct
	// values came need not be known.
	Unmerged bool
	// Spills says that groups may leave memory (Store.Spill), and their distinct values before them.
	Spills bool
	// Sliding lays the records out for windows that slices move into and out of.
	Sliding bool
}

// Set is the compiled aggregates of an operator. It belongs to one subtask.
type Set struct {
	opt     Options
	base    int // offset of the first word in a record
	slots   []slot
	at      []int // slots[i] starts at word at[i] after base
	outputs []output
	keys    map[string]int // what slots exist: description -> index
	derived []bool         // slots[i] follows something else than rows and merges with that
	words   int
	rows    int // slot of the row count, or -1

	selections []selection
	// emission numbers the calls of Emit; absent caches, by count slot, which groups of this one
	// have no values.
	emission int
	absent   []absences
	bySel    [][]int // slots that each selection feeds
	values   []*valueSpec
	ordered  bool
	listed   bool

	// form says what is saved of each word; plain, that all are saved as they are.
	form  []keeping
	plain bool
}

// slot is one accumulator: some words of a record. Methods get the offset of its first word.
type slot interface {
	// words is the number of words, and init what they start with.
	init() []uint64
	// add adds rows, or takes them back where in.Neg says so.
	add(st *Store, at int, in *Input)
	// merge adds the accumulators of the records s of src to those of the records d of dst.
	merge(dst, src *Store, at int, d, s []uint32)
}

// freer is implemented by slots that keep something outside of the record.
type freer interface {
	free(st *Store, at int, recs []uint32)
}

// slider is implemented by slots of sliding windows. end says which slice comes or goes; srcAt is
// the offset of the slot in the slice's records.
type slider interface {
	slide(dst, src *Store, at, srcAt int, d, s []uint32, end int64, in bool)
}

// output turns slots into a column of results.
type output interface {
	emit(st *Store, recs []uint32, out *vec.Vec, at int) error
}

// Input is rows that go into groups: the row at position Rows[k] of the columns into record
// Recs[k], taken back where Neg is not nil and Neg[k].
type Input struct {
	Cols []*vec.Vec
	Rows []int32
	Recs []uint32
	Neg  []bool
	// One says that all Recs are the same.
	One bool
}

// New compiles the aggregates of calls over rows of schema in.
func New(calls []plan.AggCall, in types.Schema, o Options) (*Set, error) {
	s := &Set{opt: o, rows: -1, keys: map[string]int{}}
	s.selections = []selection{{filter: -1}}
	s.bySel = [][]int{nil}
	if o.CountRows || o.Retract || o.Sliding {
		s.rows = s.count(selection{filter: -1})
	}
	for i := range calls {
		out, err := s.compile(&calls[i], in)
		if err != nil {
			return nil, fmt.Errorf("aggregate %s: %w", calls[i].Fn, err)
		}
		s.outputs = append(s.outputs, out)
	}
	for _, v := range s.values {
		v.prepare(o, s.ordered)
	}
	s.keep()
	return s, nil
}

// slotFor returns the slot described by key, made by make if there is none, fed by selection sel
// (-1: by something else than rows).
func (s *Set) slotFor(key string, sel int, make func() slot) int {
	key = fmt.Sprintf("%s sel=%d", key, sel)
	if i, ok := s.keys[key]; ok {
		return i
	}
	i := len(s.slots)
	s.keys[key] = i
	sl := make()
	s.slots = append(s.slots, sl)
	s.derived = append(s.derived, sel < 0)
	s.at = append(s.at, s.words)
	s.words += len(sl.init())
	if sel >= 0 {
		s.bySel[sel] = append(s.bySel[sel], i)
	}
	return i
}

// Bind says that the accumulators start at word base of a record. To be called before use.
func (s *Set) Bind(base int) { s.base = base }

// Words is the number of words of the accumulators of a group.
func (s *Set) Words() int { return s.words }

// Init is what the words of a new group start with.
func (s *Set) Init() []uint64 {
	var w []uint64
	for _, sl := range s.slots {
		w = append(w, sl.init()...)
	}
	return w
}

// Ordered reports whether some result depends on the order of rows.
func (s *Set) Ordered() bool { return s.ordered }

// Listed reports whether some result is a list of rows or picks one by its order, so that merged
// parts must come in the order of their rows.
func (s *Set) Listed() bool { return s.listed }

// HasValues reports whether some aggregate keeps the distinct values of groups.
func (s *Set) HasValues() bool { return len(s.values) > 0 }

// AlwaysChanges reports whether each row that is added changes some result.
func (s *Set) AlwaysChanges() bool {
	for _, o := range s.outputs {
		if c, ok := o.(*countOut); ok && c.all {
			return !s.opt.Retract
		}
	}
	return false
}

// CanSlide reports whether windows of these aggregates can give back slices one by one, and if so
// returns the set for such windows.
func (s *Set) CanSlide(calls []plan.AggCall, in types.Schema) (*Set, bool) {
	if s.ordered || s.HasValues() {
		return nil, false
	}
	o := s.opt
	o.Sliding, o.CountRows = true, true
	w, err := New(calls, in, o)
	if err != nil || len(w.slots) != len(s.slots) {
		return nil, false
	}
	for _, sl := range w.slots {
		if _, ok := sl.(slider); !ok {
			return nil, false
		}
	}
	return w, true
}

// Add adds the rows of in to their groups.
func (s *Set) Add(st *Store, in *Input) {
	for i := range s.selections {
		if len(s.bySel[i]) == 0 && !s.selections[i].forValues {
			continue
		}
		sel := s.selections[i].apply(in)
		s.selections[i].res = sel
		if len(sel.Rows) == 0 {
			continue
		}
		for _, k := range s.bySel[i] {
			s.slots[k].add(st, s.base+s.at[k], sel)
		}
	}
	for i, v := range s.values {
		s.addValues(v, i, st, s.selections[v.sel].res)
	}
}

// Merge adds the groups s of src, which has the same set, to the groups d of dst; no group occurs
// twice. What src holds is not changed.
func (s *Set) Merge(dst, src *Store, d, sr []uint32) {
	for k, sl := range s.slots {
		if s.derived[k] {
			continue
		}
		sl.merge(dst, src, s.base+s.at[k], d, sr)
	}
	for i, v := range s.values {
		s.mergeValues(v, i, dst, src, d, sr)
	}
}

// Slide moves the groups s of the slice src that ends at end into, or out of, the groups d of dst.
// The receiver is the set of dst, from the CanSlide of the set of the slice.
func (s *Set) Slide(of *Set, dst, src *Store, d, sr []uint32, end int64, in bool) {
	for k, sl := range s.slots {
		sl.(slider).slide(dst, src, s.base+s.at[k], of.base+of.at[k], d, sr, end, in)
	}
}

// RowCount returns the number of rows in a group; only with CountRows, Retract or Sliding.
func (s *Set) RowCount(st *Store, rec uint32) int64 {
	return int64(*st.word(rec, s.base+s.at[s.rows]))
}

// Emit writes the results of the groups recs to the columns cols, one an aggregate, from position
// at on. The columns must have room and no NULLs there.
func (s *Set) Emit(st *Store, recs []uint32, cols []*vec.Vec, at int) error {
	s.emission++
	for i, o := range s.outputs {
		if err := o.emit(st, recs, cols[i], at); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) offset(slot int) int { return s.base + s.at[slot] }

// Store holds the accumulators of groups for a Set.
type Store struct {
	set *Set
	// R holds the records; T is the table they belong to, nil where records have no key.
	R    *state.Records
	T    *state.Table
	Blob *state.Blob
	vals []*valueStore

	spill    *state.Spill // nil: groups stay in memory
	spillKey []byte
	keeper   state.Keeper // of the groups, where they spill
}

// NewStore returns a store whose groups have keys laid out by l. extra words of the owner's come
// before the accumulators. It binds the set.
func (s *Set) NewStore(mem *state.Memory, l *state.Layout, extra int) *Store {
	st := s.store(mem)
	s.Bind(l.Words() + extra)
	st.T = state.NewTable(mem, l, append(make([]uint64, extra), s.Init()...))
	st.R = &st.T.Records
	return st
}

// NewRecords returns a store of groups without keys: head words of the owner's (word 0 included),
// then the accumulators. It binds the set.
func (s *Set) NewRecords(mem *state.Memory, head int) *Store {
	st := s.store(mem)
	s.Bind(head)
	st.R = state.NewRecords(mem, head+s.words)
	return st
}

func (s *Set) store(mem *state.Memory) *Store {
	st := &Store{set: s, Blob: state.NewBlob(mem)}
	for _, v := range s.values {
		st.vals = append(st.vals, s.newValues(v, mem, st))
	}
	return st
}

// Clear sets the accumulators of a group to what they start with. What they keep elsewhere must
// have been freed.
func (s *Set) Clear(st *Store, rec uint32, init []uint64) { copy(st.R.At(rec)[s.base:], init) }

// Entries is the number of groups and of values kept for them, those out of memory included.
func (st *Store) Entries() int {
	n := st.R.Len()
	if st.T != nil {
		n += st.T.Cold()
	}
	for _, v := range st.vals {
		n += v.t.Len() + v.t.Cold()
	}
	return n
}

// Drop gives back what the groups recs keep outside of their records; it needs Options.Owned
// where distinct values are kept. The records are the caller's to free.
func (st *Store) Drop(recs []uint32) {
	for k, sl := range st.set.slots {
		if f, ok := sl.(freer); ok {
			f.free(st, st.set.offset(k), recs)
		}
	}
	for i := range st.vals {
		st.set.dropValues(st.set.values[i], st.vals[i], st, recs)
	}
}

// Reset removes all groups and keeps some memory.
func (st *Store) Reset() {
	if st.T != nil {
		st.T.Reset()
	} else {
		st.R.Reset()
	}
	st.Blob.Reset()
	for _, v := range st.vals {
		v.t.Reset()
	}
}

// Release gives all memory back.
func (st *Store) Release() {
	if st.T != nil {
		st.T.Release()
	} else {
		st.R.Release()
	}
	st.Blob.Release()
	for _, v := range st.vals {
		v.t.Release()
	}
}

func (st *Store) word(rec uint32, off int) *uint64 {
	return &st.R.Chunks[rec>>state.ChunkBits][int(rec&state.ChunkMask)+off]
}
