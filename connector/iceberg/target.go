package iceberg

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// target is a table as it was found, and how the rows of a sink go into it. It is shared by the writers
// of all subtasks and does not change.
type target struct {
	uuid     string
	location string
	schema   *iceberg.Schema
	spec     iceberg.PartitionSpec
	version  int // of the format
	base     int64
	files    *place
	columns  []types.Field
	at       []int // the column of each field of the schema, -1 where there is none
	keys     []int // the columns of the key, ascending
	ids      []int // their numbers in the schema
	upsert   bool  // each row replaces the one of its key
	props    properties
}

// place is where the files of a table are written. Catalogs that lend keys of the store lend new ones with
// each loading of the table, so it is renewed with each commit.
type place struct {
	now atomic.Pointer[iceio.WriteFileIO]
}

func (p *place) get() iceio.WriteFileIO { return *p.now.Load() }

// renew takes over the place, and the keys, of a table just loaded.
func (p *place) renew(ctx context.Context, t *table.Table) error {
	fs, err := t.FS(ctx)
	if err != nil {
		return err
	}
	w, ok := fs.(iceio.WriteFileIO)
	if !ok {
		return connector.Fatalf("files cannot be written at %s", t.Location())
	}
	p.now.Store(&w)
	return nil
}

// properties are those of the table, overlaid by options of the definition here.
type properties struct{ m map[string]string }

func (p properties) size(key string, def int64) int64 {
	if v, ok := p.m[key]; ok {
		if n, err := option.ParseSize(v); err == nil && n > 0 {
			return n
		}
	}
	return def
}

func (p properties) get(key, def string) string {
	if v, ok := p.m[key]; ok {
		return v
	}
	return def
}

// The sizes that Iceberg's other writers take by default, except that of row groups: these lie in
// memory, as many as there are partitions being written.
const (
	defaultFileSize     = 512 << 20
	defaultRowGroupSize = 128 << 20
	defaultPageSize     = 1 << 20
	defaultDictSize     = 2 << 20
)

var codecs = map[string]compress.Compression{
	"uncompressed": compress.Codecs.Uncompressed, "none": compress.Codecs.Uncompressed, "snappy": compress.Codecs.Snappy,
	"gzip": compress.Codecs.Gzip, "zstd": compress.Codecs.Zstd, "brotli": compress.Codecs.Brotli, "lz4": compress.Codecs.Lz4Raw,
}

// parquetOptions are how files are written.
func (p properties) parquetOptions() ([]parquet.WriterProperty, error) {
	name := strings.ToLower(p.get("compression-codec", p.get("write.parquet.compression-codec", "zstd")))
	codec, ok := codecs[name]
	if !ok {
		return nil, connector.Fatalf("the compression '%s' of Parquet is not known; write one of uncompressed, snappy, gzip, zstd, brotli, lz4 ('compression-codec', or the table's 'write.parquet.compression-codec')", name)
	}
	out := []parquet.WriterProperty{
		parquet.WithCompression(codec), parquet.WithStoreDecimalAsInteger(true), parquet.WithCreatedBy("tidemark"),
		parquet.WithDataPageSize(p.size("write.parquet.page-size-bytes", defaultPageSize)),
		parquet.WithDictionaryPageSizeLimit(p.size("write.parquet.dict-size-bytes", defaultDictSize)),
		parquet.WithMaxRowGroupLength(1 << 40), // they end by their size
	}
	if level := p.get("compression-level", p.get("write.parquet.compression-level", "")); level != "" {
		n, err := strconv.Atoi(level)
		if err != nil {
			return nil, connector.Fatalf("the compression level of Parquet is '%s'; write a number ('compression-level', or the table's 'write.parquet.compression-level')", level)
		}
		out = append(out, parquet.WithCompressionLevel(n))
	}
	return out, nil
}

// boundLength is how many characters of a text are kept as its bounds; -1 is all, 0 no bounds.
func (p properties) boundLength(column string) int {
	mode := p.get("write.metadata.metrics.column."+column, p.get("write.metadata.metrics.default", "truncate(16)"))
	if n, ok := parseMetrics(mode); ok {
		return n
	}
	return 16
}

