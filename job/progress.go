package job

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// Progress of a table of results (connector.Progress) is put together from a cut: its watermark, splits
// and counts are those that the rows sealed by the same checkpoint were made with. It is written down in
// the manifest with the sealed rows, and committed with them.

const (
	maxMissed     = 1000 // windows of a progress row; more are put together
	maxIdleSplits = 20   // names of a progress row
)

// upstream lists the nodes that feed n, n itself included, by id.
func (j *Job) upstream(n *plan.Node) map[int]bool {
	out := map[int]bool{n.ID: true}
	for i := n.ID; i >= 0; i-- { // inputs come before their nodes
		if !out[i] {
			continue
		}
		for _, e := range j.p.Nodes[i].Inputs {
			out[e.From] = true
		}
	}
	return out
}

// missed collects the windows that rows came too late for, by node, until a checkpoint tells of them.
type missed struct {
	mu      sync.Mutex
	windows map[int]missedWindows // by node; guarded by mu
}

// missedWindows are rows by window. A span of windows that are not told apart any more says how many they were.
type missedWindows map[[2]int64]missedRows

// missedRows are the rows that missed a window, or, where windows is not 0, so many windows, or more, in a span.
type missedRows struct{ rows, windows int64 }

// add adds what is known of one window, or of a span that is there already.
func (m missedWindows) add(w [2]int64, x missedRows) {
	have := m[w]
	m[w] = missedRows{have.rows + x.rows, max(have.windows, x.windows)}
}

// wants reports whether somebody is told of the windows that node n missed.
func (j *Job) wantsMissed(n *plan.Node) bool {
	for _, sh := range j.sinks {
		if sh.feeds[n.ID] {
			return true
		}
	}
	return false
}

// maxTold is how many windows a subtask tells apart between two checkpoints.
const maxTold = 16 * maxMissed

// missedBy collects the windows that one subtask of node n missed. It belongs to the subtask's goroutine. Where there are
// too many to tell apart they become one span, and whatever lies in it belongs to it: each of them is known still to
// need a backfill, as may be windows between them that missed nothing.
func missedBy(into missedWindows) func(startMs, endMs, rows int64) {
	var span [2]int64
	return func(startMs, endMs, rows int64) {
		w := [2]int64{startMs, endMs}
		if in, some := into[span]; some && in.windows > 0 && span[0] <= startMs && endMs <= span[1] {
			w = span
		} else if _, known := into[w]; !known && len(into) >= maxTold {
			all := missedRows{windows: 1} // w
			for k, x := range into {
				w[0], w[1] = min(w[0], k[0]), max(w[1], k[1])
				all.rows, all.windows = all.rows+x.rows, all.windows+max(1, x.windows)
			}
			clear(into)
			span, into[w] = w, all
		}
		into.add(w, missedRows{rows: rows})
	}
}

func (m *missed) add(node int, windows missedWindows) {
	if len(windows) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.windows == nil {
		m.windows = map[int]missedWindows{}
	}
	if m.windows[node] == nil {
		m.windows[node] = missedWindows{}
	}
	for w, x := range windows {
		m.windows[node].add(w, x)
	}
}

// list returns the windows missed by the nodes that feed a sink, by start; neighbours are put together
// where there are too many.
func (m *missed) list(feeds map[int]bool) []connector.MissedWindow {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := missedWindows{}
	for node, windows := range m.windows {
		if feeds[node] {
			for w, x := range windows {
				all.add(w, x)
			}
		}
	}
	var out []connector.MissedWindow
	for _, w := range slices.SortedFunc(maps.Keys(all), func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) }) {
		out = append(out, connector.MissedWindow{Start: w[0], End: w[1], Rows: all[w].rows, Windows: all[w].windows})
	}
	if len(out) <= maxMissed {
		return out
	}
	each := (len(out) + maxMissed - 1) / maxMissed
	var few []connector.MissedWindow
	for run := range slices.Chunk(out, each) {
		x := run[0]
		for _, w := range run[1:] {
			x.End, x.Rows = max(x.End, w.End), x.Rows+w.Rows
		}
		if len(run) > 1 {
			x.Windows = 0
			for i := range run {
				x.Windows += run[i].Count()
			}
		}
		few = append(few, x)
	}
	return few
}

// told forgets what is listed: a checkpoint has it.
func (m *missed) told() {
	m.mu.Lock()
	m.windows = nil
	m.mu.Unlock()
}

