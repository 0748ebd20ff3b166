package dashboard

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
)

// Exported is a table of results with the statements that make it in its target.
type Exported struct {
	Table      *connector.Table
	Statements []results.Statement
}

// plugins are Grafana's names of the data sources that read a connector's tables.
var plugins = map[string]string{"postgres": "grafana-postgresql-datasource", "clickhouse": "grafana-clickhouse-datasource"}

// target is a table of results as Grafana's panels ask for it.
type target struct {
	Exported
	plugin                      string
	quote                       func(string) string
	latest, progress, conflicts string // names, quoted
}

var (
	viewName  = regexp.MustCompile(`(?is)^\s*CREATE (?:OR REPLACE )?VIEW (?:IF NOT EXISTS )?(.+?)(?: ON CLUSTER .+?)? AS\s`)
	tableName = regexp.MustCompile(`(?is)^\s*CREATE TABLE (?:IF NOT EXISTS )?(.+?)(?: ON CLUSTER .+?)? \(`)
)

// newTarget finds the names of a table's companions in the statements that make them.
func newTarget(x Exported) (*target, error) {
	t := &target{Exported: x, plugin: plugins[x.Table.Connector]}
	if t.plugin == "" {
		return nil, fmt.Errorf("table %s: Grafana is shown tables in ClickHouse and PostgreSQL, not those of connector '%s'", x.Table.Name, x.Table.Connector)
	}
	mark := `"`
	if x.Table.Connector == "clickhouse" {
		mark = "`"
	}
	t.quote = func(name string) string { return mark + strings.ReplaceAll(name, mark, mark+mark) + mark }
	for _, s := range x.Statements {
		for suffix, to := range map[string]*string{"_latest": &t.latest, "_progress": &t.progress, "_conflicts": &t.conflicts} {
			if !strings.HasSuffix(s.Name, suffix) {
				continue
			}
			for _, form := range []*regexp.Regexp{viewName, tableName} {
				if m := form.FindStringSubmatch(s.SQL); m != nil {
					*to = m[1]
				}
			}
		}
	}
	if t.latest == "" || t.progress == "" || t.conflicts == "" {
		return nil, fmt.Errorf("BUG: the statements of table %s do not name its views", x.Table.Name)
	}
	return t, nil
}

type object = map[string]any

// grid places panels one behind another, four units of six columns a row.
type grid struct {
	panels  []any
	x, y, h int
}

func (g *grid) add(w, h int, title, kind string, p object) {
	if g.x+w > 24 {
		g.x, g.y, g.h = 0, g.y+g.h, 0
	}
	p["id"], p["title"], p["type"] = len(g.panels)+1, title, kind
	p["gridPos"] = object{"x": g.x, "y": g.y, "w": w, "h": h}
	g.x, g.h = g.x+w, max(g.h, h)
	g.panels = append(g.panels, p)
}

func (g *grid) row(title string) {
	g.x, g.y, g.h = 0, g.y+g.h, 0
	g.add(24, 1, title, "row", object{"collapsed": false, "panels": []any{}})
	g.x, g.y, g.h = 0, g.y+1, 0
}

// Grafana returns a dashboard over the views and the progress of tables of results, and over the metrics of the
// job, as JSON. Which data sources it reads is asked for when it is imported.
func Grafana(title string, tables []Exported) ([]byte, error) {
	g := &grid{}
	vars := []any{variable("prometheus", "prometheus", "Prometheus")}
	known := map[string]bool{}
	for _, x := range tables {
		t, err := newTarget(x)
		if err != nil {
			return nil, err
		}
		if !known[t.plugin] {
			known[t.plugin] = true
			vars = append(vars, variable(t.variable(), t.plugin, map[string]string{"postgres": "PostgreSQL", "clickhouse": "ClickHouse"}[x.Table.Connector]))
		}
		t.panels(g)
	}
	jobPanels(g)
	return json.MarshalIndent(object{
		"title": title, "tags": []string{"tidemark"}, "schemaVersion": 39, "version": 1, "editable": true, "timezone": "utc", "refresh": "30s",
		"time": object{"from": "now-2d", "to": "now"}, "templating": object{"list": vars}, "panels": g.panels,
		"annotations": object{"list": []any{}}, "links": []any{},
	}, "", "  ")
}

