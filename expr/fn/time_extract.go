package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
)

// EXTRACT(unit FROM time), called as EXTRACT('UNIT', time), and its short forms.
//
// As in Flink, parts of a timestamp before 1970 that is not midnight come from division towards
// zero: the date is that of the next midnight, the time of day is negative.

func init() {
	expr.Register(expr.Func{
		Name: "EXTRACT", Usage: "EXTRACT(unit FROM time)", Category: catTemporal,
		Doc: "A part of a date, time, timestamp or interval as BIGINT: MILLENNIUM, CENTURY, DECADE, YEAR, " +
			"QUARTER, MONTH, WEEK (ISO), DAY, DOY, DOW (Sunday is 1), ISODOW (Monday is 1), ISOYEAR, HOUR, MINUTE, SECOND, " +
			"MILLISECOND, MICROSECOND, NANOSECOND (all digits of the fraction), or EPOCH (seconds since 1970).",
		Infer: func(a expr.Args) (expr.Signature, error) {
			if err := a.Count(2, 2); err != nil {
				return expr.Signature{}, err
			}
			return inferExtract(a, 1, unitOf(a.Exprs[0]))
		},
		Compile: func(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
			return only(extractor(ctx, c.Args[1].Type(), unitArg(c, 0)), 1), nil
		},
	})
	for _, f := range []struct{ name, unit, doc string }{
		{"YEAR", "YEAR", "The year."},
		{"QUARTER", "QUARTER", "The quarter of the year, 1 to 4."},
		{"MONTH", "MONTH", "The month, 1 to 12."},
		{"WEEK", "WEEK", "The week of the year by ISO 8601, 1 to 53."},
		{"DAYOFYEAR", "DOY", "The day of the year, from 1."},
		{"DAYOFMONTH", "DAY", "The day of the month."},
		{"DAYOFWEEK", "DOW", "The day of the week, 1 for Sunday."},
		{"HOUR", "HOUR", "The hour, 0 to 23."},
		{"MINUTE", "MINUTE", "The minute, 0 to 59."},
		{"SECOND", "SECOND", "The second, 0 to 59."},
	} {
		expr.Register(expr.Func{
			Name: f.name, Usage: f.name + "(time)", Category: catTemporal,
			Doc: f.doc + " Short for EXTRACT(" + f.unit + " FROM time).",
			Infer: func(a expr.Args) (expr.Signature, error) {
				if err := a.Count(1, 1); err != nil {
					return expr.Signature{}, err
				}
				return inferExtract(a, 0, f.unit)
			},
			Compile: func(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
				return extractor(ctx, c.Args[0].Type(), f.unit), nil
			},
		})
	}
}

// inferExtract types the extraction of a unit from argument i, the last.
func inferExtract(a expr.Args, i int, unit string) (expr.Signature, error) {
	t := a.Type(i)
	s := expr.Signature{
		Params: make([]types.Type, i+1),
		Result: types.BigIntType.WithNullable(t.Nullable),
	}
	for k := range s.Params {
		s.Params[k] = expr.Any
	}
	if t.Kind == types.Null {
		t = types.TimestampType(3)
		s.Params[i] = t
		s.Result.Nullable = true
	}
	if !t.IsTemporal() && !t.IsInterval() {
		return s, a.Mismatch(i, "a date, time, timestamp or interval")
	}
	if extractUnit(t, unit) == nil {
		return s, expr.Errorf("cannot extract %s from %s", unit, t.AsNullable().WithoutAttr())
	}
	return s, nil
}

func extractor(ctx *expr.CompileCtx, t types.Type, unit string) expr.Kernel {
	f := extractUnit(t, unit)
	switch t.Kind {
	case types.IntervalYearMonth:
		return expr.Unary(func(months int32) int64 { return f(int64(months), 0) })
	case types.IntervalDayTime:
		return expr.Unary(func(ms int64) int64 { return f(ms, 0) })
	}
	return timeKernel(t, ctx, f)
}

