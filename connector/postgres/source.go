package postgres

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/vec"
)

// Reading a table: one SELECT a split, whose rows are taken off the connection as they are asked for. A
// position counts rows of the split, so it is a place only where the SELECT has an order: that of
// 'scan.order-by' or of the column the table is cut by, with the columns read among equals, else that of a
// unique key. Without an order the table is read from its beginning again.

var sourceOptions = []option.Spec{
	{Name: "scan.order-by", Doc: "In which order rows are read (what follows ORDER BY, in SQL), so that a restart goes on where it was; by default a primary or unique key of NOT NULL columns. Empty: in no order, and from the beginning again after a restart.", Example: "ts, id"},
	{Name: "scan.filter", Doc: "Which rows are read: a condition in PostgreSQL's SQL.", Example: "ts >= '2013-01-01'"},
	{Name: "scan.partition.column", Doc: "A column of integers by which the table is read in parts; with the three options that follow."},
	{Name: "scan.partition.num", Kind: option.Int, Doc: "The number of parts."},
	{Name: "scan.partition.lower-bound", Kind: option.Int, Doc: "Where the first part begins: it has what is smaller, and NULLs, too."},
	{Name: "scan.partition.upper-bound", Kind: option.Int, Doc: "Where the last part ends: it has what is larger, too."},
}

// mostParts bounds 'scan.partition.num'.
const mostParts = 10_000

var partOptions = []string{"scan.partition.column", "scan.partition.num", "scan.partition.lower-bound", "scan.partition.upper-bound"}

// checkSource refuses options that contradict each other.
func checkSource(o option.Values) error {
	given := 0
	for _, k := range partOptions {
		if o.Has(k) {
			given++
		}
	}
	switch {
	case given == 0:
		return nil
	case given < len(partOptions):
		return &option.Error{Key: partOptions[0], Msg: "some of the options that cut the table are missing", Hint: "give all of '" + strings.Join(partOptions, "', '") + "'"}
	case o.Int(partOptions[1]) < 1 || o.Int(partOptions[1]) > mostParts:
		return &option.Error{Key: partOptions[1], Msg: fmt.Sprintf("a table cannot be read in %d parts", o.Int(partOptions[1])), Hint: fmt.Sprintf("write a number from 1 to %d", mostParts)}
	case o.Int(partOptions[2]) > o.Int(partOptions[3]):
		return &option.Error{Key: partOptions[2], Msg: "the first part begins behind the end of the last", Hint: "exchange the bounds"}
	}
	return nil
}

// source is a table being read.
type source struct {
	cfg    connector.SourceConfig
	config *pgconn.Config

	mu   sync.Mutex
	plan *selection // nil: not looked at yet; guarded by mu
}

// selection is the SELECT of the columns that are wanted.
type selection struct {
	table string
	gets  []get
	forms []int16
	text  string // SELECT ... FROM ...
	order string // what follows ORDER BY, ""
	parts []string
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	config, err := configOf(c.Options)
	if err != nil {
		return nil, err
	}
	return &source{cfg: c, config: config}, nil
}

// Bounded implements connector.Source.
func (s *source) Bounded() bool { return true }

// lookWithin is the time that EXPLAIN has for a look.
const lookWithin = 2 * time.Second

// Guarantee implements connector.Source. It depends on the table, so that is looked at; a database that is
// away is said to be.
func (s *source) Guarantee() string {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	se := &session{config: s.config}
	defer se.drop()
	sel, err := s.look(ctx, se)
	switch {
	case err != nil:
		return "rows are read by position where the table has an order, which could not be looked up now (" + err.Error() + "); else a restart reads them again: at least once"
	case sel.order == "":
		return "rows come in no order, and a restart reads all of them again: at least once; 'scan.order-by' gives them one"
	}
	return "rows are read in the order of " + sel.order + " and again from a position: every row is there exactly once, as long as none appears, changes or vanishes before the place that was reached"
}

// look describes the table and says how to read it.
func (s *source) look(ctx context.Context, se *session) (*selection, error) {
	if err := se.open(ctx); err != nil {
		return nil, err
	}
	t, err := se.look(ctx, s.cfg.Options.Get("table-name"))
	if err != nil {
		return nil, err
	}
	return s.fit(t)
}

