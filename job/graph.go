package job

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/build"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// task is a set of nodes that run chained in each of its subtasks.
type task struct {
	nodes    []*plan.Node // in topological order
	par      int
	subtasks []*subtask
}

// layout assigns every node to a task. Two nodes share one when the edge between them moves no
// rows; nodes at different depths (exchanges upstream) never do, so tasks form no cycle.
func (j *Job) layout() (of []*task, exchanged map[[2]int]bool) {
	nodes := j.p.Nodes
	depth := make([]int, len(nodes))
	group := make([]int, len(nodes))
	par := make([]int, len(nodes))
	exchanged = map[[2]int]bool{} // node, input
	find := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	for i, n := range nodes {
		group[i] = i
		par[i] = j.parallelism(n, par)
		moves := make([]bool, len(n.Inputs))
		for k, e := range n.Inputs {
			moves[k] = par[e.From] != par[i] || par[i] > 1 && e.Dist != plan.Forward
			d := depth[e.From]
			if moves[k] {
				d++
			}
			depth[i] = max(depth[i], d)
		}
		for k, e := range n.Inputs {
			if moves[k] || depth[e.From] != depth[i] {
				exchanged[[2]int{i, k}] = true
				continue
			}
			group[find(i)] = find(e.From)
		}
	}
	tasks := map[int]*task{}
	of = make([]*task, len(nodes))
	for i, n := range nodes {
		g := find(i)
		t := tasks[g]
		if t == nil {
			t = &task{par: par[i]}
			tasks[g] = t
			j.tasks = append(j.tasks, t)
		}
		t.nodes = append(t.nodes, n)
		of[i] = t
	}
	return of, exchanged
}

// parallelism is the number of subtasks of n; par holds those of the nodes before it. A node
// that is told nothing and whose input stays where it is has as many as its input.
func (j *Job) parallelism(n *plan.Node, par []int) int {
	p := n.Parallelism
	if p <= 0 {
		p = j.o.Parallelism
		forward := len(n.Inputs) > 0
		for _, e := range n.Inputs {
			forward = forward && e.Dist == plan.Forward && par[e.From] == par[n.Inputs[0].From]
		}
		if forward {
			p = par[n.Inputs[0].From]
		}
	}
	for _, e := range n.Inputs {
		if e.Dist == plan.Single {
			return 1
		}
	}
	if _, ok := n.Op.(*plan.Values); ok {
		return 1
	}
	return min(p, j.o.MaxParallelism)
}

// build makes all subtasks and connects them.
func (j *Job) build() error {
	of, exchanged := j.layout()
	for _, t := range j.tasks {
		for i := range t.par {
			t.subtasks = append(t.subtasks, newSubtask(j, t, i))
		}
	}
	for _, n := range j.p.Nodes {
		for _, s := range of[n.ID].subtasks {
			if err := j.addNode(s, n); err != nil {
				return err
			}
		}
	}
	for _, n := range j.p.Nodes {
		for k, e := range n.Inputs {
			if exchanged[[2]int{n.ID, k}] {
				j.connect(of[e.From], of[n.ID], n, k)
				continue
			}
			for _, s := range of[n.ID].subtasks {
				to := s.ops[n.ID]
				to.addInput(k, 1)
				t := &chained{to, k}
				s.outs[e.From].side(e).add(t)
				s.edges[[2]int{n.ID, k}] = t
			}
		}
	}
	j.epochs = newEpochs(j)
	for _, t := range j.tasks {
		for _, s := range t.subtasks {
			if err := s.openOperators(); err != nil {
				return err
			}
		}
	}
	return j.assignSplits()
}

// connect makes the channels of one exchanged edge: from every subtask upstream to every one
// downstream, or one to one for a forward edge that could not be chained.
func (j *Job) connect(up, down *task, n *plan.Node, input int) {
	e := n.Inputs[input]
	dist := e.Dist
	pairwise := dist == plan.Forward && up.par == down.par
	if dist == plan.Forward && !pairwise {
		dist = plan.Rebalance
	}
	schema := j.p.EdgeSchema(n, input)
	pool := &batchPool{schema: schema}
	var keys []types.Type
	for _, k := range e.Keys {
		keys = append(keys, schema.Fields[k].Type)
	}
	for u, us := range up.subtasks {
		snd := &sender{ctx: j.ctx, dist: dist, keys: e.Keys, maxPar: j.o.MaxParallelism, pool: pool,
			waited: &us.waited, wm: vec.MinTime, enc: state.NewEncoder(state.NewLayout(keys, false))}
		for d, ds := range down.subtasks {
			if pairwise && u != d {
				continue
			}
			snd.inboxes = append(snd.inboxes, ds.in)
			snd.channel = append(snd.channel, ds.in.addChannel())
			ds.channels = append(ds.channels, &channel{to: ds.ops[n.ID], input: input, pool: pool})
			if pairwise {
				ds.ops[n.ID].addInput(input, 1)
			}
		}
		snd.rows = make([][]int32, len(snd.inboxes))
		us.outs[e.From].side(e).add(snd)
		us.edges[[2]int{n.ID, input}] = snd
	}
	if !pairwise {
		for _, ds := range down.subtasks {
			ds.ops[n.ID].addInput(input, up.par)
		}
	}
	for _, ds := range down.subtasks {
		ds.groupOrdered(n.ID, input, e.Ordered)
	}
}

