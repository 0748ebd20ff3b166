package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// maxOpen is how many bounded splits of a source one subtask keeps open. Those beyond were
	// opened once to see where their time begins, and wait closed for their turn.
	maxOpen = 64
	// aheadBatches is how many batches a subtask may be ahead of the split that is furthest behind in
	// event time before it waits for it. Enough to even out what a busy machine does to one core for
	// some 10 ms; little enough that few windows are open at once, and that the subtasks end together.
	aheadBatches = 64
)

// sourceShared is what the subtasks of one source node share.
type sourceShared struct {
	node    *plan.Node
	src     *plan.Source
	table   *connector.Table
	source  connector.Source
	clock   *clock // of the time attribute; of its own where the source has none
	options option.Values
	bounded bool // every source of the clock's group ends
	drift   *alignment
	bytesIn atomic.Int64
	skipped atomic.Int64
	pace    pace

	restored   map[string]checkpoint.Split // by split: where the checkpoint has it
	until      map[string]checkpoint.Split // by split: where Options.Until has it; nil: there is no such limit
	untilClock int64
	untilNext  []connector.Split // found since the checkpoint that the run goes on from: read one after the other
	enum       connector.Enumerator
	memory     *memory           // of the splits read to their end; nil: checkpoints name them
	found      []connector.Split // by the first discovery
	discovered bool              // no more splits will come
	runs       []*sourceRun      // by subtask
	assigned   int
}

// pace keeps the reading of a source, by all of its subtasks, to a rate.
type pace struct {
	rate  int64 // rows a second, 0: none
	began atomic.Int64
	rows  atomic.Int64
}

// ahead reports whether more was read than there was time for.
func (p *pace) ahead() bool {
	if p.rate <= 0 {
		return false
	}
	now := time.Now().UnixNano()
	p.began.CompareAndSwap(0, now)
	return float64(p.rows.Load()) > float64(now-p.began.Load())/1e9*float64(p.rate)
}

func (p *pace) read(rows int) {
	if p.rate > 0 {
		p.rows.Add(int64(rows))
	}
}

// alignment is a group of scan.watermark.alignment: splits further than maxDrift (ms) ahead of
// the lowest clock of the group are not read.
type alignment struct {
	maxDrift int64
	clocks   []*clock
}

func (a *alignment) limit() int64 {
	low := vec.MaxTime
	for _, c := range a.clocks {
		low = min(low, c.now())
	}
	if low > vec.MaxTime-a.maxDrift || low == vec.MinTime {
		return vec.MaxTime
	}
	return low + a.maxDrift
}

// sourceRun reads the splits of one source that one subtask was given.
type sourceRun struct {
	*sourceShared
	reader    connector.Reader
	env       *expr.Env
	exprs     []expr.Expr // of the output columns, compiled once a split: its results wait with it
	watermark *expr.Program
	rawSchema types.Schema
	valueCols []int // columns of raw that the value format fills; the others: keyCols, metadata
	keyCols   []int
	constCols []int
	metaAt    int
	counters  *op.Counters
	now       func() int64
	badRow    func(b *vec.Batch, row int, pos expr.Pos, err error) error
	badRecord func(format.BadRecord) error
	badKeys   []int64            // positions of records whose key was refused, since the last batch
	command   func(func() error) // runs a function in the subtask's goroutine, between batches
	newDecs   func(*sourceRun) (format.Decoder, format.Decoder, error)
	maxFuture int64         // ms, 0: no limit
	gap       int           // on-event.gap
	periodic  time.Duration // between two moves of the watermark with on-periodic, else 0
	idleAfter time.Duration
	batchRows int
	ordered   bool // rows of several splits are merged in the order of their stamps

	out       op.Output
	turn      int64 // number of this step
	splits    []*splitRun
	last      *splitRun                     // chosen last
	unsorted  bool                          // splits were added
	current   *splitRun                     // whose rows are being computed
	done      bool                          // no more splits will come
	closedOut bool                          // the end was passed on
	ends      map[string]connector.Position // of the splits read to their end
	begins    map[string]int64              // offsets at which splits were opened first, where not 0
	opened    int
	pushed    int                 // batches, see note
	recent    [aheadBatches]int64 // the keys of those pushed last, by their number modulo aheadBatches
	wm        int64               // last emitted
	lag       atomic.Int64        // what is left to read, see measureLag
	sizes     int                 // splits asked for their size by measureLag
	merged    *vec.Batch
	mergeIx   []int32
}

func (s *sourceRun) newDecoders() (format.Decoder, format.Decoder, error) { return s.newDecs(s) }

