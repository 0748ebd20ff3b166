package clickhouse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/vec"
)

// Exactly-once into ClickHouse. Blocks are sealed into segments, which belong to the checkpoint. When
// the checkpoint is complete they are inserted, one after the other, each under a token of lineage,
// checkpoint and number. After a crash at any point they are inserted again, the same bytes under the
// same tokens, and the table drops those that it has. Tables keep a number of tokens only, so what went
// in is also noted in a progress table: at the end of each commit, and within a long one before the
// table could have forgotten its beginning.

// sealer writes the rows of one subtask into segments.
type sealer struct {
	connector.Sealer
	cutter
	bad func(format.BadRecord) error
	buf []byte
}

func newSealer(s *sink, cut cutter) *sealer {
	w := &sealer{Sealer: connector.Sealer{Segments: s.cfg.Segments}, cutter: cut, bad: s.cfg.Bad, buf: make([]byte, frameHead)}
	w.dst = func() []byte { return w.buf[:frameHead] }
	w.full = w.seal
	return w
}

// Write implements connector.Writer.
func (w *sealer) Write(ctx context.Context, b *vec.Batch) error {
	rows, err := w.enc.take(b, w.bad)
	if err != nil {
		return err
	}
	return w.add(ctx, b, rows)
}

// seal takes a block behind room for its length.
func (w *sealer) seal(_ context.Context, frame []byte, places *connector.Places) error {
	le.PutUint32(frame, uint32(len(frame)-frameHead))
	frame = append(frame, make([]byte, frameHead)...)
	at := len(frame)
	frame = places.Append(frame)
	le.PutUint32(frame[at-frameHead:], uint32(len(frame)-at))
	w.buf = frame
	seg, fresh, err := w.Segment()
	if err == nil && fresh {
		_, err = seg.Write([]byte(segmentMagic))
	}
	if err != nil {
		return err
	}
	_, err = seg.Write(frame)
	return err
}

// Prepare implements connector.Writer.
func (w *sealer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	if err := w.cut(ctx); err != nil {
		return nil, err
	}
	return w.Sealer.Prepare(ctx)
}

// committer inserts segments.
type committer struct {
	s        *sink
	mu       sync.Mutex
	insert   inserter        // guarded by mu
	progress string          // the quoted name of the progress table once it is known to be there; guarded by mu
	done     map[string]mark // by lineage, what is known to be in; guarded by mu
}

// mark says how far a lineage has come: all before the checkpoint are in, and blocks of its own.
type mark struct {
	checkpoint int64
	blocks     int64 // allBlocks for all
}

// allBlocks is the number of blocks of a checkpoint that is in as a whole.
const allBlocks = 1<<20 - 1

func (m mark) has(checkpoint, block int64) bool {
	return checkpoint < m.checkpoint || checkpoint == m.checkpoint && block < m.blocks
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	if len(cs) == 0 {
		return nil
	}
	return c.CommitProgress(ctx, id, cs, nil)
}

// CommitProgress implements connector.ProgressCommitter. Progress is noted behind the blocks that it tells of,
// and before the checkpoint is noted to be in.
func (c *committer) CommitProgress(ctx context.Context, id connector.CommitID, cs []connector.Committable, p *connector.Progress) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.commit(ctx, id, cs, p); err != nil {
		c.insert.close()
		return fmt.Errorf("commit to table '%s' of ClickHouse: %w", c.s.cfg.Options.Get("table-name"), err)
	}
	return nil
}

