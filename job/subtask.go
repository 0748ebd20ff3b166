package job

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// tickEvery is how often a subtask looks at the clock for processing-time operators, idle splits
// and sinks' time limits.
const tickEvery = 50 * time.Millisecond

// subtask is one goroutine's share of a task: its operators, the sources it reads and the
// channels it receives from. All fields but atomics belong to its goroutine once it runs.
type subtask struct {
	j        *Job
	task     *task
	index    int
	ops      map[int]*opRun
	order    []*opRun
	outs     map[int]*fan
	sources  []*sourceRun
	values   []*valuesRun
	in       *inbox
	channels []*channel
	ordered  map[[2]int]*orderedInput
	edges    map[[2]int]target    // what leads to an input of a node, by node and input
	first    []func() error       // to be done before anything else: rows that a checkpoint holds
	msgs     []message            // taken from in and not delivered
	lastCut  *cut                 // the last one that the subtask took part in
	hurried  bool                 // changes of state go to the store at once
	wake     []reflect.SelectCase // the splits of sources may have data, see wait
	alarm    *time.Timer
	cmds     commands // run between batches
	lastTick time.Time
	busy     stopwatch // working, or waiting for room
	waited   stopwatch // for room in the channels to others
	ended    atomic.Bool
	reached  atomic.Bool // its sources are where Options.Until has them
}

func newSubtask(j *Job, t *task, index int) *subtask {
	return &subtask{j: j, task: t, index: index, ops: map[int]*opRun{}, outs: map[int]*fan{},
		edges: map[[2]int]target{}, in: newInbox(), ordered: map[[2]int]*orderedInput{}}
}

// commands are functions that other goroutines want run in a subtask's, between two batches, in
// the order in which they were given.
type commands struct {
	mu    sync.Mutex
	queue []func() error // guarded by mu
}

// command queues f for the subtask and wakes it. It never blocks.
func (s *subtask) command(f func() error) {
	s.cmds.mu.Lock()
	s.cmds.queue = append(s.cmds.queue, f)
	s.cmds.mu.Unlock()
	s.in.wakeUp()
}

func (c *commands) take() []func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queue
	c.queue = nil
	return q
}

// target is where an operator's output goes: a chained operator or an exchange.
type target interface {
	op.Output
	// End says that no more comes.
	End() error
	// Epoch says that an epoch ends here.
	Epoch(id int64) error
}

// fan gives an operator's output to all targets and counts it.
type fan struct {
	books   *op.Counters
	targets []target
	// late takes what the operator found too late, nil where nobody wants it. What is said to the
	// fan but rows is said to late too.
	late *fan
}

func (f *fan) add(t target) { f.targets = append(f.targets, t) }

// side returns the fan that rows of edge e go through.
func (f *fan) side(e plan.Edge) *fan {
	if !e.Late {
		return f
	}
	if f.late == nil {
		f.late = &fan{books: &op.Counters{}} // its rows are counted as LateOut of f.books
	}
	return f.late
}

// Emit implements op.Output.
func (f *fan) Emit(b *vec.Batch) error {
	f.books.RowsOut.Add(int64(b.Rows()))
	for _, t := range f.targets {
		if err := t.Emit(b); err != nil {
			return err
		}
	}
	return nil
}

// Watermark implements op.Output.
func (f *fan) Watermark(wm int64) error {
	f.books.Watermark.Store(wm)
	if f.late != nil {
		if err := f.late.Watermark(wm); err != nil {
			return err
		}
	}
	for _, t := range f.targets {
		if err := t.Watermark(wm); err != nil {
			return err
		}
	}
	return nil
}

func (f *fan) end() error {
	if f.late != nil {
		if err := f.late.end(); err != nil {
			return err
		}
	}
	for _, t := range f.targets {
		if err := t.End(); err != nil {
			return err
		}
	}
	return nil
}