// refuse gives rows that an expression failed on to the dead-letter handling, each once.
func (s *sourceRun) refuse(b *vec.Batch, errs []expr.RowError, bad map[int]bool) error {
	for _, e := range errs {
		if bad[e.Row] {
			continue
		}
		bad[e.Row] = true
		if err := s.badRow(b, e.Row, e.Pos, e.Err); err != nil {
			return err
		}
	}
	return nil
}

// add gives the subtask a split, already known to the clock.
func (s *sourceRun) add(split connector.Split, order int, cs *clockSplit) {
	s.unsorted = true
	s.clock.assign(cs, s)
	r := &splitRun{s: s, split: split, order: order, cs: cs, wm: vec.MinTime, shown: vec.MinTime, hold: vec.MinTime}
	s.splits = append(s.splits, r)
	if sp, ok := s.restored[split.ID]; ok {
		r.restore(sp)
	}
	r.bound()
}

// step reads and pushes one batch. It returns false when nothing could be done at present.
func (s *sourceRun) step(ctx context.Context) (bool, error) {
	if s.pace.ahead() {
		return false, s.tick()
	}
	if s.ordered && s.bounded {
		return s.stepMerged(ctx)
	}
	s.turn++
	for {
		r, err := s.choose(ctx)
		if err != nil {
			return false, err
		}
		if r == nil { // splits of other subtasks may have moved the watermark
			return false, s.tick()
		}
		if s.tooFarAhead() {
			return false, s.tick()
		}
		if !r.pending() {
			r.asked = s.turn
			ok, err := r.fill(ctx, s.batchRows)
			if err != nil {
				return false, err
			}
			if !ok {
				if err := s.stopped(r); err != nil {
					return false, err
				}
				continue
			}
		}
		return true, s.push(r)
	}
}

// choose returns the split to read next: of those that may be read, the one whose watermark is
// lowest. nil: none at present.
func (s *sourceRun) choose(ctx context.Context) (*splitRun, error) {
	limit := vec.MaxTime
	if s.drift != nil {
		limit = s.drift.limit()
	}
	for {
		s.settle()
		var best *splitRun
		for _, r := range s.splits {
			if r.ended || r.stands() || !r.quiet.IsZero() && r.asked == s.turn {
				continue
			}
			if best == nil || r.before(best.key(), best.order) {
				best = r
			}
			if s.bounded {
				break // they are sorted
			}
		}
		s.last = best
		if best == nil || best.key() > limit {
			return nil, nil
		}
		if best.rd != nil || best.pending() {
			return best, nil
		}
		if err := s.openSplit(ctx, best); err != nil {
			return nil, err
		}
		if best.ended {
			continue // there was nothing to read, and it is gone
		}
		if len(s.splits) == 1 || !s.bounded {
			return best, nil
		}
	}
}

// settle keeps the splits of a bounded source sorted by what they are read in the order of. Only
// the split chosen last has moved, so that thousands of files cost a search each and no scan.
func (s *sourceRun) settle() {
	if !s.bounded {
		return
	}
	compare := func(a, b *splitRun) int {
		return cmp.Or(cmp.Compare(a.key(), b.key()), cmp.Compare(a.order, b.order))
	}
	if s.unsorted {
		slices.SortFunc(s.splits, compare)
		s.unsorted = false
		return
	}
	if s.last == nil {
		return
	}
	i := slices.Index(s.splits, s.last)
	if i < 0 {
		return
	}
	s.splits = slices.Delete(s.splits, i, i+1)
	i, _ = slices.BinarySearchFunc(s.splits, s.last, compare)
	s.splits = slices.Insert(s.splits, i, s.last)
}

// openSplit opens r. A bounded split is decoded once, so that it holds the watermark at its first
// row; with too many open it is closed again until its turn.
func (s *sourceRun) openSplit(ctx context.Context, r *splitRun) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	s.opened++
	if !s.bounded || s.src.RowTime < 0 || r.hold != vec.MinTime {
		return nil
	}
	rows := s.batchRows
	if s.opened > maxOpen {
		rows = 1
	}
	ok, err := r.fill(ctx, rows)
	if err != nil {
		return err
	}
	if !ok {
		return s.stopped(r)
	}
	// The first row waits, so the clock may go up to just before what the row will show.
	if r.hold = r.wms[0]; r.hold > vec.MinTime {
		s.clock.advance(r.cs, r.hold-1)
	}
	if s.opened > maxOpen {
		s.opened--
		return r.park()
	}
	return nil
}

