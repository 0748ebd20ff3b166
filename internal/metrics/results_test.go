package metrics

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// board is a table of results with windows of an hour in New York.
func board() *connector.Table {
	return &connector.Table{Name: "board", Columns: []types.Field{{Name: "origin", Type: types.StringType}, {Name: "ws", Type: types.TimestampType(3)}, {Name: "n", Type: types.BigIntType},
		{Name: "rev", Type: types.BigIntType}, {Name: "gen", Type: types.StringType}},
		Results: &connector.Results{Key: []string{"origin", "ws"}, WindowStart: "ws", Zone: "America/New_York", Generation: "live",
			Column: map[string]string{"revision": "rev", "generation": "gen"}}}
}

// healthy is a store that says what a test wants of its target.
type healthy struct {
	*results.Memory
	health map[string]float64
	err    error
	asked  int
}

func (h *healthy) Health(context.Context) (map[string]float64, error) {
	h.asked++
	return h.health, h.err
}

// TestResults serves what is known of a table of results, and what its target says.
func TestResults(t *testing.T) {
	m, err := results.NewMemory(board())
	if err != nil {
		t.Fatal(err)
	}
	h := &healthy{Memory: m, health: map[string]float64{"queries": 7, "query_rows_read": 1500, "query_bytes_read": 2e6, "parts": 3}}
	for rev := range int64(3) {
		m.Add([]any{"EWR", start, 10 + rev, rev + 1, "live"})
	}
	m.Add([]any{"JFK", start, int64(5), int64(1), "live"})
	now := start
	s := NewServer()
	s.now = func() time.Time { return now }
	p, ok := connector.Progress{}, false
	s.AddResults("flow", board(), func() (connector.Progress, bool) { return p, ok }, h)
	look := func() string {
		t.Helper()
		code, text := ask(t, s.Handler("v1", true), "GET", "/metrics")
		if code != 200 {
			t.Fatalf("%d: %s", code, text)
		}
		return text
	}
	value := func(name, generation string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^tidemark_result_` + name + `\{generation="` + generation + `",job_name="flow",table="board"\} (.+)$`).FindStringSubmatch(look())
		if found == nil {
			return "-"
		}
		return found[1]
	}
	expect := func(name, generation, want string) {
		t.Helper()
		if got := value(name, generation); got != want {
			t.Errorf("%s of %q is %s, not %s", name, generation, got, want)
		}
	}
	expect("lag_seconds", "live", "-") // before the first checkpoint
	p, ok = connector.Progress{Generation: "live", Checkpoint: 1, Watermark: now.Add(-90 * time.Second).UnixMilli(), MaxTime: now.Add(-30 * time.Second).UnixMilli(), Rows: 4,
		Splits: 4, SplitsIdle: 1, Late: 2, Expected: 412, Seen: 411}, true
	s.Sample()
	for name, want := range map[string]string{"lag_seconds": "90", "source_age_seconds": "30", "rows": "4", "splits_idle": "1", "late_rows": "2", "expected": "412", "seen": "411"} {
		expect(name, "live", want)
	}
	// By how much rows were late is a histogram, which is there before any was.
	bucket := func(le string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^tidemark_result_late_seconds_bucket\{generation="live",job_name="flow",table="board",le="` + regexp.QuoteMeta(le) + `"\} (.+)$`).FindStringSubmatch(look())
		if found == nil {
			return "-"
		}
		return found[1]
	}
	if got := bucket("1") + bucket("86400") + bucket("+Inf"); got != "000" {
		t.Errorf("no row was late, and the buckets hold %s", got)
	}
	p.LateBy, p.LateByMs = []int64{3, 0, 2, 0, 0, 0, 0, 1}, 90_123_000
	for le, want := range map[string]string{"1": "3", "10": "3", "60": "5", "86400": "5", "+Inf": "6"} {
		if got := bucket(le); got != want {
			t.Errorf("up to %s s: %s rows, not %s", le, got, want)
		}
	}
	expect("late_seconds_sum", "live", "90123")
	expect("late_seconds_count", "live", "6")
	// As long as there is no newer checkpoint, the lag is that of the last.
	now = now.Add(20 * time.Second)
	expect("lag_seconds", "live", "90")
	p.Checkpoint = 2
	s.Sample()
	expect("lag_seconds", "live", "110")

	// What the target says, and how dear it is to read.
	expect("target_parts", "", "-")
	s.Ask(context.Background())
	for name, want := range map[string]string{"target_parts": "3", "target_queries": "7", "target_query_rows_read": "1500", "target_query_bytes_read": "2e+06", "target_unreachable": "0"} {
		expect(name, "", want)
	}
	expect("revisions", "live", "4")
	expect("corrections", "live", "2")
	s.Ask(context.Background()) // too early
	if h.asked > 2 {            // once for the health, once within the history
		t.Errorf("the target was asked %d times", h.asked)
	}
	now, h.err = now.Add(time.Minute), errors.New("away")
	s.Ask(context.Background())
	expect("target_unreachable", "", "1")
	expect("target_parts", "", "-")
	expect("revisions", "live", "-")
	expect("lag_seconds", "live", "110") // the job's own numbers stay
	now, h.err = now.Add(time.Minute), nil
	s.Ask(context.Background())
	expect("target_unreachable", "", "0")
	expect("target_parts", "", "3")
	for _, line := range strings.Split(look(), "\n") {
		if strings.HasPrefix(line, "# HELP tidemark_result_target_query") && strings.HasSuffix(line, "_read ") {
			t.Errorf("%s says nothing", line)
		}
	}
}

// TestResults_WhereClocksAreSet has the lag go by instants, whatever clocks show where the windows are.
func TestResults_WhereClocksAreSet(t *testing.T) {
	for _, change := range []time.Time{time.Date(2024, 3, 10, 7, 0, 0, 0, time.UTC), time.Date(2024, 11, 3, 6, 0, 0, 0, time.UTC)} {
		s := NewServer()
		now := change.Add(-3 * time.Hour)
		s.now = func() time.Time { return now }
		p := connector.Progress{Generation: "live"}
		s.AddResults("flow", board(), func() (connector.Progress, bool) { return p, true }, nil)
		for i := range 13 {
			now = change.Add(time.Duration(i-6) * 30 * time.Minute)
			p.Checkpoint, p.Watermark, p.MaxTime = int64(i+1), now.Add(-time.Minute).UnixMilli(), now.Add(-time.Second).UnixMilli()
			s.Sample()
			w := s.listResults()[0]
			for _, m := range w.measures(now) {
				if want := map[string]float64{"lag_seconds": 60, "source_age_seconds": 1}[m.Name]; want != 0 && m.Value != want {
					t.Errorf("at %s %s is %v, not %v", now, m.Name, m.Value, want)
				}
			}
		}
		// At the end of the input there is no lag.
		p.Watermark = vec.MaxTime
		for _, m := range s.listResults()[0].measures(now) {
			if m.Name == "lag_seconds" {
				t.Errorf("the input has ended, and the lag is %v", m.Value)
			}
		}
	}
}
