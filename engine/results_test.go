package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The connector 'kept' seals rows as an exactly-once sink does and keeps them in a results.Memory, by the
// option 'at'.
var kept = struct {
	sync.Mutex
	stores map[string]*results.Memory
	sealed [][][]any // by segment
}{stores: map[string]*results.Memory{}}

func init() {
	connector.Register(&connector.Factory{Name: "kept", Options: []option.Spec{{Name: "at"}, {Name: "sink.delivery-guarantee", Default: "exactly-once"}},
		SinkChangelog: func(*connector.Table, option.Values) types.ChangelogMode { return types.InsertOnly },
		Delivery:      func(*connector.Table, option.Values) (connector.Delivery, string) { return connector.ExactlyOnce, "" },
		NewSink:       func(c connector.SinkConfig) (connector.Sink, error) { return &keptSink{c}, nil }})
	results.Register("kept", func(_ context.Context, t *connector.Table, o option.Values) (results.Store, error) {
		return keptStore(t, o.Get("at"))
	})
}

func keptStore(t *connector.Table, at string) (*results.Memory, error) {
	kept.Lock()
	defer kept.Unlock()
	if kept.stores[at] == nil {
		m, err := results.NewMemory(t)
		if err != nil {
			return nil, err
		}
		kept.stores[at] = m
	}
	return kept.stores[at], nil
}

type keptSink struct{ c connector.SinkConfig }

func (s *keptSink) NewWriter(context.Context, int, int) (connector.Writer, error) {
	return &keptWriter{Sealer: connector.Sealer{Segments: s.c.Segments}, s: s}, nil
}
func (s *keptSink) NewCommitter(context.Context) (connector.Committer, error) {
	return &keptCommitter{s}, nil
}
func (s *keptSink) Delivery() (connector.Delivery, string) { return connector.ExactlyOnce, "" }

// keptWriter writes numbers of batches into segments.
type keptWriter struct {
	connector.Sealer
	s *keptSink
}

func (w *keptWriter) Write(_ context.Context, b *vec.Batch) error {
	var rows [][]any
	for _, i := range b.Selected() {
		row := make([]any, len(b.Cols))
		for c, v := range b.Cols {
			switch {
			case v.IsNull(int(i)):
			case v.Type.IsTimestamp():
				row[c] = time.UnixMilli(v.I64[i]).UTC()
			case v.Type.Kind == types.BigInt:
				row[c] = v.I64[i]
			case v.Type.Kind == types.Boolean:
				row[c] = fmt.Sprint(v.Value(int(i))) == "true"
			default:
				row[c] = string(v.Bytes(int(i)))
			}
		}
		rows = append(rows, row)
	}
	kept.Lock()
	defer kept.Unlock()
	kept.sealed = append(kept.sealed, rows)
	seg, _, err := w.Segment()
	if err == nil {
		_, err = seg.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(kept.sealed)-1)))
	}
	return err
}

type keptCommitter struct{ s *keptSink }

func (c *keptCommitter) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	return c.CommitProgress(ctx, id, cs, nil)
}

func (c *keptCommitter) CommitProgress(ctx context.Context, _ connector.CommitID, cs []connector.Committable, p *connector.Progress) error {
	m, err := keptStore(c.s.c.Table, c.s.c.Options.Get("at"))
	if err != nil {
		return err
	}
	for _, x := range cs {
		r, err := c.s.c.Segments.Open(ctx, x)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		for ; len(b) >= 8; b = b[8:] {
			kept.Lock()
			rows := kept.sealed[binary.LittleEndian.Uint64(b)]
			kept.Unlock()
			m.Add(rows...)
		}
	}
	if p != nil {
		m.AddProgress(*p)
	}
	return nil
}
func (c *keptCommitter) Abort(context.Context, []connector.Committable) error { return nil }
func (c *keptCommitter) Close() error                                         { return nil }