func (c *committer) commit(ctx context.Context, id connector.CommitID, cs []connector.Committable, p *connector.Progress) error {
	t, err := c.s.described(ctx)
	if err != nil {
		return err
	}
	m, err := c.known(ctx, t, id.Lineage)
	if err == nil {
		err = id.Overtaken(m.checkpoint)
	}
	if err != nil || m.has(id.Checkpoint, allBlocks-1) {
		return err
	}
	killpoint.Pass("commit/clickhouse-begun")
	noteEvery := t.noteEvery()
	n, noted := int64(0), int64(0)
	prefix := fmt.Sprintf("%s%s/%d/", c.s.prefix(), id.Lineage, id.Checkpoint)
	for _, sealed := range cs {
		err := c.segment(ctx, sealed, func(b []byte, o origins) error {
			if !m.has(id.Checkpoint, n) {
				if n-noted >= noteEvery {
					if err := c.note(ctx, id.Lineage, mark{id.Checkpoint, n}); err != nil {
						return err
					}
					noted = n
				}
				if err := c.insert.block(ctx, b, prefix+strconv.FormatInt(n, 10), o, 0); err != nil {
					return err
				}
				killpoint.Pass("commit/clickhouse-inserted")
			} else {
				noted = n + 1
			}
			n++
			return nil
		})
		if err != nil {
			return err
		}
	}
	if p != nil {
		if err := c.tell(ctx, t, p); err != nil {
			return err
		}
	}
	if len(cs) == 0 {
		return nil // to say so again costs less than to note it each time
	}
	return c.note(ctx, id.Lineage, mark{id.Checkpoint, allBlocks})
}

// tell notes the progress of a table of results, where that has the companion for it.
func (c *committer) tell(ctx context.Context, t *table, p *connector.Progress) error {
	if c.s.cfg.Table.Results == nil {
		return nil
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return connector.AsFatal(err)
	}
	row := progressRow(p, doc)
	into := row.into(quote(t.database) + "." + quote(t.name+"_progress"))
	err = c.insist(ctx, func() error { return hinted(c.insert.insert(ctx, into, c.s.c.inserting(t.settings), row.block())) })
	if err != nil {
		return fmt.Errorf("note progress: %w", err)
	}
	killpoint.Pass("commit/clickhouse-progress")
	return nil
}

// mostPartitions is how many partitions an insert may touch, as servers have it by default.
const mostPartitions = 100

// noteEvery is after how many blocks what is in is noted: long before the table has forgotten the first
// of them, of which it keeps a token a partition.
func (t *table) noteEvery() int64 {
	n := t.memory.blocks / 4
	if t.parted {
		n /= mostPartitions
	}
	return int64(max(1, min(64, n)))
}

// segment calls f with each block of a segment.
func (c *committer) segment(ctx context.Context, sealed connector.Committable, f func([]byte, origins) error) error {
	file, err := c.s.cfg.Segments.Open(ctx, sealed)
	if err != nil {
		return &connector.UnreadError{Err: err}
	}
	defer file.Close()
	r, err := readSegment(file)
	if err != nil {
		return connector.AsFatal(err)
	}
	for {
		b, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, errSegment):
			return connector.AsFatal(err)
		case err != nil:
			return err
		}
		if err := f(b, &sealedPlaces{block: b, raw: r.places}); err != nil {
			return err
		}
	}
}

