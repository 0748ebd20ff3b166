package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// NodeBooks is the account of one node over all its subtasks.
type NodeBooks struct {
	Node            *plan.Node
	RowsIn, RowsOut int64
	Used            int64 // of aggregations: rows that went into the state
	LateOut         int64 // rows given to a Late node
	LateBy          op.LateBy
	Drops           [op.DropReasons]int64
	StateBytes      int64
	StateEntries    int64
	Watermark       int64 // the lowest of the subtasks
	// Subtasks is the books of each subtask.
	Subtasks []SubtaskBooks
}

// SubtaskBooks is a subtask's part of a node's account.
type SubtaskBooks struct {
	RowsIn, RowsOut, Late    int64
	StateBytes, StateEntries int64
	Watermark                int64 // the latest passed on
}

// Dropped is the rows that were not used.
func (b *NodeBooks) Dropped() int64 {
	var n int64
	for _, d := range b.Drops {
		n += d
	}
	return n
}

// Status is a look at a running job.
type Status struct {
	Elapsed  time.Duration
	Nodes    []NodeBooks
	RowsRead int64 // by all sources
	Bytes    int64
	RowsOut  int64 // into all sinks
	Late     int64
	Dead     int64
	// DeadUnkept says that dead letters were counted only: see Options.NoDeadLetters.
	DeadUnkept bool
	Skipped    int64 // bad records that the format was told to ignore
	// Watermark is the lowest of the sources' clocks; vec.MinTime before the first,
	// vec.MaxTime at the end or where no source has event time.
	Watermark int64
	Timed     bool // some source has event time
	Splits    []SplitStatus
	// Lag is what the open splits hold that was not read yet, by table, in the units of the
	// source; tables that do not know are left out.
	Lag map[string]int64
	// Queued is the bytes in channels between subtasks, Blocked the time that senders waited for
	// room, Busy the time that subtasks worked or waited so, all summed over subtasks.
	Queued        int64
	Blocked, Busy time.Duration
	// SplitsDone is the number of splits read to their end, which Splits leaves out.
	SplitsDone int
	StateBytes int64
	// Sources and Tasks are what is summed above, one by one.
	Sources []SourceStatus
	Tasks   []TaskStatus
	// Lineage is that of the checkpoints, "" where none are taken.
	Lineage string
	// Ended says that the job has ended; one that failed may be about to start again.
	Ended bool
}

// SourceStatus is a look at one source.
type SourceStatus struct {
	Node    *plan.Node
	Table   string
	Bytes   int64
	Skipped int64
	// Lag is what the open splits hold that was not read yet, -1 if unknown, and Unit what it
	// counts: records or bytes.
	Lag  int64
	Unit string
}

// TaskStatus is a look at nodes that run chained in the same goroutines.
type TaskStatus struct {
	Nodes []*plan.Node
	// Busy is, by subtask, the time that it worked or waited for room in a channel to another, Waited
	// the part of it that it waited, Queued the bytes in the channels to it.
	Busy, Waited []time.Duration
	Queued       []int64
	Ended        []bool
}

// SplitStatus is a look at one split that has not ended.
type SplitStatus struct {
	Table, Split string
	Watermark    int64
	Idle         bool
}

// Report is the closing account of a job.
type Report struct {
	Status
	// Stopped says that the job ended before its input did.
	Stopped bool
	// Read says, by node of a source, what was read of its splits.
	Read map[int][]SplitRead
	// Unbalanced lists the nodes whose books do not balance; always empty unless there is a bug.
	Unbalanced []string
}

// SplitRead is what this run read of a split: from a position to the one behind the last record.
type SplitRead struct {
	Split    string
	From, To int64
}

// read collects what was read of the splits, by their names. No subtask may be running.
func (j *Job) read() map[int][]SplitRead {
	out := map[int][]SplitRead{}
	for id, s := range j.sources {
		var all []SplitRead
		for _, r := range s.runs {
			for split, at := range r.positions() {
				all = append(all, SplitRead{Split: split, From: r.begins[split], To: at.Offset})
			}
		}
		slices.SortFunc(all, func(a, b SplitRead) int { return strings.Compare(a.Split, b.Split) })
		out[id] = all
	}
	return out
}

