package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// partsOf makes parts of that many bytes for the time of a test.
func partsOf(t testing.TB, n int64) {
	was := partBytes
	partBytes = n
	t.Cleanup(func() { partBytes = was })
}

// contents returns the lines of the objects below a path, with their folder.
func (l *lake) contents(t testing.TB, path string) (lines []string) {
	t.Helper()
	defer object.Release(l.store)
	list, err := l.store.List(context.Background(), path+"/")
	must(t, err)
	for _, i := range list {
		b, err := l.store.Get(context.Background(), i.Name, 0, -1)
		must(t, err)
		rel := strings.TrimPrefix(i.Name, path+"/")
		if strings.HasPrefix(rel, ".") {
			continue
		}
		folder := ""
		if at := strings.LastIndexByte(rel, '/'); at >= 0 {
			folder = rel[:at] + ": "
		}
		for line := range strings.Lines(string(b)) {
			lines = append(lines, folder+strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// leftovers are uploads below a path.
func (l *lake) leftovers(t testing.TB, path string) (names []string) {
	t.Helper()
	defer object.Release(l.store)
	list, err := object.UploaderOf(l.store).Uploads(context.Background(), path)
	must(t, err)
	for _, u := range list {
		names = append(names, u.Name)
	}
	return names
}

func TestObjects_Sink(t *testing.T) { testObjectsSink(t, fakeLake(t), 64<<10) }

func testObjectsSink(t *testing.T, l *lake, part int) {
	text := func(n int, s string) string {
		if s == "\x00" {
			return fmt.Sprintf(`{"n":%d,"s":null}`, n)
		}
		return fmt.Sprintf(`{"n":%d,"s":"%s"}`, n, strings.ReplaceAll(s, `"`, `\"`))
	}
	rowsOf := func(text func(int, string) string, values ...string) (rows []connectortest.Row) {
		for i, s := range values {
			rows = append(rows, connectortest.Row{Values: []types.Value{int64(i), s}, Text: text(i, s)})
		}
		return append(rows, connectortest.Row{Values: []types.Value{int64(99), nil}, Text: text(99, "\x00")})
	}
	some := rowsOf(text, "a", "b c", "", `"quoted"`, "\u00fc", "f")
	serial := 0
	segments := func(c *connector.SinkConfig) { c.Segments = &outliving{} }
	target := func(t testing.TB, options ...string) connectortest.Target {
		serial++
		path := fmt.Sprintf("out/%d", serial)
		return connectortest.Target{Table: l.table(path, options...), Config: segments,
			Visible: func() []string { return l.contents(t, path) }, Leftovers: func() []string { return l.leftovers(t, path) }}
	}
	test := func(name string, rows []connectortest.Row, ordered bool, new func(testing.TB) connectortest.Target) {
		t.Run(name, func(t *testing.T) {
			connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, Ordered: ordered, New: new})
		})
	}
	test("small", some, true, func(t testing.TB) connectortest.Target { return target(t) })
	test("without checkpoints", some, true, func(t testing.TB) connectortest.Target {
		x := target(t)
		x.Config = nil
		return x
	})
	test("an object a row", some, false, func(t testing.TB) connectortest.Target { return target(t, "sink.rolling-policy.file-size", "1 b") })
	for _, d := range []string{"at-least-once", "none"} {
		test(d, some, true, func(t testing.TB) connectortest.Target { return target(t, "sink.delivery-guarantee", d) })
	}
	byFolder := rowsOf(func(n int, s string) string {
		p := map[string]string{"": "__DEFAULT_PARTITION__", "\x00": "__DEFAULT_PARTITION__", `"quoted"`: "%22quoted%22"}[s]
		if p == "" {
			p = s
		}
		return fmt.Sprintf(`s=%s: {"n":%d}`, p, n)
	}, "a", "b c", "", `"quoted"`, "\u00fc", "a")
	test("partitions", byFolder, false, func(t testing.TB) connectortest.Target {
		x := target(t)
		x.Table.PartitionKeys = []string{"s"}
		return x
	})
	partsOf(t, int64(part))
	long := rowsOf(text, strings.Repeat("a", part/5*3), strings.Repeat("b", part/5*6), strings.Repeat("c", part/5*11), strings.Repeat("d", 100))
	test("in parts", long, true, func(t testing.TB) connectortest.Target { return target(t, "sink.rolling-policy.file-size", "1 gb") })
	test("in parts, rolling", long, false, func(t testing.TB) connectortest.Target {
		return target(t, "sink.rolling-policy.file-size", fmt.Sprint(part/5*7, " b"))
	})
	test("in parts, at least once", long, false, func(t testing.TB) connectortest.Target {
		return target(t, "sink.delivery-guarantee", "at-least-once")
	})
}

// outliving is segments that outlive the sink, as those of checkpoints do.
type outliving struct{ memorySegments }

// sinkOf makes a sink of (n BIGINT, s STRING) as a job with checkpoints does.
func sinkOf(t testing.TB, table *connector.Table, change func(*connector.SinkConfig)) *sink {
	t.Helper()
	f := connector.Lookup("filesystem")
	c := connector.SinkConfig{Table: table, Schema: table.Schema(), Mode: types.InsertOnly, Segments: &outliving{}, Job: "j", Node: "t",
		Options: option.Of(table.Options, f.Options, connector.CommonOptions), Resolve: func(p string) string { return p },
		Bad: func(b format.BadRecord) error { return b.Err }}
	if change != nil {
		change(&c)
	}
	s, err := f.NewSink(c)
	must(t, err)
	return s.(*sink)
}

func writerOf(t testing.TB, s *sink, subtask int) *writer {
	t.Helper()
	w, err := s.NewWriter(t.Context(), subtask, 2)
	must(t, err)
	return w.(*writer)
}

func committerOf(t testing.TB, s *sink) *committer {
	t.Helper()
	c, err := s.NewCommitter(t.Context())
	must(t, err)
	return c.(*committer)
}

func batch(texts ...string) *vec.Batch {
	b := vec.NewBatch(types.Schema{Fields: columns})
	for i, s := range texts {
		b.Cols[0].AppendValue(int64(i))
		b.Cols[1].AppendValue(s)
	}
	b.N = len(texts)
	return b
}

func prepare(t testing.TB, w *writer) []connector.Committable {
	t.Helper()
	cs, err := w.Prepare(t.Context())
	must(t, err)
	return cs
}

func commit(t testing.TB, c *committer, n int64, cs []connector.Committable) {
	t.Helper()
	must(t, c.Commit(t.Context(), connector.CommitID{Lineage: "l", Checkpoint: n}, cs))
}

func TestObjects_SweepsItsDeadRuns(t *testing.T) { testSweep(t, fakeLake(t)) }

// testSweep kills runs in the middle of uploads: the next run of the same job aborts theirs, and
// nobody else's.
func testSweep(t *testing.T, l *lake) {
	partsOf(t, object.LeastPart)
	long := strings.Repeat("x", object.LeastPart+100)
	table := l.table("swept")
	table.PartitionKeys = []string{"s"}
	other := sinkOf(t, l.table("swept"), func(c *connector.SinkConfig) { c.Job = "another" })
	wo := writerOf(t, other, 0)
	must(t, wo.Write(t.Context(), batch(long)))
	pending := prepare(t, wo)
	must(t, wo.Write(t.Context(), batch(long)))

	table = l.table("swept")
	dead := sinkOf(t, table, nil)
	w := writerOf(t, dead, 0)
	must(t, w.Write(t.Context(), batch("small")), w.Write(t.Context(), batch(long)))
	first := prepare(t, w) // of the checkpoint
	must(t, w.Write(t.Context(), batch(long)))
	lost := prepare(t, w) // of one that was not complete
	must(t, w.Write(t.Context(), batch(long)))
	for _, f := range w.to.(*objectOutputs).sent {
		f.sending.Wait()
	}
	if n := len(l.leftovers(t, "swept")); n != 5 {
		t.Fatalf("%d uploads are open", n)
	}
	// It is dead now. The next run has its checkpoint, and is killed before its own first one.
	s := sinkOf(t, table, nil)
	commit(t, committerOf(t, s), 1, first)
	w = writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch(long)))
	prepare(t, w)
	s = sinkOf(t, table, nil)
	c := committerOf(t, s)
	commit(t, c, 1, first)
	commit(t, c, 1, first)
	w = writerOf(t, s, 0)
	cs := prepare(t, w) // without rows
	if len(cs) != 1 {
		t.Fatalf("%d committables of an epoch without rows", len(cs))
	}
	if n := len(l.leftovers(t, "swept")); n != 5 {
		t.Errorf("%d uploads are open before the first own commit", n)
	}
	commit(t, c, 2, cs)
	if left := l.leftovers(t, "swept"); len(left) != 2 {
		t.Errorf("uploads that are open: %v", left)
	}
	var fatal *connector.Fatal
	if err := c.Commit(t.Context(), connector.CommitID{Lineage: "l", Checkpoint: 3}, lost); !errors.As(err, &fatal) {
		t.Errorf("commit of what no checkpoint had: %v", err)
	}
	commit(t, committerOf(t, other), 1, pending)
	must(t, wo.Close(), w.Close())
	if left := l.leftovers(t, "swept"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if n := len(l.contents(t, "swept")); n != 3 {
		t.Errorf("%d rows are there", n)
	}
}

func TestObjects_UploadGone(t *testing.T) { testUploadGone(t, fakeLake(t)) }

// testUploadGone is a downtime longer than the store keeps uploads.
func testUploadGone(t *testing.T, l *lake) {
	partsOf(t, object.LeastPart)
	s := sinkOf(t, l.table("gone-up"), nil)
	w := writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch("small")))
	small := prepare(t, w)
	must(t, w.Write(t.Context(), batch(strings.Repeat("x", 11<<20))))
	large := prepare(t, w)
	must(t, w.Close())
	up := object.UploaderOf(l.store)
	list, err := up.Uploads(t.Context(), "gone-up")
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	must(t, up.Abort(t.Context(), list[0].Name, list[0].ID))
	c := committerOf(t, s)
	commit(t, c, 1, small) // as it lies in the segment
	err = c.Commit(t.Context(), connector.CommitID{Checkpoint: 2}, large)
	var fatal *connector.Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "AbortIncompleteMultipartUpload") || !strings.Contains(err.Error(), "bytes of it") {
		t.Errorf("got %v", err)
	}
	if rows := l.contents(t, "gone-up"); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestObjects_SmallOnesCostOneRequest counts what sinks ask of a store.
