package plan_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// orders is the table that the plans of these tests read.
func orders() *connector.Table {
	return &connector.Table{Name: "orders", Connector: "kafka",
		Options: map[string]string{"topic": "orders", "format": "json", "properties.bootstrap.servers": "a:1"},
		Columns: []types.Field{{Name: "id", Type: types.StringType}, {Name: "price", Type: types.DoubleType},
			{Name: "amount", Type: types.DoubleType}, {Name: "at", Type: types.TimestampType(3)}}}
}

func col(i int, name string, t types.Type) *expr.Column {
	return &expr.Column{Index: i, Name: name, T: t}
}

func call(fn string, t types.Type, args ...expr.Expr) *expr.Call {
	return &expr.Call{Fn: fn, Args: args, T: t}
}

func lit(v any, t types.Type) *expr.Literal { return &expr.Literal{Value: v, T: t} }

// query is a plan in the making: source, calc, aggregation, sink.
type query struct {
	table   *connector.Table
	columns []int // read, of the table
	filter  expr.Expr
	project []expr.Expr // over columns
	agg     plan.GroupAgg
	phases  int
	par     int
}

// byID is SELECT id, COUNT(*), SUM(price) FROM orders WHERE price > 1 GROUP BY id.
func byID() query {
	d := types.DoubleType
	return query{table: orders(), columns: []int{0, 1}, phases: 1,
		filter:  call(">", types.BooleanType, col(1, "price", d), lit(1.0, d)),
		project: []expr.Expr{col(0, "id", types.StringType), col(1, "price", d)},
		agg: plan.GroupAgg{Keys: []int{0}, Aggs: []plan.AggCall{{Fn: "COUNT", Filter: -1, T: types.BigIntType.NotNull(), Name: "n"},
			{Fn: "SUM", Args: []int{1}, ArgTypes: []types.Type{d}, Filter: -1, T: d, Name: "total"}}}}
}

func (q query) plan() *plan.Plan {
	p := &plan.Plan{}
	add := func(op plan.Op, s types.Schema, in ...int) int {
		n := &plan.Node{ID: len(p.Nodes), Op: op, Schema: s, RowTime: -1, Parallelism: q.par}
		for _, i := range in {
			n.Inputs = append(n.Inputs, plan.Edge{From: i})
		}
		p.Nodes = append(p.Nodes, n)
		return n.ID
	}
	src := &plan.Source{Table: q.table, Columns: q.columns, RowTime: -1, Limit: -1}
	var read, out types.Schema
	for i, c := range q.columns {
		f := q.table.Columns[c]
		read.Fields = append(read.Fields, f)
		src.Project = append(src.Project, col(i, f.Name, f.Type))
	}
	for _, e := range q.project {
		out.Fields = append(out.Fields, types.Field{Name: e.String(), Type: e.Type()})
	}
	at := add(src, read)
	at = add(&plan.Calc{Filter: q.filter, Project: q.project}, out, at)
	agg := q.agg
	agg.ArgSchema = out
	var result types.Schema
	for _, k := range agg.Keys {
		result.Fields = append(result.Fields, out.Fields[k])
	}
	for _, a := range agg.Aggs {
		result.Fields = append(result.Fields, types.Field{Name: a.Name, Type: a.T})
	}
	if q.phases == 2 {
		local := agg
		local.Phase, local.TTLMs = plan.LocalPhase, 0
		at = add(&local, types.NewSchema(out.Fields[0], types.Field{Name: "$acc", Type: types.BytesType}), at)
		agg.Phase, agg.Keys = plan.GlobalPhase, []int{0}
	}
	at = add(&agg, result, at)
	add(&plan.Sink{Table: &connector.Table{Name: "out", Connector: "filesystem", Options: map[string]string{"path": "out/"}}}, result, at)
	return p
}

// prints returns the fingerprints of the aggregation and of the sink.
func (q query) prints() (agg, sink plan.Fingerprint) {
	fps := plan.Fingerprints(q.plan())
	agg, sink = fps[len(fps)-2], fps[len(fps)-1]
	agg.Node, sink.Node = nil, nil // the test is of the rest
	return agg, sink
}

func TestFingerprintsThatStay(t *testing.T) {
	agg, sink := byID().prints()
	for name, change := range map[string]func(q *query){
		"names": func(q *query) {
			q.agg.Aggs[0].Name = "other"
			q.project[0].(*expr.Column).Name = "other"
			q.table.Name, q.table.Comment = "other", "words"
		},
		"parallelism": func(q *query) { q.par = 7 },
		"two phases":  func(q *query) { q.phases = 2 },
		"ttl":         func(q *query) { q.agg.TTLMs = 1000 },
		"updates":     func(q *query) { q.agg.UpdateBefore = true },
		"brokers":     func(q *query) { q.table.Options["properties.bootstrap.servers"] = "b:2" },
		"more columns read": func(q *query) { // by another query that shares the scan
			q.columns = []int{0, 1, 2, 3}
		},
		"more columns in the table": func(q *query) {
			q.table.Columns = append([]types.Field{{Name: "new", Type: types.IntType}}, q.table.Columns...)
			q.columns = []int{1, 2}
		},
		"more columns between": func(q *query) {
			q.project = append([]expr.Expr{lit(int64(1), types.BigIntType)}, q.project...)
			q.agg.Keys = []int{1}
			q.agg.Aggs[1].Args = []int{2}
		},
		"filter spelt otherwise": func(q *query) {
			q.filter = call("<", types.BooleanType, lit(1.0, types.DoubleType), col(1, "p", types.DoubleType))
		},
		"key that may be NULL": func(q *query) {
			q.table.Columns[0].Type = types.StringType.NotNull()
			q.project[0] = col(0, "id", types.StringType.NotNull())
		},
	} {
		q := byID()
		change(&q)
		a, s := q.prints()
		if a != agg {
			t.Errorf("%s: the aggregation is another:\n%+v\n%+v", name, a, agg)
		}
		if s != sink {
			t.Errorf("%s: the sink is another:\n%+v\n%+v", name, s, sink)
		}
	}
}

