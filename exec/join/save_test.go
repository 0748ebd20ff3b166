package join

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func left(at int64, k types.RowKind, key int64, text string) change {
	return change{0, k, []types.Value{key, text, int64(0)}, at}
}

func right(at int64, k types.RowKind, key int64, text string) change {
	return change{1, k, []types.Value{int64(0), key, text}, at}
}

// TestTTL: rows that were not written for the TTL of their side are not matched any more and can
// not be taken back; a match writes to the row of an outer side.
func TestTTL(t *testing.T) {
	const add, del = types.Insert, types.Delete
	n := &plan.Join{Kind: plan.LeftJoin, LeftKeys: []int{0}, RightKeys: []int{1}, LeftTTLMs: 100, RightTTLMs: 50}
	changes := []change{
		left(0, add, 1, "a"), left(0, add, 2, "b"),
		right(90, add, 1, "x"),  // a is written
		right(130, add, 1, "y"), // and matched: it was used at 90
		right(130, add, 2, "z"), // b is gone
		left(150, add, 1, "c"),  // x is gone, y is not
		left(190, del, 1, "c"),  // y is gone
		left(300, del, 1, "a"),  // not there any more
		left(310, add, 1, "a"),  // new again
	}
	want := []string{"+I 1 a 0 NULL NULL NULL", "+I 2 b 0 NULL NULL NULL", "-D 1 a 0 NULL NULL NULL", "+I 1 a 0 0 1 x",
		"+I 1 a 0 0 1 y", "+I 1 c 0 0 1 y", "-D 1 c 0 NULL NULL NULL", "+I 1 a 0 NULL NULL NULL"}
	for _, every := range []int{0, 2, 3, -2, -3} {
		c := restarted(n, max(every, -every), max(every, -every))
		c.Spills = every < 0
		rows, books := driveOp(t, c, changes, 1, false)
		var got []string
		for _, x := range rows {
			got = append(got, x.Kind.String()+" "+x.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d starts: got\n%s\nwant\n%s", c.Starts, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if every == 0 && books.StateEntries.Load() != 1 {
			t.Errorf("%d rows are kept, want 1", books.StateEntries.Load())
		}
	}
}

// TestTTL_Restarts compares joins with a TTL that are restarted with those that are not.
func TestTTL_Restarts(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 3))
			changes := randomChanges(rnd, 200, 4, seed%2 == 0)
			now := int64(0)
			for i := range changes {
				if rnd.IntN(4) == 0 {
					now += rnd.Int64N(30)
				}
				changes[i].at = now
			}
			n := &plan.Join{Kind: plan.FullJoin, LeftKeys: []int{0}, RightKeys: []int{1}, LeftTTLMs: 100, RightTTLMs: 60}
			for _, size := range []int{1, 5} {
				rows, _ := drive(t, n, changes, size, false)
				c := restarted(n, int(seed), 8)
				again, _ := driveOp(t, c, changes, size, false)
				if got, want := exectest.Fold(again), exectest.Fold(rows); !slices.Equal(got, want) {
					t.Errorf("seed %d, size %d, %d starts:\n got %q\nwant %q", seed, size, c.Starts, got, want)
				}
				c = restarted(n, int(seed), 8)
				c.Spills = true
				again, _ = driveOp(t, c, changes, size, false)
				if got, want := exectest.Fold(again), exectest.Fold(rows); !slices.Equal(got, want) {
					t.Errorf("seed %d, size %d, %d starts, spilled:\n got %q\nwant %q", seed, size, c.Starts, got, want)
				}
			}
		})
	}
}

