// Package evolve tests what becomes of the state of a job whose SQL has been changed. A file of
// testdata holds any number of cases:
//
//	=== name of the case
//	-- both
//	CREATE TABLE ...        put before the old and the new statements; may be left out
//	-- old
//	INSERT INTO ...
//	-- new
//	INSERT INTO ...
//	-- report
//	what "tidemark plan --from" says, then what would be refused
//
// A section both before the first case goes before all. -update rewrites the reports.
package evolve

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/exec/build"
	"github.com/tidemark-stream/tidemark/exec/op"
	_ "github.com/tidemark-stream/tidemark/expr/fn" // the function library
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/state"
)

var update = flag.Bool("update", false, "rewrite the reports that the cases expect")

// section is a named part of a case.
type section struct{ name, text string }

// split cuts a text at lines that begin with mark; what stands before the first has no name.
func split(text, mark string) []section {
	out := []section{{}}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, mark); ok {
			out = append(out, section{name: strings.TrimSpace(name)})
			continue
		}
		out[len(out)-1].text += line
	}
	return out
}

func TestEvolution(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases := split(string(text), "=== ")
		common := ""
		for _, s := range split(cases[0].text, "-- ") {
			if s.name == "both" {
				common = s.text
			}
		}
		out := cases[0].text
		for _, c := range cases[1:] {
			out += "=== " + c.name + "\n"
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+c.name, func(t *testing.T) {
				out += runCase(t, common, c.text)
			})
		}
		if *update && !t.Failed() {
			if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runCase checks a case and returns its text as it should be.
func runCase(t *testing.T, common, text string) string {
	secs := split(text, "-- ")
	get := func(name string) string {
		for _, s := range secs {
			if s.name == name {
				return s.text
			}
		}
		return ""
	}
	both := common + get("both")
	older := newPlan(t, both+get("old"))
	newer := newPlan(t, both+get("new"))
	got := report(t, older, newer)
	out := secs[0].text
	for _, s := range secs[1:] {
		if s.name != "report" {
			out += "-- " + s.name + "\n" + strings.TrimSpace(s.text) + "\n"
		}
	}
	if want := get("report"); strings.TrimSpace(want) != strings.TrimSpace(got) && !*update {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Whatever the change: the same SQL finds everything again.
	for _, p := range []*plan.Plan{older, newer} {
		r, err := checkpoint.Match(manifest(t, p), plan.Fingerprints(p), states(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if !r.Same || len(r.Taken()) != len(p.Nodes) {
			t.Errorf("the plan is not the same as itself:\n%s", r)
		}
		for node, o := range r.Taken() {
			if o.Node != node {
				t.Errorf("node %d takes the place of %d", node, o.Node)
			}
		}
	}
	return out + "-- report\n" + got + "\n"
}

func report(t *testing.T, older, newer *plan.Plan) string {
	r, err := checkpoint.Match(manifest(t, older), plan.Fingerprints(newer), states(t, newer))
	if err != nil {
		t.Fatal(err)
	}
	got := r.String()
	if err := r.Dropped(false); err != nil {
		var d *checkpoint.DroppedError
		if !errors.As(err, &d) || r.Dropped(true) != nil {
			t.Fatal(err)
		}
		got += "error: " + err.Error() + "\n"
	}
	if r.Same {
		got += "the same plan\n"
	}
	return got
}

// newPlan makes the plan of a script that runs one job.
func newPlan(t *testing.T, text string) *plan.Plan {
	t.Helper()
	s := sql.NewSession(sql.SessionOptions{File: "job.sql", Text: text, Zone: time.UTC})
	stmts, err := parse.Script(text)
	if err != nil {
		t.Fatal(err)
	}
	var p *plan.Plan
	for _, st := range stmts {
		r, err := s.Execute(st)
		if err != nil {
			t.Fatal(err)
		}
		if r.Plan != nil {
			p = r.Plan
		}
	}
	if p == nil {
		t.Fatal("the script runs no job")
	}
	return p
}

// states are what the operators keep. Those that cannot be saved yet are given something to keep.
func states(t *testing.T, p *plan.Plan) map[int][]state.Spec {
	t.Helper()
	out := map[int][]state.Spec{}
	for _, n := range p.Nodes {
		switch n.Op.(type) {
		case *plan.Source, *plan.Values, *plan.Sink:
			continue
		}
		o, err := build.Operator(context.Background(), p, n, build.SinkIO{})
		if err != nil {
			t.Fatal(err)
		}
		st, ok := o.(op.Stateful)
		switch {
		case ok:
			out[n.ID] = st.States()
		case n.StateGrowth != "":
			out[n.ID] = []state.Spec{{Name: "everything", Version: 1}}
		}
	}
	return out
}

// manifest is that of a savepoint of a running job.
func manifest(t *testing.T, p *plan.Plan) *checkpoint.Manifest {
	m := &checkpoint.Manifest{ID: 7, Savepoint: true}
	st := states(t, p)
	for i, fp := range plan.Fingerprints(p) {
		o := checkpoint.Operator{ID: uint16(i + 1), Node: i, Label: fp.Node.Label, Computes: fp.Computes, Fed: fp.Fed, Describe: fp.Describe,
			States: st[i], Parallelism: 1}
		if _, ok := st[i]; ok {
			o.Heads = [][]byte{{1}}
		}
		m.Operators = append(m.Operators, o)
		switch op := fp.Node.Op.(type) {
		case *plan.Source:
			m.Sources = append(m.Sources, checkpoint.Source{Node: i, Table: op.Table.Name, Fed: fp.Fed,
				Splits: []checkpoint.Split{{ID: "0", Offset: 5, Set: true}}})
		case *plan.Sink:
			m.Sinks = append(m.Sinks, checkpoint.Sink{Node: i, Table: op.Table.Name, Name: op.Table.Name, Fed: fp.Fed})
		}
	}
	return m
}
