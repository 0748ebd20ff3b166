package clickhouse

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// getter turns the cells of a column, or of a part of a nested one, into values of a type here: the way back
// of field. A value that has no place in the type is an error.
type getter struct {
	typ  types.Type
	c    *cells
	kids []*getter

	// one sets value at of v to cell i, which is not NULL. nil for nested types.
	one func(v *vec.Vec, at, i int) error
	// bulk sets the values of v to cells lo.., none of which is NULL; nil: one by one.
	bulk func(v *vec.Vec, lo int) error
}

const declareAs = "declare the column here with a type for all of its values, or CAST it in a view there"

// getter returns how cells of the column type w become values of t.
func (m *matcher) getter(t types.Type, w *colType) (*getter, error) {
	g := &getter{typ: t, c: newCells(w)}
	return g, m.get(g)
}

func (g *getter) unlike() error { return lossy(declareAs, "they are different") }

func (m *matcher) get(g *getter) error {
	switch g.typ.Kind {
	case types.Boolean:
		return g.boolean()
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.IntervalYearMonth, types.IntervalDayTime:
		return g.integer()
	case types.Float, types.Double:
		return g.float()
	case types.Decimal:
		return g.decimal()
	case types.Char, types.VarChar:
		return g.text()
	case types.Binary, types.VarBinary:
		return g.binary()
	case types.Date:
		return g.date()
	case types.Time:
		return g.time()
	case types.Timestamp, types.TimestampLTZ:
		return m.getTimestamp(g)
	case types.Array, types.Map, types.Multiset:
		return m.getList(g)
	case types.Row:
		return m.getTuple(g)
	}
	return g.unlike()
}

// fill makes v, which has hi-lo values, cells lo..hi-1.
func (g *getter) fill(v *vec.Vec, lo, hi int) error {
	c := g.c
	nulls := false
	if c.may {
		for i, n := range c.nulls[lo:hi] {
			if n == 0 {
				continue
			}
			if !g.typ.Nullable {
				return fmt.Errorf("row %d of the block is NULL, and the column is NOT NULL here", lo+i)
			}
			nulls = true
			v.SetNull(i)
		}
	}
	switch {
	case g.typ.Phys() == types.PList:
		return g.fillList(v, lo, hi)
	case g.typ.Phys() == types.PRow:
		for k, kid := range g.kids {
			if err := kid.fill(v.Kids[k], lo, hi); err != nil {
				return fmt.Errorf("field '%s': %w", g.typ.Fields[k].Name, err)
			}
		}
		return nil
	case g.bulk != nil && !nulls:
		return g.bulk(v, lo)
	}
	for i := lo; i < hi; i++ {
		if nulls && c.nulls[i] != 0 {
			continue
		}
		if err := g.one(v, i-lo, i); err != nil {
			return err
		}
	}
	return nil
}

func (g *getter) fillList(v *vec.Vec, lo, hi int) error {
	base, end := g.c.begin(lo), g.c.begin(hi)
	for i := lo; i < hi; i++ {
		from := g.c.begin(i)
		v.Refs[i-lo] = vec.Ref{Off: uint32(from - base), Len: uint32(int(g.c.ends[i]) - from)}
	}
	for k, kid := range g.kids {
		v.Kids[k].Reset(end - base)
		if err := kid.fill(v.Kids[k], base, end); err != nil {
			return fmt.Errorf("an element: %w", err)
		}
	}
	return nil
}

// unfit says that cell i has no place.
func (g *getter) unfit(i int) error {
	return fmt.Errorf("%s (%s) does not fit %s", g.c.text(i), g.c.typ.name, g.typ.AsNullable())
}

func (g *getter) boolean() error {
	w := g.c.typ
	if w.kind != kBool && (w.kind != kUint && w.kind != kInt || w.size != 1) {
		return g.unlike()
	}
	g.one = func(v *vec.Vec, at, i int) error {
		if x := g.c.data[i]; x > 1 {
			return g.unfit(i)
		}
		v.Bool[at] = g.c.data[i] == 1
		return nil
	}
	return nil
}

// put stores an integer.
func putInt(v *vec.Vec, at int, x int64) {
	if v.Phys == types.PI64 {
		v.I64[at] = x
	} else {
		v.I32[at] = int32(x)
	}
}

func (g *getter) integer() error {
	w := g.c.typ
	b := bitsOf(g.typ.Kind)
	hi := int64(1)<<(b-1) - 1
	lo := -hi - 1
	value := g.c.int64
	switch w.kind {
	case kInt, kUint:
	case kDecimal:
		value = func(i int) (int64, bool) {
			x, ok := g.c.decimal(i, 0)
			return int64(x.Lo), ok && x.IsInt64()
		}
	case kFloat:
		value = func(i int) (int64, bool) {
			f := g.c.float(i)
			return int64(f), f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
		}
	default:
		return g.unlike()
	}
	g.one = func(v *vec.Vec, at, i int) error {
		x, ok := value(i)
		if !ok || x < lo || x > hi {
			return g.unfit(i)
		}
		putInt(v, at, x)
		return nil
	}
	switch {
	case w.kind == kInt && w.size == 8 && b == 64:
		g.bulk = g.bulk64
	case w.kind == kInt && w.size == 4 && b == 32:
		g.bulk = g.bulk32
	}
	return nil
}

