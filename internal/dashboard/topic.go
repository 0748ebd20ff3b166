package dashboard

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// DefaultTopicKeys is how many keys a Topic keeps where nobody says, and topicBytes how much memory their rows may
// take.
const (
	DefaultTopicKeys = 100_000
	topicBytes       = 256 << 20
)

// Topic holds the newest revision of each key and generation of a table of results that is a topic: whoever
// reads the topic gives it the rows (Add), and says how far that is (Behind, Failed, Again). It is read as a
// Reader; all methods may be called from several goroutines. Memory is bounded by keys and by bytes: the keys
// that were there first go first, and how many went is known.
//
// A topic has neither a pointer nor progress. The generation that counts is the newest one: that whose first
// record is the youngest. The watermark is the highest that a row carries. A cell is final where its row says
// so, or where a row of the same line (the key without the window) and generation carries a watermark that has
// passed the end of its window and the allowed lateness: both come from the same subtask, so nothing
// can follow. It takes a column with the metadata watermark.
type Topic struct {
	memory
	from  string
	times results.Times

	gen, watermark, start, end, flag int // columns, -1: none
	line                             []int

	gens      map[string]*topicGeneration // guarded by mu, as all that follows
	passed    map[string]int64            // by line: the highest watermark
	scratch   []byte
	behind    int64
	caught    bool // everything that was there when the reading began has been read
	conflicts int64
	err       error
}

// topicGeneration is what the rows of a generation say.
type topicGeneration struct {
	first, last int64 // times of records, ms
	rows        int64
	watermark   int64
}

// NewTopic returns an empty Topic of a table with Results; limit 0 is DefaultTopicKeys. from says in words where the
// reading begins, "" is the beginning of the topic.
func NewTopic(t *connector.Table, limit int, from string) *Topic {
	if limit <= 0 {
		limit = DefaultTopicKeys
	}
	s, r := t.Schema(), t.Results
	column := func(name string) int {
		if name == "" {
			return -1
		}
		return s.Index(name)
	}
	o := &Topic{from: from, times: results.TimesOf(r), gen: column(r.Column["generation"]), watermark: column(r.Column["watermark"]),
		start: column(r.WindowStart), end: column(r.WindowEnd), flag: column(r.Column["is_final"]), gens: map[string]*topicGeneration{}, passed: map[string]int64{},
		behind: -1}
	var more []string
	if o.gen >= 0 {
		more = append(more, r.Column["generation"])
		o.line = append(o.line, o.gen)
	}
	for _, k := range r.Key {
		if k != r.WindowStart && k != r.WindowEnd {
			o.line = append(o.line, s.Index(k))
		}
	}
	o.memory = newMemory(t, limit, more...)
	o.cells.maxBytes = topicBytes
	return o
}

// Add takes rows of the topic: the table's columns, and behind them the time of the record (TIMESTAMP_LTZ(3)). The
// batch is only read.
func (o *Topic) Add(b *vec.Batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &o.cells
	for _, row := range b.Selected() {
		i := int(row)
		o.note(b, i)
		slot, ok := c.find(b, i)
		if !ok {
			c.put(c.add(), b, i)
			continue
		}
		switch held, got := revisionAt(c.rows.Cols[c.rev], int(slot)), revisionAt(b.Cols[c.rev], i); {
		case got > held:
			c.stale++
			c.put(slot, b, i)
		case got == held && !o.same(slot, b, i):
			o.conflicts++ // the one that was there first stays
		}
	}
	c.tidy()
	o.changes++
}

// note takes from a row what it says of its generation and line.
func (o *Topic) note(b *vec.Batch, i int) {
	at, _ := expr.TimestampAt(b.Cols[len(o.table.Columns)], i)
	var name []byte
	if o.gen >= 0 {
		name = b.Cols[o.gen].Bytes(i)
	} else {
		name = append(o.scratch[:0], o.table.Results.Generation...)
		o.scratch = name
	}
	g := o.gens[string(name)]
	if g == nil {
		g = &topicGeneration{first: at, last: at, watermark: vec.MinTime}
		o.gens[string(name)] = g
	}
	g.first, g.last = min(g.first, at), max(g.last, at)
	g.rows++
	if o.watermark < 0 || b.Cols[o.watermark].IsNull(i) {
		return
	}
	wm, _ := expr.TimestampAt(b.Cols[o.watermark], i)
	g.watermark = max(g.watermark, wm)
	o.scratch = o.lineOf(o.scratch[:0], b, i)
	was, ok := o.passed[string(o.scratch)]
	switch {
	case ok && was >= wm:
	case !ok && len(o.passed) >= 2*o.cells.limit:
		clear(o.passed) // what is known of lines comes again with their next rows
		fallthrough
	default:
		o.passed[string(o.scratch)] = wm
	}
}

