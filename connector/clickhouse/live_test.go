package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/types"
)

var pair = []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "v", Type: types.StringType}}

const keeps = " SETTINGS non_replicated_deduplication_window = 100"

func pairs(from, n int) (rows []row) {
	for i := from; i < from+n; i++ {
		rows = append(rows, put(int64(i), fmt.Sprintf("v%d", i)))
	}
	return rows
}

// TestConformance runs the suite of connectors over each guarantee and protocol.
func TestConformance(t *testing.T) {
	rows := []connectortest.Row{
		{Values: []types.Value{int64(1), "a"}, Text: "1\ta"}, {Values: []types.Value{int64(2), nil}, Text: "2\t" + null},
		{Values: []types.Value{int64(3), "c"}, Text: "3\tc"}, {Values: []types.Value{int64(4), "d"}, Text: "4\td"}, {Values: []types.Value{int64(5), ""}, Text: "5\t"},
	}
	live(t) // what looks after the server is not to be taken for a leak
	for _, native := range []bool{false, true} {
		for _, g := range []string{"at-least-once", "exactly-once", "none"} {
			t.Run(fmt.Sprintf("%s, native %t", g, native), func(t *testing.T) {
				connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, Numbered: true, New: func(t testing.TB) connectortest.Target {
					r := live(t)
					r.exec("CREATE TABLE DB.kv (id Int64, v Nullable(String)) ENGINE = MergeTree ORDER BY id" + keeps)
					m := &connectortest.Segments{}
					return connectortest.Target{Table: r.table(def{name: "kv", cols: pair, native: native, options: map[string]string{"sink.delivery-guarantee": g}}),
						Visible: func() []string { return r.rows("SELECT * FROM DB.kv ORDER BY id") },
						Config:  func(c *connector.SinkConfig) { c.Segments, c.Job, c.Node = m, "job", "sink" }}
				}})
			})
		}
	}
}

// TestRefused has rows that cannot go in among 3,000 that can: those that are found here, and those
// that the server finds.
func TestRefused(t *testing.T) {
	for _, native := range []bool{false, true} {
		for _, g := range []string{"at-least-once", "exactly-once"} {
			t.Run(fmt.Sprintf("%s, native %t", g, native), func(t *testing.T) {
				r := live(t)
				r.exec("CREATE TABLE DB.picky (id Int64, v String, n UInt8, j JSON, CONSTRAINT c CHECK v != 'no') ENGINE = MergeTree ORDER BY id" + keeps)
				cols := []types.Field{pair[0], pair[1], {Name: "n", Type: types.IntType}, {Name: "j", Type: types.StringType}}
				d := def{name: "picky", cols: cols, native: native, options: map[string]string{"sink.delivery-guarantee": g, "sink.buffer-flush.max-rows": "700"}}
				var rows []row
				good := 0
				for i := range 3000 {
					v, n, j := types.Value("v"), types.Value(int64(i%256)), types.Value("{}")
					switch i {
					case 5:
						v = nil
					case 77:
						n = int64(256)
					case 1234, 1235, 2999:
						v = "no"
					case 2000:
						j = "{a"
					default:
						good++
					}
					rows = append(rows, put(int64(i), v, n, j))
				}
				r.write(r.open(d), 1, cols, rows...)
				r.expect("rows", "SELECT count(), uniqExact(id) FROM DB.picky", fmt.Sprintf("%d\t%d", good, good))
				slices.Sort(r.bad)
				want := []string{`{"id":1234,"v":"no","n":210,"j":"{}"}`, `{"id":1235,"v":"no","n":211,"j":"{}"}`, `{"id":2000,"v":"v","n":208,"j":"{a"}`,
					`{"id":2999,"v":"no","n":183,"j":"{}"}`, `{"id":5,"v":null,"n":5,"j":"{}"}`, `{"id":77,"v":"v","n":256,"j":"{}"}`}
				if !slices.Equal(r.bad, want) {
					t.Errorf("refused:\n%s\nwant:\n%s", strings.Join(r.bad, "\n"), strings.Join(want, "\n"))
				}
				for _, why := range []string{"column 'v': it is NULL", "column 'n': 256 does not fit UInt8", "Constraint `c`", "Cannot parse JSON"} {
					if !slices.ContainsFunc(r.why, func(s string) bool { return strings.Contains(s, why) }) {
						t.Errorf("no reason has %q: %q", why, r.why)
					}
				}
			})
		}
	}
}

