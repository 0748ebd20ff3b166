package connectortest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var columns = []types.Field{{Name: "n", Type: types.BigIntType}, {Name: "s", Type: types.StringType}}

// records are the lines of one file and its rows, numbered from first.
func records(first, n int) (lines, rows []string) {
	for i := first; i < first+n; i++ {
		s := strings.Repeat("x", i%40)
		lines = append(lines, fmt.Sprintf(`{"n":%d,"s":"%s"}`, i, s))
		rows = append(rows, fmt.Sprintf("%d | %s", i, s))
	}
	return lines, rows
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var w io.WriteCloser
	switch filepath.Ext(name) {
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".zst":
		w, _ = zstd.NewWriter(&b)
	default:
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	io.WriteString(w, text)
	w.Close()
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func filesystem(path string, options ...string) *connector.Table {
	t := &connector.Table{Name: "t", Connector: "filesystem", Columns: columns,
		Options: map[string]string{"connector": "filesystem", "path": path, "format": "json"}}
	for i := 0; i+1 < len(options); i += 2 {
		t.Options[options[i]] = options[i+1]
	}
	return t
}

func TestFilesystemSource(t *testing.T) {
	lines, rows := records(0, 500)
	text := strings.Join(lines, "\n") + "\n"
	for _, name := range []string{"a.jsonl", "a.gz", "a.zst"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			write(t, path, text)
			connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(path), Rows: rows})
		})
	}
	t.Run("no newline at the end", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		write(t, path, strings.Join(lines[:20], "\n"))
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(path), Rows: rows[:20]})
	})
	t.Run("large", func(t *testing.T) { // several chunks, and a record longer than one
		path := filepath.Join(t.TempDir(), "a.zst")
		long := strings.Repeat("y", 300<<10)
		lines, rows := records(0, 9000)
		lines = append(lines, fmt.Sprintf(`{"n":-1,"s":"%s"}`, long), `{"n":-2,"s":"z"}`)
		rows = append(rows, "-1 | "+long, "-2 | z")
		write(t, path, strings.Join(lines, "\n")+"\n")
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(path), Rows: rows})
	})
	t.Run("csv with newlines in values", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.csv")
		write(t, path, "1,\"two\nlines\"\n2,plain\n3,\"a \"\"quoted\"\" word\"\n")
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(path, "format", "csv"),
			Rows: []string{"1 | two\nlines", "2 | plain", `3 | a "quoted" word`}})
	})
	t.Run("empty", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"a", "b.gz", "c.zst"} {
			write(t, filepath.Join(dir, name), "")
		}
		if err := os.WriteFile(filepath.Join(dir, "d.gz"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(dir), Rows: []string{}})
	})
	dir := t.TempDir()
	names := []string{"a.jsonl", "b.gz", "sub/c.zst", "day=1/d.jsonl", "day=__DEFAULT_PARTITION__/e.jsonl"}
	for i, name := range names {
		write(t, filepath.Join(dir, name), strings.Join(lines[i*50:i*50+50], "\n")+"\n")
	}
	write(t, filepath.Join(dir, ".hidden"), "nothing")
	write(t, filepath.Join(dir, "_SUCCESS"), "nothing")
	t.Run("folder", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(dir), Rows: rows[:250]})
	})
	t.Run("glob", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(filepath.Join(dir, "[ab].*")), Rows: rows[:100]})
	})
	t.Run("pattern", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(dir, "source.path.regex-pattern", `.*/[de]\.jsonl`), Rows: rows[150:250]})
	})
	t.Run("partitions and metadata", func(t *testing.T) {
		table := filesystem(dir, "source.path.regex-pattern", `.*/[de]\.jsonl`)
		table.Columns = append(slices.Clone(columns), types.Field{Name: "day", Type: types.IntType})
		table.PartitionKeys = []string{"day"}
		table.Metadata = []connector.MetadataColumn{{Name: "f", Key: "file.name", Type: types.StringType.NotNull(), Virtual: true}}
		var want []string
		for i, r := range rows[150:250] {
			if i < 50 {
				want = append(want, r+" | 1 | d.jsonl")
			} else {
				want = append(want, r+" | NULL | e.jsonl")
			}
		}
		connectortest.TestSource(t, connectortest.SourceCase{Table: table, Rows: want})
	})
	t.Run("watched", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a"), strings.Join(lines[:30], "\n")+"\n")
		write(t, filepath.Join(dir, "b.gz"), strings.Join(lines[30:60], "\n")+"\n")
		// A file that was read to its end has ended, so nothing is appended to splits here.
		connectortest.TestSource(t, connectortest.SourceCase{Table: filesystem(dir, "source.monitor-interval", "10 ms"), Rows: rows[:60]})
	})
}

