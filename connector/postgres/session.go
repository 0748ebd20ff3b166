package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// session is a connection that is made when it is needed. It belongs to one goroutine.
type session struct {
	config *pgconn.Config
	conn   *pgconn.PgConn // nil: none
	arrays arrays
	latest latest
}

func (s *session) open(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	conn, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return err
	}
	s.conn = conn
	return nil
}

// drop closes the connection; what was open on it is rolled back by the server.
func (s *session) drop() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // it is of no more use, whatever this says
	s.conn = nil
}

// exec runs statements without parameters and returns the last one's tag.
func (s *session) exec(ctx context.Context, sql string) (string, error) {
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return "", err
	}
	last := results[len(results)-1]
	return last.CommandTag.String(), last.Err
}

// query runs a statement with text parameters and returns its rows as text, NULL as "".
func (s *session) query(ctx context.Context, sql string, params ...string) ([][]string, error) {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	r := s.conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	out := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		for _, v := range row {
			out[i] = append(out[i], string(v))
		}
	}
	return out, nil
}

// probe lets the server check a statement, names, types and rights, without running it.
func (s *session) probe(ctx context.Context, sql string, sh *shape, cols []int) error {
	s.arrays.begin(sh, cols)
	nulls := make([][]byte, len(cols))
	return s.conn.ExecParams(ctx, "EXPLAIN (COSTS off) "+sql, nulls, s.arrays.oids, s.arrays.format, nil).Read().Err
}

// unnest runs a statement over the given rows of r.
func (s *session) unnest(ctx context.Context, sql string, sh *shape, cols []int, r *rows, which []int32) error {
	if len(which) == 0 {
		return nil
	}
	s.arrays.begin(sh, cols)
	for _, i := range which {
		if err := s.arrays.add(sh, cols, r.tuple(int(i))); err != nil {
			return err
		}
	}
	s.arrays.finish()
	_, err := s.conn.ExecParams(ctx, sql, s.arrays.cols, s.arrays.oids, s.arrays.format, nil).Close()
	return err
}

// COPY's binary format around the tuples: a signature, flags, the length of an extension; -1.
var (
	copyHeader  = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	copyTrailer = []byte{0xff, 0xff}
)

// copyFrom adds the tuples that r gives.
func (s *session) copyFrom(ctx context.Context, sql string, r io.Reader) error {
	source := &watched{r: r}
	_, err := s.conn.CopyFrom(ctx, io.MultiReader(bytes.NewReader(copyHeader), source, bytes.NewReader(copyTrailer)), sql)
	if source.err != nil {
		return source.err // and not what the server says of a copy that we gave up
	}
	return err
}

// watched remembers the error of a reader.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// ask sends rows lo..hi-1 of r in at most two statements, which touch no row of the table twice.
func (s *session) ask(ctx context.Context, st *statements, sh *shape, r *rows, lo, hi int) error {
	if !sh.upserts() {
		if sh.copies() {
			return s.copyFrom(ctx, st.copy, bytes.NewReader(r.buf[r.from(lo):r.ends[hi-1]]))
		}
		which := s.latest.last[:0]
		for i := lo; i < hi; i++ {
			which = append(which, int32(i))
		}
		s.latest.last = which
		return s.unnest(ctx, st.insert, sh, st.all, r, which)
	}
	last, err := s.latest.find(sh, r, lo, hi)
	if err != nil {
		return err
	}
	// Deletions come first: a row that comes may need what one that goes held, in another unique
	// index. The keys are different ones.
	puts := len(last)
	for at := 0; at < puts; {
		if r.gone[last[at]] {
			puts--
			last[at], last[puts] = last[puts], last[at]
			continue
		}
		at++
	}
	if err := s.unnest(ctx, st.remove, sh, st.keys, r, last[puts:]); err != nil {
		return err
	}
	return s.unnest(ctx, st.insert, sh, st.all, r, last[:puts])
}

// split sends rows lo..hi-1 inside an open transaction and finds the rows that the server refuses
// for what they are, by halves: each part runs under a savepoint. It returns an error only where
// something else is wrong.
func (s *session) split(ctx context.Context, st *statements, sh *shape, r *rows, lo, hi int, bad func(i int, err error)) error {
	if _, err := s.exec(ctx, "SAVEPOINT tidemark"); err != nil {
		return err
	}
	err := s.ask(ctx, st, sh, r, lo, hi)
	if err == nil {
		_, err = s.exec(ctx, "RELEASE SAVEPOINT tidemark")
		return err
	}
	if c := classOf(err); c != refused && (c != clash || hi-lo == 1) {
		return err
	}
	if _, e := s.exec(ctx, "ROLLBACK TO SAVEPOINT tidemark; RELEASE SAVEPOINT tidemark"); e != nil {
		return e
	}
	if hi-lo == 1 {
		bad(lo, err)
		return nil
	}
	mid := lo + (hi-lo)/2
	if err := s.split(ctx, st, sh, r, lo, mid, bad); err != nil {
		return err
	}
	return s.split(ctx, st, sh, r, mid, hi, bad)
}

// Rows of one statement: more make it no faster, and the server holds their arrays in memory.
const (
	chunkRows  = 4096
	chunkBytes = 4 << 20
)
