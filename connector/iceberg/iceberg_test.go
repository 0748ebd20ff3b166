package iceberg

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/types"
)

var twoColumns = []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: "name", Type: types.StringType}}

func conformanceRows(kinds ...types.RowKind) []connectortest.Row {
	var out []connectortest.Row
	for i, name := range []types.Value{"one", "", nil, "\u00e9", "five"} {
		text := fmt.Sprint(name)
		if name == nil {
			text = "NULL"
		}
		out = append(out, connectortest.Row{Kind: types.Insert, Values: []types.Value{int64(i), name}, Text: fmt.Sprintf("%d | %s", i, text)})
	}
	return out
}

// TestConformance runs the suite of all sinks.
func TestConformance(t *testing.T) {
	for _, way := range []struct {
		name string
		more []string
	}{
		{"append", nil},
		{"partitioned", nil},
		{"at least once", []string{"sink.delivery-guarantee", "at-least-once"}},
		{"object store paths", []string{"write.object-storage.enabled", "true"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			connectortest.TestSink(t, connectortest.SinkCase{Rows: conformanceRows(), Numbered: true, New: func(t testing.TB) connectortest.Target {
				r := newRig(t)
				def := r.table("t", twoColumns, nil, way.more...)
				if way.name == "partitioned" {
					def.PartitionKeys = []string{"name"}
				}
				return connectortest.Target{Table: def, Visible: func() []string { return r.rows(def) },
					Config:    func(c *connector.SinkConfig) { c.Job, c.Node = "job", "node" },
					Leftovers: func() []string { _, o := r.dataFiles(def); return o }}
			}})
		})
	}
}

// TestCrash goes through the places where a process may end around a commit.
func TestCrash(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil)
	s := r.sink(def, types.InsertOnly)
	w, c := r.writer(s), r.committer(s)
	r.put(w, def, ins(int64(1), "a"), ins(int64(2), "b"))
	first := r.prepare(w)
	r.put(w, def, ins(int64(3), "c"))
	second := r.prepare(w)
	sameRows(t, "prepared", r.rows(def))

	// The process ends between the files and the commit: another one commits.
	other := r.sink(def, types.InsertOnly)
	oc := r.committer(other)
	r.commit(oc, 1, first)
	sameRows(t, "committed by another process", r.rows(def), "1 | a", "2 | b")
	// It ends between the commit and the note of it: it is committed again, also by the first one.
	r.commit(oc, 1, first)
	r.commit(c, 1, first)
	third := r.committer(r.sink(def, types.InsertOnly))
	r.commit(third, 1, first)
	r.commit(third, 2, second)
	r.commit(third, 2, second)
	sameRows(t, "both", r.rows(def), "1 | a", "2 | b", "3 | c")
	sameRows(t, "snapshots", summaries(r.load(def)), "append line/1", "append line/2")
}

// TestConcurrent has committers race: all output is there once, and the same output of two of them too.
func TestConcurrent(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, nil)
	const sinks, epochs = 4, 5
	var wg sync.WaitGroup
	var want []string
	r.writer(r.sink(def, types.InsertOnly)) // makes the table
	for k := range sinks {
		s := r.sink(def, types.InsertOnly)
		w := r.writer(s)
		a, b := r.committer(s), r.committer(r.sink(def, types.InsertOnly))
		var cs [epochs][]connector.Committable
		for e := range epochs {
			id := int64(100*k + e)
			r.put(w, def, ins(id, "x"))
			want = append(want, fmt.Sprintf("%d | x", id))
			cs[e] = r.prepare(w)
		}
		for _, c := range []connector.Committer{a, b} {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for e, x := range cs {
					if err := c.Commit(t.Context(), connector.CommitID{Lineage: fmt.Sprint(k), Checkpoint: int64(e + 1)}, x); err != nil {
						t.Errorf("sink %d, epoch %d: %v", k, e, err)
					}
				}
			}()
		}
	}
	wg.Wait()
	sameRows(t, "all", r.rows(def), want...)
	if n := len(summaries(r.load(def))); n != sinks*epochs {
		t.Errorf("%d snapshots, want %d", n, sinks*epochs)
	}
}

