package connectortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// SinkCase is a sink to test.
type SinkCase struct {
	// New makes a fresh, empty target.
	New func(t testing.TB) Target
	// Rows are the rows to write, at least four.
	Rows []Row
	// Ordered says that one writer's rows stay in order.
	Ordered bool
	// Numbered says that the target knows which checkpoints went in, so that it can tell a repeat from the output
	// of another run: see connector.Overtaken.
	Numbered bool
}

// Target is where a sink writes to.
type Target struct {
	Table *connector.Table
	// Visible returns what a reader of the target sees now, each row once as text. nil: the target
	// keeps nothing.
	Visible func() []string
	// Config adds to what the sink is made with, such as Stdout; may be nil.
	Config func(c *connector.SinkConfig)
	// Leftovers returns what is there without being visible, such as files that were not
	// finished; may be nil.
	Leftovers func() []string
}

// Row is a row to write and how it looks in the target.
type Row struct {
	Kind   types.RowKind
	Values []types.Value // the physical columns, then the metadata that can be written
	Text   string
}

func want(rows []Row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Text
	}
	return out
}

// TestSink runs the suite over a sink.
func TestSink(t *testing.T, c SinkCase) {
	t.Helper()
	if len(c.Rows) < 4 {
		t.Fatal("the case needs four rows")
	}
	t.Run("write", c.write)
	t.Run("epochs", c.epochs)
	t.Run("again", c.again)
	t.Run("overtaken", c.overtaken)
	t.Run("abort", c.abort)
	t.Run("unprepared", c.unprepared)
	t.Run("parallel", c.parallel)
	t.Run("empty", c.empty)
}

// sink is a sink being tested.
type sink struct {
	connector.Sink
	Target
	t         testing.TB
	schema    types.Schema
	committer connector.Committer // nil: what is flushed is visible
	ids       map[string]int64    // of commits, by their committables
}

func (c *SinkCase) open(t testing.TB) *sink {
	t.Helper()
	noLeaks(t, longest)
	return openSink(t, c.New(t), c.mode())
}

func (c *SinkCase) mode() types.ChangelogMode {
	mode := types.InsertOnly
	for _, r := range c.Rows {
		if r.Kind != types.Insert {
			mode = types.Retract
		}
	}
	return mode
}

func openSink(t testing.TB, target Target, mode types.ChangelogMode) *sink {
	t.Helper()
	f, o := factory(t, target.Table)
	if f.NewSink == nil {
		t.Fatalf("connector '%s' cannot be written", f.Name)
	}
	s := &sink{Target: target, t: t, schema: target.Table.Schema()}
	s.schema.Fields = slices.Clone(s.schema.Fields)
	for _, m := range target.Table.Metadata {
		if !m.Virtual {
			s.schema.Fields = append(s.schema.Fields, types.Field{Name: m.Name, Type: m.Type})
		}
	}
	cfg := connector.SinkConfig{Table: target.Table, Options: o, Schema: s.schema, Mode: mode,
		Resolve: func(p string) string { return p }, Bad: func(b format.BadRecord) error { return b.Err }}
	if target.Config != nil {
		target.Config(&cfg)
	}
	var err error
	if s.Sink, err = f.NewSink(cfg); err != nil {
		t.Fatalf("NewSink: %v", err)
	}
	if _, why := s.Delivery(); why == "" {
		t.Error("Delivery says nothing")
	}
	if s.committer, err = s.NewCommitter(t.Context()); err != nil {
		t.Fatalf("NewCommitter: %v", err)
	}
	if s.committer != nil {
		t.Cleanup(func() {
			for range 2 {
				if err := s.committer.Close(); err != nil {
					t.Errorf("Committer.Close: %v", err)
				}
			}
		})
	}
	return s
}

// writer is a writer that closes itself.
func (s *sink) writer(subtask, parallelism int) connector.Writer {
	s.t.Helper()
	w, err := s.NewWriter(s.t.Context(), subtask, parallelism)
	if err != nil {
		s.t.Fatalf("NewWriter: %v", err)
	}
	s.t.Cleanup(func() {
		if err := w.Close(); err != nil {
			s.t.Errorf("Writer.Close a second time: %v", err)
		}
	})
	return w
}

