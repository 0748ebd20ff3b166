package job

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// noRepo keeps nothing.
type noRepo struct{}

func (noRepo) Save(context.Context, *checkpoint.Manifest, map[string]string) (checkpoint.Saved, error) {
	return checkpoint.Saved{}, nil
}
func (noRepo) Drop(context.Context, int64) error                    { return nil }
func (noRepo) Fetch(context.Context, checkpoint.File, string) error { return nil }

// TestRestore_OldestRowsFirst goes on from a checkpoint with rows in two channels, one behind the other: those
// of the latter were sent earlier, and come first, whether there still are channels or not.
func TestRestore_OldestRowsFirst(t *testing.T) {
	s := types.NewSchema(types.Field{Name: "k", Type: types.BigIntType})
	rows := func(from, to int64) (out []byte) {
		b := vec.NewBatch(s)
		for k := from; k < to; k++ {
			b.Cols[0].AppendValue(k)
			b.N++
		}
		return appendRows(out, b, 0)
	}
	for _, par := range []int{1, 2} {
		node := func(id int, op plan.Op, dist plan.Distribution) *plan.Node {
			n := &plan.Node{ID: id, Schema: s, Mode: types.InsertOnly, RowTime: -1, Label: fmt.Sprint(id), Op: op}
			if id > 0 {
				n.Inputs = []plan.Edge{{From: id - 1, Dist: dist, Keys: []int{0}}}
			}
			return n
		}
		p := &plan.Plan{Nodes: []*plan.Node{node(0, &plan.Values{}, plan.Forward), node(1, &plan.Calc{}, plan.Hash),
			node(2, &plan.Calc{}, plan.Single), node(3, &plan.Sink{Collect: true}, plan.Forward)}}
		from := &checkpoint.Manifest{ID: 1, Parallelism: 2, MaxParallelism: DefaultMaxParallelism, Channels: []checkpoint.Channel{
			{From: 0, To: 1, Schema: s, Rows: rows(10, 20)}, {From: 1, To: 2, Schema: s, Rows: rows(0, 10)}}}
		o := &CheckpointOptions{Repo: noRepo{}, Job: "test", Lineage: "l", WorkDir: t.TempDir(), Fingerprints: make([]plan.Fingerprint, 4),
			From: from, Recover: from, Operators: map[int]*checkpoint.Operator{}, Nodes: map[int]*plan.Node{}}
		for i, n := range p.Nodes {
			from.Operators = append(from.Operators, checkpoint.Operator{ID: uint16(i + 1), Node: i, Parallelism: 2, Ended: i == 0})
			o.Nodes[i] = n
		}
		for i := range from.Operators {
			o.Operators[i] = &from.Operators[i]
		}
		var got []int64
		j, err := Start(t.Context(), p, Options{Parallelism: par, BatchRows: 3, Checkpoints: o, Collect: func(_ *plan.Node, b *vec.Batch) error {
			b.Each(func(i int) { got = append(got, b.Cols[0].I64[i]) })
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(got) == 20 {
			slices.Sort(got[10:]) // of different keys
		}
		for i, k := range got {
			if k != int64(i) || len(got) != 20 {
				t.Fatalf("parallelism %d: the rows came as %v", par, got)
			}
		}
	}
}
