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
causes write it, and the position) or by values of their columns, and show what happened to each: its windows,
the watermark when it came, which record had driven it and which split held it, by how much it was late, and
which delay would have kept it. For that the source is read from its beginning, as a backfill reads it.`,
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
				return errors.New("there is no such record in the source")
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
	if a.NoTime {
		fmt.Fprint(w, "It has no event time, so it was dropped (\"null time\").\n\n")
		return
	}
	fmt.Fprintf(w, "Event time %s.\n", engine.FormatTime(a.Time))
	if a.Watermark == vec.MinTime {
		fmt.Fprintln(w, "No watermark had been reached when it came: it was the first of its split.")
	} else {
		fmt.Fprintf(w, "When it came, the watermark of its split was %s, driven by the record at %d (%s), %s before it.\n",
			engine.FormatTime(a.Watermark), a.DriverPosition, engine.FormatTime(a.DriverTime), show.Plural(a.DriverAgo, "record", "records"))
	}
	if len(a.Others) > 0 {
		fmt.Fprintf(w, "The watermark of the table was %s, held by %s of %d splits.\n", engine.FormatTime(a.Combined), a.Holds, len(a.Others)+1)
	}
	if len(a.Windows) == 0 {
		fmt.Fprintln(w, "No window aggregation reads this table's time, so it was never late.")
	}
	for _, x := range a.Windows {
		fmt.Fprintf(w, "Window %s to %s of %s", engine.FormatTime(x.Start), engine.FormatTime(x.End), x.Aggregation)
		if x.LatenessMs > 0 {
			fmt.Fprintf(w, " (corrected for %s)", engine.Interval(x.LatenessMs))
		}
		if x.LateBy < 0 {
			fmt.Fprintln(w, ": in time.")
			continue
		}
		fmt.Fprintf(w, ": too late by %s. A watermark delay of %s, or an allowed lateness of %s, would have kept it.\n",
			engine.Interval(x.LateBy+1), engine.Interval(x.Keep), engine.Interval(x.LatenessMs+x.LateBy+1))
	}
	fmt.Fprintln(w)
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