func variable(name, plugin, label string) object {
	return object{"name": name, "label": label, "type": "datasource", "query": plugin, "hide": 0, "refresh": 1, "options": []any{}}
}

// variable is the name of the variable that says which data source is read.
func (t *target) variable() string { return t.Table.Connector }

// ask makes a query of the target; series says that it is drawn over time.
func (t *target) ask(series bool, sql string) object {
	q := object{"refId": "A", "rawSql": sql, "datasource": object{"type": t.plugin, "uid": "${" + t.variable() + "}"}}
	kind := map[bool]string{true: "timeseries", false: "table"}[series]
	if t.Table.Connector == "clickhouse" {
		q["editorType"], q["queryType"], q["format"] = "sql", kind, map[bool]int{true: 0, false: 1}[series]
	} else {
		q["editorMode"], q["rawQuery"], q["format"] = "code", true, map[bool]string{true: "time_series", false: "table"}[series]
	}
	return object{"datasource": q["datasource"], "targets": []any{q}}
}

func (t *target) panels(g *grid) {
	r := t.Table.Results
	g.row(t.Table.Name)
	for _, c := range (&Source{Table: t.Table}).columns() {
		if c.Role != "value" || !c.Numeric || r.WindowStart == "" {
			continue
		}
		p := t.ask(true, t.course(c.Name))
		p["description"] = "The newest revision of each window, through the pointer. Whether it is final says the watermark: see the progress below."
		p["fieldConfig"] = object{"defaults": object{"unit": unitOf(c.Unit), "custom": object{"drawStyle": "line", "showPoints": "auto", "spanNulls": false}}, "overrides": []any{}}
		g.add(12, 8, label(c.Name, c.Unit), "timeseries", p)
	}
	at, count := "at", "count(*)"
	if t.Table.Connector == "clickhouse" {
		count = "count()"
	}
	g.add(24, 6, "Progress of "+t.Table.Name, "table", t.ask(false, "SELECT generation, "+at+" AS sealed, watermark, ended, splits_passed, splits_done, splits_idle, splits, seen, expected, "+
		"late, rejected, duplicates, stale, conflicts, expired, missed_windows, rows_written\nFROM "+t.progress+"\nORDER BY at_ms DESC LIMIT 20"))
	g.add(6, 5, "Equal revisions with different content", "stat", t.ask(false, "SELECT "+count+" AS conflicts FROM "+t.conflicts))
	p := t.ask(true, "SELECT "+at+" AS time, late, rejected, duplicates, stale, conflicts\nFROM "+t.progress+"\nWHERE $__timeFilter("+at+")\nORDER BY time")
	g.add(18, 5, "Rows that were not counted", "timeseries", p)
}

// course asks for a column over the windows, a line a key.
func (t *target) course(column string) string {
	r := t.Table.Results
	ws := t.quote(r.WindowStart)
	var keys []string
	for _, k := range r.Key {
		if k == r.WindowStart || k == r.WindowEnd {
			continue
		}
		if t.Table.Connector == "clickhouse" {
			keys = append(keys, "toString("+t.quote(k)+")")
		} else {
			keys = append(keys, t.quote(k)+"::text")
		}
	}
	cols := ws + " AS time, "
	switch {
	case len(keys) > 1 && t.Table.Connector == "clickhouse":
		cols += "concat(" + strings.Join(keys, ", ' ', ") + ") AS metric, "
	case len(keys) > 1:
		cols += "concat_ws(' ', " + strings.Join(keys, ", ") + ") AS metric, "
	case len(keys) == 1:
		cols += keys[0] + " AS metric, "
	}
	return "SELECT " + cols + t.quote(column) + " AS value\nFROM " + t.latest + "\nWHERE $__timeFilter(" + ws + ")\nORDER BY time"
}

