package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/vec"
)

func whyCommand() *cobra.Command {
	var s settings
	var table, source, record, at, generation string
	var keys []string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "why FILE.sql {--table RESULT --key COLUMN=VALUE ... | --record SPLIT@POSITION | --key COLUMN=VALUE ... [--at TIME]}",
		Short: "Say how a cell of a result came about, or what happened to a record",
		Long: `With --table, show the history of the cells of a table of results with the given key: what changed from
revision to revision, why it was emitted, and which input records did it.

Without, find records of a source by their place (--record departures-0@1234: the split, as dead letters and
causes write it, and the position) or by values of their columns, and show what happened to each: rejected and
why, without event time, filtered, a stale version, a duplicate, a conflict, expired, in time for its windows or
too late: with the watermark when it came, which record had driven it and which split held it, by how much it was
late, and which delay would have kept it. For that the sources of the jobs that read it are read from their
beginning to what they hold now, and nothing is written; the answer is what such a run does with the record.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			o, err := s.engineOptions()
			if err != nil {
				return err
			}
			key, err := pairs("key", keys)
			if err != nil {
				return err
			}
			if table != "" {
				if record != "" || at != "" {
					return errors.New("--table asks for a cell, --record and --at for a record: leave one out")
				}
				cells, tables, err := engine.New(o).WhyCell(c.Context(), args[0], text, table, key, generation)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cells)
				}
				for i := range cells {
					history(os.Stdout, &cells[i], tables[i])
				}
				return nil
			}
			q := engine.RecordQuestion{Table: source, Values: key, At: at, Limit: limit}
			if record != "" {
				i := strings.LastIndexByte(record, '@')
				if i > 0 {
					q.Split = record[:i]
					q.Position, err = strconv.ParseInt(record[i+1:], 10, 64)
				}
				if i <= 0 || err != nil {
					return fmt.Errorf("--record wants SPLIT@POSITION, such as orders-0@1234, not %q", record)
				}
			}
			found, err := engine.New(o).WhyRecord(c.Context(), args[0], text, q)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(found)
			}
			if len(found) == 0 {
				return errors.New("there is no such record in what the source holds now")
			}
			for i := range found {
				fate(os.Stdout, &found[i])
			}
			return nil
		},
	}
	s.flags(c)
	c.Flags().StringVar(&table, "table", "", "the table of results that the cell is of")
	c.Flags().StringArrayVar(&keys, "key", nil, "a column and its value (`COLUMN=VALUE`); may be given several times")
	c.Flags().StringVar(&generation, "generation", "", "of a cell: this generation only, instead of all that readers see")
	c.Flags().StringVar(&source, "source", "", "the source table that the record is of, where there are several")
	c.Flags().StringVar(&record, "record", "", "the record at `SPLIT@POSITION`")
	c.Flags().StringVar(&at, "at", "", "the event time of the record, such as '2013-01-31 12:00:00'")
	c.Flags().IntVar(&limit, "limit", 10, "how many records to tell of at most")
	c.Flags().BoolVar(&asJSON, "json", false, "answer in JSON")
	return c
}

func printJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// fate prints what happened to a record.
func fate(w io.Writer, a *engine.RecordAnswer) {
	fmt.Fprintf(w, "%s, %s at %d\n", a.Table, a.Split, a.Position)
	for _, c := range slices.Sorted(maps.Keys(a.Row)) {
		fmt.Fprintf(w, "  %-18s %s\n", c, a.Row[c])
	}
	if a.Row == nil {
		fmt.Fprintf(w, "  %s\n", a.Record)
	}
	if a.Timed && a.Row != nil && !a.NoTime {
		fmt.Fprintf(w, "Event time %s.\n", engine.FormatInstant(a.Time, a.Zone))
	}
	if a.Judged {
		watermarks(w, a)
	}
	for i := range a.Jobs {
		f := &a.Jobs[i]
		fmt.Fprintf(w, "Job %s", f.Job)
		if len(f.Writes) > 0 {
			fmt.Fprintf(w, " (writes %s)", strings.Join(f.Writes, ", "))
		}
		fmt.Fprintf(w, ": %s.\n", verdict(f))
		said := ""
		for k := range f.Steps {
			if text := stepText(a, &f.Steps[k], k == len(f.Steps)-1); text != "" && text != said {
				fmt.Fprint(w, text)
				said = text
			}
		}
	}
	fmt.Fprintln(w)
}

// watermarks says how far the table had got when a record came.
func watermarks(w io.Writer, a *engine.RecordAnswer) {
	switch {
	case a.Watermark == vec.MinTime:
		fmt.Fprintln(w, "No watermark had been reached when it came.")
	case a.DriverAgo > 0:
		fmt.Fprintf(w, "When it came, the watermark of its split was %s, driven by the record at %d (%s), %s before it.\n",
			engine.FormatInstant(a.Watermark, a.Zone), a.DriverPosition, engine.FormatInstant(a.DriverTime, a.Zone), show.Plural(a.DriverAgo, "record", "records"))
	default:
		fmt.Fprintf(w, "When it came, the watermark of its split was %s.\n", engine.FormatInstant(a.Watermark, a.Zone))
	}
	if len(a.Others) > 0 {
		fmt.Fprintf(w, "The watermark of the table was %s, held by %s of %d splits.\n", engine.FormatInstant(a.Combined, a.Zone), a.Holds, len(a.Others)+1)
	}
}

// verdict is what a job did with a record, in a few words.
func verdict(f *engine.RecordFate) string {
	why := ""
	if f.Reason != "" {
		why = ": " + f.Reason
	}
	switch f.Outcome {
	case engine.OutcomePassed, engine.OutcomeUsed, engine.OutcomeHeld:
		return "it was used" + why
	case engine.OutcomeInTime:
		return "in time for all of its windows"
	case engine.OutcomeLate:
		return "too late, dropped"
	case engine.OutcomePartlyLate:
		return "too late for some of its windows"
	case engine.OutcomeFiltered:
		return "filtered, a condition (WHERE, HAVING, ON) is not true of it"
	case engine.OutcomeStale:
		return "stale, a newer version of its entity had come before it, so it was dropped"
	case engine.OutcomeDuplicate:
		return "a duplicate, the same version of its entity had come before it, so it was dropped"
	case engine.OutcomeConflict:
		return "a conflict, the same version of its entity had come before with other content, so it was refused"
	case engine.OutcomeExpired:
		return "expired, it is further behind the watermark than entities are remembered, so it was dropped"
	case engine.OutcomeUnchanged:
		return "it changed no result"
	case engine.OutcomeNoTime:
		return "it has no event time, so it was dropped"
	case engine.OutcomeSkipped:
		return "it could not be decoded and was passed over" + why
	case engine.OutcomeRejected:
		return "rejected as a dead letter" + why
	case engine.OutcomeUnknown:
		return "what became of it is not known" + why
	}
	return "it was " + string(f.Outcome) + why
}

// stepText tells of an operator, where it did more than pass the record on.
func stepText(a *engine.RecordAnswer, s *engine.RecordStep, last bool) string {
	what := "  at " + s.Operator
	if s.RowKind != "+I" {
		what += ", its row " + s.RowKind + " (" + map[string]string{"-U": "takes back the version before", "+U": "the new version", "-D": "takes back a row"}[s.RowKind] + ")"
	}
	note := ""
	if s.Note != "" {
		note = "; " + s.Note
	}
	if len(s.Windows) == 0 {
		if s.Outcome == engine.OutcomePassed && note == "" && !last {
			return ""
		}
		if s.Reason != "" {
			note = ": " + s.Reason + note
		}
		return fmt.Sprintf("%s: %s%s\n", what, s.Outcome, note)
	}
	out := ""
	for _, x := range s.Windows {
		out += fmt.Sprintf("%s: window %s to %s", what, engine.FormatTime(x.Start), engine.FormatTime(x.End))
		if x.LatenessMs > 0 {
			out += fmt.Sprintf(" (corrected for %s)", engine.Interval(x.LatenessMs))
		}
		if x.LateBy < 0 {
			out += ": in time" + note + "\n"
			continue
		}
		out += fmt.Sprintf(": too late by %s", engine.Interval(x.LateBy+1))
		if x.Watermark != a.Watermark || !a.Judged {
			out += fmt.Sprintf(", as the watermark was %s", engine.FormatInstant(x.Watermark, a.Zone))
		}
		if x.Keep > 0 {
			out += fmt.Sprintf("; a watermark delay of %s, or an allowed lateness of %s, would have kept it", engine.Interval(x.Keep), engine.Interval(x.LatenessMs+x.LateBy+1))
		} else {
			out += fmt.Sprintf("; an allowed lateness of %s would have kept it", engine.Interval(x.LatenessMs+x.LateBy+1))
		}
		out += note + "\n"
	}
	return out
}

// history prints the revisions of cells, each with what changed.
func history(w io.Writer, a *engine.CellAnswer, t *connector.Table) {
	if len(a.Revisions) == 0 {
		fmt.Fprintf(w, "Table %s has no revision of such a cell.\n", a.Table)
		return
	}
	at := map[string]int{}
	for i, f := range a.Columns {
		at[f.Name] = i
	}
	meta := t.Results.Column
	of := func(row []any, key string) string {
		if i, ok := at[meta[key]]; ok && meta[key] != "" {
			return valueText(row[i])
		}
		return ""
	}
	var before []any
	last := ""
	for _, row := range a.Revisions {
		var id []string
		for _, k := range t.Results.Key {
			id = append(id, k+"="+valueText(row[at[k]]))
		}
		cell := strings.Join(id, " ")
		if g := of(row, "generation"); g != "" {
			cell += ", generation " + g
		}
		if cell != last {
			fmt.Fprintf(w, "%s: %s\n", a.Table, cell)
			last, before = cell, nil
		}
		fmt.Fprintf(w, "  revision %s", of(row, "revision"))
		for _, x := range []struct{ key, text string }{{"emit_reason", ", "}, {"watermark", ", watermark "}, {"input_count", ", rows "}} {
			if v := of(row, x.key); v != "" {
				fmt.Fprint(w, x.text+v)
			}
		}
		if of(row, "is_final") == "true" {
			fmt.Fprint(w, ", final")
		}
		if of(row, "is_deleted") == "true" {
			fmt.Fprint(w, ", deleted")
		}
		fmt.Fprintln(w)
		for _, f := range t.Results.Values(t) {
			now, was := valueText(row[at[f.Name]]), ""
			if before != nil {
				was = valueText(before[at[f.Name]])
			}
			unit := ""
			if u := t.Results.Units[f.Name]; u != "" {
				unit = " " + u
			}
			switch {
			case before == nil:
				fmt.Fprintf(w, "    %-20s %s%s\n", f.Name, now, unit)
			case now != was:
				fmt.Fprintf(w, "    %-20s %s -> %s%s\n", f.Name, was, now, unit)
			}
		}
		if cause := of(row, "cause"); cause != "" {
			fmt.Fprintf(w, "    by input             %s\n", cause)
		}
		before = row
	}
}

// valueText is a value of results.Rows as text.
func valueText(v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		return engine.FormatTime(x.UnixMilli())
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}
