package fn_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// nexmarkBatch has the columns that the benchmark's bids have: ts TIMESTAMP(3), url, channel,
// price BIGINT, js.
func nexmarkBatch() (*vec.Batch, []types.Field) {
	fields := []types.Field{
		{Name: "ts", Type: types.TimestampType(3).NotNull()}, {Name: "url", Type: types.StringType.NotNull()},
		{Name: "channel", Type: types.StringType.NotNull()}, {Name: "price", Type: types.BigIntType.NotNull()},
		{Name: "js", Type: types.StringType.NotNull()},
	}
	b := vec.NewBatch(types.NewSchema(fields...))
	start := time.Date(2024, 1, 5, 7, 0, 0, 0, time.UTC).UnixMilli()
	for i := 0; i < vec.BatchRows; i++ {
		b.Cols[0].AppendValue(types.TS(start+int64(i)*37, 0))
		b.Cols[1].AppendValue(fmt.Sprintf("https://www.nexmark.com/tre/vfdq/item%d.htm?query=1&channel_id=%d", i, i*7919))
		b.Cols[2].AppendValue([]string{"Apple", "Google", "channel-1234", "Baidu"}[i%4])
		b.Cols[3].AppendValue(int64(i * 1013))
		b.Cols[4].AppendValue(fmt.Sprintf(`{"auction":%d,"bidder":{"id":%d,"name":"abc def"},"tags":["a","b"]}`, i, i))
	}
	b.N = vec.BatchRows
	return b, fields
}

// hot are calls of the benchmark's queries and others that run often; $n is column n.
var hot = []struct {
	name string
	make func(col func(i int) expr.Expr, call func(fn string, args ...any) expr.Expr) expr.Expr
}{
	{"DATE_FORMAT_day", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("DATE_FORMAT", col(0), "yyyy-MM-dd")
	}},
	{"DATE_FORMAT_minute", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("DATE_FORMAT", col(0), "HH:mm")
	}},
	{"DATE_FORMAT_ms", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("DATE_FORMAT", col(0), "yyyy-MM-dd HH:mm:ss.SSS")
	}},
	{"EXTRACT_hour", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("HOUR", col(0))
	}},
	{"FLOOR_minute", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("FLOOR", col(0), "MINUTE")
	}},
	{"SPLIT_INDEX", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("SPLIT_INDEX", col(1), "/", 3)
	}},
	{"REGEXP_EXTRACT", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("REGEXP_EXTRACT", col(1), "(&|^)channel_id=([^&]*)", 2)
	}},
	{"REPLACE_CHAR_LENGTH", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("CHAR_LENGTH", call("REPLACE", col(1), "c", ""))
	}},
	{"LOWER", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("LOWER", col(2))
	}},
	{"LIKE", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("LIKE", col(1), "%channel_id=%")
	}},
	{"SUBSTRING", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("SUBSTRING", col(1), 9, 15)
	}},
	{"CONCAT", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("CONCAT", col(2), "-", col(2))
	}},
	{"JSON_VALUE", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("JSON_VALUE", col(4), "$.bidder.id")
	}},
	{"ABS", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("ABS", col(3))
	}},
	{"MD5", func(col func(int) expr.Expr, call func(string, ...any) expr.Expr) expr.Expr {
		return call("MD5", col(2))
	}},
}

func compileHot(tb testing.TB, k int, fields []types.Field) *expr.Program {
	env := &expr.Env{Zone: time.UTC}
	col := func(i int) expr.Expr { return &expr.Column{Index: i, Name: fields[i].Name, T: fields[i].Type} }
	call := func(fn string, args ...any) expr.Expr {
		es := make([]expr.Expr, len(args))
		for i, a := range args {
			switch a := a.(type) {
			case expr.Expr:
				es[i] = a
			case string:
				es[i] = lit(a, types.StringType)
			case int:
				es[i] = lit(int64(a), types.IntType)
			}
		}
		e, err := expr.Resolve(fn, es, env, expr.Pos{})
		if err != nil {
			tb.Fatal(err)
		}
		return e
	}
	p, err := expr.Compile(hot[k].make(col, call), env)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestNoAllocation holds the hot functions to a handful of allocations a batch, none a row.
func TestNoAllocation(t *testing.T) {
	b, fields := nexmarkBatch()
	for k, h := range hot {
		p := compileHot(t, k, fields)
		var ctx expr.EvalCtx
		p.Eval(&ctx, b)
		if n := testing.AllocsPerRun(5, func() { p.Eval(&ctx, b) }); n > 8 {
			t.Errorf("%s: %v allocations for %d rows", h.name, n, b.N)
		}
		if len(ctx.Errs) > 0 {
			t.Errorf("%s: %v", h.name, ctx.Errs[0].Err)
		}
	}
}

func BenchmarkFunctions(b *testing.B) {
	batch, fields := nexmarkBatch()
	for k, h := range hot {
		b.Run(h.name, func(b *testing.B) {
			p := compileHot(b, k, fields)
			var ctx expr.EvalCtx
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				p.Eval(&ctx, batch)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N)/float64(batch.N), "cpu-ns/row")
		})
	}
}

// cpuTime is what the process has used so far: on a busy machine it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
