package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestRecount counts windows again from their source: one that missed a row differs, and is known to; after a row
// was added to the source a window differs that is not.
func TestRecount(t *testing.T) {
	r := newKeptRun(t, keptInput)
	ctx := context.Background()
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	s := r.store().(*results.Memory)
	tables, err := r.engine(engine.Options{}, "SUM(amount)").ResultTables("board.sql", keptScript)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := results.LayoutOf(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	recount := func(b engine.BackfillOptions) *results.Counted {
		t.Helper()
		got, err := r.engine(engine.Options{}, "SUM(amount)").Recount(ctx, "board.sql", keptScript, b, engine.Handler{})
		if err != nil || got["board"] == nil {
			t.Fatal(got, err)
		}
		return got["board"]
	}
	compare := func(c *results.Counted) *results.Recount {
		t.Helper()
		got, err := s.Totals(ctx, "live", vec.MinTime, vec.MaxTime)
		if err != nil {
			t.Fatal(err)
		}
		missed, err := s.Missed(ctx, "live", vec.MinTime)
		if err != nil {
			t.Fatal(err)
		}
		return c.Recount(layout, got, results.Late(missed))
	}
	c := recount(engine.BackfillOptions{})
	if !strings.Contains(string(c.Inputs), `"table":"sales"`) || !strings.Contains(string(c.Inputs), `"rows":6`) {
		t.Errorf("read was %s", c.Inputs)
	}
	x := compare(c)
	if !x.Passed || x.Windows != 3 || x.Same != 2 || x.Explained != 1 || x.Sums["amount"] != "31" || x.SourceSums["amount"] != "63" || x.Differences[0].Against.Sums["amount"] != "43" {
		t.Errorf("%+v", x)
	}
	if c := recount(engine.BackfillOptions{From: "1970-01-01 00:00:10", To: "1970-01-01 00:00:20"}); len(c.Totals) != 1 || c.Totals[0].Window != 10_000 || c.Totals[0].Keys != 1 {
		t.Errorf("%+v", c)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "in.json"), []byte(keptInput+`{"s":13,"shop":"c","amount":64}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if x := compare(recount(engine.BackfillOptions{})); x.Passed || x.Differing != 2 || x.Differences[0].Window != 10_000 || x.Differences[0].Against.Keys != 2 {
		t.Errorf("%+v", x)
	}
	if progress, err := s.Progress(ctx, "recount", 1); err != nil || len(progress) > 0 {
		t.Errorf("the target was touched: %v, %v", progress, err)
	}
}

// TestReconcile_Source compares a generation with another one and with the source: evidence is kept, and what differs
// from the source is not promoted.
func TestReconcile_Source(t *testing.T) {
	r := newKeptRun(t, keptInput)
	ctx := context.Background()
	if err := r.live(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine(engine.Options{}, "SUM(amount)").Backfill(ctx, "board.sql", keptScript, engine.BackfillOptions{Generation: "g2"}, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	s := r.store()
	asked := 0
	count := func(spans []results.Span) (*results.Counted, error) {
		asked++
		got, err := r.engine(engine.Options{}, "SUM(amount)").Recount(ctx, "board.sql", keptScript, engine.BackfillOptions{Windows: map[string][]results.Span{"board": spans}}, engine.Handler{})
		return got["board"], err
	}
	text := func(x *results.Reconciliation) string {
		var b strings.Builder
		if err := x.Text(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	x, err := results.Reconcile(ctx, s, "g2", "", vec.MinTime, vec.MaxTime, count)
	if err != nil || !x.Equal() || x.Differing != 1 || x.Explained != 1 || x.Source == nil || !x.Source.Passed || x.Source.Same != 3 || !strings.Contains(text(x), "against the sources, counted again: EQUAL: 3 windows with 4 keys") {
		t.Fatalf("%+v, %v\n%s", x, err, text(x))
	}
	if x, err := results.Reconcile(ctx, s, "g2", results.Source, 10_000, 20_000, count); err != nil || !x.Equal() || x.Windows != 1 || x.Same != 1 || strings.Contains(text(x), "had not got") && !strings.Contains(text(x), "generation g2 against source") {
		t.Errorf("%+v, %v", x, err)
	}
	// The generation of the job, whose late row is known.
	if x, err := results.Reconcile(ctx, s, "live", results.Source, vec.MinTime, vec.MaxTime, count); err != nil || !x.Equal() || x.Differing != 1 || x.Explained != 1 || !strings.Contains(text(x), "1 rows came too late for it") {
		t.Errorf("%+v, %v", x, err)
	}
	if asked != 3 {
		t.Errorf("counted %d times", asked)
	}
	// A row that came to the source since.
	if err := os.WriteFile(filepath.Join(r.dir, "in.json"), []byte(keptInput+`{"s":13,"shop":"c","amount":64}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x, err = results.Reconcile(ctx, s, "g2", "", vec.MinTime, vec.MaxTime, count)
	if err != nil || x.Equal() || x.Source.Differing != 1 || !strings.Contains(text(x), "1970-01-01 00:00:10.000") || !strings.Contains(text(x), "sum(amount) 4, by the sources 68") {
		t.Errorf("%+v, %v\n%s", x, err, text(x))
	}
	if _, err := results.Promote(ctx, s, "g2", vec.MinTime, vec.MaxTime, false); err == nil || !strings.Contains(err.Error(), "1 windows that differ from what the sources hold") {
		t.Errorf("promoted: %v", err)
	}
	// Sources that cannot be read are said to be so, and are no reason.
	no := func([]results.Span) (*results.Counted, error) { return &results.Counted{Why: "they are gone"}, nil }
	if x, err := results.Reconcile(ctx, s, "g2", "", vec.MinTime, vec.MaxTime, no); err != nil || !x.Equal() || !strings.Contains(text(x), "NOT compared with the sources: they are gone") {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := results.Reconcile(ctx, s, "g2", results.Source, vec.MinTime, vec.MaxTime, no); err == nil || !strings.Contains(err.Error(), "they are gone") {
		t.Errorf("%v", err)
	}
	if _, err := results.Promote(ctx, s, "g2", vec.MinTime, vec.MaxTime, false); err != nil {
		t.Error(err)
	}
}

// endless is a source whose splits are still to come.
type endless struct{}

func init() {
	connector.Register(&connector.Factory{Name: "endless", Formats: true, NewSource: func(connector.SourceConfig) (connector.Source, error) { return endless{}, nil }})
}

func (endless) Bounded() bool                                               { return false }
func (endless) Guarantee() string                                           { return "none" }
func (endless) NewEnumerator(context.Context) (connector.Enumerator, error) { return endless{}, nil }
func (endless) Discover(context.Context) ([]connector.Split, bool, error)   { return nil, false, nil }
func (endless) Known([]string)                                              {}
func (endless) Close() error                                                { return nil }
func (endless) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(context.Context, connector.Split) (connector.SplitReader, error) { return nil, nil }), nil
}

// TestRecount_Unreadable says why sources are not read again.
func TestRecount_Unreadable(t *testing.T) {
	for source, want := range map[string]string{
		"'connector' = 'datagen', 'number-of-rows' = '10'": "made up",
		"'connector' = 'endless', 'format' = 'json'":       "does not end",
	} {
		script := strings.ReplaceAll(keptScript, "'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json'", source)
		r := newKeptRun(t, "")
		got, err := r.engine(engine.Options{}, "SUM(amount)").Recount(context.Background(), "board.sql", script, engine.BackfillOptions{}, engine.Handler{})
		if err != nil || got["board"] == nil || !strings.Contains(got["board"].Why, want) {
			t.Errorf("%s: %+v, %v", source, got["board"], err)
		}
	}
}
