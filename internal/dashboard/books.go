package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// liveGeneration is what a job without a name for its generation writes.
const liveGeneration = "live"

const (
	progressStep = 64     // progress rows read at a time
	progressPast = 20_000 // and when the page begins, or has lost touch
	slowEvery    = 15 * time.Second
	maxSpans     = 50_000 // windows remembered as missed, and spans in which splits were idle
)

// The states of a cell.
const (
	provisional = 'p' // may still be corrected
	final       = 'f' // nothing will change it
	backfill    = 'b' // rows came for it after its state was gone
)

// books are what the page knows of a source besides its rows. They belong to the server's poll.
type books struct {
	src     *Source
	zone    *types.Zone // of the windows' local time; nil: that of the watermark
	live    string      // the generation of windows that no range of the pointer has
	pointer results.Pointer
	gens    map[string]*generation

	// What is looked at now and then only.
	slowAt      time.Time
	slowVersion int64 // of the pointer
	listed      []results.Generation
	conflicts   int64 // -1: not counted
	begun       map[string]int64
	corrected   map[string][]connector.MissedWindow // by generation
	reconciled  map[string][]results.Range

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
	last   connector.Progress
	known  bool
	missed []missedSpan
	idle   []idleSpan
}

// missedSpan is a window, or a run of them, that rows came too late for; at is when that was known.
type missedSpan struct{ start, end, rows, at int64 }

// idleSpan are the windows that closed while splits were idle: those whose last moment is in (from, to], as
// watermarks have it.
type idleSpan struct {
	from, to int64
	names    []string
}

func newBooks(s *Source) *books {
	b := &books{src: s, gens: map[string]*generation{}, conflicts: -1, newest: map[string]newestWindow{}, slowVersion: -1}
	if name := s.Table.Results.Zone; name != "" {
		if loc, err := time.LoadLocation(name); err == nil { // the session has checked the name
			b.zone = types.NewZone(loc)
		}
	}
	return b
}

// update reads what is new. wanted are generations that tiles ask for by name.
func (b *books) update(ctx context.Context, wanted []string, now time.Time) error {
	p, err := b.src.Store.Pointer(ctx)
	if err != nil {
		return err
	}
	b.pointer = p
	switch b.live = p.Default; {
	case b.live == "" && b.src.Memory:
		b.live = b.src.Table.Results.Generation
	case b.live == "":
		b.live = liveGeneration
	}
	names := append([]string{b.live}, wanted...)
	for _, r := range p.Ranges {
		names = append(names, r.Generation)
	}
	slices.Sort(names)
	for _, g := range slices.Compact(names) {
		if err := b.follow(ctx, g); err != nil {
			return err
		}
	}
	if now.Sub(b.slowAt) < slowEvery && b.slowVersion == p.Version && len(b.listed) > 0 {
		return nil
	}
	if err := b.slow(ctx); err != nil {
		return err
	}
	b.slowAt, b.slowVersion = now, p.Version
	b.epoch++
	return nil
}

// follow reads the progress of a generation that came since the last time.
func (b *books) follow(ctx context.Context, name string) error {
	g := b.gens[name]
	if g == nil {
		g = &generation{}
		b.gens[name] = g
	}
	n := progressStep
	if !g.known {
		n = progressPast
	}
	rows, err := b.src.Store.Progress(ctx, name, n)
	if err != nil {
		return err
	}
	if g.known && len(rows) == n && !slices.ContainsFunc(rows, g.isLast) {
		if rows, err = b.src.Store.Progress(ctx, name, progressPast); err != nil {
			return err
		}
	}
	if at := slices.IndexFunc(rows, g.isLast); g.known && at >= 0 {
		if !b.src.Memory {
			rows = rows[:at]
		} else {
			rows = rows[:at+1] // it may have gone on since
		}
	}
	for _, p := range slices.Backward(rows) {
		g.add(&p)
	}
	return nil
}

func (g *generation) isLast(p connector.Progress) bool {
	return g.known && p.Lineage == g.last.Lineage && p.Checkpoint == g.last.Checkpoint
}

// add goes on with the next progress row.
func (g *generation) add(p *connector.Progress) {
	if !g.isLast(*p) {
		for _, m := range p.Missed {
			g.miss(missedSpan{m.Start, m.End, m.Rows, p.At})
		}
	}
	if g.known && p.Watermark < g.last.Watermark { // it was started again from further back
		g.idle = slices.DeleteFunc(g.idle, func(s idleSpan) bool { return s.to > p.Watermark })
	}
	// What the first row says is not known of the windows that closed before it.
	if from, names := g.last.Watermark, p.IdleSplits; g.known && p.SplitsIdle > 0 && from < p.Watermark {
		if n := len(g.idle); n > 0 && g.idle[n-1].to == from && slices.Equal(g.idle[n-1].names, names) {
			g.idle[n-1].to = p.Watermark
		} else {
			g.idle = append(g.idle, idleSpan{from, p.Watermark, slices.Clone(names)})
		}
		if len(g.idle) > maxSpans {
			g.idle = slices.Delete(g.idle, 0, maxSpans/2)
		}
	}
	g.last, g.known = *p, true
}

func (g *generation) miss(m missedSpan) {
	i, ok := slices.BinarySearchFunc(g.missed, m, func(a, b missedSpan) int {
		return slices.Compare([]int64{a.start, a.end}, []int64{b.start, b.end})
	})
	switch {
	case ok:
		g.missed[i].rows += m.rows
		g.missed[i].at = max(g.missed[i].at, m.at)
	case len(g.missed) < maxSpans:
		g.missed = slices.Insert(g.missed, i, m)
	}
}

