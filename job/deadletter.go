package job

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// deadLetters takes records and rows that cannot be used. Each table names its output with
// 'dead-letter.path' (a folder of JSON lines) or 'dead-letter.table'; without one the job stops
// with the same information.
type deadLetters struct {
	j     *Job
	mu    sync.Mutex
	outs  map[string]deadOut
	again map[string]*refetcher // by table; nil where records cannot be read again
}

// deadLetter is one thing that could not be used.
type deadLetter struct {
	Table    string `json:"table"`
	Split    string `json:"split,omitempty"`
	Position *int64 `json:"position,omitempty"`
	Unit     string `json:"unit,omitempty"`
	Reason   string `json:"reason"`
	// Record is the bytes of the record, as text where they are UTF-8, otherwise in base64. A row
	// that is refused behind its source has them read again; RecordError is why that failed.
	Record       *string        `json:"record,omitempty"`
	RecordBase64 string         `json:"record_base64,omitempty"`
	RecordError  string         `json:"record_error,omitempty"`
	Row          map[string]any `json:"row,omitempty"`
	Time         string         `json:"time"`
	raw          []byte
}

type deadOut interface {
	put(d *deadLetter) error
	sync() error // makes what was put safe and visible
	close() error
}

func newDeadLetters(j *Job) *deadLetters {
	return &deadLetters{j: j, outs: map[string]deadOut{}, again: map[string]*refetcher{}}
}

// record returns the handling of records of t that cannot be decoded, or, without books, of rows that
// a sink's target refuses: those came in as rows, and count as dropped in the books of the sink.
func (d *deadLetters) record(t *connector.Table, books *op.Counters) func(format.BadRecord) error {
	return func(b format.BadRecord) error {
		if x := d.j.o.Trace; x != nil {
			if books != nil {
				books.RowsIn.Add(1)
				books.Drop(op.DropDeadLetter, 1)
			}
			return x.record(t, b)
		}
		l := &deadLetter{Table: t.Name, Reason: b.Err.Error()}
		l.at(b.Origin, b.Pos)
		if books != nil {
			l.raw = b.Bytes
			l.setRecord(b.Bytes)
			books.RowsIn.Add(1)
			books.Drop(op.DropDeadLetter, 1)
		} else {
			d.refused(l, t, b)
		}
		err := fmt.Errorf("%s of table %s: %w: %s; fix the record, or give the table a "+
			"dead-letter output ('dead-letter.path' = 'folder/') or the format's ignore-parse-errors",
			place(b.Origin, b.Pos), t.Name, b.Err, excerpt(b.Bytes))
		stop := &recordError{err: err}
		if b.Origin != nil {
			stop.at = place(b.Origin, b.Pos)
		} else {
			stop.row, stop.complaint = fmt.Sprintf("the record %s of table %s", excerpt(b.Bytes), t.Name), t.Name+": "+b.Err.Error()
		}
		return d.put(t, l, stop)
	}
}

// refused completes the letter of a row that the target of a sink refuses, whose text b has, and counts
// it. Sinks tell of such rows when they write and when they commit, from any goroutine.
func (d *deadLetters) refused(l *deadLetter, t *connector.Table, b format.BadRecord) {
	for _, n := range d.j.p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok && s.Table == t && len(d.j.books[n.ID]) > 0 {
			d.j.books[n.ID][0].Drop(op.DropDeadLetter, 1)
			break
		}
	}
	text := json.NewDecoder(bytes.NewReader(b.Bytes))
	text.UseNumber() // a BIGINT is no float64
	if text.Decode(&l.Row) != nil {
		l.Row = nil
	}
	if l.Position != nil && hasDeadLetter(t) {
		d.refetch(l, b.Origin, b.Pos)
	}
	if l.raw == nil && l.RecordError == "" {
		l.raw = b.Bytes
		l.setRecord(b.Bytes)
	}
}

// recordError is a record that could not be decoded, or that a target refuses, when the job stops for it.
type recordError struct {
	err            error
	at             string // "" where its position is not known
	row, complaint string // where at is ""
}

