package fn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// bids has what the benchmark's queries q14, q21 and q22 read: channel, url, ts, extra. Half of the
// channels are one of four, most others have their number in the address.
func bids(r *rand.Rand, n int) *vec.Batch {
	b := vec.NewBatch(types.NewSchema(bidFields...))
	for range n {
		channel, id := fmt.Sprintf("channel-%d", r.IntN(10000)), ""
		if hot := r.IntN(8); hot < 4 {
			channel = []string{"Google", "Facebook", "Baidu", "Apple"}[hot]
		} else if r.IntN(10) > 0 {
			id = fmt.Sprintf("&channel_id=%d", r.Uint32()/2)
		}
		word := func(most int) []byte {
			w := make([]byte, 3+r.IntN(most))
			for i := range w {
				w[i] = byte('a' + r.IntN(26))
			}
			return w
		}
		b.Cols[0].AppendValue(channel)
		b.Cols[1].AppendValue(fmt.Sprintf("https://www.nexmark.com/%s/%s/%s/item.htm?query=1%s", word(3), word(3), word(3), id))
		b.Cols[2].AppendValue(types.TS(1750000000000+int64(r.IntN(1e9)), 0))
		b.Cols[3].AppendValue(string(word(100)))
	}
	b.N = n
	return b
}

var bidFields = []types.Field{
	{Name: "channel", Type: types.StringType}, {Name: "url", Type: types.StringType},
	{Name: "ts", Type: types.TimestampType(3)}, {Name: "extra", Type: types.StringType},
}

// stages are the conditions and projections of queries of the benchmark, in the words of reader.
var stages = []struct {
	name, cond string
	exprs      []string
}{
	{"q14", "", []string{
		`CASE("AND"(">="(HOUR(ts), 8), "<="(HOUR(ts), 18)), 'dayTime', "OR"("<="(HOUR(ts), 6), ">="(HOUR(ts), 20)), 'nightTime', 'otherTime')`,
		`"-"(CHAR_LENGTH(extra), CHAR_LENGTH(REPLACE(extra, 'c', '')))`}},
	{"q21", `"OR"("IS NOT NULL"(REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)), "IN"(LOWER(channel), 'apple', 'google', 'facebook', 'baidu'))`,
		[]string{`CASE("="(LOWER(channel), 'apple'), '0', "="(LOWER(channel), 'google'), '1', "="(LOWER(channel), 'facebook'), '2', ` +
			`"="(LOWER(channel), 'baidu'), '3', REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2))`}},
	{"q22", "", []string{"SPLIT_INDEX(url, '/', 3)", "SPLIT_INDEX(url, '/', 4)", "SPLIT_INDEX(url, '/', 5)"}},
}

func readBid(tb testing.TB, s string, env *expr.Env) expr.Expr {
	tb.Helper()
	e, err := readOver(s, env, bidFields)
	if err != nil {
		tb.Fatalf("%s: %v", s, err)
	}
	return e
}

// BenchmarkStages measures what the queries compute, without reading and decoding.
func BenchmarkStages(b *testing.B) {
	batch := bids(rand.New(rand.NewPCG(1, 2)), vec.BatchRows)
	env := &expr.Env{Zone: time.UTC}
	for _, q := range stages {
		b.Run(q.name, func(b *testing.B) {
			var cond expr.Expr
			if q.cond != "" {
				cond = readBid(b, q.cond, env)
			}
			var es []expr.Expr
			for _, s := range q.exprs {
				es = append(es, readBid(b, s, env))
			}
			stage, err := expr.CompileStage(cond, es, env)
			if err != nil {
				b.Fatal(err)
			}
			var ctx expr.EvalCtx
			var sel []int32
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				in := *batch
				if cond != nil {
					sel = stage.Select(&ctx, batch, sel[:0])
					in.Sel = sel
				}
				stage.Project(&ctx, &in)
			}
			if len(ctx.Errs) > 0 {
				b.Fatal(ctx.Errs[0].Err)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N)/float64(batch.N), "cpu-ns/row")
		})
	}
}
