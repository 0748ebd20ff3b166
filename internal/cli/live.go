package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// drawEvery is how often a live table is drawn: fast enough to follow, slow enough to read.
	drawEvery = 250 * time.Millisecond
	// freshFor is how long a change stays marked.
	freshFor = time.Second
	// keyMaxRows is Flink's limit of the rows kept of a result that is shown as a table.
	keyMaxRows = "sql-client.execution.max-table-result.rows"
)

// livePrinter shows the result of a bare SELECT as a table that changes in its place. The result of
// a job that ends is printed whole in the end; of one that was stopped, what was seen last stays.
type livePrinter struct {
	v   *view
	job *engine.Run
	out *tablePrinter // takes the final table
	now func() time.Time
	// whole says that everything is kept, since the final table has everything.
	whole bool
	begun bool // rows came: there is a table to leave behind

	mu     sync.Mutex // guards what follows: the job adds while the screen is drawn
	result *result
	table  *show.LiveTable
	header string
	cols   int // of the picture drawn last
	lines  int
}

func newLivePrinter(v *view, j *engine.Run, out *tablePrinter) *livePrinter {
	p := &livePrinter{v: v, job: j, out: out, now: time.Now, result: resultOf(j, out.text),
		table: show.NewLiveTable(j.Select.Schema), whole: j.Bounded && !j.Select.Mode.IsInsertOnly()}
	if !p.whole {
		p.result.limit = max(j.Config.Int(keyMaxRows), 1)
	}
	return p
}

// rows implements rowPrinter.
func (p *livePrinter) rows(b *vec.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	p.result.rows(b, p.now().UnixMilli())
	return nil
}

// status sets the line above the table.
func (p *livePrinter) status(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = s
}

// Lines implements show.Block.
func (p *livePrinter) Lines(cols, rows int) []show.Text {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cols, p.lines = cols, rows
	return p.picture(cols, rows, true)
}

// picture is the table, cut to cols and rows. While it is live there are a status line and marks.
func (p *livePrinter) picture(cols, rows int, live bool) []show.Text {
	var out []show.Text
	fresh := int64(vec.MaxTime)
	if live {
		fresh = p.now().Add(-freshFor).UnixMilli()
		if p.header != "" {
			for _, l := range show.Wrap(p.header, cols, 2) {
				out = append(out, show.Text{S: l})
			}
		}
	}
	// Rows that only come are followed at their end, those that change in their places are looked
	// at from the top.
	newest := !p.result.finds
	below := 1
	if p.result.dropped > 0 {
		below = 2
	}
	list := p.result.some(p.table.Rows(rows-len(out)-below), newest, fresh)
	out = append(out, p.table.Lines(list, cols, live)...)
	more := int64(p.result.live - len(list))
	switch {
	case more == 0:
		out = append(out, show.Text{S: show.Plural(int64(len(list)), "row", "rows")})
	case newest:
		out = append(out, show.Text{S: fmt.Sprintf("... %s before these", show.Plural(more, "row", "rows"))})
	default:
		out = append(out, show.Text{S: fmt.Sprintf("... %s more %s", show.Count(more), plural(more))})
	}
	if p.result.dropped > 0 {
		out = append(out, show.Text{S: p.limited()})
	}
	return out
}

func plural(n int64) string {
	if n == 1 {
		return "row"
	}
	return "rows"
}

// limited says that rows are missing, and how to keep them.
func (p *livePrinter) limited() string {
	return fmt.Sprintf("%s not kept: the limit is %s (SET '%s')", show.Plural(p.result.dropped, "older row is", "older rows are"),
		show.Count(int64(p.result.limit)), keyMaxRows)
}

// printed implements rowPrinter: of a job that fails, what a bounded one adds up to so far is not a
// result; of an endless one it is what a person has seen.
func (p *livePrinter) printed() int64 {
	if p.job.Bounded {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.result.live)
}

// close implements rowPrinter. The printer must be off the screen: what it prints locks that.
func (p *livePrinter) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.job.Bounded {
		if err := p.result.each(p.out.rows); err != nil {
			return err
		}
		if err := p.out.close(); err != nil || p.result.dropped == 0 {
			return err
		}
		_, err := fmt.Fprintln(p.v.stdout, p.limited())
		return err
	}
	if p.cols == 0 { // it was never drawn
		if !p.begun {
			return nil
		}
		p.cols, p.lines = 80, 24
	}
	text := ""
	for _, l := range p.picture(p.cols, p.lines, false) {
		text += l.S + "\n"
	}
	_, err := p.v.stdout.Write([]byte(text))
	return err
}

// watchLive draws the table of j until the job ends.
func (v *view) watchLive(j *engine.Run, p *livePrinter) {
	t := time.NewTicker(drawEvery)
	defer t.Stop()
	past := make([]job.Status, time.Second/drawEvery) // of the last second, which the rate is measured over
	for i := range past {
		past[i] = v.begin(j).status
	}
	looks := make([]job.Status, 0, leftOver+1) // of a longer time, for what is left of the input
	logged := time.Now()
	for {
		select {
		case <-j.Done():
			return
		case now := <-t.C:
			s := j.Status()
			line := progress(s, past[0])
			if looks = append(looks, s); len(looks) > leftOver {
				looks = looks[1:]
			}
			if j.Bounded {
				line += inputLeft(s, looks[0])
			} else {
				line += behind(s)
			}
			line += survival(j)
			past = append(past[1:], s)
			if v.header {
				p.status(v.stopping() + line)
			}
			v.screen.Draw()
			if !v.quiet && !v.line.InPlace() && now.Sub(logged) >= v.line.Every() {
				v.line.Set(line) // for whoever reads standard error later
				logged = now
			}
		}
	}
}

// stopping is what the status begins with once the job was told to stop.
func (v *view) stopping() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped {
		return "stopping  "
	}
	return ""
}
