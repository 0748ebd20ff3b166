// Package golden runs SQL cases kept as text: a script, its input files and the rows it must give.
// Anyone can add one; `go test ./test/golden -update` rewrites what is expected, and the diff is the
// review. Every case runs at batch size 1 and the default, at parallelism 1 and 3: results must not
// differ; TestRestart adds stops and restarts in the middle.
//
// A file of testdata holds any number of cases:
//
//	=== name of the case
//	CREATE TABLE t (...) WITH ('path' = '${DIR}/t.jsonl', ...);
//	SELECT ...;
//	--- t.jsonl
//	{"a":1}
//	--- rows
//	1 | x
//
// The last section is what is expected of the script: "rows", what SHOW, DESCRIBE and EXPLAIN say,
// then the folded rows of its bare SELECTs and of the files it wrote below ${OUT} as text, sorted; or
// "error", the message. A "late" section holds the number of late rows. A section "only" names what
// the case is limited to, with the reason: "parallelism 1: ..." or "batch default: ...".
//
// Files pending_*.txt.todo hold cases whose expected rows are right but not yet what comes out: they
// run with -pending only. A case that passes moves to the file of its topic.
package golden

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector/print"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var (
	update  = flag.Bool("update", false, "rewrite what the cases expect")
	pending = flag.Bool("pending", false, "run the cases of pending_*.txt.todo instead, which are known to fail")
)

// section is a named part of a case.
type section struct{ name, text string }

// testCase is one case of a file.
type testCase struct {
	name     string
	sql      string
	sections []section
}

func (c *testCase) get(name string) (string, bool) {
	for _, s := range c.sections {
		if s.name == name {
			return s.text, true
		}
	}
	return "", false
}

func (c *testCase) set(name, text string) {
	for i := range c.sections {
		if c.sections[i].name == name {
			c.sections[i].text = text
			return
		}
	}
	c.sections = append(c.sections, section{name, text})
}

// parseCases reads a file; what stands before the first case is a comment.
func parseCases(text string) (head string, cases []*testCase) {
	parts := strings.Split("\n"+text, "\n=== ")
	head = strings.TrimPrefix(parts[0], "\n")
	for _, p := range parts[1:] {
		name, body, _ := strings.Cut(p, "\n")
		secs := strings.Split("\n"+body, "\n--- ")
		c := &testCase{name: name, sql: strings.TrimPrefix(secs[0], "\n")}
		for _, s := range secs[1:] {
			n, t, _ := strings.Cut(s, "\n")
			t = strings.TrimRight(t, "\n")
			c.sections = append(c.sections, section{n, t})
		}
		cases = append(cases, c)
	}
	return head, cases
}

func printCases(head string, cases []*testCase) string {
	var b strings.Builder
	if head != "" {
		b.WriteString(strings.TrimRight(head, "\n") + "\n\n")
	}
	for i, c := range cases {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "=== %s\n%s\n", c.name, strings.TrimRight(c.sql, "\n"))
		for _, s := range c.sections {
			fmt.Fprintf(&b, "--- %s\n", s.name)
			if s.text != "" {
				b.WriteString(s.text + "\n")
			}
		}
	}
	return b.String()
}

// outcome is what a script gave.
type outcome struct {
	rows []string
	err  string
	late int64
}

// runCase runs the script of c in dir.
func runCase(c *testCase, dir string, batch, par int) outcome {
	out := filepath.Join(dir, fmt.Sprintf("out-%d-%d", batch, par))
	e := engine.New(engine.Options{BatchRows: batch, Dir: dir, Seed: 1,
		Config:   map[string]string{"table.local-time-zone": "UTC"},
		Override: map[string]string{"parallelism.default": strconv.Itoa(par)},
		Define:   map[string]string{"DIR": dir, "OUT": out},
		Now:      func() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }})
	var o outcome
	var mu sync.Mutex
	folded := map[string]int{}
	texts := map[*engine.Run]*print.Text{}
	var script []string
	h := engine.Handler{
		Table: func(_ ast.Statement, s types.Schema, rows [][]types.Value) error {
			script = append(script, tableRows(rows)...)
			return nil
		},
		JobStarted: func(j *engine.Run) {
			if j.Select != nil {
				t, err := print.NewText(j.Select.Schema, j.Config.Env())
				if err != nil {
					j.Kill(err)
				}
				texts[j] = t
			}
		},
		Rows: func(j *engine.Run, b *vec.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			foldRows(folded, texts[j], b)
			return nil
		},
		JobEnded: func(_ *engine.Run, r *job.Report, err error) {
			if r == nil || err != nil {
				return
			}
			o.late += r.Late
			for _, u := range r.Unbalanced {
				o.err += "the books do not balance: " + u + "\n"
			}
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := e.Script(ctx, "case.sql", c.sql, h); err != nil {
		o.err += strings.ReplaceAll(err.Error(), dir, "${DIR}")
	}
	return gathered(folded, script, o.err, o.late, dir, out)
}

// tableRows is what SHOW, DESCRIBE and EXPLAIN say, one row a line.
func tableRows(rows [][]types.Value) (lines []string) {
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = fmt.Sprint(v)
		}
		lines = append(lines, strings.TrimRight(strings.Join(cells, " | "), "\n"))
	}
	return lines
}

