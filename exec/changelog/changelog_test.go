package changelog_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/changelog"
	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// TestCases runs the text cases; what is expected is the whole changelog.
func TestCases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		t.Run(c.Name, func(t *testing.T) {
			ttl, _ := strconv.ParseInt(c.Args["ttl"], 10, 64)
			mk := func() (op.Operator, error) {
				switch c.Args["op"] {
				case "normalize":
					return changelog.NewNormalize(&plan.Normalize{Keys: c.Columns(c.Args["key"]),
						UpdateBefore: c.Args["before"] != "no", TTLMs: ttl}, c.Schema, c.Schema)
				case "entities":
					return changelog.NewNormalize(entities(c), c.Schema, c.Schema)
				case "materialize":
					return changelog.NewMaterialize(&plan.Materialize{Keys: c.Columns(c.Args["key"]), TTLMs: ttl}, c.Schema, c.Schema)
				case "drop":
					return changelog.NewDropUpdateBefore(), nil
				}
				return nil, fmt.Errorf("line %d: unknown operator %q", c.Line, c.Args["op"])
			}
			opt := exectest.Options{Keys: c.Columns(c.Args["key"]), Spills: true}
			exectest.Run(t, mk, c.Schema, c.Script, opt, func(t *testing.T, r *exectest.Result) {
				var got []string
				for _, row := range r.Rows {
					got = append(got, row.Kind.String()+" "+row.Text)
				}
				for reason, n := range r.Drops {
					if n > 0 && c.Args["op"] == "entities" {
						got = append(got, fmt.Sprintf("dropped: %s %d", op.DropReason(reason), n))
					}
				}
				if !reflect.DeepEqual(got, c.Want) {
					t.Errorf("line %d:\n got  %s\n want %s", c.Line, strings.Join(got, "\n      "),
						strings.Join(c.Want, "\n      "))
				}
			})
		})
	}
}

// entities is the plan of a case about entities.
func entities(c exectest.Case) *plan.Normalize {
	n := &plan.Normalize{Keys: c.Columns(c.Args["key"]), UpdateBefore: c.Args["before"] != "no", RowTime: -1}
	if v := c.Columns(c.Args["version"]); v != nil {
		n.Versioned, n.Version = true, v[0]
	}
	if ts := c.Columns(c.Args["time"]); ts != nil {
		n.RowTime = ts[0]
	}
	n.Ties = map[string]plan.Ties{"first": plan.TiesFirst, "last": plan.TiesLast}[c.Args["ties"]]
	n.HorizonMs, _ = strconv.ParseInt(c.Args["horizon"], 10, 64)
	return n
}

// TestMaterialize_OutOfOrder interleaves the changes of several queries' rows: whatever overtakes
// what, the last row standing of each key is shown.
func TestMaterialize_OutOfOrder(t *testing.T) {
	in := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType}, types.Field{Name: "v", Type: types.StringType})
	for seed := int64(1); seed <= 5; seed++ {
		r := rand.New(rand.NewSource(seed))
		var script []exectest.Step
		rows := map[int64][]string{}
		for n := range 200 {
			k := int64(r.Intn(5))
			if list := rows[k]; len(list) > 0 && r.Intn(2) == 0 {
				i := r.Intn(len(list))
				script = append(script, exectest.Change(types.Delete, k, list[i]))
				rows[k] = append(list[:i:i], list[i+1:]...)
				continue
			}
			v := fmt.Sprintf("value-%d", n)
			script = append(script, exectest.Change(types.Insert, k, v))
			rows[k] = append(rows[k], v)
		}
		want := []string{}
		for k := int64(0); k < 5; k++ {
			if list := rows[k]; len(list) > 0 {
				want = append(want, fmt.Sprintf("%d %s", k, list[len(list)-1]))
			}
		}
		mk := func() (op.Operator, error) {
			return changelog.NewMaterialize(&plan.Materialize{Keys: []int{0}}, in, in)
		}
		opt := exectest.Options{Keys: []int{0}, Spills: true, Fold: func(rows []exectest.Out) []string { return exectest.FoldByKey(rows, 1) }}
		exectest.Run(t, mk, in, script, opt, func(t *testing.T, res *exectest.Result) {
			if got := exectest.FoldByKey(res.Rows, 1); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: got %s, want %s", seed, got, want)
			}
		})
	}
}
