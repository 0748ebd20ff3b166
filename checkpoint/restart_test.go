package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
)

func restartOptions(t *testing.T, config map[string]string) RestartOptions {
	t.Helper()
	o, err := ReadOptions(config)
	if err != nil {
		t.Fatal(err)
	}
	return o.Restart
}

func TestExponentialDelay(t *testing.T) {
	o := restartOptions(t, map[string]string{KeyInterval: "1 s"})
	if o.Strategy != ExponentialDelay || o.Attempts != math.MaxInt {
		t.Fatalf("default: %+v", o)
	}
	r := NewRestart(o)
	now := int64(1_000_000)
	fail := func(random float64) Decision { return r.Failed(now, errors.New("lost"), random) }
	// 1, 1.5, 2.25 ... s without jitter (random 0.5), a minute at most.
	for i, want := range []int64{1000, 1500, 2250, 3375, 5062, 7593, 11390, 17085, 25628, 38443, 57665, 60000, 60000} {
		d := fail(0.5)
		if !d.Restart || d.Delay.Milliseconds() != want || d.Attempt != i+1 {
			t.Fatalf("failure %d: %+v, want %d ms", i+1, d, want)
		}
		// Another failure while the restart is pending belongs to it.
		if e := r.Failed(now+100, errors.New("too"), 0.5); !e.Restart || e.Attempt != i+1 || e.Delay != d.Delay-100*time.Millisecond {
			t.Fatalf("failure %d, again: %+v", i+1, e)
		}
		now += d.Delay.Milliseconds() + 10
	}
	// Jitter: a tenth, and neither below the first nor above the longest delay.
	now += 3_600_000
	if d := fail(0); d.Delay != time.Second || d.Attempt != 1 {
		t.Fatalf("after an hour that went well: %+v", d)
	}
	now += 1010
	if d := fail(0); d.Delay.Milliseconds() != 1350 {
		t.Fatalf("least jitter: %+v", d)
	}
	now += 1360
	if d := fail(0.9999999); d.Delay.Milliseconds() != 2474 {
		t.Fatalf("most jitter: %+v", d)
	}
}

func TestExponentialDelayAttempts(t *testing.T) {
	r := NewRestart(restartOptions(t, map[string]string{"restart-strategy": "exponentialdelay",
		"restart-strategy.exponential-delay.attempts-before-reset-backoff": "2",
		"restart-strategy.exponential-delay.reset-backoff-threshold":       "10 s"}))
	now := int64(0)
	for i, restart := range []bool{true, true, false} {
		d := r.Failed(now, errors.New("lost"), 0.5)
		if d.Restart != restart {
			t.Fatalf("failure %d: %+v", i+1, d)
		}
		now += 5000
	}
	// Failures that the job recovered from for long enough do not count.
	r = NewRestart(r.o)
	for i := range 20 {
		if d := r.Failed(now, errors.New("lost"), 0.5); !d.Restart || d.Attempt != 1 {
			t.Fatalf("failure %d: %+v", i+1, d)
		}
		now += 11_000
	}
}

func TestFixedDelay(t *testing.T) {
	r := NewRestart(restartOptions(t, map[string]string{KeyStrategy: "fixed-delay", "restart-strategy.fixed-delay.attempts": "2",
		"restart-strategy.fixed-delay.delay": "7 s"}))
	for i, restart := range []bool{true, true, false} {
		d := r.Failed(int64(i)*1e9, errors.New("lost"), 0.5)
		if d.Restart != restart || restart && d.Delay != 7*time.Second {
			t.Fatalf("failure %d: %+v", i+1, d)
		}
		if !restart && d.Err.Error() != "lost; not restarted: 'restart-strategy.fixed-delay.attempts' = 2 restarts are used up" {
			t.Fatal(d.Err)
		}
	}
}

func TestFailureRate(t *testing.T) {
	r := NewRestart(restartOptions(t, map[string]string{KeyStrategy: "failure-rate",
		"restart-strategy.failure-rate.max-failures-per-interval": "2",
		"restart-strategy.failure-rate.failure-rate-interval":     "10 s",
		"restart-strategy.failure-rate.delay":                     "3 s"}))
	for _, f := range []struct {
		at      int64
		restart bool
	}{{0, true}, {6000, true}, {12000, true}, {18000, true}, {24001, true}, {28000, false}} {
		d := r.Failed(f.at, errors.New("lost"), 0.5)
		if d.Restart != f.restart || f.restart && d.Delay != 3*time.Second {
			t.Fatalf("failure at %d: %+v", f.at, d)
		}
	}
}

