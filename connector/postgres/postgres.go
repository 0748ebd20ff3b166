// Package postgres writes and reads PostgreSQL tables, under the name that Flink has for it, jdbc, and
// under its own.
//
// Rows are encoded once, as tuples of COPY's binary format. Without a primary key they are appended
// by COPY; with one they go in by INSERT ... SELECT from unnest of one array a column, ON CONFLICT DO
// UPDATE, and deletions by a DELETE in the same way. At least once, a goroutine of each writer sends
// what has come meanwhile. Exactly once, tuples are sealed into segments, which go into the table in
// one transaction with the name of their checkpoint.
package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

func init() {
	changelog := func(t *connector.Table, _ option.Values) types.ChangelogMode {
		if len(t.PrimaryKey) > 0 && t.Results == nil {
			return types.Upsert
		}
		return types.InsertOnly
	}
	const about = "With a PRIMARY KEY rows replace those of the same key and deletions delete them; the database needs a unique index over the key. " +
		"Without one rows are appended by COPY. TIMESTAMP and TIMESTAMP_LTZ keep microseconds: finer digits are cut. STRING also goes into json, jsonb, uuid, enums " +
		"and other types that have a text form, arrays into arrays; MAP, MULTISET and ROW are refused. Column names are found as they are written here, or in lower case. " +
		"Rows that the database refuses for what they contain go to the dead-letter output. The table must exist, or 'sink.create' makes it. Read, it is a bounded table, in the order of a key or of scan.order-by, so that a restart goes on where it was, whole or in the parts of scan.partition.*; ARRAYs come back too, and a value that has no place in its type here stops the job, which says which."
	connector.Register(&connector.Factory{
		Name: "jdbc", Doc: "A table of PostgreSQL, with the options of Flink's JDBC connector; other databases are not supported yet. " + about,
		Options:       slices.Concat(options("jdbc:postgresql://db:5432/shop"), sourceOptions, compatible),
		SinkChangelog: changelog, Check: check, Delivery: delivery, NewSource: newSource, NewSink: newSink,
	})
	connector.Register(&connector.Factory{
		Name: "postgres", Doc: "A table of PostgreSQL. " + about, Options: slices.Concat(options("postgres://db:5432/shop"), sourceOptions),
		SinkChangelog: changelog, Check: check, Delivery: delivery, NewSource: newSource, NewSink: newSink,
	})
}

func delivery(t *connector.Table, o option.Values) (connector.Delivery, string) {
	return (&sink{cfg: connector.SinkConfig{Table: t, Options: o}}).Delivery()
}

func options(example string) []option.Spec {
	return []option.Spec{
		{Name: "url", Required: true, Doc: "The database; parameters such as sslmode follow a question mark.", Example: example},
		{Name: "table-name", Required: true, Doc: "The table, with its schema in front where the search path does not have it.", Example: "public.orders"},
		{Name: "username", Doc: "Who connects."},
		{Name: "password", Secret: true, Doc: "The password; without it that of the URL, PGPASSWORD or ~/.pgpass."},
		{Name: "connection.max-retry-timeout", Kind: option.Duration, Default: "60 s", Doc: "How long a database that is away is waited for."},
		{Name: "sink.buffer-flush.max-rows", Kind: option.Int, Default: "100", Doc: "At least once: as many rows are sent at once; more where they come while the database is busy. 0: as many as there is room for."},
		{Name: "sink.buffer-flush.interval", Kind: option.Duration, Default: "1 s", Doc: "At least once: after how long fewer rows are sent too. 0 is never."},
		{Name: "sink.max-retries", Kind: option.Int, Default: "3", Doc: "How often a write is tried again after a failure that may pass, such as a deadlock."},
		{Name: "sink.delivery-guarantee", Kind: option.Enum, Values: []string{"at-least-once", "exactly-once", "none"}, Default: "at-least-once", Doc: "What a sink promises after a crash; with none, rows are dropped when the database stays away."},
		{Name: "sink.create", Kind: option.Bool, Default: "false", Doc: "Create the table where it is missing, with the columns and the PRIMARY KEY of the definition. A table of results (metadata column revision) comes with its companions and views, see docs/generations.md."},
		{Name: "sink.progress-table", Default: "tidemark_progress", Doc: "Exactly once: the table that remembers which checkpoints went in, made in the schema of the table where it is missing."},
	}
}

