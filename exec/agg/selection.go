package agg

import (
	"slices"

	"github.com/tidemark-stream/tidemark/vec"
)

// selection says which rows an aggregate sees: those whose filter is true and whose arguments are
// not NULL. Aggregates with the same one share its work.
type selection struct {
	filter  int   // BOOLEAN column, or -1
	notNull []int // columns
	// forValues: valueSpec reads the result.
	forValues bool

	res  *Input // of the last apply
	out  Input
	rows []int32
	recs []uint32
	neg  []bool
}

// selection returns the index of a selection, adding it if it is new.
func (s *Set) selection(sel selection) int {
	for i := range s.selections {
		o := &s.selections[i]
		if o.filter == sel.filter && slices.Equal(o.notNull, sel.notNull) {
			return i
		}
	}
	s.selections = append(s.selections, sel)
	s.bySel = append(s.bySel, nil)
	return len(s.selections) - 1
}

// apply returns the rows of in that pass. The result is in itself where all do because nothing is
// to be checked, else memory of the selection.
func (sel *selection) apply(in *Input) *Input {
	var filter *vec.Vec
	if sel.filter >= 0 {
		filter = in.Cols[sel.filter]
	}
	var valid vec.Bitmap
	several := false
	check := func(b vec.Bitmap) {
		if b != nil {
			several = valid != nil
			valid = b
		}
	}
	if filter != nil {
		check(filter.Valid)
	}
	for _, c := range sel.notNull {
		if in.Cols[c].Valid != nil || in.Cols[c].Phys == 0 {
			check(in.Cols[c].Valid)
			several = several || in.Cols[c].Phys == 0
		}
	}
	if filter == nil && valid == nil && !several {
		return in
	}
	n := len(in.Rows)
	if cap(sel.rows) < n {
		sel.rows, sel.recs, sel.neg = make([]int32, n), make([]uint32, n), make([]bool, n)
	}
	rows, recs := sel.rows[:n], sel.recs[:n]
	j := 0
	switch {
	case several:
		for k, r := range in.Rows {
			rows[j], recs[j] = r, in.Recs[k]
			if sel.pass(in, int(r)) {
				j++
			}
		}
	case filter != nil && valid == nil:
		for k, r := range in.Rows {
			rows[j], recs[j] = r, in.Recs[k]
			if filter.Bool[r] {
				j++
			}
		}
	case filter == nil:
		for k, r := range in.Rows {
			rows[j], recs[j] = r, in.Recs[k]
			if valid.Get(int(r)) {
				j++
			}
		}
	default:
		for k, r := range in.Rows {
			rows[j], recs[j] = r, in.Recs[k]
			if filter.Bool[r] && valid.Get(int(r)) {
				j++
			}
		}
	}
	sel.out = Input{Cols: in.Cols, Rows: rows[:j], Recs: recs[:j], One: in.One}
	if in.Neg != nil {
		sel.negs(in)
	}
	return &sel.out
}

// negs repeats the choice for the signs; rows are ascending, so they are matched by position.
func (sel *selection) negs(in *Input) {
	neg := sel.neg[:0]
	j := 0
	for k, r := range in.Rows {
		if j < len(sel.out.Rows) && sel.out.Rows[j] == r && sel.out.Recs[j] == in.Recs[k] {
			neg = append(neg, in.Neg[k])
			j++
		}
	}
	sel.out.Neg = neg
}

func (sel *selection) pass(in *Input, r int) bool {
	if sel.filter >= 0 {
		if f := in.Cols[sel.filter]; f.IsNull(r) || !f.Bool[r] {
			return false
		}
	}
	for _, c := range sel.notNull {
		if in.Cols[c].IsNull(r) {
			return false
		}
	}
	return true
}
