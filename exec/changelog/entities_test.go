package changelog_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/changelog"
	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// flight is an entity: its key, version, hour and a value.
var flight = types.NewSchema(types.Field{Name: "id", Type: types.BigIntType.NotNull()}, types.Field{Name: "rev", Type: types.BigIntType},
	types.Field{Name: "ts", Type: types.TimestampType(3)}, types.Field{Name: "delay", Type: types.BigIntType})

// reports makes a feed of entities up: versions out of order, repeated, hours moved, deletions, and now
// and then a version with other content.
func reports(r *rand.Rand, steps int) []exectest.Step {
	var script []exectest.Step
	var sent [][]types.Value
	versions := map[int64]int64{}
	wm := int64(1000)
	for range steps {
		id := r.Int63n(12)
		row := []types.Value{id, versions[id] + 1 + r.Int63n(2), types.TS(wm+r.Int63n(60)-20, 0), r.Int63n(5)}
		kind := types.UpdateAfter
		switch n := r.Intn(12); {
		case n < 2 && len(sent) > 0: // again
			row = sent[r.Intn(len(sent))]
		case n == 2: // stale
			row[1] = row[1].(int64) - 2 - r.Int63n(3)
		case n == 3 && versions[id] > 0: // a conflict, most likely
			row[1] = versions[id]
		case n == 4:
			kind = types.Delete
			if r.Intn(3) == 0 {
				row[1], row[2] = nil, nil
			}
		case n == 5:
			row[2] = types.TS(wm-r.Int63n(400), 0)
		case n == 6:
			row[2] = nil
		case n == 7:
			wm += r.Int63n(60)
			script = append(script, exectest.WM(wm-20))
			continue
		}
		if v, ok := row[1].(int64); ok {
			versions[id] = max(versions[id], v)
		}
		sent = append(sent, row)
		script = append(script, exectest.Change(kind, row...))
	}
	return script
}

// modelled is what a slow machine gives, that takes one row at a time and forgets at once.
func modelled(script []exectest.Step, horizon int64) (out []string, drops [op.DropReasons]int64) {
	type entity struct {
		rev, last int64
		row       string // "" where it is deleted
	}
	known := map[any]*entity{}
	wm := int64(vec.MinTime)
	const timeless = 1 << 60
	emit := func(kind types.RowKind, row string) { out = append(out, kind.String()+" "+row) }
	for _, s := range script {
		if s.Vals == nil {
			wm = s.Time
			continue
		}
		at := wm
		ts, dated := s.Vals[2].(types.Int128)
		if dated {
			at = ts.Hi
		} else if wm == vec.MinTime {
			at = timeless
		}
		old := func(t int64) bool { return horizon > 0 && wm != vec.MinTime && t <= wm-horizon }
		e := known[s.Vals[0]]
		if e != nil && old(e.last) {
			delete(known, s.Vals[0])
			e = nil
		}
		rev, has := s.Vals[1].(int64)
		var text []string
		for i, v := range s.Vals {
			text = append(text, exectest.Text(v, flight.Fields[i].Type))
		}
		row := strings.Join(text, " ")
		del := s.Kind == types.Delete
		if !has && del && e != nil {
			rev = e.rev
		}
		switch {
		case e == nil && dated && old(at):
			drops[op.DropExpired]++
			continue
		case !has && !del:
			drops[op.DropDeadLetter]++
			continue
		case e == nil && !has, e != nil && rev < e.rev, e != nil && rev == e.rev && e.row == "" && !del:
			drops[op.DropStale]++
			continue
		case e != nil && rev == e.rev && (del && e.row == "" || !del && e.row == row):
			drops[op.DropDuplicate]++
			continue
		case e != nil && rev == e.rev && !del:
			drops[op.DropConflict]++
			continue
		case e == nil:
			e = &entity{last: at}
			known[s.Vals[0]] = e
		}
		switch {
		case del && e.row != "":
			emit(types.Delete, e.row)
		case !del && e.row == "":
			emit(types.Insert, row)
		case !del:
			emit(types.UpdateBefore, e.row)
			emit(types.UpdateAfter, row)
		}
		if e.row = row; del {
			e.row = ""
		}
		switch {
		case e.last == timeless:
			e.last = at
		case at != timeless:
			e.last = max(e.last, at)
		}
		e.rev = rev
	}
	return out, drops
}

