package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object/objecttest"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Corrections: entities by version, with duplicates, stale repeats, moved hours and deletions, in whatever
// order, go through a normaliser into windows, and from there into a table of results. What the target holds
// in the end, the newest revision of each cell, must be what the newest versions of the entities come to,
// computed from these alone; and no revision may be missing, come twice, or say two things (target.apply and
// target.commit). In some seeds the checkpoints are lost half way, so that the job starts afresh, in a
// generation of its own, over the same target.

// The planted bugs of results.
const (
	bugCounter = "a counter not restored"
	bugRemade  = "a segment re-made with other content under its old identity"
	bugToken   = "an old token reused after a fresh start"
)

// board is a made-up job over entities, and what must come of it.
type board struct {
	job        *testJob
	generation string // of the run at hand
	size, step int64  // of the windows, s; step 0: none
	having     string
	fresh      int // after so many processes the checkpoints are lost; 0: never
	sql        string
}

// groups is the number of rows that a window has at most: one for each k modulo it.
const groups = 3

func makeBoard(r *rand.Rand) *board {
	b := &board{generation: "g1", job: &testJob{live: r.IntN(4) == 0, tables: []*table{makeEntities(r)}}}
	if r.IntN(3) == 0 {
		b.fresh = 1 + r.IntN(3)
	}
	if r.IntN(3) == 0 {
		b.having = " HAVING COUNT(*) > 1"
	}
	horizon := []string{"", ", 'upsert.horizon' = '1 d'"}[r.IntN(2)]
	var emit []string
	if r.IntN(2) == 0 {
		emit = append(emit, fmt.Sprintf("early-fire-rows' = '%d", 1+r.IntN(4)))
	}
	if r.IntN(2) == 0 {
		emit = append(emit, fmt.Sprintf("late-fire-rows' = '%d", 1+r.IntN(4)))
	}
	from, by := "t0", ""
	bounds := "CAST(NULL AS TIMESTAMP(3))"
	if n := r.IntN(5); n > 0 {
		b.size = 2 + r.Int64N(10)
		b.step, bounds, by = b.size, "window_start", "window_start, window_end, "
		from = fmt.Sprintf("TABLE(TUMBLE(TABLE t0, DESCRIPTOR(ts), INTERVAL '%d' SECOND))", b.size)
		if n == 1 {
			b.step, b.size = b.size, b.size*(2+r.Int64N(3))
			from = fmt.Sprintf("TABLE(HOP(TABLE t0, DESCRIPTOR(ts), INTERVAL '%d' SECOND, INTERVAL '%d' SECOND))", b.step, b.size)
		}
	}
	b.sql = fmt.Sprintf("SELECT %s, MOD(k, %d), COUNT(*), SUM(v), MAX(v) FROM %s GROUP BY %sMOD(k, %d)%s", bounds, groups, from, by, groups, b.having)
	b.job.text = func(world string) string {
		var s strings.Builder
		fmt.Fprintf(&s, "SET 'tidemark.generation' = '%s';\nSET 'execution.checkpointing.interval' = '1 s';\n", b.generation)
		fmt.Fprintf(&s, "CREATE TABLE t0 (id BIGINT, k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '%d' SECOND, PRIMARY KEY (k) NOT ENFORCED)\n"+
			"WITH ('connector' = '%s', 'world' = '%s', 'table' = '0', 'changes' = 'true', 'upsert.version-column' = 'id'%s);\n", disorder/1000, sourceName, world, horizon)
		key := "g"
		if b.step > 0 {
			key = "s, g"
			s.WriteString("SET 'tidemark.emit.o0.allowed-lateness' = '1 d';\n")
			for _, e := range emit {
				fmt.Fprintf(&s, "SET 'tidemark.emit.o0.%s';\n", e)
			}
		}
		fmt.Fprintf(&s, "CREATE TABLE o0 (s TIMESTAMP(3), g BIGINT, n BIGINT, total BIGINT, most BIGINT, revision BIGINT METADATA, generation STRING METADATA,\n"+
			"  is_deleted BOOLEAN METADATA, PRIMARY KEY (%s) NOT ENFORCED) WITH ('connector' = '%s', 'world' = '%s');\n", key, sinkName, world)
		s.WriteString("EXECUTE STATEMENT SET BEGIN\nINSERT INTO o0 " + b.sql + ";\nEND;\n")
		return s.String()
	}
	return b
}

