package json_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"
	_ "github.com/tidemark-stream/tidemark/format/json"
)

func TestGolden_Decode(t *testing.T) { formattest.Golden(t, "json", "testdata/decode.txt") }

func TestGolden_Encode(t *testing.T) { formattest.Golden(t, "json", "testdata/encode.txt") }

// everyType has a column of each type that JSON can carry.
const everyType = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, " +
	"h DECIMAL(10, 3), i DECIMAL(38, 10), j STRING, k BYTES, l DATE, m TIME, n TIMESTAMP(3), " +
	"o TIMESTAMP(9), p TIMESTAMP_LTZ(3), q TIMESTAMP_LTZ(6), r ARRAY<STRING>, " +
	"s MAP<STRING, DOUBLE>, t MULTISET<STRING>, u ROW<x INT, y STRING, z ARRAY<ROW<v BIGINT>>>, " +
	"w ARRAY<ARRAY<INT>>, x MAP<STRING, ROW<a STRING, b TIMESTAMP(3)>>, " +
	"y INTERVAL DAY TO SECOND(3), z INTERVAL YEAR TO MONTH"

func TestConformance(t *testing.T) {
	formattest.Run(t, formattest.Suite{Format: "json", Text: true, Seed: 5, Schemas: []string{
		"a BIGINT, b STRING, c TIMESTAMP(3)", "a STRING, b ROW<c STRING, d ROW<e INT>>"}})
	for _, options := range []string{"", "timestamp-format.standard=ISO-8601",
		"encode.ignore-null-fields=true; encode.decimal-as-plain-number=true",
		"ignore-parse-errors=true"} {
		t.Run(options, func(t *testing.T) {
			formattest.Run(t, formattest.Suite{Format: "json", Schemas: []string{everyType},
				Options: options,
				Text:    true, Seed: 1})
		})
	}
}
