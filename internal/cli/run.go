package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/internal/metrics"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const outputUsage = `how the rows of a SELECT are printed: live (a table that changes in its place, on a terminal),
table, changelog, json or csv; auto is live for results that change and for jobs that do not
end, if standard output is a terminal`

func runCommand() *cobra.Command {
	var s settings
	var output, profile, address string
	var quiet, drain, stay bool
	var boardFile string
	c := &cobra.Command{
		Use:   "run FILE.sql",
		Short: "Run a SQL script",
		Long: `Run every statement of a script. Rows go to standard output, everything else to standard
error. The command ends when all jobs have ended; Ctrl-C stops them cleanly.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			if profile != "" {
				f, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := pprof.StartCPUProfile(f); err != nil {
					return err
				}
				defer pprof.StopCPUProfile()
			}
			return s.run(c.Context(), args[0], text, &view{output: output, quiet: quiet, header: !quiet, drain: drain, http: address, boardFile: boardFile,
				stay: stay})
		},
	}
	s.flags(c)
	c.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile in pprof's format to `FILE`")
	c.Flags().StringVarP(&output, "output", "o", outputAuto, outputUsage)
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress and no closing account")
	c.Flags().BoolVar(&s.recovery.Fresh, "fresh", false, "ignore the checkpoints that there are and start with nothing")
	c.Flags().StringVar(&s.recovery.From, "from", "", "start from the savepoint or checkpoint at `PLACE`")
	c.Flags().BoolVar(&s.recovery.AllowDropped, "allow-dropped-state", false, "leave state behind that no operator of the new plan wants")
	c.Flags().StringVar(&address, "http", "", "serve /metrics, /status, POST /savepoint and, where there are results, the page /board/ at `HOST:PORT`; with :PORT for this machine only")
	c.Flags().StringVar(&boardFile, "board", "", "with --http: the page's definition, a YAML `FILE`, which the page also saves to")
	c.Flags().BoolVar(&stay, "stay", false, "with --http: serve the page until Ctrl-C, also when the jobs have ended")
	c.Flags().BoolVar(&drain, "drain", false, "when stopped, send the end of time through the job first, so that open windows are emitted")
	return c
}

func sqlCommand() *cobra.Command {
	var s settings
	var output, text string
	c := &cobra.Command{
		Use:   "sql -e 'SELECT ...'",
		Short: "Run a line of SQL",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if text == "" {
				return fmt.Errorf("give the SQL with -e 'SELECT ...', or run a file with tidemark run FILE.sql")
			}
			return s.run(c.Context(), "line", text, &view{output: output, quiet: true, header: true})
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&text, "execute", "e", "", "the SQL")
	c.Flags().StringVarP(&output, "output", "o", outputAuto, outputUsage)
	return c
}

// run runs a script with everything that a person sees.
func (s *settings) run(ctx context.Context, name, text string, v *view) error {
	return s.runAs(ctx, name, v, func(ctx context.Context, o engine.Options, h engine.Handler) error {
		return engine.New(o).Script(ctx, name, text, h)
	})
}

// runAs shows what do runs.
func (s *settings) runAs(ctx context.Context, name string, v *view, do func(context.Context, engine.Options, engine.Handler) error) error {
	o, err := s.engineOptions()
	if err != nil {
		return err
	}
	v.file = name
	if err := v.open(); err != nil {
		return err
	}
	o.Stdout, o.Stderr = v.stdout, v.stderr
	closed, err := v.serve()
	if err != nil {
		return err
	}
	defer closed()
	// Ctrl-C stops jobs cleanly; a second one ends the process at once.
	jobs, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go v.stopOn(ctx, over, cancel)
	var onResults func(*engine.Run, *connector.Table, *vec.Batch)
	if v.board != nil {
		onResults = v.board.rows
	}
	err = do(jobs, o, engine.Handler{Results: onResults, Table: v.table, Message: v.message, JobStarted: v.started, Rows: v.rows,
		JobEnded: v.ended, JobSkipped: v.skipped, Warn: v.warn})
	v.line.Clear()
	if err == nil && v.stay && v.board != nil && ctx.Err() == nil {
		fmt.Fprintf(v.stderr, "the jobs have ended; http://%s%s is served until Ctrl-C\n", v.address, boardPath)
		<-ctx.Done()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error()+wayOut(err, name))
		return &quietError{err}
	}
	return nil
}