// addNode makes the instance of n in s.
func (j *Job) addNode(s *subtask, n *plan.Node) error {
	books := &op.Counters{}
	books.Watermark.Store(vec.MinTime)
	j.books[n.ID] = append(j.books[n.ID], books)
	s.outs[n.ID] = &fan{books: books}
	switch o := n.Op.(type) {
	case *plan.Values:
		s.values = append(s.values, &valuesRun{node: n.ID, rows: o.Rows, schema: n.Schema, out: s.outs[n.ID], books: books, batch: j.o.BatchRows})
		return nil
	case *plan.Source:
		run, err := j.newSourceRun(s, n, o, books)
		if err != nil {
			return err
		}
		s.sources = append(s.sources, run)
		return nil
	}
	io := build.SinkIO{}
	if sh := j.sinks[n.ID]; sh != nil {
		if sh.sink == nil {
			io.Collect = j.collectRows(n)
		} else {
			w, err := sh.sink.NewWriter(j.ctx, s.index, s.task.par)
			if err != nil {
				return fmt.Errorf("open table %s: %w", n.Op.(*plan.Sink).Table.Name, err)
			}
			t := n.Op.(*plan.Sink).Table
			if io.Writer, err = castSink(w, t, n.Schema, connector.Lookup(t.Connector).SinkMetadata, j.o.Env, j.dead.row(n, books, nil)); err != nil {
				return err
			}
			if sh.producers != nil {
				if io.Writer, err = newWatchingWriter(io.Writer, sh.producers, n.Schema, j.o.Env); err != nil {
					return err
				}
			}
			if j.o.Results != nil && t.Results != nil {
				io.Writer = &shownWriter{Writer: io.Writer, node: n, show: j.o.Results}
			}
		}
	}
	operator, err := build.Operator(j.ctx, j.p, n, io)
	if err != nil {
		return err
	}
	s.addOp(n, operator, books)
	if j.sinks[n.ID] != nil && j.digests() {
		s.ops[n.ID].digest = &digester{}
	}
	return nil
}

// context makes what an operator may use.
func (j *Job) context(s *subtask, n *plan.Node, books *op.Counters) *op.Context {
	c := &op.Context{Env: j.o.Env, Label: n.Label, NodeID: n.ID, Subtask: s.index, Parallelism: s.task.par,
		MaxParallelism: j.o.MaxParallelism, Counters: books, Now: j.now, BatchRows: j.o.BatchRows,
		BatchMode: j.p.Batch, Saves: j.checkpoints != nil, BadRow: j.dead.row(n, books, nil), Budget: j.budget}
	if _, ok := n.Op.(*plan.WindowAgg); ok && j.wantsMissed(n) {
		r := s.ops[n.ID]
		r.missed = missedWindows{}
		c.Missed = missedBy(r.missed)
	}
	if late := s.outs[n.ID].late; late != nil {
		c.Late = func(b *vec.Batch) error {
			books.LateOut.Add(int64(b.Rows()))
			return late.Emit(b)
		}
	}
	if w, ok := n.Op.(*plan.WindowAgg); ok && j.o.Trace != nil {
		c.Late = j.o.Trace.late(w, j.p.EdgeSchema(n, 0).Len(), c.Late)
	}
	if k := j.checkpoints; k != nil {
		lo, hi := state.Groups(s.index, j.o.MaxParallelism, s.task.par)
		c.Spill = state.NewSpill(j.budget, k.store, state.SpillOptions{Operator: k.ids[n.ID], Lo: lo, Hi: hi,
			Stored: k.operators[n.ID] != nil})
		c.Room = func() error { return s.relieve(s.ops[n.ID]) }
	}
	return c
}
