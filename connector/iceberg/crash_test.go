package iceberg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// faulty is a catalog that loses answers, or refuses.
type faulty struct {
	catalogue
	before, after func() error // around a commit
}

func (f *faulty) load(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	t, err := f.catalogue.load(ctx, ident)
	if err != nil {
		return nil, err
	}
	return table.New(ident, t.Metadata(), t.MetadataLocation(), t.FS, f), nil
}

// LoadTable implements table.CatalogIO.
func (f *faulty) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	return f.load(ctx, ident)
}

// CommitTable implements table.CatalogIO.
func (f *faulty) CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, "", err
		}
	}
	m, l, err := f.catalogue.(*sqlCatalog).CommitTable(ctx, ident, reqs, updates)
	if err == nil && f.after != nil {
		err = f.after()
	}
	return m, l, err
}

// TestLostAnswers has commits of which nobody hears, and catalogs that are away for a while.
func TestLostAnswers(t *testing.T) {
	for _, x := range []struct {
		name string
		fail func(f *faulty, err error)
	}{
		{"answer lost", func(f *faulty, err error) { f.after = once(err) }},
		{"away", func(f *faulty, err error) { f.before = once(err) }},
		{"overtaken", func(f *faulty, _ error) { f.before = once(table.ErrCommitFailed) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t)
			def := r.table("t", twoColumns, nil)
			s := r.sink(def, types.InsertOnly)
			open := s.open
			s.open = func(ctx context.Context) (catalogue, error) {
				c, err := open(ctx)
				f := &faulty{catalogue: c}
				x.fail(f, errors.New("connection reset"))
				return f, err
			}
			w, c := r.writer(s), r.committer(s)
			r.put(w, def, ins(int64(1), "a"))
			r.commit(c, 1, r.prepare(w))
			sameRows(t, "rows", r.rows(def), "1 | a")
			if n := len(summaries(r.load(def))); n != 1 {
				t.Errorf("%d snapshots", n)
			}
		})
	}
}

func once(err error) func() error {
	return func() error {
		e := err
		err = nil
		return e
	}
}

// TestAway gives up on a catalog that stays away, and at once on one that refuses.
func TestAway(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		err   error
		fatal bool
	}{{errors.New("connection refused"), false}, {connector.Fatalf("wrong password"), true}} {
		def := r.table("t", twoColumns, nil, "sink.max-retry-timeout", "200 ms")
		s := r.sink(def, types.InsertOnly)
		w, c := r.writer(s), r.committer(s)
		r.put(w, def, ins(int64(1), "a"))
		cs := r.prepare(w)
		s.mu.Lock()
		s.cat = &faulty{catalogue: s.cat, before: func() error { return x.err }}
		s.mu.Unlock()
		from := time.Now()
		err := c.Commit(t.Context(), connector.CommitID{Lineage: "l", Checkpoint: 1}, cs)
		var f *connector.Fatal
		if err == nil || errors.As(err, &f) != x.fatal || !strings.Contains(err.Error(), "db.t") || time.Since(from) > 20*time.Second {
			t.Errorf("%v after %s", err, time.Since(from))
		}
	}
}

// TestAtMostOnce drops what cannot be committed.
func TestAtMostOnce(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil, "sink.delivery-guarantee", "none", "sink.max-retry-timeout", "100 ms")
	s := r.sink(def, types.InsertOnly)
	w := r.writer(s)
	real := s.cat
	s.cat = &faulty{catalogue: real, before: func() error { return errors.New("connection refused") }}
	r.put(w, def, ins(int64(1), "lost"))
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.cat = real
	r.put(w, def, ins(int64(2), "kept"))
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "rows", r.rows(def), "2 | kept")
	if _, orphans := r.dataFiles(def); len(orphans) > 0 {
		t.Errorf("left behind: %v", orphans)
	}
}

// deaf is a catalog that stays away for one request after a commit of which nobody heard.
type deaf struct {
	faulty
	loads func() error
}

func (d *deaf) load(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	if d.loads != nil {
		if err := d.loads(); err != nil {
			return nil, err
		}
	}
	return d.faulty.load(ctx, ident)
}

