package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/connector/results/sqlstore"
)

// adding are functions that give another answer where a cell is there in several revisions.
var adding = regexp.MustCompile(`(?i)\b(sum|count|avg|uniq|quantile|median|stddev|var|corr|groupArray|topK|any|min|max)\w*\s*\(`)

// newest are ways to take the newest revision of each key.
var newest = regexp.MustCompile(`(?i)\b(argMax\w*\s*\(|LIMIT\s+1\s+BY\b|row_number\s*\(|rank\s*\()`)

// targetOf finds the table that a materialized view writes to.
var targetOf = regexp.MustCompile("(?i)^CREATE MATERIALIZED VIEW .*?\\bTO (`(?:[^`\\\\]|\\\\.)+`|\\w+)\\.(`(?:[^`\\\\]|\\\\.)+`|\\w+)")

// find looks at the views that read the history.
func (s *store) find(ctx context.Context) ([]sqlstore.Finding, error) {
	var out []sqlstore.Finding
	rows, err := s.ask(ctx, "SELECT DISTINCT database, name, engine, as_select, create_table_query FROM "+s.system("tables", true)+" WHERE engine IN ('MaterializedView', 'View', 'LiveView', 'WindowView') AND position(as_select, "+
		literal(s.d.table)+") > 0 ORDER BY database, name")
	if err != nil {
		return nil, err
	}
	sums, err := s.summing(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		name, materialized := r[0]+"."+r[1], r[2] != "View"
		if r[0] == s.d.database && (r[1] == s.d.table+"_latest" || r[1] == s.d.table+"_conflicts" || r[1] == s.d.table+"_totals") || !s.reads(r[3], r[0]) {
			continue
		}
		into := targetOf.FindStringSubmatch(r[4])
		adds := strings.Contains(r[4], "SummingMergeTree") || strings.Contains(r[4], "AggregatingMergeTree") || into != nil && sums[unquote(into[1])+"."+unquote(into[2])]
		if !adds && (!adding.MatchString(r[3]) || newest.MatchString(r[3]) && !materialized) {
			continue
		}
		kind, remedy := "view", "read "+s.d.table+"_latest in it"
		if materialized {
			kind, remedy = "materialized view", "drop it, and add up "+s.d.table+"_latest when it is read, or refresh a view over that (REFRESH EVERY 1 MINUTE)"
			if strings.Contains(strings.ToUpper(r[4]), " REFRESH ") && newest.MatchString(r[3]) {
				continue // it is made anew each time, from the newest revisions
			}
		}
		out = append(out, sqlstore.Finding{What: fmt.Sprintf("%s %s adds up all revisions of %s, each correction once more; %s", kind, name, s.d.table, remedy), Kept: materialized})
	}
	rows, err = s.ask(ctx, "SELECT DISTINCT engine_full FROM "+s.system("tables", true)+" WHERE database = "+literal(s.d.database)+" AND name = "+literal(s.d.holder()))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if strings.Contains(r[0], "SummingMergeTree") || strings.Contains(r[0], "AggregatingMergeTree") || strings.Contains(r[0], "ReplacingMergeTree(") && len((&table{keptFull: r[0]}).engineArgs()) > 0 {
			out = append(out, sqlstore.Finding{What: fmt.Sprintf("table %s.%s is %s, whose merges change or remove revisions; make it ReplacingMergeTree without parameters, as `tidemark ddl clickhouse` prints it", s.d.database, s.d.holder(), firstWord(r[0])), Kept: true})
		}
	}
	return out, nil
}

// summing are the tables whose engine adds rows up, as database.table.
func (s *store) summing(ctx context.Context) (map[string]bool, error) {
	rows, err := s.ask(ctx, "SELECT DISTINCT database, name FROM "+s.system("tables", true)+" WHERE engine LIKE '%SummingMergeTree' OR engine LIKE '%AggregatingMergeTree'")
	out := map[string]bool{}
	for _, r := range rows {
		out[r[0]+"."+r[1]] = true
	}
	return out, err
}

// unquote is the name that an identifier of SQL is.
func unquote(ident string) string {
	p := typeParser{s: ident}
	return p.word()
}

func firstWord(s string) string {
	w, _, _ := strings.Cut(s, " ")
	return w
}

// reads reports whether a query in a database reads the history itself, and not what is made from it.
func (s *store) reads(query, database string) bool {
	table := regexp.QuoteMeta(s.d.table)
	if s.d.sharded {
		table += "(" + shardSuffix + ")?"
	}
	qualified := "(`?" + regexp.QuoteMeta(s.d.database) + "`?\\.)"
	if database == s.d.database {
		qualified += "?"
	}
	ok, err := regexp.MatchString(`(?i)\b(FROM|JOIN)\s+`+qualified+"`?"+table+"`?($|[^A-Za-z0-9_`.])", query)
	return ok && err == nil
}

// Health implements results.Store: parts and rows of the table, the server's work on it, and what its readers
// read. Of a table over several shards it is one replica of each.
func (s *store) Health(ctx context.Context) (map[string]float64, error) {
	where := " WHERE database = " + literal(s.d.database) + " AND table = " + literal(s.d.holder())
	parts, most := s.system("parts", false)+where+" AND active", "partition_id"
	if s.d.sharded {
		most = "_shard_num, partition_id"
	}
	out := map[string]float64{}
	for sql, names := range map[string][]string{
		"SELECT toString(count()), toString(sum(rows)), toString(sum(bytes_on_disk)), toString(uniqExact(partition_id)) FROM " + parts:                                        {"parts", "rows", "bytes", "partitions"},
		"SELECT toString(coalesce(max(n), 0)) FROM (SELECT count() AS n FROM " + parts + " GROUP BY " + most + ")":                                                            {"parts_in_partition"},
		"SELECT toString(count()), toString(ifNull(max(elapsed), 0)) FROM " + s.system("merges", true) + where:                                                                {"merges", "merge_seconds"},
		"SELECT toString(count()), toString(sum(parts_to_do)), toString(countIf(latest_fail_reason != '')) FROM " + s.system("mutations", false) + where + " AND NOT is_done": {"mutations", "mutation_parts", "mutations_failing"},
	} {
		rows, err := s.ask(ctx, sql)
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			if len(rows) == 1 {
				out[name], _ = strconv.ParseFloat(rows[0][i], 64)
			}
		}
	}
	return out, s.readings(ctx, out)
}

// readings adds what SELECTs on the table, or on views over it, have cost in the last five minutes: where the
// server logs queries and lets its log be read.
func (s *store) readings(ctx context.Context, out map[string]float64) error {
	names := []string{"queries", "query_rows_read", "query_bytes_read", "query_result_rows", "query_seconds"}
	rows, err := s.ask(ctx, "SELECT toString(count()), toString(avg(read_rows)), toString(avg(read_bytes)), toString(avg(result_rows)), toString(avg(query_duration_ms) / 1000) FROM "+s.system("query_log", true)+
		" WHERE event_date >= today() - 1 AND event_time > now() - INTERVAL 5 MINUTE AND type = 'QueryFinish' AND is_initial_query AND query_kind = 'Select' AND has(tables, "+literal(s.d.database+"."+s.d.table)+")")
	var no *serverError
	if errors.As(err, &no) && (classOfServer(no) == hopeless || s.d.sharded && classOfServer(no) != away) {
		return nil // there is no log, or it is not ours to read
	}
	if err != nil || len(rows) != 1 {
		return err
	}
	for i, name := range names {
		v, err := strconv.ParseFloat(rows[0][i], 64)
		if err == nil && !math.IsNaN(v) { // the average of none
			out[name] = v
		}
	}
	return nil
}
