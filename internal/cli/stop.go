package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
)

const (
	// stopWithin is how long jobs without checkpoints may take to stop cleanly. Beyond it something
	// blocks that cannot be interrupted, such as writing into a pipe that nobody reads. Those with
	// checkpoints write a savepoint, which takes its time and has a limit of its own.
	stopWithin = 45 * time.Second
	// onceMore is how long a second request to stop counts as the first: shells and supervisors may
	// send one twice.
	onceMore = time.Second
	// lookEvery is how often jobs that were asked to stop are looked at.
	lookEvery = 100 * time.Millisecond
)

// stopOn stops the jobs when ctx ends, and the process when a second signal comes or they do not stop.
// A stop may be refused, as the savepoint cannot be written: then the next signal is a first one again.
// cancel ends a script of which no job runs.
func (v *view) stopOn(ctx context.Context, over <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	for {
		switch v.stopping1(over, signals, cancel) {
		case stopDone:
			return
		case stopRefused:
			v.warn("the stop failed, and the job goes on; Ctrl-C tries again, and twice in a row ends it without a savepoint")
		case stopAgain:
			fmt.Fprintln(os.Stderr, "error: "+v.atOnce("a second request to stop"))
			os.Exit(1)
		case stopLate:
			fmt.Fprintln(os.Stderr, "error: "+v.atOnce(fmt.Sprintf("a source or sink did not give way within %s", stopWithin)))
			os.Exit(1)
		}
		select {
		case <-over:
			return
		case <-signals:
		}
	}
}

// stopOutcome is what came of asking the jobs to stop.
type stopOutcome int

const (
	stopDone stopOutcome = iota
	stopRefused
	stopAgain // there was another request
	stopLate
)

// stopping1 asks the jobs to stop and waits for what comes of it.
func (v *view) stopping1(over <-chan struct{}, signals <-chan os.Signal, cancel context.CancelCauseFunc) stopOutcome {
	v.stop()
	asked := time.Now()
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for told := false; ; {
		select {
		case <-over:
			return stopDone
		case <-signals:
			if time.Since(asked) > onceMore {
				return stopAgain
			}
		case <-t.C:
		}
		running, saves, refused := v.asked()
		since := time.Since(asked)
		switch {
		case refused:
			v.mu.Lock()
			v.stopped = false
			v.mu.Unlock()
			return stopRefused
		case since < onceMore:
		case running == 0:
			cancel(errors.New("stopped"))
		case saves && !told && !v.quiet:
			told = true
			fmt.Fprintln(v.stderr, "stopping, with a savepoint; Ctrl-C once more ends at once, without one")
		case !saves && since > stopWithin:
			return stopLate
		}
	}
}

// asked looks at the jobs that were asked to stop: how many still run, whether one of these takes
// checkpoints, and whether a stop was refused.
func (v *view) asked() (running int, saves, refused bool) {
	for _, j := range v.running() {
		running++
		if _, ok := j.Checkpoints(); ok {
			saves = true
		}
		refused = refused || !j.Stopping()
	}
	return running, saves, refused
}

// running lists the jobs that have not ended.
func (v *view) running() (out []*engine.Run) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, j := range v.jobs {
		select {
		case <-j.Done():
		default:
			out = append(out, j)
		}
	}
	return out
}

// atOnce says what an end at once means for each job.
func (v *view) atOnce(why string) string {
	out := []string{"stopped at once: " + why}
	for _, j := range v.running() {
		c, ok := j.Checkpoints()
		switch {
		case ok && c.Last > 0:
			out = append(out, fmt.Sprintf("the next run of job %s goes on from checkpoint %d, and does again what came after it", nameOf(j), c.Last))
		case ok:
			out = append(out, fmt.Sprintf("job %s had no checkpoint yet in this run; the next goes on from where this one began", nameOf(j)))
		default:
			out = append(out, fmt.Sprintf("output of job %s that was not complete is not visible", nameOf(j)))
		}
	}
	return strings.Join(out, "\n  ")
}

func (v *view) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopped = true
	for _, j := range v.jobs {
		v.end(j)
	}
}

func (v *view) end(j *engine.Run) {
	if v.drain {
		j.Drain()
	} else {
		j.Stop()
	}
}

// skipped says why a job is not run.
func (v *view) skipped(name, why string) {
	if !v.quiet {
		fmt.Fprintf(v.stderr, "job %s %s\n", name, why)
	}
}

// wayOut is the commands that go on where a job does not start since its newest checkpoint is damaged.
func wayOut(err error, file string) string {
	var d *engine.DamagedError
	if !errors.As(err, &d) {
		return ""
	}
	fresh := fmt.Sprintf("To start with nothing:\n  tidemark run --fresh %s", quoted(file))
	if d.Older == "" {
		return "\n" + fresh + "\nA savepoint, if there is one (tidemark state ls shows them), can be started from with --from."
	}
	return fmt.Sprintf("\nTo go on from checkpoint %d, which is older; output since then comes again:\n  tidemark run --from %s %s\n%s",
		d.ID, quoted(d.Older), quoted(file), fresh)
}
