package job

import (
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
)

// TestMissed_List puts neighbours together where there are too many windows, and says how many each stands for.
func TestMissed_List(t *testing.T) {
	var m missed
	windows := map[[2]int64]int64{}
	const n = 2*maxMissed + 1
	for i := range int64(n) {
		windows[[2]int64{10 * i, 10*i + 10}] = 2
	}
	m.add(3, windows)
	m.add(4, map[[2]int64]int64{{0, 10}: 5})
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
