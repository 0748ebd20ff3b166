// Package changelog holds the operators that change the form of a changelog.
package changelog

import (
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// NewNormalize builds the operator that turns an upsert stream into a full changelog.
func NewNormalize(n *plan.Normalize, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("normalizing an upsert stream is not supported yet")
}

// NewMaterialize builds the operator that repairs the order of updates before a sink.
func NewMaterialize(n *plan.Materialize, in, out types.Schema) (op.Operator, error) {
	return nil, errors.New("materializing before a sink is not supported yet")
}

// NewDropUpdateBefore builds the operator that removes -U rows.
func NewDropUpdateBefore() op.Operator {
	panic("BUG: not written yet")
}
