package expr_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var utc = &expr.Env{Zone: time.UTC}

// compute runs an expression without columns over one row and returns it as text; "<NULL>" for
// NULL.
func compute(e expr.Expr, env *expr.Env) (string, error) {
	s, err := expr.Cast(e, types.StringType, false, env, expr.Pos{})
	if err != nil {
		return "", err
	}
	p, err := expr.Compile(s, env)
	if err != nil {
		return "", err
	}
	ctx := &expr.EvalCtx{Env: env}
	v := p.Eval(ctx, &vec.Batch{N: 1})
	if len(ctx.Errs) > 0 {
		return "", ctx.Errs[0].Err
	}
	if v.IsNull(0) {
		return "<NULL>", nil
	}
	return string(v.Bytes(0)), nil
}

// TestCases runs testdata/*.txt. A line is an expression, ->, its text, and after a colon its
// type; or ! and a part of the error.
func TestCases(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		env := utc
		for n, line := range strings.Split(string(text), "\n") {
			if zone, ok := strings.CutPrefix(line, "zone "); ok {
				loc, err := time.LoadLocation(zone)
				if err != nil {
					t.Fatal(err)
				}
				env = &expr.Env{Zone: loc}
				continue
			}
			if line == "" || line[0] == '#' {
				continue
			}
			if msg := checkLine(line, env); msg != "" {
				t.Errorf("%s:%d: %s: %s", f, n+1, line, msg)
			}
		}
	}
}

func checkLine(line string, env *expr.Env) string {
	src, want, ok := strings.Cut(line, " -> ")
	if !ok {
		src, want, ok = strings.Cut(line, " ! ")
		if !ok {
			return "neither -> nor !"
		}
		e, err := bindText(src, env)
		if err == nil {
			_, err = compute(e, env)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			return "got error " + errText(err)
		}
		return ""
	}
	e, err := bindText(src, env)
	if err != nil {
		return errText(err)
	}
	got, err := compute(e, env)
	if err != nil {
		return errText(err)
	}
	if i := strings.LastIndex(want, " : "); i >= 0 {
		if typ := e.Type().String(); typ != want[i+3:] {
			return "type is " + typ
		}
		want = want[:i]
	}
	if got != strings.Trim(want, "|") {
		return "got " + got
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

func casesDir(t *testing.T) string {
	dir := os.Getenv("TIDEMARK_CASES")
	if dir == "" {
		dir = "../../shared/cases"
	}
	if _, err := os.Stat(filepath.Join(dir, "scalar.tsv")); err != nil {
		t.Skipf("SKIPPED: no cases in %s (set TIDEMARK_CASES)", dir)
	}
	return dir
}

// scalarFloor is how many expressions of scalar.tsv passed when this line was last changed.
const scalarFloor = 531

var unescape = strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r")

// TestScalarCases runs the expressions of scalar.tsv that need nothing but this package and the
// little syntax of the tests. The number that pass never goes down.
func TestScalarCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(casesDir(t), "scalar.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	passed, failed, skipped := 0, 0, 0
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 4 || line[0] == '#' {
			continue
		}
		env := utc
		if len(f) > 4 && f[4] != "" {
			loc, err := zone(f[4])
			if err != nil {
				t.Fatal(err)
			}
			env = &expr.Env{Zone: loc}
		}
		e, err := bindText(unescape.Replace(f[0]), env)
		var x *expr.Error
		if err != nil && (!errors.As(err, &x) || strings.HasPrefix(x.Msg, "unknown function")) {
			skipped++
			continue
		}
		got := ""
		if err == nil {
			got, err = compute(e, env)
		}
		if want := unescape.Replace(f[1]); err != nil || got != want {
			failed++
			t.Logf("%s: got %q (error %v), want %q", f[0], got, err, want)
			continue
		}
		passed++
	}
	t.Logf("%d passed, %d failed, %d need more than this package", passed, failed, skipped)
	if passed < scalarFloor {
		t.Errorf("%d passed, fewer than the %d that did before", passed, scalarFloor)
	}
}

func zone(s string) (*time.Location, error) {
	if s == "GMT-08:00" {
		return time.FixedZone(s, -8*3600), nil
	}
	return time.LoadLocation(s)
}

// TestScalarErrors runs what scalar_errors.tsv says must be refused.
func TestScalarErrors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(casesDir(t), "scalar_errors.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	refused, accepted, skipped := 0, 0, 0
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 2 || line[0] == '#' {
			continue
		}
		e, err := bindText(f[0], utc)
		var x *expr.Error
		if err != nil && (!errors.As(err, &x) || strings.HasPrefix(x.Msg, "unknown function")) {
			skipped++
			continue
		}
		if err == nil {
			_, err = compute(e, utc)
		}
		if err != nil {
			refused++
			continue
		}
		accepted++
		t.Logf("%s: accepted, but Flink says %s", f[0], f[1])
	}
	t.Logf("%d refused, %d accepted, %d need more than this package", refused, accepted, skipped)
}
