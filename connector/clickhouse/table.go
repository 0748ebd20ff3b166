package clickhouse

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// table is the target as it was found.
type table struct {
	database, name string
	engine, full   string // the engine, and with its parameters and settings
	kept, keptFull string // those of the table that holds the rows: on its shards if this is Distributed
	sorting        []string
	parted         bool // an insert may make several parts
	cols           []tableColumn
	zone           *time.Location  // the server's
	settings       map[string]bool // those of ours that the server knows
	memory         memory
}

// tableColumn is a column as the server describes it.
type tableColumn struct {
	name, typ string
	kind      string // DEFAULT, MATERIALIZED, ALIAS, EPHEMERAL or ""
}

func (t *table) quoted() string { return quote(t.database) + "." + quote(t.name) }

func (t *table) column(name string) *tableColumn {
	for i := range t.cols {
		if t.cols[i].name == name {
			return &t.cols[i]
		}
	}
	return nil
}

func (t *table) names() string {
	var out []string
	for _, c := range t.cols {
		out = append(out, c.name)
	}
	return strings.Join(out, ", ")
}

// wanted are settings that inserts set where the server has them: other servers refuse them.
var wanted = []setting{
	{"async_insert", "0"}, {"insert_deduplicate", "1"}, {"deduplicate_insert", "enable"}, {"deduplicate_blocks_in_dependent_materialized_views", "1"},
	{"distributed_foreground_insert", "1"}, {"insert_distributed_sync", "1"},
}

// look describes the table.
func (s *session) look(ctx context.Context) (*table, error) {
	where := "database = " + literal(s.c.database) + " AND "
	found, err := s.query(ctx, "SELECT engine, engine_full, sorting_key, timezone(), partition_key FROM system.tables WHERE "+where+"name = "+literal(s.c.table))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, s.c.missing()
	}
	t := &table{database: s.c.database, name: s.c.table, engine: found[0][0], full: found[0][1], settings: map[string]bool{}}
	t.holds(t.engine, t.full, found[0][2])
	if t.zone, err = time.LoadLocation(found[0][3]); err != nil {
		t.zone = nil // columns that name no zone are then refused
	}
	cols, err := s.query(ctx, "SELECT name, type, toString(default_kind) FROM system.columns WHERE "+where+"table = "+literal(s.c.table)+" ORDER BY position")
	if err != nil {
		return nil, err
	}
	for _, c := range cols {
		t.cols = append(t.cols, tableColumn{c[0], c[1], c[2]})
	}
	var names []string
	for _, w := range wanted {
		names = append(names, literal(w.name))
	}
	known, err := s.query(ctx, "SELECT name FROM system.settings WHERE name IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		t.settings[k[0]] = true
	}
	t.parted = found[0][4] != "" || t.engine == "Distributed"
	t.memory, err = s.remembers(ctx, t)
	return t, err
}

// holds notes the table that holds the rows.
func (t *table) holds(engine, full, sorting string) {
	t.kept, t.keptFull, t.sorting = engine, full, nil
	for _, k := range strings.Split(sorting, ",") {
		if k = strings.TrimSpace(k); k != "" {
			t.sorting = append(t.sorting, strings.Trim(k, "`"))
		}
	}
}

// memory is how a table tells that a block was inserted before.
type memory struct {
	blocks  int           // of how many inserts it keeps the tokens, one a partition; 0: of none
	span    time.Duration // for how long; 0: while there are not more
	shared  bool          // all hosts have the same rows
	engine  string        // that keeps them
	problem string        // why it does not tell, "" if it does
	remedy  string
}

// remembers finds out how the table tells blocks that come again.
func (s *session) remembers(ctx context.Context, t *table) (memory, error) {
	engine, full, name := t.engine, t.full, t.quoted()
	m := memory{engine: engine}
	if engine == "Distributed" {
		m.shared = true
		if strings.Contains(strings.ToLower(full), "rand") {
			m.problem = "it sends rows to shards at random, so that the same block comes to other shards again"
			m.remedy = "use a sharding key that depends on the row, such as cityHash64(id)"
			return m, nil
		}
		args := distributedOver(full)
		if args == nil {
			m.problem = "its tables on the shards cannot be told from " + full
			m.remedy = "use 'at-least-once'"
			return m, nil
		}
		name = quote(args[1]) + "." + quote(args[2])
		found, err := s.query(ctx, fmt.Sprintf("SELECT engine, engine_full, sorting_key FROM cluster(%s, system.tables) WHERE database = %s AND name = %s", literal(args[0]), literal(args[1]), literal(args[2])))
		if err != nil {
			return m, err
		}
		if len(found) == 0 {
			m.problem, m.remedy = "its table "+name+" was not found on the shards", "create it there"
			return m, nil
		}
		t.holds(found[0][0], found[0][1], found[0][2])
		for _, f := range found { // the worst of them
			one, err := s.keeps(ctx, f[0], f[1], name+" ON CLUSTER "+quote(args[0]))
			if err != nil {
				return m, err
			}
			if m.engine == engine || one.blocks < m.blocks {
				one.shared = true
				m = one
			}
		}
		return m, nil
	}
	return s.keeps(ctx, engine, full, name)
}

// distributedOver are the cluster, database and table of a Distributed engine.
func distributedOver(full string) []string {
	rest, ok := strings.CutPrefix(full, "Distributed(")
	if !ok {
		return nil
	}
	p := typeParser{s: rest}
	var out []string
	for len(out) < 3 {
		p.space()
		w := ""
		if p.at < len(p.s) && p.s[p.at] == '\'' {
			w, _ = p.quoted('\'')
		} else {
			w = p.word()
		}
		if w == "" {
			return nil
		}
		out = append(out, w)
		if len(out) < 3 && !p.take(',') {
			return nil
		}
	}
	return out
}

