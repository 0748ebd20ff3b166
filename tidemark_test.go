package tidemark_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark"
)

func open(t *testing.T) *tidemark.Engine {
	t.Helper()
	e, err := tidemark.Open(tidemark.Options{Config: map[string]string{"table.local-time-zone": "UTC"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestQuery_Scan(t *testing.T) {
	rows, err := open(t).Query(context.Background(), `SELECT 'not the last'; SELECT CAST(1.25 AS DECIMAL(5, 2)), CAST(7 AS BIGINT), 'x',
		TIMESTAMP '2024-02-29 12:00:00.5', DATE '2024-02-29', CAST(NULL AS INT), ARRAY[1, 2], TRUE`)
	if err != nil {
		t.Fatal(err)
	}
	var (
		dec  float64
		num  uint16
		name string
		at   time.Time
		day  time.Time
		null *int
		arr  any
		yes  bool
	)
	if err := rows.Scan(&dec); err == nil {
		t.Error("Scan before Next gives no error")
	}
	for rows.Next() {
		if err := rows.Scan(&dec, &num, &name, &at, &day, &null, &arr, &yes); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	if dec != 1.25 || num != 7 || name != "x" || at.Format(time.RFC3339Nano) != "2024-02-29T12:00:00.5Z" ||
		day.Format(time.DateOnly) != "2024-02-29" || null != nil || len(arr.([]any)) != 2 || !yes {
		t.Error(dec, num, name, at, day, null, arr, yes)
	}
	if rows.Report() == nil || rows.Report().RowsOut != 1 {
		t.Errorf("report %+v", rows.Report())
	}
}

func TestQuery_Arrow(t *testing.T) {
	rows, err := open(t).Query(context.Background(), `SELECT k, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t(k) GROUP BY k`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		rec, err := rows.NextBatch()
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			break
		}
		for i := range int(rec.NumRows()) {
			var cells []string
			for _, c := range rec.Columns() {
				cells = append(cells, c.ValueStr(i))
			}
			got = append(got, strings.Join(cells, " "))
		}
		rec.Release()
	}
	if s := strings.Join(got, ", "); s != "a 2 +I, b 1 +I" {
		t.Errorf("rows %s", s)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestQuery_Ends(t *testing.T) {
	e := open(t)
	ctx := context.Background()
	const endless = "CREATE TABLE IF NOT EXISTS g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000'); SELECT * FROM g"
	rows, err := e.Query(ctx, endless)
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(short, "SHOW TABLES"); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("a script while rows are open: %v", err)
	}
	if err := rows.Close(); err != nil {
		t.Errorf("ending a query early: %v", err)
	}
	if _, err := e.Query(ctx, "SET 'a.b' = 'c'"); err == nil {
		t.Error("Query of a script without a query gives no error")
	}
	rows, err = e.Query(ctx, "SELECT CAST(k AS INT) FROM (VALUES ('1'), ('x')) AS t(k)")
	if err == nil {
		for rows.Next() {
		}
		err = rows.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "'x'") || !strings.Contains(err.Error(), "query:1:8") {
		t.Errorf("a failing cast: %v", err)
	}
	rows, err = e.Query(ctx, "SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil || name != "g" {
			t.Error(name, err)
		}
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}
