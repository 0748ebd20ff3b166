package dashboard

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

// booksOf are those of a table whose job has come to a watermark.
func booksOf(t *testing.T, table *connector.Table, watermark int64) *books {
	t.Helper()
	f := newFake()
	f.progress(connector.Progress{Generation: "live", Watermark: watermark})
	b := newBooks(&Source{Table: table, Store: f})
	if err := b.update(context.Background(), nil, time.UnixMilli(0)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBooksWhereClocksAreSetBack looks at the window of 1 o'clock on the night that has two of these hours.
func TestBooksWhereClocksAreSetBack(t *testing.T) {
	table := testTable()
	table.Results.Zone, table.Results.LatenessMs = "America/New_York", 0
	start := time.Date(2024, 11, 3, 1, 0, 0, 0, time.UTC).UnixMilli()
	w := window{start: start, end: start + hourMs, known: true}
	at := func(h, m, s int) int64 { return time.Date(2024, 11, 3, h, m, s, 999_000_000, time.UTC).UnixMilli() }
	for watermark, want := range map[int64]byte{at(5, 59, 59): provisional, at(6, 19, 59): provisional, at(6, 59, 58): provisional, at(6, 59, 59): final} {
		if got, _ := booksOf(t, table, watermark).judge(w, "live", false); got != want {
			t.Errorf("at %s it is %c, not %c", time.UnixMilli(watermark).UTC(), got, want)
		}
	}
	// Lateness is time that passes, also over the change.
	table.Results.LatenessMs = hourMs
	w.start, w.end = start-2*hourMs, start-hourMs // 23 to 24 o'clock, which is over at 4 o'clock UTC
	for watermark, want := range map[int64]byte{at(4, 59, 58): provisional, at(4, 59, 59): final} {
		if got, _ := booksOf(t, table, watermark).judge(w, "live", false); got != want {
			t.Errorf("at %s it is %c, not %c", time.UnixMilli(watermark).UTC(), got, want)
		}
	}
}

// TestBooksWithoutAnEnd has a table whose windows have a start only: they are final when the end that the job
// knows of has passed, and where nobody knows it with the input.
func TestBooksWithoutAnEnd(t *testing.T) {
	table := testTable()
	table.Results.WindowEnd = ""
	stateAt := func(watermark int64) string {
		b := booksOf(t, table, watermark)
		p := places{start: 1, end: -1, gen: -1, flag: -1, value: 3, count: -1, revision: 5}
		x := p.point(&tile{src: b.src, b: b}, []any{"EWR", time.UnixMilli(2 * hourMs), nil, int64(1), "", int64(1)})
		return string(x.state)
	}
	expect(t, stateAt(3*hourMs)+stateAt(100*hourMs)+stateAt(vec.MaxTime), "ppf")
	table.Results.Windows = &connector.WindowGrid{Size: hourMs, Step: hourMs}
	expect(t, stateAt(3*hourMs)+stateAt(4*hourMs-1)+stateAt(vec.MaxTime), "pff") // an hour may correct it
}

// TestBooksRememberMissedWindows begins long after rows came too late for a window.
func TestBooksRememberMissedWindows(t *testing.T) {
	f := newFake()
	f.past = make([]connector.Progress, 0, progressPast+100)
	for i := progressPast + 50; i > 0; i-- {
		f.past = append(f.past, connector.Progress{Generation: "live", Lineage: "l", Checkpoint: int64(i), At: int64(1000 * i), Watermark: 100 * hourMs})
	}
	f.past[len(f.past)-1].Missed = []connector.MissedWindow{{Start: 4 * hourMs, End: 5 * hourMs, Rows: 4}}
	b := newBooks(&Source{Table: testTable(), Store: f})
	look := func() {
		t.Helper()
		if err := b.update(context.Background(), nil, time.UnixMilli(0)); err != nil {
			t.Fatal(err)
		}
	}
	states := func(generation string) (out string) {
		for h := int64(3); h < 7; h++ {
			s, _ := b.judge(window{start: h * hourMs, end: (h + 1) * hourMs, known: true}, generation, false)
			out += string(s)
		}
		return out
	}
	look()
	expect(t, states("live"), "fbff")
	// What comes later is added, once.
	f.progress(connector.Progress{Generation: "live", Watermark: 100 * hourMs, Missed: []connector.MissedWindow{{Start: 5 * hourMs, End: 6 * hourMs, Rows: 1}}})
	look()
	look()
	expect(t, states("live"), "fbbf")
	if n := b.gens["live"].missed[1].Rows; n != 1 {
		t.Errorf("%d rows were missed, not 1", n)
	}
	// A backfill that began before the second of them lacks it, and has the first.
	f.records = []results.Record{{Kind: results.KindBackfill, Name: "g2", At: 1000 * (progressPast + 50)}}
	f.pointer = results.Pointer{Version: 1, Ranges: []results.Range{{From: 0, To: 10 * hourMs, Generation: "g2"}}}
	f.past = append(f.past, connector.Progress{Generation: "g2", Lineage: "m", Watermark: vec.MaxTime})
	look()
	look()
	expect(t, states("g2"), "ffbf")
}

// TestBooksKnowIdleSplits thins the progress out and still says what all rows of it say.
func TestBooksKnowIdleSplits(t *testing.T) {
	var g generation
	var all []connector.Progress
	idle := []int{0, 0, 1, 1, 0, 0, 0, 2, 2, 2, 0, 1}
	for i, n := range idle {
		p := connector.Progress{Lineage: "l", Checkpoint: int64(i), Watermark: int64(i) * 10, SplitsIdle: n}
		if i == 9 {
			p.Watermark = 45 // it was started again from further back
		}
		all = append([]connector.Progress{p}, all...)
		g.add(&p)
		g.add(&p) // seen twice
	}
	if len(g.past) >= len(all) {
		t.Errorf("%d rows of %d are kept", len(g.past), len(all))
	}
	var times results.Times
	for end := int64(0); end < 130; end++ {
		want, wantKnown := times.ClosedBy(all, end)
		got, known := times.ClosedBy(g.past, end)
		if wantIdle := wantKnown && want.SplitsIdle > 0; (known && got.SplitsIdle > 0) != wantIdle {
			t.Errorf("the window that ends at %d closed while splits were idle: not %v", end, wantIdle)
		}
	}
}
