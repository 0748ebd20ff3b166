package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	progressStep = 64     // progress rows read at a time
	progressPast = 20_000 // and when the page begins, or has lost touch
	slowEvery    = 15 * time.Second
	slowInMemory = 3 * time.Second
	maxSpans     = 50_000 // windows remembered as missed, and spans in which splits were idle
)

// The states of a cell.
const (
	provisional = 'p' // may still be corrected
	final       = 'f' // nothing will change it
	backfill    = 'b' // rows came for it after its state was gone
)

// books are what the page knows of a source besides its rows. They belong to the server's poll. How far a cell can
// be trusted is results.Judge's to say; what it needs to know is kept up to date here, instead of being read anew
// each time.
type books struct {
	src     *Source
	times   results.Times
	live    string // the generation of windows that no range of the pointer has
	job     string // that of the job that goes on, which is not live where the whole of time was promoted
	pointer results.Pointer
	gens    map[string]*generation
	known   map[string]results.Knowledge // by generation

	// What is looked at now and then only.
	slowAt      time.Time
	slowVersion int64 // of the pointer
	listed      []results.Generation
	conflicts   int64                               // -1: not counted
	begun       map[string]int64                    // when the newest backfill of each generation began
	corrected   map[string][]connector.MissedWindow // by generation
	reconciled  map[string][]results.Range
	missed      map[string][]connector.MissedWindow // by generation: what the job's own missed since that was begun

	needs struct { // what needed has listed, and when
		mark
		known  bool
		status *NeededStatus
	}

	failure error     // of the last look, where it is not tried again until
	again   time.Time // this time

	newest map[string]newestWindow // by generation asked for
	epoch  uint64                  // rises when states may have changed without new rows
}

// newestWindow is the newest window of a table and how long it is.
type newestWindow struct {
	start, size int64
	known       bool
}

// generation is what the progress of one generation adds up to.
type generation struct {
	last  connector.Progress
	known bool
	// past are progress rows, the newest first: the first one that was seen, and of each run of rows with the same
	// idle splits the newest one. Of all that results.Times.ClosedBy asks they say the same as all rows.
	past   []connector.Progress
	missed []missedSpan // by start and end
}

// unknownTime is before all times that are asked for, but behind vec.MinTime.
const unknownTime = vec.MinTime + 1

// missedSpan is a window, or a run of them, that rows came too late for; at is when that was known, unknownTime for what
// was there when the page began.
type missedSpan struct {
	connector.MissedWindow
	at int64
}

func newBooks(s *Source) *books {
	return &books{src: s, times: results.TimesOf(s.Table.Results), gens: map[string]*generation{}, known: map[string]results.Knowledge{}, conflicts: -1,
		newest: map[string]newestWindow{}, slowVersion: -1}
}

// patience is how long a look may fail without others being kept waiting for the next one.
const patience = 2 * time.Second

// note keeps a failure that took long: until it is time to look again, the tables of other targets are not kept
// waiting for it.
func (b *books) note(err error, now, begun time.Time) {
	b.failure, b.again = nil, now
	if took := now.Sub(begun); err != nil && took > patience {
		b.failure, b.again = err, now.Add(took)
	}
}

// trouble is the failure that was noted, until it is time to look again.
func (b *books) trouble(now time.Time) error {
	if b.failure != nil && now.Before(b.again) {
		return b.failure
	}
	return nil
}

