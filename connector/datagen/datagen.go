// Package datagen is the datagen connector: a source that makes rows up, at random or counting, at
// a given rate. With a seed (or 'tidemark.seed') the same rows come again.
package datagen

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "datagen",
		Doc:  "A source of random or counting rows, for tests and first steps.",
		Options: []option.Spec{
			{Name: "rows-per-second", Kind: option.Int, Default: "10000", Doc: "How many rows a second are made."},
			{Name: "number-of-rows", Kind: option.Int, Doc: "How many rows are made; without it the source does not end, unless a sequence does."},
			{Name: "seed", Kind: option.Int, Doc: "Makes the rows repeatable."},
			{Name: "fields.#.kind", Kind: option.Enum, Values: []string{"random", "sequence"}, Default: "random", Doc: "How values of the column are made."},
			{Name: "fields.#.min", Doc: "The least random value.", Example: "0"},
			{Name: "fields.#.max", Doc: "The greatest random value.", Example: "1000"},
			{Name: "fields.#.max-past", Kind: option.Duration, Default: "0 s", Doc: "How far a random timestamp may lie in the past."},
			{Name: "fields.#.length", Kind: option.Int, Doc: "The length of random strings and bytes (100), and of collections (3)."},
			{Name: "fields.#.var-len", Kind: option.Bool, Default: "false", Doc: "Vary the length between 1 and the given one."},
			{Name: "fields.#.null-rate", Kind: option.Float, Default: "0", Doc: "The share of NULLs, 0 to 1."},
			{Name: "fields.#.start", Kind: option.Int, Doc: "The first value of a sequence."},
			{Name: "fields.#.end", Kind: option.Int, Doc: "The last value of a sequence, at which the source ends."},
		},
		Check:     check,
		NewSource: newSource,
	})
}

// column makes the values of one column.
type column struct {
	t          types.Type
	sequence   bool
	start, end int64
	nullRate   float64
	fill       func(r *rand.Rand, v *vec.Vec, i int)
}

func check(t *connector.Table, o option.Values) error {
	_, err := columns(t, o)
	return err
}

func columns(t *connector.Table, o option.Values) ([]column, error) {
	for key := range o.All() {
		name, ok := fieldOf(key)
		if ok && !hasField(t.Columns, name) {
			return nil, &option.Error{Key: key, Msg: fmt.Sprintf("'%s' names no column of table %s", key, t.Name)}
		}
	}
	out := make([]column, len(t.Columns))
	for i, f := range t.Columns {
		p := "fields." + f.Name + "."
		c := column{t: f.Type, nullRate: o.Float(p + "null-rate")}
		if o.Enum(p+"kind") == "sequence" {
			for _, k := range []string{"start", "end"} {
				if !o.Has(p + k) {
					return nil, &option.Error{Key: p + k, Msg: fmt.Sprintf("a sequence needs '%s%s'", p, k)}
				}
			}
			c.sequence, c.start, c.end = true, o.Int(p+"start"), o.Int(p+"end")
			switch f.Type.Phys() {
			case types.PI32, types.PI64, types.PF32, types.PF64, types.PBytes, types.PI128:
			default:
				return nil, &option.Error{Key: p + "kind", Msg: fmt.Sprintf("a sequence cannot be of type %s", f.Type)}
			}
		} else {
			fill, err := random(f.Type, p, o)
			if err != nil {
				return nil, err
			}
			c.fill = fill
		}
		out[i] = c
	}
	return out, nil
}

func fieldOf(key string) (string, bool) {
	if len(key) < 8 || key[:7] != "fields." {
		return "", false
	}
	rest := key[7:]
	for i := len(rest) - 1; i > 0; i-- {
		if rest[i] == '.' {
			return rest[:i], true
		}
	}
	return "", false
}

