// Package clickhouse writes and reads ClickHouse tables, over HTTP or the native protocol.
//
// Rows are turned, column by column, into blocks of ClickHouse's own Native format, which both
// protocols carry as they are. A block is what one INSERT adds, under a token by which the table knows
// it again. At least once, a goroutine of each writer inserts blocks as they are full. Exactly once,
// blocks are sealed into segments and inserted after their checkpoint, always the same bytes under
// the same token: a table that keeps tokens takes each of them once, whatever crashed in between.
//
// The table is looked at before the first row: each column must take all values of its type here
// without loss, and the guarantee is derived from what the table's engine remembers.
package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "clickhouse",
		Doc: "A table of ClickHouse 25.8 or later. The table must exist, or 'sink.create' makes it. Each value is kept without loss or its row is refused: integers go into (U)Int8 to 256 and Decimal, " +
			"DECIMAL into Decimal with as many digits after the point, STRING also into FixedString, UUID, Enum, IPv4, IPv6 and JSON, BYTES into String and FixedString, " +
			"DATE into Date and Date32, TIME into Time and Time64, TIMESTAMP (as clocks show it in the column's time zone) and TIMESTAMP_LTZ into DateTime and DateTime64 with as many digits of the second, " +
			"ARRAY, MAP, MULTISET and ROW into Array, Map and Tuple, intervals into integers (months, milliseconds); LowCardinality and Nullable make no difference. " +
			"Rows that have no place in the table, or that the server refuses for what they contain, go to the dead-letter output. Read, it is a bounded table: each value comes back without loss, or the job stops and says which.",
		Options: slices.Concat(options, resultsOptions, sourceOptions), SinkChangelog: changelog, Check: check, Delivery: delivery, NewSource: newSource, NewSink: newSink,
	})
}

var options = []option.Spec{
	{Name: "url", Required: true, Doc: "The servers and the database: http or https, clickhouse or clickhouses (with TLS) for the native protocol. Of several hosts, separated by commas, one is used until it is away.",
		Example: "http://ch1:8123,ch2:8123/shop"},
	{Name: "table-name", Required: true, Doc: "The table, with its database in front where it is not that of the URL.", Example: "orders"},
	{Name: "database-name", Doc: "The database, instead of the URL's; `default` without any."},
	{Name: "username", Doc: "Who connects; `default` without it."},
	{Name: "password", Secret: true, Doc: "The password."},
	{Name: "tls.ca-file", Doc: "Certificates (PEM) that the server's must come from, instead of the system's."},
	{Name: "tls.certificate-file", Doc: "A certificate (PEM) to show to the server."},
	{Name: "tls.key-file", Doc: "The key of that certificate."},
	{Name: "tls.server-name", Doc: "The name that the server's certificate must have, instead of the host's."},
	{Name: "tls.verify", Kind: option.Bool, Default: "true", Doc: "Whether the server's certificate is looked at."},
	{Name: "compression", Kind: option.Enum, Values: []string{"lz4", "zstd", "none"}, Default: "lz4", Doc: "How blocks are compressed on their way."},
	{Name: "clickhouse.settings.*", Doc: "Settings of the server for each query, such as insert_quorum. async_insert is 0 unless given.", Example: "clickhouse.settings.insert_quorum"},
	{Name: "connection.request-timeout", Kind: option.Duration, Default: "5 min", Doc: "How long an answer of the server may take; then the block is inserted again, under the same token."},
	{Name: "connection.max-retry-timeout", Kind: option.Duration, Default: "60 s", Doc: "How long a server is waited for that is away, has too many parts, or no memory."},
	{Name: "sink.max-retries", Kind: option.Int, Default: "3", Doc: "How often a write is tried again after an error of the server that is not known to last or to pass."},
	{Name: "sink.delivery-guarantee", Kind: option.Enum, Values: []string{"at-least-once", "exactly-once", "none"}, Default: "at-least-once",
		Doc: "What a sink promises after a crash. exactly-once needs a table that keeps tokens: a replicated one, or non_replicated_deduplication_window above 0. With none, blocks are dropped when the server stays away or its answer does."},
	{Name: "sink.buffer-flush.max-rows", Kind: option.Int, Default: "100000", Doc: "As many rows make a block; exactly once, a checkpoint ends one too."},
	{Name: "sink.buffer-flush.max-size", Kind: option.Size, Default: "16 mb", Doc: "As many bytes make a block, before compression."},
	{Name: "sink.buffer-flush.interval", Kind: option.Duration, Default: "1 s", Doc: "At least once: after how long a smaller block is inserted too. 0 is never."},
	{Name: "sink.progress-table", Default: "tidemark_progress", Doc: "Exactly once: the table, in the database of the target, that remembers which checkpoints went in; it is made where it is missing. Empty: none, and tokens alone tell."},
	{Name: "sink.null-as-default", Kind: option.Bool, Default: "false", Doc: "Write the default of its type for a NULL that the column cannot take, instead of refusing the row."},
	{Name: "sink.changelog", Kind: option.Enum, Values: []string{appending, collapsing, replacing}, Default: appending,
		Doc: "How rows that update or delete are written. append: not at all, the planner refuses them. collapsing: as rows with sign 1 and -1, into a CollapsingMergeTree, whose sign column is left out here. " +
			"replacing: as the newest row of its PRIMARY KEY, which is ORDER BY of a ReplacingMergeTree; a version column that is not among the columns here is filled with the time, and is_deleted with deletions."},
}