// contents returns the lines of visible files, with their folder, and the names of the others.
func contents(dir string) (lines, hidden []string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if d.Name()[0] == '.' {
			hidden = append(hidden, p)
			return nil
		}
		rel, _ := filepath.Rel(dir, filepath.Dir(p))
		b, _ := os.ReadFile(p)
		for _, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
			if rel != "." {
				l = rel + ": " + l
			}
			lines = append(lines, l)
		}
		return nil
	})
	return lines, hidden
}

// insertRows are rows to write and how they look as JSON.
func insertRows(text func(n int, s string) string) []connectortest.Row {
	var rows []connectortest.Row
	for i, s := range []string{"a", "b c", "", `"quoted"`, "\u00fc", "f"} {
		rows = append(rows, connectortest.Row{Values: []types.Value{int64(i), s}, Text: text(i, s)})
	}
	return append(rows, connectortest.Row{Values: []types.Value{int64(9), nil}, Text: text(9, "\x00")})
}

func jsonText(n int, s string) string {
	if s == "\x00" {
		return fmt.Sprintf(`{"n":%d,"s":null}`, n)
	}
	return fmt.Sprintf(`{"n":%d,"s":"%s"}`, n, strings.ReplaceAll(s, `"`, `\"`))
}

func TestFilesystemSink(t *testing.T) {
	target := func(t testing.TB, options ...string) connectortest.Target {
		dir := filepath.Join(t.TempDir(), "out")
		return connectortest.Target{Table: filesystem(dir, options...),
			Visible:   func() []string { l, _ := contents(dir); return l },
			Leftovers: func() []string { _, h := contents(dir); return h }}
	}
	t.Run("json", func(t *testing.T) {
		connectortest.TestSink(t, connectortest.SinkCase{Rows: insertRows(jsonText), Ordered: true,
			New: func(t testing.TB) connectortest.Target { return target(t) }})
	})
	t.Run("a file a row", func(t *testing.T) {
		connectortest.TestSink(t, connectortest.SinkCase{Rows: insertRows(jsonText),
			New: func(t testing.TB) connectortest.Target { return target(t, "sink.rolling-policy.file-size", "1 b") }})
	})
	t.Run("partitions", func(t *testing.T) {
		rows := insertRows(func(n int, s string) string {
			p := map[string]string{"": "__DEFAULT_PARTITION__", "\x00": "__DEFAULT_PARTITION__", `"quoted"`: "%22quoted%22"}[s]
			if p == "" {
				p = s
			}
			return fmt.Sprintf(`s=%s: {"n":%d}`, p, n)
		})
		connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, New: func(t testing.TB) connectortest.Target {
			x := target(t)
			x.Table.PartitionKeys = []string{"s"}
			return x
		}})
	})
	t.Run("changes", func(t *testing.T) {
		rows := insertRows(jsonText)
		for i := range rows {
			rows[i].Kind = []types.RowKind{types.Insert, types.Delete}[i%2]
			before, after, op := "null", rows[i].Text, "c"
			if i%2 == 1 {
				before, after, op = after, before, "d"
			}
			rows[i].Text = fmt.Sprintf(`{"before":%s,"after":%s,"op":"%s"}`, before, after, op)
		}
		connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, Ordered: true,
			New: func(t testing.TB) connectortest.Target { return target(t, "format", "debezium-json") }})
	})
}

