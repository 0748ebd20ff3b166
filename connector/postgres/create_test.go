package postgres

import (
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// TestCreate makes tables that hold no results.
func TestCreate(t *testing.T) {
	cols := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "ok", Type: types.BooleanType}, {Name: "d", Type: types.DecimalType(38, 9), Comment: "unit: EUR"}, {Name: "s", Type: types.StringType},
		{Name: "b", Type: types.BytesType}, {Name: "day", Type: types.DateType}, {Name: "at", Type: types.TimestampType(6)}, {Name: "z", Type: types.TimestampLTZType(3)}, {Name: "xs", Type: types.ArrayType(types.IntType)}}
	one := put(int64(1), true, dec("1.5", 38, 9), "x", []byte{0, 255}, day("2024-02-29"), ts("2024-02-29 12:00:00.123456"), int64(1_709_208_000_000), []types.Value{int64(1), nil})
	r := live(t)
	for _, key := range [][]string{nil, {"id"}} {
		name := "made"
		if key != nil {
			name = "Keyed"
		}
		d := def{name: name, cols: cols, key: key, options: map[string]string{"sink.create": "true"}}
		for range 2 {
			w := r.writer(r.open(d))
			must(t, w.Write(t.Context(), batch(cols, one)), w.Flush(t.Context()))
		}
	}
	const row = "1 | t | 1.500000000 | x | \\x00ff | 2024-02-29 | 2024-02-29 12:00:00.123456 | 2024-02-29 12:00:00+00 | {1,NULL}"
	r.expect("rows", "SELECT * FROM made", row, row)
	r.expect("rows by key", `SELECT * FROM "Keyed"`, row)
	r.expect("the unit", "SELECT col_description('made'::regclass, 3)", "unit: EUR")
}

// TestCreateResults makes a table of results from a sink; whoever looks before finds it made too.
func TestCreateResults(t *testing.T) {
	for _, lookFirst := range []bool{false, true} {
		r := live(t)
		cfg := r.resultTable()
		cfg.Table.Options["sink.create"] = "true"
		f := connector.Lookup("postgres")
		cfg.Options = option.Of(cfg.Table.Options, f.Options, connector.CommonOptions)
		must(t, f.Check(cfg.Table, cfg.Options))
		if m := f.SinkChangelog(cfg.Table, cfg.Options); m != types.InsertOnly {
			t.Errorf("revisions are written as %s", m)
		}
		if lookFirst {
			st, err := newStore(cfg.Table, cfg.Options)
			must(t, err)
			rows, err := st.Progress(t.Context(), "live", 1)
			must(t, err, st.Close())
			if len(rows) > 0 {
				t.Errorf("progress is %v", rows)
			}
		}
		r.commitResults(cfg)(t, [][]types.Value{{"SFO", int64(0), int64(3_600_000), int64(4), int64(25), nil, nil, int64(1), "live", nil, true, false, "on-time", nil, nil}},
			&connector.Progress{Lineage: "l", Checkpoint: 1, Generation: "live"})
		r.expect("the latest", "SELECT origin, flights, delay, revision FROM board_latest", "SFO | 4 | 0.25 | 1")
		r.expect("progress", "SELECT count(*) FROM board_progress", "1")
	}
}