func hasField(fs []types.Field, path string) bool {
	for _, f := range fs {
		if f.Name == path {
			return true
		}
		if f.Type.Kind == types.Row && len(path) > len(f.Name) && path[:len(f.Name)] == f.Name && path[len(f.Name)] == '.' {
			return hasField(f.Type.Fields, path[len(f.Name)+1:])
		}
		if len(path) > len(f.Name) && path[:len(f.Name)] == f.Name && path[len(f.Name)] == '.' {
			switch path[len(f.Name)+1:] {
			case "element", "key", "value":
				return true
			}
		}
	}
	return false
}

func bound(o option.Values, key string, def float64) (float64, error) {
	s := o.Get(key)
	if s == "" {
		return def, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, &option.Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, s), Hint: "write a number"}
	}
	return f, nil
}

func intBound(o option.Values, key string, def int64) (int64, error) {
	s := o.Get(key)
	if s == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, &option.Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, s), Hint: "write a whole number"}
	}
	return n, nil
}

// random returns what fills a slot with a random value of type t.
func random(t types.Type, p string, o option.Values) (func(*rand.Rand, *vec.Vec, int), error) {
	switch t.Kind {
	case types.Boolean:
		return func(r *rand.Rand, v *vec.Vec, i int) { v.Bool[i] = r.Uint64()&1 == 1 }, nil
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.IntervalYearMonth, types.IntervalDayTime:
		lo, hi := intRange(t.Kind)
		lo, err := intBound(o, p+"min", lo)
		if err != nil {
			return nil, err
		}
		if hi, err = intBound(o, p+"max", hi); err != nil {
			return nil, err
		}
		if hi < lo {
			return nil, &option.Error{Key: p + "max", Msg: fmt.Sprintf("'%smax' is less than '%smin'", p, p)}
		}
		span := uint64(hi-lo) + 1 // 0: all values
		pick := func(r *rand.Rand) int64 {
			if span == 0 {
				return int64(r.Uint64())
			}
			return lo + int64(r.Uint64N(span))
		}
		if t.Phys() == types.PI32 {
			return func(r *rand.Rand, v *vec.Vec, i int) { v.I32[i] = int32(pick(r)) }, nil
		}
		return func(r *rand.Rand, v *vec.Vec, i int) { v.I64[i] = pick(r) }, nil
	case types.Float, types.Double:
		most := math.MaxFloat64
		if t.Kind == types.Float {
			most = math.MaxFloat32
		}
		lo, err := bound(o, p+"min", -most)
		if err != nil {
			return nil, err
		}
		hi, err := bound(o, p+"max", most)
		if err != nil {
			return nil, err
		}
		pick := func(r *rand.Rand) float64 { f := r.Float64(); return lo*(1-f) + hi*f }
		if t.Kind == types.Float {
			return func(r *rand.Rand, v *vec.Vec, i int) { v.F32[i] = float32(pick(r)) }, nil
		}
		return func(r *rand.Rand, v *vec.Vec, i int) { v.F64[i] = pick(r) }, nil
	case types.Decimal:
		return randomDecimal(t, p, o)
	case types.Char, types.VarChar, types.Binary, types.VarBinary:
		return randomBytes(t, p, o), nil
	case types.Date:
		return func(r *rand.Rand, v *vec.Vec, i int) { v.I32[i] = int32(time.Now().UnixMilli() / 86400000) }, nil
	case types.Time:
		return func(r *rand.Rand, v *vec.Vec, i int) { v.I32[i] = int32(time.Now().UnixMilli() % 86400000) }, nil
	case types.Timestamp, types.TimestampLTZ:
		past := o.Duration(p + "max-past").Milliseconds()
		return func(r *rand.Rand, v *vec.Vec, i int) {
			at := time.Now()
			ms := at.UnixMilli()
			if past > 0 {
				ms -= r.Int64N(past + 1)
			}
			expr.SetTimestamp(v, i, ms, 0)
		}, nil
	case types.Row:
		fills := make([]func(*rand.Rand, *vec.Vec, int), len(t.Fields))
		for k, f := range t.Fields {
			var err error
			if fills[k], err = random(f.Type, p+f.Name+".", o); err != nil {
				return nil, err
			}
		}
		return func(r *rand.Rand, v *vec.Vec, i int) {
			for k, f := range fills {
				f(r, v.Kids[k], i)
			}
		}, nil
	case types.Array, types.Map, types.Multiset:
		return randomList(t, p, o)
	}
	return nil, &option.Error{Key: p + "kind", Msg: fmt.Sprintf("datagen cannot make values of type %s", t)}
}

