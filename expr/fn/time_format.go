package fn

import (
	"math"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions between times and text.

func init() {
	expr.Register(expr.Func{
		Name: "DATE_FORMAT", Usage: "DATE_FORMAT(time, pattern)", Category: catTemporal,
		Doc: "The timestamp as text by a pattern of Java's DateTimeFormatter such as yyyy-MM-dd HH:mm; a string is read as " +
			"yyyy-MM-dd HH:mm:ss first, and is NULL where it does not fit.",
		Infer:   inferDateFormat,
		Compile: compileDateFormat,
	})
	expr.Register(expr.Func{
		Name: "FROM_UNIXTIME", Usage: "FROM_UNIXTIME(seconds [, pattern])", Category: catTemporal,
		Doc: "The time that many seconds after 1970-01-01 00:00:00 UTC, as text in the session's time zone by a pattern of Java's " +
			"SimpleDateFormat, by default yyyy-MM-dd HH:mm:ss.",
		Infer: verify(sig(maybe(types.StringType), 1, long, str), sdfPattern), Compile: compileFromUnixtime,
	})
	expr.Register(expr.Func{
		Name: "TO_DATE", Usage: "TO_DATE(string [, pattern])", Category: catTemporal,
		Doc:   "The date that the string says, by default as yyyy-MM-dd, else by a pattern of Java's SimpleDateFormat; NULL where it does not fit.",
		Infer: verify(sig(maybe(types.DateType), 1, str, str), sdfPattern), Compile: compileToDate,
	})
	expr.Register(expr.Func{
		Name: "TO_TIMESTAMP", Usage: "TO_TIMESTAMP(string [, pattern])", Category: catTemporal,
		Doc: "The TIMESTAMP(3) that the string says, by default as yyyy-MM-dd HH:mm:ss with a fraction, else by a pattern of Java's " +
			"DateTimeFormatter; NULL where it does not fit.",
		Infer: verify(sig(maybe(types.TimestampType(3)), 1, str, str), dtfPattern), Compile: compileToTimestamp,
	})
	expr.Register(expr.Func{
		Name: "TO_TIMESTAMP_LTZ", Usage: "TO_TIMESTAMP_LTZ(number, precision) | TO_TIMESTAMP_LTZ(string [, pattern [, zone]])",
		Category: catTemporal,
		Doc: "The TIMESTAMP_LTZ(3) that many seconds (precision 0) or ms (precision 3) after 1970-01-01 00:00:00 UTC, or that the " +
			"string says in a time zone, by default UTC. NULL before the year 0, after 9999, and where the string does not fit.",
		Infer: verify(inferToLTZ, dtfPattern), Compile: compileToLTZ,
	})
	expr.Register(expr.Func{
		Name: "CONVERT_TZ", Usage: "CONVERT_TZ(string, from, to)", Category: catTemporal,
		Doc:   "The time yyyy-MM-dd HH:mm:ss of one time zone in another; NULL where the string does not fit. A zone that is not known is taken for UTC.",
		Infer: sig(maybe(types.StringType), 3, str, str, str), Compile: compileConvertTZ,
	})
}

// Checks of a constant pattern, which is always the second argument.
var (
	dtfPattern = constText(1, reads(datefmt.Compile))
	sdfPattern = constText(1, reads(datefmt.CompileSimple))
)

func inferDateFormat(a expr.Args) (expr.Signature, error) {
	if a.Len() > 0 && a.Type(0).IsString() {
		return verify(sig(maybe(types.StringType), 2, str, str), sdfPattern)(a)
	}
	return verify(sig(maybe(types.StringType), 2, stamp, str), dtfPattern)(a)
}

// stamp is a parameter of a timestamp.
var stamp = want{name: "a string or timestamp", def: types.TimestampType(3), ok: types.Type.IsTimestamp, as: "TIMESTAMP"}

const defaultPattern = "yyyy-MM-dd HH:mm:ss"

// simplePatterns gives the SimpleDateFormat of argument k for each row.
func simplePatterns(c *expr.Call, k int) (func(args []*vec.Vec, i int) (*datefmt.Simple, error), error) {
	p := defaultPattern
	if k < len(c.Args) {
		var ok bool
		if p, ok = expr.ConstString(c.Args[k]); !ok {
			known := newCache(datefmt.CompileSimple)
			return func(args []*vec.Vec, i int) (*datefmt.Simple, error) { return known.get(text(args, k, i)) }, nil
		}
	}
	f, err := datefmt.CompileSimple(p)
	return func([]*vec.Vec, int) (*datefmt.Simple, error) { return f, nil }, err
}

// patternsAt gives the DateTimeFormatter of argument k for each row.
func patternsAt(c *expr.Call, k int) (func(args []*vec.Vec, i int) (*datefmt.Formatter, error), error) {
	p, ok := expr.ConstString(c.Args[k])
	if !ok {
		known := newCache(datefmt.Compile)
		return func(args []*vec.Vec, i int) (*datefmt.Formatter, error) { return known.get(text(args, k, i)) }, nil
	}
	f, err := datefmt.Compile(p)
	return func([]*vec.Vec, int) (*datefmt.Formatter, error) { return f, nil }, err
}

func compileDateFormat(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	t := c.Args[0].Type()
	if t.IsString() {
		return compileReformat(c)
	}
	z := datefmt.NewZone(nil)
	if t.Kind == types.TimestampLTZ {
		z = datefmt.NewZone(ctx.Env.Zone)
	}
	if p, ok := expr.ConstString(c.Args[1]); ok {
		f, err := datefmt.Compile(p)
		if err != nil {
			return nil, err
		}
		return formatKernel(f, z), nil
	}
	pattern, err := patternsAt(c, 1)
	if err != nil {
		return nil, err
	}
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		ms, nanos := timeAt(args[0], i)
		out.EndBytes(i, f.Append(out.BeginBytes(), z.Local(ms), nanos))
	}), nil
}

