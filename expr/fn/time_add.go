package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TIMESTAMPADD('UNIT', n, time) and TIMESTAMPDIFF('UNIT', from, to).

func init() {
	expr.Register(expr.Func{
		Name: "TIMESTAMPADD", Usage: "TIMESTAMPADD(unit, n, time)", Category: catTemporal,
		Doc: "The time moved by n units of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER or YEAR. A date moved by less " +
			"than days becomes a TIMESTAMP; a TIME wraps around at midnight.",
		Infer: inferAdd, Compile: compileAdd,
	})
	expr.Register(expr.Func{
		Name: "TIMESTAMPDIFF", Usage: "TIMESTAMPDIFF(unit, from, to)", Category: catTemporal,
		Doc:   "The number of whole units of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER or YEAR between two times.",
		Infer: inferDiff, Compile: compileDiff,
	})
	expr.Register(expr.Func{
		Name: "MINUS DATE", Usage: "(time - time) unit", Category: catTemporal,
		Doc: "The time between two times as an INTERVAL of the unit: whole months for YEAR, MONTH and YEAR TO MONTH, " +
			"milliseconds for DAY, HOUR, MINUTE, SECOND and what goes from one of them to another.",
		Infer: inferMinusDate, Compile: compileMinusDate,
	})
}

func checkUnit(a expr.Args, extra ...string) (string, error) {
	u := unitOf(a.Exprs[0])
	_, fixed := unitMs[u]
	_, months := unitMonths[u]
	if fixed || months {
		return u, nil
	}
	for _, x := range extra {
		if x == u {
			return u, nil
		}
	}
	return u, expr.Errorf("unknown time unit %s: use SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER or YEAR", u)
}

func inferAdd(a expr.Args) (expr.Signature, error) {
	s, err := sig(of(types.IntType), 3, symbol, long, temporal)(a)
	if err != nil {
		return s, err
	}
	unit, err := checkUnit(a, "MICROSECOND", "NANOSECOND")
	if err != nil {
		return s, err
	}
	t := a.Type(2).WithoutAttr()
	if t.Kind == types.Null {
		t = types.TimestampType(3)
	}
	if unit == "NANOSECOND" && t.Precision < 9 || unit == "MICROSECOND" && t.Precision < 6 ||
		unit == "MILLISECOND" && t.Precision < 3 {
		need := map[string]int{"NANOSECOND": 9, "MICROSECOND": 6, "MILLISECOND": 3}[unit]
		t.Precision = need
		if t.IsTimestamp() {
			s.Params[2] = t
		}
	}
	if size := unitMs[unit]; t.Kind == types.Date && unitMonths[unit] == 0 && (size == 0 || size%datefmt.Day != 0) {
		t = types.TimestampType(max(6, t.Precision))
	}
	s.Result = t.WithNullable(a.Type(1).Nullable || a.Type(2).Nullable)
	return s, nil
}

func compileAdd(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	unit := unitArg(c, 0)
	from, to := c.Args[2].Type(), c.T
	months := unitMonths[unit]
	size := unitMs[unit]
	nanos := map[string]int64{"MICROSECOND": 1000, "NANOSECOND": 1}[unit]
	switch {
	case from.Kind == types.Time:
		if months > 0 {
			size = 0
		}
		return only(expr.Binary(func(n int64, t int32) int32 {
			return int32(floorModDay(int64(t) + n*size%datefmt.Day))
		}), 1, 2), nil
	case to.Kind == types.Date && months > 0:
		return only(expr.Binary(func(n int64, d int32) int32 {
			return types.AddMonthsToDays(d, int(n)*months)
		}), 1, 2), nil
	case to.Kind == types.Date:
		return only(expr.Binary(func(n int64, d int32) int32 { return d + int32(n*size/datefmt.Day) }), 1, 2), nil
	}
	return only(expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		ms, ns := timeAt(args[1], i)
		n := args[0].I64[i]
		switch {
		case months > 0:
			ms = types.AddMonths(ms, int(n)*months)
		case nanos > 0:
			sum := int64(ns) + n%(1000000/nanos)*nanos
			ms += n/(1000000/nanos) + sum/1000000
			if sum %= 1000000; sum < 0 {
				sum += 1000000
				ms--
			}
			ns = int32(sum)
		default:
			ms += n * size
		}
		expr.SetTimestamp(out, i, ms, ns)
	}), 1, 2), nil
}

func floorModDay(ms int64) int64 {
	if ms %= datefmt.Day; ms < 0 {
		ms += datefmt.Day
	}
	return ms
}

func inferDiff(a expr.Args) (expr.Signature, error) {
	s, err := sig(of(types.IntType), 3, symbol, temporal, temporal)(a)
	if err != nil {
		return s, err
	}
	if _, err := checkUnit(a); err != nil {
		return s, err
	}
	x, y := a.Type(1), a.Type(2)
	if (x.Kind == types.TimestampLTZ) != (y.Kind == types.TimestampLTZ) && x.Kind != types.Null && y.Kind != types.Null {
		return s, expr.Errorf("TIMESTAMP_LTZ only supports diff between the same type").
			WithHint("cast the other argument to TIMESTAMP_LTZ")
	}
	s.Result = types.IntType.WithNullable(x.Nullable || y.Nullable)
	return s, nil
}

func compileDiff(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	unit := unitArg(c, 0)
	months, size := unitMonths[unit], unitMs[unit]
	return only(expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		a, _ := timeAt(args[0], i)
		b, _ := timeAt(args[1], i)
		if months > 0 {
			out.I32[i] = int32(monthsDiff(b, a) / months)
			return
		}
		out.I32[i] = int32((b - a) / size)
	}), 1, 2), nil
}

// inferMinusDate types (x - y) unit, whose third argument, a NULL, has the type of the result.
func inferMinusDate(a expr.Args) (expr.Signature, error) {
	s, err := sig(of(types.IntType), 3, temporal, temporal, intervals)(a)
	if err != nil {
		return s, err
	}
	x, y := a.Type(0), a.Type(1)
	if x.Kind != types.Null && y.Kind != types.Null {
		if (x.Kind == types.TimestampLTZ) != (y.Kind == types.TimestampLTZ) || (x.Kind == types.Time) != (y.Kind == types.Time) {
			return s, expr.Errorf("there is no interval between %s and %s", y.AsNullable(), x.AsNullable()).
				WithHint("cast one of them to the other's type")
		}
	}
	t := a.Type(2)
	if t.Kind == types.Null {
		t = intervals.def
	}
	s.Result = t.WithNullable(x.Nullable || y.Nullable)
	return s, nil
}

var intervals = want{name: "an interval", ok: types.Type.IsInterval, def: types.Type{Kind: types.IntervalDayTime}}

func compileMinusDate(_ *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
	months := c.T.Kind == types.IntervalYearMonth
	return only(expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
		x, _ := timeAt(args[0], i)
		y, _ := timeAt(args[1], i)
		if months {
			out.I32[i] = int32(monthsDiff(x, y))
			return
		}
		out.I64[i] = x - y
	}), 0, 1), nil
}

// monthsDiff is the number of whole months from b to a as Flink counts them: a difference of days
// that comes out even is one month less where the time of day of a is earlier, whatever the
// direction.
func monthsDiff(a, b int64) int {
	ad, at := datefmt.SplitDay(a)
	bd, bt := datefmt.SplitDay(b)
	n := datefmt.MonthsBetween(ad, bd)
	if at < bt && int(types.AddMonthsToDays(int32(bd), n)) == ad {
		n--
	}
	return n
}
