package connector

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-stream/tidemark/vec"
)

// Places are the records that a run of rows came from, kept beside rows that were encoded for a target: a
// row that the target refuses later is told of with them. Rows without a place cost nothing while no row has
// one. The zero value is empty.
type Places struct {
	origins []*vec.Origin
	at      []int32 // index into origins plus one, 0 for a row without a place; nil while no row has one
	pos     []int64
	n       int
	last    *vec.Origin // added last, and its index plus one
	lastAt  int32
}

// Add appends the places of the given rows of b.
func (p *Places) Add(b *vec.Batch, rows []int32) {
	if b.Pos == nil || b.Origin == nil || len(rows) == 0 {
		p.skip(len(rows))
		return
	}
	p.fill()
	at := p.index(b.Origin)
	for _, i := range rows {
		p.at, p.pos = append(p.at, at), append(p.pos, b.Pos[i])
	}
	p.n += len(rows)
}

// AddOf appends the place of row i of o.
func (p *Places) AddOf(o *Places, i int) {
	origin, pos := o.Of(i)
	if origin == nil {
		p.skip(1)
		return
	}
	p.fill()
	p.at, p.pos = append(p.at, p.index(origin)), append(p.pos, pos)
	p.n++
}

// Known reports whether any row has a place.
func (p *Places) Known() bool { return len(p.origins) > 0 }

// skip appends n rows without a place.
func (p *Places) skip(n int) {
	p.n += n
	if p.at != nil {
		p.fill()
	}
}

// fill makes room for all rows so far.
func (p *Places) fill() {
	if p.at == nil {
		p.at = make([]int32, 0, p.n+vec.BatchRows)
	}
	for len(p.at) < p.n {
		p.at, p.pos = append(p.at, 0), append(p.pos, 0)
	}
}

// index finds an origin, which has few others beside it.
func (p *Places) index(o *vec.Origin) int32 {
	if o == p.last {
		return p.lastAt
	}
	p.last, p.lastAt = o, 0
	for i := len(p.origins) - 1; i >= 0; i-- {
		if *p.origins[i] == *o {
			p.lastAt = int32(i + 1)
			return p.lastAt
		}
	}
	p.origins = append(p.origins, o)
	p.lastAt = int32(len(p.origins))
	return p.lastAt
}

// Reset forgets all rows.
func (p *Places) Reset() {
	p.origins, p.n, p.last, p.lastAt = p.origins[:0], 0, nil, 0
	if p.at != nil {
		p.at, p.pos = p.at[:0], p.pos[:0]
	}
}

// Len is the number of rows.
func (p *Places) Len() int { return p.n }

// Of returns the place of row i; a nil origin says that it has none.
func (p *Places) Of(i int) (*vec.Origin, int64) {
	if p == nil || i >= len(p.at) || p.at[i] == 0 {
		return nil, 0
	}
	return p.origins[p.at[i]-1], p.pos[i]
}

// Bounds on what a damaged length can make us allocate.
const (
	maxOrigins    = 1 << 20
	maxOriginText = 1 << 16
)

// Append appends the places in the form that Parse reads:
//
//	places = rows origins origin... run...
//	origin = source split unit (each: length, bytes)
//	run    = origin plus one, or 0, rows, the differences of their positions, where it has an origin (zigzag)
//
// Numbers are uvarints. Positions in the order of their records take one or two bytes a row.
func (p *Places) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.n))
	dst = binary.AppendUvarint(dst, uint64(len(p.origins)))
	for _, o := range p.origins {
		for _, s := range []string{o.Source, o.Split, o.Unit} {
			dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
		}
	}
	if len(p.origins) == 0 {
		return dst
	}
	last := int64(0)
	for i := 0; i < p.n; {
		end := i + 1
		for end < p.n && p.at[end] == p.at[i] {
			end++
		}
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.at[i])), uint64(end-i))
		for ; i < end; i++ {
			if p.at[i] > 0 {
				dst = binary.AppendVarint(dst, p.pos[i]-last)
				last = p.pos[i]
			}
		}
	}
	return dst
}

var errPlaces = errors.New("the places of rows are damaged")

// Parse replaces p by what b holds, and checks that it is about rows rows.
func (p *Places) Parse(b []byte, rows int) error {
	p.Reset()
	next := func(most uint64) (uint64, error) {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > most {
			return 0, errPlaces
		}
		b = b[w:]
		return n, nil
	}
	n, err := next(uint64(rows))
	if err != nil || n != uint64(rows) {
		return errPlaces
	}
	origins, err := next(maxOrigins)
	if err != nil {
		return err
	}
	for range origins {
		var parts [3]string
		for k := range parts {
			size, err := next(min(maxOriginText, uint64(len(b))))
			if err != nil || size > uint64(len(b)) {
				return errPlaces
			}
			parts[k], b = string(b[:size]), b[size:]
		}
		p.origins = append(p.origins, &vec.Origin{Source: parts[0], Split: parts[1], Unit: parts[2]})
	}
	if p.n = rows; origins > 0 {
		if err := p.parseRuns(b, rows); err != nil {
			return err
		}
	} else if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes too many", errPlaces, len(b))
	}
	return nil
}

func (p *Places) parseRuns(b []byte, rows int) error {
	last := int64(0)
	for len(p.at) < rows {
		o, w := binary.Uvarint(b)
		if w <= 0 || o > uint64(len(p.origins)) {
			return errPlaces
		}
		b = b[w:]
		n, w := binary.Uvarint(b)
		if w <= 0 || n == 0 || n > uint64(rows-len(p.at)) || o > 0 && n > uint64(len(b)) {
			return errPlaces
		}
		b = b[w:]
		for range n {
			if o > 0 {
				d, w := binary.Varint(b)
				if w <= 0 {
					return errPlaces
				}
				last, b = last+d, b[w:]
			}
			p.at, p.pos = append(p.at, int32(o)), append(p.pos, last)
		}
	}
	if len(b) > 0 {
		return errPlaces
	}
	return nil
}