func TestFingerprintsThatChange(t *testing.T) {
	agg, _ := byID().prints()
	d := types.DoubleType
	for name, c := range map[string]struct {
		change           func(q *query)
		same, sameOrigin bool // Computes, and the first part of Lineage
	}{
		"filter":  {func(q *query) { q.filter = call(">", types.BooleanType, col(1, "price", d), lit(2.0, d)) }, true, true},
		"no more": {func(q *query) { q.filter = nil }, true, true},
		"another column": {func(q *query) {
			q.columns = []int{0, 2}
		}, true, false},
		"an expression": {func(q *query) {
			q.project[1] = call("*", d, col(1, "price", d), lit(2.0, d))
		}, true, false},
		"another topic":     {func(q *query) { q.table.Options["topic"] = "returns" }, true, false},
		"another format":    {func(q *query) { q.table.Options["format"] = "debezium-json" }, true, true},
		"fewer aggregates":  {func(q *query) { q.agg.Aggs = q.agg.Aggs[:1] }, false, false},
		"other order":       {func(q *query) { slices.Reverse(q.agg.Aggs) }, false, false},
		"another aggregate": {func(q *query) { q.agg.Aggs[1].Fn = "MAX" }, false, false},
		"distinct":          {func(q *query) { q.agg.Aggs[1].Distinct = true }, false, false},
		"another type": {func(q *query) {
			q.table.Columns[0].Type, q.project[0] = types.BigIntType, col(0, "id", types.BigIntType)
		}, false, false},
		"changes come": {func(q *query) { q.agg.InputRetracts = true }, false, true},
		"argument that is never NULL": {func(q *query) { // accumulators need not count then
			q.project[1] = col(1, "price", d.NotNull())
		}, false, true},
	} {
		q := byID()
		c.change(&q)
		a, _ := q.prints()
		if a.Fed == agg.Fed {
			t.Errorf("%s: is fed by the same", name)
		}
		if (a.Computes == agg.Computes) != c.same {
			t.Errorf("%s: computes the same: %t\n%s\n%s", name, !c.same, a.Describe, agg.Describe)
		}
		was, _ := plan.Lineage(agg.Fed)
		if is, sources := plan.Lineage(a.Fed); (is == was) != c.sameOrigin || len(sources) != 1 {
			t.Errorf("%s: columns of the same origin: %t, sources %v", name, !c.sameOrigin, sources)
		}
	}
}

func TestLocalPhases(t *testing.T) {
	q := byID()
	q.phases = 2
	fps := plan.Fingerprints(q.plan())
	for i, fp := range fps {
		if plan.Local(fp.Computes) != (i == 2) {
			t.Errorf("node %d: %s", i, fp.Computes)
		}
	}
}

// TestFingerprintsOfFormats holds that records without names are told apart by the place of a
// column, others by its name.
func TestFingerprintsOfFormats(t *testing.T) {
	for format, byPlace := range map[string]bool{"json": false, "csv": true} {
		q := byID()
		q.table.Options["format"] = format
		a, _ := q.prints()
		q = byID()
		q.table.Options["format"] = format
		q.table.Columns[1].Name = "cost"
		renamed, _ := q.prints()
		if (a.Fed == renamed.Fed) != byPlace || a.Computes != renamed.Computes {
			t.Errorf("%s: a renamed column: same: %t", format, a.Fed == renamed.Fed)
		}
	}
}

// TestFingerprintsLast holds the values of fingerprints, which old checkpoints contain.
func TestFingerprintsLast(t *testing.T) {
	var got []string
	for _, fp := range plan.Fingerprints(byID().plan()) {
		got = append(got, fp.Computes+" "+fp.Fed+" "+fp.Describe)
	}
	want := `9d75701a9bbed101 012153e6095a8367.9feccaeda9d031f0.108680b72f138699 Source(kafka topic=orders)
733ea047203bc793 a422107fde5302b4.c7fc3111328bd302.108680b72f138699 Calc(where <(1 DOUBLE, #1 DOUBLE) BOOLEAN; #0 STRING, #1 DOUBLE)
e7917a3fd7da71d1 5c5de20eb5443f59.c378d92e128a400b.108680b72f138699 GroupAgg(by #0 STRING; aggregates COUNT(*) BIGINT NOT NULL, SUM(#1 DOUBLE) DOUBLE)
18b311b1c0b21da2 c8c533778b61fa81.7fce53546df29ba3.108680b72f138699 Sink(filesystem path=out)`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("changed: checkpoints of older versions no longer fit:\n%s", s)
	}
}

// TestFingerprintsOfAllOperators finds operators that were added to plans and have no fingerprint.
func TestFingerprintsOfAllOperators(t *testing.T) {
	declared, err := os.ReadFile("plan.go")
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile("fingerprint.go")
	if err != nil {
		t.Fatal(err)
	}
	ops := regexp.MustCompile(`func \((\*\w+)\) +op\(\)`).FindAllStringSubmatch(string(declared), -1)
	if len(ops) < 10 {
		t.Fatalf("found %d operators", len(ops))
	}
	for _, op := range ops {
		if !strings.Contains(string(known), "case "+op[1]+":") {
			t.Errorf("no fingerprint of %s: checkpoints of plans with it would not start", op[1])
		}
	}
}