func TestNoRestart(t *testing.T) {
	for _, config := range []map[string]string{{}, {KeyInterval: "1 s", KeyStrategy: "off"}, {KeyStrategy: "disable"}, {"restart-strategy": "none"}} {
		d := NewRestart(restartOptions(t, config)).Failed(0, errors.New("lost"), 0)
		if d.Restart || !strings.Contains(d.Err.Error(), "lost; not restarted") {
			t.Errorf("%v: %+v", config, d)
		}
	}
}

// at is an error about a record.
type at struct{ pos string }

func (e *at) Error() string          { return "not a number" }
func (e *at) SourcePosition() string { return e.pos }

func TestHopelessFailures(t *testing.T) {
	o := restartOptions(t, map[string]string{KeyInterval: "1 s"})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"fatal":    {fmt.Errorf("sink t: %w", &connector.Fatal{Err: errors.New("wrong password")}), "sink t: wrong password; not restarted, since that would not help"},
		"bug":      {errors.New("BUG: index out of range"), "report it"},
		"bug deep": {fmt.Errorf("subtask 3: %w", errors.New("BUG: index out of range")), "report it"},
	} {
		d := NewRestart(o).Failed(0, c.err, 0)
		if d.Restart || !strings.Contains(d.Err.Error(), c.want) || !errors.Is(d.Err, c.err) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// computed is an error about a row that has no position.
type computed struct{ row, why string }

func (e *computed) Error() string          { return e.why }
func (e *computed) SourcePosition() string { return "" }
func (e *computed) BadRow() string         { return e.row }
func (e *computed) Complaint() string      { return e.why }

// TestSameRow has failures for rows that have no position: one that is the same each time ends the job
// whatever else happens, others only where no checkpoint is completed between them.
func TestSameRow(t *testing.T) {
	for _, c := range []struct {
		what   string
		fails  string // rows, each a letter; | is a checkpoint
		want   string // of the last one; "": restarted
		reason string // the same for all rows, or the row's
	}{
		{"the same row", "aaa", "not restarted: row a has made the job fail 3 times", "null"},
		{"the same row after checkpoints", "a|ab|a", "not restarted: row a has made the job fail 3 times", "null"},
		{"rows that count on", "abc", "not restarted: a row like row c has made the job fail 3 times", "null"},
		{"rows with checkpoints between", "ab|cd|ef|gh", "", "null"},
		{"rows with reasons of their own", "abcdefgh", "", ""},
	} {
		r := NewRestart(restartOptions(t, map[string]string{KeyInterval: "1 s", KeySameRecord: "3"}))
		for i, row := range c.fails {
			if row == '|' {
				r.Progressed()
				continue
			}
			why := c.reason
			if why == "" {
				why = string(row)
			}
			d := r.Failed(int64(i)*4_000_000, fmt.Errorf("sink: %w", &computed{"row " + string(row), why}), 0.5)
			if last := i == len(c.fails)-1; d.Restart != (!last || c.want == "") {
				t.Fatalf("%s: failure %d: %+v", c.what, i, d)
			} else if last && c.want != "" && !strings.Contains(d.Err.Error(), c.want) {
				t.Errorf("%s: %v", c.what, d.Err)
			}
		}
	}
}

func TestSameRecord(t *testing.T) {
	r := NewRestart(restartOptions(t, map[string]string{KeyInterval: "1 s", KeySameRecord: "3"}))
	now := int64(0)
	fail := func(pos string) Decision {
		now += 4_000_000
		return r.Failed(now, fmt.Errorf("orders: %w", &at{pos}), 0.5)
	}
	// Two poisoned records that fail in turns are found, records that fail once and unknown ones are not.
	for i, pos := range []string{"orders/0@7", "orders/1@9", "", "orders/0@7", "orders/2@1", "orders/1@9", "", "", ""} {
		if d := fail(pos); !d.Restart {
			t.Fatalf("failure %d: %+v", i, d)
		}
	}
	d := fail("orders/1@9")
	if d.Restart || d.Err.Error() != "orders: not a number; not restarted: orders/1@9 has made the job fail 3 times; give its "+
		"table a dead-letter output ('dead-letter.path' or 'dead-letter.table'), which takes such records, and start the job again" {
		t.Fatalf("%+v", d)
	}
	r = NewRestart(restartOptions(t, map[string]string{KeyInterval: "1 s", KeySameRecord: "0"}))
	for range 50 {
		if !fail("x@1").Restart {
			t.Fatal("0 means any number of times")
		}
	}
}
