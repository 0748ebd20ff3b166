package connectortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// SourceCase is a source to test.
type SourceCase struct {
	// Table is the definition of the table. All its columns and metadata are read.
	Table *connector.Table
	// Rows are the rows it holds, in any order, their values separated by " | " and printed as
	// Go prints them: first the columns, then the metadata. nil: whatever a whole read gives.
	Rows []string
	// Resolve makes paths absolute; nil leaves them.
	Resolve func(string) string
	// Seed makes generated data repeatable.
	Seed uint64
	// Record prints a record that was read again (connector.Refetcher) as Rows has its columns, for
	// sources of rows; where the table has a format, that is used.
	Record func(record []byte) string
	// Append adds records to an unbounded source and returns their rows. nil: nothing is added.
	Append func(t testing.TB) []string
	// Wait bounds how long a source may take to give what it has (default a minute).
	Wait time.Duration
}

// positionsMax is how many restarts are tried at most.
func positionsMax() int {
	if testing.Short() {
		return 15
	}
	return 60
}

// TestSource runs the suite over a source. The source may be unbounded: reading then ends with the
// last of Rows, which must be given.
func TestSource(t *testing.T, c SourceCase) {
	t.Helper()
	if c.Wait == 0 {
		c.Wait = longest
	}
	if c.Resolve == nil {
		c.Resolve = func(p string) string { return p }
	}
	t.Run("rows", c.wholeRead)
	t.Run("restart", c.restarts)
	t.Run("chunks", c.chunks)
	t.Run("together", c.together)
	t.Run("close", c.closing)
	t.Run("enumerator", c.enumerator)
	t.Run("cancel", c.cancelled)
	t.Run("fetch", c.fetched)
	if c.Append != nil {
		t.Run("append", c.appended)
	}
}

// source is a source being tested, with one reader.
type source struct {
	connector.Source
	c      *SourceCase
	t      testing.TB
	reader connector.Reader
	splits []connector.Split
}

func (c *SourceCase) open(t testing.TB) *source {
	t.Helper()
	noLeaks(t, c.Wait)
	s := &source{c: c, t: t, Source: c.source(t)}
	var err error
	if s.reader, err = s.NewReader(t.Context(), 0); err != nil {
		t.Fatalf("NewReader: %v", err)
	}
	t.Cleanup(func() {
		if err := s.reader.Close(); err != nil {
			t.Errorf("Reader.Close: %v", err)
		}
	})
	s.splits = s.discover()
	return s
}

func (c *SourceCase) source(t testing.TB) connector.Source {
	t.Helper()
	f, o := factory(t, c.Table)
	if f.NewSource == nil {
		t.Fatalf("connector '%s' cannot be read", f.Name)
	}
	cfg := connector.SourceConfig{Table: c.Table, Options: o, Limit: -1, Resolve: c.Resolve, Seed: c.Seed}
	for i := range c.Table.Columns {
		cfg.Columns = append(cfg.Columns, i)
	}
	for i := range c.Table.Metadata {
		cfg.Metadata = append(cfg.Metadata, i)
	}
	s, err := f.NewSource(cfg)
	if err != nil {
		t.Fatalf("NewSource: %v", err)
	}
	if s.Guarantee() == "" {
		t.Error("Guarantee says nothing")
	}
	if !s.Bounded() && c.Rows == nil {
		t.Fatal("the source is unbounded, so the case must say what rows there are")
	}
	return s
}

// discover returns all splits there are at present.
func (s *source) discover() []connector.Split {
	s.t.Helper()
	e, err := s.NewEnumerator(s.t.Context())
	if err != nil {
		s.t.Fatalf("NewEnumerator: %v", err)
	}
	defer e.Close()
	splits, done, err := e.Discover(s.t.Context())
	if err != nil {
		s.t.Fatalf("Discover: %v", err)
	}
	if s.Bounded() && !done {
		s.t.Error("Discover of a bounded source is not done")
	}
	if len(splits) == 0 && len(s.c.Rows) > 0 {
		s.t.Fatal("no splits")
	}
	return splits
}