// fit checks the table against the definition here.
func (s *source) fit(t *table) (*selection, error) {
	out := &selection{table: t.name}
	var exprs, ties, errs []string
	for _, i := range s.cfg.Columns {
		f := s.cfg.Table.Columns[i]
		c := t.find(f.Name)
		if c == nil {
			errs = append(errs, fmt.Sprintf("column '%s' does not exist; there are %s", f.Name, t.names()))
			continue
		}
		a, err := readable(f.Type, c)
		if err != nil {
			errs = append(errs, err.Error())
			continue
		}
		exprs, ties = append(exprs, a.expr), append(ties, a.order)
		out.gets, out.forms = append(out.gets, a.get), append(out.forms, a.form)
	}
	by := ""
	if name := s.cfg.Options.Get(partOptions[0]); name != "" {
		if c := t.find(name); c == nil || !slices.Contains([]string{"int2", "int4", "int8", "numeric"}, c.typ) {
			errs = append(errs, fmt.Sprintf("'scan.partition.column' = '%s' is no column of integers; there are %s", name, t.names()))
		} else {
			by = quote(c.name)
		}
	}
	if len(errs) > 0 {
		return nil, connector.Fatalf("table %s: %s", t.name, strings.Join(errs, "; "))
	}
	switch o := s.cfg.Options; {
	case o.Has("scan.order-by"):
		out.order = strings.TrimSpace(o.Get("scan.order-by"))
	case by != "":
		out.order = by
	default:
		out.order = t.uniqueOrder()
		out.text = "SELECT " + strings.Join(exprs, ", ") + " FROM " + t.name
		return out, nil
	}
	if by != "" && out.order == "" {
		out.order = by // parts are closed and opened again while others are read
	}
	if out.order != "" {
		out.order = strings.Join(append([]string{out.order}, ties...), ", ")
	}
	if by != "" {
		o := s.cfg.Options
		out.parts = cutRange(by, o.Int(partOptions[1]), o.Int(partOptions[2]), o.Int(partOptions[3]))
	}
	out.text = "SELECT " + strings.Join(exprs, ", ") + " FROM " + t.name
	return out, nil
}

// uniqueOrder is the list of the columns of a unique index that have no NULLs, "" if there is none.
func (t *table) uniqueOrder() string {
next:
	for _, u := range t.unique {
		var names []string
		for _, name := range u {
			if c := t.column(name); c == nil || !c.notNull {
				continue next
			}
			names = append(names, quote(name))
		}
		return strings.Join(names, ", ")
	}
	return ""
}

// cutRange cuts lower to upper into n ranges, of which the first and the last have no end. The conditions
// do not overlap, and every row meets one of them.
func cutRange(by string, n, lower, upper int64) []string {
	size := new(big.Int).Sub(big.NewInt(upper), big.NewInt(lower))
	size.Add(size, big.NewInt(1))
	var ends []string // where parts begin, but the first
	for i := int64(1); i < n; i++ {
		x := new(big.Int).Mul(size, big.NewInt(i))
		text := x.Div(x, big.NewInt(n)).Add(x, big.NewInt(lower)).String()
		if len(ends) == 0 || ends[len(ends)-1] != text {
			ends = append(ends, text)
		}
	}
	if len(ends) == 0 {
		return []string{"true"}
	}
	out := []string{"(" + by + " < " + ends[0] + " OR " + by + " IS NULL)"}
	for i, from := range ends {
		part := by + " >= " + from
		if i+1 < len(ends) {
			part += " AND " + by + " < " + ends[i+1]
		}
		out = append(out, part)
	}
	return out
}

// described looks at the table, once.
func (s *source) described(ctx context.Context) (*selection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan != nil {
		return s.plan, nil
	}
	se := &session{config: s.config}
	defer se.drop()
	p := s.patience()
	p.Within = min(p.Within, connector.OpenWithin)
	for {
		sel, err := s.look(ctx, se)
		if err == nil {
			s.plan = sel
			return sel, nil
		}
		se.drop()
		if err := p.again(ctx, err); err != nil {
			return nil, fmt.Errorf("open table '%s' of PostgreSQL: %w", s.cfg.Options.Get("table-name"), err)
		}
	}
}

func (s *source) patience() *patience {
	return &patience{connector.Patience{Tries: int(s.cfg.Options.Int("sink.max-retries")), Within: s.cfg.Options.Duration("connection.max-retry-timeout")}}
}

// NewEnumerator implements connector.Source.
func (s *source) NewEnumerator(ctx context.Context) (connector.Enumerator, error) {
	sel, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	name := strings.ReplaceAll(sel.table, `"`, "")
	if len(sel.parts) < 2 {
		return connector.FixedSplits(connector.Split{ID: name}), nil
	}
	var out []connector.Split
	for i, p := range sel.parts {
		out = append(out, connector.Split{ID: fmt.Sprintf("%s/%04d", name, i), Data: []byte(p)})
	}
	return connector.FixedSplits(out...), nil
}

