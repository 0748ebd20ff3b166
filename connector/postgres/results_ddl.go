package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
)

// writtenColumn says when a revision was written.
const writtenColumn = "inserted_at"

// columnType is the type of a column that takes all values of t; nanoseconds are cut.
func columnType(t types.Type) (string, error) {
	switch t.Kind {
	case types.Boolean:
		return "boolean", nil
	case types.TinyInt, types.SmallInt:
		return "smallint", nil
	case types.Int:
		return "integer", nil
	case types.BigInt:
		return "bigint", nil
	case types.Float:
		return "real", nil
	case types.Double:
		return "double precision", nil
	case types.Decimal:
		return fmt.Sprintf("numeric(%d, %d)", t.Precision, t.Scale), nil
	case types.Char, types.VarChar:
		return "text", nil
	case types.Binary, types.VarBinary:
		return "bytea", nil
	case types.Date:
		return "date", nil
	case types.Time:
		return fmt.Sprintf("time(%d)", min(t.Precision, 3)), nil
	case types.Timestamp:
		return fmt.Sprintf("timestamp(%d)", min(t.Precision, 6)), nil
	case types.TimestampLTZ:
		return fmt.Sprintf("timestamptz(%d)", min(t.Precision, 6)), nil
	case types.IntervalYearMonth, types.IntervalDayTime:
		return "interval", nil
	case types.Array:
		elem, err := columnType(*t.Elem)
		return elem + "[]", err
	}
	return "", fmt.Errorf("%s, which a PostgreSQL table cannot take; write it as JSON text (JSON_OBJECT, CAST to STRING)", t.AsNullable())
}

// ddl makes the statements of a table of results.
type ddl struct {
	l      *results.Layout
	schema string // quoted, with a dot behind it; "" is where the search path leads
	table  string // without quotes
}

func newDDL(l *results.Layout, name string) (*ddl, error) {
	parts, err := splitName(name)
	if err != nil {
		return nil, err
	}
	d := &ddl{l: l, table: parts[len(parts)-1].name}
	if len(parts) == 2 {
		d.schema = quote(parts[0].name) + "."
	}
	for _, f := range l.Table.Columns {
		if f.Name == writtenColumn {
			return nil, fmt.Errorf("table %s: a table of results in PostgreSQL has a column %s of its own; call yours otherwise", l.Table.Name, f.Name)
		}
		if _, err := columnType(f.Type); err != nil {
			return nil, fmt.Errorf("table %s: column %s is %w", l.Table.Name, f.Name, err)
		}
	}
	return d, nil
}

// name is the quoted name of the table, or of a companion.
func (d *ddl) name(suffix string) string { return d.schema + quote(d.table+suffix) }

// notNull lists the columns that deleted rows have values in too.
func (d *ddl) notNull(name string) bool {
	switch name {
	case d.l.Of("revision"), d.l.Of("generation"), d.l.Of("is_final"), d.l.Of("is_deleted"), d.l.Of("emit_reason"):
		return true
	}
	return d.l.IsKey(name)
}

func (d *ddl) history() string {
	var cols []string
	for _, f := range d.l.Table.Columns {
		typ, _ := columnType(f.Type) // looked at by newDDL
		if d.notNull(f.Name) {
			typ += " NOT NULL"
		}
		cols = append(cols, quote(f.Name)+" "+typ)
	}
	cols = append(cols, writtenColumn+" timestamptz NOT NULL DEFAULT clock_timestamp()", "PRIMARY KEY ("+strings.Join(d.primary(), ", ")+")")
	return "CREATE TABLE IF NOT EXISTS " + d.name("") + " (\n\t" + strings.Join(cols, ",\n\t") + "\n)"
}

// primary is the primary key: what revisions are counted for, the generation, the revision.
func (d *ddl) primary() []string {
	var out []string
	for _, f := range d.l.Key {
		out = append(out, quote(f.Name))
	}
	if g := d.l.Of("generation"); g != "" {
		out = append(out, quote(g))
	}
	return append(out, quote(d.l.Of("revision")))
}

// comments keep what is said of columns, their units above all.
func (d *ddl) comments() []results.Statement {
	var out []results.Statement
	for _, f := range d.l.Table.Columns {
		c := f.Comment
		if u := d.l.R.Units[f.Name]; c == "" && u != "" {
			c = "unit: " + u
		}
		if c != "" {
			out = append(out, results.Statement{Name: d.table + "." + f.Name, Why: "What the definition says of the column.", SQL: "COMMENT ON COLUMN " + d.name("") + "." + quote(f.Name) + " IS " + strings.TrimSpace(literal(c))})
		}
	}
	return out
}

