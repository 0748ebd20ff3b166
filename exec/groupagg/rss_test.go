package groupagg_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/groupagg"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestMemory_TenMillionKeys: ten million BIGINT keys of COUNT and SUM stay under 1 GiB of resident
// memory, growth included. It takes a few seconds and as much memory, so it runs on demand.
func TestMemory_TenMillionKeys(t *testing.T) {
	if os.Getenv("TIDEMARK_BIG") == "" {
		t.Skip("set TIDEMARK_BIG=1 to run it")
	}
	c := exectest.Case{Schema: bidSchema}
	aggs, err := c.Aggs("COUNT(*); SUM(price)", true)
	if err != nil {
		t.Fatal(err)
	}
	n := &plan.GroupAgg{Keys: []int{0}, Aggs: aggs}
	o, err := groupagg.New(n, bidSchema, outSchema(bidSchema, n))
	if err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	ctx := &op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return 0 }}
	if err := o.Open(ctx, &exectest.Discard{}); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	b := bidBatches(1, 10)[0]
	for k := int64(0); k < 10_000_000; k += vec.BatchRows {
		for i := range b.Cols[0].I64 {
			b.Cols[0].I64[i] = (k + int64(i)) * 7919
		}
		if err := o.Process(0, b); err != nil {
			t.Fatal(err)
		}
	}
	mib := peakRSS(t) >> 20
	t.Logf("%d keys, %d MiB of state, %d MiB peak resident", ctx.Counters.StateEntries.Load(),
		ctx.Counters.StateBytes.Load()>>20, mib)
	if mib >= 1024 {
		t.Errorf("peak resident memory is %d MiB, want less than 1024", mib)
	}
}

func peakRSS(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skip("no peak in /proc/self/status")
	return 0
}
