// Package board runs examples/flights/board.sql as a user does and compares the board, cell by cell, with a
// straightforward computation over the newest revision of each flight: at several parallelisms, with and
// without crashes, and with what is left to a backfill.
package board

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
)

const (
	examples = "../../examples/flights"
	// january holds the whole month, of which the repository carries five days.
	january = "../../../shared/data/flights"
	reports = "status-2013-01.jsonl.gz"
)

// cell is what the board says of an hour and airport.
type cell struct {
	Origin    string   `json:"origin"`
	Start     string   `json:"window_start"`
	Flights   int64    `json:"flights"`
	Departed  int64    `json:"departed"`
	Cancelled int64    `json:"cancelled"`
	Delay     *float64 `json:"delay"`
}

func (c *cell) key() string { return c.Start + " " + c.Origin }

func (c *cell) String() string {
	d := "NULL"
	if c.Delay != nil {
		d = fmt.Sprintf("%.1f", *c.Delay)
	}
	return fmt.Sprintf("%d %d %d %s", c.Flights, c.Departed, c.Cancelled, d)
}

// lines calls f with every line of the files that a pattern finds.
func lines(t *testing.T, pattern string, f func(line []byte)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(p, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err = out.ReadFrom(z); err != nil {
				t.Fatal(err)
			}
			b = out.Bytes()
		}
		s := bufio.NewScanner(bytes.NewReader(b))
		for s.Scan() {
			f(s.Bytes())
		}
	}
}

// batch computes the board from the newest revision of each flight.
func batch(t *testing.T, path string) map[string]*cell {
	type report struct {
		Flight   string   `json:"flight_id"`
		Origin   string   `json:"origin"`
		Revision int      `json:"revision"`
		Status   string   `json:"status"`
		At       string   `json:"attributed_at"`
		Delay    *float64 `json:"dep_delay"`
	}
	newest := map[string]report{}
	lines(t, path, func(line []byte) {
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if old, ok := newest[r.Flight]; !ok || r.Revision > old.Revision {
			newest[r.Flight] = r
		}
	})
	out := map[string]*cell{}
	sums := map[string][2]int64{}
	for _, r := range newest {
		c := &cell{Origin: r.Origin, Start: r.At[:len("2013-01-01 10")] + ":00:00"}
		if out[c.key()] == nil {
			out[c.key()] = c
		}
		c = out[c.key()]
		c.Flights++
		switch r.Status {
		case "departed", "arrived":
			c.Departed++
		case "cancelled":
			c.Cancelled++
		}
		if r.Delay != nil {
			s := sums[c.key()]
			sums[c.key()] = [2]int64{s[0] + int64(*r.Delay), s[1] + 1}
		}
	}
	for k, s := range sums {
		d := mean(s[0], s[1])
		out[k].Delay = &d
	}
	return out
}

// mean is sum / n, rounded half away from zero to one digit.
func mean(sum, n int64) float64 {
	neg := sum < 0
	if neg {
		sum = -sum
	}
	tenths := (20*sum + n) / (2 * n)
	if neg {
		tenths = -tenths
	}
	return float64(tenths) / 10
}

// run is a folder in which the example runs.
type run struct {
	t    *testing.T
	dir  string
	text string
}

// newRun makes a folder with the reports of a folder.
func newRun(t *testing.T, data string) *run {
	r := &run{t: t, dir: t.TempDir()}
	in := filepath.Join(r.dir, examples[len("../../"):], "data")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs(filepath.Join(data, reports))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(from, filepath.Join(in, reports)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(examples, "board.sql"))
	if err != nil {
		t.Fatal(err)
	}
	r.text = string(b)
	return r
}

var errCrash = errors.New("crash")

// start runs the script. crashes ends it so often before it ends by itself, at different places of its input, and
// runs it again.
func (r *run) start(parallelism, crashes int, set map[string]string) {
	r.t.Helper()
	o := map[string]string{"parallelism.default": fmt.Sprint(parallelism), "execution.checkpointing.interval": "20 ms", "restart-strategy.type": "none"}
	for k, v := range set {
		o[k] = v
	}
	for n := 0; ; n++ {
		opts := engine.Options{Dir: r.dir, Override: o}
		if crashes > 0 {
			opts.ReadRate = 60_000 // so that there is a middle
		}
		// Each start gets a little further.
		after := time.Duration(30+40*n) * time.Millisecond
		var ended bool
		err := engine.New(opts).Script(context.Background(), "board.sql", r.text, engine.Handler{
			JobStarted: func(j *engine.Run) {
				if n >= crashes {
					return
				}
				go func() {
					select {
					case <-time.After(after):
						j.Kill(errCrash)
					case <-j.Done():
					}
				}()
			},
			JobEnded: func(_ *engine.Run, rep *job.Report, err error) {
				ended = err == nil
				if ended && len(rep.Unbalanced) > 0 {
					r.t.Errorf("books: %v", rep.Unbalanced)
				}
			},
		})
		if err == nil && ended {
			return
		}
		if !errors.Is(err, errCrash) {
			r.t.Fatalf("run %d: %v", n, err)
		}
	}
}

