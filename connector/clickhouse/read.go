package clickhouse

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
)

// blocks is the answer to a SELECT. Its calls do not overlap.
type blocks interface {
	// next reads the next block into cols, which have the types asked, and returns its number of rows;
	// io.EOF at the end of the answer. It ends when the context of the SELECT does.
	next(cols []*cells, asked []string) (int, error)
	close()
}

// tail keeps the last bytes of what is read: a server that fails in the middle says so there.
type tail struct {
	r    io.Reader
	last []byte
}

const tailBytes = 16 << 10

// Read implements io.Reader.
func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.last = append(t.last, p[:n]...)
	if over := len(t.last) - tailBytes; over > tailBytes {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return n, err
}

// said is what the server says at the end of an answer that breaks off; nil if nothing.
func (t *tail) said() error {
	_, _ = io.CopyN(io.Discard, t, tailBytes) // what is left of the message, if it is one
	at := bytes.LastIndex(t.last, []byte("Code: "))
	if at < 0 {
		return nil
	}
	text := string(t.last[at:min(len(t.last), at+4000)])
	if code := codeIn(text); code != 0 && strings.Contains(text, "DB::Exception") {
		return &serverError{code, shorten(text)}
	}
	return nil
}

// httpBlocks are blocks in the body of an answer.
type httpBlocks struct {
	body io.Closer
	tail *tail
	r    *bufio.Reader
	end  error
}

func (s *httpServer) read(ctx context.Context, sql string) (blocks, error) {
	params := url.Values{"default_format": {"Native"}}
	if s.packer != nil {
		params.Set("compress", "1")
	}
	resp, err := s.send(ctx, params, []byte(sql))
	if err != nil {
		return nil, err
	}
	if code := codeOf(resp); code != 0 || resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return nil, answerError(resp.StatusCode, code, answer)
	}
	b := &httpBlocks{body: resp.Body, tail: &tail{r: resp.Body}}
	var content io.Reader = b.tail
	if s.packer != nil {
		content = compress.NewReader(content)
	}
	b.r = bufio.NewReaderSize(content, readAhead)
	return b, nil
}

const readAhead = 128 << 10

func (b *httpBlocks) next(cols []*cells, asked []string) (int, error) {
	for b.end == nil {
		n, err := readBlock(b.r, cols, asked)
		if err != nil && err != io.EOF {
			if said := b.tail.said(); said != nil {
				err = said
			}
		}
		if b.end = err; err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, b.end
}

func (b *httpBlocks) close() { b.body.Close() }

// nativeBlocks are blocks of the native protocol. The client calls back with each of them, from a goroutine
// that waits until it is asked for.
type nativeBlocks struct {
	cancel context.CancelFunc
	ask    chan want
	got    chan int // rows of the block
	over   chan struct{}
	err    error // of the SELECT; set before over is closed
	rows   int   // of the block at hand, in the client's goroutine
}

// want is where the next block goes.
type want struct {
	cols  []*cells
	asked []string
}

func (s *nativeServer) read(ctx context.Context, sql string) (blocks, error) {
	if !s.full {
		s.close()
		s.full = true // columns whose values are mostly defaults come in a form of their own otherwise
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &nativeBlocks{cancel: cancel, ask: make(chan want), got: make(chan int), over: make(chan struct{})}
	go func() {
		defer close(b.over)
		b.err = s.do(ctx, ch.Query{Body: sql, Result: b, OnResult: func(ctx context.Context, _ proto.Block) error { return b.give(ctx) }}, nil)
	}()
	return b, nil
}

// DecodeResult implements proto.Result.
func (b *nativeBlocks) DecodeResult(r *proto.Reader, version int, info proto.Block) error {
	b.rows = info.Rows
	if info.Rows == 0 { // names and types come first
		for range 2 * info.Columns {
			if _, err := readName(r); err != nil {
				return err
			}
		}
		return nil
	}
	w, ok := <-b.ask
	if !ok {
		return context.Canceled
	}
	if info.Columns != len(w.cols) {
		return errBlock
	}
	return readColumns(r, w.cols, w.asked, info.Rows)
}

// give hands the block at hand over.
func (b *nativeBlocks) give(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	select {
	case b.got <- b.rows:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *nativeBlocks) next(cols []*cells, asked []string) (int, error) {
	select {
	case b.ask <- want{cols, asked}:
	case <-b.over:
		return 0, b.ended()
	}
	select {
	case n := <-b.got:
		return n, nil
	case <-b.over:
		return 0, b.ended()
	}
}

func (b *nativeBlocks) ended() error {
	if b.err == nil {
		return io.EOF
	}
	return b.err
}

func (b *nativeBlocks) close() {
	b.cancel()
	close(b.ask)
	<-b.over
}
