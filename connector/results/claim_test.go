package results

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// TestClaimJob lets one of two jobs begin a generation, the same job again, and another one when the claim has ended.
func TestClaimJob(t *testing.T) {
	m, err := NewMemory(recountTable())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := func(place string, minutes int, generation string) error {
		started := at.Add(time.Duration(minutes) * time.Minute)
		return ClaimJob(t.Context(), m, generation, JobClaim{Place: place, Run: place, Started: started, Until: started.Add(10 * time.Minute)})
	}
	if err := claim("a", 0, Live); err != nil {
		t.Fatal(err)
	}
	if err := claim("a", 1, Live); err != nil {
		t.Errorf("the same job again: %v", err)
	}
	if err := claim("b", 2, "v2"); err != nil {
		t.Errorf("another generation: %v", err)
	}
	// A clock that is behind makes nobody the first.
	for _, minutes := range []int{2, -3} {
		if err := claim("b", minutes, Live); err == nil || !strings.Contains(err.Error(), "with checkpoints in a") {
			t.Errorf("another job at minute %d: %v", minutes, err)
		}
	}
	if err := claim("b", 11, Live); err != nil {
		t.Errorf("the claim has ended: %v", err)
	}
}

// between runs a function when the store was looked at for the n-th time.
type between struct {
	Store
	n   int
	run func()
}

func (b *between) Records(ctx context.Context, kind string) ([]Record, error) {
	out, err := b.Store.Records(ctx, kind)
	if b.n--; b.n == 0 {
		b.run()
	}
	return out, err
}

// TestClaimJob_AtATime has another job claim a generation while one is about to: between its first look and its note, or
// between its note and its second look. In no case do both go on, and one of them does, or does when it tries again.
func TestClaimJob_AtATime(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := func(s Store, place string, second int) error {
		started := at.Add(time.Duration(second) * time.Second)
		return ClaimJob(t.Context(), s, Live, JobClaim{Place: place, Run: place, Started: started, Until: started.Add(10 * time.Minute)})
	}
	for _, other := range []int{-1, 1} { // who began first by the clock does not matter
		for n := 1; n <= 2; n++ {
			m, err := NewMemory(recountTable())
			if err != nil {
				t.Fatal(err)
			}
			var b error
			a := claim(&between{m, n, func() { b = claim(m, "b", other) }}, "a", 0)
			if (a == nil) == (b == nil) {
				t.Errorf("look %d, the other %+d s: %v and %v", n, other, a, b)
			}
			if third := claim(m, "c", 2); third == nil {
				t.Errorf("look %d: a third one goes on", n)
			}
		}
	}
}

// TestWrittenSince goes by the clock of the target where the record has it, however far that of the host is off.
func TestWrittenSince(t *testing.T) {
	records := []Record{{Kind: KindBackfill, Name: "g3", At: 9000, Document: []byte(`{"started":"1970-01-01T00:00:05Z","server_ms":77}`)},
		{Kind: KindBackfill, Name: "g2", At: 8000, Document: []byte(`{"started":"1970-01-01T00:00:04Z"}`)}}
	if got := WrittenSince(records); got["g3"] != 77 || got["g2"] != 4000 {
		t.Errorf("written since %v", got)
	}
	if got := Since(records); got["g3"] != 5000 || got["g2"] != 4000 {
		t.Errorf("since %v", got)
	}
	// A host whose clock is an hour ahead asks for what was written since by that of the target.
	table := recountTable()
	table.Columns = append(table.Columns, types.Field{Name: "gen", Type: types.StringType})
	table.Results.Column["generation"], table.Results.Windows = "gen", &connector.WindowGrid{Size: 10, Step: 10}
	m, err := NewMemory(table)
	if err != nil {
		t.Fatal(err)
	}
	server, err := m.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(note(t.Context(), m, KindBackfill, "g2", ahead.UnixMilli(), Made{Started: ahead, Server: server - 1}))
	must(m.Point(t.Context(), Pointer{Version: 1, Ranges: []Range{{From: 0, To: 10, Generation: "g2"}}}))
	m.Add([]any{"a", time.UnixMilli(0).UTC(), "1.00", 1.0, int64(1), int64(1), Live})
	j, err := LoadJudge(t.Context(), m, table.Results, 0, 10)
	must(err)
	if got := j.Status(0, 10); !got.Corrected {
		t.Errorf("a correction since the backfill is not noticed: %+v", got)
	}
}
