package clickhouse

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// resultsOptions are the options of tables that are created.
var resultsOptions = []option.Spec{
	{Name: "sink.create", Kind: option.Bool, Default: "false", Doc: "Create the table where it is missing. A table of results (metadata column revision) comes with its companions and views, see docs/generations.md; " +
		"others are a MergeTree in the order of `sink.create.order-by`, which keeps the tokens of 1000 blocks."},
	{Name: "sink.create.order-by", Kind: option.String, Doc: "ORDER BY of a table that is created and holds no results; without it the PRIMARY KEY, or none.", Example: "at, id"},
	{Name: "sink.create.cluster", Doc: "Tables that are created are created ON CLUSTER with this name, and replicated."},
	{Name: "sink.create.sharded", Kind: option.Bool, Default: "false", Doc: "Tables that are created are spread over the shards of `sink.create.cluster`: the rows lie in TABLE_shard, all revisions of a key on one shard, and TABLE is Distributed over it. " +
		"Companions of a table of results are the same on all servers."},
	{Name: "sink.create.replicated", Kind: option.Bool, Default: "false", Doc: "Tables that are created are replicated, with the server's default path: for databases that are the same on all replicas."},
	{Name: "sink.create.partition", Kind: option.Enum, Values: []string{byMonth, byDay, byYear, byNothing}, Default: byMonth,
		Doc: "What of the window's start a table of results is partitioned by, beside the generation: one that makes a few hundred partitions at most, as an insert that touches more than 100 is cut into smaller ones."},
}

// What beside the generation partitions a table of results.
const (
	byMonth   = "month"
	byDay     = "day"
	byYear    = "year"
	byNothing = "none"
)

// Columns of ours in a table of results.
const (
	hashColumn    = "payload_hash" // of all that is not part of the key, generation and revision
	writtenColumn = "inserted_at"
)

// columnType is the type of a column that takes all values of t. Lists, maps and rows have no NULL there.
func columnType(t types.Type) (string, error) {
	inner, err := innerType(t)
	if err == nil && t.Nullable && !t.IsNested() {
		inner = "Nullable(" + inner + ")"
	}
	return inner, err
}

func innerType(t types.Type) (string, error) {
	switch t.Kind {
	case types.Boolean:
		return "Bool", nil
	case types.TinyInt:
		return "Int8", nil
	case types.SmallInt:
		return "Int16", nil
	case types.Int, types.IntervalYearMonth:
		return "Int32", nil
	case types.BigInt, types.IntervalDayTime:
		return "Int64", nil
	case types.Float:
		return "Float32", nil
	case types.Double:
		return "Float64", nil
	case types.Decimal:
		return fmt.Sprintf("Decimal(%d, %d)", t.Precision, t.Scale), nil
	case types.Char, types.VarChar, types.Binary, types.VarBinary:
		return "String", nil
	case types.Date:
		return "Date32", nil
	case types.Time:
		return fmt.Sprintf("Time64(%d)", min(t.Precision, 3)), nil
	case types.Timestamp, types.TimestampLTZ:
		return fmt.Sprintf("DateTime64(%d, 'UTC')", t.Precision), nil
	}
	return nestedType(t)
}

func nestedType(t types.Type) (string, error) {
	switch t.Kind {
	case types.Array:
		elem, err := columnType(*t.Elem)
		return "Array(" + elem + ")", err
	case types.Map, types.Multiset:
		key, value := t.Key, t.Elem
		if t.Kind == types.Multiset {
			count := types.IntType.NotNull()
			key, value = t.Elem, &count
		}
		k, err := columnType(key.NotNull())
		if err != nil {
			return "", err
		}
		v, err := columnType(*value)
		return "Map(" + k + ", " + v + ")", err
	case types.Row:
		var parts []string
		for _, f := range t.Fields {
			s, err := columnType(f.Type)
			if err != nil {
				return "", err
			}
			parts = append(parts, quote(f.Name)+" "+s)
		}
		return "Tuple(" + strings.Join(parts, ", ") + ")", nil
	}
	return "", fmt.Errorf("no column of ClickHouse can have type %s", t.AsNullable())
}

// place is where tables are made.
type place struct {
	database   string
	table      string // without quotes
	cluster    string // "": this server only
	replicated bool
	sharded    bool // rows lie in a table of their own on each shard, under a Distributed one
}

// ddl makes the statements of a table of results.
type ddl struct {
	place
	l         *results.Layout
	partition string
}

