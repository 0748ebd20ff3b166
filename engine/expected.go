package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/vec"
)

// maxProducers bounds the producers that are expected of one table.
const maxProducers = 1 << 20

// expected reads who must have reported for the windows of the tables of results that p writes: the tables named by
// 'tidemark.completeness.SINK.expected', once, at the start of the job.
func (e *Engine) expected(ctx context.Context, s *sql.Session, p *plan.Plan, h Handler) (map[string]*job.Expected, error) {
	var out map[string]*job.Expected
	for _, t := range p.Results() {
		key := "tidemark.completeness." + t.Name + ".expected"
		from := s.Config().All()[key]
		if from == "" {
			continue
		}
		x, err := e.producers(ctx, s, t, from, h)
		if err != nil {
			return nil, fmt.Errorf("'%s' = '%s': %w", key, from, err)
		}
		if out == nil {
			out = map[string]*job.Expected{}
		}
		out[t.Name] = x
	}
	return out, nil
}

// producers reads the table called from, whose columns that the key of t has too say who a producer is.
func (e *Engine) producers(ctx context.Context, s *sql.Session, t *connector.Table, from string, h Handler) (*job.Expected, error) {
	var quoted []string
	for _, part := range strings.Split(from, ".") {
		quoted = append(quoted, "`"+strings.ReplaceAll(strings.Trim(part, "`"), "`", "``")+"`")
	}
	stmts, err := parse.Script("SELECT * FROM " + strings.Join(quoted, "."))
	if err != nil {
		return nil, err
	}
	r, err := s.Execute(stmts[0])
	if err != nil {
		var se *sqlerr.Error
		if errors.As(err, &se) { // its place is in a statement that nobody wrote
			return nil, fmt.Errorf("it cannot be read: %s", strings.TrimSpace(se.Msg+"; "+se.Hint))
		}
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	sink := r.Plan.Nodes[len(r.Plan.Nodes)-1]
	if !sink.Mode.IsInsertOnly() {
		return nil, fmt.Errorf("its rows are corrected while it is read; use a table or view of rows that stay")
	}
	x := &job.Expected{}
	var cols []int
	o := e.jobOptions(s, s.Config(), h)
	for i, f := range sink.Schema.Fields {
		if !slices.Contains(t.Results.Key, f.Name) || f.Name == t.Results.WindowStart || f.Name == t.Results.WindowEnd {
			continue
		}
		x.Columns, cols = append(x.Columns, f.Name), append(cols, i)
	}
	if len(cols) == 0 {
		return nil, fmt.Errorf("none of its columns (%s) is part of the primary key of table %s (%s), so no row of the result says who reported; give them the same name",
			strings.Join(sink.Schema.Names(), ", "), t.Name, strings.Join(t.Results.Key, ", "))
	}
	progs, err := expr.CompileTexts(sink.Schema, cols, o.Env)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	ec := &expr.EvalCtx{Env: o.Env}
	o.Collect = func(_ *plan.Node, b *vec.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		ec.Batch, ec.Errs = b, ec.Errs[:0]
		texts := progs.EvalAll(ec, b)
		for _, i := range b.Selected() {
			p := make([]string, len(texts))
			for c, v := range texts {
				if p[c] = "NULL"; !v.IsNull(int(i)) {
					p[c] = string(v.Bytes(int(i)))
				}
			}
			x.Producers = append(x.Producers, p)
		}
		if len(x.Producers) > maxProducers {
			return fmt.Errorf("it has more than %d rows", maxProducers)
		}
		return nil
	}
	j, err := job.Start(ctx, r.Plan, o)
	if err != nil {
		return nil, err
	}
	if !j.Bounded() {
		j.Kill(nil)
		_, _ = j.Wait()
		return nil, fmt.Errorf("it does not end, and who is expected is read once, at the start; bound it, such as with 'scan.bounded.mode' = 'latest-offset'")
	}
	if _, err = j.Wait(); err != nil {
		return nil, err
	}
	if len(x.Producers) == 0 {
		return nil, fmt.Errorf("it is empty, so nobody would be expected")
	}
	return x, nil
}
