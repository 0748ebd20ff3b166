package bind_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/expr"
	_ "github.com/tidemark-stream/tidemark/expr/fn" // the function library
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestGolden runs the scripts of testdata/*.txt. A file is a list of cases: SQL text, a line
// "----", the expected output up to a blank line. The first case of a file is its setup: a script
// that every other case runs after. Output is the logical tree of a query, the rows of SHOW and
// its kin, or the error as the user sees it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { goldenFile(t, f) })
	}
}

func goldenFile(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	setup := ""
	for i, c := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		src, want, _ := strings.Cut(c, "\n----")
		if i == 0 {
			setup = src
		}
		before := setup
		if i == 0 {
			before = ""
		}
		got := strings.TrimSpace(runCase(before, src))
		if i == 0 && got != "" {
			t.Fatalf("the setup fails:\n%s", got)
		}
		if i > 0 {
			out.WriteString("\n\n")
		}
		out.WriteString(src)
		if i > 0 {
			out.WriteString("\n----\n" + got)
		}
		if want = strings.TrimSpace(want); want != got && !*update {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", src, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var linked = regexp.MustCompile(`(connectors|formats) are [a-z, -]+`)

// runCase executes src after the definitions of setup and prints what comes of it.
func runCase(setup, src string) string {
	s := sql.NewSession(sql.SessionOptions{Zone: time.UTC,
		Now: func() time.Time { return time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC) }})
	if out, err := execute(s, setup); err != nil {
		return "setup: " + out + sqlerr.Render(err, "setup", setup)
	}
	s.SetText("", src)
	out, err := execute(s, src)
	if err != nil {
		out += sqlerr.Render(err, "", src)
	}
	// What else is linked into the test is not its business.
	out = linked.ReplaceAllString(out, "$1 are ...")
	// A blank line would end the case.
	return strings.ReplaceAll(out, "\n\n", "\n")
}

func execute(s *sql.Session, src string) (string, error) {
	var b strings.Builder
	stmts, err := parse.Script(src)
	for _, st := range stmts {
		switch st.(type) {
		case *ast.QueryStmt, *ast.Insert, *ast.StatementSet:
			sinks, err := s.Sinks(st)
			if err != nil {
				return b.String(), err
			}
			for _, sink := range sinks {
				fmt.Fprintf(&b, "%s\n", sink.Schema())
				printTree(&b, sink, 0)
			}
			continue
		}
		r, err := s.Execute(st)
		if err != nil {
			return b.String(), err
		}
		for _, row := range r.Rows {
			for i, v := range row {
				if i > 0 {
					b.WriteString(" | ")
				}
				fmt.Fprint(&b, v)
			}
			b.WriteString("\n")
		}
	}
	return b.String(), err
}

func printTree(b *strings.Builder, n logical.Node, depth int) {
	b.WriteString(strings.Repeat("  ", depth) + line(n) + "\n")
	for _, in := range n.Inputs() {
		printTree(b, in, depth+1)
	}
}

func line(n logical.Node) string {
	switch n := n.(type) {
	case *logical.Scan:
		return "Scan " + n.Table.Name() + optionText(n.Hints)
	case *logical.Values:
		var rows []string
		for _, r := range n.Rows {
			var vals []string
			for i, v := range r {
				vals = append(vals, expr.FormatLiteral(v, n.S.Fields[i].Type))
			}
			rows = append(rows, "("+strings.Join(vals, ", ")+")")
		}
		return "Values " + strings.Join(rows, ", ")
	case *logical.Filter:
		return "Filter " + text(n.Cond)
	case *logical.Project:
		var out []string
		for i, e := range n.Exprs {
			if c, ok := e.(*expr.Column); ok && c.Name == n.Names[i] {
				out = append(out, text(e))
			} else {
				out = append(out, n.Names[i]+"="+text(e))
			}
		}
		return "Project " + strings.Join(out, ", ")
	case *logical.Aggregate:
		return aggregateLine(n)
	case *logical.WindowTVF:
		return "WindowTVF " + windowText(n.Window)
	case *logical.Union:
		return "Union"
	case *logical.Join:
		if n.Cond == nil {
			return "Join " + n.Kind.String()
		}
		return "Join " + n.Kind.String() + " on " + text(n.Cond)
	case *logical.Sort:
		return fmt.Sprintf("Sort %s offset=%d limit=%d", sortText(n.Keys), n.Offset, n.Limit)
	case *logical.Sink:
		if n.Table == nil {
			return "Collect"
		}
		s := "Sink " + n.Table.Name() + fmt.Sprint(n.Columns) + optionText(n.Hints)
		if n.Overwrite {
			s += " overwrite"
		}
		return s + optionText(n.StaticPartition)
	}
	return fmt.Sprintf("%T", n)
}

func optionText(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return " {" + strings.Join(out, ", ") + "}"
}

func sortText(keys []plan.SortKey) string {
	var out []string
	for _, k := range keys {
		s := fmt.Sprintf("#%d", k.Col)
		if k.Desc {
			s += " desc"
		}
		if k.NullsFirst {
			s += " nulls first"
		}
		out = append(out, s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func windowText(w plan.Window) string {
	s := fmt.Sprintf("%s(#%d, size %dms", w.Kind, w.TimeCol, w.Size)
	if w.Step != 0 {
		s += fmt.Sprintf(", step %dms", w.Step)
	}
	if w.Offset != 0 {
		s += fmt.Sprintf(", offset %dms", w.Offset)
	}
	if w.ProcTime {
		s += ", proctime"
	}
	if w.Zone != "" {
		s += ", " + w.Zone
	}
	if w.PartitionKeys != nil {
		s += fmt.Sprint(", by ", w.PartitionKeys)
	}
	return s + ")"
}

func aggregateLine(n *logical.Aggregate) string {
	in := n.Input.Schema()
	name := func(i int) string {
		if i < 0 {
			return "const"
		}
		return in.Fields[i].Name + "#" + fmt.Sprint(i)
	}
	s := "Aggregate keys["
	for i, k := range n.Keys {
		if i > 0 {
			s += ", "
		}
		s += name(k)
	}
	s += "]"
	for _, a := range n.Aggs {
		s += " " + a.Fn + "("
		if a.Distinct {
			s += "distinct "
		}
		for i, arg := range a.Args {
			if i > 0 {
				s += ", "
			}
			if a.Consts[i] != nil {
				s += a.Consts[i].String()
			} else {
				s += name(arg)
			}
		}
		s += ")"
		if a.Filter >= 0 {
			s += " filter " + name(a.Filter)
		}
		if a.Options != nil {
			s += " " + strings.Join(a.Options, " ")
		}
		s += ":" + a.T.String()
	}
	if n.Sets != nil {
		s += fmt.Sprint(" sets ", n.Sets)
	}
	if n.GroupingIDs != nil {
		s += fmt.Sprint(" grouping ", n.GroupingIDs)
	}
	if n.Window != nil {
		s += " window " + windowText(*n.Window) + fmt.Sprint(" props ", n.Props)
	}
	return s
}

// text prints an expression with the positions of its columns.
func text(e expr.Expr) string {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		c, ok := x.(*expr.Column)
		if !ok {
			return x
		}
		name := fmt.Sprintf("%s#%d", c.Name, c.Index)
		switch c.T.Attr {
		case types.RowTime:
			name += "*rowtime*"
		case types.ProcTime:
			name += "*proctime*"
		}
		return &expr.Column{Index: c.Index, Name: name, T: c.T}
	}).String()
}
