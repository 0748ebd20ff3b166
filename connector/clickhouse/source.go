package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/vec"
)

// Reading a table: one SELECT a split, whose blocks are read as they are asked for. A position counts rows
// of the split, so it is a place only where the SELECT has an order: that of the table's sorting key, unless
// 'scan.order-by' says another, and among equals that of the columns read. Without an order a table is one
// split, which is read from its beginning again.

var sourceOptions = []option.Spec{
	{Name: "scan.order-by", Doc: "In which order rows are read (what follows ORDER BY, in ClickHouse's SQL), so that a restart goes on where it was; by default the table's sorting key. Empty: in no order, and from the beginning again after a restart.",
		Example: "ts, id"},
	{Name: "scan.filter", Doc: "Which rows are read: a condition in ClickHouse's SQL.", Example: "ts >= '2013-01-01' AND region = 'EU'"},
	{Name: "scan.final", Kind: option.Enum, Values: []string{finalAuto, "true", "false"}, Default: finalAuto,
		Doc: "Whether rows that the engine replaces, collapses or sums up are read as they are then (FINAL): auto is true for such engines. It makes the table one split."},
}

const finalAuto = "auto"

// source is a table being read.
type source struct {
	cfg connector.SourceConfig
	c   *config

	mu sync.Mutex
	t  *readable // nil: not looked at yet; guarded by mu
}

// readable is a table as it was found.
type readable struct {
	table
	key        string   // its ORDER BY
	partitions []string // ids; fewer than two: it is not cut
}

func newSource(cfg connector.SourceConfig) (connector.Source, error) {
	c, err := configOf(cfg.Options)
	if err != nil {
		return nil, err
	}
	return &source{cfg: cfg, c: c}, nil
}

// Bounded implements connector.Source: what is in the table now is read.
func (s *source) Bounded() bool { return true }

// Guarantee implements connector.Source. It depends on the table, so that is looked at; a server that is
// away is said to be.
func (s *source) Guarantee() string {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	se := &session{c: s.c}
	defer se.close()
	t, err := s.look(ctx, se)
	if err != nil {
		return "rows are read by position where the table has an order, which could not be looked up now (" + err.Error() + "); else a restart reads them again: at least once"
	}
	if o := s.order(t); o != "" {
		return "rows are read in the order of " + o + " and again from a position: every row is there exactly once, as long as none appears, changes or vanishes before the place that was reached"
	}
	return "rows come in no order, and a restart reads all of them again: at least once; 'scan.order-by' gives them one"
}

// look describes the table.
func (s *source) look(ctx context.Context, se *session) (*readable, error) {
	c := s.c
	where := "database = " + literal(c.database) + " AND "
	found, err := se.query(ctx, "SELECT engine, engine_full, sorting_key, timezone(), partition_key FROM system.tables WHERE "+where+"name = "+literal(c.table))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, c.missing()
	}
	t := &readable{table: table{database: c.database, name: c.table, engine: found[0][0], full: found[0][1]}, key: found[0][2]}
	t.holds(t.engine, t.full, found[0][2])
	if t.zone, err = time.LoadLocation(found[0][3]); err != nil {
		t.zone = nil // columns that name no zone are then refused
	}
	cols, err := se.query(ctx, "SELECT name, type, toString(default_kind) FROM system.columns WHERE "+where+"table = "+literal(c.table)+" ORDER BY position")
	if err != nil {
		return nil, err
	}
	for _, x := range cols {
		t.cols = append(t.cols, tableColumn{x[0], x[1], x[2]})
	}
	if found[0][4] == "" || s.order(t) == "" || s.final(t) || !strings.HasSuffix(t.engine, "MergeTree") {
		return t, nil
	}
	parts, err := se.query(ctx, "SELECT DISTINCT partition_id FROM system.parts WHERE active AND "+where+"table = "+literal(c.table)+" ORDER BY partition_id")
	if err != nil {
		var no *serverError
		if errors.As(err, &no) { // it may not look there
			return t, nil
		}
		return nil, err
	}
	for _, p := range parts {
		t.partitions = append(t.partitions, p[0])
	}
	return t, nil
}

// missing says that the table is not there.
func (c *config) missing() error {
	return connector.Fatalf("table %s does not exist, or user '%s' may not see it; create it there, or write its database in front ('table-name' = 'database.table')",
		c.database+"."+c.table, c.user)
}

// order is what follows ORDER BY, "" for no order.
func (s *source) order(t *readable) string {
	if s.cfg.Options.Has("scan.order-by") {
		return strings.TrimSpace(s.cfg.Options.Get("scan.order-by"))
	}
	return t.key
}

