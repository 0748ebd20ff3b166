// Package jsonrow moves rows between JSON text and columns, with the conversions of Flink's json
// format. The formats that carry such rows (json, debezium-json ...) are built on it.
//
// A Reader is compiled for the columns that are wanted and writes values straight from the bytes
// of a record into their vectors: nothing is allocated per record, members nobody wants are
// checked but not decoded, and strings stay where they are, in the chunk the source read. It
// learns what stands between two values (comma, name, colon, spaces) from the records it sees, and
// then compares instead of parsing.
//
// Readers and Writers belong to one goroutine.
package jsonrow

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// Options are the settings that reading and writing share.
type Options struct {
	// IgnoreErrors makes a value that cannot be converted NULL.
	IgnoreErrors bool
	// FailOnMissing refuses records that lack one of the wanted columns.
	FailOnMissing bool
	// ISO selects yyyy-MM-ddTHH:mm:ss instead of a space between date and time.
	ISO bool
	// Tree converts numbers to STRING by value (1.50 becomes 1.5) rather than by spelling, as
	// Flink does where it parses a record into a tree first.
	Tree bool

	// PlainDecimals writes DECIMAL without exponent, SkipNulls leaves out members that are NULL.
	PlainDecimals bool
	SkipNulls     bool
	// NullKeys says what becomes of a NULL key of a map, NullKey how it is spelled.
	NullKeys NullKeys
	NullKey  string
}

// NullKeys says what a Writer does about a NULL key of a map.
type NullKeys uint8

// The modes of map-null-key.mode.
const (
	FailNullKeys NullKeys = iota
	DropNullKeys
	SpellNullKeys
)

// Specs declares the options that all formats made of JSON rows have.
var Specs = []option.Spec{
	{Name: "ignore-parse-errors", Kind: option.Bool, Default: "false",
		Doc: "read NULL where a value cannot be converted, and skip records that are not JSON"},
	{Name: "timestamp-format.standard", Kind: option.Enum, Default: "SQL",
		Values: []string{"SQL", "ISO-8601"},
		Doc:    "how timestamps are spelled: 2024-01-02 03:04:05.678 or 2024-01-02T03:04:05.678"},
	{Name: "map-null-key.mode", Kind: option.Enum, Default: "FAIL",
		Values: []string{"FAIL", "DROP", "LITERAL"},
		Doc:    "what writing does with a NULL key of a map"},
	{Name: "map-null-key.literal", Kind: option.String, Default: "null",
		Doc: "the name written for a NULL key where map-null-key.mode is LITERAL"},
	{Name: "encode.decimal-as-plain-number", Kind: option.Bool, Default: "false",
		Doc: "write DECIMAL without exponent: 0.00000001 rather than 1E-8"},
	{Name: "encode.ignore-null-fields", Kind: option.Bool, Default: "false",
		Doc: "leave out columns that are NULL"},
}

// OptionsOf reads the settings of a format.
func OptionsOf(o option.Values) Options {
	opts := Options{
		IgnoreErrors:  o.Bool("ignore-parse-errors"),
		FailOnMissing: o.Bool("fail-on-missing-field"),
		ISO:           o.Enum("timestamp-format.standard") == "ISO-8601",
		Tree: o.Has("decode.json-parser.enabled") &&
			!o.Bool("decode.json-parser.enabled"),
		PlainDecimals: o.Bool("encode.decimal-as-plain-number"),
		SkipNulls:     o.Bool("encode.ignore-null-fields"),
		NullKey:       o.Get("map-null-key.literal"),
	}
	switch o.Enum("map-null-key.mode") {
	case "DROP":
		opts.NullKeys = DropNullKeys
	case "LITERAL":
		opts.NullKeys = SpellNullKeys
	}
	return opts
}

// Check refuses types that JSON cannot carry.
func Check(t types.Type) error {
	switch t.Kind {
	case types.Map, types.Multiset:
		key := t.Elem
		if t.Kind == types.Map {
			key = t.Key
		}
		if !key.IsString() {
			return fmt.Errorf("keys of %s in JSON must be strings; declare them as STRING", t)
		}
		if t.Kind == types.Map {
			return Check(*t.Elem)
		}
	case types.Array:
		return Check(*t.Elem)
	case types.Row:
		for _, f := range t.Fields {
			if err := Check(f.Type); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
	case types.Symbol, types.Descriptor:
		return fmt.Errorf("JSON has no form for %s", t)
	}
	return nil
}

// CheckSchema refuses columns that JSON cannot carry.
func CheckSchema(s types.Schema) error {
	for _, f := range s.Fields {
		if err := Check(f.Type); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return nil
}
