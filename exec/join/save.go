package join

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const saveVersion = 2

// States implements op.Stateful: the rows of the left side, then those of the right one. An entry is
// a row, so that the rows of a join key stand together:
//
//	key    the join key, then the row (each state.Table.AppendKey)
//	value  in the form of state.AppendValue: copies; on outer sides matches; the time of the last
//	       write (BIGINT each)
//
// The last is 0 where there is no TTL, so that one may come and go: see since.
func (o *Join) States() []state.Spec {
	var out []state.Spec
	for i := range o.sides {
		s := &o.sides[i]
		sp := state.Spec{Name: [...]string{"left rows", "right rows"}[i], Version: saveVersion, KeyParts: []state.KeyPart{
			{Columns: len(s.keys), Form: state.KeyTable}, {Columns: s.cols, Form: state.KeyTable}}}
		for _, k := range s.keys {
			f := o.in[i].Fields[k]
			sp.Key = append(sp.Key, types.Field{Name: f.Name, Type: f.Type.WithoutAttr().AsNullable()})
		}
		for _, f := range o.in[i].Fields {
			sp.Key = append(sp.Key, types.Field{Name: f.Name, Type: f.Type.WithoutAttr().AsNullable()})
		}
		for _, name := range o.savedWords(i) {
			sp.Value = append(sp.Value, types.Field{Name: name, Type: types.BigIntType.NotNull()})
		}
		out = append(out, sp)
	}
	return out
}

// savedWords names what is saved of a record of side i.
func (o *Join) savedWords(i int) []string {
	if o.sides[i].outer {
		return []string{"copies", "matches", "last use"}
	}
	return []string{"copies", "last use"}
}

// codec is the state.Codec of a side.
type codec struct {
	s  *side
	at []int // the words that are saved; -1 is one that this run has no use for
}

func (o *Join) keeper(i int) *state.Keeper {
	c := &codec{s: &o.sides[i], at: []int{countAt}}
	if c.s.outer {
		c.at = append(c.at, matchAt)
	}
	if c.s.ttlMs > 0 {
		c.at = append(c.at, usedAt)
	} else {
		c.at = append(c.at, -1)
	}
	return &state.Keeper{State: i, MaxParallelism: o.ctx.MaxParallelism, Check: o.ctx.CheckGroup, Codec: c}
}

// AppendValue implements state.Codec.
func (c *codec) AppendValue(dst []byte, rec uint32) []byte {
	for _, at := range c.at {
		x := uint64(0)
		if at >= 0 {
			x = *c.s.word(rec, at)
		}
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), x)
	}
	return dst
}

var errSaved = errors.New("a saved row does not have the shape of the join's rows")

// LoadValue implements state.Codec.
func (c *codec) LoadValue(rec uint32, b []byte) error {
	if len(b) != 9*len(c.at) {
		return errSaved
	}
	for i, at := range c.at {
		if at >= 0 {
			*c.s.word(rec, at) = binary.LittleEndian.Uint64(b[9*i+1:])
		}
	}
	if c.s.row(rec)[countAt] == 0 {
		return errSaved
	}
	if c.s.ttlMs > 0 {
		used := c.s.word(rec, usedAt)
		*used = uint64(max(int64(*used), c.s.since))
	}
	return nil
}

// touch notes that a record is to be saved again.
func (o *Join) touch(s *side, rec uint32) {
	if o.ctx.Saves {
		o.one[0] = rec
		s.rows.Touch(o.one[:])
	}
}

// Freeze implements op.Stateful.
func (o *Join) Freeze(d *state.Delta) error {
	d.Grow(o.Dirty())
	for i := range o.sides {
		o.keeper(i).Freeze(o.sides[i].rows, d)
	}
	return nil
}

// Dirty implements op.Stateful.
func (o *Join) Dirty() int {
	n := 0
	for i := range o.sides {
		n += o.sides[i].rows.Dirty() * 8 * (o.sides[i].rows.Stride() + 2)
	}
	return n
}

// headSize1 is that of a Head of version 1 of the encoding, which did not say since when there is a TTL:
// rows of a side that has one were used when they say.
const headSize1 = 9

// headSize is that of a Head: the last stamp (8 bytes, little endian) and whether there was one (1 byte);
// for each side since when it has a TTL (8 bytes), vec.MaxTime where it has none.
const headSize = 9 + 2*8

// Head implements op.Stateful.
func (o *Join) Head(dst []byte) ([]byte, error) {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(o.stamp))
	if o.stamped {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	for i := range o.sides {
		since := o.sides[i].since
		if o.sides[i].ttlMs == 0 {
			since = vec.MaxTime
		}
		dst = le.AppendUint64(dst, uint64(since))
	}
	return dst, nil
}

// Restore implements op.Stateful.
func (o *Join) Restore(saved state.Saved, heads [][]byte) error {
	le := binary.LittleEndian
	o.stamp = vec.MinTime
	var began [2]bool // the TTL was switched on
	for i, h := range heads {
		if len(h) != headSize && len(h) != headSize1 {
			return errSaved
		}
		for i := range o.sides {
			if len(h) == headSize1 {
				break
			}
			s := &o.sides[i]
			since := int64(le.Uint64(h[9+8*i:]))
			if s.ttlMs > 0 && since == vec.MaxTime {
				since = o.ctx.Now() // rows were kept without a TTL, and are as if they had come now
				began[i] = true
			}
			if s.ttlMs > 0 {
				s.since = max(s.since, since)
			}
		}
		if len(heads) == o.ctx.Parallelism && i != o.ctx.Subtask {
			continue
		}
		// Stamps never decrease; where the subtasks are others, those of all before count.
		o.stamp = max(o.stamp, int64(le.Uint64(h)))
		o.stamped = o.stamped || h[8] != 0
	}
	for i := range o.sides {
		s := &o.sides[i]
		if err := s.bag.Restore(o.keeper(i), saved); err != nil {
			return err
		}
		if began[i] {
			s.expiry.Rebuild()
		}
		s.swept = s.len()
	}
	o.count()
	return nil
}

var _ op.Stateful = (*Join)(nil)
