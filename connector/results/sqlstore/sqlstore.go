package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Store is the part of a results.Store that is the same for all databases. The database's own embeds it.
type Store struct {
	L *results.Layout
	D Dialect
	// Ask runs a statement and returns its rows, all columns being texts. It may be called from several
	// goroutines.
	Ask func(ctx context.Context, sql string) ([][]string, error)
	// Newest returns the pointer's versions as JSON, the newest first, at most n of them; 0 is all.
	Newest func(ctx context.Context, n int) ([]string, error)
	// Find looks at the views that read the history.
	Find func(ctx context.Context) ([]Finding, error)
	// There are the columns that the table has in its target, none where it is not there, and those that
	// tell its revisions apart, nil where not known. Add says how columns are added to it.
	There func(ctx context.Context) (columns, apart []string, err error)
	Add   func(missing []types.Field) string
}

func (s *Store) builder() *builder { return &builder{s.D, s.L} }

// ask runs a statement whose columns are made by Dialect.Text.
func (s *Store) ask(ctx context.Context, sql string) ([][]*string, error) {
	rows, err := s.Ask(ctx, sql)
	if err != nil {
		return nil, err
	}
	out := make([][]*string, len(rows))
	for i, r := range rows {
		out[i] = make([]*string, len(r))
		for k, v := range r {
			if v != "" {
				v = v[1:]
				out[i][k] = &v
			}
		}
	}
	return out, nil
}

