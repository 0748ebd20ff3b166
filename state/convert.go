package state

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/types"
)

// Conversion turns the values of a state that was saved into those of the state that an operator
// keeps now, which differ by the time of last use only: a time to live was switched on, or off.
// Entries that had no such time count as used when they are converted, since nobody knows better, and
// leave so at the latest a whole time to live after that.
type Conversion struct {
	was   []types.Type // of the columns that stand before the time, in the old value
	drop  bool         // the old value has the time
	state string
}

// Convert returns how values of was become values of now: nil where they are the same. ok is false
// where they differ by more than the time of last use, or are of a later version than is known. What else
// an earlier version of the encoding has is the operator's to read.
func Convert(was, now Spec) (c *Conversion, ok bool) {
	a, wasAt := withoutLastUse(was.Value)
	b, nowAt := withoutLastUse(now.Value)
	if was.Version > now.Version || !slices.EqualFunc(was.Key, now.Key, sameColumn) || !slices.EqualFunc(a, b, sameColumn) {
		return nil, false
	}
	if wasAt == nowAt {
		return nil, true
	}
	if wasAt >= 0 && nowAt >= 0 {
		return nil, false // it has moved
	}
	c = &Conversion{drop: wasAt >= 0, state: now.Name}
	for _, f := range b[:max(wasAt, nowAt)] {
		c.was = append(c.was, f.Type)
	}
	return c, true
}

// String says what the conversion does.
func (c *Conversion) String() string {
	if c.drop {
		return "when its " + c.state + " were used last is forgotten"
	}
	return "its " + c.state + " count as used now"
}

func withoutLastUse(fs []types.Field) (rest []types.Field, at int) {
	at = slices.IndexFunc(fs, func(f types.Field) bool { return f.Name == LastUse && f.Type.Kind == types.BigInt })
	if at < 0 {
		return fs, at
	}
	return slices.Delete(slices.Clone(fs), at, at+1), at
}

func sameColumn(a, b types.Field) bool {
	return a.Type.WithoutAttr().EqualIgnoreNull(b.Type.WithoutAttr())
}

// Append appends the converted form of value to dst.
func (c *Conversion) Append(dst, value []byte, nowMs int64) ([]byte, error) {
	rest, ok := value, true
	for _, t := range c.was {
		if rest, ok = CheckValue(rest, t); !ok {
			return nil, c.damaged(value)
		}
	}
	dst = append(dst, value[:len(value)-len(rest)]...)
	if !c.drop {
		dst = binary.LittleEndian.AppendUint64(append(dst, 1), uint64(nowMs))
		return append(dst, rest...), nil
	}
	if rest, ok = CheckValue(rest, types.BigIntType); !ok {
		return nil, c.damaged(value)
	}
	return append(dst, rest...), nil
}

func (c *Conversion) damaged(value []byte) error {
	return fmt.Errorf("a value of the saved %s (%x) does not have the columns of its state", c.state, value)
}

// Converted is saved with the values of some states converted: those that conversions names, by the
// index of the state.
func Converted(saved Saved, conversions map[int]*Conversion, nowMs int64) Saved {
	return converted{saved, conversions, nowMs}
}

type converted struct {
	saved Saved
	by    map[int]*Conversion
	nowMs int64
}

// Scan implements Saved.
func (s converted) Scan(state int, f func(group int, key, value []byte) error) error {
	c := s.by[state]
	if c == nil {
		return s.saved.Scan(state, f)
	}
	var buf []byte
	return s.saved.Scan(state, func(group int, key, value []byte) error {
		var err error
		if buf, err = c.Append(buf[:0], value, s.nowMs); err != nil {
			return err
		}
		return f(group, key, buf)
	})
}