// Error implements error.
func (e *recordError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *recordError) Unwrap() error { return e.err }

// SourcePosition implements checkpoint.Positioned.
func (e *recordError) SourcePosition() string { return e.at }

// BadRow implements checkpoint.BadData.
func (e *recordError) BadRow() string { return e.row }

// Complaint implements checkpoint.BadData.
func (e *recordError) Complaint() string { return e.complaint }

// row returns the handling of rows that an operator cannot use, for op.Context.BadRow.
// Rows of a source, as they were decoded, are given with the bytes of their record; for rows of
// other nodes, as far as they are known to come from one record, those are read again.
func (d *deadLetters) row(n *plan.Node, books *op.Counters, source *sourceRun) func(*vec.Batch, int, expr.Pos, error) error {
	t := d.j.tableFor(n)
	schema := n.Schema
	if len(n.Inputs) > 0 {
		schema = d.j.p.EdgeSchema(n, 0)
	}
	return func(b *vec.Batch, row int, pos expr.Pos, why error) error {
		reason, skip := op.Refused(why)
		books.Drop(reason, 1)
		if x := d.j.o.Trace; x != nil {
			var bytes []byte
			if source != nil {
				bytes = source.current.record(row)
			}
			return x.row(t, n, b, row, bytes, why)
		}
		if skip && !hasDeadLetter(t) {
			return nil
		}
		l := &deadLetter{Table: t.Name, Reason: why.Error(), Row: map[string]any{}}
		if b.Pos != nil {
			l.at(b.Origin, b.Pos[row])
		}
		names := schema
		if source != nil {
			names = source.rawSchema
			if raw := source.current.record(row); raw != nil {
				l.raw = raw
				l.setRecord(raw)
			}
		} else if l.Position != nil && hasDeadLetter(t) {
			d.refetch(l, b.Origin, b.Pos[row])
		}
		for i, c := range b.Cols {
			name := fmt.Sprintf("column %d", i+1)
			if i < len(names.Fields) && len(b.Cols) == len(names.Fields) {
				name = names.Fields[i].Name
			}
			l.Row[name] = plain(c.Value(row), c.Type)
		}
		return d.put(t, l, &RowError{Origin: b.Origin, Row: l.Row, Pos: pos, Err: why, At: l.Position,
			Operator: n.Label, Constant: t.Name == valuesTable && l.Position == nil})
	}
}

// RowError is a row that could not be computed, when the job stops for it.
type RowError struct {
	Origin *vec.Origin
	At     *int64
	Row    map[string]any
	Pos    expr.Pos // of the expression in the SQL text
	Err    error
	// Operator is the label of the operator that cannot use the row.
	Operator string
	// Constant says that the row came from no table: there is nothing to fix but the SQL text.
	Constant bool
}

// Error implements error.
func (e *RowError) Error() string {
	if e.Constant {
		return e.Err.Error()
	}
	where := e.Operator + ", a row computed from several records"
	if e.At != nil {
		where = place(e.Origin, *e.At)
	}
	mend := "mend the record"
	if e.Pos.End > e.Pos.Start {
		mend = "use TRY_CAST or filter such rows"
	}
	return fmt.Sprintf("%s: %v; the row is %s; %s, or give the table a dead-letter output ('dead-letter.path' = 'folder/')",
		where, e.Err, e.text(), mend)
}

