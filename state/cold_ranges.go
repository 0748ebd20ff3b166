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
