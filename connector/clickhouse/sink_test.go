package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
)

// TestTokens has a block inserted again where its answer was lost, and names it by lineage, checkpoint
// and number.
func TestTokens(t *testing.T) {
	f := newFake(t)
	r := f.rig()
	m := &connectortest.Segments{}
	s, c := r.process(once("sink.buffer-flush.max-rows", "10", "username", "app"), m)
	f.set(only("FORMAT Native", 2, fault{cut: true, after: true}))
	must(t, c.Commit(t.Context(), id("l", 7), r.seal(s, pair, pairs(0, 25)...)))
	f.has(texts(0, 25))
	want := []string{"tidemark/job/kv/l/7/0", "tidemark/job/kv/l/7/1", "tidemark/job/kv/l/7/1", "tidemark/job/kv/l/7/2"}
	if !slices.Equal(f.inserts, want) {
		t.Errorf("tokens %q, want %q", f.inserts, want)
	}
	for k, v := range map[string]string{"async_insert": "0", "insert_deduplicate": "1", "deduplicate_insert": "", "database": "db", "user": "app"} {
		if f.settings[k] != v {
			t.Errorf("%s is %q, want %q", k, f.settings[k], v)
		}
	}
	if want := []string{fmt.Sprintf("job|kv|l|7|%d", allBlocks)}; !slices.Equal(f.progress, want) {
		t.Errorf("progress %q, want %q", f.progress, want)
	}
}

// TestKnown does not insert again what the progress table has.
func TestKnown(t *testing.T) {
	f := newFake(t)
	f.window = 1
	r := f.rig()
	m := &connectortest.Segments{}
	d := once("sink.buffer-flush.max-rows", "10")
	s, c := r.process(d, m)
	one, two := r.seal(s, pair, pairs(0, 30)...), r.seal(s, pair, pairs(30, 5)...)
	must(t, c.Commit(t.Context(), id("l", 1), one))
	_, c = r.process(d, m)
	must(t, c.Commit(t.Context(), id("l", 1), one), c.Commit(t.Context(), id("l", 2), two), c.Commit(t.Context(), id("l", 1), one))
	f.has(texts(0, 35))
	// Another lineage is another history.
	must(t, c.Commit(t.Context(), id("m", 1), two))
	f.has(append(texts(0, 35), texts(30, 5)...))
}

// TestCrashes commits epochs while processes die at random statements, before or behind them, and the
// table forgets tokens soon. Each row must be in once, in order.
func TestCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := range 20 {
		f := newFake(t)
		f.window = 4 + rng.IntN(20)
		f.full = fmt.Sprintf("MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = %d", f.window)
		r := f.rig()
		m := &connectortest.Segments{}
		d := once("sink.buffer-flush.max-rows", "10", "connection.max-retry-timeout", "0 s")
		if n%4 == 0 {
			d.options["sink.progress-table"] = "" // then the tokens of a commit must do
			f.window = 40
		}
		s, c := r.process(d, m)
		var epochs [][]connector.Committable
		total := 0
		for range 6 {
			k := rng.IntN(250)
			if cs := r.seal(s, pair, pairs(total, k)...); len(cs) > 0 {
				epochs = append(epochs, cs)
			}
			total += k
		}
		kill := func() {
			at, after := 1+rng.IntN(40), rng.IntN(2) == 0
			seen := 0
			f.set(func(string, string) fault {
				if seen++; seen >= at { // the process is gone: nothing else comes
					return fault{cut: true, after: after && seen == at}
				}
				return fault{}
			})
		}
		crashes := 0
		for i, cs := range epochs {
			for kill(); ; kill() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if crashes > 60 {
					f.set(nil)
				}
				err := c.Commit(ctx, id("l", int64(i+1)), cs)
				cancel()
				if err == nil {
					break
				}
				crashes++
				_, c = r.process(d, m)
			}
		}
		f.set(nil)
		f.has(texts(0, total))
	}
}

// TestPartedNotes notes more often where an insert takes several tokens.
func TestPartedNotes(t *testing.T) {
	for _, x := range []struct {
		blocks int
		parted bool
		want   int64
	}{{1000, false, 64}, {100, false, 25}, {1, false, 1}, {10000, true, 25}, {100, true, 1}} {
		tab := table{memory: memory{blocks: x.blocks}, parted: x.parted}
		if got := tab.noteEvery(); got != x.want {
			t.Errorf("%d tokens, partitions %t: every %d, want %d", x.blocks, x.parted, got, x.want)
		}
	}
}

