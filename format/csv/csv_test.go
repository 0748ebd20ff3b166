package csv_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/csv"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden_Decode(t *testing.T) { formattest.Golden(t, "csv", "testdata/decode.txt") }

func TestGolden_Encode(t *testing.T) { formattest.Golden(t, "csv", "testdata/encode.txt") }