// NewReader implements connector.Source.
func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(s.open), nil
}

func (s *source) open(ctx context.Context, sp connector.Split) (connector.SplitReader, error) {
	sel, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	r := &splitReader{s: s, sel: sel, session: session{config: s.config}, patience: s.patience(), part: string(sp.Data), Selected: connector.NewSelected(sp, &s.cfg, "PostgreSQL", sel.order != "")}
	if at := strings.LastIndexByte(sp.ID, '/'); at >= 0 && r.part == "" { // as a checkpoint has it
		n, err := strconv.Atoi(sp.ID[at+1:])
		if err != nil || n >= len(sel.parts) {
			return nil, connector.Fatalf("the part %s of the table is not there: the table was cut otherwise when the checkpoint was taken; set the options 'scan.partition.*' as they were, or start with --fresh", sp.ID)
		}
		r.part = sel.parts[n]
	}
	return r, nil
}

// splitReader reads one split.
type splitReader struct {
	s    *source
	sel  *selection
	part string // the condition of its rows, "" for all
	session
	connector.Selected
	patience *patience

	result *pgconn.ResultReader
	cancel context.CancelFunc // of result
	failed error              // of the row that follows those given out
	closed bool
}

// ReadBatch implements connector.BatchReader.
func (r *splitReader) ReadBatch(ctx context.Context, b *vec.Batch, maxRows int) error {
	switch {
	case r.closed:
		return errClosed
	case r.failed != nil:
		return r.failed
	}
	for !r.Ended {
		n, err := r.try(ctx, b, maxRows)
		if n > 0 { // an error comes again
			r.Took(b, n)
			r.patience.Worked()
			return nil
		}
		r.hangUp()
		if err == nil {
			r.Ended = true
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if r.failed != nil {
			return r.failed
		}
		if r.At > 0 && r.sel.order == "" {
			return fmt.Errorf("read table '%s' of PostgreSQL after %d rows: %w; without an order ('scan.order-by') the rows that were read cannot be told from the others", r.s.cfg.Options.Get("table-name"), r.At, explain(err))
		}
		if err := r.patience.again(ctx, err); err != nil {
			return fmt.Errorf("read table '%s' of PostgreSQL after %d rows: %w", r.s.cfg.Options.Get("table-name"), r.At, err)
		}
	}
	return io.EOF
}

// try reads up to most rows. None without an error is the end.
func (r *splitReader) try(ctx context.Context, b *vec.Batch, most int) (n int, err error) {
	for _, v := range b.Cols {
		v.Reset(most)
	}
	defer func() {
		for _, v := range b.Cols {
			v.Resize(n)
		}
	}()
	if r.result == nil {
		if err := r.session.open(ctx); err != nil {
			return 0, err
		}
		var long context.Context
		long, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		r.result = r.conn.ExecParams(long, connector.SelectFrom(r.sel.text, &r.s.cfg, r.part, r.sel.order, r.At), nil, nil, nil, r.sel.forms)
	}
	defer context.AfterFunc(ctx, r.cancel)()
	for n < most {
		if !r.result.NextRow() {
			_, err := r.result.Close()
			return n, err
		}
		if err := r.row(b, n, r.result.Values()); err != nil {
			r.failed = connector.Fatalf("table '%s' of PostgreSQL, row %d: %w; declare the column here with a type for all of its values, or leave such rows out ('scan.filter')",
				r.s.cfg.Options.Get("table-name"), r.At+int64(n), err)
			return n, r.failed
		}
		n++
	}
	return n, nil
}

// row stores a row of the answer.
func (r *splitReader) row(b *vec.Batch, at int, values [][]byte) error {
	if len(values) != len(r.sel.gets) {
		return errForm
	}
	for k, x := range values {
		v := b.Cols[k]
		err := errNullHere
		switch {
		case x != nil:
			err = r.sel.gets[k](v, at, x)
		case v.Type.Nullable:
			v.SetNull(at)
			continue
		}
		if err != nil {
			return fmt.Errorf("column '%s': %w", r.s.cfg.Table.Columns[r.s.cfg.Columns[k]].Name, err)
		}
	}
	return nil
}

// hangUp ends the SELECT at hand.
func (r *splitReader) hangUp() {
	if r.cancel != nil {
		r.cancel()
	}
	if r.result != nil {
		_, _ = r.result.Close() // it was told to end
	}
	r.session.drop()
	r.result, r.cancel = nil, nil
}

// Close implements connector.SplitReader.
func (r *splitReader) Close() error {
	r.hangUp()
	r.closed = true
	return nil
}
