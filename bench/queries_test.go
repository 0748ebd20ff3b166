// Package bench_test keeps the benchmarks' queries from rotting: bench/run is not part of go test.
package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/parse"
)

func TestQueries_ParseAndWriteOneSink(t *testing.T) {
	var files []string
	for _, pattern := range []string{"nexmark/queries/*.sql", "scale/*.sql"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	vars := map[string]string{
		"DATA": "/tmp", "SINK": "'connector' = 'blackhole'", "ROWS": "1000", "LAST": "999", "KEYS": "500",
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := parse.Substitute(string(src), vars)
			if err != nil {
				t.Fatal(err)
			}
			list, err := parse.Script(text)
			if err != nil {
				t.Fatal(err)
			}
			inserts := 0
			for _, s := range list {
				if _, ok := s.(*ast.Insert); ok {
					inserts++
				}
			}
			if inserts != 1 {
				t.Errorf("%d INSERTs, want one", inserts)
			}
			if !strings.Contains(string(src), "WITH (${SINK})") {
				t.Error("the table of results does not take ${SINK}")
			}
		})
	}
}
