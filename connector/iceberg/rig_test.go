package iceberg

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// rig is a SQL catalog in a file and a warehouse in a folder.
type rig struct {
	t   testing.TB
	dir string
}

func newRig(t testing.TB) *rig { return &rig{t: t, dir: t.TempDir()} }

// table defines a table; more are pairs of options.
func (r *rig) table(name string, columns []types.Field, key []string, more ...string) *connector.Table {
	o := map[string]string{"connector": "iceberg", "catalog-type": "sql", "uri": "sqlite:///" + filepath.Join(r.dir, "catalog.db"),
		"warehouse": filepath.Join(r.dir, "warehouse"), "catalog-database": "db", "catalog-table": name}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return &connector.Table{Name: name, Connector: "iceberg", Columns: columns, PrimaryKey: key, Options: o}
}

// sink makes a sink of a table.
func (r *rig) sink(def *connector.Table, mode types.ChangelogMode) *sink {
	r.t.Helper()
	s, err := r.try(def, mode)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) try(def *connector.Table, mode types.ChangelogMode) (*sink, error) {
	f := connector.Lookup("iceberg")
	o := option.Of(def.Options, f.Options, connector.CommonOptions)
	if err := o.Check(nil); err != nil {
		return nil, err
	}
	if err := f.Check(def, o); err != nil {
		return nil, err
	}
	s, err := f.NewSink(connector.SinkConfig{Table: def, Options: o, Schema: def.Schema(), Mode: mode, Job: "job", Node: def.Name,
		Resolve: func(p string) string { return p }, Bad: func(b format.BadRecord) error { return b.Err }})
	if err != nil {
		return nil, err
	}
	return s.(*sink), nil
}

func (r *rig) writer(s *sink) connector.Writer {
	r.t.Helper()
	w, err := s.NewWriter(r.t.Context(), 0, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { w.Close() })
	return w
}

func (r *rig) committer(s *sink) connector.Committer {
	r.t.Helper()
	c, err := s.NewCommitter(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// Short names of what all tests of sinks have.
var (
	dec = connectortest.Decimal
	ts  = connectortest.Timestamp
	day = connectortest.Date
	ins = connectortest.Insert
	del = connectortest.Delete
)

type row = connectortest.Change

func (r *rig) put(w connector.Writer, def *connector.Table, rows ...row) {
	r.t.Helper()
	if err := w.Write(r.t.Context(), connectortest.Batch(def.Columns, rows...)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) prepare(w connector.Writer) []connector.Committable {
	r.t.Helper()
	cs, err := w.Prepare(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return cs
}

func (r *rig) commit(c connector.Committer, checkpoint int64, cs []connector.Committable) {
	r.t.Helper()
	if err := c.Commit(r.t.Context(), connector.CommitID{Lineage: "line", Checkpoint: checkpoint}, cs); err != nil {
		r.t.Fatal(err)
	}
}

// load loads a table through a catalog of its own.
func (r *rig) load(def *connector.Table) *table.Table {
	r.t.Helper()
	s := r.sink(def, types.InsertOnly)
	done := s.use()
	defer done()
	t, err := s.load(context.WithoutCancel(r.t.Context()))
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// rows reads a table with the library.
func (r *rig) rows(def *connector.Table) []string {
	r.t.Helper()
	return rowsOf(r.t, r.load(def))
}

func rowsOf(t testing.TB, tab *table.Table) []string {
	t.Helper()
	ctx := context.Background()
	schema, batches, err := tab.Scan().ToArrowRecords(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rec, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			var parts []string
			for c := range schema.NumFields() {
				parts = append(parts, valueText(rec.Column(c), i))
			}
			out = append(out, strings.Join(parts, " | "))
		}
		rec.Release()
	}
	slices.Sort(out)
	return out
}

func valueText(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "NULL"
	}
	return a.ValueStr(i)
}

// dataFiles lists the data files of a table that lie in the warehouse, by whether a snapshot has them.
func (r *rig) dataFiles(def *connector.Table) (used, orphans []string) {
	r.t.Helper()
	live := map[string]bool{}
	root := filepath.Join(r.dir, "warehouse")
	if s := r.load(def).CurrentSnapshot(); s != nil {
		ms, err := s.Manifests(localIO{})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, m := range ms {
			for e, err := range m.Entries(localIO{}, true) {
				if err != nil {
					r.t.Fatal(err)
				}
				live[e.DataFile().FilePath()] = true
			}
		}
	}
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".parquet") {
			if live[p] {
				used = append(used, p)
			} else {
				orphans = append(orphans, p)
			}
		}
		return nil
	})
	return used, orphans
}

func sameRows(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d rows, want %d\n got %q\nwant %q", what, len(got), len(want), got, want)
	}
}

// summaries are the checkpoints of the snapshots of a table, the oldest first.
func summaries(tab *table.Table) (out []string) {
	for s := tab.CurrentSnapshot(); s != nil; s = parent(tab, s) {
		out = append([]string{fmt.Sprintf("%s %s/%s", s.Summary.Operation, s.Summary.Properties[propLineage], s.Summary.Properties[propCheckpoint])}, out...)
	}
	return out
}