func (s *settings) engineOptions() (engine.Options, error) {
	set, err := pairs("set", s.set)
	if err != nil {
		return engine.Options{}, err
	}
	define, err := pairs("define", s.define)
	return engine.Options{Override: set, Define: define, Recovery: s.recovery}, err
}

// lines keeps whole writes of several goroutines apart.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// view is what a person sees of a script's run.
type view struct {
	output         string
	quiet          bool // no progress and no account
	header         bool // live tables have a status line
	file           string
	screen         *show.Screen // nil: standard output is no terminal
	line           *show.Line
	stdout, stderr *lines
	mu             sync.Mutex
	jobs           []*engine.Run
	printers       map[*engine.Run]rowPrinter
	stopped        bool
	drain          bool   // stopped jobs are drained first
	http           string // where jobs are shown, "": nowhere
	server         *metrics.Server
	board          *board          // nil: no page
	stores         []results.Store // that the metrics ask
	boardFile      string          // its definition, "": a default
	address        string          // where --http listens
	stay           bool            // serve on when the jobs have ended, until Ctrl-C
	begins         map[*engine.Run]begin
}

// open finds out where rows and messages go.
func (v *view) open() error {
	if !slices.Contains(outputs, v.output) {
		return fmt.Errorf("--output cannot be '%s'; it is one of %s", v.output, strings.Join(outputs, ", "))
	}
	v.line = show.NewLine(os.Stderr)
	v.screen = show.NewScreen(os.Stdout)
	stdout, stderr := v.line.Writer(os.Stdout), v.line.Writer(os.Stderr)
	switch {
	case v.screen != nil:
		stdout = v.screen.Writer(stdout)
		if v.line.InPlace() {
			stderr = v.screen.Writer(stderr)
		}
	case v.output == outputLive:
		return fmt.Errorf("--output live draws on a terminal, which standard output is not; use changelog, table, json or csv")
	}
	v.stdout, v.stderr = &lines{w: stdout}, &lines{w: stderr}
	return nil
}

func (v *view) warn(msg string) { fmt.Fprintln(v.stderr, "warning: "+msg) }

func (v *view) message(_ ast.Statement, msg string) {
	if msg != "" && msg != "OK" && !v.quiet {
		fmt.Fprintln(v.stderr, msg)
	}
}

// table prints the rows of SHOW and its kin; a single text (EXPLAIN, SHOW CREATE) is printed as
// it is.
func (v *view) table(_ ast.Statement, s types.Schema, rows [][]types.Value) error {
	switch v.output {
	case "json":
		return v.tableJSON(s, rows)
	case "csv":
		w := csv.NewWriter(v.stdout)
		for _, r := range rows {
			cells := make([]string, len(r))
			for i, x := range r {
				if x != nil {
					cells[i] = fmt.Sprint(x)
				}
			}
			if err := w.Write(cells); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}
	if s.Len() == 1 && len(rows) == 1 {
		if text, ok := rows[0][0].(string); ok && strings.Contains(text, "\n") {
			_, err := fmt.Fprintln(v.stdout, strings.TrimRight(text, "\n"))
			return err
		}
	}
	t := show.NewTable(v.stdout, s)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, x := range r {
			cells[i] = "NULL"
			if x != nil {
				cells[i] = fmt.Sprint(x)
			}
		}
		if err := t.Add(cells); err != nil {
			return err
		}
	}
	return t.Close()
}

