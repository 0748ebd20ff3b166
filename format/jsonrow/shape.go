package jsonrow

import (
	"bytes"
)

// The special slots of an object.
const (
	slotHead  = 0  // before the first member
	slotOther = 1  // members with names beyond maxNames
	slotEnd   = -1 // behind the last member
)

// maxNames bounds how many names of unwanted members an object remembers.
const maxNames = 256

// object is what a Reader knows about one object of the schema: the record itself or a ROW.
type object struct {
	nodes []*node
	slots []slot
	names map[string]int32
	// seen has a bit for each node that the record at hand has set; all is every node.
	seen, all []uint64
}

// slot is a member name met in an object, wanted (node not nil) or not, with the two gaps seen
// last between its value and the one that followed.
type slot struct {
	node          *node
	first, second gap
}

// gap is the text between two values and the slot of the second one.
type gap struct {
	// lo and hi are its first sixteen bytes, maskLo and maskHi all ones where it has a byte.
	// A gap that is not set yet has bits in lo that maskLo has not, and so matches nothing.
	lo, hi, maskLo, maskHi uint64
	n                      int
	next                   int32
	text                   []byte
}

func (o *object) init(fields []field) {
	o.slots = make([]slot, 2, len(fields)+2)
	for i := range o.slots {
		o.slots[i] = newSlot(nil)
	}
	o.names = make(map[string]int32, len(fields))
	o.seen = make([]uint64, (len(fields)+63)/64)
	o.all = make([]uint64, len(o.seen))
	for i, f := range fields {
		n := newNode(f)
		n.index = i
		o.nodes = append(o.nodes, n)
		o.all[i>>6] |= 1 << (i & 63)
		o.add(f.Name, n)
	}
}

// add appends a slot, whose gaps match nothing yet.
func (o *object) add(name string, n *node) int32 {
	id := int32(len(o.slots))
	o.slots = append(o.slots, newSlot(n))
	o.names[name] = id
	return id
}

func newSlot(n *node) slot { return slot{node: n, first: gap{lo: 1}, second: gap{lo: 1}} }

// slot returns the slot of the member called name.
func (o *object) slot(name []byte) int32 {
	if id, ok := o.names[string(name)]; ok {
		return id
	}
	if len(o.slots) > len(o.nodes)+maxNames {
		return slotOther
	}
	return o.add(string(name), nil)
}

// learn notes that text stood between the value of slot cur and that of next. Text with a newline
// is not noted, since in lines of text it ends the record.
func (o *object) learn(cur int32, text []byte, next int32) {
	if bytes.IndexByte(text, '\n') >= 0 {
		return
	}
	s := &o.slots[cur]
	s.first, s.second = s.second, s.first
	g := &s.first
	g.text = append(g.text[:0], text...)
	g.n, g.next = len(text), next
	var pad, mask [16]byte
	copy(pad[:], text)
	for i := range min(g.n, 16) {
		mask[i] = 0xff
	}
	g.lo, g.hi = load(pad[:], 0), load(pad[:], 8)
	g.maskLo, g.maskHi = load(mask[:], 0), load(mask[:], 8)
}

// expect returns the gap of s that stands at i, or nil.
func (s *slot) expect(data []byte, i int) *gap {
	if i+16 > len(data) {
		for _, g := range [...]*gap{&s.first, &s.second} {
			if g.n > 0 && bytes.HasPrefix(data[i:], g.text) {
				return g
			}
		}
		return nil
	}
	x, y := load(data, i), load(data, i+8)
	g := &s.first
	if (x&g.maskLo^g.lo)|(y&g.maskHi^g.hi) != 0 {
		g = &s.second
		if (x&g.maskLo^g.lo)|(y&g.maskHi^g.hi) != 0 {
			return nil
		}
	}
	if g.n > 16 && !g.rest(data, i) {
		return nil
	}
	return g
}

func (g *gap) rest(data []byte, i int) bool {
	return i+g.n <= len(data) && bytes.Equal(data[i+16:i+g.n], g.text[16:])
}