// Status returns the books as they stand.
func (j *Job) Status() Status {
	s := Status{Elapsed: time.Since(j.start), Watermark: vec.MaxTime, DeadUnkept: j.o.NoDeadLetters}
	for _, n := range j.p.Nodes {
		b := NodeBooks{Node: n, Watermark: vec.MaxTime}
		for _, c := range j.books[n.ID] {
			b.RowsIn += c.RowsIn.Load()
			b.RowsOut += c.RowsOut.Load()
			b.Used += c.Used.Load()
			b.LateOut += c.LateOut.Load()
			by := c.Late.Load()
			b.LateBy.Add(&by)
			for r := range b.Drops {
				b.Drops[r] += c.Drops[r].Load()
			}
			b.StateBytes += c.StateBytes.Load()
			b.StateEntries += c.StateEntries.Load()
			b.Watermark = min(b.Watermark, c.Watermark.Load())
			b.Subtasks = append(b.Subtasks, SubtaskBooks{RowsIn: c.RowsIn.Load(), RowsOut: c.RowsOut.Load(),
				Late: c.Drops[op.DropLate].Load(), StateBytes: c.StateBytes.Load(), StateEntries: c.StateEntries.Load(),
				Watermark: c.Watermark.Load()})
		}
		s.Nodes = append(s.Nodes, b)
		s.Late += b.Drops[op.DropLate]
		s.Dead += b.Drops[op.DropDeadLetter]
		s.StateBytes += b.StateBytes
		switch n.Op.(type) {
		case *plan.Source, *plan.Values:
			s.RowsRead += b.RowsIn
		case *plan.Sink:
			s.RowsOut += b.RowsIn
		}
		src := j.sources[n.ID]
		if src == nil {
			continue
		}
		s.Bytes += src.bytesIn.Load()
		s.addSource(n, src)
		s.Skipped += src.skipped.Load()
		if src.src.RowTime < 0 {
			continue
		}
		s.Timed = true
		s.Watermark = min(s.Watermark, src.clock.now())
		open, done := src.clock.states()
		s.SplitsDone += done
		for _, sp := range open {
			s.Splits = append(s.Splits, SplitStatus{Table: src.table.Name, Split: sp.ID, Watermark: sp.WM,
				Idle: sp.Status == splitIdle})
		}
	}
	for _, t := range j.tasks {
		s.addTask(t)
	}
	if j.checkpoints != nil {
		s.Lineage = j.checkpoints.o.Lineage
	}
	select {
	case <-j.done:
		s.Ended = true
	default:
	}
	return s
}

// addSource adds what is known of a source. Its lag is known when all of its subtasks know theirs.
func (s *Status) addSource(n *plan.Node, src *sourceShared) {
	x := SourceStatus{Node: n, Table: src.table.Name, Bytes: src.bytesIn.Load(), Skipped: src.skipped.Load(), Unit: "records"}
	if f := connector.Lookup(src.table.Connector); f != nil && f.LagInBytes {
		x.Unit = "bytes"
	}
	for _, r := range src.runs {
		l := r.lag.Load()
		if l < 0 {
			x.Lag = -1
			break
		}
		x.Lag += l
	}
	s.Sources = append(s.Sources, x)
	if x.Lag < 0 {
		return
	}
	if s.Lag == nil {
		s.Lag = map[string]int64{}
	}
	s.Lag[x.Table] += x.Lag
}

func (s *Status) addTask(t *task) {
	x := TaskStatus{Nodes: t.nodes}
	for _, st := range t.subtasks {
		queued, busy, waited := st.in.bytesHeld(), st.busy.read(), st.waited.read()
		x.Queued, x.Busy, x.Waited = append(x.Queued, queued), append(x.Busy, busy), append(x.Waited, waited)
		x.Ended = append(x.Ended, st.ended.Load())
		s.Queued += queued
		s.Blocked += waited
		s.Busy += busy
	}
	s.Tasks = append(s.Tasks, x)
}

// account closes the books: what a node took in must be what the nodes before it gave out, and a
// source's rows must all have gone on or been dropped under a reason.
func (j *Job) account(stopped bool) *Report {
	r := &Report{Status: j.Status(), Stopped: stopped, Read: j.read()}
	if stopped || j.err != nil || j.checkpoints != nil && j.checkpoints.mixed() {
		return r
	}
	for _, b := range r.Nodes {
		n := b.Node
		if len(n.Inputs) == 0 {
			if b.RowsIn != b.RowsOut+b.Dropped() {
				r.Unbalanced = append(r.Unbalanced, fmt.Sprintf("%s read %d rows, passed on %d and dropped %d",
					n.Label, b.RowsIn, b.RowsOut, b.Dropped()))
			}
			continue
		}
		var in int64
		for _, e := range n.Inputs {
			if from := &r.Nodes[e.From]; e.Late {
				in += from.LateOut
			} else {
				in += from.RowsOut
			}
		}
		if in != b.RowsIn {
			r.Unbalanced = append(r.Unbalanced, fmt.Sprintf("%s took in %d rows of %d", n.Label, b.RowsIn, in))
		}
		switch n.Op.(type) {
		case *plan.GroupAgg, *plan.WindowAgg:
			if b.RowsIn != b.Used+b.Dropped() {
				r.Unbalanced = append(r.Unbalanced, fmt.Sprintf("%s took in %d rows, used %d and dropped %d",
					n.Label, b.RowsIn, b.Used, b.Dropped()))
			}
		}
		if _, ok := n.Op.(*plan.Calc); ok && b.RowsIn != b.RowsOut+b.Dropped() {
			r.Unbalanced = append(r.Unbalanced, fmt.Sprintf("%s took in %d rows, passed on %d and dropped %d",
				n.Label, b.RowsIn, b.RowsOut, b.Dropped()))
		}
	}
	return r
}

// time is the job's clock.
func (j *Job) time() time.Time {
	if j.o.Env.Now != nil {
		return j.o.Env.Now()
	}
	return time.Now()
}

func (j *Job) now() int64 { return j.time().UnixMilli() }

// openSink makes the sink of a table.
func openSink(t *connector.Table, c connector.SinkConfig) (connector.Sink, error) {
	f := connector.Lookup(t.Connector)
	if f == nil || f.NewSink == nil {
		return nil, fmt.Errorf("table %s: connector '%s' cannot be written", t.Name, t.Connector)
	}
	c.Table = t
	c.Options = option.Of(t.Options, f.Options, connector.CommonOptions)
	s, err := f.NewSink(c)
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", t.Name, err)
	}
	return s, nil
}

// Bounded reports whether the job ends by itself.
func (j *Job) Bounded() bool { return !j.unbounded() }
