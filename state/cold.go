package state

import "encoding/binary"

// Cold is the store that the records of a table go to when memory is short, as the tables see it.
// Keys are those of AppendStoreKey with the bytes of the entry's key. It is safe for concurrent
// use.
type Cold interface {
	// Lookup calls found with the values of those of keys, which ascend, that the store has.
	// value is valid during the call.
	Lookup(keys [][]byte, found func(i int, value []byte) error) error
	// Range calls f with the entries from lo up to but not including hi, in order. key and value
	// are valid during the call.
	Range(lo, hi []byte, f func(key, value []byte) error) error
}

// StoreHead is the length of what AppendStoreKey appends.
const StoreHead = 5

// AppendStoreKey appends what stands before the key of an entry in the store:
//
//	operator (2 bytes, big endian) state (1 byte) key group (2 bytes, big endian)
//
// so that a key group is a range of keys, and moving it to another subtask moves nothing.
func AppendStoreKey(dst []byte, op uint16, state, group int) []byte {
	dst = append(binary.BigEndian.AppendUint16(dst, op), byte(state))
	return binary.BigEndian.AppendUint16(dst, uint16(group))
}

// Successor returns the least key above all keys that begin with prefix, or nil if there is none.
func Successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			next := append([]byte(nil), prefix[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}