// row is a row read: its text, that of its columns alone, and its position.
type row struct {
	text    string
	columns string
	pos     int64
}

func texts(rows []row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.text
	}
	return out
}

// split is a split being read.
type split struct {
	s       *source
	id      string
	rd      connector.SplitReader
	chunks  connector.ChunkReader
	batches connector.BatchReader
	rec     connector.Records
	raw     *vec.Batch
	dec     *decoder
}

// at opens split i at a position.
func (s *source) at(i int, p connector.Position) *split {
	s.t.Helper()
	sp := s.splits[i]
	if p.Set {
		sp.Position = p
	}
	rd, err := s.reader.Open(s.t.Context(), sp)
	if err != nil {
		s.t.Fatalf("open %s at %v: %v", sp.ID, p, err)
	}
	x := &split{s: s, id: sp.ID, rd: rd}
	x.chunks, _ = rd.(connector.ChunkReader)
	x.batches, _ = rd.(connector.BatchReader)
	switch {
	case (x.chunks == nil) == (x.batches == nil):
		s.t.Fatalf("the reader of split %s must be a ChunkReader or a BatchReader", sp.ID)
	case x.chunks != nil:
		x.dec = newDecoder(s.t, s.c.Table, rd)
	default:
		schema := types.Schema{Fields: slices.Clone(s.c.Table.Columns)}
		for _, m := range s.c.Table.Metadata {
			schema.Fields = append(schema.Fields, types.Field{Name: m.Name, Type: m.Type})
		}
		x.raw = vec.NewBatch(schema)
	}
	return x
}

// next reads once. It returns io.EOF at the end and connector.ErrNoData when there is nothing.
func (x *split) next(maxRows int) ([]row, error) {
	x.s.t.Helper()
	if x.chunks != nil {
		if err := x.chunks.Read(x.s.t.Context(), &x.rec); err != nil {
			return nil, err
		}
		return x.dec.rows(&x.rec, maxRows), nil
	}
	x.raw.Reset(0)
	if err := x.batches.ReadBatch(x.s.t.Context(), x.raw, maxRows); err != nil {
		return nil, err
	}
	if x.raw.N > maxRows {
		x.s.t.Errorf("ReadBatch gave %d rows, more than the %d asked for", x.raw.N, maxRows)
	}
	return batchRows(x.s.t, x.raw, x.raw.N), nil
}

// batchRows prints the rows of a batch.
func batchRows(t testing.TB, b *vec.Batch, n int) []row {
	t.Helper()
	if n > 0 && (b.Origin == nil || b.Origin.Split == "" || b.Origin.Unit == "") {
		t.Fatal("a batch has no Origin, or one without split or unit")
	}
	if len(b.Pos) < n {
		t.Fatalf("%d rows but %d positions", n, len(b.Pos))
	}
	out := make([]row, n)
	for i := range out {
		text := line(b.Cols, i)
		out[i] = row{text, text, b.Pos[i]}
	}
	return out
}

// rest reads to the end: io.EOF, or, of an unbounded source, until want rows have come.
func (x *split) rest(maxRows, want int) []row {
	x.s.t.Helper()
	var out []row
	for end := time.Now().Add(x.s.c.Wait); ; {
		rows, err := x.next(maxRows)
		out = append(out, rows...)
		switch {
		case err == io.EOF:
			return out
		case errors.Is(err, connector.ErrNoData):
			if time.Now().After(end) {
				x.s.t.Fatalf("split %s gave %d rows and then nothing for %s", x.id, len(out), x.s.c.Wait)
			}
			time.Sleep(time.Millisecond)
		case err != nil:
			x.s.t.Fatalf("read split %s after %d rows: %v", x.id, len(out), err)
		case len(rows) == 0 && x.batches != nil && x.raw.N == 0 && time.Now().After(end):
			x.s.t.Fatalf("split %s gives empty batches", x.id)
		}
		if !x.s.Bounded() && len(out) >= want {
			return out
		}
	}
}

