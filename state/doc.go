// Package state holds what operators remember: pointer-free tables in slabs outside Go's heap, so
// that ten million entries cost the garbage collector nothing.
//
//	Encoder   keys of a batch, column by column, into rows of 64-bit words, hashed
//	Table     hash index over Records: key -> record
//	Records   dense fixed-width records in slabs that never move
//	Blob      values of varying size
//	Heap      the least or greatest of a group's values under retraction
//
// A record is a row of 64-bit words and is named by its address, a 32-bit count of words:
//
//	word 0      hash (bits 0-31), NULL bits of the key (32-55), flags (56-63)
//	words 1..k  the key, as the Encoder lays it out
//	then        what the owner keeps, for example accumulators
//
// Nothing here is safe for concurrent use: a table belongs to one subtask. Owners must call
// Release, since the slabs are invisible to the garbage collector.
//
// What snapshots and rescaling will lean on: records do not move, so a slab can be frozen copy on
// write; the hash is stored and its function is frozen (see hash.go), so the key group of every
// record is known without its key being hashed again.
package state
