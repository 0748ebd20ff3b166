package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// scripted is a job that says what a test wants it to.
type scripted struct {
	status      job.Status
	checkpoints job.CheckpointStatus
	saves       bool
	restarts    int
	failure     error
	savepoint   func() (string, error)
	done        chan struct{}
}

func (s *scripted) Status() job.Status                        { return s.status }
func (s *scripted) Checkpoints() (job.CheckpointStatus, bool) { return s.checkpoints, s.saves }
func (s *scripted) Restarts() (int, error)                    { return s.restarts, s.failure }
func (s *scripted) Savepoint(context.Context) (string, error) { return s.savepoint() }
func (s *scripted) Done() <-chan struct{}                     { return s.done }
func (s *scripted) Wait() (*job.Report, error)                { return nil, s.failure }
func (s *scripted) Bounded() bool                             { return false }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// flow is a source in one task, which feeds an aggregation and a sink in another, each of two
// subtasks.
func flow() *scripted {
	src := &plan.Node{ID: 0, Label: "Source(bids)", Op: &plan.Source{}}
	agg := &plan.Node{ID: 1, Label: "Aggregate \"x\"", Op: &plan.GroupAgg{}, Inputs: []plan.Edge{{From: 0}}, StateGrowth: "one entry a key"}
	sink := &plan.Node{ID: 2, Label: "Sink(out)", Op: &plan.Sink{}, Inputs: []plan.Edge{{From: 1}}}
	two := func(in, out int64) []job.SubtaskBooks {
		return []job.SubtaskBooks{{RowsIn: in, RowsOut: out, Watermark: start.UnixMilli(), StateBytes: 7}, {RowsIn: 1, RowsOut: 1, Watermark: vec.MinTime}}
	}
	wm := start.Add(-3 * time.Second).UnixMilli()
	var late [op.DropReasons]int64
	late[op.DropLate] = 4
	return &scripted{saves: true, done: make(chan struct{}), status: job.Status{Elapsed: time.Minute, RowsRead: 100, RowsOut: 60, Late: 4, Dead: 2,
		Timed: true, Watermark: wm, Lineage: "3", Splits: []job.SplitStatus{{Table: "bids", Split: "bids-0", Watermark: wm}, {Table: "bids", Split: "bids-1",
			Watermark: vec.MinTime, Idle: true}}, SplitsDone: 5,
		Nodes: []job.NodeBooks{{Node: src, RowsIn: 101, RowsOut: 101, Watermark: wm, Subtasks: two(100, 100)},
			{Node: agg, RowsIn: 101, RowsOut: 61, Drops: late, Watermark: vec.MinTime, Subtasks: two(100, 60)}, {Node: sink, RowsIn: 61, Watermark: vec.MaxTime, Subtasks: two(60, 0)}},
		Sources: []job.SourceStatus{{Node: src, Table: "bids", Bytes: 5000, Lag: 1000, Unit: "records"}},
		Tasks: []job.TaskStatus{{Nodes: []*plan.Node{src}, Busy: make([]time.Duration, 2), Waited: make([]time.Duration, 2), Queued: make([]int64, 2), Ended: make([]bool, 2)},
			{Nodes: []*plan.Node{agg, sink}, Busy: make([]time.Duration, 2), Waited: make([]time.Duration, 2), Queued: []int64{9, 0}, Ended: make([]bool, 2)}}},
		checkpoints: job.CheckpointStatus{Completed: 12, Failed: 1, Last: 13, LastTook: 40 * time.Millisecond, LastPause: 2 * time.Millisecond,
			LastBytes: 2048, LastRequests: 1, LastAt: start.Add(-4 * time.Second), LastError: "the disk is full"}}
}

// later moves a job on by d.
func later(j *scripted, d time.Duration, rows int64) {
	s := j.status
	s.Elapsed += d
	s.RowsRead += rows
	s.Nodes = slices.Clone(s.Nodes)
	s.Nodes[0].Subtasks = slices.Clone(s.Nodes[0].Subtasks)
	s.Nodes[0].Subtasks[0].RowsIn += rows
	s.Sources = slices.Clone(s.Sources)
	s.Sources[0].Lag -= rows / 2
	s.Tasks = slices.Clone(s.Tasks)
	s.Tasks[0].Busy = []time.Duration{s.Tasks[0].Busy[0] + d, s.Tasks[0].Busy[1] + d/2}
	s.Tasks[1].Busy = []time.Duration{s.Tasks[1].Busy[0] + d/4, 0}
	s.Tasks[0].Waited = []time.Duration{s.Tasks[0].Waited[0] + d/4, s.Tasks[0].Waited[1]}
	j.status = s
}

