package raw_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/json"
	_ "github.com/tidemark-stream/tidemark/format/raw"
)

func TestGolden(t *testing.T) { formattest.Golden(t, "raw", "testdata/raw.txt") }

func TestConformance(t *testing.T) {
	formattest.Run(t, formattest.Suite{Format: "raw", Seed: 4, Schemas: []string{"a STRING",
		"a BYTES", "a BOOLEAN", "a TINYINT", "a SMALLINT", "a INT", "a BIGINT", "a FLOAT", "a DOUBLE"}})
	formattest.Run(t, formattest.Suite{Format: "raw", Seed: 4, Schemas: []string{"a STRING", "a INT"},
		Options: "charset=UTF-16LE; endianness=little-endian"})
}
