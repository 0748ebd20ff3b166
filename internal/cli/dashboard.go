package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
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
	keys            int           // of a topic
	messages        io.Writer     // nil: standard error
	ask             time.Duration // how often brokers are looked for; 0: topicAsk
}

func dashboardCommand() *cobra.Command {
	var f dashboardFlags
	c := &cobra.Command{
		Use:   "dashboard [--config board.yaml] [FILE.sql]",
		Short: "Serve a page over the tables of results of a script",
		Long: `Serve a page of tiles over the tables of results that a script writes, as their targets have them:
numbers, series, bars and tables, with how final and how complete they are. The page is defined by a
YAML file, or by clicks, which are saved to that file. Without FILE.sql the script is the one that the
YAML file names. Nothing is run: the job that writes the tables runs elsewhere. Tables in ClickHouse and
PostgreSQL are asked; a Kafka topic of revisions is read from its beginning, and the newest revision of each
key is kept in memory.`,
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
	c.Flags().IntVar(&f.keys, "topic-keys", dashboard.DefaultTopicKeys, "how many keys of a topic are kept in memory; of more, the ones that came first are let go")
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "refuse changes of the board")
	return c
}

func (f *dashboardFlags) stderr() io.Writer {
	if f.messages != nil {
		return f.messages
	}
	return os.Stderr
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

// sources opens the tables of results that a script writes: those that a target can be asked for, and topics, whose
// readers are not started yet.
func (f *dashboardFlags) sources(ctx context.Context, e *engine.Engine, name, text string) (sources []dashboard.Source, topics []*topicReader, closed func(), err error) {
	var stores []results.Store
	closed = func() {
		for _, s := range stores {
			_ = s.Close() // nothing was written
		}
	}
	tables, err := e.ResultTables(name, text)
	if err == nil && len(tables) == 0 {
		err = fmt.Errorf("%s writes no table of results: one that has a column such as `revision BIGINT METADATA`", name)
	}
	if err != nil {
		return nil, nil, closed, err
	}
	for _, t := range tables {
		if t.Connector == topicConnector {
			r := openTopic(t, f.keys)
			r.ask = cmp.Or(f.ask, topicAsk)
			topics = append(topics, r)
			sources = append(sources, dashboard.Source{Table: t, Store: r.into})
			continue
		}
		s, err := results.Open(ctx, lookedAt(t))
		if err != nil {
			closed()
			return nil, nil, closed, err
		}
		stores = append(stores, s)
		sources = append(sources, dashboard.Source{Table: t, Store: s})
	}
	return sources, topics, closed, nil
}

// lookedAt is t for one who only looks at it: a table that is gone is not made anew, empty, behind the back of its job,
// and who is away is not waited for: the page says so, and looks again.
func lookedAt(t *connector.Table) *connector.Table {
	out := *t
	out.Options = maps.Clone(t.Options)
	delete(out.Options, "sink.create")
	out.Options["connection.max-retry-timeout"] = "1 s"
	return &out
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
	sources, topics, closed, err := f.sources(ctx, engine.New(o), path, text)
	if err != nil {
		return err
	}
	defer closed()
	l, err := metrics.Listen(f.address)
	if err != nil {
		return err
	}
	board, err := dashboard.New(dashboard.Options{Sources: sources, Script: path, Config: f.config, Local: metrics.Local(l.Addr()), Hosts: f.hosts,
		ReadOnly: f.readOnly, Version: version.String()})
	if err != nil {
		_ = l.Close() // it was not used
		return err
	}
	for _, w := range board.Warnings() {
		fmt.Fprintln(f.stderr(), "warning: "+w)
	}
	server := &http.Server{Handler: board.Handler(), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for _, t := range topics {
		readers.Add(1)
		go func() {
			defer readers.Done()
			t.run(ctx)
		}()
	}
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
