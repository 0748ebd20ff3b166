package physical_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard"
	_ "github.com/tidemark-stream/tidemark/expr/fn"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/bind"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/explain"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/physical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// script holds what a SQL text leaves behind when its statements are executed, as far as planning
// goes.
type script struct {
	cat   *catalog.Catalog
	cfg   *catalog.Config
	sinks [][]*logical.Sink // a job each
}

func run(text string) (*script, error) {
	stmts, err := parse.Script(text)
	if err != nil {
		return nil, err
	}
	s := &script{cat: catalog.New(), cfg: catalog.NewConfig()}
	s.cfg.DefaultZone = time.UTC
	for _, st := range stmts {
		if err := s.execute(st); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *script) execute(st ast.Statement) error {
	b := bind.New(s.cat, s.cfg)
	switch st := st.(type) {
	case *ast.CreateTable:
		t, err := b.CreateTable(st)
		if err != nil {
			return err
		}
		s.cat.Put(t.Path, t)
	case *ast.CreateView:
		v, err := b.CreateView(st)
		if err != nil {
			return err
		}
		s.cat.Put(v.Path, v)
	case *ast.Set:
		return s.cfg.Set(st.Key, st.Value)
	case *ast.Reset:
		s.cfg.Reset(st.Key)
	case *ast.Insert:
		sink, err := b.Insert(st)
		if err != nil {
			return err
		}
		s.sinks = append(s.sinks, []*logical.Sink{sink})
	case *ast.QueryStmt:
		sink, err := b.Select(st)
		if err != nil {
			return err
		}
		s.sinks = append(s.sinks, []*logical.Sink{sink})
	case *ast.StatementSet:
		var set []*logical.Sink
		for _, in := range st.Statements {
			sink, err := b.Insert(in.(*ast.Insert))
			if err != nil {
				return err
			}
			set = append(set, sink)
		}
		s.sinks = append(s.sinks, set)
	default:
		return fmt.Errorf("the test does not execute %T", st)
	}
	return nil
}

// TestSQL plans the statements of testdata/sql/*.txt: SQL, a line of dashes, and the plans of its
// jobs, or the error.
func TestSQL(t *testing.T) {
	files, err := filepath.Glob("testdata/sql/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	const line = "\n----\n"
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(string(data), line)
			compare(t, file, text+line+plansOf(t, text))
		})
	}
}

func plansOf(t *testing.T, text string) string {
	render := func(err error) string { return sqlerr.Render(err, "case.sql", text) + "\n" }
	s, err := run(text)
	if err != nil {
		return render(err)
	}
	var out strings.Builder
	for _, sinks := range s.sinks {
		p, err := physical.Plan(sinks, s.cfg)
		if err != nil {
			out.WriteString(render(err))
			continue
		}
		checkPlan(t, p)
		if strings.Contains(text, "-- check") {
			p.Text = text
			found, err := explain.Check(sinks, p, "flink-1.20")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				fmt.Fprintf(&out, "%s: %s\n", sqlerr.PositionAt(text, f.Pos.Start), f)
			}
			for _, w := range physical.Warnings(p) {
				fmt.Fprintf(&out, "warning: %s\n", w)
			}
			continue
		}
		if strings.Contains(text, "-- logical") {
			full, err := explain.Text(sinks, p, s.cfg)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(full)
			continue
		}
		out.WriteString(explain.Physical(p))
	}
	return out.String()
}

// TestCases plans the scripts of the case collection that the first release must run.
func TestCases(t *testing.T) {
	dir := os.Getenv("TIDEMARK_CASES")
	if dir == "" {
		dir = "../../../shared/cases"
	}
	list, err := os.Open(filepath.Join(dir, "spine.list"))
	if err != nil {
		t.Skip("the case collection is not here: set TIDEMARK_CASES")
	}
	defer list.Close()
	vars := map[string]string{"DIR": "/in", "OUT": "/out", "LOOKUP_SOURCE": "filesystem",
		"CHANGELOG_SINK": "filesystem', 'format' = 'debezium-json', 'path' = '/out"}
	total, unbound := 0, 0
	for lines := bufio.NewScanner(list); lines.Scan(); {
		name := strings.TrimSpace(lines.Text())
		if name == "" {
			continue
		}
		total++
		data, err := os.ReadFile(filepath.Join(dir, name, "case.sql"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for k, v := range vars {
			text = strings.ReplaceAll(text, "${"+k+"}", v)
		}
		s, err := run(text)
		if err != nil {
			t.Logf("%s: not bound: %v", name, err)
			unbound++
			continue
		}
		for _, sinks := range s.sinks {
			p, err := physical.Plan(sinks, s.cfg)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			checkPlan(t, p)
			p.Text = text
			if _, err := explain.Text(sinks, p, s.cfg); err != nil {
				t.Errorf("%s: explain: %v", name, err)
			}
			if _, err := explain.Check(sinks, p, "flink-1.20"); err != nil {
				t.Errorf("%s: check: %v", name, err)
			}
			if strings.Contains(explain.JSON(p), "\x00") || len(p.Nodes) < 2 {
				t.Errorf("%s: %d nodes", name, len(p.Nodes))
			}
		}
	}
	t.Logf("%d of %d cases planned", total-unbound, total)
}

// TestTTLIsNoPartOfState wants the states of a job to be found again when a time to live changes.
func TestTTLIsNoPartOfState(t *testing.T) {
	prints := func(ttl, hint string) string {
		s, err := run(`CREATE TABLE a (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'json');
			CREATE TABLE b (k INT, w INT) WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'json');
			SET 'table.exec.state.ttl' = '` + ttl + `';
			SELECT a.k, SUM(w) FROM a JOIN (SELECT ` + hint + ` k, MAX(w) AS w FROM b GROUP BY k) b ON a.k = b.k GROUP BY a.k;`)
		if err != nil {
			t.Fatal(err)
		}
		p, err := physical.Plan(s.sinks[0], s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, fp := range plan.Fingerprints(p) {
			fp.Node = nil
			fmt.Fprintf(&out, "%+v\n", fp)
		}
		return out.String()
	}
	never := prints("0 s", "")
	for _, c := range [][2]string{{"1 h", ""}, {"0 s", "/*+ STATE_TTL('b' = '3 h') */"}} {
		if got := prints(c[0], c[1]); got != never {
			t.Errorf("ttl %s, hint %s:\n%s\nwithout:\n%s", c[0], c[1], got, never)
		}
	}
	if strings.Count(never, "\n") < 5 {
		t.Errorf("fingerprints are missing:\n%s", never)
	}
}
