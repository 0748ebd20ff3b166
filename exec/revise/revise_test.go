package revise_test

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/revise"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// node is the plan and the output of a case.
func node(c exectest.Case) (n *plan.Revise, out types.Schema, eventTime bool) {
	column := func(arg string) int {
		if c.Args[arg] == "" {
			return -1
		}
		return c.Columns(c.Args[arg])[0]
	}
	n = &plan.Revise{Keys: c.Columns(c.Args["key"]), Columns: c.Schema.Len(), Reason: column("reason"), Count: column("count"),
		Cause: column("cause"), End: column("end"), Zone: c.Args["zone"], Generation: c.Args["generation"]}
	if w := c.Args["columns"]; w != "" {
		n.Columns, _ = strconv.Atoi(w)
	}
	n.LatenessMs, _ = strconv.ParseInt(c.Args["lateness"], 10, 64)
	n.TTLMs, _ = strconv.ParseInt(c.Args["ttl"], 10, 64)
	for i, f := range c.Schema.Fields[:n.Columns] {
		if !slices.Contains(n.Keys, i) {
			f.Type = f.Type.AsNullable()
		}
		out.Fields = append(out.Fields, f)
	}
	for _, w := range strings.Fields(c.Args["meta"]) {
		i := slices.IndexFunc(plan.ResultColumns, func(f types.Field) bool { return f.Name == w })
		n.Metadata = append(n.Metadata, plan.ResultMetadata(i))
		out.Fields = append(out.Fields, plan.ResultColumns[i])
	}
	return n, out, c.Args["event"] != ""
}

// TestCases runs the text cases: row by row for the very text, otherwise for what must hold always.
func TestCases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		t.Run(c.Name, func(t *testing.T) {
			n, out, event := node(c)
			mk := func() (op.Operator, error) { return revise.New(n, c.Schema, out, event) }
			for _, junk := range []bool{false, true} {
				o, err := mk()
				if err != nil {
					t.Fatal(err)
				}
				r, err := exectest.Drive(o, c.Schema, c.Script, exectest.Variant{Size: 1, Junk: junk}, exectest.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, row := range r.Rows {
					got = append(got, row.Text)
				}
				if !reflect.DeepEqual(got, c.Want) {
					t.Errorf("line %d:\n got  %s\n want %s", c.Line, strings.Join(got, "\n      "), strings.Join(c.Want, "\n      "))
				}
			}
			if n.TTLMs > 0 {
				return // when a count is found to have expired depends on the batches
			}
			h := &history{n: n}
			want := h.fold(c.Script)
			h.run(t, mk, c.Schema, c.Script, want)
		})
	}
}

// history judges what comes out: rows whose metadata has revision and is_deleted where asked for.
type history struct{ n *plan.Revise }

func (h *history) meta(r exectest.Out, m plan.ResultMetadata) types.Value {
	if i := slices.Index(h.n.Metadata, m); i >= 0 {
		return r.Vals[h.n.Columns+i]
	}
	return nil
}

func (h *history) key(vals []types.Value) string {
	var k []string
	for _, c := range h.n.Keys {
		k = append(k, fmt.Sprintf("%v", vals[c]))
	}
	return strings.Join(k, "|")
}

// fold is what the changelog of a script comes to, by key: the last row that stands.
func (h *history) fold(script []exectest.Step) map[string]string {
	out := map[string]string{}
	for _, s := range script {
		if s.Vals == nil {
			continue
		}
		if k := h.key(s.Vals); s.Kind.Retracts() {
			delete(out, k)
		} else {
			out[k] = fmt.Sprintf("%v", s.Vals[:h.n.Columns])
		}
	}
	return out
}

// standing is the newest revision of each key that is not deleted.
func (h *history) standing(rows []exectest.Out) map[string]string {
	out := map[string]string{}
	for _, r := range rows {
		if k := h.key(r.Vals); h.meta(r, plan.ResultIsDeleted) == true {
			delete(out, k)
		} else {
			out[k] = fmt.Sprintf("%v", r.Vals[:h.n.Columns])
		}
	}
	return out
}

func (h *history) newest(rows []exectest.Out) []string {
	return slices.Sorted(maps.Values(h.standing(rows)))
}

// check asks of a history: no gaps, no revision that says what the one before says, NULLs where a row is
// deleted, and the newest revisions are what the input came to.
func (h *history) check(t *testing.T, rows []exectest.Out, want map[string]string) {
	t.Helper()
	revision, payload := map[string]int64{}, map[string]string{}
	for _, r := range rows {
		k := h.key(r.Vals)
		if r.Kind != types.Insert {
			t.Errorf("key %s: a revision is %s", k, r.Kind)
		}
		if n := h.meta(r, plan.ResultRevision); n != revision[k]+1 {
			t.Errorf("key %s: revision %v after %d", k, n, revision[k])
		}
		revision[k]++
		deleted := h.meta(r, plan.ResultIsDeleted) == true
		p := fmt.Sprintf("%v %v", r.Vals[:h.n.Columns], deleted)
		if slices.Contains(h.n.Metadata, plan.ResultInputCount) {
			p += fmt.Sprintf(", of %v rows", h.meta(r, plan.ResultInputCount))
		}
		if payload[k] == p || payload[k] == "" && deleted {
			t.Errorf("key %s: revision %d says %s again", k, revision[k], p)
		}
		payload[k] = p
		for c, v := range r.Vals[:h.n.Columns] {
			if deleted && v != nil && !slices.Contains(h.n.Keys, c) {
				t.Errorf("key %s: a deleted row has %v in column %d", k, v, c)
			}
		}
	}
	if !slices.Contains(h.n.Metadata, plan.ResultIsDeleted) {
		return
	}
	if got := h.standing(rows); !maps.Equal(got, want) {
		t.Errorf("the newest revisions are %v, want %v", got, want)
	}
}