// TestTTL_Switched: a TTL may be switched on and off between two starts; rows that were kept without
// one count as written when it was switched on.
func TestTTL_Switched(t *testing.T) {
	const add, del = types.Insert, types.Delete
	for _, spills := range []bool{false, true} {
		ttl := []int64{0, 100, 100, 0, 100}
		c := &exectest.Cluster{Spills: spills}
		c.Make = func() (op.Operator, error) {
			return newJoin(&plan.Join{Kind: plan.InnerJoin, LeftKeys: []int{0}, RightKeys: []int{1}, LeftTTLMs: ttl[c.Starts]})
		}
		s := &scripted{Cluster: c, restart: map[int]bool{2: true, 4: true, 5: true, 7: true}}
		rows, _ := driveOp(t, s, []change{
			left(0, add, 1, "a"), left(0, add, 2, "b"),
			right(500, add, 1, "x"), left(550, add, 3, "c"), // on since 500
			right(590, add, 2, "y"),                             // restarted: b counts until 600
			right(610, add, 3, "z"), right(620, add, 2, "late"), // off again before; a and b were swept or not
			right(900, add, 3, "w"), // on since 900: c counts until 1000
			right(990, add, 3, "v"), right(1010, add, 3, "late"),
		}, 1, false)
		var got []string
		for _, x := range rows {
			if !strings.Contains(x.Text, " b ") || x.Stamp < 6 {
				got = append(got, x.Kind.String()+" "+x.Text)
			}
		}
		want := []string{"+I 1 a 0 0 1 x", "+I 2 b 0 0 2 y", "+I 3 c 0 0 3 z", "+I 3 c 0 0 3 w", "+I 3 c 0 0 3 v"}
		if !slices.Equal(got, want) || c.Starts != 5 {
			t.Errorf("spills %v, %d starts: got\n%s\nwant\n%s", spills, c.Starts, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// older is a join that is restored from what version 1 of the encoding would have saved.
type older struct{ *Join }

// stripped has no time of last use in values.
type stripped struct{ state.Saved }

func (s stripped) Scan(st int, f func(group int, key, value []byte) error) error {
	return s.Saved.Scan(st, func(group int, key, value []byte) error { return f(group, key, value[:len(value)-9]) })
}

func (o older) Restore(saved state.Saved, heads [][]byte) error {
	for i := range heads {
		heads[i] = heads[i][:headSize1]
	}
	if o.n.LeftTTLMs > 0 {
		return o.Join.Restore(saved, heads)
	}
	by := map[int]*state.Conversion{}
	for i, now := range o.States() {
		was := now
		was.Version, was.Value = 1, now.Value[:len(now.Value)-1]
		c, ok := state.Convert(was, now)
		if !ok || c == nil {
			return fmt.Errorf("%v does not become %v", was, now)
		}
		by[i] = c
	}
	return o.Join.Restore(state.Converted(stripped{saved}, by, 77), heads)
}

// TestRestore_Version1: rows that version 1 saved are there, with a TTL for as long as they would have been.
func TestRestore_Version1(t *testing.T) {
	const add, del = types.Insert, types.Delete
	for _, ttl := range []int64{0, 100} {
		n := &plan.Join{Kind: plan.LeftJoin, LeftKeys: []int{0}, RightKeys: []int{1}, LeftTTLMs: ttl, RightTTLMs: ttl}
		c := &exectest.Cluster{Make: func() (op.Operator, error) {
			o, err := newJoin(n)
			return older{o.(*Join)}, err
		}}
		s := &scripted{Cluster: c, restart: map[int]bool{3: true}}
		rows, _ := driveOp(t, s, []change{left(0, add, 1, "a"), left(50, add, 2, "b"), right(60, add, 2, "x"),
			right(120, add, 1, "late"), right(120, add, 2, "y"), right(120, del, 2, "x")}, 1, false)
		var got []string
		for _, x := range rows[4:] {
			got = append(got, x.Kind.String()+" "+x.Text)
		}
		want := []string{"-D 1 a 0 NULL NULL NULL", "+I 1 a 0 0 1 late", "+I 2 b 0 0 2 y", "-D 2 b 0 0 2 x"}
		if ttl > 0 {
			want = want[2:]
		}
		if !slices.Equal(got, want) || c.Starts != 2 {
			t.Errorf("a TTL of %d: got\n%s\nwant\n%s", ttl, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// scripted is a cluster that is restarted before the batches of the given numbers.
type scripted struct {
	*exectest.Cluster
	restart map[int]bool
	n       int
}

func (s *scripted) Process(in int, b *vec.Batch) error {
	if s.restart[s.n] {
		if err := s.Restart(); err != nil {
			return err
		}
	}
	s.n++
	return s.Cluster.Process(in, b)
}

// TestTTL_Sweep: rows of ever new keys do not pile up.
func TestTTL_Sweep(t *testing.T) {
	n := &plan.Join{Kind: plan.InnerJoin, LeftKeys: []int{0}, RightKeys: []int{1}, LeftTTLMs: 10}
	var changes []change
	for i := range int64(20_000) {
		changes = append(changes, left(i/100, types.Insert, i, "a"))
	}
	_, books := drive(t, n, changes, 1000, false)
	// 1,000 rows have not expired at any time.
	if got := books.StateEntries.Load(); got > 4000 {
		t.Errorf("%d rows are kept", got)
	}
}

// TestSave_Incremental: a save writes rows that came, and rows of outer sides whose matches changed.
func TestSave_Incremental(t *testing.T) {
	n := &plan.Join{Kind: plan.LeftJoin, LeftKeys: []int{0}, RightKeys: []int{1}}
	c := restarted(n, 1, 0)
	c.Keys, c.Par = nil, nil
	saved := func(changes ...change) string {
		t.Helper()
		o := &kept{c, len(changes)}
		driveOp(t, o, changes, 1, false)
		return fmt.Sprint(c.Puts[len(c.Puts)-1], c.Deletes[len(c.Deletes)-1])
	}
	const add, del = types.Insert, types.Delete
	for _, x := range []struct {
		changes []change
		want    string
	}{
		{[]change{left(0, add, 1, "a"), left(0, add, 2, "b"), right(0, add, 1, "x")}, "map[0:2 1:1] map[]"},
		{[]change{right(0, add, 2, "y")}, "map[0:1 1:1] map[]"},
		{[]change{left(0, add, 3, "c")}, "map[0:1] map[]"},
		{[]change{right(0, add, 4, "z"), right(0, del, 4, "z")}, "map[] map[]"},
		{[]change{left(0, del, 1, "a")}, "map[] map[0:1]"},
		{[]change{left(0, add, 2, "b")}, "map[0:1] map[]"},
		{[]change{left(0, add, 1, "d"), right(0, del, 1, "x")}, "map[0:1] map[1:1]"},
	} {
		if got := saved(x.changes...); got != x.want {
			t.Errorf("after %v: %s, want %s", x.changes, got, x.want)
		}
	}
}

// kept is a cluster that is opened once, saved after n batches and never ended.
type kept struct {
	*exectest.Cluster
	n int
}

func (k *kept) Open(ctx *op.Context, out op.Output) error {
	if k.Starts > 0 {
		return nil
	}
	return k.Cluster.Open(ctx, out)
}

func (k *kept) Process(in int, b *vec.Batch) error {
	err := k.Cluster.Process(in, b)
	if k.n--; err == nil && k.n == 0 {
		err = k.Save()
	}
	return err
}

func (k *kept) Finish() error { return nil }
func (k *kept) Close() error  { return nil }

func FuzzRestore(f *testing.F) {
	n := &plan.Join{Kind: plan.LeftJoin, LeftKeys: []int{1}, RightKeys: []int{2}, LeftTTLMs: 100}
	exectest.FuzzRestore(f, func() (op.Operator, error) { return newJoin(n) }, leftSchema, []exectest.Step{
		exectest.Row(int64(1), "a", nil), exectest.Row(nil, "a text of more than twelve bytes", int64(5))}, exectest.Options{})
}
