package job

import (
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
)

// TestMissed_List puts neighbours together where there are too many windows, and says how many each stands for.
func TestMissed_List(t *testing.T) {
	var m missed
	windows := missedWindows{}
	const n = 2*maxMissed + 1
	for i := range int64(n) {
		windows[[2]int64{10 * i, 10*i + 10}] = missedRows{rows: 2}
	}
	m.add(3, windows)
	m.add(4, missedWindows{{0, 10}: {rows: 5}})
	if got := m.list(map[int]bool{4: true}); len(got) != 1 || got[0] != (connector.MissedWindow{Start: 0, End: 10, Rows: 5}) || got[0].Count() != 1 {
		t.Errorf("%+v", got)
	}
	p := connector.Progress{Missed: m.list(map[int]bool{3: true})}
	var rows int64
	for _, w := range p.Missed {
		rows += w.Rows
	}
	if len(p.Missed) > maxMissed || p.MissedCount() != n || rows != 2*n || p.Missed[0] != (connector.MissedWindow{Start: 0, End: 30, Rows: 6, Windows: 3}) {
		t.Errorf("%d runs of %d windows with %d rows, the first %+v", len(p.Missed), p.MissedCount(), rows, p.Missed[0])
	}
}

// TestMissed_TooMany makes one span of more windows than are told apart: it says how many they were, has each of them and all
// rows, and takes in what comes later.
func TestMissed_TooMany(t *testing.T) {
	into := missedWindows{}
	tell := missedBy(into)
	const n = maxTold + 500
	for i := range int64(n) {
		tell(10*i, 10*i+10, 2)
	}
	tell(50, 60, 1)        // in the span
	tell(-100, -90, 1)     // beside it
	tell(10*n-10, 10*n, 3) // told apart since
	var m missed
	m.add(1, into)
	p := connector.Progress{Missed: m.list(map[int]bool{1: true})}
	var rows int64
	for _, w := range p.Missed {
		rows += w.Rows
	}
	if got := p.MissedCount(); got != n+1 || rows != 2*n+5 || len(p.Missed) > maxMissed {
		t.Errorf("%d windows with %d rows, want %d with %d; %d entries", got, rows, n+1, 2*n+5, len(p.Missed))
	}
	for i := range int64(n) {
		found := false
		for _, w := range p.Missed {
			found = found || w.Start <= 10*i && 10*i+10 <= w.End
		}
		if !found {
			t.Fatalf("window %d is not known to need a backfill", i)
		}
	}
	clear(into) // as a cut does
	tell(50, 60, 1)
	if len(into) != 1 || into[[2]int64{50, 60}] != (missedRows{rows: 1}) {
		t.Errorf("after a cut: %v", into)
	}
}