// run checks a script in all variants, with restarts, spilled, and at other numbers of instances. How many
// revisions there are may differ: a checkpoint between a -U row and its +U row makes two more.
func (h *history) run(t *testing.T, mk func() (op.Operator, error), in types.Schema, script []exectest.Step, want map[string]string) {
	opt := exectest.Options{Spills: true, Fold: h.newest}
	exectest.Run(t, mk, in, script, opt, func(t *testing.T, r *exectest.Result) { h.check(t, r.Rows, want) })
	for seed, size := range []int{1, 3, 0} {
		c := &exectest.Cluster{Make: mk, Seed: int64(seed), Every: 5, Par: []int{1, 4, 2}, Keys: [][]int{h.n.Keys}, Schemas: []types.Schema{in}}
		r, err := exectest.Drive(c, in, script, exectest.Variant{Size: size}, exectest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h.check(t, r.Rows, want)
	}
}

var results = types.NewSchema(types.Field{Name: "k", Type: types.BigIntType.NotNull()}, types.Field{Name: "name", Type: types.StringType},
	types.Field{Name: "v", Type: types.BigIntType.NotNull()}, types.Field{Name: "w", Type: types.DecimalType(30, 2)})

// plain is a node over results.
func plain(keys ...int) (*plan.Revise, types.Schema) {
	n := &plan.Revise{Keys: keys, Columns: results.Len(), Reason: -1, Count: -1, Cause: -1, End: -1, Generation: "live",
		Metadata: []plan.ResultMetadata{plan.ResultRevision, plan.ResultIsDeleted, plan.ResultGeneration, plan.ResultWatermark}}
	var out types.Schema
	for i, f := range results.Fields {
		if !slices.Contains(keys, i) {
			f.Type = f.Type.AsNullable()
		}
		out.Fields = append(out.Fields, f)
	}
	for _, m := range n.Metadata {
		out.Fields = append(out.Fields, plan.ResultColumns[m])
	}
	return n, out
}

// changes makes a changelog up in which each key has one row at most. With moves an update may take a row
// to another key.
func changes(r *rand.Rand, keys, steps int, form string, moves bool) []exectest.Step {
	var script []exectest.Step
	rows := map[int64][]types.Value{}
	value := func(k int64) []types.Value {
		v := []types.Value{k, nil, r.Int63n(3), types.I128(r.Int63n(3))}
		if n := r.Intn(4); n > 0 {
			v[1] = strings.Repeat("name ", n)
		}
		return v
	}
	wm := int64(0)
	for range steps {
		k := r.Int63n(int64(keys))
		old := rows[k]
		switch n := r.Intn(10); {
		case n == 0:
			wm += r.Int63n(50)
			script = append(script, exectest.WM(wm))
		case old == nil:
			rows[k] = value(k)
			script = append(script, exectest.Row(rows[k]...))
		case n < 3:
			script = append(script, exectest.Change(types.Delete, old...))
			delete(rows, k)
		case moves && n == 3:
			to := (k + 1) % int64(keys)
			if rows[to] != nil {
				continue
			}
			rows[to] = value(to)
			delete(rows, k)
			script = append(script, exectest.Change(types.UpdateBefore, old...), exectest.Change(types.UpdateAfter, rows[to]...))
		default:
			rows[k] = value(k)
			if form == "retract" {
				script = append(script, exectest.Change(types.UpdateBefore, old...))
			}
			script = append(script, exectest.Change(types.UpdateAfter, rows[k]...))
		}
	}
	return script
}

// TestRandom: whatever comes, in whatever batches, with restarts at any point, at another parallelism,
// and out of memory: what must hold of revisions holds.
func TestRandom(t *testing.T) {
	n, out := plain(0)
	h := &history{n: n}
	mk := func() (op.Operator, error) { return revise.New(n, results, out, true) }
	for seed := int64(1); seed <= 8; seed++ {
		form := []string{"retract", "upsert"}[seed%2]
		script := changes(rand.New(rand.NewSource(seed)), []int{3, 40}[seed/2%2], 400, form, form == "retract")
		want := h.fold(script)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h.run(t, mk, results, script, want)
		})
	}
}

// TestHeld_Many: -U rows that nothing follows are deletions even where neither a watermark nor a
// checkpoint comes, so that they do not pile up.
func TestHeld_Many(t *testing.T) {
	n, out := plain(0)
	o, err := revise.New(n, results, out, false)
	if err != nil {
		t.Fatal(err)
	}
	var script []exectest.Step
	row := func(kind types.RowKind, k int64) {
		script = append(script, exectest.Change(kind, k, nil, int64(0), nil))
	}
	const keys = 10_000
	for k := range int64(keys) {
		row(types.Insert, k)
	}
	for k := range int64(keys) {
		row(types.UpdateBefore, k)
	}
	row(types.Insert, keys)
	script = append(script, exectest.WM(1))
	r, err := exectest.Drive(o, results, script, exectest.Variant{Size: 100}, exectest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	(&history{n}).check(t, r.Rows, map[string]string{fmt.Sprint(keys): fmt.Sprintf("[%d <nil> 0 <nil>]", keys)})
	early := 0
	for _, x := range r.Rows {
		if h := (&history{n}); h.meta(x, plan.ResultIsDeleted) == true && h.meta(x, plan.ResultWatermark) == nil {
			early++
		}
	}
	if early < keys/2 || early == keys {
		t.Errorf("%d of %d deletions came out before the watermark", early, keys)
	}
}