func TestObjects_SmallOnesCostOneRequest(t *testing.T) {
	l := fakeLake(t)
	s := sinkOf(t, l.table("count"), nil)
	c, w := committerOf(t, s), writerOf(t, s, 0)
	store := s.to.(*objectTarget).store
	epoch := func(n int64, size int) int64 {
		at := store.Requests()
		must(t, w.Write(t.Context(), batch(strings.Repeat("x", size))))
		commit(t, c, n, prepare(t, w))
		return store.Requests() - at
	}
	epoch(1, 10) // finds out whether the server has conditions
	for n, want := range map[int]int64{10: 1, 4 << 20: 1, 20 << 20: 2 + 3} {
		if got := epoch(int64(n), n); got != want {
			t.Errorf("an object of %d bytes: %d requests, want %d", n, got, want)
		}
	}
	at := store.Requests()
	commit(t, c, 5, prepare(t, w))
	if n := store.Requests() - at; n > 0 {
		t.Errorf("an epoch without rows: %d requests", n)
	}
	must(t, w.Close(), c.Close())
}

// TestObjects_ManyPartitions has more open files than there is memory for.
func TestObjects_ManyPartitions(t *testing.T) {
	l := fakeLake(t)
	table := l.table("many")
	table.PartitionKeys = []string{"s"}
	table.Columns = append(slices.Clone(columns), types.Field{Name: "v", Type: types.StringType})
	s := sinkOf(t, table, nil)
	c, w := committerOf(t, s), writerOf(t, s, 1)
	o := w.to.(*objectOutputs)
	o.room = 2 << 20
	value := strings.Repeat("v", 4<<10)
	rows := 0
	for round := range 6 {
		b := vec.NewBatch(types.Schema{Fields: table.Columns})
		for p := range 200 {
			b.Cols[0].AppendValue(int64(round))
			b.Cols[1].AppendValue(fmt.Sprint("p", p))
			b.Cols[2].AppendValue(value)
			b.N++
		}
		rows += b.N
		must(t, w.Write(t.Context(), b))
		if o.held > o.room+8<<10 {
			t.Fatalf("%d bytes are held", o.held)
		}
	}
	commit(t, c, 1, prepare(t, w))
	if n := len(l.contents(t, "many")); n != rows {
		t.Errorf("%d rows of %d", n, rows)
	}
	if o.held != 0 || len(o.live) > 0 {
		t.Errorf("%d bytes and %d files are held", o.held, len(o.live))
	}
	must(t, w.Close(), c.Close())
}

