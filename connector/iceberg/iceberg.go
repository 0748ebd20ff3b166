// Package iceberg is the sink of Apache Iceberg tables, with the options of Flink's connector, through
// REST and SQL catalogs, into a local folder or S3.
//
// Rows go into Parquet files while an epoch lasts; nobody sees these until its checkpoint is complete, and
// a snapshot has them all. Tables are appended to, or, with a PRIMARY KEY, rows replace and delete others
// by equality deletes. Columns are handed to Arrow as they lie in memory, where their form is the same.
package iceberg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "iceberg",
		Doc: "An Apache Iceberg table, with the options of Flink's connector. Rows are appended, or with a PRIMARY KEY replaced and deleted by equality deletes. " +
			"A table that does not exist is made. TIMESTAMP and TIMESTAMP_LTZ keep microseconds: finer digits are cut. See docs/iceberg.md. Reading is not supported yet.",
		Options: options, Check: check, Delivery: delivery, NewSink: newSink,
		SinkChangelog: func(t *connector.Table, o option.Values) types.ChangelogMode {
			switch {
			case len(t.PrimaryKey) == 0:
				return types.InsertOnly
			case upserts(o):
				return types.Upsert
			}
			return types.Retract
		},
	})
}

func delivery(t *connector.Table, o option.Values) (connector.Delivery, string) {
	return (&sink{cfg: connector.SinkConfig{Table: t, Options: o}}).Delivery()
}

