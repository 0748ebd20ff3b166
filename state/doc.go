// Package state holds what operators remember: pointer-free tables in slabs outside Go's heap, so
// that ten million entries cost the garbage collector nothing.
//
//	Encoder   keys of a batch, column by column, into rows of 64-bit words, hashed
//	Table     hash index over Records: key -> record
//	Records   dense fixed-width records in slabs that never move
//	Blob      values of varying size
//	Heap      the least or greatest of a group's values under retraction
//	Delta     changes of keyed state, in order, as bytes
//	Keeper    saves the records of a Table that changed, restores them, lets them spill
//	Spill     tables of an operator that are larger than memory, over a Cold store below
//	Budget    the accountant of all memory of a job's state
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
// Records do not move, but for those of tables that spill, between two batches. The hash is stored and
// its function is frozen (see hash.go), so the key group of every record is known without its key being
// hashed again.
//
// Package store is the store below, package statetest the conformance suite of whatever keeps state.
package state
