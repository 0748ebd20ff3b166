package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// startable says why the job of statement at, whose plan is r.Plan, would not start, as far as the plan and the
// options tell: all that is refused without touching anything outside. A run asks before it starts the job, a check
// instead of doing so.
func (e *Engine) startable(s *sql.Session, at int, r *sql.Result) error {
	j, err := e.newScriptJob(at, r.Plan, s.Config())
	if err != nil {
		return err
	}
	if err = s.Startable(r, j != nil && j.takes()); err != nil {
		return err
	}
	var seen []*connector.Table
	for _, n := range r.Plan.Nodes {
		var t *connector.Table
		switch o := n.Op.(type) {
		case *plan.Source:
			t = o.Table
		case *plan.Sink:
			t = o.Table
		}
		if t == nil || slices.Contains(seen, t) {
			continue
		}
		seen = append(seen, t)
		const key = "dead-letter.table"
		if name := t.Options[key]; name != "" {
			if _, _, _, err := e.deadLetterTable(s, name); err != nil {
				return optionAt(s, t.Name, key, fmt.Errorf("dead-letter output of table %s: %w", t.Name, err))
			}
		}
	}
	return e.expectedShapes(s, r.Plan)
}

// optionAt puts err at the option key in the definition of a table, where that is in the script.
func optionAt(s *sql.Session, table, key string, err error) error {
	t, ok := s.Catalog().Lookup([]string{table}).(*catalog.Table)
	if !ok {
		return err
	}
	at, ok := t.OptionPos(key)
	if !ok {
		return err
	}
	out := sqlerr.New(at, "%s", err)
	var oe *option.Error
	if errors.As(err, &oe) {
		out.Hint = oe.Hint
	}
	return out
}

// expectedShapes refuses tables of what is expected that say neither who nor how many.
func (e *Engine) expectedShapes(s *sql.Session, p *plan.Plan) error {
	for _, n := range p.Nodes {
		if o, ok := n.Op.(*plan.Sink); ok && o.Table != nil && o.Table.Results == nil {
			if key := "tidemark.completeness." + o.Table.Name + ".expected"; s.Config().All()[key] != "" {
				return fmt.Errorf("'%s' is about results, and table %s holds none; add revision BIGINT METADATA to its definition, or RESET the key", key, o.Table.Name)
			}
		}
	}
	for _, t := range p.Results() {
		key := "tidemark.completeness." + t.Name + ".expected"
		from := s.Config().All()[key]
		if from == "" {
			continue
		}
		if _, _, err := e.dueTable(s, p, t, from); err != nil {
			return fmt.Errorf("'%s' = '%s': %w", key, from, err)
		}
	}
	return nil
}

// ends reports whether all sources of p end.
func (e *Engine) ends(p *plan.Plan) (bool, error) {
	for _, n := range p.Nodes {
		src, ok := n.Op.(*plan.Source)
		if !ok {
			continue
		}
		f := connector.Lookup(src.Table.Connector)
		x, err := f.NewSource(connector.SourceConfig{Table: src.Table, Options: option.Of(src.Table.Options, f.Options, connector.CommonOptions),
			Columns: src.Columns, Metadata: src.Metadata, Limit: src.Limit, Batch: p.Batch, Resolve: e.resolve, Seed: 1})
		if err != nil {
			return false, fmt.Errorf("table %s: %w", src.Table.Name, err)
		}
		if !x.Bounded() {
			return false, nil
		}
	}
	return true, nil
}
