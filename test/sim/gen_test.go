package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// row is a row of a made-up table.
type row struct {
	kind types.RowKind
	id   int64 // of its own
	k, v int64 // few different k; v is NULL now and then
	null bool
	ts   int64 // ms
}

// table is a made-up table: its splits, read from position 0 on.
type table struct {
	splits    [][]row
	changes   bool // it has all kinds of rows, and no event time
	remembers bool // its enumerator remembers the splits that were read to their end
	entities  bool // its rows are versions of what k names: the one with the greatest id counts
}

// query is one INSERT of a job.
type query struct {
	columns string // of the sink
	sql     string // after INSERT INTO
	key     string // of an upsert sink, "" for a sink of all changes
	windows bool   // it has windows over event time
	emit    []string
	late    bool // the rows that come too late for it go to a table
	history bool // the sink holds all revisions of the results
}

// testJob is a made-up job.
type testJob struct {
	live    bool // the sources do not end: the job is drained when everything was read
	tables  []*table
	queries []query
	sets    []string
	text    func(world string) string // instead of script; nil: none
}

// rowsMax is the greatest number of rows of a split.
const rowsMax = 90

// makeJob makes a job up.
func makeJob(r *rand.Rand) *testJob {
	j := &testJob{live: r.IntN(4) == 0}
	for range 1 + r.IntN(2) {
		j.tables = append(j.tables, makeTable(r, j.live, false))
	}
	entities := r.IntN(3) == 0
	j.tables = append(j.tables, makeTable(r, j.live, !entities))
	j.tables[len(j.tables)-1].entities = entities
	for range 1 + r.IntN(3) {
		q := j.query(r)
		if q.windows && r.IntN(2) == 0 {
			q.shows(r)
		}
		j.queries = append(j.queries, q)
	}
	if r.IntN(3) == 0 {
		j.sets = append(j.sets, "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
	} else if r.IntN(2) == 0 {
		j.sets = append(j.sets, "SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE'")
	}
	return j
}

// Event time: a row comes at most disorder ms after later ones, in some tables of sources that end also
// a little more, so that it is late; in those that do not end lateness would depend on what is read when.
const disorder = 4000

// shows makes up when the windows of q show results, and what becomes of late rows.
func (q *query) shows(r *rand.Rand) {
	set := func(key string, value any) { q.emit = append(q.emit, fmt.Sprintf("%s' = '%v", key, value)) }
	q.late = r.IntN(3) == 0
	lateness := r.IntN(3) * r.IntN(8)
	if lateness > 0 {
		set("allowed-lateness", fmt.Sprintf("%d s", lateness))
	}
	if r.IntN(4) == 0 {
		set("final-only", true)
		return
	}
	switch r.IntN(3) {
	case 0:
		set("early-fire-rows", 1+r.IntN(5))
	case 1:
		set("early-fire", fmt.Sprintf("%d ms", 1+r.IntN(20)))
	}
	if lateness == 0 {
		return
	}
	switch r.IntN(3) {
	case 0:
		set("late-fire-rows", 1+r.IntN(3))
	case 1:
		set("late-fire", fmt.Sprintf("%d ms", r.IntN(20)))
	}
}

func makeTable(r *rand.Rand, live, changes bool) *table {
	t := &table{changes: changes}
	keys := 1 + r.Int64N(12)
	late := !live && r.IntN(2) == 0
	id := int64(0)
	for s := range 1 + r.IntN(4) {
		at := r.Int64N(20_000)
		step := 100 + r.Int64N(1500)
		var rows []row
		var open []row // of a changelog: rows that were added and not taken away
		for range r.IntN(rowsMax) + 1 {
			id++
			at += r.Int64N(2 * step)
			if r.IntN(20) == 0 {
				at += 20_000
			}
			x := row{id: id, k: r.Int64N(keys), v: r.Int64N(50), null: r.IntN(12) == 0, ts: at - r.Int64N(disorder)}
			if late && r.IntN(3) == 0 {
				x.ts -= r.Int64N(3 * disorder)
			}
			if !changes {
				rows = append(rows, x)
				continue
			}
			x.k = x.k*4 + int64(s) // a split has the whole history of its keys
			switch n := r.IntN(4); {
			case n == 0 && len(open) > 0:
				i := r.IntN(len(open))
				old := open[i]
				open = append(open[:i], open[i+1:]...)
				old.kind = types.Delete
				rows = append(rows, old)
			case n == 1 && len(open) > 0:
				i := r.IntN(len(open))
				before, after := open[i], open[i]
				after.v, after.null = x.v, x.null
				before.kind, after.kind = types.UpdateBefore, types.UpdateAfter
				rows = append(rows, before, after)
				after.kind = types.Insert
				open[i] = after
			default:
				open = append(open, x)
				rows = append(rows, x)
			}
		}
		t.splits = append(t.splits, rows)
	}
	t.remembers = r.IntN(2) == 0
	return t
}

// functions are aggregates that give a BIGINT.
var functions = []string{"COUNT(*)", "SUM(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)", "AVG(v)", "SUM(DISTINCT v)", "MAX(id)",
	"COUNT(v) FILTER (WHERE v > 20)", "COUNT(DISTINCT v) FILTER (WHERE k > 1)"}

// aggs are some aggregates, and the columns that they fill.
func aggs(r *rand.Rand) (exprs, columns string) {
	var es, cs []string
	for i := range 1 + r.IntN(3) {
		es, cs = append(es, functions[r.IntN(len(functions))]), append(cs, fmt.Sprintf("a%d BIGINT", i))
	}
	return strings.Join(es, ", "), strings.Join(cs, ", ")
}

// timed is the name of a table with event time, any that of one of all tables.
func (j *testJob) timed(r *rand.Rand) string { return fmt.Sprintf("t%d", r.IntN(len(j.tables)-1)) }
func (j *testJob) any(r *rand.Rand) string   { return fmt.Sprintf("t%d", r.IntN(len(j.tables))) }

func where(r *rand.Rand) string {
	return []string{"", "", " WHERE v > 10", " WHERE v IS NOT NULL AND k <> 2"}[r.IntN(4)]
}

// window is a windowing of a table, as a FROM clause.
func (j *testJob) window(r *rand.Rand) (from string, session bool) {
	t, s := j.timed(r), 1+r.IntN(12)
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("TABLE(TUMBLE(TABLE %s, DESCRIPTOR(ts), INTERVAL '%d' SECOND))", t, s), false
	case 1:
		return fmt.Sprintf("TABLE(HOP(TABLE %s, DESCRIPTOR(ts), INTERVAL '%d' SECOND, INTERVAL '%d' SECOND))", t, s, s*(1+r.IntN(4))), false
	case 2:
		return fmt.Sprintf("TABLE(CUMULATE(TABLE %s, DESCRIPTOR(ts), INTERVAL '%d' SECOND, INTERVAL '%d' SECOND))", t, s, s*(1+r.IntN(4))), false
	}
	return fmt.Sprintf("TABLE(SESSION(TABLE %s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '%d' SECOND))", t, 1+r.IntN(4)), true
}

