package clickhouse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// reading is a table of the fake that is read: n rows a partition, in blocks.
type reading struct {
	f     *fake
	n     int
	block int
	// trouble is asked before each block, with the number of the SELECT, from 1, and of the block: true ends
	// the connection, text is what the server says then.
	trouble func(query, block int) (cut bool, text string)
	queries int
}

func newReading(t testing.TB, n, block int, partitions ...string) *reading {
	r := &reading{f: newFake(t), n: n, block: block}
	r.f.parted, r.f.partitions = len(partitions) > 0, partitions
	r.f.selects = r.answer
	return r
}

var (
	offsetOf    = regexp.MustCompile(`OFFSET (\d+)`)
	limitOf     = regexp.MustCompile(`LIMIT (\d+)`)
	partitionOf = regexp.MustCompile(`_partition_id = '(.*?)'`)
)

func number(re *regexp.Regexp, sql string, def int) int {
	if m := re.FindStringSubmatch(sql); m != nil {
		def, _ = strconv.Atoi(m[1])
	}
	return def
}

// first is the id of the first row of a partition.
func (r *reading) first(sql string) int {
	if m := partitionOf.FindStringSubmatch(sql); m != nil {
		return 1000 * slices.Index(r.f.partitions, m[1])
	}
	return 0
}

func (r *reading) answer(w http.ResponseWriter, sql string, packed bool) {
	r.queries++
	base, from := r.first(sql), number(offsetOf, sql, 0)
	end := min(r.n, from+number(limitOf, sql, r.n))
	write := func(b []byte) {
		if packed {
			p := compress.NewWriter(compress.LevelZero, compress.LZ4)
			if err := p.Compress(b); err != nil {
				r.f.t.Error(err)
			}
			b = p.Data
		}
		w.Write(b)
	}
	one, two := strings.Contains(sql, "`id`"), strings.Contains(sql, "`v`")
	for n := 0; from < end; n++ {
		if r.trouble != nil {
			cut, text := r.trouble(r.queries, n)
			io.WriteString(w, text)
			if cut {
				panic(http.ErrAbortHandler)
			}
			if text != "" {
				return
			}
		}
		to := min(end, from+r.block)
		write(testBlock(base+from, base+to, one, two))
		w.(http.Flusher).Flush()
		from = to
	}
}

// testBlock is a block of rows lo..hi-1; every tenth v is NULL.
func testBlock(lo, hi int, one, two bool) []byte {
	cols := 0
	var body []byte
	if one {
		cols++
		body = appendString(appendString(body, "id"), "Int64")
		for i := lo; i < hi; i++ {
			body = le.AppendUint64(body, uint64(i))
		}
	}
	if two {
		cols++
		body = appendString(appendString(body, "v"), "Nullable(String)")
		for i := lo; i < hi; i++ {
			body = append(body, map[bool]byte{true: 1}[i%10 == 0])
		}
		for i := lo; i < hi; i++ {
			body = appendString(body, map[bool]string{false: fmt.Sprint("v", i)}[i%10 == 0])
		}
	}
	if cols == 0 {
		cols = 1
		body = append(appendString(appendString(body, "toUInt8(0)"), "UInt8"), make([]byte, hi-lo)...)
	}
	return append(appendHead(nil, cols, hi-lo), body...)
}

func readRows(lo, hi int) (out []string) {
	for i := lo; i < hi; i++ {
		v := fmt.Sprint("v", i)
		if i%10 == 0 {
			v = "NULL"
		}
		out = append(out, fmt.Sprintf("%d | %s", i, v))
	}
	return out
}

// open makes a source of a table here; wanted are the columns that are read, nil for all.
func (r *rig) source(d def, wanted []int, limit int64) (connector.Source, error) {
	t := r.table(d)
	f := connector.Lookup("clickhouse")
	o := option.Of(t.Options, f.Options, connector.CommonOptions)
	if err := o.Check(nil); err != nil {
		return nil, err
	}
	if wanted == nil {
		for i := range t.Columns {
			wanted = append(wanted, i)
		}
	}
	return f.NewSource(connector.SourceConfig{Table: t, Options: o, Columns: wanted, Limit: limit, Resolve: func(p string) string { return p },
		Warn: func(msg string) { fmt.Fprintln(&r.warn, msg) }})
}