// insist calls f until it succeeds or its failure lasts.
func (c *committer) insist(ctx context.Context, f func() error) error {
	for p := c.s.patience(); ; {
		err := f()
		if err == nil {
			return nil
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// known is what the progress table says of a lineage. It is asked for each time, as another run with a copy of
// the state may write it, but not where several hosts have a table each, of which one may be slow to answer: the
// one that knows most counts there.
func (c *committer) known(ctx context.Context, t *table, lineage string) (mark, error) {
	m, asked := c.done[lineage]
	if asked && (t.memory.shared || c.progress == "") {
		return m, nil
	}
	if !asked {
		m = mark{checkpoint: -1}
	}
	if c.s.cfg.Options.Get("sink.progress-table") != "" {
		if err := c.makeProgress(ctx, t); err != nil {
			return m, err
		}
		err := c.insist(ctx, func() error {
			now, err := c.ask(ctx, t, lineage)
			if err == nil && !m.has(now.checkpoint, now.blocks-1) {
				m = now
			}
			return err
		})
		if err != nil {
			return m, err
		}
	}
	c.done[lineage] = m
	return m, nil
}

// ask asks the hosts once. Of several, those that are away are left out: what they know the tokens tell.
func (c *committer) ask(ctx context.Context, t *table, lineage string) (mark, error) {
	m := mark{checkpoint: -1}
	hosts, answers := 1, 0
	if t.memory.shared {
		hosts = len(c.s.c.hosts)
	}
	sql := "SELECT toString(checkpoint), toString(blocks) FROM " + c.progress + " WHERE " + c.who(lineage) + " ORDER BY (checkpoint, blocks) DESC LIMIT 1"
	var failed error
	for h := range hosts {
		se := &session{c: c.s.c, at: h, stay: true}
		rows, err := se.query(ctx, sql)
		se.close()
		var no *serverError
		if hosts > 1 && errors.As(err, &no) && no.code == 60 {
			rows, err = nil, nil // that host has not made the table yet
		}
		if err != nil {
			failed = err
			continue
		}
		answers++
		for _, r := range rows {
			n, err1 := strconv.ParseInt(r[0], 10, 64)
			blocks, err2 := strconv.ParseInt(r[1], 10, 64)
			if err := errors.Join(err1, err2); err != nil {
				return m, err
			}
			if n > m.checkpoint || n == m.checkpoint && blocks > m.blocks {
				m = mark{n, blocks}
			}
		}
	}
	if answers > 0 {
		failed = nil
	}
	return m, failed
}

func (c *committer) who(lineage string) string {
	return "job = " + literal(c.s.cfg.Job) + " AND sink = " + literal(c.s.cfg.Node) + " AND lineage = " + literal(lineage)
}

// makeProgress makes the progress table where it is missing.
func (c *committer) makeProgress(ctx context.Context, t *table) error {
	if c.progress != "" {
		return nil
	}
	name := quote(t.database) + "." + quote(c.s.cfg.Options.Get("sink.progress-table"))
	// Rows of the same version are equal, so that it does not matter which of them a merge keeps.
	err := c.insist(ctx, func() error {
		found, err := c.insert.query(ctx, "SELECT name FROM system.tables WHERE database = "+literal(t.database)+" AND name = "+literal(c.s.cfg.Options.Get("sink.progress-table")))
		if err != nil || len(found) > 0 {
			return err
		}
		p := place{database: t.database, table: c.s.cfg.Options.Get("sink.progress-table")}
		var settings []setting
		if c.s.cfg.Options.Bool("sink.create") {
			p = placeOf(&config{database: p.database, table: p.table}, c.s.cfg.Options)
		}
		if p.cluster != "" {
			settings = onCluster
		}
		_, err = c.insert.query(ctx, "CREATE TABLE IF NOT EXISTS "+name+p.on()+` (
	job String, sink String, lineage String, checkpoint Int64, blocks UInt32, version UInt64, committed_at DateTime64(3, 'UTC')
) `+p.everywhere("ReplacingMergeTree", "version")+" ORDER BY (job, sink, lineage)", settings...)
		return err
	})
	if err != nil {
		return fmt.Errorf("table %s, which remembers the checkpoints that went in: %w; create it, or set 'sink.progress-table' = ''", name, err)
	}
	c.progress = name
	return nil
}

// note writes down how far a lineage has come.
func (c *committer) note(ctx context.Context, lineage string, m mark) error {
	if c.progress != "" {
		sql := fmt.Sprintf("INSERT INTO %s (job, sink, lineage, checkpoint, blocks, version, committed_at) SELECT %s, %s, %s, %d, %d, %d, fromUnixTimestamp64Milli(%d, 'UTC')",
			c.progress, literal(c.s.cfg.Job), literal(c.s.cfg.Node), literal(lineage), m.checkpoint, m.blocks, m.checkpoint<<20|m.blocks, time.Now().UnixMilli())
		err := c.insist(ctx, func() error {
			_, err := c.insert.query(ctx, sql)
			if se := (*serverError)(nil); errors.As(err, &se) && se.code == 60 && len(c.s.c.hosts) > 1 {
				c.progress = "" // another host, which has no such table yet
				if t, e := c.s.described(ctx); e == nil {
					err = c.makeProgress(ctx, t)
				}
				if err == nil {
					_, err = c.insert.query(ctx, sql)
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("note in %s: %w", strings.ReplaceAll(c.progress, "`", ""), err)
		}
		killpoint.Pass("commit/clickhouse-noted")
	}
	c.done[lineage] = m
	return nil
}

// Abort implements connector.Committer: segments that no checkpoint holds are nobody's.
func (c *committer) Abort(context.Context, []connector.Committable) error { return nil }

// Close implements connector.Committer.
func (c *committer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.insert.close()
	return nil
}