// board folds the revisions that are visible, and checks that they have no gaps and do not contradict each other.
func (r *run) board(generation string) map[string]*cell {
	r.t.Helper()
	type row struct {
		cell
		End        string `json:"window_end"`
		Rev        int64  `json:"rev"`
		Generation string `json:"generation"`
		Deleted    bool   `json:"is_deleted"`
	}
	revisions := map[string]map[int64]*row{}
	lines(r.t, filepath.Join(r.dir, "examples/flights/board/part*"), func(line []byte) {
		x := &row{}
		if err := json.Unmarshal(line, x); err != nil {
			r.t.Fatal(err)
		}
		if x.Generation != generation {
			return
		}
		if revisions[x.key()] == nil {
			revisions[x.key()] = map[int64]*row{}
		}
		if was := revisions[x.key()][x.Rev]; was != nil {
			r.t.Errorf("%s has revision %d twice: %s and %s", x.key(), x.Rev, was, x)
		}
		revisions[x.key()][x.Rev] = x
	})
	out := map[string]*cell{}
	for k, revs := range revisions {
		for n := int64(1); n <= int64(len(revs)); n++ {
			if revs[n] == nil {
				r.t.Errorf("%s has %d revisions, but none has number %d", k, len(revs), n)
			}
		}
		if last := revs[int64(len(revs))]; last != nil && !last.Deleted {
			out[k] = &last.cell
		}
	}
	return out
}

// late lists the cells that reports came too late for.
func (r *run) late() map[string]bool {
	out := map[string]bool{}
	if paths, _ := filepath.Glob(filepath.Join(r.dir, "examples/flights/late/part*")); len(paths) == 0 {
		return out
	}
	lines(r.t, filepath.Join(r.dir, "examples/flights/late/part*"), func(line []byte) {
		var c cell
		if err := json.Unmarshal(line, &c); err != nil {
			r.t.Fatal(err)
		}
		out[c.key()] = true
	})
	return out
}

// differences compares cells, those in but left out.
func differences(got, want map[string]*cell, but map[string]bool) (out []string) {
	for k, w := range want {
		if but[k] {
			continue
		}
		if g := got[k]; g == nil {
			out = append(out, k+" is missing, want "+w.String())
		} else if g.String() != w.String() {
			out = append(out, k+" is "+g.String()+", want "+w.String())
		}
	}
	for k, g := range got {
		if want[k] == nil && !but[k] {
			out = append(out, k+" is "+g.String()+", and should not be there")
		}
	}
	slices.Sort(out)
	return out
}

func months(t *testing.T) map[string]string {
	out := map[string]string{"five days": filepath.Join(examples, "data")}
	if _, err := os.Stat(filepath.Join(january, reports)); err != nil {
		t.Log("SKIPPED: the whole of January, as its reports are not there: " + err.Error())
	} else if !testing.Short() {
		out["January"] = january
	}
	return out
}

// TestBoard compares the example with the batch computation. With the lateness that it allows, all cells are right but
// those that it says need a backfill; a generation that waits for everything is right throughout.
func TestBoard(t *testing.T) {
	for month, data := range months(t) {
		want := batch(t, filepath.Join(data, reports))
		var first map[string]*cell
		for _, how := range []struct{ parallelism, crashes int }{{1, 0}, {3, 0}, {1, 3}, {3, 3}} {
			t.Run(fmt.Sprintf("%s, parallelism %d, %d crashes", month, how.parallelism, how.crashes), func(t *testing.T) {
				r := newRun(t, data)
				r.start(how.parallelism, how.crashes, nil)
				got, late := r.board("live"), r.late()
				if len(got) < 250 || len(late) == 0 || len(late) > len(want)/10 {
					t.Errorf("%d cells, %d of them with late reports", len(got), len(late))
				}
				for _, d := range differences(got, want, late) {
					t.Error(d)
				}
				if first == nil {
					first = got
				}
				for _, d := range differences(got, first, nil) {
					t.Errorf("unlike the first run: %s", d)
				}
				if how.crashes > 0 {
					return
				}
				// The rest is for a backfill.
				r.text = strings.Replace(r.text, "'allowed-lateness' = '6 h'", "'allowed-lateness' = '31 d'", 1)
				r.start(how.parallelism, 0, map[string]string{"tidemark.generation": "g2", "pipeline.name": "backfill"})
				for _, d := range differences(r.board("g2"), want, nil) {
					t.Errorf("the backfill: %s", d)
				}
			})
		}
	}
}

// TestBoard_Expected compares the committed table of the example with the batch computation of these tests.
func TestBoard_Expected(t *testing.T) {
	want := map[string]*cell{}
	lines(t, filepath.Join(examples, "board_expected.jsonl"), func(line []byte) {
		c := &cell{}
		if err := json.Unmarshal(line, c); err != nil {
			t.Fatal(err)
		}
		want[c.key()] = c
	})
	if len(want) != 281 {
		t.Errorf("%d cells", len(want))
	}
	for _, d := range differences(batch(t, filepath.Join(examples, "data", reports)), want, nil) {
		t.Error(d)
	}
}
