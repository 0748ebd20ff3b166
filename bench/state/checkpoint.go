package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/vec"
)

// cuts takes checkpoints: the changes are frozen, and beside the job applied, the store is cut, and
// what is new is copied to another folder, as to a store of objects.
type cuts struct {
	to      string
	next    time.Time
	running chan error // nil: none is being taken
	last    *store.Cut
	took    []time.Duration
	paused  []time.Duration
	bytes   []int64
	files   []int
}

func (c *cuts) due(j *job) error {
	if c.running != nil {
		select {
		case err := <-c.running:
			c.running = nil
			if err != nil {
				return err
			}
		default:
		}
	}
	if c.running != nil || time.Now().Before(c.next) {
		return nil
	}
	c.next = time.Now().Add(*every)
	return c.begin(j)
}

func (c *cuts) begin(j *job) error {
	paused, err := j.freeze()
	if err != nil {
		return err
	}
	c.paused = append(c.paused, paused)
	begin := time.Now()
	done := make(chan struct{})
	j.jobs <- frozen{done: done}
	running := make(chan error, 1)
	c.running = running
	go func() {
		<-done
		err := c.take(j)
		c.took = append(c.took, time.Since(begin))
		running <- err
	}()
	return nil
}

// take cuts the store and copies what the cut before did not have.
func (c *cuts) take(j *job) error {
	k, err := j.st.Cut(context.Background())
	if err != nil {
		return err
	}
	n := 0
	for _, f := range k.Files {
		to := filepath.Join(c.to, f.Object)
		if _, err := os.Stat(to); err == nil {
			continue
		}
		n++
		if err := copyFile(f.Path, to); err != nil {
			return err
		}
	}
	c.bytes, c.files = append(c.bytes, k.NewBytes), append(c.files, n)
	old := c.last
	c.last = k
	if old == nil {
		return nil
	}
	for _, f := range old.Files {
		if !slices.ContainsFunc(k.Files, func(o store.File) bool { return o.Object == f.Object }) {
			if err := os.Remove(filepath.Join(c.to, f.Object)); err != nil {
				return err
			}
		}
	}
	return old.Release()
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// wait waits for the checkpoint that is being taken.
func (c *cuts) wait() error {
	if c.running == nil {
		return nil
	}
	err := <-c.running
	c.running = nil
	return err
}

func (c *cuts) report() {
	if len(c.took) == 0 {
		return
	}
	fmt.Printf("%d checkpoints: %v each (median; worst %v), %d MB in %d files uploaded (median; most %d MB), pause %v (worst %v)\n",
		len(c.took), median(c.took).Round(time.Millisecond), slices.Max(c.took).Round(time.Millisecond), median(c.bytes)/1e6, median(c.files),
		slices.Max(c.bytes)/1e6, median(c.paused).Round(100*time.Microsecond), slices.Max(c.paused).Round(100*time.Microsecond))
}

func median[T time.Duration | int64 | int](list []T) T {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// restore opens the last checkpoint as a job that goes on from it does, and looks a batch of keys up.
func (c *cuts) restore(path string) error {
	begin := time.Now()
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	var size int64
	for _, f := range c.last.Files {
		if err := copyFile(filepath.Join(c.to, f.Object), filepath.Join(path, f.Name)); err != nil {
			return err
		}
		size += f.Size
	}
	fetched := time.Since(begin)
	st, err := store.OpenFiles(path, c.last.Files, storeOptions())
	if err != nil {
		return err
	}
	j := &job{st: st}
	j.table(state.NewBudget(*budget))
	j.sp = state.NewSpill(j.b, st, state.SpillOptions{Operator: 1, Hi: groups, Stored: true})
	j.k.Spill(j.t, j.sp)
	if err := j.k.Restore(j.t, nil); err != nil {
		return err
	}
	opened := time.Since(begin)
	in := newInput()
	recs := make([]uint32, vec.BatchRows)
	in.fill(0)
	in.find(j, recs)
	for _, rec := range recs {
		if j.t.At(rec)[j.t.Base()] == 0 {
			return fmt.Errorf("a key of the first batch is not in the last checkpoint")
		}
	}
	fmt.Printf("restored %d MB: copied in %.2f s, open after %.2f s, first batch of %d keys after %.2f s\n", size/1e6, fetched.Seconds(),
		opened.Seconds(), len(recs), time.Since(begin).Seconds())
	return st.Close()
}
