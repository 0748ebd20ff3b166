package iceberg

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/twmb/murmur3"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var le = binary.LittleEndian

// partitioner tells the rows of batches apart by partition. Values are kept in Iceberg's binary form of
// single values, one after another:
//
//	key   = value...
//	value = 0 | 1 length (uvarint) bytes
type partitioner struct {
	spec   iceberg.PartitionSpec
	fields []partField
	key    []byte
	groups map[string]*group
	live   []*group // of the batch at hand
}

// partField is a field of a partition.
type partField struct {
	name      string
	transform iceberg.Transform
	result    iceberg.Type
	at        int // the column in the batch
	// value appends the binary form of the transformed value; it is not called for NULL. nil: always NULL.
	value func(dst []byte, v *vec.Vec, i int) []byte
}

// group is a partition, and its rows of the batch at hand.
type group struct {
	key  string
	rows []int32
}

// newPartitioner prepares the spec of a table; at gives the column of each field of the schema.
func newPartitioner(spec iceberg.PartitionSpec, schema *iceberg.Schema, columns []types.Field, at []int) (*partitioner, error) {
	p := &partitioner{spec: spec, groups: map[string]*group{}}
	for _, f := range spec.Fields() {
		pf := partField{name: f.Name, transform: f.Transform}
		src, ok := schema.FindFieldByID(f.SourceID())
		if _, void := f.Transform.(iceberg.VoidTransform); void || !ok {
			pf.result = iceberg.Type(iceberg.StringType{})
			if ok {
				pf.result = f.Transform.ResultType(src.Type)
			}
			p.fields = append(p.fields, pf)
			continue
		}
		pf.result = f.Transform.ResultType(src.Type)
		i := topLevel(schema, src.ID)
		if i < 0 {
			return nil, fmt.Errorf("the table is partitioned by %s of '%s', a field of a nested column, which is not supported yet", f.Transform, src.Name)
		}
		if pf.at = at[i]; pf.at >= 0 {
			if pf.value = transformer(f.Transform, src.Type, columns[pf.at].Type); pf.value == nil {
				return nil, fmt.Errorf("the table is partitioned by %s of '%s' (%s), which is not supported", f.Transform, src.Name, src.Type)
			}
		}
		p.fields = append(p.fields, pf)
	}
	return p, nil
}

func topLevel(s *iceberg.Schema, id int) int {
	for i, f := range s.Fields() {
		if f.ID == id {
			return i
		}
	}
	return -1
}

// split groups the rows of a batch; a group's rows are valid until the next call. Where there are no
// partitions, the only group has the rows that it was given.
func (p *partitioner) split(b *vec.Batch, rows []int32) []*group {
	if len(p.fields) == 0 {
		if p.live == nil {
			p.live = []*group{{}}
		}
		p.live[0].rows = rows
		return p.live
	}
	for _, g := range p.live {
		g.rows = g.rows[:0]
	}
	p.live = p.live[:0]
	var last *group
	for _, i := range positions(rows, b.N) {
		p.key = p.appendKey(p.key[:0], b, int(i))
		if last == nil || last.key != string(p.key) {
			last = p.groups[string(p.key)]
			if last == nil {
				last = p.newGroup()
			}
			if len(last.rows) == 0 {
				p.live = append(p.live, last)
			}
		}
		last.rows = append(last.rows, i)
	}
	return p.live
}

// mostGroups bounds what is remembered of partitions that were met.
const mostGroups = 4096

func (p *partitioner) newGroup() *group {
	if len(p.groups) >= mostGroups {
		clear(p.groups)
		for _, g := range p.live {
			p.groups[g.key] = g
		}
	}
	g := &group{key: string(p.key)}
	p.groups[g.key] = g
	return g
}

func (p *partitioner) appendKey(dst []byte, b *vec.Batch, i int) []byte {
	for k := range p.fields {
		f := &p.fields[k]
		if f.value == nil || b.Cols[f.at].IsNull(i) {
			dst = append(dst, 0)
			continue
		}
		// The length of most values takes one byte; others are moved.
		at := len(dst)
		dst = append(dst, 1, 0)
		dst = f.value(dst, b.Cols[f.at], i)
		n := len(dst) - at - 2
		if n < 0x80 {
			dst[at+1] = byte(n)
			continue
		}
		var head [binary.MaxVarintLen64]byte
		w := binary.PutUvarint(head[:], uint64(n))
		dst = append(dst, head[:w-1]...)
		copy(dst[at+1+w:], dst[at+2:at+2+n])
		copy(dst[at+1:], head[:w])
	}
	return dst
}

// values takes a key apart; nil is NULL.
func splitKey(key string) ([][]byte, error) {
	var out [][]byte
	for b := []byte(key); len(b) > 0; {
		if b[0] == 0 {
			out, b = append(out, nil), b[1:]
			continue
		}
		n, w := binary.Uvarint(b[1:])
		if w <= 0 || n > uint64(len(b)-1-w) {
			return nil, fmt.Errorf("BUG: partition key %x", key)
		}
		out, b = append(out, b[1+w:1+w+int(n):1+w+int(n)]), b[1+w+int(n):]
	}
	return out, nil
}