// stopped handles a split that gave no rows: at its end it is finished, otherwise it becomes idle
// after a while.
func (s *sourceRun) stopped(r *splitRun) error {
	if r.ended {
		s.opened--
		s.clock.setStatus(r.cs, splitFinished)
		if s.ends == nil {
			s.ends = map[string]connector.Position{}
		}
		s.ends[r.split.ID] = r.rd.Position()
		if err := r.close(); err != nil {
			return err
		}
		r.raw, r.dec, r.keyDec = nil, nil, nil
		s.splits = slices.DeleteFunc(s.splits, func(x *splitRun) bool { return x == r })
		return s.tick()
	}
	s.idle(r)
	return nil
}

// idle makes a split that has been quiet long enough idle. Only one that was read to its end can
// be: a broker that is away says nothing about what is to come, and a bounded read waits for all.
func (s *sourceRun) idle(r *splitRun) {
	if s.bounded || s.idleAfter <= 0 || r.quiet.IsZero() || r.pending() || r.rd == nil {
		return
	}
	if r.rd.Lag() > 0 {
		r.quiet = time.Now()
		return
	}
	if time.Since(r.quiet) >= s.idleAfter {
		s.clock.setStatus(r.cs, splitIdle)
	}
}

// tooFarAhead reports whether the subtask must wait because others are behind it. Only bounded reads
// wait: they follow event time, so that state stays small and history replays as it happened. Whoever
// reads the split that is furthest behind goes on, so they never all wait for one another.
func (s *sourceRun) tooFarAhead() bool {
	if !s.bounded || s.src.RowTime < 0 || s.pushed < aheadBatches || s.until != nil {
		return false // splits at their limit would hold the others up for ever
	}
	own, others := s.clock.apart(s)
	return own > others && s.recent[s.pushed%aheadBatches] > others
}

// note remembers where in event time the batch begins that r is about to push.
func (s *sourceRun) note(r *splitRun) {
	if s.bounded && s.src.RowTime >= 0 {
		s.recent[s.pushed%aheadBatches] = r.key()
		s.pushed++
	}
}

// push sends the pending rows of r on and advances the clock.
func (s *sourceRun) push(r *splitRun) error {
	n := r.out.N
	if s.src.RowTime >= 0 && !s.bounded {
		s.stampCombined(r)
	}
	s.note(r)
	s.pace.read(n)
	r.cursor = n
	b := r.out
	if !s.node.NeedStamps {
		b.Stamps = nil
	}
	if !s.node.NeedPos {
		b.Origin, b.Pos = nil, nil
	}
	if err := s.out.Emit(&b); err != nil {
		return err
	}
	if s.src.RowTime >= 0 {
		s.clock.advance(r.cs, r.wms[n-1])
	}
	return s.tick()
}

// stampCombined turns stamps of the split into stamps of the whole input: what the combined
// watermark was when each row was read, given what the other splits have shown.
func (s *sourceRun) stampCombined(r *splitRun) {
	low, now := s.clock.lowest(r.cs), s.clock.now()
	for i, x := range r.stamps[:r.out.N] {
		r.stamps[i] = max(now, min(low, x))
	}
}

// tick passes the combined watermark on when it has moved.
func (s *sourceRun) tick() error {
	if s.src.RowTime < 0 {
		return nil
	}
	if wm := s.clock.now(); wm > s.wm && wm < vec.MaxTime {
		s.wm = wm
		return s.out.Watermark(wm)
	}
	return nil
}

// checkIdle makes splits that have been quiet long enough idle, and passes on what other subtasks
// have moved the watermark to.
func (s *sourceRun) checkIdle() error {
	for _, r := range s.splits {
		s.idle(r)
		if s.periodic > 0 && !r.pending() && r.showPeriodic() {
			s.clock.advance(r.cs, r.shown)
		}
	}
	return s.tick()
}

// finished reports that every split was read to its end and no more will come.
func (s *sourceRun) finished() bool { return s.done && len(s.splits) == 0 }

// stepMerged pushes a batch of rows of all splits in the order of their stamps: row for row the
// order in which a machine that always reads the split with the lowest watermark sees them. It waits
// for a split that has nothing at present.
func (s *sourceRun) stepMerged(ctx context.Context) (bool, error) {
	var only *splitRun
	waits, live := false, 0
	for _, r := range slices.Clone(s.splits) {
		if r.stands() {
			continue
		}
		if r.rd == nil {
			if err := r.open(ctx); err != nil {
				return false, err
			}
		}
		if !r.pending() {
			ok, err := r.fill(ctx, s.batchRows)
			if err != nil {
				return false, err
			}
			if !ok {
				if err := s.stopped(r); err != nil {
					return false, err
				}
				waits = waits || !r.ended && !r.stands()
				continue
			}
		}
		only = r
		live++
	}
	if waits || live == 0 {
		return false, s.tick()
	}
	if live == 1 {
		if s.tooFarAhead() {
			return false, s.tick()
		}
		if only.cursor == 0 {
			return true, s.push(only)
		}
	}
	return s.merge()
}

