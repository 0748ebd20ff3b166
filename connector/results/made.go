package results

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Span is the windows that start in [From, To), in their local time, ms. vec.MinTime and vec.MaxTime are open.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// All is every window.
var All = Span{vec.MinTime, vec.MaxTime}

// Join sorts spans, and puts those together that touch. Empty ones go.
func Join(spans []Span) []Span {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.From >= s.To })
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].To >= s.From {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// within reports whether all of s is in joined spans.
func (s Span) within(spans []Span) bool {
	return slices.ContainsFunc(spans, func(x Span) bool { return x.From <= s.From && s.To <= x.To })
}

// meets reports whether some window is in s and in one of spans.
func (s Span) meets(spans []Span) bool {
	return slices.ContainsFunc(spans, func(x Span) bool { return x.From < s.To && s.From < x.To })
}

// Clip returns the part of joined spans that is in s.
func (s Span) Clip(spans []Span) []Span {
	var out []Span
	for _, x := range spans {
		out = append(out, Span{max(s.From, x.From), min(s.To, x.To)})
	}
	return Join(out)
}

// SpansText writes spans for people.
func SpansText(spans []Span) string {
	const named = 3
	var parts []string
	for _, s := range spans[:min(named, len(spans))] {
		parts = append(parts, rangeText(s.From, s.To))
	}
	if n := len(spans) - named; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more spans", n))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Made is what the records say of the newest backfill of a generation; a part of the document of records of
// kind "backfill". Such a record is kept when the backfill begins, and another one when it ends.
type Made struct {
	Started time.Time `json:"started"`
	// Server is when it began by the clock of the target (Store.Now), by which the target says when rows were written;
	// 0: not known, and Started has to do.
	Server int64 `json:"server_ms,omitempty"`
	// Begun is set in the record of the beginning.
	Begun bool `json:"begun,omitempty"`
	// Error says why it did not come to its end.
	Error string `json:"error,omitempty"`
	// Place is where it keeps its checkpoints, and Run tells starts apart, so that of two that write one
	// generation the second is noticed.
	Place string `json:"place,omitempty"`
	Run   string `json:"run,omitempty"`
	// Windows are those that the generation is whole for; nil: all.
	Windows []Span `json:"windows"`
	// Moving says that the table has no windows, and that the job went on with it meanwhile.
	Moving bool `json:"moving,omitempty"`

	At int64 `json:"-"` // of the record
}

// Spans are the windows that the generation is whole for.
func (m *Made) Spans() []Span {
	if m.Windows == nil {
		return []Span{All}
	}
	return Join(m.Windows)
}

// since is when the backfill began: what the job did since is not in the generation.
func (m *Made) since() int64 {
	if m.Started.IsZero() {
		return m.At
	}
	return m.Started.UnixMilli()
}

// written is since by the clock of the target.
func (m *Made) written() int64 {
	if m.Server != 0 {
		return m.Server
	}
	return m.since()
}

// WrittenSince is Since by the clock of the target, for Store.Corrected.
func WrittenSince(records []Record) map[string]int64 {
	out := map[string]int64{}
	for g, m := range newestMade(records) {
		out[g] = m.written()
	}
	return out
}

// Since says when the newest backfill of each generation began. Records are newest first; those of the kinds
// "backfill" and "prune" are looked at.
func Since(records []Record) map[string]int64 {
	out := map[string]int64{}
	for g, m := range newestMade(records) {
		out[g] = m.since()
	}
	return out
}

// newestMade is the newest backfill of each generation that was not dropped since.
func newestMade(records []Record) map[string]Made {
	out := map[string]Made{}
	gone := map[string]bool{}
	for _, r := range records {
		switch r.Kind {
		case KindPrune:
			for _, g := range dropped(&r) {
				gone[g] = true
			}
		case KindBackfill:
			if _, known := out[r.Name]; known || gone[r.Name] {
				continue
			}
			m := Made{}
			if err := json.Unmarshal(r.Document, &m); err != nil {
				m = Made{Error: "its record is not understood: " + err.Error()}
			}
			m.At = r.At
			out[r.Name] = m
		}
	}
	return out
}

// dropped are the generations that a record of kind "prune" is about to have dropped.
func dropped(r *Record) []string {
	var p PruneReport
	if json.Unmarshal(r.Document, &p) != nil || p.DryRun {
		return nil
	}
	return p.Dropped
}

// alive leaves out the records of a generation that are older than its being dropped.
func alive(records []Record, generation string) []Record {
	var out []Record
	for i := range records {
		r := records[i]
		if r.Kind == KindPrune && slices.Contains(dropped(&r), generation) {
			break
		}
		if r.Name == generation {
			out = append(out, r)
		}
	}
	return out
}

// madeRecords are the records that say by what generations were made.
func madeRecords(ctx context.Context, s Store) ([]Record, error) {
	made, err := s.Records(ctx, KindBackfill)
	if err != nil || len(made) == 0 {
		return nil, err
	}
	gone, err := s.Records(ctx, KindPrune)
	out := slices.Concat(gone, made)
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Compare(b.At, a.At) })
	return out, err
}

// JobGeneration is the generation that the job itself writes: written, that of the script, unless it is "" or
// what a backfill made.
func JobGeneration(written string, p *Pointer, since map[string]int64) string {
	for _, g := range []string{written, p.Base()} {
		if g != "" && since[g] == 0 {
			return g
		}
	}
	return Live // the whole of time was promoted; the job goes on in its own
}

