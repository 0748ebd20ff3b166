package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// get stores a value, which is not NULL and has the binary form of its type, as value at of a vector: the
// way back of encode.
type get func(v *vec.Vec, at int, b []byte) error

// asked is how a column is asked for: an expression of SQL, and how to read its values.
type asked struct {
	expr  string
	order string // the expression that orders its values
	form  int16  // binary or text
	get   get
}

// The forms in which the server sends values.
const textForm, binaryForm = 0, 1

var (
	errUnfit = errors.New("it does not fit")
	errForm  = errors.New("a value has not the form of its type")
)

// readable says how values of the column c become those of type t.
func readable(t types.Type, c *pgColumn) (asked, error) {
	if t.Kind == types.Array {
		return readableArray(t, c)
	}
	cast, g := reading(t, c)
	if g == nil {
		return asked{}, unreadable(t, c)
	}
	out := asked{expr: quote(c.name), form: binaryForm, get: g}
	out.order = out.expr
	switch {
	case cast == "text" && c.typ != "bpchar": // the text of an inet is another one after a cast
		out.form, out.order = textForm, out.expr+"::text"
	case cast != "":
		out.expr += "::" + cast
		out.order = out.expr
	}
	return out, nil
}

func unreadable(t types.Type, c *pgColumn) error {
	return fmt.Errorf("column '%s' is %s here and %s in the database; declare it here with a type for its values, or CAST it in a view there", c.name, t.AsNullable(), c.full)
}

// reading returns the type to cast values of c to, "" for none, and how to read them; nil where t cannot
// take them.
func reading(t types.Type, c *pgColumn) (cast string, g get) {
	isInt := slices.Contains([]string{"int2", "int4", "int8"}, c.typ)
	is := func(name string, g get) (string, get) {
		if c.typ != name {
			return "", nil
		}
		return "", g
	}
	switch t.Kind {
	case types.Boolean:
		return is("bool", getBool)
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt:
		if isInt {
			return "", integerGetter(t)
		}
		return is("numeric", wholeGetter(t))
	case types.Float, types.Double:
		if c.typ == "float4" || c.typ == "float8" {
			return "", floatGetter(t)
		}
	case types.Decimal:
		if isInt {
			return "numeric", decimalGetter(t)
		}
		return is("numeric", decimalGetter(t))
	case types.Char, types.VarChar:
		switch {
		case c.typ == "text" || c.typ == "varchar":
			return "", getBytes
		case strings.IndexByte("BNDTAC", c.category) < 0 && c.typ != "bytea":
			return "text", getBytes
		}
	case types.Binary, types.VarBinary:
		return is("bytea", getBytes)
	case types.Date:
		return is("date", getDate)
	case types.Time:
		return is("time", timeGetter(t))
	case types.Timestamp:
		return is("timestamp", timestampGetter(t))
	case types.TimestampLTZ:
		return is("timestamptz", timestampGetter(t))
	case types.IntervalYearMonth:
		return is("interval", getMonths)
	case types.IntervalDayTime:
		return is("interval", getMillis)
	}
	return "", nil
}

// readableArray reads arrays in their binary form, whose elements have that of theirs.
func readableArray(t types.Type, c *pgColumn) (asked, error) {
	if c.elem == nil {
		return asked{}, unreadable(t, c)
	}
	inner, depth := t, 0
	for inner.Kind == types.Array {
		inner = *inner.Elem
		depth++
	}
	cast, g := reading(inner, c.elem)
	if g == nil {
		return asked{}, unreadable(t, c)
	}
	out := asked{expr: quote(c.name), form: binaryForm, get: arrayGetter(t, depth, g)}
	if cast != "" {
		out.expr += "::" + cast + "[]"
	}
	out.order = out.expr
	return out, nil
}

// arrayGetter reads arrays: dimensions, whether there are NULLs, the type of elements; the size and first
// index of each dimension; the elements, each with its length in front, -1 for NULL.
func arrayGetter(t types.Type, depth int, g get) get {
	return func(v *vec.Vec, at int, b []byte) error {
		if len(b) < 12 {
			return errForm
		}
		dims := int(be.Uint32(b))
		b = b[12:]
		if dims == 0 {
			v.Refs[at] = vec.Ref{Off: uint32(v.Kids[0].Len())}
			return nil
		}
		if dims != depth {
			return fmt.Errorf("the array has %d dimensions: %w", dims, errUnfit)
		}
		if len(b) < 8*dims {
			return errForm
		}
		sizes, total := make([]int, dims), 1
		for d := range sizes {
			sizes[d] = int(be.Uint32(b[8*d:]))
			if total *= sizes[d]; sizes[d] > len(b) || total > len(b) {
				return errForm
			}
		}
		e := elements{get: g, rest: b[8*dims:]}
		return e.read(v, at, t, sizes)
	}
}