func (x *split) close() {
	x.s.t.Helper()
	if err := x.rd.Close(); err != nil {
		x.s.t.Errorf("close split %s: %v", x.id, err)
	}
}

// all reads every split from its start, split by split. Unbounded sources share what is known.
func (s *source) all(maxRows int) [][]row {
	s.t.Helper()
	out := make([][]row, len(s.splits))
	if s.Bounded() {
		for i := range s.splits {
			x := s.at(i, connector.Position{})
			out[i] = x.rest(maxRows, 0)
			s.atEnd(x)
			x.close()
		}
		return out
	}
	open := make([]*split, len(s.splits))
	for i := range s.splits {
		open[i] = s.at(i, connector.Position{})
		defer open[i].close()
	}
	n := 0
	for end := time.Now().Add(s.c.Wait); n < len(s.c.Rows); {
		if time.Now().After(end) {
			s.t.Fatalf("%d of %d rows came", n, len(s.c.Rows))
		}
		for i, x := range open {
			rows, err := x.next(maxRows)
			if err != nil && !errors.Is(err, connector.ErrNoData) {
				s.t.Fatalf("read split %s: %v", x.id, err)
			}
			out[i] = append(out[i], rows...)
			n += len(rows)
		}
		time.Sleep(time.Millisecond)
	}
	return out
}

// atEnd checks what holds behind the last record.
func (s *source) atEnd(x *split) {
	s.t.Helper()
	if l := x.rd.Lag(); l > 0 {
		s.t.Errorf("split %s: Lag is %d at the end", x.id, l)
	}
	if _, err := x.next(10); err != io.EOF {
		s.t.Errorf("split %s: a read after the end gives %v instead of io.EOF", x.id, err)
	}
	p := x.rd.Position()
	if !p.Set {
		s.t.Errorf("split %s: no position at the end", x.id)
	}
}

func (c *SourceCase) wholeRead(t *testing.T) {
	s := c.open(t)
	var got []string
	seen := map[string]bool{}
	for _, sp := range s.splits {
		if sp.ID == "" || seen[sp.ID] {
			t.Errorf("split id %q is empty or given twice", sp.ID)
		}
		seen[sp.ID] = true
	}
	for i, rows := range s.all(1000) {
		for k := 1; k < len(rows); k++ {
			if rows[k].pos <= rows[k-1].pos {
				t.Fatalf("split %s: position %d follows %d", s.splits[i].ID, rows[k].pos, rows[k-1].pos)
			}
		}
		got = append(got, texts(rows)...)
	}
	if c.Rows != nil {
		sameSet(t, "all splits", got, c.Rows)
	}
}