// TestRemove_Committed gives up on a commit that the catalog has carried out: its files stay.
func TestRemove_Committed(t *testing.T) {
	for _, guarantee := range []string{"none", "exactly-once"} {
		t.Run(guarantee, func(t *testing.T) {
			r := newRig(t)
			def := r.table("t", twoColumns, nil, "sink.delivery-guarantee", guarantee, "sink.max-retry-timeout", "1 ms")
			s := r.sink(def, types.InsertOnly)
			w := r.writer(s)
			lost := errors.New("connection reset")
			d := &deaf{faulty: faulty{catalogue: s.cat}}
			d.after = func() error {
				d.after, d.loads = nil, once(lost)
				return lost
			}
			s.mu.Lock()
			s.cat = d
			s.mu.Unlock()
			r.put(w, def, ins(int64(1), "a"))
			if guarantee == "none" {
				if err := w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				c, cs := r.committer(s), r.prepare(w)
				if err := c.Commit(t.Context(), connector.CommitID{}, cs); !errors.Is(err, lost) {
					t.Fatalf("the commit says %v", err)
				}
				r.put(w, def, ins(int64(2), "b"))
				cs = append(cs, r.prepare(w)...)
				if err := c.Abort(t.Context(), cs); err != nil {
					t.Fatal(err)
				}
			}
			if d.after != nil || d.loads == nil || d.loads() != nil {
				t.Fatal("the catalog was not away")
			}
			sameRows(t, "rows", r.rows(def), "1 | a")
			if _, orphans := r.dataFiles(def); len(orphans) > 0 {
				t.Errorf("left behind: %v", orphans)
			}
		})
	}
}

// TestRemove_RolledBack keeps the files of a snapshot that is there and not the current one's parent.
func TestRemove_RolledBack(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	r.put(w, def, ins(int64(1), "a"))
	r.commit(c, 1, r.prepare(w))
	before := r.load(def).CurrentSnapshot().SnapshotID
	r.put(w, def, ins(int64(2), "b"))
	cs := r.prepare(w)
	r.commit(c, 2, cs)
	hold := s.use()
	defer hold()
	tab, err := s.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := []table.Update{table.NewSetSnapshotRefUpdate(table.MainBranch, before, table.BranchRef, 0, 0, 0)}
	if _, _, err := s.cat.(*sqlCatalog).CommitTable(t.Context(), s.identifier(), nil, back); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "rolled back", r.rows(def), "1 | a")
	if err := c.Abort(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	back[0] = table.NewSetSnapshotRefUpdate(table.MainBranch, tab.CurrentSnapshot().SnapshotID, table.BranchRef, 0, 0, 0)
	if _, _, err := s.cat.(*sqlCatalog).CommitTable(t.Context(), s.identifier(), nil, back); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "rolled forward", r.rows(def), "1 | a", "2 | b")
}

// TestExpired commits again when the snapshot that would say so has expired.
func TestExpired(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	r.put(w, def, ins(int64(0), "z"))
	r.commit(c, 1, r.prepare(w))
	r.put(w, def, ins(int64(1), "a"))
	done := r.prepare(w)
	r.put(w, def, ins(int64(2), "b"))
	pending := r.prepare(w)
	r.commit(c, 2, done)
	for n := range int64(3) { // of another job
		o := r.sink(def, types.InsertOnly)
		ow := r.writer(o)
		r.put(ow, def, ins(100+n, "other"))
		r.commit(r.committer(o), n+1, r.prepare(ow))
	}
	hold := s.use()
	defer hold()
	tab, err := s.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := tab.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"0 | z", "1 | a", "100 | other", "101 | other", "102 | other"}
	again := r.committer(r.sink(def, types.InsertOnly))
	r.commit(again, 2, done)
	sameRows(t, "committed before", r.rows(def), want...)
	r.commit(again, 3, pending)
	sameRows(t, "not committed before", r.rows(def), append(want, "2 | b")...)

	// Its file is gone: nobody can tell, and nothing is made up.
	r.put(w, def, ins(int64(3), "c"))
	lost := r.prepare(w)
	ps, err := decode(lost)
	if err != nil {
		t.Fatal(err)
	}
	ps[0].Base = 1 // expired long ago
	c3, _ := ps[0].encode()
	os.Remove(ps[0].Steps[0].Files[0].Path)
	err = again.Commit(t.Context(), connector.CommitID{Lineage: "line", Checkpoint: 4}, []connector.Committable{c3})
	var f *connector.Fatal
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("%v", err)
	}
}

// TestOtherTable refuses output for a table that was dropped and made anew.
func TestOtherTable(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	r.put(w, def, ins(int64(1), "a"))
	cs := r.prepare(w)
	if _, err := s.cat.(*sqlCatalog).db.Exec("DELETE FROM iceberg_tables"); err != nil {
		t.Fatal(err)
	}
	r.writer(r.sink(def, types.InsertOnly))
	err := c.Commit(t.Context(), connector.CommitID{Lineage: "line", Checkpoint: 1}, cs)
	var f *connector.Fatal
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "is now another") {
		t.Errorf("%v", err)
	}
}

// TestManyCommits lets manifests be merged: all rows stay.
func TestManyCommits(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil, "commit.manifest.min-count-to-merge", "4")
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	var want []string
	for n := range int64(30) {
		r.put(w, def, ins(n, "x"))
		r.commit(c, n+1, r.prepare(w))
		want = append(want, fmt.Sprintf("%d | x", n))
	}
	tab := r.load(def)
	sameRows(t, "rows", rowsOf(t, tab), want...)
	ms, err := tab.CurrentSnapshot().Manifests(localIO{})
	if err != nil || len(ms) > 6 {
		t.Errorf("%d manifests, %v", len(ms), err)
	}
}