// partitionData turns values into what the library takes, by the number of the partition's field.
func partitionData(spec iceberg.PartitionSpec, schema *iceberg.Schema, values [][]byte) (map[int]any, error) {
	if spec.NumFields() != len(values) {
		return nil, fmt.Errorf("%d partition values for the %d fields of spec %d", len(values), spec.NumFields(), spec.ID())
	}
	out := map[int]any{}
	typ := spec.PartitionType(schema)
	for i, f := range typ.FieldList {
		if values[i] == nil {
			out[f.ID] = nil
			continue
		}
		l, err := iceberg.LiteralFromBytes(f.Type, values[i])
		if err != nil {
			return nil, fmt.Errorf("partition field '%s': %w", f.Name, err)
		}
		out[f.ID] = l.Any()
	}
	return out, nil
}

// folder names the folder of a partition, for people; nothing depends on it. Characters that some store
// or reader takes for special ones are replaced.
func (p *partitioner) folder(values [][]byte) string {
	var parts []string
	for i, f := range p.fields {
		var v any
		if values[i] != nil {
			if l, err := iceberg.LiteralFromBytes(f.result, values[i]); err == nil {
				v = l.Any()
			}
		}
		text := f.transform.ToHumanStrType(f.result, v)
		if len(text) > 64 {
			text = text[:64]
		}
		parts = append(parts, tame(f.name)+"="+tame(text))
	}
	return strings.Join(parts, "/")
}

func tame(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			continue
		}
		b[i] = '_'
	}
	return string(b)
}

// transformer returns how a transform of values of type t, kept as src, is appended.
func transformer(tr iceberg.Transform, src iceberg.Type, t types.Type) func([]byte, *vec.Vec, int) []byte {
	switch tr := tr.(type) {
	case iceberg.IdentityTransform:
		return identity(src, t)
	case iceberg.BucketTransform:
		return bucket(tr.NumBuckets, src, t)
	case *iceberg.BucketTransform:
		return bucket(tr.NumBuckets, src, t)
	case iceberg.TruncateTransform:
		return truncate(tr.Width, src, t)
	case *iceberg.TruncateTransform:
		return truncate(tr.Width, src, t)
	case iceberg.YearTransform:
		return calendar(src, t, func(days int32) int32 { y, _, _ := types.CivilFromDays(days); return int32(y - 1970) })
	case iceberg.MonthTransform:
		return calendar(src, t, func(days int32) int32 {
			y, m, _ := types.CivilFromDays(days)
			return int32((y-1970)*12 + m - 1)
		})
	case iceberg.DayTransform:
		return calendar(src, t, func(days int32) int32 { return days })
	case iceberg.HourTransform:
		whole := wholeOf(src, t)
		if !t.IsTimestamp() {
			return nil
		}
		return func(dst []byte, v *vec.Vec, i int) []byte {
			return le.AppendUint32(dst, uint32(floor(whole(v, i), 3_600_000_000*perMicro(src))))
		}
	}
	return nil
}

