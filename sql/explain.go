package sql

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/explain"
	"github.com/tidemark-stream/tidemark/types"
)

// explain answers with the plan of a statement as text. ESTIMATED_COST, CHANGELOG_MODE and
// PLAN_ADVICE change nothing: the text tells what they ask for anyway.
func (s *Session) explain(st *ast.Explain) (*Result, error) {
	r, err := s.job(st.Statement)
	if err != nil {
		return nil, err
	}
	text, err := explain.Text(r.Job, r.Plan, s.cfg)
	if err != nil {
		return nil, err
	}
	for _, d := range st.Details {
		if d == "JSON_EXECUTION_PLAN" {
			text += "\n== JSON Execution Plan ==\n" + explain.JSON(r.Plan)
		}
	}
	return &Result{Schema: stringColumns("result"), Rows: [][]types.Value{{text}}}, nil
}
