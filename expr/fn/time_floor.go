package fn

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// FLOOR(time TO unit) and CEIL(time TO unit), called as FLOOR(time, 'UNIT').
//
// Some results look wrong and are Flink's: CEIL of a DATE to DAY is the next day, CEIL to WEEK and
// above looks at the date only and not at the time of day, and CEIL to QUARTER moves on from the
// first day of a quarter too unless that is January 1st.

// floorType is the type of the time.
func floorType(a expr.Args) types.Type {
	t := a.Type(0).WithoutAttr()
	if t.Kind == types.Null {
		return types.TimestampType(3)
	}
	return t
}

// checkFloorUnit refuses units that a type cannot be rounded to.
func checkFloorUnit(a expr.Args) error {
	unit, t := unitOf(a.Exprs[1]), a.Type(0)
	_, months := unitMonths[unit]
	ms, fixed := unitMs[unit]
	small := unit == "NANOSECOND" || unit == "MICROSECOND"
	if !months && !fixed && !small || t.Kind == types.Time && (months || ms >= datefmt.Day) {
		return expr.Errorf("cannot round %s to %s", t.AsNullable().WithoutAttr(), unit)
	}
	return nil
}

func compileFloorTo(ctx *expr.CompileCtx, c *expr.Call, up bool) (expr.Kernel, error) {
	unit, t := unitArg(c, 1), c.Args[0].Type()
	size, fixed := unitMs[unit]
	fixed = fixed && unit != "WEEK"
	_, dated := unitMonths[unit]
	dated = dated || unit == "WEEK"
	if unit == "NANOSECOND" || unit == "MICROSECOND" {
		if t.Phys() != types.PI128 || unit == "NANOSECOND" {
			return only(expr.EachRow(func(_ *expr.EvalCtx, args []*vec.Vec, out *vec.Vec, i int) {
				out.Set(i, args[0], i)
			}), 0), nil
		}
		return only(expr.Unary(func(x types.Int128) types.Int128 { return roundMicros(x, up) }), 0), nil
	}
	switch {
	case t.Kind == types.Date:
		return only(expr.Unary(floorDate(unit, dated, up)), 0), nil
	case t.Kind == types.Time:
		return only(expr.Unary(func(ms int32) int32 { return int32(roundMs(int64(ms), size, up)) }), 0), nil
	}
	z := datefmt.NewZone(nil)
	if t.Kind == types.TimestampLTZ {
		z = datefmt.NewZone(ctx.Env.Zone)
	}
	round := func(ms int64) int64 {
		off := z.Offset(ms)
		if fixed {
			return roundMs(ms+off, size, up) - off
		}
		days := int((ms + off) / datefmt.Day) // towards 1970, as Flink does
		return int64(roundDays(unit, days, up))*datefmt.Day - off
	}
	if t.Phys() == types.PI64 {
		return only(expr.Unary(round), 0), nil
	}
	return only(expr.Unary(func(x types.Int128) types.Int128 {
		ms := x.Hi
		if up && fixed && x.Lo != 0 {
			ms++ // the nanoseconds count
		}
		return types.TS(round(ms), 0)
	}), 0), nil
}

func floorDate(unit string, dated, up bool) func(int32) int32 {
	return func(d int32) int32 {
		switch {
		case dated:
			return int32(roundDays(unit, int(d), up))
		case unit == "DAY" && up:
			return d + 1
		}
		return d
	}
}

// roundMs rounds to a multiple of a unit.
func roundMs(ms, unit int64, up bool) int64 {
	r := ms % unit
	if r < 0 {
		r += unit
	}
	if up && r > 0 {
		return ms - r + unit
	}
	return ms - r
}

func roundMicros(x types.Int128, up bool) types.Int128 {
	r := x.Lo % 1000
	x.Lo -= r
	if up && r > 0 {
		if x.Lo += 1000; x.Lo >= 1000000 {
			x.Lo -= 1000000
			x.Hi++
		}
	}
	return x
}

// roundDays rounds a date to a unit of weeks or months.
func roundDays(unit string, days int, up bool) int {
	if unit == "WEEK" {
		since := datefmt.ISOWeekday(days) % 7 // days since Sunday
		if up && since > 0 {
			since -= 7
		}
		return days - since
	}
	y, m, d := datefmt.Civil(days)
	step := 0
	if up {
		step = 1
	}
	switch unit {
	case "MILLENNIUM":
		return datefmt.Days(1000*((y+999)/1000-1+step)+1, 1, 1)
	case "CENTURY":
		return datefmt.Days(100*((y+99)/100-1+step)+1, 1, 1)
	case "DECADE":
		return datefmt.Days(10*(y/10+step), 1, 1)
	case "YEAR":
		if up && (m > 1 || d > 1) {
			y++
		}
		return datefmt.Days(y, 1, 1)
	case "QUARTER":
		q := (m + 2) / 3
		if up && (m > 1 || d > 1) {
			q++
		}
		return datefmt.Days(y, q*3-2, 1)
	}
	if up && d > 1 {
		m++
	}
	return datefmt.Days(y, m, 1)
}
