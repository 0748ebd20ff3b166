// Package bind turns syntax trees into logical plans: it resolves names to tables, columns and
// functions, gives every expression its type with Flink's coercions, and refuses what means
// nothing, pointing at the text and saying what to write instead.
//
// Query and Insert make trees of package logical; CreateTable, CreateView and their kin make
// entries of the catalog. The binder changes neither the catalog nor the configuration: that is
// for the session above it. A Binder serves one statement and is not safe for concurrent use.
//
// Stability: internal use.
package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// Binder binds one statement.
type Binder struct {
	cat *catalog.Catalog
	cfg *catalog.Config
	env *expr.Env
	// columnPos holds where each column reference stood, for errors found after binding, such
	// as a column that is not grouped.
	columnPos map[*expr.Column]sqlerr.Span
	// unchecked leaves the options of tables alone, as for a view's definition, which runs nothing.
	unchecked bool
	// ttl is the hint STATE_TTL of the select block whose FROM is being bound; nil without one.
	ttl *stateTTL
	// views are the names of the views being expanded, outermost first.
	views []string
}

// New returns a binder over the objects of cat with the session's configuration.
func New(cat *catalog.Catalog, cfg *catalog.Config) *Binder {
	return &Binder{cat: cat, cfg: cfg, env: cfg.Env(), columnPos: map[*expr.Column]sqlerr.Span{}}
}

// Query binds a query.
func (b *Binder) Query(q *ast.Query) (logical.Node, error) {
	rel, err := b.query(q, nil)
	if err != nil {
		return nil, err
	}
	return rel.node, nil
}

// Schema binds a query and returns its columns only; the options of its tables are not checked.
func (b *Binder) Schema(q *ast.Query) (types.Schema, error) {
	b.unchecked = true
	rel, err := b.query(q, nil)
	if err != nil {
		return types.Schema{}, err
	}
	return rel.withUniqueNames().node.Schema(), nil
}

// Select binds a query whose rows are shown: a sink without a table.
func (b *Binder) Select(st *ast.QueryStmt) (*logical.Sink, error) {
	rel, err := b.query(st.Query, nil)
	if err != nil {
		return nil, err
	}
	rel = rel.withUniqueNames()
	columns := make([]int, len(rel.cols))
	for i := range columns {
		columns[i] = i
	}
	return &logical.Sink{Input: rel.node, Columns: columns, Pos: pos(st.Span)}, nil
}

// pos is a span as expressions carry it.
func pos(s sqlerr.Span) expr.Pos { return expr.Pos{Start: s.Start, End: s.End} }
