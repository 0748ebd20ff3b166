package file

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// newFetcher returns the fetcher of a table over the files of dir.
func newFetcher(t testing.TB, dir string) connector.RecordFetcher {
	t.Helper()
	f := connector.Lookup("filesystem")
	with := map[string]string{"connector": "filesystem", "path": dir, "format": "raw"}
	s, err := f.NewSource(connector.SourceConfig{Table: &connector.Table{Name: "t", Connector: "filesystem", Options: with,
		Columns: []types.Field{{Name: "s", Type: types.StringType}}}, Options: option.Of(with, f.Options, connector.CommonOptions),
		Resolve: func(p string) string { return p }})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.(connector.Refetcher).NewFetcher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	return out
}

// records writes n records to three files, plain and compressed, and returns their paths and the
// records by position.
func records(t testing.TB, dir string, n int) (paths []string, at []int64, recs []string) {
	t.Helper()
	var text bytes.Buffer
	for i := range n {
		rec := fmt.Sprintf("%d %s", i, strings.Repeat("x", i*7919%300))
		at, recs = append(at, int64(text.Len())), append(recs, rec)
		text.WriteString(rec)
		if i%3 == 0 {
			text.WriteByte('\r')
		}
		if i < n-1 { // the last one has no newline
			text.WriteByte('\n')
		} else {
			recs[i] = strings.TrimSuffix(rec, "\r")
		}
	}
	for _, name := range []string{"a.txt", "b.txt.gz", "c.txt.zst"} {
		paths = append(paths, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), pack(t, name, text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return paths, at, recs
}

// pack compresses text as a file's name says.
func pack(t testing.TB, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch filepath.Ext(name) {
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".zst":
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFetch_AnyRecordOfAnyFile(t *testing.T) {
	paths, at, recs := records(t, t.TempDir(), 8000) // more than a chunk
	f := newFetcher(t, filepath.Dir(paths[0]))
	rnd := rand.New(rand.NewPCG(1, 2))
	check := func(path string, i int) {
		t.Helper()
		got, err := f.Fetch(t.Context(), path, at[i])
		if err != nil || string(got) != recs[i] {
			t.Fatalf("%s, record %d: %q, %v; want %q", filepath.Base(path), i, got, err, recs[i])
		}
	}
	for i := range recs {
		for _, p := range paths {
			check(p, i)
		}
	}
	for range 30 {
		for _, p := range paths {
			check(p, rnd.IntN(len(recs)))
		}
	}
	for _, p := range paths {
		if got, err := f.Fetch(t.Context(), p, 1<<40); err == nil || !strings.Contains(err.Error(), "it has changed") {
			t.Errorf("%s, far behind its end: %q, %v", filepath.Base(p), got, err)
		}
		check(p, 5) // it goes on after an error
	}
	if got, err := f.Fetch(t.Context(), filepath.Join(filepath.Dir(paths[0]), "none"), 0); err == nil {
		t.Errorf("a file that is not there: %q", got)
	}
}

// TestFetch_CutsWhereTheFormatSays is for records that hold newlines.
func TestFetch_CutsWhereTheFormatSays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(path, []byte("a,1\n\"b\n\nb\",2\nc,3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, dir)
	// A record ends with the first newline outside of quotes.
	f.(interface{ CutBy(func([]byte) int) }).CutBy(func(data []byte) int {
		whole, quoted := 0, false
		for i, c := range data {
			if c == '"' {
				quoted = !quoted
			}
			if c == '\n' && !quoted {
				whole = i + 1
			}
		}
		return whole
	})
	for at, want := range map[int64]string{0: "a,1", 4: "\"b\n\nb\",2", 13: "c,3"} {
		if got, err := f.Fetch(t.Context(), path, at); err != nil || string(got) != want {
			t.Errorf("byte %d: %q, %v; want %q", at, got, err, want)
		}
	}
}

// TestFetch_GivesUpInTime stops decompressing when nobody waits any more, and goes on from there.
func TestFetch_GivesUpInTime(t *testing.T) {
	paths, at, recs := records(t, t.TempDir(), 8000)
	f := newFetcher(t, filepath.Dir(paths[0]))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range paths {
		if got, err := f.Fetch(ctx, p, at[7000]); err != context.Canceled {
			t.Errorf("%s: %q, %v", filepath.Base(p), got, err)
		}
		if got, err := f.Fetch(t.Context(), p, at[7000]); err != nil || string(got) != recs[7000] {
			t.Errorf("%s: %q, %v", filepath.Base(p), got, err)
		}
	}
}

// BenchmarkFetch reads every tenth record of a file in order.
func BenchmarkFetch(b *testing.B) {
	paths, at, _ := records(b, b.TempDir(), 20000)
	for _, p := range paths {
		b.Run(filepath.Ext(p)[1:], func(b *testing.B) {
			f := newFetcher(b, filepath.Dir(p))
			start := time.Now()
			i := 0
			for b.Loop() {
				if _, err := f.Fetch(b.Context(), p, at[i]); err != nil {
					b.Fatal(err)
				}
				i = (i + 10) % len(at)
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N), "ns/record")
		})
	}
}
