package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

var update = flag.Bool("update", false, "rewrite testdata")

// fake is a store of several generations, each a Live.
type fake struct {
	mu      sync.Mutex // guards what follows
	gens    map[string]*Live
	past    []connector.Progress // the newest first
	pointer results.Pointer
	records []results.Record
	fixed   []connector.MissedWindow
	queries int
	broken  error
}

func newFake() *fake { return &fake{gens: map[string]*Live{}} }

func (f *fake) add(h, n, rev int64, gen string, fin bool, origins ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gens[gen] == nil {
		f.gens[gen] = NewLive(testTable(), 0)
	}
	for _, o := range origins {
		f.gens[gen].Add(batchOf(row(o, h, n, rev, gen, fin, false)))
	}
}

func (f *fake) progress(p connector.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.Checkpoint, p.Lineage = int64(len(f.past)+1), "l"
	p.At = 1000 * p.Checkpoint
	f.past = append([]connector.Progress{p}, f.past...)
}

func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) Query(ctx context.Context, q results.Query) (*results.Rows, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries++
	if f.broken != nil {
		return nil, f.broken
	}
	all := NewLive(testTable(), 0)
	for name, l := range f.gens {
		if q.Generation != "" && q.Generation != name {
			continue
		}
		for i := range l.cells.rows.N {
			of := f.pointer.Of(l.cells.rows.Cols[1].I64[i])
			if of == "" {
				of = "live"
			}
			if q.Generation == "" && of != name {
				continue
			}
			b := *l.cells.rows
			b.Sel = []int32{int32(i)}
			all.Add(&b)
		}
	}
	q.Generation = ""
	return all.Query(ctx, q)
}

func (f *fake) Progress(_ context.Context, gen string, n int) (out []connector.Progress, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.past {
		if (gen == "" || p.Generation == gen) && len(out) < n {
			out = append(out, p)
		}
	}
	return out, nil
}

func (f *fake) Pointer(context.Context) (results.Pointer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pointer, nil
}

func (f *fake) Generations(ctx context.Context) (out []results.Generation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range []string{"g2", "live"} {
		if l := f.gens[name]; l != nil {
			g, _ := l.Generations(ctx)
			g[0].Name = name
			out = append(out, g...)
		}
	}
	return out, nil
}

func (f *fake) Missed(_ context.Context, gen string, after int64) ([]connector.MissedWindow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []connector.Progress
	for _, p := range f.past {
		if p.Generation == gen && p.At > after {
			out = append(out, p)
		}
	}
	return results.MergeMissed(out), nil
}

func (f *fake) Corrected(context.Context, string, int64, int64, int64) ([]connector.MissedWindow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fixed, nil
}

func (f *fake) Conflicts(context.Context, string) (int64, error) { return 2, nil }

func (f *fake) Records(context.Context, string) ([]results.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records, nil
}

// hours fills windows 1 to 6: 2 closed while a split was idle, 4 missed rows, 6 may be corrected.
func (f *fake) hours() {
	for h := int64(1); h <= 6; h++ {
		f.add(h, 10*h, 1, "live", h < 5, "EWR", "JFK")
	}
	f.progress(connector.Progress{Generation: "live", Watermark: 2 * hourMs, Splits: 3, SplitsPassed: 3})
	f.progress(connector.Progress{Generation: "live", Watermark: 3 * hourMs, Splits: 3, SplitsPassed: 2, SplitsIdle: 1, IdleSplits: []string{"p2"}})
	f.progress(connector.Progress{Generation: "live", Watermark: 7 * hourMs, MaxTime: 7 * hourMs, Splits: 3, SplitsPassed: 3, Late: 4, Duplicates: 1, Rejected: 2,
		Expected: 412, Seen: 411, Missing: []string{"store 17"}, Missed: []connector.MissedWindow{{Start: 4 * hourMs, End: 5 * hourMs, Rows: 4}}})
}