// elements are the elements of an array that are left to read.
type elements struct {
	get  get
	rest []byte
}

func (e *elements) read(v *vec.Vec, at int, t types.Type, sizes []int) error {
	kid, n := v.Kids[0], sizes[0]
	from := kid.Len()
	v.Refs[at] = vec.Ref{Off: uint32(from), Len: uint32(n)}
	kid.Resize(from + n)
	for i := range n {
		if len(sizes) > 1 {
			if err := e.read(kid, from+i, *t.Elem, sizes[1:]); err != nil {
				return err
			}
			continue
		}
		if len(e.rest) < 4 {
			return errForm
		}
		size := int32(be.Uint32(e.rest))
		e.rest = e.rest[4:]
		if size < 0 {
			if !t.Elem.Nullable {
				return errNullHere
			}
			kid.SetNull(from + i)
			continue
		}
		if int(size) > len(e.rest) {
			return errForm
		}
		if err := e.get(kid, from+i, e.rest[:size]); err != nil {
			return fmt.Errorf("element %d: %w", i+1, err)
		}
		e.rest = e.rest[size:]
	}
	return nil
}

var errNullHere = errors.New("it is NULL, and NOT NULL here")

func getBool(v *vec.Vec, at int, b []byte) error {
	if len(b) != 1 {
		return errForm
	}
	v.Bool[at] = b[0] != 0
	return nil
}

func getBytes(v *vec.Vec, at int, b []byte) error { v.SetBytes(at, b); return nil }

// integerIn is an integer of 2, 4 or 8 bytes.
func integerIn(b []byte) (int64, error) {
	switch len(b) {
	case 2:
		return int64(int16(be.Uint16(b))), nil
	case 4:
		return int64(int32(be.Uint32(b))), nil
	case 8:
		return int64(be.Uint64(b)), nil
	}
	return 0, errForm
}

// putInteger stores x in a vector of integers of type t.
func putInteger(t types.Type, v *vec.Vec, at int, x int64) error {
	bits := 64
	switch t.Kind {
	case types.TinyInt:
		bits = 8
	case types.SmallInt:
		bits = 16
	case types.Int:
		bits = 32
	}
	if x != x<<(64-bits)>>(64-bits) {
		return fmt.Errorf("%d does not fit %s: %w", x, t.AsNullable(), errUnfit)
	}
	if v.Phys == types.PI64 {
		v.I64[at] = x
	} else {
		v.I32[at] = int32(x)
	}
	return nil
}

func integerGetter(t types.Type) get {
	return func(v *vec.Vec, at int, b []byte) error {
		x, err := integerIn(b)
		if err != nil {
			return err
		}
		return putInteger(t, v, at, x)
	}
}

func wholeGetter(t types.Type) get {
	return func(v *vec.Vec, at int, b []byte) error {
		x, err := numericIn(b, 0)
		if err == nil && !x.IsInt64() {
			err = errUnfit
		}
		if err != nil {
			return err
		}
		return putInteger(t, v, at, int64(x.Lo))
	}
}

func floatGetter(t types.Type) get {
	return func(v *vec.Vec, at int, b []byte) error {
		var f float64
		switch len(b) {
		case 4:
			f = float64(math.Float32frombits(be.Uint32(b)))
		case 8:
			f = math.Float64frombits(be.Uint64(b))
		default:
			return errForm
		}
		if t.Kind == types.Double {
			v.F64[at] = f
			return nil
		}
		if float64(float32(f)) != f && f == f {
			return fmt.Errorf("%v has more digits than FLOAT: %w", f, errUnfit)
		}
		v.F32[at] = float32(f)
		return nil
	}
}

func decimalGetter(t types.Type) get {
	return func(v *vec.Vec, at int, b []byte) error {
		x, err := numericIn(b, t.Scale)
		if err == nil && !x.FitsDecimal(t.Precision) {
			err = fmt.Errorf("%s does not fit %s: %w", types.AppendDecimal(nil, x, t.Scale), t.AsNullable(), errUnfit)
		}
		if err != nil {
			return err
		}
		if v.Phys == types.PI64 {
			v.I64[at] = int64(x.Lo)
		} else {
			v.I128[at] = x
		}
		return nil
	}
}

