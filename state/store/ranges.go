package store

import (
	"bytes"

	"github.com/tidemark-stream/tidemark/state"
)

var _ state.RangesCold = (*Store)(nil)

// Ranges implements state.RangesCold: all ranges are read through one iterator.
func (s *Store) Ranges(prefixes [][]byte, f func(i int, key, value []byte) error) error {
	if err := s.broken(); err != nil {
		return err
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return s.wrap(err)
	}
	hits := 0
	for i := 0; i < len(prefixes) && err == nil; i++ {
		p := prefixes[i]
		ok := it.SeekGE(p)
		if ok && bytes.HasPrefix(it.Key(), p) {
			hits++
		}
		for ; ok && bytes.HasPrefix(it.Key(), p); ok = it.Next() {
			v, e := it.ValueAndErr()
			if e != nil {
				break // Close tells
			}
			if err = f(i, it.Key(), v); err != nil {
				break
			}
		}
		if it.Error() != nil {
			break
		}
	}
	s.lookups.Add(int64(len(prefixes)))
	s.hits.Add(int64(hits))
	if e := it.Close(); e != nil {
		return s.wrap(e)
	}
	return err
}