// put writes rows as one batch. With holes, other rows lie between them that are not selected.
func (s *sink) put(w connector.Writer, rows []Row, holes bool) error {
	b := vec.NewBatch(s.schema)
	add := func(r Row) {
		for k, v := range r.Values {
			b.Cols[k].AppendValue(v)
		}
		b.Kinds = append(b.Kinds, r.Kind)
		b.N++
	}
	for _, r := range rows {
		if holes {
			add(r)
			b.Sel = append(b.Sel, int32(b.N))
		}
		add(r)
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Kind != types.Insert }) {
		b.Kinds = nil
	}
	return w.Write(s.t.Context(), b)
}

func (s *sink) mustPut(w connector.Writer, rows []Row, holes bool) {
	s.t.Helper()
	if err := s.put(w, rows, holes); err != nil {
		s.t.Fatalf("Write: %v", err)
	}
}

func (s *sink) prepare(w connector.Writer) []connector.Committable {
	s.t.Helper()
	cs, err := w.Prepare(s.t.Context())
	if err != nil {
		s.t.Fatalf("Prepare: %v", err)
	}
	if s.committer == nil && len(cs) > 0 {
		s.t.Fatal("Prepare gives committables, but there is no Committer")
	}
	return cs
}

func (s *sink) commit(cs []connector.Committable) {
	s.t.Helper()
	if s.committer == nil {
		return
	}
	// The same committables come with the same id.
	key := fmt.Sprintf("%q", cs)
	after := int64(len(s.ids))
	if s.ids[key] == 0 {
		if s.ids == nil {
			s.ids = map[string]int64{}
		}
		s.ids[key] = after + 1
	}
	id := connector.CommitID{Lineage: "lineage", Checkpoint: s.ids[key], After: after}
	if err := s.committer.Commit(s.t.Context(), id, cs); err != nil {
		s.t.Fatalf("Commit: %v", err)
	}
}

// expect compares what is visible.
func (s *sink) expect(what string, want []string, ordered bool) {
	s.t.Helper()
	if s.Visible == nil {
		return
	}
	if ordered {
		sameRows(s.t, what, s.Visible(), want)
		return
	}
	sameSet(s.t, what, s.Visible(), want)
}

// clean checks that nothing is left that is not visible.
func (s *sink) clean() {
	s.t.Helper()
	if s.Leftovers == nil {
		return
	}
	if left := s.Leftovers(); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
}

