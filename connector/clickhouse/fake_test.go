package clickhouse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/tidemark-stream/tidemark/connector"
)

// fake is a ClickHouse server as far as the sink sees it over HTTP: one table, which keeps tokens as a
// MergeTree does, and the progress table.
type fake struct {
	t      testing.TB
	server *httptest.Server
	cols   [][2]string // name and type
	engine string
	full   string
	keys   string
	parted bool
	window int

	mu       sync.Mutex
	rows     []string // as JSON
	tokens   []string // the last window of them
	inserts  []string // every token that came, also again
	settings map[string]string
	progress []string // rows of the progress table: job|sink|lineage|checkpoint|blocks
	made     bool     // the progress table is there
	queries  []string
	// fault is asked before a statement is done; after it was for one that is to be lost behind it.
	fault func(sql, token string) fault
	// selects answers SELECTs of the table, if it is set.
	selects    func(w http.ResponseWriter, sql string, packed bool)
	partitions []string
}

// fault is what goes wrong with a request.
type fault struct {
	code   int // an exception, and its text
	msg    string
	status int    // an answer of something else
	cut    bool   // the connection ends
	after  bool   // the cut comes when the statement is done
	stall  func() // called before anything is done
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, cols: [][2]string{{"id", "Int64"}, {"v", "Nullable(String)"}}, engine: "MergeTree", window: 100, keys: "id"}
	f.full = "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100, index_granularity = 8192"
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fake) rig() *rig { return &rig{t: f.t, base: f.server.URL, database: "db"} }

// known are settings that the fake has.
var known = []string{"async_insert", "insert_deduplicate", "deduplicate_blocks_in_dependent_materialized_views"}

var noted = regexp.MustCompile(`SELECT '(.*?)', '(.*?)', '(.*?)', (-?\d+), (\d+), \d+, `)

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	q := r.URL.Query()
	sql, token := q.Get("query"), q.Get("insert_deduplication_token")
	if sql == "" {
		sql = string(body)
	}
	f.mu.Lock()
	bad := fault{}
	if f.fault != nil {
		bad = f.fault(sql, token)
	}
	f.mu.Unlock()
	if bad.stall != nil {
		bad.stall()
	}
	switch {
	case bad.cut && !bad.after:
		panic(http.ErrAbortHandler)
	case bad.code != 0:
		f.refuse(w, bad.code, bad.msg)
		return
	case bad.status != 0:
		http.Error(w, bad.msg, bad.status)
		return
	}
	answer := f.do(w, sql, token, body, q.Get("decompress") == "1", r)
	if bad.cut {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, answer)
}

func (f *fake) refuse(w http.ResponseWriter, code int, msg string) {
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(code))
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, "Code: %d. DB::Exception: %s. (SOME_NAME) (version 26.7.2.1)", code, msg)
}

func line(values ...string) string {
	b, _ := json.Marshal(values)
	return string(b) + "\n"
}

func (f *fake) do(w http.ResponseWriter, sql, token string, body []byte, packed bool, r *http.Request) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, sql)
	switch {
	case strings.HasPrefix(sql, "INSERT INTO `db`.`tidemark_progress`"):
		if !f.made {
			f.refuse(w, 60, "Table db.tidemark_progress does not exist")
			return ""
		}
		m := noted.FindStringSubmatch(sql)
		f.progress = append(f.progress, strings.Join(m[1:], "|"))
	case strings.HasPrefix(sql, "INSERT INTO"):
		f.settings = map[string]string{}
		for k := range r.URL.Query() {
			f.settings[k] = r.URL.Query().Get(k)
		}
		f.settings["user"] = r.Header.Get("X-ClickHouse-User")
		f.insert(token, body, packed)
	case strings.HasPrefix(sql, "CREATE TABLE"):
		f.made = true
	case strings.Contains(sql, "name = 'tidemark_progress'"):
		if f.made {
			return line("tidemark_progress")
		}
	case strings.Contains(sql, "FROM `db`.`tidemark_progress`"):
		return f.lastNote(sql)
	case strings.Contains(sql, "system.tables"):
		part := ""
		if f.parted {
			part = "id"
		}
		return line(f.engine, f.full, f.keys, "UTC", part)
	case strings.Contains(sql, "FROM `db`.`kv`") && f.selects != nil:
		f.selects(w, sql, r.URL.Query().Get("compress") == "1")
	case strings.Contains(sql, "system.parts"):
		out := ""
		for _, p := range f.partitions {
			out += line(p)
		}
		return out
	case strings.Contains(sql, "system.columns"):
		out := ""
		for _, c := range f.cols {
			out += line(c[0], c[1], "")
		}
		return out
	case strings.Contains(sql, "system.settings"):
		out := ""
		for _, k := range known {
			out += line(k)
		}
		return out
	case strings.Contains(sql, "merge_tree_settings"):
		return line("non_replicated_deduplication_window", "0") + line("replicated_deduplication_window", "10000") + line("replicated_deduplication_window_seconds", "3600")
	default:
		f.t.Errorf("the fake does not know %s", sql)
	}
	return ""
}

