package parse

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

var rewrite = flag.Bool("rewrite", false, "write what the parser gives into testdata")

// goldenCase is one case of a corpus: input, a line of four dashes, output; a
// blank line and a line of ==== end it. Lines before the first case and those
// that start with # between cases are comments.
type goldenCase struct {
	comment, input, output string
}

func readCases(text string) []goldenCase {
	var cases []goldenCase
	for _, part := range strings.Split(text, "\n====\n") {
		var c goldenCase
		for strings.HasPrefix(part, "#") {
			line, rest, _ := strings.Cut(part, "\n")
			c.comment += line + "\n"
			part = rest
		}
		c.input, c.output, _ = strings.Cut(part, "\n----\n")
		c.output = strings.TrimSuffix(c.output, "\n")
		if c.input != "" {
			cases = append(cases, c)
		}
	}
	return cases
}

func writeCases(cases []goldenCase) string {
	parts := make([]string, len(cases))
	for i, c := range cases {
		parts[i] = c.comment + c.input + "\n----\n" + c.output
	}
	return strings.Join(parts, "\n====\n") + "\n"
}

// TestGolden runs the corpora of testdata. The name of a file tells what it
// holds: expr_*, type_* and script_*; errors_* are scripts that are refused, or
// printed like the others when not. Trees are shown by ast.Dump.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpora: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cases := readCases(string(text))
			for i, c := range cases {
				got := goldenOutput(t, name, c.input)
				if got != c.output && !*rewrite {
					t.Errorf("%s\ngot\n%s\nwant\n%s", c.input, got, c.output)
				}
				cases[i].output = got
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(writeCases(cases)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func goldenOutput(t *testing.T, name, src string) string {
	t.Helper()
	var nodes []ast.Node
	var err error
	switch family, _, _ := strings.Cut(name, "_"); family {
	case "expr":
		var x ast.Expr
		if x, err = Expr(src); err == nil {
			checkExpr(t, src)
			nodes = append(nodes, x)
		}
	case "type":
		var n *ast.TypeName
		if n, err = Type(src); err == nil {
			nodes = append(nodes, n)
		}
	default:
		var list []ast.Statement
		if list, err = Script(src); err == nil {
			checkScript(t, src)
		}
		for _, s := range list {
			nodes = append(nodes, s)
		}
	}
	if err != nil {
		checkError(t, err, src)
		return sqlerr.Render(err, "sql", src)
	}
	var out []string
	for _, n := range nodes {
		out = append(out, ast.Dump(n), "= "+strings.ReplaceAll(ast.Format(n), "\n", "\n= "))
	}
	return strings.Join(out, "\n")
}
