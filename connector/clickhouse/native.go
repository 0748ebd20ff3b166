package clickhouse

import (
	"context"
	"errors"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
)

// nativeServer talks the native protocol, over one connection.
type nativeServer struct {
	c    *config
	host string
	full bool       // columns come whole: see read
	conn *ch.Client // nil: not connected
}

func newNative(c *config, host string) *nativeServer { return &nativeServer{c: c, host: host} }

func (s *nativeServer) close() {
	if s.conn != nil {
		_ = s.conn.Close() // it is of no more use, whatever this says
		s.conn = nil
	}
}

func (s *nativeServer) open(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	o := ch.Options{Address: s.host, Database: s.c.database, User: s.c.user, Password: s.c.password, TLS: s.c.tls, ClientName: "tidemark",
		DialTimeout: dialTimeout, HandshakeTimeout: dialTimeout, ReadTimeout: ch.NoTimeout}
	switch s.c.compress {
	case "lz4":
		o.Compression = ch.CompressionLZ4
	case "zstd":
		o.Compression = ch.CompressionZSTD
	}
	if s.full {
		o.ProtocolVersion = int(proto.FeatureCustomSerialization) - 1
	}
	conn, err := ch.Dial(ctx, o)
	if err != nil {
		return nativeError(err)
	}
	s.conn = conn
	return nil
}

// nativeError finds what the server has said.
func nativeError(err error) error {
	var e *ch.Exception
	if errors.As(err, &e) {
		return &serverError{int(e.Code), shorten(e.Message)}
	}
	return err
}

// do runs a query. A connection on which one failed is not used again: what else would come on it is
// not known.
func (s *nativeServer) do(ctx context.Context, q ch.Query, settings []setting) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	conn, own := s.conn, map[string]bool{}
	for _, x := range settings {
		own[x.name] = true
		q.Settings = append(q.Settings, ch.Setting{Key: x.name, Value: x.value, Important: true})
	}
	for k, v := range s.c.settings {
		if !own[k] {
			q.Settings = append(q.Settings, ch.Setting{Key: k, Value: v, Important: true})
		}
	}
	// The client looks at ctx between packets only, and its server may never send another one.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := conn.Do(ctx, q)
	stop()
	if err != nil {
		s.close()
		return nativeError(err)
	}
	return nil
}

func (s *nativeServer) query(ctx context.Context, sql string, settings []setting) ([][]string, error) {
	var out [][]string
	var cols proto.Results
	err := s.do(ctx, ch.Query{Body: sql, Result: cols.Auto(), OnResult: func(_ context.Context, b proto.Block) error {
		from := len(out)
		for range b.Rows {
			out = append(out, make([]string, len(cols)))
		}
		for k, c := range cols {
			text, ok := c.Data.(*proto.ColStr)
			if !ok {
				return errors.New("BUG: a column of the answer is no String: " + c.Name)
			}
			for i := range b.Rows {
				out[from+i][k] = text.Row(i)
			}
		}
		for _, c := range cols {
			c.Data.Reset()
		}
		return nil
	}}, settings)
	return out, err
}

func (s *nativeServer) insert(ctx context.Context, sql string, settings []setting, b []byte) error {
	blk, err := parseBlock(b)
	if err != nil {
		return err
	}
	in := make(proto.Input, len(blk.cols))
	for k, c := range blk.cols {
		in[k] = proto.InputColumn{Name: c.name, Data: rawColumn{c, blk.rows}}
	}
	return s.do(ctx, ch.Query{Body: sql + " VALUES", Input: in}, settings)
}

// rawColumn is a column whose values are encoded already.
type rawColumn struct {
	c    blockColumn
	rows int
}

// Type implements proto.ColInput.
func (r rawColumn) Type() proto.ColumnType { return proto.ColumnType(r.c.typ.name) }

// Rows implements proto.ColInput.
func (r rawColumn) Rows() int { return r.rows }

// EncodeColumn implements proto.ColInput.
func (r rawColumn) EncodeColumn(b *proto.Buffer) { b.PutRaw(r.c.values) }

// WriteColumn implements proto.ColInput.
func (r rawColumn) WriteColumn(w *proto.Writer) { w.ChainWrite(r.c.values) }
