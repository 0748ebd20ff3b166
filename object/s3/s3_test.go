package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/object/objecttest"
	"github.com/tidemark-stream/tidemark/object/s3"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// fake starts a server in this process and returns what reaches its bucket "test".
func fake(t testing.TB) s3.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it answers some requests twice
	server.Start()
	t.Cleanup(server.Close)
	return s3.Config{Bucket: "test", Prefix: "some/where", Endpoint: server.URL, Region: "us-east-1", Access: "k", Secret: "s",
		PathStyle: true, PartSize: 5 << 20, MaxPause: 5 * time.Millisecond}
}

func open(t testing.TB, c s3.Config) *s3.Store {
	t.Helper()
	s, err := s3.New(context.Background(), c)
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	s := open(t, fake(t))
	check(t, s.PutIfAbsent(t.Context(), "probe it first", nil))
	objecttest.Run(t, s, 11<<20)
	if s.Limits() != "" {
		t.Errorf("the server has conditional writes, and %s", s.Limits())
	}
}

// TestRealServer runs the suite with the server of test/peers/s3.
func TestRealServer(t *testing.T) {
	const port = "22333"
	servers := peers.New("S3_PORT="+port, "S3_BUCKETS=tidemark")
	t.Cleanup(func() { check(t, servers.Wipe()) })
	servers.Need(t, "s3")
	s, err := object.Open("s3://tidemark/suite", map[string]string{"s3.endpoint": "http://127.0.0.1:" + port,
		"s3.access-key": "test", "s3.secret-key": "testsecret", "some.other": "option"})
	check(t, err)
	check(t, s.PutIfAbsent(t.Context(), "probe it first", nil))
	t.Run("suite", func(t *testing.T) { objecttest.Run(t, s, 70<<20) })
	if l := object.LimitsOf(s); l != "" {
		t.Errorf("it has conditional writes, and %s", l)
	}
	part, err := object.Sub(s, "part")
	check(t, err)
	check(t, object.CopyTo(t.Context(), s, "v", part, "copied \u00fc %20+"))
	if got, err := part.Get(t.Context(), "copied \u00fc %20+", 0, -1); err != nil || string(got) != "23" {
		t.Errorf("copied inside the server: %q, %v", got, err)
	}
	wrong := open(t, s3.Config{Bucket: "tidemark", Endpoint: "http://127.0.0.1:" + port, Access: "test", Secret: "wrong", PathStyle: true, Region: "x"})
	if err := wrong.Put(t.Context(), "x", nil); err == nil || !strings.Contains(err.Error(), "s3.secret-key") {
		t.Errorf("with a wrong secret: %v", err)
	}
	none := open(t, s3.Config{Bucket: "not-there", Endpoint: "http://127.0.0.1:" + port, Access: "test", Secret: "testsecret", PathStyle: true, Region: "x"})
	if _, err := none.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "make the bucket first") {
		t.Errorf("without a bucket: %v", err)
	}
}

// doer is an HTTP client made of a function.
type doer func(*http.Request) (*http.Response, error)

// Do implements s3.HTTPDoer.
func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func answer(r *http.Request, status int, text string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/xml"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// TestRetries answers the first requests with what passes: it is tried again, and the file is read
// from its beginning.
func TestRetries(t *testing.T) {
	failures := map[string]func(*http.Request) (*http.Response, error){
		"busy": func(r *http.Request) (*http.Response, error) {
			return answer(r, 503, "<Error><Code>SlowDown</Code></Error>"), nil
		},
		"broken": func(r *http.Request) (*http.Response, error) { return answer(r, 500, ""), nil },
		"no connection": func(r *http.Request) (*http.Response, error) {
			return nil, &timeout{}
		},
		"half sent": func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				io.CopyN(io.Discard, r.Body, 3)
			}
			return nil, &timeout{}
		},
	}
	for name, fail := range failures {
		c := fake(t)
		left := 5
		c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
			if left > 0 {
				left--
				return fail(r)
			}
			left = 5
			return http.DefaultClient.Do(r)
		})
		s := open(t, c)
		check(t, s.Put(t.Context(), "o", []byte("content")))
		if n := s.Requests(); n != 6 {
			t.Errorf("%s: %d requests", name, n)
		}
		path := filepath.Join(t.TempDir(), "f")
		check(t, os.WriteFile(path, bytes.Repeat([]byte("0123456789"), 10_000), 0o644))
		check(t, s.PutFile(t.Context(), "f", path))
		if got, err := s.Get(t.Context(), "f", 99_995, 5); err != nil || string(got) != "56789" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

type timeout struct{}

func (*timeout) Error() string   { return "the connection is gone" }
func (*timeout) Timeout() bool   { return true }
func (*timeout) Temporary() bool { return true }

