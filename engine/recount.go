package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// errEndless says that a job would read for ever.
var errEndless = errors.New("a source does not end")

// Recount computes the windows that start in [b.From, b.To) of the tables of results that a script writes once more,
// from what its sources hold now, touching no target, and adds them up. The result is by table; where sources
// cannot be read twice it says why. Cells of these windows are kept in memory. The engine must be this call's own.
func (e *Engine) Recount(ctx context.Context, name, text string, b BackfillOptions, h Handler) (map[string]*results.Counted, error) {
	if err := b.localTimes(); err != nil {
		return nil, err
	}
	b.Generation, b.Unversioned = "recount", true // nothing is written
	if err := e.overHistory(name, text, &b); err != nil {
		return nil, err
	}
	for table, spans := range b.Windows {
		e.o.Override[keyBackfillWindows+table] = spansOption(spans)
	}
	tables, err := e.ResultTables(name, text)
	if err != nil {
		return nil, err
	}
	r := &recount{out: map[string]*results.Counted{}, folds: map[string]*fold{}, accounts: map[string][]account{}}
	for _, t := range tables {
		if b.Table == "" || b.Table == t.Name {
			r.out[t.Name], r.folds[t.Name] = &results.Counted{}, newFold(t)
		}
	}
	e.o.Dry = true
	e.o.Only = func(p *plan.Plan) bool { return writesResults(p, b.Table) && r.readable(p) }
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = e.Script(ctx, name, text, r.watch(h, cancel))
	if errors.Is(context.Cause(ctx), errEndless) {
		for _, c := range r.out {
			if err = nil; c.Why == "" {
				c.Why = "another job of the script does not end"
			}
		}
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if c := r.out[t.Name]; c != nil && c.Why == "" {
			if err := r.count(t, c); err != nil {
				return nil, fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
	}
	return r.out, nil
}

// recount is a running one.
type recount struct {
	folds map[string]*fold // by table

	mu       sync.Mutex
	out      map[string]*results.Counted // by table; guarded by mu, as what follows
	accounts map[string][]account
}

// not notes why the tables of a plan were not counted.
func (r *recount) not(p *plan.Plan, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range p.Results() {
		if c := r.out[t.Name]; c != nil {
			c.Why = why
		}
	}
}

// readable reports whether the sources of a plan give the same rows again.
func (r *recount) readable(p *plan.Plan) bool {
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Source); ok && s.Table.Connector == "datagen" {
			r.not(p, fmt.Sprintf("the rows of table %s are made up, and others each time", s.Table.Name))
			return false
		}
	}
	return true
}

func (r *recount) watch(h Handler, cancel context.CancelCauseFunc) Handler {
	h.Sunk = func(_ *Run, n *plan.Node, rows *vec.Batch) error {
		if f := r.folds[n.Op.(*plan.Sink).Table.Name]; f != nil {
			return f.add(n.Schema, rows)
		}
		return nil
	}
	started, ended := h.JobStarted, h.JobEnded
	h.JobStarted = func(j *Run) {
		if !j.Bounded {
			var names []string
			for _, n := range j.Plan.Nodes {
				if s, ok := n.Op.(*plan.Source); ok {
					names = append(names, s.Table.Name)
				}
			}
			r.not(j.Plan, "it does not end to read "+strings.Join(names, ", "))
			cancel(errEndless)
			return
		}
		if started != nil {
			started(j)
		}
	}
	h.JobEnded = func(j *Run, rep *job.Report, err error) {
		if rep != nil {
			r.mu.Lock()
			for _, t := range j.Plan.Results() {
				r.accounts[t.Name] = append(r.accounts[t.Name], account{j.Plan, rep})
			}
			r.mu.Unlock()
		}
		if ended != nil && j.Bounded {
			ended(j, rep, err)
		}
	}
	return h
}

// count adds the cells of a table up.
func (r *recount) count(t *connector.Table, c *results.Counted) error {
	l, err := results.LayoutOf(t)
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i, f := range t.Columns {
		at[f.Name] = i
	}
	tally := results.NewTally(l)
	for _, x := range r.folds[t.Name].cells {
		if x.deleted {
			continue
		}
		window := int64(0)
		if l.Start.Name != "" {
			ms, _, ok := types.ParseTimestamp([]byte(strings.TrimSuffix(x.values[at[l.Start.Name]], "Z")))
			if !ok {
				continue // NULL: of no window
			}
			window = ms
		}
		err := tally.Add(window, func(column string) (string, bool) {
			v := x.values[at[column]]
			return v, v != "NULL"
		})
		if err != nil {
			return err
		}
	}
	c.Totals = tally.Totals()
	var inputs []BackfillInput
	for _, a := range r.accounts[t.Name] {
		inputs = append(inputs, inputsOf(a)...)
	}
	c.Inputs, err = json.Marshal(inputs)
	return err
}

// inputsOf are the tables that a job has read.
func inputsOf(a account) []BackfillInput {
	var out []BackfillInput
	began := time.Now().UTC().Add(-a.r.Elapsed)
	for _, n := range a.r.Nodes {
		o, ok := n.Node.Op.(*plan.Source)
		if !ok {
			continue
		}
		in := BackfillInput{Table: o.Table.Name, Connector: o.Table.Connector, Options: public(o.Table.Options), Rows: n.RowsIn}
		for _, s := range a.r.Sources {
			if s.Node == n.Node {
				in.Bytes = s.Bytes
			}
		}
		in.Version = versionOf(o.Table, a.r.Read[n.Node.ID], began)
		out = append(out, in)
	}
	return out
}