func (g *getter) bulk64(v *vec.Vec, lo int) error {
	from := g.c.data[8*lo:]
	for i := range v.I64 {
		v.I64[i] = int64(le.Uint64(from[8*i:]))
	}
	return nil
}

func (g *getter) bulk32(v *vec.Vec, lo int) error {
	from := g.c.data[4*lo:]
	for i := range v.I32 {
		v.I32[i] = int32(le.Uint32(from[4*i:]))
	}
	return nil
}

func (g *getter) float() error {
	w := g.c.typ
	if w.kind != kFloat {
		return g.unlike()
	}
	if g.typ.Kind == types.Double {
		g.one = func(v *vec.Vec, at, i int) error { v.F64[at] = g.c.float(i); return nil }
		if w.size == 8 {
			g.bulk = func(v *vec.Vec, lo int) error {
				from := g.c.data[8*lo:]
				for i := range v.F64 {
					v.F64[i] = math.Float64frombits(le.Uint64(from[8*i:]))
				}
				return nil
			}
		}
		return nil
	}
	g.one = func(v *vec.Vec, at, i int) error {
		f := g.c.float(i)
		x := float32(f)
		if float64(x) != f && f == f {
			return g.unfit(i)
		}
		v.F32[at] = x
		return nil
	}
	return nil
}

func (g *getter) decimal() error {
	w, t := g.c.typ, g.typ
	if w.kind != kDecimal && w.kind != kInt && w.kind != kUint {
		return g.unlike()
	}
	whole := t.Precision
	g.one = func(v *vec.Vec, at, i int) error {
		x, ok := g.c.decimal(i, t.Scale)
		if !ok || !x.FitsDecimal(whole) {
			return g.unfit(i)
		}
		if v.Phys == types.PI64 {
			v.I64[at] = int64(x.Lo)
		} else {
			v.I128[at] = x
		}
		return nil
	}
	if w.kind == kDecimal && w.size == 8 && w.scale == t.Scale && w.prec <= t.Precision && t.Phys() == types.PI64 {
		g.bulk = g.bulk64
	}
	return nil
}

func (g *getter) text() error {
	switch w := g.c.typ; w.kind {
	case kString:
		g.strings()
	case kFixed: // filled up with zeros
		g.one = func(v *vec.Vec, at, i int) error {
			b := g.c.raw(i)
			for len(b) > 0 && b[len(b)-1] == 0 {
				b = b[:len(b)-1]
			}
			v.SetBytes(at, b)
			return nil
		}
	case kUUID:
		g.one = func(v *vec.Vec, at, i int) error {
			v.EndBytes(at, appendUUID(v.BeginBytes(), g.c.raw(i)))
			return nil
		}
	case kEnum:
		labels := map[int16]string{}
		for l, n := range w.enum {
			labels[n] = l
		}
		g.one = func(v *vec.Vec, at, i int) error {
			n := int16(int8(g.c.raw(i)[0]))
			if w.size == 2 {
				n = int16(le.Uint16(g.c.raw(i)))
			}
			l, ok := labels[n]
			if !ok {
				return g.unfit(i)
			}
			v.SetString(at, l)
			return nil
		}
	case kIPv4, kIPv6:
		g.one = func(v *vec.Vec, at, i int) error {
			b := g.c.raw(i)
			a := netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
			if w.kind == kIPv6 {
				a = netip.AddrFrom16([16]byte(b))
			}
			v.EndBytes(at, a.AppendTo(v.BeginBytes()))
			return nil
		}
	default:
		return g.unlike()
	}
	return nil
}

// appendUUID appends the text of a UUID of a block.
func appendUUID(dst, b []byte) []byte {
	var u [16]byte
	for i := range 8 {
		u[i], u[8+i] = b[7-i], b[15-i]
	}
	for i, ends := range [5][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[ends[0]:ends[1]])
	}
	return dst
}

// strings shares the bytes of the cells, which live as long as the batch.
func (g *getter) strings() {
	g.one = func(v *vec.Vec, at, i int) error { v.SetBytes(at, g.c.bytes(i)); return nil }
	g.bulk = func(v *vec.Vec, lo int) error {
		v.ShareBuf(g.c.data)
		copy(v.Refs, g.c.refs[lo:])
		return nil
	}
}

