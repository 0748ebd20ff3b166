package dashboard

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/vec"
)

// newestOf finds the newest window of a generation.
func (b *books) newestOf(ctx context.Context, generation string) (newestWindow, error) {
	from := vec.MinTime
	if was := b.newest[generation]; was.known {
		from = was.start
	}
	n, err := b.newestIn(ctx, generation, from, vec.MaxTime)
	if b.newest[generation] = n; !n.known {
		delete(b.newest, generation) // rows went, as with another generation: look at all the next time
	}
	return n, err
}

// newestClosed finds about the newest window that may be in the closed report.
func (b *books) newestClosed(ctx context.Context, generation string) (newestWindow, error) {
	for _, span := range slices.Backward(b.closedSpans(generation)) {
		n, err := b.newestIn(ctx, generation, span.From, min(span.To, b.lastClosed()))
		if err != nil || n.known {
			return n, err
		}
	}
	return newestWindow{}, nil
}

// closedSpans are the windows that generations which were reconciled for them count for, or that one generation
// was reconciled for, by start.
func (b *books) closedSpans(generation string) (out []results.Range) {
	if generation != "" {
		out = slices.Clone(b.reconciled[generation])
	} else {
		at := vec.MinTime
		add := func(s results.Range) {
			for _, r := range b.reconciled[s.Generation] {
				if from, to := max(s.From, r.From), min(s.To, r.To); from < to {
					out = append(out, results.Range{From: from, To: to, Generation: s.Generation})
				}
			}
		}
		for _, r := range b.pointer.Ranges {
			add(results.Range{From: at, To: r.From, Generation: b.live})
			add(r)
			at = r.To
		}
		add(results.Range{From: at, To: vec.MaxTime, Generation: b.live})
	}
	slices.SortFunc(out, func(a, b results.Range) int { return cmp.Compare(a.From, b.From) })
	return out
}

// newestIn finds the newest window that starts in [from, to).
func (b *books) newestIn(ctx context.Context, generation string, from, to int64) (newestWindow, error) {
	r := b.src.Table.Results
	rows, err := b.src.Store.Query(ctx, results.Query{Generation: generation, From: from, To: to, Order: []string{"-" + r.WindowStart}, Limit: 1})
	if err != nil || len(rows.Rows) == 0 {
		return newestWindow{}, err
	}
	n := newestWindow{size: 3_600_000}
	if w := r.Windows; w != nil {
		n.size = w.Size
	}
	for i, c := range rows.Columns {
		ms, ok := msOf(rows.Rows[0][i])
		switch {
		case c.Name == r.WindowStart:
			n.start, n.known = ms, ok
		case c.Name == r.WindowEnd && ok:
			n.size = ms
		}
	}
	if r.WindowEnd != "" {
		n.size -= n.start
	}
	return n, nil
}
