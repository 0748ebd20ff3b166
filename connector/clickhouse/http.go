package clickhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/tidemark-stream/tidemark/connector"
)

// httpServer talks HTTP: a POST a statement, the block in its body.
type httpServer struct {
	c      *config
	base   url.URL
	client *http.Client
	packer *compress.Writer // nil: bodies are sent as they are
	body   []byte
}

const dialTimeout = 10 * time.Second

// maxAnswer bounds what is read of an answer: descriptions of tables and texts of errors.
const maxAnswer = 64 << 20

func newHTTP(c *config, host string) *httpServer {
	s := &httpServer{c: c, base: url.URL{Scheme: "http", Host: host, Path: c.path + "/"}}
	if c.tls != nil {
		s.base.Scheme = "https"
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:       c.tls,
			TLSHandshakeTimeout:   dialTimeout,
			MaxIdleConnsPerHost:   1,
			IdleConnTimeout:       3 * time.Second, // below the server's keep-alive, which is 10 s at least
			ResponseHeaderTimeout: c.timeout,
			DisableCompression:    true,
		},
		// The body must not be sent to where a server points; and an insert that comes as a GET is none.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	switch c.compress {
	case "lz4":
		s.packer = compress.NewWriter(compress.LevelZero, compress.LZ4)
	case "zstd":
		s.packer = compress.NewWriter(compress.LevelZero, compress.ZSTD)
	}
	return s
}

func (s *httpServer) close() { s.client.CloseIdleConnections() }

// send sends a statement and returns the answer, whose body is to be closed.
func (s *httpServer) send(ctx context.Context, params url.Values, body []byte) (*http.Response, error) {
	u := s.base
	for k, v := range s.c.settings {
		if !params.Has(k) {
			params.Set(k, v)
		}
	}
	params.Set("database", s.c.database)
	u.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, connector.AsFatal(err)
	}
	req.Header.Set("X-ClickHouse-User", s.c.user)
	if s.c.password != "" {
		req.Header.Set("X-ClickHouse-Key", s.c.password)
	}
	req.Header.Set("User-Agent", "tidemark")
	resp, err := s.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // not the URL, which is long
		}
		return nil, err
	}
	return resp, nil
}

// post sends a statement and returns the whole answer.
func (s *httpServer) post(ctx context.Context, params url.Values, body []byte) ([]byte, error) {
	resp, err := s.send(ctx, params, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if code := codeOf(resp); code != 0 || resp.StatusCode != http.StatusOK {
		return nil, answerError(resp.StatusCode, code, answer)
	}
	return answer, err
}

// codeOf is the number of the error that an answer is, 0 if none.
func codeOf(resp *http.Response) int {
	code, _ := strconv.Atoi(resp.Header.Get("X-ClickHouse-Exception-Code"))
	return code
}

// answerError turns an answer that is none into an error.
func answerError(status, code int, answer []byte) error {
	text := strings.TrimSpace(string(answer[:min(len(answer), 4000)]))
	if code == 0 {
		code = codeIn(text)
	}
	switch {
	case code != 0:
		return &serverError{code, shorten(text)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return connector.Fatalf("HTTP status %d: %s", status, shorten(text))
	case status >= 300 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
		return connector.Fatalf("HTTP status %d, which no ClickHouse server gives: %s; see whether 'url' is right (its HTTP port is 8123 unless configured)", status, shorten(text))
	}
	return fmt.Errorf("HTTP status %d: %s", status, shorten(text))
}

// codeIn finds the number in the text of an error: Code: 60. DB::Exception: ...
func codeIn(text string) int {
	rest, ok := strings.CutPrefix(text, "Code: ")
	if !ok {
		return 0
	}
	n, _, _ := strings.Cut(rest, ".")
	code, _ := strconv.Atoi(n)
	return code
}

// shorten leaves the message of an error: without its number, the program's version and stack.
func shorten(text string) string {
	if _, rest, ok := strings.Cut(text, "DB::Exception: "); ok {
		text = rest
	}
	for _, end := range []string{". Stack trace:", "Stack trace:", " (version "} {
		if at := strings.LastIndex(text, end); at > 0 {
			text = text[:at]
		}
	}
	text = strings.TrimSpace(text)
	if len(text) > 1000 {
		text = text[:1000] + "..."
	}
	return text
}

func (s *httpServer) query(ctx context.Context, sql string, settings []setting) ([][]string, error) {
	params := url.Values{"default_format": {"JSONCompactStringsEachRow"}, "wait_end_of_query": {"1"}}
	for _, x := range settings {
		params.Set(x.name, x.value)
	}
	answer, err := s.post(ctx, params, []byte(sql))
	if err != nil {
		return nil, err
	}
	var out [][]string
	for d := json.NewDecoder(bytes.NewReader(answer)); ; {
		var row []*string
		if err := d.Decode(&row); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("the server's answer is not understood: %w: %.200q", err, answer)
		}
		text := make([]string, len(row))
		for i, v := range row {
			if v != nil {
				text[i] = *v
			}
		}
		out = append(out, text)
	}
}

// packBytes is how much is compressed at a time: what the server has to hold of it.
const packBytes = 1 << 20

func (s *httpServer) insert(ctx context.Context, sql string, settings []setting, b []byte) error {
	params := url.Values{"query": {sql + " FORMAT Native"}, "wait_end_of_query": {"1"}}
	for _, x := range settings {
		params.Set(x.name, x.value)
	}
	if s.packer != nil {
		params.Set("decompress", "1")
		s.body = s.body[:0]
		for len(b) > 0 {
			n := min(len(b), packBytes)
			if err := s.packer.Compress(b[:n]); err != nil {
				return connector.AsFatal(err)
			}
			s.body = append(s.body, s.packer.Data...)
			b = b[n:]
		}
		b = s.body
	}
	_, err := s.post(ctx, params, b)
	return err
}
