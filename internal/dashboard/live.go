package dashboard

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// DefaultLiveKeys is how many keys a Live keeps where nobody says.
const DefaultLiveKeys = 50_000

const liveHistory = 4096 // progress rows kept

// Live holds the newest revision of each key of a table of results as a running job makes them, before
// they are sealed. It is filled by the job (Add, Note, Restarted) and read as a Reader; all methods may be
// called from several goroutines. Its memory is bounded by the number of keys: the keys that were there first
// go first, and how many went is known.
type Live struct {
	table   *connector.Table
	limit   int
	key     []int // columns
	rev     int
	deleted int // -1: none

	mu      sync.Mutex
	rows    *vec.Batch // one row a slot
	index   map[string]int32
	keys    []string // by slot
	epochs  []uint32 // of the start of the job that a slot's row is of
	next    int      // slot to give away next once all are taken
	stale   int      // rows written over since the vectors were last made anew
	epoch   uint32
	dropped int64
	changes uint64
	past    []connector.Progress // the oldest first
	scratch []byte
	since   time.Time
}

// NewLive returns an empty Live of a table with Results; limit 0 is DefaultLiveKeys.
func NewLive(t *connector.Table, limit int) *Live {
	if limit <= 0 {
		limit = DefaultLiveKeys
	}
	s := t.Schema()
	l := &Live{table: t, limit: limit, rev: s.Index(t.Results.Column["revision"]), deleted: -1,
		rows: vec.NewBatch(s), index: map[string]int32{}, since: time.Now()}
	if c := t.Results.Column["is_deleted"]; c != "" {
		l.deleted = s.Index(c)
	}
	for _, k := range t.Results.Key {
		l.key = append(l.key, s.Index(k))
	}
	return l
}

// Add takes the rows of a batch that the job gives to the sink of the table. The batch is only read.
func (l *Live) Add(b *vec.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range b.Selected() {
		l.scratch = l.scratch[:0]
		for _, c := range l.key {
			l.scratch = appendKey(l.scratch, b.Cols[c], int(i))
		}
		slot, ok := l.index[string(l.scratch)]
		switch {
		case ok:
			if l.epochs[slot] == l.epoch && revisionAt(l.rows.Cols[l.rev], int(slot)) > revisionAt(b.Cols[l.rev], int(i)) {
				continue // a slower subtask's
			}
			l.stale++
		default:
			slot = l.take(string(l.scratch))
		}
		l.epochs[slot] = l.epoch
		for c, v := range l.rows.Cols {
			v.Set(int(slot), b.Cols[c], int(i))
		}
	}
	if l.stale > l.rows.N+1024 {
		l.renew()
	}
	l.changes++
}

// take gives a new key a slot: one more, or that of the key that has been there longest.
func (l *Live) take(key string) int32 {
	slot := l.rows.N
	if slot < l.limit {
		l.rows.N++
		for _, v := range l.rows.Cols {
			v.Resize(l.rows.N)
		}
		l.keys, l.epochs = append(l.keys, key), append(l.epochs, 0)
	} else {
		slot = l.next
		l.next = (l.next + 1) % l.limit
		delete(l.index, l.keys[slot])
		l.keys[slot] = key
		l.dropped++
		l.stale++
	}
	l.index[key] = int32(slot)
	return int32(slot)
}

// renew makes the vectors anew, so that texts that were written over leave memory.
func (l *Live) renew() {
	fresh := vec.NewBatch(l.table.Schema())
	fresh.Gather(l.rows, vec.Positions(l.rows.N))
	l.rows, l.stale = fresh, 0
}

// appendKey appends what tells value i of v from others.
func appendKey(dst []byte, v *vec.Vec, i int) []byte {
	if v.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return append(dst, 1)
		}
		return append(dst, 0)
	case types.PI32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.I32[i]))
	case types.PI64:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.I64[i]))
	case types.PI128:
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v.I128[i].Hi))
		return binary.LittleEndian.AppendUint64(dst, v.I128[i].Lo)
	case types.PF32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.F32[i]))
	case types.PF64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.F64[i]))
	case types.PBytes:
		b := v.Bytes(i)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b)))
		return append(dst, b...)
	}
	panic(fmt.Sprintf("BUG: a key of type %s", v.Type))
}

func revisionAt(v *vec.Vec, i int) int64 {
	switch v.Phys {
	case types.PI64:
		return v.I64[i]
	case types.PI32:
		return int64(v.I32[i])
	}
	return 0
}

