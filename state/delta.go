package state

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/types"
)

// Spec describes one state of an operator: what its entries mean, for savepoints and for tools.
// Entries of a state are values by key; keys are unique within a key group.
type Spec struct {
	// Name tells the state from the others of its operator: "groups", "values of 2".
	Name string
	// Key and Value name the columns that keys and values are made of. Columns whose type is not
	// known to SQL (accumulators) are BYTES.
	Key, Value []types.Field
	// Version is that of the encoding: an operator refuses versions it cannot read.
	Version int
	// KeyParts say how the bytes of a key are made of the columns of Key, from the first to the last;
	// nil: all of them are one part of the form KeyTable. They are no part of a state's identity.
	KeyParts []KeyPart `json:"keyParts,omitempty"`
	// Parts say how the bytes of columns of BYTES among Value are made, by the name of the column; a
	// column without parts is opaque. They are no part of a state's identity either.
	Parts map[string][]Part `json:"parts,omitempty"`
}

// KeyPart is some columns of a key that lie in its bytes one after the other.
type KeyPart struct {
	Columns int     `json:"columns"`
	Form    KeyForm `json:"form"`
}

// KeyForm says how the bytes of a KeyPart are made.
type KeyForm string

// The forms of parts of keys. Numbers are big endian, so that the order of the bytes is theirs.
const (
	KeyTable KeyForm = "table" // the columns as one key of a Table, in the form of Table.AppendKey
	KeyTime  KeyForm = "time"  // each column 8 bytes: ms, with the sign bit flipped
	KeyU32   KeyForm = "u32"   // each column 4 bytes
	KeyU64   KeyForm = "u64"   // each column 8 bytes
)

// LastUse is the name of the column of a value that says when the entry was written last (BIGINT, ms)
// in states with a time to live. States that differ by it only are converted: see Conversion.
const LastUse = "last use"

// Delta is changes to the keyed state of one operator, in order: a flat buffer without pointers,
// so that handing it on costs a copy of its bytes at most.
//
//	change = kind (1) state (1) group (2) key length (4) value length (4) key value
type Delta struct {
	buf []byte
	n   int
}

// ChangeKind says what a Change does.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangePut          ChangeKind = iota + 1
	ChangeDelete                  // one key
	ChangeDeletePrefix            // all keys of the state and group that begin with Key
)

// Change is one element of a Delta. Its slices point into the Delta.
type Change struct {
	Kind       ChangeKind
	State      int
	Group      int
	Key, Value []byte
}

const changeHead = 12

// Put sets the value of a key. state is the index of the state in the operator's States.
func (d *Delta) Put(state, group int, key, value []byte) {
	d.add(ChangePut, state, group, len(key), len(value))
	d.buf = append(append(d.buf, key...), value...)
}

// Delete removes a key.
func (d *Delta) Delete(state, group int, key []byte) {
	d.add(ChangeDelete, state, group, len(key), 0)
	d.buf = append(d.buf, key...)
}

// DeletePrefix removes all keys of a state and group that begin with prefix, which is not empty.
func (d *Delta) DeletePrefix(state, group int, prefix []byte) {
	d.add(ChangeDeletePrefix, state, group, len(prefix), 0)
	d.buf = append(d.buf, prefix...)
}

func (d *Delta) add(kind ChangeKind, state, group, key, value int) {
	le := binary.LittleEndian
	b := append(d.buf, byte(kind), byte(state))
	b = le.AppendUint16(b, uint16(group))
	b = le.AppendUint32(b, uint32(key))
	d.buf = le.AppendUint32(b, uint32(value))
	d.n++
}

// BeginPut starts a put whose key and value are appended to the buffer returned; EndPut ends it
// with the buffer and the length of the key in it.
func (d *Delta) BeginPut(state, group int) []byte {
	d.add(ChangePut, state, group, 0, 0)
	return d.buf
}

// EndPut ends what BeginPut began: buf is its buffer with the key and then the value appended, and
// keyEnd the length of buf after the key.
func (d *Delta) EndPut(buf []byte, keyEnd int) {
	le := binary.LittleEndian
	at := len(d.buf)
	le.PutUint32(buf[at-8:], uint32(keyEnd-at))
	le.PutUint32(buf[at-4:], uint32(len(buf)-keyEnd))
	d.buf = buf
}

// Grow makes room for about n bytes more, which saves copies: an operator knows from Dirty how much
// it is going to add.
func (d *Delta) Grow(n int) {
	if cap(d.buf)-len(d.buf) < n {
		d.buf = append(make([]byte, 0, len(d.buf)+n), d.buf...)
	}
}

// join moves the changes of o to the end of d.
func (d *Delta) join(o *Delta) {
	d.buf, d.n = append(d.buf, o.buf...), d.n+o.n
	o.Reset()
}

// Len is the number of changes, Size that of their bytes.
func (d *Delta) Len() int { return d.n }

// Size is the number of bytes.
func (d *Delta) Size() int { return len(d.buf) }

// Bytes is the encoded form, valid until the next change.
func (d *Delta) Bytes() []byte { return d.buf }

// Reset removes all changes and keeps the memory.
func (d *Delta) Reset() { d.buf, d.n = d.buf[:0], 0 }

// Take returns the encoded changes, which are the caller's from now on, and empties the Delta.
func (d *Delta) Take() []byte {
	b := d.buf
	*d = Delta{}
	return b
}

var errDelta = errors.New("changes of state are cut off or damaged")

// EachChange calls f with every change of an encoded Delta, in order.
func EachChange(b []byte, f func(c Change) error) error {
	le := binary.LittleEndian
	for len(b) > 0 {
		if len(b) < changeHead {
			return errDelta
		}
		c := Change{Kind: ChangeKind(b[0]), State: int(b[1]), Group: int(le.Uint16(b[2:]))}
		k, v := uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
		b = b[changeHead:]
		if k+v > uint64(len(b)) || c.Kind < ChangePut || c.Kind > ChangeDeletePrefix {
			return errDelta
		}
		if c.Kind != ChangePut && v > 0 || c.Kind == ChangeDeletePrefix && k == 0 {
			return errDelta
		}
		c.Key, c.Value = b[:k:k], b[k:k+v:k+v]
		b = b[k+v:]
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// Saved is the keyed state that an operator starts from.
type Saved interface {
	// Scan calls f with the entries of a state, by key group and then by the bytes of the key, of
	// the key groups that belong to the operator's subtask. key and value are valid during the
	// call.
	Scan(state int, f func(group int, key, value []byte) error) error
}

// Groups returns the key groups from lo up to but not including hi that subtask owns.
func Groups(subtask, maxParallelism, parallelism int) (lo, hi int) {
	ceil := func(n int) int { return (n*maxParallelism + parallelism - 1) / parallelism }
	return ceil(subtask), ceil(subtask + 1)
}
