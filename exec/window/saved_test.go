package window_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// savedScript is what led to the files of testdata/saved, which were written before results were shown by
// numbers of rows and told their causes.
func savedScript() []exectest.Step {
	row := func(k, ts, i int64, s string) exectest.Step {
		return exectest.Row(k, types.TS(ts, 0), i, s, true, 1.0, types.I128(5))
	}
	return []exectest.Step{{Proc: true, Time: 130}, row(1, 1, 5, "a"), row(1, 12, 3, "a"), row(2, 3, 3, "a long string of more than 12 bytes"),
		{Proc: true, Time: 200}, exectest.WM(9), row(1, 13, 5, "a"), row(1, 2, 8, "a"), exectest.WM(15)}
}

// readSaved puts the entries of a file into the model of x and returns the head.
func readSaved(t *testing.T, x *runs, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/saved/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var head []byte
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if rest, ok := strings.CutPrefix(line, "head "); ok {
			if _, err := fmt.Sscanf(rest, "%x", &head); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var at, group int
		var key, value []byte
		if _, err := fmt.Sscanf(line, "entry %d %d %x %x", &at, &group, &key, &value); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		m := x.model[[2]int{at, group}]
		if m == nil {
			m = map[string]string{}
			x.model[[2]int{at, group}] = m
		}
		m[string(key)] = string(value)
	}
	return head
}

// TestSaved_Old goes on from what older versions saved.
func TestSaved_Old(t *testing.T) {
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("COUNT(*); SUM(i); MAX(s); COUNT(DISTINCT i)", true)
	if err != nil {
		t.Fatal(err)
	}
	hop := plan.Window{Kind: plan.Hop, Size: 20, Step: 10, TimeCol: 1}
	corrected := plan.WindowAgg{Window: hop, EarlyFireMs: 100, LateFireMs: 50, AllowedLatenessMs: 30}
	telling := corrected
	telling.Props = []plan.WindowProp{plan.WindowReason, plan.WindowCount}
	row := func(k, ts, i int64, s string) exectest.Step {
		return exectest.Row(k, types.TS(ts, 0), i, s, true, 1.0, types.I128(5))
	}
	rest := []exectest.Step{row(1, 4, 1, "b"), row(1, 22, 1, "b"), {Proc: true, Time: 250}, row(2, 14, 1, "b"), exectest.WM(60)}
	for _, x := range []struct {
		file string
		n    plan.WindowAgg
	}{
		{"emitting", corrected},
		{"emitting", telling}, // a query that asks for more than it did when it was saved
		{"slices", plan.WindowAgg{Window: hop, EarlyFireMs: -1, LateFireMs: -1}},
		{"slices", plan.WindowAgg{Window: hop, EarlyFireMs: -1, LateFireMs: -1, AllowedLatenessMs: 5, FinalOnly: true}},
		{"session", plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: 10, TimeCol: 1}, EarlyFireMs: -1, LateFireMs: -1}},
	} {
		n := &x.n
		n.Keys, n.Aggs = []int{3, 0}, aggs
		n.Props = append([]plan.WindowProp{plan.WindowStart, plan.WindowEnd}, n.Props...)
		t.Run(fmt.Sprintf("%s,%d,%v", x.file, len(n.Props), n.FinalOnly), func(t *testing.T) {
			was := len(savedScript())
			mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
			finish := func(s *subtaskRun) []string {
				s.to(len(s.x.log))
				s.flush(true)
				s.check(s.o.Watermark(vec.MaxTime))
				s.check(s.o.Finish())
				s.check(s.o.Close())
				return exectest.Fold(s.x.rows)
			}
			through := newRuns(t, mk, schema, n.Keys, append(savedScript(), rest...))
			s := through.start(0, 1, false)
			s.to(was)
			s.flush(true)
			through.rows = nil
			want := finish(s)

			again := newRuns(t, mk, schema, n.Keys, append(savedScript(), rest...))
			head := readSaved(t, again, x.file)
			s = again.start(0, 1, false)
			s.pos, s.stamp, s.told, s.now = was, 15, 15, 200
			s.check(s.o.(op.Stateful).Restore(savedModel{again, 0, keyGroups}, [][]byte{head}))
			got := finish(s)
			if x.file == "emitting" && len(n.Props) > 2 {
				got, want = withoutTold(got), withoutTold(want)
			}
			if len(want) == 0 || !reflect.DeepEqual(got, want) {
				t.Error(diff(got, want))
			}
		})
	}
}

// withoutTold cuts the reason and the count, the last two columns.
func withoutTold(rows []string) []string {
	var out []string
	for _, s := range rows {
		words := strings.Fields(s)
		out = append(out, strings.Join(words[:len(words)-2], " "))
	}
	return out
}
