package join

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const saveVersion = 1

// States implements op.Stateful: the rows of the left side, then those of the right one. An entry is
// a row, so that the rows of a join key stand together:
//
//	key    the join key, then the row (each state.Table.AppendKey)
//	value  in the form of state.AppendValue: copies; on outer sides matches; with a TTL the time of
//	       the last write (BIGINT each)
func (o *Join) States() []state.Spec {
	var out []state.Spec
	for i := range o.sides {
		s := &o.sides[i]
		sp := state.Spec{Name: [...]string{"left rows", "right rows"}[i], Version: saveVersion}
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
	words := []string{"copies"}
	if o.sides[i].outer {
		words = append(words, "matches")
	}
	if [...]int64{o.n.LeftTTLMs, o.n.RightTTLMs}[i] > 0 {
		words = append(words, "last use")
	}
	return words
}

// codec is the state.Codec of a side: the words at of a record; -1 is one that this run has no use
// for.
type codec struct {
	s    *side
	at   []int
	part []byte
}

func (o *Join) codec(i int) *codec {
	c := &codec{s: &o.sides[i]}
	for _, name := range o.savedWords(i) {
		switch {
		case name == "copies":
			c.at = append(c.at, countAt)
		case name == "matches":
			c.at = append(c.at, matchAt)
		case c.s.ttlMs > 0:
			c.at = append(c.at, usedAt)
		default:
			c.at = append(c.at, -1)
		}
	}
	return c
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
		s := &o.sides[i]
		k := state.Keeper{State: i, MaxParallelism: o.ctx.MaxParallelism, Check: o.ctx.CheckGroup,
			Codec: o.codec(i)}
		k.Freeze(s.rows, d)
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

// Head implements op.Stateful: the last stamp (8 bytes, little endian), and whether there was one.
func (o *Join) Head(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(o.stamp))
	if o.stamped {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// Restore implements op.Stateful.
func (o *Join) Restore(saved state.Saved, heads [][]byte) error {
	for i := range o.sides {
		s := &o.sides[i]
		c := o.codec(i)
		if err := saved.Scan(i, func(_ int, key, value []byte) error {
			if err := s.load(c, key, value); err != nil {
				return fmt.Errorf("entry %x: %w", key, err)
			}
			return nil
		}); err != nil {
			return err
		}
		s.swept = s.rows.Len()
	}
	o.stamp = vec.MinTime
	for i, h := range heads {
		if len(h) != 9 {
			return errSaved
		}
		if len(heads) == o.ctx.Parallelism && i != o.ctx.Subtask {
			continue
		}
		// Stamps never decrease; where the subtasks are others, those of all before count.
		o.stamp = max(o.stamp, int64(binary.LittleEndian.Uint64(h)))
		o.stamped = o.stamped || h[8] != 0
	}
	o.count()
	return nil
}

// load adds a saved row. Rows of a key come to stand in another order than before.
func (s *side) load(c *codec, key, value []byte) error {
	kr, rest, err := s.byKey.UpsertKey(key, 0)
	if err != nil {
		return err
	}
	rec, left, err := s.rows.UpsertKey(rest, 0)
	if err != nil {
		return err
	}
	c.part, _ = s.rows.AppendPart(c.part[:0], rec, s.keys)
	if len(left) > 0 || s.row(rec)[countAt] != 0 || !bytes.Equal(c.part, key[:len(key)-len(rest)]) {
		return errSaved
	}
	if err := c.LoadValue(rec, value); err != nil {
		return err
	}
	s.link(kr, rec)
	if s.ttlMs > 0 {
		*s.word(rec, keyAt) = uint64(kr)
	}
	s.rows.Saved(rec)
	return nil
}

var _ op.Stateful = (*Join)(nil)