// final reports whether the engine's work is done before rows are read.
func (s *source) final(t *readable) bool {
	switch s.cfg.Options.Enum("scan.final") {
	case "true":
		return true
	case "false":
		return false
	}
	b := t.base()
	return strings.HasSuffix(b, "MergeTree") && b != "MergeTree"
}

// shared reports whether other hosts have the same rows.
func (t *readable) shared() bool { return t.engine == "Distributed" || t.base() != t.engine }

// described looks at the table, once.
func (s *source) described(ctx context.Context) (*readable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t != nil {
		return s.t, nil
	}
	se := &session{c: s.c}
	defer se.close()
	p := s.patience()
	p.Within = min(p.Within, connector.OpenWithin)
	for {
		t, err := s.look(ctx, se)
		if err == nil {
			_, err = s.plan(t)
		}
		if err == nil {
			s.t = t
			return t, nil
		}
		if err := p.again(ctx, err); err != nil {
			return nil, fmt.Errorf("open table '%s' of ClickHouse: %w", s.cfg.Options.Get("table-name"), err)
		}
	}
}

func (s *source) patience() *patience {
	return &patience{connector.Patience{Tries: s.c.tries, Within: s.c.patience}}
}

// NewEnumerator implements connector.Source.
func (s *source) NewEnumerator(ctx context.Context) (connector.Enumerator, error) {
	t, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	name := t.database + "." + t.name
	if len(t.partitions) < 2 {
		return connector.FixedSplits(connector.Split{ID: name}), nil
	}
	var out []connector.Split
	for _, p := range t.partitions {
		out = append(out, connector.Split{ID: name + "/" + p})
	}
	return connector.FixedSplits(out...), nil
}

// NewReader implements connector.Source.
func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(s.open), nil
}

// selection is the SELECT of the columns that are wanted.
type selection struct {
	getters []*getter // one a column wanted
	cells   []*cells  // of the answer
	asked   []string  // their types
	text    string    // SELECT ... FROM ...
	order   string    // what follows ORDER BY, with what tells equals apart; ""
}

// plan checks the table against the definition here. Every call makes new cells: they belong to one
// goroutine.
func (s *source) plan(t *readable) (*selection, error) {
	m := matcher{server: t.zone}
	out := &selection{order: s.order(t)}
	var exprs, ties, errs []string
	for _, i := range s.cfg.Columns {
		f := s.cfg.Table.Columns[i]
		c := t.column(f.Name)
		if c == nil {
			errs = append(errs, fmt.Sprintf("column '%s' does not exist; there are %s", f.Name, t.names()))
			continue
		}
		expr, w, err := asked(c)
		if err == nil && t.zone == nil && t.needsZone(w, f.Type) {
			err = lossy("give the column a time zone", "it has none, and the server's is not known here")
		}
		var g *getter
		if err == nil {
			g, err = m.getter(f.Type, w)
		}
		if err != nil {
			errs = append(errs, describe(f.Name, f.Type, c.typ, err))
			continue
		}
		exprs = append(exprs, expr)
		if w.compares() {
			ties = append(ties, expr)
		}
		out.getters, out.cells, out.asked = append(out.getters, g), append(out.cells, g.c), append(out.asked, w.name)
	}
	if len(errs) > 0 {
		return nil, connector.Fatalf("table %s.%s: %s", t.database, t.name, strings.Join(errs, "; "))
	}
	if len(exprs) == 0 { // rows are only counted
		w, _ := parseType("UInt8")
		exprs, out.cells, out.asked = []string{"toUInt8(0)"}, []*cells{newCells(w)}, []string{w.name}
	}
	out.text = "SELECT " + strings.Join(exprs, ", ") + " FROM " + t.quoted()
	if s.final(t) {
		out.text += " FINAL"
	}
	if out.order != "" {
		out.order = strings.Join(append([]string{out.order}, ties...), ", ")
	}
	return out, nil
}

// asked is how a column is asked for, so that its values come in a form that is known here.
func asked(c *tableColumn) (expr string, w *colType, err error) {
	if c.kind == "EPHEMERAL" {
		return "", nil, lossy("leave it out of the table's definition", "it is EPHEMERAL in the database and cannot be read")
	}
	w, err = parseType(c.typ)
	if err != nil {
		return "", nil, lossy(declareAs, "%s", strings.ReplaceAll(err.Error(), "cannot be written", "cannot be read"))
	}
	if w.kind == kJSON {
		w, _ = parseType("String")
		return "toString(" + quote(c.name) + ")", w, nil
	}
	if w.name != c.typ {
		return "CAST(" + quote(c.name) + ", " + literal(w.name) + ")", w, nil
	}
	return quote(c.name), w, nil
}

