package window_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/plan"
)

// TestMemory_DistinctValues: the process of a window with millions of different values stays within a few
// times its budget. It takes half a minute, so it runs on demand:
//
//	TIDEMARK_BIG=1 go test ./exec/window -run TestMemory_DistinctValues/keys=0 -v
func TestMemory_DistinctValues(t *testing.T) {
	if os.Getenv("TIDEMARK_BIG") == "" {
		t.Skip("set TIDEMARK_BIG=1 to run it")
	}
	const (
		limit  = 64 << 20
		values = 5_000_000
		day    = 86_400_000
	)
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: day}, {Kind: plan.Hop, Size: day, Step: day / 4}} {
		for _, keys := range []int64{0, 1000} {
			t.Run(fmt.Sprintf("%s,keys=%d", w.Kind, keys), func(t *testing.T) {
				cs := exectest.Case{Schema: narrowSchema}
				aggs, err := cs.Aggs("COUNT(DISTINCT i); COUNT(*)", true)
				if err != nil {
					t.Fatal(err)
				}
				w.TimeCol = 1
				n := &plan.WindowAgg{Window: w, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1}
				if keys > 0 {
					n.Keys = []int{0}
				}
				debug.FreeOSMemory()
				if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
					t.Logf("the peak is that of all tests: %v", err)
				}
				x := newNarrow(t, n, limit)
				x.keep = true
				began := time.Now()
				for i := range int64(values) {
					x.row(i%max(keys, 1), i*(day/2)/values, i*7_368_787%values)
				}
				filled := time.Since(began)
				x.end()
				t.Logf("%d values a window: %.0f rows/s, %.1f s to fire; %d MiB of state at most, %d MiB of the process",
					values, values/filled.Seconds(), (time.Since(began) - filled).Seconds(), x.peak>>20, peakRSS(t)>>20)
				for _, s := range x.texts {
					if keys == 0 && w.Kind == plan.Tumble && s != fmt.Sprintf("+I %d %d", values, values) {
						t.Errorf("result %s", s)
					}
				}
				if mib := peakRSS(t) >> 20; mib > 3*limit>>20 {
					t.Errorf("the process took %d MiB", mib)
				}
			})
		}
	}
}

// TestMemory_CorrectedSessions is the same of sessions that are corrected, most of which are open: 100,000 keys, each
// with ten values, of which a tenth get rows at a time.
func TestMemory_CorrectedSessions(t *testing.T) {
	if os.Getenv("TIDEMARK_BIG") == "" {
		t.Skip("set TIDEMARK_BIG=1 to run it")
	}
	const (
		limit = 16 << 20
		keys  = 100_000
		hour  = 3_600_000
	)
	cs := exectest.Case{Schema: narrowSchema}
	aggs, err := cs.Aggs("COUNT(*); SUM(i); COUNT(DISTINCT i)", true)
	if err != nil {
		t.Fatal(err)
	}
	x := newNarrow(t, &plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: hour, TimeCol: 1}, Keys: []int{0}, Aggs: aggs,
		EarlyFireMs: -1, LateFireMs: -1, EarlyFireRows: 8, AllowedLatenessMs: hour}, limit)
	began := time.Now()
	for round := range int64(10) {
		for i := range int64(2 * keys) {
			at := round*hour/10 + i*(hour/10)/(2*keys)
			x.row(i*(keys/20)%(keys/10)+at*keys/hour*9/10, at, i%5+5*(round%2))
			if i%5_000 == 0 {
				x.watermark(at - hour/60)
			}
		}
	}
	x.end()
	t.Logf("%d results: %.0f rows/s; %d MiB of state at most, %d MiB of the process", x.rows, 20*keys/time.Since(began).Seconds(),
		x.peak>>20, peakRSS(t)>>20)
	if x.peak > limit+limit/4 || x.rows == 0 {
		t.Errorf("state took %d MiB", x.peak>>20)
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
