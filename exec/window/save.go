package window

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// What windows save: an entry a key and slice, or a key and window, whose key begins with a prefix
// that names the slice:
//
//	end, and the start where that does not follow from the end (8 bytes each: big endian, sign
//	flipped, so that they sort), with several slices of an interval the number of this one (4
//	bytes, big endian); then the key in the form of state.Table.AppendKey
//
// When a slice goes, so do all entries with its prefix.

const (
	// saveVersion is that of the encodings of this package.
	saveVersion = 1
	timeBytes   = 8
)

// appendTime appends a time so that the order of bytes is that of times.
func appendTime(b []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t)^1<<63)
}

func readTime(b []byte) (int64, []byte, error) {
	if len(b) < timeBytes {
		return 0, nil, errEntry
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), b[timeBytes:], nil
}

var (
	errEntry = errors.New("a saved entry does not have the shape of the operator's windows")
	errHead  = errors.New("the saved head of a window operator is damaged or of another version")
)

// fieldsOf names the columns of saved keys: the leading ones, then those of the operator's keys.
func fieldsOf(in types.Schema, keys []int, lead ...types.Field) []types.Field {
	out := slices.Clone(lead)
	for _, k := range keys {
		out = append(out, types.Field{Name: in.Fields[k].Name, Type: in.Fields[k].Type.WithoutAttr()})
	}
	return out
}

func field(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t.NotNull()} }

// timeField is a column of a slice's or window's bounds, which are in local time.
func timeField(name string) types.Field { return field(name, types.TimestampType(3)) }

// entries notes where a store has saved entries.
type entries struct {
	groups []uint64 // a bit for each key group that has some
}

func (e *entries) note(group int) {
	w := group / 64
	for w >= len(e.groups) {
		e.groups = append(e.groups, 0)
	}
	e.groups[w] |= 1 << (group % 64)
}

// join adds what o has.
func (e *entries) join(o *entries) {
	for w, g := range o.groups {
		for ; g != 0; g &= g - 1 {
			e.note(w*64 + bits.TrailingZeros64(g))
		}
	}
}

func (e *entries) each(f func(group int)) {
	for w, g := range e.groups {
		for ; g != 0; g &= g - 1 {
			f(w*64 + bits.TrailingZeros64(g))
		}
	}
}

// has reports whether there are entries in a group.
func (e *entries) has(group int) bool {
	w := group / 64
	return w < len(e.groups) && e.groups[w]&(1<<(group%64)) != 0
}

func (e *entries) count() int {
	n := 0
	for _, g := range e.groups {
		n += bits.OnesCount64(g)
	}
	return n
}

// saver writes the stores of an operator to deltas. It is nil where no checkpoints are taken.
type saver struct {
	ctx   *op.Context
	k     state.Keeper
	gone  state.Delta // deletions of what was saved and is no more
	cur   *entries    // of the store being written
	group groupCodec
	// sets is the number of sets of distinct values, whose states follow that of their groups.
	sets int
	// groupBytes is about the size of a group without its key.
	groupBytes int
}

func newSaver(ctx *op.Context, set *agg.Set) *saver {
	if !ctx.Saves {
		return nil
	}
	s := &saver{ctx: ctx, sets: len(set.ValueSpecs(nil)), groupBytes: 8*set.Words() + timeBytes}
	s.k = state.Keeper{MaxParallelism: ctx.MaxParallelism, Check: s.check}
	s.group.set = set
	return s
}

func (s *saver) check(group int) {
	s.ctx.CheckGroup(group)
	s.cur.note(group)
}

// groupCodec saves the accumulators of a group, in the form of state.AppendValue.
type groupCodec struct {
	set *agg.Set
	st  *agg.Store
	one [1]uint32
}

// AppendValue implements state.Codec.
func (c *groupCodec) AppendValue(dst []byte, rec uint32) []byte {
	begin := len(dst) + 1
	return endBytes(c.set.AppendGroup(beginBytes(dst), c.st, rec), begin)
}

// LoadValue implements state.Codec.
func (c *groupCodec) LoadValue(rec uint32, value []byte) error {
	group, rest, err := readBytes(value)
	if err == nil && len(rest) > 0 {
		err = errEntry
	}
	if err != nil {
		return err
	}
	return c.set.LoadGroup(c.st, rec, group)
}

// freeze writes the changes of a store to state number at. codec is nil for accumulators alone.
func (s *saver) freeze(d *state.Delta, at int, prefix []byte, st *agg.Store, codec state.Codec, e *entries) {
	if st.T.Dirty() == 0 {
		return
	}
	if codec == nil {
		s.group.st = st
		codec = &s.group
	}
	s.cur = e
	// A keeper checks a group once, and here that is to be noted for each store.
	k := s.k
	k.State, k.Prefix, k.Codec = at, prefix, codec
	k.Freeze(st.T, d)
	if s.sets > 0 {
		k.State++
		st.FreezeValues(&k, d)
	}
}

