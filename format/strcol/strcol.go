// Package strcol fills columns of strings for decoders. The strings of a column of a batch share
// one buffer: the chunk that was read, as long as every string stands there as it is, or else a
// buffer of the column's own.
package strcol

import (
	"github.com/tidemark-stream/tidemark/vec"
)

// keepCopying is the number of batches without need after which a column points into the chunks
// again. Going back and forth costs a buffer each time.
const keepCopying = 16

// Column writes strings to one vector.
type Column struct {
	v *vec.Vec
	// copying says that strings go to the vector's own buffer. keep is for how many batches
	// to come that is so from the start.
	copying bool
	keep    int
	// always is set for columns whose values never stand in the chunk.
	always bool
	// owned is the vector that copies went to last, and how long its buffer was then.
	owned   *vec.Vec
	ownedAt int
}

// AlwaysCopy makes c a column whose values are never pointed at.
func (c *Column) AlwaysCopy() { c.always = true }

// Bind directs c at v, in which at values are in use, for values that come from data.
func (c *Column) Bind(v *vec.Vec, data []byte, at int) {
	c.v = v
	shares := len(v.Buf) > 0 && len(data) > 0 && &v.Buf[0] == &data[0]
	switch {
	case c.always:
		c.copying = true
	case at == 0 && c.keep > 0:
		c.keep--
		c.copying = true
	case at == 0 || len(v.Buf) == 0 || shares:
		c.copying = false
		v.ShareBuf(data)
	case c.copying && c.owned == v && c.ownedAt == len(v.Buf):
		// still the buffer that this column filled
	default:
		c.copy(at)
	}
}

// copy gives the vector a buffer of its own that holds its first at strings.
func (c *Column) copy(at int) {
	c.copying, c.keep = true, keepCopying
	old := c.v.Buf
	c.v.ShareBuf(nil)
	for i := 0; i < at; i++ {
		if c.v.IsNull(i) {
			continue
		}
		// A slot that a refused record left behind may hold anything.
		if r := c.v.Refs[i]; uint64(r.Off)+uint64(r.Len) <= uint64(len(old)) {
			c.v.SetBytes(i, old[r.Off:r.Off+r.Len])
		}
	}
}

// Set makes data[i:end] the value at row; data starts where the data given to Bind does.
func (c *Column) Set(row int, data []byte, i, end int) {
	if c.copying {
		c.v.SetBytes(row, data[i:end])
		return
	}
	c.v.Refs[row] = vec.Ref{Off: uint32(i), Len: uint32(end - i)}
}

// Begin returns the vector's own buffer, for a value at row that does not stand in the chunk. The
// caller appends to it and gives it back with End.
func (c *Column) Begin(row int) []byte {
	if !c.copying {
		c.copy(row)
	} else {
		c.keep = keepCopying
	}
	return c.v.BeginBytes()
}

// End takes the buffer of Begin with the value appended.
func (c *Column) End(row int, buf []byte) { c.v.EndBytes(row, buf) }

// Unbind ends what Bind began.
func (c *Column) Unbind() {
	if c.copying {
		c.owned, c.ownedAt = c.v, len(c.v.Buf)
	}
}
