package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
)

// How often the target of a table of results is asked for what costs little, and for what reads its whole history.
const (
	healthEvery  = 15 * time.Second
	historyEvery = 5 * time.Minute
)

// watchedResults is one table of results that a job writes.
type watchedResults struct {
	job      string
	table    *connector.Table
	progress func() (connector.Progress, bool)
	store    results.Store // nil: its target cannot be asked

	mu             sync.Mutex
	checkpoint     int64 // the newest that was seen; guarded by mu, as all that follows
	visible        time.Time
	health         []results.Measure
	history        []results.Measure
	asked, counted time.Time
	failed         bool
}

// AddResults watches a table of results that a job writes. progress is how far the rows that are visible have come; store
// may be nil, and stays the caller's.
func (s *Server) AddResults(job string, t *connector.Table, progress func() (connector.Progress, bool), store results.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, &watchedResults{job: job, table: t, progress: progress, store: store})
}

func (s *Server) listResults() []*watchedResults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*watchedResults(nil), s.results...)
}

// Ask asks the targets of tables of results for their numbers, as far as it is time for that. It may take long, so
// it is to be called beside Sample, by one goroutine.
func (s *Server) Ask(ctx context.Context) {
	for _, w := range s.listResults() {
		w.ask(ctx, s.now())
	}
}

func (w *watchedResults) ask(ctx context.Context, now time.Time) {
	if w.store == nil || now.Sub(w.asked) < healthEvery {
		return
	}
	w.asked = now
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	health, err := results.MeasureHealth(ctx, w.store)
	var history []results.Measure
	whole := err == nil && now.Sub(w.counted) >= historyEvery
	if whole {
		w.counted = now
		history, err = results.MeasureStore(ctx, w.store)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed = err != nil; w.failed {
		return // the numbers from before are no longer true, and are left out
	}
	w.health = health
	if whole {
		// Both have the health.
		seen := map[string]bool{}
		for _, m := range health {
			seen[m.Name] = true
		}
		w.history = nil
		for _, m := range history {
			if !seen[m.Name] {
				w.history = append(w.history, m)
			}
		}
	}
}

// measures are the numbers of the table.
func (w *watchedResults) measures(now time.Time) []results.Measure {
	var out []results.Measure
	p, ok := w.progress()
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		if p.Checkpoint != w.checkpoint || w.visible.IsZero() {
			w.checkpoint, w.visible = p.Checkpoint, now
		}
		out = results.MeasureProgress(results.TimesOf(w.table.Results), &p, w.visible.UnixMilli())
	}
	if w.store != nil {
		failing := 0.0
		if w.failed {
			failing = 1
		}
		out = append(out, results.Measure{Name: "target_unreachable", Help: "1 where the target did not answer when it was asked last.", Value: failing})
	}
	if w.failed {
		return out
	}
	return append(append(out, w.health...), w.history...)
}

// sampleResults notes when progress becomes visible.
func (s *Server) sampleResults(now time.Time) {
	for _, w := range s.listResults() {
		w.measures(now)
	}
}

// resultsCollector makes metrics of the tables of results. What there is to say depends on the target, so it is not
// described beforehand.
type resultsCollector struct{ s *Server }

// Describe implements prometheus.Collector: nothing is promised.
func (resultsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c resultsCollector) Collect(ch chan<- prometheus.Metric) {
	seen := map[[4]string]bool{}
	for _, w := range c.s.listResults() {
		for _, m := range w.measures(c.s.now()) {
			id := [4]string{w.job, w.table.Name, m.Generation, m.Name}
			if seen[id] { // two statements write the table
				continue
			}
			seen[id] = true
			d := prometheus.NewDesc("tidemark_result_"+m.Name, m.Help, []string{"job_name", "table", "generation"}, nil)
			if m.Buckets != nil {
				ch <- prometheus.MustNewConstHistogram(d, m.Count, m.Sum, m.Buckets, w.job, w.table.Name, m.Generation)
				continue
			}
			ch <- prometheus.MustNewConstMetric(d, gauge, m.Value, w.job, w.table.Name, m.Generation)
		}
	}
}
