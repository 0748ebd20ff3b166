package window_test

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// firing is when results are shown.
type firing struct {
	early, late         int64
	earlyRows, lateRows int64
	lateness            int64
	final               bool
}

var firings = []firing{
	{-1, -1, 0, 0, 0, false}, // on time only; it is the late rows that count
	{-1, -1, 0, 0, 12, false},
	{0, -1, 0, 0, 0, false},
	{0, 0, 0, 0, 25, false},
	{-1, -1, 3, 0, 12, false},
	{-1, -1, 2, 2, 12, false},
	{5, 7, 0, 2, 25, false},
	{-1, -1, 1, 1, 25, false},
	{-1, -1, 0, 0, 12, true},
	{-1, -1, 0, 0, 25, true},
}

func (f firing) of(n plan.WindowAgg) *plan.WindowAgg {
	n.EarlyFireMs, n.LateFireMs, n.EarlyFireRows, n.LateFireRows = f.early, f.late, f.earlyRows, f.lateRows
	n.AllowedLatenessMs, n.FinalOnly, n.Late = f.lateness, f.final, true
	return &n
}

// emissionShapes are windows with the aggregates to try and how far behind rows that retract are chosen.
var emissionShapes = []struct {
	w    plan.Window
	list string
	keys []int
}{
	{plan.Window{Kind: plan.Tumble, Size: 10}, invertible, []int{3, 0}},
	{plan.Window{Kind: plan.Tumble, Size: 7, Offset: 3}, retracting, []int{0}},
	{plan.Window{Kind: plan.Hop, Size: 10, Step: 2}, invertible, []int{0}},
	{plan.Window{Kind: plan.Hop, Size: 10, Step: 5}, retracting, nil},
	{plan.Window{Kind: plan.Hop, Size: 9, Step: 6, Offset: -2}, others, []int{3, 0}},
	{plan.Window{Kind: plan.Cumulate, Size: 12, Step: 3}, invertible, []int{0}},
	{plan.Window{Kind: plan.Cumulate, Size: 12, Step: 4}, retracting, []int{3}},
	{plan.Window{Kind: plan.Session, Size: 8}, invertible, []int{3, 0}},
	{plan.Window{Kind: plan.Session, Size: 3}, others, []int{0}},
	{plan.Window{Kind: plan.Session, Size: 30}, retracting, []int{0}},
	{plan.Window{Kind: plan.Session, Size: 5}, "COUNT(*); SUM(i)", nil},
}

// timedScript is a random script in which processing time passes, too, and late rows come in plenty.
func timedScript(seed int64, rows int, retract bool) []exectest.Step {
	r := newRand(seed)
	var script []exectest.Step
	now := int64(1000)
	for _, s := range randomScript(r, rows, retract) {
		script = append(script, s)
		if r.Intn(4) == 0 {
			now += int64(r.Intn(5))
			script = append(script, exectest.Step{Proc: true, Time: now})
		}
	}
	return script
}

// TestEmission_AgainstMachine compares what is left of the changelog at the end with the results of a
// machine that takes rows one by one and shows each window once, when it takes no more rows; and the late
// rows and the windows missed.
func TestEmission_AgainstMachine(t *testing.T) {
	c := exectest.Case{Schema: schema}
	corrected, lateRows := 0, 0
	for i, shape := range emissionShapes {
		shape.w.TimeCol = 1
		aggs, err := c.Aggs(shape.list, len(shape.keys) > 0)
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range firings {
			n := f.of(plan.WindowAgg{Window: shape.w, Keys: shape.keys, Aggs: aggs, InputRetracts: shape.list == retracting,
				Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}})
			seed := int64(10*i + k)
			t.Run(fmt.Sprintf("%s,%d,%.14s,%v", shape.w.Kind, shape.w.Size, shape.list, f), func(t *testing.T) {
				script := timedScript(seed, 120, n.InputRetracts)
				wanted := &lateLog{}
				reference := expectedLate
				if shape.w.Kind == plan.Session {
					reference = sessionsLate
				}
				rows, dropped := reference(n, schema, withoutProc(script), wanted)
				want := unstamped(rows)
				sort.Strings(wanted.rows)
				var last *witness
				mk := func() (op.Operator, error) {
					o, err := window.NewAgg(n, schema, outSchema(schema, n))
					if err == nil {
						last = newWitness(o, true, -1, -1)
						o = last
					}
					return o, err
				}
				check := func(t *testing.T, r *exectest.Result) {
					results, late := apart(r.Rows)
					lateRows += len(late)
					if got := exectest.Fold(results); !reflect.DeepEqual(got, want) {
						t.Errorf("results: %s", diff(got, want))
					}
					last := int64(vec.MinTime)
					for _, x := range results {
						if x.Stamp < last {
							t.Fatalf("stamps go back from %d to %d", last, x.Stamp)
						}
						last = x.Stamp
						if x.Kind != types.Insert {
							corrected++
							if f.final {
								t.Fatalf("a final result is corrected: %s %s", x.Kind, x.Text)
							}
						}
					}
					if got := texts(late); !reflect.DeepEqual(got, append([]string{}, wanted.rows...)) {
						t.Errorf("late rows: %s", diff(got, wanted.rows))
					}
					if r.Drops[op.DropLate] != dropped {
						t.Errorf("%d rows were dropped as late, want %d", r.Drops[op.DropLate], dropped)
					}
				}
				exectest.Run(t, mk, schema, script, exectest.Options{}, check)
				o, err := mk()
				if err != nil {
					t.Fatal(err)
				}
				if _, err = exectest.Drive(o, schema, script, exectest.Variant{Size: 3}, exectest.Options{}); err != nil {
					t.Fatal(err)
				}
				missed := []string{}
				for w, n := range wanted.missed {
					missed = append(missed, fmt.Sprintf("%s: %d", w, n))
				}
				sort.Strings(missed)
				if got := last.missedText(); !reflect.DeepEqual(got, missed) {
					t.Errorf("missed: %s", diff(got, missed))
				}
			})
		}
	}
	if corrected < 1000 || lateRows < 1000 {
		t.Errorf("only %d corrections and %d late rows", corrected, lateRows)
	}
}

