package window_test

import (
	"fmt"
	"math/rand"
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

var schema = types.NewSchema(
	types.Field{Name: "k", Type: types.BigIntType},
	types.Field{Name: "ts", Type: types.TimestampType(3)},
	types.Field{Name: "i", Type: types.IntType},
	types.Field{Name: "s", Type: types.StringType},
	types.Field{Name: "f", Type: types.BooleanType},
	types.Field{Name: "d", Type: types.DoubleType},
	types.Field{Name: "m", Type: types.DecimalType(30, 2)},
)

func outSchema(in types.Schema, n *plan.WindowAgg) types.Schema {
	var s types.Schema
	for _, k := range n.Keys {
		s.Fields = append(s.Fields, in.Fields[k])
	}
	for _, a := range n.Aggs {
		s.Fields = append(s.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	for _, p := range n.Props {
		t := types.TimestampType(3)
		switch {
		case p == plan.WindowCount:
			t = bigintType.NotNull()
		case p == plan.WindowReason || p == plan.WindowCause:
			t = stringType.NotNull()
		case n.Window.Zone != "" && p == plan.WindowTime:
			t = types.TimestampLTZType(3)
		}
		s.Fields = append(s.Fields, types.Field{Name: fmt.Sprint("w", p), Type: t})
	}
	return s
}

// machine is the slow reference: it takes one row at a time, keeps every window apart, and fires
// the windows that are over after each watermark.
type machine struct {
	n       *plan.WindowAgg
	in      types.Schema
	open    map[[2]int64]*exectest.Table
	wm      int64
	dropped int64
	out     []string // results with their stamps
	late    *lateLog
}

// windows lists all windows that time t is in, by trying every start.
func (m *machine) windows(t int64) [][2]int64 {
	w := m.n.Window
	var out [][2]int64
	switch w.Kind {
	case plan.Tumble, plan.Hop:
		step := w.Size
		if w.Kind == plan.Hop {
			step = w.Step
		}
		for s := t - w.Size - step; s <= t; s++ {
			if mod(s-w.Offset, step) == 0 && s <= t && t < s+w.Size {
				out = append(out, [2]int64{s, s + w.Size})
			}
		}
	case plan.Cumulate:
		s := t - mod(t-w.Offset, w.Size)
		for e := s + w.Step; e <= s+w.Size; e += w.Step {
			if t < e {
				out = append(out, [2]int64{s, e})
			}
		}
	}
	return out
}

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewSource(seed)) }

func mod(a, b int64) int64 { return ((a % b) + b) % b }

func (m *machine) key(s exectest.Step) []types.Value {
	var key []types.Value
	for _, k := range m.n.Keys {
		key = append(key, s.Vals[k])
	}
	return key
}

func (m *machine) row(s exectest.Step) {
	ts, ok := s.Vals[m.n.Window.TimeCol].(types.Int128)
	if !ok {
		return
	}
	late := true
	for _, w := range m.windows(ts.Hi) {
		if over := w[1] - 1 + m.n.AllowedLatenessMs; over <= m.wm {
			m.late.add(m.in, s, w, over, m.wm)
			continue
		}
		late = false
		if m.open[w] == nil {
			m.open[w] = exectest.NewTable()
		}
		m.open[w].Apply(m.key(s), s)
	}
	if late {
		m.dropped++
	}
}

func (m *machine) watermark(wm int64) {
	var due [][2]int64
	for w := range m.open {
		if w[1]-1+m.n.AllowedLatenessMs <= wm {
			due = append(due, w)
		}
	}
	var keyTypes []types.Type
	for _, k := range m.n.Keys {
		keyTypes = append(keyTypes, m.in.Fields[k].Type)
	}
	for _, w := range due {
		for _, r := range m.open[w].Results(keyTypes, m.n.Aggs, w[0], w[1], w[1]-1) {
			m.out = append(m.out, fmt.Sprintf("%s @%d", r, m.wm))
		}
		delete(m.open, w)
	}
	m.wm = max(m.wm, wm)
}

// stamped is how a result is compared: with its stamp.
func stamped(rows []exectest.Out) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s @%d", r.Text, r.Stamp))
	}
	sort.Strings(out)
	return out
}

// lateLog is late rows, as text, and the windows missed.
type lateLog struct {
	rows   []string
	missed map[string]int
	by     op.LateBy
	last   *types.Value // of the row that was noted last
}

func (l *lateLog) add(in types.Schema, s exectest.Step, w [2]int64, over, wm int64) {
	if l == nil {
		return
	}
	if &s.Vals[0] != l.last { // the windows of a row come one after the other, the one that it missed by most first
		l.last = &s.Vals[0]
		l.by.Note(wm - over)
	}
	var text []string
	for i, x := range s.Vals {
		text = append(text, exectest.Text(x, in.Fields[i].Type))
	}
	l.rows = append(l.rows, fmt.Sprintf("%s agg %d %d %d %d %s", strings.Join(text, " "), w[0], w[1], wm, wm-over, s.Kind))
	if l.missed == nil {
		l.missed = map[string]int{}
	}
	l.missed[fmt.Sprintf("%d-%d", w[0], w[1])]++
}