// TestEntities_Random: the operator is the slow machine, in all batches, after restarts, at another
// parallelism, and out of memory.
func TestEntities_Random(t *testing.T) {
	for seed := int64(1); seed <= 12; seed++ {
		horizon := []int64{0, 100, 1000}[seed%3]
		script := reports(rand.New(rand.NewSource(seed)), 300)
		want, drops := modelled(script, horizon)
		mk := func() (op.Operator, error) {
			return changelog.NewNormalize(&plan.Normalize{Keys: []int{0}, Versioned: true, Version: 1, UpdateBefore: true,
				HorizonMs: horizon, RowTime: 2}, flight, flight)
		}
		if horizon == 100 && drops[op.DropExpired] == 0 || drops[op.DropStale] == 0 || drops[op.DropConflict] == 0 || drops[op.DropDuplicate] == 0 {
			t.Errorf("seed %d drops %v: it shows too little", seed, drops)
		}
		opt := exectest.Options{Keys: []int{0}, Spills: true}
		exectest.Run(t, mk, flight, script, opt, func(t *testing.T, r *exectest.Result) {
			var got []string
			for _, row := range r.Rows {
				got = append(got, row.Kind.String()+" "+row.Text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d:\n got  %s\n want %s", seed, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
			}
			if r.Drops != drops {
				t.Errorf("seed %d: drops %v, want %v", seed, r.Drops, drops)
			}
		})
	}
}

// TestEntities_Forgets: entities beyond the horizon do not pile up.
func TestEntities_Forgets(t *testing.T) {
	o, err := changelog.NewNormalize(&plan.Normalize{Keys: []int{0}, Versioned: true, Version: 1, HorizonMs: 100, RowTime: 2}, flight, flight)
	if err != nil {
		t.Fatal(err)
	}
	counters := &op.Counters{}
	ctx := &op.Context{Env: &expr.Env{}, Counters: counters, MaxParallelism: 128, Parallelism: 1, Now: func() int64 { return 0 }}
	if err := o.Open(ctx, &exectest.Discard{}); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	id := int64(0)
	for wm := int64(0); wm < 2000; wm += 10 {
		b := vec.NewBatch(flight)
		b.Reset(100)
		for i := range b.N {
			id++
			b.Cols[0].I64[i], b.Cols[1].I64[i], b.Cols[2].I64[i] = id, 1, wm
			b.Stamps = append(b.Stamps, wm)
		}
		if err := o.Process(0, b); err != nil {
			t.Fatal(err)
		}
		if err := o.Watermark(wm); err != nil {
			t.Fatal(err)
		}
	}
	if n := counters.StateEntries.Load(); n < 1000 || n > 3000 {
		t.Errorf("%d entities are kept of %d, want about the 1000 within the horizon", n, id)
	}
}

// TestEntities_Undated: an entity whose rows had no event time, from before the first watermark, is remembered until a
// row says when, and then as long as others are; also across restarts.
func TestEntities_Undated(t *testing.T) {
	row := func(id, rev int64, ts types.Value) exectest.Step {
		return exectest.Change(types.UpdateAfter, id, rev, ts, int64(0))
	}
	at := func(ms int64) types.Value { return types.TS(ms, 0) }
	script := []exectest.Step{row(1, 5, nil), row(2, 5, nil), {Save: true}, row(2, 6, at(1500)), exectest.WM(1000), exectest.WM(1250),
		row(1, 6, at(1250)), exectest.WM(1300), row(1, 4, at(1300)), exectest.WM(1400), row(1, 3, at(1400)), row(2, 4, at(1400)),
		exectest.WM(1700), row(2, 3, at(1700))}
	for _, versioned := range []bool{true, false} {
		for _, every := range []int{0, 2} {
			n := &plan.Normalize{Keys: []int{0}, Versioned: versioned, Version: 1, HorizonMs: 100, RowTime: 2}
			c := &exectest.Cluster{Make: func() (op.Operator, error) { return changelog.NewNormalize(n, flight, flight) }, Every: every, Seed: 3}
			r, err := exectest.Drive(c, flight, script, exectest.Variant{Size: 1}, exectest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range r.Rows {
				got = append(got, fmt.Sprintf("%s%v.%v", x.Kind, x.Vals[0], x.Vals[1]))
			}
			want := "+I1.5 +I2.5 +U2.6 +U1.6 +I1.3 +I2.3" // 1.4 and 2.4 are stale, then the entities are forgotten
			if !versioned {
				want = "+I1.5 +I2.5 +U2.6 +U1.6 +U1.4 +I1.3 +U2.4 +I2.3"
			}
			if strings.Join(got, " ") != want {
				t.Errorf("versions %t, restarts %d: got %s, want %s", versioned, every, strings.Join(got, " "), want)
			}
		}
	}
}

// TestEntities_MovedHour: when the hour of an entity moves both windows are corrected; the old one is
// judged by the stamp of the row that moved it.
func TestEntities_MovedHour(t *testing.T) {
	for _, c := range []struct {
		lateness int64
		want     []string
		late     int64
	}{
		{100, []string{"1 10 20"}, 0},
		{0, []string{"1 0 10", "1 10 20"}, 1},
		// The window is open for 9 <= watermark < 12.
		{3, []string{"1 10 20"}, 0},
		{2, []string{"1 0 10", "1 10 20"}, 1},
	} {
		count := plan.AggCall{Fn: "COUNT", Filter: -1, T: types.BigIntType.NotNull(), Name: "n"}
		out := types.NewSchema(types.Field{Name: "n", Type: count.T}, types.Field{Name: "s", Type: types.TimestampType(3)},
			types.Field{Name: "e", Type: types.TimestampType(3)})
		mk := func() (op.Operator, error) {
			n, err := changelog.NewNormalize(&plan.Normalize{Keys: []int{0}, Versioned: true, Version: 1, UpdateBefore: true, RowTime: -1}, flight, flight)
			if err != nil {
				return nil, err
			}
			w, err := window.NewAgg(&plan.WindowAgg{Window: plan.Window{Kind: plan.Tumble, Size: 10, TimeCol: 2}, Aggs: []plan.AggCall{count},
				Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd}, InputRetracts: true, AllowedLatenessMs: c.lateness,
				EarlyFireMs: -1, LateFireMs: -1}, flight, out)
			return &exectest.Chain{Ops: []op.Operator{n, w}}, err
		}
		script := []exectest.Step{exectest.Row(int64(1), int64(1), types.TS(5, 0), nil), exectest.WM(11),
			exectest.Row(int64(1), int64(2), types.TS(15, 0), nil)}
		exectest.Run(t, mk, flight, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
			if got := exectest.Fold(r.Rows); !reflect.DeepEqual(got, c.want) {
				t.Errorf("lateness %d: %v, want %v", c.lateness, got, c.want)
			}
			if got := r.Drops[op.DropLate]; got != c.late {
				t.Errorf("lateness %d: %d rows were late, want %d", c.lateness, got, c.late)
			}
		})
	}
}

