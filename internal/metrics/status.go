package metrics

import (
	"fmt"
	"math"
	"time"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/job"
)

// Status is what /status shows.
type Status struct {
	Version string      `json:"version"`
	At      time.Time   `json:"at"`
	Jobs    []JobStatus `json:"jobs"`
}

// JobStatus is one job.
type JobStatus struct {
	Name string `json:"name"`
	// State is running, restarting, ended, failed.
	State string `json:"state"`
	// Began says how the job began, in words.
	Began   string `json:"began,omitempty"`
	Bounded bool   `json:"bounded"`
	// UptimeSeconds is the time since the last start.
	UptimeSeconds float64      `json:"uptimeSeconds"`
	Lineage       string       `json:"lineage,omitempty"`
	Rows          RowStatus    `json:"rows"`
	Checkpoints   *Checkpoints `json:"checkpoints,omitempty"`
	Restarts      Restarts     `json:"restarts"`
	Watermark     *time.Time   `json:"watermark,omitempty"`
	Lag           []Lag        `json:"lag,omitempty"`
	Splits        []Split      `json:"splits,omitempty"`
	SplitsDone    int          `json:"splitsDone,omitempty"`
	StateBytes    int64        `json:"stateBytes"`
	QueuedBytes   int64        `json:"queuedBytes"`
	Operators     []Operator   `json:"operators"`
	Tasks         []TaskStatus `json:"tasks"`
}

// RowStatus is the account of all rows.
type RowStatus struct {
	In             int64   `json:"in"`
	InPerSecond    float64 `json:"inPerSecond"`
	Out            int64   `json:"out"`
	OutPerSecond   float64 `json:"outPerSecond"`
	BytesIn        int64   `json:"bytesIn"`
	Late           int64   `json:"late"`
	DeadLetters    int64   `json:"deadLetters"`
	SkippedRecords int64   `json:"skippedRecords"`
}

// Checkpoints is what became of a job's checkpoints.
type Checkpoints struct {
	Completed     int64           `json:"completed"`
	Failed        int64           `json:"failed"`
	Last          *LastCheckpoint `json:"last,omitempty"`
	LastError     string          `json:"lastError,omitempty"`
	LastSavepoint string          `json:"lastSavepoint,omitempty"`
}

// LastCheckpoint is the newest one.
type LastCheckpoint struct {
	ID         int64     `json:"id"`
	At         time.Time `json:"at"`
	AgeSeconds float64   `json:"ageSeconds"`
	DurationMs float64   `json:"durationMs"`
	// PauseMs is how long rows stood still for it.
	PauseMs float64 `json:"pauseMs"`
	// Bytes and Requests are what went to the store.
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"`
}

// Restarts is how often a job was started again.
type Restarts struct {
	Count       int    `json:"count"`
	LastFailure string `json:"lastFailure,omitempty"`
}

