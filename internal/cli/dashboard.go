package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/internal/metrics"
	"github.com/tidemark-stream/tidemark/internal/version"
)

// dashboardFlags is what `tidemark dashboard` is told.
type dashboardFlags struct {
	settings
	config, address string
	hosts           []string
	readOnly        bool
}

func dashboardCommand() *cobra.Command {
	var f dashboardFlags
	c := &cobra.Command{
		Use:   "dashboard [--config board.yaml] [FILE.sql]",
		Short: "Serve a page over the tables of results of a script",
		Long: `Serve a page of tiles over the tables of results that a script writes, as their targets have them:
numbers, series, bars and tables, with how final and how complete they are. The page is defined by a
YAML file, or by clicks, which are saved to that file. Without FILE.sql the script is the one that the
YAML file names. Nothing is run: the job that writes the tables runs elsewhere.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			script := ""
			if len(args) == 1 {
				script = args[0]
			}
			return f.serve(c.Context(), script, func(url string) { fmt.Fprintln(os.Stderr, "The board is at "+url) })
		},
	}
	f.flags(c)
	c.Flags().StringVar(&f.config, "config", "", "the YAML `FILE` of the board; changes made in the page are saved to it")
	c.Flags().StringVar(&f.address, "http", "127.0.0.1:8090", "serve at `HOST:PORT`; with :PORT for this machine only")
	c.Flags().StringArrayVar(&f.hosts, "host", nil, "a `NAME` under which the page may be changed, besides this machine's and IP addresses")
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "refuse changes of the board")
	return c
}

// script finds the SQL file: the one given, else the one that the board names.
func (f *dashboardFlags) script(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if f.config == "" {
		return "", errors.New("give a script, or --config with a board that names one (script: FILE.sql)")
	}
	text, err := os.ReadFile(f.config)
	if err != nil {
		return "", err
	}
	b, err := dashboard.ParseBoard(filepath.Base(f.config), text)
	switch {
	case err != nil:
		return "", err
	case b.Script == "":
		return "", fmt.Errorf("%s names no script; write `script: FILE.sql` into it, or give the script", f.config)
	case filepath.IsAbs(b.Script):
		return b.Script, nil
	}
	return filepath.Join(filepath.Dir(f.config), b.Script), nil
}

// serve serves the page until ctx ends; ready is told its address.
func (f *dashboardFlags) serve(ctx context.Context, given string, ready func(url string)) error {
	path, err := f.script(given)
	if err != nil {
		return err
	}
	text, err := readScript(path)
	if err != nil {
		return err
	}
	o, err := f.engineOptions()
	if err != nil {
		return err
	}
	tables, stores, err := engine.New(o).OpenResults(ctx, path, text, "")
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range stores {
			_ = s.Close() // nothing was written
		}
	}()
	var sources []dashboard.Source
	for i, t := range tables {
		sources = append(sources, dashboard.Source{Table: t, Store: stores[i]})
	}
	l, err := metrics.Listen(f.address)
	if err != nil {
		return err
	}
	board, err := dashboard.New(dashboard.Options{Sources: sources, Config: f.config, Local: metrics.Local(l.Addr()), Hosts: f.hosts,
		ReadOnly: f.readOnly, Version: version.String()})
	if err != nil {
		_ = l.Close() // it was not used
		return err
	}
	server := &http.Server{Handler: board.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		board.Run(ctx)
		// Viewers have been told; what else is under way gets a moment.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(end) // the process ends
	}()
	ready("http://" + l.Addr().String() + "/")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
