package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/internal/version"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/vec"
)

// BackfillOptions say what a backfill computes again.
type BackfillOptions struct {
	// Generation is the one that is written. It must not be the generation that counts.
	Generation string
	// From and To bound the windows that are written, by their start, as TIMESTAMP text in the windows' local
	// time; "" is open. Input is read from the beginning, as rows of earlier windows may count.
	From, To string
	// Windows are, by table, those that are written, and that are in [From, To); a table that is not named gets all.
	Windows map[string][]results.Span
	// Since lets sources that know the time of records begin there and not at their beginning
	// ('scan.startup.mode' = 'timestamp'); zero: at the beginning.
	Since time.Time
	// Table is the only table of results to write; "": all that the script writes.
	Table string
	// AsWritten keeps to the lateness that the script allows, so that rows which were too late live are too late
	// again. Otherwise windows wait for all rows, and are written once.
	AsWritten bool
	// Unversioned lets sinks be written that know no generations.
	Unversioned bool

	// endless are the tables of results whose job reads on: not all of its sources end by themselves.
	endless map[string]bool
}

// KeyGeneration and its kin are the configuration that a backfill fixes.
const (
	keyGeneration   = "tidemark.generation"
	keyBackfillFrom = "tidemark.backfill.from"
	keyBackfillTo   = "tidemark.backfill.to"
	keyComplete     = catalog.KeyBackfillComplete

	keyBackfillWindows = catalog.KeyBackfillWindows
)

// BackfillReport is what a backfill does or did; it is kept as a record of kind "backfill" with each table when it
// begins and when it ends.
type BackfillReport struct {
	results.Made
	Generation string    `json:"generation"`
	Table      string    `json:"table"`
	From       string    `json:"from,omitempty"`
	To         string    `json:"to,omitempty"`
	Ended      time.Time `json:"ended,omitzero"`
	// Left is the start of the first window that was left to the job, as it may still correct it; nil where none
	// was. Times are of the windows, in ms.
	Left *int64 `json:"left_from,omitempty"`
	// Binary is the version of this program, Script the SHA-256 of the SQL text with its variables
	// replaced by Define, Inputs the tables that were read.
	Binary string            `json:"binary"`
	Script string            `json:"script_sha256"`
	Define map[string]string `json:"define,omitempty"`
	// Config is what SET and --set made of the configuration, without what may be secret.
	Config map[string]string `json:"config,omitempty"`
	Inputs []BackfillInput   `json:"inputs"`
	Rows   int64             `json:"rows"`
	Late   int64             `json:"late"`
	Dead   int64             `json:"dead_letters"`
}

// BackfillInput is a table that a backfill read, and how much of it.
type BackfillInput struct {
	Table     string            `json:"table"`
	Connector string            `json:"connector"`
	Options   map[string]string `json:"options"`
	Rows      int64             `json:"rows"`
	Bytes     int64             `json:"bytes"`
	// Version says which state of the table was read.
	Version InputVersion `json:"version"`
}

// Backfill runs a script over history into a generation of its own. Sources that do not end are bounded by
// what they hold now. The engine must be this call's own.
func (e *Engine) Backfill(ctx context.Context, name, text string, b BackfillOptions, h Handler) ([]BackfillReport, error) {
	if !catalog.GenerationName.MatchString(b.Generation) {
		return nil, fmt.Errorf("--generation cannot be %q: letters, digits, '.', '_' and '-', at most 64", b.Generation)
	}
	if err := b.localTimes(); err != nil {
		return nil, err
	}
	// The script says by itself which generation its job writes.
	written := map[string]string{}
	if own, err := e.ResultTables(name, text); err == nil { // what is wrong with it is told below
		for _, t := range own {
			written[t.Name] = t.Results.Generation
		}
	}
	if err := e.overHistory(name, text, &b); err != nil {
		return nil, err
	}
	e.o.Recovery.Fresh = e.o.Recovery.From == "" && e.o.Recovery.Fresh
	tables, stores, err := e.OpenResults(ctx, name, text, b.Table)
	if err != nil {
		return nil, err
	}
	defer closeStores(stores)
	run := &backfill{e: e, o: b, script: scriptHash(text, e.o.Define), id: newRun(), started: time.Now().UTC()}
	for i, s := range stores {
		x, err := run.target(ctx, tables[i], s, written[tables[i].Name])
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", tables[i].Name, err)
		}
		run.targets = append(run.targets, x)
	}
	e.o.Only = func(p *plan.Plan) bool { return writesResults(p, b.Table) || b.Unversioned && b.Table == "" }
	e.o.NoDeadLetters = !b.Unversioned // what refuses a row today refused it when it came
	e.claim = run.claim
	h = run.watch(h)
	if err = e.Script(ctx, name, text, h); err != nil && !run.began.Load() {
		return nil, err // nothing was written, so there is nothing to tell of
	}
	var out []BackfillReport
	for _, x := range run.targets {
		r, nerr := run.end(context.WithoutCancel(ctx), x, err)
		if nerr != nil && err == nil {
			err = fmt.Errorf("the record of the backfill of table %s: %w", x.t.Name, nerr)
		}
		out = append(out, r)
	}
	return out, err
}

