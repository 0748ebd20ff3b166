// Package exectest is the harness of operator tests: it pushes rows and watermarks through an
// operator and collects what comes out, in every variation that must not change the result: batch
// sizes of 1, 3 and everything, and batches whose rows are a selection among others.
//
// A Script is what a machine sees that takes one row at a time: rows, and watermarks between
// them. Each row is stamped with the watermark before it. With larger batches the watermarks
// inside a batch reach the operator after it, as they do in a job.
package exectest

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Step is a row (Vals is set), a watermark or, with Proc, a point in processing time; with Save, a
// Cluster saves.
type Step struct {
	Kind types.RowKind
	Vals []types.Value
	Time int64
	Proc bool
	Save bool
}

// Row returns a step with an inserted row.
func Row(vals ...types.Value) Step { return Step{Vals: vals} }

// Change returns a step with a row of any kind.
func Change(kind types.RowKind, vals ...types.Value) Step { return Step{Kind: kind, Vals: vals} }

// WM returns a step with a watermark.
func WM(ms int64) Step { return Step{Time: ms} }

// Out is a row that came out.
type Out struct {
	Kind  types.RowKind
	Vals  []types.Value
	Text  string // the values, separated by blanks
	Stamp int64
}

// Result is what an operator gave.
type Result struct {
	Rows []Out
	// WMs are the watermarks passed on.
	WMs   []int64
	Drops [op.DropReasons]int64
	// Trace has rows and watermarks in the order they came.
	Trace []string
}

// Variant is how a script is cut into batches.
type Variant struct {
	Size int // rows in a batch; 0: all
	// Junk puts rows that are not selected between the others.
	Junk bool
}

// Variants are those that every operator test runs.
var Variants = []Variant{{1, false}, {3, false}, {3, true}, {0, false}, {0, true}}

// Options change the context that the operator sees, and how Stateful ones are restarted.
type Options struct {
	BatchMode bool
	Zone      string
	// Keys are the columns by whose key groups rows go to parallel instances; nil: there is one.
	Keys []int
	// Spills says that the operator can do with less memory than its state takes, and is to be
	// driven so too.
	Spills bool
	// Fold is what must not depend on the number of instances; nil: Fold.
	Fold func([]Out) []string
}