// saving makes the operators whose saved form is held in testdata/saved.hex, and what they are given.
var saving = []struct {
	name   string
	in     types.Schema
	mk     func() (op.Operator, error)
	script []exectest.Step
	// next are rows after a restore, and what they lead to.
	next []exectest.Step
	want []string
}{
	{"normalize", kv, normalize, fuzzed, []exectest.Step{exectest.Change(types.Delete, int64(1), nil), exectest.Row(int64(2), "x")},
		[]string{"-D 1 b", "+U 2 x"}},
	{"materialize", kv, materialize, fuzzed, []exectest.Step{exectest.Change(types.Delete, int64(1), "b")}, []string{"+U 1 a"}},
	{"entities", flight, versioned, entityRows, []exectest.Step{exectest.Row(int64(1), int64(1), nil, nil), exectest.Row(int64(2), int64(8), nil, nil),
		exectest.Row(int64(1), int64(9), nil, nil), exectest.Row(int64(2), int64(9), nil, nil)},
		[]string{"-U 1 3 1500 NULL", "+U 1 9 NULL NULL", "+I 2 9 NULL NULL"}},
}

func versioned() (op.Operator, error) {
	return changelog.NewNormalize(&plan.Normalize{Keys: []int{0}, Versioned: true, Version: 1, UpdateBefore: true, HorizonMs: 1000, RowTime: 2}, flight, flight)
}

var entityRows = []exectest.Step{exectest.Row(int64(1), int64(3), types.TS(1500, 0), nil), exectest.Row(int64(2), int64(1), types.TS(1600, 0), int64(5)),
	exectest.Change(types.Delete, int64(2), int64(8), nil, nil)}

