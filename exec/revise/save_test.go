package revise_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/revise"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

func make1() (op.Operator, error) {
	n, out := plain(0)
	n.TTLMs = 1000
	return revise.New(n, results, out, true)
}

// TestSave_Incremental: rows that say nothing new are not written again, a key whose first row is a
// retraction never.
func TestSave_Incremental(t *testing.T) {
	n, out := plain(0)
	mk := func() (op.Operator, error) { return revise.New(n, results, out, true) }
	row := func(kind types.RowKind, k, v int64) exectest.Step { return exectest.Change(kind, k, nil, v, nil) }
	save := exectest.Step{Save: true}
	script := []exectest.Step{row(types.Insert, 1, 1), row(types.Insert, 2, 1), row(types.Insert, 3, 1), save,
		row(types.UpdateAfter, 1, 1), row(types.Delete, 9, 1), save, row(types.UpdateAfter, 2, 5), row(types.Delete, 3, 1), save, save}
	c := &exectest.Cluster{Make: mk}
	if _, err := exectest.Drive(c, results, script, exectest.Variant{Size: 1}, exectest.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.Puts, c.Deletes), "[map[0:3] map[] map[0:2] map[]] [map[] map[] map[] map[]]"; got != want {
		t.Errorf("written and deleted %s, want %s", got, want)
	}
}

// TestSave_Frozen: the saved form of a payload's hash does not change between versions, else every
// row would be one more revision after an upgrade.
func TestSave_Frozen(t *testing.T) {
	o, err := make1()
	if err != nil {
		t.Fatal(err)
	}
	keep := &frozen{Operator: o}
	script := []exectest.Step{exectest.WM(7), exectest.Row(int64(5), "a name", int64(-3), types.I128(250)), exectest.Row(int64(6), nil, int64(1), nil),
		exectest.Change(types.Delete, int64(6), nil, int64(1), nil)}
	if _, err := exectest.Drive(keep, results, script, exectest.Variant{Size: 2}, exectest.Options{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0000000000000000000005=0107000000000000000101000000000000000100011000000082654f63ee1cd7fbc58097fdb7ce68a2",
		"0000000000000000000006=0107000000000000000102000000000000000101011000000000000000000000000000000000000000"}
	if fmt.Sprint(keep.saved) != fmt.Sprint(want) {
		t.Errorf("saved %q, want %q", keep.saved, want)
	}
}

// earlier saves what a version did that knew nothing of the end of windows.
type earlier struct{ *revise.Revise }

// Head implements op.Stateful.
func (o earlier) Head(dst []byte) ([]byte, error) {
	n := len(dst)
	h, err := o.Revise.Head(dst)
	return h[:n+8], err
}

// TestSave_Earlier: of state that does not say when windows are final nothing is forgotten before all of them are.
func TestSave_Earlier(t *testing.T) {
	in := types.Schema{Fields: []types.Field{{Name: "s", Type: types.TimestampType(3)}, {Name: "e", Type: types.TimestampType(3)}, {Name: "n", Type: types.BigIntType}}}
	n := &plan.Revise{Keys: []int{0}, Columns: 3, Metadata: []plan.ResultMetadata{plan.ResultRevision}, Reason: -1, Count: -1, Cause: -1, End: -1, TTLMs: 100}
	out := types.Schema{Fields: append(append([]types.Field{}, in.Fields...), plan.ResultColumns[plan.ResultRevision])}
	starts := 0
	c := &exectest.Cluster{Make: func() (op.Operator, error) {
		x := *n
		if starts++; starts > 1 {
			x.End, x.SizeMs, x.LatenessMs = 1, 1000, 5000
		}
		o, err := revise.New(&x, in, out, true)
		if starts == 1 {
			return earlier{o.(*revise.Revise)}, err
		}
		return o, err
	}}
	restart := &restarting{Cluster: c, at: 500}
	ms := func(n int64) types.Value { return types.TS(n, 0) }
	script := []exectest.Step{exectest.WM(450), exectest.Row(ms(0), ms(1000), int64(1)), exectest.WM(500), exectest.WM(6000),
		exectest.Change(types.UpdateAfter, ms(0), ms(1000), int64(2)), exectest.WM(6500), exectest.WM(6700), exectest.Row(ms(0), ms(1000), int64(3))}
	r, err := exectest.Drive(restart, in, script, exectest.Variant{Size: 1}, exectest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range r.Rows {
		got = append(got, row.Text)
	}
	if want := []string{"0 1000 1 1", "0 1000 2 2", "0 1000 3 1"}; fmt.Sprint(got) != fmt.Sprint(want) || starts != 2 {
		t.Errorf("%d starts, got %q, want %q", starts, got, want)
	}
}

// restarting restarts its instances behind a watermark.
type restarting struct {
	*exectest.Cluster
	at int64
}

// Watermark implements op.Operator.
func (r *restarting) Watermark(wm int64) error {
	if err := r.Cluster.Watermark(wm); err != nil || wm != r.at {
		return err
	}
	return r.Restart()
}

// frozen keeps what an operator saves before the input ends.
type frozen struct {
	op.Operator
	saved []string
}

// Open implements op.Operator.
func (f *frozen) Open(c *op.Context, out op.Output) error {
	c.Saves = true
	return f.Operator.Open(c, out)
}

// Finish implements op.Operator.
func (f *frozen) Finish() error {
	var d state.Delta
	if err := f.Operator.(op.Stateful).Freeze(&d); err != nil {
		return err
	}
	if err := state.EachChange(d.Bytes(), func(c state.Change) error {
		f.saved = append(f.saved, fmt.Sprintf("%x=%x", c.Key, c.Value))
		return nil
	}); err != nil {
		return err
	}
	return f.Operator.Finish()
}

func FuzzRestore(f *testing.F) {
	exectest.FuzzRestore(f, make1, results, []exectest.Step{exectest.Row(int64(1), "a", int64(2), nil), exectest.Row(int64(2), nil, int64(2), nil),
		exectest.Change(types.Delete, int64(2), nil, int64(2), nil)}, exectest.Options{})
}
