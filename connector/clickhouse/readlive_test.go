package clickhouse

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/types"
)

// spelled are values that come back in another spelling.
var spelled = map[string]string{
	"7F3D0C2E-0000-4000-8000-00000000000a": "7f3d0c2e-0000-4000-8000-00000000000a",
	"7f3d0c2e00004000800000000000000b":     "7f3d0c2e-0000-4000-8000-00000000000b",
}

// TestAllTypesBack writes every type and reads it: what comes is what went in.
func TestAllTypesBack(t *testing.T) {
	for _, way := range []struct {
		compression string
		native      bool
	}{{"lz4", false}, {"none", false}, {"zstd", false}, {"lz4", true}, {"none", true}} {
		t.Run(fmt.Sprintf("native %t, %s", way.native, way.compression), func(t *testing.T) {
			r := live(t)
			d := def{name: "every", cols: []types.Field{{Name: "n", Type: types.IntType.NotNull()}}, native: way.native, options: map[string]string{"compression": way.compression}}
			ddl := "n Int32"
			rows, want := make([]row, 3), make([]string, 3)
			for i := range rows {
				rows[i], want[i] = put(int64(i)), fmt.Sprint(i)
			}
			for k, c := range typeCases {
				name := fmt.Sprintf("c%d", k)
				d.cols = append(d.cols, types.Field{Name: name, Type: c.typ})
				ddl += ", " + name + " " + c.ch
				for i := range rows {
					rows[i].Values = append(rows[i].Values, c.values[i])
					text := fmt.Sprint(c.values[i])
					switch {
					case c.values[i] == nil:
						text = "NULL"
					case strings.Contains(c.ch, "IPv6") && c.text[i] != null:
						text = c.text[i]
					case spelled[text] != "":
						text = spelled[text]
					}
					want[i] += " | " + text
				}
			}
			r.exec("CREATE TABLE DB.every (" + ddl + ") ENGINE = MergeTree ORDER BY n")
			r.write(r.open(d), 1, d.cols, rows...)
			got, err := r.readAll(d, nil, -1, nil)
			must(t, err)
			if len(got) != len(want) {
				t.Fatalf("%d rows", len(got))
			}
			for i := range want {
				g, w := strings.Split(got[i], " | "), strings.Split(want[i], " | ")
				for k := range w {
					if g[k] != w[k] {
						t.Errorf("row %d, %s from %s: %q, want %q", i, typeCases[max(k-1, 0)].typ, typeCases[max(k-1, 0)].ch, g[k], w[k])
					}
				}
			}
		})
	}
}

// TestReadConformance runs the suite of connectors over real tables, whose values are mostly defaults.
func TestReadConformance(t *testing.T) {
	for _, native := range []bool{false, true} {
		for _, by := range []string{"", " PARTITION BY id % 3"} {
			t.Run(fmt.Sprintf("native %t%s", native, by), func(t *testing.T) {
				r := live(t)
				r.exec("CREATE TABLE DB.kv (id Int64, v Nullable(String), sparse Int64) ENGINE = MergeTree ORDER BY id"+by+" SETTINGS ratio_of_defaults_for_sparse_serialization = 0.5",
					"INSERT INTO DB.kv SELECT number, if(number % 10 = 0, NULL, toString(number)), number = 77 FROM numbers(500)")
				var rows []string
				for i := range 500 {
					v := fmt.Sprint(i)
					if i%10 == 0 {
						v = "NULL"
					}
					rows = append(rows, fmt.Sprintf("%d | %s | %d", i, v, map[bool]int{true: 1}[i == 77]))
				}
				cols := append(slices.Clone(pair), types.Field{Name: "sparse", Type: types.BigIntType})
				connectortest.TestSource(t, connectortest.SourceCase{Table: r.table(def{name: "kv", cols: cols, native: native}), Rows: rows})
			})
		}
	}
}

