package window_test

import (
	"fmt"
	"sort"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// witness stands between a test and a window aggregation: its late rows come out with the results, what it
// missed is added up, and rows get the origin and the position that columns of theirs say.
type witness struct {
	op.Operator
	late     bool
	src, pos int // columns, -1: none
	origins  map[string]*vec.Origin
	missed   map[string]int64
	told     map[string]int // how often a window was told of in the batch at hand
	err      error
	counters *op.Counters
}

func newWitness(o op.Operator, late bool, src, pos int) *witness {
	return &witness{Operator: o, late: late, src: src, pos: pos, origins: map[string]*vec.Origin{}, missed: map[string]int64{}}
}

// Open implements op.Operator.
func (w *witness) Open(c *op.Context, out op.Output) error {
	cc := *c
	cc.Label, w.counters = "agg", c.Counters
	if w.late {
		cc.Late = func(b *vec.Batch) error {
			if b.Kinds != nil {
				return fmt.Errorf("late rows have kinds %v", b.Kinds)
			}
			if w.pos >= 0 {
				for i := range b.N {
					if b.Origin == nil || b.Pos[i] != b.Cols[w.pos].I64[i] {
						return fmt.Errorf("a late row has position %v of %v", b.Pos, b.Origin)
					}
				}
			}
			return out.Emit(b)
		}
		cc.Missed = func(start, end, n int64) {
			key := fmt.Sprintf("%d-%d", start, end)
			w.missed[key] += n
			if w.told[key]++; w.told[key] > 1 {
				w.err = fmt.Errorf("window %s was told of twice for a batch", key)
			}
		}
	}
	return w.Operator.Open(&cc, out)
}

// Process implements op.Operator.
func (w *witness) Process(in int, b *vec.Batch) error {
	if w.pos < 0 {
		return w.pass(in, b)
	}
	rows := b.Selected()
	for len(rows) > 0 {
		n := 1
		src := string(b.Cols[w.src].Bytes(int(rows[0])))
		for n < len(rows) && string(b.Cols[w.src].Bytes(int(rows[n]))) == src {
			n++
		}
		part := *b
		part.Sel = rows[:n]
		if w.origins[src] == nil {
			w.origins[src] = &vec.Origin{Source: "t", Split: src, Unit: "offset"}
		}
		part.Origin, part.Pos = w.origins[src], b.Cols[w.pos].I64
		if err := w.pass(in, &part); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (w *witness) pass(in int, b *vec.Batch) error {
	w.told = map[string]int{}
	if err := w.Operator.Process(in, b); err != nil {
		return err
	}
	return w.err
}

// ProcTime implements op.ProcTimer.
func (w *witness) ProcTime(ms int64) error {
	if p, ok := w.Operator.(op.ProcTimer); ok {
		return p.ProcTime(ms)
	}
	return nil
}

// NextProcTime implements op.ProcTimer.
func (w *witness) NextProcTime() int64 { return w.Operator.(op.ProcTimer).NextProcTime() }

// States implements op.Stateful.
func (w *witness) States() []state.Spec { return w.Operator.(op.Stateful).States() }

// Freeze implements op.Stateful.
func (w *witness) Freeze(d *state.Delta) error { return w.Operator.(op.Stateful).Freeze(d) }

// Dirty implements op.Stateful.
func (w *witness) Dirty() int { return w.Operator.(op.Stateful).Dirty() }

// Head implements op.Stateful.
func (w *witness) Head(dst []byte) ([]byte, error) { return w.Operator.(op.Stateful).Head(dst) }

// Restore implements op.Stateful.
func (w *witness) Restore(saved state.Saved, heads [][]byte) error {
	return w.Operator.(op.Stateful).Restore(saved, heads)
}

// missedText is what was missed, sorted.
func (w *witness) missedText() []string {
	out := []string{}
	for k, n := range w.missed {
		out = append(out, fmt.Sprintf("%s: %d", k, n))
	}
	sort.Strings(out)
	return out
}

var stringType, bigintType = types.StringType, types.BigIntType