// text is the row as JSON, shortened.
func (e *RowError) text() string {
	text, _ := json.Marshal(e.Row)
	return excerpt(text)
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// SourcePosition names the record for checkpoint.Positioned.
func (e *RowError) SourcePosition() string {
	if e.At == nil || e.Origin == nil {
		return ""
	}
	return place(e.Origin, *e.At)
}

// BadRow implements checkpoint.BadData.
func (e *RowError) BadRow() string { return fmt.Sprintf("the row %s at %s", e.text(), e.Operator) }

// Complaint implements checkpoint.BadData.
func (e *RowError) Complaint() string { return e.Operator + ": " + e.Err.Error() }

func (l *deadLetter) at(o *vec.Origin, pos int64) {
	if o != nil {
		l.Split, l.Unit, l.Position = o.Split, o.Unit, &pos
	}
}

func (l *deadLetter) setRecord(b []byte) {
	if utf8.Valid(b) {
		s := string(b)
		l.Record = &s
		return
	}
	l.RecordBase64 = base64.StdEncoding.EncodeToString(b)
}

func place(o *vec.Origin, pos int64) string {
	if o == nil {
		return "a record"
	}
	return fmt.Sprintf("%s, %s %d", o.Split, o.Unit, pos)
}

func excerpt(b []byte) string {
	const most = 300
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}

// plain turns a value into what JSON can hold, for people to read.
func plain(v types.Value, t types.Type) any {
	switch x := v.(type) {
	case types.Int128:
		l := expr.Literal{Value: x, T: t}
		return l.String()
	case []types.Value:
		out := make([]any, len(x))
		for i, e := range x {
			switch {
			case t.Kind == types.Row:
				out[i] = plain(e, t.Fields[i].Type)
			case t.Kind == types.Map && i%2 == 0:
				out[i] = plain(e, *t.Key)
			default:
				out[i] = plain(e, *t.Elem)
			}
		}
		return out
	case int64:
		if t.IsTemporal() || t.IsInterval() {
			l := expr.Literal{Value: x, T: t}
			return l.String()
		}
	case float64:
		if x != x || x > 1.7e308 || x < -1.7e308 {
			return fmt.Sprint(x)
		}
	}
	return v
}

// valuesTable stands for the table of rows that the SQL text itself holds.
const valuesTable = "VALUES"

// tableFor returns the table whose dead-letter output takes rows refused by n: that of the first
// source upstream that has one, else the first source, or the sink itself.
func (j *Job) tableFor(n *plan.Node) *connector.Table {
	var first *connector.Table
	var walk func(n *plan.Node) *connector.Table
	walk = func(n *plan.Node) *connector.Table {
		switch o := n.Op.(type) {
		case *plan.Source:
			if first == nil {
				first = o.Table
			}
			if hasDeadLetter(o.Table) {
				return o.Table
			}
		case *plan.Sink:
			if o.Table != nil && hasDeadLetter(o.Table) {
				return o.Table
			}
		}
		for _, e := range n.Inputs {
			if t := walk(j.p.Nodes[e.From]); t != nil {
				return t
			}
		}
		return nil
	}
	if t := walk(n); t != nil {
		return t
	}
	if first == nil {
		first = &connector.Table{Name: valuesTable}
	}
	return first
}

func hasDeadLetter(t *connector.Table) bool {
	return t.Options["dead-letter.path"] != "" || t.Options["dead-letter.table"] != ""
}

func (d *deadLetters) put(t *connector.Table, l *deadLetter, stop error) error {
	if !hasDeadLetter(t) {
		return stop
	}
	if d.j.o.Until != nil || d.j.o.NoDeadLetters {
		return nil // it was written when the rows came, or is not to be
	}
	l.Time = d.j.time().UTC().Format("2006-01-02 15:04:05.000")
	d.mu.Lock()
	defer d.mu.Unlock()
	out, err := d.open(t)
	if err == nil {
		err = out.put(l)
	}
	if err != nil {
		return fmt.Errorf("dead-letter output of table %s: %w", t.Name, err)
	}
	return nil
}

func (d *deadLetters) open(t *connector.Table) (deadOut, error) {
	if o := d.outs[t.Name]; o != nil {
		return o, nil
	}
	var o deadOut
	var err error
	if name := t.Options["dead-letter.table"]; name != "" {
		o, err = d.openTable(name)
	} else {
		o, err = openDeadFile(d.j.o.Resolve(t.Options["dead-letter.path"]), t.Name, d.j.time())
	}
	if err == nil {
		d.outs[t.Name] = o
	}
	return o, err
}

// sync makes everything put so far safe: positions behind it may be committed then.
func (d *deadLetters) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for table, o := range d.outs {
		if err := o.sync(); err != nil {
			return fmt.Errorf("dead-letter output of table %s: %w", table, err)
		}
	}
	return nil
}