// Lag is how far a job is behind: a table's unread rest, or event time behind the clock.
type Lag struct {
	// Table is that whose rest this is; Unit is records or bytes, or seconds for the time that the
	// watermark is behind the clock.
	Table string  `json:"table,omitempty"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	// Trend is growing, shrinking or steady over the last minute, PerSecond the change.
	Trend     string  `json:"trend"`
	PerSecond float64 `json:"perSecond"`
	// CaughtUpInSeconds is when it would be gone if it went on shrinking so.
	CaughtUpInSeconds *float64 `json:"caughtUpInSeconds,omitempty"`
}

// Split is a piece of a source that has not ended.
type Split struct {
	Table     string     `json:"table"`
	Split     string     `json:"split"`
	Watermark *time.Time `json:"watermark,omitempty"`
	Idle      bool       `json:"idle"`
}

// Operator is the books of one operator.
type Operator struct {
	ID           int              `json:"id"`
	Label        string           `json:"label"`
	RowsIn       int64            `json:"rowsIn"`
	RowsOut      int64            `json:"rowsOut"`
	Dropped      map[string]int64 `json:"dropped,omitempty"`
	StateBytes   int64            `json:"stateBytes,omitempty"`
	StateEntries int64            `json:"stateEntries,omitempty"`
	Watermark    *time.Time       `json:"watermark,omitempty"`
}

// TaskStatus is operators that share a goroutine, of which there is one a subtask.
type TaskStatus struct {
	Operators []int         `json:"operators"`
	Subtasks  []SubtaskTime `json:"subtasks"`
}

// SubtaskTime is what a subtask spends its time on, as shares that add up to 1.
type SubtaskTime struct {
	Busy          float64 `json:"busy"`
	Backpressured float64 `json:"backpressured"`
	Idle          float64 `json:"idle"`
	QueuedBytes   int64   `json:"queuedBytes"`
	Ended         bool    `json:"ended,omitempty"`
}

// Look returns what /status shows.
func (s *Server) Look(version string) Status {
	out := Status{Version: version, At: s.now().UTC(), Jobs: []JobStatus{}}
	for _, l := range s.look() {
		out.Jobs = append(out.Jobs, l.status())
	}
	return out
}

func (l *look) state() string {
	switch {
	case l.ended && l.failure != nil:
		return "failed"
	case l.ended:
		return "ended"
	case l.now.Ended:
		return "restarting"
	}
	return "running"
}

func (l *look) status() JobStatus {
	n, was := &l.now, &l.rate.status
	s := JobStatus{Name: l.w.name, State: l.state(), Began: l.w.began, Bounded: l.w.job.Bounded(), UptimeSeconds: round(n.Elapsed.Seconds()),
		Lineage: n.Lineage, StateBytes: n.StateBytes, QueuedBytes: n.Queued, SplitsDone: n.SplitsDone,
		Rows: RowStatus{In: n.RowsRead, InPerSecond: round(l.perSecond(n.RowsRead, was.RowsRead)),
			Out: n.RowsOut, OutPerSecond: round(l.perSecond(n.RowsOut, was.RowsOut)),
			BytesIn: n.Bytes, Late: n.Late, DeadLetters: n.Dead, SkippedRecords: n.Skipped},
		Restarts: Restarts{Count: l.restarts}, Lag: l.lags()}
	if l.failure != nil {
		s.Restarts.LastFailure = l.failure.Error()
	}
	if n.Timed {
		s.Watermark = timeOf(n.Watermark)
	}
	if l.saves {
		s.Checkpoints = l.saved()
	}
	for _, sp := range n.Splits {
		s.Splits = append(s.Splits, Split{sp.Table, sp.Split, timeOf(sp.Watermark), sp.Idle})
	}
	for i := range n.Nodes {
		b := &n.Nodes[i]
		o := Operator{ID: b.Node.ID, Label: b.Node.Label, RowsIn: b.RowsIn, RowsOut: b.RowsOut, StateBytes: b.StateBytes,
			StateEntries: b.StateEntries}
		if n.Timed {
			o.Watermark = timeOf(b.Watermark)
		}
		reasons(b, func(why op.DropReason, n int64) {
			if o.Dropped == nil {
				o.Dropped = map[string]int64{}
			}
			o.Dropped[why.String()] = n
		})
		s.Operators = append(s.Operators, o)
	}
	for t, x := range n.Tasks {
		s.Tasks = append(s.Tasks, l.task(t, x))
	}
	return s
}

func (l *look) task(t int, x job.TaskStatus) TaskStatus {
	var out TaskStatus
	for _, n := range x.Nodes {
		out.Operators = append(out.Operators, n.ID)
	}
	for i, sh := range l.shares(t) {
		out.Subtasks = append(out.Subtasks, SubtaskTime{Busy: round(sh.busy), Backpressured: round(sh.backpressured), Idle: round(sh.idle),
			QueuedBytes: x.Queued[i], Ended: x.Ended[i]})
	}
	return out
}

func (l *look) saved() *Checkpoints {
	c := l.checkpoints
	out := &Checkpoints{Completed: c.Completed, Failed: c.Failed, LastError: c.LastError, LastSavepoint: c.LastSavepoint}
	if c.Last > 0 {
		out.Last = &LastCheckpoint{ID: c.Last, At: c.LastAt.UTC(), AgeSeconds: round(l.at.Sub(c.LastAt).Seconds()),
			DurationMs: millis(c.LastTook), PauseMs: millis(c.LastPause), Bytes: c.LastBytes, Requests: c.LastRequests}
	}
	return out
}

// lags lists how far the job is behind: in records or bytes by table, then in time.
func (l *look) lags() []Lag {
	var out []Lag
	d := l.seconds(l.trend)
	for i, s := range l.now.Sources {
		if s.Lag < 0 {
			continue
		}
		x := Lag{Table: s.Table, Unit: s.Unit, Value: float64(s.Lag)}
		was := x.Value
		if i < len(l.trend.status.Sources) && l.trend.status.Sources[i].Lag >= 0 {
			was = float64(l.trend.status.Sources[i].Lag)
		}
		out = append(out, x.since(was, d))
	}
	if !l.now.Timed || !known(l.now.Watermark) {
		return out
	}
	behind := func(at time.Time, wm int64) float64 { return at.Sub(time.UnixMilli(wm)).Seconds() }
	x := Lag{Unit: "seconds", Value: behind(l.at, l.now.Watermark)}
	was := x.Value
	if known(l.trend.status.Watermark) && !l.trend.at.IsZero() {
		was = behind(l.trend.at, l.trend.status.Watermark)
	}
	return append(out, x.since(was, d))
}

// since adds how a lag has changed from was within d seconds. Less than a hundredth of the lag, and
// less than two units, is no change.
func (x Lag) since(was, d float64) Lag {
	change := x.Value - was
	x.Trend = "steady"
	if d > 0 && math.Abs(change) > max(2, was/100) {
		x.PerSecond = round(change / d)
		x.Trend = "growing"
		if change < 0 {
			x.Trend = "shrinking"
			left := round(x.Value / -(change / d))
			x.CaughtUpInSeconds = &left
		}
	}
	x.Value = round(x.Value)
	return x
}

// timeOf is a watermark as a time, nil where it is none.
func timeOf(wm int64) *time.Time {
	if !known(wm) {
		return nil
	}
	t := time.UnixMilli(wm).UTC()
	return &t
}

// round keeps three decimals.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func millis(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

// find returns the watched jobs called name, all where it is "".
func (s *Server) find(name string) ([]*watched, error) {
	var out []*watched
	for _, w := range s.list() {
		if name == "" && !w.ended() || name != "" && w.name == name {
			out = append(out, w)
		}
	}
	switch {
	case len(out) == 0 && name != "":
		return nil, fmt.Errorf("there is no job called %q", name)
	case len(out) == 0:
		return nil, fmt.Errorf("no job is running")
	}
	return out, nil
}
