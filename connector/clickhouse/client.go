package clickhouse

import (
	"context"
	"errors"
	"fmt"
)

// setting is a setting of one query.
type setting struct{ name, value string }

// server is one ClickHouse server, over one of its protocols. Its calls do not overlap.
type server interface {
	// query runs a statement and returns its rows as text, NULL as "". All columns must be strings.
	query(ctx context.Context, sql string, settings []setting) ([][]string, error)
	// insert adds a block. An error that is no serverError does not say whether it went in.
	insert(ctx context.Context, sql string, settings []setting, b []byte) error
	// read runs a SELECT whose blocks come as they are asked for. Nothing else is done meanwhile.
	read(ctx context.Context, sql string) (blocks, error)
	close()
}

// session talks to one of the servers at a time, and to the next one after a failure. It belongs to
// one goroutine.
type session struct {
	c    *config
	at   int    // which host
	srv  server // nil: not connected
	stay bool   // other hosts have other rows: never go to one
}

func (s *session) open() server {
	if s.srv == nil {
		if s.c.native {
			s.srv = newNative(s.c, s.c.hosts[s.at])
		} else {
			s.srv = newHTTP(s.c, s.c.hosts[s.at])
		}
	}
	return s.srv
}

// done looks at how a call went: after one that got no answer, or one that another host may serve
// better, the next call goes there.
func (s *session) done(err error) error {
	if err == nil {
		return nil
	}
	host := s.c.hosts[s.at]
	var se *serverError
	if !errors.As(err, &se) || classOf(err) == away {
		s.close()
		if !s.stay {
			s.at = (s.at + 1) % len(s.c.hosts)
		}
	}
	if errors.As(err, &se) && se.code == codeReadonly {
		err = fmt.Errorf("%w; user '%s' is read-only there (setting 'readonly' of the user or its profile): to write, it must be 0; "+
			"to read, leave out 'clickhouse.settings.*', or make it 2", err, s.c.user)
	}
	return fmt.Errorf("%s: %w", host, err)
}

// codeReadonly is the server's number for what a read-only user may not do.
const codeReadonly = 164

func (s *session) query(ctx context.Context, sql string, settings ...setting) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.timeout)
	defer cancel()
	rows, err := s.open().query(ctx, sql, settings)
	return rows, s.done(err)
}

func (s *session) insert(ctx context.Context, sql string, settings []setting, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.c.timeout)
	defer cancel()
	return s.done(s.open().insert(ctx, sql, settings, b))
}

// read runs a SELECT. The answer may take its time once it has begun.
func (s *session) read(ctx context.Context, sql string) (blocks, error) {
	b, err := s.open().read(ctx, sql)
	return b, s.done(err)
}

func (s *session) close() {
	if s.srv != nil {
		s.srv.close()
		s.srv = nil
	}
}
