package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/vec"
)

// Both tables write backslash, tab, line feed and carriage return of expressions and of results as
// \\ \t \n \r. null stands for SQL's NULL.
const null = "<NULL>"

// expression is a line of scalar.tsv or scalar_errors.tsv.
type expression struct {
	text, zone string
	want       string // as a string of SQL
	refused    bool   // want nothing but an error
	failed     string
}

func TestScalar(t *testing.T) {
	dir := folder(t)
	match := regexp.MustCompile(*only)
	var exprs []*expression
	for _, f := range tsv(t, filepath.Join(dir, "scalar.tsv")) {
		exprs = append(exprs, &expression{text: unescape(f[0]), want: unescape(f[1]), zone: f[4]})
	}
	for _, f := range tsv(t, filepath.Join(dir, "scalar_errors.tsv")) {
		exprs = append(exprs, &expression{text: unescape(f[0]), refused: true, zone: f[2]})
	}
	t.Parallel()
	spread(len(exprs), func(i int) {
		if e := exprs[i]; match.MatchString(e.text) {
			e.failed = e.check()
		}
	})
	passed := 0
	var bad []string
	for _, e := range exprs {
		if e.failed == "" {
			passed++
			continue
		}
		bad = append(bad, e.text)
		t.Logf("FAIL %s: %s", e.text, e.failed)
	}
	record(t, bad)
	checkFloor(t, "scalar", passed, len(exprs))
	if passed*10 < len(exprs)*9 {
		t.Errorf("less than nine tenths of the expressions pass")
	}
}

// tsv reads the lines of a table, filled up to five fields.
func tsv(t *testing.T, path string) [][]string {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.SplitSeq(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		lines = append(lines, append(strings.Split(line, "\t"), "", "", "")[:5])
	}
	return lines
}

func unescape(s string) string {
	if s == null {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r").Replace(s)
}

// check evaluates the expression and says what is wrong.
func (e *expression) check() string {
	got, err := e.evaluate()
	switch {
	case err != nil && strings.Contains(err.Error(), "BUG: "):
		return err.Error()
	case err != nil && e.refused:
		return ""
	case err != nil:
		return fmt.Sprintf("want %q, got: %v", e.want, err)
	case e.refused:
		return fmt.Sprintf("should be refused, gives %q", got)
	case len(got) != 1 || got[0] != e.want:
		return fmt.Sprintf("want %q, got %q", e.want, got)
	}
	return ""
}

func (e *expression) evaluate() (rows []string, err error) {
	zone := e.zone
	if zone == "" {
		zone = "UTC"
	}
	eng := engine.New(engine.Options{Stdout: discard{}, Stderr: discard{}, Config: map[string]string{
		"execution.runtime-mode": "batch", "table.local-time-zone": zone}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = eng.Script(ctx, "expression.sql", "SELECT CAST("+e.text+" AS STRING);", engine.Handler{
		Rows: func(_ *engine.Run, b *vec.Batch) error {
			b.Each(func(i int) {
				text := null
				if !b.Cols[0].IsNull(i) {
					text = string(b.Cols[0].Bytes(i))
				}
				rows = append(rows, text)
			})
			return nil
		}})
	return rows, err
}
