package window

import (
	"bytes"
	"fmt"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// shower writes the changelog of windows whose results are shown more than once. What was shown is
// remembered as bytes, so that it can be taken back:
//
//	the aggregates, each in the form of state.AppendValue; then, where the reason, the count or the cause
//	is emitted too, these three, NULL for one that is not
//
// Bytes without the latter are from before such a property was asked for. Whether a result has changed
// goes by the aggregates, and by the count where it is told: who reads it takes it for that of the newest result.
type shower struct {
	n       *plan.WindowAgg
	zone    *zone
	out     op.Output
	schema  types.Schema
	results *vec.Batch // of the groups at hand: keys, aggregates, properties
	batch   *vec.Batch
	tells   bool
	told    [3]int // the columns of the reason, the count and the cause, or -1
	stamp   int64
	row     []byte // the result of encode
	aggs    int    // how much of it are the aggregates
	kinds   []types.RowKind
	stamps  []int64
}

var toldTypes = [3]types.Type{types.StringType, types.BigIntType, types.StringType}

func newShower(n *plan.WindowAgg, out types.Schema) *shower {
	s := &shower{n: n, schema: out, results: vec.NewBatch(out), batch: vec.NewBatch(out), told: [3]int{-1, -1, -1}}
	for i, p := range n.Props {
		if p >= plan.WindowReason {
			s.told[p-plan.WindowReason], s.tells = len(n.Keys)+len(n.Aggs)+i, true
		}
	}
	return s
}

// begin empties the batch and makes room for the results of n groups.
func (s *shower) begin(n int) {
	s.results.Reset(n)
	s.batch.Reset(0)
	s.kinds, s.stamps = s.kinds[:0], s.stamps[:0]
}

// times fills in the properties that are times, for n groups from at on.
func (s *shower) times(start, end int64, at, n int) {
	for i, p := range s.n.Props {
		if p < plan.WindowReason {
			writeProp(s.results.Cols[len(s.n.Keys)+len(s.n.Aggs)+i], p, start, end, s.zone, at, n)
		}
	}
}

// tell fills in the other properties of group k.
func (s *shower) tell(k int, reason string, count int64, c *causes, cause uint64) {
	if at := s.told[0]; at >= 0 {
		s.results.Cols[at].SetString(k, reason)
	}
	if at := s.told[1]; at >= 0 {
		s.results.Cols[at].I64[k] = count
	}
	if at := s.told[2]; at >= 0 {
		v := s.results.Cols[at]
		v.EndBytes(k, c.appendText(v.BeginBytes(), cause))
	}
}

// encode makes s.row the bytes of group k.
func (s *shower) encode(k int) {
	nk := len(s.n.Keys)
	s.row = s.row[:0]
	for _, c := range s.results.Cols[nk : nk+len(s.n.Aggs)] {
		s.row = state.AppendValue(s.row, c, k)
	}
	s.aggs = len(s.row)
	if !s.tells {
		return
	}
	for _, at := range s.told {
		if at < 0 {
			s.row = append(s.row, 0)
		} else {
			s.row = state.AppendValue(s.row, s.results.Cols[at], k)
		}
	}
}

// same reports whether old has the aggregates of s.row, and its count where that is told.
func (s *shower) same(old []byte) bool {
	if !bytes.HasPrefix(old, s.row[:s.aggs]) {
		return false
	}
	return s.told[1] < 0 || bytes.Equal(toldCount(old[s.aggs:]), toldCount(s.row[s.aggs:]))
}

// toldCount is the count among the bytes behind the aggregates; nil where they are from before it was asked for.
func toldCount(told []byte) []byte {
	if len(told) == 0 {
		return nil
	}
	told, _ = state.CheckValue(told, toldTypes[0])
	rest, _ := state.CheckValue(told, toldTypes[1])
	return told[:len(told)-len(rest)]
}

// insert shows group k.
func (s *shower) insert(k int) { s.put(k, types.Insert, nil, false, 0, 0) }

// replace shows group k in the place of old.
func (s *shower) replace(k int, old []byte, start, end int64) {
	s.put(k, types.UpdateBefore, old, true, start, end)
	s.put(k, types.UpdateAfter, nil, false, start, end)
}

// remove takes old back, a result of the key of group k. Where causes and the like are told, the row is
// told those of its end first, for whoever wants to know why it went, so that what is taken back is what
// was shown: a result that is no more is one of no rows.
func (s *shower) remove(k int, old []byte, start, end int64) {
	if s.tells {
		s.put(k, types.UpdateBefore, old, true, start, end)
		s.put(k, types.UpdateAfter, old, false, start, end)
	}
	s.put(k, types.Delete, old, false, start, end)
}

// put appends a row with the key and the properties of group k; with old, its aggregates are those
// encoded there and its times those of the window from start to end. whole says that old has the other
// properties too.
func (s *shower) put(k int, kind types.RowKind, old []byte, whole bool, start, end int64) {
	out, nk, removed := s.batch, len(s.n.Keys), old != nil && !whole
	props := nk + len(s.n.Aggs)
	for i, c := range out.Cols {
		c.Resize(out.N + 1)
		switch {
		case old == nil || i < nk || i >= props && s.n.Props[i-props] >= plan.WindowReason:
			c.Set(out.N, s.results.Cols[i], k)
		case i < props:
			old = state.DecodeValue(old, c, out.N)
		default:
			writeProp(c, s.n.Props[i-props], start, end, s.zone, out.N, 1)
		}
	}
	if at := s.told[1]; at >= 0 && removed {
		out.Cols[at].I64[out.N] = 0
	}
	if old != nil && whole && s.tells && len(old) > 0 {
		for i, at := range s.told {
			if at >= 0 && old[0] == 1 {
				old = state.DecodeValue(old, out.Cols[at], out.N)
			} else {
				old, _ = state.CheckValue(old, toldTypes[i])
			}
		}
	}
	out.N++
	s.kinds, s.stamps = append(s.kinds, kind), append(s.stamps, s.stamp)
}

// flush emits the batch.
func (s *shower) flush() error {
	if s.batch.N == 0 {
		return nil
	}
	s.batch.Kinds, s.batch.Stamps = s.kinds, s.stamps
	return s.out.Emit(s.batch)
}

// check reads over bytes that encode made, perhaps for a plan that told less.
func (s *shower) check(b []byte) error {
	nk, ok := len(s.n.Keys), false
	for _, col := range s.results.Cols[nk : nk+len(s.n.Aggs)] {
		if b, ok = state.CheckValue(b, col.Type); !ok {
			return errEntry
		}
	}
	if len(b) == 0 {
		return nil
	}
	for _, t := range toldTypes {
		if b, ok = state.CheckValue(b, t); !ok {
			return errEntry
		}
	}
	if len(b) > 0 {
		return errEntry
	}
	return nil
}

// parts says what the bytes of a result are made of. It may be called while the operator works.
func (s *shower) parts() []state.Part {
	var out []state.Part
	for k := range s.n.Aggs {
		name := s.n.Aggs[k].Name
		if name == "" {
			name = fmt.Sprintf("result%d", k+1)
		}
		t := s.schema.Fields[len(s.n.Keys)+k].Type
		out = append(out, state.Part{Name: name, Type: t.WithoutAttr().AsNullable(), Form: state.PartPlain})
	}
	if s.tells {
		for i, name := range []string{"reason", "input_count", "cause"} {
			out = append(out, state.Part{Name: name, Type: toldTypes[i].AsNullable(), Form: state.PartPlain})
		}
	}
	return out
}
