package dashboard

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const hourMs = int64(3_600_000)

// testTable is a table of results with windows of an hour.
func testTable() *connector.Table {
	col := func(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }
	return &connector.Table{Name: "board", Connector: "memory", Columns: []types.Field{col("origin", types.StringType), col("ws", types.TimestampType(3)), col("we", types.TimestampType(3)),
		col("n", types.BigIntType), col("eur", types.DecimalType(20, 2)), col("rev", types.BigIntType), col("gen", types.StringType), col("fin", types.BooleanType), col("del", types.BooleanType)},
		Results: &connector.Results{Key: []string{"origin", "ws"}, WindowStart: "ws", WindowEnd: "we", Generation: "live", LatenessMs: hourMs,
			Column: map[string]string{"revision": "rev", "generation": "gen", "is_final": "fin", "is_deleted": "del"}, Units: map[string]string{"eur": "EUR"}}}
}

// row is a row of testTable of the window that begins at hour h.
func row(origin string, h, n, rev int64, gen string, fin, del bool) []types.Value {
	return []types.Value{origin, types.TS(h*hourMs, 0), types.TS((h+1)*hourMs, 0), n, types.I128(n*100 + 5), rev, gen, fin, del}
}

func batchOf(rows ...[]types.Value) *vec.Batch {
	b := vec.NewBatch(testTable().Schema())
	for _, r := range rows {
		for i, c := range b.Cols {
			c.AppendValue(r[i])
		}
		b.N++
	}
	return b
}

// query asks l and prints the rows without their metadata.
func query(t *testing.T, l *Live, q results.Query) string {
	t.Helper()
	if q.From == 0 && q.To == 0 {
		q.From, q.To = vec.MinTime, vec.MaxTime
	}
	rows, err := l.Query(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows.Rows {
		var cells []string
		for i, c := range rows.Columns {
			if c.Name != "we" && c.Name != "fin" && c.Name != "del" && c.Name != "gen" {
				cells = append(cells, strings.TrimSuffix(textOf(r[i]), ":00:00"))
			}
		}
		out = append(out, strings.Join(cells, " "))
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLive(t *testing.T) {
	l := NewLive(testTable(), 3)
	l.Add(batchOf(row("EWR", 1, 10, 1, "live", false, false), row("JFK", 1, 7, 1, "live", false, false), row("EWR", 1, 11, 2, "live", false, false)))
	by := results.Query{Order: []string{"origin", "ws"}}
	expect(t, query(t, l, by), "EWR 1970-01-01 01 11 11.05 2, JFK 1970-01-01 01 7 7.05 1")
	// An older revision of another subtask changes nothing.
	l.Add(batchOf(row("EWR", 1, 10, 1, "live", false, false)))
	expect(t, query(t, l, results.Query{Where: map[string]string{"origin": "EWR"}}), "EWR 1970-01-01 01 11 11.05 2")
	// A selection is kept to, and what is deleted is not shown.
	b := batchOf(row("LGA", 2, 99, 1, "live", false, false), row("JFK", 1, 7, 2, "live", true, true), row("LGA", 3, 5, 1, "live", false, false))
	b.Sel = []int32{1, 2}
	l.Add(b)
	expect(t, query(t, l, by), "EWR 1970-01-01 01 11 11.05 2, LGA 1970-01-01 03 5 5.05 1")
	expect(t, query(t, l, results.Query{Deleted: true, Limit: 2, Order: []string{"-n"}}), "EWR 1970-01-01 01 11 11.05 2, JFK 1970-01-01 01 7 7.05 2")
	// The fourth key takes the place of the first.
	l.Add(batchOf(row("LGA", 4, 6, 1, "live", false, false)))
	expect(t, query(t, l, by), "LGA 1970-01-01 03 5 5.05 1, LGA 1970-01-01 04 6 6.05 1")
	if h := l.held(); h.Keys != 3 || h.Limit != 3 || h.Dropped != 1 {
		t.Errorf("%+v", h)
	}
	expect(t, query(t, l, results.Query{Group: []string{"origin"}, Sums: []results.Sum{{Fn: "sum", Column: "eur"}, {Fn: "avg", Column: "n"}, {Fn: "count", Column: "n"}, {Fn: "max", Column: "ws"}}}),
		"LGA 11.10 5.5 2 1970-01-01 04")
	expect(t, query(t, l, results.Query{From: 4 * hourMs, To: 5 * hourMs}), "LGA 1970-01-01 04 6 6.05 1")
	// After a restart a lower revision counts more than what was seen before.
	l.Add(batchOf(row("LGA", 4, 8, 3, "live", false, false)))
	l.Restarted()
	l.Add(batchOf(row("LGA", 4, 7, 2, "live", false, false)))
	expect(t, query(t, l, results.Query{From: 4 * hourMs, To: 5 * hourMs}), "LGA 1970-01-01 04 7 7.05 2")
	if _, err := l.Query(context.Background(), results.Query{History: true}); err == nil {
		t.Error("it claims to know the history")
	}
}

// TestLiveForgetsTexts writes one key very often: what was written over must leave memory.
func TestLiveForgetsTexts(t *testing.T) {
	l := NewLive(testTable(), 10)
	long := strings.Repeat("x", 1000)
	for i := range 20_000 {
		l.Add(batchOf(row("EWR", 1, 1, int64(i), long, false, false)))
	}
	if n := cap(l.cells.rows.Cols[6].Buf); n > 4<<20 {
		t.Errorf("%d bytes are kept for one text of 1000", n)
	}
}

func TestLiveAllocatesNothingARow(t *testing.T) {
	l := NewLive(testTable(), 100)
	var rows [][]types.Value
	for i := range int64(50) {
		rows = append(rows, row(fmt.Sprint("A", i), 1, i, 1, "live", false, false))
	}
	b := batchOf(rows...)
	l.Add(b)
	if n := testing.AllocsPerRun(200, func() { l.Add(b) }); n > 5 {
		t.Errorf("%v allocations a batch of 50 rows whose keys are known", n)
	}
}

func TestLiveProgress(t *testing.T) {
	l := NewLive(testTable(), 0)
	l.Note(connector.Progress{Lineage: "a", Checkpoint: 1, Generation: "live", Watermark: 5})
	l.Note(connector.Progress{Lineage: "a", Checkpoint: 1, Generation: "live", Watermark: 9})
	l.Note(connector.Progress{Lineage: "a", Checkpoint: 2, Generation: "live", Watermark: 12})
	got, err := l.Progress(context.Background(), "live", 5)
	if err != nil || len(got) != 2 || got[0].Watermark != 12 || got[1].Watermark != 9 {
		t.Errorf("%v, %v", got, err)
	}
	if got, _ := l.Progress(context.Background(), "g2", 5); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