// TestUpsert replaces and deletes rows over several epochs.
func TestUpsert(t *testing.T) {
	for _, by := range [][]string{nil, {"id"}} {
		t.Run(strings.Join(by, ","), func(t *testing.T) {
			r := newRig(t)
			def := r.table("t", twoColumns, []string{"id"}, "upsert-enabled", "true")
			def.PartitionKeys = by
			s := r.sink(def, types.Upsert)
			w, c := r.writer(s), r.committer(s)
			r.put(w, def, ins(int64(1), "a"), ins(int64(2), "b"), ins(int64(1), "a2"), ins(int64(3), "c"))
			r.put(w, def, del(int64(3), nil), row{Kind: types.UpdateAfter, Values: []types.Value{int64(2), "b2"}})
			r.commit(c, 1, r.prepare(w))
			sameRows(t, "first", r.rows(def), "1 | a2", "2 | b2")
			r.put(w, def, row{Kind: types.UpdateAfter, Values: []types.Value{int64(1), "a3"}}, del(int64(2), nil), ins(int64(4), nil), row{Kind: types.UpdateBefore, Values: []types.Value{int64(7), "x"}})
			r.commit(c, 2, r.prepare(w))
			sameRows(t, "second", r.rows(def), "1 | a3", "4 | NULL")
			r.put(w, def, del(int64(1), nil), del(int64(4), nil))
			r.commit(c, 3, r.prepare(w))
			sameRows(t, "third", r.rows(def))
			sameRows(t, "snapshots", summaries(r.load(def)), "overwrite line/1", "overwrite line/2", "delete line/3")
			if ids := r.load(def).Schema().IdentifierFieldIDs; len(ids) != 1 || ids[0] != 1 {
				t.Errorf("identifier fields are %v", ids)
			}
		})
	}
}

// TestRetract writes a changelog without upserts: insertions delete nothing.
func TestRetract(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, []string{"id"})
	s := r.sink(def, types.Retract)
	w, c := r.writer(s), r.committer(s)
	ub := func(v ...types.Value) row { return row{Kind: types.UpdateBefore, Values: v} }
	ua := func(v ...types.Value) row { return row{Kind: types.UpdateAfter, Values: v} }
	r.put(w, def, ins(int64(1), "a"), ub(int64(1), "a"), ua(int64(1), "a2"), ins(int64(2), "b"), ins(int64(3), "c"), del(int64(3), "c"))
	r.commit(c, 1, r.prepare(w))
	sameRows(t, "first", r.rows(def), "1 | a2", "2 | b")
	r.put(w, def, ub(int64(1), "a2"), ua(int64(1), "a3"), del(int64(2), "b"), ins(int64(4), "d"))
	r.commit(c, 2, r.prepare(w))
	sameRows(t, "second", r.rows(def), "1 | a3", "4 | d")
	sameRows(t, "snapshots", summaries(r.load(def)), "append line/1", "overwrite line/2")
}

// TestSteps has more keys in an epoch than there is memory for: several snapshots of one commit.
func TestSteps(t *testing.T) {
	r := newRig(t)
	def := r.table("t", twoColumns, []string{"id"}, "upsert-enabled", "true", "sink.buffer-memory", "1 mb")
	s := r.sink(def, types.Upsert)
	w, c := r.writer(s), r.committer(s)
	want := map[int64]string{}
	text := strings.Repeat("x", 100)
	for round := range 3 {
		for from := int64(0); from < 12_000; from += 1000 {
			var rows []row
			for id := from; id < from+1000; id++ {
				if round == 2 && id%3 == 0 {
					rows = append(rows, del(id, nil))
					delete(want, id)
					continue
				}
				want[id] = fmt.Sprintf("%d %s", round, text)
				rows = append(rows, ins(id, want[id]))
			}
			r.put(w, def, rows...)
		}
	}
	cs := r.prepare(w)
	r.commit(c, 1, cs)
	r.commit(c, 1, cs)
	var all []string
	for id, v := range want {
		all = append(all, fmt.Sprintf("%d | %s", id, v))
	}
	sameRows(t, "all", r.rows(def), all...)
	if n := len(summaries(r.load(def))); n < 2 || n > 12 {
		t.Errorf("%d snapshots", n)
	}
}