// readAll reads all splits of a source, from positions where there are some, and returns the rows as text.
func (r *rig) readAll(d def, wanted []int, limit int64, from map[string]int64) ([]string, error) {
	r.t.Helper()
	s, err := r.source(d, wanted, limit)
	if err != nil {
		return nil, err
	}
	e, err := s.NewEnumerator(r.t.Context())
	if err != nil {
		return nil, err
	}
	splits, done, err := e.Discover(r.t.Context())
	must(r.t, err)
	if !done {
		r.t.Error("more splits are to come")
	}
	rd, err := s.NewReader(r.t.Context(), 0)
	must(r.t, err)
	schema := types.Schema{}
	for i, c := range d.cols {
		if wanted == nil || slices.Contains(wanted, i) {
			schema.Fields = append(schema.Fields, c)
		}
	}
	var out []string
	for _, sp := range splits {
		if n, ok := from[sp.ID]; ok {
			sp.Position = connector.Position{Offset: n, Set: true}
		}
		x, err := rd.Open(r.t.Context(), sp)
		if err != nil {
			return out, err
		}
		b := vec.NewBatch(schema)
		for {
			b.Reset(0)
			if err = x.(connector.BatchReader).ReadBatch(r.t.Context(), b, 7); err != nil {
				break
			}
			for i := range b.N {
				var row []string
				for _, c := range b.Cols {
					text := fmt.Sprint(c.Value(i))
					if c.IsNull(i) {
						text = "NULL"
					}
					row = append(row, text)
				}
				out = append(out, strings.Join(row, " | "))
			}
		}
		must(r.t, x.Close())
		if err != io.EOF {
			return out, err
		}
	}
	return out, nil
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d rows %.300q, want %d %.300q", what, len(got), got, len(want), want)
	}
}

// TestSourceConformance runs the suite of connectors over a table with partitions and one without.
func TestSourceConformance(t *testing.T) {
	for _, compression := range []string{"lz4", "none"} {
		t.Run(compression, func(t *testing.T) {
			r := newReading(t, 35, 10, "a", "b")
			d := def{name: "kv", cols: pair, options: map[string]string{"compression": compression}}
			connectortest.TestSource(t, connectortest.SourceCase{Table: r.f.rig().table(d), Rows: append(readRows(0, 35), readRows(1000, 1035)...)})
		})
	}
	connectortest.TestSource(t, connectortest.SourceCase{Table: newReading(t, 35, 10).f.rig().table(def{name: "kv", cols: pair}), Rows: readRows(0, 35)})
}

// TestSourceQueries shows what is asked for.
func TestSourceQueries(t *testing.T) {
	tuple := types.RowType(part("x", types.IntType))
	for _, x := range []struct {
		name   string
		cols   []types.Field
		ch     []string
		engine string
		wanted []int
		limit  int64
		o      []string
		want   string
	}{
		{name: "by its key", want: "SELECT `id`, `v` FROM `db`.`kv` ORDER BY id, `id`, `v`", limit: -1},
		{name: "projection and limit", wanted: []int{0}, limit: 5, want: "SELECT `id` FROM `db`.`kv` ORDER BY id, `id` LIMIT 5"},
		{name: "counted", wanted: []int{}, limit: -1, want: "SELECT toUInt8(0) FROM `db`.`kv` ORDER BY id"},
		{name: "filter", limit: -1, o: []string{"scan.filter", "id > 7 OR v = 'x'", "scan.order-by", "v DESC"},
			want: "SELECT `id`, `v` FROM `db`.`kv` WHERE (id > 7 OR v = 'x') ORDER BY v DESC, `id`, `v`"},
		{name: "no order", limit: -1, o: []string{"scan.order-by", " "}, want: "SELECT `id`, `v` FROM `db`.`kv`"},
		{name: "final", limit: -1, engine: "ReplicatedReplacingMergeTree", want: "SELECT `id`, `v` FROM `db`.`kv` FINAL ORDER BY id, `id`, `v`"},
		{name: "not final", limit: -1, engine: "ReplacingMergeTree", o: []string{"scan.final", "false"}, want: "SELECT `id`, `v` FROM `db`.`kv` ORDER BY id, `id`, `v`"},
		{name: "forms", limit: -1, cols: []types.Field{part("id", types.StringType), part("v", types.StringType), part("m", types.MapType(types.StringType, types.IntType)), part("r", tuple)},
			ch:   []string{"LowCardinality(String)", "JSON(a UInt8)", "Map(LowCardinality(String), Int32)", "Tuple(x Int32)"},
			want: "SELECT CAST(`id`, 'String'), toString(`v`), CAST(`m`, 'Map(String, Int32)'), CAST(`r`, 'Tuple(`x` Int32)') FROM `db`.`kv` ORDER BY id, CAST(`id`, 'String'), toString(`v`), CAST(`r`, 'Tuple(`x` Int32)')"},
	} {
		f := newFake(t)
		if x.engine != "" {
			f.engine = x.engine
		}
		d := def{name: "kv", cols: x.cols, options: map[string]string{}}
		if d.cols == nil {
			d.cols = pair
		} else {
			f.cols = nil
			for i, c := range x.cols {
				f.cols = append(f.cols, [2]string{c.Name, x.ch[i]})
			}
		}
		for i := 0; i < len(x.o); i += 2 {
			d.options[x.o[i]] = x.o[i+1]
		}
		got := ""
		f.selects = func(_ http.ResponseWriter, sql string, _ bool) { got = sql }
		if _, err := f.rig().readAll(d, x.wanted, x.limit, nil); err != nil || got != x.want {
			t.Errorf("%s: %v\n got %s\nwant %s", x.name, err, got, x.want)
		}
	}
}

