package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// fakeFetcher answers with split@pos, or fails.
type fakeFetcher struct {
	fail   error
	closed int
}

func (f *fakeFetcher) Fetch(_ context.Context, split string, pos int64) ([]byte, error) {
	if pos < 0 {
		return nil, nil
	}
	return fmt.Appendf(nil, "%s@%d", split, pos), f.fail
}

func (f *fakeFetcher) Close() error { f.closed++; return nil }

// newTestRefetcher returns a refetcher over f, the letters of whose rows it completes, and its
// warnings.
func newTestRefetcher(f *fakeFetcher) (*deadLetters, *refetcher, *[]string) {
	warned := &[]string{}
	r := &refetcher{table: "t", start: time.Now(), warn: func(s string) { *warned = append(*warned, s) },
		open: func(context.Context) (connector.RecordFetcher, error) { return f, nil }}
	d := &deadLetters{j: &Job{ctx: context.Background()}, outs: map[string]deadOut{}, again: map[string]*refetcher{"t": r, "none": nil}}
	return d, r, warned
}

func TestRefetch_CompletesLetters(t *testing.T) {
	f := &fakeFetcher{}
	d, _, warned := newTestRefetcher(f)
	letter := func(table string, pos int64) *deadLetter {
		l := &deadLetter{}
		d.refetch(l, &vec.Origin{Source: table, Split: "s"}, pos)
		return l
	}
	if l := letter("t", 7); l.Record == nil || *l.Record != "s@7" || string(l.raw) != "s@7" || l.RecordError != "" {
		t.Errorf("the letter is %+v", l)
	}
	for _, l := range []*deadLetter{letter("none", 7), letter("t", -1)} { // a source that cannot; a record without value
		if l.Record != nil || l.raw != nil || l.RecordError != "" {
			t.Errorf("the letter is %+v", l)
		}
	}
	f.fail = errors.New("the file is gone")
	for range 3 {
		if l := letter("t", 7); l.Record != nil || l.raw != nil || l.RecordError != "the file is gone" {
			t.Errorf("the letter is %+v", l)
		}
	}
	if err := d.close(); err != nil || f.closed != 1 {
		t.Errorf("closed %d times: %v", f.closed, err)
	}
	if s := strings.Join(*warned, "\n"); len(*warned) != 2 || !strings.Contains(s, "the file is gone") || !strings.Contains(s, "3 dead letters") {
		t.Errorf("warnings:\n%s", s)
	}
}

// TestRefetch_TakesItsShareOfTimeOnly stops reading records again when that has taken too long, and
// begins again when the job has gone on for a while.
func TestRefetch_TakesItsShareOfTimeOnly(t *testing.T) {
	d, r, warned := newTestRefetcher(&fakeFetcher{})
	r.spent = refetchFree + time.Minute
	for range 1000 {
		if _, err := r.fetch(context.Background(), "s", 1); !errors.Is(err, errRefetchTime) {
			t.Fatalf("got %v", err)
		}
	}
	r.start = r.start.Add(-refetchShare * time.Minute)
	if b, err := r.fetch(context.Background(), "s", 1); err != nil || string(b) != "s@1" {
		t.Errorf("later: %q, %v", b, err)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if s := strings.Join(*warned, "\n"); len(*warned) != 2 || !strings.Contains(s, "1000 dead letters of table t") {
		t.Errorf("warnings:\n%s", s)
	}
}
