package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// maxMissingProducers is how many of the missing ones a progress row names.
const maxMissingProducers = 20

// Expected is who must have reported for a window of a result: producers, as the values that they have in
// columns of the result.
type Expected struct {
	// Columns are columns of the result, Producers their values as CAST(... AS STRING) writes them.
	Columns   []string
	Producers [][]string
}

// completeness notes which expected producers the windows of a result have seen: a bit a producer and window,
// for the windows that are not over yet and the newest that is. Rows count when they are sealed, so that what
// it says belongs to the same checkpoint as they.
type completeness struct {
	names []string       // of the producers, sorted
	index map[string]int // by name
	sum   string         // tells lists of producers apart
	cols  []int          // of the sink's rows
	start int            // column of the window's start
	end   int            // of its end
	// deleted is the column that says that a row is no more, or -1: nobody reports by such a row.
	deleted int
	mu      sync.Mutex
	open    map[[2]int64][]uint64 // by window, local time; guarded by mu
}

// newCompleteness returns what follows the producers of the sink of node n.
func newCompleteness(n *plan.Node, t *connector.Table, e *Expected) (*completeness, error) {
	c := &completeness{index: map[string]int{}, open: map[[2]int64][]uint64{}, start: n.Schema.Index(t.Results.WindowStart), end: n.Schema.Index(t.Results.WindowEnd)}
	if c.start < 0 || c.end < 0 {
		return nil, fmt.Errorf("table %s: who must have reported is asked for each window, and its columns do not say which window a row is of; "+
			"add window_start and window_end to it", t.Name)
	}
	c.deleted = n.Schema.Index(t.Results.Column["is_deleted"])
	for _, name := range e.Columns {
		c.cols = append(c.cols, n.Schema.Index(name))
	}
	h := fnv.New64a()
	for _, p := range e.Producers {
		c.names = append(c.names, strings.Join(p, ", "))
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	for i, p := range c.names {
		c.index[p] = i
		_, _ = h.Write(append([]byte(p), 0))
	}
	c.sum = fmt.Sprintf("%016x", h.Sum64())
	return c, nil
}

// seen adds what a writer has sealed.
func (c *completeness) seen(windows map[[2]int64][]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, bits := range windows {
		have := c.open[w]
		if have == nil {
			c.open[w] = slices.Clone(bits)
			continue
		}
		for i, b := range bits {
			have[i] |= b
		}
	}
}

// tell fills in p of the newest window that is over at its watermark, and forgets the windows before it. Windows in
// which nobody reported are not known here, so they are not told of.
func (c *completeness) tell(p *connector.Progress, zone *time.Location) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wm := localOf(p.Watermark, zone)
	var newest *[2]int64
	for w := range c.open {
		if w[1]-1 <= wm && (newest == nil || w[1] > newest[1] || w[1] == newest[1] && w[0] > newest[0]) {
			newest = &w
		}
	}
	p.Expected = int64(len(c.names))
	if newest == nil {
		return
	}
	bits := c.open[*newest]
	for i, name := range c.names {
		if bits[i/64]&(1<<(i%64)) != 0 {
			p.Seen++
		} else if len(p.Missing) < maxMissingProducers {
			p.Missing = append(p.Missing, name)
		}
	}
	for w := range c.open {
		if w[1] < newest[1] {
			delete(c.open, w)
		}
	}
}

// localOf is an instant as the windows' clock shows it.
func localOf(ms int64, zone *time.Location) int64 {
	if zone == nil || ms == vec.MinTime || ms == vec.MaxTime {
		return ms
	}
	_, offset := time.UnixMilli(ms).In(zone).Zone()
	return ms + int64(offset)*1000
}

// savedCompleteness is its form in a manifest.
type savedCompleteness struct {
	Sum     string        `json:"sum"`
	Windows []savedWindow `json:"windows"`
}

type savedWindow struct {
	Start int64    `json:"start"`
	End   int64    `json:"end"`
	Bits  []uint64 `json:"bits"`
}

func (c *completeness) save() json.RawMessage {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := savedCompleteness{Sum: c.sum}
	for w, bits := range c.open {
		s.Windows = append(s.Windows, savedWindow{w[0], w[1], bits})
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: completeness: " + err.Error())
	}
	return b
}

// restore goes on from what a checkpoint has, unless other producers were expected then.
func (c *completeness) restore(b json.RawMessage) error {
	var s savedCompleteness
	if c == nil || len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s.Sum != c.sum {
		return nil
	}
	windows := map[[2]int64][]uint64{}
	for _, w := range s.Windows {
		if len(w.Bits) != (len(c.names)+63)/64 {
			return errors.New("completeness: another number of producers")
		}
		windows[[2]int64{w.Start, w.End}] = w.Bits
	}
	c.seen(windows)
	return nil
}

// watchingWriter notes which producers the rows of a result are of.
type watchingWriter struct {
	connector.Writer
	c       *completeness
	progs   *expr.Programs
	ctx     expr.EvalCtx
	pending map[[2]int64][]uint64
	key     []byte
}

func newWatchingWriter(w connector.Writer, c *completeness, s types.Schema, env *expr.Env) (*watchingWriter, error) {
	p, err := expr.CompileTexts(s, c.cols, env)
	return &watchingWriter{Writer: w, c: c, progs: p, ctx: expr.EvalCtx{Env: env}, pending: map[[2]int64][]uint64{}}, err
}

// Write implements connector.Writer.
func (w *watchingWriter) Write(ctx context.Context, b *vec.Batch) error {
	w.ctx.Batch, w.ctx.Errs = b, w.ctx.Errs[:0]
	texts := w.progs.EvalAll(&w.ctx, b)
	start, end := b.Cols[w.c.start], b.Cols[w.c.end]
	b.Each(func(i int) {
		if start.IsNull(i) || end.IsNull(i) || w.c.deleted >= 0 && b.Cols[w.c.deleted].Bool[i] {
			return
		}
		w.key = w.key[:0]
		for k, t := range texts {
			if k > 0 {
				w.key = append(w.key, ", "...)
			}
			if t.IsNull(i) {
				w.key = append(w.key, "NULL"...)
			} else {
				w.key = append(w.key, t.Bytes(i)...)
			}
		}
		at, ok := w.c.index[string(w.key)]
		if !ok {
			return
		}
		window := [2]int64{start.I64[i], end.I64[i]}
		bits := w.pending[window]
		if bits == nil {
			bits = make([]uint64, (len(w.c.names)+63)/64)
			w.pending[window] = bits
		}
		bits[at/64] |= 1 << (at % 64)
	})
	return w.Writer.Write(ctx, b)
}

// Prepare implements connector.Writer.
func (w *watchingWriter) Prepare(ctx context.Context) ([]connector.Committable, error) {
	w.c.seen(w.pending)
	clear(w.pending)
	return w.Writer.Prepare(ctx)
}