// TestReadKinds reads tables of other engines: what is replaced, a view, one in memory, one over others.
func TestReadKinds(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.new (id Int64, v String, n UInt64) ENGINE = ReplacingMergeTree(n) ORDER BY id",
		"INSERT INTO DB.new VALUES (1, 'a', 1), (2, 'b', 1)", "INSERT INTO DB.new VALUES (1, 'c', 2)",
		"CREATE TABLE DB.mem (id Int64, v LowCardinality(Nullable(String))) ENGINE = Memory", "INSERT INTO DB.mem VALUES (1, 'a'), (2, NULL)",
		"CREATE VIEW DB.view AS SELECT id * 10 AS id, upper(v) AS v FROM DB.mem",
		"CREATE TABLE DB.wide (id UInt64, v String ALIAS toString(id)) ENGINE = MergeTree ORDER BY tuple()", "INSERT INTO DB.wide VALUES (9223372036854775808)")
	for _, native := range []bool{false, true} {
		for _, x := range []struct {
			table   string
			options map[string]string
			want    []string
			err     string
		}{
			{"new", nil, []string{"1 | c", "2 | b"}, ""},
			{"new", map[string]string{"scan.final": "false"}, []string{"1 | a", "1 | c", "2 | b"}, ""},
			{"mem", nil, []string{"1 | a", "2 | NULL"}, ""},
			{"view", map[string]string{"scan.order-by": "id DESC"}, []string{"20 | NULL", "10 | A"}, ""},
			{"mem", map[string]string{"scan.filter": "v IS NULL"}, []string{"2 | NULL"}, ""},
			{"wide", nil, nil, "9223372036854775808 (UInt64) does not fit BIGINT"},
			{"mem", map[string]string{"scan.order-by": "nothing"}, nil, "nothing"},
			{"mem", map[string]string{"clickhouse.settings.max_result_rows": "1"}, nil, "Limit for result exceeded"},
		} {
			got, err := r.readAll(def{name: x.table, cols: pair, native: native, options: x.options}, nil, -1, nil)
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Errorf("%s %v: %v, want %s", x.table, x.options, err, x.err)
				}
				continue
			}
			must(t, err)
			sameLines(t, fmt.Sprint(x.table, x.options), got, x.want)
		}
	}
}

// TestReadOnly reads as one who may do nothing else, and is told what hinders who writes.
func TestReadOnly(t *testing.T) {
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v Nullable(String)) ENGINE = MergeTree ORDER BY id", "INSERT INTO DB.kv VALUES (1, 'a')")
	for _, native := range []bool{false, true} {
		d := def{name: "kv", cols: pair, native: native, options: map[string]string{"clickhouse.settings.readonly": "1"}}
		got, err := r.readAll(d, nil, -1, nil)
		must(t, err)
		sameLines(t, "rows", got, []string{"1 | a"})
		w := r.writer(r.open(d))
		must(t, w.Write(t.Context(), batch(pair, put(int64(2), "b"))))
		if err := w.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "user 'default' is read-only there") {
			t.Errorf("native %t: written as a read-only user: %v", native, err)
		}
	}
}

// TestReadMuch reads a table of many blocks.
func TestReadMuch(t *testing.T) {
	const n = 300_000
	r := live(t)
	r.exec("CREATE TABLE DB.kv (id Int64, v Nullable(String)) ENGINE = MergeTree ORDER BY id PARTITION BY intDiv(id, 100000)",
		fmt.Sprintf("INSERT INTO DB.kv SELECT number, repeat('x', number %% 20) FROM numbers(%d)", n))
	for _, native := range []bool{false, true} {
		got, err := r.readAll(def{name: "kv", cols: pair, native: native}, []int{0}, -1, nil)
		must(t, err)
		if len(got) != n || got[0] != "0" || got[n-1] != fmt.Sprint(n-1) {
			t.Fatalf("native %t: %d rows", native, len(got))
		}
		if got, err = r.readAll(def{name: "kv", cols: pair, native: native}, nil, -1, map[string]int64{r.database + ".kv/0": 99_999, r.database + ".kv/1": math.MaxInt32}); err != nil || len(got) != 100_001 {
			t.Errorf("native %t, from positions: %d rows, %v", native, len(got), err)
		}
	}
}
