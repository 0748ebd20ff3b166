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
	From       int64   `json:"from"`
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
// must be younger than what the generation was made by. Records are newest first.
func MayPromote(records []Record, generation string, from, to int64) error {
	no := func(format string, args ...any) error { return &Refused{generation, fmt.Sprintf(format, args...)} }
	var made int64
	for _, r := range records {
		if r.Name != generation || r.Kind != KindBackfill {
			continue
		}
		made = r.At
		var doc struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(r.Document, &doc) == nil && doc.Error != "" {
			return no("its newest backfill did not come to its end (%s); run it again, or force it", doc.Error)
		}
		break
	}
	for _, r := range records {
		if r.Name != generation || r.Kind != KindReconcile {
			continue
		}
		var rec Reconciliation
		if err := json.Unmarshal(r.Document, &rec); err != nil {
			return no("the record of its reconciliation is not understood (%v)", err)
		}
		switch {
		case rec.To <= from || rec.From >= to:
			continue
		case rec.From > from || rec.To < to:
			return no("its newest reconciliation compared windows %s only, and windows %s are to be promoted; reconcile these, or force it", rangeText(rec.From, rec.To), rangeText(from, to))
		case !rec.Passed:
			return no("its newest reconciliation, with %s, found %d windows that differ without a known reason; look at them, or force it", rec.Against, rec.Differing-rec.Explained)
		case r.At < made:
			return no("it was written again since it was reconciled; reconcile it again, or force it")
		}
		return nil
	}
	return no("windows %s were never reconciled with another generation; reconcile them, or force it", rangeText(from, to))
}

// Promote makes a generation count for the windows that start in [from, to), in one atomic step, and keeps a
// record. Unless forced, it has to be reconciled.
func Promote(ctx context.Context, s Store, generation string, from, to int64, force bool) (Pointer, error) {
	if from >= to {
		return Pointer{}, fmt.Errorf("no window starts between %s and %s", timeText(from), timeText(to))
	}
	before, err := s.Pointer(ctx)
	if err != nil {
		return before, err
	}
	have, err := s.Generations(ctx)
	if err != nil {
		return before, err
	}
	if !slices.ContainsFunc(have, func(g Generation) bool { return g.Name == generation }) {
		return before, &Refused{generation, "it has no rows, so readers would see nothing"}
	}
	if !force {
		records, err := s.Records(ctx, "")
		if err != nil {
			return before, err
		}
		if err := MayPromote(records, generation, from, to); err != nil {
			return before, err
		}
	}
	return move(ctx, s, KindPromote, Move{Generation: generation, From: from, To: to, Forced: force, Before: before, After: before.Promote(from, to, generation)})
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
	versions, err := s.Pointers(ctx)
	if err != nil {
		return Pointer{}, err
	}
	next, err := Back(versions)
	if err != nil {
		return Pointer{}, err
	}
	have, err := s.Generations(ctx)
	if err != nil {
		return Pointer{}, err
	}
	there := map[string]bool{Live: true}
	for _, g := range have {
		there[g.Name] = true
	}
	for _, g := range next.Generations() {
		if !there[g] {
			return Pointer{}, fmt.Errorf("generation %s, which the pointer named before, has been dropped", g)
		}
	}
	return move(ctx, s, KindRollback, Move{From: vec.MinTime, To: vec.MaxTime, Before: versions[0], After: next})
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
// watermark until (Times.Watermark). It looks every so often, and tells of each newer progress.
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
			if p.Watermark >= until-1 {
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