// TestPartitions has more partitions in a block than an insert may touch.
func TestPartitions(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v String) ENGINE = MergeTree ORDER BY id PARTITION BY id SETTINGS non_replicated_deduplication_window = 1000")
	d := def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}}
	s := r.open(d)
	cs := r.seal(s, pair, pairs(0, 350)...)
	for range 2 { // the second time from another process, whose tokens are known
		s := r.open(def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once", "sink.progress-table": ""}})
		s.(*sink).cfg.Segments = &connectortest.Segments{}
		must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
	}
	r.expect("rows", "SELECT count(), uniqExact(id) FROM DB.kv", "350\t350")
	if len(r.bad) > 0 {
		t.Errorf("refused: %v", r.why)
	}
}

// TestView has a materialized view that cannot take a row: what is in the table already must not come
// in again.
func TestView(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v String) ENGINE = MergeTree ORDER BY id"+keeps,
		"CREATE MATERIALIZED VIEW DB.mv ENGINE = MergeTree ORDER BY n AS SELECT toUInt8(v) AS n FROM DB.kv")
	s := r.open(def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
	c := r.committer(s)
	cs := r.seal(s, pair, put(int64(1), "1"), put(int64(2), "no"))
	for range 2 {
		err := c.Commit(t.Context(), id("l", 1), cs)
		var fatal *connector.Fatal
		if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "not in that view") {
			t.Errorf("the error is %v", err)
		}
	}
	r.exec("DROP TABLE DB.mv")
	must(t, c.Commit(t.Context(), id("l", 1), cs))
	r.expect("rows", "SELECT id FROM DB.kv ORDER BY id", "1", "2")
}

// TestViews has a view that fails once: what is missing in it comes in with the repeat, under the same
// token, and what is in the table does not.
func TestViews(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v String) ENGINE = MergeTree ORDER BY id"+keeps,
		"CREATE TABLE DB.sums (n UInt64, CONSTRAINT c CHECK n > 10) ENGINE = MergeTree ORDER BY n"+keeps,
		"CREATE MATERIALIZED VIEW DB.mv TO DB.sums AS SELECT count() AS n FROM DB.kv")
	s := r.open(def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
	c := r.committer(s)
	cs := r.seal(s, pair, pairs(0, 5)...)
	if err := c.Commit(t.Context(), id("l", 1), cs); err == nil {
		t.Fatal("the view took it")
	}
	r.exec("ALTER TABLE DB.sums DROP CONSTRAINT c")
	must(t, c.Commit(t.Context(), id("l", 1), cs))
	r.expect("rows", "SELECT count() FROM DB.kv", "5")
	r.expect("the view's rows", "SELECT * FROM DB.sums", "5")
}

// TestExplained says what the guarantee is, from the table's engine.
func TestExplained(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.plain (id Int64, v String) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE DB.kept (id Int64, v String) ENGINE = ReplacingMergeTree ORDER BY id"+keeps,
		"CREATE TABLE DB.over AS DB.kept ENGINE = Distributed('one', '"+r.database+"', 'kept', id)",
		"CREATE TABLE DB.random AS DB.kept ENGINE = Distributed('one', '"+r.database+"', 'kept', rand())",
		"CREATE TABLE DB.shallow AS DB.kept ENGINE = Distributed('one', '"+r.database+"', 'plain', id)",
		"CREATE TABLE DB.log (id Int64, v String) ENGINE = Log")
	f := connector.Lookup("clickhouse")
	for _, x := range []struct {
		table string
		gives connector.Delivery
		words string
	}{
		{"plain", connector.AtLeastOnce, "the job does not start: table " + r.database + ".plain (MergeTree) does not know a block that is inserted again, as non_replicated_deduplication_window is 0; " +
			"ALTER TABLE `" + r.database + "`.`plain` MODIFY SETTING non_replicated_deduplication_window = 1000, or use 'at-least-once'"},
		{"kept", connector.ExactlyOnce, "into ReplacingMergeTree, which knows the tokens of the last 100 parts. What went in is noted in tidemark_progress"},
		{"over", connector.ExactlyOnce, "into ReplacingMergeTree, which knows the tokens of the last 100 parts"},
		{"random", connector.AtLeastOnce, "at random"},
		{"shallow", connector.AtLeastOnce, "ALTER TABLE `" + r.database + "`.`plain` ON CLUSTER `one` MODIFY SETTING"},
		{"log", connector.AtLeastOnce, "an engine of that kind keeps no tokens"},
		{"missing", connector.ExactlyOnce, "could not be looked up now"},
	} {
		c := r.config(def{name: x.table, cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
		gives, words := f.Delivery(c.Table, c.Options)
		if gives != x.gives || !strings.Contains(words, x.words) {
			t.Errorf("%s: %s: %s\nwant %s: %s", x.table, gives, words, x.gives, x.words)
		}
		s, err := r.sink(def{name: x.table, cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}})
		must(t, err)
		w, err := s.NewWriter(t.Context(), 0, 1)
		var fatal *connector.Fatal
		switch good := gives == connector.ExactlyOnce && x.table != "missing"; {
		case good && err != nil:
			t.Errorf("%s: %v", x.table, err)
		case !good && !errors.As(err, &fatal):
			t.Errorf("%s: the error is not fatal: %v", x.table, err)
		}
		if w != nil {
			w.Close()
		}
	}
	// What the remedy says is one.
	r.exec("ALTER TABLE DB.plain MODIFY SETTING non_replicated_deduplication_window = 1000")
	if w, err := r.open(def{name: "plain", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}}).NewWriter(t.Context(), 0, 1); err != nil {
		t.Error(err)
	} else {
		w.Close()
	}
}