// unsteady fails requests for a while.
type unsteady struct {
	server *httptest.Server
	fail   atomic.Int64 // how many of the next
	status int
}

func newUnsteady(t testing.TB, of *lake, status int) (*unsteady, *lake) {
	to, err := url.Parse(of.options["s3.endpoint"])
	must(t, err)
	u := &unsteady{status: status}
	u.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u.fail.Add(-1) >= 0 {
			w.WriteHeader(u.status)
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = to.Scheme, to.Host, ""
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(502)
			return
		}
		defer res.Body.Close()
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(res.StatusCode)
		io.Copy(w, res.Body)
	}))
	t.Cleanup(u.server.Close)
	return u, openLake(t, u.server.URL, "lake")
}

// TestObjects_CommitOutlastsTrouble: a commit is tried until it succeeds, or nobody waits any more, or it
// is of no use.
func TestObjects_CommitOutlastsTrouble(t *testing.T) {
	was := firstPause
	firstPause = time.Millisecond
	defer func() { firstPause = was }()
	u, l := newUnsteady(t, fakeLake(t), 501) // which is not tried again below
	s := sinkOf(t, l.table("trouble"), nil)
	c, w := committerOf(t, s), writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch("a", "b")))
	first := prepare(t, w)
	u.fail.Store(5)
	commit(t, c, 1, first)
	if n := len(l.contents(t, "trouble")); n != 2 {
		t.Errorf("%d rows", n)
	}
	must(t, w.Write(t.Context(), batch("c")))
	second := prepare(t, w)
	u.fail.Store(1 << 40)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Commit(ctx, connector.CommitID{Checkpoint: 2}, second); err == nil {
		t.Error("committed to a server that is away")
	}
	u.status = http.StatusForbidden
	var fatal *connector.Fatal
	start := time.Now()
	if err := c.Commit(t.Context(), connector.CommitID{Checkpoint: 2}, second); !errors.As(err, &fatal) || time.Since(start) > 5*time.Second {
		t.Errorf("without permission: %v", err)
	}
	if _, err := s.NewCommitter(t.Context()); !errors.As(err, &fatal) {
		t.Errorf("a start without permission: %v", err)
	}
	u.fail.Store(0)
	commit(t, c, 2, second)
	if n := len(l.contents(t, "trouble")); n != 3 {
		t.Errorf("%d rows", n)
	}
	must(t, w.Close(), c.Close())
}

