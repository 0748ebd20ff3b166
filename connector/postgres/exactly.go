package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/vec"
)

// Exactly-once into PostgreSQL. Rows are sealed into a segment, which belongs to the checkpoint. When
// the checkpoint is complete, the segments of all subtasks go into the table in one transaction, which
// also notes the checkpoint in a row of the progress table, one a job, sink and lineage. Who commits
// first takes that row, and so waits for any other who does, also for one whose client is gone: then
// it says whether the checkpoint is in already. A COMMIT whose answer was lost is found out so.

// sealer writes the rows of one subtask into segments.
type sealer struct {
	connector.Sealer
	enc  *tuples
	rows rows
	buf  []byte
}

// Write implements connector.Writer.
func (w *sealer) Write(_ context.Context, b *vec.Batch) error {
	seg, fresh, err := w.Segment()
	if err != nil {
		return err
	}
	w.buf = w.buf[:0]
	if fresh {
		w.buf = w.enc.appendHeader(w.buf)
	}
	w.rows.reset()
	w.enc.rows(&w.rows, b)
	w.buf = appendFrames(w.buf, &w.rows)
	_, err = seg.Write(w.buf)
	return err
}

// begin starts a transaction. The isolation does not depend on what the database's default is; a
// server whose client is gone gives up the locks. Where rows are looked for that are refused,
// constraints must not wait for the COMMIT.
const (
	begin          = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = '60s'"
	beginCarefully = begin + "; SET CONSTRAINTS ALL IMMEDIATE"
)

// commit ends the transaction.
func (s *session) commit(ctx context.Context) (string, error) {
	tag, err := s.exec(ctx, "COMMIT")
	if err == nil && tag != "COMMIT" {
		err = errors.New("BUG: the transaction had failed, and COMMIT gave " + tag)
	}
	return tag, err
}

// committer puts segments into the table.
type committer struct {
	s        *sink
	mu       sync.Mutex
	session         // guarded by mu
	progress string // the quoted name of the progress table once it is known to be there; guarded by mu
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	if len(cs) == 0 {
		return nil
	}
	return c.CommitProgress(ctx, id, cs, nil)
}

// CommitProgress implements connector.ProgressCommitter.
func (c *committer) CommitProgress(ctx context.Context, id connector.CommitID, cs []connector.Committable, progress *connector.Progress) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.s.patience()
	t := transaction{c: c, id: id, cs: cs, progress: progress}
	fresh := false
	for {
		err := t.try(ctx)
		if err == nil {
			return nil
		}
		c.drop()
		switch class := classOf(err); {
		case (class == refused || class == clash) && !t.careful:
			t.careful = true
			continue
		case class == stale && !fresh:
			c.s.forget()
			fresh = true
			continue
		}
		if err := p.again(ctx, err); err != nil {
			return fmt.Errorf("commit to table '%s' of PostgreSQL: %w", c.s.cfg.Options.Get("table-name"), err)
		}
	}
}

// transaction is one commit, which may take several tries.
type transaction struct {
	c        *committer
	id       connector.CommitID
	cs       []connector.Committable
	progress *connector.Progress // of a table of results; nil: none
	careful  bool                // rows were refused: find out which
	row      int                 // rows of this try so far
	buf      rows
	refusals
}

func (t *transaction) try(ctx context.Context) error {
	c := t.c
	table, now, err := c.s.described(ctx)
	if err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.makeProgress(ctx, table.schema); err != nil {
		return err
	}
	start := begin
	if t.careful {
		start = beginCarefully
	}
	if _, err := c.exec(ctx, start); err != nil {
		return err
	}
	who := []string{c.s.cfg.Job, c.s.cfg.Node, t.id.Lineage}
	at, err := c.query(ctx, "INSERT INTO "+c.progress+" AS p (job, sink, lineage, checkpoint, committed_at) VALUES ($1, $2, $3, -1, now()) "+
		"ON CONFLICT (job, sink, lineage) DO UPDATE SET committed_at = p.committed_at RETURNING checkpoint", who...)
	if err != nil {
		return err
	}
	if done, err := strconv.ParseInt(at[0][0], 10, 64); err != nil {
		return fmt.Errorf("table %s: %w", c.progress, err)
	} else if err := t.id.Overtaken(done); err != nil {
		return err
	} else if done >= t.id.Checkpoint {
		_, err := c.exec(ctx, "ROLLBACK")
		return err
	}
	killpoint.Pass("commit/postgres-begun")
	t.row, t.found = 0, t.found[:0]
	for _, sealed := range t.cs {
		if err := t.segment(ctx, sealed, table, now); err != nil {
			return err
		}
	}
	if err := t.tell(c.s.cfg.Bad); err != nil {
		return err
	}
	if err := c.tell(ctx, table, t.progress); err != nil {
		return err
	}
	_, err = c.query(ctx, "UPDATE "+c.progress+" SET checkpoint = $4::text::bigint, committed_at = clock_timestamp() WHERE job = $1 AND sink = $2 AND lineage = $3",
		append(who, strconv.FormatInt(t.id.Checkpoint, 10))...)
	if err != nil {
		return err
	}
	killpoint.Pass("commit/postgres-noted")
	t.id.After = max(t.id.After, t.id.Checkpoint)
	_, err = c.session.commit(ctx)
	killpoint.Pass("commit/postgres-committed")
	return err
}