// Note takes how far the results have come: at each checkpoint, and in between as often as it is known. Of
// the same checkpoint the last one counts.
func (l *Live) Note(p connector.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.past); n > 0 && l.past[n-1].Lineage == p.Lineage && l.past[n-1].Checkpoint == p.Checkpoint {
		l.past[n-1] = p
	} else {
		if n == liveHistory {
			l.past = slices.Delete(l.past, 0, liveHistory/2)
		}
		l.past = append(l.past, p)
	}
	l.changes++
}

// Restarted says that the job goes on from a checkpoint: rows that come now count more than those from
// before, whose revisions may be given again.
func (l *Live) Restarted() {
	l.mu.Lock()
	l.epoch++
	l.changes++
	l.mu.Unlock()
}

// held is how many keys are kept, at most, and how many went; and since when.
func (l *Live) held() (n, limit int, dropped int64, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows.N, l.limit, l.dropped, l.since
}

func (l *Live) version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// Query implements Reader.
func (l *Live) Query(_ context.Context, q results.Query) (*results.Rows, error) {
	if q.History {
		return nil, fmt.Errorf("memory holds the newest revision of each key only; ask the target for the history of table %s", l.table.Name)
	}
	rows, err := l.read(&q)
	if err != nil {
		return nil, err
	}
	out := &results.Rows{Columns: l.table.Columns, Rows: rows}
	if len(q.Group) > 0 || len(q.Sums) > 0 {
		if out, err = l.group(out, &q); err != nil {
			return nil, err
		}
	}
	if err := order(out, q.Order); err != nil {
		return nil, err
	}
	if q.Limit > 0 && len(out.Rows) > q.Limit {
		out.Rows = out.Rows[:q.Limit]
	}
	return out, nil
}

// read returns the rows that q asks for.
func (l *Live) read(q *results.Query) ([][]any, error) {
	s := l.table.Schema()
	gen, start := -1, -1
	if c := l.table.Results.Column["generation"]; c != "" && q.Generation != "" {
		gen = s.Index(c)
	}
	if c := l.table.Results.WindowStart; c != "" && (q.From != vec.MinTime || q.To != vec.MaxTime) {
		start = s.Index(c)
	}
	where := map[int]string{}
	for k, v := range q.Where {
		i := s.Index(k)
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %s", l.table.Name, k)
		}
		where[i] = v
	}
	text := make([]expr.Appender, s.Len())
	for i, f := range s.Fields {
		text[i] = expr.TextOf(f.Type, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][]any
next:
	for i := 0; i < l.rows.N; i++ {
		cols := l.rows.Cols
		if l.deleted >= 0 && !q.Deleted && !cols[l.deleted].IsNull(i) && cols[l.deleted].Bool[i] {
			continue
		}
		if gen >= 0 && string(cols[gen].Bytes(i)) != q.Generation {
			continue
		}
		if start >= 0 {
			if ms, ok := msOf(cellOf(cols[start], i, text[start])); !ok || ms < q.From || q.To != vec.MaxTime && ms >= q.To {
				continue
			}
		}
		for c, want := range where {
			if textOf(cellOf(cols[c], i, text[c])) != want {
				continue next
			}
		}
		row := make([]any, len(cols))
		for c, v := range cols {
			row[c] = cellOf(v, i, text[c])
		}
		out = append(out, row)
	}
	return out, nil
}

// cellOf is value i of v as results.Rows has it.
func cellOf(v *vec.Vec, i int, text expr.Appender) any {
	if v.IsNull(i) {
		return nil
	}
	switch v.Type.Kind {
	case types.Boolean, types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double:
		return v.Value(i)
	case types.Timestamp, types.TimestampLTZ:
		ms, nanos := expr.TimestampAt(v, i)
		return time.UnixMilli(ms).Add(time.Duration(nanos)).UTC()
	case types.Char, types.VarChar:
		return string(v.Bytes(i))
	case types.Binary, types.VarBinary:
		return fmt.Sprintf("%x", v.Bytes(i))
	}
	return string(text(nil, v, i))
}

