package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	_ "github.com/tidemark-stream/tidemark/format/all" // json, csv
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
	"github.com/tidemark-stream/tidemark/types"
)

// lake is a bucket of a server.
type lake struct {
	store   object.Store // its root
	options map[string]string
}

// fakeLake is a server in this process.
func fakeLake(t testing.TB) *lake {
	t.Helper()
	server := httptest.NewUnstartedServer(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it answers some requests twice
	server.Start()
	t.Cleanup(server.Close)
	l := openLake(t, server.URL, "lake")
	must(t, l.store.Put(t.Context(), "somewhere/else", nil)) // makes the bucket
	object.Release(l.store)
	return l
}

// realLake is the server of test/peers/s3.
func realLake(t testing.TB, port string) *lake {
	t.Helper()
	servers := peers.New("S3_PORT="+port, "S3_BUCKETS=lake")
	t.Cleanup(func() { must(t, servers.Wipe()) })
	servers.Need(t, "s3")
	return openLake(t, "http://127.0.0.1:"+port, "lake")
}

func openLake(t testing.TB, endpoint, bucket string) *lake {
	t.Helper()
	l := &lake{options: map[string]string{"s3.endpoint": endpoint, "s3.access-key": "test", "s3.secret-key": "testsecret"}}
	var err error
	l.store, err = object.Open("s3://"+bucket, l.options)
	must(t, err)
	return l
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var columns = []types.Field{{Name: "n", Type: types.BigIntType}, {Name: "s", Type: types.StringType}}

// table is a table of the bucket.
func (l *lake) table(path string, options ...string) *connector.Table {
	t := &connector.Table{Name: "t", Connector: "filesystem", Columns: columns,
		Options: map[string]string{"connector": "filesystem", "path": l.store.String() + "/" + path, "format": "json"}}
	for k, v := range l.options {
		t.Options[k] = v
	}
	for i := 0; i+1 < len(options); i += 2 {
		t.Options[options[i]] = options[i+1]
	}
	return t
}

// put writes an object whose name says how it is compressed.
func (l *lake) put(t testing.TB, name, text string) {
	t.Helper()
	must(t, l.store.Put(t.Context(), name, pack(t, name, text)))
	object.Release(l.store)
}

func sourceOf(t testing.TB, table *connector.Table) *source {
	t.Helper()
	f := connector.Lookup("filesystem")
	s, err := f.NewSource(connector.SourceConfig{Table: table, Options: option.Of(table.Options, f.Options, connector.CommonOptions), Limit: -1,
		Resolve: func(p string) string { return p }, Warn: func(m string) { warned.Store(m) }})
	must(t, err)
	return s.(*source)
}

var warned atomic.Value

// lines are n lines of JSON, numbered from first, and their rows.
func jsonLines(first, n int) (text string, rows []string) {
	var b strings.Builder
	for i := first; i < first+n; i++ {
		s := strings.Repeat("x", i%40)
		fmt.Fprintf(&b, "{\"n\":%d,\"s\":\"%s\"}\n", i, s)
		rows = append(rows, fmt.Sprintf("%d | %s", i, s))
	}
	return b.String(), rows
}

func TestObjects_Source(t *testing.T) { testObjectsSource(t, fakeLake(t)) }

func testObjectsSource(t *testing.T, l *lake) {
	was := firstRange
	firstRange = 2 << 10 // so that there are several
	defer func() { firstRange = was }()
	test := func(name, path string, rows []string, change func(*connector.Table), options ...string) {
		t.Run(name, func(t *testing.T) {
			table := l.table(path, options...)
			if change != nil {
				change(table)
			}
			connectortest.TestSource(t, connectortest.SourceCase{Table: table, Rows: rows})
		})
	}
	_, rows := jsonLines(0, 60)
	part := func(i int) string { text, _ := jsonLines(10*i, 10); return text }
	for i, name := range []string{"a.jsonl", "b.gz", "sub/c.zst", "day=1/d.jsonl", "day=__DEFAULT_PARTITION__/e.jsonl", "day=2/hour=3/f x%20.gz"} {
		l.put(t, "in/"+name, part(i))
	}
	for _, name := range []string{"in/.hidden", "in/_SUCCESS", "in/_temporary/x", "in/sub/.y/x", "in-other/a.jsonl", "im/a"} {
		l.put(t, name, "no data")
	}
	test("one object", "in/a.jsonl", rows[:10], nil)
	test("folder", "in", rows, nil)
	test("glob", "in/[ab].*", rows[:20], nil)
	var want []string
	for i, r := range rows[30:50] {
		if i < 10 {
			want = append(want, r+" | 1 | d.jsonl | s3://lake/in/day=1/d.jsonl")
		} else {
			want = append(want, r+" | NULL | e.jsonl | s3://lake/in/day=__DEFAULT_PARTITION__/e.jsonl")
		}
	}
	test("partitions and metadata", "in", want, func(x *connector.Table) {
		x.Columns = append(slices.Clone(columns), types.Field{Name: "day", Type: types.IntType})
		x.PartitionKeys = []string{"day"}
		x.Metadata = []connector.MetadataColumn{{Name: "f", Key: "file.name", Type: types.StringType.NotNull(), Virtual: true},
			{Name: "p", Key: "file.path", Type: types.StringType.NotNull(), Virtual: true}}
	}, "source.path.regex-pattern", `s3://lake/.*/[de]\.jsonl`)
	test("watched", "in", rows, nil, "source.monitor-interval", "10 ms")
	for _, name := range []string{"a", "b.gz", "c.zst"} {
		l.put(t, "empty/"+name, "")
	}
	must(t, l.store.Put(t.Context(), "empty/d.gz", nil))
	object.Release(l.store)
	test("empty", "empty", []string{}, nil)
	l.put(t, "csv/a.csv", "1,\"two\nlines\"\n2,plain\n3,\"a \"\"quoted\"\" word\"\n4,no newline")
	test("csv with newlines in values", "csv", []string{"1 | two\nlines", "2 | plain", `3 | a "quoted" word`, "4 | no newline"}, nil, "format", "csv")
	text, manyRows := jsonLines(0, 1500)
	l.put(t, "large/a.jsonl", text)
	l.put(t, "large/b.zst", text)
	test("large", "large/a.jsonl", manyRows, nil)
	test("large and compressed", "large/b.zst", manyRows, nil)
}

// TestRealServer runs the same with the server of test/peers/s3, and so the sink's.
func TestRealServer(t *testing.T) {
	l := realLake(t, "22533")
	t.Run("source", func(t *testing.T) { testObjectsSource(t, l) })
	t.Run("sink", func(t *testing.T) { testObjectsSink(t, l, object.LeastPart) })
	t.Run("watched", func(t *testing.T) { testWatched(t, l) })
	t.Run("crash", func(t *testing.T) { testSweep(t, l) })
	t.Run("uploads that are gone", func(t *testing.T) { testUploadGone(t, l) })
	t.Run("gone", func(t *testing.T) { testGone(t, l) })
	t.Run("many in pages", func(t *testing.T) { testPages(t, l, 2500) })
}

// discover asks an enumerator once, as soon as its interval has passed.
func discover(t testing.TB, e *objectEnumerator) (ids []string) {
	t.Helper()
	e.last = time.Time{}
	splits, _, err := e.Discover(t.Context())
	must(t, err)
	for _, s := range splits {
		name, _, _ := strings.Cut(s.ID, etagMark)
		ids = append(ids, name[strings.LastIndexByte(name, '/')+1:])
	}
	return ids
}

func enumeratorOf(t testing.TB, table *connector.Table) *objectEnumerator {
	t.Helper()
	e, err := sourceOf(t, table).NewEnumerator(t.Context())
	must(t, err)
	return e.(*objectEnumerator)
}

func TestObjects_NoneIsMissed(t *testing.T) { testWatched(t, fakeLake(t)) }

func testWatched(t *testing.T, l *lake) {
	table := l.table("w", "source.monitor-interval", "1 h")
	e := enumeratorOf(t, table)
	expect := func(what string, want ...string) {
		t.Helper()
		if got := discover(t, e); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("a folder that is not there yet")
	l.put(t, "w/b", "1\n")
	expect("the first", "b")
	l.put(t, "w/a", "2\n") // late: its name comes before, and its time may be the same
	l.put(t, "w/c", "3\n")
	if got := discover(t, e); len(got) != 2 || !slices.Contains(got, "a") || !slices.Contains(got, "c") {
		t.Errorf("around it: %q", got)
	}
	expect("again")
	l.put(t, "w/b", "another\n")
	expect("replaced", "b")
	l.put(t, "w/b", "another\n")
	expect("replaced by the same")
	must(t, l.store.Delete(t.Context(), "w/a"))
	expect("deleted")

	// A start that knows some of them, and remembers others.
	all := []string{}
	for k, v := range map[string]string{"w/b": "another\n", "w/c": "3\n"} {
		i, err := l.store.Stat(t.Context(), k)
		must(t, err)
		if i.Size != int64(len(v)) {
			t.Fatalf("%s has %d bytes", k, i.Size)
		}
		all = append(all, e.o.id(i))
	}
	memory, err := e.Remember(all[:1])
	must(t, err)
	e = enumeratorOf(t, table)
	must(t, e.Recall(memory))
	e.Known(all[1:])
	l.put(t, "w/0", "4\n")
	expect("after a start", "0")
	e = enumeratorOf(t, table)
	must(t, e.Recall(memory))
	if got := discover(t, e); len(got) != 2 {
		t.Errorf("after a start that does not know one of them: %q", got)
	}
	if err := e.Recall([]byte{1, 255}); err == nil {
		t.Error("a damaged memory is taken")
	}
}

// testPages finds objects beyond the first page of a server's listing.
func testPages(t *testing.T, l *lake, n int) {
	var wg sync.WaitGroup
	work := make(chan string)
	for range 8 {
		wg.Go(func() {
			for name := range work {
				if err := l.store.Put(t.Context(), name, []byte("1\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- fmt.Sprintf("pages/dt=%d/part-%05d", i%3, i)
	}
	close(work)
	wg.Wait()
	e := enumeratorOf(t, l.table("pages", "source.monitor-interval", "1 h"))
	found := 0
	for { // a bounded number at a time, until those are read
		splits, _, err := e.Discover(t.Context())
		must(t, err)
		if len(splits) == 0 {
			break
		}
		var ids []string
		for _, sp := range splits {
			ids = append(ids, sp.ID)
		}
		e.watch.wereRead(keysOf(ids))
		found += len(splits)
	}
	if found != n {
		t.Errorf("%d objects of %d", found, n)
	}
	at := e.o.store.Requests()
	if got := discover(t, e); len(got) > 0 {
		t.Errorf("found again: %d", len(got))
	}
	if r := e.o.store.Requests() - at; r > int64(n/1000+1) {
		t.Errorf("%d requests", r)
	}
	// The pages in the order of the server, with what is known of a whole sweep.
	e.watch.size = sweepPages + 1
	l.put(t, "pages/dt=0/part-99999", "1\n")
	l.put(t, "pages/dt=1/part-00000", "1\n")
	l.put(t, "pages/dt=9/part-00000", "1\n")
	got := discover(t, e)
	slices.Sort(got)
	if want := []string{"part-00000", "part-00000", "part-99999"}; !slices.Equal(got, want) {
		t.Errorf("new in old folders and in a new one: %q", got)
	}
}

// readAll opens a split and reads it to its end.
func readAll(t testing.TB, s *source, sp connector.Split) (string, error) {
	t.Helper()
	r, err := s.NewReader(t.Context(), 0)
	must(t, err)
	defer r.Close()
	rd, err := r.Open(t.Context(), sp)
	if err != nil {
		return "", err
	}
	defer rd.Close()
	var out strings.Builder
	var rec connector.Records
	for {
		err := rd.(connector.ChunkReader).Read(t.Context(), &rec)
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		out.Write(rec.Chunk.Data)
	}
}

func TestObjects_Gone(t *testing.T) { testGone(t, fakeLake(t)) }

// testGone deletes and replaces objects that are being read, or wait for it.
func testGone(t *testing.T, l *lake) {
	text, _ := jsonLines(0, 1000)
	for _, ext := range []string{"", ".gz", ".zst"} {
		for _, c := range []struct {
			what            string
			options         []string
			begun, deleted  bool
			rest            string // what is read then
			fatal, warns    bool
			partsOfTheError []string
		}{
			{"replaced while it was read", nil, true, false, "", true, false, []string{"was replaced by another while it was read", "byte 100", onDataLoss}},
			{"deleted while it was read", nil, true, true, "", true, false, []string{"was deleted while it was read", "byte 100"}},
			{"replaced before it was read", nil, false, false, "", true, false, []string{"after it was listed"}},
			{"deleted before it was read", nil, false, true, "", true, false, []string{"after it was listed"}},
			{"watched and replaced before it was read", []string{"source.monitor-interval", "1 s"}, false, false, "", false, false, nil},
			{"watched and replaced while it was read", []string{"source.monitor-interval", "1 s"}, true, false, "", true, false, []string{"was replaced"}},
			{"passed over when deleted", []string{onDataLoss, "skip"}, true, true, "", false, true, nil},
			{"passed over when replaced", []string{onDataLoss, "skip"}, true, false, "", false, true, nil},
			{"passed over before it was read", []string{onDataLoss, "skip"}, false, true, "", false, true, nil},
		} {
			warned.Store("")
			name := "gone/x" + ext
			l.put(t, name, text)
			s := sourceOf(t, l.table("gone", c.options...))
			e, err := s.NewEnumerator(t.Context())
			must(t, err)
			splits, _, err := e.Discover(t.Context())
			must(t, err)
			if len(splits) != 1 {
				t.Fatalf("%v", splits)
			}
			sp := splits[0]
			if c.begun {
				sp.Position = connector.Position{Offset: 100, Set: true}
				if got, err := readAll(t, s, sp); err != nil || got != text[100:] {
					t.Fatalf("from byte 100 on: %d bytes, %v", len(got), err)
				}
			}
			if c.deleted {
				must(t, l.store.Delete(t.Context(), name))
			} else {
				l.put(t, name, text+"more\n")
			}
			got, err := readAll(t, s, sp)
			var f *connector.Fatal
			if got != c.rest || errors.As(err, &f) != c.fatal || (err != nil) != c.fatal || (warned.Load() != "") != c.warns {
				t.Errorf("%s%s: %q, %v, warned %q", c.what, ext, got, err, warned.Load())
			}
			for _, p := range c.partsOfTheError {
				if err == nil || !strings.Contains(err.Error(), p) {
					t.Errorf("%s%s: the error does not say %q: %v", c.what, ext, p, err)
				}
			}
			must(t, l.store.Delete(t.Context(), name), e.Close())
		}
	}
}

func TestObjects_HopelessIsSaidAtOnce(t *testing.T) {
	l := fakeLake(t)
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server()) // which makes no buckets
	defer server.Close()
	nowhere := openLake(t, server.URL, "nowhere")
	for what, table := range map[string]*connector.Table{
		"make the bucket first": nowhere.table("x"),
		"does not exist":        l.table("not/there"),
	} {
		e := enumeratorOf(t, table)
		_, _, err := e.Discover(t.Context())
		var f *connector.Fatal
		if !errors.As(err, &f) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
		if n := e.o.store.Requests(); n > 3 {
			t.Errorf("%q took %d requests", what, n)
		}
	}
	if got := discover(t, enumeratorOf(t, l.table("not/th*re"))); len(got) > 0 {
		t.Errorf("a pattern that nothing matches: %q", got)
	}
	f := connector.Lookup("filesystem")
	for path, want := range map[string]string{"gs://b/x": "s3://", "s3://": "bucket is missing", "s3://b/../x": "no part of a path", "s3://b/a//x": "no part"} {
		table := l.table("")
		table.Options["path"] = path
		if err := f.Check(table, option.Of(table.Options, f.Options)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestObjects_FetchSingleRecords(t *testing.T) {
	l := fakeLake(t)
	text, _ := jsonLines(0, 70_000)
	for _, n := range []string{"f/a", "f/b.gz", "f/c.zst"} {
		l.put(t, n, text)
	}
	s := sourceOf(t, l.table("f"))
	e, err := s.NewEnumerator(t.Context())
	must(t, err)
	splits, _, err := e.Discover(t.Context())
	must(t, err)
	f, err := s.NewFetcher(t.Context())
	must(t, err)
	defer func() { must(t, f.Close()) }()
	line := func(at int) string { return text[at : at+strings.IndexByte(text[at:], '\n')] }
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		at := rnd.IntN(len(text) - 100)
		at += strings.IndexByte(text[at:], '\n') + 1
		for _, sp := range splits {
			// Each call has its own time, which ends with it.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			got, err := f.Fetch(ctx, sp.ID, int64(at))
			cancel()
			if err != nil || string(got) != line(at) {
				t.Fatalf("%s, byte %d: %q, %v", sp.ID, at, got, err)
			}
		}
	}
	l.put(t, "f/a", "another\n")
	s = sourceOf(t, l.table("f"))
	f2, err := s.NewFetcher(t.Context())
	must(t, err)
	defer f2.Close()
	if got, err := f2.Fetch(t.Context(), splits[0].ID, 0); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("of an object that was replaced: %q, %v", got, err)
	}
}

// TestObjects_RequestsAnObject counts what objects cost to read.
func TestObjects_RequestsAnObject(t *testing.T) {
	l := fakeLake(t)
	text, _ := jsonLines(0, 300_000)
	small, _ := jsonLines(0, 1000)
	for i := range 50 {
		l.put(t, fmt.Sprintf("small/%d", i), small)
	}
	l.put(t, "large/x", text)
	for path, most := range map[string]int64{"small": 2 + 50, "large": 2 + 5} {
		s := sourceOf(t, l.table(path))
		e, err := s.NewEnumerator(t.Context())
		must(t, err)
		splits, _, err := e.Discover(t.Context())
		must(t, err)
		for _, sp := range splits {
			if _, err := readAll(t, s, sp); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.objects.store.Requests(); n > most {
			t.Errorf("%s: %d requests for %d objects, want at most %d", path, n, len(splits), most)
		}
	}
}

func BenchmarkObjects_Read(b *testing.B) {
	l := fakeLake(b)
	text, _ := jsonLines(0, 1_500_000)
	for _, name := range []string{"x.jsonl", "x.jsonl.zst"} {
		l.put(b, "bench/"+name, text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s := sourceOf(b, l.table("bench/"+name))
				e, err := s.NewEnumerator(b.Context())
				must(b, err)
				splits, _, err := e.Discover(b.Context())
				must(b, err)
				r, err := s.NewReader(b.Context(), 0)
				must(b, err)
				rd, err := r.Open(b.Context(), splits[0])
				must(b, err)
				var rec connector.Records
				for err = nil; err == nil; err = rd.(connector.ChunkReader).Read(b.Context(), &rec) {
				}
				if err != io.EOF {
					b.Fatal(err)
				}
				must(b, rd.Close(), r.Close())
				b.ReportMetric(float64(s.objects.store.Requests()), "requests")
			}
		})
	}
}
