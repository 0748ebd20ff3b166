package cli

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/internal/version"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// boardPath is where the dashboard of a running script is.
const boardPath = "/board/"

// board shows the results of the script's jobs straight from memory, beside --http's other pages.
type board struct {
	server *dashboard.Server
	mu     sync.Mutex
	shown  map[string]*shownTable // by table; guarded by mu
	file   string
	closed context.CancelFunc
}

// shownTable is one table of results of a running job.
type shownTable struct {
	live     *dashboard.Live
	table    *connector.Table
	run      *engine.Run
	restarts int
}

func newBoard(file string, local bool) (*board, error) {
	s, err := dashboard.New(dashboard.Options{Config: file, Local: local, Version: version.String()})
	if err != nil {
		return nil, err
	}
	b := &board{server: s, shown: map[string]*shownTable{}, file: file}
	ctx, cancel := context.WithCancel(context.Background())
	b.closed = cancel
	go s.Run(ctx)
	go b.follow(ctx)
	return b, nil
}

// handler serves the page below boardPath.
func (b *board) handler() http.Handler {
	return http.StripPrefix(boardPath[:len(boardPath)-1], b.server.Handler())
}

// started adds the tables of results that a job writes.
func (b *board) started(j *engine.Run) (tables int) {
	for _, table := range j.Plan.Results() {
		tables++
		b.mu.Lock()
		t := b.shown[table.Name]
		fresh := t == nil
		if fresh {
			t = &shownTable{live: dashboard.NewLive(table, 0), table: table}
			b.shown[table.Name] = t
		}
		t.run = j
		b.mu.Unlock()
		if fresh {
			b.server.AddSource(dashboard.Source{Table: table, Store: t.live, Memory: true})
		}
	}
	return tables
}

// rows takes rows on their way to a table of results.
func (b *board) rows(j *engine.Run, t *connector.Table, rows *vec.Batch) {
	b.mu.Lock()
	x := b.shown[t.Name]
	b.mu.Unlock()
	if x != nil {
		x.live.Add(rows)
	}
}

// follow tells the page how far the jobs are.
func (b *board) follow(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		for _, t := range b.shown {
			if n, _ := t.run.Restarts(); n != t.restarts {
				t.restarts = n
				t.live.Restarted()
			}
			t.live.Note(progressNow(t.run, t.table))
		}
		b.mu.Unlock()
	}
}

// progressNow is how far the results of a running job have come at this instant; what is sealed is at the
// newest checkpoint, whose number it has.
func progressNow(j *engine.Run, t *connector.Table) connector.Progress {
	p := j.Progress()[t.Name]
	s := j.Status()
	p.Job, p.Table, p.Generation, p.At = nameOf(j), t.Name, t.Results.Generation, time.Now().UnixMilli()
	wm, feeds := vec.MaxTime, map[int]bool{}
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		n := s.Nodes[i].Node
		if sink, ok := n.Op.(*plan.Sink); ok && sink.Table != nil && sink.Table.Name == t.Name {
			feeds[n.ID] = true
			for _, e := range n.Inputs {
				wm = min(wm, s.Nodes[e.From].Watermark)
			}
			p.Rows = s.Nodes[i].RowsIn
		}
		if feeds[n.ID] {
			for _, e := range n.Inputs {
				feeds[e.From] = true
			}
		}
	}
	p.Watermark = max(wm, p.Watermark)
	p.Late, p.Rejected, p.Duplicates, p.Stale, p.Conflicts, p.Expired = 0, 0, 0, 0, 0, 0
	for i := range s.Nodes {
		if d := &s.Nodes[i].Drops; feeds[s.Nodes[i].Node.ID] {
			p.Late += d[op.DropLate]
			p.Rejected += d[op.DropDeadLetter]
			p.Duplicates += d[op.DropDuplicate]
			p.Stale += d[op.DropStale]
			p.Conflicts += d[op.DropConflict]
			p.Expired += d[op.DropExpired]
		}
	}
	splitsNow(&p, &s)
	return p
}

// splitsNow counts the splits of a job's sources.
func splitsNow(p *connector.Progress, s *job.Status) {
	p.Splits, p.SplitsDone, p.SplitsPassed, p.SplitsIdle, p.IdleSplits = s.SplitsDone+len(s.Splits), s.SplitsDone, 0, 0, nil
	for _, x := range s.Splits {
		if x.Watermark != vec.MinTime {
			p.MaxTime = max(p.MaxTime, x.Watermark)
		}
		switch {
		case x.Idle:
			p.SplitsIdle++
			p.IdleSplits = append(p.IdleSplits, x.Split)
		case x.Watermark >= p.Watermark:
			p.SplitsPassed++
		}
	}
}

// watchResults has the metrics of the tables of results that a job writes served, the target's too where it can be asked.
func (v *view) watchResults(j *engine.Run) {
	for _, t := range j.Plan.Results() {
		var store results.Store
		if results.Known(t.Connector) {
			var err error
			if store, err = results.Open(context.Background(), t); err != nil {
				v.warn(fmt.Sprintf("--http: table %s is served without numbers of its target: %v", t.Name, err))
			}
		}
		v.server.AddResults(nameOf(j), t, func() (connector.Progress, bool) { p, ok := j.Progress()[t.Name]; return p, ok }, store)
		if store != nil {
			v.stores = append(v.stores, store)
		}
	}
}

// announce says where the page is, once there is something on it.
func (v *view) announce(j *engine.Run) {
	if v.board != nil && v.board.started(j) > 0 && !v.quiet {
		fmt.Fprintf(v.stderr, "http://%s%s shows the results as they come\n", v.address, boardPath)
	}
}
