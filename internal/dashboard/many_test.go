package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/types"
)

// shown serves a board over l and returns what its tiles show, in order, and what is warned of.
func shown(t *testing.T, l *Live, tiles string) (out []Data, warnings []string) {
	t.Helper()
	b, err := ParseBoard("board.yaml", []byte("tiles:\n"+tiles))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Sources: []Source{{Table: testTable(), Store: l, Memory: true}}, Board: b, Config: t.TempDir() + "/board.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	s.poll(context.Background(), viewAll)
	for _, tile := range b.Tiles {
		var d Data
		if err := json.Unmarshal(s.seen[viewAll].tiles[tile.ID], &d); err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out, s.Warnings()
}

// TestManyKeys shows a table of ten thousand keys a window: nothing takes long, and what is left out is said.
func TestManyKeys(t *testing.T) {
	l := NewLive(testTable(), 100_000)
	for h := range int64(3) {
		var rows [][]types.Value
		for k := range int64(10_000) {
			rows = append(rows, row(fmt.Sprintf("key %05d", k), h, k+h, 1, "live", false, false))
		}
		l.Add(batchOf(rows...))
	}
	begun := time.Now()
	d, _ := shown(t, l, "- {kind: table, columns: [origin, n], order: [-n], limit: 1000}\n- {kind: series, value: n, by: origin}\n- {kind: series, value: n, by: origin, last: 3}\n- {kind: bars, value: n, by: origin}\n- {kind: number, value: sum(n), last: all}\n")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("that took %s", took)
	}
	if x := d[0]; len(x.Table.Rows) != 1000 || x.Table.Rows[0].Cells[0] != "key 09999" || x.Table.Total != 30_000 || !strings.Contains(x.Note, "pages go to row 20000") {
		t.Errorf("%d rows of %d, %s", len(x.Table.Rows), x.Table.Total, x.Note)
	}
	// Of three windows with 10,000 rows each two fit.
	if x := d[1]; x.Error != "" || len(x.Series.Lines) != 8 || len(x.Series.Start) != 2 || x.Series.Start[1] != 2*hourMs ||
		!strings.Contains(x.Note, "9992 smaller lines are not shown") || !strings.Contains(x.Note, "only the newest windows") {
		t.Errorf("%+v", x)
	}
	if x := d[2]; !strings.Contains(x.Error, "would read more than 20000 rows") {
		t.Errorf("%+v", x)
	}
	if x := d[3]; len(x.Bars) != 12 || x.Bars[0].Value != 10001.0 || !strings.Contains(x.Note, "9988 smaller bars") {
		t.Errorf("%+v", x)
	}
	if x := d[4]; x.Number.Value != float64(3*10_000*9_999/2+10_000*3) {
		t.Errorf("%+v", x.Number)
	}
}

// TestStrangeKeys shows keys that are NULL, empty, very long or look like code.
func TestStrangeKeys(t *testing.T) {
	l := NewLive(testTable(), 0)
	long := strings.Repeat("long ", 20_000)
	null := row("", 1, 1, 1, "live", false, false)
	null[0] = nil
	noNumber := row("empty", 1, 1, 1, "live", false, false)
	noNumber[3], noNumber[4] = nil, nil
	l.Add(batchOf(null, row("", 1, 2, 1, "live", false, false), row("<img src=x onerror=alert(1)>", 1, 3, 1, "live", false, false), row(long, 1, 4, 1, "live", false, false), noNumber))
	d, _ := shown(t, l, "- {kind: table, columns: [origin, n]}\n- {kind: series, value: n, by: origin}\n- {kind: bars, value: n, by: origin}\n- {kind: number, value: sum(n)}\n- {kind: number, value: sum(n), where: {origin: ''}}\n")
	var cells []string
	for _, r := range d[0].Table.Rows {
		text := fmt.Sprint(r.Cells[0])
		cells = append(cells, fmt.Sprint(text[:min(len(text), 10)], "=", r.Cells[1]))
	}
	expect(t, strings.Join(cells, ", "), "<nil>=1, =2, <img src=x=3, empty=<nil>, long long =4")
	if text := d[0].Table.Rows[4].Cells[0].(string); len(text) > maxCell+3 || !strings.HasSuffix(text, "\u2026") {
		t.Errorf("a cell of %d bytes", len(text))
	}
	if len(d[1].Series.Lines) != 5 || d[1].Error != "" || len(d[2].Bars) != 5 || d[2].Bars[4].Value != nil {
		t.Errorf("%+v %+v", d[1], d[2])
	}
	if d[3].Number.Value != 10.0 || d[4].Number.Value != 2.0 {
		t.Errorf("%+v %+v", d[3].Number, d[4].Number)
	}
}

// TestWarnings names tiles that cannot be shown, with their lines.
func TestWarnings(t *testing.T) {
	_, got := shown(t, NewLive(testTable(), 0), "- {kind: number, value: n}\n- kind: number\n  value: sum(colour)\n- {kind: table, table: nowhere}\n- {kind: table, columns: [n, m]}\n")
	want := []string{`board.yaml:3: value: table board has no column "colour"`, "board.yaml:5: there is no table of results called nowhere; there are [board]", `board.yaml:6: columns: table board has no column "m"`}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s, not %s", got[i], want[i])
		}
	}
}
