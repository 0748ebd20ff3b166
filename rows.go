package tidemark

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
	"github.com/tidemark-stream/tidemark/vec/arrowvec"
)

// Rows is the result of a query, read by one goroutine. Reading slowly slows the job down.
type Rows struct {
	schema  Schema
	batches chan *vec.Batch
	started chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	closed  bool
	last    bool        // the script's last statement runs
	job     *engine.Run // of that statement
	ended   bool        // batches is closed, as the reader has seen
	err     error       // set before batches is closed
	report  *Report     // likewise

	b  *vec.Batch
	at int
}

func (r *Rows) start(s Schema) {
	r.once.Do(func() {
		r.schema = s
		close(r.started)
	})
}

// finish ends the rows with the script's result.
func (r *Rows) finish(err error) {
	r.err = err
	r.start(Schema{})
	close(r.batches)
}

// put hands a copy of b over.
func (r *Rows) put(ctx context.Context, b *vec.Batch) error {
	own := vec.NewBatch(r.schema)
	own.Gather(b, b.Selected())
	select {
	case r.batches <- own:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Schema is the columns of the rows.
func (r *Rows) Schema() Schema { return r.schema }

// Next moves to the next row. It returns false at the end and after an error.
func (r *Rows) Next() bool {
	r.at++
	for r.b == nil || r.at >= r.b.N {
		b, ok := <-r.batches
		if !ok {
			r.b, r.ended = nil, true
			return false
		}
		r.b, r.at = b, 0
	}
	return true
}

// Kind is what the current row does to the result; always Insert where the query makes no updates,
// and where there is no current row.
func (r *Rows) Kind() RowKind {
	if r.b == nil {
		return Insert
	}
	return r.b.Kind(r.at)
}

// NextBatch returns the rows that come next as an Arrow record batch, or nil at the end. It and
// Next must not be mixed. Release it when it is no longer needed. The row kinds, where the query
// makes updates, are in a last column called "row_kind" (+I, -U, +U, -D).
func (r *Rows) NextBatch() (arrow.RecordBatch, error) {
	b, ok := <-r.batches
	if !ok {
		r.ended = true
		return nil, r.err
	}
	return arrowvec.Record(r.schema, b)
}

// Scan stores the values of the current row. Each dest is a pointer: to bool, an integer, a float,
// string (any type, as CAST AS STRING of simple types), []byte, time.Time (DATE and timestamps, in
// UTC), time.Duration (TIME and day-time intervals), any (see types.Value), or a pointer to one of
// these, which NULL makes nil. Without such a pointer NULL is the zero value.
func (r *Rows) Scan(dest ...any) error {
	if r.b == nil {
		return errNoRow
	}
	if len(dest) != len(r.b.Cols) {
		return fmt.Errorf("the rows have %d columns, Scan got %d destinations", len(r.b.Cols), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.b.Cols[i].Value(r.at), r.schema.Fields[i].Type); err != nil {
			return fmt.Errorf("column %s (%s): %w", r.schema.Fields[i].Name, r.schema.Fields[i].Type, err)
		}
	}
	return nil
}

var errNoRow = errors.New("there is no current row: call Next first, and stop when it returns false")

// Values returns the current row in the form that types.Value describes, nil where there is none.
func (r *Rows) Values() []any {
	if r.b == nil {
		return nil
	}
	out := make([]any, len(r.b.Cols))
	for i, c := range r.b.Cols {
		out[i] = c.Value(r.at)
	}
	return out
}

// Err is why the rows ended, nil if the query did; nil before they have ended.
func (r *Rows) Err() error {
	if !r.ended {
		return nil
	}
	return r.err
}

// Report is the account of the query's job once the rows have ended, nil before.
func (r *Rows) Report() *Report {
	if !r.ended {
		return nil
	}
	return r.report
}

// Close ends the query if it has not ended, and returns its error. Ending it early is none, but a
// failure that came before is.
func (r *Rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.cancel()
	for range r.batches {
	}
	r.ended, r.b = true, nil
	if errors.Is(r.err, context.Canceled) {
		return nil
	}
	return r.err
}

func assign(dest any, v types.Value, t types.Type) error {
	p := reflect.ValueOf(dest)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("Scan wants pointers, not %T", dest)
	}
	to := p.Elem()
	if to.Kind() == reflect.Pointer {
		if v == nil {
			to.SetZero()
			return nil
		}
		n := reflect.New(to.Type().Elem())
		if err := assign(n.Interface(), v, t); err != nil {
			return err
		}
		to.Set(n)
		return nil
	}
	if v == nil {
		to.SetZero()
		return nil
	}
	return assignValue(dest, to, v, t)
}

func assignValue(dest any, to reflect.Value, v types.Value, t types.Type) error {
	switch d := dest.(type) {
	case *any:
		*d = v
		return nil
	case *time.Time:
		switch x := v.(type) {
		case types.Int128:
			if t.IsTimestamp() {
				*d = time.UnixMilli(x.Hi).Add(time.Duration(x.Lo)).UTC()
				return nil
			}
		case int64:
			if t.Kind == types.Date {
				*d = time.UnixMilli(x * 86400000).UTC()
				return nil
			}
		}
		return fmt.Errorf("cannot be stored in a time.Time")
	case *time.Duration:
		if x, ok := v.(int64); ok && (t.Kind == types.Time || t.Kind == types.IntervalDayTime) {
			*d = time.Duration(x) * time.Millisecond
			return nil
		}
		return fmt.Errorf("cannot be stored in a time.Duration")
	case *string:
		*d = text(v, t)
		return nil
	}
	return assignNumber(to, v, t)
}

func assignNumber(to reflect.Value, v types.Value, t types.Type) error {
	switch x := v.(type) {
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(x)
			return nil
		}
	case int64:
		if to.CanInt() && !to.OverflowInt(x) {
			to.SetInt(x)
			return nil
		}
		if to.CanUint() && x >= 0 && !to.OverflowUint(uint64(x)) {
			to.SetUint(uint64(x))
			return nil
		}
		if to.CanFloat() {
			to.SetFloat(float64(x))
			return nil
		}
	case float64:
		if to.CanFloat() {
			to.SetFloat(x)
			return nil
		}
	case types.Int128:
		if t.Kind == types.Decimal && t.Scale == 0 && x.IsInt64() && to.CanInt() && !to.OverflowInt(int64(x.Lo)) {
			to.SetInt(int64(x.Lo))
			return nil
		}
		if t.Kind == types.Decimal && to.CanFloat() {
			f, err := strconv.ParseFloat(x.DecimalString(t.Scale), 64)
			to.SetFloat(f)
			return err
		}
	case string:
		if to.Kind() == reflect.String {
			to.SetString(x)
			return nil
		}
	case []byte:
		if b := reflect.ValueOf(x); b.Type().AssignableTo(to.Type()) {
			to.Set(b)
			return nil
		}
	}
	return fmt.Errorf("cannot be stored in a %s", to.Type())
}
