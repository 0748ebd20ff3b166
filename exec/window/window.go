// Package window holds the operators of windows: window functions and window aggregations.
package window

import (
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// NewAgg builds the window aggregation n over rows of schema in, which emits rows of schema out.
func NewAgg(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("window aggregation is not supported yet")
}

// NewTVF builds the window function n over rows of schema in, which emits rows of schema out.
func NewTVF(n *plan.WindowTVF, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("window function is not supported yet")
}