// makeEntities makes histories of entities up, and deals their rows out to some splits.
func makeEntities(r *rand.Rand) *table {
	t := &table{changes: true, splits: make([][]row, 1+r.IntN(3))}
	var sent []row
	newest := map[int64]int64{}
	at := int64(10_000)
	for range 20 + r.IntN(120) {
		at += r.Int64N(900)
		x := row{kind: types.UpdateAfter, k: r.Int64N(10), v: r.Int64N(20), null: r.IntN(12) == 0, ts: max(0, at-r.Int64N(6*disorder))}
		switch n := r.IntN(10); {
		case n < 2 && len(sent) > 0: // again, however old
			x = sent[r.IntN(len(sent))]
		case n == 2:
			x.kind = types.Delete
			fallthrough
		default:
			newest[x.k] += 1 + r.Int64N(2)
			x.id = newest[x.k]
			if r.IntN(8) == 0 {
				newest[x.k]++ // one version may come before the one before it
			}
			sent = append(sent, x)
		}
		s := r.IntN(len(t.splits))
		t.splits[s] = append(t.splits[s], x)
	}
	return t
}

// want is the board of the newest versions of the entities: rows as a target has them.
func (b *board) want() (out []string) {
	newest := map[int64]row{}
	for _, rows := range b.job.tables[0].splits {
		for _, x := range rows {
			if was, ok := newest[x.k]; !ok || x.id > was.id {
				newest[x.k] = x
			}
		}
	}
	type cell struct{ n, values, total, most int64 }
	cells := map[[2]int64]*cell{}
	for _, x := range newest {
		if x.kind == types.Delete {
			continue
		}
		for _, start := range b.windows(x.ts) {
			c := cells[[2]int64{start, x.k % groups}]
			if c == nil {
				c = &cell{}
				cells[[2]int64{start, x.k % groups}] = c
			}
			if c.n++; !x.null {
				c.values, c.total, c.most = c.values+1, c.total+x.v, max(c.most, x.v)
			}
		}
	}
	for at, c := range cells {
		if b.having != "" && c.n < 2 {
			continue
		}
		var start, total, most any
		if b.step > 0 {
			start = types.TS(at[0], 0)
		}
		if c.values > 0 {
			total, most = c.total, c.most
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintln(start, at[1], c.n, total, most), "\n"))
	}
	slices.Sort(out)
	return out
}

// windows are the starts of the windows that a time is in, ms.
func (b *board) windows(ts int64) (starts []int64) {
	if b.step == 0 {
		return []int64{0}
	}
	step, size := b.step*1000, b.size*1000
	last := ts - ((ts%step)+step)%step
	for s := last; s > ts-size; s -= step {
		starts = append(starts, s)
	}
	return starts
}

// shown are the rows of a target that stand in a generation.
func (b *board) shown(t *target) (out []string) {
	for key, row := range t.byKey {
		if strings.HasSuffix(key, b.generation+"\t") {
			out = append(out, strings.ReplaceAll(row, "\t", " "))
		}
	}
	slices.Sort(out)
	return out
}

// simulateBoard runs a seed.
func simulateBoard(t *testing.T, seed uint64, bug string) *run {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := &run{}
	synctest.Test(t, func(*testing.T) {
		b := makeBoard(rand.New(rand.NewPCG(seed, 11)))
		out.script = b.job.script("N")
		w := newWorld(b.job, seed)
		defer worlds.Delete(w.id)
		w.plantInBoard(bug)
		w.targets["o0"] = b.target()
		err := w.lose(b, dir, out)
		if err == nil {
			_, err = w.disturbed(dir, out)
		}
		out.log = w.log
		if err != nil {
			out.problems = append(out.problems, err.Error())
			return
		}
		o := w.targets["o0"]
		out.problems = append(out.problems, slices.Concat(o.bad, difference(b.want(), b.shown(o)))...)
		out.rows = int(o.count)
	})
	return out
}