// TestDistributed writes over a Distributed table, twice.
func TestDistributed(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.local (id Int64, v String) ENGINE = MergeTree ORDER BY id"+keeps,
		"CREATE TABLE DB.over AS DB.local ENGINE = Distributed('one', '"+r.database+"', 'local', id)")
	d := def{name: "over", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once", "sink.progress-table": ""}}
	s := r.open(d)
	cs := r.seal(s, pair, pairs(0, 1000)...)
	for range 2 {
		must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		s = r.open(d)
		r.expect("rows", "SELECT count() FROM DB.local", "1000")
	}
}

// TestFatal has errors that no restart heals; each must say why.
func TestFatal(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v String, m Int64 MATERIALIZED id, s AggregateFunction(sum, Int64)) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE DB.wrong (id Int32, v DateTime) ENGINE = MergeTree ORDER BY id")
	col := func(name string, t types.Type) []types.Field { return []types.Field{pair[0], {Name: name, Type: t}} }
	for _, x := range []struct {
		d         def
		want      string
		handshake bool // it is found out when the connection is made
	}{
		{def{name: "gone", cols: pair}, "table " + r.database + ".gone does not exist", false},
		{def{name: "kv", cols: pair, options: map[string]string{"password": "wrong"}}, "Authentication failed", true},
		{def{name: "kv", cols: pair, options: map[string]string{"username": "nobody"}}, "Authentication failed", true},
		{def{name: "kv", cols: pair, options: map[string]string{"database-name": "nowhere"}}, "nowhere", true},
		{def{name: "kv", cols: col("w", types.StringType)}, "column 'w' does not exist; there are id, v, m, s", false},
		{def{name: "kv", cols: col("m", types.BigIntType)}, "column 'm' is MATERIALIZED in the database", false},
		{def{name: "kv", cols: col("s", types.BigIntType)}, "column 's' is BIGINT here and AggregateFunction(sum, Int64) in the database", false},
		{def{name: "kv", cols: col("v", types.IntType)}, "column 'v' is INT here and String in the database: CAST it in the query, or change the column", false},
		{def{name: "wrong", cols: col("v", types.TimestampType(3))}, "column 'v' is TIMESTAMP(3) here and DateTime in the database: DateTime has 3 digits of the second less; CAST it to TIMESTAMP(0) in the query, or make the column DateTime64(3)", false},
	} {
		for _, native := range []bool{false, true} {
			if x.handshake && native {
				continue // the library that stands for a server here dies of it; see TestNativeRefusal
			}
			x.d.native = native
			s, err := r.sink(x.d)
			must(t, err)
			w, err := s.NewWriter(t.Context(), 0, 1)
			var fatal *connector.Fatal
			if !errors.As(err, &fatal) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("native %t: the error is %v (fatal %t)\nwant %s", native, err, errors.As(err, &fatal), x.want)
			}
			if w != nil {
				w.Close()
			}
		}
	}
	// Rights are found out with the first block.
	s := r.open(def{name: "wrong", cols: pair[:1], options: map[string]string{"username": "reader", "password": "reader"}})
	w, err := s.NewWriter(t.Context(), 0, 1)
	if err == nil {
		err = errors.Join(w.Write(t.Context(), batch(pair[:1], put(int64(1)))), w.Flush(t.Context()))
		w.Close()
	}
	var fatal *connector.Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("the error is %v", err)
	}
}