const testYAML = `title: Test
tiles:
  - {kind: number, value: sum(n)}
  - {kind: number, value: avg(eur), last: all}
  - {kind: series, value: n, by: origin, last: 4}
  - {kind: bars, value: sum(eur), by: origin, last: 3h}
  - {kind: table, columns: [origin, ws, n, eur], limit: 5}
  - {kind: series, value: n}
  - {kind: number, value: colour}
`

func testBoard(t *testing.T, text string) *Board {
	t.Helper()
	b, err := ParseBoard("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testServer(t *testing.T, f *fake, o Options) (*Server, *httptest.Server) {
	t.Helper()
	o.Sources = []Source{{Table: testTable(), Store: f}}
	if o.Now == nil {
		o.Now = func() time.Time { return time.UnixMilli(100 * hourMs) }
	}
	o.Local = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.hangUp()
		h.Close()
	})
	return s, h
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, r.Status, err, text)
	}
	return string(text)
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", " "); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	b.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, b.String())
	}
}

func TestAPI(t *testing.T) {
	f := newFake()
	f.hours()
	_, h := testServer(t, f, Options{Board: testBoard(t, testYAML)})
	golden(t, "board.json", strings.ReplaceAll(get(t, h.URL+"/api/board"), pageEdition, "EDITION"))
	golden(t, "data.json", get(t, h.URL+"/api/data"))
	// Nothing is final in a reconciled generation before there is a reconciliation.
	golden(t, "closed-none.json", get(t, h.URL+"/api/data?view=closed"))
}

// reconciled is the record of a reconciliation.
func reconciled(generation string, equal bool, from, to int64) results.Record {
	doc, err := json.Marshal(results.Reconciliation{Generation: generation, Passed: equal, From: from, To: to})
	if err != nil {
		panic(err)
	}
	return results.Record{Kind: results.KindReconcile, Name: generation, Document: doc}
}

func TestClosedReport(t *testing.T) {
	f := newFake()
	f.hours()
	f.records = []results.Record{reconciled("live", true, 0, 3*hourMs), reconciled("live", false, vec.MinTime, vec.MaxTime), reconciled("live", true, vec.MinTime, vec.MaxTime)}
	_, h := testServer(t, f, Options{Board: testBoard(t, "tiles:\n  - {kind: table, columns: [origin, ws]}\n  - {kind: number, value: sum(n)}\n")})
	// Windows 1 and 2 are final and were found equal; older reconciliations do not count behind one that failed.
	golden(t, "closed.json", get(t, h.URL+"/api/data?view=closed"))
}

// TestClosedSpans looks for what is closed far behind the newest windows.
func TestClosedSpans(t *testing.T) {
	f := newFake()
	f.hours()
	f.add(2, 21, 1, "g2", true, "EWR")
	f.progress(connector.Progress{Generation: "g2", Watermark: vec.MaxTime})
	f.add(900, 1, 1, "live", false, "EWR")
	f.pointer = results.Pointer{Version: 1, Ranges: []results.Range{{From: 2 * hourMs, To: 4 * hourMs, Generation: "g2"}}}
	f.records = []results.Record{reconciled("g2", true, vec.MinTime, vec.MaxTime)}
	_, h := testServer(t, f, Options{Board: testBoard(t, "tiles:\n  - {kind: number, value: sum(n), last: 3h}\n  - {kind: series, value: sum(n)}\n")})
	var d struct{ Tiles map[string]Data }
	if err := json.Unmarshal([]byte(get(t, h.URL+"/api/data?view=closed")), &d); err != nil {
		t.Fatal(err)
	}
	if n := d.Tiles["t1"].Number; n == nil || n.Value != 21.0 || n.State != "f" {
		t.Errorf("%+v", d.Tiles["t1"])
	}
	if s := d.Tiles["t2"].Series; s == nil || len(s.Start) != 1 || s.Gen[0] != "g2" {
		t.Errorf("%+v", d.Tiles["t2"])
	}
}

