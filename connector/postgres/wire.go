package postgres

import "github.com/tidemark-stream/tidemark/types"

// wire is a binary form in which values go to the server. Rows are encoded once, when they are
// written: as tuples of COPY's binary format, which segments hold too.
type wire uint8

const (
	wBool wire = iota + 1
	wInt2
	wInt4
	wInt8
	wFloat4
	wFloat8
	wNumeric
	wText
	wBytea
	wDate
	wTime
	wTimestamp
	wTimestampTZ
	wInterval
)

// wires says for each form the type's name, its oid and that of its array, and the bytes of a value,
// 0 if they vary. The numbers are part of PostgreSQL's protocol.
var wires = [...]struct {
	name       string
	oid, array uint32
	size       int
}{
	wBool:        {"bool", 16, 1000, 1},
	wInt2:        {"int2", 21, 1005, 2},
	wInt4:        {"int4", 23, 1007, 4},
	wInt8:        {"int8", 20, 1016, 8},
	wFloat4:      {"float4", 700, 1021, 4},
	wFloat8:      {"float8", 701, 1022, 8},
	wNumeric:     {"numeric", 1700, 1231, 0},
	wText:        {"text", 25, 1009, 0},
	wBytea:       {"bytea", 17, 1001, 0},
	wDate:        {"date", 1082, 1182, 4},
	wTime:        {"time", 1083, 1183, 8},
	wTimestamp:   {"timestamp", 1114, 1115, 8},
	wTimestampTZ: {"timestamptz", 1184, 1185, 8},
	wInterval:    {"interval", 1186, 1187, 16},
}

func (w wire) known() bool { return w >= wBool && w <= wInterval }

func (w wire) String() string {
	if !w.known() {
		return "unknown"
	}
	return wires[w].name
}

// column is a column of the target as rows are written to it. Segments hold it, so that they can be
// committed when the sink has other columns.
type column struct {
	name string // in the database
	wire wire
	// cast is the type that SQL makes of the wire's value where it does not do so by itself: uuid,
	// integer[]. "" is none.
	cast string
	// copies says that COPY takes the wire's form for this column.
	copies bool
}

// shape is what the tuples of a run of rows look like.
type shape struct {
	cols []column
	keys []int // columns of the primary key; none: rows are only added
}

func (s *shape) upserts() bool { return len(s.keys) > 0 }

// copies says that rows can go in by COPY.
func (s *shape) copies() bool {
	if s.upserts() {
		return false
	}
	for _, c := range s.cols {
		if !c.copies {
			return false
		}
	}
	return true
}

// integers gives the wire of an integer type.
func integers(k types.Kind) wire {
	switch k {
	case types.TinyInt, types.SmallInt:
		return wInt2
	case types.Int:
		return wInt4
	}
	return wInt8
}
