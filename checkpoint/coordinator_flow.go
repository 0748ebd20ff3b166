package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
)

// event begins the handling of an event and reports whether events still matter.
func (c *Coordinator) event() bool {
	if !c.begun {
		panic("BUG: an event before Begin")
	}
	c.actions = c.actions[:0]
	return !c.over
}

// answer begins the handling of an answer about the checkpoint in flight.
func (c *Coordinator) answer(id int64, at stage) bool {
	if !c.event() {
		return false
	}
	if c.flight.stage != at || c.flight.id != id {
		panic(fmt.Sprintf("BUG: an answer about checkpoint %d, stage %d, while %d is in flight, stage %d", id, at,
			c.flight.id, c.flight.stage))
	}
	return true
}

// answerCommit begins the handling of an answer about a commit.
func (c *Coordinator) answerCommit(id int64) bool {
	if !c.event() {
		return false
	}
	if !c.commit.busy || c.epochs[0] != id {
		panic(fmt.Sprintf("BUG: an answer about the commit of epoch %d, which nobody asked for", id))
	}
	return true
}

func (c *Coordinator) act(a Action) { c.actions = append(c.actions, a) }

// settle ends the handling of an event: whatever is due by now is done.
func (c *Coordinator) settle(nowMs int64) []Action {
	c.finish(nowMs)
	c.pumpCommits(nowMs)
	c.watch(nowMs)
	c.start(nowMs)
	if !c.over {
		if at := c.due(); at != c.timerMs && at != never {
			c.act(Action{Do: DoTimer, AtMs: at})
			c.timerMs = at
		} else if at == never {
			c.timerMs = never
		}
	}
	return c.actions
}

// pumpCommits commits the oldest epoch if it is its time.
func (c *Coordinator) pumpCommits(nowMs int64) {
	l := &c.commit
	if c.over || len(c.epochs) == 0 || c.epochs[0] > c.inPlace {
		return
	}
	if c.o.CommitTimeout > 0 && l.begun() && nowMs-l.sinceMs >= c.o.CommitTimeout.Milliseconds() {
		err := l.err
		if err == nil {
			err = errors.New("the target has not answered")
		}
		c.fail(fmt.Errorf("the output of checkpoint %d was not committed within '%s' = %s: %w; see to the target: the "+
			"next start commits it", c.epochs[0], KeyCommitTimeout, c.o.CommitTimeout, err))
		return
	}
	if l.busy || l.tries > 0 && nowMs < l.retryMs {
		return
	}
	if l.tries == 0 {
		l.sinceMs = nowMs
	}
	l.busy = true
	c.act(Action{Do: DoCommit, ID: c.epochs[0]})
}

// watch abandons the checkpoint in flight when it takes too long.
func (c *Coordinator) watch(nowMs int64) {
	f := &c.flight
	if c.over || f.stage == landed || nowMs < f.limitMs {
		return
	}
	if f.abandoned {
		c.fail(fmt.Errorf("checkpoint %d was abandoned after %s and has not ended after %s more: the job is stuck", f.id,
			c.o.Timeout, c.o.Timeout))
		return
	}
	f.abandoned = true
	f.limitMs = nowMs + c.o.Timeout.Milliseconds()
	c.act(Action{Do: DoAbandon, ID: f.id})
}

// missed ends an attempt that failed.
func (c *Coordinator) missed(nowMs int64, err error) {
	f := c.flight
	c.flight = flight{}
	c.endMs = nowMs
	if f.abandoned {
		err = fmt.Errorf("it took longer than '%s' = %s: %w", KeyTimeout, c.o.Timeout, err)
	}
	err = fmt.Errorf("%s %d failed: %w", f.kind.noun(), f.id, err)
	if f.kind != Periodic && f.kind != Final {
		c.act(Action{Do: DoReport, ID: f.id, Kind: f.kind, Ref: f.ref, Err: err})
	}
	var fatal *connector.Fatal
	switch {
	case errors.As(err, &fatal):
		c.fail(err)
	case f.kind == Savepoint:
	case f.kind == Stop:
		c.act(Action{Do: DoResume, ID: f.id})
	case f.kind == Drain:
		c.fail(fmt.Errorf("%w; the end of time was sent through the job, which cannot be taken back", err))
	default:
		if c.failures++; c.failures > c.o.TolerableFailures {
			c.fail(fmt.Errorf("%w; '%s' = %d allows no more in a row", err, KeyTolerable, c.o.TolerableFailures))
		} else if f.kind == Final {
			c.requests = slices.Insert(c.requests, 0, f.request)
			c.finalTries++
		}
	}
}