// TestBisected finds the rows that the server refuses, under tokens that follow from the path, also
// when the whole is done again.
func TestBisected(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		f := newFake(t)
		r := f.rig()
		bad := map[int]bool{3: true, 4: true, 17: true}
		f.set(func(sql, token string) fault {
			if !strings.Contains(sql, "FORMAT Native") {
				return fault{}
			}
			lo, hi := 0, 20
			path := strings.Split(token, "/")
			n := 6 // tidemark job kv l 1 block
			if g == "at-least-once" {
				n = 5 // tidemark job kv run block
			}
			for _, p := range path[n:] {
				if mid := lo + (hi-lo)/2; p == "0" {
					hi = mid
				} else {
					lo = mid
				}
			}
			for i := lo; i < hi; i++ {
				if bad[i] {
					return fault{code: 469, msg: "Constraint is violated"}
				}
			}
			return fault{}
		})
		d := once()
		d.options["sink.delivery-guarantee"] = g
		s := r.open(d)
		want := slices.Concat(texts(0, 3), texts(5, 12), texts(18, 2))
		if g == "exactly-once" {
			cs := r.seal(s, pair, pairs(0, 20)...)
			d.options["sink.progress-table"] = ""
			for range 2 {
				must(t, r.committer(r.open(d)).Commit(t.Context(), id("l", 1), cs))
			}
			r.bad = r.bad[:len(r.bad)/2]
		} else {
			r.write(s, 1, pair, pairs(0, 20)...)
		}
		f.has(want)
		if want := append(texts(3, 2), texts(17, 1)...); !slices.Equal(r.bad, want) {
			t.Errorf("%s: refused %q, want %q", g, r.bad, want)
		}
		if len(r.why) == 0 || !strings.Contains(r.why[0], "Constraint is violated. (SOME_NAME) (code 469)") {
			t.Errorf("%s: reasons %q", g, r.why)
		}
	}
}

// TestTrouble tries again what may pass, and gives up at once what cannot.
func TestTrouble(t *testing.T) {
	for _, x := range []struct {
		name  string
		fault fault
		n     int    // of the insert; 0 for all
		want  string // "": it goes in
		fatal bool
	}{
		{"no answer", fault{cut: true}, 1, "", false},
		{"too many parts", fault{code: 252, msg: "Too many parts (3000)"}, 1, "", false},
		{"no memory", fault{code: 241, msg: "Memory limit exceeded"}, 1, "", false},
		{"a proxy without server", fault{status: http.StatusBadGateway, msg: "bad gateway"}, 1, "", false},
		{"an error nobody knows", fault{code: 4711, msg: "odd"}, 1, "", false},
		{"an error nobody knows, that stays", fault{code: 4711, msg: "odd"}, 0, "odd", false},
		{"away for good", fault{cut: true}, 0, "the server cannot be used since", false},
		{"no right", fault{code: 497, msg: "Not enough privileges"}, 0, "Not enough privileges", true},
		{"no server of that kind", fault{status: http.StatusNotFound, msg: "nginx"}, 0, "which no ClickHouse server gives", true},
		{"a view", fault{code: 6, msg: "Cannot parse: while pushing to view db.mv"}, 0, "not in that view", true},
	} {
		for _, g := range []string{"at-least-once", "exactly-once"} {
			f := newFake(t)
			r := f.rig()
			d := once("connection.max-retry-timeout", "300 ms")
			d.options["sink.delivery-guarantee"] = g
			s := r.open(d)
			f.set(only("FORMAT Native", x.n, x.fault))
			var err error
			if g == "exactly-once" {
				err = r.committer(s).Commit(t.Context(), id("l", 1), r.seal(s, pair, pairs(0, 20)...))
			} else {
				w := r.writer(s)
				err = errors.Join(w.Write(t.Context(), batch(pair, pairs(0, 20)...)), w.Flush(t.Context()))
			}
			var fatal *connector.Fatal
			switch {
			case x.want == "" && err != nil:
				t.Errorf("%s, %s: %v", x.name, g, err)
			case x.want == "":
				f.has(texts(0, 20))
			case err == nil || !strings.Contains(err.Error(), x.want) || errors.As(err, &fatal) != x.fatal:
				t.Errorf("%s, %s: the error is %v (fatal %t), want %s (fatal %t)", x.name, g, err, errors.As(err, &fatal), x.want, x.fatal)
			}
		}
	}
}

