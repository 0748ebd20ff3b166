package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
)

func exportCommand() *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Write what other programs show tables of results with"}
	c.AddCommand(exportGrafanaCommand())
	return c
}

func exportGrafanaCommand() *cobra.Command {
	var r onResults
	var alerts bool
	var lag time.Duration
	c := &cobra.Command{
		Use:   "grafana FILE.sql",
		Short: "Print a Grafana dashboard, or alert rules, for the tables of results of a script",
		Long: `Print a Grafana dashboard as JSON: the newest revisions of the tables of results that a script writes to
ClickHouse or PostgreSQL, their progress, and the metrics of the job. Import it and choose the data sources. With
--alerts print alert rules over the metrics instead, in the form of Prometheus' rule files, which Grafana
imports too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if lag < time.Second {
				return fmt.Errorf("--lag cannot be %s; it is how far a result may be behind its window, from 1s", lag)
			}
			if alerts {
				text, err := dashboard.Alerts(int(lag.Seconds()))
				if err == nil {
					_, err = os.Stdout.Write(text)
				}
				return err
			}
			var tables []dashboard.Exported
			err := r.each(c.Context(), args[0], func(t *connector.Table, s results.Store) error {
				tables = append(tables, dashboard.Exported{Table: t, Statements: s.Statements()})
				return nil
			})
			if err != nil {
				return err
			}
			text, err := dashboard.Grafana(strings.TrimSuffix(filepath.Base(args[0]), ".sql"), tables)
			if err == nil {
				_, err = fmt.Printf("%s\n", text)
			}
			return err
		},
	}
	r.flags(c, false)
	c.Flags().BoolVar(&alerts, "alerts", false, "print alert rules")
	c.Flags().DurationVar(&lag, "lag", 5*time.Minute, "with --alerts: how far a result may be behind its window")
	return c
}