// placeOf reads where the options want tables that are created.
func placeOf(c *config, o option.Values) place {
	p := place{database: c.database, table: c.table, cluster: o.Get("sink.create.cluster"), sharded: o.Bool("sink.create.sharded")}
	p.replicated = p.cluster != "" || o.Bool("sink.create.replicated")
	return p
}

// checkPlace refuses options that do not go together.
func checkPlace(o option.Values) error {
	if o.Bool("sink.create.sharded") && o.Get("sink.create.cluster") == "" {
		return &option.Error{Key: "sink.create.sharded", Msg: "which shards is not said", Hint: "name the cluster: 'sink.create.cluster' = '...'"}
	}
	return nil
}

func newDDL(l *results.Layout, c *config, o option.Values) (*ddl, error) {
	d := &ddl{place: placeOf(c, o), l: l, partition: o.Enum("sink.create.partition")}
	if err := checkPlace(o); err != nil {
		return nil, err
	}
	for _, f := range l.Table.Columns {
		if f.Name == hashColumn || f.Name == writtenColumn {
			return nil, fmt.Errorf("table %s: a table of results in ClickHouse has a column %s of its own; call yours otherwise", l.Table.Name, f.Name)
		}
		if _, err := columnType(f.Type); err != nil {
			return nil, fmt.Errorf("table %s, column %s: %w", l.Table.Name, f.Name, err)
		}
	}
	return d, nil
}

// name is the quoted name of the table, or of a companion.
func (p *place) name(suffix string) string { return quote(p.database) + "." + quote(p.table+suffix) }

// shardSuffix ends the names of tables that hold the rows of one shard.
const shardSuffix = "_shard"

// holder is the table that holds rows: the table itself, or the one of each shard.
func (p *place) holder() string {
	if p.sharded {
		return p.table + shardSuffix
	}
	return p.table
}

// rows is the quoted name of the holder.
func (p *place) rows() string { return quote(p.database) + "." + quote(p.holder()) }

// on is ON CLUSTER, where there is one.
func (p *place) on() string {
	if p.cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quote(p.cluster)
}

// engine is that of a table of the MergeTree family that holds rows. One that is spread over shards has the
// table's name in its path, so that a server which joins later joins the same one.
func (p *place) engine(kind, args string) string {
	switch {
	case p.sharded:
		return "ENGINE = Replicated" + kind + "('/clickhouse/tables/{database}/{table}/{shard}', '{replica}'" + more(args) + ")"
	case p.replicated:
		kind = "Replicated" + kind
	}
	if args != "" {
		args = "(" + args + ")"
	}
	return "ENGINE = " + kind + args
}

// everywhere is the engine of a table that is the same on all servers, also those of other shards.
func (p *place) everywhere(kind, args string) string {
	if p.sharded {
		return "ENGINE = Replicated" + kind + "('/clickhouse/tables/{database}/{table}', '{shard}-{replica}'" + more(args) + ")"
	}
	return p.engine(kind, args)
}

func more(args string) string {
	if args != "" {
		args = ", " + args
	}
	return args
}

// distributed is the table over the holders of all shards; by says where a row goes.
func (p *place) distributed(cols []string, by string) string {
	return "CREATE TABLE IF NOT EXISTS " + p.name("") + p.on() + " (\n\t" + strings.Join(cols, ",\n\t") + "\n) ENGINE = Distributed(" +
		strings.Join([]string{literal(p.cluster), literal(p.database), literal(p.holder()), "cityHash64(" + by + ")"}, ", ") + ")"
}

// columns are the definitions of the table's columns.
func (d *ddl) columns() []string {
	var out []string
	for _, f := range d.l.Table.Columns {
		t := f.Type
		switch f.Name {
		case d.l.Of("generation"), d.l.Of("emit_reason"):
			t = types.StringType.NotNull()
		case d.l.Of("revision"), d.l.Of("is_final"), d.l.Of("is_deleted"):
			t = t.NotNull()
		default:
			t = t.WithNullable(!d.l.IsKey(f.Name)) // a deleted row has no values
		}
		typ, _ := columnType(t) // looked at by newDDL
		if f.Name == d.l.Of("generation") || f.Name == d.l.Of("emit_reason") {
			typ = "LowCardinality(String)"
		}
		out = append(out, quote(f.Name)+" "+typ+comment(d.l, f))
	}
	return out
}