// TestNone drops a block whose answer is lost, and says so.
func TestNone(t *testing.T) {
	for _, after := range []bool{false, true} {
		f := newFake(t)
		r := f.rig()
		d := atLeast("sink.buffer-flush.max-rows", "10")
		d.options["sink.delivery-guarantee"] = "none"
		s := r.open(d)
		f.set(only("FORMAT Native", 2, fault{cut: true, after: after}))
		r.write(s, 1, pair, pairs(0, 30)...)
		want := texts(0, 30)
		if !after {
			want = append(texts(0, 10), texts(20, 10)...)
		}
		f.has(want)
		if !strings.Contains(r.warn.String(), "10 rows may be lost") {
			t.Errorf("it says %q", r.warn.String())
		}
	}
}

// TestHosts goes to the next host when one is away, and does not where that is another table.
func TestHosts(t *testing.T) {
	f := newFake(t)
	f.engine, f.full = "ReplicatedMergeTree", "ReplicatedMergeTree('/t', 'r') ORDER BY id"
	r := f.rig()
	r.url = "http://" + dead(t) + "," + strings.TrimPrefix(f.server.URL, "http://")
	s, c := r.process(once(), &connectortest.Segments{})
	must(t, c.Commit(t.Context(), id("l", 1), r.seal(s, pair, pairs(0, 20)...)))
	f.has(texts(0, 20))
	if _, words := s.Delivery(); !strings.Contains(words, "into ReplicatedMergeTree, which knows the tokens of the last 10000 parts for 1 h") {
		// the first host is away, and is asked first
		if !strings.Contains(words, "could not be looked up now") {
			t.Errorf("it gives %s", words)
		}
	}
	f.engine, f.full = "MergeTree", "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100"
	_, err := r.open(once()).NewWriter(t.Context(), 0, 1)
	var fatal *connector.Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "name one host, or use a replicated table") {
		t.Errorf("the error is %v", err)
	}
}

// TestSlow has a server that takes no block: whoever writes must wait, holding three blocks at most.
func TestSlow(t *testing.T) {
	f := newFake(t)
	r := f.rig()
	s := r.open(atLeast("sink.buffer-flush.max-rows", "10"))
	w := r.writer(s)
	free := make(chan struct{})
	f.set(only("FORMAT Native", 0, fault{stall: func() { <-free }}))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	n := 0
	var err error
	for ; err == nil && n < 100; n += 10 {
		err = w.Write(ctx, batch(pair, pairs(n, 10)...))
	}
	if !errors.Is(err, context.DeadlineExceeded) || n > 40 {
		t.Errorf("%d rows were taken, and the error is %v", n, err)
	}
	if err := w.Tick(t.Context()); err != nil {
		t.Errorf("Tick: %v", err)
	}
	close(free)
}

// TestInterval inserts a small block when it is due.
func TestInterval(t *testing.T) {
	f := newFake(t)
	r := f.rig()
	w := r.writer(r.open(atLeast("sink.buffer-flush.interval", "20 ms")))
	must(t, w.Write(t.Context(), batch(pair, pairs(0, 3)...)), w.Tick(t.Context()))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		must(t, w.Tick(t.Context()))
		f.mu.Lock()
		n := len(f.rows)
		f.mu.Unlock()
		if n > 0 {
			break
		}
	}
	f.has(texts(0, 3))
}

// TestSize cuts blocks by bytes too.
func TestSize(t *testing.T) {
	f := newFake(t)
	r := f.rig()
	w := r.writer(r.open(atLeast("sink.buffer-flush.max-size", "1 kb")))
	for i := range 10 {
		must(t, w.Write(t.Context(), batch(pair, put(int64(i), strings.Repeat("x", 600)))))
	}
	must(t, w.Flush(t.Context()))
	if len(f.inserts) != 5 || len(f.rows) != 10 {
		t.Errorf("%d blocks of %d rows", len(f.inserts), len(f.rows))
	}
}