// numericIn reads a numeric as a number with scale digits after the point; see appendNumeric.
func numericIn(b []byte, scale int) (x types.Int128, err error) {
	if len(b) < 8 {
		return x, errForm
	}
	n, weight, sign := int(be.Uint16(b)), int(int16(be.Uint16(b[2:]))), be.Uint16(b[4:])
	b = b[8:]
	if len(b) != 2*n {
		return x, errForm
	}
	if sign != 0 && sign != 0x4000 {
		return x, fmt.Errorf("it is NaN or infinite: %w", errUnfit)
	}
	more := func(by, d int64) {
		y, ok := x.Mul(types.I128(by))
		if ok {
			y = y.Add(types.I128(d))
		}
		if x = y; !ok || x.Sign() < 0 {
			err = fmt.Errorf("it has more than %d digits: %w", types.MaxPrecision, errUnfit)
		}
	}
	shift := scale + 4*(weight-n+1) // what the number of all groups has to be multiplied with, as a power of ten
	for i := range n {
		d := int64(be.Uint16(b[2*i:]))
		if i < n-1 || shift >= 0 {
			more(10_000, d)
		} else { // the digits of the last group that are behind the scale must be zeros
			if shift <= -4 || d%types.Pow10Int64(-shift) != 0 {
				return x, fmt.Errorf("it has more than %d digits after the point: %w", scale, errUnfit)
			}
			more(types.Pow10Int64(4+shift), d/types.Pow10Int64(-shift))
		}
		if err != nil {
			return x, err
		}
	}
	for ; shift > 0 && x.Sign() != 0 && err == nil; shift -= 4 {
		more(types.Pow10Int64(min(shift, 4)), 0)
	}
	if sign != 0 {
		x = x.Neg()
	}
	return x, err
}

func getDate(v *vec.Vec, at int, b []byte) error {
	if len(b) != 4 {
		return errForm
	}
	d := int32(be.Uint32(b))
	if d == math.MinInt32 || d > math.MaxInt32-days2000 {
		return fmt.Errorf("it is infinite: %w", errUnfit)
	}
	v.I32[at] = d + days2000
	return nil
}

// whole reports whether microseconds have no more than p digits of the second.
func whole(micros int64, p int) bool {
	return p >= 6 || micros%types.Pow10Int64(6-p) == 0
}

func timeGetter(t types.Type) get {
	p := min(t.Precision, 3)
	return func(v *vec.Vec, at int, b []byte) error {
		if len(b) != 8 {
			return errForm
		}
		us := int64(be.Uint64(b))
		if us < 0 || us >= 86_400_000_000 || !whole(us, p) {
			return fmt.Errorf("%d microseconds of the day: %w", us, errUnfit)
		}
		v.I32[at] = int32(us / 1000)
		return nil
	}
}

func timestampGetter(t types.Type) get {
	return func(v *vec.Vec, at int, b []byte) error {
		if len(b) != 8 {
			return errForm
		}
		us := int64(be.Uint64(b))
		if us == math.MinInt64 || us > math.MaxInt64-micros2000 {
			return fmt.Errorf("it is infinite: %w", errUnfit)
		}
		if us += micros2000; !whole(us, t.Precision) {
			return fmt.Errorf("it has more digits of the second than %s: %w", t.AsNullable(), errUnfit)
		}
		ms, rest := us/1000, us%1000
		if rest < 0 {
			ms, rest = ms-1, rest+1000
		}
		if v.Phys == types.PI128 {
			v.I128[at] = types.Int128{Hi: ms, Lo: uint64(rest) * 1000}
		} else {
			v.I64[at] = ms
		}
		return nil
	}
}

// intervalIn takes an interval apart.
func intervalIn(b []byte) (micros int64, days, months int32, err error) {
	if len(b) != 16 {
		return 0, 0, 0, errForm
	}
	return int64(be.Uint64(b)), int32(be.Uint32(b[8:])), int32(be.Uint32(b[12:])), nil
}

func getMonths(v *vec.Vec, at int, b []byte) error {
	us, days, months, err := intervalIn(b)
	if err == nil && (us != 0 || days != 0) {
		err = fmt.Errorf("it has days or seconds: %w", errUnfit)
	}
	v.I32[at] = months
	return err
}

func getMillis(v *vec.Vec, at int, b []byte) error {
	us, days, months, err := intervalIn(b)
	if err == nil && (months != 0 || us%1000 != 0) {
		err = fmt.Errorf("it has months, or more than 3 digits of the second: %w", errUnfit)
	}
	v.I64[at] = us/1000 + int64(days)*86_400_000
	return err
}