// Settled is the start of the first window that a backfill which begins now leaves to the job, as that may still
// correct it; vec.MaxTime where there is no job, or its input has ended. watermark is that of the job. Of windows
// that follow no grid it is the end that a final one has at most: see Whole. written is the generation that the
// script writes by itself.
func Settled(ctx context.Context, s Store, r *connector.Results, written string) (to, watermark int64, err error) {
	p, err := s.Pointer(ctx)
	if err != nil {
		return 0, 0, err
	}
	records, err := madeRecords(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	rows, err := s.Progress(ctx, JobGeneration(written, &p, Since(records)), 1)
	if err != nil || len(rows) == 0 || rows[0].Watermark == vec.MaxTime {
		return vec.MaxTime, vec.MaxTime, err
	}
	watermark = rows[0].Watermark
	return TimesOf(r).settled(watermark, r.Windows), watermark, nil
}

// SettledAt is the start of the first window of a table that a job at a watermark may still correct; of windows that follow
// no grid the end that a final one has at most.
func SettledAt(r *connector.Results, watermark int64) int64 {
	return TimesOf(r).settled(watermark, r.Windows)
}

// settled is the start of the first window of a grid that is not final at a watermark.
func (t Times) settled(watermark int64, g *connector.WindowGrid) int64 {
	if watermark < vec.MinTime+t.LatenessMs+maxShift {
		return vec.MinTime
	}
	over := t.Local(watermark-t.LatenessMs) + 1
	if g == nil {
		return over
	}
	step := g.Step
	_, end := g.Last(over)
	if g.Cumulative { // the longest of those with one start
		end, step = g.StartOf(over+1), g.Size
	}
	// Where clocks were set back the last windows before that are not over when they seem to be.
	for low := end - maxShift; end > low && !t.Final(end, watermark); {
		end -= step
	}
	return end - g.Size + step
}

// maxShift is more than clocks are ever set back by, ms.
const maxShift = 3 * 60 * 60 * 1000

// Whole is the windows of spans that a generation is whole for which was made while the job was at a watermark:
// of windows that follow no grid those that begin before any that the job may still correct.
func Whole(ctx context.Context, s Store, r *connector.Results, generation string, spans []Span, watermark int64) ([]Span, error) {
	if watermark == vec.MaxTime || r.Windows != nil || r.WindowStart == "" {
		return spans, nil
	}
	if r.WindowEnd == "" {
		return nil, nil // nothing tells which are over
	}
	const most = 100_000
	open, err := s.Query(ctx, Query{Generation: generation, From: vec.MinTime, To: vec.MaxTime, Order: []string{"-" + r.WindowEnd}, Limit: most})
	if err != nil {
		return nil, err
	}
	column := func(name string) int {
		return slices.IndexFunc(open.Columns, func(f types.Field) bool { return f.Name == name })
	}
	start, end := column(r.WindowStart), column(r.WindowEnd)
	t := TimesOf(r)
	to := t.settled(watermark, nil)
	for i, row := range open.Rows {
		e, ok := row[end].(time.Time)
		if ok && t.Final(e.UnixMilli(), watermark) {
			return Span{vec.MinTime, to}.Clip(spans), nil
		}
		if b, ok := row[start].(time.Time); ok {
			to = min(to, b.UnixMilli())
		}
		if i == most-1 {
			return nil, nil
		}
	}
	return Span{vec.MinTime, to}.Clip(spans), nil
}

// Claim notes that a backfill begins, and refuses where another one has begun that generation and not ended it.
func Claim(ctx context.Context, s Store, generation string, doc any, m Made) error {
	b, err := json.Marshal(doc)
	if err != nil {
		panic("BUG: record: " + err.Error())
	}
	other := func(x Made) error {
		return fmt.Errorf("a backfill into generation %s began at %s and has not ended; it keeps its checkpoints in %s: go on with that one, take another name, or, if it is given up, drop what it wrote with 'tidemark prune --drop %s'",
			generation, x.Started.Format(time.DateTime), x.Place, generation)
	}
	open := func() ([]Made, error) {
		records, err := s.Records(ctx, "")
		if err != nil {
			return nil, err
		}
		var out []Made
		ended := map[string]bool{}
		for _, r := range alive(records, generation) {
			var x Made
			switch {
			case r.Kind != KindBackfill || json.Unmarshal(r.Document, &x) != nil:
			case !x.Begun:
				ended[x.Place] = true
			case !ended[x.Place]:
				out = append(out, x)
			}
		}
		return out, nil
	}
	before, err := open()
	if err != nil {
		return err
	}
	for _, x := range before {
		if x.Place != m.Place {
			return other(x)
		}
	}
	if err := s.Note(ctx, Record{Kind: KindBackfill, Name: generation, At: m.Started.UnixMilli(), Document: b}); err != nil {
		return err
	}
	// Of two that begin at a time both have noted it before they look: the first goes on.
	after, err := open()
	if err != nil {
		return err
	}
	first := m
	for _, x := range after {
		if x.Place != m.Place && cmp.Or(x.Started.Compare(first.Started), cmp.Compare(x.Run, first.Run)) < 0 {
			first = x
		}
	}
	if first.Run != m.Run {
		return other(first)
	}
	return nil
}