// missing reports whether rows came too late, after a time, for a window that overlaps [start, end).
func (g *generation) missing(start, end, after int64) bool {
	for _, m := range g.missed {
		if m.start >= end {
			return false
		}
		if m.end > start && m.at > after {
			return true
		}
	}
	return false
}

// closedIdle reports whether splits were idle when the watermark passed a point in time.
func (g *generation) closedIdle(at int64) bool {
	i, _ := slices.BinarySearchFunc(g.idle, at, func(s idleSpan, at int64) int { return cmp.Compare(s.to, at) })
	return i < len(g.idle) && g.idle[i].from < at
}

// slow reads what is dear to read and changes seldom.
func (b *books) slow(ctx context.Context) (err error) {
	if b.listed, err = b.src.Store.Generations(ctx); err != nil {
		return err
	}
	if b.conflicts, err = b.src.Store.Conflicts(ctx); err != nil {
		return err
	}
	records, err := b.src.Store.Records(ctx, "")
	if err != nil {
		return err
	}
	b.read(records)
	b.corrected = map[string][]connector.MissedWindow{}
	for _, r := range b.pointer.Ranges {
		if r.Generation == b.live {
			continue
		}
		list, err := b.src.Store.Corrected(ctx, b.live, r.From, r.To, b.since(r.Generation))
		if err != nil {
			return err
		}
		b.corrected[r.Generation] = append(b.corrected[r.Generation], list...)
	}
	return nil
}

// read takes from the records when backfills began and what was reconciled.
func (b *books) read(records []results.Record) {
	b.begun, b.reconciled = map[string]int64{}, map[string][]results.Range{}
	settled := map[string]bool{} // generations whose newest reconciliation was seen; the newest counts
	for _, r := range records {
		switch r.Kind {
		case "backfill":
			var doc struct {
				Started time.Time `json:"started"`
			}
			at := r.At
			if json.Unmarshal(r.Document, &doc) == nil && !doc.Started.IsZero() {
				at = doc.Started.UnixMilli()
			}
			if was, ok := b.begun[r.Name]; !ok || at < was {
				b.begun[r.Name] = at
			}
		case "reconcile":
			span, equal := reconciliation(&r)
			same := slices.ContainsFunc(b.reconciled[r.Name], func(x results.Range) bool { return x == span })
			if equal && !same && !settled[r.Name] {
				b.reconciled[r.Name] = append(b.reconciled[r.Name], span)
			}
			if !equal {
				settled[r.Name] = true // what was found equal before may not be any more
			}
		}
	}
}

// reconciliation is what a record of kind reconcile says: the windows compared and whether they were equal.
func reconciliation(r *results.Record) (results.Range, bool) {
	doc := struct {
		Equal bool   `json:"equal"`
		From  *int64 `json:"from"`
		To    *int64 `json:"to"`
	}{}
	span := results.Range{From: vec.MinTime, To: vec.MaxTime, Generation: r.Name}
	if json.Unmarshal(r.Document, &doc) != nil {
		return span, false
	}
	if doc.From != nil {
		span.From = *doc.From
	}
	if doc.To != nil {
		span.To = *doc.To
	}
	return span, doc.Equal
}

// since is from when on the rows of the live job are news to a generation.
func (b *books) since(generation string) int64 {
	if at, ok := b.begun[generation]; ok {
		return at
	}
	return b.pointer.At
}

// of returns the generation that counts for the window that starts at start.
func (b *books) of(start int64) string {
	if g := b.pointer.Of(start); g != "" {
		return g
	}
	return b.live
}

// window is which window a cell is of; without one, the table has none.
type window struct {
	start, end int64
	known      bool
}

// state says how final a cell of a generation is; flagged is what the row says of itself.
func (b *books) state(w window, name string, flagged bool) byte {
	g := b.gens[name]
	if w.known && b.needed(w, name, g) {
		return backfill
	}
	if flagged || g != nil && g.known && g.last.Watermark >= b.closes(w) {
		return final
	}
	return provisional
}

// closes is the watermark from which on nothing corrects a window.
func (b *books) closes(w window) int64 {
	late := b.src.Table.Results.LatenessMs
	if !w.known || w.end > math.MaxInt64-late {
		return vec.MaxTime
	}
	return b.instant(w.end - 1 + late)
}

// needed reports whether a window needs a backfill.
func (b *books) needed(w window, name string, g *generation) bool {
	if g != nil && g.missing(w.start, w.end, math.MinInt64) {
		return true
	}
	if name == b.live {
		return false
	}
	if l := b.gens[b.live]; l != nil && l.missing(w.start, w.end, b.since(name)) {
		return true
	}
	for _, m := range b.corrected[name] {
		if m.Start < w.end && m.End > w.start {
			return true
		}
	}
	return false
}

// idle reports whether a window closed while splits were idle.
func (b *books) idle(w window, name string) bool {
	g := b.gens[name]
	if g == nil || !w.known {
		return false
	}
	return g.closedIdle(b.instant(w.end - 1))
}

// instant is the watermark that goes with a point in the windows' local time.
func (b *books) instant(local int64) int64 {
	if b.zone == nil {
		return local
	}
	return b.zone.ToInstant(local)
}

// local is a watermark in the windows' local time.
func (b *books) local(watermark int64) int64 {
	if b.zone == nil || watermark == vec.MinTime || watermark == vec.MaxTime {
		return watermark
	}
	return b.zone.ToLocal(watermark)
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
	if l, is := b.src.Store.(*Live); is {
		m.live, ok = l.version(), true
	}
	return m, ok
}

type mark struct {
	version, at, checkpoints, rows int64
	epoch, live                    uint64
}