// perMicro is how many units of a timestamp's number make a microsecond.
func perMicro(src iceberg.Type) int64 {
	switch src.(type) {
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return 1000
	}
	return 1
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// calendar transforms the day of a date or timestamp.
func calendar(src iceberg.Type, t types.Type, f func(days int32) int32) func([]byte, *vec.Vec, int) []byte {
	whole := wholeOf(src, t)
	if t.Kind != types.Date && !t.IsTimestamp() {
		return nil
	}
	day := int64(1)
	if _, ok := src.(iceberg.DateType); !ok {
		day = 86_400_000_000 * perMicro(src)
	}
	return func(dst []byte, v *vec.Vec, i int) []byte {
		return le.AppendUint32(dst, uint32(f(int32(floor(whole(v, i), day)))))
	}
}

// wholeOf reads values that Iceberg keeps as whole numbers: integers, dates, times and timestamps. nil
// for other types.
func wholeOf(src iceberg.Type, t types.Type) func(v *vec.Vec, i int) int64 {
	switch src.(type) {
	case iceberg.Int32Type, iceberg.Int64Type, iceberg.DateType:
		if t.Phys() == types.PI64 {
			return func(v *vec.Vec, i int) int64 { return v.I64[i] }
		}
		return func(v *vec.Vec, i int) int64 { return int64(v.I32[i]) }
	case iceberg.TimeType:
		return func(v *vec.Vec, i int) int64 { return int64(v.I32[i]) * 1000 }
	case iceberg.TimestampType, iceberg.TimestampTzType:
		if t.Phys() == types.PI64 {
			return func(v *vec.Vec, i int) int64 { return v.I64[i] * 1000 }
		}
		return func(v *vec.Vec, i int) int64 { return micros(v.I128[i]) }
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		if t.Phys() == types.PI64 {
			return func(v *vec.Vec, i int) int64 { return v.I64[i] * 1_000_000 }
		}
		return func(v *vec.Vec, i int) int64 { return v.I128[i].Hi*1_000_000 + int64(v.I128[i].Lo) }
	}
	return nil
}

// isInt32 reports whether Iceberg keeps values of t in four bytes.
func isInt32(t iceberg.Type) bool {
	switch t.(type) {
	case iceberg.Int32Type, iceberg.DateType:
		return true
	}
	return false
}

func identity(src iceberg.Type, t types.Type) func([]byte, *vec.Vec, int) []byte {
	if whole := wholeOf(src, t); whole != nil {
		if isInt32(src) {
			return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint32(dst, uint32(whole(v, i))) }
		}
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint64(dst, uint64(whole(v, i))) }
	}
	switch src.(type) {
	case iceberg.BooleanType:
		return func(dst []byte, v *vec.Vec, i int) []byte {
			if v.Bool[i] {
				return append(dst, 1)
			}
			return append(dst, 0)
		}
	case iceberg.Float32Type:
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint32(dst, math.Float32bits(v.F32[i])) }
	case iceberg.Float64Type:
		if t.Phys() == types.PF32 {
			return func(dst []byte, v *vec.Vec, i int) []byte {
				return le.AppendUint64(dst, math.Float64bits(float64(v.F32[i])))
			}
		}
		return func(dst []byte, v *vec.Vec, i int) []byte { return le.AppendUint64(dst, math.Float64bits(v.F64[i])) }
	case iceberg.DecimalType:
		return func(dst []byte, v *vec.Vec, i int) []byte { return appendUnscaled(dst, unscaled(v, i)) }
	case iceberg.StringType, iceberg.BinaryType:
		return func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, v.Bytes(i)...) }
	case iceberg.FixedType, iceberg.UUIDType:
		return func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, padded(v.Bytes(i), t.Precision)...) }
	}
	return nil
}

func unscaled(v *vec.Vec, i int) types.Int128 {
	if v.Phys == types.PI64 {
		return types.I128(v.I64[i])
	}
	return v.I128[i]
}

// appendUnscaled appends the shortest two's complement, most significant byte first.
func appendUnscaled(dst []byte, x types.Int128) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(x.Hi))
	binary.BigEndian.PutUint64(b[8:], x.Lo)
	i := 0
	for i < 15 && (b[i] == 0 && b[i+1] < 0x80 || b[i] == 0xff && b[i+1] >= 0x80) {
		i++
	}
	return append(dst, b[i:]...)
}

func bucket(n int, src iceberg.Type, t types.Type) func([]byte, *vec.Vec, int) []byte {
	into := func(dst []byte, at int) []byte {
		h := murmur3.Sum32(dst[at:])
		return le.AppendUint32(dst[:at], uint32(int32(h&math.MaxInt32)%int32(n)))
	}
	if whole := wholeOf(src, t); whole != nil {
		per := perMicro(src)
		return func(dst []byte, v *vec.Vec, i int) []byte {
			return into(le.AppendUint64(dst, uint64(floor(whole(v, i), per))), len(dst))
		}
	}
	switch src.(type) {
	case iceberg.BooleanType, iceberg.Float32Type, iceberg.Float64Type:
		return nil
	}
	value := identity(src, t)
	if value == nil {
		return nil
	}
	return func(dst []byte, v *vec.Vec, i int) []byte { return into(value(dst, v, i), len(dst)) }
}

func truncate(width int, src iceberg.Type, t types.Type) func([]byte, *vec.Vec, int) []byte {
	switch src.(type) {
	case iceberg.Int32Type, iceberg.Int64Type:
		whole, w, small := wholeOf(src, t), int64(width), isInt32(src)
		return func(dst []byte, v *vec.Vec, i int) []byte {
			x := whole(v, i)
			x -= (x%w + w) % w
			if small {
				return le.AppendUint32(dst, uint32(x))
			}
			return le.AppendUint64(dst, uint64(x))
		}
	case iceberg.DecimalType:
		w := types.I128(int64(width))
		return func(dst []byte, v *vec.Vec, i int) []byte {
			x := unscaled(v, i)
			_, r := x.QuoRem(w)
			if r.Sign() < 0 {
				r = r.Add(w)
			}
			return appendUnscaled(dst, x.Sub(r))
		}
	case iceberg.StringType:
		return func(dst []byte, v *vec.Vec, i int) []byte { return append(dst, firstRunes(v.Bytes(i), width)...) }
	case iceberg.BinaryType:
		return func(dst []byte, v *vec.Vec, i int) []byte {
			b := v.Bytes(i)
			return append(dst, b[:min(len(b), width)]...)
		}
	}
	return nil
}

// firstRunes is the beginning of a text, of at most n characters.
func firstRunes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	for i, c := range b {
		if c&0xc0 != 0x80 { // a character begins
			if n == 0 {
				return b[:i]
			}
			n--
		}
	}
	return b
}