func (f *fan) epoch(id int64) error {
	if f.late != nil {
		if err := f.late.epoch(id); err != nil {
			return err
		}
	}
	for _, t := range f.targets {
		if err := t.Epoch(id); err != nil {
			return err
		}
	}
	return nil
}

// End implements target for an exchange.
func (s *sender) End() error { return s.tell(message{wm: s.wm, end: true}) }

// Epoch implements target for an exchange.
func (s *sender) Epoch(id int64) error { return s.tell(message{wm: s.wm, epoch: id}) }

// chained is an operator in the same subtask as target.
type chained struct {
	o     *opRun
	input int
}

func (c *chained) Emit(b *vec.Batch) error  { return c.o.process(c.input, b) }
func (c *chained) Watermark(wm int64) error { return c.o.watermark(c.input, 0, wm) }
func (c *chained) End() error               { return c.o.end(c.input, 0) }
func (c *chained) Epoch(id int64) error     { return c.o.epoch(c.input, 0, id) }

// opRun is an operator with the merging of its inputs.
type opRun struct {
	s      *subtask
	node   *plan.Node
	op     op.Operator
	proc   op.ProcTimer // op, or nil
	books  *op.Counters
	out    *fan
	wms    [][]int64 // per input and channel of it
	wm     int64
	marks  [][]int64 // per input and channel: the last epoch whose marker came, endOfChannel after the end
	open   int       // channels that have not ended
	total  int
	passed int64 // the last epoch that went on
	delta  state.Delta
	digest *digester      // of a sink's rows; nil: nobody asks
	missed missedWindows  // windows that rows came too late for, since the last cut; nil: nobody asks
	spill  *state.Spill   // nil: the operator's state stays in memory
	ahead  map[int]*ahead // by input: restored rows that wait for their turn; nil: none
	// endedBefore says that the job goes on from a checkpoint in which the operator had ended.
	endedBefore bool
}

// endOfChannel stands for every later marker of a channel that has ended.
const endOfChannel = math.MaxInt64

func (s *subtask) addOp(n *plan.Node, o op.Operator, books *op.Counters) {
	r := &opRun{s: s, node: n, op: o, books: books, out: s.outs[n.ID], wm: vec.MinTime}
	r.proc, _ = o.(op.ProcTimer)
	s.ops[n.ID] = r
	s.order = append(s.order, r)
}

func (r *opRun) addInput(input, channels int) {
	for len(r.wms) <= input {
		r.wms = append(r.wms, nil)
		r.marks = append(r.marks, nil)
	}
	for range channels {
		r.wms[input] = append(r.wms[input], vec.MinTime)
		r.marks[input] = append(r.marks[input], 0)
		r.open++
		r.total++
	}
}

func (r *opRun) process(input int, b *vec.Batch) error {
	if r.ahead[input] != nil {
		return r.merge(input, b)
	}
	return r.give(input, b)
}

// give counts rows and hands them to the operator.
func (r *opRun) give(input int, b *vec.Batch) error {
	r.books.RowsIn.Add(int64(b.Rows()))
	if r.digest != nil {
		r.digest.add(b)
	}
	if t := r.s.j.o.Trace; t != nil {
		return t.split(r, input, b)
	}
	return r.op.Process(input, b)
}

// watermark notes the watermark of one channel of an input and gives the operator the minimum.
func (r *opRun) watermark(input, ch int, wm int64) error {
	if wm <= r.wms[input][ch] {
		return nil
	}
	r.wms[input][ch] = wm
	low := wm
	if r.total > 1 {
		for _, in := range r.wms {
			for _, w := range in {
				low = min(low, w)
			}
		}
	}
	if low <= r.wm {
		return nil
	}
	r.wm = low
	if r.ahead != nil {
		if err := r.releaseAll(low); err != nil {
			return err
		}
	}
	return r.op.Watermark(low)
}

