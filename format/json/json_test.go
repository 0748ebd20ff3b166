package json_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden_Decode(t *testing.T) { formattest.Golden(t, "json", "testdata/decode.txt") }

func TestGolden_Encode(t *testing.T) { formattest.Golden(t, "json", "testdata/encode.txt") }
