package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
)

func adviseCommand() *cobra.Command {
	var s settings
	o := engine.AdviseOptions{}
	var percent float64
	var asJSON bool
	c := &cobra.Command{
		Use:   "advise FILE.sql",
		Short: "Say which delay of the watermark the data want",
		Long: `Read a sample of the tables of a script that have a WATERMARK, and print for each delay of the
watermark how many rows would have come too late, and how long results wait for it. Nothing is written.
Sources that do not end are read until the sample is large enough; Ctrl-C ends that.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			eo, err := s.engineOptions()
			if err != nil {
				return err
			}
			if o.Share = percent / 100; o.Rows <= 0 || o.Share < 0 {
				return fmt.Errorf("--rows must be above 0, and --late not below it")
			}
			all, err := engine.New(eo).Advise(c.Context(), args[0], text, o)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(os.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(all)
			}
			for i := range all {
				if i > 0 {
					fmt.Println()
				}
				advice(os.Stdout, &all[i], o.Share)
			}
			return nil
		},
	}
	s.flags(c)
	c.Flags().StringVar(&o.Table, "table", "", "look at this table only")
	c.Flags().Int64Var(&o.Rows, "rows", 1_000_000, "how many rows of each table to read at most")
	c.Flags().Float64Var(&percent, "late", 0.1, "percentage of rows that may come too late")
	c.Flags().BoolVar(&asJSON, "json", false, "print the advice as JSON")
	return c
}

// advice prints what a sample says of one table.
func advice(w io.Writer, a *engine.Advice, share float64) {
	what := "a sample of"
	if a.Ended {
		what = "all"
	}
	fmt.Fprintf(w, "Table %s, time %s: %s %s rows of %s.\n", a.Table, a.TimeColumn, what, show.Count(a.Rows), show.Plural(int64(a.Splits), "split", "splits"))
	if a.Rows == 0 {
		return
	}
	fmt.Fprintf(w, "The row furthest behind the newest of its split is %s behind.\n", engine.Interval(a.Disorder))
	late := "behind the watermark"
	if len(a.Windows) > 0 {
		late = "too late for their windows"
		fmt.Fprintf(w, "Windows: %s.\n", strings.Join(a.Windows, "; "))
		if a.Into != a.Rows {
			fmt.Fprintf(w, "They get %s rows, as an operator with state is before them: rows that are taken back count, too.\n", show.Count(a.Into))
		}
	}
	fmt.Fprintf(w, "\n%-14s %14s %28s %10s\n", "delay", "rows behind it", "rows "+late, "share")
	for _, p := range a.Curve {
		mark := ""
		if p.Now {
			mark = "  <- now"
		}
		if p.Delay == a.Recommended.Delay {
			mark += "  <- recommended"
		}
		line := fmt.Sprintf("%-14s %14s %28s %10s  %-20s%s", engine.Interval(p.Delay), show.Count(p.Behind), show.Count(p.Late),
			percentOf(p.Late, a.Into), bar(p.Late, a.Curve[0].Late), mark)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	r := a.Recommended
	fmt.Fprintf(w, "\nRecommended: WATERMARK FOR %s AS %[1]s - INTERVAL %s: results come %s after the end of their window, and %s of %s rows (%s) are late, at most %s%% as asked.\n",
		a.TimeColumn, literal(r.Delay), engine.Interval(r.Delay), show.Count(r.Late), show.Count(a.Into), percentOf(r.Late, a.Into), strconv.FormatFloat(100*share, 'g', 4, 64))
	if r.Late > 0 {
		fmt.Fprintf(w, "Without any late row: a delay of %s; or keep the delay short and correct results with EMIT('allowed-lateness' = '%s').\n",
			engine.Interval(a.None), engine.Interval(max(a.None-r.Delay, 1)))
	}
}

// literal is an INTERVAL literal.
func literal(ms int64) string {
	for _, u := range []struct {
		name string
		ms   int64
	}{{"DAY", 86_400_000}, {"HOUR", 3_600_000}, {"MINUTE", 60_000}, {"SECOND", 1000}} {
		if n := ms / u.ms; ms%u.ms == 0 && (n > 0 || u.ms == 1000) {
			if n > 99 { // beyond the precision that is the default
				return fmt.Sprintf("'%d' %s(%d)", n, u.name, len(fmt.Sprint(n)))
			}
			return fmt.Sprintf("'%d' %s", n, u.name)
		}
	}
	return fmt.Sprintf("'%d.%03d' SECOND", ms/1000, ms%1000)
}

func percentOf(n, of int64) string {
	switch p := 100 * float64(n) / float64(of); {
	case n == 0:
		return "0 %"
	case p < 0.001:
		return "< 0.001 %"
	case p < 1:
		return fmt.Sprintf("%.3f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// bar draws n of most in 20 columns.
func bar(n, most int64) string {
	if most == 0 {
		return ""
	}
	k := int(20 * n / most)
	if k == 0 && n > 0 {
		return "|"
	}
	return strings.Repeat("#", k)
}