// withoutProc leaves processing time out.
func withoutProc(script []exectest.Step) []exectest.Step {
	var out []exectest.Step
	for _, s := range script {
		if !s.Proc {
			out = append(out, s)
		}
	}
	return out
}

// apart tells results from late rows, which name the operator.
func apart(rows []exectest.Out) (results, late []exectest.Out) {
	for _, r := range rows {
		if strings.Contains(r.Text, " agg ") {
			late = append(late, r)
		} else {
			results = append(results, r)
		}
	}
	return results, late
}

// TestEmission_EachRow: where each row is shown at once, what is shown is what a machine that takes rows
// one by one would show, after each row.
func TestEmission_EachRow(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for _, shape := range emissionShapes {
		shape.w.TimeCol = 1
		aggs, err := c.Aggs(shape.list, len(shape.keys) > 0)
		if err != nil {
			t.Fatal(err)
		}
		plain := plan.WindowAgg{Window: shape.w, Keys: shape.keys, Aggs: aggs, InputRetracts: shape.list == retracting,
			Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}}
		n := firing{early: 0, late: 0, lateness: 1000}.of(plain)
		n.Late = false
		script := randomScript(newRand(7), 60, n.InputRetracts)
		for cut := range script {
			if script[cut].Vals == nil || cut%5 > 0 {
				continue
			}
			// The results so far are those of a job that ends here.
			so := script[:cut+1]
			reference := expected
			if shape.w.Kind == plan.Session {
				reference = sessions
			}
			o, err := window.NewAgg(n, schema, outSchema(schema, n))
			if err != nil {
				t.Fatal(err)
			}
			r := &rowsSoFar{Operator: o}
			res, err := exectest.Drive(r, schema, so, exectest.Variant{Size: 1}, exectest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := *n
			m.Props = []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}
			rows, _ := reference(&m, schema, so)
			want := cutLast(unstamped(rows))
			if got := exectest.Fold(res.Rows[:r.at(res)]); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, after step %d: %s", shape.w.Kind, cut, diff(got, want))
			}
		}
	}
}

// rowsSoFar stops before the end of the input.
type rowsSoFar struct{ op.Operator }

// Watermark implements op.Operator.
func (r *rowsSoFar) Watermark(wm int64) error {
	if wm == 1<<63-1 {
		return nil
	}
	return r.Operator.Watermark(wm)
}

// Finish implements op.Operator.
func (r *rowsSoFar) Finish() error { return nil }

func (r *rowsSoFar) at(res *exectest.Result) int { return len(res.Rows) }

// cutLast removes the last column, window_time.
func cutLast(rows []string) []string {
	out := []string{}
	for _, s := range rows {
		i := len(s) - 1
		for s[i] != ' ' {
			i--
		}
		out = append(out, s[:i])
	}
	sort.Strings(out)
	return out
}

// TestRestart_Emission stops windows and sessions that are shown in all ways; late rows are among what
// must be the same.
func TestRestart_Emission(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for i, shape := range emissionShapes {
		shape.w.TimeCol = 1
		aggs, err := c.Aggs(shape.list, len(shape.keys) > 0)
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range firings {
			if (i+k)%3 > 0 {
				continue // each shape with a third of the firings
			}
			n := f.of(plan.WindowAgg{Window: shape.w, Keys: shape.keys, Aggs: aggs, InputRetracts: shape.list == retracting,
				Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}})
			t.Run(fmt.Sprintf("%s,%d,%.14s,%v", shape.w.Kind, shape.w.Size, shape.list, f), func(t *testing.T) {
				mk := func() (op.Operator, error) {
					o, err := window.NewAgg(n, schema, outSchema(schema, n))
					return newWitness(o, true, -1, -1), err
				}
				colds := checkRestarts(t, mk, schema, shape.keys, timedScript(int64(i), 90, n.InputRetracts), false)
				// Ordered aggregates beside distinct values stay in memory where windows share slices.
				if shares := f.final && shape.list == others; colds == 0 && len(shape.keys) > 0 && !(shares && shape.w.Kind == plan.Hop) {
					t.Error("nothing left memory and came back")
				}
			})
		}
	}
}