// TestObjects_NoneDropsWhatCannotBeWritten and goes on.
func TestObjects_NoneDropsWhatCannotBeWritten(t *testing.T) {
	u, l := newUnsteady(t, fakeLake(t), 501)
	for _, d := range []string{"none", "at-least-once"} {
		s := sinkOf(t, l.table(d, "sink.delivery-guarantee", d), nil)
		w := writerOf(t, s, 0)
		must(t, w.Write(t.Context(), batch("a")), w.Flush(t.Context()), w.Write(t.Context(), batch("b")))
		u.fail.Store(4)
		_, err := w.Prepare(t.Context())
		u.fail.Store(0)
		if (err == nil) != (d == "none") {
			t.Errorf("%s: %v", d, err)
		}
		must(t, w.Write(t.Context(), batch("c", "d")))
		prepare(t, w)
		if n := len(l.contents(t, d)); n != 3 {
			t.Errorf("%s: %d rows", d, n)
		}
		must(t, w.Close())
	}
}

func TestObjects_Overwrite(t *testing.T) {
	l := fakeLake(t)
	for _, n := range []string{"over/part-old-0-0", "over/x/deeper", "over/.hidden", "over-other"} {
		l.put(t, n, "{}\n")
	}
	s := sinkOf(t, l.table("over", "sink.partition-commit.policy.kind", "success-file"), func(c *connector.SinkConfig) { c.Overwrite, c.Segments = true, nil })
	c, w := committerOf(t, s), writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch("new")))
	commit(t, c, 1, prepare(t, w))
	must(t, w.Close(), c.Finish(t.Context()))
	list, err := l.store.List(t.Context(), "over")
	must(t, err)
	var names []string
	for _, i := range list {
		names = append(names, strings.ReplaceAll(i.Name, s.run(), "RUN"))
	}
	if want := []string{"over-other", "over/.hidden", "over/_SUCCESS", "over/part-RUN-0-0", "over/x/deeper"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	s = sinkOf(t, l.table("over"), func(c *connector.SinkConfig) { c.Overwrite, c.Segments = true, nil })
	must(t, committerOf(t, s).Finish(t.Context()))
	if rows := l.contents(t, "over"); len(rows) != 1 { // the deeper one
		t.Errorf("after no row: %q", rows)
	}
}

