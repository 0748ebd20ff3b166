// Package physical turns the logical trees of a job's sinks into a plan: it chooses operators,
// gives every edge its changelog mode and distribution, decides where rows must carry stamps and
// positions, and refuses what cannot run, with the reason and the remedy.
//
// The way, in Plan: each tree is optimised (sql/opt); equal scans are made to read the same
// columns; nodes are made bottom up, equal ones once (graph.go, translate.go); then the whole
// graph is walked backwards for what consumers need of their inputs (needs.go), and numbered.
//
// Plan is a plain call without shared state.
//
// Stability: internal use.
package physical

import (
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// Plan makes the plan of one job that feeds the given sinks. Its errors are *sqlerr.Error.
func Plan(sinks []*logical.Sink, cfg *catalog.Config) (*plan.Plan, error) {
	return newBuilder(cfg).plan(sinks)
}

func (b *builder) plan(sinks []*logical.Sink) (*plan.Plan, error) {
	cfg := b.cfg
	roots, err := Optimized(sinks, cfg)
	if err != nil {
		return nil, err
	}
	for i, s := range sinks {
		b.sink(s, roots[i])
		b.heedEmits(s.Input)
		if b.err != nil {
			return nil, b.err
		}
	}
	b.lateSinks()
	if b.err != nil {
		return nil, b.err
	}
	b.clocks()
	b.needs()
	if b.err != nil {
		return nil, b.err
	}
	b.guarantees()
	p := &plan.Plan{Nodes: b.number(), Batch: b.batch, Config: cfg.All(), Name: cfg.Get(catalog.KeyPipelineName)}
	return p, nil
}

// Optimized returns the optimised trees of the sinks' inputs, whose columns are the physical
// columns of the sink's table and then its writable metadata columns. EXPLAIN prints them.
func Optimized(sinks []*logical.Sink, cfg *catalog.Config) ([]logical.Node, error) {
	env := cfg.Env()
	roots := make([]logical.Node, len(sinks))
	for i, s := range sinks {
		n, err := sinkColumns(s, cfg)
		if err != nil {
			return nil, err
		}
		roots[i] = opt.Optimize(n, env)
	}
	return opt.Share(roots, env, newBuilder(cfg).usesTime), nil
}

// sinkColumns projects the query's columns to those of the table: columns that the statement
// does not name are NULL, and so is metadata of late rows, which other rows lack. That of results is not there yet.
func sinkColumns(s *logical.Sink, cfg *catalog.Config) (logical.Node, error) {
	if s.Table == nil {
		return s.Input, nil
	}
	in := s.Input.Schema()
	from := make([]int, len(s.Table.Columns))
	for i := range from {
		from[i] = -1
	}
	for i, c := range s.Columns {
		from[c] = i
	}
	p := &logical.Project{Input: s.Input}
	add := func(c int, col catalog.Column) {
		if i := from[c]; i >= 0 {
			p.Exprs = append(p.Exprs, &expr.Column{Index: i, Name: in.Fields[i].Name, T: in.Fields[i].Type})
		} else {
			p.Exprs = append(p.Exprs, &expr.Literal{T: col.Type.AsNullable().WithoutAttr()})
		}
		p.Names = append(p.Names, col.Name)
	}
	for c, col := range s.Table.Columns {
		if col.Kind != catalog.Physical {
			continue
		}
		if from[c] < 0 && !col.Type.Nullable {
			return nil, sqlerr.New(span(s.Pos), "column `%s` of table `%s` is NOT NULL, but the statement gives it no value",
				col.Name, s.Table.Name()).WithHint("add `%s` to the column list and to the query", col.Name)
		}
		add(c, col)
	}
	if filled, results := s.Table.FilledColumns(cfg.TableOptions(s.Table, s.Hints)); !results {
		for _, f := range filled {
			p.Exprs, p.Names = append(p.Exprs, &expr.Literal{T: f.Type}), append(p.Names, f.Name)
		}
	}
	for c, col := range s.Table.Columns {
		if col.Kind == catalog.Metadata && !col.Virtual && !s.Table.Filled(c) {
			add(c, col)
		}
	}
	return p, nil
}

func span(p expr.Pos) sqlerr.Span { return sqlerr.Span{Start: p.Start, End: p.End} }

// sinkSchema is the columns of what a table's sink gets.
func sinkSchema(t *connector.Table) types.Schema {
	s := types.Schema{Fields: slices.Clone(t.Columns)}
	for i := range s.Fields {
		s.Fields[i].Comment = ""
	}
	for _, m := range t.Metadata {
		if !m.Virtual {
			s.Fields = append(s.Fields, types.Field{Name: m.Name, Type: m.Type})
		}
	}
	return s
}
