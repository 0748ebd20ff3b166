package s3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/object"
)

func storeAt(t *testing.T, endpoint string) *Store {
	t.Helper()
	s, err := New(t.Context(), Config{Bucket: "b", Endpoint: endpoint, Region: "x", Access: "k", Secret: "s", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.idle)
	return s
}

// TestWrongEndpoint says soon what is wrong with an address at which no server of S3 is.
func TestWrongEndpoint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, c := range []struct {
		endpoint string
		hopeless bool
		want     []string
	}{
		{"http://" + l.Addr().String(), false, []string{"list s3://b/", "the server (http://" + l.Addr().String() + ") does not answer", "refused", "'s3.endpoint'"}},
		{strings.TrimPrefix(plain.URL, "http://"), true, []string{"list s3://b/", "without TLS", "'http://'"}},
	} {
		from := time.Now()
		_, err := storeAt(t, c.endpoint).List(t.Context(), "")
		if took := time.Since(from); err == nil || took > openWithin+3*time.Second {
			t.Errorf("%s: after %s: %v", c.endpoint, took, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in: %v", c.endpoint, w, err)
			}
		}
		var h *object.Hopeless
		if errors.As(err, &h) != c.hopeless {
			t.Errorf("%s: %T", c.endpoint, err)
		}
	}
}

// TestTellsThatTheServerIsAway has a server that answered before go away for longer than nobody notices.
func TestTellsThatTheServerIsAway(t *testing.T) {
	fail := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fail {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	s := storeAt(t, server.URL)
	s.c.MaxPause = time.Millisecond
	var told []string
	s.Tell(func(msg string) { told = append(told, msg) })
	gone := errors.New("connection refused")
	s.trouble(gone, 0)
	if len(told) > 0 {
		t.Errorf("told of a moment: %q", told)
	}
	s.mood.away = s.mood.away.Add(-tellAfter)
	s.trouble(gone, time.Second)
	s.trouble(gone, time.Second)
	if len(told) != 1 || !strings.Contains(told[0], "s3://b: waiting for the server (connection refused); it is asked again in 1s") {
		t.Errorf("told %q", told)
	}
	fail = false
	if err := s.Delete(context.Background(), "x"); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !strings.Contains(told[1], "the server is back after 3s") {
		t.Errorf("told %q", told)
	}
	if fresh, _ := s.mood.new(); fresh {
		t.Error("it has answered, and is taken for new")
	}
}
