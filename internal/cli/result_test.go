package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector/print"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var twoColumns = types.NewSchema(types.Field{Name: "k", Type: types.StringType}, types.Field{Name: "n", Type: types.BigIntType})

// change is a row of a changelog.
type change struct {
	kind types.RowKind
	k    string
	n    int64
}

func batchOf(list ...change) *vec.Batch {
	b := vec.NewBatch(twoColumns)
	b.Reset(len(list))
	for i, c := range list {
		b.Kinds = append(b.Kinds, c.kind)
		b.Cols[0].SetString(i, c.k)
		b.Cols[1].I64[i] = c.n
	}
	return b
}

func resultFor(t *testing.T, mode types.ChangelogMode, keys ...[]int) *result {
	t.Helper()
	text, err := print.NewText(twoColumns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newResult(&plan.Node{Schema: twoColumns, Mode: mode, UpsertKeys: keys}, text)
}

// shown returns the rows as some gives them: mark, then cells.
func shown(r *result, n int, last bool, fresh int64) string {
	var out []string
	for _, x := range r.some(n, last, fresh) {
		out = append(out, string(" +*"[x.Mark])+strings.Join(x.Cells, " "))
	}
	return strings.Join(out, ", ")
}

func TestResult_UpdatesStayInTheirPlace(t *testing.T) {
	f := func(r *result, n int, last bool, fresh int64, want string) {
		t.Helper()
		if got := shown(r, n, last, fresh); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := resultFor(t, types.Retract)
	r.rows(batchOf(change{types.Insert, "a", 1}, change{types.Insert, "b", 1}, change{types.Insert, "c", 1}), 100)
	r.rows(batchOf(change{types.UpdateBefore, "a", 1}, change{types.UpdateAfter, "a", 2},
		change{types.Delete, "b", 1}, change{types.Insert, "d", 4}), 200)
	f(r, 9, false, 200, "*a 2,  c 1, +d 4")
	r.rows(batchOf(change{types.UpdateBefore, "c", 1}), 300) // the other half comes in the next batch
	f(r, 9, false, 300, " a 2,  d 4")
	r.rows(batchOf(change{types.UpdateAfter, "c", 9}), 300)
	f(r, 9, false, 300, " a 2, *c 9,  d 4")
	f(r, 2, true, 900, " c 9,  d 4")
	f(r, 1, false, 900, " a 2")
	r.order = []plan.SortKey{{Col: 1, Desc: true}}
	f(r, 2, false, 900, " c 9,  d 4")

	u := resultFor(t, types.Upsert, []int{0})
	u.rows(batchOf(change{types.Insert, "a", 1}, change{types.UpdateAfter, "b", 1}, change{types.UpdateAfter, "a", 5}), 100)
	f(u, 9, false, 100, "*a 5, +b 1")
	u.rows(batchOf(change{types.Delete, "a", 0}), 200)
	f(u, 9, false, 200, " b 1")
}

// TestResult_IsWhatChangesAddUpTo compares with a plain multiset, over many changes and
// compactions.
func TestResult_IsWhatChangesAddUpTo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, upsert := range []bool{false, true} {
		r := resultFor(t, types.Retract)
		if upsert {
			r = resultFor(t, types.Upsert, []int{0})
		}
		var want []string
		for range 300 {
			var list []change
			for range 1 + rnd.IntN(200) {
				k, n := fmt.Sprint("k", rnd.IntN(40)), rnd.Int64N(5)
				row := fmt.Sprintf("%s %d", k, n)
				at := slices.IndexFunc(want, func(s string) bool {
					return s == row || upsert && strings.HasPrefix(s, k+" ")
				})
				switch {
				case at >= 0 && rnd.IntN(2) == 0:
					list = append(list, change{types.Delete, k, n})
					want = slices.Delete(want, at, at+1)
				case at >= 0 && upsert:
					list = append(list, change{types.UpdateAfter, k, n})
					want[at] = row
				case at >= 0 && rnd.IntN(2) == 0:
					list = append(list, change{types.UpdateBefore, k, n}, change{types.UpdateAfter, k, n + 1})
					want[at] = fmt.Sprintf("%s %d", k, n+1)
				default:
					list = append(list, change{types.Insert, k, n})
					want = append(want, row)
				}
			}
			r.rows(batchOf(list...), 0)
		}
		var got []string
		if err := r.each(func(b *vec.Batch) error {
			b.Each(func(i int) { got = append(got, fmt.Sprintf("%s %d", b.Cols[0].Bytes(i), b.Cols[1].I64[i])) })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) != r.live {
			t.Errorf("upsert %v: %d rows (%d counted), want %d\n%v\n%v", upsert, len(got), r.live, len(want), got, want)
		}
		if n := len(r.row); n > 2*r.live+4096+201 {
			t.Errorf("%d places for %d rows", n, r.live)
		}
	}
}

func TestResult_KeepsTheNewestWithinItsLimit(t *testing.T) {
	for _, mode := range []types.ChangelogMode{types.InsertOnly, types.Retract} {
		r := resultFor(t, mode)
		r.limit = 8
		for i := range int64(100) {
			r.rows(batchOf(change{types.Insert, "k", i / 2}), 0) // each twice, so that one of a pair is dropped
		}
		if r.live > 10 || r.live < 8 || int64(r.live)+r.dropped != 100 {
			t.Errorf("%d rows kept and %d dropped of 100, with a limit of 8", r.live, r.dropped)
		}
		if got := shown(r, 3, true, 1); got != " k 48,  k 49,  k 49" {
			t.Errorf("the newest are %q", got)
		}
		if !r.finds {
			continue
		}
		dropped := r.dropped
		r.rows(batchOf(change{types.Delete, "k", 3}, change{types.Delete, "k", 49}, change{types.Delete, "k", 49}), 0)
		if got := shown(r, 2, true, 1); got != " k 48,  k 48" || r.dropped != dropped-1 {
			t.Errorf("after deletions the newest are %q, and %d of %d are counted as dropped", got, r.dropped, dropped)
		}
	}
}

func BenchmarkResult_Updates(b *testing.B) {
	text, err := print.NewText(twoColumns, nil)
	if err != nil {
		b.Fatal(err)
	}
	r := newResult(&plan.Node{Schema: twoColumns, Mode: types.Retract}, text)
	const keys = 1000
	var before, after []change
	for i := range keys {
		before = append(before, change{types.Insert, fmt.Sprint("key", i), 1})
		after = append(after, change{types.UpdateBefore, fmt.Sprint("key", i), 1}, change{types.UpdateAfter, fmt.Sprint("key", i), 1})
	}
	r.rows(batchOf(before...), 0)
	changes := batchOf(after...)
	b.ReportAllocs()
	for b.Loop() {
		r.rows(changes, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2*keys), "ns/change")
}
