package cli

import (
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
)

// TestInputLeft has looks at a bounded job, and what is said of what is left.
func TestInputLeft(t *testing.T) {
	files, topic, table := &plan.Node{ID: 0}, &plan.Node{ID: 1}, &plan.Node{ID: 2}
	look := func(elapsed time.Duration, bytes, bytesLeft, rows, rowsLeft, tableLeft int64) job.Status {
		s := job.Status{Elapsed: elapsed, Nodes: []job.NodeBooks{{Node: files}, {Node: topic, RowsIn: rows}, {Node: table}}}
		s.Sources = []job.SourceStatus{{Node: files, Table: "f", Unit: "bytes", Bytes: bytes, Lag: bytesLeft}, {Node: topic, Table: "k", Unit: "records", Lag: rowsLeft}}
		if tableLeft != 0 {
			s.Sources = append(s.Sources, job.SourceStatus{Node: table, Table: "d", Unit: "records", Lag: tableLeft})
		}
		return s
	}
	for _, c := range []struct {
		first, now job.Status
		want       string
	}{
		// 4 MB in 2 s, 6 MB are left; 100 rows in 2 s, 900 are left.
		{look(2*time.Second, 0, 10_000_000, 0, 1000, 0), look(4*time.Second, 4_000_000, 6_000_000, 100, 900, 0),
			"  f: 40 % of 10 MB read  k: 10 % of 1,000 rows read  about 18 s to go"},
		{look(2*time.Second, 0, 10_000_000, 0, 0, 0), look(4*time.Second, 9_999_999, 1, 0, 0, 0), "  f: 99 % of 10 MB read  about 1 s to go"},
		{look(2*time.Second, 5, 0, 7, 0, 0), look(4*time.Second, 5, 0, 7, 0, 0), "  f: 100 % of 5 B read  k: 100 % of 7 rows read"},
		// One does not know how much there is, one does not move.
		{look(2*time.Second, 0, 10_000_000, 0, 1000, -1), look(4*time.Second, 4_000_000, 6_000_000, 100, 900, -1), "  f: 40 % of 10 MB read  k: 10 % of 1,000 rows read"},
		{look(2*time.Second, 4_000_000, 6_000_000, 1, 1, 0), look(4*time.Second, 4_000_000, 6_000_000, 2, 0, 0), "  f: 40 % of 10 MB read  k: 100 % of 2 rows read"},
	} {
		if got := inputLeft(c.now, c.first); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
