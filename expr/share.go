package expr

import (
	"unsafe"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// This file computes a common part once a row, wherever in a program it stands. A node that is asked
// for in one scope only keeps its result for that scope. One that may be asked for in several, say by
// the filter for all rows and by a branch of CASE for some, is shared: it remembers which rows it has
// computed, and computes the others when they are wanted, never more, so that laziness is kept. Nothing
// that a shared node holds is overwritten within a batch: results of other nodes may point into it.

// shared is what a node needs that may be asked for in several scopes.
type shared struct {
	all  bool       // every row of the batch is computed
	done vec.Bitmap // else the rows that are
	more *vec.Vec   // where further rows are computed before they join the others
	rest []int32
	had  []int32
}

// use lists the nodes that are evaluated for nd.
func (nd *node) use(f func(*node)) {
	if nd.needs != nil {
		nd.needs(f)
		return
	}
	for _, a := range nd.args {
		f(a)
	}
}

// markShared finds the nodes that may be asked for in several scopes: those with several users, and
// what only those use.
func (c *compiler) markShared() {
	users := map[*node]int{}
	var visit func(nd *node)
	visit = func(nd *node) {
		if users[nd]++; users[nd] == 1 {
			nd.use(visit)
		}
	}
	c.p.use(visit)
	var spread func(nd *node)
	spread = func(nd *node) {
		if nd.out != nil && nd.shared == nil { // columns and literals are vectors already
			nd.shared = &shared{}
			nd.use(spread)
		}
	}
	for nd, n := range users {
		if n > 1 {
			spread(nd)
		}
	}
}

// note says that the rows sel are computed, and no others.
func (s *shared) note(n int, sel []int32) {
	s.all = sel == nil
	if s.all {
		return
	}
	w := (n + 63) / 64
	if cap(s.done) < w {
		s.done = make(vec.Bitmap, w)
	}
	s.done = s.done[:w]
	clear(s.done)
	s.add(sel)
}

func (s *shared) add(sel []int32) {
	for _, i := range sel {
		s.done[i>>6] |= 1 << (i & 63)
	}
}

// missing returns the rows of sel that are not computed.
func (s *shared) missing(n int, sel []int32) []int32 {
	if s.all {
		return nil
	}
	out := s.rest[:0]
	if sel == nil {
		for i := int32(0); i < int32(n); i++ {
			if !s.done.Get(int(i)) {
				out = append(out, i)
			}
		}
	} else {
		var lacks uint64
		for _, i := range sel {
			lacks |= ^s.done[i>>6] >> (i & 63)
		}
		if lacks&1 == 0 {
			return nil
		}
		for _, i := range sel {
			if !s.done.Get(int(i)) {
				out = append(out, i)
			}
		}
	}
	s.rest = out
	return out
}

// extend computes the rows of sel that a shared node lacks, and returns its values.
func (p *Programs) extend(nd *node, n int, sel []int32) *vec.Vec {
	s := nd.shared
	rest := s.missing(n, sel)
	if len(rest) == 0 {
		return nd.res
	}
	was := p.enter() // rest is less than the scope around
	if nd.view {
		nd.res = nd.run(p, nd, n, rest)
	} else {
		out := nd.out
		if s.more == nil {
			s.more = vec.New(out.Type, 0)
		}
		nd.out = s.more
		v := nd.run(p, nd, n, rest)
		nd.out = out
		nd.join(v, n, rest)
	}
	p.leave(was)
	s.add(rest)
	nd.scope = p.cur
	return nd.res
}

// join adds the rows rest of v to what nd has.
func (nd *node) join(v *vec.Vec, n int, rest []int32) {
	if v == nd.res {
		return // passed on from a node that was extended itself
	}
	if nd.res != nd.out {
		// So far the vector of another node could be passed on; now nd needs its own.
		s := nd.shared
		s.had = s.had[:0]
		for i := int32(0); i < int32(n); i++ {
			if s.done.Get(int(i)) {
				s.had = append(s.had, i)
			}
		}
		nd.out.Reset(n)
		copyRows(nd.out, nd.res, s.had)
		nd.res = nd.out
	}
	joinRows(nd.out, v, rest)
}

// joinRows copies the rows sel of src to out. Strings stay where they are if both point into the same
// bytes, those of an argument, which only become more within a batch.
func joinRows(out, src *vec.Vec, sel []int32) {
	switch {
	case out.Phys == types.PRow && out.Valid == nil && src.Valid == nil:
		for k, kid := range out.Kids {
			joinRows(kid, src.Kids[k], sel)
		}
	case out.Phys == types.PBytes && unsafe.SliceData(out.Buf) == unsafe.SliceData(src.Buf):
		out.ShareBuf(src.Buf)
		for _, i := range sel {
			if src.IsNull(int(i)) {
				out.SetNull(int(i))
				continue
			}
			out.Refs[i] = src.Refs[i]
			out.SetValid(int(i))
		}
	default:
		copyRows(out, src, sel)
	}
}
