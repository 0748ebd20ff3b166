package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// expectedScript is keptScript with what must be reported: a view or table called due, defined by def.
func expectedScript(def string) string {
	return strings.NewReplacer("emit_reason STRING METADATA,", "emit_reason STRING METADATA, input_count BIGINT METADATA,",
		"INSERT INTO", def+";\nSET 'tidemark.completeness.board.expected' = 'due';\nINSERT INTO").Replace(keptScript)
}

// dueView is a view of constant rows.
func dueView(rows, cols string) string {
	return "CREATE VIEW due AS SELECT * FROM (VALUES " + rows + ") AS t (" + cols + ")"
}

const (
	hour0 = "TIMESTAMP '1970-01-01 00:00:00'"
	hour3 = "TIMESTAMP '1970-01-01 00:00:30'"
	hour4 = "TIMESTAMP '1970-01-01 00:00:40'"
)

// TestExpected_Shapes reads tables of producers and of rows due. In the end the newest window is that of 30, which has
// one row of b.
func TestExpected_Shapes(t *testing.T) {
	for name, c := range map[string]struct{ due, want string }{
		"producers":                {dueView("('a'), ('b'), ('b'), ('c')", "shop"), "1 of 3 reported, missing a, c"},
		"producers and their size": {dueView("('a', 'x', CAST(7 AS BIGINT)), ('b', 'y', 8)", "shop, name, size"), "1 of 2 reported, missing a"},
		"producers by window":      {dueView("('a', "+hour0+"), ('b', "+hour3+"), ('c', "+hour3+")", "shop, window_start"), "1 of 2 reported, missing c"},
		"rows in each window":      {dueView("(CAST(3 AS BIGINT))", "rows_due"), "1 of 3 rows"},
		"rows by window":           {dueView("("+hour0+", CAST(5 AS BIGINT)), ("+hour3+", 4)", "window_start, due"), "1 of 4 rows"},
		"rows by producer":         {dueView("('a', CAST(3 AS BIGINT)), ('b', 1)", "shop, rows_due"), "1 of 4 rows; a: 0 of 3"},
		"rows by both":             {dueView("('a', "+hour3+", CAST(3 AS BIGINT)), ('b', "+hour3+", 2), ('a', "+hour0+", 9)", "shop, window_start, n"), "1 of 5 rows; a: 0 of 3, b: 1 of 2"},
		"more than is due":         {dueView("(CAST(0 AS BIGINT), 'b'), (2, 'a')", "rows_due, shop"), "0 of 2 rows; a: 0 of 2, b: 1 of 0"},
		"compared with a value":    {dueView("(CAST(20 AS BIGINT))", "amount"), "16 of 20 rows"},
		"nothing for the newest":   {dueView("("+hour0+", CAST(5 AS BIGINT))", "window_start, due"), "3 of 5 rows"},
		"the end of the window":    {dueView("("+hour4+", 5)", "window_end, due"), "1 of 5 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newKeptRun(t, keptInput)
			if err := r.engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", expectedScript(c.due), engine.Handler{}); err != nil {
				t.Fatal(err)
			}
			p, err := r.store().Progress(context.Background(), "live", 1)
			if err != nil || len(p) != 1 || p[0].Completeness() != c.want {
				t.Errorf("%q, %+v, %v, want %q", p[0].Completeness(), p, err, c.want)
			}
		})
	}
}

// TestExpected_Refuses has tables that say neither who nor how many.
func TestExpected_Refuses(t *testing.T) {
	for name, c := range map[string]struct{ due, want string }{
		"neither":           {dueView("('a', 'b')", "store, town"), "its columns (store, town) say neither who must report for table board nor how many rows are due; give it columns with the names of those of the primary key (shop, window_start, window_end)"},
		"two numbers":       {dueView("('a', CAST(1 AS BIGINT), 2)", "shop, rows_due, amount"), "both its columns rows_due and amount may be the number of rows due"},
		"a number of what":  {dueView("('a', 2)", "shop, size"), "its column size may be the number of rows due or not; call it rows_due if it is"},
		"a text for a time": {dueView("('1970-01-01 00:00:00', 2)", "window_start, n"), "its column window_start is"},
		"no such window":    {dueView("(TIMESTAMP '1970-01-01 00:00:05', 2)", "window_start, n"), "for the window from 1970-01-01 00:00:05, and the result has no such window"},
		"NULL for a window": {dueView("(CAST(NULL AS TIMESTAMP(3)), 2)", "window_start, n"), "NULL in column window_start"},
		"less than none":    {dueView("("+hour0+", -2)", "window_start, n"), "a row of it has no number of rows, or one below 0, in column n"},
		"nothing":           {"CREATE VIEW due AS SELECT * FROM (VALUES ('a')) AS t (shop) WHERE shop = 'b'", "it is empty"},
		"no such table":     {"CREATE VIEW other AS SELECT 1", "it cannot be read"},
		"updates":           {"CREATE VIEW due AS SELECT shop, COUNT(*) AS rows_due FROM sales GROUP BY shop", "corrected while it is read"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newKeptRun(t, keptInput).engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", expectedScript(c.due), engine.Handler{})
			if err == nil || !strings.Contains(err.Error(), "'tidemark.completeness.board.expected' = 'due': ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	noCount := strings.Replace(expectedScript(dueView("(1)", "rows_due")), "input_count BIGINT METADATA,", "", 1)
	err := newKeptRun(t, keptInput).engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", noCount, engine.Handler{})
	if err == nil || !strings.Contains(err.Error(), "add input_count BIGINT METADATA") {
		t.Errorf("without input_count: %v", err)
	}
}

// TestExpected_Nobody has a window in which nobody who is expected reported, when the watermark has passed it.
func TestExpected_Nobody(t *testing.T) {
	// z sells until 55: the windows up to 50 are over at the end, and only z is in that of 40.
	r := newKeptRun(t, strings.TrimSpace(keptInput)+"\n"+`{"s":47,"shop":"z","amount":1}`+"\n"+`{"s":65,"shop":"z","amount":1}`+"\n")
	script := strings.Replace(expectedScript(dueView("('a'), ('b')", "shop")), "GROUP BY shop", "WHERE shop <> 'z' GROUP BY shop", 1)
	if err := r.engine(engine.Options{}, "SUM(amount)").Script(context.Background(), "board.sql", script, engine.Handler{}); err != nil {
		t.Fatal(err)
	}
	p, err := r.store().Progress(context.Background(), "live", 1)
	if err != nil || len(p) != 1 || p[0].Completeness() != "0 of 2 reported, missing a, b" || p[0].DueEnd != 60_000 {
		t.Errorf("%+v, %v", p, err)
	}
}
