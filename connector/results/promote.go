package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// Move is a change of the pointer; the document of records of kind "promote" and "rollback".
type Move struct {
	Generation string  `json:"generation,omitempty"`
	Spans      []Span  `json:"spans,omitempty"`
	From       int64   `json:"from"` // of the first span, and To of the last
	To         int64   `json:"to"`
	Forced     bool    `json:"forced,omitempty"`
	Before     Pointer `json:"before"`
	After      Pointer `json:"after"`
}

// Refused says why a generation is not promoted.
type Refused struct{ Generation, Why string }

// Error implements error.
func (r *Refused) Error() string {
	return fmt.Sprintf("generation %s is not promoted: %s", r.Generation, r.Why)
}

// MayPromote says why a generation must not be promoted for the windows that start in [from, to), nil where
// it may: the newest reconciliation of any of these windows must be of all of them, must have passed, and
// must be younger than what the generation was made by, which must have come to its end and be whole for
// them. Records are newest first.
func MayPromote(records []Record, generation string, from, to int64) error {
	return mayPromote(records, generation, Span{from, to})
}

func mayPromote(records []Record, generation string, span Span) error {
	no := func(format string, args ...any) error { return &Refused{generation, fmt.Sprintf(format, args...)} }
	text := rangeText(span.From, span.To)
	made, known := newestMade(records)[generation]
	switch {
	case !known:
	case made.Begun:
		return no("its newest backfill, begun at %s, has not come to its end; let it, or run it again, which goes on where it was", made.Started.Format(time.DateTime))
	case made.Error != "":
		return no("its newest backfill did not come to its end (%s); run it again, or force it", made.Error)
	case made.Moving:
		return no("its table has no windows, and the job goes on writing its own generation, which readers would not see any more; " +
			"run the job in a generation of its own ('tidemark.generation') and promote that, or force it")
	case !span.within(made.Spans()):
		return no("its backfill is whole for windows %s only, and windows %s are to be promoted: those that the job could still correct were left to it; "+
			"promote it without --from and --to, for what it is whole for, or force it", SpansText(made.Spans()), text)
	}
	for _, r := range alive(records, generation) {
		if r.Kind != KindReconcile {
			continue
		}
		var rec Reconciliation
		if err := json.Unmarshal(r.Document, &rec); err != nil {
			return no("the record of its reconciliation is not understood (%v)", err)
		}
		compared := rec.compared()
		switch {
		case !span.meets(compared):
			continue
		case !span.within(compared):
			return no("its newest reconciliation compared windows %s only, and windows %s are to be promoted; reconcile these, or force it", SpansText(compared), text)
		case rec.Conflicts > 0:
			return no("%d of its keys have an equal revision with different content; make it again under another name, or force it", rec.Conflicts)
		case !rec.Passed && rec.Source != nil && rec.Source.Why == "" && !rec.Source.Passed:
			return no("its newest reconciliation found %d windows that differ from what the sources hold, without a known reason; look at them, or force it", rec.Source.Differing-rec.Source.Explained)
		case !rec.Passed:
			return no("its newest reconciliation, with %s, found %d windows that differ without a known reason; look at them, or force it", rec.Against, rec.Differing-rec.Explained)
		case known && r.At < made.At:
			return no("it was written again since it was reconciled; reconcile it again, or force it")
		}
		return nil
	}
	return no("windows %s were never reconciled with another generation; reconcile them, or force it", text)
}

// Reconciled lists, by generation, the windows that it may be promoted for without force.
func Reconciled(records []Record) map[string][]Range {
	bounds := map[string][]int64{}
	slim := slices.Clone(records)
	for i, r := range slim {
		if r.Kind != KindReconcile {
			continue
		}
		var doc Reconciliation
		if json.Unmarshal(r.Document, &doc) != nil {
			continue
		}
		for _, s := range doc.compared() {
			bounds[r.Name] = append(bounds[r.Name], s.From, s.To)
		}
		doc.Differences, doc.Backfill, doc.Source = nil, nil, nil // which may be long, and the record is looked at often
		if text, err := json.Marshal(doc); err == nil {
			slim[i].Document = text
		}
	}
	out := map[string][]Range{}
	for g, at := range bounds {
		slices.Sort(at)
		at = slices.Compact(at)
		for i := 1; i < len(at); i++ {
			if mayPromote(slim, g, Span{at[i-1], at[i]}) != nil {
				continue
			}
			list := out[g]
			if n := len(list); n > 0 && list[n-1].To == at[i-1] {
				list[n-1].To = at[i]
			} else {
				out[g] = append(list, Range{From: at[i-1], To: at[i], Generation: g})
			}
		}
	}
	return out
}

// Promotion is a move of the pointer that may be done.
type Promotion struct {
	s    Store
	kind string
	m    Move
}

// Promote makes a generation count for the windows that start in [from, to), in one atomic step, and keeps a
// record. All windows are those that it is whole for. Unless forced, it has to be reconciled.
func Promote(ctx context.Context, s Store, generation string, from, to int64, force bool) (Pointer, error) {
	p, err := PreparePromotion(ctx, s, generation, from, to, force)
	if err != nil {
		return Pointer{}, err
	}
	return p.Do(ctx)
}

