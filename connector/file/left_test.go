package file

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
)

// TestLag follows how much is left of a file, plain and compressed, before it is open and while it is read.
func TestLag(t *testing.T) {
	var text bytes.Buffer
	r := rand.New(rand.NewSource(1))
	for i := 0; text.Len() < 8<<20; i++ {
		fmt.Fprintf(&text, `{"id":%d,"amount":%d}`+"\n", i, r.Int63())
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text.Bytes()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a.jsonl": text.Bytes(), "a.jsonl.gz": packed.Bytes()} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rd := &reader{s: &source{cfg: connector.SourceConfig{Table: &connector.Table{Name: "t"}}}}
		all := int64(text.Len())
		near := func(when string, got, want int64) {
			t.Helper()
			if off := got - want; off < -all/4 || off > all/4 || !compressed(name) && off != 0 {
				t.Errorf("%s, %s: %d are left, want %d", name, when, got, want)
			}
		}
		if got := rd.SizeOf(connector.Split{ID: path}); got < int64(len(data)) || !compressed(name) && got != all {
			t.Errorf("%s has %d", name, got)
		}
		s, err := rd.Open(context.Background(), connector.Split{ID: path})
		if err != nil {
			t.Fatal(err)
		}
		if s.Lag() <= 0 {
			t.Errorf("%s, just opened: %d", name, s.Lag())
		}
		var rec connector.Records
		read := int64(0)
		for {
			if err := s.(connector.ChunkReader).Read(context.Background(), &rec); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			read += int64(len(rec.Chunk.Data))
			near(fmt.Sprintf("%d read", read), s.Lag(), all-read)
		}
		if s.Lag() != 0 {
			t.Errorf("%s, at its end: %d", name, s.Lag())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := (&reader{s: &source{}}).SizeOf(connector.Split{ID: filepath.Join(t.TempDir(), "gone")}); got != -1 {
		t.Errorf("a file that is gone has %d", got)
	}
}
