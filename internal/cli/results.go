package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/vec"
)

// onResults is a command that looks at the tables of results which a script writes.
type onResults struct {
	settings
	table    string
	from, to string
}

func (r *onResults) flags(c *cobra.Command, ranged bool) {
	r.settings.flags(c)
	c.Flags().StringVar(&r.table, "table", "", "this table of results only")
	if ranged {
		c.Flags().StringVar(&r.from, "from", "", "windows that start at `TIME` or later, such as '2013-01-31 12:00' (default: all)")
		c.Flags().StringVar(&r.to, "to", "", "windows that start before `TIME` (default: all)")
	}
}

// rangeOf reads --from and --to.
func (r *onResults) rangeOf() (from, to int64, err error) {
	from, to = vec.MinTime, vec.MaxTime
	if r.from != "" {
		if from, err = engine.ParseTime(r.from); err != nil {
			return 0, 0, fmt.Errorf("--from: %w", err)
		}
	}
	if r.to != "" {
		if to, err = engine.ParseTime(r.to); err != nil {
			return 0, 0, fmt.Errorf("--to: %w", err)
		}
	}
	if from >= to {
		return 0, 0, errors.New("--from is not before --to")
	}
	return from, to, nil
}

// each calls f with every table of results of a script.
func (r *onResults) each(ctx context.Context, file string, f func(t *connector.Table, s results.Store) error) error {
	return r.all(ctx, file, func(tables []*connector.Table, stores []results.Store) error {
		for i, s := range stores {
			if err := f(tables[i], s); err != nil {
				return fmt.Errorf("table %s: %w", tables[i].Name, err)
			}
		}
		return nil
	})
}

// all calls f with the tables of results of a script.
func (r *onResults) all(ctx context.Context, file string, f func(tables []*connector.Table, stores []results.Store) error) error {
	text, err := readScript(file)
	if err != nil {
		return err
	}
	o, err := r.engineOptions()
	if err != nil {
		return err
	}
	tables, stores, err := engine.New(o).OpenResults(ctx, file, text, r.table)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}()
	return f(tables, stores)
}

func ddlCommand() *cobra.Command {
	var r onResults
	c := &cobra.Command{
		Use:   "ddl CONNECTOR FILE.sql",
		Short: "Print the statements that create the tables of results in their target",
		Long: `Print what to create in ClickHouse or PostgreSQL (CONNECTOR is clickhouse or postgres) for the tables of
results that a script writes: the history of revisions, progress, pointer and records, and the views that
show the newest revision of each cell. 'sink.create' = 'true' in the table's options creates the same.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			some := false
			err := r.each(c.Context(), args[1], func(t *connector.Table, s results.Store) error {
				if t.Connector != args[0] {
					return nil
				}
				some = true
				for _, st := range s.Statements() {
					fmt.Printf("-- %s: %s\n%s;\n\n", st.Name, st.Why, strings.TrimRight(strings.TrimSpace(st.SQL), ";"))
				}
				return nil
			})
			if err == nil && !some {
				err = fmt.Errorf("%s writes no table of results with connector '%s'", args[1], args[0])
			}
			return err
		},
	}
	r.flags(c, false)
	return c
}

func backfillCommand() *cobra.Command {
	var r onResults
	var b engine.BackfillOptions
	var since string
	var rate int64
	var quiet, needed bool
	c := &cobra.Command{
		Use:   "backfill FILE.sql --generation NAME [--from TIME] [--to TIME]",
		Short: "Compute history again, into a generation that nobody sees yet",
		Long: `Run the same script over history, bounded, beside the live job: sources are read from their beginning to what they
hold now, and the windows that start in [--from, --to) are written in a generation of their own. Readers go on seeing
the present one until 'tidemark promote'. What was read, by which program and script, is kept as a record.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, _, err := r.rangeOf(); err != nil {
				return err
			}
			if b.Generation == "" {
				return errors.New("name the generation to write with --generation")
			}
			if since != "" {
				ms, err := engine.ParseInstant(since, nil)
				if err != nil {
					return fmt.Errorf("--since: %w", err)
				}
				b.Since = time.UnixMilli(ms)
			}
			b.Table, b.From, b.To = r.table, r.from, r.to
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			if needed {
				if b.From != "" || b.To != "" {
					return errors.New("--needed finds the windows itself: leave out --from and --to")
				}
				return r.backfillNeeded(c.Context(), args[0], text, b, rate, quiet)
			}
			return r.backfill(c.Context(), args[0], text, b, rate, quiet)
		},
	}
	r.flags(c, true)
	c.Flags().StringVar(&b.Generation, "generation", "", "the `NAME` of the generation to write")
	c.Flags().StringVar(&since, "since", "", "read sources that know the time of their records (Kafka) from `TIME` on, not from their beginning")
	c.Flags().Int64Var(&rate, "rate", 0, "read at most `N` rows a second of each source")
	c.Flags().BoolVar(&b.Unversioned, "allow-unversioned", false, "also write tables that know no generations, late rows and dead letters among them")
	c.Flags().BoolVar(&b.AsWritten, "lateness-as-written", false, "drop rows that come later than the script allows, as a live run does, instead of waiting for all")
	c.Flags().BoolVar(&needed, "needed", false, "only the windows that are marked as needing a backfill")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress and no closing account")
	return c
}

