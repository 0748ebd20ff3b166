package evolve

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

const olderTables = `
CREATE TABLE orders (id STRING, item STRING, price DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka',
  'scan.startup.mode' = 'earliest-offset', 'topic' = 'orders', 'properties.bootstrap.servers' = 'a:1', 'format' = 'json');
CREATE TABLE items (item STRING, name STRING) WITH ('connector' = 'kafka', 'scan.startup.mode' = 'earliest-offset', 'topic' = 'items',
  'properties.bootstrap.servers' = 'a:1', 'format' = 'json');
CREATE TABLE o (id STRING, name STRING) WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'a:1', 'format' = 'json');
CREATE TABLE c (id STRING, n BIGINT) WITH ('connector' = 'blackhole');
`

// TestOlder: what earlier versions have saved is read, or the start is refused and the report says why.
func TestOlder(t *testing.T) {
	numbered := []types.Field{{Name: "number", Type: types.BigIntType.NotNull()}}
	withoutUse := func(sp []state.Spec) []state.Spec {
		for i := range sp {
			sp[i].Version, sp[i].KeyParts, sp[i].Value = 1, nil, sp[i].Value[:len(sp[i].Value)-1]
		}
		return sp
	}
	byNumber := func(sp []state.Spec) []state.Spec {
		sp[0].Name, sp[0].Key = "rows", numbered
		return sp[:1]
	}
	for _, c := range []struct {
		name, sql, label string
		was              func(sp []state.Spec) []state.Spec // what the operator kept
		verdict          checkpoint.Verdict
		detail           string
	}{
		{"joins did not say when a row was used", `INSERT INTO o SELECT id, name FROM orders JOIN items ON orders.item = items.item`, "Join(INNER, by item)",
			withoutUse, checkpoint.Migrated, "its left rows count as used now; the encoding of its left rows from 1 to 2; " +
				"its right rows count as used now; the encoding of its right rows from 1 to 2"},
		{"sorts by event time kept rows by their number", `INSERT INTO o SELECT id, item FROM orders ORDER BY ts`, "TemporalSort",
			byNumber, checkpoint.StartsEmpty, "it keeps ordered rows, where there were rows"},
		{"so did the first rows of a changelog", `INSERT INTO c SELECT id, COUNT(*) AS n FROM orders GROUP BY id ORDER BY n DESC LIMIT 3`, "TopN",
			byNumber, checkpoint.StartsEmpty, "it keeps ordered rows and rows by content, where there were rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlan(t, olderTables+c.sql+";")
			m := manifest(t, p)
			found := false
			for i := range m.Operators {
				if o := &m.Operators[i]; o.Label == c.label {
					o.States, found = c.was(o.States), true
				}
			}
			if !found {
				t.Fatalf("no %s in\n%s", c.label, report(t, p, p))
			}
			r, err := checkpoint.Match(m, plan.Fingerprints(p), states(t, p))
			if err != nil {
				t.Fatal(err)
			}
			var line checkpoint.Line
			for _, l := range r.Lines {
				if l.Label == c.label && l.Node >= 0 {
					line = l
				}
			}
			if line.Verdict != c.verdict || line.Detail != c.detail {
				t.Errorf("%v, %q; want %v, %q", line.Verdict, line.Detail, c.verdict, c.detail)
			}
			err = r.Dropped(false)
			if lost := c.verdict == checkpoint.StartsEmpty; lost != (err != nil) || lost && !strings.Contains(err.Error(), c.label) {
				t.Errorf("the start says: %v", err)
			}
			if err := r.Dropped(true); err != nil {
				t.Errorf("the start, where that is allowed, says: %v", err)
			}
		})
	}
}