// At least a hundred thousand rows or so a block are what ClickHouse is made for; the upper bound keeps
// a block within what servers take without splitting it.
const (
	mostRows = 1_000_000
	mostSize = 256 << 20
)

func check(t *connector.Table, o option.Values) error {
	c, err := configOf(o)
	if err != nil {
		return err
	}
	if n := o.Int("sink.buffer-flush.max-rows"); n < 1 || n > mostRows {
		return &option.Error{Key: "sink.buffer-flush.max-rows", Msg: fmt.Sprintf("a block cannot have %d rows", n), Hint: fmt.Sprintf("write a number from 1 to %d", mostRows)}
	}
	if n := o.Size("sink.buffer-flush.max-size"); n < 1 || n > mostSize {
		return &option.Error{Key: "sink.buffer-flush.max-size", Msg: fmt.Sprintf("a block cannot have %d bytes", n), Hint: "write a size up to 256 mb"}
	}
	if o.Int("sink.max-retries") < 0 {
		return &option.Error{Key: "sink.max-retries", Msg: "'sink.max-retries' cannot be negative", Hint: "write 0 or more"}
	}
	if g := o.Enum("sink.delivery-guarantee"); g != "none" {
		async := c.settings["async_insert"]
		wait, given := c.settings["wait_for_async_insert"]
		on := func(s string) bool { return s == "1" || s == "true" }
		if on(async) && (g == "exactly-once" || given && !on(wait)) {
			return &option.Error{Key: "clickhouse.settings.async_insert", Msg: "the server would answer before rows are in, or forget their token, and '" + g + "' is promised",
				Hint: "leave async_insert out; blocks are collected here"}
		}
		for _, off := range []string{"insert_deduplicate", "deduplicate_insert"} {
			if v, ok := c.settings[off]; ok && g == "exactly-once" && !on(v) && v != "enable" {
				return &option.Error{Key: "clickhouse.settings." + off, Msg: "'exactly-once' needs the server to know blocks again", Hint: "leave it out"}
			}
		}
	}
	if err := checkPlace(o); err != nil {
		return err
	}
	return checkChanges(t, o)
}

func delivery(t *connector.Table, o option.Values) (connector.Delivery, string) {
	c, err := configOf(o)
	if err != nil {
		return connector.AtLeastOnce, err.Error()
	}
	return (&sink{cfg: connector.SinkConfig{Table: t, Options: o}, c: c}).Delivery()
}

type sink struct {
	cfg connector.SinkConfig
	c   *config

	mu    sync.Mutex
	table *table // nil: not looked at yet; guarded by mu
}

func newSink(cfg connector.SinkConfig) (connector.Sink, error) {
	c, err := configOf(cfg.Options)
	if err != nil {
		return nil, err
	}
	if err := cfg.CheckSealed(); err != nil {
		return nil, err
	}
	return &sink{cfg: cfg, c: c}, nil
}

func (s *sink) guarantee() connector.Delivery { return connector.DeliveryOf(s.cfg.Options) }

// Delivery implements connector.Sink. For exactly-once it asks the server what the table remembers, as
// the guarantee depends on it; a server that is away is said to be.
func (s *sink) Delivery() (connector.Delivery, string) {
	switch s.guarantee() {
	case connector.AtMostOnce:
		return connector.AtMostOnce, "each block is inserted once; it is dropped when the server is away or its answer is lost"
	case connector.AtLeastOnce:
		return connector.AtLeastOnce, "blocks are inserted before source positions are committed, and again where the answer was lost, under the same token; after a crash other blocks have the same rows again"
	}
	t, err := s.seen()
	how := "blocks are sealed, and inserted after their checkpoint, each under a token of its own"
	switch {
	case err != nil:
		return connector.ExactlyOnce, how + ", if the table keeps tokens, which could not be looked up now (" + err.Error() + "): else the job does not start"
	case t.memory.problem != "":
		return connector.AtLeastOnce, "'exactly-once' cannot be kept, and the job does not start: " + t.forgets()
	}
	return connector.ExactlyOnce, how + ", into " + t.memory.words() + ". " + s.limits()
}

