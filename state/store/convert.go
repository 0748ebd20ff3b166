package store

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidemark-stream/tidemark/state"
)

// convertBytes is how many bytes of converted entries are applied at a time.
const convertBytes = 16 << 20

// Convert rewrites the values of a state of the operator op by c, whatever its size, one part after
// the other: after an error some are converted and some are not, and the store is of no use. nowMs is
// when entries that had no time of last use count as used.
func (s *Store) Convert(op uint16, st int, c *state.Conversion, nowMs int64) error {
	var d state.Delta
	var value []byte
	lo := state.AppendStoreKey(nil, op, st, 0)
	hi := state.Successor(lo[:len(lo)-2]) // above all its key groups
	if err := s.dropIndex(op, st); err != nil {
		return err
	}
	err := s.Range(lo, hi, func(key, was []byte) error {
		var err error
		if value, err = c.Append(value[:0], was, nowMs); err != nil {
			return fmt.Errorf("entry %x: %w", key, err)
		}
		d.Put(st, int(binary.BigEndian.Uint16(key[len(lo)-2:])), key[len(lo):], value)
		if d.Size() < convertBytes {
			return nil
		}
		err = s.Apply(op, d.Bytes())
		d.Reset()
		return err
	})
	if err != nil || d.Len() == 0 {
		return err
	}
	return s.Apply(op, d.Bytes())
}

// dropIndex removes the index of a state by time of last use, which is made anew where it is wanted.
func (s *Store) dropIndex(op uint16, st int) error {
	s.write.Lock()
	defer s.write.Unlock()
	lo := state.AppendStoreKey(nil, op, st|state.IndexState, 0)
	return s.wrap(s.db.DeleteRange(lo, state.Successor(lo[:len(lo)-2]), pebble.NoSync))
}