func intRange(k types.Kind) (lo, hi int64) {
	switch k {
	case types.TinyInt:
		return math.MinInt8, math.MaxInt8
	case types.SmallInt:
		return math.MinInt16, math.MaxInt16
	case types.Int:
		return math.MinInt32, math.MaxInt32
	case types.IntervalYearMonth:
		return 0, 120000
	}
	return math.MinInt64, math.MaxInt64
}

func randomDecimal(t types.Type, p string, o option.Values) (func(*rand.Rand, *vec.Vec, int), error) {
	most := math.Pow10(t.Precision-t.Scale) - 1
	lo, err := bound(o, p+"min", -most)
	if err != nil {
		return nil, err
	}
	hi, err := bound(o, p+"max", most)
	if err != nil {
		return nil, err
	}
	return func(r *rand.Rand, v *vec.Vec, i int) {
		f := r.Float64()
		text := strconv.AppendFloat(make([]byte, 0, 64), lo*(1-f)+hi*f, 'f', t.Scale, 64)
		x, ok := types.ParseDecimal(text, t.Precision, t.Scale)
		if !ok {
			v.SetNull(i)
			return
		}
		expr.SetDecimal(v, i, x)
	}, nil
}

const hexDigits = "0123456789abcdef"

func randomBytes(t types.Type, p string, o option.Values) func(*rand.Rand, *vec.Vec, int) {
	n := 100
	if t.Kind == types.Char || t.Kind == types.Binary {
		n = t.Precision
	} else if o.Has(p + "length") {
		n = int(o.Int(p + "length"))
	} else if t.Precision < n {
		n = t.Precision
	}
	vary := o.Bool(p + "var-len")
	text := t.IsString()
	return func(r *rand.Rand, v *vec.Vec, i int) {
		k := n
		if vary && n > 1 {
			k = 1 + r.IntN(n)
		}
		buf := v.BeginBytes()
		var word [8]byte
		for left := k; left > 0; left -= 8 {
			binary.LittleEndian.PutUint64(word[:], r.Uint64())
			if text {
				for b := range word {
					word[b] = hexDigits[word[b]&15]
				}
			}
			buf = append(buf, word[:min(left, 8)]...)
		}
		v.EndBytes(i, buf)
	}
}

func randomList(t types.Type, p string, o option.Values) (func(*rand.Rand, *vec.Vec, int), error) {
	elem, err := random(*t.Elem, p+map[types.Kind]string{types.Map: "value."}[t.Kind]+map[bool]string{true: "element."}[t.Kind != types.Map], o)
	if err != nil {
		return nil, err
	}
	fills := []func(*rand.Rand, *vec.Vec, int){elem}
	switch t.Kind {
	case types.Map:
		key, err := random(*t.Key, p+"key.", o)
		if err != nil {
			return nil, err
		}
		fills = []func(*rand.Rand, *vec.Vec, int){key, elem}
	case types.Multiset:
		fills = append(fills, func(_ *rand.Rand, v *vec.Vec, i int) { v.I32[i] = 1 })
	}
	n := 3
	if o.Has(p + "length") {
		n = int(o.Int(p + "length"))
	}
	return func(r *rand.Rand, v *vec.Vec, i int) {
		at := v.Kids[0].Len()
		for k, kid := range v.Kids {
			kid.Resize(at + n)
			for e := range n {
				fills[k](r, kid, at+e)
			}
		}
		v.Refs[i] = vec.Ref{Off: uint32(at), Len: uint32(n)}
	}, nil
}

