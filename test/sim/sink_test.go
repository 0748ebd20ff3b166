package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{Name: sinkName, Options: []option.Spec{{Name: "world", Required: true}},
		SinkChangelog: func(t *connector.Table, _ option.Values) types.ChangelogMode {
			if len(t.PrimaryKey) > 0 {
				return types.Upsert
			}
			return types.Retract
		},
		Delivery: func(*connector.Table, option.Values) (connector.Delivery, string) {
			return connector.ExactlyOnce, "simulated"
		},
		NewSink: func(c connector.SinkConfig) (connector.Sink, error) {
			w, err := worldOf(c.Options)
			if err != nil {
				return nil, err
			}
			return &sink{l: w.life, t: w.target(c.Table), cfg: c}, nil
		}})
}

// target is what a sink writes to. It outlives the jobs.
type target struct {
	name  string
	keys  []int // of the primary key
	mu    sync.Mutex
	seen  map[connector.CommitID]string // the bytes of each commit
	last  map[string]int64              // the newest checkpoint by lineage
	rows  map[string]int                // folded
	byKey map[string]string             // with a primary key
	bad   []string

	// Of a table of results: where in a row the revision and the mark of deletion are, the newest revision
	// by key, and how many rows came.
	results           bool
	revision, deleted int
	revisions         map[string]int
	count             int64
	watermark         map[string]int64 // of the newest progress, by lineage
}

func newTarget(of *connector.Table) *target {
	t := &target{name: of.Name, seen: map[connector.CommitID]string{}, last: map[string]int64{}, rows: map[string]int{}, byKey: map[string]string{},
		revisions: map[string]int{}, watermark: map[string]int64{}}
	key := of.PrimaryKey
	if of.Results != nil {
		t.results, key = true, of.Results.Key
	}
	for i, c := range of.Columns {
		switch {
		case slices.Contains(key, c.Name):
			t.keys = append(t.keys, i)
		case t.results && c.Name == of.Results.Column["revision"]:
			t.revision = i
		case t.results && c.Name == of.Results.Column["is_deleted"]:
			t.deleted = i
		}
	}
	return t
}

func (t *target) wrong(format string, args ...any) {
	if s := "table " + t.name + ": " + fmt.Sprintf(format, args...); !slices.Contains(t.bad, s) {
		t.bad = append(t.bad, s)
	}
}

// commit takes the output of an epoch, once, and what is said beside it, which may be nil.
func (t *target) commit(id connector.CommitID, data string, p *connector.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := id.Overtaken(t.last[id.Lineage]); err != nil {
		t.wrong("commit %v is taken for one of another run, as there is %d", id, t.last[id.Lineage])
	}
	id.After = 0 // which tells no commits apart
	if was, ok := t.seen[id]; ok {
		if was != data {
			t.wrong("commit %v came with other bytes than before: %d, %d before", id, len(data), len(was))
		}
		return
	}
	if id.Checkpoint <= t.last[id.Lineage] {
		t.wrong("commit %v comes after that of %d", id, t.last[id.Lineage])
	}
	t.last[id.Lineage] = id.Checkpoint
	t.seen[id] = data
	for line := range strings.Lines(data) {
		t.apply(strings.TrimSuffix(line, "\n"))
	}
	if p == nil {
		return
	}
	// What is said belongs to the rows that are there, and does not go back.
	if p.Rows != t.count {
		t.wrong("commit %v says that %d rows were written, and %d came", id, p.Rows, t.count)
	}
	if was, ok := t.watermark[id.Lineage]; ok && p.Watermark < was {
		t.wrong("the watermark of commit %v is %d, after %d", id, p.Watermark, was)
	}
	t.watermark[id.Lineage] = p.Watermark
}

func (t *target) apply(line string) {
	kind, row := types.RowKind(line[0]-'0'), line[1:]
	if t.keys == nil {
		if kind.Retracts() {
			t.rows[row]--
		} else {
			t.rows[row]++
		}
		return
	}
	cells := strings.Split(row, "\t")
	key := ""
	for _, k := range t.keys {
		key += cells[k] + "\t"
	}
	t.count++
	if t.results {
		n, err := strconv.Atoi(cells[t.revision])
		if err != nil || kind != types.Insert || n != t.revisions[key]+1 {
			t.wrong("%s comes as %s %s, after revision %d", key, kind, cells[t.revision], t.revisions[key])
		}
		t.revisions[key] = n
		row = strings.Join(cells[:min(t.revision, t.deleted)], "\t") // the metadata come last
		if cells[t.deleted] == "true" {
			kind = types.Delete
		}
	}
	if kind.Retracts() {
		delete(t.byKey, key)
	} else {
		t.byKey[key] = row
	}
}

