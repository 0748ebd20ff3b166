package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/sql"
)

// ResultTables returns the tables of results that the jobs of a script write, each once, in the order in
// which they are written.
func (e *Engine) ResultTables(name, text string) ([]*connector.Table, error) {
	var out []*connector.Table
	seen := map[string]bool{}
	err := e.plan(&source{name: name, text: text}, func(_ *sql.Session, r *sql.Result) error {
		for _, t := range r.Plan.Results() {
			if !seen[t.Name] {
				seen[t.Name] = true
				out = append(out, t)
			}
		}
		return nil
	})
	return out, err
}

// OpenResults opens the tables of results that a script writes: the one called table or, with "", all of
// them. The caller closes them.
func (e *Engine) OpenResults(ctx context.Context, name, text, table string) (tables []*connector.Table, stores []results.Store, err error) {
	all, err := e.ResultTables(name, text)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, t := range all {
		names = append(names, t.Name)
		if table == "" || table == t.Name {
			tables = append(tables, t)
		}
	}
	switch {
	case len(all) == 0:
		return nil, nil, fmt.Errorf("%s writes no table of results: one that has a column such as `revision BIGINT METADATA`", name)
	case len(tables) == 0:
		return nil, nil, fmt.Errorf("%s writes no table of results called %s; there are %s", name, table, strings.Join(names, ", "))
	}
	for _, t := range tables {
		s, err := results.Open(ctx, t)
		if err != nil {
			for _, s := range stores {
				_ = s.Close()
			}
			return nil, nil, err
		}
		stores = append(stores, s)
	}
	return tables, stores, nil
}
