package jsonrow

import (
	"github.com/tidemark-stream/tidemark/types"
)

// Envelope finds members of an object that holds rows among other things, such as a change event.
type Envelope struct {
	// At[i] is where the value of the i-th name starts in the frame of the last Find, -1 if
	// there is none.
	At []int
	// Rows[i] is the row that the object of the i-th name was read into by FindRows, or -1.
	Rows []int
	obj  object
}

// NewEnvelope returns an envelope for the given names.
func NewEnvelope(names ...string) *Envelope {
	e := &Envelope{At: make([]int, len(names)), Rows: make([]int, len(names))}
	fields := make([]field, len(names))
	for i, name := range names {
		fields[i] = field{Name: name, Type: types.NullType}
	}
	e.obj.init(fields)
	return e
}

// Find locates e's members in the object at i of r's frame and returns the object's end, or -1
// where it is not an object or not JSON. Of members that occur twice the last one counts.
func (r *Reader) Find(e *Envelope, i int) int { return r.find(e, i, 0, 0) }

// FindRows is Find, but reads the members of the first n names that are objects as rows on its
// way: the first to come into row, the next into the one after it. It returns -1 also where one of
// them does not fit the columns, or occurs twice.
func (r *Reader) FindRows(e *Envelope, i, n, row int) int { return r.find(e, i, n, row) }

func (r *Reader) find(e *Envelope, i, n, row int) int {
	for k := range e.At {
		e.At[k], e.Rows[k] = -1, -1
	}
	if i = r.ws(i); i < 0 {
		return -1
	}
	o := &e.obj
	cur := int32(slotHead)
	for {
		if g := o.slots[cur].expect(r.data, i); g != nil {
			i, cur = i+g.n, g.next
		} else if i, cur = r.member(o, cur, i); i < 0 {
			return -1
		}
		if cur == slotEnd {
			return i
		}
		if i = r.start(i); i < 0 {
			return -1
		}
		k := -1
		if f := o.slots[cur].node; f != nil {
			k = f.index
			if e.At[k] >= 0 && k < n {
				return -1
			}
			e.At[k] = i
		}
		if k >= 0 && k < n && i < len(r.data) && r.data[i] == '{' {
			e.Rows[k] = row
			i = r.object(&r.root, row, i)
			row++
		} else {
			i = r.pass(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// IsNull reports whether the value at i of the frame, which Find located, is null or missing.
func (r *Reader) IsNull(i int) bool { return i < 0 || r.data[i] == 'n' }

// Text returns the string at i of the frame, which Find located, valid until the next call; nil
// if it is not a string.
func (r *Reader) Text(i int) []byte {
	if i < 0 || r.data[i] != '"' {
		return nil
	}
	end, esc := r.str(i + 1)
	if !esc {
		return r.data[i+1 : end]
	}
	r.text = unescape(r.text[:0], r.data[i+1:end])
	return r.text
}

// Row reads the object at i of the frame, which Find located, into row; false where its values do
// not fit the columns.
func (r *Reader) Row(i, row int) bool {
	if r.data[i] != '{' {
		r.fail(i, "an object was expected")
		return false
	}
	return r.At(i, row) >= 0
}
