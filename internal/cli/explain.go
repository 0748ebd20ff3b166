package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"
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
	c := &cobra.Command{
		Use:   "check FILE.sql",
		Short: "Check a script without running it",
		Long: `Do everything but run: parse, bind and plan every statement. With --target flink-1.20, also name
the lines that Flink would treat differently, with the portable spelling.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readScript(args[0])
			if err != nil {
				return err
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
			if len(findings) == 0 {
				fmt.Fprintf(os.Stderr, "%s: ok, %d jobs\n", args[0], jobs)
			}
			return nil
		},
	}
	s.flags(c)
	c.Flags().StringVar(&target, "target", "", "also compare with this engine (flink-1.20)")
	return c
}
