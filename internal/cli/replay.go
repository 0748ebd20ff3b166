package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/show"
	"github.com/tidemark-stream/tidemark/types"
)

func replayCommand() *cobra.Command {
	var s settings
	var o engine.ReplayOptions
	var output string
	var quiet bool
	c := &cobra.Command{
		Use:   "replay FILE.sql --verify [--from CHECKPOINT] [--to CHECKPOINT]",
		Short: "Compute the interval between two kept checkpoints again and compare it with what was sealed",
		Long: `Start the jobs of a script from a checkpoint that is kept, read their sources up to where a later one has them, and compare
what their sinks would get with what was sealed then. Nothing is written, and no lock is taken: the job may run meanwhile.
CHECKPOINT is the number of one of the job's checkpoints, or the place of a savepoint or checkpoint; by default they are the two
newest, which takes 'execution.checkpointing.num-retained' = '2' or more. Exits with an error when something differs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if output != outputTable && output != outputJSON {
				return fmt.Errorf("--output cannot be '%s'; it is table or json", output)
			}
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			eo, err := s.engineOptions()
			if err != nil {
				return err
			}
			line := show.NewLine(os.Stderr)
			if !quiet {
				o.Progress = func(job string, rows, of int64) {
					line.Set(fmt.Sprintf("%s: %s of %s rows read", job, show.Count(rows), show.Count(of)))
				}
			}
			h := engine.Handler{Warn: func(m string) { line.Clear(); fmt.Fprintln(os.Stderr, "warning: "+m) }}
			done, err := engine.New(eo).Replay(c.Context(), args[0], text, o, h)
			line.Clear()
			if err != nil {
				return err
			}
			if output == outputJSON {
				err = printJSON(done)
			} else {
				for i := range done {
					err = errors.Join(err, replayed(os.Stdout, &done[i]))
				}
			}
			if err == nil && slices.ContainsFunc(done, func(r engine.ReplayReport) bool { return r.Differs() }) {
				err = &quietError{errors.New("the replay differs")}
			}
			return err
		},
	}
	s.flags(c)
	c.Flags().Bool("verify", true, "compare with what was sealed; there is no other use of a replay yet")
	c.Flags().StringVar(&o.From, "from", "", "the earlier `CHECKPOINT` (default: the one before --to)")
	c.Flags().StringVar(&o.To, "to", "", "the later `CHECKPOINT` (default: the newest)")
	c.Flags().StringVar(&o.Job, "job", "", "the `JOB` of a script with several (default: all)")
	c.Flags().IntVar(&o.Parallelism, "parallelism", 1, "parallelism of the replay; what it finds does not depend on it")
	c.Flags().IntVar(&o.Limit, "limit", 20, "how many differences of a table to list")
	c.Flags().StringVarP(&output, "output", "o", outputTable, "table or json")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress")
	return c
}

// replayed prints the replay of one job.
func replayed(w io.Writer, r *engine.ReplayReport) error {
	fmt.Fprintf(w, "job %s from checkpoint %d of %s to checkpoint %d of %s, computed again in %s\n", r.Job, r.From.ID, moment(r.From.Started),
		r.To.ID, moment(r.To.Started), show.Duration(r.Took.Round(time.Millisecond)))
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	for _, s := range r.Sources {
		same := ""
		if s.Then != s.Now {
			same = ": the input has changed, or is read otherwise"
		}
		fmt.Fprintf(w, "table %s: %s read then, %s now%s\n", s.Table, show.Plural(s.Then, "row", "rows"), show.Count(s.Now), same)
	}
	schema := columnsOf("sink", "rows then", "rows now", "sum then", "sum now", "compared", "verdict")
	var rows [][]types.Value
	for _, s := range r.Sinks {
		row := []types.Value{s.Table, show.Count(s.RowsThen), show.Count(s.RowsNow), s.DigestThen, s.DigestNow, s.By, string(s.Verdict)}
		if s.By != engine.ReplayByRows && s.By != "" {
			row[1], row[2], row[3], row[4] = "", "", "", "" // how many changes there are depends on how rows come in batches
		}
		rows = append(rows, row)
	}
	if err := (&view{output: outputTable, stdout: &lines{w: w}}).print(schema, rows); err != nil {
		return err
	}
	for _, s := range r.Sinks {
		for _, why := range s.Why {
			fmt.Fprintf(w, "table %s: %s: %s\n", s.Table, s.Verdict, why)
		}
		if len(s.Changes) > 0 {
			fmt.Fprintf(w, "table %s: %s:\n", s.Table, show.Plural(int64(len(s.Changes))+s.More, "difference", "differences"))
			cellChanges(w, s.Changes, s.More)
		}
	}
	var states []string
	for _, s := range r.States {
		if s.Verdict == engine.ReplayDiffers {
			states = append(states, fmt.Sprintf("%s: %s (%s of %s)", s.Operator, s.State, show.Count(s.Differ), show.Plural(s.Entries, "entry", "entries")))
		}
	}
	if len(states) > 0 && r.Differs() {
		fmt.Fprintf(w, "states that are not as in checkpoint %d: %s\n", r.To.ID, strings.Join(states, ", "))
	}
	return nil
}
