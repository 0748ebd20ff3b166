package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// Source is what a generation is compared with when its windows are counted again from what the sources hold.
const Source = "source"

// Counted is what the windows of a table of results are by what its sources hold.
type Counted struct {
	// Totals are those of the windows, without hashes.
	Totals []Total
	// Inputs says, as JSON, which tables were read, and how much of them.
	Inputs json.RawMessage
	// Why says why they were not read; "" where they were.
	Why string
}

// Recount compares the windows of a generation with what they are by the sources. It is part of a Reconciliation.
type Recount struct {
	// Why says why the sources were not read; nothing else is set then.
	Why string `json:"why,omitempty"`
	// Passed says that there is something to compare, and that all windows are equal but those of which
	// the generation is known not to have all rows: they came too late, or the job has them since it was made.
	Passed bool `json:"equal"`
	// Windows and Keys are those of the generation, SourceWindows and SourceKeys those by the sources. Same, Differing
	// and Explained count windows.
	Windows       int   `json:"windows"`
	Keys          int64 `json:"keys"`
	SourceWindows int   `json:"source_windows"`
	SourceKeys    int64 `json:"source_keys"`
	Same          int   `json:"same"`
	Differing     int   `json:"differing"`
	Explained     int   `json:"explained"`
	// Sums are the columns added up over all windows, for both.
	Sums       map[string]string `json:"sums,omitempty"`
	SourceSums map[string]string `json:"source_sums,omitempty"`
	// Differences are the windows that differ, those without an explanation first, at most maxDifferences: Has is
	// the generation, Against the sources, and Late the rows that the generation is known not to have.
	Differences []Difference    `json:"differences,omitempty"`
	Inputs      json.RawMessage `json:"inputs,omitempty"`
}

// Late says how many rows missed a window, by its start.
func Late(missed []connector.MissedWindow) func(window int64) int64 {
	return func(window int64) int64 { return lateFor(missed, window) }
}

// Recount compares the totals of a generation with those of the sources; both are of the same windows. late is
// how many rows of a window the generation is known not to have.
func (c *Counted) Recount(l *Layout, got []Total, late func(window int64) int64) *Recount {
	if c.Why != "" {
		return &Recount{Why: c.Why}
	}
	r := &Recount{Sums: map[string]string{}, SourceSums: map[string]string{}, Inputs: c.Inputs, SourceWindows: len(c.Totals)}
	for i := range c.Totals {
		t := &c.Totals[i]
		r.SourceKeys += t.Keys
		addSums(r.SourceSums, t.Sums)
	}
	differs := func(window int64, has, source *Total, columns []string) {
		d := Difference{Window: window, Has: has, Against: source, Late: late(window), Columns: columns}
		r.Differing++
		if d.Late > 0 && source != nil {
			r.Explained++
		}
		r.Differences = append(r.Differences, d)
	}
	for i := range got {
		t := &got[i]
		r.Windows++
		r.Keys += t.Keys
		addSums(r.Sums, t.Sums)
	}
	eachWindow(got, c.Totals, func(window int64, t, source *Total) {
		var columns []string
		if t != nil && source != nil {
			columns = unequal(l, t, source)
			if len(columns) == 0 && t.Keys == source.Keys {
				r.Same++
				return
			}
		}
		differs(window, t, source, columns)
	})
	r.Passed = r.Windows > 0 && r.Differing == r.Explained
	unknownFirst(r.Differences, func(d *Difference) bool { return d.Late > 0 })
	r.Differences = r.Differences[:min(len(r.Differences), maxDifferences)]
	return r
}

// near is how much sums of DOUBLE and FLOAT may differ, which depend on the order of the rows.
const near = 1e-9