func TestStatus_RatesSharesAndTrends(t *testing.T) {
	now := start
	s := NewServer()
	s.now = func() time.Time { return now }
	j := flow()
	s.Add("flow", "starts for the first time", j)
	for range 10 {
		now = now.Add(time.Second)
		later(j, time.Second, 20)
		s.Sample()
	}
	got := s.Look("v1").Jobs[0]
	if got.Rows.In != 300 || got.Rows.InPerSecond != 20 || got.State != "running" || got.Lineage != "3" {
		t.Errorf("rows %+v, state %s, lineage %s", got.Rows, got.State, got.Lineage)
	}
	if l := got.Lag[0]; l.Table != "bids" || l.Value != 900 || l.Trend != "shrinking" || l.PerSecond != -10 || *l.CaughtUpInSeconds != 90 {
		t.Errorf("lag in records is %+v", l)
	}
	if l := got.Lag[1]; l.Unit != "seconds" || l.Value != 13 || l.Trend != "growing" || l.PerSecond != 1 {
		t.Errorf("lag in time is %+v", l)
	}
	// The first waited for room for a quarter of the time.
	if a, b := got.Tasks[0].Subtasks[0], got.Tasks[0].Subtasks[1]; a.Busy != 0.75 || a.Backpressured != 0.25 || b.Backpressured != 0 || b.Busy != 0.5 || b.Idle != 0.5 {
		t.Errorf("the source's subtasks: %+v, %+v", a, b)
	}
	if a := got.Tasks[1].Subtasks[0]; a.Busy != 0.25 || a.Backpressured != 0 || a.QueuedBytes != 9 {
		t.Errorf("the aggregation's first subtask: %+v", a)
	}
	c := got.Checkpoints
	if c.Completed != 12 || c.Failed != 1 || c.Last.ID != 13 || c.Last.AgeSeconds != 14 || c.Last.PauseMs != 2 || c.LastError != "the disk is full" {
		t.Errorf("checkpoints %+v %+v", c, c.Last)
	}
	if o := got.Operators[1]; o.Dropped["late"] != 4 || o.Watermark != nil {
		t.Errorf("operator %+v", o)
	}

	// It fails and starts again: nothing falls below what it was, and no rate is made of two starts.
	j.status.Ended, j.restarts, j.failure = true, 1, errors.New("the broker is away")
	if got := s.Look("v1").Jobs[0]; got.State != "restarting" || got.Restarts.LastFailure != "the broker is away" || got.Rows.InPerSecond != 0 {
		t.Errorf("after a failure: %+v", got)
	}
	j.status.Ended, j.status.Elapsed, j.status.RowsRead = false, 0, 250
	now = now.Add(time.Second)
	s.Sample()
	j.checkpoints.Completed += 2
	now = now.Add(time.Second)
	j.status.Elapsed, j.status.RowsRead = time.Second, 260
	if got := s.Look("v1").Jobs[0]; got.State != "running" || got.Checkpoints.Completed != 14 || got.Checkpoints.Failed != 1 || got.Rows.InPerSecond != 10 {
		t.Errorf("after a restart: %s, %+v, %+v", got.State, got.Checkpoints, got.Rows)
	}
	close(j.done)
	if got := s.Look("v1").Jobs[0]; got.State != "failed" {
		t.Errorf("after the end it is %s", got.State)
	}
}