// TestNativeRefusal has a server of the native protocol say no to the user.
func TestNativeRefusal(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.ReadAtLeast(c, make([]byte, 1<<10), 1)
			var b proto.Buffer
			proto.ServerCodeException.Encode(&b)
			(&proto.Exception{Code: 516, Name: "DB::Exception", Message: "DB::Exception: app: Authentication failed"}).EncodeAware(&b, proto.Version)
			c.Write(b.Buf)
			c.Close()
		}
	}()
	r := &rig{t: t, native: l.Addr().String(), database: "db"}
	_, err = r.open(def{name: "kv", cols: pair, native: true}).NewWriter(t.Context(), 0, 1)
	var fatal *connector.Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "app: Authentication failed (code 516)") {
		t.Errorf("the error is %v", err)
	}
}

// TestStart says soon that there is no server.
func TestStart(t *testing.T) {
	r := &rig{t: t, url: "http://" + dead(t), database: "db"}
	from := time.Now()
	_, err := r.open(once("connection.max-retry-timeout", "1 h")).NewWriter(t.Context(), 0, 1)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || time.Since(from) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(from), err)
	}
	if gives, words := r.open(once()).Delivery(); gives != connector.ExactlyOnce || !strings.Contains(words, "could not be looked up now") {
		t.Errorf("%s: %s", gives, words)
	}
}

// TestOptions refuses what cannot work, at planning.
func TestOptions(t *testing.T) {
	for _, x := range []struct{ options, want string }{
		{"url=ftp://h", "cannot begin with \"ftp\""},
		{"url=http://", "names no host"},
		{"url=http://a,,b", "names no host"},
		{"url=http://h:8123/db?x=1", "the parameter 'x' of the URL is not known; write 'clickhouse.settings.x'"},
		{"table-name=a.b.c", "no name of a table"},
		{"table-name=", "no name of a table"},
		{"compression=gzip", "it is one of lz4, zstd, none"},
		{"tls.ca-file=x", "the URL does not ask for TLS"},
		{"url=https://h;tls.ca-file=/nonexistent", "cannot be read"},
		{"url=https://h;tls.certificate-file=/nonexistent", "the certificate and its key"},
		{"sink.buffer-flush.max-rows=0", "a block cannot have 0 rows"},
		{"sink.buffer-flush.max-size=1 tb", "a block cannot have"},
		{"sink.max-retries=-1", "cannot be negative"},
		{"clickhouse.settings.query_id=1", "the sink sets 'query_id' itself"},
		{"sink.delivery-guarantee=exactly-once;clickhouse.settings.async_insert=1", "leave async_insert out"},
		{"clickhouse.settings.async_insert=1;clickhouse.settings.wait_for_async_insert=0", "leave async_insert out"},
		{"sink.delivery-guarantee=exactly-once;clickhouse.settings.insert_deduplicate=0", "needs the server to know blocks again"},
		{"sink.changelog=replacing", "declare PRIMARY KEY"},
		{"sink.changelog=replacing;key=id", ""},
		{"key=id", "'sink.changelog' = 'replacing'"},
		{"clickhouse.settings.async_insert=1", ""},
		{"url=clickhouse://u:p@h1,h2:9001/db?secure=true;table-name=`odd name`", ""},
	} {
		d := def{name: "kv", cols: pair, options: map[string]string{}}
		for _, o := range strings.Split(x.options, ";") {
			k, v, _ := strings.Cut(o, "=")
			if k == "key" {
				d.key = []string{v}
				continue
			}
			d.options[k] = v
		}
		_, err := (&rig{t: t, url: "http://h", database: "db"}).sink(d)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", x.options, err, x.want)
		}
	}
}