var options = []option.Spec{
	{Name: "catalog-name", Doc: "The name of the catalog, which a SQL catalog keeps with its tables.", Default: "tidemark"},
	{Name: "catalog-type", Required: true, Kind: option.Enum, Values: []string{"rest", "jdbc", "sql"}, Doc: "What keeps the tables: a REST catalog, or a SQL database (jdbc and sql are the same)."},
	{Name: "uri", Required: true, Doc: "Where the catalog is: a URL of a REST catalog; jdbc:sqlite:path, sqlite:///path, jdbc:postgresql://host/database or postgresql://user@host/database.", Example: "http://catalog:8181"},
	{Name: "warehouse", Doc: "Where new tables of a SQL catalog go, a folder or s3://bucket/path; for a REST catalog what it calls its warehouse.", Example: "s3://lake/warehouse"},
	{Name: "catalog-database", Default: "default_database", Doc: "The namespace of the table; made where it is missing."},
	{Name: "catalog-table", Doc: "The name of the table in the catalog; that of the definition by default."},
	{Name: "location", Doc: "Where a table that is made here keeps its files, if not below the warehouse."},
	{Name: "format-version", Kind: option.Int, Default: "2", Doc: "The format version of a table that is made here; 3 is not supported yet."},
	{Name: "upsert-enabled", Kind: option.Bool, Doc: "Every row replaces the one with its key. Without it only changes of the query's result delete rows, and insertions do not."},
	{Name: "write.upsert.enabled", Kind: option.Bool, Default: "false", Doc: "The same, as a property of the table."},
	{Name: "sink.create-table", Kind: option.Bool, Default: "true", Doc: "Whether a table that does not exist is made, with the columns, the key and the partitions of the definition, or is an error."},
	{Name: "sink.delivery-guarantee", Kind: option.Enum, Values: []string{"exactly-once", "at-least-once", "none"}, Default: "exactly-once", Doc: "What a sink promises after a crash. At least once commits the files of an epoch when they are written, not when the checkpoint is complete; with none, they are dropped when the catalog stays away."},
	{Name: "sink.buffer-memory", Kind: option.Size, Default: "64 mb", Doc: "How much a writer holds in memory: row groups that are being written, and with a key the rows of the epoch. When it is used up, they are written out."},
	{Name: "sink.max-retry-timeout", Kind: option.Duration, Default: "2 min", Doc: "How long a catalog or store that is away is waited for."},
	{Name: "target-file-size-bytes", Kind: option.Size, Doc: "At which size a file is finished and the next one begun; else 'write.target-file-size-bytes', else 512 mb."},
	{Name: "write-format", Kind: option.Enum, Values: []string{"parquet"}, Doc: "The format of files; else 'write.format.default'."},
	{Name: "compression-codec", Doc: "The compression of files; else 'write.parquet.compression-codec', else zstd."},
	{Name: "compression-level", Kind: option.Int, Doc: "Its level; else 'write.parquet.compression-level'."},
	{Name: "write.format.default", Doc: "The format of files: parquet."},
	{Name: "write.*", Doc: "Other properties of the table, such as write.parquet.compression-codec, write.target-file-size-bytes, write.metadata.metrics.default: they count for what is written here, and are set on a table that is made here."},
	{Name: "commit.*", Doc: "Properties of a table that is made here."},
	{Name: "history.*", Doc: "Properties of a table that is made here."},
	{Name: "gc.enabled", Kind: option.Bool, Doc: "A property of a table that is made here."},
	{Name: "credential", Secret: true, Doc: "REST catalog: client id and secret for OAuth2, as id:secret."},
	{Name: "token", Secret: true, Doc: "REST catalog: a bearer token."},
	{Name: "scope", Doc: "REST catalog: the OAuth2 scope."},
	{Name: "oauth2-server-uri", Doc: "REST catalog: where tokens are made."},
	{Name: "prefix", Doc: "REST catalog: the prefix of its paths."},
	{Name: "header.*", Doc: "REST catalog: headers of requests."},
	{Name: "rest.*", Doc: "REST catalog: other properties, such as rest.sigv4-enabled."},
	{Name: "jdbc.user", Doc: "SQL catalog: who connects."},
	{Name: "jdbc.password", Secret: true, Doc: "SQL catalog: the password."},
	{Name: "s3.endpoint", Doc: "The address of the S3 server, where it is not AWS.", Example: "http://localhost:9000"},
	{Name: "s3.access-key-id", Secret: true, Doc: "Access key (also s3.access-key); else the environment's, as for all programs that use AWS."},
	{Name: "s3.secret-access-key", Secret: true, Doc: "Secret key (also s3.secret-key)."},
	{Name: "s3.session-token", Secret: true, Doc: "Session token of temporary keys."},
	{Name: "s3.region", Doc: "The region of the bucket (also client.region)."},
	{Name: "s3.path-style-access", Kind: option.Bool, Doc: "The bucket is part of the path and not of the host name; true by default with 's3.endpoint'."},
	{Name: "s3.access-key", Secret: true, Doc: "The same as s3.access-key-id."},
	{Name: "s3.secret-key", Secret: true, Doc: "The same as s3.secret-access-key."},
	{Name: "client.region", Doc: "The same as s3.region."},
	{Name: "property-version", Doc: "Accepted for compatibility."},
	{Name: "clients", Doc: "Accepted for compatibility."},
	{Name: "io-impl", Doc: "Accepted for compatibility; files go to where their location says."},
	{Name: "distribution-mode", Doc: "Accepted for compatibility; rows of one key go to one writer, others stay where they are."},
	{Name: "write-parallelism", Doc: "Accepted for compatibility; use 'sink.parallelism'."},
}

// writeOptions are those options without a prefix that say how files are written.
var writeOptions = []string{"target-file-size-bytes", "write-format", "compression-codec", "compression-level"}

// isTableProperty reports whether an option is kept with a table.
func isTableProperty(key string) bool {
	return strings.HasPrefix(key, "write.") || strings.HasPrefix(key, "commit.") || strings.HasPrefix(key, "history.") || key == "gc.enabled"
}

// upserts reports whether the definition says that each row replaces the one of its key.
func upserts(o option.Values) bool {
	if o.Has("upsert-enabled") {
		return o.Bool("upsert-enabled")
	}
	return o.Bool("write.upsert.enabled")
}

