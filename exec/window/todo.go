package window

import (
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

func newEmitting(n *plan.WindowAgg, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("windows with table.exec.emit.* are not supported yet")
}
