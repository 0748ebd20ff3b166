package results

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// PruneOptions say what goes.
type PruneOptions struct {
	// Keep are generations that stay in any case.
	Keep []string
	// Grace is for how long a generation stays after it was replaced or made: somebody may look at it, go back
	// to it, or be about to promote it.
	Grace time.Duration
	// Before bounds superseded revisions that go: those of windows that start before it. vec.MinTime: none. Tables
	// without windows keep theirs, but with vec.MaxTime.
	Before int64
	// ProgressBefore bounds superseded progress rows that go: those of checkpoints begun before it, ms. 0: none.
	ProgressBefore int64
	// Drop are generations that go in any case, unless readers see them.
	Drop []string
	// DryRun only tells.
	DryRun bool
}

// PruneReport is what went; the document of records of kind "prune".
type PruneReport struct {
	Dropped []string `json:"dropped,omitempty"`
	// Kept says, by generation, why it stays.
	Kept map[string]string `json:"kept,omitempty"`
	// Revisions are the superseded revisions that went, by generation; -1: not counted.
	Revisions map[string]int64 `json:"revisions,omitempty"`
	// Progress are the progress rows that went.
	Progress int64 `json:"progress,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

// ToDrop says which of the generations that are there go, and why the others stay. Versions of the pointer
// and records are newest first.
func ToDrop(have []Generation, versions []Pointer, records []Record, o PruneOptions, now int64) (drop []string, kept map[string]string) {
	kept = map[string]string{}
	var p Pointer
	if len(versions) > 0 {
		p = versions[0]
	}
	for _, g := range have {
		switch why := keeps(g.Name, &p, versions, records, o, now); why {
		case "":
			drop = append(drop, g.Name)
		default:
			kept[g.Name] = why
		}
	}
	slices.Sort(drop)
	return drop, kept
}

// keeps says why a generation stays; "": it goes.
func keeps(g string, p *Pointer, versions []Pointer, records []Record, o PruneOptions, now int64) string {
	switch {
	case slices.Contains(p.Generations(), g):
		return "it is shown"
	case slices.Contains(o.Drop, g):
		return ""
	case g == Live:
		return "the job writes it"
	case slices.Contains(o.Keep, g):
		return "it is to be kept"
	}
	grace := o.Grace.Milliseconds()
	// It was replaced by the version behind the newest one that names it.
	shown := slices.IndexFunc(versions, func(v Pointer) bool { return slices.Contains(v.Generations(), g) })
	if shown > 0 && now-versions[shown-1].At < grace {
		return "it was shown until " + timeText(versions[shown-1].At)
	}
	// It may have been made again since.
	made, known := newestMade(records)[g]
	switch {
	case known && made.Begun:
		return "the backfill that began at " + timeText(made.since()) + " has not ended, and may be writing it; drop it by name"
	case known && now-made.At < grace:
		return "it was made at " + timeText(made.At)
	case known || shown >= 0:
		return ""
	}
	return "nobody has promoted it, and no backfill made it: a job may write it; drop it by name"
}

// Superseded says of progress rows, in any order, which of them tell nothing that newer ones do not, by position. What
// stays of them: the newest row of each lineage of a generation, by which a start finds out what is there; the end of
// an input; rows that name windows which rows came too late for; and the last row of each run of rows that agree
// whether a split was idle, so that of each window it is known still.
func Superseded(rows []connector.Progress) []bool {
	out := make([]bool, len(rows))
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { // newest first
		return cmp.Or(cmp.Compare(rows[a].Generation, rows[b].Generation), cmp.Compare(rows[b].At, rows[a].At), cmp.Compare(rows[b].Checkpoint, rows[a].Checkpoint))
	})
	seen := map[[2]string]bool{}
	for k, i := range order {
		p := &rows[i]
		of := [2]string{p.Generation, p.Lineage}
		out[i] = seen[of] && p.Watermark != vec.MaxTime && len(p.Missed) == 0 && rows[order[k-1]].SplitsIdle > 0 == (p.SplitsIdle > 0)
		seen[of] = true
	}
	return out
}

// PruneAll drops old generations whole, superseded revisions of those that stay, and superseded progress rows.
func PruneAll(ctx context.Context, s Store, o PruneOptions) (*PruneReport, error) {
	have, err := s.Generations(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := s.Pointers(ctx)
	if err != nil {
		return nil, err
	}
	records, err := s.Records(ctx, "")
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	r := &PruneReport{DryRun: o.DryRun}
	r.Dropped, r.Kept = ToDrop(have, versions, records, o, now)
	for _, g := range o.Drop {
		if why := r.Kept[g]; why != "" {
			return nil, fmt.Errorf("generation %s cannot be dropped: %s", g, why)
		}
		if !slices.Contains(r.Dropped, g) {
			// It has no rows: what was said of it ends all the same.
			r.Dropped = append(r.Dropped, g)
		}
	}
	if o.DryRun {
		return r, nil
	}
	if len(r.Dropped) > 0 {
		// Before, so that no record of what the generation was speaks for what is left of it after a crash.
		if err := note(ctx, s, KindPrune, "", now, r); err != nil {
			return nil, err
		}
	}
	for _, g := range r.Dropped {
		if err := s.Drop(ctx, g); err != nil {
			return r, fmt.Errorf("drop generation %s: %w", g, err)
		}
	}
	if o.ProgressBefore > 0 {
		if r.Progress, err = s.PruneProgress(ctx, o.ProgressBefore); err != nil {
			return r, fmt.Errorf("prune the progress: %w", err)
		}
	}
	if o.Before == vec.MinTime {
		if r.Progress == 0 {
			return r, nil
		}
		return r, note(ctx, s, KindPrune, "", time.Now().UnixMilli(), &PruneReport{Kept: r.Kept, Progress: r.Progress})
	}
	r.Revisions = map[string]int64{}
	for _, g := range have {
		if r.Kept[g.Name] == "" {
			continue
		}
		if g.FirstWindow > g.LastWindow && o.Before != vec.MaxTime {
			r.Kept[g.Name] += "; its revisions are of no windows, and stay"
			continue
		}
		if r.Revisions[g.Name], err = s.Prune(ctx, g.Name, o.Before); err != nil {
			return r, fmt.Errorf("prune generation %s: %w", g.Name, err)
		}
	}
	return r, note(ctx, s, KindPrune, "", time.Now().UnixMilli(), &PruneReport{Kept: r.Kept, Revisions: r.Revisions, Progress: r.Progress})
}

// Text writes r for people.
func (r *PruneReport) Text(w io.Writer) error {
	verb := "dropped"
	if r.DryRun {
		verb = "would be dropped"
	}
	for _, g := range r.Dropped {
		if _, err := fmt.Fprintf(w, "generation %s: %s\n", g, verb); err != nil {
			return err
		}
	}
	for _, g := range slices.Sorted(maps.Keys(r.Kept)) {
		line := fmt.Sprintf("generation %s: stays, %s", g, r.Kept[g])
		switch n, ok := r.Revisions[g]; {
		case ok && n < 0:
			line += "; superseded revisions went"
		case ok:
			line += fmt.Sprintf("; %d superseded revisions went", n)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if r.Progress > 0 {
		_, err := fmt.Fprintf(w, "%d superseded progress rows went\n", r.Progress)
		return err
	}
	return nil
}
