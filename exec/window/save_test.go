package window_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const keyGroups = 128

// event is what an operator is told: a row with its stamp, a watermark, or processing time.
type event struct {
	exectest.Step
	stamp int64
	group int // the key group of a row
}

// runs drives an operator over a log of events, with stops: at each, the subtasks stand at events of
// their own, are frozen and closed, and others in another number go on with their state. Events that
// a key group has seen are not given to it again.
type runs struct {
	t     *testing.T
	mk    func() (op.Operator, error)
	in    types.Schema
	log   []event
	size  int // rows of a batch
	r     *rand.Rand
	saves bool
	// spills gives the subtasks no memory for state; colds counts what they read back.
	spills bool
	colds  int

	model    map[[2]int]map[string]string // entries by state and group
	puts     int
	heldRows int // written
	rows     []exectest.Out
	counters op.Counters
}

// subtaskRun is one subtask between two stops.
type subtaskRun struct {
	x      *runs
	o      op.Operator
	pos    int   // the next event
	seen   []int // by key group: events before are not for it
	told   int64
	stamp  int64
	now    int64
	lo, hi int
	batch  *vec.Batch
	spill  *state.Spill
	queue  []frozen
}

// frozen is what a Freeze gave, on its way to the store.
type frozen struct {
	changes []byte
	n       uint64
}

func newRuns(t *testing.T, mk func() (op.Operator, error), in types.Schema, keys []int, script []exectest.Step) *runs {
	x := &runs{t: t, mk: mk, in: in, r: newRand(1), saves: true, model: map[[2]int]map[string]string{}}
	stamp := int64(vec.MinTime)
	for _, s := range script {
		x.log = append(x.log, event{Step: s, stamp: stamp})
		if s.Vals == nil && !s.Proc {
			stamp = max(stamp, s.Time)
		}
	}
	x.route(keys)
	return x
}

// route finds the key groups of the rows.
func (x *runs) route(keys []int) {
	var ts []types.Type
	for _, k := range keys {
		ts = append(ts, x.in.Fields[k].Type.WithoutAttr())
	}
	e := state.NewEncoder(state.NewLayout(ts, false))
	b := vec.NewBatch(x.in)
	for _, v := range x.log {
		if v.Vals != nil {
			appendRow(b, v)
		}
	}
	cols := make([]*vec.Vec, len(keys))
	for i, k := range keys {
		cols[i] = b.Cols[k]
	}
	e.Encode(cols, vec.Positions(b.N), nil)
	n := 0
	for i := range x.log {
		if x.log[i].Vals != nil {
			x.log[i].group = state.KeyGroup(e.Hash(n), keyGroups)
			n++
		}
	}
}

func appendRow(b *vec.Batch, v event) {
	for c, val := range v.Vals {
		b.Cols[c].AppendValue(val)
	}
	b.Kinds = append(b.Kinds, v.Kind)
	b.Stamps = append(b.Stamps, v.stamp)
	b.N++
}

// Emit implements op.Output.
func (x *runs) Emit(b *vec.Batch) error {
	b.Each(func(i int) {
		r := exectest.Out{Kind: b.Kind(i), Stamp: b.Stamp(i)}
		var text []string
		for _, c := range b.Cols {
			text = append(text, exectest.Text(c.Value(i), c.Type))
		}
		r.Text = strings.Join(text, " ")
		x.rows = append(x.rows, r)
	})
	return nil
}

// Watermark implements op.Output.
func (x *runs) Watermark(int64) error { return nil }

func (x *runs) start(sub, par int, stored bool) *subtaskRun {
	o, err := x.mk()
	if err != nil {
		x.t.Fatal(err)
	}
	s := &subtaskRun{x: x, o: o, told: vec.MinTime, stamp: vec.MinTime, batch: vec.NewBatch(x.in), seen: make([]int, keyGroups)}
	s.lo, s.hi = state.Groups(sub, keyGroups, par)
	ctx := &op.Context{Env: &expr.Env{}, Subtask: sub, Parallelism: par, MaxParallelism: keyGroups, Counters: &x.counters,
		Now: func() int64 { return s.now }, BatchRows: vec.BatchRows, Saves: x.saves}
	if x.spills {
		ctx.Budget = state.NewBudget(1)
		s.spill = state.NewSpill(ctx.Budget, coldModel{x, s}, state.SpillOptions{Operator: 7, Lo: s.lo, Hi: s.hi, Stored: stored})
		ctx.Spill = s.spill
	}
	if err := o.Open(ctx, x); err != nil {
		x.t.Fatal(err)
	}
	return s
}

