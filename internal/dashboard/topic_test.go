package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// topicTable is testTable with the watermark of each row.
func topicTable() *connector.Table {
	t := testTable()
	t.Connector = "kafka"
	t.Columns = append(t.Columns, types.Field{Name: "as_of", Type: types.TimestampLTZType(3)})
	t.Results.Column["watermark"] = "as_of"
	return t
}

// record is a row of topicTable with the watermark that it carries (in hours, -1: none) and the time of its record.
func record(origin string, h, n, rev int64, gen string, fin, del bool, watermark float64, at int64) []types.Value {
	var wm types.Value
	if watermark >= 0 {
		wm = types.TS(int64(watermark*float64(hourMs)), 0)
	}
	return append(row(origin, h, n, rev, gen, fin, del), wm, types.TS(at, 0))
}

func records(t *connector.Table, rows ...[]types.Value) *vec.Batch {
	s := t.Schema()
	s.Fields = append(s.Fields, RecordTime)
	b := vec.NewBatch(s)
	for _, r := range rows {
		for i, c := range b.Cols {
			c.AppendValue(r[i])
		}
		b.N++
	}
	return b
}

// cellsOf are the rows of a Topic: origin, hour, number, revision, F where final.
func cellsOf(t *testing.T, o *Topic, generation string) string {
	t.Helper()
	rows, err := o.Query(context.Background(), results.Query{Generation: generation, From: vec.MinTime, To: vec.MaxTime, Order: []string{"origin", "ws"}})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows.Rows {
		fin := ""
		if r[len(r)-1] == true {
			fin = " F"
		}
		out = append(out, fmt.Sprintf("%v %d %v/%v%s", r[0], r[1].(time.Time).Hour(), r[3], r[5], fin))
	}
	return strings.Join(out, ", ")
}