// keeps reads the window of a MergeTree table, from its own settings or the server's.
func (s *session) keeps(ctx context.Context, engine, full, name string) (memory, error) {
	m := memory{engine: engine}
	if !strings.HasSuffix(engine, "MergeTree") {
		m.problem = "an engine of that kind keeps no tokens"
		m.remedy = "use a table of the MergeTree family"
		return m, nil
	}
	window, system := "non_replicated_deduplication_window", "system.merge_tree_settings"
	if strings.HasPrefix(engine, "Replicated") || strings.HasPrefix(engine, "Shared") {
		m.shared, window, system = true, "replicated_deduplication_window", "system.replicated_merge_tree_settings"
		if strings.HasPrefix(engine, "Shared") {
			system = "system.merge_tree_settings"
		}
	}
	got := map[string]int{}
	found, err := s.query(ctx, "SELECT name, toString(value) FROM "+system+" WHERE name IN ("+literal(window)+", "+literal(window+"_seconds")+")")
	if err != nil {
		return m, err
	}
	for _, f := range found {
		got[f[0]], _ = strconv.Atoi(f[1])
	}
	for _, x := range engineSetting.FindAllStringSubmatch(full, -1) {
		got[x[1]], _ = strconv.Atoi(x[2])
	}
	m.blocks, m.span = got[window], time.Duration(got[window+"_seconds"])*time.Second
	if m.blocks <= 0 {
		m.blocks = 0
		m.problem = window + " is 0"
		m.remedy = fmt.Sprintf("ALTER TABLE %s MODIFY SETTING %s = 1000", name, window)
	}
	return m, nil
}

var engineSetting = regexp.MustCompile(`\b(\w+_deduplication_window(?:_seconds)?) = '?(\d+)`)

// words says how a repeat of a block is told.
func (m *memory) words() string {
	s := fmt.Sprintf("%s, which knows the tokens of the last %d parts", m.engine, m.blocks)
	if m.span > 0 {
		s += " for " + shortDuration(m.span)
	}
	return s
}

func shortDuration(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}

// fit checks the table against the definition here and returns how to encode its rows. Every call
// makes new fields: an encoder belongs to one goroutine.
func (t *table) fit(cfg *connector.SinkConfig) (*encoder, error) {
	o := cfg.Options
	e := &encoder{schema: cfg.Schema}
	m := matcher{server: t.zone}
	var errs []string
	written := map[string]bool{}
	for i, f := range cfg.Schema.Fields {
		c := t.column(f.Name)
		switch {
		case c == nil:
			errs = append(errs, fmt.Sprintf("column '%s' does not exist; there are %s", f.Name, t.names()))
			continue
		case c.kind == "MATERIALIZED" || c.kind == "ALIAS":
			errs = append(errs, fmt.Sprintf("column '%s' is %s in the database, so it cannot be written; leave it out of the table's definition", c.name, c.kind))
			continue
		}
		w, err := parseType(c.typ)
		if err != nil {
			errs = append(errs, describe(f.Name, f.Type, c.typ, lossy(castHere, "%v", err)))
			continue
		}
		if t.zone == nil && t.needsZone(w, f.Type) {
			errs = append(errs, describe(f.Name, f.Type, c.typ, lossy("give the column a time zone", "it has none, and the server's is not known here")))
			continue
		}
		// A row of results that is deleted has no values, and lists, maps and rows have no NULL there.
		m.asZero = o.Bool("sink.null-as-default") || cfg.Table.Results != nil && f.Type.IsNested()
		enc, err := m.match(f.Type, w)
		if err != nil {
			errs = append(errs, describe(f.Name, f.Type, c.typ, err))
			continue
		}
		written[c.name] = true
		e.cols, e.at, e.heads = append(e.cols, enc), append(e.at, i), append(e.heads, head(c.name, w))
		e.key = append(e.key, slices.Contains(cfg.Table.PrimaryKey, f.Name))
	}
	if len(errs) == 0 {
		errs = append(errs, t.changes(cfg, e, written)...)
	}
	if len(errs) > 0 {
		return nil, connector.Fatalf("table %s.%s: %s", t.database, t.name, strings.Join(errs, "; "))
	}
	return e, nil
}

// needsZone reports whether values of type f go into a column that shows them in the server's zone.
func (t *table) needsZone(w *colType, f types.Type) bool {
	w, _ = w.inner()
	if f.Kind == types.Timestamp {
		return w.zone == "" && (w.kind == kDateTime || w.kind == kDateTime64)
	}
	for k, kid := range w.kids {
		switch {
		case f.Kind == types.Row && k < len(f.Fields) && t.needsZone(kid, f.Fields[k].Type):
			return true
		case f.Kind == types.Array && t.needsZone(kid, *f.Elem):
			return true
		case f.Kind == types.Map && f.Elem.Kind == types.Timestamp, f.Kind == types.Map && f.Key.Kind == types.Timestamp:
			return true
		}
	}
	return false
}

// insertInto is the statement in front of a block's format.
func (t *table) insertInto(b *block) string {
	var cols []string
	for _, c := range b.cols {
		cols = append(cols, quote(c.name))
	}
	return "INSERT INTO " + t.quoted() + " (" + strings.Join(cols, ", ") + ")"
}
