package clickhouse

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-stream/tidemark/types"
)

// A block is what one insert adds, in ClickHouse's Native format:
//
//	block  = columns (uvarint) rows (uvarint) column...
//	column = name, type (each: length (uvarint), bytes) values
//
// The form of values is in the comments of kind.
type block struct {
	rows int
	cols []blockColumn
}

type blockColumn struct {
	name   string
	typ    *colType
	values []byte
}

var le = binary.LittleEndian

var errBlock = errors.New("a block has not the form that its columns say")

// jsonAsText is the version of a JSON column whose values are texts.
const jsonAsText = 1

// parse takes b apart. What it returns points into b.
func parseBlock(b []byte) (*block, error) {
	cols, b, err := takeUvarint(b)
	if err != nil {
		return nil, err
	}
	rows, b, err := takeUvarint(b)
	if err != nil {
		return nil, err
	}
	if cols > maxColumns || rows > uint64(len(b)) {
		return nil, errBlock
	}
	out := &block{rows: int(rows)}
	for range cols {
		var name, typ []byte
		if name, b, err = takeString(b); err != nil {
			return nil, err
		}
		if typ, b, err = takeString(b); err != nil {
			return nil, err
		}
		c := blockColumn{name: string(name)}
		if c.typ, err = parseType(string(typ)); err != nil {
			return nil, fmt.Errorf("%w: %w", errBlock, err)
		}
		n, err := c.typ.length(b, out.rows)
		if err != nil {
			return nil, err
		}
		c.values, b = b[:n:n], b[n:]
		out.cols = append(out.cols, c)
	}
	if len(b) > 0 {
		return nil, errBlock
	}
	return out, nil
}

func takeUvarint(b []byte) (uint64, []byte, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 {
		return 0, nil, errBlock
	}
	return n, b[w:], nil
}

func takeString(b []byte) (s, rest []byte, err error) {
	n, b, err := takeUvarint(b)
	if err != nil || n > uint64(len(b)) {
		return nil, nil, errBlock
	}
	return b[:n:n], b[n:], nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendHead begins a block.
func appendHead(dst []byte, cols, rows int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(cols)), uint64(rows))
}