// to takes the subtask up to event end; rest says that what it gathered is processed too.
func (s *subtaskRun) to(end int) {
	for ; s.pos < end; s.pos++ {
		v := s.x.log[s.pos]
		switch {
		case v.Vals != nil:
			if v.group < s.lo || v.group >= s.hi || s.pos < s.seen[v.group] {
				continue
			}
			appendRow(s.batch, v)
			if s.x.size > 0 && s.batch.N >= s.x.size {
				s.flush(true)
			}
		case v.Proc:
			s.flush(true)
			s.now = v.Time
			if p, ok := s.o.(op.ProcTimer); ok {
				s.check(p.ProcTime(s.now))
			}
		default:
			s.stamp = max(s.stamp, v.Time)
			if s.batch.N == 0 || s.x.size == 1 {
				s.flush(true)
			}
		}
	}
}

func (s *subtaskRun) check(err error) {
	s.x.t.Helper()
	if err != nil {
		s.x.t.Fatal(err)
	}
}

// flush gives the operator its batch and, with wm, the watermark that has come.
func (s *subtaskRun) flush(wm bool) {
	if b := s.batch; b.N > 0 {
		s.batch = vec.NewBatch(s.x.in)
		s.check(s.o.Process(0, b))
		s.between()
		for _, c := range b.Cols {
			for i := range c.Buf {
				c.Buf[i] = '#'
			}
		}
	}
	if wm && s.stamp > s.told {
		s.told = s.stamp
		s.check(s.o.Watermark(s.told))
	}
}

// between is what a job does between two batches, at random where it need not.
func (s *subtaskRun) between() {
	if s.spill == nil {
		return
	}
	if r := s.x.r; r.Intn(3) > 0 {
		s.freeze()
		if r.Intn(3) > 0 {
			s.apply(1 + r.Intn(len(s.queue)))
		}
	}
	s.spill.Between()
}

// apply takes the first n freezes to the model.
func (s *subtaskRun) apply(n int) {
	for _, f := range s.queue[:n] {
		s.x.apply(s, f.changes)
		if s.spill != nil {
			s.spill.Applied(f.n)
		}
	}
	s.queue = s.queue[n:]
}

// stop takes all changes of a subtask to the model.
func (s *subtaskRun) stop() {
	s.freeze()
	s.apply(len(s.queue))
}

// coldModel is the model as a store below the tables.
type coldModel struct {
	x *runs
	s *subtaskRun // that reads
}

// meanwhile puts changes that wait into the model at random, as a job does that beside its operators.
func (c coldModel) meanwhile() {
	if len(c.s.queue) > 0 && c.x.r.Intn(4) == 0 {
		c.s.apply(1)
	}
}

