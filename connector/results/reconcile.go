package results

import (
	"bufio"
	"cmp"
	"context"
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
	// Spans are the windows that were compared; nil: those that start in [From, To), which are the bounds of all.
	Spans []Span `json:"spans,omitempty"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	At    int64  `json:"at"`
	// Conflicts are keys of Generation with an equal revision and different content: there should be none.
	Conflicts int64 `json:"conflicts,omitempty"`
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
	// Source compares with what the sources hold; nil: that was not asked for.
	Source *Recount `json:"source,omitempty"`
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
	// Unlike says why the rows missed do not explain the difference, "" where they do.
	Unlike string `json:"unlike,omitempty"`
	// Columns are those whose sums differ.
	Columns []string `json:"columns,omitempty"`
}

const maxDifferences = 1000

// Equal reports whether the generation can be promoted.
func (r *Reconciliation) Equal() bool { return r.Passed }

// compared are the windows that were.
func (r *Reconciliation) compared() []Span {
	if r.Spans == nil {
		return []Span{{r.From, r.To}}
	}
	return r.Spans
}

// Compare compares the totals of two generations, each by window. missed are the windows that the second one
// is known to have missed rows for; counted is the column with the number of rows that a result is made of, or "".
func Compare(got, want []Total, missed []connector.MissedWindow, counted string) *Reconciliation {
	r := &Reconciliation{Sums: map[string]string{}, AgainstSums: map[string]string{}}
	for i := range want {
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
			d.Unlike = tooMuch(has, against, d.Late, counted)
		}
		if d.explained() {
			r.Explained++
		}
		r.Differences = append(r.Differences, d)
	}
	for i := range got {
		r.Windows++
		r.Keys += got[i].Keys
		addSums(r.Sums, got[i].Sums)
	}
	eachWindow(got, want, func(window int64, t, w *Total) {
		if t != nil && w != nil && w.Keys == t.Keys && w.Hash == t.Hash {
			r.Same++
			return
		}
		differs(window, t, w)
	})
	r.Passed = r.Windows > 0 && r.Differing == r.Explained
	unknownFirst(r.Differences, (*Difference).explained)
	return r
}

// unknownFirst sorts windows that differ: those without an explanation first, then by start.
func unknownFirst(list []Difference, explained func(*Difference) bool) {
	rank := func(d *Difference) int {
		if explained(d) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Window, b.Window))
	})
}

// verdict says in a few words how a comparison came out; known are the differences of which the reason is known.
func verdict(passed bool, compared, differing int, known string) string {
	switch {
	case compared == 0:
		return "NOTHING to compare"
	case passed && differing == 0:
		return "EQUAL"
	case passed:
		return "NO OTHER DIFFERENCE than of rows that came too late" + known
	}
	return "NOT EQUAL"
}

// writeDifferences lists windows that differ, of so many, between what is called has and against.
func writeDifferences(w io.Writer, list []Difference, of int, has, against string, why func(*Difference) string) {
	if len(list) > 0 {
		fmt.Fprintf(w, "%-23s  %14s  %14s  %s\n", "window", has, against, "what differs")
	}
	for i := range list {
		d := &list[i]
		fmt.Fprintf(w, "%-23s  %14s  %14s  %s\n", timeText(d.Window), keysText(d.Has), keysText(d.Against), why(d))
	}
	if n := of - len(list); n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
}

// eachWindow calls f with the windows of got, as they come, and then with those that only want has, by start; nil is a
// window that is not there.
func eachWindow(got, want []Total, f func(window int64, t, w *Total)) {
	byStart := map[int64]*Total{}
	for i := range want {
		byStart[want[i].Window] = &want[i]
	}
	for i := range got {
		t := &got[i]
		w := byStart[t.Window]
		delete(byStart, t.Window)
		f(t.Window, t, w)
	}
	for _, start := range slices.Sorted(maps.Keys(byStart)) {
		f(start, nil, byStart[start])
	}
}

func (d *Difference) explained() bool { return d.Late > 0 && d.Has != nil && d.Unlike == "" }

// tooMuch says why so many rows cannot be the difference of a window: each changes one key, and is one row of the
// count of rows.
func tooMuch(has, against *Total, rows int64, counted string) string {
	if against == nil {
		against = &Total{}
	}
	if d := has.Keys - against.Keys; d > rows || d < -rows {
		return fmt.Sprintf("%d keys more, of %d rows", d, rows)
	}
	a, ok := new(big.Rat).SetString(text(has.Sums[counted], "0"))
	b, ok2 := new(big.Rat).SetString(text(against.Sums[counted], "0"))
	if counted == "" || !ok || !ok2 {
		return ""
	}
	if d := a.Sub(a, b); d.Abs(d).Cmp(new(big.Rat).SetInt64(rows)) > 0 {
		return fmt.Sprintf("%s differs by %s, of %d rows", counted, d.FloatString(0), rows)
	}
	return ""
}

// otherKeys counts the keys of a window that differ.
func otherKeys(ctx context.Context, s Store, generation, against string, window int64) (int64, error) {
	seen := map[string]string{}
	for i, g := range []string{generation, against} {
		rows, err := s.Query(ctx, Query{Generation: g, From: window, To: window + 1})
		if err != nil {
			return 0, err
		}
		l := s.Layout()
		for _, row := range rows.Rows {
			var key, values []any
			for c, f := range rows.Columns {
				switch {
				case l.IsKey(f.Name):
					key = append(key, row[c])
				case slices.ContainsFunc(l.Values, func(v types.Field) bool { return v.Name == f.Name }):
					values = append(values, row[c])
				}
			}
			k, v := fmt.Sprintf("%q", key), fmt.Sprintf("%q", values)
			if was, known := seen[k]; i == 1 && known && was == v {
				delete(seen, k)
				continue
			}
			seen[k] = v
		}
	}
	return int64(len(seen)), nil
}

// narrow takes explanations back where more keys of a window differ than rows were missed, and cuts the list.
func (r *Reconciliation) narrow(ctx context.Context, s Store) error {
	for i := range r.Differences {
		d := &r.Differences[i]
		if !d.explained() || !s.Layout().Windowed {
			continue
		}
		n, err := otherKeys(ctx, s, r.Generation, r.Against, d.Window)
		if err != nil {
			return err
		}
		if n > d.Late {
			d.Unlike = fmt.Sprintf("%d keys differ, of %d rows", n, d.Late)
			r.Explained--
		}
	}
	r.Passed = r.Windows > 0 && r.Differing == r.Explained
	r.Differences = r.Differences[:min(len(r.Differences), maxDifferences)]
	return nil
}

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

// notFinite reads a sum that is no number or infinite.
func notFinite(text string) (float64, bool) {
	v, ok := approx(text)
	return v, ok && (math.IsNaN(v) || math.IsInf(v, 0))
}

// addSums adds decimals exactly; "" is NULL. What is no number, or infinite, makes the sum so.
func addSums(to, sums map[string]string) {
	for c, text := range sums {
		v, ok := new(big.Rat).SetString(text)
		if was, special := notFinite(to[c]); special || !ok {
			x, known := approx(text)
			if special {
				x += was
			}
			if special && text == "" {
				x = was
			}
			if special || known {
				to[c] = strconv.FormatFloat(x, 'g', -1, 64)
			}
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

// Reconcile compares the windows that start in [from, to) of a generation, all being those that it is whole for,
// with those of another one ("": the one that counts for most of them now, which is that of the pointer's base; or
// Source) and keeps the evidence. count counts them again by the sources; nil: it is not compared with these. Where
// another generation is named, sources that cannot be read are no reason not to pass.
func Reconcile(ctx context.Context, s Store, generation, against string, from, to int64, count func([]Span) (*Counted, error)) (*Reconciliation, error) {
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
	have, err := s.Generations(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range []string{generation, against} {
		if !slices.ContainsFunc(have, func(h Generation) bool { return h.Name == g }) && (g == generation || g != Live && g != Source) {
			return nil, fmt.Errorf("there is no generation %s; there are %s", g, generationNames(have))
		}
	}
	records, err := s.Records(ctx, "")
	if err != nil {
		return nil, err
	}
	spans := []Span{{from, to}}
	made, known := newestMade(records)[generation]
	if known && spans[0] == All {
		if spans = made.Spans(); len(spans) == 0 {
			return nil, fmt.Errorf("generation %s is whole for no window: the job could still correct all that its backfill found", generation)
		}
	}
	r := &Reconciliation{Generation: generation, Against: against, Spans: spans, From: spans[0].From, To: spans[len(spans)-1].To}
	if against != Source {
		err = r.withGeneration(ctx, s)
	}
	if err == nil && (count != nil || against == Source) {
		job := JobGeneration("", &p, Since(records))
		err = r.withSource(ctx, s, &made, job, count)
	}
	if err != nil {
		return nil, err
	}
	if r.Conflicts, err = s.Conflicts(ctx, generation); err != nil {
		return nil, err
	}
	r.Passed, r.At = r.Passed && r.Conflicts == 0, time.Now().UnixMilli()
	for _, m := range alive(records, generation) {
		if m.Kind == KindBackfill {
			if json.Valid(m.Document) {
				r.Backfill = m.Document
			}
			break
		}
	}
	return r, note(ctx, s, KindReconcile, generation, r.At, r)
}

// totalsOf are the totals of a generation in spans.
func totalsOf(ctx context.Context, s Store, generation string, spans []Span) ([]Total, error) {
	var out []Total
	for _, x := range spans {
		some, err := s.Totals(ctx, generation, x.From, x.To)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// withGeneration compares with Against.
func (r *Reconciliation) withGeneration(ctx context.Context, s Store) error {
	got, err := totalsOf(ctx, s, r.Generation, r.Spans)
	if err != nil {
		return err
	}
	want, err := totalsOf(ctx, s, r.Against, r.Spans)
	if err != nil {
		return err
	}
	missed, err := s.Missed(ctx, r.Against, vec.MinTime)
	if err != nil {
		return err
	}
	c := Compare(got, want, missed, s.Layout().Of("input_count"))
	c.Generation, c.Against, c.Spans, c.From, c.To = r.Generation, r.Against, r.Spans, r.From, r.To
	*r = *c
	return r.narrow(ctx, s)
}

// withSource compares with the sources, of a generation that no backfill has made (made is empty) only the windows that
// its job can no longer correct. What the job, which writes generation job, has corrected or missed since is in the
// sources too.
func (r *Reconciliation) withSource(ctx context.Context, s Store, made *Made, job string, count func([]Span) (*Counted, error)) error {
	if count == nil {
		return errors.New("BUG: nobody counts what the sources hold")
	}
	spans, l := r.Spans, s.Layout()
	if made.since() == 0 && l.Windowed {
		to, _, err := Settled(ctx, s, l.R, r.Generation)
		if err != nil {
			return err
		}
		spans = Span{vec.MinTime, to}.Clip(spans)
	}
	c := &Counted{Why: "the job may still correct all windows " + SpansText(r.Spans)}
	if len(spans) > 0 {
		var err error
		if c, err = count(spans); err != nil {
			return err
		}
	}
	if c.Why != "" && r.Against == Source {
		return fmt.Errorf("the sources are not compared with: %s", c.Why)
	}
	if l.Start.Name != "" {
		in := *c
		in.Totals = slices.DeleteFunc(slices.Clone(c.Totals), func(t Total) bool { return !(Span{t.Window, t.Window + 1}).within(spans) })
		c = &in
	}
	got, err := totalsOf(ctx, s, r.Generation, spans)
	if err != nil {
		return err
	}
	late, err := r.late(ctx, s, made, job)
	if err != nil {
		return err
	}
	x := c.Recount(l, got, late)
	r.Source = x
	if r.Against != Source {
		r.Passed = r.Passed && (x.Why != "" || x.Passed)
		return nil
	}
	r.Spans, r.From, r.To, r.Passed = spans, spans[0].From, spans[len(spans)-1].To, x.Passed
	r.Windows, r.Keys, r.Same, r.Differing, r.Explained = x.Windows, x.Keys, x.Same, x.Differing, x.Explained
	return nil
}

// late says how many rows of a window the generation is known not to have.
func (r *Reconciliation) late(ctx context.Context, s Store, made *Made, job string) (func(int64) int64, error) {
	missed, err := s.Missed(ctx, r.Generation, vec.MinTime)
	since := made.since()
	if err != nil || since == 0 || job == r.Generation {
		return Late(missed), err
	}
	of, err := s.Missed(ctx, job, since)
	if err != nil {
		return nil, err
	}
	corrected, err := s.Corrected(ctx, job, r.From, r.To, made.written())
	if err != nil {
		return nil, err
	}
	more := map[int64]int64{}
	for _, w := range corrected {
		more[w.Start] += w.Rows
	}
	return func(window int64) int64 { return lateFor(missed, window) + lateFor(of, window) + more[window] }, nil
}

func generationNames(have []Generation) string {
	var names []string
	for _, g := range have {
		names = append(names, g.Name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
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
	fmt.Fprintf(b, "generation %s against %s, windows %s\n", r.Generation, r.Against, SpansText(r.compared()))
	if r.Against != Source {
		r.text(b)
	}
	if r.Conflicts > 0 {
		fmt.Fprintf(b, "NOT EQUAL to itself: %d keys of %s have an equal revision with different content\n", r.Conflicts, r.Generation)
	}
	if r.Source != nil {
		if err := r.Source.Text(b, r.Generation); err != nil {
			return err
		}
	}
	return b.Flush()
}

// text writes how r compares with another generation.
func (r *Reconciliation) text(b *bufio.Writer) {
	fmt.Fprintf(b, "%s: %d windows, %d keys; %d windows equal, %d differ, %d of these because %s had not got all rows\n",
		verdict(r.Windows > 0 && r.Differing == r.Explained, r.Windows, r.Differing, " before"), r.Windows, r.Keys, r.Same, r.Differing, r.Explained, r.Against)
	for _, c := range slices.Sorted(maps.Keys(r.Sums)) {
		fmt.Fprintf(b, "  sum(%s) %s, %s\n", c, r.Sums[c], text(r.AgainstSums[c], "none"))
	}
	writeDifferences(b, r.Differences, r.Differing, r.Generation, r.Against, (*Difference).why)
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
	if d.Unlike != "" {
		parts = append(parts, "which is not all: "+d.Unlike)
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