func expected(n *plan.WindowAgg, in types.Schema, script []exectest.Step) ([]string, int64) {
	return expectedLate(n, in, script, nil)
}

// expectedLate is expected that notes the late rows too.
func expectedLate(n *plan.WindowAgg, in types.Schema, script []exectest.Step, late *lateLog) ([]string, int64) {
	m := &machine{n: n, in: in, open: map[[2]int64]*exectest.Table{}, wm: vec.MinTime, late: late}
	for _, s := range script {
		if s.Vals != nil {
			m.row(s)
		} else {
			m.watermark(s.Time)
		}
	}
	m.watermark(vec.MaxTime)
	sort.Strings(m.out)
	if m.out == nil {
		m.out = []string{}
	}
	return m.out, m.dropped
}

// randomScript has rows around a moving time, some far behind, and watermarks that follow.
func randomScript(r *rand.Rand, rows int, retract bool) []exectest.Step {
	var script []exectest.Step
	var live [][]types.Value
	now, wm := int64(-20), int64(vec.MinTime)
	for range rows {
		now += int64(r.Intn(4))
		if r.Intn(40) == 0 {
			now += 60
		}
		t := now - int64(r.Intn(5))
		if r.Intn(6) == 0 {
			t = now - int64(r.Intn(40))
		}
		row := []types.Value{int64(r.Intn(4)), types.TS(t, 0), int64(r.Intn(9) - 4),
			strings.Repeat("y", 14*r.Intn(2)) + fmt.Sprint(r.Intn(3)), r.Intn(2) == 0,
			float64(r.Intn(8)) / 4, types.I128(int64(r.Intn(100)))}
		for i := range row {
			if i != 1 && r.Intn(8) == 0 {
				row[i] = nil
			}
		}
		kind := types.Insert
		if retract && len(live) > 0 && r.Intn(4) == 0 {
			i := r.Intn(len(live))
			kind, row = types.Delete, live[i]
			live = append(live[:i], live[i+1:]...)
		} else {
			// Only new rows are taken back: one that comes after its window fired finds nothing.
			live = append(live[max(0, len(live)-1):], row)
		}
		if r.Intn(30) == 0 && !retract {
			row = append([]types.Value{}, row...)
			row[1] = nil
		}
		script = append(script, exectest.Change(kind, row...))
		if w := now - int64(r.Intn(8)); r.Intn(3) > 0 && w > wm {
			wm = w
			script = append(script, exectest.WM(wm))
		}
	}
	return script
}

const (
	invertible = "COUNT(*); SUM(i); AVG(i); MIN(i); MAX(i) FILTER f; MAX(d); COUNT(i); SUM(m); AVG(m)"
	others     = "COUNT(*); COUNT(DISTINCT i); COUNT(DISTINCT s) FILTER f; SUM(DISTINCT i); MIN(s); MAX(s); SUM(d); AVG(d); MAX(m); MIN(f); APPROX_COUNT_DISTINCT(i)"
	retracting = "COUNT(*); SUM(i); MIN(i); MAX(s); COUNT(DISTINCT i) FILTER f; AVG(m)"
	// sums are what a running aggregate of a hop can lose again, rows that are taken back included.
	sums = "COUNT(*); SUM(i); AVG(m)"
)

// TestAligned_AgainstMachine compares windows of every shape with the slow reference: rows, the
// stamps they carry, and the number of late rows.
func TestAligned_AgainstMachine(t *testing.T) {
	shapes := []plan.Window{
		{Kind: plan.Tumble, Size: 10},
		{Kind: plan.Tumble, Size: 7, Offset: 3},
		{Kind: plan.Hop, Size: 10, Step: 2},
		{Kind: plan.Hop, Size: 10, Step: 10},
		{Kind: plan.Hop, Size: 9, Step: 6, Offset: -2},
		{Kind: plan.Hop, Size: 40, Step: 1},
		{Kind: plan.Cumulate, Size: 12, Step: 3},
		{Kind: plan.Cumulate, Size: 30, Step: 1, Offset: 4},
	}
	c := exectest.Case{Schema: schema}
	for _, w := range shapes {
		for _, list := range []string{invertible, others, retracting, sums} {
			for _, keys := range [][]int{{}, {3, 0}} {
				w.TimeCol = 1
				aggs, err := c.Aggs(list, len(keys) > 0)
				if err != nil {
					t.Fatal(err)
				}
				n := &plan.WindowAgg{Window: w, Keys: keys, Aggs: aggs, InputRetracts: list == retracting || list == sums, EarlyFireMs: -1, LateFireMs: -1,
					Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
				t.Run(fmt.Sprintf("%s,%d,%d,%d,%.16s,keys=%v", w.Kind, w.Size, w.Step, w.Offset, list, keys),
					func(t *testing.T) {
						for seed := int64(1); seed <= 1+int64(len(keys))/2; seed++ {
							script := randomScript(rand.New(rand.NewSource(seed)), 120, n.InputRetracts)
							compare(t, n, script, fmt.Sprintf("seed %d", seed))
						}
					})
			}
		}
	}
}

func compare(t *testing.T, n *plan.WindowAgg, script []exectest.Step, what string) {
	t.Helper()
	want, late := expected(n, schema, script)
	mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
	exectest.Run(t, mk, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
		if got := stamped(r.Rows); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", what, diff(got, want))
		}
		if r.Drops[op.DropLate] != late {
			t.Errorf("%s: %d late rows, want %d", what, r.Drops[op.DropLate], late)
		}
	})
}

