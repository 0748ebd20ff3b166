package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/engine"
)

func planCommand() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "plan --from PLACE FILE.sql",
		Short: "Say what a script would make of a savepoint, without running it",
		Long: `Plan the jobs of a script and say, operator by operator, what would become of the state of the
savepoint or checkpoint at PLACE: reused, migrated, starts empty, or dropped. Without --from the
newest checkpoint of each job is taken. The exit status is 1 when a job would not start, which is
also when something would be dropped and --allow-dropped-state is not given.`,
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
			plans, err := engine.New(o).PlanFrom(c.Context(), args[0], text, s.recovery.From)
			if err != nil {
				return err
			}
			if len(plans) == 0 {
				return fmt.Errorf("%s has no jobs", args[0])
			}
			bad := 0
			for _, p := range plans {
				fmt.Print(planText(p, startOf(s.recovery, p, args[0])))
				if p.Err != nil {
					bad++
				}
			}
			if bad > 0 {
				return &quietError{fmt.Errorf("%d of %d jobs would not start", bad, len(plans))}
			}
			return nil
		},
	}
	s.flags(c)
	c.Flags().StringVar(&s.recovery.From, "from", "", "the savepoint or checkpoint at `PLACE`")
	c.Flags().BoolVar(&s.recovery.AllowDropped, "allow-dropped-state", false, "leave state behind that no operator of the new plan wants")
	return c
}

// planText prints what a job would make of a savepoint.
func planText(p engine.JobPlan, start func(flag string) string) string {
	var b strings.Builder
	if p.From == nil {
		fmt.Fprintf(&b, "job %s %s\n", p.Job, p.Why)
		return b.String()
	}
	m := p.From.Manifest
	fmt.Fprintf(&b, "job %s from %s of %s (%s)\n", p.Job, title(m), moment(m.Started), place(p.From.Location))
	if m.Drained {
		b.WriteString("the job was drained: windows that were open then were emitted, and are emitted again with the rows that come for them\n")
	}
	if p.Parallelism != m.Parallelism {
		fmt.Fprintf(&b, "at parallelism %d, where it was %d: the key groups are shared out again\n", p.Parallelism, m.Parallelism)
	}
	if p.Report != nil {
		b.WriteByte('\n')
		b.WriteString(p.Report.String())
		b.WriteByte('\n')
	}
	var dropped *checkpoint.DroppedError
	switch {
	case errors.As(p.Err, &dropped):
		what := "1 of these would be left behind"
		if n := len(dropped.Lost); n > 1 {
			what = fmt.Sprintf("%d of these would be left behind", n)
		}
		fmt.Fprintf(&b, "The job would not start: %s. If that is meant:\n  %s\n", what, start("--allow-dropped-state "))
	case p.Err != nil:
		fmt.Fprintf(&b, "The job would not start: %v\n", p.Err)
	default:
		fmt.Fprintf(&b, "The job would start:\n  %s\n", start(""))
	}
	return b.String()
}

// startOf returns the command that starts a job as it was planned, with one more flag.
func startOf(o engine.RecoveryOptions, p engine.JobPlan, file string) func(flag string) string {
	return func(flag string) string {
		if o.AllowDropped {
			flag = "--allow-dropped-state "
		}
		if o.From != "" && p.Given { // else it finds its checkpoint itself
			flag = "--from " + quoted(place(p.From.Location)) + " " + flag
		}
		return "tidemark run " + flag + quoted(file)
	}
}

// title is "savepoint 12".
func title(m *checkpoint.Manifest) string {
	if m.Savepoint {
		return fmt.Sprintf("savepoint %d", m.ID)
	}
	return fmt.Sprintf("checkpoint %d", m.ID)
}