// comment keeps what is said of a column, its unit above all.
func comment(l *results.Layout, f types.Field) string {
	c := f.Comment
	if u := l.R.Units[f.Name]; c == "" && u != "" {
		c = "unit: " + u
	}
	if c == "" {
		return ""
	}
	return " COMMENT " + literal(c)
}

// payload are the columns that say whether two rows of the same key, generation and revision are the same.
func (d *ddl) payload() string {
	var cols []string
	for _, f := range d.l.Rest() {
		if f.Name != d.l.Of("generation") && f.Name != d.l.Of("revision") {
			cols = append(cols, quote(f.Name))
		}
	}
	return "toString(tuple(" + strings.Join(cols, ", ") + "))"
}

// keeps are the settings of a table that knows blocks that come again.
func (p *place) keeps(n int) string {
	if p.replicated {
		return "" // it keeps more by default
	}
	return fmt.Sprintf("\nSETTINGS non_replicated_deduplication_window = %d", n)
}

// key are the columns of the key, those of the window behind the others.
func (d *ddl) key() []string {
	var key []string
	for _, f := range d.l.Key {
		if f.Name != d.l.Start.Name && f.Name != d.l.End.Name {
			key = append(key, quote(f.Name))
		}
	}
	for _, f := range []types.Field{d.l.Start, d.l.End} {
		if f.Name != "" && d.l.IsKey(f.Name) {
			key = append(key, quote(f.Name))
		}
	}
	return key
}

// historyColumns are those of the history, ours too.
func (d *ddl) historyColumns() []string {
	return append(d.columns(), hashColumn+" UInt64 MATERIALIZED sipHash64("+d.payload()+")", writtenColumn+" DateTime64(3, 'UTC') DEFAULT now64(3)")
}

func (d *ddl) history() string {
	key := d.key()
	order, parts := slices.Clone(key), []string(nil)
	if g := d.l.Of("generation"); g != "" {
		order, parts = append(order, quote(g)), append(parts, quote(g))
	}
	order = append(order, quote(d.l.Of("revision")), hashColumn)
	if d.l.Windowed {
		f := map[string]string{byMonth: "toYYYYMM", byDay: "toYYYYMMDD", byYear: "toYear"}[d.partition]
		if f != "" {
			parts = append(parts, f+"("+quote(d.l.Start.Name)+")")
		}
	}
	by := ""
	if len(parts) > 0 {
		by = "\nPARTITION BY (" + strings.Join(parts, ", ") + ")"
	}
	return "CREATE TABLE IF NOT EXISTS " + d.rows() + d.on() + " (\n\t" + strings.Join(d.historyColumns(), ",\n\t") + "\n) " + d.engine("ReplacingMergeTree", "") + by +
		"\nPRIMARY KEY (" + strings.Join(key, ", ") + ")\nORDER BY (" + strings.Join(order, ", ") + ")" + d.keeps(1000)
}

