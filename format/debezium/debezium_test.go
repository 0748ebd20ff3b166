package debezium_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/debezium"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden(t *testing.T) { formattest.Golden(t, "debezium-json", "testdata/debezium.txt") }
