package metrics_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/metrics"
)

// get asks a server for a page.
func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %v: %s", url, r.Status, err, body)
	}
	return string(body)
}

// value returns the sample of a metric whose labels contain all of want.
func value(t *testing.T, text, name string, want ...string) float64 {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`\{([^\n]*)\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		ok := true
		for _, w := range want {
			ok = ok && strings.Contains(m[1], w)
		}
		if v, err := strconv.ParseFloat(m[2], 64); ok && err == nil {
			return v
		}
	}
	t.Errorf("there is no %s with %v", name, want)
	return 0
}

// TestRunningJob looks at a real job, of two subtasks.
func TestRunningJob(t *testing.T) {
	s := metrics.NewServer()
	srv := httptest.NewServer(s.Handler("test", true))
	defer srv.Close()
	look := func() metrics.JobStatus {
		var out metrics.Status
		if err := json.Unmarshal([]byte(get(t, srv.URL+"/status")), &out); err != nil {
			t.Error(err)
		}
		if len(out.Jobs) != 1 {
			t.Errorf("%d jobs are shown", len(out.Jobs))
			return metrics.JobStatus{}
		}
		return out.Jobs[0]
	}
	e := engine.New(engine.Options{Dir: t.TempDir(), Seed: 3})
	err := e.Script(t.Context(), "flow.sql", `
		SET 'execution.checkpointing.interval' = '50 ms';
		SET 'parallelism.default' = '2';
		CREATE TABLE bids (item INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen',
		  'rows-per-second' = '20000', 'fields.item.min' = '1', 'fields.item.max' = '50');
		CREATE TABLE best (s TIMESTAMP(3), item INT, n BIGINT) WITH ('connector' = 'blackhole');
		INSERT INTO best SELECT window_start, item, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY))
		  GROUP BY window_start, window_end, item;`,
		engine.Handler{JobStarted: func(r *engine.Run) {
			s.Add(r.Name, r.Began, r.Supervisor)
			go func() {
				defer r.Stop()
				var j metrics.JobStatus
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					s.Sample()
					if j = look(); j.Checkpoints != nil && j.Checkpoints.Completed > 1 && j.Rows.In > 2000 {
						break
					}
				}
				if j.State != "running" || j.Watermark == nil || len(j.Splits) == 0 || j.Lineage == "" || j.StateBytes == 0 ||
					j.Checkpoints.Last == nil || j.Checkpoints.Last.Requests == 0 || len(j.Tasks) < 2 || len(j.Tasks[0].Subtasks) != 2 {
					t.Errorf("the job shows %+v", j)
				}
				text := get(t, srv.URL+"/metrics")
				in := value(t, text, "flink_taskmanager_job_task_operator_numRecordsIn", "Source(bids)", `subtask_index="0"`) +
					value(t, text, "flink_taskmanager_job_task_operator_numRecordsIn", "Source(bids)", `subtask_index="1"`)
				if in < 2000 {
					t.Errorf("%f rows came in", in)
				}
				if n := value(t, text, "flink_jobmanager_job_numberOfCompletedCheckpoints"); n < 2 {
					t.Errorf("%f checkpoints are completed", n)
				}
				if wm := value(t, text, "flink_taskmanager_job_task_operator_currentInputWatermark", "TumbleAggregate"); wm < 1e12 {
					t.Errorf("the aggregation's watermark is %f", wm)
				}
				if n := value(t, text, "tidemark_state_entries", "TumbleAggregate", `subtask_index="0"`) +
					value(t, text, "tidemark_state_entries", "TumbleAggregate", `subtask_index="1"`); n < 10 {
					t.Errorf("%f entries are kept", n)
				}
				if n := value(t, text, "tidemark_late_seconds_count", "TumbleAggregate"); n != 0 {
					t.Errorf("%f rows were late", n)
				}
				var saved []metrics.Saved
				res, err := http.Post(srv.URL+"/savepoint", "", nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if err := json.NewDecoder(res.Body).Decode(&saved); err != nil || len(saved) != 1 || saved[0].Error != "" {
					t.Errorf("%+v: %v", saved, err)
					return
				}
				sp, err := e.OpenSavepoint(context.Background(), saved[0].Savepoint)
				if err != nil {
					t.Error(err)
					return
				}
				sp.Close()
				if j := look(); j.Checkpoints.LastSavepoint != saved[0].Savepoint {
					t.Errorf("the last savepoint is shown as %q", j.Checkpoints.LastSavepoint)
				}
			}()
		}})
	if err != nil {
		t.Fatal(err)
	}
	if j := look(); j.State != "ended" {
		t.Errorf("in the end it is %s", j.State)
	}
}