// TestSourceBreaks ends connections in the middle, in each of the ways in which that happens.
func TestSourceBreaks(t *testing.T) {
	d := def{name: "kv", cols: pair, options: map[string]string{"connection.max-retry-timeout": "1 s"}}
	for name, text := range map[string]string{"cut": "", "refused": "Code: 241. DB::Exception: no memory. (X) (version 26)"} {
		r := newReading(t, 100, 10)
		r.trouble = func(query, block int) (bool, string) {
			if query <= 3 && block == 2 {
				return text == "", text
			}
			return false, ""
		}
		got, err := r.f.rig().readAll(d, nil, -1, nil)
		must(t, err)
		sameLines(t, name, got, readRows(0, 100))
		if r.queries != 4 {
			t.Errorf("%s: %d queries", name, r.queries)
		}
	}
	// Without an order nobody knows which rows were read.
	r := newReading(t, 100, 10)
	r.trouble = func(query, block int) (bool, string) { return query == 1 && block == 2, "" }
	unordered := def{name: "kv", cols: pair, options: map[string]string{"scan.order-by": ""}}
	rig := r.f.rig()
	if got, err := rig.readAll(unordered, nil, -1, nil); err == nil || !strings.Contains(err.Error(), "after 20 rows") || !strings.Contains(err.Error(), "'scan.order-by'") {
		t.Errorf("after %d rows: %v", len(got), err)
	}
	got, err := rig.readAll(unordered, nil, -1, map[string]int64{"db.kv": 20}) // as a restart does
	must(t, err)
	sameLines(t, "again", got, readRows(0, 100))
	if w := rig.warn.String(); !strings.Contains(w, "is read from its beginning again, the 20 rows") {
		t.Errorf("the warning is %q", w)
	}
	// What stays broken ends.
	r = newReading(t, 100, 10)
	r.trouble = func(_, block int) (bool, string) {
		return false, "Code: 158. DB::Exception: Limit for rows exceeded. (TOO_MANY_ROWS) (version 26)"
	}
	d.options["sink.max-retries"] = "1"
	if _, err := r.f.rig().readAll(d, nil, -1, nil); err == nil || !strings.Contains(err.Error(), "Limit for rows exceeded. (TOO_MANY_ROWS) (code 158)") {
		t.Errorf("got %v", err)
	}
}