// TestStates goes through what makes a cell provisional, final or in need of a backfill.
func TestStates(t *testing.T) {
	f := newFake()
	f.hours()
	states := func(s *Server, h *httptest.Server) string {
		t.Helper()
		var d struct{ Tiles map[string]Data }
		if err := json.Unmarshal([]byte(get(t, h.URL+"/api/data")), &d); err != nil {
			t.Fatal(err)
		}
		l := d.Tiles["t1"].Series
		return l.Lines[0].States + " " + l.Idle + " " + strings.Join(l.Gen, ",")
	}
	now := time.UnixMilli(100 * hourMs)
	s, h := testServer(t, f, Options{Board: testBoard(t, "tiles:\n  - {kind: series, value: n, by: origin}\n"), Now: func() time.Time { return now }})
	expect(t, states(s, h), "fffbfp 010000 live,live,live,live,live,live")
	// A backfill takes windows 3 and 4, and the pointer moves.
	f.add(3, 31, 1, "g2", true, "EWR", "JFK")
	f.add(4, 41, 1, "g2", true, "EWR", "JFK")
	f.progress(connector.Progress{Generation: "g2", Watermark: vec.MaxTime, Splits: 1, SplitsDone: 1})
	f.with(func() {
		f.records = append(f.records, results.Record{Kind: "backfill", Name: "g2", At: 3500})
		f.pointer = results.Pointer{Version: 1, At: 5000, Ranges: []results.Range{{From: 3 * hourMs, To: 5 * hourMs, Generation: "g2"}}}
	})
	now = now.Add(time.Minute)
	expect(t, states(s, h), "fffffp 010000 live,live,g2,g2,live,live")
	// The live job corrects one of them.
	f.with(func() { f.fixed = []connector.MissedWindow{{Start: 3 * hourMs, End: 4 * hourMs, Rows: 1}} })
	now = now.Add(time.Minute)
	expect(t, states(s, h), "ffbffp 010000 live,live,g2,g2,live,live")
	// It misses rows of the other one, after the backfill had begun.
	f.progress(connector.Progress{Generation: "live", Watermark: 8*hourMs - 1, Splits: 3, Missed: []connector.MissedWindow{{Start: 4 * hourMs, End: 5 * hourMs, Rows: 1}}})
	now = now.Add(time.Minute)
	expect(t, states(s, h), "ffbbff 010000 live,live,g2,g2,live,live")
}

// events reads server-sent events.
type events struct {
	t *testing.T
	r *http.Response
	b *bufio.Scanner
}

func listen(t *testing.T, url string) *events {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	b := bufio.NewScanner(r.Body)
	b.Buffer(nil, 1<<20)
	return &events{t, r, b}
}

// next returns the next event.
func (e *events) next() (name, data string) {
	e.t.Helper()
	for e.b.Scan() {
		switch line := e.b.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && name != "":
			return name, data
		}
	}
	e.t.Fatalf("the events ended: %v", e.b.Err())
	return "", ""
}

func (e *events) expect(name, part string) {
	e.t.Helper()
	got, data := e.next()
	if got != name || !strings.Contains(data, part) {
		e.t.Fatalf("event %s %s\nis not %s with %s", got, data, name, part)
	}
}

func TestEvents(t *testing.T) {
	f := newFake()
	f.hours()
	s, h := testServer(t, f, Options{Board: testBoard(t, "tiles:\n  - {kind: number, value: sum(n)}\n")})
	ctx := context.Background()
	a, b := listen(t, h.URL+"/api/events"), listen(t, h.URL+"/api/events")
	for _, e := range []*events{a, b} {
		e.expect("board", `"kind":"number"`)
		e.expect("snapshot", `"value":120`)
	}
	// Nothing has changed: nothing is asked, and nothing is sent.
	asked := f.queries
	s.poll(ctx, viewAll)
	if f.queries != asked {
		t.Errorf("%d queries although no progress was made", f.queries-asked)
	}
	f.add(6, 61, 2, "live", false, "EWR")
	f.progress(connector.Progress{Generation: "live", Watermark: 7 * hourMs})
	s.poll(ctx, viewAll)
	if f.queries != asked+2 {
		t.Errorf("%d queries for two viewers of one tile, not 2", f.queries-asked)
	}
	for _, e := range []*events{a, b} {
		e.expect("source", `"checkpoint":4`)
		e.expect("tile", `"value":121`)
	}
	// The same rows in another checkpoint: only what is known of the source is new.
	f.progress(connector.Progress{Generation: "live", Watermark: 7 * hourMs})
	s.poll(ctx, viewAll)
	// A store that is away: the tile keeps what it has and says so.
	f.with(func() { f.broken = errors.New("connection refused") })
	f.progress(connector.Progress{Generation: "live", Watermark: 7 * hourMs})
	s.poll(ctx, viewAll)
	for _, e := range []*events{a, b} {
		e.expect("source", `"checkpoint":5`)
		e.expect("source", `"checkpoint":6`)
		e.expect("tile", `"error":"connection refused"`)
	}
	f.with(func() { f.broken = nil })
	s.poll(ctx, viewAll)
	a.expect("tile", `"value":121`)
	if n := len(s.watched()); n != 1 {
		t.Errorf("%d views are watched", n)
	}
}

