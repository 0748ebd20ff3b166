package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// CellAnswer is how one cell of a result came to be what it is.
type CellAnswer struct {
	Table     string
	Columns   []types.Field
	Revisions [][]any // by generation and revision
	Status    string  // what a reader is told of the cell now
}

// WhyCell reads the history of the cells of a table of results with certain values of key columns.
func (e *Engine) WhyCell(ctx context.Context, name, text, table string, key map[string]string, generation string) ([]CellAnswer, []*connector.Table, error) {
	tables, stores, err := e.OpenResults(ctx, name, text, table)
	if err != nil {
		return nil, nil, err
	}
	defer closeStores(stores)
	var out []CellAnswer
	for i, s := range stores {
		t := tables[i]
		where := map[string]string{}
		for k, v := range key {
			c := slices.IndexFunc(t.Columns, func(f types.Field) bool { return f.Name == k })
			if c < 0 {
				return nil, nil, fmt.Errorf("table %s has no column %s; its key is %s", t.Name, k, strings.Join(t.Results.Key, ", "))
			}
			// The short forms of a time; others are the store's to read.
			if ms, ok := local(v); ok && t.Columns[c].Type.IsTimestamp() {
				if _, _, whole := types.ParseTimestamp([]byte(v)); !whole {
					v = FormatTime(ms)
				}
			}
			where[k] = v
		}
		order := slices.Clone(t.Results.Key)
		if g := t.Results.Column["generation"]; g != "" {
			order = append(order, g)
		}
		order = append(order, t.Results.Column["revision"])
		rows, err := s.Query(ctx, results.Query{Generation: generation, From: vec.MinTime, To: vec.MaxTime, Where: where, History: true, Deleted: true, Order: order, Limit: 1000})
		if err != nil {
			return nil, nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		out = append(out, CellAnswer{Table: t.Name, Columns: rows.Columns, Revisions: rows.Rows})
	}
	return out, tables, nil
}