const keptScript = `SET 'execution.checkpointing.interval' = '1 h';
SET 'execution.checkpointing.dir' = 'state';
CREATE TABLE sales (s BIGINT, shop STRING, amount BIGINT, ts AS TO_TIMESTAMP('1970-01-01 00:00:00') + s * INTERVAL '1' SECOND,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
CREATE TABLE board (shop STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), amount BIGINT COMMENT 'unit: EUR',
  rev BIGINT METADATA FROM 'revision', generation STRING METADATA, is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA,
  emit_reason STRING METADATA, cause STRING METADATA, PRIMARY KEY (shop, window_start, window_end) NOT ENFORCED)
  WITH ('connector' = 'kept', 'at' = '${AT}');
INSERT INTO board SELECT /*+ EMIT('allowed-lateness' = '5 s') */ shop, window_start, window_end, ${WHAT}
FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY shop, window_start, window_end;`

// keptRun is a script over a folder.
type keptRun struct {
	t   *testing.T
	dir string
}

func newKeptRun(t *testing.T, lines string) *keptRun {
	r := &keptRun{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(r.dir, "in.json"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *keptRun) engine(o engine.Options, what string) *engine.Engine {
	o.BatchRows = 1 // each row is followed by its watermark, so that revisions can be counted
	o.Dir, o.Define = r.dir, map[string]string{"AT": r.t.Name(), "WHAT": what}
	return engine.New(o)
}

func (r *keptRun) live() error {
	return r.engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", keptScript, engine.Handler{})
}

func (r *keptRun) store() results.Store {
	r.t.Helper()
	_, stores, err := r.engine(engine.Options{}, "SUM(amount)").OpenResults(context.Background(), "board.sql", keptScript, "board")
	if err != nil {
		r.t.Fatal(err)
	}
	return stores[0]
}

// cells are the cells that readers see, as text.
func (r *keptRun) cells(q results.Query) string {
	r.t.Helper()
	q.From, q.To, q.Order = vec.MinTime, vec.MaxTime, []string{"window_start", "shop"}
	rows, err := r.store().Query(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	var b bytes.Buffer
	for _, x := range rows.Rows {
		fmt.Fprintf(&b, "%v@%d=%v/%v ", x[0], x[1].(time.Time).Unix(), x[3], x[4])
	}
	return strings.TrimSpace(b.String())
}

// keptInput has two shops; the row at 4 is late but within the lateness (the watermark is 10.999 then), the one
// at 5 is later than that.
const keptInput = `{"s":1,"shop":"a","amount":1}
{"s":3,"shop":"b","amount":2}
{"s":12,"shop":"a","amount":4}
{"s":4,"shop":"a","amount":8}
{"s":31,"shop":"b","amount":16}
{"s":5,"shop":"a","amount":32}
`

func TestBackfill(t *testing.T) {
	r := newKeptRun(t, keptInput)
	ctx := context.Background()
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	const live = "a@0=9/2 b@0=2/1 a@10=4/1 b@30=16/1"
	if got := r.cells(results.Query{}); got != live {
		t.Fatalf("live: %s", got)
	}
	s := r.store()
	p, err := s.Progress(ctx, "live", 1)
	if err != nil || len(p) != 1 || p[0].Watermark != vec.MaxTime || p[0].Late != 1 || len(p[0].Missed) != 1 || p[0].Missed[0] != (connector.MissedWindow{Start: 0, End: 10_000, Rows: 1}) {
		t.Fatalf("progress %+v, %v", p, err)
	}
	// The same run again would contradict what is there.
	if err := r.live(); err == nil || !strings.Contains(err.Error(), "generation live of table board was written by another run") ||
		!strings.Contains(err.Error(), "SET 'tidemark.generation' = 'live2'") {
		t.Errorf("a second live run: %v", err)
	}

	// A backfill of the window that needs it waits for all rows, so that a cell has one revision.
	b := engine.BackfillOptions{Generation: "g2", From: "1970-01-01 00:00:00", To: "1970-01-01 00:00:10"}
	reports, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", keptScript, b, engine.Handler{})
	if err != nil || len(reports) != 1 || reports[0].Table != "board" || reports[0].Rows != 2 || len(reports[0].Inputs) != 1 || reports[0].Inputs[0].Rows != 6 || reports[0].Error != "" {
		t.Fatalf("%+v, %v", reports, err)
	}
	if got := r.cells(results.Query{}); got != live {
		t.Errorf("readers see the backfill before it is promoted: %s", got)
	}
	if got := r.cells(results.Query{Generation: "g2"}); got != "a@0=41/1 b@0=2/1" {
		t.Errorf("g2: %s", got)
	}
	if records, err := s.Records(ctx, "backfill"); err != nil || len(records) != 2 || records[0].Name != "g2" || !bytes.Contains(records[0].Document, []byte(`"script_sha256"`)) {
		t.Errorf("records %v, %v", records, err)
	}
	if _, err := results.Promote(ctx, s, "g2", 0, 10_000, false); err == nil {
		t.Error("promoted without a reconciliation")
	}
	if _, err := results.Promote(ctx, s, "nope", 0, 10_000, true); err == nil || !strings.Contains(err.Error(), "it has no rows") {
		t.Errorf("a generation that does not exist was promoted: %v", err)
	}
	// The same again is refused, and leaves the record of the good one the newest.
	if _, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", keptScript, b, engine.Handler{}); err == nil || !strings.Contains(err.Error(), "by another run") {
		t.Errorf("the same backfill again: %v", err)
	}
	if records, err := s.Records(ctx, "backfill"); err != nil || len(records) != 2 || bytes.Contains(records[0].Document, []byte(`"begun"`)) || !bytes.Contains(records[1].Document, []byte(`"begun"`)) {
		t.Errorf("records %v, %v", records, err)
	}
	rec, err := results.Reconcile(ctx, s, "g2", "", 0, 10_000, nil)
	if err != nil || !rec.Equal() {
		var text bytes.Buffer
		_ = rec.Text(&text)
		t.Fatalf("not reconciled, though the window is known to have missed a row: %v\n%s", err, &text)
	}
	if _, err := results.Promote(ctx, s, "g2", 0, 10_000, false); err != nil {
		t.Fatal(err)
	}
	if got := r.cells(results.Query{}); got != "a@0=41/1 b@0=2/1 a@10=4/1 b@30=16/1" {
		t.Errorf("promoted: %s", got)
	}
	// What readers see is not written over.
	if _, err = r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", keptScript, b, engine.Handler{}); err == nil || !strings.Contains(err.Error(), "is what readers see") {
		t.Errorf("a backfill of what is shown: %v", err)
	}
	if _, err := results.Rollback(ctx, s); err != nil {
		t.Fatal(err)
	}
	if got := r.cells(results.Query{}); got != live {
		t.Errorf("rolled back: %s", got)
	}
}

// TestBackfill_JobGoesOn computes history beside a job that may still correct the newest windows.
func TestBackfill_JobGoesOn(t *testing.T) {
	r := newKeptRun(t, keptInput)
	ctx := context.Background()
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	s := r.store().(*results.Memory)
	goesOn := func(watermark int64) {
		p, err := s.Progress(ctx, "live", 1)
		if err != nil {
			t.Fatal(err)
		}
		p[0].At, p[0].Watermark, p[0].Missed = p[0].At+1, watermark, nil
		p[0].Checkpoint++
		s.AddProgress(p[0])
	}
	backfill := func(b engine.BackfillOptions) (engine.BackfillReport, error) {
		got, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", keptScript, b, engine.Handler{})
		if err != nil {
			return engine.BackfillReport{}, err
		}
		return got[0], nil
	}
	goesOn(14_998) // the lateness of the first window ends a millisecond later
	if _, err := backfill(engine.BackfillOptions{Generation: "g1", From: "1970-01-01"}); err == nil || !strings.Contains(err.Error(), "the job may still correct all windows") {
		t.Errorf("nothing is settled: %v", err)
	}
	goesOn(14_999)
	got, err := backfill(engine.BackfillOptions{Generation: "g2"})
	if err != nil || got.Left == nil || *got.Left != 10_000 || !slices.Equal(got.Windows, []results.Span{{From: vec.MinTime, To: 10_000}}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := r.cells(results.Query{Generation: "g2"}); got != "a@0=41/1 b@0=2/1" {
		t.Errorf("g2: %s", got)
	}
	if rec, err := results.Reconcile(ctx, s, "g2", "", vec.MinTime, vec.MaxTime, nil); err != nil || !rec.Equal() || rec.Windows != 1 {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := results.Promote(ctx, s, "g2", 0, 20_000, false); err == nil || !strings.Contains(err.Error(), "whole for windows") {
		t.Errorf("promoted for more than it has: %v", err)
	}
	p, err := results.Promote(ctx, s, "g2", vec.MinTime, vec.MaxTime, false)
	if err != nil || p.Base() != "live" || p.Of(0) != "g2" || p.Of(10_000) != "live" {
		t.Errorf("%+v, %v", p, err)
	}
	if got := r.cells(results.Query{}); got != "a@0=41/1 b@0=2/1 a@10=4/1 b@30=16/1" {
		t.Errorf("readers see %s", got)
	}
	// Some windows only.
	some := engine.BackfillOptions{Generation: "g3", Windows: map[string][]results.Span{"board": {{From: 0, To: 1}, {From: 30_000, To: 30_001}}}}
	goesOn(vec.MaxTime)
	if got, err = backfill(some); err != nil || got.Left != nil || len(got.Windows) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if got := r.cells(results.Query{Generation: "g3"}); got != "a@0=41/1 b@0=2/1 b@30=16/1" {
		t.Errorf("g3: %s", got)
	}
}

// TestRun_CounterDropped starts a changed query whose counters of revisions are left behind.
func TestRun_CounterDropped(t *testing.T) {
	r := newKeptRun(t, keptInput)
	ctx := context.Background()
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	run := func(set string) error {
		o := engine.Options{Recovery: engine.RecoveryOptions{AllowDropped: true}}
		places, err := filepath.Glob(filepath.Join(r.dir, "state", "board.sql", "checkpoints", "*"))
		if err != nil || len(places) == 0 {
			all, _ := filepath.Glob(filepath.Join(r.dir, "state", "*", "*"))
			t.Fatalf("no checkpoint: %v; %v", err, all)
		}
		o.Recovery.From = places[len(places)-1]
		return r.engine(o, "SUM(amount) * 2").Script(ctx, "board.sql", set+keptScript, engine.Handler{})
	}
	if err := run(""); err == nil || !strings.Contains(err.Error(), "the state that counts them is not kept") || !strings.Contains(err.Error(), "SET 'tidemark.generation' = 'live2'") {
		t.Errorf("in the same generation: %v", err)
	}
	// The windows have shown what is in live, and would not show it again.
	if err := run("SET 'tidemark.generation' = 'live2';\n"); err == nil || !strings.Contains(err.Error(), "TumbleAggregate(by shop) has shown before") || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("in one of its own, with the state of windows: %v", err)
	}
	if err := run("SET 'tidemark.generation' = 'live2';\nSET 'tidemark.generation.go-on' = 'true';\n"); err != nil {
		t.Errorf("in one of its own, all the same: %v", err)
	}
}

func TestPublic(t *testing.T) {
	got := engine.Public(map[string]string{"url": "postgres://a:TOP@SECRET@h:1/db?sslmode=off&password=TOPSECRET", "password": "TOPSECRET", "path": "in.json",
		"properties.sasl.jaas.config": "TOPSECRET", "properties.bootstrap.servers": "h:9092"})
	for k, v := range got {
		if strings.Contains(v, "SECRET") {
			t.Errorf("%s = %s", k, v)
		}
	}
	if got["path"] != "in.json" || got["properties.bootstrap.servers"] != "h:9092" || got["url"] != "postgres://***@h:1/db?sslmode=off&password=***" {
		t.Errorf("%v", got)
	}
}

func TestBackfill_Refuses(t *testing.T) {
	r := newKeptRun(t, keptInput)
	for name, c := range map[string]struct {
		b            engine.BackfillOptions
		script, want string
	}{
		"a bad name":  {engine.BackfillOptions{Generation: "g 2"}, keptScript, "--generation cannot be"},
		"another job": {engine.BackfillOptions{Generation: "g2"}, keptScript + "CREATE TABLE plain (s BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO plain SELECT s FROM sales;", "table plain would be written again"},
		"one of a set": {engine.BackfillOptions{Generation: "g2", Table: "board"}, strings.NewReplacer("INSERT INTO board", "CREATE TABLE other LIKE board;\nEXECUTE STATEMENT SET BEGIN INSERT INTO other SELECT shop, window_start, window_end, COUNT(*) "+
			"FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY shop, window_start, window_end;\nINSERT INTO board", "window_end;", "window_end; END;").Replace(keptScript), "table other is written by the same job"},
		"no results": {engine.BackfillOptions{Generation: "g2"}, keptScript[:strings.Index(keptScript, "INSERT INTO")], "writes no table of results"},
		"no column generation": {engine.BackfillOptions{Generation: "g2"}, strings.Replace(keptScript, "generation STRING METADATA, ", "", 1),
			"table board would be written again, and knows no generations"},
		"late rows again": {engine.BackfillOptions{Generation: "g2", AsWritten: true}, strings.NewReplacer("INSERT INTO board", "CREATE TABLE late (s BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO board",
			"= '5 s')", "= '5 s', 'late-sink' = 'late')").Replace(keptScript), "table late would be written again"},
		"no table": {engine.BackfillOptions{Generation: "g2", Table: "bored"}, keptScript, "writes no table of results"},
	} {
		_, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(context.Background(), "board.sql", c.script, c.b, engine.Handler{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestBacktest(t *testing.T) {
	r := newKeptRun(t, keptInput)
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	test := func(what string) *engine.BacktestReport {
		t.Helper()
		got, err := r.engine(engine.Options{}, what).Backtest(context.Background(), "board.sql", keptScript, engine.BackfillOptions{}, "", 10, engine.Handler{})
		if err != nil {
			t.Fatal(err)
		}
		return &got[0]
	}
	if got := test("SUM(amount)"); got.Cells != 4 || got.Same != 4 || len(got.Changes) != 0 {
		t.Errorf("the same script: %+v", got)
	}
	got := test("SUM(CASE WHEN shop = 'a' THEN amount + 1 ELSE amount END)")
	if got.Cells != 4 || got.Same != 2 || len(got.Changes) != 2 {
		t.Fatalf("a changed script: %+v", got)
	}
	if c := got.Changes[0]; c.Reason != "changes" || c.Key["shop"] != "a" || c.Old["amount"] != "9" || c.New["amount"] != "11" || len(c.New) != 1 {
		t.Errorf("change %+v", c)
	}
	if g, err := r.store().Generations(context.Background()); err != nil || len(g) != 1 {
		t.Errorf("a backtest has written: %+v, %v", g, err)
	}
}

// TestBackfill_DeadLetters has a record that cannot be decoded: it goes to the dead-letter output when it comes, and not
// again when history is computed, unless that is asked for.
func TestBackfill_DeadLetters(t *testing.T) {
	r := newKeptRun(t, keptInput+"{\"s\":\n")
	script := strings.Replace(keptScript, "'path' = 'in.json'", "'path' = 'in.json', 'dead-letter.path' = 'dead'", 1)
	ctx := context.Background()
	letters := func(want int) {
		t.Helper()
		n := 0
		files, _ := filepath.Glob(filepath.Join(r.dir, "dead", "*"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			n += bytes.Count(b, []byte("\n"))
		}
		if n != want {
			t.Errorf("%d dead letters, want %d", n, want)
		}
	}
	e := func() *engine.Engine { return r.engine(engine.Options{}, "SUM(amount)") }
	if err := e().Script(ctx, "board.sql", script, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	letters(1)
	got, err := e().Backfill(ctx, "board.sql", script, engine.BackfillOptions{Generation: "g2"}, engine.Handler{})
	if err != nil || got[0].Dead != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := e().Recount(ctx, "board.sql", script, engine.BackfillOptions{}, engine.Handler{}); err != nil {
		t.Error(err)
	}
	if _, err := e().Backtest(ctx, "board.sql", script, engine.BackfillOptions{}, "", 10, engine.Handler{}); err != nil {
		t.Error(err)
	}
	letters(1)
	if _, err := e().Backfill(ctx, "board.sql", script, engine.BackfillOptions{Generation: "g3", Unversioned: true}, engine.Handler{}); err != nil {
		t.Error(err)
	}
	letters(2)
}

func TestWhy(t *testing.T) {
	r := newKeptRun(t, keptInput)
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	e := r.engine(engine.Options{}, "SUM(amount)")
	found, err := e.WhyRecord(ctx, "board.sql", keptScript, engine.RecordQuestion{Values: map[string]string{"shop": "a", "s": "5"}, Limit: 10})
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	// The watermark is 30.0 when it comes, its window may be corrected until 14.999.
	a := found[0]
	if a.Time != 5000 || a.Watermark != 30_000 || a.DriverTime != 31_000 || a.DriverAgo != 1 || a.Row["amount"] != "32" || len(a.Jobs) != 1 || a.Jobs[0].Outcome != engine.OutcomeLate {
		t.Fatalf("%+v", a)
	}
	steps := a.Jobs[0].Steps
	if w := steps[len(steps)-1].Windows; len(w) != 1 || w[0].LateBy != 30_000-14_999 || w[0].Keep != 1000+30_000-14_999+1 || w[0].Start != 0 || w[0].End != 10_000 {
		t.Errorf("%+v", steps)
	}
	at, err := e.WhyRecord(ctx, "board.sql", keptScript, engine.RecordQuestion{Split: a.Split, Position: a.Position, Limit: 1})
	if err != nil || len(at) != 1 || at[0].Row["s"] != "5" {
		t.Errorf("by its place: %+v, %v", at, err)
	}
	if _, err = e.WhyRecord(ctx, "board.sql", keptScript, engine.RecordQuestion{Values: map[string]string{"shp": "a"}}); err == nil || !strings.Contains(err.Error(), "no column shp") {
		t.Errorf("got %v", err)
	}
	cells, _, err := e.WhyCell(ctx, "board.sql", keptScript, "board", map[string]string{"shop": "a", "window_start": "1970-01-01 00:00:00"}, "")
	if err != nil || len(cells) != 1 || len(cells[0].Revisions) != 2 {
		t.Fatalf("%+v, %v", cells, err)
	}
	if short, _, err := e.WhyCell(ctx, "board.sql", keptScript, "board", map[string]string{"shop": "a", "window_start": "1970-01-01 00:00"}, ""); err != nil || len(short) != 1 ||
		len(short[0].Revisions) != 2 {
		t.Errorf("by a time without seconds: %+v, %v", short, err)
	}
	if second := cells[0].Revisions[1]; second[3] != int64(9) || second[4] != int64(2) || second[8] != "late" || !strings.Contains(second[9].(string), "in.json:") {
		t.Errorf("second revision %v", second)
	}
}

// TestExpected asks who has reported for the newest window that is over.
func TestExpected(t *testing.T) {
	script := strings.Replace(keptScript, "INSERT INTO", "CREATE VIEW shops AS SELECT * FROM (VALUES ('a'), ('b'), ('c')) AS t (shop);\n"+
		"SET 'tidemark.completeness.board.expected' = 'shops';\nINSERT INTO", 1)
	r := newKeptRun(t, keptInput)
	if err := r.engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", script, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	p, err := r.store().Progress(context.Background(), "live", 1)
	if err != nil || len(p) != 1 || p[0].Expected != 3 || p[0].Seen != 1 || strings.Join(p[0].Missing, ";") != "a;c" {
		t.Errorf("the window of 30 has seen b: %+v, %v", p, err)
	}
	for name, c := range map[string][2]string{
		"no column of the key": {"AS t (shop)", "AS t (store)"},
		"no such table":        {"expected' = 'shops'", "expected' = 'shopz'"},
	} {
		r := newKeptRun(t, keptInput)
		err := r.engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", strings.Replace(script, c[0], c[1], 1), engine.Handler{})
		if err == nil || !strings.Contains(err.Error(), "'tidemark.completeness.board.expected'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