// query makes one query up.
func (j *testJob) query(r *rand.Rand) query {
	a, cs := aggs(r)
	bounded := "window_start TIMESTAMP(3), window_end TIMESTAMP(3)"
	switch r.IntN(15) {
	case 0, 1, 2, 3:
		from, session := j.window(r)
		if session || r.IntN(2) == 0 {
			q := query{columns: bounded + ", k BIGINT, " + cs, sql: "SELECT window_start, window_end, k, " + a + " FROM " + from + where(r) +
				" GROUP BY window_start, window_end, k", windows: true}
			if r.IntN(3) == 0 {
				q.key, q.history = "window_start, window_end, k", true
			}
			return q
		}
		return query{columns: bounded + ", " + cs, sql: "SELECT window_start, window_end, " + a + " FROM " + from + where(r) +
			" GROUP BY window_start, window_end", windows: true}
	case 4:
		t, g := j.timed(r), []string{"TUMBLE(ts, INTERVAL '5' SECOND)", "HOP(ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND)", "SESSION(ts, INTERVAL '3' SECOND)"}[r.IntN(3)]
		return query{columns: "k BIGINT, " + cs, sql: "SELECT k, " + a + " FROM " + t + where(r) + " GROUP BY k, " + g, windows: true}
	case 5:
		return query{columns: bounded + ", k BIGINT, " + cs, sql: "SELECT window_start, window_end, k, " + a + " FROM TABLE(TUMBLE(TABLE " + j.timed(r) +
			", DESCRIPTOR(ts), INTERVAL '7' SECOND))" + where(r) + " GROUP BY window_start, window_end, GROUPING SETS ((k), ())", windows: true}
	case 6, 7:
		q := query{columns: "k BIGINT, " + cs, sql: "SELECT k, " + a + " FROM " + j.any(r) + where(r) + " GROUP BY k"}
		if r.IntN(2) == 0 {
			q.key, q.history = "k", r.IntN(2) == 0
		}
		return q
	case 8:
		return query{columns: cs, sql: "SELECT " + a + " FROM " + j.any(r) + where(r)}
	case 9:
		return query{columns: "c BIGINT, n BIGINT, m BIGINT", sql: "SELECT c, COUNT(*), MIN(k) FROM (SELECT k, COUNT(*) AS c FROM " + j.any(r) + where(r) +
			" GROUP BY k) GROUP BY c"}
	case 10:
		kind := []string{"JOIN", "LEFT JOIN", "FULL JOIN"}[r.IntN(3)]
		return query{columns: "a BIGINT, b BIGINT, k BIGINT", sql: "SELECT a.id, b.id, a.k FROM " + j.any(r) + " a " + kind + " " + j.any(r) +
			" b ON a.k = b.k AND a.v = b.v"}
	case 11:
		return query{columns: "k BIGINT, v BIGINT", sql: "SELECT DISTINCT k, v FROM " + j.any(r) + where(r)}
	case 12:
		return query{columns: "id BIGINT, k BIGINT, v BIGINT", sql: "SELECT id, k, v FROM " + j.timed(r) + where(r) + " ORDER BY ts"}
	case 13:
		return query{columns: "id BIGINT, k BIGINT, v BIGINT", sql: fmt.Sprintf("SELECT id, k, v FROM %s%s ORDER BY %s id LIMIT %d", j.any(r), where(r),
			[]string{"", "v,", "k DESC,"}[r.IntN(3)], 1+r.IntN(30))}
	}
	return query{columns: "id BIGINT, w BIGINT", sql: "SELECT id, v * 2 FROM " + j.any(r) + where(r) + " UNION ALL SELECT id, k FROM " + j.any(r)}
}