func (f *fake) lastNote(sql string) string {
	best, out := int64(-1), ""
	for _, p := range f.progress {
		v := strings.Split(p, "|")
		if !strings.Contains(sql, "job = '"+v[0]+"' AND sink = '"+v[1]+"' AND lineage = '"+v[2]+"'") {
			continue
		}
		c, _ := strconv.ParseInt(v[3], 10, 64)
		b, _ := strconv.ParseInt(v[4], 10, 64)
		if n := c<<20 | b; n > best {
			best, out = n, line(v[3], v[4])
		}
	}
	return out
}

func (f *fake) insert(token string, body []byte, packed bool) {
	if packed {
		var err error
		if body, err = io.ReadAll(compress.NewReader(bytes.NewReader(body))); !errors.Is(err, io.EOF) { // it says where
			f.t.Errorf("the body cannot be unpacked: %v", err)
		}
	}
	b, err := parseBlock(body)
	if err != nil {
		f.t.Errorf("the block of %s: %v", token, err)
		return
	}
	f.inserts = append(f.inserts, token)
	if slices.Contains(f.tokens, token) {
		return
	}
	f.tokens = append(f.tokens, token)
	if n := len(f.tokens) - f.window; n > 0 {
		f.tokens = f.tokens[n:]
	}
	for i := range b.rows {
		f.rows = append(f.rows, string(b.rowText(i)))
	}
}

// only returns a fault for the n-th statement that holds text, from 1; for all with n = 0.
func only(text string, n int, x fault) func(sql, token string) fault {
	seen := 0
	return func(sql, _ string) fault {
		if !strings.Contains(sql, text) {
			return fault{}
		}
		if seen++; n > 0 && seen != n {
			return fault{}
		}
		return x
	}
}

func (f *fake) set(x func(sql, token string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = x
}

func texts(from, n int) (out []string) {
	for i := from; i < from+n; i++ {
		out = append(out, fmt.Sprintf(`{"id":%d,"v":"v%d"}`, i, i))
	}
	return out
}

// has compares the rows of the table, in order.
func (f *fake) has(want []string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.rows, want) {
		counts := map[string]int{}
		for _, r := range f.rows {
			counts[r]++
		}
		double := 0
		for n := range maps.Values(counts) {
			double += n - 1
		}
		f.t.Errorf("%d rows, %d of them again, want %d\ntokens %q\nprogress %q", len(f.rows), double, len(want), f.inserts, f.progress)
	}
}

// dead is the address of a server that is not there.
func dead(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func once(more ...string) def {
	d := def{name: "kv", cols: pair, options: map[string]string{"sink.delivery-guarantee": "exactly-once"}}
	for i := 0; i < len(more); i += 2 {
		d.options[more[i]] = more[i+1]
	}
	return d
}

func atLeast(more ...string) def {
	d := once(more...)
	d.options["sink.delivery-guarantee"] = "at-least-once"
	return d
}

// process is a sink with a writer and a committer of its own.
func (r *rig) process(d def, segments connector.Segments) (*sink, connector.Committer) {
	r.t.Helper()
	s := r.open(d).(*sink)
	s.cfg.Segments = segments
	return s, r.committer(s)
}
