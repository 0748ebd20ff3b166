package results

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The kinds of records.
const (
	KindBackfill  = "backfill"
	KindReconcile = "reconcile"
	KindPromote   = "promote"
	KindRollback  = "rollback"
	KindPrune     = "prune"
)

// Reconciliation compares a generation with another one, window by window. It is the document of records
// of kind "reconcile".
type Reconciliation struct {
	Generation string `json:"generation"`
	Against    string `json:"against"`
	From       int64  `json:"from"`
	To         int64  `json:"to"`
	At         int64  `json:"at"`
	// Passed says that there is something to compare, and that all windows are equal but those of which it is
	// known why Against has not all of their rows.
	Passed bool `json:"equal"`
	// Windows, Keys are those of Generation; Same is the number of windows that are equal, Differing of
	// those that are not, Explained of the differing ones that are known to be incomplete in Against.
	Windows   int   `json:"windows"`
	Keys      int64 `json:"keys"`
	Same      int   `json:"same"`
	Differing int   `json:"differing"`
	Explained int   `json:"explained"`
	// Sums are the columns added up over all windows, for both.
	Sums        map[string]string `json:"sums,omitempty"`
	AgainstSums map[string]string `json:"against_sums,omitempty"`
	// Differences are the windows that differ, those without an explanation first; at most maxDifferences.
	Differences []Difference `json:"differences,omitempty"`
	// Backfill is the record of the backfill that made the generation: what it read from the source.
	Backfill json.RawMessage `json:"backfill,omitempty"`
}

// Difference is a window that differs; a nil Total is a window that is not there.
type Difference struct {
	Window  int64  `json:"window"`
	Has     *Total `json:"has"`
	Against *Total `json:"against"`
	// Late are the rows that Against missed, which explains the difference; Corrected says that it has
	// corrected the window since the generation was made.
	Late int64 `json:"late,omitempty"`
	// Columns are those whose sums differ.
	Columns []string `json:"columns,omitempty"`
}

const maxDifferences = 1000

// Equal reports whether the generation can be promoted.
func (r *Reconciliation) Equal() bool { return r.Passed }

// Compare compares the totals of two generations, each by window. missed are the windows that the second one
// is known to have missed rows for.
func Compare(got, want []Total, missed []connector.MissedWindow) *Reconciliation {
	r := &Reconciliation{Sums: map[string]string{}, AgainstSums: map[string]string{}}
	byStart := map[int64]*Total{}
	for i := range want {
		byStart[want[i].Window] = &want[i]
		addSums(r.AgainstSums, want[i].Sums)
	}
	differs := func(w int64, has, against *Total) {
		d := Difference{Window: w, Has: has, Against: against, Late: lateFor(missed, w)}
		if has != nil && against != nil {
			for _, c := range slices.Sorted(maps.Keys(has.Sums)) {
				if has.Sums[c] != against.Sums[c] {
					d.Columns = append(d.Columns, c)
				}
			}
		}
		r.Differing++
		if d.Late > 0 && has != nil {
			r.Explained++
		}
		r.Differences = append(r.Differences, d)
	}
	for i := range got {
		t := &got[i]
		r.Windows++
		r.Keys += t.Keys
		addSums(r.Sums, t.Sums)
		w := byStart[t.Window]
		delete(byStart, t.Window)
		if w != nil && w.Keys == t.Keys && w.Hash == t.Hash {
			r.Same++
			continue
		}
		differs(t.Window, t, w)
	}
	for _, w := range slices.Sorted(maps.Keys(byStart)) {
		differs(w, nil, byStart[w])
	}
	r.Passed = r.Windows > 0 && r.Differing == r.Explained
	slices.SortStableFunc(r.Differences, func(a, b Difference) int {
		if x, y := a.explained(), b.explained(); x != y {
			if y {
				return -1
			}
			return 1
		}
		return slices.Compare([]int64{a.Window}, []int64{b.Window})
	})
	r.Differences = r.Differences[:min(len(r.Differences), maxDifferences)]
	return r
}

func (d *Difference) explained() bool { return d.Late > 0 && d.Has != nil }

// lateFor adds up the rows missed of the windows that begin at start, or of runs of windows that hold it,
// which are longer than the shortest one.
func lateFor(missed []connector.MissedWindow, start int64) (n int64) {
	shortest := int64(math.MaxInt64)
	for _, m := range missed {
		shortest = min(shortest, m.End-m.Start)
	}
	for _, m := range missed {
		if m.Start == start || m.End-m.Start > shortest && m.Start <= start && start < m.End {
			n += m.Rows
		}
	}
	return n
}

