package job

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// maxMissingProducers is how many of the missing ones a progress row names.
	maxMissingProducers = 20
	// maxCells bounds the results that are followed to count rows, of windows that are not over yet.
	maxCells = 1 << 22
)

// Expected is what must have been reported for the windows of a result: by whom, or how many rows.
type Expected struct {
	// Table is where it stands.
	Table string
	// Columns are columns of the result; a producer is the values that it has there.
	Columns []string
	// Start and End say that Due are for single windows, told by their start, their end or both.
	Start, End bool
	// Count is the column of the result that says how many rows it is made of; "": producers are due, not rows.
	Count string
	Due   []Due
}

// Due is a producer or a number of rows that is due.
type Due struct {
	// Start and End are the window in local time, ms, as far as Expected.Start and Expected.End say.
	Start, End int64
	// Producer is the values of Expected.Columns as CAST(... AS STRING) writes them, joined by ", ".
	Producer string
	Rows     int64
}

// completeness notes what the windows of a result have seen of what is expected: for the windows that are not over
// yet and the newest that is. Rows count when they are sealed, so that what it says belongs to the same
// checkpoint as they.
type completeness struct {
	names []string       // of the producers, sorted
	index map[string]int // by name
	// always is what is due in every window, by producer: 1 for a producer, or rows; nil where windows tells it.
	always  []int64
	windows map[[2]int64]map[int]int64 // what is due by window: start and end, 0 where not told apart by it
	listed  [][2]int64                 // windows of windows whose end is known, by end
	e       *Expected
	sum     string // tells lists of producers apart

	grid  *connector.WindowGrid
	cols  []int // of the sink's rows
	key   []int // columns of the sink's rows that tell results apart
	start int   // column of the window's start
	end   int   // of its end
	count int   // of the number of rows, or -1
	// deleted is the column that says that a row is no more, or -1: nobody reports by such a row.
	deleted int

	mu   sync.Mutex
	open map[[2]int64]*reported // by window, local time; guarded by mu, as all that follows
	// began is the lowest start of a window that had a row, vec.MaxTime before the first; first the first watermark that
	// was told. A window without rows counts where it is not from before the beginning.
	began, first int64
	// unknown is the end up to which windows may have been reported by others than names: the list has changed.
	unknown int64
	cells   int // in all of open
}

// follows reports whether each result is followed: where rows count, and where a result can be taken back, so that its
// producer may have none any more. Otherwise a producer has reported for good.
func (c *completeness) follows() bool { return c.count >= 0 || c.deleted >= 0 }

// reported is what a window has seen.
type reported struct {
	bits  []uint64              // a producer each
	cells map[xxh3.Uint128]cell // where results are followed: by their key
}

// cell is a result: whose it is, and how many rows it is made of; where producers are due 1, and 0 of one that is no
// more.
type cell struct {
	of   int32
	rows int64
}

// newCompleteness returns what follows what is expected of the sink of node n, whose table says which window a row is of.
func newCompleteness(n *plan.Node, t *connector.Table, e *Expected) (*completeness, error) {
	r := t.Results
	c := &completeness{index: map[string]int{}, open: map[[2]int64]*reported{}, e: e, grid: r.Windows, count: -1,
		start: n.Schema.Index(r.WindowStart), end: n.Schema.Index(r.WindowEnd), began: vec.MaxTime, first: vec.MinTime, unknown: vec.MinTime}
	c.deleted = n.Schema.Index(r.Column["is_deleted"])
	if e.Count != "" {
		c.count = n.Schema.Index(e.Count)
	}
	if c.follows() {
		for _, k := range r.Key {
			c.key = append(c.key, n.Schema.Index(k))
		}
	}
	for _, name := range e.Columns {
		c.cols = append(c.cols, n.Schema.Index(name))
	}
	if err := c.learn(e.Due); err != nil {
		return nil, fmt.Errorf("'tidemark.completeness.%s.expected' = '%s': %w", t.Name, e.Table, err)
	}
	return c, nil
}

