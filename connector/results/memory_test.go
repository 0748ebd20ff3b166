package results_test

import (
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/connector/results/resultstest"
	"github.com/tidemark-stream/tidemark/types"
)

// TestMemory runs the suite over the store without a database.
func TestMemory(t *testing.T) {
	resultstest.Run(t, func(t testing.TB) resultstest.Target {
		table := resultstest.Table("board", "memory", nil)
		m, err := results.NewMemory(table)
		if err != nil {
			t.Fatal(err)
		}
		return resultstest.Target{Store: m, Conflicts: true, Write: func(_ testing.TB, rows [][]types.Value, p *connector.Progress) {
			for _, r := range rows {
				m.Add(shown(table, r))
			}
			m.AddProgress(*p)
		}}
	})
}

// shown turns values into those of results.Rows.
func shown(t *connector.Table, row []types.Value) []any {
	out := make([]any, len(row))
	for i, v := range row {
		switch f := t.Columns[i]; {
		case v == nil:
		case f.Type.IsTimestamp():
			out[i] = time.UnixMilli(v.(int64)).UTC()
		case f.Type.Kind == types.Decimal:
			out[i] = types.I128(v.(int64)).DecimalString(f.Type.Scale)
		default:
			out[i] = v
		}
	}
	return out
}