// group adds rows up.
func (l *Live) group(in *results.Rows, q *results.Query) (*results.Rows, error) {
	s := types.Schema{Fields: in.Columns}
	out := &results.Rows{}
	var by, of []int
	for _, g := range q.Group {
		i := s.Index(g)
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %s", l.table.Name, g)
		}
		by, out.Columns = append(by, i), append(out.Columns, s.Fields[i])
	}
	for _, x := range q.Sums {
		i := s.Index(x.Column)
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %s", l.table.Name, x.Column)
		}
		t := s.Fields[i].Type
		switch {
		case x.Fn == "count":
			t = types.BigIntType
		case x.Fn == "avg":
			t = types.DoubleType
		}
		of, out.Columns = append(of, i), append(out.Columns, types.Field{Name: x.Fn + "_" + x.Column, Type: t})
	}
	type pile struct {
		row  []any
		sums []adder
	}
	piles := map[string]*pile{}
	var list []*pile
	for _, row := range in.Rows {
		k := strings.Builder{}
		for _, i := range by {
			fmt.Fprintf(&k, "%T %v\x00", row[i], row[i])
		}
		p := piles[k.String()]
		if p == nil {
			p = &pile{sums: make([]adder, len(of))}
			for j := range of {
				p.sums[j].fn = q.Sums[j].Fn
			}
			for _, i := range by {
				p.row = append(p.row, row[i])
			}
			piles[k.String()] = p
			list = append(list, p)
		}
		for j, i := range of {
			v := row[i]
			if q.Sums[j].Fn == "count" {
				v = int64(0)
				if row[i] != nil {
					v = int64(1)
				}
			}
			p.sums[j].add(v, 1)
		}
	}
	for _, p := range list {
		for j := range p.sums {
			p.row = append(p.row, p.sums[j].result())
		}
		out.Rows = append(out.Rows, p.row)
	}
	return out, nil
}

// order sorts rows by columns, "-" before those that descend.
func order(r *results.Rows, by []string) error {
	type column struct {
		at   int
		desc bool
	}
	var cols []column
	s := types.Schema{Fields: r.Columns}
	for _, n := range by {
		name, desc := strings.CutPrefix(n, "-")
		i := s.Index(name)
		if i < 0 {
			return fmt.Errorf("rows cannot be sorted by %s, which they do not have", name)
		}
		cols = append(cols, column{i, desc})
	}
	slices.SortStableFunc(r.Rows, func(a, b []any) int {
		for _, c := range cols {
			x := compareValues(a[c.at], b[c.at])
			if c.desc {
				x = -x
			}
			if x != 0 {
				return x
			}
		}
		return 0
	})
	return nil
}

// Progress implements Reader.
func (l *Live) Progress(_ context.Context, generation string, n int) ([]connector.Progress, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []connector.Progress
	for _, p := range slices.Backward(l.past) {
		if len(out) < n && (generation == "" || p.Generation == generation) {
			out = append(out, p)
		}
	}
	return out, nil
}

// Pointer implements Reader: memory holds what the job makes, whatever others read.
func (l *Live) Pointer(context.Context) (results.Pointer, error) { return results.Pointer{}, nil }

// Generations implements Reader.
func (l *Live) Generations(ctx context.Context) ([]results.Generation, error) {
	rows, err := l.read(&results.Query{From: vec.MinTime, To: vec.MaxTime})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	g := results.Generation{Name: l.table.Results.Generation, FirstWindow: math.MaxInt64, LastWindow: math.MinInt64}
	s := l.table.Schema()
	start := -1
	if c := l.table.Results.WindowStart; c != "" {
		start = s.Index(c)
	}
	for _, r := range rows {
		g.Keys++
		if rev, ok := r[l.rev].(int64); ok {
			g.Revisions += rev
		}
		if start >= 0 {
			if ms, ok := msOf(r[start]); ok {
				g.FirstWindow, g.LastWindow = min(g.FirstWindow, ms), max(g.LastWindow, ms)
			}
		}
	}
	return []results.Generation{g}, nil
}

// Corrected implements Reader: memory knows one generation.
func (l *Live) Corrected(context.Context, string, int64, int64, int64) ([]connector.MissedWindow, error) {
	return nil, nil
}

// Conflicts implements Reader: nobody looks for them in memory.
func (l *Live) Conflicts(context.Context) (int64, error) { return -1, nil }

// Records implements Reader.
func (l *Live) Records(context.Context, string) ([]results.Record, error) { return nil, nil }

var (
	_ Reader = (*Live)(nil)
	_ Reader = results.Store(nil)
)
