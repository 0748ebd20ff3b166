package clickhouse

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// TestCreate makes tables that hold no results: every type that a column can have, and each way to write
// changes.
func TestCreate(t *testing.T) {
	cols := []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "ok", Type: types.BooleanType}, {Name: "d", Type: types.DecimalType(38, 9), Comment: "unit: EUR"},
		{Name: "f", Type: types.Type{Kind: types.Float, Nullable: true}}, {Name: "s", Type: types.StringType}, {Name: "b", Type: types.BytesType}, {Name: "day", Type: types.DateType},
		{Name: "t", Type: types.TimeType(3)}, {Name: "at", Type: types.TimestampType(6)}, {Name: "z", Type: types.TimestampLTZType(3)}, {Name: "xs", Type: types.ArrayType(types.IntType)},
		{Name: "m", Type: types.MapType(types.StringType, types.BigIntType)}, {Name: "r", Type: types.RowType(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.StringType})}}
	one := put(int64(1), true, dec("1.5", 38, 9), 0.5, "x", []byte{0, 255}, day("2024-02-29"), int64(3_600_000), ts("2024-02-29 12:00:00.123456"), int64(1_709_208_000_000),
		[]types.Value{int64(1), nil}, []types.Value{"k", int64(7)}, []types.Value{int64(1), "y"})
	for _, native := range []bool{false, true} {
		r := live(t)
		d := def{name: "made", cols: cols, native: native, options: map[string]string{"sink.delivery-guarantee": "exactly-once", "sink.create": "true", "sink.create.order-by": "id"}}
		for range 2 { // the second time it is there, and knows the checkpoint
			r.write(r.open(d), 1, cols, one)
		}
		r.expect("rows", "SELECT id, ok, d, f, s, hex(b), day, t, at, z, xs, m, r FROM DB.made", "1\ttrue\t1.5\t0.5\tx\t00FF\t2024-02-29\t01:00:00.000\t2024-02-29 12:00:00.123456\t2024-02-29 12:00:00.000\t[1,NULL]\t{'k':7}\t(1,'y')")
		r.expect("the unit", "SELECT comment FROM system.columns WHERE database = currentDatabase() AND 0 UNION ALL SELECT comment FROM system.columns WHERE table = 'made' AND name = 'd' AND database = '"+r.database+"'", "unit: EUR")
	}
	r := live(t)
	d := def{name: "kv", cols: pair, key: []string{"id"}, options: map[string]string{"sink.create": "true", "sink.changelog": "replacing"}}
	r.write(r.open(d), 1, pair, put(int64(1), "a"), put(int64(2), "b"), put(int64(1), "c"), del(int64(2), "b"))
	r.expect("upserts", "SELECT id, v FROM DB.kv FINAL", "1\tc")
	d = def{name: "signs", cols: pair, options: map[string]string{"sink.create": "true", "sink.create.order-by": "id", "sink.changelog": "collapsing"}}
	r.write(r.open(d), 1, pair, put(int64(1), "a"), put(int64(2), "b"), del(int64(2), "b"))
	r.expect("changes", "SELECT id, sum(tidemark_sign) FROM DB.signs GROUP BY id ORDER BY id", "1\t1") // an insert is merged on its way
}

// TestCreateResults makes a table of results from a sink, and writes a row that is deleted into columns that
// have no NULL.
func TestCreateResults(t *testing.T) {
	r := live(t)
	cfg := r.resultTable(false)
	tab := cfg.Table
	tab.Columns = append([]types.Field{{Name: "xs", Type: types.ArrayType(types.IntType)}, {Name: "m", Type: types.MapType(types.StringType, types.IntType)}}, tab.Columns...)
	tab.Options = merged(tab.Options, "sink.create", "true")
	cfg.Schema = tab.Schema()
	f := connector.Lookup("clickhouse")
	cfg.Options = optionsOf(tab, f)
	must(t, f.Check(tab, cfg.Options))
	st, err := newStore(tab, cfg.Options)
	must(t, err)
	defer st.Close()
	if rows, err := st.Progress(t.Context(), "live", 1); err != nil || len(rows) > 0 { // before the job comes
		t.Fatalf("progress is %v, %v", rows, err)
	}
	s, err := f.NewSink(cfg)
	must(t, err)
	w, err := s.NewWriter(t.Context(), 0, 1)
	must(t, err)
	defer w.Close()
	start := int64(1_359_662_400_000)
	must(t, w.Write(t.Context(), batch(tab.Columns,
		put([]types.Value{int64(1)}, []types.Value{"k", int64(7)}, "SFO", start, start+3_600_000, int64(1), int64(25), nil, nil, int64(1), "live", nil, false, false, "on-time", nil, nil),
		put(nil, nil, "SFO", start, nil, nil, nil, nil, nil, int64(2), "live", nil, false, true, "delete", nil, nil))))
	cs, err := w.Prepare(t.Context())
	must(t, err)
	must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
	r.expect("history", "SELECT xs, m, revision, is_deleted FROM DB.board ORDER BY revision", "[1]\t{'k':7}\t1\tfalse", "[]\t{}\t2\ttrue")
	r.expect("the latest", "SELECT count() FROM DB.board_latest", "0")
	r.exec("CREATE MATERIALIZED VIEW DB.sums ENGINE = SummingMergeTree ORDER BY origin AS SELECT origin, sum(flights) AS n FROM DB.board GROUP BY origin")
	again, err := f.NewSink(cfg)
	must(t, err)
	if _, err := again.NewWriter(t.Context(), 0, 1); err == nil || !strings.Contains(err.Error(), "adds up all revisions") {
		t.Errorf("a view that adds up versions was taken: %v", err)
	}
}