func (k Kind) noun() string {
	switch k {
	case Savepoint, Stop, Drain:
		return "savepoint"
	case Final:
		return "the last checkpoint, number"
	}
	return "checkpoint"
}

// end notes that the job ends as soon as its output is committed.
func (c *Coordinator) end(nowMs int64, k Kind) {
	c.ending = k
	c.untilMs = never
	if k != Final {
		c.untilMs = nowMs + c.o.Timeout.Milliseconds()
	}
	for _, r := range c.requests {
		if r.kind != Final {
			c.act(Action{Do: DoReport, Kind: r.kind, Ref: r.ref, Err: errors.New("the job has stopped")})
		}
	}
	c.requests = nil
}

// finish ends the job when it is time.
func (c *Coordinator) finish(nowMs int64) {
	switch {
	case c.over || c.ending == Periodic:
	case len(c.epochs) == 0 || c.epochs[0] > c.inPlace:
		c.act(Action{Do: DoStop})
		c.over = true
	case nowMs >= c.untilMs:
		err := fmt.Errorf("the output from checkpoint %d on was not committed within '%s' = %s; the next start commits it",
			c.epochs[0], KeyTimeout, c.o.Timeout)
		if c.commit.err != nil {
			err = fmt.Errorf("%w: %w", err, c.commit.err)
		}
		c.act(Action{Do: DoStop, Err: err})
		c.over = true
	}
}

func (c *Coordinator) fail(err error) {
	if !c.over {
		c.act(Action{Do: DoFail, Err: err})
		c.over = true
	}
}

// start starts the next checkpoint if it is its time.
func (c *Coordinator) start(nowMs int64) {
	if c.over || nowMs < c.startDue() {
		return
	}
	var r request
	if len(c.requests) > 0 {
		r = c.requests[0]
		c.requests = slices.Delete(c.requests, 0, 1)
	}
	c.lastID++
	c.epochs = append(c.epochs, c.lastID)
	c.flight = flight{request: r, stage: cutting, id: c.lastID, limitMs: nowMs + c.o.Timeout.Milliseconds()}
	c.startMs = nowMs
	c.early, c.output = false, 0
	c.act(Action{Do: DoCut, ID: c.lastID, Kind: r.kind})
}

// startDue is when the next checkpoint is to start.
func (c *Coordinator) startDue() int64 {
	pause := c.endMs + c.o.MinPause.Milliseconds()
	switch {
	case c.flight.stage != landed || c.ending != Periodic:
		return never
	case len(c.requests) > 0:
		if c.finalTries > 0 && c.requests[0].kind == Final {
			return max(pause, c.endMs+backoff(c.finalTries-1))
		}
		return c.startMs // at once
	case c.o.Interval == 0:
		return never
	case c.early:
		return pause
	}
	return max(pause, c.startMs+c.o.Interval.Milliseconds())
}

// due is when something is to be done without another event.
func (c *Coordinator) due() int64 {
	at := c.startDue()
	if c.flight.stage != landed {
		at = min(at, c.flight.limitMs)
	}
	if c.ending != Periodic {
		at = min(at, c.untilMs)
	}
	if l := &c.commit; l.begun() {
		if !l.busy {
			at = min(at, l.retryMs)
		}
		if c.o.CommitTimeout > 0 {
			at = min(at, l.sinceMs+c.o.CommitTimeout.Milliseconds())
		}
	}
	return at
}

// backoff is how long to wait after the failure that followed so many others.
func backoff(before int) int64 {
	if before > 6 {
		return maxRetryMs
	}
	return min(int64(firstRetryMs)<<before, maxRetryMs)
}