// lineOf appends what tells the line of a row from others.
func (o *Topic) lineOf(dst []byte, b *vec.Batch, i int) []byte {
	for _, k := range o.line {
		dst = appendKey(dst, b.Cols[k], i)
	}
	return dst
}

// same reports whether a slot holds the same as a row. It is asked for revisions that are there already only: after a
// reading that began again, and in a conflict.
func (o *Topic) same(slot int32, b *vec.Batch, i int) bool {
	c := &o.cells
	var x, y []byte
	for k, v := range c.rows.Cols {
		x, y = c.text[k](x[:0], v, int(slot)), c.text[k](y[:0], b.Cols[k], i)
		if v.IsNull(int(slot)) != b.Cols[k].IsNull(i) || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// final reports whether nothing corrects the row of a slot any more.
func (o *Topic) final(slot int) bool {
	rows := o.cells.rows
	if o.flag >= 0 && !rows.Cols[o.flag].IsNull(slot) && rows.Cols[o.flag].Bool[slot] {
		return true
	}
	end, ok := o.endOf(slot)
	if !ok || !o.caught {
		return false
	}
	o.scratch = o.lineOf(o.scratch[:0], rows, slot)
	wm, ok := o.passed[string(o.scratch)]
	return ok && o.times.Final(end, wm)
}

// endOf is where the window of a slot's row ends.
func (o *Topic) endOf(slot int) (int64, bool) {
	if o.end >= 0 {
		return o.cells.ms(o.end, slot)
	}
	if o.start < 0 {
		return 0, false
	}
	start, ok := o.cells.ms(o.start, slot)
	if !ok {
		return 0, false
	}
	return endOf(o.table.Results, start)
}

// Behind says how many records are left to read, -1 where that is not known. Once caught is set, all that was
// there when the reading began has been read.
func (o *Topic) Behind(n int64, caught bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if caught = caught || o.caught; caught != o.caught || n != o.behind && !caught || o.err != nil {
		o.changes++
	}
	o.behind, o.caught, o.err = n, caught, nil
}

// Failed says why the topic cannot be read at present.
func (o *Topic) Failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	o.changes++
}

// Again says that the topic is read from its beginning again. What is there stays until newer revisions come.
func (o *Topic) Again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conflicts, o.behind, o.caught = 0, -1, false
	for _, g := range o.gens {
		g.rows = 0
	}
	o.changes++
}

// newest is the generation that counts, "" where there is none yet. mu is held.
func (o *Topic) newest() string {
	best, at := "", int64(math.MinInt64)
	for name, g := range o.gens {
		if g.first > at || g.first == at && name > best {
			best, at = name, g.first
		}
	}
	return best
}

// held implements inMemory.
func (o *Topic) held() HeldStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.holds()
	h.Topic, h.From, h.Undated = true, o.from, o.watermark < 0
	if !o.caught {
		left := o.behind
		h.Behind = &left
	}
	return h
}

// Query implements Reader. Its rows have a last column, finalColumn.
func (o *Topic) Query(_ context.Context, q results.Query) (*results.Rows, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.Generation == "" {
		q.Generation = o.newest()
	}
	return o.cells.query(&q, o.final)
}

// Progress implements Reader: what the rows say.
func (o *Topic) Progress(_ context.Context, generation string, n int) ([]connector.Progress, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []connector.Progress
	for name, g := range o.gens {
		if generation == "" || generation == name {
			out = append(out, connector.Progress{Table: o.table.Name, Generation: name, Watermark: g.watermark, MaxTime: vec.MinTime, At: g.last, Rows: g.rows})
		}
	}
	slices.SortFunc(out, func(a, b connector.Progress) int { return strings.Compare(a.Generation, b.Generation) })
	return out[:min(n, len(out))], nil
}

// Pointer implements Reader: the newest generation counts. It is an error while the topic cannot be read.
func (o *Topic) Pointer(context.Context) (results.Pointer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The version makes a reader look at the generations again when there is one more.
	return results.Pointer{Version: int64(len(o.gens)), Default: o.newest()}, o.err
}

// Generations implements Reader.
func (o *Topic) Generations(context.Context) ([]results.Generation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []results.Generation
	for name := range o.gens {
		g, err := o.cells.generation(name)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b results.Generation) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Conflicts implements Reader: those of the keys in memory that came by.
func (o *Topic) Conflicts(context.Context, string) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conflicts, nil
}

// RecordTime is the column that Add wants behind those of the table.
var RecordTime = types.Field{Name: "record time", Type: types.TimestampLTZType(3)}

var (
	_ Reader   = (*Topic)(nil)
	_ inMemory = (*Topic)(nil)
)
