package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestState_Windows reads and writes the accumulators of windows; they fire with these.
func TestState_Windows(t *testing.T) {
	const window = `INSERT INTO res SELECT window_start, k, COUNT(*), SUM(price) FROM TABLE(%s(TABLE src, DESCRIPTOR(ts), %s)) GROUP BY window_start, window_end, k;`
	const sink = `CREATE TABLE res (s TIMESTAMP(3), k INT, n BIGINT, total DECIMAL(38, 2)) WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'json');
`
	for _, c := range []struct{ name, query string }{
		{"tumble", fmt.Sprintf(window, "TUMBLE", "INTERVAL '10' SECOND")},
		{"hop", fmt.Sprintf(window, "HOP", "INTERVAL '5' SECOND, INTERVAL '10' SECOND")},
		{"cumulate", fmt.Sprintf(window, "CUMULATE", "INTERVAL '5' SECOND, INTERVAL '10' SECOND")},
		{"session", `INSERT INTO res SELECT SESSION_START(ts, INTERVAL '7' SECOND), k, COUNT(*), SUM(price) FROM src GROUP BY k, SESSION(ts, INTERVAL '7' SECOND);`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t, source+sink+c.query)
			f.put(order(1, "1.50", `"b"`), order(2, "7.00", `"a"`), order(2, "1.00", `"a"`))
			at := f.run("")
			_, sp := f.look(at)
			agg, err := sp.Operator("aggregate")
			if err != nil {
				t.Fatal(err)
			}
			first := engine.StateTable(agg, 0)
			_, rows = f.query(at, "SELECT k, row_count, sum_price FROM `"+first+"` ORDER BY k")
			same(t, rows, "1|1|1.50", "2|2|8.00")
			at = f.mustEdit(at, fmt.Sprint(agg.Node), "", engine.Edit{Where: "k = 2", Set: map[string]string{"row_count": "20", "sum_price": "0.75"}})
			f.put(`{"k":1,"price":0.25,"name":"late","x":0,"ts":"2026-03-01 10:00:03"}`, `{"k":9,"price":0,"name":"last","x":0,"ts":"2026-03-01 11:00:00"}`)
			f.run(at)
			files, _ := filepath.Glob(filepath.Join(f.dir, "out", "*"))
			var all []string
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, strings.Split(strings.TrimSpace(string(text)), "\n")...)
			}
			for _, want := range []string{`"k":1,"n":2,"total":1.75`, `"k":2,"n":20,"total":0.75`} {
				if !strings.Contains(strings.Join(all, "\n"), want) {
					t.Errorf("there is no %s in\n%s", want, strings.Join(all, "\n"))
				}
			}
		})
	}
}