// target is a table of results that a backfill fills.
type target struct {
	t       *connector.Table
	s       results.Store
	spans   []results.Span // of windows that are written
	left    *int64
	job     int64 // the watermark of the job when the backfill began
	server  int64 // when that was, by the clock of the target
	claimed bool
}

// target finds out which windows of a table are to be computed: not those that the job may still correct, as what
// there is of them now would be taken for the end of it.
func (b *backfill) target(ctx context.Context, t *connector.Table, s results.Store, written string) (*target, error) {
	if err := s.Ensure(ctx); err != nil {
		return nil, err
	}
	p, err := s.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	if err := notShown(&p, b.o.Generation, t.Name); err != nil {
		return nil, err
	}
	x := &target{t: t, s: s}
	if x.server, err = s.Now(ctx); err != nil {
		return nil, err
	}
	asked, err := b.o.span()
	if err != nil {
		return nil, err
	}
	spans := []results.Span{asked}
	if some := b.o.Windows[t.Name]; some != nil {
		spans = asked.Clip(results.Join(some))
	}
	var to int64
	if to, x.job, err = results.Settled(ctx, s, t.Results, written); err != nil {
		return nil, err
	}
	if t.Results.WindowStart == "" {
		x.spans = spans
		return x, nil
	}
	x.spans = results.Span{From: vec.MinTime, To: to}.Clip(spans)
	if len(x.spans) == 0 {
		return nil, fmt.Errorf("the job may still correct all windows %s (those from %s on), so they are left to it; wait, or run a job in a generation of its own ('%s') and promote that",
			results.SpansText(spans), FormatTime(to), keyGeneration)
	}
	if len(spans) > 0 && to < spans[len(spans)-1].To {
		x.left = &to
	}
	if !slices.Equal(x.spans, []results.Span{results.All}) {
		b.e.o.Override[keyBackfillWindows+t.Name] = spansOption(x.spans)
	}
	return x, nil
}

