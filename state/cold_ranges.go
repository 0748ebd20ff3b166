package state

// RangesCold is a Cold that reads many ranges at less cost than one after the other.
type RangesCold interface {
	Cold
	// Ranges calls f with the entries whose keys begin with prefixes[i], for each i, in order; no
	// prefix begins with another. An error of f ends it and is returned.
	Ranges(prefixes [][]byte, f func(i int, key, value []byte) error) error
}

// ranges is Ranges of any Cold.
func ranges(c Cold, prefixes [][]byte, f func(i int, key, value []byte) error) error {
	if r, ok := c.(RangesCold); ok {
		return r.Ranges(prefixes, f)
	}
	for i, p := range prefixes {
		if err := c.Range(p, Successor(p), func(key, value []byte) error { return f(i, key, value) }); err != nil {
			return err
		}
	}
	return nil
}

// Prefixed calls f with the entries of a state in a key group whose keys begin with prefixes[i], for each
// i, in order, until f returns false; no prefix begins with another. key has its prefix. An error is
// a *ColdError.
func (s *Spill) Prefixed(state, group int, prefixes [][]byte, f func(i int, key, value []byte) bool) error {
	var flat []byte
	full := make([][]byte, len(prefixes))
	ends := make([]int, len(prefixes))
	for i, p := range prefixes {
		flat = append(AppendStoreKey(flat, s.op, state, group), p...)
		ends[i] = len(flat)
	}
	from := 0
	for i, end := range ends {
		full[i], from = flat[from:end:end], end
	}
	err := ranges(s.cold, full, func(i int, key, value []byte) error {
		if !f(i, key[StoreHead:], value) {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return &ColdError{err}
	}
	return nil
}