// approx reads a sum of DOUBLE or FLOAT, as stores and we write it: nan, -inf, Infinity, and numbers beyond all that
// DOUBLE holds, which are infinite.
func approx(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// alike reports whether two sums are the same but for the order of their rows.
func alike(v, w float64) bool {
	switch {
	case v == w || math.IsNaN(v) && math.IsNaN(w):
		return true
	case math.IsInf(v, 0) || math.IsInf(w, 0): // all is near to these
		return false
	}
	return math.Abs(v-w) <= near*max(math.Abs(v), math.Abs(w), 1)
}

// unequal lists the columns whose sums differ.
func unequal(l *Layout, a, b *Total) []string {
	var out []string
	for _, f := range l.Summed() {
		x, y := a.Sums[f.Name], b.Sums[f.Name]
		if x == y {
			continue
		}
		if f.Type.IsApprox() {
			if v, ok := approx(x); ok {
				if w, ok := approx(y); ok && alike(v, w) {
					continue
				}
			}
		} else if v, ok := new(big.Rat).SetString(x); ok {
			if w, ok := new(big.Rat).SetString(y); ok && v.Cmp(w) == 0 {
				continue
			}
		}
		out = append(out, f.Name)
	}
	return out
}

// Tally adds rows of results up by window, as Store.Totals does.
type Tally struct {
	l       *Layout
	summed  []types.Field
	windows map[int64]*tally
}

type tally struct {
	keys   int64
	exact  []*big.Rat // by summed column; nil: all NULL so far
	approx []float64
	some   []bool
}

// NewTally makes an empty one.
func NewTally(l *Layout) *Tally {
	return &Tally{l: l, summed: l.Summed(), windows: map[int64]*tally{}}
}

// Add adds a row that is not deleted. value is the text of a column, false for NULL.
func (t *Tally) Add(window int64, value func(column string) (string, bool)) error {
	w := t.windows[window]
	if w == nil {
		n := len(t.summed)
		w = &tally{exact: make([]*big.Rat, n), approx: make([]float64, n), some: make([]bool, n)}
		t.windows[window] = w
	}
	w.keys++
	for i, f := range t.summed {
		text, ok := value(f.Name)
		if !ok {
			continue
		}
		if f.Type.IsApprox() {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			w.approx[i] += v
			w.some[i] = true
			continue
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			return fmt.Errorf("column %s: %q is no number", f.Name, text)
		}
		if w.exact[i] != nil {
			v.Add(v, w.exact[i])
		}
		w.exact[i], w.some[i] = v, true
	}
	return nil
}

// Totals are the windows, by start.
func (t *Tally) Totals() []Total {
	var out []Total
	for _, start := range slices.Sorted(maps.Keys(t.windows)) {
		w := t.windows[start]
		x := Total{Window: start, Keys: w.keys, Sums: map[string]string{}}
		for i, f := range t.summed {
			switch {
			case !w.some[i]:
				x.Sums[f.Name] = ""
			case f.Type.IsApprox():
				x.Sums[f.Name] = strconv.FormatFloat(w.approx[i], 'g', -1, 64)
			default:
				x.Sums[f.Name] = w.exact[i].FloatString(max(0, f.Type.Scale))
			}
		}
		out = append(out, x)
	}
	return out
}

// Text writes r for people; generation is what was compared.
func (r *Recount) Text(w io.Writer, generation string) error {
	var b strings.Builder
	if r.Why != "" {
		fmt.Fprintf(&b, "NOT compared with the sources: %s\n", r.Why)
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "against the sources, counted again: %s: %d windows with %d keys, by the sources %d with %d; %d windows equal, %d differ, %d of these because %s had not got all rows\n",
		verdict(r.Passed, r.Windows+r.SourceWindows, r.Differing, ", or since it was made"), r.Windows, r.Keys, r.SourceWindows, r.SourceKeys, r.Same, r.Differing, r.Explained, generation)
	for _, c := range slices.Sorted(maps.Keys(r.SourceSums)) {
		fmt.Fprintf(&b, "  sum(%s) %s, by the sources %s\n", c, text(r.Sums[c], "none"), r.SourceSums[c])
	}
	writeDifferences(&b, r.Differences, r.Differing, generation, Source, func(d *Difference) string { return d.fromSource(generation) })
	_, err := io.WriteString(w, b.String())
	return err
}

// fromSource says what differs from the sources.
func (d *Difference) fromSource(generation string) string {
	var parts []string
	switch {
	case d.Has == nil:
		parts = append(parts, "missing in "+generation)
	case d.Against == nil:
		parts = append(parts, "the sources have no rows for it")
	default:
		for _, c := range d.Columns {
			parts = append(parts, fmt.Sprintf("sum(%s) %s, by the sources %s", c, text(d.Has.Sums[c], "NULL"), text(d.Against.Sums[c], "NULL")))
		}
	}
	if d.Late > 0 {
		parts = append(parts, fmt.Sprintf("%d rows came too late for it, or since it was made", d.Late))
	}
	return strings.Join(parts, "; ")
}