// tableJSON prints rows of SHOW and its kin as one object a line.
func (v *view) tableJSON(s types.Schema, rows [][]types.Value) error {
	var b bytes.Buffer
	for _, r := range rows {
		for i, x := range r {
			b.WriteByte("{,"[min(i, 1)])
			for k, part := range []any{s.Fields[i].Name, x} {
				text, err := json.Marshal(part)
				if err != nil {
					return err
				}
				b.Write(text)
				if k == 0 {
					b.WriteByte(':')
				}
			}
		}
		b.WriteString("}\n")
	}
	_, err := v.stdout.Write(b.Bytes())
	return err
}

func (v *view) started(j *engine.Run) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.jobs = append(v.jobs, j)
	if v.stopped {
		v.end(j)
	}
	if v.begins == nil {
		v.begins = map[*engine.Run]begin{}
	}
	v.begins[j] = begin{at: time.Now()}
	if j.Restored != nil {
		v.begins[j] = begin{time.Now(), j.Status()}
	}
	if v.server != nil {
		v.server.Add(nameOf(j), j.Began, j.Supervisor)
		v.watchResults(j)
	}
	v.announce(j)
	v.began(j)
	if j.Select != nil {
		if v.printers == nil {
			v.printers = map[*engine.Run]rowPrinter{}
		}
		p, err := newRowPrinter(v, j)
		if err != nil {
			j.Kill(err)
			return
		}
		v.printers[j] = p
		if p, ok := p.(*livePrinter); ok {
			v.screen.Add(p)
			go v.watchLive(j, p)
			return
		}
	}
	go v.watch(j)
}

func (v *view) rows(j *engine.Run, b *vec.Batch) error {
	v.mu.Lock()
	p := v.printers[j]
	v.mu.Unlock()
	return p.rows(b)
}

// watch shows the progress of j until it ends.
func (v *view) watch(j *engine.Run) {
	t := time.NewTicker(v.line.Every())
	defer t.Stop()
	last := v.begin(j).status
	past := make([]job.Status, 0, leftOver+1)
	for {
		select {
		case <-j.Done():
			return
		case <-t.C:
			if v.quiet || v.line.InPlace() && v.screen != nil && v.screen.Busy() {
				continue // or a live table has the place
			}
			s := j.Status()
			line := progress(s, last)
			if past = append(past, s); len(past) > leftOver {
				past = past[1:]
			}
			if j.Bounded {
				line += inputLeft(s, past[0])
			} else {
				line += behind(s)
			}
			v.line.Set(line + survival(j))
			last = s
		}
	}
}

// progress is the line that shows a running job.
func progress(s, last job.Status) string {
	if s.Elapsed < last.Elapsed {
		last = job.Status{RowsRead: min(last.RowsRead, s.RowsRead)} // it was started again
	}
	rate := float64(s.RowsRead-last.RowsRead) / max(0.001, (s.Elapsed-last.Elapsed).Seconds())
	out := fmt.Sprintf("%s  %s rows in (%s/s)  %s out", show.Duration(s.Elapsed), show.Count(s.RowsRead),
		show.Short(rate), show.Count(s.RowsOut))
	if s.Timed {
		out += "  watermark " + show.Time(s.Watermark)
		if s.Watermark != vec.MinTime && s.Watermark != vec.MaxTime {
			if lag := time.Since(time.UnixMilli(s.Watermark)); lag > 0 {
				out += "  lag " + show.Duration(lag)
			}
		}
	}
	out += fmt.Sprintf("  late %s", show.Count(s.Late))
	if s.Dead > 0 {
		out += fmt.Sprintf("  dead letters %s", show.Count(s.Dead))
	}
	if idle := idleSplits(s); idle > 0 {
		out += fmt.Sprintf("  idle splits %d of %d", idle, len(s.Splits))
	}
	return out
}

// leftOver is over how many looks the speed is measured that tells when a job will be done.
const leftOver = 20

