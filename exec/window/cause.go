package window

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// causes keeps, for groups, from which positions of which splits their rows came since they were shown
// last: for each split the first and the last one. A group holds a state.Ref, 0 for none, to entries of
//
//	number of the split (4 bytes), first (8), last (8); little endian
//
// The numbers are this operator's own. What is saved and shown is text (see plan.WindowCause), which
// names splits.
type causes struct {
	blob   *state.Blob
	names  [][]byte // by number, in the form that they are shown in
	ids    map[string]uint32
	origin *vec.Origin // the last one asked for, and its number
	id     uint32
	order  []int // scratch
	entry  [causeBytes]byte
}

const causeBytes = 4 + 8 + 8

func newCauses(mem *state.Memory) *causes {
	return &causes{blob: state.NewBlob(mem), ids: map[string]uint32{}}
}

// number returns the number of an origin's split.
func (c *causes) number(o *vec.Origin) uint32 {
	if o != c.origin {
		c.origin, c.id = o, c.named(escapeSplit(o.Split))
	}
	return c.id
}

// named returns the number of a split by the name it is shown under.
func (c *causes) named(name []byte) uint32 {
	id, ok := c.ids[string(name)]
	if !ok {
		id = uint32(len(c.names))
		c.names = append(c.names, bytes.Clone(name))
		c.ids[string(name)] = id
	}
	return id
}

// escapeSplit percent-encodes what would break the text of causes.
func escapeSplit(split string) []byte {
	var out []byte
	for _, b := range []byte(split) {
		if b <= ' ' || b == '%' || b == ':' {
			out = fmt.Appendf(out, "%%%02X", b)
			continue
		}
		out = append(out, b)
	}
	return out
}

// note adds a position of split id to the group of ref.
func (c *causes) note(ref *uint64, id uint32, pos int64) { c.add(ref, id, pos, pos) }

func (c *causes) add(ref *uint64, id uint32, first, last int64) {
	le := binary.LittleEndian
	for e := c.blob.Get(state.Ref(*ref)); len(e) > 0; e = e[causeBytes:] {
		if le.Uint32(e) != id {
			continue
		}
		if first < int64(le.Uint64(e[4:])) {
			le.PutUint64(e[4:], uint64(first))
		}
		if last > int64(le.Uint64(e[12:])) {
			le.PutUint64(e[12:], uint64(last))
		}
		return
	}
	le.PutUint32(c.entry[:], id)
	le.PutUint64(c.entry[4:], uint64(first))
	le.PutUint64(c.entry[12:], uint64(last))
	*ref = uint64(c.blob.Append(state.Ref(*ref), c.entry[:]))
}

// merge adds what the group of from has to that of ref, and frees the former.
func (c *causes) merge(ref, from *uint64) {
	le := binary.LittleEndian
	for at := 0; ; at += causeBytes {
		e := c.blob.Get(state.Ref(*from)) // anew, since adding may move it
		if at >= len(e) {
			break
		}
		e = e[at:]
		c.add(ref, le.Uint32(e), int64(le.Uint64(e[4:])), int64(le.Uint64(e[12:])))
	}
	c.free(from)
}

func (c *causes) free(ref *uint64) {
	c.blob.Free(state.Ref(*ref))
	*ref = 0
}

// appendText appends what a group has as text, splits by name.
func (c *causes) appendText(dst []byte, ref uint64) []byte {
	le := binary.LittleEndian
	all := c.blob.Get(state.Ref(ref))
	c.order = c.order[:0]
	for at := 0; at < len(all); at += causeBytes {
		c.order = append(c.order, at)
	}
	if len(c.order) > 1 {
		slices.SortFunc(c.order, func(a, b int) int {
			x, y := le.Uint32(all[a:]), le.Uint32(all[b:])
			return cmp.Or(bytes.Compare(c.names[x], c.names[y]), cmp.Compare(x, y))
		})
	}
	for k, at := range c.order {
		if k > 0 {
			dst = append(dst, ' ')
		}
		e := all[at:]
		dst = append(append(dst, c.names[le.Uint32(e)]...), ':')
		dst = strconv.AppendInt(dst, int64(le.Uint64(e[4:])), 10)
		dst = strconv.AppendInt(append(dst, '-'), int64(le.Uint64(e[12:])), 10)
	}
	return dst
}

var errCause = errors.New("a saved cause is not of the form SPLIT:FIRST-LAST")

// load gives a group, which has none, what appendText appended.
func (c *causes) load(ref *uint64, text []byte) error {
	for len(text) > 0 {
		var one []byte
		one, text, _ = bytes.Cut(text, []byte(" "))
		name, at, ok := bytes.Cut(one, []byte(":"))
		if !ok || len(at) == 0 {
			return errCause
		}
		dash := bytes.IndexByte(at[1:], '-') + 1 // the first may be of a number below 0
		if dash == 0 {
			return errCause
		}
		first, err := strconv.ParseInt(string(at[:dash]), 10, 64)
		if err != nil {
			return errCause
		}
		last, err := strconv.ParseInt(string(at[dash+1:]), 10, 64)
		if err != nil || last < first {
			return errCause
		}
		c.add(ref, c.named(name), first, last)
	}
	return nil
}
