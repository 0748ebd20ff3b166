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
)

// BackfillOptions say what a backfill computes again.
type BackfillOptions struct {
	// Generation is the one that is written. It must not be the generation that counts.
	Generation string
	// From and To bound the windows that are written, by their start, as TIMESTAMP text in the windows' local
	// time; "" is open. Input is read from the beginning, as rows of earlier windows may count.
	From, To string
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
}

// KeyGeneration and its kin are the configuration that a backfill fixes.
const (
	keyGeneration   = "tidemark.generation"
	keyBackfillFrom = "tidemark.backfill.from"
	keyBackfillTo   = "tidemark.backfill.to"
	keyComplete     = "tidemark.backfill.complete"
)

var generationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// BackfillReport is what a backfill did; it is kept as a record of kind "backfill" with each table.
type BackfillReport struct {
	Generation string    `json:"generation"`
	Table      string    `json:"table"`
	From       string    `json:"from,omitempty"`
	To         string    `json:"to,omitempty"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	// Binary is the version of this program, Script the SHA-256 of the SQL text with its variables
	// replaced by Define, Inputs the tables that were read.
	Binary string            `json:"binary"`
	Script string            `json:"script_sha256"`
	Define map[string]string `json:"define,omitempty"`
	Inputs []BackfillInput   `json:"inputs"`
	Rows   int64             `json:"rows"`
	Late   int64             `json:"late"`
	Dead   int64             `json:"dead_letters"`
	// Error says why it did not come to its end.
	Error string `json:"error,omitempty"`
}

// BackfillInput is a table that a backfill read, and how much of it.
type BackfillInput struct {
	Table     string            `json:"table"`
	Connector string            `json:"connector"`
	Options   map[string]string `json:"options"`
	Rows      int64             `json:"rows"`
	Bytes     int64             `json:"bytes"`
}

// Backfill runs a script over history into a generation of its own. Sources that do not end are bounded by
// what they hold now. The engine must be this call's own.
func (e *Engine) Backfill(ctx context.Context, name, text string, b BackfillOptions, h Handler) ([]BackfillReport, error) {
	if !generationName.MatchString(b.Generation) {
		return nil, fmt.Errorf("--generation cannot be %q: letters, digits, '.', '_' and '-', at most 64", b.Generation)
	}
	if e.o.Override == nil {
		e.o.Override = map[string]string{}
	}
	e.o.Override = maps.Clone(e.o.Override)
	e.o.Override[keyGeneration] = b.Generation
	for key, v := range map[string]string{keyBackfillFrom: b.From, keyBackfillTo: b.To} {
		if v != "" {
			e.o.Override[key] = v
		}
	}
	if err := e.backfillPlan(name, text, &b); err != nil {
		return nil, err
	}
	e.o.Recovery.Fresh = e.o.Recovery.From == "" && e.o.Recovery.Fresh
	tables, stores, err := e.OpenResults(ctx, name, text, b.Table)
	if err != nil {
		return nil, err
	}
	defer closeStores(stores)
	for i, s := range stores {
		if err := s.Ensure(ctx); err != nil {
			return nil, fmt.Errorf("table %s: %w", tables[i].Name, err)
		}
		p, err := s.Pointer(ctx)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", tables[i].Name, err)
		}
		if err := notShown(&p, b.Generation, tables[i].Name); err != nil {
			return nil, err
		}
	}
	e.o.Only = func(p *plan.Plan) bool { return writesResults(p, b.Table) || b.Unversioned && b.Table == "" }
	run := &backfill{e: e, o: b, script: scriptHash(text, e.o.Define), started: time.Now().UTC()}
	h = run.watch(h)
	if err = e.Script(ctx, name, text, h); err != nil && !run.began.Load() {
		return nil, err // nothing was written, so there is nothing to tell of
	}
	var out []BackfillReport
	for i, t := range tables {
		r := run.report(t, err)
		doc, jerr := json.Marshal(r)
		nctx := context.WithoutCancel(ctx)
		if nerr := errors.Join(jerr, stores[i].Note(nctx, results.Record{Kind: "backfill", Name: b.Generation, At: r.Ended.UnixMilli(), Document: doc})); nerr != nil && err == nil {
			err = fmt.Errorf("the record of the backfill of table %s: %w", t.Name, nerr)
		}
		out = append(out, r)
	}
	return out, err
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
				if (o.Table.Results == nil || o.Table.Results.Column["generation"] == "") && !b.Unversioned && !fedByLate(r.Plan, n) {
					return fmt.Errorf("table %s would be written again, and knows no generations; write it all the same with --allow-unversioned", o.Table.Name)
				}
			case *plan.Source:
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
	started time.Time
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

// report is what became of table t.
func (b *backfill) report(t *connector.Table, err error) BackfillReport {
	r := BackfillReport{Generation: b.o.Generation, Table: t.Name, From: b.o.From, To: b.o.To, Started: b.started, Ended: time.Now().UTC(),
		Binary: version.String(), Script: b.script, Define: b.e.o.Define}
	if err != nil {
		r.Error = err.Error()
	}
	all := b.reports.Load()
	if all == nil {
		return r
	}
	for _, x := range *all {
		if !writesResults(x.p, t.Name) {
			continue
		}
		r.Late += x.r.Late
		r.Dead += x.r.Dead
		for _, n := range x.r.Nodes {
			switch o := n.Node.Op.(type) {
			case *plan.Sink:
				if o.Table != nil && o.Table.Name == t.Name {
					r.Rows += n.RowsIn
				}
			case *plan.Source:
				in := BackfillInput{Table: o.Table.Name, Connector: o.Table.Connector, Options: public(o.Table.Options), Rows: n.RowsIn}
				for _, s := range x.r.Sources {
					if s.Node == n.Node {
						in.Bytes = s.Bytes
					}
				}
				r.Inputs = append(r.Inputs, in)
			}
		}
	}
	return r
}

// public leaves out what may be secret.
func public(options map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range options {
		low := strings.ToLower(k)
		if strings.Contains(low, "password") || strings.Contains(low, "secret") || strings.Contains(low, "jaas") || strings.Contains(low, "token") || strings.Contains(low, "credential") {
			v = "***"
		}
		out[k] = v
	}
	return out
}

// scriptHash tells scripts apart: of the text and the variables that it was run with.
func scriptHash(text string, define map[string]string) string {
	h := sha256.New()
	h.Write([]byte(text))
	for _, k := range slices.Sorted(maps.Keys(define)) {
		fmt.Fprintf(h, "\x00%s=%s", k, define[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}
