package jsonrow

import (
	"github.com/tidemark-stream/tidemark/format/strcol"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

type field = types.Field

// kind says which conversion a node needs; those before kindOther have a fast path.
type kind uint8

const (
	kindInt64     kind = iota // BIGINT
	kindInt32                 // INT
	kindString                // CHAR, VARCHAR
	kindTime64                // timestamps up to ms
	kindTime128               // timestamps beyond ms
	kindFloat64               // DOUBLE
	kindDecimal64             // DECIMAL up to 18 digits
	kindRow                   // ROW
	kindOther
)

// node is a value of the schema: a column, a field of a ROW, an element, a key.
type node struct {
	name  string
	typ   types.Type
	kind  kind
	index int // among the fields of its object
	v     *vec.Vec

	scale int   // DECIMAL
	limit int64 // DECIMAL: the smallest number that does not fit
	zone  bool  // a timestamp ends with Z

	obj  *object // ROW
	key  *node   // MAP, MULTISET
	elem *node   // ARRAY, MAP, MULTISET
	used int     // lists: elements in use; the vectors below may have room for more

	str strcol.Column // strings and binary values
}

func newNode(f field) *node {
	n := &node{name: f.Name, typ: f.Type, kind: kindOther}
	switch f.Type.Kind {
	case types.BigInt, types.IntervalDayTime:
		n.kind = kindInt64
	case types.Int, types.IntervalYearMonth:
		n.kind = kindInt32
	case types.Char, types.VarChar:
		n.kind = kindString
	case types.Binary, types.VarBinary:
		n.str.AlwaysCopy()
	case types.Double:
		n.kind = kindFloat64
	case types.Decimal:
		n.scale = f.Type.Scale
		if f.Type.Phys() == types.PI64 {
			n.kind = kindDecimal64
			n.limit = types.Pow10Int64(f.Type.Precision)
		}
	case types.Timestamp, types.TimestampLTZ:
		n.zone = f.Type.Kind == types.TimestampLTZ
		n.kind = kindTime128
		if f.Type.Phys() == types.PI64 {
			n.kind = kindTime64
		}
	case types.Row:
		n.kind = kindRow
		n.obj = &object{}
		n.obj.init(f.Type.Fields)
	case types.Array:
		n.elem = newNode(field{Name: f.Name, Type: *f.Type.Elem})
	case types.Map:
		n.key = newNode(field{Name: f.Name, Type: *f.Type.Key})
		n.elem = newNode(field{Name: f.Name, Type: *f.Type.Elem})
	case types.Multiset:
		n.key = newNode(field{Name: f.Name, Type: *f.Type.Elem})
		n.elem = newNode(field{Name: f.Name, Type: types.IntType})
	}
	return n
}

// bind directs n at v, in which at values are in use, for values that come from data.
func (n *node) bind(v *vec.Vec, data []byte, at int) {
	n.v = v
	switch {
	case n.obj != nil:
		for i, f := range n.obj.nodes {
			f.bind(v.Kids[i], data, at)
		}
	case n.elem != nil:
		n.used = v.Kids[0].Len()
		for i, f := range n.kids() {
			f.bind(v.Kids[i], data, n.used)
		}
	case v.Phys == types.PBytes:
		n.str.Bind(v, data, at)
	}
}

// kids are the nodes of a list's child vectors, in their order.
func (n *node) kids() []*node {
	if n.key != nil {
		return []*node{n.key, n.elem}
	}
	return []*node{n.elem}
}

// unbind cuts the elements of lists to those in use and remembers who owns which buffer.
func (n *node) unbind() {
	switch {
	case n.obj != nil:
		for _, f := range n.obj.nodes {
			f.unbind()
		}
	case n.elem != nil:
		if n.key != nil {
			n.v.Kids[0].Resize(n.used)
			n.v.Kids[1].Resize(n.used)
			n.key.unbind()
		} else {
			n.v.Kids[0].Resize(n.used)
		}
		n.elem.unbind()
	case n.v.Phys == types.PBytes:
		n.str.Unbind()
	}
}

// null makes position row NULL, in the fields of a ROW too.
func (n *node) null(row int) {
	n.v.SetNull(row)
	if n.obj != nil {
		for _, f := range n.obj.nodes {
			f.null(row)
		}
	}
}

// valid takes null back.
func (n *node) valid(row int) {
	n.v.SetValid(row)
	if n.obj != nil {
		for _, f := range n.obj.nodes {
			f.valid(row)
		}
	}
}

// grow makes room for one more element of a list and returns its position.
func (n *node) grow() int {
	at := n.used
	if at == n.v.Kids[0].Len() {
		for _, kid := range n.v.Kids {
			kid.Resize(max(16, 2*at))
		}
	}
	n.used++
	return at
}
