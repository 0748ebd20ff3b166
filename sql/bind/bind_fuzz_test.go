package bind_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// FuzzBind executes whatever parses after the definitions of the golden files: binding must end in
// an answer or in an error that can be shown, never in a panic.
func FuzzBind(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	setup := ""
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i, c := range strings.Split(string(text), "\n\n") {
			src, _, _ := strings.Cut(c, "\n----")
			if i > 0 {
				f.Add(src)
			} else if strings.HasSuffix(name, "query.txt") || strings.HasSuffix(name, "ddl.txt") {
				setup += src + "\n"
			}
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 2000 {
			return
		}
		stmts, err := parse.Script(src)
		if err != nil {
			return
		}
		s := sql.NewSession(sql.SessionOptions{Zone: time.UTC, Seed: 1})
		if _, err := execute(s, setup); err != nil {
			t.Fatalf("setup: %v", err)
		}
		s.SetText("", src)
		for _, st := range stmts {
			_, err := s.Execute(st)
			var se *sqlerr.Error
			if err == nil {
				continue
			}
			if !errors.As(err, &se) {
				t.Fatalf("%q: the error has no position: %v", src, err)
			}
			if se.Render("f.sql", src) == "" {
				t.Fatalf("%q: the error cannot be shown: %v", src, err)
			}
		}
	})
}
