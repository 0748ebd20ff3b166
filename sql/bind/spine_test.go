package bind_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// casesDir is where the shared cases lie.
func casesDir(t *testing.T) string {
	dir := os.Getenv("TIDEMARK_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(filepath.Join(dir, "spine.list")); err != nil {
		t.Skipf("SKIPPED: the shared cases are not here: %v", err)
	}
	return dir
}

// TestSpineCases binds every case that the engine must run.
func TestSpineCases(t *testing.T) {
	dir := casesDir(t)
	list, err := os.ReadFile(filepath.Join(dir, "spine.list"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(list))
	bound := 0
	for _, name := range names {
		src, err := os.ReadFile(filepath.Join(dir, name, "case.sql"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := parse.Substitute(string(src), map[string]string{"DIR": "/in", "OUT": "/out",
			"CHANGELOG_SINK": "print", "LOOKUP_SOURCE": "filesystem"})
		if err == nil {
			err = bindScript(text)
		}
		switch {
		case err == nil:
			bound++
		default:
			t.Errorf("%s", sqlerr.Render(err, name, text))
		}
	}
	t.Logf("%d of %d cases bind", bound, len(names))
}

// bindScript executes definitions and binds queries.
func bindScript(text string) error {
	stmts, err := parse.Script(text)
	if err != nil {
		return err
	}
	s := sql.NewSession(sql.SessionOptions{Zone: time.UTC})
	for _, st := range stmts {
		switch st.(type) {
		case *ast.Insert, *ast.StatementSet, *ast.QueryStmt:
			_, err = s.Sinks(st)
		default:
			_, err = s.Execute(st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
