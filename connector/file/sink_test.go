package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	_ "github.com/tidemark-stream/tidemark/connector/file" // the connector under test
	"github.com/tidemark-stream/tidemark/format"
	_ "github.com/tidemark-stream/tidemark/format/all" // json
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// open makes a sink of (n BIGINT, p STRING) at dir.
func open(t *testing.T, dir string, overwrite bool, options map[string]string, partitions ...string) connector.Sink {
	t.Helper()
	table := &connector.Table{Name: "out", Connector: "filesystem", PartitionKeys: partitions,
		Columns: []types.Field{{Name: "n", Type: types.BigIntType}, {Name: "p", Type: types.StringType}},
		Options: map[string]string{"connector": "filesystem", "format": "json", "path": dir}}
	for k, v := range options {
		table.Options[k] = v
	}
	f := connector.Lookup("filesystem")
	s, err := f.NewSink(connector.SinkConfig{Table: table, Schema: table.Schema(), Mode: types.InsertOnly, Overwrite: overwrite,
		Options: option.Of(table.Options, f.Options, connector.CommonOptions), Resolve: func(p string) string { return p },
		Bad: func(b format.BadRecord) error { return b.Err }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rows(ps ...string) *vec.Batch {
	b := vec.NewBatch(types.NewSchema(types.Field{Name: "n", Type: types.BigIntType}, types.Field{Name: "p", Type: types.StringType}))
	for i, p := range ps {
		b.Cols[0].AppendValue(int64(i))
		b.Cols[1].AppendValue(p)
	}
	b.N = len(ps)
	return b
}

// files lists what is below dir, hidden files included.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return out
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestSink_NothingIsLeftOfARunThatFails(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir, false, map[string]string{"sink.rolling-policy.file-size": "1 b"})
	w, err := s.NewWriter(ctx, 0, 1)
	must(t, err)
	must(t, w.Write(ctx, rows("a")), w.Write(ctx, rows("b"))) // each write finishes a file
	if n := len(files(t, dir)); n != 2 {
		t.Fatalf("%d files while writing", n)
	}
	must(t, w.Close())
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSink_CommitTwiceAndAbort(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir, false, nil, "p")
	w, err := s.NewWriter(ctx, 0, 1)
	must(t, err)
	must(t, w.Write(ctx, rows("x", "a/b", "")))
	cs, err := w.Prepare(ctx)
	must(t, err)
	for _, f := range files(t, dir) {
		if !strings.HasPrefix(filepath.Base(f), ".") {
			t.Errorf("%s is visible before the commit", f)
		}
	}
	c, err := s.NewCommitter(ctx)
	must(t, err)
	must(t, c.Commit(ctx, connector.CommitID{Checkpoint: 1}, cs), c.Commit(ctx, connector.CommitID{Checkpoint: 1}, cs))
	var dirs []string
	for _, f := range files(t, dir) {
		dirs = append(dirs, filepath.Dir(f))
	}
	if got := strings.Join(dirs, " "); got != "p=__DEFAULT_PARTITION__ p=a%2Fb p=x" {
		t.Errorf("partitions: %s", got)
	}
	must(t, w.Write(ctx, rows("y")))
	cs, err = w.Prepare(ctx)
	must(t, err)
	must(t, c.Abort(ctx, cs), w.Close(), c.Close())
	if n := len(files(t, dir)); n != 3 {
		t.Errorf("%d files after an abort: %v", n, files(t, dir))
	}
}

func TestSink_OverwriteReplacesAlsoWithNothing(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "part-old-0-0"), []byte("{}\n"), 0o644))
	s := open(t, dir, true, nil)
	c, err := s.NewCommitter(ctx)
	must(t, err)
	w, err := s.NewWriter(ctx, 0, 1)
	must(t, err)
	must(t, w.Write(ctx, rows("x")))
	cs, err := w.Prepare(ctx)
	must(t, err)
	must(t, c.Commit(ctx, connector.CommitID{Checkpoint: 1}, cs), w.Close())
	if got := files(t, dir); len(got) != 1 || got[0] == "part-old-0-0" {
		t.Errorf("after one row: %v", got)
	}
	s = open(t, dir, true, nil)
	c, err = s.NewCommitter(ctx)
	must(t, err)
	must(t, c.(connector.Finisher).Finish(ctx))
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("after no row: %v", got)
	}
}