// appendRows appends a block of rows lo..hi-1.
func (b *block) appendRows(dst []byte, lo, hi int) ([]byte, error) {
	dst = appendHead(dst, len(b.cols), hi-lo)
	var err error
	for _, c := range b.cols {
		dst = appendString(appendString(dst, c.name), c.typ.name)
		if dst, err = c.typ.cut(dst, c.values, b.rows, lo, hi); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// rowText is row i as a JSON object, for dead letters.
func (b *block) rowText(i int) []byte {
	out := []byte{'{'}
	for k, c := range b.cols {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(appendJSON(out, []byte(c.name)), ':')
		one, err := c.typ.cut(nil, c.values, b.rows, i, i+1)
		if err != nil {
			return []byte(err.Error())
		}
		if c.typ.kind == kJSON {
			one = one[8:]
		}
		out = c.typ.text(out, one)
	}
	return append(out, '}')
}

// length returns how many bytes of b the values of rows rows take.
func (t *colType) length(b []byte, rows int) (int, error) {
	whole := len(b)
	if t.kind == kJSON {
		if len(b) < 8 {
			return 0, errBlock
		}
		b = b[8:]
	}
	rest, err := t.skip(b, rows)
	return whole - len(rest), err
}

func (t *colType) skip(b []byte, rows int) ([]byte, error) {
	var err error
	switch t.kind {
	case kString, kJSON:
		for range rows {
			if _, b, err = takeString(b); err != nil {
				return nil, err
			}
		}
		return b, nil
	case kNullable:
		if len(b) < rows {
			return nil, errBlock
		}
		return t.kids[0].skip(b[rows:], rows)
	case kArray, kMap:
		if rows > len(b)/8 {
			return nil, errBlock
		}
		n := uint64(0)
		for i := range rows {
			end := le.Uint64(b[8*i:])
			if end < n || end > uint64(len(b)) {
				return nil, errBlock
			}
			n = end
		}
		b = b[8*rows:]
		for _, k := range t.kids {
			if b, err = k.skip(b, int(n)); err != nil {
				return nil, err
			}
		}
		return b, nil
	case kTuple:
		for _, k := range t.kids {
			if b, err = k.skip(b, rows); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	if rows > len(b)/t.size {
		return nil, errBlock
	}
	return b[rows*t.size:], nil
}

// cut appends the values of rows lo..hi-1 of the rows rows whose values are b.
func (t *colType) cut(dst, b []byte, rows, lo, hi int) ([]byte, error) {
	if t.kind == kJSON {
		dst, b = append(dst, b[:8]...), b[8:]
	}
	dst, _, err := t.slice(dst, b, rows, lo, hi)
	return dst, err
}

// slice is cut without what stands once before a column; it returns what follows the values too.
func (t *colType) slice(dst, b []byte, rows, lo, hi int) (out, rest []byte, err error) {
	switch t.kind {
	case kString, kJSON:
		from := b
		for i := range rows {
			if i == lo {
				from = b
			}
			if _, b, err = takeString(b); err != nil {
				return nil, nil, err
			}
			if i == hi-1 && lo < hi {
				dst = append(dst, from[:len(from)-len(b)]...)
			}
		}
		return dst, b, nil
	case kNullable:
		if len(b) < rows {
			return nil, nil, errBlock
		}
		return t.kids[0].slice(append(dst, b[lo:hi]...), b[rows:], rows, lo, hi)
	case kArray, kMap:
		if rows > len(b)/8 {
			return nil, nil, errBlock
		}
		end := func(i int) uint64 {
			if i == 0 {
				return 0
			}
			return le.Uint64(b[8*(i-1):])
		}
		from, to, n := end(lo), end(hi), end(rows)
		if from > to || to > n || n > uint64(len(b)) {
			return nil, nil, errBlock
		}
		for i := lo; i < hi; i++ {
			dst = le.AppendUint64(dst, end(i+1)-from)
		}
		b = b[8*rows:]
		for _, k := range t.kids {
			if dst, b, err = k.slice(dst, b, int(n), int(from), int(to)); err != nil {
				return nil, nil, err
			}
		}
		return dst, b, nil
	case kTuple:
		for _, k := range t.kids {
			if dst, b, err = k.slice(dst, b, rows, lo, hi); err != nil {
				return nil, nil, err
			}
		}
		return dst, b, nil
	}
	if rows > len(b)/t.size {
		return nil, nil, errBlock
	}
	return append(dst, b[lo*t.size:hi*t.size]...), b[rows*t.size:], nil
}

// shownElements is how many elements of a list a text has.
const shownElements = 100

// text appends the one value that is b, as JSON.
func (t *colType) text(dst, b []byte) []byte {
	switch t.kind {
	case kNullable:
		if b[0] != 0 {
			return append(dst, "null"...)
		}
		return t.kids[0].text(dst, b[1:])
	case kTuple:
		dst = append(dst, '[')
		for k, kid := range t.kids {
			if k > 0 {
				dst = append(dst, ',')
			}
			rest, err := kid.skip(b, 1)
			if err != nil {
				return append(dst, "?]"...)
			}
			dst = kid.text(dst, b[:len(b)-len(rest)])
			b = rest
		}
		return append(dst, ']')
	case kArray:
		return t.kids[0].elements(dst, b[8:], int(le.Uint64(b)))
	case kMap:
		n := int(le.Uint64(b))
		rest, err := t.kids[0].skip(b[8:], n)
		if err != nil {
			return append(dst, '?')
		}
		dst = append(dst, '[')
		dst = append(t.kids[0].elements(dst, b[8:len(b)-len(rest)], n), ',')
		return append(t.kids[1].elements(dst, rest, n), ']')
	}
	return t.scalarText(dst, b)
}

func (t *colType) elements(dst, b []byte, n int) []byte {
	dst = append(dst, '[')
	for i := range min(n, shownElements) {
		if i > 0 {
			dst = append(dst, ',')
		}
		one, _, err := t.slice(nil, b, n, i, i+1)
		if err != nil {
			return append(dst, "?]"...)
		}
		dst = t.text(dst, one)
	}
	if n > shownElements {
		dst = append(dst, `,"..."`...)
	}
	return append(dst, ']')
}

func (t *colType) scalarText(dst, b []byte) []byte {
	switch t.kind {
	case kBool:
		return strconv.AppendBool(dst, b[0] != 0)
	case kInt:
		return append(dst, integer(b, true).String()...)
	case kUint:
		return append(dst, integer(b, false).String()...)
	case kFloat:
		f, bits := math.Float64frombits(pad64(b)), 64
		if t.size == 4 {
			f, bits = float64(math.Float32frombits(le.Uint32(b))), 32
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return appendJSON(dst, strconv.AppendFloat(nil, f, 'g', -1, bits))
		}
		return strconv.AppendFloat(dst, f, 'g', -1, bits)
	case kDecimal:
		return appendPoint(dst, integer(b, true), t.scale)
	case kString, kJSON:
		s, _, _ := takeString(b)
		return appendJSON(dst, s)
	case kFixed:
		return appendJSON(dst, b)
	case kUUID:
		u := slices.Clone(b)
		slices.Reverse(u[:8])
		slices.Reverse(u[8:])
		h := hex.EncodeToString(u)
		return appendJSON(dst, []byte(h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:]))
	case kDate:
		return appendTime(dst, time.Unix(int64(le.Uint16(b))*86400, 0), time.DateOnly)
	case kDate32:
		return appendTime(dst, time.Unix(int64(int32(le.Uint32(b)))*86400, 0), time.DateOnly)
	case kDateTime:
		return appendTime(dst, time.Unix(int64(le.Uint32(b)), 0), "2006-01-02T15:04:05Z")
	case kDateTime64:
		n, unit := int64(le.Uint64(b)), types.Pow10Int64(t.scale)
		s, f := n/unit, n%unit
		if f < 0 {
			s, f = s-1, f+unit
		}
		return appendTime(dst, time.Unix(s, f*types.Pow10Int64(9-t.scale)), "2006-01-02T15:04:05.999999999Z")
	case kTime:
		return strconv.AppendInt(dst, int64(int32(le.Uint32(b))), 10)
	case kTime64:
		return appendPoint(dst, integer(b, true), t.scale)
	case kEnum:
		n := int16(int8(b[0]))
		if t.size == 2 {
			n = int16(le.Uint16(b))
		}
		for label, x := range t.enum {
			if x == n {
				return appendJSON(dst, []byte(label))
			}
		}
		return strconv.AppendInt(dst, int64(n), 10)
	case kIPv4:
		return appendJSON(dst, []byte(netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}).String()))
	case kIPv6:
		return appendJSON(dst, []byte(netip.AddrFrom16([16]byte(b)).String()))
	}
	return append(dst, '?')
}

func pad64(b []byte) uint64 {
	var x [8]byte
	copy(x[:], b)
	return le.Uint64(x[:])
}

// integer is the number that b is, little endian.
func integer(b []byte, signed bool) *big.Int {
	r := slices.Clone(b)
	slices.Reverse(r)
	x := new(big.Int).SetBytes(r)
	if signed && r[0]&0x80 != 0 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return x
}

// appendPoint appends x / 10^scale.
func appendPoint(dst []byte, x *big.Int, scale int) []byte {
	s := new(big.Int).Abs(x).String()
	if x.Sign() < 0 {
		dst = append(dst, '-')
	}
	for len(s) <= scale {
		s = "0" + s
	}
	dst = append(dst, s[:len(s)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), s[len(s)-scale:]...)
	}
	return dst
}

func appendTime(dst []byte, t time.Time, layout string) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), layout), '"')
}

func appendJSON(dst, text []byte) []byte {
	b, _ := json.Marshal(string(text)) // a string cannot fail
	return append(dst, b...)
}
