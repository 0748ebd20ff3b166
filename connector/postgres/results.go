package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/sqlstore"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	open := func(_ context.Context, t *connector.Table, o option.Values) (results.Store, error) {
		s, err := newStore(t, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	results.Register("postgres", open)
	results.Register("jdbc", open)
}

// resultsWithin is how long a store waits for a database that is away.
const resultsWithin = 10 * time.Second

// idleSessions is how many connections are kept for the next calls.
const idleSessions = 4

// store is a table of results in PostgreSQL.
type store struct {
	sqlstore.Store
	d      *ddl
	config *pgconn.Config
	within time.Duration
	tries  int
	create bool // what is missing may be made

	mu   sync.Mutex
	made bool       // it was; guarded by mu, as all that follows
	idle []*session // not in use
}

func newStore(t *connector.Table, o option.Values) (*store, error) {
	l, err := results.LayoutOf(t)
	if err != nil {
		return nil, err
	}
	config, err := configOf(o)
	if err != nil {
		return nil, err
	}
	d, err := newDDL(l, o.Get("table-name"))
	if err != nil {
		return nil, err
	}
	config.RuntimeParams = maps.Clone(config.RuntimeParams)
	if config.RuntimeParams == nil {
		config.RuntimeParams = map[string]string{}
	}
	config.RuntimeParams["datestyle"], config.RuntimeParams["extra_float_digits"] = "ISO, YMD", "1" // how values come as text
	s := &store{d: d, config: config, within: min(o.Duration("connection.max-retry-timeout"), resultsWithin), tries: int(o.Int("sink.max-retries")), create: o.Bool("sink.create")}
	s.Store = sqlstore.Store{L: l, D: dialect{d}, Ask: s.ask, Newest: s.newest, Find: s.find, There: s.there, Add: s.add}
	return s, nil
}

