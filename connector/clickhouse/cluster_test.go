package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/resultstest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
)

// clusterPort is the HTTP port of the first of four servers: those of test/peers/clickhouse-cluster.
const clusterPort = 25223

// node is the address of a server of the cluster, for HTTP.
func node(n int) string { return fmt.Sprintf("127.0.0.1:%d", clusterPort+n-1) }

// onFour is a rig whose database is on all servers of the cluster. Its statements go to the first one.
func onFour(t testing.TB) *rig {
	t.Helper()
	servers.Need(t, "clickhouse-cluster")
	r := &rig{t: t, base: "http://" + node(1), native: fmt.Sprintf("127.0.0.1:%d", clusterPort+100), database: fmt.Sprintf("t%d", rand.Uint32())}
	r.ask("CREATE DATABASE " + r.database + " ON CLUSTER four")
	t.Cleanup(func() { r.ask("DROP DATABASE IF EXISTS " + r.database + " ON CLUSTER four SYNC") })
	return r
}

// at is the rig with another server.
func (r *rig) at(n int) *rig {
	return &rig{t: r.t, base: "http://" + node(n), database: r.database}
}

// sharded is the suite's table over the shards of a cluster.
func (r *rig) sharded(cluster, url string, more map[string]string) connector.SinkConfig {
	options := map[string]string{"connector": "clickhouse", "url": url + "/" + r.database, "table-name": "board", "sink.delivery-guarantee": "exactly-once",
		"sink.create": "true", "sink.create.cluster": cluster, "sink.create.sharded": "true"}
	maps.Copy(options, more)
	t := resultstest.Table("board", "clickhouse", options)
	f := connector.Lookup("clickhouse")
	return connector.SinkConfig{Table: t, Options: optionsOf(t, f), Schema: t.Schema(), Mode: types.InsertOnly,
		Segments: &connectortest.Segments{}, Job: "job", Node: "board", Stderr: &r.warn, Bad: func(b format.BadRecord) error {
			return fmt.Errorf("refused: %s: %w", b.Bytes, b.Err)
		}}
}

// TestClusterResults runs the suite of stores over two shards, each of one replica.
func TestClusterResults(t *testing.T) {
	resultstest.Run(t, func(t testing.TB) resultstest.Target {
		r := onFour(t)
		cfg := r.sharded("two", "clickhouse://"+r.native, nil)
		st, err := newStore(cfg.Table, cfg.Options)
		must(t, err)
		return resultstest.Target{Store: st, Conflicts: true, Write: r.commitResults(cfg), Merge: func(t testing.TB) {
			r.exec("OPTIMIZE TABLE DB.board_shard ON CLUSTER two FINAL", "OPTIMIZE TABLE DB.board_progress FINAL", "OPTIMIZE TABLE DB.board_pointer FINAL")
		}}
	})
}

// hours are n rows of the suite's table, of a revision and generation each.
func hours(n int, generation string, revision int64) (changes []row) {
	for i := range n {
		start := time.Date(2013, 1, 31, i, 0, 0, 0, time.UTC).UnixMilli()
		changes = append(changes, put("SFO", start, start+3_600_000, int64(i), int64(25), nil, nil, revision, generation, nil, true, false, "on-time", nil, nil))
	}
	return changes
}

// sealed writes rows as one epoch of a table of results, and returns what commits it, as a new process would.
func (r *rig) sealed(cfg connector.SinkConfig, checkpoint int64, rows []row) func(context.Context) error {
	r.t.Helper()
	s, err := newSink(cfg)
	must(r.t, err)
	w, err := s.NewWriter(r.t.Context(), 0, 1)
	must(r.t, err)
	defer w.Close()
	must(r.t, w.Write(r.t.Context(), batch(cfg.Table.Columns, rows...)))
	cs, err := w.Prepare(r.t.Context())
	must(r.t, err)
	return func(ctx context.Context) error {
		again, err := newSink(cfg)
		must(r.t, err)
		c, err := again.NewCommitter(ctx)
		must(r.t, err)
		defer c.Close()
		return c.(connector.ProgressCommitter).CommitProgress(ctx, id("l", checkpoint), cs, &connector.Progress{Lineage: "l", Checkpoint: checkpoint, Generation: "live", Watermark: 99})
	}
}

