package sort_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/sort"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

func number(c exectest.Case, arg string, none int64) int64 {
	if n, err := strconv.ParseInt(c.Args[arg], 10, 64); err == nil {
		return n
	}
	return none
}

// TestCases runs the text cases; what is expected is the rows in order, or with "fold" the folded
// result.
func TestCases(t *testing.T) {
	before := state.Evictions()
	defer func() {
		if state.Evictions() == before {
			t.Error("no row left memory")
		}
	}()
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		t.Run(c.Name, func(t *testing.T) {
			var keys []plan.SortKey
			for _, k := range strings.Split(c.Args["order"], ",") {
				w := strings.Fields(k)
				if len(w) == 0 {
					continue
				}
				keys = append(keys, plan.SortKey{Col: c.Schema.Index(w[0]), Desc: slices.Contains(w, "desc"),
					NullsFirst: slices.Contains(w, "nullsfirst")})
			}
			_, changing := c.Args["changelog"]
			mk := func() (op.Operator, error) {
				if keys == nil {
					return sort.NewLimit(&plan.Limit{Offset: number(c, "offset", 0), Limit: number(c, "limit", -1)}, c.Schema, changing), nil
				}
				return sort.New(&plan.Sort{Keys: keys, Offset: number(c, "offset", 0), Limit: number(c, "limit", -1)},
					c.Schema, c.Schema, changing)
			}
			_, batch := c.Args["batch"]
			_, fold := c.Args["fold"]
			exectest.Run(t, mk, c.Schema, c.Script, exectest.Options{BatchMode: batch, Spills: true}, func(t *testing.T, r *exectest.Result) {
				var got []string
				for _, row := range r.Rows {
					got = append(got, row.Text)
				}
				if fold {
					got = exectest.Fold(r.Rows)
				}
				if !reflect.DeepEqual(got, c.Want) {
					t.Errorf("line %d:\n got  %s\n want %s", c.Line, strings.Join(got, "\n      "),
						strings.Join(c.Want, "\n      "))
				}
			})
		})
	}
}

// TestTop_AgainstSort compares the first rows with those of a plain sort, with rows taken back.
func TestTop_AgainstSort(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.StringType})
	for seed := int64(1); seed <= 8; seed++ {
		r := rand.New(rand.NewSource(seed))
		var script []exectest.Step
		var live [][]types.Value
		retract := seed%2 == 0
		for range 150 {
			if retract && len(live) > 0 && r.Intn(5) < 2 {
				i := r.Intn(len(live))
				script = append(script, exectest.Change(types.Delete, live[i]...))
				live = slices.Delete(live, i, i+1)
				continue
			}
			row := []types.Value{int64(r.Intn(1000)), fmt.Sprint(r.Intn(3))}
			script = append(script, exectest.Change(types.Insert, row...))
			live = append(live, row)
		}
		slices.SortStableFunc(live, func(x, y []types.Value) int { return int(y[0].(int64) - x[0].(int64)) })
		want := []string{}
		for _, row := range live[min(2, len(live)):min(7, len(live))] {
			want = append(want, fmt.Sprintf("%v %v", row[0], row[1]))
		}
		slices.Sort(want)
		n := &plan.Sort{Keys: []plan.SortKey{{Col: 0, Desc: true}}, Offset: 2, Limit: 5}
		for _, v := range exectest.Variants {
			mk := func() (op.Operator, error) { return sort.New(n, in, in, retract) }
			o, _ := mk()
			for _, o := range []op.Operator{o, &exectest.Cluster{Make: mk, Seed: seed, Every: 6}} {
				res, err := exectest.Drive(o, in, script, v, exectest.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if got := exectest.Fold(res.Rows); !reflect.DeepEqual(got, want) {
					t.Errorf("seed %d, %+v, %T:\n got  %s\n want %s", seed, v, o, got, want)
				}
			}
		}
	}
}
