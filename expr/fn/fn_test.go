package fn_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	_ "github.com/tidemark-stream/tidemark/expr/fn"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var update = flag.Bool("update", false, "rewrite the expected values of the cases and docs/functions.md")

var clock = time.Date(2024, 1, 5, 7, 3, 0, 500e6, time.UTC)

// TestCases runs the calls of testdata/*.txt, one a line: call, two blanks or more, "=> ", the value
// as CAST(... AS STRING) prints it, its type. A line "zone X" sets the session's time zone.
func TestCases(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 5 {
		t.Fatalf("only %d files of cases", len(files))
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			zone := time.UTC
			for _, line := range strings.Split(strings.TrimSuffix(string(src), "\n"), "\n") {
				if z, ok := strings.CutPrefix(line, "zone "); ok {
					if zone, err = time.LoadLocation(z); err != nil {
						t.Skip(err)
					}
				}
				if line == "" || line[0] == '#' || strings.HasPrefix(line, "zone ") {
					out.WriteString(line + "\n")
					continue
				}
				call, want, _ := strings.Cut(line, " => ")
				call = strings.TrimRight(call, " ")
				got := evaluate(t, call, zone)
				fmt.Fprintf(&out, "%s => %s\n", call, got)
				if got != want && !*update {
					t.Errorf("%s\n got %s\nwant %s", call, got, want)
				}
			}
			if *update && !bytes.Equal(out.Bytes(), src) {
				if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// evaluate computes a call whose arguments are constants, and again with columns for them where
// the types come out the same, and tells when the two differ.
func evaluate(t *testing.T, call string, zone *time.Location) string {
	t.Helper()
	env := &expr.Env{Zone: zone, Now: func() time.Time { return clock }, Seed: 7}
	e, err := read(call, env)
	if err != nil {
		return "error: " + err.Error()
	}
	got := result(e, env, vec.NewBatch(types.Schema{}), 1, nil, 0)
	cols, b := columns(e)
	if again := result(cols, env, b, 5, []int32{1, 3, 4}, 3); again != got && !strings.HasPrefix(call, "RAND") && !strings.HasPrefix(call, "TYPEOF") {
		t.Errorf("%s: %s as constants, %s as columns", call, got, again)
	}
	return got + "  " + e.Type().String()
}

// result evaluates e and prints the value of one row.
func result(e expr.Expr, env *expr.Env, b *vec.Batch, n int, sel []int32, at int) string {
	text, err := expr.Cast(e, types.StringType, false, env, expr.Pos{})
	if err != nil {
		return "error: " + err.Error()
	}
	p, err := expr.Compile(text, env)
	if err != nil {
		return "error: " + err.Error()
	}
	b.N, b.Sel = n, sel
	var ctx expr.EvalCtx
	v := p.Eval(&ctx, b)
	for _, e := range ctx.Errs {
		if e.Row == at {
			return "error: " + e.Err.Error()
		}
	}
	if v.IsNull(at) {
		return "NULL"
	}
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(string(v.Bytes(at)))
}

// columns replaces the literals of e by columns of a batch of five rows: the values are in row 3,
// rows 1 and 4 are selected too and have NULLs or the same.
func columns(e expr.Expr) (expr.Expr, *vec.Batch) {
	b := &vec.Batch{}
	e = expr.Map(e, func(e expr.Expr) expr.Expr {
		l, ok := e.(*expr.Literal)
		if !ok || l.T.Kind == types.Symbol || l.T.Kind == types.Null {
			return e
		}
		v := vec.New(l.T.AsNullable(), 5)
		for i, x := range []types.Value{nil, nil, nil, l.Value, l.Value} {
			v.SetValue(i, x)
		}
		b.Cols = append(b.Cols, v)
		return &expr.Column{Index: len(b.Cols) - 1, Name: "c", T: l.T.AsNullable()}
	})
	return e, b
}

// TestDocumented checks that every function has its documentation, and writes or compares
// docs/functions.md.
func TestDocumented(t *testing.T) {
	byCategory := map[string][]*expr.Func{}
	for _, f := range expr.All() {
		if f.Usage == "" || f.Doc == "" || f.Category == "" {
			t.Errorf("%s: no usage, documentation or category", f.Name)
		}
		if !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: the documentation is no sentence", f.Name)
		}
		byCategory[f.Category] = append(byCategory[f.Category], f)
	}
	var b bytes.Buffer
	b.WriteString("# Functions\n\nEvery scalar function and operator, by category. Written by `go test ./expr/fn -run TestDocumented -update` " +
		"from the registry: change the text there.\n\nSemantics are those of Apache Flink 1.20; functions that Flink added in 2.x follow 2.x. " +
		"Where nothing is said about NULL, the result is NULL where an argument is.\n")
	for _, cat := range []string{"Comparison", "Logical", "Arithmetic", "String", "Temporal", "Conditional", "Type conversion", "Collection", "Value construction", "Value access", "JSON", "Hash"} {
		fs := byCategory[cat]
		if len(fs) == 0 {
			continue
		}
		delete(byCategory, cat)
		fmt.Fprintf(&b, "\n## %s\n\n", cat)
		for _, f := range fs {
			fmt.Fprintf(&b, "- `%s`", f.Usage)
			if len(f.Aliases) > 0 {
				fmt.Fprintf(&b, " (also `%s`)", strings.Join(f.Aliases, "`, `"))
			}
			fmt.Fprintf(&b, "  \n  %s\n", f.Doc)
		}
	}
	for cat := range byCategory {
		t.Errorf("category %q has no place in docs/functions.md", cat)
	}
	const path = "../../docs/functions.md"
	old, err := os.ReadFile(path)
	switch {
	case bytes.Equal(old, b.Bytes()):
	case *update:
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the registry says (%v): run go test ./expr/fn -run TestDocumented -update", path, err)
	}
}