// script is the SQL of the job. world names the world it runs in.
func (j *testJob) script(world string) string {
	if j.text != nil {
		return j.text(world)
	}
	var b strings.Builder
	for _, s := range j.sets {
		b.WriteString(s + ";\n")
	}
	for i, t := range j.tables {
		time := fmt.Sprintf(", WATERMARK FOR ts AS ts - INTERVAL '%d' SECOND", disorder/1000)
		if t.changes {
			time = ""
		}
		version := ""
		if t.entities {
			time, version = ", PRIMARY KEY (k) NOT ENFORCED", ", 'upsert.version-column' = 'id'"
		}
		fmt.Fprintf(&b, "CREATE TABLE t%d (id BIGINT, k BIGINT, v BIGINT, ts TIMESTAMP(3)%s) WITH ('connector' = '%s', 'world' = '%s', 'table' = '%d', 'changes' = '%v'%s);\n",
			i, time, sourceName, world, i, t.changes, version)
	}
	for i, q := range j.queries {
		key := ""
		if q.key != "" {
			key = fmt.Sprintf(", PRIMARY KEY (%s) NOT ENFORCED", q.key)
		}
		if q.history {
			key = ", revision BIGINT METADATA, is_deleted BOOLEAN METADATA" + key
		}
		fmt.Fprintf(&b, "CREATE TABLE o%d (%s%s) WITH ('connector' = '%s', 'world' = '%s');\n", i, q.columns, key, sinkName, world)
		if q.late {
			q.emit = append(q.emit, fmt.Sprintf("late-sink' = 'late%d", i))
			fmt.Fprintf(&b, "CREATE TABLE late%d (id BIGINT, k BIGINT, v BIGINT) WITH ('connector' = '%s', 'world' = '%s');\n", i, sinkName, world)
		}
		for _, e := range q.emit {
			fmt.Fprintf(&b, "SET 'tidemark.emit.o%d.%s';\n", i, e)
		}
	}
	b.WriteString("SET 'execution.checkpointing.interval' = '1 s';\nEXECUTE STATEMENT SET BEGIN\n")
	for i, q := range j.queries {
		fmt.Fprintf(&b, "INSERT INTO o%d %s;\n", i, q.sql)
	}
	b.WriteString("END;\n")
	return b.String()
}