// limits says what an insert whose answer was lost is bound to.
func (s *sink) limits() string {
	if s.cfg.Options.Get("sink.progress-table") == "" {
		return "After a crash all blocks of the last checkpoints are inserted again: those must still be known"
	}
	return "What went in is noted in " + s.cfg.Options.Get("sink.progress-table") + "; only blocks since the last note are inserted again after a crash, and those must still be known"
}

// forgets says why exactly-once cannot be kept, and how it could.
func (t *table) forgets() string {
	return fmt.Sprintf("table %s.%s (%s) does not know a block that is inserted again, as %s; %s, or use 'at-least-once'", t.database, t.name, t.engine, t.memory.problem, t.memory.remedy)
}

func (s *sink) patience() *patience {
	return &patience{connector.Patience{Tries: s.c.tries, Within: s.c.patience}}
}

// lookWithin is the time that EXPLAIN has for a look.
const lookWithin = 2 * time.Second

// seen looks at the table, for EXPLAIN.
func (s *sink) seen() (*table, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	se := &session{c: s.c}
	defer se.close()
	return se.look(ctx)
}

// described looks at the table, once.
func (s *sink) described(ctx context.Context) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table != nil {
		return s.table, nil
	}
	se := &session{c: s.c}
	defer se.close()
	p := s.patience()
	p.Within = min(p.Within, connector.OpenWithin)
	for {
		t, err := s.open(ctx, se)
		if err == nil {
			s.table = t
			return t, nil
		}
		if err := p.again(ctx, err); err != nil {
			return nil, fmt.Errorf("open table '%s' of ClickHouse: %w", s.cfg.Options.Get("table-name"), err)
		}
	}
}

// open looks at the table, which 'sink.create' makes where it is missing.
func (s *sink) open(ctx context.Context, se *session) (*table, error) {
	if err := s.create(ctx, se); err != nil {
		return nil, err
	}
	t, err := se.look(ctx)
	if err != nil {
		return nil, err
	}
	if s.cfg.Table.Results != nil {
		if err := s.results(func(st *store) error { return st.MayWrite(ctx) }); err != nil {
			return nil, err
		}
	}
	return t, s.accept(t)
}

// accept refuses tables into which the rows, or the guarantee, do not go.
func (s *sink) accept(t *table) error {
	if _, err := t.fit(&s.cfg); err != nil {
		return err
	}
	if s.guarantee() != connector.ExactlyOnce {
		return nil
	}
	if t.memory.problem != "" {
		return connector.Fatalf("'sink.delivery-guarantee' = 'exactly-once': %s", t.forgets())
	}
	if len(s.c.hosts) > 1 && !t.memory.shared {
		return connector.Fatalf("'url' names %d hosts, and table %s.%s (%s) is another one on each of them: what one knows of a block the others do not; name one host, or use a replicated table",
			len(s.c.hosts), t.database, t.name, t.engine)
	}
	return nil
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, _, _ int) (connector.Writer, error) {
	t, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	enc, err := t.fit(&s.cfg)
	if err != nil {
		return nil, err
	}
	cut := cutter{enc: enc, rows: int(s.cfg.Options.Int("sink.buffer-flush.max-rows")), bytes: int(s.cfg.Options.Size("sink.buffer-flush.max-size"))}
	if s.guarantee() == connector.ExactlyOnce {
		return newSealer(s, cut), nil
	}
	return newWriter(ctx, s, t, cut), nil
}

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) {
	if s.guarantee() != connector.ExactlyOnce {
		return nil, nil
	}
	return &committer{s: s, insert: inserter{s: s, session: session{c: s.c}}, done: map[string]mark{}}, nil
}

// cutter cuts rows into blocks.
type cutter struct {
	enc         *encoder
	rows, bytes int              // of a block
	places      connector.Places // of the rows of the block at hand
	// dst is what a block is appended to; full takes it then, and the places of its rows, which are valid
	// during the call.
	dst  func() []byte
	full func(context.Context, []byte, *connector.Places) error
}

// add takes rows of b.
func (c *cutter) add(ctx context.Context, b *vec.Batch, rows []int32) error {
	for len(rows) > 0 {
		n := min(len(rows), c.rows-c.enc.n)
		c.enc.add(b, rows[:n])
		c.places.Add(b, rows[:n])
		rows = rows[n:]
		if c.enc.n >= c.rows || c.enc.size() >= c.bytes {
			if err := c.cut(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut ends a block that has rows.
func (c *cutter) cut(ctx context.Context) error {
	if c.enc.n == 0 {
		return nil
	}
	err := c.full(ctx, c.enc.block(c.dst()), &c.places)
	c.places.Reset()
	return err
}