// TestFolders_SweepDeadRuns kills runs that write files: the next run of the same job removes what they
// left aside, and nobody else's.
func TestFolders_SweepDeadRuns(t *testing.T) {
	dir := t.TempDir()
	table := &connector.Table{Name: "t", Connector: "filesystem", Columns: columns, PartitionKeys: []string{"s"},
		Options: map[string]string{"connector": "filesystem", "path": dir, "format": "json"}}
	other := sinkOf(t, table, func(c *connector.SinkConfig) { c.Job = "another" })
	wo := writerOf(t, other, 0)
	must(t, wo.Write(t.Context(), batch("a")))
	pending := prepare(t, wo)
	must(t, wo.Write(t.Context(), batch("a")))
	hidden := func() (names []string) {
		must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name()[0] == '.' {
				names = append(names, d.Name())
			}
			return err
		}))
		return names
	}
	dead := sinkOf(t, table, nil)
	w := writerOf(t, dead, 0)
	must(t, w.Write(t.Context(), batch("a", "b")))
	first := prepare(t, w)
	must(t, w.Write(t.Context(), batch("b", "c")))
	prepare(t, w) // its checkpoint is never complete
	must(t, w.Write(t.Context(), batch("a", "d")))
	must(t, os.WriteFile(filepath.Join(dir, ".mine.inprogress"), nil, 0o644), os.WriteFile(filepath.Join(dir, ".part-"+dead.run()+"-x"), nil, 0o644))
	if n := len(hidden()); n != 2+6+2 {
		t.Fatalf("%d files are aside", n)
	}
	// The next run is killed before its own first checkpoint.
	s := sinkOf(t, table, nil)
	commit(t, committerOf(t, s), 1, first)
	w = writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch("x", "y")))
	s = sinkOf(t, table, nil)
	c := committerOf(t, s)
	commit(t, c, 1, first)
	if n := len(hidden()); n != 2+4+2+2 {
		t.Errorf("%d files are aside before the first own commit", n)
	}
	w = writerOf(t, s, 0)
	must(t, w.Write(t.Context(), batch("e")))
	commit(t, c, 2, prepare(t, w))
	must(t, w.Write(t.Context(), batch("f")))
	for _, n := range hidden() {
		if strings.Contains(n, *s.family.Load()) && !strings.Contains(n, s.run()) && strings.HasSuffix(n, inProgress) {
			t.Errorf("left: %s", n)
		}
	}
	if n := len(hidden()); n != 2+1+2 {
		t.Errorf("%d files are aside, of another job, of this run, and of somebody else", n)
	}
	commit(t, committerOf(t, other), 1, pending)
	must(t, wo.Close(), w.Close())
	if n := len(hidden()); n != 2 {
		t.Errorf("%d files are left", n)
	}
}

// TestFolders_AtLeastOnce shows files before anybody commits.
func TestFolders_AtLeastOnce(t *testing.T) {
	for _, d := range []string{"at-least-once", "none"} {
		connectortest.TestSink(t, connectortest.SinkCase{Ordered: true, Rows: []connectortest.Row{
			{Values: []types.Value{int64(1), "a"}, Text: `{"n":1,"s":"a"}`}, {Values: []types.Value{int64(2), "b"}, Text: `{"n":2,"s":"b"}`},
			{Values: []types.Value{int64(3), "c"}, Text: `{"n":3,"s":"c"}`}, {Values: []types.Value{int64(4), "d"}, Text: `{"n":4,"s":"d"}`}},
			New: func(t testing.TB) connectortest.Target {
				dir := t.TempDir()
				return connectortest.Target{Visible: func() (lines []string) {
					names, _ := filepath.Glob(filepath.Join(dir, "part-*"))
					slices.SortFunc(names, func(a, b string) int { return len(a) - len(b) })
					for _, n := range names {
						b, _ := os.ReadFile(n)
						for line := range strings.Lines(string(b)) {
							lines = append(lines, strings.TrimSuffix(line, "\n"))
						}
					}
					return lines
				}, Table: &connector.Table{Name: "t", Connector: "filesystem", Columns: columns,
					Options: map[string]string{"connector": "filesystem", "path": dir, "format": "json", "sink.delivery-guarantee": d}}}
			}})
	}
}

func BenchmarkObjects_Write(b *testing.B) {
	l := fakeLake(b)
	rows := batch(slices.Repeat([]string{strings.Repeat("some text of a row ", 12)}, 2048)...)
	const batches = 200
	var n atomic.Int64
	b.SetBytes(batches * 2048 * 246)
	var once sync.Once
	for b.Loop() {
		s := sinkOf(b, l.table(fmt.Sprint("bench/", n.Add(1)), "sink.rolling-policy.file-size", "64 mb"), nil)
		c, w := committerOf(b, s), writerOf(b, s, 0)
		for range batches {
			must(b, w.Write(b.Context(), rows))
		}
		commit(b, c, 1, prepare(b, w))
		once.Do(func() { b.ReportMetric(float64(s.to.(*objectTarget).store.Requests()), "requests") })
		must(b, w.Close(), c.Close())
	}
}