func TestDatagenSource(t *testing.T) {
	table := func(options ...string) *connector.Table {
		x := &connector.Table{Name: "g", Connector: "datagen", Columns: columns,
			Options: map[string]string{"connector": "datagen", "rows-per-second": "1000000", "fields.s.length": "5"}}
		for i := 0; i+1 < len(options); i += 2 {
			x.Options[options[i]] = options[i+1]
		}
		return x
	}
	t.Run("random", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: table("number-of-rows", "3000", "seed", "7", "fields.s.null-rate", "0.1")})
	})
	t.Run("random of the session", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: table("number-of-rows", "100"), Seed: 5})
	})
	var rows []string
	for i := range 300 {
		rows = append(rows, fmt.Sprintf("%d | %d", i+10, i))
	}
	sequence := []string{"fields.n.kind", "sequence", "fields.n.start", "10", "fields.n.end", "309",
		"fields.s.kind", "sequence", "fields.s.start", "0", "fields.s.end", "400"}
	t.Run("sequence", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: table(sequence...), Rows: rows})
	})
	t.Run("slow", func(t *testing.T) {
		connectortest.TestSource(t, connectortest.SourceCase{Table: table(append(sequence, "number-of-rows", "40", "rows-per-second", "4000")...), Rows: rows[:40]})
	})
}

// broker is a Kafka in this process.
func broker(t testing.TB) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return c, cl
}

func kafka(c *kfake.Cluster, topic string, options ...string) *connector.Table {
	x := &connector.Table{Name: "t", Connector: "kafka", Columns: columns, Options: map[string]string{"connector": "kafka", "topic": topic,
		"properties.bootstrap.servers": strings.Join(c.ListenAddrs(), ","), "format": "json", "scan.startup.mode": "earliest-offset"}}
	for i := 0; i+1 < len(options); i += 2 {
		x.Options[options[i]] = options[i+1]
	}
	return x
}

func TestKafkaSource(t *testing.T) {
	c, cl := broker(t)
	lines, rows := records(0, 300)
	produce := func(topic string, first, n int) (out []string) {
		var recs []*kgo.Record
		for i := first; i < first+n; i++ {
			recs = append(recs, &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: []byte(lines[i]), Key: []byte(fmt.Sprint("k", i))})
			out = append(out, fmt.Sprintf("%s | k%d | %d", rows[i], i, i%3))
		}
		if err := cl.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	keyed := func(x *connector.Table) *connector.Table {
		x.Options["key.format"], x.Options["key.fields"] = "json", "n"
		x.Metadata = []connector.MetadataColumn{{Name: "p", Key: "partition", Type: types.IntType.NotNull(), Virtual: true}}
		return x
	}
	t.Run("bounded", func(t *testing.T) {
		c.CreateTopic("bounded", 3, nil)
		want := produce("bounded", 0, 250)
		connectortest.TestSource(t, connectortest.SourceCase{Table: keyed(kafka(c, "bounded", "scan.bounded.mode", "latest-offset")), Rows: want})
	})
	t.Run("unbounded", func(t *testing.T) {
		c.CreateTopic("unbounded", 3, nil)
		want := produce("unbounded", 0, 120)
		added := 120
		connectortest.TestSource(t, connectortest.SourceCase{Table: keyed(kafka(c, "unbounded")), Rows: want,
			Append: func(testing.TB) []string {
				added += 30
				return produce("unbounded", added-30, 30)
			}})
	})
}

func TestKafkaSink(t *testing.T) {
	c, cl := broker(t)
	topics := 0
	if _, err := kadm.NewClient(cl).ListEndOffsets(t.Context()); err != nil { // connects, so that goroutines can be counted
		t.Fatal(err)
	}
	connectortest.TestSink(t, connectortest.SinkCase{Rows: insertRows(jsonText), Ordered: true, New: func(t testing.TB) connectortest.Target {
		topics++
		topic := fmt.Sprint("t", topics)
		c.CreateTopic(topic, 1, nil)
		return connectortest.Target{Table: kafka(c, topic), Visible: func() (out []string) {
			ends, err := kadm.NewClient(cl).ListEndOffsets(context.Background(), topic)
			if err != nil {
				t.Fatal(err)
			}
			end, _ := ends.Lookup(topic, 0)
			r, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for int64(len(out)) < end.Offset {
				r.PollFetches(context.Background()).EachRecord(func(x *kgo.Record) { out = append(out, string(x.Value)) })
			}
			return out
		}}
	}})
}

