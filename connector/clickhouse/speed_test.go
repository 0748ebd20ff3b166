package clickhouse

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var speedColumns = []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "customer", Type: types.StringType}, {Name: "price", Type: types.DecimalType(12, 2)},
	{Name: "qty", Type: types.IntType}, {Name: "at", Type: types.TimestampType(3)}}

const speedTable = "(id Int64, customer String, price Decimal(12, 2), qty Int32, at DateTime64(3)) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000"

func speedBatch(from int) *vec.Batch {
	b := vec.NewBatch(types.Schema{Fields: speedColumns})
	b.Reset(vec.BatchRows)
	for i := range b.N {
		n := int64(from + i)
		b.Cols[0].I64[i] = n
		b.Cols[1].SetString(i, fmt.Sprintf("customer-%d", n%1000))
		b.Cols[2].I64[i] = n * 37 % 1_000_000
		b.Cols[3].I32[i] = int32(n % 100)
		b.Cols[4].I64[i] = 1_700_000_000_000 + n
	}
	return b
}

// cpu is the time that this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestSpeed says how many rows a second go into a real server, and what a row costs here.
func TestSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 2_000_000 / vec.BatchRows
	batches := make([]*vec.Batch, 100)
	for i := range batches {
		batches[i] = speedBatch(i * vec.BatchRows)
	}
	for _, x := range []struct {
		guarantee, compression string
		native                 bool
	}{
		{"at-least-once", "lz4", false}, {"at-least-once", "zstd", false}, {"at-least-once", "none", false},
		{"at-least-once", "lz4", true}, {"at-least-once", "none", true}, {"exactly-once", "lz4", false}, {"exactly-once", "none", true},
	} {
		r := live(t)
		r.exec("CREATE TABLE DB.fast " + speedTable)
		s := r.open(def{name: "fast", cols: speedColumns, native: x.native, options: map[string]string{"sink.delivery-guarantee": x.guarantee, "compression": x.compression}})
		w := r.writer(s)
		from, used := time.Now(), cpu()
		for i := range n {
			must(t, w.Write(t.Context(), batches[i%len(batches)]))
		}
		cs, err := w.Prepare(t.Context())
		must(t, err)
		if x.guarantee == "exactly-once" {
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		}
		took, used := time.Since(from), cpu()-used
		rows := n * vec.BatchRows
		r.expect("rows", "SELECT count() FROM DB.fast", fmt.Sprint(rows))
		t.Logf("%s, native %t, %s: %.0f rows/s, %.0f ns of CPU a row here", x.guarantee, x.native, x.compression, float64(rows)/took.Seconds(), float64(used.Nanoseconds())/float64(rows))
	}
}

// BenchmarkEncode is what it costs to make blocks of rows.
func BenchmarkEncode(b *testing.B) {
	tab := &table{zone: time.UTC, cols: []tableColumn{{"id", "Int64", ""}, {"customer", "String", ""}, {"price", "Decimal(12, 2)", ""}, {"qty", "Int32", ""}, {"at", "DateTime64(3)", ""}}}
	cfg := (&rig{t: b}).config(def{name: "x", cols: speedColumns})
	e, err := tab.fit(&cfg)
	must(b, err)
	in := speedBatch(0)
	buf := []byte{}
	b.SetBytes(int64(in.N))
	b.ReportAllocs()
	used := cpu()
	for b.Loop() {
		rows, err := e.take(in, cfg.Bad)
		must(b, err)
		e.add(in, rows)
		if e.n >= 100_000 {
			buf = e.block(buf[:0])
		}
	}
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(b.N*in.N), "cpu-ns/row")
}
