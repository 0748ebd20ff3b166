package raw_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/json"
	_ "github.com/tidemark-stream/tidemark/format/raw"
)

func TestGolden(t *testing.T) { formattest.Golden(t, "raw", "testdata/raw.txt") }