// formatKernel formats by a constant pattern. Rows of the same day (or hour or minute, as the
// pattern goes) as the one before share its text.
func formatKernel(f *datefmt.Formatter, z *datefmt.Zone) expr.Kernel {
	unit := f.Unit()
	// The period [from, until) of local ms that last is the text of.
	var from, until int64
	var last vec.Ref
	set := func(out *vec.Vec, i int, ms int64, nanos int32) {
		out.EndBytes(i, f.Append(out.BeginBytes(), ms, nanos))
		if unit > 0 {
			from = roundMs(ms, unit, false)
			until, last = from+unit, out.Refs[i]
		}
	}
	k := expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		ms, nanos := timeAt(args[0], i)
		if ms += z.Offset(ms); ms >= from && ms < until {
			out.Refs[i] = last
			return
		}
		set(out, i, ms, nanos)
	})
	return func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32) {
		from, until = 0, 0 // last lies in the buffer of the batch before
		if a := args[0]; sel == nil && a.Valid == nil && a.Phys == types.PI64 {
			refs := out.Refs[:n]
			for i, ms := range a.I64[:n] {
				if ms += z.Offset(ms); ms >= from && ms < until {
					refs[i] = last
					continue
				}
				set(out, i, ms, 0)
			}
			return
		}
		k(ctx, args[:1], out, n, sel)
	}
}

// compileReformat is DATE_FORMAT of a string, which goes by SimpleDateFormat both ways.
func compileReformat(c *expr.Call) (expr.Kernel, error) {
	pattern, err := simplePatterns(c, 1)
	if err != nil {
		return nil, err
	}
	read, err := datefmt.CompileSimple(defaultPattern)
	if err != nil {
		return nil, err
	}
	z := datefmt.NewZone(nil)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		ms, ok := read.Parse(text(args, 0, i), z)
		if !ok {
			out.SetNull(i)
			return
		}
		out.EndBytes(i, f.Append(out.BeginBytes(), ms, z))
	}), nil
}

func compileFromUnixtime(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	pattern, err := simplePatterns(c, 1)
	if err != nil {
		return nil, err
	}
	z := datefmt.NewZone(ctx.Env.Zone)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		out.EndBytes(i, f.Append(out.BeginBytes(), args[0].I64[i]*1000, z))
	}), nil
}

func compileUnixTimestamp(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	env := ctx.Env
	if len(c.Args) == 0 {
		return func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, n int, _ []int32) {
			fill(out.I64[:n], now(env, true).Unix())
		}, nil
	}
	pattern, err := simplePatterns(c, 1)
	if err != nil {
		return nil, err
	}
	z := datefmt.NewZone(env.Zone)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		ms, ok := f.Parse(text(args, 0, i), z)
		if !ok {
			out.I64[i] = math.MinInt64
			return
		}
		out.I64[i] = ms / 1000
	}), nil
}

func compileToDate(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if len(c.Args) == 1 {
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			d, ok := expr.ParseDate(text(args, 0, i))
			if !ok {
				out.SetNull(i)
				return
			}
			out.I32[i] = d
		}), nil
	}
	pattern, err := simplePatterns(c, 1)
	if err != nil {
		return nil, err
	}
	z := datefmt.NewZone(nil)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		ms, ok := f.Parse(text(args, 0, i), z)
		if !ok {
			out.SetNull(i)
			return
		}
		d, _ := datefmt.SplitDay(ms)
		out.I32[i] = int32(d)
	}), nil
}