// waitFor waits until a query gives something that f takes.
func (r *rig) waitFor(what, sql string, f func(string) bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := r.rows(sql); len(got) == 1 && f(got[0]) {
			return
		}
	}
	r.t.Fatalf("%s has not come: %q", what, r.rows(sql))
}

// TestClusterCrash commits many blocks over two shards while one of them is killed and comes back, stands still
// for longer than a request may take, and the committing process ends in the middle: each row is there once,
// without any merge, and again after a repeat that only tokens tell.
func TestClusterCrash(t *testing.T) {
	r := onFour(t)
	cfg := r.sharded("two", r.base, map[string]string{"sink.buffer-flush.max-rows": "5", "connection.request-timeout": "3 s"})
	r.expect("nothing yet", "SELECT count() FROM system.tables WHERE database = '"+r.database+"'", "0")
	const n = 600
	const all = "SELECT count(), uniqExact(window_start), sum(flights) FROM DB.board"
	want := fmt.Sprintf("%d\t%d\t%d", n, n, n*(n-1)/2)
	halfway := func(least int) {
		r.waitFor("the middle of the batch", "SELECT count() FROM DB.board_shard", func(s string) bool {
			var have int
			fmt.Sscan(s, &have)
			return have >= least
		})
	}
	commit := r.sealed(cfg, 7, hours(n, "live", 1))
	r.exec("SYSTEM STOP MERGES ON CLUSTER two DB.board_shard")

	// The process ends.
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- commit(ctx) }()
	halfway(40)
	end()
	if err := <-done; err == nil {
		t.Fatal("it came to its end before it was ended")
	}
	// The shard crashes, and stays away for a while.
	go func() { done <- commit(t.Context()) }()
	halfway(100)
	must(t, servers.Run("clickhouse-cluster", "kill", "2"))
	select {
	case err := <-done:
		t.Fatalf("it came to its end without a shard: %v", err)
	case <-time.After(4 * time.Second):
	}
	must(t, servers.Run("clickhouse-cluster", "start", "2"))
	halfway(200)
	// It stands still, so that answers are lost of inserts that happen.
	must(t, servers.Run("clickhouse-cluster", "pause", "2"))
	time.Sleep(5 * time.Second)
	must(t, servers.Run("clickhouse-cluster", "resume", "2"))
	must(t, <-done)
	r.expect("rows", all, want)
	r.at(2).expect("rows, asked of the other shard", all, want)
	r.expect("shards that have rows", "SELECT uniqExact(_shard_num) FROM DB.board", "2")

	// Nothing remembers but the tokens.
	r.exec("TRUNCATE TABLE DB.tidemark_progress ON CLUSTER two")
	must(t, commit(t.Context()))
	r.expect("rows after a repeat", all, want)
	r.expect("what is shown", "SELECT count(), sum(flights) FROM DB.board_latest", fmt.Sprintf("%d\t%d", n, n*(n-1)/2))
	for k := 1; k <= 2; k++ {
		r.at(k).waitFor("progress", "SELECT count() FROM DB.board_progress FINAL", func(s string) bool { return s == "1" })
	}
}