// index finds the windows of a generation.
func (d *ddl) index() string {
	var cols []string
	if g := d.l.Of("generation"); g != "" {
		cols = append(cols, quote(g))
	}
	return "CREATE INDEX IF NOT EXISTS " + quote(d.table+"_windows") + " ON " + d.name("") + " (" + strings.Join(append(cols, quote(d.l.Start.Name)), ", ") + ")"
}

func (d *ddl) progress() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_progress") + ` (
	generation text NOT NULL, job text NOT NULL, lineage text NOT NULL, checkpoint bigint NOT NULL, at_ms bigint NOT NULL,
	at timestamptz GENERATED ALWAYS AS (to_timestamp(at_ms / 1000.0)) STORED, watermark timestamp, ended boolean NOT NULL, max_time timestamp,
	splits_passed bigint NOT NULL, splits_done bigint NOT NULL, splits_idle bigint NOT NULL, splits bigint NOT NULL, expected bigint NOT NULL, seen bigint NOT NULL,
	late bigint NOT NULL, rejected bigint NOT NULL, duplicates bigint NOT NULL, stale bigint NOT NULL, conflicts bigint NOT NULL, expired bigint NOT NULL,
	missed_windows bigint NOT NULL, rows_written bigint NOT NULL, document text NOT NULL,
	PRIMARY KEY (generation, lineage, checkpoint)
)`
}

func (d *ddl) pointer() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_pointer") + ` (
	version bigint PRIMARY KEY, base text NOT NULL, froms bigint[] NOT NULL, tos bigint[] NOT NULL, generations text[] NOT NULL,
	nonce text NOT NULL, at_ms bigint NOT NULL, document text NOT NULL
)`
}

func (d *ddl) record() string {
	return "CREATE TABLE IF NOT EXISTS " + d.name("_record") + ` (
	kind text NOT NULL, name text NOT NULL, at_ms bigint NOT NULL, at timestamptz GENERATED ALWAYS AS (to_timestamp(at_ms / 1000.0)) STORED,
	seq bigint NOT NULL, document text NOT NULL, PRIMARY KEY (kind, name, at_ms, seq)
)`
}

// conflicts has the second content of a revision, which the trigger puts there instead of over the first.
func (d *ddl) conflicts() string {
	var cols []string
	for _, f := range d.l.Table.Columns {
		if d.l.IsKey(f.Name) || f.Name == d.l.Of("generation") || f.Name == d.l.Of("revision") {
			typ, _ := columnType(f.Type)
			cols = append(cols, quote(f.Name)+" "+typ)
		}
	}
	return "CREATE TABLE IF NOT EXISTS " + d.name("_conflicts") + " (\n\t" + strings.Join(cols, ", ") +
		",\n\thas jsonb NOT NULL, came jsonb NOT NULL, came_at timestamptz NOT NULL DEFAULT clock_timestamp(),\n\tPRIMARY KEY (" + strings.Join(d.primary(), ", ") + ")\n)"
}

func (d *ddl) keepFirst() string {
	cols := strings.Join(d.primary(), ", ")
	var vals []string
	for _, c := range d.primary() {
		vals = append(vals, "NEW."+c)
	}
	return "CREATE OR REPLACE FUNCTION " + d.name("_keep_first") + `() RETURNS trigger LANGUAGE plpgsql AS $tidemark$
BEGIN
	IF to_jsonb(OLD) - '` + writtenColumn + `' IS DISTINCT FROM to_jsonb(NEW) - '` + writtenColumn + `' THEN
		INSERT INTO ` + d.name("_conflicts") + " (" + cols + ", has, came) VALUES (" + strings.Join(vals, ", ") + `, to_jsonb(OLD), to_jsonb(NEW)) ON CONFLICT DO NOTHING;
	END IF;
	RETURN NULL;