// backfill runs one.
func (r *onResults) backfill(ctx context.Context, file, text string, b engine.BackfillOptions, rate int64, quiet bool) error {
	var done []engine.BackfillReport
	err := r.runAs(ctx, file, &view{output: outputAuto, quiet: quiet, header: !quiet}, func(ctx context.Context, o engine.Options, h engine.Handler) error {
		o.ReadRate = rate
		var err error
		done, err = engine.New(o).Backfill(ctx, file, text, b, h)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range done {
		fmt.Fprintf(os.Stderr, "generation %s of table %s: %s revisions in %s. Next: tidemark reconcile %s %s\n", d.Generation, d.Table,
			show.Count(d.Rows), d.Ended.Sub(d.Started).Round(10*time.Millisecond), file, d.Generation)
		if d.Dead > 0 && !b.Unversioned {
			fmt.Fprintf(os.Stderr, "  %s could not be used. They were not written to the dead-letter output again; --allow-unversioned does that.\n",
				show.Plural(d.Dead, "record or row", "records or rows"))
		}
		switch {
		case d.Moving:
			fmt.Fprintf(os.Stderr, "  The table has no windows, and its job goes on: what that does from now on is not in %s.\n", d.Generation)
		case d.Left != nil:
			fmt.Fprintf(os.Stderr, "  Windows from %s on are left to the job, which may still correct them.\n", engine.FormatTime(*d.Left))
		}
	}
	return nil
}

// backfillNeeded computes the windows that rows came too late for, and no other ones.
func (r *onResults) backfillNeeded(ctx context.Context, file, text string, b engine.BackfillOptions, rate int64, quiet bool) error {
	b.Windows = map[string][]results.Span{}
	windows := 0
	err := r.each(ctx, file, func(t *connector.Table, s results.Store) error {
		j, err := results.LoadJudge(ctx, s, t.Results, vec.MinTime, vec.MaxTime)
		if err != nil {
			return err
		}
		for _, w := range j.NeedsBackfill(vec.MinTime, vec.MaxTime) {
			b.Windows[t.Name] = append(b.Windows[t.Name], results.Span{From: w.Start, To: startsBefore(t.Results, w)})
			windows++
			which := "window " + engine.FormatTime(w.Start) + " needs"
			if n := w.Count(); n > 1 {
				which = fmt.Sprintf("%d windows between %s and %s need", n, engine.FormatTime(w.Start), engine.FormatTime(w.End))
			}
			fmt.Fprintf(os.Stderr, "table %s: %s a backfill for %s\n", t.Name, which, show.Plural(w.Rows, "row", "rows"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if windows == 0 {
		fmt.Fprintln(os.Stderr, "no window needs a backfill")
		return nil
	}
	return r.backfill(ctx, file, text, b, rate, quiet)
}

// startsBefore bounds the starts of the windows that w stands for: one, or a run of neighbours.
func startsBefore(r *connector.Results, w connector.MissedWindow) int64 {
	if g := r.Windows; g != nil && !g.Cumulative && w.End-w.Start >= g.Size {
		return w.End - g.Size + 1
	}
	return max(w.End, w.Start+1)
}

func reconcileCommand() *cobra.Command {
	var r onResults
	var against, since string
	var noSource bool
	var rate int64
	c := &cobra.Command{
		Use:   "reconcile FILE.sql GENERATION",
		Short: "Compare a generation with the one that readers see and with the sources, window by window",
		Long: `Compare distinct keys, counts, sums and content of each window of a generation with those of another one (default:
the one that counts now), print what differs, and keep the evidence as a record. Windows for which the other one
is known to have missed rows may differ. Then compute the windows once more from what the sources hold now, and compare
keys, counts and sums with these; where they cannot be read again (they do not end, or are made up) that is said.
'tidemark promote' wants this to have passed.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			from, to, err := r.rangeOf()
			if err != nil {
				return err
			}
			if noSource && against == results.Source {
				return errors.New("--no-source leaves out what --against source asks for")
			}
			b := engine.BackfillOptions{From: r.from, To: r.to}
			if since != "" {
				ms, err := engine.ParseInstant(since, nil)
				if err != nil {
					return fmt.Errorf("--since: %w", err)
				}
				b.Since = time.UnixMilli(ms)
			}
			differ := false
			err = r.each(c.Context(), args[0], func(t *connector.Table, s results.Store) error {
				var count func([]results.Span) (*results.Counted, error)
				if !noSource {
					count = func(spans []results.Span) (*results.Counted, error) {
						return r.recount(c.Context(), args[0], t, b, spans, rate)
					}
				}
				rec, err := results.Reconcile(c.Context(), s, args[1], against, from, to, count)
				if err != nil {
					return err
				}
				differ = differ || !rec.Equal()
				return rec.Text(os.Stdout)
			})
			if err == nil && differ {
				err = &quietError{errors.New("generations differ")}
			}
			return err
		},
	}
	r.flags(c, true)
	c.Flags().StringVar(&against, "against", "", "compare with this `GENERATION`; source: only with what the sources hold")
	c.Flags().BoolVar(&noSource, "no-source", false, "do not read the sources again")
	c.Flags().StringVar(&since, "since", "", "read sources that know the time of their records (Kafka) from `TIME` on, as the backfill did")
	c.Flags().Int64Var(&rate, "rate", 0, "read at most `N` rows a second of each source")
	return c
}

// recount computes windows of a table again from the sources. That they cannot be read is no error.
func (r *onResults) recount(ctx context.Context, file string, t *connector.Table, b engine.BackfillOptions, spans []results.Span, rate int64) (*results.Counted, error) {
	text, err := readScript(file)
	if err != nil {
		return nil, err
	}
	o, err := r.engineOptions()
	if err != nil {
		return nil, err
	}
	o.ReadRate, b.Table = rate, t.Name
	if t.Results.WindowStart != "" {
		b.Windows = map[string][]results.Span{t.Name: spans}
	}
	line := show.NewLine(os.Stderr)
	line.Set(t.Name + ": counting its windows again from the sources ...")
	defer line.Clear()
	all, err := engine.New(o).Recount(ctx, file, text, b, engine.Handler{})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return &results.Counted{Why: err.Error()}, nil
	}
	return all[t.Name], nil
}

func promoteCommand() *cobra.Command {
	var r onResults
	var force, back bool
	c := &cobra.Command{
		Use:   "promote FILE.sql {GENERATION [--from TIME] [--to TIME] | --back}",
		Short: "Have readers see a generation, in one atomic step",
		Long: `Move the pointer, so that readers see GENERATION for the windows that start in [--from, --to). Refused unless
'tidemark reconcile' has passed for them. --back takes the newest promotion back.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			from, to, err := r.rangeOf()
			if err != nil {
				return err
			}
			if back == (len(args) == 2) {
				return errors.New("name the generation to promote, or take the newest promotion back with --back")
			}
			return r.all(c.Context(), args[0], func(tables []*connector.Table, stores []results.Store) error {
				// No pointer is moved before all may be.
				var moves []*results.Promotion
				for i, s := range stores {
					var m *results.Promotion
					if back {
						m, err = results.PrepareRollback(c.Context(), s)
					} else {
						m, err = results.PreparePromotion(c.Context(), s, args[1], from, to, force)
					}
					if err != nil {
						return fmt.Errorf("table %s: %w", tables[i].Name, err)
					}
					moves = append(moves, m)
				}
				for i, m := range moves {
					p, err := m.Do(c.Context())
					if err != nil {
						if i > 0 {
							err = fmt.Errorf("%w (moved before that: %s)", err, tableNames(tables[:i]))
						}
						return fmt.Errorf("table %s: %w", tables[i].Name, err)
					}
					pointer(tables[i], &p)
				}
				return nil
			})
		},
	}
	r.flags(c, true)
	c.Flags().BoolVar(&force, "force", false, "promote although it was not reconciled")
	c.Flags().BoolVar(&back, "back", false, "take the newest promotion back")
	return c
}

func tableNames(tables []*connector.Table) string {
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// pointer prints which generation counts for which windows.
func pointer(t *connector.Table, p *results.Pointer) {
	fmt.Printf("table %s, pointer version %d:\n", t.Name, p.Version)
	for _, x := range p.Ranges {
		from, to := "the beginning", "the end"
		if x.From != vec.MinTime {
			from = engine.FormatTime(x.From)
		}
		if x.To != vec.MaxTime {
			to = engine.FormatTime(x.To)
		}
		fmt.Printf("  windows from %s to %s: generation %s\n", from, to, x.Generation)
	}
	fmt.Printf("  all other windows: generation %s\n", p.Base())
}

func pruneCommand() *cobra.Command {
	var r onResults
	var o results.PruneOptions
	var before string
	var progress time.Duration
	c := &cobra.Command{
		Use:   "prune FILE.sql",
		Short: "Remove generations that nobody sees, superseded revisions and old progress rows",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Before = vec.MinTime
			if before != "" {
				var err error
				if o.Before, err = engine.ParseTime(before); err != nil {
					return fmt.Errorf("--before: %w", err)
				}
			}
			if progress > 0 {
				o.ProgressBefore = time.Now().Add(-progress).UnixMilli()
			}
			return r.each(c.Context(), args[0], func(_ *connector.Table, s results.Store) error {
				done, err := results.PruneAll(c.Context(), s, o)
				if err != nil {
					return err
				}
				return done.Text(os.Stdout)
			})
		},
	}
	r.flags(c, false)
	c.Flags().StringVar(&before, "before", "", "also remove superseded revisions of windows that start before `TIME`")
	c.Flags().StringSliceVar(&o.Drop, "drop", nil, "generations to drop in any case, unless readers see them")
	c.Flags().StringSliceVar(&o.Keep, "keep", nil, "generations to keep in any case")
	c.Flags().DurationVar(&o.Grace, "grace", 24*time.Hour, "keep what was seen or made within this time")
	c.Flags().DurationVar(&progress, "keep-progress", 30*24*time.Hour, "keep all progress rows of this time, and of what is older those that say something of their own; 0: all")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would go, and remove nothing")
	return c
}

func waitCommand() *cobra.Command {
	var r onResults
	var until, generation string
	var within time.Duration
	c := &cobra.Command{
		Use:   "wait FILE.sql --until TIME",
		Short: "Wait until results are written up to a time",
		Long: `Wait until every window that ends at or before TIME (in the windows' local time) is written and visible, by the
progress rows of the table. Exits with an error when --within has passed first.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			end, err := engine.ParseTime(until)
			if err != nil {
				return fmt.Errorf("--until: %w", err)
			}
			ctx := c.Context()
			if within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, within, fmt.Errorf("results have not reached %s within %s", until, within))
				defer cancel()
			}
			line := show.NewLine(os.Stderr)
			defer line.Clear()
			return r.each(ctx, args[0], func(t *connector.Table, s results.Store) error {
				times := results.TimesOf(t.Results)
				var said string
				err := results.Wait(ctx, s, generation, times.Closed(end), 500*time.Millisecond, func(p connector.Progress) {
					said = p.Completeness()
					text := fmt.Sprintf("%s: watermark %s, waiting for %s", t.Name, engine.FormatTime(times.Local(p.Watermark)), until)
					if said != "" {
						text += ", " + said
					}
					line.Set(text)
				})
				if err == nil && said != "" {
					line.Clear()
					fmt.Fprintf(os.Stderr, "%s: %s\n", t.Name, said)
				}
				if cause := context.Cause(ctx); err != nil && cause != nil {
					return cause
				}
				return err
			})
		},
	}
	r.flags(c, false)
	c.Flags().StringVar(&until, "until", "", "the `TIME`, such as '2013-01-31 12:00'")
	c.Flags().StringVar(&generation, "generation", "", "of this generation (default: that of the job)")
	c.Flags().DurationVar(&within, "within", 0, "give up after this time (default: never)")
	_ = c.MarkFlagRequired("until")
	return c
}

func backtestCommand() *cobra.Command {
	var r onResults
	var b engine.BackfillOptions
	var against string
	var limit int
	var quiet, asJSON bool
	c := &cobra.Command{
		Use:   "backtest NEW.sql [--against GENERATION] [--from TIME] [--to TIME]",
		Short: "Say which cells a changed script would change, without touching any target",
		Long: `Run a script over history, give its rows to nobody, and list the cells of its tables of results that would differ from what
readers see (or from GENERATION): the gate before a deploy. Exits with an error when cells change.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, _, err := r.rangeOf(); err != nil {
				return err
			}
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			b.Table, b.From, b.To = r.table, r.from, r.to
			var done []engine.BacktestReport
			err = r.runAs(c.Context(), args[0], &view{output: outputAuto, quiet: quiet, header: !quiet}, func(ctx context.Context, o engine.Options, h engine.Handler) error {
				var err error
				done, err = engine.New(o).Backtest(ctx, args[0], text, b, against, limit, h)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(done)
			}
			var changes int64
			for i := range done {
				changes += int64(len(done[i].Changes)) + done[i].More
				backtest(os.Stdout, &done[i])
			}
			if changes > 0 {
				return &quietError{errors.New("cells change")}
			}
			return nil
		},
	}
	r.flags(c, true)
	c.Flags().StringVar(&against, "against", "", "compare with this `GENERATION` (default: what readers see)")
	c.Flags().IntVar(&limit, "limit", 100, "how many changes of a table to list")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress and no closing account")
	return c
}

// backtest prints what would change of one table.
func backtest(w io.Writer, r *engine.BacktestReport) {
	fmt.Fprintf(w, "Table %s: %s, %s the same, %s.\n", r.Table, show.Plural(r.Cells, "cell", "cells"), show.Count(r.Same),
		show.Plural(int64(len(r.Changes))+r.More, "changes", "change"))
	cellChanges(w, r.Changes, r.More)
}

// cellChanges prints cells that differ.
func cellChanges(w io.Writer, list []engine.CellChange, more int64) {
	for _, c := range list {
		var key []string
		for _, k := range slices.Sorted(maps.Keys(c.Key)) {
			key = append(key, k+"="+c.Key[k])
		}
		why := ""
		if c.Why != "" {
			why = ": " + c.Why
		}
		fmt.Fprintf(w, "  %s %s%s\n", strings.Join(key, " "), c.Reason, why)
		cols := slices.Collect(maps.Keys(c.Old))
		for k := range c.New {
			if !slices.Contains(cols, k) {
				cols = append(cols, k)
			}
		}
		slices.Sort(cols)
		for _, k := range cols {
			was, now := c.Old[k], c.New[k]
			switch {
			case c.Old == nil:
				fmt.Fprintf(w, "    %-20s %s\n", k, now)
			case c.New == nil:
				fmt.Fprintf(w, "    %-20s was %s\n", k, was)
			default:
				fmt.Fprintf(w, "    %-20s %s -> %s\n", k, was, now)
			}
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "  and %s more\n", show.Count(more))
	}
}
