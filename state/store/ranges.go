package store

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/tidemark-stream/tidemark/state"
)

var _ state.RangesCold = (*Store)(nil)

// partBytes is how much a goroutine reads ahead of Ranges at most, about: a range may be of any size.
const partBytes = 256 << 10

// Ranges implements state.RangesCold: all ranges are read through one iterator. Many are read by several
// goroutines, as each may wait for the disk and decompresses blocks; f is called by that of the caller
// only.
func (s *Store) Ranges(prefixes [][]byte, f func(i int, key, value []byte) error) error {
	if err := s.broken(); err != nil {
		return err
	}
	n := min(runtime.GOMAXPROCS(0), len(prefixes)/lookupKeys)
	if n <= 1 {
		return s.ranges(prefixes, 0, f)
	}
	parts := make([]part, n)
	var wg sync.WaitGroup
	for w := range parts {
		wg.Add(1)
		go func() {
			defer wg.Done()
			lo, hi := w*len(prefixes)/n, (w+1)*len(prefixes)/n
			parts[w].read(s, prefixes[lo:hi], lo)
		}()
	}
	wg.Wait()
	for w := range parts {
		p := &parts[w]
		if p.err != nil {
			return p.err
		}
		from := 0
		for _, e := range p.entries {
			if err := f(e.i, p.bytes[from:e.key:e.key], p.bytes[e.key:e.end:e.end]); err != nil {
				return err
			}
			from = e.end
		}
		if hi := (w + 1) * len(prefixes) / n; p.stop < hi {
			if err := s.ranges(prefixes[p.stop:hi], p.stop, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is what one goroutine has read: the entries of the prefixes before stop.
type part struct {
	entries []partEntry
	bytes   []byte // key and value of each
	stop    int
	err     error
}

// partEntry is an entry of prefix i, whose key and value end in bytes at key and end.
type partEntry struct{ i, key, end int }

// read reads the ranges of prefixes, the first of which is number base, until it has enough. A range that
// it has not read as a whole is left to others.
func (p *part) read(s *Store, prefixes [][]byte, base int) {
	p.stop = base + len(prefixes)
	last, entries, size := -1, 0, 0
	p.err = s.ranges(prefixes, base, func(i int, key, value []byte) error {
		if i != last {
			last, entries, size = i, len(p.entries), len(p.bytes)
		}
		if len(p.bytes)+len(key)+len(value) > partBytes {
			p.entries, p.bytes, p.stop = p.entries[:entries], p.bytes[:size], i
			return state.Enough
		}
		p.bytes = append(p.bytes, key...)
		at := len(p.bytes)
		p.bytes = append(p.bytes, value...)
		p.entries = append(p.entries, partEntry{i, at, len(p.bytes)})
		return nil
	})
	if p.err == state.Enough {
		p.err = nil
	}
}

// ranges reads ranges one after the other; the first is number base.
func (s *Store) ranges(prefixes [][]byte, base int, f func(i int, key, value []byte) error) error {
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
			if err = f(base+i, it.Key(), v); err != nil {
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