// restarts opens splits at the positions of rows, and at those between reads: exactly the rest
// must come.
func (c *SourceCase) restarts(t *testing.T) {
	s := c.open(t)
	whole := s.all(7)
	tries := 0
	for i := range s.splits {
		rows := whole[i]
		step := max(1, len(rows)*len(s.splits)/positionsMax())
		for k := 0; k < len(rows); k += step {
			x := s.at(i, connector.Position{Offset: rows[k].pos, Set: true})
			got := x.rest(50, len(rows)-k)
			x.close()
			sameRows(t, fmt.Sprintf("split %s from the position of row %d", s.splits[i].ID, k), texts(got), texts(rows[k:]))
			tries++
		}
		x := s.at(i, connector.Position{})
		var between []connector.Position
		var counts []int
		for n := 0; n < len(rows) && len(between) < positionsMax(); {
			between, counts = append(between, x.rd.Position()), append(counts, n)
			got, err := x.next(step)
			if err != nil && !errors.Is(err, connector.ErrNoData) {
				t.Fatalf("read split %s: %v", x.id, err)
			}
			n += len(got)
			if len(got) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if s.Bounded() {
			x.rest(1000, 0)
			between, counts = append(between, x.rd.Position()), append(counts, len(rows))
		}
		x.close()
		for k, p := range between {
			if !p.Set || k > 0 && p == between[k-1] && counts[k] == counts[k-1] {
				continue
			}
			x := s.at(i, p)
			got := x.rest(1000, len(rows)-counts[k])
			x.close()
			sameRows(t, fmt.Sprintf("split %s from Position() after %d rows", s.splits[i].ID, counts[k]), texts(got), texts(rows[counts[k]:]))
			tries++
		}
	}
	if tries == 0 && len(c.Rows) > 0 {
		t.Error("nothing was tried")
	}
}

// chunks reads with other batch sizes: rows and positions must be the same.
func (c *SourceCase) chunks(t *testing.T) {
	s := c.open(t)
	want := s.all(1 << 20)
	for _, size := range []int{1, 3, 64} {
		for i, rows := range s.all(size) {
			if !slices.Equal(rows, want[i]) {
				sameRows(t, fmt.Sprintf("split %s in batches of %d", s.splits[i].ID, size), texts(rows), texts(want[i]))
				t.Errorf("split %s in batches of %d: positions differ", s.splits[i].ID, size)
			}
		}
	}
}

// together has all splits open at a time and reads them in turn, decoding what one gave only after
// the others were read.
func (c *SourceCase) together(t *testing.T) {
	s := c.open(t)
	want := s.all(100)
	open := make([]*split, len(s.splits))
	got := make([][]row, len(s.splits))
	ended := make([]bool, len(s.splits))
	for i := range open {
		open[i] = s.at(i, connector.Position{})
		defer open[i].close()
	}
	left := func() bool {
		for i := range open {
			if !ended[i] && len(got[i]) < len(want[i]) {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(c.Wait); left(); {
		if time.Now().After(end) {
			t.Fatal("the rows do not come")
		}
		read := make([]bool, len(open))
		for i, x := range open {
			if ended[i] {
				continue
			}
			var err error
			if x.chunks != nil {
				err = x.chunks.Read(t.Context(), &x.rec)
			} else {
				x.raw.Reset(0)
				err = x.batches.ReadBatch(t.Context(), x.raw, 5)
			}
			ended[i] = err == io.EOF
			if read[i] = err == nil; err != nil && err != io.EOF && !errors.Is(err, connector.ErrNoData) {
				t.Fatalf("read split %s: %v", x.id, err)
			}
		}
		for i, x := range open {
			switch {
			case !read[i]:
			case x.chunks != nil:
				got[i] = append(got[i], x.dec.rows(&x.rec, 100)...)
			default:
				got[i] = append(got[i], batchRows(t, x.raw, x.raw.N)...)
			}
		}
	}
	for i := range open {
		sameRows(t, "split "+open[i].id+" beside the others", texts(got[i]), texts(want[i]))
	}
}

// closing closes at odd moments, and twice.
func (c *SourceCase) closing(t *testing.T) {
	s := c.open(t)
	for i := range s.splits {
		x := s.at(i, connector.Position{})
		x.close() // before the first read
		x.close()
		x = s.at(i, connector.Position{})
		var rows []row
		for end := time.Now().Add(c.Wait); time.Now().Before(end); time.Sleep(time.Millisecond) {
			got, err := x.next(3)
			if rows = append(rows, got...); len(rows) > 0 || err == io.EOF {
				break
			}
		}
		at := x.rd.Position()
		x.close() // in the middle
		x.close()
		y := s.at(i, connector.Position{})
		want := y.rest(100, 1)
		y.close()
		if s.Bounded() { // the same reader goes on where the split was
			z := s.at(i, at)
			sameRows(t, "split "+z.id+" closed and opened again", append(texts(rows), texts(z.rest(100, 0))...), texts(want))
			z.close()
		}
	}
	if err := s.reader.Close(); err != nil {
		t.Errorf("Reader.Close: %v", err)
	}
	if len(s.splits) == 0 {
		return
	}
	r, err := s.NewReader(t.Context(), 1)
	if err != nil {
		t.Fatalf("a second NewReader: %v", err)
	}
	sp, err := r.Open(t.Context(), s.splits[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil { // before its splits
		t.Errorf("Reader.Close with an open split: %v", err)
	}
	if err := sp.Close(); err != nil {
		t.Errorf("SplitReader.Close after its reader's: %v", err)
	}
}

func (c *SourceCase) enumerator(t *testing.T) {
	noLeaks(t, c.Wait)
	s := &source{c: c, t: t, Source: c.source(t)}
	ids := func(known ...string) []string {
		e, err := s.NewEnumerator(t.Context())
		if err != nil {
			t.Fatalf("NewEnumerator: %v", err)
		}
		if known != nil {
			e.Known(known)
		}
		var out []string
		for range 3 {
			splits, _, err := e.Discover(t.Context())
			if err != nil {
				t.Fatalf("Discover: %v", err)
			}
			for _, sp := range splits {
				if slices.Contains(out, sp.ID) {
					t.Errorf("Discover gives split %s twice", sp.ID)
				}
				out = append(out, sp.ID)
			}
		}
		for range 2 {
			if err := e.Close(); err != nil {
				t.Errorf("Enumerator.Close: %v", err)
			}
		}
		slices.Sort(out)
		return out
	}
	all := ids()
	if got := ids(); !slices.Equal(got, all) {
		t.Errorf("two runs find different splits: %v and %v", all, got)
	}
	if len(all) == 0 {
		return
	}
	if got := ids(all...); len(got) > 0 {
		t.Errorf("splits %v are known, and found all the same", got)
	}
	if got := ids(all[0]); !slices.Equal(got, all[1:]) {
		t.Errorf("with split %s known there must be %v, not %v", all[0], all[1:], got)
	}
}

// cancelled reads with a context that has ended: any answer is right, but there must be one.
func (c *SourceCase) cancelled(t *testing.T) {
	s := c.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range s.splits {
		x := s.at(i, connector.Position{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			if x.chunks != nil {
				x.chunks.Read(ctx, &x.rec)
				return
			}
			x.raw.Reset(0)
			x.batches.ReadBatch(ctx, x.raw, 1)
		}()
		select {
		case <-done:
		case <-time.After(c.Wait):
			t.Fatalf("a read of split %s does not return after its context was cancelled", x.id)
		}
		x.close()
	}
}

// appended adds records to an unbounded source that was read to its end.
func (c *SourceCase) appended(t *testing.T) {
	s := c.open(t)
	want := slices.Clone(c.Rows)
	open := make([]*split, len(s.splits))
	for i := range open {
		open[i] = s.at(i, connector.Position{})
		defer open[i].close()
	}
	var got []string
	read := func() {
		for end := time.Now().Add(c.Wait); len(got) < len(want); {
			if time.Now().After(end) {
				t.Fatalf("%d of %d rows came", len(got), len(want))
			}
			for _, x := range open {
				rows, err := x.next(10)
				if err != nil && !errors.Is(err, connector.ErrNoData) {
					t.Fatalf("read split %s: %v", x.id, err)
				}
				got = append(got, texts(rows)...)
			}
			if w := s.reader.Wake(); w != nil {
				select {
				case <-w:
				case <-time.After(20 * time.Millisecond):
				}
			} else {
				time.Sleep(time.Millisecond)
			}
		}
	}
	read()
	for _, x := range open {
		if _, err := x.next(10); err != nil && !errors.Is(err, connector.ErrNoData) {
			t.Fatalf("an unbounded split at its end gives %v instead of ErrNoData", err)
		}
	}
	want = append(want, c.Append(t)...)
	read()
	sameSet(t, "with what was added", got, want)
}