// result is the folded rows, sorted.
func (t *target) result() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for r, n := range t.rows {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s x %d", r, n))
		}
	}
	for _, r := range t.byKey {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

type sink struct {
	l   *life
	t   *target
	cfg connector.SinkConfig
}

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) { return connector.ExactlyOnce, "simulated" }

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(context.Context, int, int) (connector.Writer, error) {
	return &writer{s: s}, nil
}

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) { return &committer{s}, nil }

type writer struct {
	s   *sink
	seg connector.SegmentWriter
	buf bytes.Buffer // without segments
}

// Write implements connector.Writer.
func (w *writer) Write(_ context.Context, b *vec.Batch) error {
	if err := w.s.l.at("write"); err != nil {
		return err
	}
	out := io.Writer(&w.buf)
	if w.s.cfg.Segments != nil {
		if w.seg == nil {
			var err error
			if w.seg, err = w.s.cfg.Segments.Create(); err != nil {
				return err
			}
		}
		out = w.seg
	}
	var err error
	b.Each(func(i int) {
		cells := make([]string, len(b.Cols))
		for k, c := range b.Cols {
			cells[k] = fmt.Sprint(c.Value(i))
		}
		_, e := fmt.Fprintf(out, "%d%s\n", b.Kind(i), strings.Join(cells, "\t"))
		err = errors.Join(err, e)
	})
	return err
}

// Flush implements connector.Writer.
func (w *writer) Flush(context.Context) error { return nil }

// Prepare implements connector.Writer.
func (w *writer) Prepare(context.Context) ([]connector.Committable, error) {
	if err := w.s.l.at("prepare"); err != nil {
		return nil, err
	}
	switch {
	case w.s.cfg.Segments == nil && w.buf.Len() > 0:
		c := connector.Committable(slices.Clone(w.buf.Bytes()))
		w.buf.Reset()
		return []connector.Committable{c}, nil
	case w.seg == nil:
		return nil, nil
	}
	c, err := w.seg.Seal()
	w.seg = nil
	return []connector.Committable{c}, err
}

// Tick implements connector.Writer.
func (w *writer) Tick(context.Context) error { return nil }

// Close implements connector.Writer.
func (w *writer) Close() error {
	if w.seg != nil {
		return w.seg.Discard()
	}
	return nil
}

type committer struct{ s *sink }

var errAway = errors.New("the target is away")

// Commit implements connector.Committer: it may fail before anything happened, or after, or take
// long, or be the last thing that the process does.
func (c *committer) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	return c.CommitProgress(ctx, id, cs, nil)
}

// CommitProgress implements connector.ProgressCommitter.
func (c *committer) CommitProgress(ctx context.Context, id connector.CommitID, cs []connector.Committable, p *connector.Progress) error {
	l := c.s.l
	if err := l.at("commit"); err != nil {
		return err
	}
	switch {
	case l.fault("commit fails"):
		return errAway
	case l.fault("commit is slow"):
		time.Sleep(time.Duration(l.draw("delay of a commit", 200)) * time.Millisecond)
	}
	var all bytes.Buffer
	for _, x := range cs {
		if c.s.cfg.Segments == nil {
			all.Write(x)
			continue
		}
		r, err := c.s.cfg.Segments.Open(ctx, x)
		if err != nil {
			return err
		}
		_, err = io.Copy(&all, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	if l.dead.Load() {
		return errDead
	}
	c.s.t.commit(id, all.String(), p)
	if err := l.at("committed"); err != nil {
		return err
	}
	if l.fault("the answer to a commit is lost") {
		return errAway
	}
	return nil
}

// Abort implements connector.Committer.
func (c *committer) Abort(context.Context, []connector.Committable) error { return nil }

// Close implements connector.Committer.
func (c *committer) Close() error { return nil }
