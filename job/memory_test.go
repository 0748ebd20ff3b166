package job_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestCheckpoint_EndedFilesAreNotNamed watches a folder over three starts: checkpoints do not name the
// files that were read to their end, and each is read once. The second start is from a checkpoint that
// does name them, as earlier versions wrote it.
func TestCheckpoint_EndedFilesAreNotNamed(t *testing.T) {
	dir := t.TempDir()
	r := newRepo()
	var got []string
	for start := range 3 {
		for f := range 5 {
			write(t, dir, fmt.Sprintf("part-%d-%d", start, f), rec(100*start+f))
		}
		p := readings(dir, plan.Forward, false, map[string]string{"source.monitor-interval": "10 ms"})
		var mu sync.Mutex
		all := make(chan struct{})
		o := job.Options{Parallelism: 2, Checkpoints: r.options(t, p, 3*time.Millisecond)}
		if start == 1 {
			s := &o.Checkpoints.From.Sources[0]
			s.Memory, s.Remembered = nil, 0
			for f := range 5 {
				s.Splits = append(s.Splits, checkpoint.Split{ID: fmt.Sprintf("%s/part-0-%d", dir, f), Ended: true})
			}
		}
		o.Collect = func(_ *plan.Node, b *vec.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			b.Each(func(i int) { got = append(got, fmt.Sprint(b.Cols[0].I64[i])) })
			if len(got) == 5*(start+1) {
				close(all)
			}
			return nil
		}
		j, err := job.Start(context.Background(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-all:
		case <-time.After(time.Minute):
			t.Fatalf("start %d: not everything was read: %v", start, got)
		}
		for end := time.Now().Add(time.Minute); j.Status().SplitsDone != 5*(start+1); {
			if time.Now().After(end) {
				t.Fatalf("start %d: %d files are said to have been read", start, j.Status().SplitsDone)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(40 * time.Millisecond) // more is found if it is looked for
		j.Stop()
		if _, err := j.Wait(); err != nil {
			t.Fatal(err)
		}
		s := r.newest(t).Sources[0]
		if slices.ContainsFunc(s.Splits, func(sp checkpoint.Split) bool { return sp.Ended }) || len(s.Memory) == 0 {
			t.Errorf("start %d: the checkpoint names what was read: %v, memory of %d bytes", start, s.Splits, len(s.Memory))
		}
	}
	if slices.Sort(got); len(got) != 15 || len(slices.Compact(got)) != 15 {
		t.Errorf("not every file was read once: %v", got)
	}
}