// diff shows the first rows in which two sorted lists differ.
func diff(got, want []string) string {
	for i := 0; i < len(got) || i < len(want); i++ {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("%d rows, want %d; row %d\n got  %s\n want %s", len(got), len(want), i, g, w)
		}
	}
	return "same"
}

// sessions is the slow reference of session windows: it takes one row at a time, keeps the
// sessions of each key in a list, and fires those that are over after each watermark.
func sessions(n *plan.WindowAgg, in types.Schema, script []exectest.Step) ([]string, int64) {
	return sessionsLate(n, in, script, nil)
}

// sessionsLate is sessions that notes the late rows too.
func sessionsLate(n *plan.WindowAgg, in types.Schema, script []exectest.Step, lates *lateLog) ([]string, int64) {
	type session struct {
		start, end int64
		key        []types.Value
		rows       []exectest.Step
	}
	var open []*session
	var out []string
	var late int64
	wm := int64(vec.MinTime)
	var keyTypes []types.Type
	for _, k := range n.Keys {
		keyTypes = append(keyTypes, in.Fields[k].Type)
	}
	for _, s := range append(script, exectest.WM(vec.MaxTime)) {
		if s.Vals == nil {
			var stay []*session
			for _, w := range open {
				if w.end-1+n.AllowedLatenessMs > s.Time {
					stay = append(stay, w)
					continue
				}
				t := exectest.NewTable()
				for _, r := range w.rows {
					t.Apply(w.key, r)
				}
				for _, r := range t.Results(keyTypes, n.Aggs, w.start, w.end, w.end-1) {
					out = append(out, fmt.Sprintf("%s @%d", r, wm))
				}
			}
			open, wm = stay, max(wm, s.Time)
			continue
		}
		ts, ok := s.Vals[n.Window.TimeCol].(types.Int128)
		if !ok {
			continue
		}
		mine := &session{start: ts.Hi, end: ts.Hi + n.Window.Size}
		for _, k := range n.Keys {
			mine.key = append(mine.key, s.Vals[k])
		}
		var stay []*session
		merged := false
		for _, w := range open {
			if fmt.Sprint(w.key) == fmt.Sprint(mine.key) && w.start <= ts.Hi+n.Window.Size && w.end >= ts.Hi {
				mine.start, mine.end = min(mine.start, w.start), max(mine.end, w.end)
				mine.rows = append(mine.rows, w.rows...)
				merged = true
				continue
			}
			stay = append(stay, w)
		}
		if over := mine.end - 1 + n.AllowedLatenessMs; !merged && over <= wm {
			late++
			lates.add(in, s, [2]int64{mine.start, mine.end}, over, wm)
			continue
		}
		mine.rows = append(mine.rows, s)
		open = append(stay, mine)
	}
	sort.Strings(out)
	if out == nil {
		out = []string{}
	}
	return out, late
}

func TestSession_AgainstMachine(t *testing.T) {
	c := exectest.Case{Schema: schema}
	for _, gap := range []int64{1, 8, 30} {
		for _, list := range []string{invertible, others, retracting, "COUNT(*); COLLECT(i); FIRST_VALUE(i) FILTER f"} {
			for _, keys := range [][]int{{0}, {}, {3, 0}} {
				if list == retracting && gap < 30 {
					continue
				}
				aggs, err := c.Aggs(list, len(keys) > 0)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(list, "FIRST") {
					aggs = aggs[:2] // the order within merged sessions is not part of the reference
				}
				n := &plan.WindowAgg{Window: plan.Window{Kind: plan.Session, Size: gap, TimeCol: 1}, Keys: keys,
					Aggs: aggs, InputRetracts: list == retracting, EarlyFireMs: -1, LateFireMs: -1,
					Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
				t.Run(fmt.Sprintf("%d,%.14s,keys=%v", gap, list, keys), func(t *testing.T) {
					for seed := int64(1); seed <= 2; seed++ {
						script := randomScript(rand.New(rand.NewSource(seed)), 150, n.InputRetracts)
						want, late := sessions(n, schema, script)
						mk := func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }
						exectest.Run(t, mk, schema, script, exectest.Options{}, func(t *testing.T, r *exectest.Result) {
							if got := stamped(r.Rows); !reflect.DeepEqual(got, want) {
								t.Errorf("seed %d: %s", seed, diff(got, want))
							}
							if r.Drops[op.DropLate] != late {
								t.Errorf("seed %d: %d late rows, want %d", seed, r.Drops[op.DropLate], late)
							}
						})
					}
				})
			}
		}
	}
}
