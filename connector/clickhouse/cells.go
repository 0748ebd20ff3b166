package clickhouse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// byteStream is where blocks are read from.
type byteStream interface {
	io.Reader
	io.ByteReader
}

// Bounds on what a damaged length can make us allocate.
const (
	maxBlockRows = 1 << 28
	maxCellBytes = math.MaxUint32 // of the strings of a column of a block: vec.Ref has no more
)

// cells are the values of a column of a block, or of a part of a nested one, taken apart. Their memory is
// used again for the next block.
type cells struct {
	typ  *colType // without Nullable
	may  bool     // typ was Nullable
	rows int

	nulls []byte    // where may: 1 for NULL
	data  []byte    // values of a fixed size, or the bytes of all strings
	refs  []vec.Ref // of strings, in data
	ends  []uint64  // of lists: behind the last element of each
	kids  []*cells
}

func newCells(t *colType) *cells {
	c := &cells{}
	c.typ, c.may = t.inner()
	for _, k := range c.typ.kids {
		c.kids = append(c.kids, newCells(k))
	}
	return c
}

// read reads rows values.
func (c *cells) read(r byteStream, rows int) (err error) {
	c.rows = rows
	if c.may {
		if c.nulls, err = connector.AppendRead(c.nulls[:0], r, rows); err != nil {
			return err
		}
	}
	switch c.typ.kind {
	case kString:
		return c.readStrings(r)
	case kArray, kMap:
		return c.readLists(r)
	case kTuple:
		for _, k := range c.kids {
			if err := k.read(r, rows); err != nil {
				return err
			}
		}
		return nil
	case kJSON: // asked for as String
		return errBlock
	}
	c.data, err = connector.AppendRead(c.data[:0], r, rows*c.typ.size)
	return err
}

func (c *cells) readStrings(r byteStream) (err error) {
	c.data, c.refs = c.data[:0], c.refs[:0]
	for range c.rows {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		at := len(c.data)
		if n > maxCellBytes || uint64(at)+n > maxCellBytes {
			return fmt.Errorf("%w: strings of 4 GiB", errBlock)
		}
		if end := at + int(n); end <= cap(c.data) { // the usual case
			c.data = c.data[:end]
			_, err = io.ReadFull(r, c.data[at:])
		} else {
			c.data, err = connector.AppendRead(c.data, r, int(n))
		}
		if err != nil {
			return err
		}
		c.refs = append(c.refs, vec.Ref{Off: uint32(at), Len: uint32(n)})
	}
	return nil
}

func (c *cells) readLists(r byteStream) (err error) {
	if c.data, err = connector.AppendRead(c.data[:0], r, 8*c.rows); err != nil {
		return err
	}
	c.ends = c.ends[:0]
	last := uint64(0)
	for i := range c.rows {
		end := le.Uint64(c.data[8*i:])
		if end < last || end > maxBlockRows {
			return fmt.Errorf("%w: the elements of lists", errBlock)
		}
		c.ends = append(c.ends, end)
		last = end
	}
	for _, k := range c.kids {
		if err := k.read(r, int(last)); err != nil {
			return err
		}
	}
	return nil
}

// begin is where the elements of list i begin.
func (c *cells) begin(i int) int {
	if i == 0 {
		return 0
	}
	return int(c.ends[i-1])
}

// raw is value i of a fixed size.
func (c *cells) raw(i int) []byte { return c.data[i*c.typ.size : (i+1)*c.typ.size] }

// bytes is string i.
func (c *cells) bytes(i int) []byte {
	if c.typ.kind == kFixed {
		return c.raw(i)
	}
	return c.data[c.refs[i].Off : c.refs[i].Off+c.refs[i].Len]
}

// text is value i for errors.
func (c *cells) text(i int) string {
	if c.typ.kind == kString {
		return fmt.Sprintf("%.60q", c.bytes(i))
	}
	return string(c.typ.text(nil, c.raw(i)))
}

// int64 is integer i of at most 8 bytes; a UInt64 beyond is not ok.
func (c *cells) int64(i int) (x int64, ok bool) {
	b, signed := c.raw(i), c.typ.kind != kUint
	switch c.typ.size {
	case 1:
		x = int64(b[0])
		if signed {
			x = int64(int8(b[0]))
		}
	case 2:
		x = int64(le.Uint16(b))
		if signed {
			x = int64(int16(x))
		}
	case 4:
		x = int64(le.Uint32(b))
		if signed {
			x = int64(int32(x))
		}
	case 8:
		x = int64(le.Uint64(b))
		return x, signed || x >= 0
	default:
		w, fits := c.int128(i)
		return int64(w.Lo), fits && w.IsInt64()
	}
	return x, true
}