END $tidemark$`
}

func (d *ddl) trigger() string {
	return "CREATE OR REPLACE TRIGGER tidemark_keep_first BEFORE UPDATE ON " + d.name("") + " FOR EACH ROW EXECUTE FUNCTION " + d.name("_keep_first") + "()"
}

// shown is the condition that a row is of the generation that counts for its window, with the pointer as p.
func (d *ddl) shown() string {
	g := d.l.Of("generation")
	if g == "" {
		return ""
	}
	base := "CASE p.base WHEN '' THEN " + strings.TrimSpace(literal(results.Live)) + " ELSE p.base END"
	if !d.l.Windowed {
		return "t." + quote(g) + " = " + base
	}
	w := dialect{d}.Millis("t."+quote(d.l.Start.Name), d.l.Start.Type)
	return "t." + quote(g) + " = coalesce((SELECT r.generation FROM unnest(p.froms, p.tos, p.generations) AS r(at, until, generation) WHERE " + w + " >= r.at AND " + w + " < r.until), " + base + ")"
}

func (d *ddl) latest() string {
	var key, all []string
	for _, f := range d.l.Key {
		key = append(key, "t."+quote(f.Name))
	}
	for _, f := range d.l.Table.Columns {
		all = append(all, quote(f.Name))
	}
	from := d.name("") + " AS t"
	if d.l.Of("generation") != "" {
		from += ", (SELECT base, froms, tos, generations FROM (SELECT version, base, froms, tos, generations FROM " + d.name("_pointer") +
			" UNION ALL SELECT 0, '', '{}', '{}', '{}') AS versions ORDER BY version DESC LIMIT 1) AS p\n\tWHERE " + d.shown()
	}
	gone := ""
	if c := d.l.Of("is_deleted"); c != "" {
		gone = "\nWHERE NOT " + quote(c)
	}
	return "CREATE OR REPLACE VIEW " + d.name("_latest") + " AS\nSELECT " + strings.Join(all, ", ") + "\nFROM (SELECT DISTINCT ON (" + strings.Join(key, ", ") + ") t.*\n\tFROM " + from +
		"\n\tORDER BY " + strings.Join(key, ", ") + ", t." + quote(d.l.Of("revision")) + " DESC) AS newest" + gone
}

func (d *ddl) totals() string {
	cols := []string{"count(*) AS cells"}
	group := ""
	if d.l.Start.Name != "" {
		cols = append([]string{quote(d.l.Start.Name)}, cols...)
		group = "\nGROUP BY " + quote(d.l.Start.Name)
	}
	for _, f := range d.l.Summed() {
		cols = append(cols, "sum("+quote(f.Name)+") AS "+quote("sum_"+f.Name))
	}
	return "CREATE OR REPLACE VIEW " + d.name("_totals") + " AS\nSELECT " + strings.Join(cols, ", ") + "\nFROM " + d.name("_latest") + group
}

// statements makes all of them, in order.
func (d *ddl) statements() []results.Statement {
	out := []results.Statement{{Name: d.table, Why: "The history of revisions of all generations.", SQL: d.history()}}
	out = append(out, d.comments()...)
	if d.l.Start.Name != "" {
		out = append(out, results.Statement{Name: d.table + "_windows", Why: "An index, to find the windows of a generation.", SQL: d.index()})
	}
	return append(out,
		results.Statement{Name: d.table + "_progress", Why: "A row a checkpoint, in the transaction of its rows: how far the results were, and what was dropped on the way.", SQL: d.progress()},
		results.Statement{Name: d.table + "_pointer", Why: "Which generation counts for which windows, a row a promotion; the newest counts.", SQL: d.pointer()},
		results.Statement{Name: d.table + "_record", Why: "Backfills, reconciliations and promotions, as JSON.", SQL: d.record()},
		results.Statement{Name: d.table + "_conflicts", Why: "Second contents of a revision: there should be none. The first one stays.", SQL: d.conflicts()},
		results.Statement{Name: d.table + "_keep_first", Why: "Puts a second content there instead of over the first.", SQL: d.keepFirst()},
		results.Statement{Name: d.table + " tidemark_keep_first", Why: "Calls it.", SQL: d.trigger()},
		results.Statement{Name: d.table + "_latest", Why: "Of each key the newest revision of the generation that counts, without deleted ones.", SQL: d.latest()},
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
	names, err := candidates(s.cfg.Options.Get("table-name"))
	if err != nil {
		return connector.AsFatal(err)
	}
	for _, n := range names {
		if found, err := se.query(ctx, tableSQL, n); err != nil || len(found) > 0 {
			return err
		}
	}
	statements, err := plainTable(s.cfg.Table, names[0])
	if err != nil {
		return connector.AsFatal(err)
	}
	_, err = se.exec(ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d); ", int64(ensureLock))+strings.Join(statements, "; ")+"; COMMIT")
	return err
}

// plainTable makes a table that holds no results; name is quoted.
func plainTable(t *connector.Table, name string) ([]string, error) {
	var cols, comments []string
	for _, f := range t.Columns {
		typ, err := columnType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s is %w", f.Name, err)
		}
		if !f.Type.Nullable || slices.Contains(t.PrimaryKey, f.Name) {
			typ += " NOT NULL"
		}
		cols = append(cols, quote(f.Name)+" "+typ)
		if f.Comment != "" {
			comments = append(comments, "COMMENT ON COLUMN "+name+"."+quote(f.Name)+" IS "+strings.TrimSpace(literal(f.Comment)))
		}
	}
	if len(t.PrimaryKey) > 0 {
		var key []string
		for _, k := range t.PrimaryKey {
			key = append(key, quote(k))
		}
		cols = append(cols, "PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	return append([]string{"CREATE TABLE IF NOT EXISTS " + name + " (\n\t" + strings.Join(cols, ",\n\t") + "\n)"}, comments...), nil
}
