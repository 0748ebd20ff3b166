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
