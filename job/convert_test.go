package job_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// counts is numbers by their place in the split, of which there are three each, with a count.
func counts(ttlMs int64) *plan.Plan {
	p := numbers(plan.Hash, "")
	in := p.Nodes[0].Schema
	p.Nodes[0].RowTime = -1
	n := types.Field{Name: "n", Type: types.BigIntType.NotNull()}
	p.Nodes[1] = &plan.Node{ID: 1, Schema: types.NewSchema(in.Fields[1], n), Mode: types.Upsert, RowTime: -1, Label: "Count",
		UpsertKeys: [][]int{{0}}, Inputs: []plan.Edge{{From: 0, Dist: plan.Hash, Keys: []int{1}}},
		Op: &plan.GroupAgg{Keys: []int{1}, Aggs: []plan.AggCall{{Fn: "COUNT", Filter: -1, T: n.Type, Name: "n"}}, ArgSchema: in, TTLMs: ttlMs}}
	p.Nodes[2].Schema = p.Nodes[1].Schema
	return p
}

// TestRestore_TTLSwitched stops or kills a job again and again, and starts it with and without a time to
// live in turn: no group is lost or counted anew, whether its checkpoint was in files or in the manifest.
func TestRestore_TTLSwitched(t *testing.T) {
	r := newRepo()
	var mu sync.Mutex
	got := map[int64]int64{}
	tails, files := 0, 0
	for run := 0; ; run++ {
		if run > 60 {
			t.Fatal("the job does not end")
		}
		p := counts(int64(run%2) * time.Hour.Milliseconds())
		o := job.Options{Parallelism: 1 + run%3, BatchRows: 5, Checkpoints: r.options(t, p, 5*time.Millisecond)}
		if from := o.Checkpoints.From; from != nil {
			for _, x := range from.Tail {
				if x.Operator == o.Checkpoints.Operators[1].ID {
					tails++
				}
			}
			files += len(from.Files)
		}
		o.Collect = func(_ *plan.Node, b *vec.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			b.Each(func(i int) { got[b.Cols[0].I64[i]] = b.Cols[1].I64[i] })
			return nil
		}
		j, err := job.Start(context.Background(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		timer := time.AfterFunc(time.Duration(20+10*run)*time.Millisecond, func() {
			if run%4 != 3 {
				j.Stop()
				return
			}
			for { // a stop leaves files, and so does a start that was killed before its first checkpoint
				if s, _ := j.Checkpoints(); s.Completed >= 3 {
					j.Kill(errKilled)
					return
				}
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
		rep, err := j.Wait()
		close(ended)
		timer.Stop()
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if err == nil && !rep.Stopped {
			break
		}
	}
	t.Logf("starts found %d tails and %d files", tails, files)
	if tails == 0 || files == 0 {
		t.Error("no start found a tail, or none found files")
	}
	if len(got) != slowRows {
		t.Errorf("%d groups, want %d", len(got), slowRows)
	}
	for k, n := range got {
		if n != 3 {
			t.Fatalf("group %d has %d rows, want 3", k, n)
		}
	}
}

var errKilled = errors.New("killed")