// TestSourceRefuses has definitions and values that do not fit.
func TestSourceRefuses(t *testing.T) {
	for _, x := range []struct {
		name string
		cols []types.Field
		want string
	}{
		{"missing", []types.Field{part("x", types.IntType)}, "column 'x' does not exist; there are id, v"},
		{"type", []types.Field{part("v", types.IntType)}, "column 'v' is INT here and Nullable(String) in the database: declare"},
		{"null", []types.Field{part("v", types.StringType.NotNull())}, "column 'v' of rows 0 to 6: row 0 of the block is NULL, and the column is NOT NULL here"},
		{"value", []types.Field{part("id", types.TinyIntType)}, "column 'id' of rows 127 to 129: 128 (Int64) does not fit TINYINT"},
	} {
		r := newReading(t, 200, 10)
		_, err := r.f.rig().readAll(def{name: "kv", cols: x.cols}, nil, -1, nil)
		var fatal *connector.Fatal
		if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, &fatal) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	f := newFake(t)
	f.set(only("SELECT engine", 0, fault{code: 164, msg: "Cannot modify 'max_threads' setting in readonly mode"}))
	if _, err := f.rig().readAll(def{name: "kv", cols: pair}, nil, -1, nil); err == nil || !strings.Contains(err.Error(), "user 'default' is read-only there") || !strings.Contains(err.Error(), "leave out 'clickhouse.settings.*'") {
		t.Errorf("a read-only user: %v", err)
	}
}

// TestGuarantee_OfSources says what a restart gives.
func TestGuarantee_OfSources(t *testing.T) {
	for _, x := range [][2]string{{"id", "in the order of id"}, {"", "at least once; 'scan.order-by'"}} {
		f := newFake(t)
		f.keys = x[0]
		s, err := f.rig().source(def{name: "kv", cols: pair}, nil, -1)
		must(t, err)
		if g := s.Guarantee(); !strings.Contains(g, x[1]) {
			t.Errorf("%q: %s", x[0], g)
		}
	}
	r := &rig{t: t, base: "http://" + dead(t), database: "db"}
	s, err := r.source(def{name: "kv", cols: pair}, nil, -1)
	must(t, err)
	if g := s.Guarantee(); !strings.Contains(g, "could not be looked up now") {
		t.Error(g)
	}
}

// FuzzReadBlock reads blocks that are anything.
func FuzzReadBlock(f *testing.F) {
	f.Add("Int64\nNullable(String)", testBlock(0, 20, true, true))
	f.Add("Array(Tuple(Int8, Map(String, UInt16)))", []byte{1, 0})
	f.Fuzz(func(t *testing.T, typs string, b []byte) {
		var cols []*cells
		var asked []string
		for _, s := range strings.Split(typs, "\n") {
			w, err := parseType(s)
			if err != nil {
				return
			}
			cols, asked = append(cols, newCells(w)), append(asked, w.name)
		}
		for r := bytes.NewReader(b); ; {
			n, err := readBlock(r, cols, asked)
			if err != nil {
				return
			}
			for _, c := range cols {
				if n > 0 && c.size(n) > len(b) {
					t.Fatalf("%d rows of %d bytes from %d", n, c.size(n), len(b))
				}
			}
		}
	})
}

// size is the bytes of the first n values, read to see that they are there.
func (c *cells) size(n int) int {
	sum := len(c.data)
	if c.may {
		sum += len(c.nulls[:n])
	}
	if c.typ.kind == kArray || c.typ.kind == kMap {
		n = c.begin(n)
	}
	for _, k := range c.kids {
		sum += k.size(n)
	}
	return sum
}

// BenchmarkRead decodes blocks of five columns into batches.
func BenchmarkRead(b *testing.B) {
	block := testBlock(0, 65536, true, true)
	m := matcher{}
	var cols []*cells
	var get []*getter
	asked := []string{"Int64", "Nullable(String)"}
	for i, t := range []types.Type{types.BigIntType, types.StringType} {
		w, _ := parseType(asked[i])
		g, err := m.getter(t, w)
		if err != nil {
			b.Fatal(err)
		}
		cols, get = append(cols, g.c), append(get, g)
	}
	out := vec.NewBatch(types.Schema{Fields: pair})
	b.ReportAllocs()
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		n, err := readBlock(bytes.NewReader(block), cols, asked)
		if err != nil {
			b.Fatal(err)
		}
		for lo := 0; lo < n; lo += vec.BatchRows {
			out.Reset(0)
			for k, g := range get {
				out.Cols[k].Resize(vec.BatchRows)
				if err := g.fill(out.Cols[k], lo, lo+vec.BatchRows); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