// learn takes in what is due.
func (c *completeness) learn(due []Due) error {
	for _, d := range due {
		c.names = append(c.names, d.Producer)
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %q\x00", c.e.Columns, c.e.Count)
	for i, p := range c.names {
		c.index[p] = i
		_, _ = h.Write(append([]byte(p), 0))
	}
	c.sum = fmt.Sprintf("%016x", h.Sum64())
	if !c.e.Start && !c.e.End {
		c.always = make([]int64, len(c.names))
		for _, d := range due {
			c.always[c.index[d.Producer]] = c.plus(c.always[c.index[d.Producer]], d.Rows)
		}
		return nil
	}
	c.windows = map[[2]int64]map[int]int64{}
	for _, d := range due {
		w, err := c.window(d)
		if err != nil {
			return err
		}
		if c.windows[w] == nil {
			c.windows[w] = map[int]int64{}
		}
		at := c.index[d.Producer]
		c.windows[w][at] = c.plus(c.windows[w][at], d.Rows)
	}
	for w := range c.windows {
		switch {
		case c.e.Start && c.e.End:
			c.listed = append(c.listed, w)
		case c.grid != nil && c.e.End:
			c.listed = append(c.listed, [2]int64{c.grid.StartOf(w[1]), w[1]})
		case c.grid != nil && !c.grid.Cumulative:
			c.listed = append(c.listed, [2]int64{w[0], w[0] + c.grid.Size})
		}
	}
	slices.SortFunc(c.listed, newer)
	return nil
}

// plus adds what one more row of the table says to what is due: a producer that is named twice is due once.
func (c *completeness) plus(due, rows int64) int64 {
	if c.e.Count == "" {
		return 1
	}
	return due + rows
}

// newer orders windows by end, then by start.
func newer(a, b [2]int64) int { return slices.Compare([]int64{a[1], a[0]}, []int64{b[1], b[0]}) }

// dueIn is what is due in a window: by producer where always, else in a map.
func (c *completeness) dueIn(w [2]int64) (always []int64, some map[int]int64) {
	if c.always != nil {
		return c.always, nil
	}
	if !c.e.Start {
		w[0] = 0
	}
	if !c.e.End {
		w[1] = 0
	}
	return nil, c.windows[w]
}

// seen adds what a writer has sealed.
func (c *completeness) seen(windows map[[2]int64]*reported, began int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = min(c.began, began)
	for w, r := range windows {
		have := c.open[w]
		if have == nil {
			if c.count < 0 && r.empty() {
				continue // of a window of which nothing is known only what is no more
			}
			c.open[w] = r
			c.cells += len(r.cells)
			continue
		}
		for i, b := range r.bits {
			have.bits[i] |= b
		}
		c.cells -= len(have.cells)
		maps.Copy(have.cells, r.cells)
		c.cells += len(have.cells)
	}
	if c.cells > maxCells {
		return fmt.Errorf("more than %d results of windows that are not over have to be followed to tell what was reported; compare with a result of "+
			"fewer keys, or, where rows are counted, name producers instead", maxCells)
	}
	return nil
}

// empty reports whether all results are no more.
func (r *reported) empty() bool {
	for _, x := range r.cells {
		if x.rows > 0 {
			return false
		}
	}
	return r.bits == nil
}

// tell fills in p of the newest window that is over at its watermark, and forgets the windows before it. maxTime is
// the highest watermark of a split, also of one that has ended.
func (c *completeness) tell(p *connector.Progress, maxTime int64, zone *time.Location) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wm := localOf(p.Watermark, zone)
	if c.first == vec.MinTime && wm != vec.MaxTime {
		c.first = wm
	}
	w, ok := c.newest(wm, localOf(maxTime, zone))
	if !ok {
		return
	}
	p.DueRows, p.DueStart, p.DueEnd = c.count >= 0, w[0], w[1]
	got := c.gotIn(w)
	one := func(i int, due int64) {
		p.Expected += due
		p.Seen += min(got(i), due)
		if n := got(i); len(p.Missing) < maxMissingProducers && n != due && !(due > n && c.names[i] == "") {
			p.Missing = append(p.Missing, c.lacks(i, n, due))
		}
	}
	always, some := c.dueIn(w)
	for i, due := range always {
		one(i, due)
	}
	for _, i := range slices.Sorted(maps.Keys(some)) {
		one(i, some[i])
	}
	for o, r := range c.open {
		if o[1] < w[1] {
			c.cells -= len(r.cells)
			delete(c.open, o)
		}
	}
}

// lacks says what producer i has not.
func (c *completeness) lacks(i int, got, due int64) string {
	switch {
	case c.count < 0:
		return c.names[i]
	case c.names[i] == "":
		return fmt.Sprintf("%d of %d", got, due)
	}
	return fmt.Sprintf("%s: %d of %d", c.names[i], got, due)
}

// gotIn tells how much of what is due each producer has reported in window w.
func (c *completeness) gotIn(w [2]int64) func(i int) int64 {
	r := c.open[w]
	switch {
	case r == nil:
		return func(int) int64 { return 0 }
	case !c.follows():
		return func(i int) int64 { return int64(r.bits[i/64] >> (i % 64) & 1) }
	}
	rows := make([]int64, len(c.names))
	for _, x := range r.cells {
		if rows[x.of] += x.rows; c.count < 0 {
			rows[x.of] = min(rows[x.of], 1)
		}
	}
	return func(i int) int64 { return rows[i] }
}

// newest is the newest window that is over at watermark wm, in local time, and in which something is due. At the end
// of the input maxTime, the highest event time, is what windows without rows are over at.
func (c *completeness) newest(wm, maxTime int64) (out [2]int64, ok bool) {
	limit := wm
	if c.grid != nil {
		limit = before(wm, c.grid.Delay)
	}
	empty := limit
	if wm == vec.MaxTime {
		empty = maxTime
	}
	take := func(w [2]int64, limit int64) {
		if w[1]-1 > limit || w[1]-1 <= c.unknown || ok && newer(w, out) <= 0 {
			return
		}
		if always, some := c.dueIn(w); always != nil || some != nil {
			out, ok = w, true
		}
	}
	for w := range c.open {
		take(w, limit)
	}
	if empty == vec.MinTime || empty == vec.MaxTime {
		return out, ok
	}
	// Nothing is said of windows from before the beginning.
	since := func(w [2]int64) {
		if w[0] > c.began || c.first != vec.MinTime && w[1]-1 > c.first {
			take(w, empty)
		}
	}
	if i, _ := slices.BinarySearchFunc(c.listed, empty+1, func(w [2]int64, end int64) int {
		if w[1] <= end {
			return -1
		}
		return 1
	}); i > 0 {
		since(c.listed[i-1])
	}
	if c.grid != nil {
		start, end := c.grid.Last(empty + 1)
		since([2]int64{start, end})
	}
	return out, ok
}

