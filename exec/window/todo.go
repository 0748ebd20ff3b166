package window

import (
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

func newSession(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("session windows are not supported yet")
}
func newEmitting(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("windows with table.exec.emit.* are not supported yet")
}
func newLocal(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("local window aggregation is not supported yet")
}

// NewTVF builds the window function n over rows of schema in, which emits rows of schema out.
func NewTVF(n *plan.WindowTVF, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("window function is not supported yet")
}
