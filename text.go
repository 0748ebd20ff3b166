package tidemark

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// text prints a value as a person would read it.
func text(v types.Value, t types.Type) string {
	switch x := v.(type) {
	case string:
		return x
	case []byte:
		return string(x)
	case float64:
		return string(types.AppendDouble(nil, x))
	case []types.Value:
		return list(x, t)
	case types.Int128:
		if t.IsTimestamp() {
			return string(types.AppendTimestamp(nil, x.Hi, int32(x.Lo), t.Precision))
		}
	case nil:
		return "NULL"
	}
	s := expr.FormatLiteral(v, t)
	if _, q, ok := strings.Cut(s, "'"); ok { // TIMESTAMP '...'
		q, _, _ = strings.Cut(q, "'")
		return q
	}
	return s
}

func list(xs []types.Value, t types.Type) string {
	var parts []string
	switch t.Kind {
	case types.Row:
		for i, x := range xs {
			parts = append(parts, text(x, t.Fields[i].Type))
		}
		return "(" + strings.Join(parts, ", ") + ")"
	case types.Map, types.Multiset:
		key, value := t.Key, t.Elem
		if t.Kind == types.Multiset {
			key, value = t.Elem, &types.Type{Kind: types.Int}
		}
		for i := 0; i+1 < len(xs); i += 2 {
			parts = append(parts, fmt.Sprintf("%s=%s", text(xs[i], *key), text(xs[i+1], *value)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	for _, x := range xs {
		parts = append(parts, text(x, *t.Elem))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
