package agg

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// errTwoPhase is of plans that the planner should not make.
var errTwoPhase = errors.New("an aggregate with distinct values or lists cannot be computed in two phases")

// Packable reports, as an error, aggregates whose accumulators do not travel between phases.
func (s *Set) Packable() error {
	if s.HasValues() || s.listed {
		return errTwoPhase
	}
	for _, sl := range s.slots {
		if _, ok := sl.(*single); ok {
			return errTwoPhase
		}
	}
	return nil
}

// Pack writes the accumulators of the groups recs to out, one BYTES value each:
//
//	the words, little endian; then for each slot that keeps a Ref its value: length (4 bytes), bytes
func (s *Set) Pack(st *Store, recs []uint32, out *vec.Vec, at int) {
	le := binary.LittleEndian
	for k, r := range recs {
		buf := out.BeginBytes()
		w := st.R.At(r)[s.base : s.base+s.words]
		for _, x := range w {
			buf = le.AppendUint64(buf, x)
		}
		for i, sl := range s.slots {
			if _, ok := sl.(freer); ok {
				b := st.Blob.Get(state.Ref(w[s.at[i]]))
				buf = append(le.AppendUint32(buf, uint32(len(b))), b...)
			}
		}
		out.EndBytes(at+k, buf)
	}
}

// Unpack replaces the groups of st, a store of NewRecords, by the accumulators in the values of v
// at the positions rows, and returns their records.
func (s *Set) Unpack(st *Store, v *vec.Vec, rows []int32, recs []uint32) []uint32 {
	le := binary.LittleEndian
	st.Reset()
	recs = recs[:0]
	for _, row := range rows {
		b := v.Bytes(int(row))
		r := st.R.Alloc()
		w := st.R.At(r)[s.base : s.base+s.words]
		for i := range w {
			w[i] = le.Uint64(b[8*i:])
		}
		b = b[8*len(w):]
		for i, sl := range s.slots {
			if _, ok := sl.(freer); ok {
				n := le.Uint32(b)
				w[s.at[i]] = 0
				if n > 0 {
					w[s.at[i]] = uint64(st.Blob.Put(b[4 : 4+n]))
				}
				b = b[4+n:]
			}
		}
		recs = append(recs, r)
	}
	return recs
}

// PhaseSchema is the schema by which both phases of an aggregation compile its aggregates, so that
// their accumulators agree: the global phase does not see the rows. Every argument may be NULL.
func PhaseSchema(calls []plan.AggCall) types.Schema {
	var s types.Schema
	for i := range calls {
		for k, col := range calls[i].Args {
			for col >= len(s.Fields) {
				s.Fields = append(s.Fields, types.Field{})
			}
			if col >= 0 {
				s.Fields[col].Type = calls[i].ArgTypes[k].WithoutAttr().AsNullable()
			}
		}
	}
	return s
}
