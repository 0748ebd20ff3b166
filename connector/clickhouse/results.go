package clickhouse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/sqlstore"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() { results.Register("clickhouse", openResults) }

// resultsWithin is how long a store waits for a server that is away.
const resultsWithin = 10 * time.Second

// idleSessions is how many connections are kept for the next calls.
const idleSessions = 4

// store is a table of results in ClickHouse.
type store struct {
	sqlstore.Store
	d      *ddl
	c      *config
	create bool // what is missing may be made

	mu    sync.Mutex
	made  bool            // it was; guarded by mu, as all that follows
	idle  []*session      // not in use
	knows map[string]bool // the settings of ours that the server has, nil: not asked yet
}

func openResults(_ context.Context, t *connector.Table, o option.Values) (results.Store, error) {
	s, err := newStore(t, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(t *connector.Table, o option.Values) (*store, error) {
	l, err := results.LayoutOf(t)
	if err != nil {
		return nil, err
	}
	c, err := configOf(o)
	if err != nil {
		return nil, err
	}
	d, err := newDDL(l, c, o)
	if err != nil {
		return nil, err
	}
	s := &store{d: d, c: c, create: o.Bool("sink.create")}
	s.Store = sqlstore.Store{L: l, D: dialect{d}, Ask: s.ask, Newest: s.newest, Find: s.find, There: s.there, Add: s.add}
	return s, nil
}

// with calls f with a session, again where what failed may pass.
func (s *store) with(ctx context.Context, f func(*session) error) error {
	s.mu.Lock()
	se := &session{c: s.c}
	if n := len(s.idle); n > 0 {
		se, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	s.mu.Unlock()
	p := &patience{connector.Patience{Tries: s.c.tries, Within: min(s.c.patience, resultsWithin)}}
	for {
		err := f(se)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.idle) < idleSessions {
				s.idle = append(s.idle, se)
			} else {
				se.close()
			}
			return nil
		}
		if s.mayCreate(err) {
			if err := s.Ensure(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.again(ctx, err); err != nil {
			se.close()
			return fmt.Errorf("table '%s' of ClickHouse: %w", s.d.table, hinted(err))
		}
	}
}

// mayCreate reports, once, that a table is missing which 'sink.create' lets us make: whoever looks at results
// may come before the job.
func (s *store) mayCreate(err error) bool {
	var se *serverError
	if !s.create || !errors.As(err, &se) || se.code != 60 {
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
	var se *serverError
	if errors.As(err, &se) && (se.code == 60 || se.code == 47) { // no such table, no such column
		return fmt.Errorf("%w; create what `tidemark ddl clickhouse` prints, or set 'sink.create' = 'true'", err)
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

// exec runs a statement that has no answer.
func (s *store) exec(ctx context.Context, sql string, settings ...setting) error {
	return s.with(ctx, func(se *session) error {
		_, err := se.query(ctx, sql, settings...)
		return err
	})
}

// Statements implements results.Store.
func (s *store) Statements() []results.Statement { return s.d.statements() }

// Ensure implements results.Store.
func (s *store) Ensure(ctx context.Context) error {
	s.mu.Lock()
	s.made = true
	s.mu.Unlock()
	if err := s.Match(ctx); err != nil {
		return err
	}
	return s.with(ctx, func(se *session) error { return se.make(ctx, s.d.place, s.d.statements()) })
}

// there are the columns of the table, and those of its order that tell revisions apart.
func (s *store) there(ctx context.Context) (columns, apart []string, err error) {
	rows, err := s.ask(ctx, "SELECT name FROM system.columns WHERE database = "+literal(s.d.database)+" AND table = "+literal(s.d.table)+" ORDER BY position")
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	for _, r := range rows {
		columns = append(columns, r[0])
	}
	rows, err = s.ask(ctx, "SELECT sorting_key FROM "+s.system("tables", false)+" WHERE database = "+literal(s.d.database)+" AND name = "+literal(s.d.holder())+" LIMIT 1")
	if err != nil || len(rows) == 0 || rows[0][0] == "" { // such as a Distributed table over one that is not ours
		return columns, nil, err
	}
	t := &table{}
	t.holds("", "", rows[0][0])
	return columns, slices.DeleteFunc(t.sorting, func(c string) bool { return c == hashColumn }), nil
}

// add says how columns are added.
func (s *store) add(missing []types.Field) string {
	var cols []string
	for _, f := range missing {
		if typ, err := columnType(f.Type.AsNullable()); err == nil {
			cols = append(cols, "ADD COLUMN "+quote(f.Name)+" "+typ)
		}
	}
	change := s.d.on() + " " + strings.Join(cols, ", ")
	text := "add it with ALTER TABLE " + s.d.rows() + change
	if s.d.sharded {
		text += " and ALTER TABLE " + s.d.name("") + change
	}
	return text + ", then DROP VIEW " + s.d.name("_latest") + s.d.on() + " and " + s.d.name("_totals") + ", which are made anew"
}

// newest are the documents of the pointer's versions.
func (s *store) newest(ctx context.Context, n int) ([]string, error) {
	sql := "SELECT document FROM " + s.d.name("_pointer") + " ORDER BY version DESC, at_ms ASC"
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

// Point implements results.Store. A version is one block under a token of its own: of two that set the
// same version the table takes the first, and the second finds that it is not its own. That holds for as
// many versions as the table keeps tokens; what is older is found out by looking.
func (s *store) Point(ctx context.Context, p results.Pointer) error {
	if err := s.L.CheckRange(&p); err != nil {
		return err
	}
	now, err := s.Pointer(ctx)
	if err != nil {
		return err
	}
	nonce := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	if p.Version != now.Version+1 {
		return results.ErrMoved
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var froms, tos []int64
	var gens []string
	for _, r := range p.Ranges {
		froms, tos, gens = append(froms, r.From), append(tos, r.To), append(gens, r.Generation)
	}
	b := &oneRow{}
	b.int("version", p.Version)
	b.text("base", p.Default)
	b.ints("froms", froms)
	b.ints("tos", tos)
	b.texts("generations", gens)
	b.text("nonce", nonce)
	b.int("at_ms", p.At)
	b.text("document", string(doc))
	if err := s.put(ctx, s.d.name("_pointer"), b, "tidemark/pointer/"+num(p.Version)); err != nil {
		return err
	}
	first, err := s.firstOf(ctx, p.Version)
	if err == nil && first != nonce {
		err = results.ErrMoved
	}
	return err
}

// firstOf is whose a version of the pointer is. It is there, and on a replica other than that which took it
// a moment later.
func (s *store) firstOf(ctx context.Context, version int64) (string, error) {
	sql := "SELECT nonce FROM " + s.d.name("_pointer") + " WHERE version = " + num(version) + " ORDER BY at_ms, nonce LIMIT 1"
	for end := time.Now().Add(resultsWithin); ; {
		rows, err := s.ask(ctx, sql)
		switch {
		case err != nil:
			return "", err
		case len(rows) > 0:
			return rows[0][0], nil
		case time.Now().After(end):
			return "", fmt.Errorf("version %d of the pointer of table %s was set and does not appear: its replicas lag; look again whose it is", version, s.d.table)
		}
		if !connector.Pause(ctx, 50*time.Millisecond) {
			return "", context.Cause(ctx)
		}
	}
}

// known are the settings of ours that the server has.
func (s *store) known(ctx context.Context) (map[string]bool, error) {
	s.mu.Lock()
	known := s.knows
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var names []string
	for _, w := range wanted {
		names = append(names, literal(w.name))
	}
	rows, err := s.ask(ctx, "SELECT name FROM system.settings WHERE name IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, err
	}
	known = map[string]bool{}
	for _, r := range rows {
		known[r[0]] = true
	}
	s.mu.Lock()
	s.knows = known
	s.mu.Unlock()
	return known, nil
}

// Conflicts implements results.Store.
func (s *store) Conflicts(ctx context.Context, generation string) (int64, error) {
	return s.Count(ctx, s.d.name("_conflicts")+s.OfGeneration(generation))
}

// Note implements results.Store.
func (s *store) Note(ctx context.Context, r results.Record) error {
	b := &oneRow{}
	b.text("kind", r.Kind)
	b.text("name", r.Name)
	b.int("at_ms", r.At)
	b.uint("seq", uint64(time.Now().UnixNano()))
	b.text("document", string(r.Document))
	return s.put(ctx, s.d.name("_record"), b, "")
}

// Records implements results.Store.
func (s *store) Records(ctx context.Context, kind string) ([]results.Record, error) {
	return s.RecordsOf(ctx, s.d.name("_record")+" FINAL", kind)
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// Drop implements results.Store: partitions go whole, as a generation has its own.
func (s *store) Drop(ctx context.Context, generation string) error {
	p, err := s.Pointer(ctx)
	if err != nil {
		return err
	}
	g := s.L.Of("generation")
	if g == "" || slices.Contains(p.Generations(), generation) {
		return results.ErrShown
	}
	of := quote(g) + " = " + literal(generation)
	parts, whole, err := s.partitions(ctx, of)
	if err != nil {
		return err
	}
	for _, id := range parts {
		if !whole {
			break
		}
		if err := s.alter(ctx, "DROP PARTITION ID "+literal(id)); err != nil {
			return err
		}
	}
	if !whole {
		if err := s.alter(ctx, "DELETE WHERE "+of+" SETTINGS mutations_sync = 2"); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, "ALTER TABLE "+s.d.name("_progress")+" DELETE WHERE generation = "+literal(generation)+" SETTINGS mutations_sync = 2"); err != nil {
		return err
	}
	// There are no transactions: who promoted it in the meantime is told.
	if p, err = s.Pointer(ctx); err == nil && slices.Contains(p.Generations(), generation) {
		err = fmt.Errorf("generation %s was promoted while it was dropped, and has no rows now; take that back with `tidemark promote --back`", generation)
	}
	return err
}

// alter changes the table that holds the rows, on all shards.
func (s *store) alter(ctx context.Context, how string) error {
	if !s.d.sharded {
		return s.exec(ctx, "ALTER TABLE "+s.d.rows()+" "+how)
	}
	return s.exec(ctx, "ALTER TABLE "+s.d.rows()+s.d.on()+" "+how, onCluster...)
}

// system is a table of the server about its tables: of one replica of each shard, or of all servers.
func (s *store) system(name string, all bool) string {
	switch {
	case !s.d.sharded:
		return "system." + name
	case all:
		return "clusterAllReplicas(" + literal(s.d.cluster) + ", system." + name + ")"
	}
	return "cluster(" + literal(s.d.cluster) + ", system." + name + ")"
}

// partitions lists those that have rows that meet cond, and whether each has one generation only.
func (s *store) partitions(ctx context.Context, cond string) (ids []string, whole bool, err error) {
	rows, err := s.ask(ctx, "SELECT partition_key FROM "+s.system("tables", false)+" WHERE database = "+literal(s.d.database)+" AND name = "+literal(s.d.holder())+" LIMIT 1")
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	for _, k := range strings.Split(strings.Trim(rows[0][0], "()"), ",") {
		whole = whole || strings.Trim(strings.TrimSpace(k), "`") == s.L.Of("generation")
	}
	rows, err = s.ask(ctx, "SELECT DISTINCT CAST(_partition_id AS String) FROM "+s.d.name("")+" WHERE "+cond+" ORDER BY 1")
	for _, r := range rows {
		ids = append(ids, r[0])
	}
	return ids, whole, err
}

// Prune implements results.Store. What goes is listed by key and revision at a moment when something newer is
// there: that stays true whatever comes meanwhile, and in whatever order parts are written again.
func (s *store) Prune(ctx context.Context, generation string, before int64) (int64, error) {
	rev := quote(s.L.Of("revision"))
	var keys, conds []string
	for _, f := range s.L.Key {
		keys = append(keys, quote(f.Name))
	}
	if g := s.L.Of("generation"); g != "" {
		conds = append(conds, quote(g)+" = "+literal(generation))
	}
	old := []string{rev + " < tm_newest"}
	if s.L.Start.Name != "" && before != vec.MaxTime {
		old = append(old, quote(s.L.Start.Name)+" < "+dialect{}.Time(before, s.L.Start.Type))
	}
	cols := keys
	if s.L.Start.Name != "" && !s.L.Windowed {
		cols = append(slices.Clone(keys), quote(s.L.Start.Name))
	}
	key := strings.Join(keys, ", ")
	of := strings.Join(append(slices.Clone(conds), "1"), " AND ")
	parts, _, err := s.partitions(ctx, of)
	if err != nil {
		return 0, err
	}
	var gone int64
	for _, id := range parts {
		in := of
		if s.L.Windowed {
			in += " AND _partition_id = " + literal(id) // all revisions of a key are in one partition
		}
		superseded := "(" + key + ", " + rev + ") IN (SELECT " + key + ", " + rev + " FROM (SELECT " + strings.Join(cols, ", ") + ", " + rev + ", max(" + rev + ") OVER (PARTITION BY " + key +
			") AS tm_newest FROM " + s.d.rows() + " WHERE " + in + ") WHERE " + strings.Join(old, " AND ") + ")"
		rows, err := s.ask(ctx, "SELECT toString(count()) FROM "+s.d.name("")+" WHERE "+of+" AND _partition_id = "+literal(id)+" AND "+superseded)
		if err != nil {
			return gone, err
		}
		n, err := strconv.ParseInt(rows[0][0], 10, 64)
		if err != nil || n == 0 {
			if err != nil {
				return gone, err
			}
			continue
		}
		if err := s.alter(ctx, "DELETE IN PARTITION ID "+literal(id)+" WHERE "+of+" AND "+superseded+
			" SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"); err != nil {
			return gone, err
		}
		gone += n
	}
	return gone, nil
}

// Now implements results.Store.
func (s *store) Now(ctx context.Context) (int64, error) {
	rows, err := s.ask(ctx, "SELECT toString(toUnixTimestamp64Milli(now64(3)))")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(rows[0][0], 10, 64)
}

// PruneProgress implements results.Store. A row that is there twice until a merge is counted once.
func (s *store) PruneProgress(ctx context.Context, before int64) (int64, error) {
	gone := s.SupersededProgress(before)
	n, err := s.Count(ctx, "("+gone+") AS tm_gone")
	if err != nil || n == 0 {
		return 0, err
	}
	return n, s.exec(ctx, "ALTER TABLE "+s.d.name("_progress")+" DELETE WHERE (generation, lineage, checkpoint) IN ("+gone+
		") SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1")
}

// Close implements results.Store.
func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, se := range s.idle {
		se.close()
	}
	s.idle = nil
	return nil
}

// results calls f with the store of the sink's table of results.
func (s *sink) results(f func(*store) error) error {
	return sqlstore.Using(func() (*store, error) { return newStore(s.cfg.Table, s.cfg.Options) }, f)
}