// TestGivesUp: what does not pass is not tried again, and what does not end ends.
func TestGivesUp(t *testing.T) {
	c := fake(t)
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		return answer(r, 403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"), nil
	})
	s := open(t, c)
	if err := s.Put(t.Context(), "o", nil); err == nil || s.Requests() != 1 || !strings.Contains(err.Error(), "s3://test/some/where/o") ||
		!strings.Contains(err.Error(), "the keys may not do this") {
		t.Errorf("%d requests: %v", s.Requests(), err)
	}
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) { return answer(r, 503, ""), nil })
	s = open(t, c)
	if err := s.Put(t.Context(), "o", nil); err == nil || s.Requests() != 8 {
		t.Errorf("%d requests: %v", s.Requests(), err)
	}
}

// TestLostAnswer loses the answer to a conditional write that was done: the retry finds the object
// there. The content tells whose it is.
func TestLostAnswer(t *testing.T) {
	c := fake(t)
	lose := false
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultClient.Do(r)
		if lose && r.Method == "PUT" {
			lose = false
			res.Body.Close()
			return nil, &timeout{}
		}
		return res, err
	})
	s := open(t, c)
	check(t, s.PutIfAbsent(t.Context(), "first", nil))
	lose = true
	if err := s.PutIfAbsent(t.Context(), "o", []byte("mine")); !errors.Is(err, object.ErrExists) {
		t.Errorf("got %v", err)
	}
	if got, err := s.Get(t.Context(), "o", 0, -1); err != nil || string(got) != "mine" {
		t.Errorf("there is %q, %v", got, err)
	}
}

// breaking ends bodies after some bytes, as a connection that is lost.
type breaking struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *breaking) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func TestBodiesThatBreak(t *testing.T) {
	c := fake(t)
	data := make([]byte, 100_000)
	for i := range data {
		data[i] = byte(i) ^ byte(i>>8)
	}
	whole := true
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultClient.Do(r)
		if err == nil && r.Method == "GET" && !whole {
			res.Body = &breaking{res.Body, 7000}
		}
		return res, err
	})
	s := open(t, c)
	check(t, s.Put(t.Context(), "o", data))
	whole = false
	for _, at := range []int64{0, 1, 50_000, 99_999} {
		f, err := s.Open(t.Context(), "o", at)
		check(t, err)
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, data[at:]) {
			t.Errorf("from %d on: %d bytes, %v", at, len(got), err)
		}
		f.Close()
	}
	if got, err := s.Get(t.Context(), "o", 20_000, 30_000); err != nil || !bytes.Equal(got, data[20_000:50_000]) {
		t.Errorf("a range: %d bytes, %v", len(got), err)
	}
	// An object that is replaced meanwhile is not put together from two.
	f, err := s.Open(t.Context(), "o", 0)
	check(t, err)
	check(t, s.Put(t.Context(), "o", make([]byte, 100_000)))
	if got, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// A body that never goes on ends.
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultClient.Do(r)
		if err == nil && r.Method == "GET" {
			res.Body = &breaking{res.Body, 0}
		}
		return res, err
	})
	if _, err := open(t, c).Get(t.Context(), "o", 0, -1); err == nil || !strings.Contains(err.Error(), "at byte 0") {
		t.Errorf("got %v", err)
	}
}

// TestServerWithoutConditions takes the condition off, or refuses it: it is found out and said, and
// writes one after the other still see each other.
func TestServerWithoutConditions(t *testing.T) {
	for name, change := range map[string]func(*http.Request) *http.Response{
		"takes no notice": func(r *http.Request) *http.Response { r.Header.Del("If-None-Match"); return nil },
		"refuses": func(r *http.Request) *http.Response {
			if r.Header.Get("If-None-Match") == "" {
				return nil
			}
			return answer(r, 501, "<Error><Code>NotImplemented</Code></Error>")
		},
	} {
		c := fake(t)
		var mu sync.Mutex
		c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			res := change(r)
			mu.Unlock()
			if res != nil {
				return res, nil
			}
			return http.DefaultClient.Do(r)
		})
		s := open(t, c)
		check(t, s.PutIfAbsent(t.Context(), "o", []byte("first")))
		if err := s.PutIfAbsent(t.Context(), "o", []byte("second")); !errors.Is(err, object.ErrExists) {
			t.Errorf("%s: the second got %v", name, err)
		}
		if l := object.LimitsOf(s); !strings.Contains(l, "If-None-Match") || !strings.Contains(l, "s3://test/some/where") {
			t.Errorf("%s: what it says is %q", name, l)
		}
		if list, err := s.List(t.Context(), ""); err != nil || len(list) != 1 {
			t.Errorf("%s: the probe left %v, %v", name, list, err)
		}
	}
}