// TestRefused are definitions that cannot work, and tables that do not fit.
func TestRefused(t *testing.T) {
	r := newRig(t)
	typed := func(name string, typ types.Type) []types.Field {
		return []types.Field{{Name: "id", Type: types.BigIntType.NotNull()}, {Name: name, Type: typ}}
	}
	base := r.table("t", append(typed("v", types.DecimalType(10, 2)), types.Field{Name: "at", Type: types.TimestampType(6)}), nil)
	r.writer(r.sink(base, types.InsertOnly))
	parted := r.table("p", twoColumns, nil)
	parted.PartitionKeys = []string{"name"}
	r.writer(r.sink(parted, types.InsertOnly))
	for _, x := range []struct {
		name string
		def  *connector.Table
		want string
	}{
		{"no key", r.table("t", twoColumns, nil, "upsert-enabled", "true"), "has none"},
		{"key of floats", r.table("x", typed("v", types.DoubleType.NotNull()), []string{"v"}), "'v' of the PRIMARY KEY is DOUBLE"},
		{"key of nanoseconds", r.table("x", typed("v", types.TimestampType(9).NotNull()), []string{"v"}), "loses digits"},
		{"orc", r.table("x", twoColumns, nil, "write.format.default", "orc"), "files of format 'orc'"},
		{"codec", r.table("x", twoColumns, nil, "write.parquet.compression-codec", "lzma"), "'lzma'"},
		{"size", r.table("x", twoColumns, nil, "write.target-file-size-bytes", "512 potatoes"), "'write.target-file-size-bytes' = '512 potatoes' is no size"},
		{"boolean", r.table("x", twoColumns, nil, "write.object-storage.enabled", "perhaps"), "'write.object-storage.enabled' = 'perhaps' is neither true nor false"},
		{"metrics", r.table("x", twoColumns, nil, "write.metadata.metrics.column.id", "truncate(x)"), "is no mode of metrics"},
		{"no folder", r.table("x", twoColumns, nil, "uri", "sqlite:////not/there/a b.db"), "SQL catalog /not/there/a b.db: "},
		{"hive", r.table("x", twoColumns, nil, "catalog-type", "hive"), "cannot be 'hive'"},
		{"mysql", r.table("x", twoColumns, nil, "uri", "jdbc:mysql://x/y"), "databases of type 'mysql'"},
		{"outside", r.table("x", twoColumns, nil, "catalog-table", "../../esc"), "is no name in a catalog"},
		{"no namespace", r.table("x", twoColumns, nil, "catalog-database", ""), "is no name in a catalog"},
		{"version", r.table("x", twoColumns, nil, "format-version", "1"), "format version 1"},
		{"version 3", r.table("x", twoColumns, nil, "format-version", "3"), "format version 3 is not supported yet"},
		{"interval", r.table("x", typed("v", types.Type{Kind: types.IntervalDayTime, Nullable: true}), nil), "'v': type INTERVAL"},
		{"missing", r.table("x", twoColumns, nil, "sink.create-table", "false"), "does not exist"},
		{"types", r.table("t", typed("v", types.StringType), nil), "column 'v' is STRING here and decimal(10, 2) in the table"},
		{"wider", r.table("t", typed("v", types.DecimalType(12, 2)), nil), "column 'v' is DECIMAL(12, 2) here and decimal(10, 2)"},
		{"extra", r.table("t", typed("w", types.StringType), nil), "column 'w' (STRING) does not exist in the table; there are id, v, at"},
		{"null", r.table("t", []types.Field{{Name: "id", Type: types.BigIntType}}, nil), "column 'id' is BIGINT here, so may be NULL"},
		{"absent", r.table("t", []types.Field{{Name: "v", Type: types.DecimalType(10, 2)}}, nil), "column 'id' (long) is required"},
		{"partition", r.table("p", twoColumns, []string{"id"}, "upsert-enabled", "true"), "partitioned by identity of 'name', which is not in the PRIMARY KEY"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, err := r.try(x.def, types.Upsert)
			if len(x.def.PrimaryKey) == 0 && err == nil {
				s, err = r.try(x.def, types.InsertOnly)
			}
			if err == nil {
				_, err = s.NewWriter(t.Context(), 0, 1)
				var f *connector.Fatal
				if err != nil && !errors.As(err, &f) {
					t.Errorf("a restart would not heal it: %v", err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v\nwant %s", err, x.want)
			}
		})
	}
	key := r.table("x", twoColumns, []string{"id"})
	key.PartitionKeys = []string{"name"}
	if _, err := r.try(key, types.Upsert); err == nil || !strings.Contains(err.Error(), "not in the PRIMARY KEY") {
		t.Errorf("planning: %v", err)
	}
}

// TestProperties refuses tables whose own properties mean nothing, and says where they are.
func TestProperties(t *testing.T) {
	for _, x := range [][3]string{
		{"write.parquet.page-size-bytes", "-1", "its property 'write.parquet.page-size-bytes' is '-1', which is no size"},
		{"write.metadata.metrics.default", "some", "which is no mode of metrics"},
		{"write.upsert.enabled", "1", "which is neither true nor false"},
		{"write.parquet.compression-level", "high", "'write.parquet.compression-level'"},
		{"write.metadata.metrics.default", "truncate( 20 )", ""}, {"write.target-file-size-bytes", "536870912", ""}, {"write.parquet.page-size-bytes", "1 mb", ""},
		{"write.object-storage.enabled", "TRUE", ""}, {"write.something.else", "whatever", ""},
	} {
		err := (properties{map[string]string{x[0]: x[1]}}).checkTable()
		if x[2] == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), x[2]) {
			t.Errorf("%s = %s: %v, want %q", x[0], x[1], err, x[2])
		}
	}
}

// TestRelative keeps whole paths of a warehouse that is given by a relative one: others read it elsewhere.
func TestRelative(t *testing.T) {
	r := newRig(t)
	t.Chdir(r.dir)
	def := r.table("t", twoColumns, nil, "warehouse", "lake")
	r.writer(r.sink(def, types.InsertOnly))
	if at := r.load(def).Location(); at != filepath.Join(r.dir, "lake", "db", "t") {
		t.Errorf("the table is at %s", at)
	}
}