// target is that of table o0: what tells its histories apart is the key and the generation.
func (b *board) target() *target {
	t := newTarget(&connector.Table{Name: "o0"})
	t.results, t.revision, t.deleted = true, 5, 7
	t.keys = []int{1, 6}
	if b.step > 0 {
		t.keys = []int{0, 1, 6}
	}
	return t
}

// lose runs some processes, of which nothing is left but what the target holds.
func (w *world) lose(b *board, dir string, out *run) error {
	if b.fresh == 0 {
		return nil
	}
	over := false
	for n := 0; n < b.fresh && !over; n++ {
		l := w.newLife(false)
		out.lives++
		_, end, err := l.run(filepath.Join(dir, fmt.Sprint("lost", n)))
		switch {
		case l.dead.Load(), errors.Is(err, errAway), errors.Is(err, errStoreAway):
		case err != nil:
			return fmt.Errorf("process %d: %w", n, err)
		default:
			over = end || l.finished
		}
		if l.machine {
			w.disk = w.disk.Crash(rand.New(rand.NewPCG(w.seed, 2<<32+uint64(n))))
		}
	}
	w.disk = objecttest.NewDisk()
	if err := errors.Join(w.disk.MkdirAll(root), w.disk.SyncDir("/")); err != nil {
		return err
	}
	b.generation = "g2"
	w.targets["o0"].count = 0
	w.note("the checkpoints are lost: the job starts afresh, in generation g2")
	return nil
}

// plantInBoard plants a bug.
func (w *world) plantInBoard(bug string) {
	switch bug {
	case bugCounter:
		w.spoils = func(m *checkpoint.Manifest) {
			for i := range m.Tail {
				if keeps(m, m.Tail[i].Operator, "revisions") {
					m.Tail[i] = filter(m.Tail[i:i+1], func(state.Change) bool { return false })[0]
				}
			}
		}
	case bugRemade:
		w.spoils = func(m *checkpoint.Manifest) {
			for i := range m.Sinks {
				for k := range m.Sinks[i].Pending {
					if p := &m.Sinks[i].Pending[k]; len(p.Committables) > 0 {
						p.Committables = p.Committables[:len(p.Committables)-1]
					}
				}
			}
		}
	case bugToken:
		w.token = func() string { return "0123456789abcdef" }
	}
}

// keeps reports whether an operator has a state of that name.
func keeps(m *checkpoint.Manifest, op uint16, name string) bool {
	for _, o := range m.Operators {
		if o.ID == op && len(o.States) > 0 && o.States[0].Name == name {
			return true
		}
	}
	return false
}

// TestEntities runs seeds of boards: -seed and -seeds say which.
func TestEntities(t *testing.T) {
	from, to := uint64(1), uint64(40)
	if testing.Short() {
		to = 10
	}
	switch {
	case *seedFlag != 0:
		from, to = *seedFlag, *seedFlag
	case *seedsFlag != "":
		if _, err := fmt.Sscanf(*seedsFlag, "%d-%d", &from, &to); err != nil {
			t.Fatal("-seeds is A-B:", err)
		}
	}
	lives, rows, ends := 0, 0, map[string]int{}
	for seed := from; seed <= to; seed++ {
		r := simulateBoard(t, seed, "")
		lives, rows = lives+r.lives, rows+r.rows
		for _, p := range r.ends {
			ends[p]++
		}
		if len(r.problems) > 0 || *seedFlag != 0 {
			t.Log(r.String())
		}
		if len(r.problems) > 0 {
			t.Errorf("seed %d; repeat it with: go test ./test/sim -run TestEntities -seed %d", seed, seed)
		}
	}
	t.Logf("%d seeds, %d processes, ended at %v; %d revisions", to-from+1, lives, ends, rows)
}

// TestEntitiesPlanted plants one bug at a time, and finds each within 200 seeds.
func TestEntitiesPlanted(t *testing.T) {
	for _, bug := range []string{bugCounter, bugRemade, bugToken} {
		t.Run(bug, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if r := simulateBoard(t, seed, bug); len(r.problems) > 0 {
					t.Logf("found with seed %d: %s", seed, r.problems[0])
					return
				}
			}
			t.Error("not found within 200 seeds")
		})
	}
}