// update reads what is new. wanted are generations that tiles ask for by name.
func (b *books) update(ctx context.Context, wanted []string, now time.Time) error {
	p, err := b.src.Store.Pointer(ctx)
	if err != nil {
		return err
	}
	b.pointer = p
	if b.live = p.Base(); p.Default == "" && b.src.Memory {
		b.live = b.src.Table.Results.Generation
	}
	b.job = results.JobGeneration(b.src.Table.Results.Generation, &p, b.begun)
	names := append([]string{b.live, b.job}, wanted...)
	for _, r := range p.Ranges {
		names = append(names, r.Generation)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, g := range names {
		if err := b.follow(ctx, g); err != nil {
			return err
		}
	}
	every := slowEvery
	if b.inMemory() {
		every = slowInMemory
	}
	if now.Sub(b.slowAt) >= every || b.slowVersion != p.Version || len(b.listed) == 0 {
		if err := b.slow(ctx); err != nil {
			return err
		}
		b.slowAt, b.slowVersion = now, p.Version
		b.epoch++
	}
	b.know(names)
	return nil
}

// know gathers what cells are judged by.
func (b *books) know(names []string) {
	clear(b.known)
	for _, name := range names {
		g := b.gens[name]
		k := results.Knowledge{Missed: g.missedAfter(vec.MinTime)}
		if !b.src.flagged() {
			k.Progress = g.past
		}
		if since := b.begun[name]; since > 0 && name != b.job {
			k.Since, k.Corrected = since, b.corrected[name]
			k.LiveMissed = append(b.gens[b.job].missedAfter(since), b.missed[name]...)
			slices.SortFunc(k.LiveMissed, func(a, b connector.MissedWindow) int { return cmp.Compare(a.Start, b.Start) })
		}
		b.known[name] = k
	}
}

// follow reads the progress of a generation that came since the last time.
func (b *books) follow(ctx context.Context, name string) error {
	g := b.gens[name]
	if g == nil {
		g = &generation{}
		b.gens[name] = g
	}
	if !g.known {
		return b.begin(ctx, name, g)
	}
	n := progressStep
	rows, err := b.src.Store.Progress(ctx, name, n)
	if err != nil {
		return err
	}
	if len(rows) == n && !slices.ContainsFunc(rows, g.isLast) {
		if rows, err = b.src.Store.Progress(ctx, name, progressPast); err != nil {
			return err
		}
	}
	if at := slices.IndexFunc(rows, g.isLast); at >= 0 {
		if b.inMemory() {
			rows = rows[:at+1] // it may have gone on since
		} else {
			rows = rows[:at]
		}
	}
	for _, p := range slices.Backward(rows) {
		g.add(&p)
	}
	return nil
}

// begin reads what there is of a generation: of its progress the newest rows, and all windows that rows came too
// late for.
func (b *books) begin(ctx context.Context, name string, g *generation) error {
	rows, err := b.src.Store.Progress(ctx, name, progressPast)
	if err != nil || len(rows) == 0 {
		return err
	}
	missed, err := b.src.Store.Missed(ctx, name, vec.MinTime)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(rows) {
		if !b.inMemory() {
			p.Missed = nil
		}
		g.add(&p)
	}
	for _, m := range missed {
		g.miss(missedSpan{m, unknownTime})
	}
	return nil
}

func (b *books) inMemory() bool {
	_, ok := b.src.Store.(inMemory)
	return ok
}

func (g *generation) isLast(p connector.Progress) bool {
	return g.known && p.Lineage == g.last.Lineage && p.Checkpoint == g.last.Checkpoint
}

// add goes on with the next progress row.
func (g *generation) add(p *connector.Progress) {
	if !g.isLast(*p) {
		for _, m := range p.Missed {
			g.miss(missedSpan{m, p.At})
		}
	}
	if n := len(g.past); n > 1 && g.past[0].SplitsIdle == p.SplitsIdle && slices.Equal(g.past[0].IdleSplits, p.IdleSplits) || n > 0 && g.isLast(*p) {
		g.past[0] = *p
	} else {
		if n == maxSpans {
			g.past = g.past[:maxSpans/2]
		}
		g.past = slices.Insert(g.past, 0, *p)
	}
	g.last, g.known = *p, true
}

func (g *generation) miss(m missedSpan) {
	i, ok := slices.BinarySearchFunc(g.missed, m, func(a, b missedSpan) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	switch {
	case ok:
		g.missed[i].Rows += m.Rows
		g.missed[i].at = max(g.missed[i].at, m.at)
	case len(g.missed) < maxSpans:
		g.missed = slices.Insert(g.missed, i, m)
	}
}

// missedAfter are the windows that rows came too late for after a time.
func (g *generation) missedAfter(at int64) (out []connector.MissedWindow) {
	if g == nil {
		return nil // it is not followed yet
	}
	for _, m := range g.missed {
		if m.at > at {
			out = append(out, m.MissedWindow)
		}
	}
	return out
}

// slow reads what is dear to read and changes seldom.
func (b *books) slow(ctx context.Context) (err error) {
	if b.listed, err = b.src.Store.Generations(ctx); err != nil {
		return err
	}
	if b.conflicts, err = b.src.Store.Conflicts(ctx, ""); err != nil {
		return err
	}
	records, err := b.src.Store.Records(ctx, "")
	if err != nil {
		return err
	}
	b.begun = results.Since(records)
	written := results.WrittenSince(records)
	b.reconciled = results.Reconciled(records)
	b.job = results.JobGeneration(b.src.Table.Results.Generation, &b.pointer, b.begun)
	b.corrected, b.missed = map[string][]connector.MissedWindow{}, map[string][]connector.MissedWindow{}
	for _, g := range b.pointer.Generations() {
		if g == b.job || b.begun[g] == 0 {
			continue
		}
		if b.missed[g], err = b.src.Store.Missed(ctx, b.job, b.begun[g]); err != nil {
			return err
		}
		for _, part := range b.pointer.Covers(g, vec.MinTime, vec.MaxTime) {
			list, err := b.src.Store.Corrected(ctx, b.job, part.From, part.To, written[g])
			if err != nil {
				return err
			}
			b.corrected[g] = append(b.corrected[g], list...)
		}
		slices.SortFunc(b.corrected[g], func(a, b connector.MissedWindow) int { return cmp.Compare(a.Start, b.Start) })
	}
	return nil
}

// window is which window a cell is of; without one, the table has none.
type window struct {
	start, end int64
	known      bool
	endless    bool // where it ends is not known, and end is behind its start
}

// judge says how final a cell of a generation is, and whether its window closed while splits were idle. flagged is
// what the row says of itself.
func (b *books) judge(w window, name string, flagged bool) (state byte, idle bool) {
	j := results.Judge{Times: b.times, Pointer: results.Pointer{Default: name}, Of: b.known}
	if !w.known {
		w.start, w.end = vec.MaxTime, vec.MaxTime // it is never over but with the input
	}
	s := j.Status(w.start, w.end)
	if w.endless && s.State == results.Final && j.Newest().Watermark != vec.MaxTime {
		s.State = results.Provisional
	}
	switch {
	case s.State == results.NeedsBackfill:
		state = backfill
	case s.State == results.Final || flagged:
		state = final
	default:
		state = provisional
	}
	return state, s.Idle && w.known && !w.endless
}

// closed reports whether a cell belongs to the closed report: final, and of a generation that was
// reconciled for its window.
func (b *books) closed(w window, name string, state byte) bool {
	if state != final {
		return false
	}
	return slices.ContainsFunc(b.reconciled[name], func(r results.Range) bool {
		return !w.known && r.From == vec.MinTime && r.To == vec.MaxTime || w.known && r.From <= w.start && w.start < r.To
	})
}

// mark tells one state of a source from another: while it is the same, so are the rows. ok is false where
// the source has no progress to tell by.
func (b *books) mark() (m mark, ok bool) {
	m.version, m.epoch = b.pointer.Version, b.epoch
	for _, g := range b.gens {
		if g.known {
			ok = true
			m.at = max(m.at, g.last.At)
			m.checkpoints += g.last.Checkpoint
			m.rows += g.last.Rows
		}
	}
	if l, is := b.src.Store.(inMemory); is {
		m.live, ok = l.version(), true
	}
	return m, ok
}

type mark struct {
	version, at, checkpoints, rows int64
	epoch, live                    uint64
}