// refuse makes an error about an option.
func refuse(key, hint, format string, args ...any) error {
	return &option.Error{Key: key, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

func check(t *connector.Table, o option.Values) error {
	if _, err := openerOf(o, func(path string) string { return path }); err != nil {
		return err
	}
	if v := o.Int("format-version"); v != 2 {
		return refuse("format-version", "write 2", "format version %d is not supported yet", v)
	}
	for _, key := range []string{"catalog-database", "catalog-table"} {
		// Names are folders of the warehouse, which files must not leave.
		if v := o.Get(key); strings.ContainsAny(v, "/\\\x00") || strings.Contains(v, "..") || key == "catalog-database" && v == "" {
			return refuse(key, "use letters, digits, _ and -; levels of a namespace are separated by one dot", "'%s' is no name in a catalog", v)
		}
	}
	if f := o.Get("write.format.default"); f != "" && !strings.EqualFold(f, "parquet") {
		return refuse("write.format.default", "use 'parquet'", "files of format '%s' are not supported yet", f)
	}
	if err := checkOptions(o); err != nil {
		return err
	}
	if _, err := (properties{o.All()}).parquetOptions(); err != nil {
		return refuse("connector", "", "%s", err)
	}
	for _, k := range t.PartitionKeys {
		if t.Schema().Index(k) < 0 {
			return refuse("connector", "", "partition column '%s' is not a column of the table", k)
		}
	}
	if _, err := newSchema(t.Columns, t.PrimaryKey); err != nil {
		return refuse("connector", "", "%s", err)
	}
	if len(t.PrimaryKey) == 0 {
		if upserts(o) {
			key := "write.upsert.enabled"
			if o.Has("upsert-enabled") {
				key = "upsert-enabled"
			}
			return refuse(key, "declare PRIMARY KEY (...) NOT ENFORCED, or leave the option out", "rows are replaced by key, and the table has none")
		}
		return nil
	}
	for _, k := range t.PrimaryKey {
		if err := checkKey(t.Columns[t.Schema().Index(k)]); err != nil {
			return refuse("connector", "", "%s", err)
		}
	}
	for _, k := range t.PartitionKeys {
		if !slices.Contains(t.PrimaryKey, k) {
			return refuse("connector", fmt.Sprintf("add '%s' to the PRIMARY KEY, or partition the table by columns of the key", k),
				"the table is partitioned by '%s', which is not in the PRIMARY KEY: the row to replace could lie in any partition", k)
		}
	}
	return nil
}

// sink is a table being written.
type sink struct {
	cfg       connector.SinkConfig
	open      opener
	committed atomic.Int64 // the last snapshot that was committed here; 0: none

	mu     sync.Mutex
	cat    catalogue // nil while it is closed; guarded by mu
	users  int       // writers and committers that are open; guarded by mu
	target *target   // nil: not looked at yet; guarded by mu
}

func newSink(c connector.SinkConfig) (connector.Sink, error) {
	if c.Overwrite {
		return nil, errors.New("INSERT OVERWRITE of an Iceberg table is not supported yet; delete its rows with another engine, and use INSERT INTO")
	}
	open, err := openerOf(c.Options, c.Resolve)
	if err != nil {
		return nil, err
	}
	return &sink{cfg: c, open: open}, nil
}

func (s *sink) guarantee() connector.Delivery { return connector.DeliveryOf(s.cfg.Options) }

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) {
	switch g := s.guarantee(); {
	case g == connector.ExactlyOnce:
		return g, "files are written aside, and one commit a checkpoint adds them, whose snapshot names them"
	case g == connector.AtMostOnce:
		return g, "files are added when they are written, and dropped when the catalog stays away"
	case upserts(s.cfg.Options):
		return g, "files are added when they are written, before source positions are committed; after a crash the same keys are written again"
	default:
		return g, "files are added when they are written, before source positions are committed; after a crash rows may be added again"
	}
}

// identifier is the table's name in the catalog.
func (s *sink) identifier() table.Identifier {
	name := s.cfg.Options.Get("catalog-table")
	if name == "" {
		name = s.cfg.Table.Name
		// The name of a definition may carry its catalog and database.
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	return append(strings.Split(s.cfg.Options.Get("catalog-database"), "."), name)
}

func (s *sink) name() string { return strings.Join(s.identifier(), ".") }

// catalogue opens the catalog where it is closed. Call with mu held.
func (s *sink) catalogue(ctx context.Context) (catalogue, error) {
	if s.cat != nil {
		return s.cat, nil
	}
	cat, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.cat = cat
	return cat, nil
}

// load loads the table as it is now.
func (s *sink) load(ctx context.Context) (*table.Table, error) {
	s.mu.Lock()
	cat, err := s.catalogue(ctx)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return cat.load(ctx, s.identifier())
}

// use notes one more user of the catalog, and done one less: with the last it is closed.
func (s *sink) use() (done func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	return sync.OnceValue(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users--; s.users > 0 || s.cat == nil {
			return nil
		}
		cat := s.cat
		s.cat = nil
		return cat.close()
	})
}

// described looks at the table, once, makes it where it is missing, and says how to write it.
func (s *sink) described(ctx context.Context) (*target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.target != nil {
		return s.target, nil
	}
	p := s.patience()
	p.Within = min(p.Within, connector.OpenWithin)
	for {
		err := s.describe(ctx)
		if err == nil {
			return s.target, nil
		}
		if err := p.again(ctx, err); err != nil {
			return nil, fmt.Errorf("open Iceberg table '%s': %w", s.name(), err)
		}
	}
}

// describe is one try of described. Call with mu held.
func (s *sink) describe(ctx context.Context) error {
	cat, err := s.catalogue(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ident := s.identifier()
	t, err := cat.load(ctx, ident)
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		if !s.cfg.Options.Bool("sink.create-table") {
			return connector.Fatalf("it does not exist; create it, or leave out 'sink.create-table' = 'false'")
		}
		if err = s.create(ctx, cat, ident); err == nil {
			t, err = cat.load(ctx, ident)
		}
	}
	if err != nil {
		return err
	}
	s.target, err = fit(ctx, t, &s.cfg)
	return err
}

// create makes the table of the definition.
func (s *sink) create(ctx context.Context, cat catalogue, ident table.Identifier) error {
	o := s.cfg.Options
	schema, err := newSchema(s.cfg.Table.Columns, s.cfg.Table.PrimaryKey)
	if err != nil {
		return connector.AsFatal(err)
	}
	var by []iceberg.PartitionField
	for i, k := range s.cfg.Table.PartitionKeys {
		f, ok := schema.FindFieldByName(k)
		if !ok {
			return connector.Fatalf("partition column '%s' is not a column of the table", k)
		}
		by = append(by, iceberg.PartitionField{SourceIDs: []int{f.ID}, FieldID: 1000 + i, Name: k, Transform: iceberg.IdentityTransform{}})
	}
	spec := iceberg.NewPartitionSpec(by...)
	props := iceberg.Properties{
		table.PropertyFormatVersion: o.Get("format-version"),
		// Each checkpoint is a commit: without these, metadata pile up.
		table.MetadataDeleteAfterCommitEnabledKey: "true",
		table.ManifestMergeEnabledKey:             "true",
	}
	for k, v := range o.All() {
		if isTableProperty(k) {
			props[k] = v
		}
	}
	if s.cfg.Table.Comment != "" {
		props["comment"] = s.cfg.Table.Comment
	}
	err = cat.create(ctx, ident, schema, &spec, maps.Clone(props), o.Get("location"))
	if errors.Is(err, catalog.ErrTableAlreadyExists) {
		return nil // another writer was faster
	}
	return err
}

// base is a snapshot that is there before what is written now is committed.
func (s *sink) base(t *target) int64 {
	if id := s.committed.Load(); id != 0 {
		return id
	}
	return t.base
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, subtask, _ int) (connector.Writer, error) {
	done := s.use()
	w, err := s.newWriter(ctx, subtask)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return &user{w, done}, nil
}

func (s *sink) newWriter(ctx context.Context, subtask int) (connector.Writer, error) {
	t, err := s.described(ctx)
	if err != nil {
		return nil, err
	}
	var b [6]byte
	rand.Read(b[:])
	id := fmt.Sprintf("%s-%d", hex.EncodeToString(b[:]), subtask)
	memory := max(s.cfg.Options.Size("sink.buffer-memory"), 1<<20)
	if keyed(&s.cfg) {
		return newUpserter(s, t, id, memory)
	}
	f, err := newFiles(t, t.at, false, "data-"+id, new(int), memory)
	if err != nil {
		return nil, err
	}
	return &appender{s: s, id: id, files: f, t: t}, nil
}

// user is a writer that lets the catalog go when it is closed.
type user struct {
	connector.Writer
	done func() error
}

// Close implements connector.Writer.
func (u *user) Close() error { return errors.Join(u.Writer.Close(), u.done()) }

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) {
	if s.guarantee() != connector.ExactlyOnce {
		return nil, nil
	}
	return &committer{s: s, done: s.use()}, nil
}