// numbers are the values of columns that are integers; NULL is vec.MinTime.
func numbers(row []*string, n int) ([]int64, error) {
	out := make([]int64, n)
	for i := range out {
		out[i] = vec.MinTime
		if row[i] == nil {
			continue
		}
		v, err := strconv.ParseInt(*row[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("an answer that is no number: %w", err)
		}
		out[i] = v
	}
	return out, nil
}

// Pointer implements results.Store.
func (s *Store) Pointer(ctx context.Context) (results.Pointer, error) {
	all, err := s.pointers(ctx, 1)
	if err != nil || len(all) == 0 {
		return results.Pointer{}, err
	}
	return all[0], nil
}

// Pointers implements results.Store.
func (s *Store) Pointers(ctx context.Context) ([]results.Pointer, error) { return s.pointers(ctx, 0) }

func (s *Store) pointers(ctx context.Context, n int) ([]results.Pointer, error) {
	docs, err := s.Newest(ctx, n)
	if err != nil {
		return nil, err
	}
	var out []results.Pointer
	for _, d := range docs {
		var p results.Pointer
		if err := json.Unmarshal([]byte(d), &p); err != nil {
			return nil, fmt.Errorf("the pointer of table %s is not understood: %w", s.L.Table.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// tries bounds how often a query is made again because the pointer was moved meanwhile.
const tries = 20

// Query implements results.Store. The pointer's version is part of the statement, so that no answer is of
// two versions; and it must be the newest still when the answer is there, so that no generation can have
// been dropped meanwhile that it names.
func (s *Store) Query(ctx context.Context, q results.Query) (*results.Rows, error) {
	if q.Generation != "" {
		return s.query(ctx, q, nil)
	}
	p, err := s.Pointer(ctx)
	for range tries {
		if err != nil {
			return nil, err
		}
		rows, failed := s.query(ctx, q, &p)
		version := p.Version
		if p, err = s.Pointer(ctx); err == nil && p.Version == version {
			return rows, failed
		}
	}
	if err == nil {
		err = results.ErrMoved
	}
	return nil, err
}

func (s *Store) query(ctx context.Context, q results.Query, p *results.Pointer) (*results.Rows, error) {
	sql, cols, err := s.builder().query(q, p)
	if err != nil {
		return nil, err
	}
	rows, err := s.ask(ctx, sql)
	if err != nil {
		return nil, err
	}
	out := &results.Rows{Columns: cols, Rows: make([][]any, len(rows))}
	for i, r := range rows {
		if len(r) != len(cols) {
			return nil, fmt.Errorf("an answer has %d columns and not %d", len(r), len(cols))
		}
		out.Rows[i] = make([]any, len(cols))
		for k, v := range r {
			if v == nil {
				continue
			}
			if out.Rows[i][k], err = value(*v, cols[k].Type); err != nil {
				return nil, fmt.Errorf("column %s of table %s: %w", cols[k].Name, s.L.Table.Name, err)
			}
		}
	}
	return out, nil
}

// value turns the text of a value into what results.Rows holds.
func value(text string, t types.Type) (any, error) {
	switch {
	case t.Kind == types.Boolean:
		return text == "true" || text == "t" || text == "1", nil
	case t.IsInteger():
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		return text, nil // a sum that has grown beyond BIGINT
	case t.IsApprox():
		return strconv.ParseFloat(text, 64)
	case t.Kind == types.Decimal:
		return padded(text, t.Scale), nil
	case t.IsTimestamp():
		ms, nanos, ok := types.ParseTimestamp([]byte(text))
		if !ok {
			return nil, fmt.Errorf("%q is no timestamp", text)
		}
		return time.UnixMilli(ms).Add(time.Duration(nanos)).UTC(), nil
	}
	return text, nil
}

// padded gives a decimal all digits of its scale.
func padded(text string, scale int) string {
	whole, digits, _ := strings.Cut(text, ".")
	if scale <= 0 || len(digits) >= scale {
		return text
	}
	return whole + "." + digits + strings.Repeat("0", scale-len(digits))
}

// Totals implements results.Store.
func (s *Store) Totals(ctx context.Context, generation string, from, to int64) ([]results.Total, error) {
	sql, sums := s.builder().totals(generation, from, to)
	rows, err := s.ask(ctx, sql)
	if err != nil {
		return nil, err
	}
	var out []results.Total
	for _, r := range rows {
		n, err := numbers(r, 2)
		if err != nil {
			return nil, err
		}
		hash, ok := new(big.Int).SetString(*r[2], 10)
		if !ok {
			return nil, fmt.Errorf("an answer that is no number: %s", *r[2])
		}
		t := results.Total{Window: n[0], Keys: n[1], Sums: map[string]string{}}
		t.Hash = hash.And(hash, new(big.Int).SetUint64(1<<64-1)).Uint64()
		for k, f := range s.L.Summed() {
			t.Sums[f.Name] = ""
			if v := r[3+k]; v != nil {
				t.Sums[f.Name] = *v
				if sums[k].Kind == types.Decimal {
					t.Sums[f.Name] = padded(*v, sums[k].Scale)
				}
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// Generations implements results.Store.
func (s *Store) Generations(ctx context.Context) ([]results.Generation, error) {
	rows, err := s.ask(ctx, s.builder().generations())
	if err != nil {
		return nil, err
	}
	var out []results.Generation
	for _, r := range rows {
		n, err := numbers(r[1:], 4)
		if err != nil {
			return nil, err
		}
		if s.L.Start.Name == "" {
			n[0], n[1] = vec.MaxTime, vec.MinTime // of no window
		}
		out = append(out, results.Generation{Name: *r[0], FirstWindow: n[0], LastWindow: n[1], Keys: n[2], Revisions: n[3]})
	}
	return out, nil
}

// Corrected implements results.Store.
func (s *Store) Corrected(ctx context.Context, generation string, from, to, after int64) ([]connector.MissedWindow, error) {
	if s.L.Start.Name == "" {
		return nil, nil
	}
	rows, err := s.ask(ctx, s.builder().corrected(generation, from, to, after))
	if err != nil {
		return nil, err
	}
	var out []connector.MissedWindow
	for _, r := range rows {
		n, err := numbers(r, 3)
		if err != nil {
			return nil, err
		}
		w := connector.MissedWindow{Start: n[0], End: n[1], Rows: n[2]}
		if g := s.L.R.Windows; s.L.End.Name == "" && g != nil {
			w.End = w.Start + g.Size
		}
		out = append(out, w)
	}
	return out, nil
}

// Progress implements results.Store.
func (s *Store) Progress(ctx context.Context, generation string, n int) ([]connector.Progress, error) {
	cond := ""
	if generation != "" {
		cond = "generation = " + s.D.String(generation)
	}
	return s.progress(ctx, where(cond)+" ORDER BY at_ms DESC, checkpoint DESC LIMIT "+strconv.Itoa(max(n, 0)))
}

// progress reads progress rows; one may be there twice.
func (s *Store) progress(ctx context.Context, tail string) ([]connector.Progress, error) {
	rows, err := s.ask(ctx, "SELECT "+s.D.Text("document", types.StringType)+" FROM "+s.D.Progress()+tail)
	if err != nil {
		return nil, err
	}
	var out []connector.Progress
	for _, r := range rows {
		var p connector.Progress
		if err := json.Unmarshal([]byte(*r[0]), &p); err != nil {
			return nil, fmt.Errorf("a progress row of table %s is not understood: %w", s.L.Table.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// SupersededProgress selects generation, lineage and checkpoint of the progress rows of checkpoints begun before a time
// that results.Superseded says nothing is lost with. Whatever rows come meanwhile, it stays so.
func (s *Store) SupersededProgress(before int64) string {
	const idle = "CASE WHEN splits_idle > 0 THEN 1 ELSE 0 END"
	return "SELECT generation, lineage, checkpoint FROM (SELECT generation, lineage, checkpoint, at_ms, ended, missed_windows, " + idle + " AS tm_idle, max(" + idle +
		") OVER (PARTITION BY generation ORDER BY at_ms, checkpoint ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING) AS tm_next, " +
		"row_number() OVER (PARTITION BY generation, lineage ORDER BY at_ms DESC, checkpoint DESC) AS tm_nth FROM " + s.D.Progress() +
		") AS tm_rows WHERE at_ms < " + strconv.FormatInt(before, 10) + " AND missed_windows = 0 AND NOT ended AND tm_nth > 1 AND tm_idle = tm_next"
}

// Missed implements results.Store.
func (s *Store) Missed(ctx context.Context, generation string, after int64) ([]connector.MissedWindow, error) {
	rows, err := s.progress(ctx, where("generation = "+s.D.String(generation), "missed_windows > 0", "at_ms > "+strconv.FormatInt(after, 10))+" ORDER BY at_ms ASC, checkpoint ASC")
	if err != nil {
		return nil, err
	}
	return results.MergeMissed(rows), nil
}

// Layout implements results.Store.
func (s *Store) Layout() *results.Layout { return s.L }

// OfGeneration is the WHERE of a view that has the table's columns, "" for all generations.
func (s *Store) OfGeneration(generation string) string {
	if generation == "" {
		return ""
	}
	return where(s.builder().of(generation))
}

// Count returns the number of rows of a table or view.
func (s *Store) Count(ctx context.Context, table string) (int64, error) {
	rows, err := s.ask(ctx, "SELECT "+s.D.Text("count(*)", types.BigIntType)+" FROM "+table)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	n, err := numbers(rows[0], 1)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// RecordsOf reads records, the newest first, from a table with the columns kind, name, document, at_ms and, to
// tell equal times apart, seq.
func (s *Store) RecordsOf(ctx context.Context, table, kind string) ([]results.Record, error) {
	cond := ""
	if kind != "" {
		cond = "kind = " + s.D.String(kind)
	}
	var cols []string
	for _, c := range []string{"kind", "name", "document"} {
		cols = append(cols, s.D.Text(c, types.StringType))
	}
	cols = append(cols, s.D.Text("at_ms", types.BigIntType))
	rows, err := s.ask(ctx, "SELECT "+strings.Join(cols, ", ")+" FROM "+table+where(cond)+" ORDER BY at_ms DESC, seq DESC")
	if err != nil {
		return nil, err
	}
	var out []results.Record
	for _, r := range rows {
		n, err := numbers(r[3:], 1)
		if err != nil {
			return nil, err
		}
		out = append(out, results.Record{Kind: *r[0], Name: *r[1], Document: []byte(*r[2]), At: n[0]})
	}
	return out, nil
}