// compares reports whether values of t have an order.
func (t *colType) compares() bool {
	return t.kind != kMap && !slices.ContainsFunc(t.kids, func(k *colType) bool { return !k.compares() })
}

// sql is the SELECT of a split from a row on.
func (s *source) sql(sel *selection, partition string, from int64) string {
	if partition != "" {
		partition = "_partition_id = " + literal(partition)
	}
	return connector.SelectFrom(sel.text, &s.cfg, partition, sel.order, from)
}

func (s *source) open(ctx context.Context, sp connector.Split) (connector.SplitReader, error) {
	t, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	sel, err := s.plan(t)
	if err != nil {
		return nil, err
	}
	r := &splitReader{s: s, sel: sel, session: session{c: s.c, stay: !t.shared()}, patience: s.patience(), Selected: connector.NewSelected(sp, &s.cfg, "ClickHouse", sel.order != "")}
	r.partition, _ = strings.CutPrefix(sp.ID, t.database+"."+t.name+"/")
	if r.partition == sp.ID {
		r.partition = ""
	}
	return r, nil
}

// splitReader reads one split.
type splitReader struct {
	s         *source
	sel       *selection
	partition string // "" for all
	session
	connector.Selected
	patience *patience

	blocks blocks
	ctx    context.Context // of blocks
	cancel context.CancelFunc
	lo, hi int // rows of the block at hand that are left
	closed bool
}

// ReadBatch implements connector.BatchReader. Strings point into the block, which lives until the call that
// reads the next one.
func (r *splitReader) ReadBatch(ctx context.Context, b *vec.Batch, maxRows int) error {
	if r.closed {
		return errClosed
	}
	if r.lo == r.hi {
		if err := r.more(ctx); err != nil {
			return err
		}
	}
	n := min(maxRows, r.hi-r.lo)
	for k, g := range r.sel.getters {
		v := b.Cols[k]
		v.Resize(n)
		if err := g.fill(v, r.lo, r.lo+n); err != nil {
			f := r.s.cfg.Table.Columns[r.s.cfg.Columns[k]]
			return connector.Fatalf("column '%s' of rows %d to %d: %w; declare it here with a type for all of its values, or leave such rows out ('scan.filter')", f.Name, r.At, r.At+int64(n)-1, err)
		}
	}
	r.lo += n
	r.Took(b, n)
	return nil
}

// more reads the next block; a connection that broke is made again where there is an order.
func (r *splitReader) more(ctx context.Context) error {
	for !r.Ended {
		err := r.try(ctx)
		if err == nil {
			r.patience.Worked()
			return nil
		}
		if err == io.EOF {
			r.Ended = true
			r.hangUp()
			break
		}
		r.hangUp()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err = fmt.Errorf("read table '%s' of ClickHouse after %d rows: %w", r.s.cfg.Options.Get("table-name"), r.At, err)
		if r.At > 0 && r.sel.order == "" {
			return fmt.Errorf("%w; without an order ('scan.order-by') the rows that were read cannot be told from the others", err)
		}
		if err := r.patience.again(ctx, err); err != nil {
			return err
		}
	}
	return io.EOF
}

// try asks for the next block.
func (r *splitReader) try(ctx context.Context) (err error) {
	if r.blocks == nil {
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	slow := time.AfterFunc(r.c.timeout, r.cancel)
	defer func() {
		if !slow.Stop() && err != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer for %s ('connection.request-timeout')", r.c.timeout)
		}
	}()
	if r.blocks == nil {
		if r.blocks, err = r.session.read(r.ctx, r.s.sql(r.sel, r.partition, r.At)); err != nil {
			return err
		}
	}
	n, err := r.blocks.next(r.sel.cells, r.sel.asked)
	if err == io.EOF {
		return err
	}
	r.lo, r.hi = 0, n
	return r.session.done(err)
}

// hangUp ends the SELECT at hand.
func (r *splitReader) hangUp() {
	if r.cancel != nil {
		r.cancel()
	}
	if r.blocks != nil {
		r.blocks.close()
	}
	r.session.close()
	r.blocks, r.cancel, r.lo, r.hi = nil, nil, 0, 0
}

// Close implements connector.SplitReader.
func (r *splitReader) Close() error {
	r.hangUp()
	r.closed = true
	return nil
}
