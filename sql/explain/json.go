package explain

import (
	"encoding/json"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
)

// jsonPlan is Flink's JSON_EXECUTION_PLAN, with what Tidemark knows besides.
type jsonPlan struct {
	Nodes []jsonNode `json:"nodes"`
}

type jsonNode struct {
	ID           int               `json:"id"`
	Type         string            `json:"type"`
	Pact         string            `json:"pact"`
	Contents     string            `json:"contents"`
	Parallelism  int               `json:"parallelism,omitempty"` // absent: the job's default
	Changelog    string            `json:"changelog"`
	Columns      []jsonColumn      `json:"columns"`
	Details      map[string]string `json:"details,omitempty"`
	Predecessors []jsonEdge        `json:"predecessors,omitempty"`
}

type jsonColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type jsonEdge struct {
	ID           int      `json:"id"`
	ShipStrategy string   `json:"ship_strategy"`
	Keys         []string `json:"keys,omitempty"`
	Ordered      bool     `json:"ordered,omitempty"`
	Late         bool     `json:"late,omitempty"` // the rows too late for the predecessor
}

// JSON prints a plan in the form of EXPLAIN JSON_EXECUTION_PLAN.
func JSON(p *plan.Plan) string {
	out := jsonPlan{Nodes: []jsonNode{}}
	for _, n := range p.Nodes {
		j := jsonNode{ID: n.ID, Type: n.Label, Pact: pact(n.Op), Parallelism: n.Parallelism,
			Changelog: n.Mode.String(), Columns: []jsonColumn{}, Details: map[string]string{}}
		for _, f := range n.Schema.Fields {
			j.Columns = append(j.Columns, jsonColumn{f.Name, f.Type.String()})
		}
		var contents []string
		for _, d := range details(p, n) {
			if old := j.Details[d.name]; old != "" {
				d.text = old + "; " + d.text
			}
			j.Details[d.name] = d.text
			contents = append(contents, d.name+"=["+d.text+"]")
		}
		j.Contents = n.Label + "(" + strings.Join(contents, ", ") + ")"
		for _, e := range n.Inputs {
			var keys []string
			for _, k := range e.Keys {
				keys = append(keys, p.Nodes[e.From].Schema.Fields[k].Name)
			}
			j.Predecessors = append(j.Predecessors, jsonEdge{e.From, strings.ToUpper(e.Dist.String()), keys, e.Ordered, e.Late})
		}
		out.Nodes = append(out.Nodes, j)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		panic("BUG: a plan of strings and numbers cannot be encoded: " + err.Error())
	}
	return b.String()
}

// pact is Flink's word for the kind of a node.
func pact(op plan.Op) string {
	switch op.(type) {
	case *plan.Source, *plan.Values:
		return "Data Source"
	case *plan.Sink:
		return "Data Sink"
	}
	return "Operator"
}