// addSums adds decimals exactly; "" is NULL.
func addSums(to, sums map[string]string) {
	for c, text := range sums {
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			continue
		}
		scale := 0
		_, digits, _ := strings.Cut(text, ".")
		if !strings.ContainsAny(text, "eE") {
			scale = len(digits)
		} else {
			scale = 6
		}
		if old, ok := new(big.Rat).SetString(to[c]); ok {
			v.Add(v, old)
			_, was, _ := strings.Cut(to[c], ".")
			scale = max(scale, len(was))
		}
		to[c] = v.FloatString(scale)
	}
}

// Reconcile compares the windows that start in [from, to) of a generation with those of another one ("":
// the one that counts for most of them now, which is that of the pointer's base) and keeps the evidence.
func Reconcile(ctx context.Context, s Store, generation, against string, from, to int64) (*Reconciliation, error) {
	p, err := s.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	if against == "" {
		against = p.Base()
	}
	if against == generation {
		return nil, fmt.Errorf("generation %s cannot be compared with itself; name another one", generation)
	}
	got, err := s.Totals(ctx, generation, from, to)
	if err != nil {
		return nil, err
	}
	want, err := s.Totals(ctx, against, from, to)
	if err != nil {
		return nil, err
	}
	missed, err := s.Missed(ctx, against, vec.MinTime)
	if err != nil {
		return nil, err
	}
	r := Compare(got, want, missed)
	r.Generation, r.Against, r.From, r.To, r.At = generation, against, from, to, time.Now().UnixMilli()
	made, err := s.Records(ctx, KindBackfill)
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		if m.Name == generation {
			if json.Valid(m.Document) {
				r.Backfill = m.Document
			}
			break
		}
	}
	return r, note(ctx, s, KindReconcile, generation, r.At, r)
}

func note(ctx context.Context, s Store, kind, name string, at int64, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		panic("BUG: record: " + err.Error())
	}
	return s.Note(ctx, Record{Kind: kind, Name: name, At: at, Document: b})
}

// Text writes r for people.
func (r *Reconciliation) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "generation %s against %s, windows %s\n", r.Generation, r.Against, rangeText(r.From, r.To))
	verdict := "NOT EQUAL"
	switch {
	case r.Passed && r.Differing == 0:
		verdict = "EQUAL"
	case r.Passed:
		verdict = "EQUAL but where rows came too late before"
	case r.Windows == 0:
		verdict = "NOTHING to compare"
	}
	fmt.Fprintf(b, "%s: %d windows, %d keys; %d windows equal, %d differ, %d of these because %s had not got all rows\n",
		verdict, r.Windows, r.Keys, r.Same, r.Differing, r.Explained, r.Against)
	for _, c := range slices.Sorted(maps.Keys(r.Sums)) {
		fmt.Fprintf(b, "  sum(%s) %s, %s\n", c, r.Sums[c], text(r.AgainstSums[c], "none"))
	}
	if len(r.Differences) > 0 {
		fmt.Fprintf(b, "%-23s  %14s  %14s  %s\n", "window", r.Generation, r.Against, "what differs")
	}
	for _, d := range r.Differences {
		fmt.Fprintf(b, "%-23s  %14s  %14s  %s\n", timeText(d.Window), keysText(d.Has), keysText(d.Against), d.why())
	}
	if n := r.Differing - len(r.Differences); n > 0 {
		fmt.Fprintf(b, "and %d more\n", n)
	}
	return b.Flush()
}

func (d *Difference) why() string {
	var parts []string
	switch {
	case d.Has == nil:
		parts = append(parts, "missing here")
	case d.Against == nil:
		parts = append(parts, "missing there")
	case len(d.Columns) > 0:
		for _, c := range d.Columns {
			parts = append(parts, fmt.Sprintf("sum(%s) %s, %s", c, text(d.Has.Sums[c], "NULL"), text(d.Against.Sums[c], "NULL")))
		}
	case d.Has.Keys == d.Against.Keys:
		parts = append(parts, "values or keys that are no numbers")
	}
	if d.Late > 0 {
		parts = append(parts, fmt.Sprintf("%d rows came too late there", d.Late))
	}
	return strings.Join(parts, "; ")
}

func text(s, none string) string {
	if s == "" {
		return none
	}
	return s
}

func keysText(t *Total) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprintf("%d keys", t.Keys)
}

// timeText is a window's time; open ends are words.
func timeText(ms int64) string {
	switch ms {
	case vec.MinTime:
		return "the beginning"
	case vec.MaxTime:
		return "the end"
	}
	return string(types.AppendTimestamp(nil, ms, 0, 3))
}

func rangeText(from, to int64) string {
	if from == vec.MinTime && to == vec.MaxTime {
		return "all"
	}
	return "from " + timeText(from) + " to " + timeText(to)
}