// with calls f with an open session, again where what failed may pass.
func (s *store) with(ctx context.Context, f func(*session) error) error {
	s.mu.Lock()
	se := &session{config: s.config}
	if n := len(s.idle); n > 0 {
		se, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	s.mu.Unlock()
	p := &patience{connector.Patience{Tries: s.tries, Within: s.within}}
	for {
		err := se.open(ctx)
		if err == nil {
			err = f(se)
		}
		if err == nil {
			s.mu.Lock()
			keep := len(s.idle) < idleSessions
			if keep {
				s.idle = append(s.idle, se)
			}
			s.mu.Unlock()
			if !keep {
				se.drop()
			}
			return nil
		}
		se.drop()
		if s.mayCreate(err) {
			if err := s.Ensure(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.again(ctx, err); err != nil {
			return fmt.Errorf("table '%s' of PostgreSQL: %w", s.d.table, hinted(err))
		}
	}
}

// mayCreate reports, once, that a table is missing which 'sink.create' lets us make: whoever looks at results
// may come before the job.
func (s *store) mayCreate(err error) bool {
	var pe *pgconn.PgError
	if !s.create || !errors.As(err, &pe) || pe.Code != "42P01" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.made
	s.made = true
	return first
}

// hinted says what to do where a table of ours is missing.
func hinted(err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && (pe.Code == "42P01" || pe.Code == "42703") {
		return fmt.Errorf("%w; create what `tidemark ddl postgres` prints, or set 'sink.create' = 'true'", err)
	}
	return err
}

func (s *store) ask(ctx context.Context, sql string) ([][]string, error) {
	var rows [][]string
	err := s.with(ctx, func(se *session) (err error) {
		rows, err = se.query(ctx, sql)
		return err
	})
	return rows, err
}

// Statements implements results.Store.
func (s *store) Statements() []results.Statement { return s.d.statements() }

// ensureLock is the key of the lock under which tables are made, so that two who make the same wait for each
// other.
const ensureLock = 0x7469_6465_6d61_726b

// Ensure implements results.Store. Views and the trigger are made anew, which changes nothing.
func (s *store) Ensure(ctx context.Context) error {
	s.mu.Lock()
	s.made = true
	s.mu.Unlock()
	if err := s.Match(ctx); err != nil {
		return err
	}
	missing, err := s.missing(ctx)
	if err != nil || !missing {
		return err
	}
	all := []string{"BEGIN", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(ensureLock))}
	for _, st := range s.d.statements() {
		all = append(all, st.SQL)
	}
	all = append(all, "COMMIT")
	return s.with(ctx, func(se *session) error {
		if _, err := se.exec(ctx, strings.Join(all, ";\n")); err != nil {
			_, _ = se.exec(ctx, "ROLLBACK") // the connection is dropped with the error
			return fmt.Errorf("create it and its companions: %w", err)
		}
		return nil
	})
}

// missing reports whether something has to be made.
func (s *store) missing(ctx context.Context) (bool, error) {
	var there []string
	for _, suffix := range []string{"", "_progress", "_pointer", "_record", "_conflicts", "_latest", "_totals"} {
		there = append(there, "to_regclass("+literal(s.d.name(suffix))+") IS NOT NULL")
	}
	rows, err := s.ask(ctx, "SELECT ("+strings.Join(there, " AND ")+")::text")
	return err == nil && rows[0][0] != "true", err
}

// newest are the documents of the pointer's versions.
func (s *store) newest(ctx context.Context, n int) ([]string, error) {
	sql := "SELECT document FROM " + s.d.name("_pointer") + " ORDER BY version DESC"
	if n > 0 {
		sql += " LIMIT " + strconv.Itoa(n)
	}
	rows, err := s.ask(ctx, sql)
	var out []string
	for _, r := range rows {
		out = append(out, r[0])
	}
	return out, err
}

// Point implements results.Store. The primary key lets one of those through who set the same version.
func (s *store) Point(ctx context.Context, p results.Pointer) error {
	if err := s.L.CheckRange(&p); err != nil {
		return err
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var froms, tos, gens []string
	for _, r := range p.Ranges {
		froms, tos, gens = append(froms, num(r.From)), append(tos, num(r.To)), append(gens, literal(r.Generation))
	}
	nonce := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	list := func(v []string, typ string) string { return "ARRAY[" + strings.Join(v, ", ") + "]::" + typ + "[]" }
	_, err = s.ask(ctx, "INSERT INTO "+s.d.name("_pointer")+" (version, base, froms, tos, generations, nonce, at_ms, document) SELECT "+
		strings.Join([]string{num(p.Version), literal(p.Default), list(froms, "bigint"), list(tos, "bigint"), list(gens, "text"), literal(nonce), num(p.At), literal(string(doc))}, ", ")+
		" WHERE (SELECT coalesce(max(version), 0) FROM "+s.d.name("_pointer")+") = "+num(p.Version-1)+" ON CONFLICT DO NOTHING")
	if err != nil {
		return err
	}
	// An answer that was lost made it look as if nothing had happened, so look who did it.
	rows, err := s.ask(ctx, "SELECT nonce FROM "+s.d.name("_pointer")+" WHERE version = "+num(p.Version))
	if err == nil && (len(rows) == 0 || rows[0][0] != nonce) {
		err = results.ErrMoved
	}
	return err
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// Conflicts implements results.Store.
func (s *store) Conflicts(ctx context.Context, generation string) (int64, error) {
	return s.Count(ctx, s.d.name("_conflicts")+s.OfGeneration(generation))
}

// Note implements results.Store.
func (s *store) Note(ctx context.Context, r results.Record) error {
	_, err := s.ask(ctx, fmt.Sprintf("INSERT INTO %s (kind, name, at_ms, seq, document) SELECT %s, %s, %d, %d, %s ON CONFLICT DO NOTHING",
		s.d.name("_record"), literal(r.Kind), literal(r.Name), r.At, time.Now().UnixNano(), literal(string(r.Document))))
	return err
}

// Records implements results.Store.
func (s *store) Records(ctx context.Context, kind string) ([]results.Record, error) {
	return s.RecordsOf(ctx, s.d.name("_record"), kind)
}

// progressInsert is the statement that notes the progress of a table, whose quoted name with its schema is
// given; it may run again.
func progressInsert(table string, p *connector.Progress) (string, error) {
	doc, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	time := func(ms int64) string {
		if ms == vec.MinTime || ms == vec.MaxTime {
			return "NULL::timestamp"
		}
		return "to_timestamp(" + num(ms) + " / 1000.0) AT TIME ZONE 'UTC'"
	}
	vals := []string{literal(p.Generation), literal(p.Job), literal(p.Lineage), num(p.Checkpoint), num(p.At), time(p.Watermark), strconv.FormatBool(p.Watermark == vec.MaxTime), time(p.MaxTime),
		num(int64(p.SplitsPassed)), num(int64(p.SplitsDone)), num(int64(p.SplitsIdle)), num(int64(p.Splits)), num(p.Expected), num(p.Seen),
		num(p.Late), num(p.Rejected), num(p.Duplicates), num(p.Stale), num(p.Conflicts), num(p.Expired), num(p.MissedCount()), num(p.Rows), literal(string(doc))}
	return "INSERT INTO " + companion(table, "_progress") + ` (generation, job, lineage, checkpoint, at_ms, watermark, ended, max_time, splits_passed, splits_done, splits_idle, splits, expected, seen,
 late, rejected, duplicates, stale, conflicts, expired, missed_windows, rows_written, document) SELECT ` + strings.Join(vals, ", ") + " ON CONFLICT DO NOTHING", nil
}

// companion is the quoted name of a companion of a table, whose quoted name is given.
func companion(table, suffix string) string { return strings.TrimSuffix(table, `"`) + suffix + `"` }

// tell notes the progress of a table of results, in the transaction of its rows.
func (c *committer) tell(ctx context.Context, table *table, p *connector.Progress) error {
	if p == nil || c.s.cfg.Table.Results == nil {
		return nil
	}
	sql, err := progressInsert(table.name, p)
	if err != nil {
		return connector.AsFatal(err)
	}
	if _, err := c.query(ctx, sql); err != nil {
		return fmt.Errorf("note progress: %w", hinted(err))
	}
	return nil
}

// Drop implements results.Store, in one transaction during which the pointer stays.
func (s *store) Drop(ctx context.Context, generation string) error {
	p, err := s.Pointer(ctx)
	if err != nil {
		return err
	}
	g := s.L.Of("generation")
	if g == "" || slices.Contains(p.Generations(), generation) {
		return results.ErrShown
	}
	pointer := s.d.name("_pointer")
	hidden := " AND NOT EXISTS (SELECT 1 FROM " + pointer + " WHERE version = (SELECT max(version) FROM " + pointer + ") AND (coalesce(nullif(base, ''), " + literal(results.Live) + ") = " +
		literal(generation) + " OR " + literal(generation) + " = ANY (generations)))"
	err = s.with(ctx, func(se *session) error {
		_, err := se.exec(ctx, "BEGIN; LOCK TABLE "+pointer+" IN SHARE MODE; DELETE FROM "+s.d.name("")+" WHERE "+quote(g)+" = "+literal(generation)+hidden+
			"; DELETE FROM "+s.d.name("_progress")+" WHERE generation = "+literal(generation)+hidden+"; COMMIT")
		return err
	})
	if err != nil {
		return err
	}
	if p, err = s.Pointer(ctx); err == nil && slices.Contains(p.Generations(), generation) {
		err = results.ErrShown
	}
	return err
}

// Prune implements results.Store: one statement, so that readers see all of it or nothing.
func (s *store) Prune(ctx context.Context, generation string, before int64) (int64, error) {
	rev := quote(s.L.Of("revision"))
	conds := []string{"n." + rev + " > t." + rev}
	for _, f := range s.L.Key {
		conds = append(conds, "n."+quote(f.Name)+" = t."+quote(f.Name))
	}
	var which []string
	if g := s.L.Of("generation"); g != "" {
		conds = append(conds, "n."+quote(g)+" = t."+quote(g))
		which = append(which, "t."+quote(g)+" = "+literal(generation))
	}
	if s.L.Start.Name != "" && before != vec.MaxTime {
		which = append(which, "t."+quote(s.L.Start.Name)+" < "+dialect{}.Time(before, s.L.Start.Type))
	}
	which = append(which, "EXISTS (SELECT 1 FROM "+s.d.name("")+" AS n WHERE "+strings.Join(conds, " AND ")+")")
	rows, err := s.ask(ctx, "WITH gone AS (DELETE FROM "+s.d.name("")+" AS t WHERE "+strings.Join(which, " AND ")+" RETURNING 1) SELECT count(*)::text FROM gone")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

// Now implements results.Store.
func (s *store) Now(ctx context.Context) (int64, error) {
	rows, err := s.ask(ctx, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

// PruneProgress implements results.Store.
func (s *store) PruneProgress(ctx context.Context, before int64) (int64, error) {
	rows, err := s.ask(ctx, "WITH gone AS (DELETE FROM "+s.d.name("_progress")+" WHERE (generation, lineage, checkpoint) IN ("+s.SupersededProgress(before)+") RETURNING 1) SELECT count(*)::text FROM gone")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

// adding are functions that give another answer where a cell is there in several revisions; newestOf are
// ways to take the newest of each key.
var (
	adding   = regexp.MustCompile(`(?i)\b(sum|count|avg|stddev|variance|corr|string_agg|array_agg|percentile|mode|min|max)\w*\s*\(`)
	newestOf = regexp.MustCompile(`(?i)(DISTINCT ON|row_number\s*\(|rank\s*\()`)
)

// readersSQL lists the views over a table and over these views, each with what it reads.
const readersSQL = `WITH RECURSIVE readers AS (
SELECT to_regclass(%s)::oid AS oid, NULL::oid AS reads
UNION SELECT v.oid, d.refobjid FROM readers t
JOIN pg_catalog.pg_depend d ON d.refobjid = t.oid AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_rewrite'::regclass
JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
JOIN pg_catalog.pg_class v ON v.oid = r.ev_class AND v.oid <> d.refobjid
WHERE v.relkind IN ('v', 'm') AND NOT coalesce(v.oid IN (%s), false)
) SELECT r.oid::regclass::text, v.relkind::text, pg_get_viewdef(r.oid), r.reads::regclass::text FROM readers r JOIN pg_catalog.pg_class v ON v.oid = r.oid WHERE r.reads IS NOT NULL ORDER BY 1, 4`

// find looks at the views that read the history, or views over it that have all of its revisions.
func (s *store) find(ctx context.Context) ([]sqlstore.Finding, error) {
	var ours []string
	for _, suffix := range []string{"_latest", "_totals", "_conflicts"} {
		ours = append(ours, "to_regclass("+literal(s.d.name(suffix))+")::oid")
	}
	rows, err := s.ask(ctx, fmt.Sprintf(readersSQL, literal(s.d.name("")), strings.Join(ours, ", ")))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	// What reads each one's revisions, from the history on.
	over := map[string][][]string{}
	first := map[string]bool{}
	for _, r := range rows {
		over[r[3]] = append(over[r[3]], r)
		first[r[3]] = true
	}
	for _, r := range rows {
		delete(first, r[0])
	}
	var out []sqlstore.Finding
	seen := map[string]bool{}
	var look func(name string, added bool)
	look = func(name string, added bool) {
		for _, r := range over[name] {
			if newestOf.MatchString(r[2]) || seen[r[0]] {
				continue
			}
			seen[r[0]] = true
			adds, kind := added || adding.MatchString(r[2]), "view"
			if r[1] == "m" {
				kind = "materialized view"
			}
			if adds {
				out = append(out, sqlstore.Finding{What: fmt.Sprintf("%s %s adds up all revisions of %s, each correction once more; read %s_latest in it", kind, r[0], s.d.table, s.d.table), Kept: r[1] == "m"})
			}
			look(r[0], adds)
		}
	}
	for name := range first {
		look(name, false)
	}
	slices.SortFunc(out, func(a, b sqlstore.Finding) int { return strings.Compare(a.What, b.What) })
	return out, nil
}

// there are the columns of the table. What tells revisions apart is its primary key, which the sink looks at.
func (s *store) there(ctx context.Context) (columns, apart []string, err error) {
	rows, err := s.ask(ctx, "SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass("+literal(s.d.name(""))+") AND attnum > 0 AND NOT attisdropped ORDER BY attnum")
	for _, r := range rows {
		columns = append(columns, r[0])
	}
	return columns, nil, err
}

// add says how columns are added.
func (s *store) add(missing []types.Field) string {
	var cols []string
	for _, f := range missing {
		if typ, err := columnType(f.Type); err == nil {
			cols = append(cols, "ADD COLUMN "+quote(f.Name)+" "+typ)
		}
	}
	return "add it with ALTER TABLE " + s.d.name("") + " " + strings.Join(cols, ", ") + ", then DROP VIEW " + s.d.name("_totals") + ", " + s.d.name("_latest") + ", which are made anew"
}

// Health implements results.Store.
func (s *store) Health(ctx context.Context) (map[string]float64, error) {
	names := []string{"bytes", "index_bytes", "rows", "dead_rows", "vacuum_age_seconds", "scans", "scan_rows_read", "scan_bytes_read"}
	rows, err := s.ask(ctx, "SELECT pg_total_relation_size(c.oid)::text, pg_indexes_size(c.oid)::text, coalesce(t.n_live_tup, 0)::text, coalesce(t.n_dead_tup, 0)::text, "+
		"coalesce(extract(epoch FROM clock_timestamp() - greatest(t.last_vacuum, t.last_autovacuum)), 0)::text, "+
		"(coalesce(t.seq_scan, 0) + coalesce(t.idx_scan, 0))::text, (coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0))::text, "+
		"((coalesce(io.heap_blks_read, 0) + coalesce(io.heap_blks_hit, 0) + coalesce(io.idx_blks_read, 0) + coalesce(io.idx_blks_hit, 0)) * current_setting('block_size')::bigint)::text "+
		"FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_stat_all_tables t ON t.relid = c.oid LEFT JOIN pg_catalog.pg_statio_all_tables io ON io.relid = c.oid WHERE c.oid = to_regclass("+literal(s.d.name(""))+")")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i, name := range names {
		if len(rows) == 1 {
			out[name], _ = strconv.ParseFloat(rows[0][i], 64)
		}
	}
	return out, nil
}

// Close implements results.Store.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, se := range s.idle {
		se.drop()
	}
	s.idle = nil
	return nil
}

// results calls f with the store of the sink's table of results.
func (s *sink) results(f func(*store) error) error {
	return sqlstore.Using(func() (*store, error) { return newStore(s.cfg.Table, s.cfg.Options) }, f)
}
