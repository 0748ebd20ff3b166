// Package sort holds the operators of ORDER BY and LIMIT.
package sort

import (
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// New builds the operator of n over rows of schema in.
func New(n *plan.Sort, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("ORDER BY is not supported yet")
}

// NewLimit builds the operator of n.
func NewLimit(n *plan.Limit) op.Operator {
	panic("BUG: not written yet")
}
