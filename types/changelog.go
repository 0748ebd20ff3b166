package types

// RowKind says what a row does to the table that a changelog describes.
type RowKind uint8

// The row kinds, in Flink's order.
const (
	Insert       RowKind = iota // +I
	UpdateBefore                // -U
	UpdateAfter                 // +U
	Delete                      // -D
)

var rowKindNames = [...]string{"+I", "-U", "+U", "-D"}

// String gives the short form, for example +I.
func (k RowKind) String() string { return rowKindNames[k] }

// Retracts reports whether the row takes an earlier one back (-U or -D).
func (k RowKind) Retracts() bool { return k == UpdateBefore || k == Delete }

// ChangelogMode is the set of row kinds that an edge of a plan may carry.
type ChangelogMode uint8

// The modes in use: append-only, updates with both images, and updates by key without -U.
const (
	InsertOnly ChangelogMode = 1 << Insert
	Retract    ChangelogMode = 1<<Insert | 1<<UpdateBefore | 1<<UpdateAfter | 1<<Delete
	Upsert     ChangelogMode = 1<<Insert | 1<<UpdateAfter | 1<<Delete
)

// Has reports whether rows of kind k may occur.
func (m ChangelogMode) Has(k RowKind) bool { return m&(1<<k) != 0 }

// IsInsertOnly reports an append-only edge.
func (m ChangelogMode) IsInsertOnly() bool { return m == InsertOnly }

// String prints the mode as Flink's EXPLAIN CHANGELOG_MODE does, for example [I,UB,UA,D].
func (m ChangelogMode) String() string {
	s := "["
	for i, n := range [...]string{"I", "UB", "UA", "D"} {
		if m&(1<<i) == 0 {
			continue
		}
		if len(s) > 1 {
			s += ","
		}
		s += n
	}
	return s + "]"
}

// Schema is the columns of a table or of an edge of a plan, in order.
type Schema struct {
	Fields []Field
}

// NewSchema builds a schema of fields.
func NewSchema(fields ...Field) Schema { return Schema{Fields: fields} }

// Len is the number of columns.
func (s Schema) Len() int { return len(s.Fields) }

// Index returns the position of the column called name, or -1. Names are case sensitive.
func (s Schema) Index(name string) int {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Names returns the column names in order.
func (s Schema) Names() []string {
	out := make([]string, len(s.Fields))
	for i := range s.Fields {
		out[i] = s.Fields[i].Name
	}
	return out
}

// String prints (name TYPE, ...).
func (s Schema) String() string {
	out := "("
	for i, f := range s.Fields {
		if i > 0 {
			out += ", "
		}
		out += f.Name + " " + f.Type.String()
	}
	return out + ")"
}
