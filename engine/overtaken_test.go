package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The connector 'remembering' knows the checkpoints that went in, of each lineage, as sinks with a progress table do.
// It counts rows.
var remembered struct {
	sync.Mutex
	rows int
	last map[string]int64
}

func init() {
	connector.Register(&connector.Factory{Name: "remembering",
		SinkChangelog: func(*connector.Table, option.Values) types.ChangelogMode { return types.InsertOnly },
		NewSink:       func(c connector.SinkConfig) (connector.Sink, error) { return &rememberingSink{c}, nil }})
}

type rememberingSink struct{ c connector.SinkConfig }

func (s *rememberingSink) NewWriter(context.Context, int, int) (connector.Writer, error) {
	return &rememberingWriter{Sealer: connector.Sealer{Segments: s.c.Segments}}, nil
}
func (s *rememberingSink) NewCommitter(context.Context) (connector.Committer, error) { return s, nil }
func (s *rememberingSink) Delivery() (connector.Delivery, string)                    { return connector.ExactlyOnce, "" }
func (s *rememberingSink) Abort(context.Context, []connector.Committable) error      { return nil }
func (s *rememberingSink) Close() error                                              { return nil }

type rememberingWriter struct{ connector.Sealer }

func (w *rememberingWriter) Write(_ context.Context, b *vec.Batch) error {
	seg, _, err := w.Segment()
	if err == nil {
		_, err = seg.Write(make([]byte, len(b.Selected())))
	}
	return err
}

func (s *rememberingSink) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	remembered.Lock()
	defer remembered.Unlock()
	if err := id.Overtaken(remembered.last[id.Lineage]); err != nil {
		return err
	}
	if remembered.last[id.Lineage] >= id.Checkpoint {
		return nil
	}
	for _, c := range cs {
		r, err := s.c.Segments.Open(ctx, c)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		remembered.rows += len(b)
	}
	remembered.last[id.Lineage] = id.Checkpoint
	return nil
}

// TestOvertaken has a job go on from an older copy of its checkpoints. What it prepares is not taken for what the
// target has: it ends, and does not start again from that state.
func TestOvertaken(t *testing.T) {
	remembered.last, remembered.rows = map[string]int64{}, 0
	f := newFlow(t, source+"CREATE TABLE dst (k INT) WITH ('connector' = 'remembering');\nINSERT INTO dst SELECT k FROM src;")
	state := filepath.Join(f.dir, engine.DefaultCheckpoints)
	backup := filepath.Join(f.dir, "backup")
	f.put(order(1, "1.00", `"a"`))
	f.run("")
	if err := os.CopyFS(backup, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	f.put(order(2, "1.00", `"a"`), order(3, "1.00", `"b"`))
	f.run("")
	if remembered.rows != 3 {
		t.Fatalf("%d rows are in", remembered.rows)
	}
	if err := errors.Join(os.RemoveAll(state), os.CopyFS(state, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	f.put(order(4, "1.00", `"c"`))
	start := func(o engine.RecoveryOptions) error {
		e := engine.New(engine.Options{Dir: f.dir, Recovery: o})
		return e.Script(t.Context(), "flow.sql", f.text, engine.Handler{JobStarted: func(r *engine.Run) {
			go func() {
				settle(t, r, f.rows)
				r.Stop()
				<-r.Done()
			}()
		}})
	}
	var o *connector.Overtaken
	if err := start(engine.RecoveryOptions{}); !errors.As(err, &o) {
		t.Errorf("the older copy went on: %v", err)
	}
	if err := start(engine.RecoveryOptions{}); err == nil || !strings.Contains(err.Error(), "does not go on from checkpoint") ||
		!strings.Contains(err.Error(), "older copy of the state") {
		t.Errorf("it went on the second time: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(state, "flow.sql", "checkpoints", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := start(engine.RecoveryOptions{From: names[len(names)-1]}); err == nil || !strings.Contains(err.Error(), "does not go on from checkpoint") {
		t.Errorf("it went on from its checkpoint by name: %v", err)
	}
	if remembered.rows != 3 {
		t.Errorf("%d rows are in", remembered.rows)
	}
	// The same where the copy has taken more checkpoints than the target knows before anything comes.
	if err := errors.Join(os.RemoveAll(state), os.CopyFS(state, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(f.dir, "in"), filepath.Join(f.dir, "aside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = engine.New(engine.Options{Dir: f.dir}).Script(t.Context(), "flow.sql", f.text, engine.Handler{JobStarted: func(r *engine.Run) {
		go func() {
			for range 9 {
				if _, err := r.Savepoint(context.Background()); err != nil {
					t.Error(err)
				}
			}
			f.put(order(5, "1.00", `"c"`))
			settle(t, r, 2)
			r.Stop()
			<-r.Done()
		}()
	}})
	if !errors.As(err, &o) || o.ID.Checkpoint <= o.Has {
		t.Errorf("the older copy went on, with %d rows in: %v", remembered.rows, err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(f.dir, "in")), os.Rename(filepath.Join(f.dir, "aside"), filepath.Join(f.dir, "in"))); err != nil {
		t.Fatal(err)
	}
	// A lineage of its own has no such past.
	f.rows = 4
	if err := start(engine.RecoveryOptions{Fresh: true}); err != nil || remembered.rows != 7 {
		t.Errorf("%d rows are in, %v", remembered.rows, err)
	}
}

// TestRun_TakenOver has a job go on from a savepoint in a folder of its own and write on; the job of the old folder,
// started again, would count the same revisions with other content.
func TestRun_TakenOver(t *testing.T) {
	f := newFlow(t, source+`CREATE TABLE board (k STRING, n BIGINT, rev BIGINT METADATA FROM 'revision', generation STRING METADATA, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'kept', 'at' = 'taken over');
INSERT INTO board SELECT CAST(k AS STRING), COUNT(*) FROM src GROUP BY CAST(k AS STRING);`)
	start := func(o engine.Options) error {
		o.Dir = f.dir
		return engine.New(o).Script(t.Context(), "flow.sql", f.text, engine.Handler{JobStarted: func(r *engine.Run) {
			go func() {
				settle(t, r, f.rows)
				r.Stop()
				<-r.Done()
			}()
		}})
	}
	f.put(order(1, "1.00", `"a"`))
	for range 3 { // the same job goes on as often as it likes
		if err := start(engine.Options{}); err != nil {
			t.Fatal(err)
		}
		f.put(order(1, "1.00", `"a"`))
	}
	list, err := engine.New(engine.Options{Dir: f.dir}).Savepoints(t.Context(), filepath.Join(f.dir, engine.DefaultCheckpoints))
	if err != nil {
		t.Fatal(err)
	}
	at := ""
	for id := int64(0); len(list) > 0; list = list[1:] {
		if s := list[0]; s.Manifest.Savepoint && s.Manifest.ID > id {
			at, id = s.Location, s.Manifest.ID
		}
	}
	f.put(order(1, "1.00", `"a"`))
	other := engine.Options{Override: map[string]string{"execution.checkpointing.dir": "other"}, Recovery: engine.RecoveryOptions{From: at}}
	if err := start(other); err != nil {
		t.Fatal(err)
	}
	other.Recovery.From = ""
	f.put(order(1, "1.00", `"a"`))
	if err := start(other); err != nil {
		t.Fatalf("the job that took over does not go on: %v", err)
	}
	if err := start(engine.Options{}); err == nil || !strings.Contains(err.Error(), "was written by another run") {
		t.Errorf("the old one goes on: %v", err)
	}
}