// TestLateByOperator serves by how much rows were late for the windows of an operator.
func TestLateByOperator(t *testing.T) {
	s := NewServer()
	s.now = func() time.Time { return start }
	j := flow()
	j.status.Nodes[1].Node.Op = &plan.WindowAgg{}
	j.status.Nodes[1].LateBy = op.LateBy{Rows: [8]int64{3, 0, 2, 0, 0, 0, 0, 1}, SumMs: 90_123_000}
	s.Add("flow", "", j)
	_, text := ask(t, s.Handler("v1", true), "GET", "/metrics")
	labels := `job_name="flow",operator_id="1",operator_name="Aggregate \"x\""`
	for _, want := range []string{`tidemark_late_seconds_bucket{` + labels + `,le="1"} 3`, `tidemark_late_seconds_bucket{` + labels + `,le="60"} 5`,
		`tidemark_late_seconds_bucket{` + labels + `,le="+Inf"} 6`, `tidemark_late_seconds_sum{` + labels + `} 90123`, `tidemark_late_seconds_count{` + labels + `} 6`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(text, `tidemark_late_seconds_count{job_name="flow",operator_id="0"`) {
		t.Error("a source has no windows")
	}
}

// ask returns the answer to a request.
func ask(t *testing.T, h http.Handler, method, target string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestMetrics_AreWhatPrometheusReads(t *testing.T) {
	now := start
	s := NewServer()
	s.now = func() time.Time { return now }
	s.Add("flow", "", flow())
	second := flow()
	second.saves = false
	s.Add("other", "", second)
	code, text := ask(t, s.Handler("v1", true), "GET", "/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	for _, want := range []string{
		`flink_jobmanager_job_numberOfCompletedCheckpoints{job_name="flow"} 12`,
		`flink_jobmanager_job_numberOfFailedCheckpoints{job_name="flow"} 1`,
		`flink_jobmanager_job_lastCheckpointDuration{job_name="flow"} 40`,
		`flink_jobmanager_job_lastCheckpointSize{job_name="flow"} 2048`,
		`flink_jobmanager_job_numRestarts{job_name="other"} 0`,
		`flink_taskmanager_job_task_operator_numRecordsIn{job_name="flow",operator_id="1",operator_name="Aggregate \"x\"",subtask_index="0"} 100`,
		`flink_taskmanager_job_task_operator_numLateRecordsDropped{job_name="flow",operator_id="1",operator_name="Aggregate \"x\"",subtask_index="0"} 0`,
		`flink_taskmanager_job_task_operator_currentInputWatermark{job_name="flow",operator_id="2",operator_name="Sink(out)",subtask_index="1"} -9.223372036854776e+18`,
		`flink_taskmanager_job_task_operator_pendingRecords{job_name="flow",operator_id="0",operator_name="Source(bids)"} 1000`,
		`flink_taskmanager_job_task_idleTimeMsPerSecond{job_name="flow",subtask_index="1",task_id="1",task_name="Aggregate \"x\" -> Sink(out)"} 1000`,
		`tidemark_rows_dropped_total{job_name="flow",operator_id="1",operator_name="Aggregate \"x\"",reason="late"} 4`,
		`tidemark_checkpoint_pause_seconds{job_name="flow"} 0.002`,
		`tidemark_split_idle{job_name="flow",split="bids-1",table="bids"} 1`,
		`tidemark_dead_letters_total{job_name="flow"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no line %s", want)
		}
	}
	if strings.Contains(text, `Checkpoints{job_name="other"}`) {
		t.Error("a job without checkpoints counts them")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "flink_") { // those names are Flink's
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestMetrics_NamesAreFixed: dashboards hang on them.
func TestMetrics_NamesAreFixed(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	s := NewServer()
	s.Add("flow", "", flow())
	r.MustRegister(collector{s})
	got, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range got {
		names[m.GetName()] = true
	}
	for _, scope := range []struct{ prefix, names string }{
		{"flink_jobmanager_job_", "uptime numRestarts numberOfCompletedCheckpoints numberOfFailedCheckpoints lastCheckpointDuration lastCheckpointSize lastCompletedCheckpointId"},
		{"flink_taskmanager_job_task_", "busyTimeMsPerSecond backPressuredTimeMsPerSecond idleTimeMsPerSecond"},
		{"flink_taskmanager_job_task_operator_", "numRecordsIn numRecordsOut numRecordsInPerSecond numRecordsOutPerSecond numRecordsSend numLateRecordsDropped " +
			"currentInputWatermark currentOutputWatermark watermarkLag pendingRecords numBytesIn numRecordsInErrors"},
		{"tidemark_", "job_running checkpoint_pause_seconds checkpoint_requests checkpoint_age_seconds state_bytes state_entries rows_dropped_total " +
			"dead_letters_total queued_bytes split_watermark_seconds split_idle splits_done_total"},
	} {
		for n := range strings.FieldsSeq(scope.names) {
			if !names[scope.prefix+n] {
				t.Errorf("%s is missing", scope.prefix+n)
			}
			delete(names, scope.prefix+n)
		}
	}
	if len(names) > 0 {
		t.Errorf("not listed here: %v", slices.Sorted(maps.Keys(names)))
	}
}

func TestSavepoint(t *testing.T) {
	s := NewServer()
	h := s.Handler("v1", true)
	a, b := flow(), flow()
	a.savepoint = func() (string, error) { return "/savepoints/a", nil }
	b.savepoint = func() (string, error) { return "", errors.New("the job takes no checkpoints") }
	if code, body := ask(t, h, "POST", "/savepoint"); code != http.StatusNotFound {
		t.Errorf("without a job: %d %s", code, body)
	}
	s.Add("a", "", a)
	s.Add("b", "", b)
	for _, c := range []struct {
		method, target string
		header         []string
		code           int
		want           []Saved
	}{
		{"POST", "/savepoint?job=a", nil, 200, []Saved{{Job: "a", Savepoint: "/savepoints/a"}}},
		{"POST", "/savepoint", nil, 409, []Saved{{Job: "a", Savepoint: "/savepoints/a"}, {Job: "b", Error: "the job takes no checkpoints"}}},
		{"POST", "/savepoint?job=c", nil, 404, []Saved{{Error: `there is no job called "c"`}}},
		{"GET", "/savepoint", nil, 405, nil},
		{"POST", "/savepoint", []string{"Origin", "http://elsewhere.example"}, 403, nil},
		{"GET", "/status", []string{"Host", "elsewhere.example:8080"}, 403, nil},
		{"GET", "/status", []string{"Host", "localhost:8080"}, 200, nil},
		{"GET", "/", nil, 200, nil},
		{"GET", "/nothing", nil, 404, nil},
	} {
		code, body := ask(t, h, c.method, c.target, c.header...)
		if code != c.code {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.target, c.header, code, c.code, body)
		}
		if c.want == nil {
			continue
		}
		var got []Saved
		if err := json.Unmarshal([]byte(body), &got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v (%v)", c.method, c.target, got, c.want, err)
		}
	}
}

func TestListen(t *testing.T) {
	for _, bad := range []string{"8080", "", "here"} {
		if l, err := Listen(bad); err == nil {
			l.Close()
			t.Errorf("%q is taken for an address", bad)
		}
	}
	l, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !Local(l.Addr()) {
		t.Errorf(":0 listens on %s", l.Addr())
	}
}
