package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestState_Runs reads and writes distinct values of windows that left memory: they, and their groups, come in
// parts.
func TestState_Runs(t *testing.T) {
	f := newFlow(t, `SET 'tidemark.state.memory' = '1 b';
`+source+`CREATE TABLE res (s TIMESTAMP(3), k INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');
INSERT INTO res SELECT window_start, k, COUNT(DISTINCT price) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k;`)
	place := ""
	for part := range 3 {
		var lines []string
		for i := range 5 {
			lines = append(lines, fmt.Sprintf(`{"k":%d,"price":%d,"name":"x","x":0,"ts":"2026-03-01 10:00:00"}`, i%2, i+part))
		}
		f.put(lines...)
		place = f.run(place)
	}
	_, sp := f.look(place)
	agg, err := sp.Operator("aggregate")
	if err != nil {
		t.Fatal(err)
	}
	groups, values := engine.StateTable(agg, 0), engine.StateTable(agg, 1)
	_, rows := f.query(place, "SELECT k, COUNT(DISTINCT price), COUNT(DISTINCT COALESCE(run, 0)) > 1 FROM `"+values+"` GROUP BY k ORDER BY k")
	same(t, rows, "0|7|true", "1|5|true")
	_, rows = f.query(place, "SELECT k, MAX(run) FROM `"+groups+"` WHERE k = 1 GROUP BY k")
	if len(rows) != 1 {
		t.Fatal(rows)
	}
	run := strings.Split(rows[0], "|")[1]
	_, before := f.query(place, "SELECT k, COUNT(*) FROM `"+values+"` WHERE k <> 1 OR run IS NULL OR run <> "+run+" GROUP BY k ORDER BY k")
	place = f.mustEdit(place, fmt.Sprint(agg.Node), "", engine.Edit{Where: "k = 1 AND run = " + run, Delete: true})
	_, after := f.query(place, "SELECT k, COUNT(*) FROM `"+values+"` GROUP BY k ORDER BY k")
	same(t, after, before...)
	f.put(`{"k":9,"price":0,"name":"last","x":0,"ts":"2026-03-01 12:00:00"}`)
	f.run(place)
}
