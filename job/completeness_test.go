package job

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// minutes are the windows of a result with the columns shop, window_start, window_end, n, is_deleted.
func reporting(t *testing.T, e *Expected, grid *connector.WindowGrid) (*completeness, *watchingWriter) {
	t.Helper()
	s := types.Schema{Fields: []types.Field{{Name: "shop", Type: types.StringType}, {Name: "window_start", Type: types.TimestampType(3)},
		{Name: "window_end", Type: types.TimestampType(3)}, {Name: "n", Type: types.BigIntType}, {Name: "is_deleted", Type: types.BooleanType}}}
	table := &connector.Table{Name: "board", Columns: s.Fields, Results: &connector.Results{Key: []string{"shop", "window_start"}, WindowStart: "window_start",
		WindowEnd: "window_end", Column: map[string]string{"revision": "rev", "is_deleted": "is_deleted"}, Windows: grid}}
	c, err := newCompleteness(&plan.Node{Schema: s}, table, e)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWatchingWriter(nowhere{}, c, s, &expr.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

type nowhere struct{ connector.Writer }

func (nowhere) Write(context.Context, *vec.Batch) error                  { return nil }
func (nowhere) Prepare(context.Context) ([]connector.Committable, error) { return nil, nil }

// report writes rows "shop start end n", of which "-shop" is one that is no more, and seals them.
func report(t *testing.T, w *watchingWriter, rows ...string) {
	t.Helper()
	b := &vec.Batch{N: len(rows)}
	for _, ty := range []types.Type{types.StringType, types.TimestampType(3), types.TimestampType(3), types.BigIntType, types.BooleanType} {
		b.Cols = append(b.Cols, vec.New(ty, len(rows)))
	}
	for i, r := range rows {
		var shop string
		if _, err := fmt.Sscan(r, &shop, &b.Cols[1].I64[i], &b.Cols[2].I64[i], &b.Cols[3].I64[i]); err != nil {
			t.Fatal(err)
		}
		shop, gone := strings.CutPrefix(shop, "-")
		b.Cols[0].SetBytes(i, []byte(shop))
		b.Cols[4].Bool[i] = gone
	}
	if err := w.Write(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// told is what is said at a watermark.
func told(c *completeness, wm int64) string {
	p := &connector.Progress{Watermark: wm, MaxTime: vec.MinTime}
	c.tell(p, 75, nil)
	if p.Expected == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d-%d: %s", p.DueStart, p.DueEnd, p.Completeness())
}

func producersDue(names ...string) *Expected {
	e := &Expected{Columns: []string{"shop"}}
	for _, n := range names {
		e.Due = append(e.Due, Due{Producer: n, Rows: 1})
	}
	return e
}

func TestCompleteness(t *testing.T) {
	tens := &connector.WindowGrid{Size: 10, Step: 10}
	type step struct {
		rows []string
		wm   int64
		want string
	}
	for name, c := range map[string]struct {
		e     *Expected
		grid  *connector.WindowGrid
		steps []step
	}{
		"windows without rows": {producersDue("a", "b"), tens, []step{
			{nil, vec.MinTime, "nothing"},
			{nil, 25, "nothing"}, // whether anything was due before the beginning is not known
			{nil, 29, "20-30: 0 of 2 reported, missing a, b"},
			{[]string{"a 30 40 1"}, 35, "20-30: 0 of 2 reported, missing a, b"},
			{nil, 39, "30-40: 1 of 2 reported, missing b"},
			{nil, 58, "40-50: 0 of 2 reported, missing a, b"},
			{[]string{"b 40 50 1"}, 58, "40-50: 1 of 2 reported, missing a"}, // a correction
			{nil, vec.MaxTime, "60-70: 0 of 2 reported, missing a, b"},
		}},
		"a beginning with rows": {producersDue("a", "b"), tens, []step{
			{[]string{"x 0 10 1"}, 25, "10-20: 0 of 2 reported, missing a, b"},
		}},
		"rows that are no more": {producersDue("a"), tens, []step{{[]string{"-a 0 10 1"}, 15, "nothing"}, {nil, 19, "10-20: 0 of 1 reported, missing a"}}},
		"results that are taken back": {producersDue("a", "b"), tens, []step{
			{[]string{"a 0 10 1", "b 0 10 1"}, 15, "0-10: 2 of 2 reported"},
			{[]string{"-b 0 10 1"}, 15, "0-10: 1 of 2 reported, missing b"},
			{[]string{"b 0 10 3", "-a 0 10 1"}, 16, "0-10: 1 of 2 reported, missing a"},
			{[]string{"a 10 20 1", "-a 10 20 1"}, 19, "10-20: 0 of 2 reported, missing a, b"}}},
		"sessions": {producersDue("a"), nil, []step{{[]string{"x 0 7 1"}, 25, "nothing"}, {[]string{"a 30 37 1"}, 35, "nothing"}, {nil, 36, "30-37: 1 of 1 reported"}, {nil, 90, "30-37: 1 of 1 reported"}}},
		"what waits": {producersDue("a"), &connector.WindowGrid{Size: 10, Step: 10, Delay: 5}, []step{
			{[]string{"a 0 10 1"}, 14, "0-10: 1 of 1 reported"}, {nil, 23, "0-10: 1 of 1 reported"}, {nil, 24, "10-20: 0 of 1 reported, missing a"}}},
		"hops":       {producersDue("a"), &connector.WindowGrid{Size: 10, Step: 5}, []step{{[]string{"a 0 10 1"}, 12, "0-10: 1 of 1 reported"}, {nil, 14, "5-15: 0 of 1 reported, missing a"}}},
		"cumulating": {producersDue("a"), &connector.WindowGrid{Size: 10, Step: 5, Offset: 1, Cumulative: true}, []step{{[]string{"a 1 6 1"}, 5, "1-6: 1 of 1 reported"}, {nil, 10, "1-11: 0 of 1 reported, missing a"}, {nil, 15, "11-16: 0 of 1 reported, missing a"}}},
		"rows": {&Expected{Count: "n", Due: []Due{{Rows: 10}}}, tens, []step{
			{[]string{"a 0 10 3", "b 0 10 4"}, 9, "0-10: 7 of 10 rows"},
			{[]string{"a 0 10 5"}, 9, "0-10: 9 of 10 rows"},
			{[]string{"-b 0 10 0"}, 9, "0-10: 5 of 10 rows"},
			{[]string{"c 0 10 6"}, 9, "0-10: 10 of 10 rows; 11 of 10"}}},
		"rows by window": {&Expected{Columns: []string{"shop"}, Start: true, Count: "n", Due: []Due{{Start: 0, Producer: "a", Rows: 2}, {Start: 20, Producer: "a", Rows: 2}, {Start: 20, Producer: "a", Rows: 1}, {Start: 20, Producer: "b", Rows: 1}}}, tens, []step{
			{[]string{"a 0 10 2"}, 15, "0-10: 2 of 2 rows"}, {nil, 25, "0-10: 2 of 2 rows"}, {nil, 35, "20-30: 0 of 4 rows; a: 0 of 3, b: 0 of 1"}, {[]string{"b 20 30 1"}, 77, "20-30: 1 of 4 rows; a: 0 of 3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			// Each step is taken in a new process, which goes on from a checkpoint.
			f, w := reporting(t, c.e, c.grid)
			for _, s := range c.steps {
				report(t, w, s.rows...)
				if got := told(f, s.wm); got != s.want {
					t.Errorf("at %d: %s, want %s", s.wm, got, s.want)
				}
				kept := f.save()
				f, w = reporting(t, c.e, c.grid)
				if err := f.restore(kept, &connector.Progress{Watermark: s.wm}, nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestCompleteness_OtherProducers goes on with another list: nobody knows who of it had reported for what was over.
func TestCompleteness_OtherProducers(t *testing.T) {
	tens := &connector.WindowGrid{Size: 10, Step: 10}
	c, w := reporting(t, producersDue("a", "b"), tens)
	report(t, w, "a 0 10 1", "b 0 10 1")
	if got := told(c, 15); got != "0-10: 2 of 2 reported" {
		t.Fatal(got)
	}
	kept := c.save()
	c, w = reporting(t, producersDue("a", "b", "c"), tens)
	if err := c.restore(kept, &connector.Progress{Watermark: 15}, nil); err != nil {
		t.Fatal(err)
	}
	if got := told(c, 16); got != "nothing" {
		t.Error(got)
	}
	report(t, w, "c 10 20 1")
	if got := told(c, 20); got != "10-20: 1 of 3 reported, missing a, b" {
		t.Error(got)
	}
	for _, bad := range []string{`{`, `{"sum":"` + c.sum + `","windows":[{"bits":[1,2]}]}`, `{"sum":"` + c.sum + `","windows":[{"bits":[1],"cells":"AAAA"}]}`} {
		if err := c.restore([]byte(bad), &connector.Progress{}, nil); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

// TestCompleteness_SeveralResults has a producer reported as long as one of its results is there, and knows it from
// a checkpoint of before results were followed.
func TestCompleteness_SeveralResults(t *testing.T) {
	tens := &connector.WindowGrid{Size: 10, Step: 10}
	several := func() (*completeness, *watchingWriter) {
		c, w := reporting(t, producersDue("a", "b"), tens)
		c.key = append(c.key, 3) // n tells results apart, too
		return c, w
	}
	c, w := several()
	for _, s := range []struct{ row, want string }{{"a 0 10 1", "1 of 2"}, {"a 0 10 2", "1 of 2"}, {"-a 0 10 1", "1 of 2"}, {"-a 0 10 2", "0 of 2"}, {"b 0 10 1", "1 of 2"}} {
		report(t, w, s.row)
		if got := told(c, 15); !strings.Contains(got, s.want) {
			t.Errorf("%s: %s, want %s", s.row, got, s.want)
		}
	}
	c, _ = several()
	old := `{"sum":"` + c.sum + `","windows":[{"start":0,"end":10,"bits":[2]}]}`
	if err := c.restore([]byte(old), &connector.Progress{Watermark: 15}, nil); err != nil {
		t.Fatal(err)
	}
	if got := told(c, 15); got != "0-10: 1 of 2 reported, missing a" {
		t.Error(got)
	}
}
