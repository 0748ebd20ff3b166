package fn

import (
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/fn/datefmt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Functions of the clock and of the watermark. In streaming mode the clock is read for each batch
// of records, in batch mode once a query.

func init() {
	for _, f := range []struct {
		name string
		t    types.Type
		doc  string
	}{
		{"LOCALTIME", types.TimeType(0), "The current time of day in the session's time zone."},
		{"LOCALTIMESTAMP", types.TimestampType(3), "The current time in the session's time zone, as TIMESTAMP(3)."},
		{"CURRENT_TIME", types.TimeType(0), "The current time of day in the session's time zone; LOCALTIME by another name."},
		{"CURRENT_DATE", types.DateType, "The current date in the session's time zone."},
		{"CURRENT_TIMESTAMP", types.TimestampLTZType(3), "The current time as TIMESTAMP_LTZ(3)."},
		{"NOW", types.TimestampLTZType(3), "The current time as TIMESTAMP_LTZ(3); CURRENT_TIMESTAMP by another name."},
		{"CURRENT_ROW_TIMESTAMP", types.TimestampLTZType(3), "The time at which the record is processed, in batch mode too."},
		{"PROCTIME", procTime(), "The time at which the record is processed, as a time attribute."},
	} {
		row := f.name == "CURRENT_ROW_TIMESTAMP" || f.name == "PROCTIME"
		usage := f.name
		if f.name == "NOW" || row {
			usage += "()"
		}
		expr.Register(expr.Func{
			Name: f.name, Usage: usage, Doc: f.doc, Category: catTemporal, Volatile: true,
			Infer:   sig(never(f.t), 0),
			Compile: compileNow(row),
		})
	}
	expr.Register(expr.Func{
		Name: "UNIX_TIMESTAMP", Usage: "UNIX_TIMESTAMP([string [, pattern]])", Category: catTemporal, Volatile: true,
		Doc: "Seconds since 1970-01-01 00:00:00 UTC: now, or at the time that the string says in the session's time zone " +
			"by a pattern of Java's SimpleDateFormat, by default yyyy-MM-dd HH:mm:ss. -9223372036854775808 where it does not fit.",
		Infer: func(a expr.Args) (expr.Signature, error) {
			if a.Len() == 0 {
				return expr.Sig(types.BigIntType.NotNull()), nil
			}
			return verify(sig(of(types.BigIntType), 1, str, str), sdfPattern)(a)
		},
		Compile: compileUnixTimestamp,
	})
	expr.Register(expr.Func{
		Name: "CURRENT_WATERMARK", Usage: "CURRENT_WATERMARK(rowtime)", Category: catTemporal, Volatile: true,
		Doc: "The watermark that was in force when the record arrived, with the type of the row time; NULL before the first.",
		Infer: func(a expr.Args) (expr.Signature, error) {
			if err := a.Count(1, 1); err != nil {
				return expr.Signature{}, err
			}
			t := a.Type(0)
			if t.Attr != types.RowTime {
				return expr.Signature{}, expr.Errorf("argument 1 is %s, but must be a row time attribute", t.AsNullable()).
					WithHint("give the column of the WATERMARK FOR clause")
			}
			r := t.WithoutAttr().AsNullable()
			r.Precision = 3
			return expr.Sig(r, expr.Any), nil
		},
		Compile: kernel(currentWatermark),
	})
	expr.Register(expr.Func{
		Name: "SOURCE_WATERMARK", Usage: "WATERMARK FOR rowtime AS SOURCE_WATERMARK()", Category: catTemporal, Volatile: true,
		Doc:   "In a WATERMARK clause: take the watermarks that the source itself makes.",
		Infer: sig(maybe(types.TimestampLTZType(3)), 0),
	})
}

func procTime() types.Type {
	t := types.TimestampLTZType(3)
	t.Attr = types.ProcTime
	return t
}

// now is the time that functions of the clock give; perRow ones ignore the start of the query.
func now(env *expr.Env, perRow bool) time.Time {
	switch {
	case !perRow && !env.QueryStart.IsZero():
		return env.QueryStart
	case env.Now != nil:
		return env.Now()
	}
	return time.Now()
}

func compileNow(perRow bool) compileFunc {
	return func(ctx *expr.CompileCtx, c *expr.Call) (expr.Kernel, error) {
		env := ctx.Env
		z := datefmt.NewZone(env.Zone)
		return func(_ *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, n int, _ []int32) {
			utc := now(env, perRow).UnixMilli()
			days, within := datefmt.SplitDay(z.Local(utc))
			switch c.T.Kind {
			case types.Date:
				fill(out.I32[:n], int32(days))
			case types.Time:
				fill(out.I32[:n], int32(within-within%1000))
			case types.Timestamp:
				fill(out.I64[:n], z.Local(utc))
			default:
				fill(out.I64[:n], utc)
			}
		}, nil
	}
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

func currentWatermark(ctx *expr.EvalCtx, _ []*vec.Vec, out *vec.Vec, n int, sel []int32) {
	set := func(i int) {
		if at := ctx.Batch.Stamp(i); at == vec.MinTime {
			out.SetNull(i)
		} else {
			out.I64[i] = at
		}
	}
	if sel != nil {
		for _, i := range sel {
			set(int(i))
		}
		return
	}
	for i := 0; i < n; i++ {
		set(i)
	}
}
