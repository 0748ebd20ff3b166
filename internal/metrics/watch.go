// Package metrics shows running jobs to machines: /metrics in the text format of Prometheus, under
// the names that Flink's reporter gives them, /status as JSON, and POST /savepoint.
//
// Nothing is counted for its sake. What is served is read from the job's own counters when it is
// asked for; rates and trends come from samples of these that are taken once a second. The package
// starts no goroutine: whoever serves its Handler calls Sample.
package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/vec"
)

// Job is what a job is watched through; *job.Supervisor is one.
type Job interface {
	Status() job.Status
	Checkpoints() (job.CheckpointStatus, bool)
	// Restarts is how often the job was started again, and why the last time.
	Restarts() (int, error)
	Savepoint(ctx context.Context) (string, error)
	Done() <-chan struct{}
	Wait() (*job.Report, error)
	Bounded() bool
}

const (
	// SampleEvery is how often Sample is to be called.
	SampleEvery = time.Second
	// rateOver is the time that rates and shares are averaged over, as with Flink's; trendOver is
	// that of trends.
	rateOver  = 5 * time.Second
	trendOver = time.Minute
)

// Server shows the jobs that it was given. Its methods may be called from several goroutines.
type Server struct {
	now     func() time.Time
	mu      sync.Mutex
	jobs    []*watched        // guarded by mu
	results []*watchedResults // likewise
}

// NewServer returns a server without jobs.
func NewServer() *Server { return &Server{now: time.Now} }

// Add watches a job, also after its end. began says how it began, or is "".
func (s *Server) Add(name, began string, j Job) {
	w := &watched{name: name, began: began, job: j, added: s.now()}
	w.sample(s.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, w)
}

// Sample notes where the jobs stand.
func (s *Server) Sample() {
	now := s.now()
	for _, w := range s.list() {
		w.sample(now)
	}
	s.sampleResults(now)
}

func (s *Server) list() []*watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*watched(nil), s.jobs...)
}

// watched is one job with its samples.
type watched struct {
	name, began string
	job         Job
	added       time.Time

	mu      sync.Mutex
	samples []sample // the oldest first; all of the same start of the job; guarded by mu
}

// sample is where a job stood.
type sample struct {
	at     time.Time
	status job.Status
}

func (w *watched) ended() bool {
	select {
	case <-w.job.Done():
		return true
	default:
		return false
	}
}

func (w *watched) sample(now time.Time) {
	if w.ended() {
		return
	}
	s := sample{now, w.job.Status()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarted(s.status)
	w.samples = append(w.samples, s)
	for len(w.samples) > 1 && now.Sub(w.samples[1].at) >= trendOver {
		w.samples = w.samples[1:]
	}
}

// restarted forgets the samples of the start before.
func (w *watched) restarted(now job.Status) {
	if n := len(w.samples); n > 0 && now.Elapsed < w.samples[n-1].status.Elapsed {
		w.samples = w.samples[:0]
	}
}

// look is one job as it is now, with what it was a while ago.
type look struct {
	w           *watched
	at          time.Time
	now         job.Status
	checkpoints job.CheckpointStatus
	saves       bool
	restarts    int
	failure     error // the last one; that of the end where there is one
	ended       bool
	rate, trend sample // compared with; their at is zero where there is nothing to compare with
}

func (s *Server) look() []look {
	var out []look
	for _, w := range s.list() {
		l := look{w: w, at: s.now(), ended: w.ended(), now: w.job.Status()}
		l.restarts, l.failure = w.job.Restarts()
		if l.ended {
			if _, err := w.job.Wait(); err != nil {
				l.failure = err
			}
		}
		l.checkpoints, l.saves = w.job.Checkpoints()
		w.mu.Lock()
		w.restarted(l.now)
		l.rate, l.trend = since(w.samples, l.at, rateOver), since(w.samples, l.at, trendOver)
		w.mu.Unlock()
		out = append(out, l)
	}
	return out
}

// since returns the newest sample that is at least d old, else the oldest.
func since(list []sample, now time.Time, d time.Duration) sample {
	for i := len(list) - 1; i >= 0; i-- {
		if i == 0 || now.Sub(list[i].at) >= d {
			return list[i]
		}
	}
	return sample{}
}

// seconds is the time since a sample, 0 where there is none or the job has ended.
func (l *look) seconds(s sample) float64 {
	if s.at.IsZero() || l.ended || l.now.Ended {
		return 0
	}
	return l.at.Sub(s.at).Seconds()
}

// perSecond is the rate of a counter that was was.
func (l *look) perSecond(now, was int64) float64 {
	if d := l.seconds(l.rate); d > 0 {
		return max(0, float64(now-was)/d)
	}
	return 0
}

// share is what a subtask did of late: shares of the time, which add up to 1.
type share struct{ busy, backpressured, idle float64 }

// shares says what the subtasks of task t did: with Flink, who waits for room in the channels to
// others is back-pressured, and who is neither that nor idle is busy.
func (l *look) shares(t int) []share {
	task := l.now.Tasks[t]
	out := make([]share, len(task.Busy))
	d := l.seconds(l.rate)
	var was job.TaskStatus
	if t < len(l.rate.status.Tasks) {
		was = l.rate.status.Tasks[t]
	}
	for i := range out {
		out[i].idle = 1
		if d == 0 || i >= len(was.Busy) {
			continue
		}
		worked := min(1, max(0, (task.Busy[i]-was.Busy[i]).Seconds()/d))
		waited := min(worked, max(0, (task.Waited[i]-was.Waited[i]).Seconds()/d))
		out[i] = share{busy: worked - waited, backpressured: waited, idle: 1 - worked}
	}
	return out
}

// inputWatermark is the lowest watermark that the nodes before node n have passed on.
func inputWatermark(s *job.Status, n int) int64 {
	wm := vec.MaxTime
	for _, e := range s.Nodes[n].Node.Inputs {
		wm = min(wm, s.Nodes[e.From].Watermark)
	}
	return wm
}

// known reports whether a watermark is a time.
func known(wm int64) bool { return wm != vec.MinTime && wm != vec.MaxTime }

// reasons are the reasons for which a node has dropped rows.
func reasons(b *job.NodeBooks, f func(why op.DropReason, n int64)) {
	for r, n := range b.Drops {
		if n != 0 {
			f(op.DropReason(r), n)
		}
	}
}
