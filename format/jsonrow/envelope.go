package jsonrow

import (
	"github.com/tidemark-stream/tidemark/types"
)

// Envelope finds members of an object that holds rows among other things, such as a change event.
type Envelope struct {
	// At[i] is where the value of the i-th name starts in the frame of the last Find, -1 if
	// there is none.
	At  []int
	obj object
}

// NewEnvelope returns an envelope for the given names.
func NewEnvelope(names ...string) *Envelope {
	e := &Envelope{At: make([]int, len(names))}
	fields := make([]field, len(names))
	for i, name := range names {
		fields[i] = field{Name: name, Type: types.NullType}
	}
	e.obj.init(fields)
	return e
}

// Find locates e's members in the object at i of r's frame and returns the object's end, or -1
// where it is not an object or not JSON. Of members that occur twice the last one counts.
func (r *Reader) Find(e *Envelope, i int) int {
	for k := range e.At {
		e.At[k] = -1
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
		if n := o.slots[cur].node; n != nil {
			e.At[n.index] = i
		}
		if i = r.pass(i); i < 0 {
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
