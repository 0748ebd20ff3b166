package agg

import (
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// NewRows returns a set that keeps the whole rows of groups, for EachRow.
func NewRows(in types.Schema) *Set {
	s := &Set{rows: -1, keys: map[string]int{}, ordered: true, listed: true}
	s.selections = []selection{{filter: -1}}
	s.bySel = [][]int{nil}
	cols := make([]int, in.Len())
	for i := range cols {
		cols[i] = i
	}
	s.slotFor("rows", 0, func() slot { return &list{cols: cols} })
	s.keep()
	return s
}

// EachRow calls f with each row of a group of a set from NewRows, in the order of arrival: the
// values of the columns in the form of state.AppendValue.
func (s *Set) EachRow(st *Store, rec uint32, f func(row []byte)) {
	rows(st.Blob.Get(state.Ref(*st.word(rec, s.base))), func(_ int, row []byte) { f(row) })
}