// fit checks a table against the definition here.
func fit(ctx context.Context, t *table.Table, c *connector.SinkConfig) (*target, error) {
	m := t.Metadata()
	out := &target{uuid: m.TableUUID().String(), location: strings.TrimSuffix(t.Location(), "/"), schema: t.Schema(), spec: t.Spec(), version: m.Version(),
		columns: c.Schema.Fields, props: properties{map[string]string{}}}
	for k, v := range t.Properties() {
		out.props.m[k] = v
	}
	for k, v := range c.Options.All() {
		if isTableProperty(k) || slices.Contains(writeOptions, k) {
			out.props.m[k] = v
		}
	}
	if err := out.props.checkTable(); err != nil {
		return nil, err
	}
	if s := t.CurrentSnapshot(); s != nil {
		out.base = s.SnapshotID
	}
	if out.version > 2 {
		return nil, connector.Fatalf("its format version %d is not supported yet; write into a table of version 2", out.version)
	}
	var err error
	if out.at, err = matchFields(c.Schema.Fields, t.Schema().Fields()); err != nil {
		return nil, connector.AsFatal(err)
	}
	if f := strings.ToLower(out.props.get("write-format", out.props.get("write.format.default", "parquet"))); f != "parquet" {
		return nil, connector.Fatalf("files of format '%s' are not supported yet; set 'write.format.default' = 'parquet'", f)
	}
	if keyed(c) {
		if err := out.fitKey(t, c); err != nil {
			return nil, connector.AsFatal(err)
		}
	}
	if _, err := newPartitioner(out.spec, out.schema, out.columns, out.at); err != nil {
		return nil, connector.AsFatal(err)
	}
	out.files = &place{}
	return out, out.files.renew(ctx, t)
}

// keyed reports whether rows of c replace or delete others.
func keyed(c *connector.SinkConfig) bool {
	return len(c.Table.PrimaryKey) > 0 && (!c.Mode.IsInsertOnly() || upserts(c.Options))
}

// fitKey finds the key in the table and checks that rows can be found by it.
func (t *target) fitKey(tab *table.Table, c *connector.SinkConfig) error {
	t.upsert = upserts(c.Options) || !c.Options.Has("write.upsert.enabled") && !c.Options.Has("upsert-enabled") && strings.EqualFold(t.props.get("write.upsert.enabled", ""), "true")
	if t.version < 2 {
		return fmt.Errorf("rows are deleted in tables of format version 2, and this one has version %d; upgrade it (its property 'format-version' = '2')", t.version)
	}
	for _, name := range c.Table.PrimaryKey {
		col := c.Schema.Index(name)
		i := slices.Index(t.at, col)
		if i < 0 {
			return fmt.Errorf("column '%s' of the PRIMARY KEY is not in the table", name)
		}
		if err := checkKey(c.Schema.Fields[col]); err != nil {
			return err
		}
		t.keys, t.ids = append(t.keys, col), append(t.ids, t.schema.Field(i).ID)
	}
	slices.Sort(t.keys)
	slices.Sort(t.ids)
	if ids := t.schema.IdentifierFieldIDs; len(ids) > 0 {
		ids = slices.Sorted(slices.Values(ids))
		if !slices.Equal(ids, t.ids) {
			var want []string
			for _, id := range ids {
				name, _ := t.schema.FindColumnName(id)
				want = append(want, name)
			}
			return fmt.Errorf("the PRIMARY KEY here is (%s), and the table's identifier fields are (%s); make them the same",
				strings.Join(c.Table.PrimaryKey, ", "), strings.Join(want, ", "))
		}
	}
	for _, f := range t.spec.Fields() {
		if _, void := f.Transform.(iceberg.VoidTransform); !void && !slices.Contains(t.ids, f.SourceID()) {
			name, _ := t.schema.FindColumnName(f.SourceID())
			return fmt.Errorf("the table is partitioned by %s of '%s', which is not in the PRIMARY KEY: the row to replace could lie in any partition; "+
				"add '%s' to the key, or partition the table by columns of the key", f.Transform, name, name)
		}
	}
	return t.oneSpec(tab)
}

// oneSpec refuses tables with files that were partitioned otherwise: rows in them would not be found.
func (t *target) oneSpec(tab *table.Table) error {
	s := tab.CurrentSnapshot()
	if s == nil || t.spec.IsUnpartitioned() || len(tab.Metadata().PartitionSpecs()) < 2 {
		return nil
	}
	fs, err := tab.FS(context.Background())
	if err != nil {
		return err
	}
	manifests, err := s.Manifests(fs)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if int(m.PartitionSpecID()) != t.spec.ID() && m.ManifestContent() == iceberg.ManifestContentData && (m.HasAddedFiles() || m.HasExistingFiles()) {
			return fmt.Errorf("the partitioning of the table was changed, and files of the older one (spec %d) are left, in which no row would be replaced; rewrite them first", m.PartitionSpecID())
		}
	}
	return nil
}
