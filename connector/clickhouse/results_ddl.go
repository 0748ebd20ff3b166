package clickhouse

import (
	"context"
	"fmt"
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
	{Name: "sink.create.cluster", Doc: "Tables of results that are created are created ON CLUSTER with this name, and replicated."},
	{Name: "sink.create.replicated", Kind: option.Bool, Default: "false", Doc: "Tables of results that are created are replicated, with the server's default path: for databases that are the same on all replicas."},
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

// ddl makes the statements of a table of results.
type ddl struct {
	l          *results.Layout
	database   string
	table      string // without quotes
	cluster    string // " ON CLUSTER x", or ""
	replicated string // "Replicated", or ""
	partition  string
}

func newDDL(l *results.Layout, c *config, o option.Values) (*ddl, error) {
	d := &ddl{l: l, database: c.database, table: c.table, partition: o.Enum("sink.create.partition")}
	if o.Bool("sink.create.replicated") {
		d.replicated = "Replicated"
	}
	if name := o.Get("sink.create.cluster"); name != "" {
		d.cluster, d.replicated = " ON CLUSTER "+quote(name), "Replicated"
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
func (d *ddl) name(suffix string) string { return quote(d.database) + "." + quote(d.table+suffix) }

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

// engine is that of a table without rows that count twice.
func (d *ddl) engine(kind string) string { return "ENGINE = " + d.replicated + kind }

// keeps are the settings of a table that knows blocks that come again.
func (d *ddl) keeps(n int) string {
	if d.replicated != "" {
		return "" // it keeps more by default
	}
	return fmt.Sprintf("\nSETTINGS non_replicated_deduplication_window = %d", n)
}

func (d *ddl) history() string {
	var key, parts []string
	for _, f := range d.l.Key {
		if f.Name != d.l.Start.Name && f.Name != d.l.End.Name {
			key = append(key, quote(f.Name))
		}
	}
	for _, f := range []types.Field{d.l.Start, d.l.End} { // behind the others
		if f.Name != "" && d.l.IsKey(f.Name) {
			key = append(key, quote(f.Name))
		}
	}
	order := append([]string(nil), key...)
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
	cols := append(d.columns(), hashColumn+" UInt64 MATERIALIZED sipHash64("+d.payload()+")", writtenColumn+" DateTime64(3, 'UTC') DEFAULT now64(3)")
	return "CREATE TABLE IF NOT EXISTS " + d.name("") + d.cluster + " (\n\t" + strings.Join(cols, ",\n\t") + "\n) " + d.engine("ReplacingMergeTree") + by +
		"\nPRIMARY KEY (" + strings.Join(key, ", ") + ")\nORDER BY (" + strings.Join(order, ", ") + ")" + d.keeps(1000)
}

func (d *ddl) progress() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_progress") + d.cluster + ` (
	generation LowCardinality(String), job String, lineage String, checkpoint Int64, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'),
	watermark Nullable(DateTime64(3, 'UTC')), ended Bool, max_time Nullable(DateTime64(3, 'UTC')),
	splits_passed Int64, splits_done Int64, splits_idle Int64, splits Int64, expected Int64, seen Int64,
	late Int64, rejected Int64, duplicates Int64, stale Int64, conflicts Int64, expired Int64, missed_windows Int64, rows_written Int64, document String
) ` + d.engine("ReplacingMergeTree") + "\nORDER BY (generation, lineage, checkpoint)"
}

func (d *ddl) pointer() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_pointer") + d.cluster + ` (
	version Int64, base String, froms Array(Int64), tos Array(Int64), generations Array(String), nonce String, at_ms Int64, document String
) ` + d.engine("MergeTree") + "\nORDER BY version" + d.keeps(10000)
}

func (d *ddl) record() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_record") + d.cluster + ` (
	kind LowCardinality(String), name String, at_ms Int64, at DateTime64(3, 'UTC') ALIAS fromUnixTimestamp64Milli(at_ms, 'UTC'), seq UInt64, document String
) ` + d.engine("ReplacingMergeTree") + "\nORDER BY (kind, name, at_ms, seq)"
}

// shown is the condition that a row is of the generation that counts for its window: the newest row of the
// pointer, read once, is a constant of the query, whose list of generations tells which parts are read.
func (d *ddl) shown(dia dialect) (with, cond string) {
	g := d.l.Of("generation")
	if g == "" {
		return "", ""
	}
	with = "WITH\n\t(SELECT argMax(tuple(froms, tos, generations, base), version) FROM " + d.name("_pointer") + ") AS tm_pointer,\n" +
		"\tarrayPushFront(tm_pointer.3, if(tm_pointer.4 = '', " + literal(results.Live) + ", tm_pointer.4)) AS tm_generations\n"
	if !d.l.Windowed {
		return with, quote(g) + " = tm_generations[1]"
	}
	w := dia.Millis(quote(d.l.Start.Name), d.l.Start.Type)
	return with, quote(g) + " IN tm_generations AND " + quote(g) + " = tm_generations[arrayFirstIndex((f, t) -> " + w + " >= f AND " + w + " < t, tm_pointer.1, tm_pointer.2) + 1]"
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
	return "CREATE VIEW IF NOT EXISTS " + d.name("_latest") + d.cluster + " AS\n" + with + "SELECT " + strings.Join(all, ", ") + "\nFROM (" + dia.Latest(cols, cond) + ")" + gone
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
	return "CREATE VIEW IF NOT EXISTS " + d.name("_conflicts") + d.cluster + " AS\nSELECT " + cols + ", uniqExact(" + hashColumn + ") AS contents\nFROM " + d.name("") +
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
	return "CREATE VIEW IF NOT EXISTS " + d.name("_totals") + d.cluster + " AS\nSELECT " + strings.Join(cols, ", ") + "\nFROM " + d.name("_latest") + group
}

// statements makes all of them, in order.
func (d *ddl) statements() []results.Statement {
	return []results.Statement{
		{Name: d.table, Why: "The history of revisions of all generations. Merges remove rows only where all of them is the same, and no insert is refused for its partitions: a block has one generation, and one of too many months is cut.", SQL: d.history()},
		{Name: d.table + "_progress", Why: "A row a checkpoint: how far the results were, and what was dropped on the way.", SQL: d.progress()},
		{Name: d.table + "_pointer", Why: "Which generation counts for which windows, a row a promotion; the newest counts.", SQL: d.pointer()},
		{Name: d.table + "_record", Why: "Backfills, reconciliations and promotions, as JSON.", SQL: d.record()},
		{Name: d.table + "_latest", Why: "Of each key the newest revision of the generation that counts, without deleted ones; the same before and after any merge.", SQL: d.latest()},
		{Name: d.table + "_conflicts", Why: "Keys with an equal revision and different content: there should be none.", SQL: d.conflicts()},
		{Name: d.table + "_totals", Why: "Sums over the newest revisions, a row a window: an example of how to add results up.", SQL: d.totals()},
	}
}

// create makes the table that 'sink.create' asks for, where it is missing.
func (s *sink) create(ctx context.Context, se *session) error {
	if !s.cfg.Options.Bool("sink.create") {
		return nil
	}
	if s.cfg.Table.Results != nil {
		return ensureResults(ctx, s.cfg.Table, s.cfg.Options)
	}
	sql, err := plainTable(s.cfg.Table, s.c, s.cfg.Options)
	if err != nil {
		return connector.AsFatal(err)
	}
	_, err = se.query(ctx, sql)
	return err
}

// plainTable makes a table that holds no results.
func plainTable(t *connector.Table, c *config, o option.Values) (string, error) {
	d := &ddl{database: c.database, table: c.table}
	if o.Bool("sink.create.replicated") {
		d.replicated = "Replicated"
	}
	if name := o.Get("sink.create.cluster"); name != "" {
		d.cluster, d.replicated = " ON CLUSTER "+quote(name), "Replicated"
	}
	var cols []string
	for _, f := range t.Columns {
		typ, err := columnType(f.Type)
		if err != nil {
			return "", fmt.Errorf("column %s: %w", f.Name, err)
		}
		def := quote(f.Name) + " " + typ
		if f.Comment != "" {
			def += " COMMENT " + literal(f.Comment)
		}
		cols = append(cols, def)
	}
	var order []string
	for _, k := range t.PrimaryKey {
		order = append(order, quote(k))
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
	engine := "MergeTree"
	switch o.Enum("sink.changelog") {
	case collapsing:
		engine = "CollapsingMergeTree(tidemark_sign)"
		cols = append(cols, "tidemark_sign Int8")
	case replacing:
		engine = "ReplacingMergeTree(tidemark_version, is_deleted)"
		cols = append(cols, "tidemark_version UInt64", "is_deleted UInt8")
	}
	return "CREATE TABLE IF NOT EXISTS " + d.name("") + d.cluster + " (\n\t" + strings.Join(cols, ",\n\t") + "\n) " + d.engine(engine) + "\nORDER BY " + by + d.keeps(1000), nil
}
