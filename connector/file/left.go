package file

import (
	"context"
	"io"
	"os"

	"github.com/tidemark-stream/tidemark/connector"
)

// packedFactor is how many times longer the content of a compressed file is taken for, until its beginning has been
// read: that of text such as JSON lines.
const packedFactor = 8

// counting counts what is read of a compressed file.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Lag implements connector.SplitReader. Of a compressed file it is what is left if that is packed as what was read.
func (s *splitReader) Lag() int64 {
	held := int64(s.have - s.used)
	switch {
	case s.eof:
		return held
	case s.size >= 0:
		return max(0, s.size-s.at-int64(s.used))
	case s.packed == nil:
		return -1
	}
	left, factor := max(0, s.about.size-s.packed.n), float64(packedFactor)
	if read := s.at + int64(s.have); s.packed.n > 0 && read > 0 {
		factor = float64(read) / float64(s.packed.n)
	}
	return held + int64(float64(left)*factor)
}

// SizeOf implements connector.Sizer.
func (r *reader) SizeOf(sp connector.Split) int64 {
	size, name := int64(0), sp.ID
	if o := r.s.objects; o != nil {
		if sp.Data == nil {
			return -1 // the store would have to be asked
		}
		i, err := o.info(context.Background(), sp)
		if err != nil {
			return -1
		}
		size, name = i.Size, i.Name
	} else {
		info, err := os.Stat(sp.ID)
		if err != nil {
			return -1
		}
		size = info.Size()
	}
	if compressed(name) {
		size *= packedFactor
	}
	return max(0, size-sp.Position.Offset)
}

var _ connector.Sizer = (*reader)(nil)