// TestClusterReaders reads views through all servers of two shards with two replicas each, while revisions are
// written and generations promoted through any of them: no reader sees a window of two generations, or none.
func TestClusterReaders(t *testing.T) {
	r := onFour(t)
	var urls []string
	for n := 1; n <= 4; n++ {
		urls = append(urls, node(n))
	}
	cfg := r.sharded("four", "http://"+strings.Join(urls, ","), map[string]string{"clickhouse.settings.insert_quorum": "2"})
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, r.sealed(cfg, 1, hours(48, "live", 1))(t.Context()), r.sealed(cfg, 2, hours(48, "g2", 1))(t.Context()))
	r.expect("keys on more than one shard", "SELECT count() FROM (SELECT window_start, uniqExact(_shard_num) AS n FROM DB.board GROUP BY window_start HAVING n > 1)", "0")
	at := func(h int) int64 { return time.Date(2013, 1, 31, h, 0, 0, 0, time.UTC).UnixMilli() }
	stop := make(chan struct{})
	var readers sync.WaitGroup
	looks := make(chan int, 4)
	for n := 1; n <= 4; n++ {
		readers.Go(func() {
			n, x := 0, r.at(n)
			defer func() { looks <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := x.rows("SELECT uniqExact(window_start), uniqExactIf(generation, window_start >= '2013-01-31 16:00:00' AND window_start < '2013-01-31 22:00:00'), count() FROM DB.board_latest")
				if len(got) != 1 || got[0] != "48\t1\t48" {
					t.Errorf("a reader sees %q", got)
					return
				}
				n++
			}
		})
	}
	for i := range 8 {
		if i%2 == 0 {
			must(t, r.sealed(cfg, int64(10+i), hours(48, "live", int64(2+i)))(t.Context()))
		}
		promoteSoon(t, st, []string{"g2", "live"}[i%2], at(16), at(22))
	}
	close(stop)
	readers.Wait()
	for range 4 {
		if n := <-looks; n < 2 {
			t.Errorf("a reader looked %d times only", n)
		}
	}
	r.expect("conflicts", "SELECT count() FROM DB.board_conflicts", "0")
	racePointers(t, cfg)
}

