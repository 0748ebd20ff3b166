// Package lint holds the rules of the source tree as tests: which layer may import which, that
// packages explain themselves, and that the text stays within its bounds.
package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/tidemark-stream/tidemark"

// ranks orders the packages: one may import those of lower rank, and its own family (the same
// first folder). The longest prefix counts.
var ranks = map[string]int{
	"internal": 0, "types": 1, "option": 1, "vec": 2,
	"expr": 3, "format": 3, "state": 3, "connector": 4, "plan": 5, "exec": 6, "sql": 6,
	"object": 1, "object/s3": 2, "checkpoint": 6, "job": 7, "engine": 8, "": 9, "internal/metrics": 9, "internal/dashboard": 9, "internal/cli": 10, "cmd": 11, "examples": 11, "bench": 11, "test": 11,
}

// exceptions are imports that break the order, with the reason.
var exceptions = map[string]string{
	"internal/show types":           "prints rows and schemas for people; used by cmd only",
	"internal/show vec":             "prints rows and schemas for people; used by cmd only",
	"connector/standard format/all": "links formats with connectors",
}

// meet names families that must not import each other although their ranks allow it.
var meet = [][2]string{{"sql", "exec"}, {"exec", "sql"}, {"sql", "job"}, {"sql", "state"}, {"job", "sql"}}

// clients are third-party modules that only one package (and its children) may import.
var clients = map[string]string{
	"github.com/twmb/franz-go":       "connector/kafka",
	"github.com/apache/arrow-go":     "vec/arrowvec",
	"github.com/spf13/cobra":         "internal/cli",
	"github.com/prometheus":          "internal/metrics",
	"github.com/klauspost/compress":  "connector/file",
	"github.com/DataDog/sketches-go": "exec/agg",
	"github.com/aws/aws-sdk-go-v2":   "object/s3",
	"github.com/jackc/pgx":           "connector/postgres",
	"github.com/ClickHouse/ch-go":    "connector/clickhouse",
	"github.com/cockroachdb/pebble":  "state/store",
	"github.com/apache/iceberg-go":   "connector/iceberg",
	"modernc.org/sqlite":             "connector/iceberg",
}

// clientExceptions may import a client besides its package.
var clientExceptions = map[string]string{
	"rows.go github.com/apache/arrow-go":                     "the library's results are Arrow batches",
	"checkpoint/encode.go github.com/klauspost/compress":     "sections of a manifest are S2 blocks",
	"connector/iceberg/encode.go github.com/apache/arrow-go": "Parquet is written from Arrow arrays over the batches' memory",
	"connector/iceberg/file.go github.com/apache/arrow-go":   "Parquet is written from Arrow arrays over the batches' memory",
	"connector/iceberg/stats.go github.com/apache/arrow-go":  "the footers of Parquet files",
	"connector/iceberg/target.go github.com/apache/arrow-go": "properties of Parquet files",
	"connector/iceberg/catalog.go github.com/jackc/pgx":      "SQL catalogs in PostgreSQL",
	"connector/iceberg/errors.go github.com/jackc/pgx":       "SQL catalogs in PostgreSQL",
}

func family(pkg string) string {
	f, _, _ := strings.Cut(pkg, "/")
	return f
}

func rank(pkg string) int {
	for p := pkg; ; {
		if r, ok := ranks[p]; ok {
			return r
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return -1
		}
		p = p[:i]
	}
}

// source is one Go file, its path and package relative to the root.
type source struct {
	path, pkg string
	test      bool
	text      []byte
	file      *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	root := "../.."
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && filepath.Clean(p) != filepath.Clean(root) {
				return fs.SkipDir // a module of its own
			}
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		rel, _ := filepath.Rel(root, p)
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, text, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if pkg == "." {
			pkg = ""
		}
		out = append(out, source{rel, pkg, strings.HasSuffix(p, "_test.go"), text, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLayers(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if rank(s.pkg) < 0 {
			t.Errorf("%s: package %q has no rank: add its folder to ranks", s.path, s.pkg)
		}
		for _, imp := range s.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			for client, owner := range clients {
				if strings.HasPrefix(path, client) && s.pkg != owner && !strings.HasPrefix(s.pkg, owner+"/") &&
					clientExceptions[s.path+" "+client] == "" {
					t.Errorf("%s imports %s, which only %s may", s.path, path, owner)
				}
			}
			to, ok := strings.CutPrefix(path, module)
			if !ok {
				continue
			}
			checkImport(t, s, strings.TrimPrefix(to, "/"))
		}
	}
}

func checkImport(t *testing.T, s source, to string) {
	t.Helper()
	if exceptions[s.pkg+" "+to] != "" {
		return
	}
	for _, m := range meet {
		if family(s.pkg) == m[0] && family(to) == m[1] {
			t.Errorf("%s: %s must not import %s; they meet in plan", s.path, s.pkg, to)
		}
	}
	if family(s.pkg) == family(to) {
		return
	}
	if rank(to) >= rank(s.pkg) {
		t.Errorf("%s: %q (rank %d) imports %q (rank %d)", s.path, s.pkg, rank(s.pkg), to, rank(to))
	}
}

func TestPackagesExplainThemselves(t *testing.T) {
	documented := map[string]bool{}
	seen := map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		seen[s.pkg] = s.path
		if s.file.Doc != nil {
			documented[s.pkg] = true
		}
	}
	for pkg, path := range seen {
		if !documented[pkg] {
			t.Errorf("package %q (%s) has no package comment", pkg, path)
		}
	}
}

var todo = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

func TestText(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, filepath.Join("internal", "lint")) {
			continue
		}
		if todo.Match(s.text) {
			t.Errorf("%s has a TODO: file an issue, or do it", s.path)
		}
		if n := bytes.Count(s.text, []byte("\n")); n > 900 && !s.test {
			t.Errorf("%s has %d lines: split it", s.path, n)
		}
		if bytes.Contains(s.text, []byte("time.Sleep(")) && !s.test && family(s.pkg) != "connector" {
			t.Errorf("%s sleeps: wait for what it waits for", s.path)
		}
	}
}