func label(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + " (" + unit + ")"
}

// unitOf is Grafana's name of a unit; one that it has not is written behind the value.
func unitOf(unit string) string {
	switch strings.ToLower(unit) {
	case "":
		return "short"
	case "minutes", "min":
		return "m"
	case "seconds", "s":
		return "s"
	case "hours", "h":
		return "h"
	case "ms", "milliseconds":
		return "ms"
	case "percent", "%":
		return "percent"
	case "bytes":
		return "bytes"
	}
	return "suffix: " + unit
}

// metricPanel is a panel of one query of Prometheus: lines, or with heat the buckets of a histogram.
type metricPanel struct {
	title, query, legend, unit string
	heat                       bool
}

var metricPanels = []metricPanel{
	{"From the end of a window to its result", "tidemark_result_lag_seconds", "{{table}} {{generation}}", "s", false},
	{"Age of the newest event", "tidemark_result_source_age_seconds", "{{table}} {{generation}}", "s", false},
	{"Revisions a second", "rate(tidemark_result_rows[5m])", "{{table}} {{generation}}", "short", false},
	{"Splits that are idle", "tidemark_result_splits_idle", "{{table}} {{generation}}", "short", false},
	{"Age of the newest checkpoint", "tidemark_checkpoint_age_seconds", "{{job_name}}", "s", false},
	{"Rows dropped a second, by reason", "rate(tidemark_rows_dropped_total[5m])", "{{operator_name}} {{reason}}", "short", false},
	{"Rows that missed a window, by how much", "sum by (le) (increase(tidemark_result_late_seconds_bucket[$__rate_interval]))", "{{le}}", "s", true},
	{"A delay that would have kept 95 % of these", "histogram_quantile(0.95, sum by (table, generation, le) (increase(tidemark_result_late_seconds_bucket[1h])))", "{{table}} {{generation}}", "s", false},
	{"State", "sum by (job_name) (tidemark_state_bytes)", "{{job_name}}", "bytes", false},
	{"Rows that a query of the target reads", "tidemark_result_target_query_rows_read", "{{table}}", "short", false},
	{"Bytes that a query of the target reads", "tidemark_result_target_query_bytes_read", "{{table}}", "bytes", false},
	{"Queries of the target in five minutes", "tidemark_result_target_queries", "{{table}}", "short", false},
	{"Parts and merges of the target", `{__name__=~"tidemark_result_target_(parts|parts_in_partition|merges|mutations)"}`, "{{table}} {{__name__}}", "short", false},
}

func jobPanels(g *grid) {
	g.row("The job")
	for _, m := range metricPanels {
		src := object{"type": "prometheus", "uid": "${prometheus}"}
		q := object{"refId": "A", "datasource": src, "expr": m.query, "legendFormat": m.legend}
		p := object{"datasource": src, "targets": []any{q}, "fieldConfig": object{"defaults": object{"unit": m.unit}, "overrides": []any{}}}
		kind := "timeseries"
		if m.heat {
			kind, q["format"], p["fieldConfig"] = "heatmap", "heatmap", object{"defaults": object{}, "overrides": []any{}}
			// All that Grafana's schema requires of a heatmap.
			p["options"] = object{"calculate": false, "showValue": "never", "yAxis": object{"unit": m.unit, "axisPlacement": "left"},
				"color":  object{"mode": "scheme", "scheme": "Oranges", "steps": 64, "fill": "dark-orange", "exponent": 0.5, "reverse": false},
				"legend": object{"show": true}, "tooltip": object{"mode": "single", "yHistogram": true, "showColorScale": false}, "exemplars": object{"color": "rgba(255,0,255,0.7)"}}
		}
		g.add(6, 7, m.title, kind, p)
	}
}