// remove deletes the saved entries of a store that is about to be emptied, at the next freeze; more
// says that there are others than those of its groups.
func (s *saver) remove(at int, prefix []byte, st *agg.Store, more bool, e *entries) {
	groups := e.count()
	switch {
	case groups == 0:
		return
	case s.sets == 0 && !more && st.R.Len() <= 2*groups:
		// Few keys: deletes of single keys cost a store less than those of ranges.
		var ids [block]uint32
		var key []byte
		_ = eachBlock(st, &ids, func(ids []uint32) error {
			for _, id := range ids {
				var hash uint32
				key, hash = st.T.SavedKey(append(key[:0], prefix...), id)
				s.gone.Delete(at, state.KeyGroup(hash, s.k.MaxParallelism), key)
			}
			return nil
		})
	default:
		for i := range 1 + s.sets {
			e.each(func(group int) { s.gone.DeletePrefix(at+i, group, prefix) })
		}
	}
	clear(e.groups)
}

// flush writes what remove and others have noted.
func (s *saver) flush(d *state.Delta) error {
	err := state.EachChange(s.gone.Bytes(), func(c state.Change) error {
		if c.Kind == state.ChangeDelete {
			d.Delete(c.State, c.Group, c.Key)
		} else {
			d.DeletePrefix(c.State, c.Group, c.Key)
		}
		return nil
	})
	s.gone.Reset()
	return err
}

// appendHead writes the head of a subtask: how far time had come, the levels since, and the key groups
// for which time had come further (ahead, see past):
//
//	version (1), watermark (8), number of levels (4), levels (8 each), number of runs (4), then for
//	each run of key groups that come equally far: the first (4), watermark (8); all little endian
func appendHead(dst []byte, wm int64, l *levels, ahead *past) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(append(dst, saveVersion), uint64(wm))
	if l == nil {
		return le.AppendUint64(dst, 0)
	}
	dst = le.AppendUint32(dst, uint32(1+len(l.list)))
	dst = le.AppendUint64(dst, uint64(l.near))
	for _, x := range l.list {
		dst = le.AppendUint64(dst, uint64(x))
	}
	at := len(dst)
	dst = le.AppendUint32(dst, 0)
	if ahead == nil || ahead.most <= wm {
		return dst
	}
	n, last := uint32(0), wm
	for g := ahead.lo; g < ahead.hi; g++ {
		if x := max(wm, ahead.wms[g]); x != last {
			dst = le.AppendUint64(le.AppendUint32(dst, uint32(g)), uint64(x))
			last = x
			n++
		}
	}
	le.PutUint32(dst[at:], n)
	return dst
}

// past is how far time had come for each key group of a subtask when it was stopped. The groups may
// come from subtasks that were differently far: this one goes on from the least, and what belongs to
// others has seen more.
type past struct {
	lo, hi int     // the key groups of this subtask
	wms    []int64 // by key group
	// wm is the least, most the greatest of those of this subtask.
	wm, most int64
	levels   []int64 // the union of those of the old subtasks concerned, above wm
	rests    [][]byte
	// first and last are the old subtasks concerned, if there are any.
	first, last int
}

func readHeads(heads [][]byte, ctx *op.Context) (*past, error) {
	p := &past{wms: make([]int64, ctx.MaxParallelism), wm: vec.MinTime, most: vec.MinTime, rests: make([][]byte, len(heads)), last: -1}
	p.lo, p.hi = state.Groups(ctx.Subtask, ctx.MaxParallelism, ctx.Parallelism)
	for g := range p.wms {
		p.wms[g] = vec.MinTime
	}
	if len(heads) == 0 || p.lo >= p.hi {
		return p, nil
	}
	p.first = state.Subtask(p.lo, ctx.MaxParallelism, len(heads))
	p.last = state.Subtask(p.hi-1, ctx.MaxParallelism, len(heads))
	for i, b := range heads {
		lo, hi := state.Groups(i, ctx.MaxParallelism, len(heads))
		rest, err := p.read(b, lo, hi, i >= p.first && i <= p.last)
		if err != nil {
			return nil, err
		}
		p.rests[i] = rest
	}
	p.wm = slices.Min(p.wms[p.lo:p.hi])
	p.most = slices.Max(p.wms[p.lo:p.hi])
	slices.Sort(p.levels)
	p.levels = slices.Compact(p.levels)
	p.levels = slices.DeleteFunc(p.levels, func(t int64) bool { return t <= p.wm })
	return p, nil
}

// read takes in the head of an old subtask that had the key groups from lo to hi.
func (p *past) read(b []byte, lo, hi int, mine bool) (rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < 1+8+4 || b[0] != saveVersion {
		return nil, errHead
	}
	wm := int64(le.Uint64(b[1:]))
	if wm == vec.MaxTime {
		// The job was drained: what comes after the end of time finds no window open and is early.
		wm, mine = vec.MinTime, false
	}
	for g := lo; g < hi; g++ {
		p.wms[g] = wm
	}
	n := uint64(le.Uint32(b[9:]))
	b = b[13:]
	if uint64(len(b)) < 8*n+4 {
		return nil, errHead
	}
	for ; n > 0; n-- {
		if mine {
			p.levels = append(p.levels, int64(le.Uint64(b)))
		}
		b = b[8:]
	}
	n = uint64(le.Uint32(b))
	b = b[4:]
	if uint64(len(b)) < 12*n {
		return nil, errHead
	}
	for ; n > 0; n-- {
		for g := int(le.Uint32(b)); g < hi; g++ {
			if g < lo {
				return nil, errHead
			}
			p.wms[g] = int64(le.Uint64(b[4:]))
		}
		b = b[12:]
	}
	return b, nil
}
