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
	// lo and hi are the first and the last eight bytes (fewer: mask), mid what lies between.
	lo, hi, mask uint64
	n            int
	next         int32
	text         []byte
}

func (o *object) init(fields []field) {
	o.slots = make([]slot, 2, len(fields)+2)
	for i := range o.slots {
		o.slots[i].first.lo, o.slots[i].second.lo = 1, 1
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
	o.slots = append(o.slots, slot{node: n, first: gap{lo: 1}, second: gap{lo: 1}})
	o.names[name] = id
	return id
}

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
	var pad [8]byte
	copy(pad[:], text)
	g.lo = load(pad[:], 0)
	g.mask = ^uint64(0)
	if g.n < 8 {
		g.mask = 1<<(8*g.n) - 1
	} else {
		g.hi = load(text, g.n-8)
	}
}

// match returns the position behind the gap if it is what stands at i, else 0.
func (g *gap) match(data []byte, i int) int {
	if i+8 > len(data) || load(data, i)&g.mask != g.lo {
		return 0
	}
	end := i + g.n
	if g.n > 8 && !g.rest(data, i, end) {
		return 0
	}
	return end
}

func (g *gap) rest(data []byte, i, end int) bool {
	return end <= len(data) && load(data, end-8) == g.hi &&
		(g.n <= 16 || bytes.Equal(data[i+8:end-8], g.text[8:g.n-8]))
}