// foldRows adds the rows of a bare SELECT to folded, and takes away what they retract.
func foldRows(folded map[string]int, text *print.Text, b *vec.Batch) {
	cols := text.Columns(b)
	b.Each(func(i int) {
		cells := make([]string, len(cols))
		for k, c := range cols {
			cells[k] = "NULL"
			if !c.IsNull(i) {
				cells[k] = string(c.Bytes(i))
			}
		}
		n := 1
		if b.Kind(i).Retracts() {
			n = -1
		}
		folded[strings.Join(cells, " | ")] += n
	})
}

// gathered is the outcome of a script: what statements answered, then its rows and those of the files
// below out.
func gathered(folded map[string]int, script []string, err string, late int64, dir, out string) outcome {
	o := outcome{err: err, late: late}
	for row, n := range folded {
		if n < 0 {
			o.err += "a retraction without its row: " + row + "\n"
		}
		for range max(n, 0) {
			o.rows = append(o.rows, row)
		}
	}
	o.rows = append(o.rows, written(out)...)
	places := strings.NewReplacer(out, "${OUT}", dir, "${DIR}")
	for i, row := range o.rows {
		o.rows[i] = places.Replace(row)
	}
	slices.Sort(o.rows)
	o.rows = append(script, escape(o.rows)...)
	return o
}

// written returns the lines of the visible files below out, each with its folder where there are
// partitions.
func written(out string) []string {
	var lines []string
	filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			lines = append(lines, err.Error())
			return nil
		}
		rel, _ := filepath.Rel(out, filepath.Dir(p))
		if d.Name()[0] == '_' || d.Name()[0] == '.' {
			lines = append(lines, filepath.Join(rel, d.Name()))
			return nil
		}
		for _, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if rel != "." {
				l = rel + ": " + l
			}
			lines = append(lines, l)
		}
		return nil
	})
	return lines
}

// escape keeps each row on one line.
func escape(rows []string) []string {
	for i, r := range rows {
		rows[i] = strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(r)
	}
	return rows
}

var configs = []struct{ batch, par int }{{0, 1}, {1, 1}, {0, 3}, {1, 3}}

func TestGolden(t *testing.T) {
	pattern := "testdata/*.txt"
	if *pending {
		pattern = "testdata/pending_*.txt.todo"
	}
	files, err := filepath.Glob(pattern)
	if *pending && len(files) == 0 {
		t.Skip("no case is pending")
	}
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var mu sync.Mutex
	cases := 0
	t.Run("files", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				n := runFile(t, file)
				mu.Lock()
				cases += n
				mu.Unlock()
			})
		}
	})
	t.Logf("%d cases", cases)
}

func runFile(t *testing.T, file string) int {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, cases := parseCases(string(raw))
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) { checkCase(t, c) })
	}
	if *update {
		if text := printCases(head, cases); text != string(raw) {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return len(cases)
}

var dirs = regexp.MustCompile(`/tmp/[^ '"]*/00\d`)

func checkCase(t *testing.T, c *testCase) {
	dir := t.TempDir()
	writeSections(t, c, dir)
	only, _ := c.get("only")
	for i, cfg := range configs {
		if strings.HasPrefix(only, "parallelism 1:") && cfg.par > 1 || strings.HasPrefix(only, "batch default:") && cfg.batch > 0 {
			continue
		}
		o := runCase(c, dir, cfg.batch, cfg.par)
		o.err = dirs.ReplaceAllString(o.err, "$${DIR}")
		if *update && i == 0 {
			if o.err != "" {
				c.set("error", o.err)
			} else {
				c.set("rows", strings.Join(o.rows, "\n"))
				if _, ok := c.get("late"); ok || o.late > 0 {
					c.set("late", strconv.FormatInt(o.late, 10))
				}
			}
		}
		compare(t, c, fmt.Sprintf("batch %d, parallelism %d", cfg.batch, cfg.par), o)
	}
}

func compare(t *testing.T, c *testCase, config string, o outcome) {
	t.Helper()
	wantErr, fails := c.get("error")
	if fails {
		if strings.TrimSpace(o.err) != strings.TrimSpace(wantErr) {
			t.Errorf("%s: error\n%s\nwant\n%s", config, o.err, wantErr)
		}
		return
	}
	if o.err != "" {
		t.Errorf("%s: %s", config, o.err)
		return
	}
	want, ok := c.get("rows")
	if !ok {
		t.Errorf("the case expects nothing: add a section rows or error, or run with -update")
		return
	}
	if got := strings.Join(o.rows, "\n"); got != want {
		t.Errorf("%s: rows\n%s\nwant\n%s", config, got, want)
	}
	wantLate := int64(0)
	if s, ok := c.get("late"); ok {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		wantLate = n
	}
	if o.late != wantLate {
		t.Errorf("%s: %d late rows, want %d", config, o.late, wantLate)
	}
}