// compatible are options of Flink's connector that have no meaning here.
var compatible = []option.Spec{
	{Name: "driver", Doc: "Accepted for compatibility."},
	{Name: "scan.fetch-size", Doc: "Accepted for compatibility: rows are taken off the connection one by one."},
	{Name: "scan.auto-commit", Doc: "Accepted for compatibility."},
	{Name: "lookup.*", Doc: "Of lookup joins, which are not supported yet."},
}

func check(_ *connector.Table, o option.Values) error {
	if _, err := configOf(o); err != nil {
		return err
	}
	for _, key := range []string{"table-name", "sink.progress-table"} {
		if _, err := splitName(o.Get(key)); err != nil {
			return &option.Error{Key: key, Msg: err.Error(), Hint: "write schema.table, with double quotes around names that have a dot"}
		}
	}
	for _, key := range []string{"sink.buffer-flush.max-rows", "sink.max-retries"} {
		if o.Int(key) < 0 {
			return &option.Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be %d", key, o.Int(key)), Hint: "write 0 or more"}
		}
	}
	return checkSource(o)
}

type sink struct {
	cfg    connector.SinkConfig
	config *pgconn.Config

	mu    sync.Mutex
	table *table  // nil: not looked at yet; guarded by mu
	rows  *tuples // how to encode rows for it; guarded by mu
}

func newSink(c connector.SinkConfig) (connector.Sink, error) {
	config, err := configOf(c.Options)
	if err != nil {
		return nil, err
	}
	if err := c.CheckSealed(); err != nil {
		return nil, err
	}
	return &sink{cfg: c, config: config}, nil
}

func (s *sink) guarantee() connector.Delivery { return connector.DeliveryOf(s.cfg.Options) }

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) {
	keyed := len(s.cfg.Table.PrimaryKey) > 0
	switch g := s.guarantee(); {
	case g == connector.ExactlyOnce:
		return g, "one transaction a checkpoint, with its rows and, in " + s.cfg.Options.Get("sink.progress-table") + ", its name"
	case g == connector.AtMostOnce:
		return g, "batches of rows, dropped when the database stays away"
	case keyed:
		return g, "batches of INSERT ... ON CONFLICT and DELETE, sent before source positions are committed; after a crash the same keys are written again"
	default:
		return g, "batches of COPY, sent before source positions are committed; after a crash rows may be appended again"
	}
}

func (s *sink) patience() *patience {
	return &patience{connector.Patience{Tries: int(s.cfg.Options.Int("sink.max-retries")), Within: s.cfg.Options.Duration("connection.max-retry-timeout")}}
}

// described looks at the table, once, and says how to write it.
func (s *sink) described(ctx context.Context) (*table, *tuples, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table != nil {
		return s.table, s.rows, nil
	}
	se := &session{config: s.config}
	defer se.drop()
	p := s.patience()
	p.Within = min(p.Within, connector.OpenWithin)
	for {
		err := s.describe(ctx, se)
		if err == nil {
			return s.table, s.rows, nil
		}
		se.drop()
		if err := p.again(ctx, err); err != nil {
			return nil, nil, fmt.Errorf("open table '%s' of PostgreSQL: %w", s.cfg.Options.Get("table-name"), err)
		}
	}
}

func (s *sink) describe(ctx context.Context, se *session) error {
	if err := se.open(ctx); err != nil {
		return err
	}
	if err := s.create(ctx, se); err != nil {
		return err
	}
	t, err := se.look(ctx, s.cfg.Options.Get("table-name"))
	if err != nil {
		return err
	}
	if s.cfg.Table.Results != nil {
		if err := s.results(func(st *store) error { return st.MayWrite(ctx) }); err != nil {
			return err
		}
	}
	rows, err := t.fit(s.cfg.Table, s.cfg.Schema)
	if err != nil {
		return err
	}
	st := rows.statements(t)
	if err := se.probe(ctx, st.insert, &rows.shape, st.all); err != nil {
		return err
	}
	if s.cfg.Mode.Has(types.Delete) && rows.upserts() {
		if err := se.probe(ctx, st.remove, &rows.shape, st.keys); err != nil {
			return err
		}
	}
	s.table, s.rows = t, rows
	return nil
}

// forget makes the next look at the table a new one.
func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.rows = nil, nil
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, _, _ int) (connector.Writer, error) {
	t, rows, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	if s.guarantee() == connector.ExactlyOnce {
		return &sealer{Sealer: connector.Sealer{Segments: s.cfg.Segments}, enc: rows}, nil
	}
	return newWriter(ctx, s, t, rows), nil
}

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) {
	if s.guarantee() != connector.ExactlyOnce {
		return nil, nil
	}
	return &committer{s: s, session: session{config: s.config}}, nil
}
