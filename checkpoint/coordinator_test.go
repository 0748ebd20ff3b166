package checkpoint

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect")

// TestCoordinatorScripts plays the scripts of testdata/coordinator. A line is an event, what it
// leads to stands below it, indented:
//
//	options interval=10s timeout=1m         a new coordinator
//	0 begin last=4 completed=3,4 epochs=4   at 0 ms
//	10000 tick
//	  cut 5 checkpoint
//	10100 cut-failed 5 the disk is full     "fatal: ..." for errors that no restart heals
//
// -update rewrites the indented lines.
func TestCoordinatorScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/coordinator/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if got == string(text) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, have := strings.Split(string(text), "\n"), strings.Split(got, "\n")
			for i := range have {
				if i >= len(want) || have[i] != want[i] {
					t.Fatalf("%s:%d: got\n%s\nwant\n%s", file, i+1, have[i], want[min(i, len(want)-1)])
				}
			}
			t.Fatalf("%s: expects more than there is", file)
		})
	}
}

// play runs a script and returns it with what happened.
func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	var c *Coordinator
	in := bufio.NewScanner(strings.NewReader(text))
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if f[0] == "options" {
			c = NewCoordinator(scriptOptions(t, f[1:]))
			continue
		}
		at, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || c == nil {
			t.Fatalf("line %d: %s", n, line)
		}
		for _, a := range event(t, c, at, f[1], f[2:]) {
			fmt.Fprintf(&out, "  %s\n", a)
		}
	}
	return out.String()
}

func event(t *testing.T, c *Coordinator, at int64, name string, args []string) []Action {
	t.Helper()
	var id int64
	var why error
	if len(args) > 0 {
		id, _ = strconv.ParseInt(args[0], 10, 64)
	}
	if len(args) > 1 {
		why = errors.New(strings.Join(args[1:], " "))
		if args[1] == "fatal:" {
			why = &connector.Fatal{Err: why}
		}
	}
	switch name {
	case "begin":
		var r Resumed
		for _, a := range args {
			k, v, _ := strings.Cut(a, "=")
			switch ids := scriptIDs(v); k {
			case "last":
				r.Last = ids[0]
			case "completed":
				r.Completed = ids
			case "epochs":
				r.Epochs = ids
			}
		}
		return c.Begin(at, r)
	case "tick":
		return c.Tick(at)
	case "savepoint":
		return c.Requested(at, Savepoint, args[0])
	case "stop":
		return c.Requested(at, Stop, args[0])
	case "drain":
		return c.Requested(at, Drain, args[0])
	case "finished":
		return c.Finished(at)
	case "grew":
		return c.OutputGrew(at, id)
	case "cut-done":
		return c.CutDone(at, id)
	case "cut-failed":
		return c.CutFailed(at, id, why)
	case "written":
		return c.Written(at, id)
	case "write-failed":
		return c.WriteFailed(at, id, why)
	case "committed":
		return c.CommitDone(at, id)
	case "commit-failed":
		return c.CommitFailed(at, id, why)
	}
	t.Fatalf("no event %s", name)
	return nil
}

func scriptIDs(s string) []int64 {
	var out []int64
	for _, p := range strings.Split(s, ",") {
		n, _ := strconv.ParseInt(p, 10, 64)
		out = append(out, n)
	}
	return out
}

func scriptOptions(t *testing.T, args []string) CoordinatorOptions {
	t.Helper()
	o := CoordinatorOptions{Timeout: time.Minute, Retained: 1}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		d, _ := time.ParseDuration(v)
		n, _ := strconv.ParseInt(v, 10, 64)
		switch k {
		case "interval":
			o.Interval = d
		case "min-pause":
			o.MinPause = d
		case "timeout":
			o.Timeout = d
		case "commit-timeout":
			o.CommitTimeout = d
		case "tolerable":
			o.TolerableFailures = int(n)
		case "retained":
			o.Retained = int(n)
		case "output":
			o.OutputBytes = n
		default:
			t.Fatalf("no option %s", k)
		}
	}
	return o
}

// TestCoordinatorRefusesNonsense checks that answers to what was not asked are bugs that show.
func TestCoordinatorRefusesNonsense(t *testing.T) {
	o := CoordinatorOptions{Interval: time.Second, Timeout: time.Minute, Retained: 1}
	for name, f := range map[string]func(c *Coordinator){
		"no begin":       func(c *Coordinator) { c.Tick(0) },
		"begins twice":   func(c *Coordinator) { c.Begin(0, Resumed{}); c.Begin(0, Resumed{}) },
		"out of order":   func(c *Coordinator) { c.Begin(0, Resumed{Epochs: []int64{2, 1}}) },
		"no cut":         func(c *Coordinator) { c.Begin(0, Resumed{}); c.CutDone(1, 1) },
		"other cut":      func(c *Coordinator) { c.Begin(0, Resumed{}); c.Tick(1000); c.CutDone(1, 2) },
		"not written":    func(c *Coordinator) { c.Begin(0, Resumed{}); c.Tick(1000); c.Written(1, 1) },
		"no commit":      func(c *Coordinator) { c.Begin(0, Resumed{}); c.CommitDone(1, 1) },
		"other commit":   func(c *Coordinator) { c.Begin(0, Resumed{Epochs: []int64{1, 2}}); c.CommitDone(1, 2) },
		"periodic asked": func(c *Coordinator) { c.Begin(0, Resumed{}); c.Requested(1, Periodic, "") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "BUG: ") {
					t.Fatal(p)
				}
			}()
			f(NewCoordinator(o))
		})
	}
}

func TestCoordinatorStatus(t *testing.T) {
	c := NewCoordinator(CoordinatorOptions{Interval: time.Second, Timeout: time.Minute, TolerableFailures: 1})
	c.Begin(0, Resumed{Last: 3})
	c.Tick(1000)
	if s := c.Status(); s.LastID != 4 || s.Completed != 0 || !s.InFlight || s.Uncommitted != 1 {
		t.Fatalf("in flight: %+v", s)
	}
	c.CutFailed(1001, 4, errors.New("no"))
	if s := c.Status(); s.Failures != 1 || s.InFlight {
		t.Fatalf("failed: %+v", s)
	}
	c.Tick(2000)
	c.CutDone(2001, 5)
	c.Written(2002, 5)
	c.CommitFailed(2003, 4, errors.New("away"))
	if s := c.Status(); s.Completed != 5 || s.Failures != 0 || s.Uncommitted != 2 || s.CommitErr == nil {
		t.Fatalf("written: %+v", s)
	}
}