// TestRolling bounds files by size, memory, and the number of open files.
func TestRolling(t *testing.T) {
	for _, x := range []struct{ most, batches, large int }{{mostOpen, 30, 10}, {8, 3, 0}} {
		r := newRig(t)
		columns := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "p", Type: types.IntType}, {Name: "s", Type: types.StringType}}
		def := r.table("t", columns, nil, "target-file-size-bytes", "100 kb", "sink.buffer-memory", "1 mb", "compression-codec", "uncompressed")
		def.PartitionKeys = []string{"p"}
		s := r.sink(def, types.InsertOnly)
		w, c := r.writer(s), r.committer(s)
		f := w.(*user).Writer.(*appender).files
		f.most = x.most
		var most int64
		n := int64(0)
		for range x.batches {
			var rows []row
			for range 1000 {
				p := n % 5
				if n%10 == 0 {
					p = n / 10 % 20
				}
				rows = append(rows, ins(n, p, fmt.Sprintf("%d %s", n*7919, strings.Repeat("y", int(n%90)))))
				n++
			}
			r.put(w, def, rows...)
			var held int64
			for _, o := range f.open {
				held += o.held()
			}
			most = max(most, held)
			if len(f.open) > x.most {
				t.Fatalf("%d files are open", len(f.open))
			}
		}
		if most > 1<<20 || most == 0 {
			t.Errorf("%d bytes are held", most)
		}
		r.commit(c, 1, r.prepare(w))
		if got := len(rowsOf(t, r.load(def))); int64(got) != n {
			t.Errorf("%d rows, want %d", got, n)
		}
		used, _ := r.dataFiles(def)
		large := 0
		for _, p := range used {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > 300<<10 {
				t.Errorf("%s has %d bytes", filepath.Base(p), info.Size())
			}
			if info.Size() > 80<<10 {
				large++
			}
		}
		if large < x.large {
			t.Errorf("%d of %d files have the size that was asked for", large, len(used))
		}
	}
}

// TestHidden writes into a table with partitions that SQL cannot define, and with fields that it does not
// write.
func TestHidden(t *testing.T) {
	r := newRig(t)
	columns := []types.Field{{Name: "id", Type: types.BigIntType}, {Name: "at", Type: types.TimestampLTZType(3)}}
	def := r.table("t", columns, nil)
	s := r.sink(def, types.InsertOnly)
	hold := s.use()
	defer hold()
	cat, err := s.catalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "more", Type: iceberg.StringType{}}, iceberg.NestedField{ID: 2, Name: "id", Type: iceberg.Int64Type{}},
		iceberg.NestedField{ID: 3, Name: "at", Type: iceberg.TimestampTzType{}})
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "at_day", Transform: iceberg.DayTransform{}},
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 3}})
	if err := cat.create(t.Context(), s.identifier(), schema, &spec, iceberg.Properties{"format-version": "2"}, ""); err != nil {
		t.Fatal(err)
	}
	w, c := r.writer(s), r.committer(s)
	var want []string
	for i := range int64(20) {
		r.put(w, def, ins(i, types.TS(i*20_000_000, 0)))
		want = append(want, fmt.Sprintf("NULL | %d", i))
	}
	r.put(w, def, ins(nil, nil))
	want = append(want, "NULL | NULL")
	r.commit(c, 1, r.prepare(w))
	var got []string
	for _, l := range r.rows(def) {
		got = append(got, strings.Join(strings.Split(l, " | ")[:2], " | "))
	}
	sameRows(t, "rows", got, want...)
	used, _ := r.dataFiles(def)
	if len(used) < 12 || !slices.ContainsFunc(used, func(p string) bool { return strings.Contains(p, "at_day=1970-01-02/id_bucket=") }) {
		t.Errorf("files: %v", used)
	}
}

// TestDatabase reads addresses of SQL catalogs as other programs spell them.
func TestDatabase(t *testing.T) {
	for _, x := range [][3]string{
		{"jdbc:sqlite:/a b.db", "sqlite", "file:/x/a%20b.db?"},
		{"sqlite:///rel.db", "sqlite", "file:/x/rel.db?"},
		{"sqlite:////abs.db", "sqlite", "file:/x/abs.db?"},
		{"jdbc:postgresql://h:1/d?user=u&password=p", "pgx", "postgres://u:p@h:1/d"},
		{"postgresql+psycopg2://me:pw@h/d", "pgx", "postgres://me:pw@h/d"},
		{"sqlite::memory:", "", "in memory"}, {"nonsense", "", "no address"}, {"mysql://h/d", "", "'mysql'"},
	} {
		driver, source, err := database(x[0], "", "", func(p string) string { return filepath.Join("/x", p) })
		if err != nil {
			source = err.Error()
		}
		if driver != x[1] || !strings.Contains(source, x[2]) {
			t.Errorf("%s: %s %s, want %s %s", x[0], driver, source, x[1], x[2])
		}
	}
}
