package agg

import (
	"errors"

	"github.com/tidemark-stream/tidemark/plan"
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

// Pack writes the accumulators of the groups recs to out, one BYTES value each, in the form of
// AppendGroup.
func (s *Set) Pack(st *Store, recs []uint32, out *vec.Vec, at int) {
	for k, r := range recs {
		out.EndBytes(at+k, s.AppendGroup(out.BeginBytes(), st, r))
	}
}

// Unpack replaces the groups of st, a store of NewRecords, by the accumulators in the values of v
// at the positions rows, and returns their records.
func (s *Set) Unpack(st *Store, v *vec.Vec, rows []int32, recs []uint32) []uint32 {
	st.Reset()
	recs = recs[:0]
	for _, row := range rows {
		r := st.R.Alloc()
		if !s.plain {
			clear(st.R.At(r)[s.base : s.base+s.words]) // Refs of values that are not there
		}
		if err := s.LoadGroup(st, r, v.Bytes(int(row))); err != nil {
			panic("BUG: " + err.Error())
		}
		recs = append(recs, r)
	}
	return recs
}

// PhaseSchema is the schema by which both phases of an aggregation compile its aggregates, so that
// their accumulators agree with each other, and with those of a single phase that a job may go on
// with: the columns of the first phase's input. Where these, args, are not known every argument may
// be NULL.
func PhaseSchema(calls []plan.AggCall, args types.Schema) types.Schema {
	if args.Len() > 0 {
		return args
	}
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