func (g *getter) binary() error {
	switch g.c.typ.kind {
	case kString:
		g.strings()
	case kFixed:
		g.one = func(v *vec.Vec, at, i int) error { v.SetBytes(at, g.c.raw(i)); return nil }
	default:
		return g.unlike()
	}
	return nil
}

func (g *getter) date() error {
	switch g.c.typ.kind {
	case kDate:
		g.one = func(v *vec.Vec, at, i int) error { v.I32[at] = int32(le.Uint16(g.c.raw(i))); return nil }
	case kDate32:
		g.one = func(v *vec.Vec, at, i int) error { v.I32[at] = int32(le.Uint32(g.c.raw(i))); return nil }
		g.bulk = g.bulk32
	default:
		return g.unlike()
	}
	return nil
}

// wholeTo reports whether a time has no more digits of the second than p.
func wholeTo(p int, ms, nanos int64) bool {
	if p >= 3 {
		return nanos%types.Pow10Int64(max(0, 9-p)) == 0
	}
	return nanos == 0 && ms%types.Pow10Int64(3-p) == 0
}

func (g *getter) time() error {
	if k := g.c.typ.kind; k != kTime && k != kTime64 {
		return g.unlike()
	}
	p := min(g.typ.Precision, 3)
	g.one = func(v *vec.Vec, at, i int) error {
		ms, nanos := g.c.ticks(i)
		if ms < 0 || ms >= msPerDay || !wholeTo(p, ms, nanos) {
			return g.unfit(i)
		}
		v.I32[at] = int32(ms)
		return nil
	}
	return nil
}

func (m *matcher) getTimestamp(g *getter) error {
	w, t := g.c.typ, g.typ
	if w.kind != kDateTime && w.kind != kDateTime64 {
		return g.unlike()
	}
	zone := types.NewZone(m.server)
	if w.zone != "" {
		loc, err := time.LoadLocation(w.zone)
		if err != nil {
			return lossy("declare the column here as TIMESTAMP_LTZ", "its time zone is not known here: %v", err)
		}
		zone = types.NewZone(loc)
	}
	if t.Kind == types.TimestampLTZ {
		zone = types.NewZone(time.UTC)
	}
	g.one = func(v *vec.Vec, at, i int) error {
		ms, nanos := g.c.ticks(i)
		if !wholeTo(t.Precision, ms, nanos) {
			return g.unfit(i)
		}
		ms = zone.ToLocal(ms)
		if v.Phys == types.PI128 {
			v.I128[at] = types.Int128{Hi: ms, Lo: uint64(nanos)}
		} else {
			v.I64[at] = ms
		}
		return nil
	}
	return nil
}

func (m *matcher) getList(g *getter) error {
	var kids []types.Type
	switch g.typ.Kind {
	case types.Array:
		kids = []types.Type{*g.typ.Elem}
	case types.Map:
		kids = []types.Type{*g.typ.Key, *g.typ.Elem}
	default:
		kids = []types.Type{*g.typ.Elem, types.IntType.NotNull()}
	}
	c := g.c
	if c.typ.kind != kArray && c.typ.kind != kMap {
		return g.unlike()
	}
	if len(kids) == 2 && c.typ.kind == kArray && c.kids[0].typ.kind == kTuple { // the same bytes as a Map
		c.kids = []*cells{c.kids[0]}
		return m.getParts(g, kids, c.kids[0].kids)
	}
	return m.getParts(g, kids, c.kids)
}

// getParts makes the getters of the parts of a list.
func (m *matcher) getParts(g *getter, kids []types.Type, parts []*cells) error {
	if len(parts) != len(kids) {
		return g.unlike()
	}
	for k, t := range kids {
		kid := &getter{typ: t, c: parts[k]}
		if err := m.get(kid); err != nil {
			part := "an element"
			if len(kids) == 2 {
				part = [...]string{"a key", "a value"}[k]
			}
			return within(part, t, parts[k].typ, err)
		}
		g.kids = append(g.kids, kid)
	}
	return nil
}

func (m *matcher) getTuple(g *getter) error {
	w := g.c.typ
	if w.kind != kTuple {
		return g.unlike()
	}
	if len(w.kids) != len(g.typ.Fields) {
		return lossy(declareAs, "there are %d fields here and %d there", len(g.typ.Fields), len(w.kids))
	}
	for k, t := range g.typ.Fields {
		if w.names != nil && !strings.EqualFold(w.names[k], t.Name) {
			return lossy("name the fields alike and give them the same order", "field %d is '%s' here and '%s' there", k+1, t.Name, w.names[k])
		}
		kid := &getter{typ: t.Type, c: g.c.kids[k]}
		if err := m.get(kid); err != nil {
			return within("field '"+t.Name+"'", t.Type, w.kids[k], err)
		}
		g.kids = append(g.kids, kid)
	}
	return nil
}