func (c *SinkCase) write(t *testing.T) {
	s := c.open(t)
	w := s.writer(0, 1)
	if err := w.Tick(t.Context()); err != nil {
		t.Errorf("Tick before the first row: %v", err)
	}
	s.mustPut(w, c.Rows[:1], false)
	s.mustPut(w, c.Rows[1:3], true)
	if err := w.Tick(t.Context()); err != nil {
		t.Errorf("Tick: %v", err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Errorf("Flush: %v", err)
	}
	if s.committer == nil {
		s.expect("after Flush", want(c.Rows[:3]), c.Ordered)
	}
	s.mustPut(w, c.Rows[3:], false)
	s.commit(s.prepare(w))
	s.expect("after Commit", want(c.Rows), c.Ordered)
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	s.expect("after Close", want(c.Rows), c.Ordered)
	s.clean()
}

// epochs commits one epoch after another, the first when the second has begun.
func (c *SinkCase) epochs(t *testing.T) {
	s := c.open(t)
	w := s.writer(0, 1)
	s.mustPut(w, c.Rows[:2], false)
	first := s.prepare(w)
	if s.committer != nil {
		s.expect("prepared, not committed", nil, false)
	}
	s.mustPut(w, c.Rows[2:3], false)
	s.commit(first)
	if s.committer != nil {
		s.expect("the first epoch", want(c.Rows[:2]), c.Ordered)
	}
	second := s.prepare(w)
	s.mustPut(w, c.Rows[3:], false)
	third := s.prepare(w)
	s.commit(append(slices.Clone(second), third...))
	s.expect("all epochs", want(c.Rows), c.Ordered && s.committer == nil)
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	s.clean()
}

// again commits the same output again under the same name, also by another sink, as after a crash.
func (c *SinkCase) again(t *testing.T) {
	s := c.open(t)
	if s.committer == nil {
		t.Skip("the sink has no Committer")
	}
	w := s.writer(0, 1)
	s.mustPut(w, c.Rows[:3], false)
	first := s.prepare(w)
	s.mustPut(w, c.Rows[3:], false)
	second := s.prepare(w)
	if err := w.Close(); err != nil { // a crash between Prepare and Commit
		t.Errorf("Writer.Close: %v", err)
	}
	s.expect("prepared, then closed", nil, false)
	kept := make([]connector.Committable, 0, len(first))
	for _, x := range first {
		kept = append(kept, slices.Clone(x))
	}
	s.commit(first)
	s.commit(first)
	s.expect("committed twice", want(c.Rows[:3]), false)
	// A start commits again what the checkpoint has as pending: epoch by epoch, each by its own name.
	other := openSink(t, s.Target, c.mode())
	other.ids = s.ids
	other.commit(kept)
	s.expect("committed again after a restart", want(c.Rows[:3]), false)
	other.commit(second)
	s.expect("committed after a restart, where it had not been", want(c.Rows), false)
	other.commit(kept)
	other.commit(second)
	s.expect("committed once more", want(c.Rows), false)
	s.clean()
}

// overtaken commits output of a run that goes on from an older copy of the state, and of one that runs beside it.
func (c *SinkCase) overtaken(t *testing.T) {
	s := c.open(t)
	if s.committer == nil || !c.Numbered {
		t.Skip("the target does not know which checkpoints went in")
	}
	w := s.writer(0, 1)
	for i := range 3 {
		s.mustPut(w, c.Rows[i:i+1], false)
		s.commit(s.prepare(w))
	}
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	other := openSink(t, s.Target, c.mode())
	w = other.writer(0, 1)
	other.mustPut(w, c.Rows[3:], false)
	cs := other.prepare(w)
	for _, id := range []connector.CommitID{{Lineage: "lineage", Checkpoint: 2, After: 1}, {Lineage: "lineage", Checkpoint: 3, After: 2}, {Lineage: "lineage", Checkpoint: 2, After: 2}} {
		var o *connector.Overtaken
		if err := other.committer.Commit(t.Context(), id, cs); !errors.As(err, &o) || !errors.As(err, new(*connector.Fatal)) || o.Has < 2 {
			t.Errorf("commit %+v: %v", id, err)
		}
	}
	s.expect("after what another run committed", want(c.Rows[:3]), false)
	other.ids = s.ids
	other.commit(cs)
	s.expect("after a checkpoint beyond", want(c.Rows), false)
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
}

func (c *SinkCase) abort(t *testing.T) {
	s := c.open(t)
	if s.committer == nil {
		t.Skip("the sink has no Committer")
	}
	w := s.writer(0, 1)
	s.mustPut(w, c.Rows[:1], false)
	s.commit(s.prepare(w))
	s.mustPut(w, c.Rows[1:], false)
	cs := s.prepare(w)
	for range 2 {
		if err := s.committer.Abort(t.Context(), cs); err != nil {
			t.Errorf("Abort: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	s.expect("after Abort", want(c.Rows[:1]), false)
	s.clean()
}

// unprepared closes a writer whose output was not prepared.
func (c *SinkCase) unprepared(t *testing.T) {
	s := c.open(t)
	w := s.writer(0, 1)
	s.mustPut(w, c.Rows[:1], false)
	s.commit(s.prepare(w))
	s.mustPut(w, c.Rows[1:], false)
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	if s.committer != nil {
		s.expect("closed without Prepare", want(c.Rows[:1]), false)
	}
	s.clean()
}

// parallel writes with several writers at a time.
func (c *SinkCase) parallel(t *testing.T) {
	s := c.open(t)
	const par = 3
	var all []connector.Committable
	var texts []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for sub := range par {
		w := s.writer(sub, par)
		texts = append(texts, want(c.Rows)...)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range c.Rows {
				if err := s.put(w, c.Rows[i:i+1], false); err != nil {
					t.Errorf("Write of writer %d: %v", sub, err)
				}
			}
			cs, err := w.Prepare(context.WithoutCancel(t.Context()))
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Errorf("Prepare and Close of writer %d: %v", sub, err)
			}
			mu.Lock()
			all = append(all, cs...)
			mu.Unlock()
		}()
	}
	wg.Wait()
	s.commit(all)
	s.expect(fmt.Sprintf("of %d writers", par), texts, false)
	s.clean()
}

// empty prepares and commits nothing.
func (c *SinkCase) empty(t *testing.T) {
	s := c.open(t)
	w := s.writer(0, 1)
	s.commit(s.prepare(w))
	s.commit(nil)
	if s.committer != nil {
		if err := s.committer.Abort(t.Context(), nil); err != nil {
			t.Errorf("Abort of nothing: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Errorf("Writer.Close: %v", err)
	}
	s.expect("nothing written", nil, false)
	s.clean()
}
