package checkpoint

import (
	"fmt"
	"strconv"
)

// DigestVersion is the newest way of making a SinkDigest. One of another version cannot be compared.
const DigestVersion = 1

// SinkDigest adds up the rows that a sink was given, in any order: inserts and the new rows of updates count
// once, deletions and the old rows of updates are taken off again. So it depends on what the rows add up to, and
// not on how they came in batches. It counts on from checkpoint to checkpoint: the difference of two is of the
// rows that were sealed between them.
type SinkDigest struct {
	Version int `json:"version"`
	// Rows is the number of rows, Sum the sum of their hashes, modulo 2^64.
	Rows int64  `json:"rows"`
	Sum  Uint64 `json:"sum"`
	// Since is the checkpoint from which on rows are counted; 0: the start from nothing.
	Since int64 `json:"since,omitempty"`
}

// Uint64 is written as 16 hexadecimal digits, which no reader of JSON rounds.
type Uint64 uint64

// String gives the digits.
func (u Uint64) String() string { return fmt.Sprintf("%016x", uint64(u)) }

// MarshalText implements encoding.TextMarshaler.
func (u Uint64) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *Uint64) UnmarshalText(b []byte) error {
	x, err := strconv.ParseUint(string(b), 16, 64)
	*u = Uint64(x)
	return err
}
