package connectortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
)

// fetchesMax is how many records of a split are read again at most.
const fetchesMax = 40

// refetched is a source whose records are read again.
type refetched struct {
	*source
	f    connector.RecordFetcher
	rows [][]row // of each split
	// decoders turn records into rows; nil where the case does.
	decoders []*decoder
}

// fetched reads single records again, in several orders: they must hold the rows that were read at
// their places.
func (c *SourceCase) fetched(t *testing.T) {
	s := c.open(t)
	again, ok := s.Source.(connector.Refetcher)
	if !ok {
		t.Skip("the source is no Refetcher")
	}
	x := &refetched{source: s, rows: s.all(100)}
	if x.f = x.open(again); x.f == nil {
		return
	}
	type place struct{ split, row int }
	var up []place
	for i, rows := range x.rows {
		for k := 0; k < len(rows); k += max(1, len(rows)/fetchesMax) {
			up = append(up, place{i, k})
		}
	}
	for _, p := range up { // split by split, as dead letters come
		x.expect("in their order", p.split, p.row)
	}
	turns := slices.Clone(up)
	slices.SortStableFunc(turns, func(a, b place) int { return a.row - b.row })
	for _, p := range turns {
		x.expect("of one split after the other", p.split, p.row)
	}
	slices.Reverse(up)
	for _, p := range up {
		x.expect("from the last to the first", p.split, p.row)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(up), func(i, k int) { up[i], up[k] = up[k], up[i] })
	for _, p := range up {
		x.expect("in any order", p.split, p.row)
	}
	x.refused()
	x.cancelled()
	if len(up) > 0 { // after all of that
		x.expect("after errors", up[0].split, up[0].row)
	}
}

// open makes the fetcher and what decodes its records; nil where nothing can.
func (x *refetched) open(again connector.Refetcher) connector.RecordFetcher {
	t := x.t
	t.Helper()
	if x.c.Record == nil {
		for i := range x.splits {
			sp := x.at(i, connector.Position{})
			defer sp.close()
			if sp.dec == nil {
				t.Skip("the source gives rows, and the case has no Record to compare them with")
			}
			x.decoders = append(x.decoders, sp.dec)
		}
	}
	f, err := again.NewFetcher(t.Context())
	if err != nil {
		t.Fatalf("NewFetcher: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("RecordFetcher.Close: %v", err)
		}
	})
	if by, ok := f.(interface{ CutBy(func([]byte) int) }); ok && len(x.decoders) > 0 {
		if c, ok := x.decoders[0].dec.(format.Cutter); ok {
			by.CutBy(c.Complete)
		}
	}
	return f
}

// expect reads the record of a row again, and compares all rows at its place.
func (x *refetched) expect(how string, split, at int) {
	x.t.Helper()
	pos, id := x.rows[split][at].pos, x.splits[split].ID
	ctx, cancel := context.WithTimeout(x.t.Context(), x.c.Wait)
	defer cancel()
	record, err := x.f.Fetch(ctx, id, pos)
	if err != nil {
		x.t.Fatalf("records %s: Fetch of split %s at %d: %v", how, id, pos, err)
	}
	var want []string
	for _, r := range x.rows[split] {
		if r.pos == pos {
			want = append(want, r.columns)
		}
	}
	var got []string
	switch {
	case record == nil:
	case x.c.Record != nil:
		got = []string{x.c.Record(record)}
	default:
		got = x.decoders[split].again(record, id, pos)
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("records %s: Fetch of split %s at %d gives %q, whose rows are %q; there were %q", how, id, pos, record, got, want)
	}
}

// refused asks for what there is not: an error must come, within a moment.
func (x *refetched) refused() {
	x.t.Helper()
	ask := func(what, split string, pos int64) {
		ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Second)
		defer cancel()
		if record, err := x.f.Fetch(ctx, split, pos); err == nil {
			x.t.Errorf("Fetch %s gives %q and no error", what, record)
		}
	}
	for i, rows := range x.rows {
		if len(rows) > 0 {
			ask("far behind the last record of "+x.splits[i].ID, x.splits[i].ID, rows[len(rows)-1].pos+1<<40)
		}
	}
	if len(x.splits) > 0 { // a number at its end stays one: splits may be partitions
		ask("of a split that there is not", strings.TrimRight(x.splits[0].ID, "0123456789")+fmt.Sprint(987654), 0)
	}
}

// cancelled asks with a context that has ended: any answer is right, but there must be one.
func (x *refetched) cancelled() {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	cancel()
	for i, rows := range x.rows {
		if len(rows) == 0 {
			continue
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.f.Fetch(ctx, x.splits[i].ID, rows[0].pos)
		}()
		select {
		case <-done:
		case <-time.After(x.c.Wait):
			x.t.Fatalf("a Fetch of split %s does not return after its context was cancelled", x.splits[i].ID)
		}
	}
}
