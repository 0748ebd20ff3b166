package fn

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions with a time unit take it as their first argument (EXTRACT, TIMESTAMPADD,
// TIMESTAMPDIFF) or their second (FLOOR, CEIL): a literal of kind types.Symbol, or a string, with the
// upper-case word, also in the form SQL_TSI_DAY.

// unitMs are the units of fixed length.
var unitMs = map[string]int64{
	"WEEK": 7 * datefmt.Day, "DAY": datefmt.Day, "HOUR": datefmt.Hour, "MINUTE": datefmt.Minute,
	"SECOND": datefmt.Second, "MILLISECOND": 1,
}

// unitMonths are the units of whole months.
var unitMonths = map[string]int{
	"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000,
}

// unitArg reads the unit of argument i.
func unitArg(c *expr.Call, i int) string { return unitOf(c.Args[i]) }

func unitOf(e expr.Expr) string {
	s, _ := expr.ConstString(e)
	u := strings.TrimPrefix(strings.ToUpper(s), "SQL_TSI_")
	switch u {
	case "FRAC_SECOND":
		return "MICROSECOND"
	case "WEEKS", "DAYS", "HOURS", "MINUTES", "SECONDS", "MONTHS", "YEARS":
		return u[:len(u)-1]
	}
	return u
}

// temporal is a parameter of DATE, TIME or a timestamp.
var temporal = want{name: "a date or time", ok: types.Type.IsTemporal, def: types.TimestampType(3), as: "TIMESTAMP"}

// timeKernel makes a kernel of a function of local time: TIMESTAMP_LTZ is converted to the zone of
// the session, DATE is midnight, TIME is on 1970-01-01.
func timeKernel[R expr.Fixed](t types.Type, c *expr.CompileCtx, f func(ms int64, nanos int32) R) expr.Kernel {
	switch {
	case t.Kind == types.Date:
		return expr.Unary(func(d int32) R { return f(int64(d)*datefmt.Day, 0) })
	case t.Phys() == types.PI32:
		return expr.Unary(func(ms int32) R { return f(int64(ms), 0) })
	case t.Kind == types.TimestampLTZ && t.Phys() == types.PI64:
		z := datefmt.NewZone(c.Env.Zone)
		return expr.Unary(func(ms int64) R { return f(ms+z.Offset(ms), 0) })
	case t.Kind == types.TimestampLTZ:
		z := datefmt.NewZone(c.Env.Zone)
		return expr.Unary(func(x types.Int128) R { return f(x.Hi+z.Offset(x.Hi), int32(x.Lo)) })
	case t.Phys() == types.PI64:
		return expr.Unary(func(ms int64) R { return f(ms, 0) })
	}
	return expr.Unary(func(x types.Int128) R { return f(x.Hi, int32(x.Lo)) })
}

// timeAt is value i of a DATE, TIME or timestamp as ms and nanoseconds within, not converted to
// local time.
func timeAt(v *vec.Vec, i int) (ms int64, nanos int32) {
	switch v.Type.Kind {
	case types.Date:
		return int64(v.I32[i]) * datefmt.Day, 0
	case types.Time:
		return int64(v.I32[i]), 0
	}
	return expr.TimestampAt(v, i)
}