func (d *ddl) progress() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_progress") + d.on() + ` (
	generation LowCardinality(String), job String, lineage String, checkpoint Int64, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'),
	watermark Nullable(DateTime64(3, 'UTC')), ended Bool, max_time Nullable(DateTime64(3, 'UTC')),
	splits_passed Int64, splits_done Int64, splits_idle Int64, splits Int64, expected Int64, seen Int64,
	late Int64, rejected Int64, duplicates Int64, stale Int64, conflicts Int64, expired Int64, missed_windows Int64, rows_written Int64, document String
) ` + d.everywhere("ReplacingMergeTree", "") + "\nORDER BY (generation, lineage, checkpoint)"
}

func (d *ddl) pointer() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_pointer") + d.on() + ` (
	version Int64, base String, froms Array(Int64), tos Array(Int64), generations Array(String), nonce String, at_ms Int64, document String
) ` + d.everywhere("MergeTree", "") + "\nORDER BY version" + d.keeps(10000)
}

func (d *ddl) record() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_record") + d.on() + ` (
	kind LowCardinality(String), name String, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'), seq UInt64, document String
) ` + d.everywhere("ReplacingMergeTree", "") + "\nORDER BY (kind, name, at_ms, seq)"
}

// shown is the condition that a row is of the generation that counts for its window: the newest row of the
// pointer, read once, is a constant of the query, whose list of generations tells which parts are read.
func (d *ddl) shown(dia dialect) (with, cond string) {
	g := d.l.Of("generation")
	if g == "" {
		return "", ""
	}
	// Behind IN the name of the list would be taken for a table's by servers before 26.
	all := "arrayPushFront(tm_pointer.3, if(tm_pointer.4 = '', " + literal(results.Live) + ", tm_pointer.4))"
	with = "WITH\n\t(SELECT argMax(tuple(froms, tos, generations, base), version) FROM " + d.name("_pointer") + ") AS tm_pointer,\n\t" + all + " AS tm_generations\n"
	if !d.l.Windowed {
		return with, quote(g) + " = tm_generations[1]"
	}
	w := dia.Millis(quote(d.l.Start.Name), d.l.Start.Type)
	return with, quote(g) + " IN " + all + " AND " + quote(g) + " = tm_generations[arrayFirstIndex((f, t) -> " + w + " >= f AND " + w + " < t, tm_pointer.1, tm_pointer.2) + 1]"
}

func (d *ddl) latest() string {
	dia := dialect{d}
	with, cond := d.shown(dia)
	var cols, all []string
	for _, f := range d.l.Rest() {
		cols = append(cols, f.Name)
	}
	for _, f := range d.l.Table.Columns {
		all = append(all, quote(f.Name))
	}
	gone := ""
	if c := d.l.Of("is_deleted"); c != "" {
		gone = "\nWHERE NOT " + quote(c)
	}
	return "CREATE VIEW IF NOT EXISTS " + d.name("_latest") + d.on() + " AS\n" + with + "SELECT " + strings.Join(all, ", ") + "\nFROM (" + dia.Latest(cols, cond) + ")" + gone
}

func (d *ddl) conflicts() string {
	var by []string
	for _, f := range d.l.Key {
		by = append(by, quote(f.Name))
	}
	if g := d.l.Of("generation"); g != "" {
		by = append(by, quote(g))
	}
	by = append(by, quote(d.l.Of("revision")))
	cols := strings.Join(by, ", ")
	return "CREATE VIEW IF NOT EXISTS " + d.name("_conflicts") + d.on() + " AS\nSELECT " + cols + ", uniqExact(" + hashColumn + ") AS contents\nFROM " + d.name("") +
		"\nGROUP BY " + cols + "\nHAVING contents > 1"
}

func (d *ddl) totals() string {
	cols := []string{"count() AS cells"}
	group := ""
	if d.l.Start.Name != "" {
		cols = append([]string{quote(d.l.Start.Name)}, cols...)
		group = "\nGROUP BY " + quote(d.l.Start.Name)
	}
	for _, f := range d.l.Summed() {
		cols = append(cols, "sum("+quote(f.Name)+") AS "+quote("sum_"+f.Name)+"")
	}
	return "CREATE VIEW IF NOT EXISTS " + d.name("_totals") + d.on() + " AS\nSELECT " + strings.Join(cols, ", ") + "\nFROM " + d.name("_latest") + group
}

// statements makes all of them, in order.
func (d *ddl) statements() []results.Statement {
	out := []results.Statement{{Name: d.holder(), SQL: d.history(),
		Why: "The history of revisions of all generations. Merges remove rows only where all of them is the same, and no insert is refused for its partitions: a block has one generation, and one of too many months is cut."}}
	if d.sharded {
		out[0].Why += " Each shard has the keys that fall to it."
		out = append(out, results.Statement{Name: d.table, Why: "The history of all shards: all revisions of a key are on one of them.", SQL: d.distributed(d.historyColumns(), strings.Join(d.key(), ", "))})
	}
	return append(out,
		results.Statement{Name: d.table + "_progress", Why: "A row a checkpoint: how far the results were, and what was dropped on the way.", SQL: d.progress()},
		results.Statement{Name: d.table + "_pointer", Why: "Which generation counts for which windows, a row a promotion; the newest counts.", SQL: d.pointer()},
		results.Statement{Name: d.table + "_record", Why: "Backfills, reconciliations and promotions, as JSON.", SQL: d.record()},
		results.Statement{Name: d.table + "_latest", Why: "Of each key the newest revision of the generation that counts, without deleted ones; the same before and after any merge.", SQL: d.latest()},
		results.Statement{Name: d.table + "_conflicts", Why: "Keys with an equal revision and different content: there should be none.", SQL: d.conflicts()},
		results.Statement{Name: d.table + "_totals", Why: "Sums over the newest revisions, a row a window: an example of how to add results up.", SQL: d.totals()})
}

// create makes the table that 'sink.create' asks for, where it is missing.
func (s *sink) create(ctx context.Context, se *session) error {
	if !s.cfg.Options.Bool("sink.create") {
		return nil
	}
	if s.cfg.Table.Results != nil {
		return s.results(func(st *store) error { return st.Ensure(ctx) })
	}
	statements, err := plainTable(s.cfg.Table, s.c, s.cfg.Options)
	if err != nil {
		return connector.AsFatal(err)
	}
	return se.make(ctx, placeOf(s.c, s.cfg.Options), statements)
}

// make runs the statements that make tables, where one of these is missing: ON CLUSTER waits for all servers.
func (s *session) make(ctx context.Context, p place, statements []results.Statement) error {
	var names []string
	for _, st := range statements {
		names = append(names, literal(st.Name))
	}
	found, err := s.query(ctx, "SELECT name FROM system.tables WHERE database = "+literal(p.database)+" AND name IN ("+strings.Join(names, ", ")+")")
	if err != nil || len(found) == len(statements) {
		return err
	}
	if err := s.checkShards(ctx, p); err != nil {
		return err
	}
	for _, st := range statements {
		var settings []setting
		if p.cluster != "" {
			settings = onCluster
		}
		if timeColumn.MatchString(st.SQL) {
			settings = append(slices.Clone(settings), setting{"enable_time_time64_type", "1"}) // which 25.8 wants to be told
		}
		if _, err := s.query(ctx, st.SQL, settings...); err != nil {
			return fmt.Errorf("create %s: %w", st.Name, err)
		}
	}
	return nil
}

// timeColumn finds columns of a time of day.
var timeColumn = regexp.MustCompile(`\bTime64\(`)

// onCluster are settings of statements ON CLUSTER: their answer has no rows, which would have numbers.
var onCluster = []setting{{"distributed_ddl_output_mode", "none"}}

// checkShards refuses to make a table of its own on each shard, of which readers would see one.
func (s *session) checkShards(ctx context.Context, p place) error {
	if p.cluster == "" {
		return nil
	}
	found, err := s.query(ctx, "SELECT DISTINCT toString(shard_num) FROM system.clusters WHERE cluster = "+literal(p.cluster))
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return connector.Fatalf("the server knows no cluster '%s' ('sink.create.cluster'); SELECT DISTINCT cluster FROM system.clusters lists those that it knows", p.cluster)
	case len(found) > 1 && !p.sharded:
		return connector.Fatalf("cluster '%s' has %d shards, each of which would have a table of its own; SET 'sink.create.sharded' = 'true' to spread rows over them", p.cluster, len(found))
	}
	return nil
}

// plainTable makes a table that holds no results.
func plainTable(t *connector.Table, c *config, o option.Values) ([]results.Statement, error) {
	p := placeOf(c, o)
	var cols, names []string
	for _, f := range t.Columns {
		typ, err := columnType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		def := quote(f.Name) + " " + typ
		if f.Comment != "" {
			def += " COMMENT " + literal(f.Comment)
		}
		cols, names = append(cols, def), append(names, quote(f.Name))
	}
	var order []string
	for _, k := range t.PrimaryKey {
		order = append(order, quote(k))
	}
	spread := order // of a row and its later changes the same; one of them may be NULL
	if len(spread) == 0 {
		spread = names
	}
	by := "tuple()"
	switch len(order) {
	case 0:
	case 1:
		by = order[0]
	default:
		by = "(" + strings.Join(order, ", ") + ")"
	}
	if o.Has("sink.create.order-by") {
		by = "(" + o.Get("sink.create.order-by") + ")"
	}
	engine, args := "MergeTree", ""
	switch o.Enum("sink.changelog") {
	case collapsing:
		engine, args = "CollapsingMergeTree", "tidemark_sign"
		cols = append(cols, "tidemark_sign Int8")
	case replacing:
		engine, args = "ReplacingMergeTree", "tidemark_version, is_deleted"
		cols = append(cols, "tidemark_version UInt64", "is_deleted UInt8")
	}
	out := []results.Statement{{Name: p.holder(), SQL: "CREATE TABLE IF NOT EXISTS " + p.rows() + p.on() + " (\n\t" + strings.Join(cols, ",\n\t") + "\n) " + p.engine(engine, args) + "\nORDER BY " + by + p.keeps(1000)}}
	if p.sharded {
		out = append(out, results.Statement{Name: p.table, SQL: p.distributed(cols, "toString(tuple("+strings.Join(spread, ", ")+"))")})
	}
	return out, nil
}
