// Package cli is the command line: what the tidemark command is made of, so that another main can
// link further connectors.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"

	"github.com/tidemark-stream/tidemark/internal/version"
)

// Main runs the command with the process's arguments and returns its exit status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := command()
	if err := root.ExecuteContext(ctx); err != nil {
		var quiet *quietError
		if !errors.As(err, &quiet) {
			fmt.Fprintln(os.Stderr, "error: "+err.Error())
		}
		return 1
	}
	return 0
}

// quietError is an error whose text was printed already.
type quietError struct{ err error }

func (e *quietError) Error() string { return e.err.Error() }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Run the SQL of Apache Flink on streams and files",
		Long: `Tidemark runs the SQL of Apache Flink: event time, windows, state and corrected results,
in one program without a cluster.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.String(),
	}
	root.AddCommand(runCommand(), sqlCommand(), explainCommand(), checkCommand(), planCommand(), stateCommand(), adviseCommand(), whyCommand(),
		ddlCommand(), backfillCommand(), reconcileCommand(), promoteCommand(), backtestCommand(), replayCommand(), pruneCommand(), waitCommand(), dashboardCommand(), exportCommand())
	return root
}

// settings are the flags that every command which reads a script has.
type settings struct {
	set      []string
	define   []string
	recovery engine.RecoveryOptions
}

func (s *settings) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&s.set, "set", nil, "set a configuration key, as SET in the script would; wins over the script (`key=value`)")
	c.Flags().StringArrayVar(&s.define, "define", nil, "replace ${NAME} in the script (`NAME=VALUE`)")
}

// pairs reads key=value arguments.
func pairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s wants key=value, not %q", flag, kv)
		}
		out[strings.TrimSpace(k)] = v
	}
	return out, nil
}

// readScript returns the text of a file, or of standard input for "-".
func readScript(path string) (string, error) {
	if path == "-" {
		b, err := io.ReadAll(os.Stdin)
		return string(b), err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return string(b), nil
}