func TestTopic(t *testing.T) {
	table := topicTable()
	o := NewTopic(table, 0, "")
	o.Add(records(table, record("EWR", 1, 10, 1, "live", false, false, 2, 100), record("JFK", 1, 7, 1, "live", false, false, 2, 100),
		record("EWR", 1, 11, 2, "live", false, false, 2.5, 110), record("EWR", 1, 10, 1, "live", false, false, 2, 120)))
	expect(t, cellsOf(t, o, ""), "EWR 1 11/2, JFK 1 7/1")
	o.Behind(0, true)
	// The window of 1 may be corrected until 3 o'clock: a row of EWR says that this has passed, one of JFK does not.
	o.Add(records(table, record("EWR", 3, 5, 1, "live", false, false, 3, 130), record("JFK", 2, 6, 1, "live", true, false, 2.9, 130)))
	expect(t, cellsOf(t, o, ""), "EWR 1 11/2 F, EWR 3 5/1, JFK 1 7/1, JFK 2 6/1 F")
	// What is deleted is not shown, and comes back with a later revision.
	o.Add(records(table, record("JFK", 1, 0, 2, "live", false, true, 2.9, 140)))
	expect(t, cellsOf(t, o, ""), "EWR 1 11/2 F, EWR 3 5/1, JFK 2 6/1 F")
	o.Add(records(table, record("JFK", 1, 8, 3, "live", false, false, 2.9, 150)))
	expect(t, cellsOf(t, o, ""), "EWR 1 11/2 F, EWR 3 5/1, JFK 1 8/3, JFK 2 6/1 F")

	// The same revision again changes nothing; with other content it is a conflict, and the first one stays.
	o.Add(records(table, record("JFK", 1, 8, 3, "live", false, false, 2.9, 160)))
	if n, _ := o.Conflicts(context.Background(), ""); n != 0 {
		t.Errorf("%d conflicts", n)
	}
	o.Add(records(table, record("JFK", 1, 9, 3, "live", false, false, 2.9, 170)))
	if n, _ := o.Conflicts(context.Background(), ""); n != 1 {
		t.Errorf("%d conflicts", n)
	}
	expect(t, cellsOf(t, o, ""), "EWR 1 11/2 F, EWR 3 5/1, JFK 1 8/3, JFK 2 6/1 F")

	// A newer generation counts as a whole, its watermark is its own, and the one before can still be asked for.
	o.Add(records(table, record("EWR", 1, 12, 1, "g2", false, false, 2, 200), record("EWR", 4, 1, 1, "live", false, false, 5, 210)))
	expect(t, cellsOf(t, o, ""), "EWR 1 12/1")
	expect(t, cellsOf(t, o, "live"), "EWR 1 11/2 F, EWR 3 5/1 F, EWR 4 1/1, JFK 1 8/3, JFK 2 6/1 F")
	p, err := o.Progress(context.Background(), "live", 1)
	if err != nil || len(p) != 1 || p[0].Watermark != 5*hourMs || p[0].At != 210 || p[0].Rows != 11 {
		t.Errorf("%+v, %v", p, err)
	}
	g, err := o.Generations(context.Background())
	if err != nil || len(g) != 2 || g[1] != (results.Generation{Name: "live", FirstWindow: hourMs, LastWindow: 4 * hourMs, Keys: 5, Revisions: 8}) {
		t.Errorf("%+v, %v", g, err)
	}

	// Sums are final where all that is in them is.
	rows, err := o.Query(context.Background(), results.Query{Generation: "live", From: vec.MinTime, To: vec.MaxTime, Group: []string{"origin"},
		Sums: []results.Sum{{Fn: "sum", Column: "n"}, {Fn: "min", Column: finalColumn}}, Order: []string{"origin"}})
	if err != nil || fmt.Sprint(rows.Rows) != "[[EWR 17 false] [JFK 14 false]]" {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestTopicIsRead says how far the reading is, and reads again after a failure.
func TestTopicIsRead(t *testing.T) {
	table := topicTable()
	o := NewTopic(table, 0, "")
	if h := o.held(); h.Behind == nil || *h.Behind != -1 || !h.Topic {
		t.Errorf("%+v", h)
	}
	o.Add(records(table, record("EWR", 1, 10, 1, "live", false, false, 9, 100)))
	o.Behind(3, false)
	if h := o.held(); h.Behind == nil || *h.Behind != 3 {
		t.Errorf("%+v", h)
	}
	expect(t, cellsOf(t, o, ""), "EWR 1 10/1") // not all was read: another row may correct it
	o.Behind(0, true)
	if h := o.held(); h.Behind != nil {
		t.Errorf("%+v", h)
	}
	expect(t, cellsOf(t, o, ""), "EWR 1 10/1 F")
	o.Failed(errors.New("the brokers are away"))
	if _, err := o.Pointer(context.Background()); err == nil || err.Error() != "the brokers are away" {
		t.Errorf("%v", err)
	}
	o.Again()
	o.Add(records(table, record("EWR", 1, 10, 1, "live", false, false, 9, 100)))
	expect(t, cellsOf(t, o, ""), "EWR 1 10/1")
	o.Behind(0, true)
	if _, err := o.Pointer(context.Background()); err != nil {
		t.Error(err)
	}
	if p, _ := o.Progress(context.Background(), "live", 1); p[0].Rows != 1 {
		t.Errorf("%+v", p)
	}
}

// TestTopicIsBounded reads more keys than there is room for, and longer texts.
func TestTopicIsBounded(t *testing.T) {
	table := topicTable()
	o := NewTopic(table, 3, "")
	for h := range int64(5) {
		o.Add(records(table, record("EWR", h, h, 1, "live", false, false, float64(h+1), h)))
	}
	expect(t, cellsOf(t, o, ""), "EWR 2 2/1, EWR 3 3/1, EWR 4 4/1")
	if h := o.held(); h.Keys != 3 || h.Limit != 3 || h.Dropped != 2 {
		t.Errorf("%+v", h)
	}
	// Each of these takes a megabyte: the bound of the memory is reached before that of the keys.
	o = NewTopic(table, 1000, "")
	o.cells.maxBytes = 8 << 20
	long := strings.Repeat("x", 1<<20)
	for h := range int64(40) {
		o.Add(records(table, record(fmt.Sprint(h%20, long), h, h, 1, "live", false, false, 1, h)))
	}
	if n := o.cells.rows.Bytes(); n > 24<<20 {
		t.Errorf("%d bytes are kept", n)
	}
	if h := o.held(); h.Keys > 10 || h.Limit != h.Keys || h.Dropped != int64(40-h.Keys) {
		t.Errorf("%+v", h)
	}
}

// TestTopicTiles makes a page over a topic.
func TestTopicTiles(t *testing.T) {
	table := topicTable()
	o := NewTopic(table, 0, "")
	for h := int64(1); h <= 4; h++ {
		o.Add(records(table, record("EWR", h, 10*h, 1, "live", false, false, float64(h+1), 100), record("JFK", h, h, 1, "live", false, false, float64(h+1), 100)))
	}
	o.Behind(0, true)
	board, err := ParseBoard("b", []byte("tiles:\n- {kind: number, value: sum(n)}\n- {kind: number, value: sum(n), last: all}\n- {kind: series, value: n, by: origin}\n- {kind: table, columns: [origin, n]}\n- {kind: number, value: sum(n), generation: g0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Sources: []Source{{Table: table, Store: o}}, Board: board, Now: func() time.Time { return time.UnixMilli(1000) }})
	if err != nil {
		t.Fatal(err)
	}
	s.poll(context.Background(), viewAll)
	tile := func(id string) (d Data) {
		t.Helper()
		if err := json.Unmarshal(s.seen[viewAll].tiles[id], &d); err != nil || d.Error != "" {
			t.Fatalf("%s: %v %s", id, err, d.Error)
		}
		return d
	}
	if n := tile("t1").Number; n.Value != 44.0 || n.State != "p" {
		t.Errorf("%+v", n)
	}
	if d := tile("t2"); d.Number.Value != 110.0 || d.Tally.Final != 3 || d.Tally.Provisional != 1 {
		t.Errorf("%+v %+v", d.Number, d.Tally)
	}
	if l := tile("t3").Series.Lines; len(l) != 2 || l[0].States != "fffp" {
		t.Errorf("%+v", l)
	}
	if d := tile("t4"); d.Tally.Final != 6 || d.Table.Rows[0].Generation != "live" {
		t.Errorf("%+v", d.Table)
	}
	if d := tile("t5"); d.Number != nil || d.Empty != "no rows yet" {
		t.Errorf("%+v", d)
	}
	var st Status
	if err := json.Unmarshal(s.seen[viewAll].sources["board"], &st); err != nil {
		t.Fatal(err)
	}
	if p := st.Progress["live"]; st.Default != "live" || !st.Held.Topic || *p.Watermark != 5*hourMs || p.Rows != 8 || p.Splits != 0 {
		t.Errorf("%+v %+v", st, p)
	}
	// It is looked at again when rows have come, and only then.
	before := string(s.seen[viewAll].tiles["t1"])
	s.poll(context.Background(), viewAll)
	if string(s.seen[viewAll].tiles["t1"]) != before {
		t.Error("nothing came, and the tile is another one")
	}
	o.Add(records(table, record("EWR", 4, 50, 2, "live", true, false, 5, 110), record("JFK", 4, 5, 2, "live", true, false, 5, 110)))
	s.poll(context.Background(), viewAll)
	if n := tile("t1").Number; n.Value != 55.0 || n.State != "f" {
		t.Errorf("%+v", n)
	}
	// While it cannot be read the page says so and shows what was there.
	o.Failed(errors.New("brokers are away"))
	s.poll(context.Background(), viewAll)
	var d Data
	if err := json.Unmarshal(s.seen[viewAll].tiles["t1"], &d); err != nil || !strings.Contains(d.Error, "table board cannot be read: brokers are away") || d.Number.Value != 55.0 {
		t.Errorf("%v %+v", err, d)
	}
	o.Again()
	o.Behind(5, false)
	s.poll(context.Background(), viewAll)
	tile("t1")
}
