package window

import (
	"github.com/tidemark-stream/tidemark/exec/agg"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// partsOf says, for tools, what the accumulators of the aggregates of n are made of; in is the
// operator's input.
func partsOf(set *agg.Set, n *plan.WindowAgg, in types.Schema) map[string][]state.Part {
	if n.Phase == plan.GlobalPhase {
		in = agg.PhaseSchema(n.Aggs, n.ArgSchema)
	}
	return map[string][]state.Part{accumulators.Name: set.Parts(in)}
}

// keyParts says how keys are made that begin with the columns prefix: times, and the numbers of slices.
// columns is all of them; of values, those of the group come first and are a key of their own.
func keyParts(prefix []types.Field, group, columns int) []state.KeyPart {
	var out []state.KeyPart
	for _, f := range prefix {
		form := state.KeyTime
		if f.Type.Kind == types.Int {
			form = state.KeyU32
		}
		out = append(out, state.KeyPart{Columns: 1, Form: form})
	}
	out = append(out, state.KeyPart{Columns: group - len(prefix), Form: state.KeyTable})
	if columns > group {
		out = append(out, state.KeyPart{Columns: columns - group, Form: state.KeyTable})
	}
	return out
}