// inputLeft says how much of the input of a job that ends by itself has been read, and about when it will be done, going
// by what it has read since first. Tables that don't know how much they hold are left out.
func inputLeft(s, first job.Status) string {
	out := ""
	longest, known := time.Duration(0), true
	for i := range s.Sources {
		x := &s.Sources[i]
		if x.Lag < 0 {
			known = false
			continue
		}
		done, amount := readBy(s, x), func(n int64) string { return show.Count(n) + " rows" }
		if x.Unit == "bytes" {
			amount = show.Bytes
		}
		all := done + x.Lag
		if all <= 0 {
			continue
		}
		// Whole percents: 100 only when all has been read.
		out += fmt.Sprintf("  %s: %d %% of %s read", x.Table, int(100*float64(done)/float64(all)), amount(all))
		left, ok := toGo(x.Lag, done-readBy(first, x), s.Elapsed-first.Elapsed)
		known = known && (ok || x.Lag == 0)
		longest = max(longest, left)
	}
	if known && longest > 0 {
		if longest = max(time.Second, longest.Round(time.Second)); longest < time.Minute {
			return out + fmt.Sprintf("  about %d s to go", int(longest.Seconds()))
		}
		out += "  about " + show.Duration(longest) + " to go"
	}
	return out
}

// readBy is how much of the source x had been read at the time of s, in its units.
func readBy(s job.Status, x *job.SourceStatus) int64 {
	for i := range s.Sources {
		if s.Sources[i].Node.ID == x.Node.ID && x.Unit == "bytes" {
			return s.Sources[i].Bytes
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].Node.ID == x.Node.ID && x.Unit != "bytes" {
			return s.Nodes[i].RowsIn
		}
	}
	return 0
}

// toGo is how long it takes to read what is left, where so much was read in a time that has passed; ok is false
// where that is not known.
func toGo(left, read int64, passed time.Duration) (d time.Duration, ok bool) {
	if left == 0 || read <= 0 || passed <= 0 {
		return 0, left == 0
	}
	return time.Duration(float64(left) / float64(read) * float64(passed)), true
}

// behind says how much a job that does not end has not read yet.
func behind(s job.Status) string {
	out := ""
	for _, table := range slices.Sorted(maps.Keys(s.Lag)) {
		if n := s.Lag[table]; n > 0 {
			out += fmt.Sprintf("  %s left of %s", show.Short(float64(n)), table)
		}
	}
	return out
}

func idleSplits(s job.Status) int {
	n := 0
	for _, sp := range s.Splits {
		if sp.Idle {
			n++
		}
	}
	return n
}

// ended closes the output of j and prints its account.
func (v *view) ended(j *engine.Run, r *job.Report, err error) {
	v.mu.Lock()
	p := v.printers[j]
	v.mu.Unlock()
	if p, ok := p.(*livePrinter); ok {
		v.screen.Remove(p)
	}
	if p != nil && (err == nil || p.printed() > 0) {
		if e := p.close(); e != nil && err == nil {
			v.warn(e.Error())
		}
	}
	v.line.Clear()
	if r == nil {
		return
	}
	if !v.quiet {
		b := v.begin(j)
		if n, _ := j.Restarts(); n > 0 {
			r.Elapsed = time.Since(b.at)
		}
		account(v.stderr, v.file, r, b.status, err != nil)
		v.survived(j, err != nil)
	}
	v.leftBehind(j, r, err)
	for _, u := range r.Unbalanced {
		v.warn("the books do not balance: " + u)
	}
}