// promoteSoon promotes as soon as the server that is asked knows the promotion before.
func promoteSoon(t *testing.T, st *store, generation string, from, to int64) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := results.Promote(t.Context(), st, generation, from, to, true)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// racePointers has four set the same version through a server each: one of them succeeds.
func racePointers(t *testing.T, cfg connector.SinkConfig) {
	t.Helper()
	for range 5 {
		var all sync.WaitGroup
		won := make(chan int, 4)
		stores := make([]*store, 4)
		var newest int64
		for n := range stores {
			tab := *cfg.Table
			tab.Options = merged(tab.Options, "url", "http://"+node(n+1)+tab.Options["url"][strings.LastIndex(tab.Options["url"], "/"):])
			st, err := newStore(&tab, optionsOf(&tab, connector.Lookup("clickhouse")))
			must(t, err)
			defer st.Close()
			p, err := st.Pointer(t.Context())
			must(t, err)
			stores[n], newest = st, max(newest, p.Version)
		}
		for n, st := range stores {
			for p, err := st.Pointer(t.Context()); p.Version < newest; p, err = st.Pointer(t.Context()) {
				must(t, err)
			}
			all.Go(func() {
				if err := st.Point(t.Context(), results.Pointer{Version: newest + 1, Default: fmt.Sprintf("n%d", n)}); err == nil {
					won <- n
				} else if err != results.ErrMoved {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of 4 have set version %d", len(won), newest+1)
		}
		winner := <-won
		for _, st := range stores {
			for {
				p, err := st.Pointer(t.Context())
				must(t, err)
				if p.Version > newest {
					if p.Default != fmt.Sprintf("n%d", winner) {
						t.Errorf("%d has set it, and the pointer is %+v", winner, p)
					}
					break
				}
			}
		}
	}
}

// TestClusterLint finds views that add up versions on servers that it does not talk to.
func TestClusterLint(t *testing.T) {
	r := onFour(t)
	cfg := r.sharded("four", r.base, nil)
	st, err := newStore(cfg.Table, cfg.Options)
	must(t, err)
	defer st.Close()
	must(t, st.Ensure(t.Context()), st.Ensure(t.Context()))
	if got, err := st.Lint(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("found %q, %v", got, err)
	}
	r.at(4).exec("CREATE MATERIALIZED VIEW DB.sums ENGINE = SummingMergeTree ORDER BY origin AS SELECT origin, sum(flights) AS n FROM DB.board_shard GROUP BY origin")
	if got, err := st.Lint(t.Context()); err != nil || len(got) != 1 || !strings.Contains(got[0], "sums") {
		t.Errorf("found %q, %v", got, err)
	}
	if err := st.MayWrite(t.Context()); err == nil {
		t.Error("a materialized view that adds up versions was taken")
	}
	r.at(4).exec("DROP TABLE DB.sums")
	must(t, r.sealed(cfg, 1, hours(100, "live", 1))(t.Context()))
	r.expect("the latest", "SELECT count() FROM DB.board_latest", "100")
	r.exec("SYSTEM FLUSH LOGS ON CLUSTER four")
	h, err := st.Health(t.Context())
	must(t, err)
	if h["rows"] != 100 || h["parts"] < 2 || h["queries"] < 1 || h["query_rows_read"] < 1 || h["query_bytes_read"] < 1 {
		t.Errorf("health is %v", h)
	}
	// On a cluster of several shards each would have a table of its own.
	no := r.sharded("four", r.base, map[string]string{"sink.create.sharded": "false", "table-name": "other"})
	if err := r.ensure(no); err == nil || !strings.Contains(err.Error(), "'sink.create.sharded' = 'true'") {
		t.Errorf("a table was made on each shard: %v", err)
	}
	no = r.sharded("five", r.base, map[string]string{"table-name": "other"})
	if err := r.ensure(no); err == nil || !strings.Contains(err.Error(), "no cluster 'five'") {
		t.Errorf("a cluster that does not exist was taken: %v", err)
	}
}

// ensure makes the tables of a sink.
func (r *rig) ensure(cfg connector.SinkConfig) error {
	return (&sink{cfg: cfg}).results(func(st *store) error { return st.Ensure(r.t.Context()) })
}

// TestClusterPlain writes tables that hold no results over two shards, in each way to write changes, each epoch
// twice.
func TestClusterPlain(t *testing.T) {
	r := onFour(t)
	options := func(more ...string) map[string]string {
		o := map[string]string{"sink.delivery-guarantee": "exactly-once", "sink.create": "true", "sink.create.cluster": "four", "sink.create.sharded": "true", "clickhouse.settings.insert_quorum": "2"}
		for i := 0; i < len(more); i += 2 {
			o[more[i]] = more[i+1]
		}
		return o
	}
	twice := func(d def, rows ...row) {
		for range 2 {
			r.write(r.open(d), 1, pair, rows...)
			r.exec("TRUNCATE TABLE DB.tidemark_progress ON CLUSTER four")
		}
	}
	twice(def{name: "rows", cols: pair, options: options("sink.create.order-by", "id")}, pairs(0, 100)...)
	r.expect("rows", "SELECT count(), uniqExact(id), uniqExact(_shard_num) FROM DB.rows", "100\t100\t2")
	changes := append(pairs(0, 100), put(int64(7), "new"), del(int64(8), "v8"))
	twice(def{name: "kv", cols: pair, key: []string{"id"}, options: options("sink.changelog", "replacing")}, changes...)
	r.expect("upserts", "SELECT count(), anyIf(v, id = 7) FROM DB.kv FINAL", "99\tnew")
	twice(def{name: "signs", cols: pair, options: options("sink.create.order-by", "id", "sink.changelog", "collapsing")}, append(pairs(0, 100), del(int64(8), "v8"))...)
	r.expect("changes", "SELECT sum(tidemark_sign) FROM DB.signs", "99")

	// A row that a shard refuses, and one that the Distributed table refuses.
	r.exec("ALTER TABLE DB.rows_shard ON CLUSTER four ADD CONSTRAINT c CHECK v != 'no'")
	d := def{name: "rows", cols: pair, options: options()}
	rows := append(pairs(200, 50), put(int64(300), "no"))
	s := r.open(d)
	err := r.committer(s).Commit(t.Context(), id("l", 2), r.seal(s, pair, rows...))
	if err == nil || !strings.Contains(err.Error(), "a shard refuses rows") {
		t.Errorf("a shard has refused a row, and the error is: %v", err)
	}
	r.exec("DROP TABLE DB.rows ON CLUSTER four SYNC",
		"CREATE TABLE DB.rows ON CLUSTER four (id Int64, v Nullable(String), CONSTRAINT c CHECK v != 'no') ENGINE = Distributed('four', '"+r.database+"', 'rows_shard', cityHash64(id))")
	r.write(r.open(d), 3, pair, append(pairs(400, 50), put(int64(301), "no"))...)
	if want := []string{`{"id":301,"v":"no"}`}; !slices.Equal(r.bad, want) {
		t.Errorf("refused are %q, want %q", r.bad, want)
	}
	r.expect("rows behind those refused", "SELECT count(), uniqExact(id) FROM DB.rows WHERE id >= 400", "50\t50")
}
