package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/metrics"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/internal/version"
	"github.com/tidemark-stream/tidemark/job"
)

// begin is where a job stood when this run began: what it goes on from has books too.
type begin struct {
	at     time.Time
	status job.Status
}

func (v *view) begin(j *engine.Run) begin {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.begins[j]
}

// serve shows the jobs at the address of --http, until closed is called.
func (v *view) serve() (closed func(), err error) {
	if v.http == "" {
		return func() {}, nil
	}
	l, err := metrics.Listen(v.http)
	if err != nil {
		return nil, err
	}
	v.server = metrics.NewServer()
	local := metrics.Local(l.Addr())
	v.address = l.Addr().String()
	if v.board, err = newBoard(v.boardFile, local); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle(boardPath, v.board.handler())
	mux.Handle("/", v.server.Handler(version.String(), local))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			v.warn("--http: " + err.Error())
		}
	}()
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(metrics.SampleEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				v.server.Sample()
			case <-done:
				return
			}
		}
	}()
	if !v.quiet {
		who := ""
		if !local {
			who = "; whoever reaches this address can look, and write savepoints"
		}
		fmt.Fprintf(v.stderr, "http://%s/status and /metrics show what the jobs do%s\n", l.Addr(), who)
	}
	asking, stop := context.WithCancel(context.Background())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for t := time.NewTicker(5 * time.Second); ; {
			v.server.Ask(asking)
			select {
			case <-t.C:
			case <-asking.Done():
				t.Stop()
				return
			}
		}
	}()
	return func() {
		close(done)
		stop()
		<-asked
		v.board.closed()
		h.Close()
		for _, s := range v.stores {
			_ = s.Close()
		}
	}, nil
}

// nameOf is the name of a job.
func nameOf(j *engine.Run) string {
	if j.Name != "" {
		return j.Name
	}
	return j.Plan.Name
}

// began says how a job began, and which operators do not simply go on.
func (v *view) began(j *engine.Run) {
	if j.Began == "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "job %s %s\n", j.Name, j.Began)
	if j.Restored != nil {
		for _, l := range j.Restored.Lines {
			if l.Verdict == checkpoint.Reused {
				continue
			}
			fmt.Fprintf(&b, "  %s: %s", l.Label, l.Verdict)
			if l.Detail != "" {
				fmt.Fprintf(&b, " (%s)", l.Detail)
			}
			b.WriteByte('\n')
		}
	}
	io.WriteString(v.stderr, b.String())
}

// survival is what the progress line says of checkpoints and restarts; "" where there is nothing
// to say.
func survival(j *engine.Run) string {
	var out string
	c, ok := j.Checkpoints()
	switch {
	case !ok:
	case c.Last > 0:
		out = fmt.Sprintf("  checkpoint %d (%s)", c.Last, ago(time.Since(c.LastAt)))
	default:
		out = "  no checkpoint yet"
	}
	if c.Failed > 0 {
		out += fmt.Sprintf("  %s failed", show.Plural(c.Failed, "checkpoint", "checkpoints"))
	}
	if n, _ := j.Restarts(); n > 0 {
		out += fmt.Sprintf("  restarts %d", n)
	}
	return out
}

// ago is an age in whole seconds.
func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	if d < time.Minute {
		return fmt.Sprintf("%d s ago", d/time.Second)
	}
	return show.Duration(d.Truncate(time.Second)) + " ago"
}

// survived is the part of the account that tells of checkpoints and restarts, of a job that has failed
// or not.
func (v *view) survived(j *engine.Run, failed bool) {
	var b strings.Builder
	if c, ok := j.Checkpoints(); ok && c.Completed+c.Failed > 0 {
		fmt.Fprintf(&b, "%s", show.Plural(c.Completed, "checkpoint", "checkpoints"))
		if c.Failed > 0 {
			fmt.Fprintf(&b, ", %s failed (%s)", show.Count(c.Failed), c.LastError)
		}
		if c.Last > 0 {
			pause := ""
			if c.LastPause > 0 {
				pause = ", made rows wait for " + brief(c.LastPause)
			}
			fmt.Fprintf(&b, "; the last, %d, took %s%s and wrote %s in %s", c.Last, brief(c.LastTook), pause,
				show.Bytes(c.LastBytes), show.Plural(c.LastRequests, "request", "requests"))
		}
		b.WriteString(".\n")
	}
	if n, why := j.Restarts(); n > 0 {
		fmt.Fprintf(&b, "Started again %s", show.Plural(int64(n), "time", "times"))
		if why != nil && !failed { // else it comes last anyway
			fmt.Fprintf(&b, ", the last time because: %v", why)
		}
		b.WriteString(".\n")
	}
	io.WriteString(v.stderr, b.String())
}

func brief(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return "less than 100µs"
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return show.Duration(d)
}

// leftBehind says what a job that did not come to its end, or failed as err says, can go on from.
func (v *view) leftBehind(j *engine.Run, r *job.Report, err error) {
	c, ok := j.Checkpoints()
	if !ok || err == nil && !r.Stopped || errors.As(err, new(*connector.Overtaken)) {
		return
	}
	if c.LastSavepoint != "" && v.several() {
		fmt.Fprintf(v.stderr, "Savepoint: %s\n", c.LastSavepoint)
	} else if c.LastSavepoint != "" {
		fmt.Fprintf(v.stderr, "Savepoint: %s\nTo start from it, with this file or a changed one (plan instead of run says before what becomes of the state):\n"+
			"  tidemark run --from %s %s\n", c.LastSavepoint, quoted(c.LastSavepoint), quoted(v.file))
	}
	if c.Last > 0 {
		fmt.Fprintf(v.stderr, "The next run of job %s goes on from checkpoint %d.\n", j.Name, c.Last)
	}
}

// several reports whether several jobs take checkpoints: --from is for the jobs of a file together.
func (v *view) several() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, j := range v.jobs {
		if j.Began != "" {
			n++
		}
	}
	return n > 1
}

// quoted is an argument as a shell wants it.
func quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:=@%+,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