// TestSaved_OldForm: what earlier versions have saved is read.
func TestSaved_OldForm(t *testing.T) {
	saved := map[string][]string{}
	f, err := os.Open("testdata/saved.hex")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if w := strings.Fields(s.Text()); len(w) == 3 && w[0] != "#" {
			saved[w[0]] = append(saved[w[0]], w[1]+" "+w[2])
		}
	}
	for _, c := range saving {
		o, err := c.mk()
		if err != nil {
			t.Fatal(err)
		}
		k := &keeps{Operator: o}
		if _, err := exectest.Drive(k, c.in, c.script, exectest.Variant{}, exectest.Options{}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(k.saved); !slices.Equal(k.saved, saved[c.name]) {
			t.Errorf("%s saves\n%s\n%s\nwant\n%s", c.name, strings.Join(k.saved, "\n"), "in the form before:", strings.Join(saved[c.name], "\n"))
		}
		if o, err = c.mk(); err != nil {
			t.Fatal(err)
		}
		r, err := exectest.Drive(&restored{Operator: o, saved: saved[c.name]}, c.in, c.next, exectest.Variant{}, exectest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range r.Rows {
			got = append(got, row.Kind.String()+" "+row.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: after a restore %v, want %v", c.name, got, c.want)
		}
	}
}

// keeps is an operator that is saved when the input has ended.
type keeps struct {
	op.Operator
	saved []string
}

// Open implements op.Operator.
func (k *keeps) Open(c *op.Context, out op.Output) error {
	c.Saves = true
	return k.Operator.Open(c, out)
}

// Finish implements op.Operator.
func (k *keeps) Finish() error {
	var d state.Delta
	if err := k.Operator.(op.Stateful).Freeze(&d); err != nil {
		return err
	}
	return state.EachChange(d.Bytes(), func(c state.Change) error {
		k.saved = append(k.saved, fmt.Sprintf("%x %x", c.Key, c.Value))
		return nil
	})
}

// restored is an operator that goes on from entries of one state.
type restored struct {
	op.Operator
	saved []string
}

// Open implements op.Operator.
func (r *restored) Open(c *op.Context, out op.Output) error {
	c.Saves = true
	if err := r.Operator.Open(c, out); err != nil {
		return err
	}
	return r.Operator.(op.Stateful).Restore(r, nil)
}

// Scan implements state.Saved.
func (r *restored) Scan(_ int, f func(group int, key, value []byte) error) error {
	for _, s := range r.saved {
		k, v, _ := strings.Cut(s, " ")
		key, err := hex.DecodeString(k)
		if err != nil {
			return err
		}
		value, err := hex.DecodeString(v)
		if err != nil {
			return err
		}
		if err := f(0, key, value); err != nil {
			return err
		}
	}
	return nil
}

func FuzzRestoreEntities(f *testing.F) {
	exectest.FuzzRestore(f, versioned, flight, entityRows, exectest.Options{})
}

// reported makes n batches of reports of entities, one in eight of them stale.
func reported(n, entities int) []*vec.Batch {
	r := rand.New(rand.NewSource(1))
	var out []*vec.Batch
	for k := range n {
		b := vec.NewBatch(flight)
		b.Reset(vec.BatchRows)
		for i := range vec.BatchRows {
			b.Cols[0].I64[i], b.Cols[1].I64[i] = r.Int63n(int64(entities)), int64(k*vec.BatchRows+i)
			if r.Intn(8) == 0 {
				b.Cols[1].I64[i] -= 1 << 40
			}
			b.Cols[2].I64[i], b.Cols[3].I64[i] = int64(k), r.Int63n(100)
			b.Stamps = append(b.Stamps, int64(k))
		}
		out = append(out, b)
	}
	return out
}

// TestEntities_NoAllocations: once warm, a batch allocates nothing.
func TestEntities_NoAllocations(t *testing.T) {
	o, err := versioned()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Open(&op.Context{Env: &expr.Env{}, Counters: &op.Counters{}, Now: func() int64 { return 0 }}, &exectest.Discard{}); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	batches, i := reported(100, 500), 0
	push := func() {
		if err := o.Process(0, batches[i]); err != nil {
			t.Fatal(err)
		}
		i++
	}
	for range 40 {
		push()
	}
	if n := testing.AllocsPerRun(50, push); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// BenchmarkNormalize compares entities by versions with upserts in the order they come.
func BenchmarkNormalize(b *testing.B) {
	for _, entities := range []int{3000, 1_000_000} {
		for _, v := range []bool{false, true} {
			b.Run(fmt.Sprintf("entities=%d,versioned=%v", entities, v), func(b *testing.B) {
				n := &plan.Normalize{Keys: []int{0}, Versioned: v, Version: 1, UpdateBefore: true, RowTime: 2}
				o, err := changelog.NewNormalize(n, flight, flight)
				if err != nil {
					b.Fatal(err)
				}
				batches := reported(4000, entities)
				exectest.Bench(b, o, func(i int) (*vec.Batch, int64) { return batches[i%len(batches)], int64(i) })
			})
		}
	}
}