// before is ms less by, at the ends of time these.
func before(ms, by int64) int64 {
	if ms == vec.MaxTime || ms < vec.MinTime+by {
		return ms
	}
	return ms - by
}

// localOf is an instant as the windows' clock shows it.
func localOf(ms int64, zone *time.Location) int64 {
	if zone == nil || ms == vec.MinTime || ms == vec.MaxTime {
		return ms
	}
	_, offset := time.UnixMilli(ms).In(zone).Zone()
	return ms + int64(offset)*1000
}

// savedCompleteness is its form in a manifest.
type savedCompleteness struct {
	Sum     string        `json:"sum"`
	Began   *int64        `json:"began,omitempty"`
	First   *int64        `json:"first,omitempty"`
	Unknown *int64        `json:"unknown,omitempty"`
	Windows []savedWindow `json:"windows"`
}

type savedWindow struct {
	Start int64    `json:"start"`
	End   int64    `json:"end"`
	Bits  []uint64 `json:"bits,omitempty"`
	// Cells has cellBytes for each: hash of the key, producer, rows, little endian.
	Cells string `json:"cells,omitempty"`
}

const cellBytes = 8 + 8 + 4 + 8

func (c *completeness) save() json.RawMessage {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := savedCompleteness{Sum: c.sum, Began: saved(c.began), First: saved(c.first), Unknown: saved(c.unknown)}
	for w, r := range c.open {
		var cells []byte
		for k, x := range r.cells {
			le := binary.LittleEndian
			cells = le.AppendUint64(le.AppendUint64(cells, k.Hi), k.Lo)
			cells = le.AppendUint64(le.AppendUint32(cells, uint32(x.of)), uint64(x.rows))
		}
		s.Windows = append(s.Windows, savedWindow{w[0], w[1], r.bits, base64.StdEncoding.EncodeToString(cells)})
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: completeness: " + err.Error())
	}
	return b
}

func saved(ms int64) *int64 {
	if ms == vec.MinTime || ms == vec.MaxTime {
		return nil
	}
	return &ms
}

// restore goes on from what a checkpoint has, whose progress is p. Where others were expected then, nothing is known
// of the windows that were over.
func (c *completeness) restore(b json.RawMessage, p *connector.Progress, zone *time.Location) error {
	if c == nil {
		return nil
	}
	var s savedCompleteness
	if len(b) > 0 {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	for _, x := range []struct{ to, from *int64 }{{&c.began, s.Began}, {&c.first, s.First}, {&c.unknown, s.Unknown}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	if s.Sum != c.sum {
		if wm := localOf(p.Watermark, zone); wm != vec.MaxTime {
			c.unknown = wm
		}
		return nil
	}
	windows := map[[2]int64]*reported{}
	for _, w := range s.Windows {
		r, err := c.reportedIn(w)
		if err != nil {
			return err
		}
		windows[[2]int64{w.Start, w.End}] = r
	}
	return c.seen(windows, c.began)
}

func (c *completeness) reportedIn(w savedWindow) (*reported, error) {
	r := c.nothing()
	switch {
	case r.bits == nil && c.count < 0 && len(w.Bits) == (len(c.names)+63)/64:
		// From before results were followed: nobody knows which ones these producers had.
		for i := range c.names {
			if w.Bits[i/64]>>(i%64)&1 != 0 {
				r.cells[xxh3.Uint128{Hi: uint64(i)}] = cell{int32(i), 1}
			}
		}
	case len(w.Bits) != len(r.bits):
		return nil, errors.New("completeness: another number of producers")
	}
	copy(r.bits, w.Bits)
	b, err := base64.StdEncoding.DecodeString(w.Cells)
	if err != nil || len(b)%cellBytes != 0 {
		return nil, errors.New("completeness: not a list of results")
	}
	for le := binary.LittleEndian; len(b) > 0; b = b[cellBytes:] {
		of := le.Uint32(b[16:])
		if int64(of) >= int64(len(c.names)) || r.cells == nil {
			return nil, errors.New("completeness: another number of producers")
		}
		r.cells[xxh3.Uint128{Hi: le.Uint64(b), Lo: le.Uint64(b[8:])}] = cell{int32(of), int64(le.Uint64(b[20:]))}
	}
	return r, nil
}

// nothing is a window of which nothing was seen.
func (c *completeness) nothing() *reported {
	if c.follows() {
		return &reported{cells: map[xxh3.Uint128]cell{}}
	}
	return &reported{bits: make([]uint64, (len(c.names)+63)/64)}
}