func TestAddress(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                              "[h:8123] default.t default tls false native false",
		"https://a:1,b/x/y/db":                  "[a:1 b:8443] db.t default tls true native false /x/y",
		"clickhouse://u:p%40@h1,[::1]:9/d":      "[h1:9000 [::1]:9] d.t u:p@ tls false native true",
		"clickhouse://h?secure=true&database=d": "[h:9440] d.t default tls true native true",
		"clickhouses://h/d":                     "[h:9440] d.t default tls true native true",
	} {
		r := &rig{t: t}
		cfg := r.config(def{name: "t", cols: pair, options: map[string]string{"url": url}})
		c, err := configOf(cfg.Options)
		must(t, err)
		who := c.user
		if c.password != "" {
			who += ":" + c.password
		}
		got := strings.TrimSpace(fmt.Sprintf("%v %s.%s %s tls %t native %t %s", c.hosts, c.database, c.table, who, c.tls != nil, c.native, c.path))
		if got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// TestSegmentDamaged names a segment that is not whole, and writes none of its rest.
func TestSegmentDamaged(t *testing.T) {
	f := newFake(t)
	r := f.rig()
	m := &connectortest.Segments{}
	s, c := r.process(once("sink.buffer-flush.max-rows", "10"), m)
	cs := r.seal(s, pair, pairs(0, 20)...)
	for _, cut := range []int{9, 15, len(cs[0]) - 1} {
		err := c.Commit(t.Context(), id("l", 1), []connector.Committable{cs[0][:cut]})
		var fatal *connector.Fatal
		if !errors.Is(err, errSegment) || !errors.As(err, &fatal) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	must(t, c.Commit(t.Context(), id("l", 1), cs))
	f.has(texts(0, 20))
	s.cfg.Segments = brokenSegments{}
	if err := c.Commit(t.Context(), id("l", 2), cs); err == nil || errors.Is(err, errSegment) || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("the error is %v", err)
	}
}

type brokenSegments struct{ connector.Segments }

func (brokenSegments) Open(context.Context, connector.Committable) (io.ReadCloser, error) {
	return nil, errors.New("no disk")
}

// FuzzBlock reads blocks that anybody made.
func FuzzBlock(f *testing.F) {
	e := exampleEncoder(f)
	b := batch(e.schema.Fields, put(int64(1), "a", list("x", "y"), list("k", int64(1)), dec("1.5", 30, 3)), put(int64(2), nil, list(), list(), dec("2", 30, 3)))
	rows, err := e.take(b, func(b format.BadRecord) error { return b.Err })
	must(f, err)
	e.add(b, rows)
	f.Add(e.block(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := parseBlock(in)
		if err != nil {
			return
		}
		if b.rows > 1000 {
			return
		}
		whole, err := b.appendRows(nil, 0, b.rows)
		if err != nil {
			t.Fatalf("a block that was read cannot be cut: %v", err)
		}
		again, err := parseBlock(whole)
		if err != nil || again.rows != b.rows {
			t.Fatalf("a block that was cut cannot be read: %v", err)
		}
		for i := range b.rows {
			one, err := b.appendRows(nil, i, i+1)
			must(t, err)
			single, err := parseBlock(one)
			must(t, err)
			if x, y := b.rowText(i), single.rowText(0); !bytes.Equal(x, y) {
				t.Fatalf("row %d is %s in the block and %s alone", i, x, y)
			}
		}
	})
}

func exampleEncoder(t testing.TB) *encoder {
	tab := &table{zone: time.UTC, cols: []tableColumn{{"id", "Int64", ""}, {"v", "LowCardinality(Nullable(String))", ""}, {"a", "Array(String)", ""}, {"m", "Map(String, Int32)", ""}, {"d", "Decimal(38, 5)", ""}}}
	cfg := (&rig{t: t}).config(def{name: "x", cols: []types.Field{pair[0], pair[1], {Name: "a", Type: types.ArrayType(types.StringType)},
		{Name: "m", Type: types.MapType(types.StringType, types.IntType)}, {Name: "d", Type: types.DecimalType(30, 3)}}})
	e, err := tab.fit(&cfg)
	must(t, err)
	return e
}

// FuzzType reads names of types.
func FuzzType(f *testing.F) {
	for _, c := range typeCases {
		f.Add(c.ch)
	}
	f.Add("Nested(a Int8, b Array(String))")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseType(s)
		if err != nil {
			return
		}
		b, err := parseType(a.name)
		if err != nil || b.name != a.name || b.kind != a.kind || b.size != a.size {
			t.Fatalf("%q becomes %q, and that %v: %v", s, a.name, b, err)
		}
	})
}

// FuzzSegment reads segments that anybody made.
func FuzzSegment(f *testing.F) {
	f.Add([]byte(segmentMagic + "\x03\x00\x00\x00abc\x01\x00\x00\x00\x00"))
	f.Add([]byte(segmentFirst + "\x03\x00\x00\x00abc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := readSegment(bytes.NewReader(in))
		for err == nil {
			_, err = r.next()
		}
		if err != io.EOF && !errors.Is(err, errSegment) {
			t.Fatalf("the error is %v", err)
		}
	})
}