// end notes the end of one channel of an input. The last one finishes the operator; before that,
// the one that ended owes no more markers.
func (r *opRun) end(input, ch int) error {
	r.marks[input][ch] = endOfChannel
	if r.open--; r.open > 0 {
		return r.pass()
	}
	if err := r.releaseAll(vec.MaxTime); err != nil {
		return err
	}
	if !r.endedBefore {
		if err := r.op.Finish(); err != nil {
			return err
		}
	}
	// What comes last belongs to the next cut: the subtask has no part in it.
	if err := r.prepare(r.s.nextCut()); err != nil {
		return err
	}
	if _, ok := r.node.Op.(*plan.Sink); ok {
		r.s.j.epochs.leave(r)
	}
	return r.out.end()
}

// epoch notes the marker of one channel.
func (r *opRun) epoch(input, ch int, id int64) error {
	r.marks[input][ch] = max(r.marks[input][ch], id)
	return r.pass()
}

// pass lets the newest epoch go on whose marker has come on every channel that has not ended.
func (r *opRun) pass() error {
	id := int64(endOfChannel)
	for _, in := range r.marks {
		for _, m := range in {
			id = min(id, m)
		}
	}
	if id <= r.passed || id == endOfChannel {
		return nil
	}
	r.passed = id
	if f, ok := r.op.(op.Flusher); ok {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	// With checkpoints it is their cuts that end epochs.
	if r.s.j.driver == nil {
		if err := r.prepare(id); err != nil {
			return err
		}
	}
	if _, ok := r.node.Op.(*plan.Sink); ok {
		r.s.j.epochs.ack(r, id)
		return nil
	}
	return r.out.epoch(id)
}

// prepare ends the epoch of a sink's output, which cut or marker id has ended.
func (r *opRun) prepare(id int64) error {
	e, ok := r.op.(interface {
		Epoch() ([]connector.Committable, error)
	})
	if !ok {
		return nil
	}
	cs, err := e.Epoch()
	if err != nil {
		return err
	}
	sh := r.s.j.sinks[r.node.ID]
	if len(cs) == 0 {
		return nil
	}
	sh.mu.Lock()
	sh.prepared = append(sh.prepared, preparedOutput{id, cs})
	sh.mu.Unlock()
	return nil
}

// channel is the receiving end of an exchange.
type channel struct {
	to    *opRun
	input int
	sub   int // number among the channels of the input
	pool  *batchPool
}

// openOperators opens the chain.
func (s *subtask) openOperators() error {
	count := map[[2]int]int{}
	for _, c := range s.channels {
		k := [2]int{c.to.node.ID, c.input}
		c.sub = count[k]
		count[k]++
	}
	for _, r := range s.order {
		c := s.j.context(s, r.node, r.books)
		r.spill = c.Spill
		if err := r.op.Open(c, r.out); err != nil {
			return fmt.Errorf("operator %s: %w", r.node.Label, err)
		}
	}
	for _, src := range s.sources {
		if w := src.reader.Wake(); w != nil {
			s.wake = append(s.wake, receiving(w))
		}
	}
	return nil
}

func receiving(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// run works until the input has ended or the job was cancelled.
func (s *subtask) run() (err error) {
	defer func() {
		p := recover()
		var cold *state.ColdError
		if e, ok := p.(error); ok && errors.As(e, &cold) {
			err = cold // looking up a key has no other way to fail
		} else if p != nil {
			err = fmt.Errorf("BUG: %v\n%s", p, debug.Stack())
		}
	}()
	for _, f := range s.first {
		if err := f(); err != nil {
			return err
		}
	}
	s.first = nil
	for {
		if s.j.ctx.Err() != nil {
			return nil
		}
		worked, err := s.turn()
		if err != nil {
			return err
		}
		if s.finished() {
			s.ended.Store(true)
			return nil
		}
		if !worked {
			s.wait()
		}
	}
}

// turn does one round of work: commands, messages, one batch of every source.
func (s *subtask) turn() (worked bool, err error) {
	from := time.Now()
	s.busy.start(from)
	defer func() { s.busy.stop(time.Now(), worked) }()
	if c := s.j.cutting.Load(); c != nil && c != s.lastCut {
		if err := s.park(c); err != nil {
			return false, err
		}
		if s.j.ctx.Err() != nil {
			return false, nil // what is done after the last cut is done again
		}
	}
	for _, f := range s.cmds.take() {
		if err := f(); err != nil {
			return false, err
		}
		worked = true
	}
	did, err := s.receive()
	if err != nil {
		return false, err
	}
	worked = worked || did
	if did, err = s.read(); err != nil {
		return false, err
	}
	worked = worked || did
	if from.Sub(s.lastTick) >= tickEvery {
		s.lastTick = from
		if err := s.tick(from); err != nil {
			return false, err
		}
	}
	if worked {
		if err := s.early(); err != nil {
			return false, err
		}
	}
	return worked, nil
}

func (s *subtask) receive() (bool, error) {
	if len(s.msgs) == 0 {
		s.msgs = s.in.take(s.msgs[:0])
	}
	n := 0
	for ; n < len(s.msgs); n++ {
		if n > 0 && s.j.cutting.Load() != nil {
			break // the others wait
		}
		if n > 0 && s.short() {
			if err := s.early(); err != nil {
				return false, err
			}
		}
		m := s.msgs[n]
		var err error
		c := s.channels[m.channel]
		if o := s.ordered[[2]int{c.to.node.ID, c.input}]; o != nil && len(o.channels) > 1 {
			err = o.add(s, m)
		} else {
			err = s.deliver(m)
		}
		if err != nil {
			return false, err
		}
	}
	left := copy(s.msgs, s.msgs[n:])
	clear(s.msgs[left:])
	s.msgs = s.msgs[:left]
	return n > 0, nil
}

// deliver gives a message to its operator and its batch back to the pool.
func (s *subtask) deliver(m message) error {
	c := s.channels[m.channel]
	if m.batch != nil {
		if err := c.to.process(c.input, m.batch); err != nil {
			return err
		}
		c.pool.put(m.batch)
	}
	s.in.done(m)
	switch {
	case m.end:
		if err := c.to.watermark(c.input, c.sub, vec.MaxTime); err != nil {
			return err
		}
		return c.to.end(c.input, c.sub)
	case m.epoch != 0:
		return c.to.epoch(c.input, c.sub, m.epoch)
	}
	return c.to.watermark(c.input, c.sub, m.wm)
}

// read takes a step of every source.
func (s *subtask) read() (bool, error) {
	worked := false
	for _, v := range s.values {
		if v.done {
			continue
		}
		worked = true
		if err := v.step(); err != nil {
			return false, err
		}
	}
	switch {
	case s.j.endOfTime.Load():
		return worked, s.drain()
	case s.j.driver == nil && s.stopping() || s.j.pausing.Load():
		// With checkpoints a stop pauses the job first, and a stop that was refused lets it go on.
		return worked, nil
	}
	for _, src := range s.sourcesByTime() {
		did, err := src.step(s.j.ctx)
		if err != nil {
			return false, err
		}
		worked = worked || did
		if did && len(s.sources) > 1 && src.bounded {
			break // look again which source is behind
		}
	}
	if s.j.o.Until != nil && !worked {
		s.reached.Store(s.atLimit())
	}
	return worked, s.endSources()
}

// sourcesByTime puts the source whose next row is earliest first.
func (s *subtask) sourcesByTime() []*sourceRun {
	if len(s.sources) < 2 {
		return s.sources
	}
	low := 0
	for i, src := range s.sources {
		if src.low() < s.sources[low].low() {
			low = i
		}
	}
	s.sources[0], s.sources[low] = s.sources[low], s.sources[0]
	return s.sources
}

// endSources ends the outputs of sources that were read to their end, once the clock says so.
func (s *subtask) endSources() error {
	for _, src := range s.sources {
		if src.closedOut || !src.finished() {
			continue
		}
		if src.src.RowTime >= 0 {
			if src.clock.now() != vec.MaxTime {
				if err := src.tick(); err != nil {
					return err
				}
				continue
			}
			if err := src.out.Watermark(vec.MaxTime); err != nil {
				return err
			}
		}
		src.closedOut = true
		if err := s.outs[src.node.ID].end(); err != nil {
			return err
		}
	}
	return nil
}

func (s *subtask) stopping() bool {
	select {
	case <-s.j.stop:
		return true
	default:
		return false
	}
}

// drain ends the sources where they are: the end of time goes through the job.
func (s *subtask) drain() error {
	for _, src := range s.sources {
		if src.closedOut {
			continue
		}
		src.closedOut = true
		if err := src.out.Watermark(vec.MaxTime); err != nil {
			return err
		}
		if err := s.outs[src.node.ID].end(); err != nil {
			return err
		}
	}
	return nil
}

// finished reports that all operators have seen their end.
func (s *subtask) finished() bool {
	for _, r := range s.order {
		if r.open > 0 {
			return false
		}
	}
	for _, src := range s.sources {
		if !src.closedOut {
			return false
		}
	}
	return true
}

// tick serves processing time.
func (s *subtask) tick(now time.Time) error {
	ms := s.j.now()
	for _, r := range s.order {
		if r.proc != nil {
			if err := r.proc.ProcTime(ms); err != nil {
				return err
			}
		}
	}
	for _, src := range s.sources {
		src.measureLag()
		if err := src.checkIdle(); err != nil {
			return err
		}
	}
	return nil
}

// wait sleeps until something may have happened.
func (s *subtask) wait() {
	d := tickEvery
	for _, src := range s.sources {
		if !src.finished() {
			d = 2 * time.Millisecond // a split may be waiting for another subtask
			if !src.bounded && len(s.wake) > 0 {
				d = 10 * time.Millisecond
			}
		} else if !src.closedOut {
			d = time.Millisecond
		}
	}
	if s.alarm == nil {
		s.alarm = time.NewTimer(d)
	} else {
		s.alarm.Reset(d)
	}
	if len(s.wake) > 0 {
		reflect.Select(append(s.wake, receiving(s.in.ready), receiving(s.alarm.C), receiving(s.j.ctx.Done())))
		return
	}
	select {
	case <-s.in.ready:
	case <-s.alarm.C:
	case <-s.j.ctx.Done():
	}
}

// exited closes the inbox, so that nobody waits for this subtask.
func (s *subtask) exited() {
	s.in.close()
	s.j.cutter.leaves(s)
}

func (s *subtask) close() error {
	var first error
	for _, r := range s.order {
		if err := r.op.Close(); err != nil && first == nil {
			first = err
		}
	}
	for _, src := range s.sources {
		if err := src.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// valuesRun emits constant rows.
type valuesRun struct {
	node   int
	rows   [][]types.Value
	schema types.Schema
	out    *fan
	books  *op.Counters
	batch  int
	done   bool
	// endedBefore says that the rows were emitted before the checkpoint that the job goes on from.
	endedBefore bool
}

func (v *valuesRun) step() error {
	v.done = true
	if v.endedBefore {
		v.rows = nil
	}
	for from := 0; from < len(v.rows); from += v.batch {
		b := vec.NewBatch(v.schema)
		for _, row := range v.rows[from:min(from+v.batch, len(v.rows))] {
			for c, x := range row {
				b.Cols[c].AppendValue(x)
			}
			b.N++
		}
		v.books.RowsIn.Add(int64(b.N))
		if err := v.out.Emit(b); err != nil {
			return err
		}
	}
	if err := v.out.Watermark(vec.MaxTime); err != nil {
		return err
	}
	return v.out.end()
}