// PreparePromotion looks whether Promote may do what is asked.
func PreparePromotion(ctx context.Context, s Store, generation string, from, to int64, force bool) (*Promotion, error) {
	if from >= to {
		return nil, fmt.Errorf("no window starts between %s and %s", timeText(from), timeText(to))
	}
	before, err := s.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	have, err := s.Generations(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(have, func(g Generation) bool { return g.Name == generation }) {
		return nil, &Refused{generation, "it has no rows, so readers would see nothing"}
	}
	records, err := s.Records(ctx, "")
	if err != nil {
		return nil, err
	}
	spans := []Span{{from, to}}
	if made, known := newestMade(records)[generation]; known && spans[0] == All {
		if spans = made.Spans(); len(spans) == 0 {
			return nil, &Refused{generation, "its backfill found no window that the job could not still correct"}
		}
	}
	after := before
	for _, x := range spans {
		if !force {
			if err := mayPromote(records, generation, x); err != nil {
				return nil, err
			}
		}
		after = after.Promote(x.From, x.To, generation)
	}
	after.Version, after.Prior = before.Version+1, before.Version
	if err := s.Layout().CheckRange(&after); err != nil {
		return nil, err
	}
	return &Promotion{s, KindPromote, Move{Generation: generation, Spans: spans, From: spans[0].From, To: spans[len(spans)-1].To,
		Forced: force, Before: before, After: after}}, nil
}

// Do moves the pointer. What it names may have been dropped since it was looked at: then the pointer is put back.
func (p *Promotion) Do(ctx context.Context) (Pointer, error) {
	now, err := move(ctx, p.s, p.kind, p.m)
	if err != nil || p.kind != KindPromote {
		return now, err
	}
	have, err := p.s.Generations(ctx)
	if err != nil || slices.ContainsFunc(have, func(g Generation) bool { return g.Name == p.m.Generation }) {
		return now, err
	}
	if _, err = Rollback(ctx, p.s); err != nil {
		return now, fmt.Errorf("generation %s was dropped meanwhile, and the pointer that names it is not taken back: %w", p.m.Generation, err)
	}
	return p.m.Before, &Refused{p.m.Generation, "it was dropped meanwhile"}
}

// Back is the pointer that a rollback of the newest of the versions, newest first, sets.
func Back(versions []Pointer) (Pointer, error) {
	if len(versions) == 0 || versions[0].Version == 0 {
		return Pointer{}, errors.New("nothing was promoted, so that there is nothing to go back to")
	}
	now := versions[0]
	back := Pointer{} // as it was before the first promotion
	for _, v := range versions {
		if v.Version == now.Prior {
			back = v
		}
	}
	if now.Prior == 0 && len(now.Ranges) == 0 && now.Base() == Live {
		return Pointer{}, errors.New("all promotions were taken back already")
	}
	return Pointer{Version: now.Version + 1, Ranges: back.Ranges, Default: back.Default, Prior: back.Prior}, nil
}

// Rollback takes the newest promotion back that was not taken back yet, in one atomic step.
func Rollback(ctx context.Context, s Store) (Pointer, error) {
	p, err := PrepareRollback(ctx, s)
	if err != nil {
		return Pointer{}, err
	}
	return p.Do(ctx)
}

// PrepareRollback looks whether Rollback may do what is asked.
func PrepareRollback(ctx context.Context, s Store) (*Promotion, error) {
	versions, err := s.Pointers(ctx)
	if err != nil {
		return nil, err
	}
	next, err := Back(versions)
	if err != nil {
		return nil, err
	}
	have, err := s.Generations(ctx)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{Live: true}
	for _, g := range have {
		there[g.Name] = true
	}
	for _, g := range next.Generations() {
		if !there[g] {
			return nil, fmt.Errorf("generation %s, which the pointer named before, has been dropped", g)
		}
	}
	return &Promotion{s, KindRollback, Move{From: vec.MinTime, To: vec.MaxTime, Before: versions[0], After: next}}, nil
}

// move sets the pointer and keeps a record, which is of no use to the pointer itself.
func move(ctx context.Context, s Store, kind string, m Move) (Pointer, error) {
	m.After.At = time.Now().UnixMilli()
	if err := s.Point(ctx, m.After); err != nil {
		return m.Before, err
	}
	if err := note(ctx, s, kind, m.Generation, m.After.At, m); err != nil {
		return m.After, fmt.Errorf("the pointer was moved, and the record of that was not kept: %w", err)
	}
	return m.After, nil
}

// Wait waits until all windows of a generation ("": that of the job) are written that are over at the
// watermark until (Times.Closed). It looks every so often, and tells of each newer progress.
func Wait(ctx context.Context, s Store, generation string, until int64, every time.Duration, tell func(connector.Progress)) error {
	if generation == "" {
		p, err := s.Pointer(ctx)
		if err != nil {
			return err
		}
		generation = p.Base()
	}
	var seen int64 = vec.MinTime
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		rows, err := s.Progress(ctx, generation, 1)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			p := rows[0]
			if p.At > seen && tell != nil {
				seen = p.At
				tell(p)
			}
			if p.Watermark >= until {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