// lineBuffer is a Printer into memory.
type lineBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lineBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestPrintAndBlackhole(t *testing.T) {
	rows := insertRows(func(n int, s string) string {
		if s == "\x00" {
			s = "null"
		}
		return fmt.Sprintf("+I[%d, %s]", n, s)
	})
	rows[1].Kind, rows[1].Text = types.Delete, "-D[1, b c]"
	t.Run("print", func(t *testing.T) {
		connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, Ordered: true, New: func(testing.TB) connectortest.Target {
			var out lineBuffer
			return connectortest.Target{Table: &connector.Table{Name: "p", Connector: "print", Columns: columns, Options: map[string]string{"connector": "print"}},
				Config: func(c *connector.SinkConfig) { c.Stdout = &out },
				Visible: func() []string {
					out.mu.Lock()
					defer out.mu.Unlock()
					var lines []string
					for _, l := range strings.SplitAfter(out.b.String(), "\n") {
						if l = strings.TrimSuffix(l, "\n"); l != "" { // with several writers each has its number
							_, row, ok := strings.Cut(l, "> ")
							if !ok {
								row = l
							}
							lines = append(lines, row)
						}
					}
					return lines
				}}
		}})
	})
	t.Run("blackhole", func(t *testing.T) {
		connectortest.TestSink(t, connectortest.SinkCase{Rows: rows, New: func(testing.TB) connectortest.Target {
			return connectortest.Target{Table: &connector.Table{Name: "b", Connector: "blackhole", Columns: columns, Options: map[string]string{"connector": "blackhole"}}}
		}})
	})
}

// ticks is a source as users write them: see examples/customsource.
type ticks struct{ count int64 }

func (t ticks) Bounded() bool     { return true }
func (t ticks) Guarantee() string { return "the same rows again from any position" }
func (t ticks) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return connector.FixedSplits(connector.Split{ID: "even"}, connector.Split{ID: "odd"}), nil
}
func (t ticks) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(_ context.Context, s connector.Split) (connector.SplitReader, error) {
		return &tickReader{ticks: t, at: s.Position.Offset, origin: &vec.Origin{Source: "ticks", Split: s.ID, Unit: "row"}}, nil
	}), nil
}

type tickReader struct {
	ticks
	at     int64
	origin *vec.Origin
}

func (r *tickReader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	if r.at == r.count {
		return io.EOF
	}
	for b.Origin = r.origin; b.N < maxRows && r.at < r.count; r.at++ {
		b.Cols[0].AppendValue(2*r.at + int64(map[string]int{"odd": 1}[r.origin.Split]))
		b.Cols[1].AppendValue(r.origin.Split)
		b.Pos = append(b.Pos, r.at)
		b.N++
	}
	return nil
}
func (r *tickReader) Position() connector.Position {
	return connector.Position{Offset: r.at, Set: true}
}
func (r *tickReader) Lag() int64   { return r.count - r.at }
func (r *tickReader) Close() error { return nil }

func TestCustomSource(t *testing.T) {
	connector.Register(&connector.Factory{Name: "ticks",
		Options: []option.Spec{{Name: "count", Kind: option.Int, Default: "10", Doc: "How many rows a split has."}},
		NewSource: func(c connector.SourceConfig) (connector.Source, error) {
			return ticks{c.Options.Int("count")}, nil
		}})
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf("%d | %s", i, []string{"even", "odd"}[i%2]))
	}
	connectortest.TestSource(t, connectortest.SourceCase{Rows: rows, Table: &connector.Table{Name: "t", Connector: "ticks", Columns: columns,
		Options: map[string]string{"connector": "ticks", "count": "50"}}})
}
