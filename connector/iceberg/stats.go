package iceberg

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"

	"github.com/tidemark-stream/tidemark/types"
)

// describe takes over what the footer of the file says about its columns.
func (o *output) describe(md *metadata.FileMetaData) error {
	f := &o.file
	f.Sizes, f.Counts, f.Nulls, f.Lower, f.Upper = map[int]int64{}, map[int]int64{}, map[int]int64{}, map[int][]byte{}, map[int][]byte{}
	unknown := map[int]bool{}
	for g := range md.NumRowGroups() {
		rg := md.RowGroup(g)
		if rg.NumRows() == 0 {
			continue
		}
		for i := range rg.NumColumns() {
			c, err := rg.ColumnChunk(i)
			if err != nil {
				return err
			}
			if i == 0 {
				at := c.DataPageOffset()
				if c.HasDictionaryPage() && c.DictionaryPageOffset() > 0 {
					at = min(at, c.DictionaryPageOffset())
				}
				f.Splits = append(f.Splits, at)
			}
			col := md.Schema.Column(i)
			id := int(col.SchemaNode().FieldID())
			f.Sizes[id] += c.TotalCompressedSize()
			if col.MaxRepetitionLevel() > 0 {
				continue
			}
			f.Counts[id] += c.NumValues()
			if err := o.bound(id, c, unknown); err != nil {
				return err
			}
		}
	}
	for id := range unknown {
		delete(f.Lower, id)
		delete(f.Upper, id)
	}
	o.cut()
	return nil
}

// bound takes over the bounds of a chunk. unknown are fields with a chunk that has none.
func (o *output) bound(id int, c *metadata.ColumnChunkMetaData, unknown map[int]bool) error {
	f := &o.file
	s, err := c.Statistics()
	if err != nil || s == nil {
		unknown[id] = true
		return err
	}
	if s.HasNullCount() {
		f.Nulls[id] += s.NullCount()
	}
	typ, ok := o.shape.physics[id]
	if _, wanted := o.shape.bounds[id]; !ok || !wanted {
		return nil
	}
	if !s.HasMinMax() {
		if !s.HasNullCount() || s.NullCount() < c.NumValues() {
			unknown[id] = true
		}
		return nil
	}
	lo, hi := single(typ, c.Type(), s.EncodeMin()), single(typ, c.Type(), s.EncodeMax())
	if have, there := f.Lower[id]; !there || compare(typ, lo, have) < 0 {
		f.Lower[id] = lo
	}
	if have, there := f.Upper[id]; !there || compare(typ, hi, have) > 0 {
		f.Upper[id] = hi
	}
	return nil
}

// single turns a value of Parquet's statistics into Iceberg's binary form. They differ for decimals only.
func single(t iceberg.Type, physical parquet.Type, b []byte) []byte {
	if _, ok := t.(iceberg.DecimalType); !ok {
		return slices.Clone(b)
	}
	switch physical {
	case parquet.Types.Int32:
		return appendUnscaled(nil, types.I128(int64(int32(le.Uint32(b)))))
	case parquet.Types.Int64:
		return appendUnscaled(nil, types.I128(int64(le.Uint64(b))))
	}
	return appendUnscaled(nil, wideUnscaled(b))
}

// wideUnscaled reads a two's complement of up to 16 bytes, most significant byte first.
func wideUnscaled(b []byte) types.Int128 {
	var w [16]byte
	if len(b) > 0 && b[0] >= 0x80 {
		for i := range w {
			w[i] = 0xff
		}
	}
	copy(w[16-len(b):], b)
	return types.Int128{Hi: int64(binary.BigEndian.Uint64(w[:8])), Lo: binary.BigEndian.Uint64(w[8:])}
}

// compare orders values in binary form.
func compare(t iceberg.Type, a, b []byte) int {
	switch t.(type) {
	case iceberg.Int32Type, iceberg.DateType:
		return cmp.Compare(int32(le.Uint32(a)), int32(le.Uint32(b)))
	case iceberg.Int64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return cmp.Compare(int64(le.Uint64(a)), int64(le.Uint64(b)))
	case iceberg.Float32Type:
		return cmp.Compare(math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b)))
	case iceberg.Float64Type:
		return cmp.Compare(math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b)))
	case iceberg.DecimalType:
		return wideUnscaled(a).Cmp(wideUnscaled(b))
	}
	return bytes.Compare(a, b)
}

// cut shortens the bounds of texts and binaries: the lower one to a beginning, the upper one to a
// beginning of which the last character is one higher.
func (o *output) cut() {
	for id, t := range o.shape.physics {
		n := o.shape.bounds[id]
		_, text := t.(iceberg.StringType)
		_, binary := t.(iceberg.BinaryType)
		if n <= 0 || !text && !binary {
			continue
		}
		short := func(b []byte) []byte {
			if text {
				return firstRunes(b, n)
			}
			return b[:min(len(b), n)]
		}
		if lo, ok := o.file.Lower[id]; ok {
			o.file.Lower[id] = short(lo)
		}
		hi, ok := o.file.Upper[id]
		if !ok || len(short(hi)) == len(hi) {
			continue
		}
		if up := above(short(hi), text); up != nil {
			o.file.Upper[id] = up
		} else {
			delete(o.file.Upper, id)
		}
	}
}

// above is a value above all that begin with b, nil if there is none.
func above(b []byte, text bool) []byte {
	b = slices.Clone(b)
	if !text {
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] < 0xff {
				b[i]++
				return b[:i+1]
			}
		}
		return nil
	}
	for len(b) > 0 {
		r, size := utf8.DecodeLastRune(b)
		b = b[:len(b)-size]
		if r == utf8.RuneError && size <= 1 {
			return nil // not UTF-8: nothing is known
		}
		switch r++; {
		case r == 0xd800:
			return utf8.AppendRune(b, 0xe000)
		case r <= utf8.MaxRune:
			return utf8.AppendRune(b, r)
		}
	}
	return nil
}