// extractUnit is the extraction of a unit from local time (from months, for year-month intervals),
// or nil when the type has no such unit.
func extractUnit(t types.Type, unit string) func(ms int64, nanos int32) int64 {
	switch t.Kind {
	case types.IntervalYearMonth:
		return monthPart(unit)
	case types.IntervalDayTime:
		if unit == "DAY" {
			return func(ms int64, _ int32) int64 { return ms / datefmt.Day }
		}
		return clockPart(unit)
	case types.Time:
		if unit == "EPOCH" {
			return func(ms int64, _ int32) int64 { return ms / 1000 }
		}
		return clockPart(unit)
	}
	if f := datePart(unit); f != nil {
		return func(ms int64, _ int32) int64 {
			return f(int(ms / datefmt.Day))
		}
	}
	return clockPart(unit)
}

func monthPart(unit string) func(int64, int32) int64 {
	switch unit {
	case "MONTH":
		return func(m int64, _ int32) int64 { return m % 12 }
	case "QUARTER":
		return func(m int64, _ int32) int64 { return (m%12-1)/3 + 1 }
	case "YEAR", "DECADE", "CENTURY", "MILLENNIUM":
		n := int64(unitMonths[unit])
		return func(m int64, _ int32) int64 { return m / n }
	}
	return nil
}

// clockPart takes parts of the time of day.
func clockPart(unit string) func(int64, int32) int64 {
	part := func(of, in int64) func(int64, int32) int64 {
		return func(ms int64, _ int32) int64 { return ms % in / of }
	}
	switch unit {
	case "HOUR": // written out so that the divisors are constants
		return func(ms int64, _ int32) int64 { return ms % datefmt.Day / datefmt.Hour }
	case "MINUTE":
		return func(ms int64, _ int32) int64 { return ms % datefmt.Hour / datefmt.Minute }
	case "SECOND":
		return func(ms int64, _ int32) int64 { return ms % datefmt.Minute / datefmt.Second }
	case "MILLISECOND":
		return part(1, datefmt.Second)
	case "MICROSECOND":
		ms := part(1, datefmt.Second)
		return func(t int64, nanos int32) int64 { return ms(t, 0)*1000 + int64(nanos)/1000 }
	case "NANOSECOND":
		ms := part(1, datefmt.Second)
		return func(t int64, nanos int32) int64 { return ms(t, 0)*1000000 + int64(nanos) }
	case "EPOCH":
		return func(ms int64, _ int32) int64 { return ms / 1000 }
	}
	return nil
}

func datePart(unit string) func(days int) int64 {
	fromYear := func(f func(y int) int) func(int) int64 {
		return func(days int) int64 {
			y, _, _ := datefmt.Civil(days)
			return int64(f(y))
		}
	}
	// The first century and millennium begin in the year 1.
	era := func(n int) func(y int) int {
		return func(y int) int {
			if y > 0 {
				return (y + n - 1) / n
			}
			return (y - n + 1) / n
		}
	}
	switch unit {
	case "YEAR":
		return fromYear(func(y int) int { return y })
	case "DECADE":
		return fromYear(func(y int) int { return y / 10 })
	case "CENTURY":
		return fromYear(era(100))
	case "MILLENNIUM":
		return fromYear(era(1000))
	case "QUARTER":
		return func(days int) int64 {
			_, m, _ := datefmt.Civil(days)
			return int64(m+2) / 3
		}
	case "MONTH":
		return func(days int) int64 {
			_, m, _ := datefmt.Civil(days)
			return int64(m)
		}
	case "DAY":
		return func(days int) int64 {
			_, _, d := datefmt.Civil(days)
			return int64(d)
		}
	case "DOY":
		return func(days int) int64 { return int64(datefmt.YearDay(days)) }
	case "DOW":
		return func(days int) int64 { return int64(datefmt.ISOWeekday(days)%7 + 1) }
	case "ISODOW":
		return func(days int) int64 { return int64(datefmt.ISOWeekday(days)) }
	case "WEEK":
		return func(days int) int64 { _, w := datefmt.ISOWeek(days); return int64(w) }
	case "ISOYEAR":
		return func(days int) int64 { y, _ := datefmt.ISOWeek(days); return int64(y) }
	}
	return nil
}
