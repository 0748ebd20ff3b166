package engine_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestTTL_SwitchedBetweenStarts starts a job from a savepoint that was written with a time to live without
// one, the other way round, and neither way: it goes on with the same results.
func TestTTL_SwitchedBetweenStarts(t *testing.T) {
	const (
		off    = ""
		on     = "SET 'table.exec.state.ttl' = '1 h';\n"
		script = source + `
CREATE TABLE res (k INT, n BIGINT, total DECIMAL(38, 2), least STRING, most DOUBLE, names STRING, kinds BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'debezium-json');
INSERT INTO res SELECT k, COUNT(*), SUM(price), MIN(name), MAX(x), LISTAGG(name), COUNT(DISTINCT name) FROM src GROUP BY k;`
	)
	var want map[string]string
	for _, c := range []struct{ name, first, then, how string }{
		{"never", off, off, "reused"},
		{"on", off, on, "migrated  its groups count as used now"},
		{"off", on, off, "migrated  when its groups were used last is forgotten"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t, script)
			text := f.text
			f.text = c.first + text
			f.put(order(1, "1.50", `"b"`), order(1, "2.25", `"a"`), order(2, "7.00", "null"), order(3, "3.00", `"c"`))
			at := f.run("")

			f.text = c.then + text
			plans, err := engine.New(engine.Options{Dir: f.dir}).PlanFrom(t.Context(), "flow.sql", f.text, at)
			if err != nil || len(plans) != 1 || plans[0].Err != nil {
				t.Fatalf("%+v, %v", plans, err)
			}
			if r := plans[0].Report; !r.Same || !strings.Contains(r.String(), c.how) {
				t.Errorf("not %s:\n%s", c.how, r)
			}

			f.put(order(1, "0.25", `"b"`), order(2, "1.00", `"z"`), order(4, "4.00", `"d"`))
			at = f.run(at)
			// What was written since is of the new form whatever it was: it needs nothing.
			if plans, err = engine.New(engine.Options{Dir: f.dir}).PlanFrom(t.Context(), "flow.sql", f.text, at); err != nil {
				t.Fatal(err)
			}
			if r := plans[0].Report; strings.Contains(r.String(), "migrated") {
				t.Errorf("it would be migrated once more:\n%s", r)
			}
			f.put(order(3, "0.50", `"a"`))
			f.run(at)
			switch got := f.results(); {
			case len(got) != 4 || !strings.Contains(got["1"], `"n":3`) || !strings.Contains(got["3"], `"kinds":2`):
				t.Errorf("the results are %v", got)
			case want == nil:
				want = got
			case !maps.Equal(got, want):
				t.Errorf("the results are %v, want %v", got, want)
			}
		})
	}
}