// TestChangelog writes updates and deletions into the engines for them.
func TestChangelog(t *testing.T) {
	upd := func(k types.RowKind, values ...types.Value) row { return row{Kind: k, Values: values} }
	for _, g := range []string{"at-least-once", "exactly-once"} {
		t.Run(g, func(t *testing.T) {
			r := live(t)
			r.exec("CREATE TABLE DB.c (id Int64, v Nullable(String), sign Int8) ENGINE = CollapsingMergeTree(sign) ORDER BY id"+keeps,
				"CREATE TABLE DB.r (id Int64, v String, version UInt64, gone UInt8) ENGINE = ReplacingMergeTree(version, gone) ORDER BY id"+keeps,
				"CREATE TABLE DB.o (id Int64, v String, version UInt32) ENGINE = ReplacingMergeTree(version) ORDER BY id"+keeps)
			o := func(way string) map[string]string {
				return map[string]string{"sink.delivery-guarantee": g, "sink.changelog": way}
			}
			s := r.open(def{name: "c", cols: pair, options: o("collapsing")})
			r.write(s, 1, pair, put(int64(1), "a"), put(int64(2), "b"))
			r.write(s, 2, pair, upd(types.UpdateBefore, int64(1), "a"), upd(types.UpdateAfter, int64(1), "A"), del(int64(2), "b"))
			r.expect("collapsed", "SELECT id, v FROM DB.c FINAL ORDER BY id", "1\tA")
			r.expect("sum", "SELECT sum(sign), count() FROM DB.c", "1\t5")
			s = r.open(def{name: "r", cols: pair, key: []string{"id"}, options: o("replacing")})
			r.write(s, 1, pair, put(int64(1), "a"), put(int64(2), "b"), put(int64(3), "c"))
			r.write(s, 2, pair, upd(types.UpdateAfter, int64(1), "A"), del(int64(2), nil), del(int64(3), nil), put(int64(3), "again"))
			r.expect("replaced", "SELECT id, v FROM DB.r FINAL ORDER BY id", "1\tA", "3\tagain")
			cols := []types.Field{pair[0], pair[1], {Name: "version", Type: types.IntType}}
			cfg := r.config(def{name: "o", cols: cols, key: []string{"id"}, options: o("replacing")})
			cfg.Mode = types.ChangelogMode(1<<types.Insert | 1<<types.UpdateAfter)
			own, err := newSink(cfg)
			must(t, err)
			r.write(own, 1, cols, put(int64(1), "new", int64(7)))
			r.write(own, 2, cols, put(int64(1), "old", int64(3)))
			r.expect("own versions", "SELECT id, v FROM DB.o FINAL", "1\tnew")

			for _, x := range []struct {
				d    def
				want string
			}{
				{def{name: "r", cols: pair, options: o("collapsing")}, "needs a CollapsingMergeTree(sign), and this is a ReplacingMergeTree"},
				{def{name: "c", cols: pair, key: []string{"id"}, options: o("replacing")}, "needs a ReplacingMergeTree, and this is a CollapsingMergeTree"},
				{def{name: "r", cols: pair, key: []string{"id", "v"}, options: o("replacing")}, "the PRIMARY KEY here is (id, v), and the table replaces rows that are equal in ORDER BY (id)"},
				{def{name: "o", cols: cols, key: []string{"id"}, options: o("replacing")}, "make it ReplacingMergeTree(version, is_deleted)"},
			} {
				_, err := r.open(x.d).NewWriter(t.Context(), 0, 1)
				if err == nil || !strings.Contains(err.Error(), x.want) {
					t.Errorf("the error is %v\nwant %s", err, x.want)
				}
			}
		})
	}
}

// TestHang has a server that answers no more: who closes the writer does not wait for it.
func TestHang(t *testing.T) {
	for _, native := range []bool{false, true} {
		r := live(t)
		r.exec("CREATE TABLE DB.kv (id Int64, v String) ENGINE = MergeTree ORDER BY id")
		to := strings.TrimPrefix(r.base, "http://")
		if native {
			to = r.native
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		var mute atomic.Bool
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				s, err := net.Dial("tcp", to)
				if err != nil {
					c.Close()
					return
				}
				go func() { io.Copy(s, c); s.Close() }()
				go func() {
					buf := make([]byte, 1<<16)
					for {
						n, err := s.Read(buf)
						for mute.Load() {
							time.Sleep(time.Millisecond)
						}
						if _, e := c.Write(buf[:n]); err != nil || e != nil {
							c.Close()
							return
						}
					}
				}()
			}
		}()
		r.url = map[bool]string{false: "http://", true: "clickhouse://"}[native] + l.Addr().String()
		w, err := r.open(def{name: "kv", cols: pair, native: native}).NewWriter(t.Context(), 0, 1)
		must(t, err, w.Write(t.Context(), batch(pair, pairs(0, 5)...)), w.Flush(t.Context()))
		mute.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		must(t, w.Write(t.Context(), batch(pair, pairs(5, 5)...)))
		if err := w.Flush(ctx); err == nil {
			t.Errorf("native %t: a server that does not answer said yes", native)
		}
		cancel()
		from := time.Now()
		must(t, w.Close())
		if took := time.Since(from); took > 20*time.Second {
			t.Errorf("native %t: closing took %s", native, took)
		}
		mute.Store(false)
	}
}
