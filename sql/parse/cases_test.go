package parse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// casesDir returns the folder of SQL jobs that lies beside the repository, or
// skips the test.
func casesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("TIDEMARK_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(filepath.Join(dir, "scalar.tsv")); err != nil {
		t.Skipf("SKIPPED: no cases at %s; set TIDEMARK_CASES", dir)
	}
	return dir
}

var placeholders = map[string]string{
	"DIR": "/data", "OUT": "/out", "CHANGELOG_SINK": "changelog", "LOOKUP_SOURCE": "lookup",
}

func TestCases_Scripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesDir(t), "*", "case.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	statements := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src, err := Substitute(string(text), placeholders)
		if err != nil {
			t.Error(sqlerr.Render(err, file, string(text)))
			continue
		}
		list, err := Script(src)
		if err != nil {
			t.Error(sqlerr.Render(err, file, src))
			continue
		}
		statements += len(list)
		checkScript(t, src)
	}
	t.Logf("%d statements in %d scripts", statements, len(files))
}

func TestCases_Expressions(t *testing.T) {
	dir := casesDir(t)
	for _, name := range []string{"scalar.tsv", "scalar_errors.tsv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		n, refused := 0, 0
		for _, line := range strings.Split(string(text), "\n") {
			src, _, _ := strings.Cut(line, "\t")
			if src == "" || strings.HasPrefix(line, "# ") {
				continue
			}
			src = strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r").Replace(src)
			n++
			_, err := Expr(src)
			switch {
			case err == nil:
				checkExpr(t, src)
			case name == "scalar.tsv":
				t.Error(sqlerr.Render(err, name, src))
			default:
				refused++
				t.Log(sqlerr.Render(err, name, src))
			}
		}
		t.Logf("%s: %d expressions, %d refused by the parser", name, n, refused)
	}
}
