package debezium_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/debezium"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden(t *testing.T) { formattest.Golden(t, "debezium-json", "testdata/debezium.txt") }

func TestConformance(t *testing.T) {
	formattest.Run(t, formattest.Suite{Format: "debezium-json", Text: true, Seed: 2,
		Schemas: []string{"a BIGINT, b STRING, c TIMESTAMP(3)",
			"a DOUBLE, b ROW<c STRING, d ARRAY<ROW<e INT>>>, f MAP<STRING, STRING>, g BYTES"}})
}
