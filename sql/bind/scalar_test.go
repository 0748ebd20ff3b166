package bind_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// scalarBindMin and scalarTypeMin are the least numbers of shared expressions that bind, and bind to
// Flink's type; raise them when more do.
const (
	scalarBindMin = 1639
	scalarTypeMin = 1574
)

// bindScalar binds one expression in a time zone and returns its type.
func bindScalar(src, zone string) (types.Type, error) {
	s := sql.NewSession(sql.SessionOptions{Zone: time.UTC})
	if zone != "" {
		if err := s.Config().Set("table.local-time-zone", zone); err != nil {
			return types.Type{}, err
		}
	}
	text := "SELECT " + src
	st, err := parse.Statement(text)
	if err != nil {
		return types.Type{}, err
	}
	sinks, err := s.Sinks(st.(*ast.QueryStmt))
	if err != nil {
		return types.Type{}, err
	}
	return sinks[0].Schema().Fields[0].Type, nil
}

// readTSV calls f for each line of a file of shared cases.
func readTSV(t *testing.T, name string, f func(cols []string)) {
	file, err := os.Open(filepath.Join(casesDir(t), name))
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if line := in.Text(); line != "" && line[0] != '#' {
			f(append(strings.Split(line, "\t"), "", "", "", ""))
		}
	}
}

// TestScalarTypes binds every shared expression and compares its type with Flink's.
func TestScalarTypes(t *testing.T) {
	all, bound, typed := 0, 0, 0
	readTSV(t, "scalar.tsv", func(cols []string) {
		all++
		got, err := bindScalar(cols[0], cols[4])
		if err != nil {
			t.Logf("%s", sqlerr.Render(err, "", "SELECT "+cols[0]))
			return
		}
		bound++
		if got.String() == cols[2] || got.AsNullable().String() == cols[2] {
			typed++
		} else {
			t.Logf("%s is %s, Flink says %s", cols[0], got, cols[2])
		}
	})
	t.Logf("of %d expressions, %d bind, %d to Flink's type", all, bound, typed)
	if bound < scalarBindMin || typed < scalarTypeMin {
		t.Errorf("there were %d and %d before", scalarBindMin, scalarTypeMin)
	}
}

// TestScalarErrors binds every expression that must be refused.
func TestScalarErrors(t *testing.T) {
	all, refused := 0, 0
	readTSV(t, "scalar_errors.tsv", func(cols []string) {
		if !strings.HasPrefix(cols[1], "validation") {
			return
		}
		all++
		got, err := bindScalar(cols[0], cols[2])
		if err == nil {
			t.Logf("%s is %s, but Flink says: %s", cols[0], got, cols[1])
			return
		}
		var se *sqlerr.Error
		var ee *expr.Error
		if !errors.As(err, &se) || errors.As(err, &ee) {
			t.Errorf("%s: the error has no position: %v", cols[0], err)
		}
		refused++
	})
	t.Logf("%d of %d wrong expressions are refused", refused, all)
}