// spansOption writes spans as the option does that bounds what is written.
func spansOption(spans []results.Span) string {
	var parts []string
	for _, y := range spans {
		part := "/"
		if y.From != vec.MinTime {
			part = fmt.Sprint(y.From) + part
		}
		if y.To != vec.MaxTime {
			part += fmt.Sprint(y.To)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// claim notes that tables of a job are about to be written by this backfill, and by no other one; place is where
// its checkpoints are.
func (b *backfill) claim(ctx context.Context, p *plan.Plan, place string) error {
	for _, x := range b.targets {
		if !writesResults(p, x.t.Name) || x.claimed {
			continue
		}
		b.place = place
		doc := b.report(x, nil)
		doc.Begun, doc.Windows = true, nil
		if err := results.Claim(ctx, x.s, b.o.Generation, doc, doc.Made); err != nil {
			return &connector.Fatal{Err: fmt.Errorf("table %s: %w", x.t.Name, err)}
		}
		x.claimed = true
	}
	return nil
}

// end keeps the record of what became of a table.
func (b *backfill) end(ctx context.Context, x *target, err error) (BackfillReport, error) {
	r := b.report(x, err)
	if err == nil {
		spans, job, werr := b.whole(ctx, x, &r)
		if werr != nil {
			return r, werr
		}
		if r.Moving = x.t.Results.WindowStart == "" && job != vec.MaxTime; !r.Moving && !slices.Equal(spans, []results.Span{results.All}) {
			r.Windows = append([]results.Span{}, spans...)
		}
	}
	doc, jerr := json.Marshal(r)
	return r, errors.Join(jerr, x.s.Note(ctx, results.Record{Kind: results.KindBackfill, Name: b.o.Generation, At: r.Ended.UnixMilli(), Document: doc}))
}

// whole is the windows that the generation is whole for now that all have been written. job is the watermark of the job,
// also of one that is still to come where its sources do not end: it will read what they hold now and go on, and
// may correct what is not final at the last of that.
func (b *backfill) whole(ctx context.Context, x *target, r *BackfillReport) (spans []results.Span, job int64, err error) {
	spans, job = x.spans, x.job
	if job == vec.MaxTime && b.o.endless[x.t.Name] {
		rows, err := x.s.Progress(ctx, b.o.Generation, 1)
		if err != nil {
			return nil, 0, err
		}
		if job = vec.MinTime; len(rows) > 0 {
			job = rows[0].MaxTime
		}
		if x.t.Results.WindowStart != "" {
			to := results.SettledAt(x.t.Results, job)
			spans, r.Left = results.Span{From: vec.MinTime, To: to}.Clip(spans), &to
		}
	}
	spans, err = results.Whole(ctx, x.s, x.t.Results, b.o.Generation, spans, job)
	return spans, job, err
}

// overHistory fixes the configuration by which a script runs over history: into generation b.Generation, bounded, and
// no more than the windows asked for.
func (e *Engine) overHistory(name, text string, b *BackfillOptions) error {
	if e.o.Override = maps.Clone(e.o.Override); e.o.Override == nil {
		e.o.Override = map[string]string{}
	}
	e.o.Override[keyGeneration] = b.Generation
	for key, v := range map[string]string{keyBackfillFrom: b.From, keyBackfillTo: b.To} {
		if v != "" {
			e.o.Override[key] = v
		}
	}
	return e.backfillPlan(name, text, b)
}

// span is the windows that From and To ask for.
func (b *BackfillOptions) span() (results.Span, error) {
	out := results.All
	for _, x := range []struct {
		text string
		at   *int64
	}{{b.From, &out.From}, {b.To, &out.To}} {
		if x.text == "" {
			continue
		}
		var err error
		if *x.at, err = ParseTime(x.text); err != nil {
			return out, err
		}
	}
	return out, nil
}

func closeStores(stores []results.Store) {
	for _, s := range stores {
		_ = s.Close() // nothing is on its way
	}
}

// notShown refuses to write a generation that readers see.
func notShown(p *results.Pointer, generation, table string) error {
	shown := p.Default == generation || p.Default == "" && generation == "live"
	for _, r := range p.Ranges {
		shown = shown || r.Generation == generation
	}
	if shown {
		return fmt.Errorf("generation %s of table %s is what readers see: a backfill writes one that nobody sees yet; take another name", generation, table)
	}
	return nil
}

// writesResults reports whether a plan writes a table of results, the one called table unless that is "".
func writesResults(p *plan.Plan, table string) bool {
	return slices.ContainsFunc(p.Results(), func(t *connector.Table) bool { return table == "" || t.Name == table })
}

// backfillPlan bounds the sources of a script, gives its jobs names of their own, and refuses sinks that
// know no generations.
func (e *Engine) backfillPlan(name, text string, b *BackfillOptions) error {
	set := map[string]string{}
	b.endless = map[string]bool{}
	wrote := false
	err := e.plan(&source{name: name, text: text}, func(_ *sql.Session, r *sql.Result) error {
		if !writesResults(r.Plan, b.Table) && (b.Table != "" || !b.Unversioned) {
			if b.Table != "" {
				return nil
			}
			return fmt.Errorf("%s would be written again, and knows no generations; name the table of results to fill with --table, or write it all the same with --allow-unversioned",
				sinksOf(r.Plan))
		}
		for _, n := range r.Plan.Nodes {
			switch o := n.Op.(type) {
			case *plan.Sink:
				if o.Table == nil {
					continue
				}
				wrote = wrote || o.Table.Results != nil
				if o.Table.Results != nil && b.Table != "" && o.Table.Name != b.Table {
					return fmt.Errorf("table %s is written by the same job as table %s (a statement set), so both would be filled; leave out --table", o.Table.Name, b.Table)
				}
				if (o.Table.Results == nil || o.Table.Results.Column["generation"] == "") && !b.Unversioned && (b.AsWritten || !fedByLate(r.Plan, n)) {
					return fmt.Errorf("table %s would be written again, and knows no generations; write it all the same with --allow-unversioned", o.Table.Name)
				}
			case *plan.Source:
				for _, t := range r.Plan.Results() {
					b.endless[t.Name] = b.endless[t.Name] || endless(o.Table)
				}
				if err := boundSource(o.Table, b.Since, set); err != nil {
					return err
				}
			}
		}
		set["pipeline.name"] = r.Plan.Name + "-" + b.Generation
		return nil
	})
	if err != nil {
		return err
	}
	if !wrote {
		return fmt.Errorf("%s writes no table of results: one that has a column such as `revision BIGINT METADATA`", name)
	}
	maps.Copy(e.o.Override, set)
	if !b.AsWritten {
		e.o.Override[keyComplete] = "true"
	}
	return nil
}

// fedByLate reports whether a sink takes late rows only, which tell of this run.
func fedByLate(p *plan.Plan, n *plan.Node) bool {
	for _, e := range n.Inputs {
		from := p.Nodes[e.From]
		if _, ok := from.Op.(*plan.Late); ok || len(from.Inputs) > 0 && fedByLate(p, from) {
			return true
		}
	}
	return false
}

func sinksOf(p *plan.Plan) string {
	var names []string
	for _, n := range p.Nodes {
		if s, ok := n.Op.(*plan.Sink); ok && s.Table != nil {
			names = append(names, s.Table.Name)
		}
	}
	if len(names) == 0 {
		return "the result of a SELECT"
	}
	return "table " + strings.Join(names, ", ")
}

// endless reports whether a table is read on for ever by its job, which a backfill reads as it is now.
func endless(t *connector.Table) bool {
	switch t.Connector {
	case "kafka", "upsert-kafka":
		mode := t.Options["scan.bounded.mode"]
		return mode == "" || strings.EqualFold(mode, "unbounded")
	case "filesystem":
		return t.Options["source.monitor-interval"] != ""
	}
	return false
}

// boundSource notes the options by which a table is read from its beginning, or a time, to what it holds now.
func boundSource(t *connector.Table, since time.Time, set map[string]string) error {
	override := func(k, v string) { set["tidemark.override."+t.Name+"."+k] = v }
	switch t.Connector {
	case "kafka":
		override("scan.bounded.mode", "latest-offset")
		if since.IsZero() {
			override("scan.startup.mode", "earliest-offset")
			return nil
		}
		override("scan.startup.mode", "timestamp")
		override("scan.startup.timestamp-millis", fmt.Sprint(since.UnixMilli()))
	case "upsert-kafka":
		override("scan.bounded.mode", "latest-offset")
	case "filesystem":
		// A watched folder is read as it is now.
		if t.Options["source.monitor-interval"] != "" {
			override("source.monitor-interval", "") // "" takes it away
		}
	}
	return nil
}

// backfill is a running one.
type backfill struct {
	e       *Engine
	o       BackfillOptions
	script  string
	id      string // of this run
	place   string // of its checkpoints
	started time.Time
	targets []*target
	reports atomic.Pointer[[]account]
	began   atomic.Bool // a job was started
}

// account is the account of a job that has come to its end.
type account struct {
	p *plan.Plan
	r *job.Report
}

func (b *backfill) watch(h Handler) Handler {
	told := h.JobStarted
	h.JobStarted = func(j *Run) {
		b.began.Store(true)
		if told != nil {
			told(j)
		}
	}
	was := h.JobEnded
	h.JobEnded = func(j *Run, r *job.Report, err error) {
		if r != nil {
			all := []account{{j.Plan, r}}
			if old := b.reports.Load(); old != nil {
				all = append(slices.Clone(*old), all...)
			}
			b.reports.Store(&all)
		}
		if was != nil {
			was(j, r, err)
		}
	}
	return h
}

// report is what has become of a table by now.
func (b *backfill) report(x *target, err error) BackfillReport {
	t := x.t
	r := BackfillReport{Generation: b.o.Generation, Table: t.Name, From: b.o.From, To: b.o.To, Ended: time.Now().UTC(), Left: x.left,
		Made:   results.Made{Started: b.started, Server: x.server, Place: b.place, Run: b.id},
		Binary: version.String(), Script: b.script, Define: b.e.o.Define}
	if err != nil {
		r.Error = err.Error()
	}
	all := b.reports.Load()
	if all == nil {
		return r
	}
	for _, a := range *all {
		if !writesResults(a.p, t.Name) {
			continue
		}
		r.Config = public(a.p.Config)
		r.Late += a.r.Late
		r.Dead += a.r.Dead
		for _, n := range a.r.Nodes {
			if o, ok := n.Node.Op.(*plan.Sink); ok && o.Table != nil && o.Table.Name == t.Name {
				r.Rows += n.RowsIn
			}
		}
		r.Inputs = append(r.Inputs, inputsOf(a)...)
	}
	return r
}

// public leaves out what may be secret: values of options that are called so, and users and passwords in URLs.
func public(options map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range options {
		low := strings.ToLower(k)
		switch {
		case slices.ContainsFunc([]string{"password", "passwd", "secret", "jaas", "token", "credential", "api-key", "apikey", "authorization", "access-key", "header"},
			func(s string) bool { return strings.Contains(low, s) }):
			v = "***"
		default:
			v = urlUser.ReplaceAllString(v, "$1***@")
			v = urlSecret.ReplaceAllString(v, "$1***")
		}
		out[k] = v
	}
	return out
}

var (
	// A password may hold any letter, also an @ by mistake: all up to the last @ before the path goes.
	urlUser   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@`)
	urlSecret = regexp.MustCompile(`(?i)([?&;](?:user|password|passwd|pwd|token|secret|key|sig|signature|access_token|sslpassword)=)[^&;\s]*`)
)

// scriptHash tells scripts apart: of the text and the variables that it was run with.
func scriptHash(text string, define map[string]string) string {
	h := sha256.New()
	h.Write([]byte(text))
	for _, k := range slices.Sorted(maps.Keys(define)) {
		fmt.Fprintf(h, "\x00%s=%s", k, define[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}
