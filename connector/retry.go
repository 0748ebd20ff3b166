package connector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// OpenWithin is how long a system that is away at the start of a job is waited for: a wrong address should
// be told soon, and a job that starts again has its own patience.
const OpenWithin = 2 * time.Second

// Patience counts the failures of what is tried again, for a sink that knows what each failure means. It
// belongs to one goroutine.
type Patience struct {
	Tries  int           // of failures that pass
	Within time.Duration // how long an absent system is waited for
	failed int           // in a row
	passed int           // failures that pass, in a row
	since  time.Time     // when the system went away
}

// Worked says that something went well, so that counting begins anew.
func (p *Patience) Worked() { p.failed, p.passed, p.since = 0, 0, time.Time{} }

// Away counts a failure of a system that is away. It returns for how long it has been, to the second, and
// whether that is too long.
func (p *Patience) Away() (gone time.Duration, over bool) {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	gone = time.Since(p.since)
	return gone.Round(time.Second), gone >= p.Within
}

// Passing counts a failure that should pass and reports whether there were too many.
func (p *Patience) Passing() (over bool) {
	p.passed++
	return p.passed > p.Tries
}

// Pause waits before the next try, longer each time; false: ctx ended.
func (p *Patience) Pause(ctx context.Context) bool {
	wait := min(50*time.Millisecond<<min(p.failed, 10), 5*time.Second)
	p.failed++
	return Pause(ctx, wait)
}

// Pause waits for half of wait to wait, so that those who failed together do not come back together; false:
// ctx ended.
func Pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait/2 + rand.N(wait/2+1)):
		return true
	}
}

// AsFatal marks err as one that no restart heals, once; nil stays nil.
func AsFatal(err error) error {
	var f *Fatal
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &Fatal{Err: err}
}

// Fatalf is AsFatal of fmt.Errorf.
func Fatalf(format string, args ...any) error { return AsFatal(fmt.Errorf(format, args...)) }