// int128 is integer i, if it has no more than 128 bits.
func (c *cells) int128(i int) (types.Int128, bool) {
	b, unsigned := c.raw(i), c.typ.kind == kUint
	switch c.typ.size {
	case 16:
		x := types.Int128{Lo: le.Uint64(b), Hi: int64(le.Uint64(b[8:]))}
		return x, !unsigned || x.Hi >= 0
	case 32:
		x := types.Int128{Lo: le.Uint64(b), Hi: int64(le.Uint64(b[8:]))}
		sign := uint64(x.Hi >> 63)
		return x, le.Uint64(b[16:]) == sign && le.Uint64(b[24:]) == sign && (!unsigned || sign == 0)
	}
	x, ok := c.int64(i)
	if !ok { // a UInt64
		return types.Int128{Lo: uint64(x)}, true
	}
	return types.I128(x), true
}

// decimal is number i with to digits behind the point; not ok where digits would be lost, or it is too long.
func (c *cells) decimal(i, to int) (types.Int128, bool) {
	x, ok := c.int128(i)
	up := to - c.typ.scale
	if !ok || up > types.MaxPrecision || -up > types.MaxPrecision {
		return c.wideDecimal(i, up)
	}
	if up >= 0 {
		return x.Mul(types.Pow10(up))
	}
	q, rest := x.QuoRem(types.Pow10(-up))
	return q, rest == types.Int128{}
}

// wideDecimal is decimal with numbers of any length.
func (c *cells) wideDecimal(i, up int) (types.Int128, bool) {
	x := integer(c.raw(i), c.typ.kind != kUint)
	by := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(up, -up))), nil)
	if up >= 0 {
		x.Mul(x, by)
	} else if rest := new(big.Int); true {
		if x.QuoRem(x, by, rest); rest.Sign() != 0 {
			return types.Int128{}, false
		}
	}
	if x.BitLen() > 127 {
		return types.Int128{}, false
	}
	var b [16]byte
	new(big.Int).Abs(x).FillBytes(b[:])
	out := types.Int128{Hi: int64(binary.BigEndian.Uint64(b[:])), Lo: binary.BigEndian.Uint64(b[8:])}
	if x.Sign() < 0 {
		out = out.Neg()
	}
	return out, true
}

// float is number i of a Float32 or Float64.
func (c *cells) float(i int) float64 {
	if c.typ.size == 4 {
		return float64(math.Float32frombits(le.Uint32(c.raw(i))))
	}
	return math.Float64frombits(le.Uint64(c.raw(i)))
}

// ticks is time i in ms, and what is left in ns.
func (c *cells) ticks(i int) (ms, nanos int64) {
	switch c.typ.kind {
	case kDateTime:
		return int64(le.Uint32(c.raw(i))) * 1000, 0
	case kTime:
		return int64(int32(le.Uint32(c.raw(i)))) * 1000, 0
	}
	n := int64(le.Uint64(c.raw(i)))
	if s := c.typ.scale; s > 3 {
		by := types.Pow10Int64(s - 3)
		ms, nanos = n/by, n%by
		if nanos < 0 {
			ms, nanos = ms-1, nanos+by
		}
		return ms, nanos * types.Pow10Int64(9-s)
	}
	return n * types.Pow10Int64(3-c.typ.scale), 0
}

// readBlock reads a block into cols, which have the types asked, and returns its number of rows, which may
// be 0; io.EOF says that there is none.
func readBlock(r byteStream, cols []*cells, asked []string) (int, error) {
	k, err := binary.ReadUvarint(r)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, io.EOF
	}
	if err != nil {
		return 0, err
	}
	rows, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, unfinished(err)
	}
	if k != uint64(len(cols)) || rows > maxBlockRows {
		return 0, errBlock
	}
	return int(rows), readColumns(r, cols, asked, int(rows))
}

// readColumns reads the columns of a block.
func readColumns(r byteStream, cols []*cells, asked []string, rows int) error {
	for i, c := range cols {
		if _, err := readName(r); err != nil {
			return err
		}
		typ, err := readName(r)
		if err != nil {
			return err
		}
		if err := c.expects(typ, asked[i]); err != nil {
			return err
		}
		if err := c.read(r, rows); err != nil {
			return unfinished(err)
		}
	}
	return nil
}

func unfinished(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readName(r byteStream) (string, error) {
	n, err := binary.ReadUvarint(r)
	if err == nil && n > maxTypeText {
		err = errBlock
	}
	if err != nil {
		return "", unfinished(err)
	}
	b, err := connector.AppendRead(nil, r, int(n))
	return string(b), unfinished(err)
}

// expects sees to it that a column comes in the form in which it was asked for. What a type says besides,
// such as its time zone, is left out by some ways to ask.
func (c *cells) expects(got, asked string) error {
	if got == asked {
		return nil
	}
	t, err := parseType(got)
	if err != nil || !c.takes(t) {
		return fmt.Errorf("%w: a column is %.200q and was asked for as %.200q; the table has changed", errBlock, got, asked)
	}
	return nil
}

// takes reports whether values of t have the form of c.
func (c *cells) takes(t *colType) bool {
	t, may := t.inner()
	if may != c.may || t.kind != c.typ.kind || t.size != c.typ.size || t.scale != c.typ.scale || len(t.kids) != len(c.kids) {
		return false
	}
	for k, kid := range c.kids {
		if !kid.takes(t.kids[k]) {
			return false
		}
	}
	return true
}
