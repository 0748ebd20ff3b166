package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
	"github.com/tidemark-stream/tidemark/types"
)

// The tests that need a real PostgreSQL take the one that TIDEMARK_POSTGRES (a URL) names, or, with
// TIDEMARK_INTEGRATION, one that test/peers/postgres starts for them.
const ownPort = "22432"

var server struct {
	url    string
	script bool // test/peers/postgres has started it, here or before
}

func TestMain(m *testing.M) {
	server.url = os.Getenv("TIDEMARK_POSTGRES")
	if server.url != "" || os.Getenv("TIDEMARK_INTEGRATION") == "" {
		server.script = server.url != "" && peer("status") == nil
		os.Exit(m.Run())
	}
	server.url, server.script = "postgres://postgres@127.0.0.1:"+ownPort+"/test?sslmode=disable", true
	if err := servers().Start("postgres"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(servers().Main(m))
}

// servers are those of test/peers with the port of the server under test.
var servers = sync.OnceValue(func() *peers.Peers {
	u, err := url.Parse(server.url)
	if err != nil {
		panic(err)
	}
	return peers.New("PG_PORT=" + u.Port())
})

// peer runs test/peers/postgres for the server under test.
func peer(args ...string) error { return servers().Run("postgres", args...) }

// rig is a schema of its own in a real database.
type rig struct {
	t      testing.TB
	conn   *pgconn.PgConn
	schema string
	url    string // of sinks: that of a proxy, where there is one

	mu  sync.Mutex
	bad []string // what Bad got
}

func live(t testing.TB) *rig {
	t.Helper()
	if server.url == "" {
		t.Skip("SKIPPED: this needs a real PostgreSQL; set TIDEMARK_INTEGRATION=1 to have one started, or TIDEMARK_POSTGRES to the URL of one")
	}
	r := &rig{t: t, schema: fmt.Sprintf("t%d", rand.Uint32()), url: server.url}
	r.connect()
	r.exec("CREATE SCHEMA " + r.schema)
	t.Cleanup(func() {
		r.connect()
		r.exec("DROP SCHEMA " + r.schema + " CASCADE")
		r.conn.Close(context.Background())
	})
	return r
}

func (r *rig) connect() {
	r.t.Helper()
	if r.conn != nil && !r.conn.IsClosed() {
		return
	}
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if r.conn, err = pgconn.Connect(context.Background(), server.url); err == nil {
			break
		}
	}
	must(r.t, err)
	r.exec("SET search_path = " + r.schema + "; SET timezone = 'UTC'; SET extra_float_digits = 1; SET intervalstyle = 'iso_8601'")
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	if _, err := r.conn.Exec(context.Background(), sql).ReadAll(); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// rows returns the rows of a query as text.
func (r *rig) rows(sql string) []string {
	r.t.Helper()
	r.connect()
	res := r.conn.ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
	if res.Err != nil && r.conn.IsClosed() { // the server was restarted
		r.connect()
		res = r.conn.ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
	}
	if res.Err != nil {
		r.t.Fatalf("%s: %v", sql, res.Err)
	}
	out := []string{}
	for _, row := range res.Rows {
		parts := []string{}
		for _, v := range row {
			if v == nil {
				parts = append(parts, "NULL")
				continue
			}
			parts = append(parts, string(v))
		}
		out = append(out, strings.Join(parts, " | "))
	}
	return out
}

func (r *rig) expect(what, sql string, want ...string) {
	r.t.Helper()
	got := r.rows(sql)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// def is the definition of a table; the fields are "name TYPE", the key their names.
type def struct {
	name    string
	cols    []types.Field
	key     []string
	options map[string]string
}

func (r *rig) table(d def) *connector.Table {
	t := &connector.Table{Name: d.name, Connector: "postgres", Columns: d.cols, PrimaryKey: d.key,
		Options: map[string]string{"connector": "postgres", "url": r.url, "table-name": r.schema + "." + d.name}}
	for k, v := range d.options {
		t.Options[k] = v
	}
	return t
}

// config is what a sink of d is made with. Segments lie in memory; rows that are refused are noted.
func (r *rig) config(d def) connector.SinkConfig {
	t := r.table(d)
	f := connector.Lookup(t.Connector)
	mode := types.InsertOnly
	if len(d.key) > 0 {
		mode = types.Upsert
	}
	return connector.SinkConfig{Table: t, Options: option.Of(t.Options, f.Options, connector.CommonOptions), Schema: t.Schema(), Mode: mode,
		Segments: &connectortest.Segments{}, Job: "job", Node: d.name, Bad: func(b format.BadRecord) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !errors.Is(b.Err, connector.ErrRefused) {
				return fmt.Errorf("not refused: %w", b.Err)
			}
			r.bad = append(r.bad, string(b.Bytes))
			return nil
		}}
}

func (r *rig) open(d def) connector.Sink {
	r.t.Helper()
	c := r.config(d)
	f := connector.Lookup(c.Table.Connector)
	must(r.t, c.Options.Check(nil), f.Check(c.Table, c.Options))
	s, err := f.NewSink(c)
	must(r.t, err)
	return s
}

func (r *rig) writer(s connector.Sink) connector.Writer {
	r.t.Helper()
	w, err := s.NewWriter(r.t.Context(), 0, 1)
	must(r.t, err)
	r.t.Cleanup(func() { w.Close() })
	return w
}

func (r *rig) committer(s connector.Sink) connector.Committer {
	r.t.Helper()
	c, err := s.NewCommitter(r.t.Context())
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// Short names of what all tests of sinks have.
var (
	dec   = connectortest.Decimal
	ts    = connectortest.Timestamp
	day   = connectortest.Date
	put   = connectortest.Insert
	del   = connectortest.Delete
	batch = connectortest.Batch
)

type row = connectortest.Change

// seal writes rows as one epoch.
func (r *rig) seal(s connector.Sink, cols []types.Field, rows ...row) []connector.Committable {
	r.t.Helper()
	w := r.writer(s)
	must(r.t, w.Write(r.t.Context(), batch(cols, rows...)))
	cs, err := w.Prepare(r.t.Context())
	must(r.t, err)
	return cs
}

func id(lineage string, n int64) connector.CommitID {
	return connector.CommitID{Lineage: lineage, Checkpoint: n}
}

// proxy stands between a sink and the server and can lose what they say.
type proxy struct {
	l      net.Listener
	to     string
	lose   atomic.Pointer[string] // the next message of a client that holds this is the last
	after  atomic.Bool            // it comes to the server, and the answer is lost; else it is lost itself
	losses atomic.Int32
	wg     sync.WaitGroup
}

// proxied makes a rig whose sinks go through a proxy.
func (r *rig) proxied() *proxy {
	r.t.Helper()
	u, err := url.Parse(server.url)
	must(r.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	p := &proxy{l: l, to: u.Host}
	u.Host = l.Addr().String()
	r.url = u.String()
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	r.t.Cleanup(func() { l.Close() })
	return p
}

func (p *proxy) cut(text string, after bool) {
	p.after.Store(after)
	p.lose.Store(&text)
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer s.Close()
	var mute atomic.Bool
	answered := make(chan struct{}, 1)
	p.wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := s.Read(buf)
			if mute.Load() && n > 0 {
				answered <- struct{}{}
				return
			}
			if _, e := c.Write(buf[:n]); err != nil || e != nil {
				c.Close()
				return
			}
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		text := p.lose.Load()
		lost := text != nil && bytes.Contains(buf[:n], []byte(*text)) && p.lose.CompareAndSwap(text, nil)
		if lost {
			p.losses.Add(1)
			if !p.after.Load() {
				return
			}
			mute.Store(true)
		}
		if _, err := s.Write(buf[:n]); err != nil {
			return
		}
		if lost {
			<-answered // the server has done it
			return
		}
	}
}