// segment sends the rows of one segment.
func (t *transaction) segment(ctx context.Context, sealed connector.Committable, table *table, now *tuples) error {
	file, err := t.c.s.cfg.Segments.Open(ctx, sealed)
	if err != nil {
		return &connector.UnreadError{Err: err}
	}
	defer file.Close()
	r, err := readSegment(file)
	if err != nil {
		return err
	}
	r.adopt(&now.shape)
	st := r.statements(table)
	if r.copies() && !t.careful {
		return t.c.copyFrom(ctx, st.copy, &tupleReader{r: r})
	}
	for {
		t.buf.reset()
		end := r.read(&t.buf, chunkRows, chunkBytes)
		if end != nil && end != io.EOF {
			return end
		}
		if err := t.chunk(ctx, &st, &r.shape); err != nil {
			return err
		}
		if end != nil {
			return nil
		}
	}
}

func (t *transaction) chunk(ctx context.Context, st *statements, sh *shape) error {
	n := t.buf.len()
	if n == 0 {
		return nil
	}
	if !t.careful {
		return t.c.ask(ctx, st, sh, &t.buf, 0, n)
	}
	err := t.c.split(ctx, st, sh, &t.buf, 0, n, func(i int, err error) { t.add(sh, t.row+i, &t.buf, i, err) })
	t.row += n
	return err
}

// adopt takes over what is known of the columns now, where the table has changed since the rows were
// sealed: SQL then turns them into the new types.
func (s *shape) adopt(now *shape) {
	for i := range s.cols {
		c := &s.cols[i]
		was := c.copies
		c.copies = false
		for _, n := range now.cols {
			if n.name == c.name {
				c.copies = was && n.copies && n.wire == c.wire
				c.cast = n.cast
			}
		}
	}
}

// tupleReader gives the tuples of a segment, one behind the other.
type tupleReader struct {
	r    *segmentReader
	rows rows
	at   int
	end  error
}

func (t *tupleReader) Read(p []byte) (int, error) {
	if t.at == len(t.rows.buf) {
		if t.end != nil {
			return 0, t.end
		}
		t.rows.reset()
		t.at = 0
		if t.end = t.r.read(&t.rows, chunkRows, 1<<18); t.end != nil && t.end != io.EOF {
			return 0, t.end
		}
	}
	n := copy(p, t.rows.buf[t.at:])
	t.at += n
	return n, nil
}

// makeProgress makes the progress table where it is missing.
func (c *committer) makeProgress(ctx context.Context, schema string) error {
	if c.progress != "" {
		return nil
	}
	parts, err := splitName(c.s.cfg.Options.Get("sink.progress-table"))
	if err != nil {
		return connector.AsFatal(err)
	}
	name := quote(parts[len(parts)-1].name)
	if len(parts) == 2 {
		name = quote(parts[0].name) + "." + name
	} else {
		name = quote(schema) + "." + name
	}
	found, err := c.query(ctx, "SELECT to_regclass($1)", name)
	if err != nil {
		return err
	}
	if found[0][0] == "" {
		_, err := c.exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+` (
	job text NOT NULL, sink text NOT NULL, lineage text NOT NULL,
	checkpoint bigint NOT NULL, committed_at timestamptz NOT NULL,
	PRIMARY KEY (job, sink, lineage))`)
		// Another sink may have made it at the same moment, which IF NOT EXISTS does not cover.
		if class := classOf(err); err != nil && class != refused {
			return fmt.Errorf("table %s, which remembers the checkpoints that went in: %w", name, err)
		}
	}
	c.progress = name
	return nil
}

// Abort implements connector.Committer: segments that no checkpoint holds are nobody's.
func (c *committer) Abort(context.Context, []connector.Committable) error { return nil }

// Close implements connector.Committer.
func (c *committer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	return nil
}
