package expr

import (
	"encoding/binary"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// constants tells which of some constant strings a value is. A few short ones, the usual case, are
// looked up by one multiplication in a table without collisions, so that no branch depends on which
// of them a value is.
type constants struct {
	texts []string
	mul   uint64
	table *[tableSize]slot // of few texts of at most eight bytes; else nil
	index map[string]int   // else, of many
}

// slot is a text of the table as a number, and its place.
type slot struct {
	key   uint64
	size  uint32 // no text is as long as that of an empty slot
	place int32
}

const (
	fewTexts  = 8
	tableBits = 6
	tableSize = 1 << tableBits
)

// newConstants returns the constants of texts. Of equal ones the first counts.
func newConstants(texts []string) *constants {
	c := &constants{texts: texts}
	short := len(texts) <= fewTexts
	for _, s := range texts {
		short = short && len(s) <= 8
	}
	if short && c.fillTable() {
		return c
	}
	if len(texts) > fewTexts {
		c.index = make(map[string]int, len(texts))
		for i := len(texts) - 1; i >= 0; i-- {
			c.index[texts[i]] = i
		}
	}
	return c
}

// fillTable looks for a factor that gives each text a slot of its own.
func (c *constants) fillTable() bool {
	c.mul = 0x9E3779B97F4A7C15
tries:
	for range 1000 {
		c.mul = c.mul*6364136223846793005 + 1442695040888963407 | 1
		table := &[tableSize]slot{}
		for i := range table {
			table[i].size = 1<<32 - 1
		}
		for i, s := range c.texts {
			key := load8([]byte(s), 0, uint32(len(s)))
			at := &table[c.slot(key, uint32(len(s)))]
			switch {
			case at.size == 1<<32-1:
				*at = slot{key, uint32(len(s)), int32(i)}
			case at.key != key || at.size != uint32(len(s)):
				continue tries
			}
		}
		c.table = table
		return true
	}
	return false
}

func (c *constants) slot(key uint64, size uint32) uint64 {
	return (key + uint64(size)) * c.mul >> (64 - tableBits)
}

// load8 returns the first eight of the n bytes at buf[off], zeros behind the last.
func load8(buf []byte, off, n uint32) uint64 {
	if int(off)+8 <= len(buf) {
		x := binary.LittleEndian.Uint64(buf[off:])
		if n < 8 {
			x &= 1<<(8*n) - 1
		}
		return x
	}
	var x uint64
	for i := uint32(0); i < min(n, 8); i++ {
		x |= uint64(buf[off+i]) << (8 * i)
	}
	return x
}

// find returns the place of the string r of buf among the constants, or their number.
func (c *constants) find(buf []byte, r vec.Ref) int {
	at := len(c.texts)
	switch {
	case c.table != nil:
		key := load8(buf, r.Off, r.Len)
		if s := &c.table[c.slot(key, r.Len)]; s.key == key && s.size == r.Len {
			at = int(s.place)
		}
	case c.index != nil:
		if i, ok := c.index[string(buf[r.Off:r.Off+r.Len])]; ok {
			at = i
		}
	default:
		for i, s := range c.texts {
			if int(r.Len) == len(s) && string(buf[r.Off:r.Off+r.Len]) == s {
				return i
			}
		}
	}
	return at
}

// inPred picks the rows whose value is one of a list of constants.
type inPred struct {
	nd   *node
	find func(v *vec.Vec, i int) bool // nil for strings
	set  *constants
}

func (x *inPred) use(f func(*node)) { f(x.nd) }

func (x *inPred) pick(p *Programs, n int, in, dst []int32) []int32 {
	v := p.eval(x.nd, n, in)
	if v.Phys == types.PNone {
		return dst
	}
	if x.find != nil {
		forRows(n, in, func(i int32) {
			if !v.IsNull(int(i)) && x.find(v, int(i)) {
				dst = append(dst, i)
			}
		})
		return dst
	}
	k := len(dst)
	dst = room(dst, n, in)
	none := len(x.set.texts)
	if in != nil {
		n = len(in)
	}
	for at := range n {
		i := int32(at)
		if in != nil {
			i = in[at]
		}
		dst[k] = i
		// A NULL may point anywhere.
		if !v.IsNull(int(i)) && x.set.find(v.Buf, v.Refs[i]) < none {
			k++
		}
	}
	return dst[:k]
}

// switchForm is a CASE whose conditions compare one string with constants.
type switchForm struct {
	x     *node
	set   *constants
	lists [][]int32 // rows a branch, ELSE last
}

// switchOf returns the form of a CASE that can be a switch, or nil.
func (c *compiler) switchOf(call *Call) (*switchForm, error) {
	var of Expr
	var texts []string
	for i := 0; i+1 < len(call.Args); i += 2 {
		cond, ok := call.Args[i].(*Call)
		if !ok || cond.Fn != "=" {
			return nil, nil
		}
		x, y := cond.Args[0], cond.Args[1]
		if _, ok := x.(*Literal); ok {
			x, y = y, x
		}
		s, ok := ConstString(y)
		if !ok || y.Type().Phys() != types.PBytes || x.Type().Phys() != types.PBytes || of != nil && !Same(of, x) {
			return nil, nil
		}
		of = x
		texts = append(texts, s)
	}
	if len(texts) < 2 {
		return nil, nil
	}
	x, err := c.node(of)
	return &switchForm{x: x, set: newConstants(texts), lists: make([][]int32, len(texts)+1)}, err
}

func (s *switchForm) use(nd *node, f func(*node)) {
	f(s.x)
	useValues(nd, f)
}

func (s *switchForm) run(p *Programs, nd *node, n int, sel []int32) *vec.Vec {
	v := p.eval(s.x, n, sel)
	for b := range s.lists {
		s.lists[b] = s.lists[b][:0]
	}
	other := len(s.set.texts)
	count := n
	if sel != nil {
		count = len(sel)
	}
	for at := range count {
		i := int32(at)
		if sel != nil {
			i = sel[at]
		}
		b := other
		if !v.IsNull(int(i)) {
			b = s.set.find(v.Buf, v.Refs[i])
		}
		s.lists[b] = append(s.lists[b], i)
	}
	out := nd.out
	out.Reset(n)
	for b, rows := range s.lists {
		putBranch(p, nd.args[min(2*b+1, len(nd.args)-1)], out, rows)
	}
	return out
}

// useValues lists the values of a CASE.
func useValues(nd *node, f func(*node)) {
	for i := 1; i < len(nd.args); i += 2 {
		f(nd.args[i])
	}
	f(nd.args[len(nd.args)-1])
}

// putBranch evaluates a branch of CASE for the rows that take it and copies its values to out. A
// constant string is stored once.
func putBranch(p *Programs, branch *node, out *vec.Vec, rows []int32) {
	if len(rows) == 0 {
		return
	}
	s, ok := ConstString(branch.e)
	if !ok || out.Phys != types.PBytes {
		copyRows(out, p.evalIn(branch, out.Len(), rows), rows)
		return
	}
	out.SetString(int(rows[0]), s)
	r := out.Refs[rows[0]]
	for _, i := range rows {
		out.Refs[i] = r
		out.SetValid(int(i))
	}
}