// commit makes one epoch's output visible, with its progress where the target keeps it.
func (s *sinkShared) commit(ctx context.Context, p pendingOutput) error {
	if k, ok := s.committer.(connector.ProgressCommitter); ok && p.progress != nil {
		return k.CommitProgress(ctx, p.id, p.cs, p.progress)
	}
	if len(p.cs) == 0 {
		return nil
	}
	return s.committer.Commit(ctx, p.id, p.cs)
}

// progress is how far the results of a sink were at a cut.
func (j *Job) progress(sh *sinkShared, c *cut, id connector.CommitID) *connector.Progress {
	t := sh.node.Op.(*plan.Sink).Table
	p := &connector.Progress{Job: j.jobName(), Table: t.Name, Lineage: id.Lineage, Checkpoint: id.Checkpoint,
		Generation: t.Results.Generation, MaxTime: vec.MinTime, At: c.started.UnixMilli()}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Watermark = c.got.marks[sh.node.ID]
	for _, s := range c.got.sources {
		if sh.feeds[s.node] {
			addSplits(p, s.splits)
		}
	}
	clocks, latest := map[*clock]bool{}, vec.MinTime
	var lates op.LateBy
	for node := range sh.feeds {
		if src := j.sources[node]; src != nil && !clocks[src.clock] {
			// Those read to their end are no part of a checkpoint.
			clocks[src.clock] = true
			_, done := src.clock.states()
			p.Splits, p.SplitsDone, latest = p.Splits+done, p.SplitsDone+done, max(latest, src.clock.last())
		}
		books := c.got.books[node]
		count := func(r op.DropReason) int64 { return books["dropped: "+r.String()] }
		p.Late += count(op.DropLate)
		by := lateBy(books)
		lates.Add(&by)
		p.Rejected += count(op.DropDeadLetter)
		p.Duplicates += count(op.DropDuplicate)
		p.Stale += count(op.DropStale)
		p.Conflicts += count(op.DropConflict)
		p.Expired += count(op.DropExpired)
	}
	if lates.Count() > 0 {
		p.LateBy, p.LateByMs = lates.Rows[:], lates.SumMs
	}
	p.Rows = c.got.books[sh.node.ID][bookIn]
	p.Missed = j.missed.list(sh.feeds)
	if latest < vec.MaxTime { // also of splits that have ended
		p.MaxTime = max(p.MaxTime, latest)
	}
	if was := sh.lastProgress(); was != nil {
		p.Watermark, p.MaxTime = max(p.Watermark, was.Watermark), max(p.MaxTime, was.MaxTime)
	}
	if sh.producers != nil {
		sh.producers.tell(p, p.MaxTime, zoneOf(t))
	}
	return p
}

// zoneOf is where the windows of t are aligned, nil where their times are instants.
func zoneOf(t *connector.Table) *time.Location {
	if t.Results.Zone == "" {
		return nil
	}
	zone, _ := window.LoadZone(t.Results.Zone) // the windows are aligned in it: it was loaded before
	return zone
}

// addSplits counts splits by what they are at p.Watermark.
func addSplits(p *connector.Progress, splits []checkpoint.Split) {
	for _, s := range splits {
		p.MaxTime = max(p.MaxTime, s.Watermark)
		if s.Ended {
			continue
		}
		p.Splits++
		switch {
		case s.Idle:
			p.SplitsIdle++
			if len(p.IdleSplits) < maxIdleSplits {
				p.IdleSplits = append(p.IdleSplits, s.ID)
			}
		case s.Watermark >= p.Watermark:
			p.SplitsPassed++
		}
	}
}

// lastProgress is the newest that was put together, also before the restart that the job went on from.
func (s *sinkShared) lastProgress() *connector.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// Progress returns, by table, how far results were at the newest checkpoint whose rows are visible.
func (j *Job) Progress() map[string]connector.Progress {
	out := map[string]connector.Progress{}
	for _, s := range j.sinks {
		s.mu.Lock()
		if s.shown != nil {
			out[s.shown.Table] = *s.shown
		}
		s.mu.Unlock()
	}
	return out
}

// encodeProgress and decodeProgress are its form in a manifest.
func encodeProgress(p *connector.Progress) json.RawMessage {
	if p == nil {
		return nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("BUG: progress: " + err.Error())
	}
	return b
}

func decodeProgress(b json.RawMessage) (*connector.Progress, error) {
	if len(b) == 0 {
		return nil, nil
	}
	p := &connector.Progress{}
	return p, json.Unmarshal(b, p)
}