// alert is a rule in Prometheus' form.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts are the rules, with what is to be done. LAG stands for the time that a result may take.
var alerts = []struct{ name, expr, after, severity, summary, remedy string }{
	{"TidemarkJobDown", "tidemark_job_running == 0", "2m", "critical", "Job {{ $labels.job_name }} does not run.", "GET /status has the last failure."},
	{"TidemarkCheckpointsStopped", "tidemark_checkpoint_age_seconds > 300", "1m", "critical", "The newest checkpoint of {{ $labels.job_name }} is {{ $value | humanizeDuration }} old: nothing becomes visible.",
		"Look at failures of checkpoints in GET /status."},
	{"TidemarkResultLate", "tidemark_result_lag_seconds > LAG", "5m", "warning", "Results of {{ $labels.table }} are {{ $value | humanizeDuration }} behind their windows.",
		"A split that holds the watermark, backpressure or the target: see the watermarks by split in GET /status."},
	{"TidemarkSplitIdle", "tidemark_result_splits_idle > 0", "15m", "warning", "{{ $value }} splits of {{ $labels.table }} are idle: windows close without them.", "Look for producers that are silent."},
	{"TidemarkIncomplete", "tidemark_result_seen < tidemark_result_expected", "15m", "warning", "Not all who must report for {{ $labels.table }} have.", "The board names who is missing."},
	{"TidemarkRowsLate", "increase(tidemark_result_late_rows[15m]) > 0", "0m", "warning", "{{ $value }} rows came too late for windows of {{ $labels.table }}: they need a backfill.",
		"tidemark backfill --needed; tidemark advise says which delay would keep them."},
	{"TidemarkRowsRejected", "increase(tidemark_result_rejected_rows[15m]) > 0", "0m", "warning", "{{ $value }} rows of {{ $labels.table }} could not be used.", "The dead-letter output has them with the reason."},
	{"TidemarkConflicts", "tidemark_result_conflicts > 0 or increase(tidemark_result_conflicting_rows[15m]) > 0", "0m", "critical",
		"Equal revisions with different content in {{ $labels.table }}.", "The view of conflicts names them; a producer repeats versions, or two jobs write one generation."},
	{"TidemarkTargetParts", "tidemark_result_target_parts_in_partition > 300", "10m", "warning", "Table {{ $labels.table }} has {{ $value }} parts in a partition: inserts will be slowed down.",
		"Longer checkpoint intervals, or larger partitions."},
	{"TidemarkTargetMutations", "tidemark_result_target_mutations_failing > 0", "5m", "warning", "Mutations of table {{ $labels.table }} fail.", "See system.mutations."},
	{"TidemarkTargetUnreachable", "tidemark_result_target_unreachable == 1", "5m", "warning", "The target of {{ $labels.table }} does not answer.", "Look at the target."},
}

// Alerts returns alert rules over the metrics of jobs, as YAML that Prometheus loads and Grafana imports.
// lagSeconds is how far a result may be behind its window.
func Alerts(lagSeconds int) ([]byte, error) {
	var rules []alert
	for _, a := range alerts {
		rules = append(rules, alert{a.name, strings.ReplaceAll(a.expr, "LAG", fmt.Sprint(lagSeconds)), a.after, map[string]string{"severity": a.severity},
			map[string]string{"summary": a.summary, "description": a.remedy}})
	}
	type group struct {
		Name  string  `yaml:"name"`
		Rules []alert `yaml:"rules"`
	}
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(map[string][]group{"groups": {{"tidemark", rules}}}); err != nil {
		return nil, err
	}
	return []byte(b.String()), e.Close()
}

// MetricNames lists the metrics that the dashboard and the alerts read.
func MetricNames() []string {
	name := regexp.MustCompile(`\btidemark_[a-z_]*[a-z]\b`)
	alternatives := regexp.MustCompile(`(tidemark_[a-z_]*)\(([a-z_|]+)\)`)
	var out []string
	add := func(expr string) {
		if m := alternatives.FindStringSubmatch(expr); m != nil {
			for _, x := range strings.Split(m[2], "|") {
				out = append(out, m[1]+x)
			}
			return
		}
		out = append(out, name.FindAllString(expr, -1)...)
	}
	for _, p := range metricPanels {
		add(p.query)
	}
	for _, a := range alerts {
		add(a.expr)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