type source struct {
	cfg  connector.SourceConfig
	cols []column
	rows int64 // -1: without end
	rate int64
	seed uint64
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	cols, err := columns(c.Table, c.Options)
	if err != nil {
		return nil, err
	}
	s := &source{cfg: c, rows: -1, rate: c.Options.Int("rows-per-second"), seed: c.Seed}
	if c.Options.Has("seed") {
		s.seed = uint64(c.Options.Int("seed")) | 1<<63
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if c.Options.Has("number-of-rows") {
		s.rows = c.Options.Int("number-of-rows")
	}
	for _, col := range cols {
		if n := col.end - col.start + 1; col.sequence && (s.rows < 0 || n < s.rows) {
			s.rows = n
		}
	}
	for _, i := range c.Columns {
		s.cols = append(s.cols, cols[i])
	}
	return s, nil
}

func (s *source) Bounded() bool { return s.rows >= 0 }

func (s *source) Guarantee() string {
	return "rows are made again from a position, the same with a seed"
}

// NewEnumerator implements connector.Source: one split, so that the rows do not depend on the
// parallelism.
func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return connector.FixedSplits(connector.Split{ID: "rows"}), nil
}

func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(s.open), nil
}

func (s *source) open(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
	pcg := rand.NewPCG(0, 0)
	return &splitReader{s: s, at: sp.Position.Offset, from: sp.Position.Offset, start: time.Now(), pcg: pcg, rnd: rand.New(pcg),
		origin: &vec.Origin{Source: s.cfg.Table.Name, Split: sp.ID, Unit: "row"}}, nil
}

type splitReader struct {
	s        *source
	pcg      *rand.PCG // seeded for every value, so that a value depends on its row and column only
	rnd      *rand.Rand
	at, from int64
	start    time.Time
	origin   *vec.Origin
}

// ReadBatch implements connector.BatchReader.
func (r *splitReader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	n := int64(maxRows)
	if r.s.rows >= 0 {
		if r.at >= r.s.rows {
			return io.EOF
		}
		n = min(n, r.s.rows-r.at)
	}
	if r.s.rate > 0 {
		due := r.from + int64(time.Since(r.start).Seconds()*float64(r.s.rate)) + 1
		if n = min(n, due-r.at); n <= 0 {
			return connector.ErrNoData
		}
	}
	b.N = int(n)
	for k, c := range r.s.cols {
		v := b.Cols[k]
		v.Resize(int(n))
		column := r.s.seed ^ vec.Mix(uint64(r.s.cfg.Columns[k])+1)
		for i := range int(n) {
			r.pcg.Seed(column, vec.Mix(uint64(r.at)+uint64(i)))
			switch {
			case c.nullRate > 0 && r.rnd.Float64() < c.nullRate:
				v.SetNull(i)
			case c.sequence:
				setSequence(v, i, c.start+r.at+int64(i))
			default:
				c.fill(r.rnd, v, i)
			}
		}
	}
	b.Origin = r.origin
	b.Pos = b.Pos[:0]
	for i := range n {
		b.Pos = append(b.Pos, r.at+i)
	}
	r.at += n
	return nil
}

func setSequence(v *vec.Vec, i int, x int64) {
	switch v.Phys {
	case types.PI32:
		v.I32[i] = int32(x)
	case types.PI64:
		v.I64[i] = x
		if v.Type.Kind == types.Decimal {
			v.I64[i] = x * int64(math.Pow10(v.Type.Scale))
		}
	case types.PI128:
		d, ok := types.ParseDecimal(strconv.AppendInt(nil, x, 10), v.Type.Precision, v.Type.Scale)
		if !ok {
			v.SetNull(i)
			return
		}
		v.I128[i] = d
	case types.PF32:
		v.F32[i] = float32(x)
	case types.PF64:
		v.F64[i] = float64(x)
	case types.PBytes:
		v.EndBytes(i, strconv.AppendInt(v.BeginBytes(), x, 10))
	}
}

func (r *splitReader) Position() connector.Position {
	return connector.Position{Offset: r.at, Set: true}
}

func (r *splitReader) Lag() int64 {
	if r.s.rows < 0 {
		return 0
	}
	return r.s.rows - r.at
}

func (r *splitReader) Close() error { return nil }
