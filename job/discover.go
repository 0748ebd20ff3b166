package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// discoverEvery is how often enumerators that are not done are asked for new splits. Enumerators
// with an interval of their own return nothing in between.
const discoverEvery = 200 * time.Millisecond

// openSources makes the sources, groups them by clock and finds their first splits.
func (j *Job) openSources() error {
	clocks := j.clocks()
	aligned := map[string]*alignment{}
	for _, n := range j.p.Nodes {
		src, ok := n.Op.(*plan.Source)
		if !ok {
			continue
		}
		f := connector.Lookup(src.Table.Connector)
		if f == nil || f.NewSource == nil {
			return fmt.Errorf("table %s: connector '%s' cannot be read", src.Table.Name, src.Table.Connector)
		}
		o := option.Of(src.Table.Options, f.Options, connector.CommonOptions)
		table := nativeMetadata(src.Table, f.SourceMetadata)
		if j.o.Until != nil {
			table, o = strictly(table, f)
		}
		source, err := f.NewSource(connector.SourceConfig{Table: table, Options: o, Columns: src.Columns,
			Metadata: src.Metadata, Limit: src.Limit, Batch: j.p.Batch, Resolve: j.o.Resolve, Seed: j.o.Seed, Warn: j.o.Warn})
		if err != nil {
			return fmt.Errorf("open table %s: %w", src.Table.Name, err)
		}
		s := &sourceShared{node: n, src: src, table: table, source: source, options: o,
			clock: clocks[n.ID], bounded: source.Bounded(), pace: pace{rate: j.o.ReadRate}}
		j.sources[n.ID] = s
		// Splits at their limit would hold the others up.
		if g := o.Get("scan.watermark.alignment.group"); g != "" && src.RowTime >= 0 && j.o.Until == nil {
			if aligned[g] == nil {
				aligned[g] = &alignment{maxDrift: o.Duration("scan.watermark.alignment.max-drift").Milliseconds()}
			}
			aligned[g].clocks = append(aligned[g].clocks, s.clock)
			s.drift = aligned[g]
		}
	}
	for _, a := range j.sources { // a clock replays only if all its sources end
		for _, b := range j.sources {
			if a.clock == b.clock && !b.source.Bounded() {
				a.bounded = false
			}
		}
	}
	for _, n := range j.p.Nodes {
		if s := j.sources[n.ID]; s != nil {
			if err := j.firstSplits(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *Job) firstSplits(s *sourceShared) (err error) {
	s.clock.addSource()
	if s.enum, err = s.source.NewEnumerator(j.ctx); err != nil {
		return fmt.Errorf("open table %s: %w", s.table.Name, err)
	}
	if r, ok := s.enum.(connector.Rememberer); ok && j.checkpoints != nil {
		s.memory = &memory{r: r}
	}
	if from := j.savedSource(s.node); from != nil {
		err = s.restoreSplits(j.ctx, from)
	} else {
		s.found, s.discovered, err = s.enum.Discover(j.ctx)
	}
	if err == nil && j.o.Until != nil {
		err = j.limit(s)
	}
	if err != nil {
		return fmt.Errorf("find the splits of table %s: %w", s.table.Name, err)
	}
	return nil
}

// clocks gives every source its clock. Sources whose rows meet in an operator that has event time
// share one.
func (j *Job) clocks() map[int]*clock {
	parent := map[int]int{}
	var find func(i int) int
	find = func(i int) int {
		if parent[i] == i {
			return i
		}
		return find(parent[i])
	}
	feeds := make([][]int, len(j.p.Nodes)) // sources of the node's time attribute
	for i, n := range j.p.Nodes {
		if _, ok := n.Op.(*plan.Source); ok {
			parent[i] = i
			feeds[i] = []int{i}
			continue
		}
		for _, e := range n.Inputs {
			feeds[i] = append(feeds[i], feeds[e.From]...)
		}
		if n.RowTime < 0 {
			continue
		}
		for _, f := range feeds[i] {
			parent[find(f)] = find(feeds[i][0])
		}
	}
	out := map[int]*clock{}
	byRoot := map[int]*clock{}
	for i := range parent {
		r := find(i)
		if byRoot[r] == nil {
			byRoot[r] = newClock()
		}
		out[i] = byRoot[r]
	}
	return out
}

// assignSplits gives the first splits to the subtasks: contiguous runs of a bounded source, so
// that the order of splits is the order of subtasks, in turn otherwise.
func (j *Job) assignSplits() error {
	// The clock must know all splits before one of them tells it what it has reached: a restored one
	// does so at once.
	known := map[*sourceShared][]*clockSplit{}
	for _, s := range j.sources {
		for _, split := range s.found {
			known[s] = append(known[s], s.clock.add(split.ID))
		}
	}
	for _, n := range j.p.Nodes {
		s := j.sources[n.ID]
		if s == nil {
			continue
		}
		for i, split := range s.found {
			to := i % len(s.runs)
			if s.bounded {
				to = i * len(s.runs) / len(s.found)
			}
			s.runs[to].add(split, i, known[s][i])
		}
		s.assigned = len(s.found)
		s.found = nil
		if s.discovered {
			s.noMoreSplits()
			for _, r := range s.runs {
				r.done = true
			}
		}
	}
	return nil
}

func (s *sourceShared) noMoreSplits() { s.clock.sourceDone() }

// discover looks for new splits until there will be no more or the job ends. The subtask that
// gets one learns of it between two batches.
//
// A stop that takes a savepoint may be refused, after which the job goes on: then only its end counts.
func (j *Job) discover(s *sourceShared) {
	stop := j.stop
	if j.driver != nil {
		stop = nil
	}
	t := time.NewTicker(discoverEvery)
	defer t.Stop()
	for {
		select {
		case <-j.ctx.Done():
			return
		case <-stop:
			return
		case <-t.C:
		}
		splits, done, err := s.enum.Discover(j.ctx)
		if err != nil {
			if j.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				j.cancel(fmt.Errorf("find the splits of table %s: %w", s.table.Name, err))
			}
			return
		}
		for _, split := range splits {
			r := s.runs[s.assigned%len(s.runs)]
			order, cs := s.assigned, s.clock.add(split.ID)
			s.assigned++
			r.command(func() error { r.add(split, order, cs); return nil })
		}
		if done {
			s.noMoreSplits()
			for _, r := range s.runs {
				r.command(func() error { r.done = true; return nil })
			}
			return
		}
	}
}

// newSourceRun makes one subtask's part of a source.
func (j *Job) newSourceRun(st *subtask, n *plan.Node, src *plan.Source, books *op.Counters) (*sourceRun, error) {
	sh := j.sources[n.ID]
	r := &sourceRun{sourceShared: sh, env: j.o.Env, counters: books, out: st.outs[n.ID], wm: -1 << 63,
		now: j.now, badRecord: j.dead.record(src.Table, books),
		newDecs: decoders, batchRows: j.o.BatchRows, ordered: j.ordered() && src.RowTime >= 0, idleAfter: j.o.IdleTimeout}
	r.badRow = j.dead.row(n, books, r)
	r.command = st.command
	sh.runs = append(sh.runs, r)
	o := sh.options
	if d := o.Duration("scan.watermark.idle-timeout"); o.Has("scan.watermark.idle-timeout") {
		r.idleAfter = d
	}
	if j.o.Until != nil {
		r.idleAfter = -1 // a split at its limit says nothing about what was to come
	}
	r.maxFuture = o.Duration("scan.watermark.max-future").Milliseconds()
	r.gap = int(o.Int("scan.watermark.emit.on-event.gap"))
	if o.Enum("scan.watermark.emit.strategy") == "on-periodic" {
		r.periodic = j.o.WatermarkInterval
	}
	if err := r.layout(); err != nil {
		return nil, err
	}
	project, err := castMetadata(src, sh.table, j.o.Env)
	if err == nil {
		r.exprs = project
		_, err = expr.CompileAll(project, j.o.Env)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", src.Table.Name, err)
	}
	if src.Watermark != nil {
		if r.watermark, err = expr.Compile(src.Watermark, j.o.Env); err != nil {
			return nil, fmt.Errorf("watermark of table %s: %w", src.Table.Name, err)
		}
	}
	r.reader, err = sh.source.NewReader(j.ctx, st.index)
	if err != nil {
		return nil, fmt.Errorf("open table %s: %w", src.Table.Name, err)
	}
	return r, nil
}

// ordered reports whether some operator's result depends on the order of rows across splits.
func (j *Job) ordered() bool {
	for _, n := range j.p.Nodes {
		for _, e := range n.Inputs {
			if e.Ordered {
				return true
			}
		}
	}
	return false
}

// layout finds which columns of the raw batch come from the value, the key and the metadata.
func (s *sourceRun) layout() error {
	t := s.table
	for _, c := range s.src.Columns {
		s.rawSchema.Fields = append(s.rawSchema.Fields, t.Columns[c])
	}
	s.metaAt = len(s.src.Columns)
	for _, m := range s.src.Metadata {
		md := t.Metadata[m]
		s.rawSchema.Fields = append(s.rawSchema.Fields, types.Field{Name: md.Name, Type: md.Type})
	}
	keys, _, err := keyColumns(t, s.options)
	if err != nil {
		return err
	}
	for _, c := range keys {
		if at := slices.Index(s.src.Columns, c); at >= 0 {
			s.keyCols = append(s.keyCols, at)
		}
	}
	parts := partitionColumns(t)
	for at, c := range s.src.Columns {
		if parts[c] {
			s.constCols = append(s.constCols, at)
		} else if !slices.Contains(keys, c) {
			s.valueCols = append(s.valueCols, at)
		}
	}
	return nil
}

// partitionColumns returns which physical columns are constants of a split.
func partitionColumns(t *connector.Table) map[int]bool {
	out := map[int]bool{}
	if f := connector.Lookup(t.Connector); f != nil && f.Partitioned {
		for _, k := range t.PartitionKeys {
			out[t.Schema().Index(k)] = true
		}
	}
	return out
}

// keyColumns returns the physical columns that come from the record's key, in the order of the
// key's fields, and whether the value holds them too (value.fields-include = ALL, in which case
// they are read from the value).
func keyColumns(t *connector.Table, o option.Values) (keys []int, inValue bool, err error) {
	f := connector.Lookup(t.Connector)
	if f == nil || !f.Keyed {
		return nil, false, nil
	}
	names := o.List("key.fields")
	if names == nil && o.Get("key.format") != "" && len(t.PrimaryKey) > 0 {
		names = t.PrimaryKey
	}
	inValue = o.Enum("value.fields-include") != "EXCEPT_KEY"
	for _, name := range names {
		at := t.Schema().Index(name)
		if at < 0 {
			return nil, false, &option.Error{Key: "key.fields", Msg: fmt.Sprintf("key.fields names '%s', which is not a column of table %s", name, t.Name)}
		}
		if !inValue || f.NullDeletes {
			keys = append(keys, at)
		}
	}
	return keys, inValue, nil
}

// decoders makes the value decoder of a table, and the key decoder where columns come from keys.
func decoders(s *sourceRun) (value, key format.Decoder, err error) {
	t, o := s.table, s.options
	keys, inValue, err := keyColumns(t, o)
	if err != nil {
		return nil, nil, err
	}
	name, prefix := o.Get("format"), ""
	if v := o.Get("value.format"); v != "" {
		name, prefix = v, "value."
	}
	needRec := len(s.keyCols) > 0 || len(s.src.Metadata) > 0 || s.maxFuture > 0
	parts := partitionColumns(t)
	cfg := format.DecoderConfig{NeedRec: needRec, Bad: s.badRecord}
	for i, c := range t.Columns {
		isKey := slices.Contains(keys, i)
		if parts[i] || isKey && !inValue {
			continue
		}
		if !isKey && slices.Contains(s.src.Columns, i) {
			cfg.Columns = append(cfg.Columns, len(cfg.Schema.Fields))
		}
		cfg.Schema.Fields = append(cfg.Schema.Fields, c)
	}
	if value, err = s.decoder(name, prefix, cfg); err != nil {
		return nil, nil, err
	}
	if connector.Lookup(t.Connector).NullDeletes {
		value = &tombstones{dec: value, rec: needRec}
	}
	if len(s.keyCols) == 0 {
		return value, nil, nil
	}
	cfg = format.DecoderConfig{NeedRec: true, Bad: s.badKey}
	for at, i := range keys {
		if slices.Contains(s.src.Columns, i) {
			cfg.Columns = append(cfg.Columns, at)
		}
		c := t.Columns[i]
		c.Name = strings.TrimPrefix(c.Name, o.Get("key.fields-prefix"))
		cfg.Schema.Fields = append(cfg.Schema.Fields, c)
	}
	key, err = s.decoder(o.Get("key.format"), "key.", cfg)
	return value, key, err
}

// decoder makes the decoder of one format.
func (s *sourceRun) decoder(name, prefix string, cfg format.DecoderConfig) (format.Decoder, error) {
	f := format.Lookup(name)
	if f == nil || f.NewDecoder == nil {
		return nil, fmt.Errorf("table %s: format '%s' cannot be read", s.table.Name, name)
	}
	cfg.Options = s.options.Scoped(prefix+name+".", f.Options)
	return f.NewDecoder(cfg)
}
