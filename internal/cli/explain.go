package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/sql/explain"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

func explainCommand() *cobra.Command {
	var s settings
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain FILE.sql",
		Short: "Show the plans of a script without running it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			o, err := s.engineOptions()
			if err != nil {
				return err
			}
			plans, err := engine.New(o).Explain(args[0], text, asJSON)
			for _, p := range plans {
				fmt.Println(p)
			}
			return err
		},
	}
	s.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the physical plan as JSON")
	return c
}

func checkCommand() *cobra.Command {
	var s settings
	var target string
	var portable, write bool
	c := &cobra.Command{
		Use:   "check FILE.sql",
		Short: "Check a script without running it",
		Long: `Do everything but run: parse, bind and plan every statement. With --target flink-1.20, also name
the lines that Flink would treat differently, with the portable spelling.

With --portable, print the script with the short spellings that Flink refuses (the hint EMIT, metadata of
results and of late rows, options of our own in WITH) as SET statements, which Flink steps over; with --write,
write it back into the file. What has no portable spelling is named on stderr.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
			}
			if write && !portable {
				return errors.New("--write goes with --portable: it writes the portable script into the file")
			}
			if target != "" && target != "flink-1.20" {
				return fmt.Errorf("--target cannot be '%s'; it is flink-1.20", target)
			}
			o, err := s.engineOptions()
			if err != nil {
				return err
			}
			jobs, findings, err := engine.New(o).Check(args[0], text, target)
			if err != nil {
				return err
			}
			for _, f := range findings {
				fmt.Println(f)
			}
			if portable {
				return printPortable(args[0], text, write)
			}
			if len(findings) == 0 {
				fmt.Fprintf(os.Stderr, "%s: ok, %d jobs\n", args[0], jobs)
			}
			return nil
		},
	}
	s.flags(c)
	c.Flags().StringVar(&target, "target", "", "also compare with this engine (flink-1.20)")
	c.Flags().BoolVar(&portable, "portable", false, "print the script in the spelling that Flink steps over")
	c.Flags().BoolVar(&write, "write", false, "with --portable: write the script back into its file")
	return c
}

// printPortable prints a script in its portable spelling, or writes it back into its file.
func printPortable(file, text string, write bool) error {
	out, notes, err := explain.Portable(text)
	if err != nil {
		return fmt.Errorf("%s", sqlerr.Render(err, file, text))
	}
	for _, n := range notes {
		fmt.Fprintf(os.Stderr, "%s:%s: %s\n", file, sqlerr.PositionAt(text, n.Pos.Start), n)
	}
	switch {
	case !write:
		fmt.Print(out)
		return nil
	case out == text:
		fmt.Fprintf(os.Stderr, "%s: nothing to change\n", file)
		return nil
	case file == "-":
		return errors.New("--write needs a file, not standard input")
	}
	return os.WriteFile(file, []byte(out), 0o644)
}