// Drive runs a script through an operator and ends it.
func Drive(o op.Operator, in types.Schema, script []Step, v Variant, opt Options) (*Result, error) {
	d := &driver{o: o, in: in, v: v, res: &Result{}, counters: &op.Counters{}, stamp: vec.MinTime, wm: vec.MinTime}
	ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: d.counters,
		Now: func() int64 { return d.now }, BatchRows: vec.BatchRows, BatchMode: opt.BatchMode,
		BadRow: func(_ *vec.Batch, _ int, _ expr.Pos, err error) error {
			reason, _ := op.Refused(err)
			d.counters.Drop(reason, 1)
			return nil
		}}
	defer o.Close()
	if err := o.Open(ctx, d); err != nil {
		return nil, err
	}
	d.batch = vec.NewBatch(in)
	for _, s := range script {
		if err := d.step(s); err != nil {
			return nil, err
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	for i := range d.res.Drops {
		d.res.Drops[i] = d.counters.Drops[i].Load()
	}
	return d.res, nil
}

type driver struct {
	o        op.Operator
	in       types.Schema
	v        Variant
	res      *Result
	counters *op.Counters
	batch    *vec.Batch
	rows     int
	stamp    int64 // watermark before the next row
	wm       int64 // what the operator was told
	now      int64
}

func (d *driver) step(s Step) error {
	switch {
	case s.Vals != nil:
		if d.v.Junk && d.rows%2 == 0 {
			d.append(Step{Vals: make([]types.Value, len(s.Vals))}, false)
		}
		d.append(s, true)
		d.rows++
		if d.v.Size != 0 && d.rows >= d.v.Size {
			return d.flush()
		}
	case s.Save:
		if err := d.flush(); err != nil {
			return err
		}
		if c, ok := d.o.(*Cluster); ok {
			return c.Save()
		}
	case s.Proc:
		if err := d.flush(); err != nil {
			return err
		}
		d.now = s.Time
		if p, ok := d.o.(op.ProcTimer); ok {
			return p.ProcTime(d.now)
		}
	default:
		d.stamp = max(d.stamp, s.Time)
		if d.rows == 0 {
			return d.watermark()
		}
		if d.v.Size == 1 {
			return d.flush()
		}
	}
	return nil
}

func (d *driver) append(s Step, selected bool) {
	b := d.batch
	for c, x := range s.Vals {
		b.Cols[c].AppendValue(x)
	}
	b.Kinds = append(b.Kinds, s.Kind)
	b.Stamps = append(b.Stamps, d.stamp)
	if d.v.Junk {
		if b.Sel == nil {
			b.Sel = []int32{}
		}
		if selected {
			b.Sel = append(b.Sel, int32(b.N))
		}
	}
	b.N++
}

func (d *driver) flush() error {
	if d.rows > 0 {
		plain := true
		for _, k := range d.batch.Kinds {
			plain = plain && k == types.Insert
		}
		if plain {
			d.batch.Kinds = nil
		}
		if err := d.o.Process(0, d.batch); err != nil {
			return err
		}
		// A fresh batch, poisoned memory: an operator that kept what it was lent shows it.
		for _, c := range d.batch.Cols {
			for i := range c.I64 {
				c.I64[i] = -6666
			}
			for i := range c.Buf {
				c.Buf[i] = '#'
			}
		}
		d.batch = vec.NewBatch(d.in)
		d.rows = 0
	}
	return d.watermark()
}

func (d *driver) watermark() error {
	if d.stamp == d.wm {
		return nil
	}
	d.wm = d.stamp
	return d.o.Watermark(d.wm)
}

func (d *driver) end() error {
	if err := d.flush(); err != nil {
		return err
	}
	if d.wm != vec.MaxTime {
		if err := d.o.Watermark(vec.MaxTime); err != nil {
			return err
		}
	}
	return d.o.Finish()
}

// Emit implements op.Output.
func (d *driver) Emit(b *vec.Batch) error {
	b.Each(func(i int) {
		r := Out{Kind: b.Kind(i), Stamp: b.Stamp(i)}
		var text []string
		for _, c := range b.Cols {
			r.Vals = append(r.Vals, c.Value(i))
			text = append(text, Text(c.Value(i), c.Type))
		}
		r.Text = strings.Join(text, " ")
		d.res.Rows = append(d.res.Rows, r)
		d.res.Trace = append(d.res.Trace, fmt.Sprintf("%s %s", r.Kind, r.Text))
	})
	return nil
}

// Watermark implements op.Output.
func (d *driver) Watermark(wm int64) error {
	if n := len(d.res.WMs); n > 0 && d.res.WMs[n-1] > wm {
		return fmt.Errorf("watermark went back from %d to %d", d.res.WMs[n-1], wm)
	}
	d.res.WMs = append(d.res.WMs, wm)
	d.res.Trace = append(d.res.Trace, fmt.Sprintf("wm %d", wm))
	return nil
}

// Text prints a value as the text cases spell it.
func Text(x types.Value, t types.Type) string {
	switch x := x.(type) {
	case nil:
		return "NULL"
	case types.Int128:
		if t.Kind == types.Decimal {
			return x.DecimalString(t.Scale)
		}
		return fmt.Sprint(x.Hi)
	case float64:
		return fmt.Sprintf("%g", x)
	case []types.Value:
		var s []string
		for _, e := range x {
			if t.Elem != nil {
				s = append(s, Text(e, *t.Elem))
			} else {
				s = append(s, fmt.Sprint(e))
			}
		}
		if t.Kind == types.Multiset {
			for i := 0; i+1 < len(s); i++ {
				s[i] += "*" + s[i+1]
				s = append(s[:i+1], s[i+2:]...)
			}
			sort.Strings(s)
		}
		return "[" + strings.Join(s, ",") + "]"
	case string:
		if x == "" || strings.ContainsAny(x, " '") {
			return "'" + x + "'"
		}
	}
	return fmt.Sprint(x)
}

// Fold applies a changelog and returns the rows that are left, sorted; a row n times is there n
// times. A retraction of a row that is not there is kept with a minus sign.
func Fold(rows []Out) []string {
	count := map[string]int{}
	for _, r := range rows {
		if r.Kind.Retracts() {
			count[r.Text]--
		} else {
			count[r.Text]++
		}
	}
	out := []string{}
	for text, n := range count {
		for ; n > 0; n-- {
			out = append(out, text)
		}
		for ; n < 0; n++ {
			out = append(out, "-"+text)
		}
	}
	sort.Strings(out)
	return out
}

// FoldByKey applies a changelog in which a key's newer row replaces the older one; key is the
// number of leading columns that make the key.
func FoldByKey(rows []Out, key int) []string {
	m := map[string]string{}
	for _, r := range rows {
		k := fmt.Sprint(r.Vals[:key])
		switch r.Kind {
		case types.Insert, types.UpdateAfter:
			m[k] = r.Text
		case types.Delete:
			delete(m, k)
		}
	}
	out := []string{}
	for _, text := range m {
		out = append(out, text)
	}
	sort.Strings(out)
	return out
}

// Run drives a script in every variant and calls check with each result. Operators that are
// Stateful run once more with restarts in the middle, which must not change anything, and, with
// Options.Keys, with restarts at another number of instances, which must not change the folded
// result.
func Run(t *testing.T, mk func() (op.Operator, error), in types.Schema, script []Step, opt Options,
	check func(t *testing.T, r *Result)) {
	t.Helper()
	drive := func(t *testing.T, o op.Operator, v Variant) *Result {
		t.Helper()
		r, err := Drive(o, in, script, v, opt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fold := opt.Fold
	if fold == nil {
		fold = Fold
	}
	for i, v := range Variants {
		name := fmt.Sprintf("size=%d,junk=%v", v.Size, v.Junk)
		// A few restarts in a script, however long.
		every := 3
		if v.Size > 0 {
			every = max(every, len(script)/v.Size/8)
		}
		o, err := mk()
		if err != nil {
			t.Fatal(err)
		}
		var plain *Result
		t.Run(name, func(t *testing.T) {
			plain = drive(t, o, v)
			check(t, plain)
		})
		if _, ok := o.(op.Stateful); !ok || plain == nil || t.Failed() || v.Junk != (v.Size == 3) {
			continue // three variants are enough for restarts
		}
		t.Run(name+",restarts", func(t *testing.T) {
			c := &Cluster{Make: mk, Seed: int64(i), Every: every}
			check(t, drive(t, c, v))
		})
		if opt.Spills {
			t.Run(name+",spilled", func(t *testing.T) {
				c := &Cluster{Make: mk, Seed: int64(i), Every: 2 * every, Spills: true}
				if got, want := fold(drive(t, c, v).Rows), fold(plain.Rows); !slices.Equal(got, want) {
					t.Errorf("seed %d, %d starts:\n got  %s\n want %s", i, c.Starts, got, want)
				}
				if c.Colds == 0 && v.Size == 1 && len(script) > 50 {
					t.Errorf("nothing came back from the store")
				}
			})
		}
		if opt.Keys == nil {
			continue
		}
		t.Run(name+",rescaled", func(t *testing.T) {
			c := &Cluster{Make: mk, Seed: int64(i), Every: every, Par: []int{1, 3, 2}, Keys: [][]int{opt.Keys},
				Schemas: []types.Schema{in}}
			r := drive(t, c, v)
			if got, want := fold(r.Rows), fold(plain.Rows); !slices.Equal(got, want) {
				t.Errorf("seed %d, %d starts:\n got  %s\n want %s", i, c.Starts, got, want)
			}
			if r.Drops != plain.Drops {
				t.Errorf("seed %d: drops %v, want %v", i, r.Drops, plain.Drops)
			}
		})
	}
}