func compileToTimestamp(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	if len(c.Args) == 1 {
		return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
			ms, _, ok := expr.ParseTimestamp(text(args, 0, i))
			if !ok {
				out.SetNull(i)
				return
			}
			out.I64[i] = ms
		}), nil
	}
	pattern, err := patternsAt(c, 1)
	if err != nil {
		return nil, err
	}
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		ms, _, ok := f.ParseOr(text(args, 0, i))
		if !ok {
			out.SetNull(i)
			return
		}
		out.I64[i] = ms
	}), nil
}

func inferToLTZ(a expr.Args) (expr.Signature, error) {
	if a.Len() > 0 && (a.Type(0).IsNumeric() || a.Len() == 2 && a.Type(1).IsInteger()) {
		s, err := sig(maybe(types.TimestampLTZType(3)), 2, numeric, integer)(a)
		if err != nil {
			return s, err
		}
		if p, ok := expr.ConstInt(a.Exprs[1]); ok && p != 0 && p != 3 {
			return s, expr.Errorf("the precision %d is not supported: use 0 for seconds or 3 for milliseconds", p)
		}
		return s, nil
	}
	return sig(maybe(types.TimestampLTZType(3)), 1, str, str, str)(a)
}

// The years 0 to 9999 in ms.
const (
	minEpoch = -62167219200000
	maxEpoch = 253402300799999
)

func compileToLTZ(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	t := c.Args[0].Type()
	if t.IsString() {
		return compileStringToLTZ(c)
	}
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		p := args[1].I32[i]
		if p != 0 && p != 3 {
			ctx.Fail(i, errf("TO_TIMESTAMP_LTZ: the precision %d is not supported: use 0 for seconds or 3 for milliseconds", p))
			return
		}
		ms, ok := epochMs(args[0], i, p == 0)
		if !ok || ms < minEpoch || ms > maxEpoch {
			out.SetNull(i)
			return
		}
		out.I64[i] = ms
	}), nil
}

// epochMs is a number of seconds or ms in ms. Only DOUBLE and FLOAT keep fractions of seconds.
func epochMs(v *vec.Vec, i int, inSeconds bool) (ms int64, ok bool) {
	scale := int64(1)
	if inSeconds {
		scale = 1000
	}
	switch {
	case v.Type.IsInteger():
		ms = expr.IntAt(v, i)
	case v.Type.Kind == types.Decimal:
		x := expr.DecimalAt(v, i).Truncate(v.Type.Scale, 0)
		if !x.IsInt64() {
			return 0, false
		}
		ms = int64(x.Lo)
	default:
		f := expr.FloatAt(v, i)
		if f != f || f < minEpoch || f > maxEpoch {
			return 0, false
		}
		return int64(f * float64(scale)), true
	}
	if ms < minEpoch || ms > maxEpoch {
		return 0, false
	}
	return ms * scale, true
}

func compileStringToLTZ(c *expr.Call) (expr.Kernel, error) {
	pattern := func([]*vec.Vec, int) (*datefmt.Formatter, error) { return nil, nil }
	if len(c.Args) > 1 {
		var err error
		if pattern, err = patternsAt(c, 1); err != nil {
			return nil, err
		}
	}
	zones := newCache(zone)
	utc := datefmt.NewZone(nil)
	return expr.EachRow(func(ctx *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		f, err := pattern(args, i)
		if err != nil {
			ctx.Fail(i, err)
			return
		}
		s, z := text(args, 0, i), utc
		if len(args) == 3 {
			z, _ = zones.get(text(args, 2, i))
		}
		var ms int64
		var ok bool
		if f == nil {
			ms, _, ok = expr.ParseTimestamp(s)
		} else {
			ms, _, ok = f.ParseOr(s)
		}
		if !ok || z == nil {
			out.SetNull(i)
			return
		}
		out.I64[i] = z.UTC(ms)
	}), nil
}

// zone finds a time zone; nil is one that is not known.
func zone(name string) (*datefmt.Zone, error) {
	loc, ok := datefmt.LoadZone(name)
	if !ok {
		return nil, nil
	}
	return datefmt.NewZone(loc), nil
}

func compileConvertTZ(_ *expr.CompileCtx, _ *expr.Call) (expr.Kernel, error) {
	f, err := datefmt.CompileSimple(defaultPattern)
	if err != nil {
		return nil, err
	}
	zones := newCache(func(name string) (*datefmt.Zone, error) {
		loc, _ := datefmt.LoadZone(name)
		return datefmt.NewZone(loc), nil
	})
	return expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		from, _ := zones.get(text(args, 1, i))
		to, _ := zones.get(text(args, 2, i))
		ms, ok := f.Parse(text(args, 0, i), from)
		if !ok {
			out.SetNull(i)
			return
		}
		out.EndBytes(i, f.Append(out.BeginBytes(), ms, to))
	}), nil
}