// merge gathers up to a batch of rows, as long as every split has rows to compare.
func (s *sourceRun) merge() (bool, error) {
	if s.merged == nil {
		s.merged = vec.NewBatch(s.node.Schema)
	}
	m := s.merged
	m.Reset(0)
	for m.N < s.batchRows {
		var best, next *splitRun // the split whose turn it is, and the one after it
		for _, r := range s.splits {
			switch {
			case r.stands():
			case best == nil || r.before(best.key(), best.order):
				best, next = r, best
			case next == nil || r.before(next.key(), next.order):
				next = r
			}
		}
		if m.N == 0 {
			if s.tooFarAhead() {
				return false, s.tick()
			}
			s.note(best)
		}
		rows := s.mergeIx[:0]
		i := best.cursor
		for ; i < best.out.N; i++ {
			// The first row is best's turn by choice; later ones only while no other is lower. The rows of
			// one record stay together, since a cut goes on at a record.
			together := i > best.cursor && best.out.Pos != nil && best.out.Pos[i] == best.out.Pos[i-1]
			if !together && (m.N+len(rows) >= s.batchRows || i > best.cursor && next != nil && next.before(best.stamps[i], best.order)) {
				break
			}
			rows = append(rows, int32(i))
		}
		s.mergeIx = rows
		if best.out.Sel != nil {
			rows = slices.DeleteFunc(rows, func(i int32) bool {
				_, ok := slices.BinarySearch(best.out.Sel, i)
				return !ok
			})
		}
		m.Gather(&best.out, rows)
		best.cursor = i
		s.clock.advance(best.cs, best.wms[i-1])
		if !best.pending() {
			break
		}
	}
	if m.N > 0 {
		s.pace.read(m.N)
		b := *m
		if !s.node.NeedPos {
			b.Origin, b.Pos = nil, nil
		}
		if err := s.out.Emit(&b); err != nil {
			return false, err
		}
	}
	return true, s.tick()
}

// low is the smallest watermark of the splits not read to their end.
func (s *sourceRun) low() int64 {
	low := vec.MaxTime
	for _, r := range s.splits {
		low = min(low, r.key())
	}
	return low
}

// positions returns where to go on reading each split; of one read to its end, that end.
func (s *sourceRun) positions() map[string]connector.Position {
	out := maps.Clone(s.ends)
	if out == nil {
		out = map[string]connector.Position{}
	}
	for _, r := range s.splits {
		out[r.split.ID] = r.position()
	}
	return out
}

// sizesAtOnce is how many splits are asked for their size between two batches: it may take a call of the system.
const sizesAtOnce = 1000

// sizeOf is what is left in a split that is not open, -1 if that is not known (yet).
func (s *sourceRun) sizeOf(r *splitRun) int64 {
	sizer, ok := s.reader.(connector.Sizer)
	switch {
	case !ok:
		return -1
	case r.sized:
		return r.size
	case s.sizes >= sizesAtOnce:
		return -1
	}
	s.sizes++
	split := r.split
	split.Position = r.position()
	r.size, r.sized = sizer.SizeOf(split), true
	return r.size
}

// begin notes where a split was opened, the first time.
func (s *sourceRun) begin(split string, at connector.Position) {
	if _, known := s.begins[split]; known || at.Offset == 0 {
		return
	}
	if s.begins == nil {
		s.begins = map[string]int64{}
	}
	s.begins[split] = at.Offset
}

// measureLag sums what is left to read of the splits, in units of the source; -1 if unknown.
func (s *sourceRun) measureLag() {
	var n int64
	s.sizes = 0
	for _, r := range s.splits {
		var l int64
		if r.rd != nil {
			l = r.rd.Lag()
		} else {
			l = s.sizeOf(r)
		}
		if l < 0 {
			n = -1
			break
		}
		n += l
	}
	s.lag.Store(n)
}

func (s *sourceRun) close() error {
	var first error
	for _, r := range s.splits {
		if err := r.close(); err != nil && first == nil {
			first = err
		}
	}
	if s.reader != nil {
		if err := s.reader.Close(); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return fmt.Errorf("close table %s: %w", s.table.Name, first)
	}
	return nil
}
