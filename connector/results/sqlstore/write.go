package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
)

// Finding is a view that adds up versions.
type Finding struct {
	What string
	// Kept says that what it has added up stays wrong, as of a materialized view.
	Kept bool
}

// Lint implements results.Store.
func (s *Store) Lint(ctx context.Context) ([]string, error) {
	found, err := s.Find(ctx)
	var out []string
	for _, f := range found {
		out = append(out, f.What)
	}
	return out, err
}

// MayWrite refuses to write a table that was made for another definition, or over which something adds up
// versions with each insert.
func (s *Store) MayWrite(ctx context.Context) error {
	if err := s.Match(ctx); err != nil {
		return err
	}
	found, err := s.Find(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Kept {
			return connector.Fatalf("%s", f.What)
		}
	}
	return nil
}

// Match refuses a table that was made for another definition: it lacks columns, or its revisions are told apart
// by others than those of the key. There may be none yet.
func (s *Store) Match(ctx context.Context) error {
	have, order, err := s.There(ctx)
	if err != nil || len(have) == 0 {
		return err
	}
	name := s.L.Table.Name
	var missing []types.Field
	for _, f := range s.L.Table.Columns {
		if !slices.Contains(have, f.Name) {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		return connector.Fatalf("table %s: column '%s' does not exist in its target, which has %s; write results with other columns into another table, or %s",
			name, missing[0].Name, strings.Join(have, ", "), s.Add(missing))
	}
	if order == nil {
		return nil
	}
	var want []string
	for _, f := range s.L.Key {
		want = append(want, f.Name)
	}
	if g := s.L.Of("generation"); g != "" {
		want = append(want, g)
	}
	want = append(want, s.L.Of("revision"))
	if !slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(want))) {
		return connector.Fatalf("table %s: its target tells revisions apart by (%s), and the definition here by (%s): its PRIMARY KEY is another one than that it was made for; write another table",
			name, strings.Join(order, ", "), strings.Join(want, ", "))
	}
	return nil
}

// Using opens a store, calls f and closes it.
func Using[S results.Store](open func() (S, error), f func(S) error) error {
	s, err := open()
	if err != nil {
		return connector.AsFatal(err)
	}
	err = f(s)
	if e := s.Close(); err == nil && e != nil {
		err = fmt.Errorf("close the store of results: %w", e)
	}
	return err
}
