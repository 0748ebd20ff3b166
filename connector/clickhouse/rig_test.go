package clickhouse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
	"github.com/tidemark-stream/tidemark/types"
)

// The tests that need a real ClickHouse take the one that TIDEMARK_CLICKHOUSE (http://host:port of one
// whose native protocol is 100 ports higher) names, or, with TIDEMARK_INTEGRATION, start one.
const ownPort = "24123"

var (
	servers = peers.New("CH_PORT="+ownPort, fmt.Sprintf("CHC_PORT=%d", clusterPort))
	theirs  = os.Getenv("TIDEMARK_CLICKHOUSE")
)

// outside is the client of the tests themselves; it keeps no connection, which would look like a leak.
var outside = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// rig is a database of its own in a real server.
type rig struct {
	t        testing.TB
	base     string // http://host:port
	native   string // host:port
	database string
	url      string // of sinks, without the database; "" for base

	mu   sync.Mutex
	bad  []string // what Bad got
	why  []string // and why
	warn bytes.Buffer
}

func live(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, base: theirs, database: fmt.Sprintf("t%d", rand.Uint32())}
	if r.base == "" {
		servers.Need(t, "clickhouse")
		r.base = "http://127.0.0.1:" + ownPort
	}
	u, err := url.Parse(r.base)
	must(t, err)
	var port int
	fmt.Sscan(u.Port(), &port)
	r.native = fmt.Sprintf("%s:%d", u.Hostname(), port+100)
	r.ask("CREATE DATABASE " + r.database)
	t.Cleanup(func() { r.ask("DROP DATABASE IF EXISTS " + r.database) })
	return r
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// ask runs a statement in the server itself, whatever sinks go through. A server that is being started again, or
// about to be, is asked again.
func (r *rig) ask(sql string) string {
	r.t.Helper()
	var text []byte
	err := servers.Again("clickhouse", func() error {
		resp, err := outside.Post(r.base+"/?default_format=TabSeparated&session_timezone=UTC&wait_end_of_query=1&enable_time_time64_type=1", "", strings.NewReader(sql))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(string(text))
		}
		return err
	})
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return string(text)
}

// exec runs statements; DB stands for the database.
func (r *rig) exec(statements ...string) {
	r.t.Helper()
	for _, sql := range statements {
		r.ask(strings.ReplaceAll(sql, "DB.", r.database+"."))
	}
}

// rows returns the rows of a query.
func (r *rig) rows(sql string) []string {
	r.t.Helper()
	return peers.Lines(r.ask(strings.ReplaceAll(sql, "DB.", r.database+".")))
}

func (r *rig) expect(what, sql string, want ...string) {
	r.t.Helper()
	if got := r.rows(sql); !slices.Equal(got, want) {
		r.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// def is the definition of a table here.
type def struct {
	name    string
	cols    []types.Field
	key     []string
	options map[string]string
	native  bool
}

func (r *rig) table(d def) *connector.Table {
	at := r.url
	if at == "" {
		at = r.base
		if d.native {
			at = "clickhouse://" + r.native
		}
	}
	t := &connector.Table{Name: d.name, Connector: "clickhouse", Columns: d.cols, PrimaryKey: d.key,
		Options: map[string]string{"connector": "clickhouse", "url": at + "/" + r.database, "table-name": d.name}}
	for k, v := range d.options {
		t.Options[k] = v
	}
	return t
}

// config is what a sink of d is made with. Segments lie in memory; rows that are refused are noted.
func (r *rig) config(d def) connector.SinkConfig {
	t := r.table(d)
	f := connector.Lookup(t.Connector)
	o := option.Of(t.Options, f.Options, connector.CommonOptions)
	return connector.SinkConfig{Table: t, Options: o, Schema: t.Schema(), Mode: f.SinkChangelog(t, o), Stderr: &r.warn,
		Segments: &connectortest.Segments{}, Job: "job", Node: d.name, Bad: func(b format.BadRecord) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !errors.Is(b.Err, connector.ErrRefused) {
				return fmt.Errorf("not refused: %w", b.Err)
			}
			r.bad, r.why = append(r.bad, string(b.Bytes)), append(r.why, b.Err.Error())
			return nil
		}}
}

func (r *rig) open(d def) connector.Sink {
	r.t.Helper()
	s, err := r.sink(d)
	must(r.t, err)
	return s
}

func (r *rig) sink(d def) (connector.Sink, error) {
	c := r.config(d)
	f := connector.Lookup(c.Table.Connector)
	if err := errors.Join(c.Options.Check(nil), f.Check(c.Table, c.Options)); err != nil {
		return nil, err
	}
	return f.NewSink(c)
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

// write writes rows in the way the guarantee asks for.
func (r *rig) write(s connector.Sink, checkpoint int64, cols []types.Field, rows ...row) {
	r.t.Helper()
	if s.(*sink).guarantee() == connector.ExactlyOnce {
		must(r.t, r.committer(s).Commit(r.t.Context(), id("l", checkpoint), r.seal(s, cols, rows...)))
		return
	}
	w := r.writer(s)
	must(r.t, w.Write(r.t.Context(), batch(cols, rows...)), w.Flush(r.t.Context()), w.Close())
}

func id(lineage string, n int64) connector.CommitID {
	return connector.CommitID{Lineage: lineage, Checkpoint: n}
}
