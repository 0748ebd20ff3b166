package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

const (
	// openWithin is how long a server is waited for that has not answered yet: a wrong address should be
	// told soon. One that did answer gets all the attempts that there are.
	openWithin = 2 * time.Second
	// openPause bounds the pauses meanwhile.
	openPause = 300 * time.Millisecond
	// tellAfter is how long a server may be away until somebody is told, and tellAgain how often.
	tellAfter = 3 * time.Second
	tellAgain = time.Minute
)

// mood is what is known of how the server answers. Methods may be called from several goroutines.
type mood struct {
	mu       sync.Mutex
	tell     func(string)
	answered bool      // it has answered, ever
	asked    time.Time // for the first time
	away     time.Time // since when it does not answer; zero: it does
	told     time.Time // that it is away; zero: not told since it answered last
}

// Tell names who is told, from any goroutine, when the server is away for seconds, and when it is back.
func (s *Store) Tell(f func(msg string)) {
	s.mood.mu.Lock()
	defer s.mood.mu.Unlock()
	s.mood.tell = f
}

func (m *mood) ask() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
}

// new reports whether the server has never answered, and for how long it was asked.
func (m *mood) new() (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.answered, time.Since(m.asked)
}

// answer takes note of an answer of a server that works.
func (s *Store) answer() {
	m := &s.mood
	m.mu.Lock()
	m.answered = true
	since, told, tell := m.away, m.told, m.tell
	m.away, m.told = time.Time{}, time.Time{}
	m.mu.Unlock()
	if !told.IsZero() && tell != nil {
		tell(fmt.Sprintf("%s: the server is back after %s", s, time.Since(since).Round(time.Second)))
	}
}

// trouble takes note of a failure that should pass, after which there is a pause.
func (s *Store) trouble(err error, pause time.Duration) {
	m := &s.mood
	m.mu.Lock()
	now := time.Now()
	if m.away.IsZero() {
		m.away = now
	}
	tell, gone := m.tell, now.Sub(m.away)
	if gone+pause < tellAfter || now.Sub(m.told) < tellAgain {
		tell = nil
	} else {
		m.told = now
	}
	m.mu.Unlock()
	if tell != nil {
		tell(fmt.Sprintf("%s: waiting for the server (%v); it is asked again in %s", s, s.cause(err), pause.Round(time.Millisecond)))
	}
}

// patient decides what is tried again, and when.
type patient struct {
	*retry.Standard
	s *Store
}

// IsErrorRetryable implements aws.Retryer.
func (p patient) IsErrorRetryable(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) || !p.Standard.IsErrorRetryable(err) {
		return false
	}
	fresh, since := p.s.mood.new()
	return !fresh || since < openWithin
}

// RetryDelay implements aws.Retryer.
func (p patient) RetryDelay(attempt int, err error) (time.Duration, error) {
	d, e := p.Standard.RetryDelay(attempt, err)
	if fresh, _ := p.s.mood.new(); fresh {
		d = min(d, openPause)
	}
	if e == nil {
		p.s.trouble(err, d)
	}
	return d, e
}

// Do implements s3.HTTPClient. It counts what is really sent, retries included.
func (s *Store) Do(r *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	s.mood.ask()
	if fresh, _ := s.mood.new(); fresh {
		// One that takes the connection and says nothing.
		t := time.AfterFunc(tellAfter, func() { s.trouble(errors.New("no answer yet"), tellAfter) })
		defer t.Stop()
	}
	resp, err := s.c.HTTP.Do(r)
	if err == nil && resp.StatusCode < 500 {
		s.answer()
	}
	return resp, err
}

// cause is the core of an error of a request: what the system said of the connection, or the answer.
func (s *Store) cause(err error) error {
	var u *url.Error
	if status(err) == 0 && errors.As(err, &u) {
		return u.Err
	}
	return err
}

// server is where requests go, for people.
func (s *Store) server() string {
	if s.c.Endpoint != "" {
		return s.c.Endpoint
	}
	return "AWS, or where the environment says"
}

// unanswered explains an error of the connection; nil for others.
func (s *Store) unanswered(err error) error {
	var u *url.Error
	if status(err) != 0 || !errors.As(err, &u) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("the server (%s) does not answer: %w; see whether it runs, and whether 's3.endpoint' is right", s.server(), u.Err)
}
