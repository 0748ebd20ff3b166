package csv_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"

	_ "github.com/tidemark-stream/tidemark/format/csv"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden_Decode(t *testing.T) { formattest.Golden(t, "csv", "testdata/decode.txt") }

func TestGolden_Encode(t *testing.T) { formattest.Golden(t, "csv", "testdata/encode.txt") }

func TestConformance(t *testing.T) {
	schemas := []string{"a BIGINT, b STRING, c TIMESTAMP(3)", "a INT, b STRING",
		"a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10, 3), " +
			"i DECIMAL(38, 10), k BYTES, l DATE, m TIME, n TIMESTAMP(3), o TIMESTAMP(9), " +
			"p TIMESTAMP_LTZ(3), q TIMESTAMP_LTZ(6), r ARRAY<INT>, s ROW<x INT, y BIGINT>"}
	for _, options := range []string{"null-literal=NULL",
		`null-literal=NULL; field-delimiter=\t; quote-character='`,
		`null-literal=NULL; escape-character=\`,
		"null-literal=NULL; field-delimiter=\u00a6; ignore-parse-errors=true"} {
		t.Run(options, func(t *testing.T) {
			formattest.Run(t, formattest.Suite{Format: "csv", Schemas: schemas, Options: options,
				Text: true, FlatNulls: true, Seed: 3})
		})
	}
}