func (d *deadLetters) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, o := range d.outs {
		errs = append(errs, o.close())
	}
	for _, r := range d.again {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	clear(d.outs)
	clear(d.again)
	return errors.Join(errs...)
}

// deadFile is a file of JSON lines, one a dead letter, each written at once.
type deadFile struct{ f *os.File }

func openDeadFile(dir, table string, now time.Time) (deadOut, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.jsonl", table, now.UTC().Format("20060102T150405.000"), os.Getpid()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &deadFile{f}, nil
}

func (o *deadFile) put(l *deadLetter) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = o.f.Write(append(b, '\n'))
	return err
}

func (o *deadFile) sync() error { return o.f.Sync() }

func (o *deadFile) close() error { return o.f.Close() }

// deadTable is a table whose columns take a dead letter by name.
type deadTable struct {
	w         connector.Writer
	committer connector.Committer
	batch     *vec.Batch
	schema    types.Schema
	commits   int64
}

func (d *deadLetters) openTable(name string) (deadOut, error) {
	if d.j.o.DeadLetterSink == nil {
		return nil, fmt.Errorf("BUG: no way to open dead-letter table %s", name)
	}
	s, schema, err := d.j.o.DeadLetterSink(name)
	if err != nil {
		return nil, err
	}
	t := &deadTable{schema: schema, batch: vec.NewBatch(schema)}
	if t.w, err = s.NewWriter(context.WithoutCancel(d.j.ctx), 0, 1); err != nil {
		return nil, err
	}
	if t.committer, err = s.NewCommitter(context.WithoutCancel(d.j.ctx)); err != nil {
		return nil, errors.Join(err, t.w.Close())
	}
	return t, nil
}

// DeadLetterColumns are the columns that a dead-letter table may have, each optional.
var DeadLetterColumns = types.NewSchema(
	types.Field{Name: "table", Type: types.StringType},
	types.Field{Name: "split", Type: types.StringType},
	types.Field{Name: "position", Type: types.BigIntType},
	types.Field{Name: "reason", Type: types.StringType},
	types.Field{Name: "record", Type: types.BytesType},
	types.Field{Name: "record_error", Type: types.StringType},
	types.Field{Name: "row", Type: types.StringType},
	types.Field{Name: "time", Type: types.TimestampLTZType(3)},
)

func (o *deadTable) put(l *deadLetter) error {
	b := o.batch
	b.Reset(1)
	b.N = 1
	for i, f := range o.schema.Fields {
		var v types.Value
		switch f.Name {
		case "table":
			v = l.Table
		case "split":
			v = l.Split
		case "position":
			if l.Position != nil {
				v = *l.Position
			}
		case "reason":
			v = l.Reason
		case "record":
			switch {
			case l.raw == nil:
			case f.Type.IsString():
				v = string(l.raw)
			default:
				v = append([]byte{}, l.raw...)
			}
		case "record_error":
			if l.RecordError != "" {
				v = l.RecordError
			}
		case "row":
			if l.Row != nil {
				text, _ := json.Marshal(l.Row)
				v = string(text)
			}
		case "time":
			at, _ := time.Parse("2006-01-02 15:04:05.000", l.Time)
			v = types.TS(at.UnixMilli(), 0)
		}
		b.Cols[i].SetValue(0, v)
	}
	return o.w.Write(context.Background(), b)
}

func (o *deadTable) sync() error {
	ctx := context.Background()
	cs, err := o.w.Prepare(ctx)
	if err != nil || o.committer == nil || len(cs) == 0 {
		return err
	}
	o.commits++
	return o.committer.Commit(ctx, connector.CommitID{Checkpoint: o.commits}, cs)
}

func (o *deadTable) close() error {
	err := errors.Join(o.sync(), o.w.Close())
	if o.committer != nil {
		err = errors.Join(err, o.committer.Close())
	}
	return err
}