// send sends a change and returns the status and the answer.
func send(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
			continue
		}
		q.Header.Set(header[i], header[i+1])
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func TestChanges(t *testing.T) {
	f := newFake()
	f.hours()
	path := filepath.Join(t.TempDir(), "board.yaml")
	if err := os.WriteFile(path, []byte("# Ours.\ntiles:\n  # The sum.\n  - {kind: number, value: sum(n)}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, h := testServer(t, f, Options{Config: path})
	try := func(method, path, body string, status int, want string) {
		t.Helper()
		if got, text := send(t, method, h.URL+path, body); got != status || !strings.Contains(text, want) {
			t.Fatalf("%s %s %s: %d %s", method, path, body, got, text)
		}
	}
	file := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	try("POST", "/api/tiles", `{"edition":1,"tile":{"kind":"bars","value":"n","by":["origin"],"title":"A"}}`, 200, `{"edition":2,"saved":true}`)
	try("POST", "/api/tiles", `{"edition":1,"tile":{"kind":"bars","value":"n","by":["origin"]}}`, 409, "changed meanwhile")
	try("POST", "/api/tiles", `{"edition":2,"tile":{"kind":"bars","value":"x","by":["origin"]}}`, 400, `no column \"x\"`)
	try("POST", "/api/tiles", `{"edition":2,"tile":{"kind":"bars","colour":"x"}}`, 400, "unknown field")
	try("POST", "/api/tiles/t2/move", `{"edition":2,"to":0}`, 200, `"edition":3`)
	try("PUT", "/api/tiles/t2", `{"edition":3,"tile":{"kind":"number","value":"sum(eur)","title":"Money"}}`, 200, `"edition":4`)
	try("PUT", "/api/board", `{"edition":4,"title":"Ours"}`, 200, `"edition":5`)
	try("DELETE", "/api/tiles/t9", `{"edition":5}`, 400, "no tile t9")
	expect(t, file(), "# Ours.\ntitle: Ours\ntiles:\n  - title: A\n    kind: bars\n    value: \"n\"\n    by: origin\n  # The sum.\n  - title: Money\n    kind: number\n    value: sum(eur)\n")
	try("DELETE", "/api/tiles/t1", `{"edition":5}`, 200, `"edition":6`)
	try("POST", "/api/preview", `{"edition":6,"tile":{"kind":"number","value":"sum(n)"}}`, 200, `"value":120`)
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", i.Mode(), err)
	}
	// Somebody edits the file by hand.
	if err := os.WriteFile(path, []byte("title: By hand\ntiles:\n  - {kind: table}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	try("DELETE", "/api/tiles/t1", `{"edition":6}`, 409, "changed meanwhile")
	s.reload()
	if text := get(t, h.URL+"/api/board"); !strings.Contains(text, "By hand") {
		t.Error(text)
	}
	if err := os.WriteFile(path, []byte("title: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.reload()
	if text := get(t, h.URL+"/api/board"); !strings.Contains(text, "By hand") || !strings.Contains(text, `"broken":"board.yaml:`) {
		t.Error(text)
	}
	try("DELETE", "/api/tiles/t1", `{"edition":7}`, 400, "mend it first")
}

func TestStrangersChangeNothing(t *testing.T) {
	f := newFake()
	f.hours()
	s, h := testServer(t, f, Options{Board: testBoard(t, "tiles: []")})
	tile := `{"edition":1,"tile":{"kind":"number","value":"sum(n)"}}`
	for _, c := range []struct {
		why    string
		status int
		header []string
	}{
		{"a page elsewhere", 403, []string{"Origin", "https://evil.example"}},
		{"a page elsewhere, as browsers say it", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"a name made to point here", 403, []string{"Host", "evil.example"}},
		{"a form", 415, []string{"Content-Type", "text/plain"}},
	} {
		if got, text := send(t, "POST", h.URL+"/api/tiles", tile, c.header...); got != c.status {
			t.Errorf("%s: %d %s", c.why, got, text)
		}
	}
	if got, _ := send(t, "GET", h.URL+"/api/data", "", "Host", "evil.example"); got != 403 {
		t.Errorf("a name made to point here may read: %d", got)
	}
	// Where others reach the server, any name may look, and only known ones and addresses may change.
	s.o.Local, s.o.Hosts = false, []string{"board.example"}
	if got, _ := send(t, "GET", h.URL+"/api/board", "", "Host", "evil.example"); got != 200 {
		t.Errorf("looking: %d", got)
	}
	if got, text := send(t, "POST", h.URL+"/api/tiles", tile, "Host", "evil.example"); got != 403 || !strings.Contains(text, "--host evil.example") {
		t.Errorf("changing under an unknown name: %d %s", got, text)
	}
	if got, text := send(t, "POST", h.URL+"/api/tiles", tile, "Host", "board.example:80"); got != 200 {
		t.Errorf("changing under a known name: %d %s", got, text)
	}
	s.o.ReadOnly = true
	if got, _ := send(t, "POST", h.URL+"/api/tiles", strings.Replace(tile, "1", "2", 1), "Host", "10.0.0.1"); got != 403 {
		t.Errorf("changing what is read-only: %d", got)
	}
}

func TestPageIsWhole(t *testing.T) {
	_, h := testServer(t, newFake(), Options{})
	r, err := http.Get(h.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	text, _ := io.ReadAll(r.Body)
	for _, part := range strings.Split(string(text), `"static/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		get(t, h.URL+"/static/"+name)
	}
	if strings.Contains(string(text), "//") && strings.Contains(string(text), "http") {
		t.Error("the page names another host")
	}
	total := 0
	for name, a := range assets {
		total += len(a.body)
		if strings.HasSuffix(name, ".js") && !strings.HasPrefix(a.kind, "text/javascript") {
			t.Errorf("%s is %s", name, a.kind)
		}
	}
	if total > 160_000 {
		t.Errorf("the page is %d bytes", total)
	}
	q, _ := http.NewRequest("GET", h.URL+"/static/app.js", nil)
	q.Header.Set("If-None-Match", assets["app.js"].tag)
	if r, err := http.DefaultClient.Do(q); err != nil || r.StatusCode != http.StatusNotModified {
		t.Errorf("%v %v", r.Status, err)
	}
}

// TestDefaultBoard shows a table that nobody has made a board for, first empty, then filled.
func TestDefaultBoard(t *testing.T) {
	f := newFake()
	s, h := testServer(t, f, Options{})
	if text := get(t, h.URL+"/api/data"); strings.Contains(text, `"error"`) || !strings.Contains(text, "no rows yet") {
		t.Error(text)
	}
	f.hours()
	s.poll(context.Background(), viewAll)
	if text := get(t, h.URL+"/api/data"); strings.Contains(text, `"error"`) || strings.Contains(text, "no rows yet") {
		t.Error(text)
	}
	// A job begins and shows its memory.
	l := NewLive(testTable(), 0)
	l.Add(batchOf(row("EWR", 1, 10, 1, "live", false, false)))
	s.AddSource(Source{Table: testTable(), Store: l, Memory: true})
	if text := get(t, h.URL+"/api/board"); !strings.Contains(text, `"name":"board@memory"`) {
		t.Error(text)
	}
}