// account prints what became of every row.
// It counts from the job's first start on, over all that went on from it; begin is where this run
// began.
func account(w io.Writer, file string, r *job.Report, begin job.Status, failed bool) {
	word := "finished"
	switch {
	case failed:
		word = "failed"
	case r.Stopped:
		word = "stopped"
	}
	secs := max(r.Elapsed.Seconds(), 0.001)
	read, out := max(0, r.RowsRead-begin.RowsRead), max(0, r.RowsOut-begin.RowsOut)
	fmt.Fprintf(w, "%s %s in %s: %s in", filepath.Base(file), word, show.Duration(r.Elapsed), show.Plural(read, "row", "rows"))
	if r.Bytes > 0 {
		fmt.Fprintf(w, " (%s)", show.Bytes(r.Bytes))
	}
	fmt.Fprintf(w, ", %s/s, %s out\n", show.Short(float64(read)/secs), show.Plural(out, "row", "rows"))
	if begin.RowsRead > 0 {
		fmt.Fprintln(w, "With the runs that this one went on from:")
	}
	for _, b := range r.Nodes {
		out := fmt.Sprintf("  %-44s %14s in", label(b.Node.Label), show.Count(b.RowsIn))
		if _, sink := b.Node.Op.(*plan.Sink); !sink {
			out += fmt.Sprintf(" %14s out", show.Count(b.RowsOut))
		}
		for why, n := range b.Drops {
			if n > 0 {
				out += fmt.Sprintf("  %s %s", show.Count(n), op.DropReason(why))
			}
		}
		fmt.Fprintln(w, out)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(w, "%s could not be decoded and were skipped (ignore-parse-errors); a dead-letter output would keep them.\n",
			show.Plural(r.Skipped, "record", "records"))
	}
	if r.Dead > 0 && r.DeadUnkept {
		fmt.Fprintf(w, "%s could not be used, and were not written to the dead-letter output again.\n", show.Plural(r.Dead, "record or row", "records or rows"))
	} else if r.Dead > 0 && keepsDeadLetters(r) {
		fmt.Fprintf(w, "%s went to the dead-letter output.\n", show.Plural(r.Dead, "record or row", "records or rows"))
	}
	var kept int64 // by late sinks: one a row and window missed
	for _, n := range r.Nodes {
		kept += n.LateOut
	}
	if kept > 0 {
		fmt.Fprintf(w, "%s went to the late sink, one for each window that a row missed; tidemark advise says what a larger delay would keep.\n",
			show.Plural(kept, "late row", "late rows"))
	} else if r.Late > 0 {
		fmt.Fprintf(w, "%s came after their windows had closed and were dropped (numLateRecordsDropped). A larger delay in\n"+
			"WATERMARK FOR keeps more of them and makes results later.\n", show.Plural(r.Late, "late row", "late rows"))
	}
	if text := lateBy(r); text != "" {
		fmt.Fprintln(w, text)
	}
}

// lateNames are connector.LateBounds for people.
var lateNames = [len(connector.LateBounds)]string{"1 s", "10 s", "1 min", "5 min", "1 h", "6 h", "1 d"}

// lateBy says by how much rows missed windows, "" where none did.
func lateBy(r *job.Report) string {
	var all op.LateBy
	for i := range r.Nodes {
		all.Add(&r.Nodes[i].LateBy)
	}
	if all.Count() == 0 {
		return ""
	}
	var parts []string
	for i, n := range all.Rows {
		switch {
		case n == 0:
		case i == len(lateNames):
			parts = append(parts, show.Count(n)+" by more than "+lateNames[i-1])
		default:
			parts = append(parts, show.Count(n)+" by up to "+lateNames[i])
		}
	}
	return "Rows missed their windows: " + strings.Join(parts, ", ") + "."
}

// keepsDeadLetters reports whether some table of a job has a dead-letter output: without one the
// first bad record ends the job.
func keepsDeadLetters(r *job.Report) bool {
	for _, b := range r.Nodes {
		var o map[string]string
		switch x := b.Node.Op.(type) {
		case *plan.Source:
			o = x.Table.Options
		case *plan.Sink:
			if x.Table != nil {
				o = x.Table.Options
			}
		}
		if o["dead-letter.path"] != "" || o["dead-letter.table"] != "" {
			return true
		}
	}
	return false
}

func label(s string) string {
	if r := []rune(s); len(r) > 44 {
		return string(r[:43]) + "\u2026"
	}
	return s
}