// TestServerWithoutManyDeletes refuses to delete many at a time.
func TestServerWithoutManyDeletes(t *testing.T) {
	c := fake(t)
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		if r.Method == "POST" && r.URL.Query().Has("delete") {
			return answer(r, 501, "<Error><Code>NotImplemented</Code></Error>"), nil
		}
		return http.DefaultClient.Do(r)
	})
	s := open(t, c)
	check(t, s.Put(t.Context(), "a", nil))
	check(t, s.Put(t.Context(), "b", nil))
	check(t, s.Delete(t.Context(), "a", "none", "b"))
	if list, err := s.List(t.Context(), ""); err != nil || len(list) > 0 {
		t.Errorf("left are %v, %v", list, err)
	}
}

// TestPartsThatFail leaves no object and no upload.
func TestPartsThatFail(t *testing.T) {
	c := fake(t)
	var aborted bool
	c.HTTP = doer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("partNumber") == "2" {
			return answer(r, 403, "<Error><Code>AccessDenied</Code></Error>"), nil
		}
		aborted = aborted || r.Method == "DELETE" && r.URL.Query().Has("uploadId")
		return http.DefaultClient.Do(r)
	})
	s := open(t, c)
	path := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(path, make([]byte, 11<<20), 0o644))
	if err := s.PutFile(t.Context(), "f", path); err == nil {
		t.Error("it was written")
	}
	if _, err := s.Stat(t.Context(), "f"); !errors.Is(err, object.ErrNotFound) || !aborted {
		t.Errorf("%v, aborted: %v", err, aborted)
	}
}

func TestCopies(t *testing.T) {
	c := fake(t)
	a := open(t, c)
	c.Prefix = "other"
	b := open(t, c)
	check(t, a.Put(t.Context(), "x y", []byte("content")))
	before := a.Requests() + b.Requests()
	check(t, object.CopyTo(t.Context(), a, "x y", b, "z"))
	if n := a.Requests() + b.Requests() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	elsewhere := open(t, fake(t))
	check(t, object.CopyTo(t.Context(), b, "z", elsewhere, "w"))
	local := object.NewLocal(t.TempDir(), nil)
	check(t, object.CopyTo(t.Context(), elsewhere, "w", local, "v"))
	check(t, object.CopyTo(t.Context(), local, "v", a, "u"))
	if got, err := a.Get(t.Context(), "u", 0, -1); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	for _, to := range []object.Store{b, local} {
		if err := object.CopyTo(t.Context(), a, "nothing", to, "n"); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("copy of nothing to %s: %v", to, err)
		}
	}
}

func TestOpenLocation(t *testing.T) {
	server := httptest.NewServer(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "from-environment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	var path, auth string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, auth = r.URL.Path, r.Header.Get("Authorization")
		server.Config.Handler.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	for _, c := range []struct {
		location string
		given    map[string]string
		path     string
		auth     string
	}{
		{"s3://buck/a/b", map[string]string{"s3.endpoint": proxy.URL}, "/buck/a/b/o", "Credential=from-environment/"},
		{"s3a://buck", map[string]string{"s3.endpoint": proxy.URL, "s3.access.key": "k", "s3.secret.key": "y"}, "/buck/o", "Credential=k/"},
		{"s3p://buck/x/", map[string]string{"s3.endpoint": proxy.URL, "s3.access-key": "k2", "s3.secret-key": "y", "s3.endpoint.region": "eu-west-9"}, "/buck/x/o", "/eu-west-9/s3/"},
	} {
		s, err := object.Open(c.location, c.given)
		check(t, err)
		check(t, s.Put(t.Context(), "o", nil))
		if path != c.path || !strings.Contains(auth, c.auth) {
			t.Errorf("%s: written to %s by %s", c.location, path, auth)
		}
		if want := "s3" + strings.TrimRight(c.location[strings.Index(c.location, ":"):], "/"); s.String() != want {
			t.Errorf("%s says it is at %s", c.location, s)
		}
	}
	for location, want := range map[string]string{"s3://": "bucket is missing", "s3:///x": "bucket is missing", "s3://b/../x": "no part of it"} {
		if _, err := object.Open(location, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", location, err)
		}
	}
	if _, err := object.Open("s3://b", map[string]string{"s3.access-key": "k"}); err == nil || !strings.Contains(err.Error(), "s3.secret-key") {
		t.Errorf("half of the keys: %v", err)
	}
	if _, err := object.Open("s3://b", map[string]string{"s3.path.style.access": "maybe"}); err == nil || !strings.Contains(err.Error(), "true or false") {
		t.Errorf("a wrong option: %v", err)
	}
	if _, err := object.Open("gs://b", nil); err == nil || !strings.Contains(err.Error(), "s3://") {
		t.Errorf("another scheme: %v", err)
	}
}

func ExampleNew() {
	s, err := s3.New(context.Background(), s3.Config{Bucket: "lake", Prefix: "checkpoints", Region: "eu-central-1"})
	fmt.Println(s, err)
	// Output: s3://lake/checkpoints <nil>
}