// Lookup implements state.Cold.
func (c coldModel) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	c.meanwhile()
	for i, k := range keys {
		if v, ok := c.x.model[[2]int{int(k[2]), int(k[3])<<8 | int(k[4])}][string(k[state.StoreHead:])]; ok {
			c.x.colds++
			if err := found(i, []byte(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Range implements state.Cold.
func (c coldModel) Range(lo, hi []byte, f func(key, value []byte) error) error {
	c.meanwhile()
	group := func(k []byte) int { return int(k[3])<<8 | int(k[4]) }
	for g := group(lo); g <= group(hi); g++ {
		m := c.x.model[[2]int{int(lo[2]), g}]
		if len(m) == 0 {
			continue
		}
		head := string(state.AppendStoreKey(nil, 7, int(lo[2]), g))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if at := head + k; at < string(lo) || at >= string(hi) {
				continue
			}
			c.x.colds++
			if err := f([]byte(head+k), []byte(m[k])); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeze takes the changes of a subtask.
func (s *subtaskRun) freeze() {
	st, ok := s.o.(op.Stateful)
	if !ok {
		return
	}
	var d state.Delta
	dirty := st.Dirty()
	s.check(st.Freeze(&d))
	if dirty == 0 && d.Len() > 0 {
		s.x.t.Errorf("%d bytes of changes where Dirty says there are none", d.Size())
	}
	f := frozen{changes: d.Take()}
	if s.spill != nil {
		f.n = s.spill.Frozen()
	}
	s.queue = append(s.queue, f)
}

// apply adds changes of a subtask to the model.
func (x *runs) apply(s *subtaskRun, changes []byte) {
	specs := s.o.(op.Stateful).States()
	s.check(state.EachChange(changes, func(c state.Change) error {
		if c.Group < s.lo || c.Group >= s.hi || c.State >= len(specs) {
			return fmt.Errorf("change of state %d, group %d", c.State, c.Group)
		}
		m := x.model[[2]int{c.State, c.Group}]
		if m == nil {
			m = map[string]string{}
			x.model[[2]int{c.State, c.Group}] = m
		}
		switch c.Kind {
		case state.ChangePut:
			x.puts++
			if specs[c.State].Name == "held rows" {
				x.heldRows++
			}
			m[string(c.Key)] = string(c.Value)
		case state.ChangeDelete:
			delete(m, string(c.Key))
		case state.ChangeDeletePrefix:
			for k := range m {
				if strings.HasPrefix(k, string(c.Key)) {
					delete(m, k)
				}
			}
		}
		return nil
	}))
}

// entries is the number of entries in the model.
func (x *runs) entries() int {
	n := 0
	for _, m := range x.model {
		n += len(m)
	}
	return n
}

// saved gives the entries of some key groups.
type savedModel struct {
	x      *runs
	lo, hi int
}

// Scan implements state.Saved.
func (s savedModel) Scan(st int, f func(group int, key, value []byte) error) error {
	for g := s.lo; g < s.hi; g++ {
		m := s.x.model[[2]int{st, g}]
		var keys []string
		for k := range m {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			key, value := []byte(k), []byte(m[k])
			if err := f(g, key, value); err != nil {
				return err
			}
			for i := range key {
				key[i] = '#'
			}
			for i := range value {
				value[i] = '#'
			}
		}
	}
	return nil
}

// run takes the log in phases of the given parallelisms.
func (x *runs) run(pars ...int) {
	subs := make([]*subtaskRun, pars[0])
	for i := range subs {
		subs[i] = x.start(i, pars[0], false)
	}
	last := 0
	for _, par := range pars[1:] {
		// Each subtask stops somewhere near.
		last += x.r.Intn(len(x.log) - last + 1)
		var heads [][]byte
		for _, s := range subs {
			for range x.r.Intn(3) { // cuts before that nobody starts from
				s.to(max(s.pos, last*x.r.Intn(100)/100))
				s.flush(x.r.Intn(2) == 0)
				s.stop()
			}
			s.to(min(len(x.log), max(s.pos, last+x.r.Intn(8)-4)))
			s.flush(x.r.Intn(3) > 0)
			s.stop()
			head, err := s.o.(op.Stateful).Head(nil)
			s.check(err)
			heads = append(heads, head)
		}
		next := make([]*subtaskRun, par)
		for i := range next {
			next[i] = x.resume(i, par, subs, heads)
		}
		for _, s := range subs {
			s.check(s.o.Close())
		}
		subs = next
	}
	for _, s := range subs {
		s.to(len(x.log))
		s.flush(true)
		if s.told != vec.MaxTime {
			s.check(s.o.Watermark(vec.MaxTime))
		}
		s.check(s.o.Finish())
		s.stop()
		s.check(s.o.Close())
	}
}

// resume starts a subtask from what the old ones left.
func (x *runs) resume(sub, par int, old []*subtaskRun, heads [][]byte) *subtaskRun {
	s := x.start(sub, par, x.spills && x.r.Intn(2) == 0)
	s.pos, s.told = len(x.log)+1, vec.MaxTime
	for g := range keyGroups {
		from := old[state.Subtask(g, keyGroups, len(old))]
		s.seen[g] = max(from.seen[g], from.pos)
		if g < s.lo || g >= s.hi {
			continue
		}
		if from.pos < s.pos {
			s.pos, s.stamp, s.now = from.pos, from.stamp, from.now
		}
		s.told = min(s.told, from.told)
	}
	s.check(s.o.(op.Stateful).Restore(savedModel{x, s.lo, s.hi}, heads))
	return s
}

// results are the rows so far as they are compared.
func (x *runs) results(stamps bool) []string {
	if !stamps {
		return exectest.Fold(x.rows)
	}
	return stamped(x.rows)
}

var (
	parallelisms = [][]int{{1, 1, 1}, {1, 3, 2}, {2, 5, 1, 1}, {1, 1}, {3, 3, 3, 4}}
	thorough     = flag.Int("thorough", 1, "how many times restarts are tried at other places")
)

// checkRestarts compares runs with stops to one without: the rows, and with stamps what they carry.
// It returns how many entries came back from the store where there was no memory for state.
func checkRestarts(t *testing.T, mk func() (op.Operator, error), in types.Schema, keys []int, script []exectest.Step, stamps bool) int {
	t.Helper()
	if o, err := mk(); err != nil {
		t.Fatal(err)
	} else if _, ok := o.(op.Stateful); !ok {
		t.Fatalf("%T does not save its state", o)
	}
	return restarts(t, func() *runs { return newRuns(t, mk, in, keys, script) }, stamps)
}

func restarts(t *testing.T, make func() *runs, stamps bool) int {
	t.Helper()
	colds := 0
	for i, size := range []int{1, 4, 0} {
		plain := make()
		plain.size, plain.saves = size, false
		plain.run(1)
		tries := *thorough
		if len(plain.log) < 30 {
			tries *= 6
		}
		for try := range 2 * tries {
			spills := try%2 == 1
			pars := parallelisms[(try/2+i)%len(parallelisms)]
			x := make()
			h := fnv.New32()
			h.Write([]byte(t.Name()))
			x.size, x.r, x.spills = size, newRand(int64(h.Sum32())+int64(try)), spills
			x.run(pars...)
			// With larger batches, a subtask does not know of the watermarks that others had between rows.
			stamps := stamps && (size == 1 || slices.Max(pars) == 1)
			want := plain.results(stamps)
			what := fmt.Sprintf("size %d, parallelism %v, spills %v, try %d", size, pars, spills, try)
			if got := x.results(stamps); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %s", what, diff(got, want))
			}
			for _, r := range []op.DropReason{op.DropLate, op.DropNullTime, op.DropFilter} {
				if got, want := x.counters.Drops[r].Load(), plain.counters.Drops[r].Load(); got != want {
					t.Errorf("%s: %d %s rows, want %d", what, got, r, want)
				}
			}
			if got, want := x.counters.Used.Load(), plain.counters.Used.Load(); got != want {
				t.Errorf("%s: %d rows used, want %d", what, got, want)
			}
			if n := x.entries(); n > 0 {
				t.Fatalf("%s: %d entries are left at the end", what, n)
			}
			colds += x.colds
		}
	}
	return colds
}

// TestRestart_Cases stops every text case in the middle.
func TestRestart_Cases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		if _, batched := c.Args["batched"]; batched {
			continue // what results tell depends on how rows are cut into batches
		}
		mk := builder(t, &c)
		o, err := mk()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := o.(op.Stateful); !ok {
			if _, tvf := o.(*window.TVF); !tvf {
				t.Errorf("line %d: %T does not save its state", c.Line, o)
			}
			continue
		}
		t.Run(c.Name, func(t *testing.T) { checkRestarts(t, mk, c.Schema, c.Columns(c.Args["key"]), c.Script, false) })
	}
}

// ordered are aggregates that depend on the order of rows, without distinct values.
const ordered = "SUM(d); LISTAGG(s); FIRST_VALUE(i); AVG(d) FILTER f"

// mixed are aggregates that depend on the order of rows, and take rows back, beside distinct values.
const mixed = "COUNT(*); SUM(d); MIN(i); MAX(s); COUNT(DISTINCT s) FILTER f; SUM(DISTINCT i)"

// distincts are aggregates over distinct values whose parts may be merged in any order.
const distincts = "COUNT(DISTINCT i); COUNT(DISTINCT s) FILTER f; SUM(DISTINCT i); COUNT(DISTINCT s); MAX(s); AVG(DISTINCT m); COUNT(DISTINCT d)"

// TestRestart_Aligned stops windows of every shape.
func TestRestart_Aligned(t *testing.T) {
	shapes := []plan.Window{
		{Kind: plan.Tumble, Size: 10},
		{Kind: plan.Hop, Size: 10, Step: 2},
		{Kind: plan.Hop, Size: 9, Step: 6, Offset: -2},
		{Kind: plan.Hop, Size: 16, Step: 1},
		{Kind: plan.Cumulate, Size: 12, Step: 3},
		{Kind: plan.Cumulate, Size: 30, Step: 1, Offset: 4},
	}
	for _, w := range shapes {
		for _, list := range []string{invertible, packable, ordered, others, retracting, distincts, mixed, "COLLECT(i); COUNT(*)"} {
			for _, keys := range [][]int{{}, {3, 0}} {
				w.TimeCol = 1
				c := exectest.Case{Schema: schema}
				aggs, err := c.Aggs(list, len(keys) > 0)
				if err != nil {
					t.Fatal(err)
				}
				n := &plan.WindowAgg{Window: w, Keys: keys, Aggs: aggs, InputRetracts: list == retracting || list == mixed, EarlyFireMs: -1, LateFireMs: -1,
					Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
				t.Run(fmt.Sprintf("%s,%d,%d,%.14s,keys=%v", w.Kind, w.Size, w.Step, list, keys), func(t *testing.T) {
					script := randomScript(newRand(w.Size+int64(len(keys))), 100, n.InputRetracts)
					mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
					colds := checkRestarts(t, mk, schema, keys, script, true)
					values := list == distincts || list == retracting || (list == others || list == mixed) && w.Kind == plan.Tumble
					if colds == 0 && (values || len(keys) > 0 && list != others && list != mixed) {
						t.Error("nothing left memory and came back")
					}
				})
			}
		}
	}
}

// tape notes what a local phase emits as events for a global one.
type tape struct {
	log   []event
	stamp int64
}

// Emit implements op.Output.
func (p *tape) Emit(b *vec.Batch) error {
	b.Each(func(i int) {
		v := event{Step: exectest.Step{Kind: b.Kind(i)}, stamp: b.Stamp(i)}
		for _, c := range b.Cols {
			v.Vals = append(v.Vals, c.Value(i))
		}
		p.log = append(p.log, v)
	})
	return nil
}

// Watermark implements op.Output.
func (p *tape) Watermark(wm int64) error {
	if wm > p.stamp {
		p.log = append(p.log, event{Step: exectest.WM(wm)})
		p.stamp = wm
	}
	return nil
}

// localTape runs the local phase over a script, with stops before which it is flushed.
func localTape(t *testing.T, mk func() (op.Operator, error), script []exectest.Step, size int, r *rand.Rand, late *op.Counters) []event {
	x := newRuns(t, mk, schema, nil, script)
	p := &tape{stamp: vec.MinTime}
	x.size = size
	open := func() *subtaskRun {
		n := x.start(0, 1, false)
		ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: keyGroups, Counters: late,
			Now: func() int64 { return 0 }, BatchRows: vec.BatchRows, Saves: true}
		n.check(n.o.Close())
		var err error
		n.o, err = mk()
		n.check(err)
		n.check(n.o.Open(ctx, p))
		return n
	}
	s := open()
	for s.pos < len(x.log) {
		s.to(min(len(x.log), s.pos+1+r.Intn(30)))
		s.flush(r.Intn(2) == 0)
		s.check(s.o.(op.Flusher).Flush())
		st := s.o.(op.Stateful)
		if n := st.Dirty(); n != 0 || len(st.States()) > 0 {
			t.Fatalf("a local phase has %d bytes of state in %d states", n, len(st.States()))
		}
		head, err := st.Head(nil)
		s.check(err)
		next := open()
		next.pos, next.told, next.stamp = s.pos, s.told, s.stamp
		next.check(next.o.(op.Stateful).Restore(savedModel{x, 0, 0}, [][]byte{head}))
		s.check(s.o.Close())
		s = next
	}
	s.flush(true)
	s.check(s.o.Watermark(vec.MaxTime))
	s.check(s.o.Finish())
	s.check(s.o.Close())
	return p.log
}

// TestRestart_TwoPhase stops local phases, and then the global phase over what they gave, which
// must be that of the one-row machine.
func TestRestart_TwoPhase(t *testing.T) {
	c := exectest.Case{Schema: schema}
	held := 0
	for _, w := range phaseShapes {
		aggs, err := c.Aggs(packable, true)
		if err != nil {
			t.Fatal(err)
		}
		n := &plan.WindowAgg{Window: w, Keys: []int{3, 0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1,
			Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
		local, global, mid := twoPhase(n)
		t.Run(fmt.Sprintf("%s,%d,%d", w.Kind, w.Size, w.Step), func(t *testing.T) {
			for seed := int64(1); seed <= 2; seed++ {
				script := randomScript(newRand(seed), 80, false)
				want, late := expected(n, schema, script)
				for _, size := range []int{1, 5, 0} {
					counters := &op.Counters{}
					log := localTape(t, local, script, size, newRand(seed), counters)
					if got := counters.Drops[op.DropLate].Load(); got != late {
						t.Errorf("size %d, seed %d: %d late rows, want %d", size, seed, got, late)
					}
					x := &runs{t: t, mk: global, in: mid, log: log, size: size, r: newRand(seed), saves: true,
						model: map[[2]int]map[string]string{}}
					x.route([]int{0, 1})
					x.run(1, 3, 2)
					if got := x.results(false); !reflect.DeepEqual(got, unstamped(want)) {
						t.Fatalf("size %d, seed %d: %s", size, seed, diff(got, unstamped(want)))
					}
					if n := x.entries(); n > 0 {
						t.Errorf("%d entries are left at the end", n)
					}
					held += x.heldRows
				}
			}
		})
	}
	if held == 0 {
		t.Error("no row was held at a stop")
	}
}

// TestFreeze_OnlyChanges checks that what did not change is not written again, and how slices go.
func TestFreeze_OnlyChanges(t *testing.T) {
	for _, w := range []plan.Window{{Kind: plan.Tumble, Size: 100}, {Kind: plan.Hop, Size: 200, Step: 100}, {Kind: plan.Cumulate, Size: 200, Step: 100}} {
		for _, keys := range []int64{2, 1000} { // deleted one by one, or by prefixes
			t.Run(fmt.Sprintf("%s,keys=%d", w.Kind, keys), func(t *testing.T) { onlyChanges(t, w, keys) })
		}
	}
}

func onlyChanges(t *testing.T, w plan.Window, keys int64) {
	var script []exectest.Step
	add := func(key, ts int64) {
		script = append(script, exectest.Row(key, types.TS(ts, 0), int64(1), nil, nil, nil, nil))
	}
	for k := range keys {
		add(k, 10)
		add(k, 110)
	}
	add(0, 110) // the second part: one key of one slice
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("COUNT(*)", true)
	if err != nil {
		t.Fatal(err)
	}
	w.TimeCol = 1
	n := &plan.WindowAgg{Window: w, Keys: []int{0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1}
	x := newRuns(t, func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }, schema, n.Keys, script)
	s := x.start(0, 1, false)
	step := func(to int, puts int) {
		t.Helper()
		s.to(to)
		s.flush(true)
		x.puts = 0
		s.stop()
		if x.puts != puts {
			t.Errorf("%d entries were written, want %d", x.puts, puts)
		}
	}
	all := int(keys)
	step(len(script)-1, 2*all)
	step(len(script)-1, 0)
	step(len(script), 1)
	s.check(s.o.Watermark(100))
	left, written := all, 0
	switch w.Kind {
	case plan.Hop:
		left = 2 * all // the next window has the first slice too
	case plan.Cumulate:
		left, written = 2*all, all // it went into the running aggregate
	}
	step(len(script), written)
	if got := x.entries(); got != left {
		t.Errorf("%d entries are left after the first window, want %d", got, left)
	}
	s.check(s.o.Watermark(400))
	step(len(script), 0)
	if got := x.entries(); got != 0 {
		t.Errorf("%d entries are left after the last window", got)
	}
	s.check(s.o.Close())
}

// TestRestart_Session stops sessions.
func TestRestart_Session(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for _, gap := range []int64{1, 8, 30} {
		for _, list := range []string{invertible, others, retracting, "COUNT(*); COLLECT(i); FIRST_VALUE(i) FILTER f", "LISTAGG(s); COUNT(DISTINCT i)"} {
			for _, keys := range [][]int{{}, {3, 0}} {
				if list == retracting && gap < 30 {
					continue
				}
				aggs, err := c.Aggs(list, len(keys) > 0)
				if err != nil {
					t.Fatal(err)
				}
				n := &plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: gap, TimeCol: 1}, Keys: keys,
					Aggs: aggs, InputRetracts: list == retracting, EarlyFireMs: -1, LateFireMs: -1,
					Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
				t.Run(fmt.Sprintf("%d,%.14s,keys=%v", gap, list, keys), func(t *testing.T) {
					script := randomScript(newRand(gap), 100, n.InputRetracts)
					mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
					checkRestarts(t, mk, schema, keys, script, true)
				})
			}
		}
	}
}

// TestRestart_Emitting stops windows with early and late results.
func TestRestart_Emitting(t *testing.T) {
	c := exectest.Case{Schema: schema}
	shapes := []plan.Window{{Kind: plan.Tumble, Size: 20}, {Kind: plan.Hop, Size: 10, Step: 5}, {Kind: plan.Cumulate, Size: 12, Step: 3}}
	for i, fire := range [][3]int64{{-1, -1, 10}, {0, -1, 0}, {5, -1, 15}, {-1, 7, 30}, {4, 9, 30}, {0, 6, 20}} {
		for k, list := range []string{invertible, ordered, others, retracting, distincts, mixed} {
			keys := [][]int{{}, {3, 0}}[(i+k)%2]
			w := shapes[i%3]
			w.TimeCol = 1
			aggs, err := c.Aggs(list, len(keys) > 0)
			if err != nil {
				t.Fatal(err)
			}
			n := &plan.WindowAgg{Window: w, Keys: keys, Aggs: aggs, InputRetracts: list == retracting || list == mixed, EarlyFireMs: fire[0], LateFireMs: fire[1],
				AllowedLatenessMs: fire[2], Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
			t.Run(fmt.Sprintf("%s,%v,%.14s,keys=%v", w.Kind, fire, list, keys), func(t *testing.T) {
				r := newRand(int64(i))
				var script []exectest.Step
				now := int64(1000)
				for _, s := range randomScript(r, 100, n.InputRetracts) {
					script = append(script, s)
					if r.Intn(4) == 0 {
						now += int64(r.Intn(5))
						script = append(script, exectest.Step{Proc: true, Time: now})
					}
				}
				mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
				colds := checkRestarts(t, mk, schema, keys, script, false)
				if values := list != invertible && list != ordered; colds == 0 && (values || len(keys) > 0) {
					t.Error("nothing left memory and came back")
				}
			})
		}
	}
}

// TestRestart_Clocks checks that results by processing time come at the time they were due at.
func TestRestart_Clocks(t *testing.T) {
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("SUM(i)", false)
	if err != nil {
		t.Fatal(err)
	}
	n := &plan.WindowAgg{Window: plan.Window{Kind: plan.Tumble, Size: 10, TimeCol: 1}, Aggs: aggs, EarlyFireMs: 100, LateFireMs: 1000,
		AllowedLatenessMs: 50}
	row := func(ts, i int64) exectest.Step { return exectest.Row(nil, types.TS(ts, 0), i, nil, nil, nil, nil) }
	proc := func(ms int64) exectest.Step { return exectest.Step{Proc: true, Time: ms} }
	script := []exectest.Step{proc(130), row(1, 1), proc(199), proc(200), exectest.WM(9), row(2, 2), proc(999), proc(1000)}
	want := []string{"", "", "", "1", "1", "1", "1", "3"} // the result after each event
	for stop := range script {
		x := newRuns(t, func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }, schema, n.Keys, script)
		x.size = 1
		s := x.start(0, 1, false)
		for i := range script {
			s.to(i + 1)
			if got := strings.Join(exectest.Fold(x.rows), ","); got != want[i] {
				t.Errorf("stopped after event %d: result %s after event %d, want %s", stop, got, i, want[i])
			}
			if i == stop {
				s.stop()
				head, err := s.o.(op.Stateful).Head(nil)
				s.check(err)
				s.check(s.o.Close())
				s = x.resume(0, 1, []*subtaskRun{s}, [][]byte{head})
			}
		}
		s.check(s.o.Close())
	}
}

// TestCluster_Cases runs the text cases over instances that are saved and replaced between batches,
// with what exectest checks of that.
func TestCluster_Cases(t *testing.T) {
	for _, c := range exectest.Cases(t, "testdata/*.txt") {
		mk := builder(t, &c)
		if o, err := mk(); err != nil {
			t.Fatal(err)
		} else if _, ok := o.(op.Stateful); !ok {
			continue
		}
		if _, trace := c.Args["trace"]; trace {
			continue // of one instance
		}
		t.Run(c.Name, func(t *testing.T) {
			cluster := func() (op.Operator, error) {
				return &exectest.Cluster{Make: mk, Keys: [][]int{c.Columns(c.Args["key"])}, Schemas: []types.Schema{c.Schema},
					Par: []int{1, 3, 2}, Every: 3, Seed: int64(c.Line)}, nil
			}
			exectest.Run(t, cluster, c.Schema, c.Script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
				got := texts(r.Rows)
				if _, fold := c.Args["fold"]; fold {
					got = exectest.Fold(r.Rows)
				}
				sort.Strings(c.Want)
				if !reflect.DeepEqual(got, c.Want) {
					t.Errorf("line %d: %s", c.Line, diff(got, c.Want))
				}
			})
		})
	}
}

// fuzzRestore gives an operator damaged state.
func fuzzRestore(f *testing.F, w plan.Window, early int64) {
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("COUNT(*); COUNT(DISTINCT i); MIN(s); COLLECT(d)", true)
	if err != nil {
		f.Fatal(err)
	}
	w.TimeCol = 1
	n := &plan.WindowAgg{Window: w, Keys: []int{3, 0}, Aggs: aggs, EarlyFireMs: early, LateFireMs: -1}
	exectest.FuzzRestore(f, func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }, schema,
		randomScript(newRand(1), 50, false), exectest.Options{})
}

func FuzzRestore_Hop(f *testing.F) {
	fuzzRestore(f, plan.Window{Kind: plan.Hop, Size: 40, Step: 10}, -1)
}

func FuzzRestore_Cumulate(f *testing.F) {
	fuzzRestore(f, plan.Window{Kind: plan.Cumulate, Size: 1000, Step: 10, Zone: "Europe/Berlin"}, -1)
}

func FuzzRestore_Session(f *testing.F) { fuzzRestore(f, plan.Window{Kind: plan.Session, Size: 30}, -1) }

func FuzzRestore_Emitting(f *testing.F) { fuzzRestore(f, plan.Window{Kind: plan.Tumble, Size: 40}, 5) }

// FuzzRestore_Told is of windows that count rows and tell causes, FuzzRestore_Sessions of sessions that
// are corrected and do so too.
func FuzzRestore_Told(f *testing.F) { fuzzTold(f, plan.Window{Kind: plan.Hop, Size: 40, Step: 20}) }

func FuzzRestore_Sessions(f *testing.F) { fuzzTold(f, plan.Window{Kind: plan.Session, Size: 10}) }

func fuzzTold(f *testing.F, w plan.Window) {
	in := types.NewSchema(append(schema.Fields[:4:4], types.Field{Name: "src", Type: stringType.NotNull()},
		types.Field{Name: "pos", Type: bigintType.NotNull()})...)
	c := exectest.Case{Schema: in}
	aggs, err := c.Aggs("COUNT(*); COUNT(DISTINCT i); MIN(s)", true)
	if err != nil {
		f.Fatal(err)
	}
	w.TimeCol = 1
	n := &plan.WindowAgg{Window: w, Keys: []int{3, 0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1, EarlyFireRows: 2,
		AllowedLatenessMs: 30, Props: []plan.WindowProp{plan.WindowEnd, plan.WindowReason, plan.WindowCount, plan.WindowCause}}
	var script []exectest.Step
	for i, s := range randomScript(newRand(3), 60, false) {
		if s.Vals != nil {
			s.Vals = append(s.Vals[:4:4], []types.Value{"a", "b c:%"}[i%2], int64(i))
		}
		script = append(script, s)
	}
	exectest.FuzzRestore(f, func() (op.Operator, error) {
		o, err := window.NewAgg(n, in, outSchema(in, n))
		return newWitness(o, false, 4, 5), err
	}, in, script, exectest.Options{})
}
