// Package store keeps the state of a job on disk: an LSM tree (Pebble) below the tables in memory.
// There is one store a process; all operators and subtasks share it.
//
// It holds what operators have frozen: the changes of state.Delta are applied in order, by one
// goroutine. A cut is the content at one moment as a list of files that never change again; the
// files of one cut that are in the next keep their names and sums, so that whoever copies cuts
// copies only what is new. A store is opened empty or from the files of a cut. It has no log of its
// own and syncs nothing: what was not cut is gone after a crash, and whoever needs the files of a
// cut after a power failure syncs his copies.
//
// # Layout, version 1
//
// An entry is a key and a value of Pebble:
//
//	key   = operator (2 bytes, big endian) state (1) key group (2, big endian) key of the entry
//	value = as the operator encoded it
//
// States from 128 on are indexes by time of last use of those 128 below: see state.IndexState.
//
// A cut is tables, 000123.sst, in the format of Pebble, and one file HEAD with the small files that
// say how they hang together (MANIFEST, OPTIONS, markers), integers little endian:
//
//	HEAD = "TMLSM" version (1 byte) file... sum
//	file = length of its name (2 bytes) length of its content (4) name content
//	sum  = XXH3 of all that comes before (8 bytes)
//
// Numbers of tables repeat when an older cut is opened again. What a table is called outside of the
// folder of its store (File.Object) therefore begins with an id of the store that made it, drawn when
// that was opened, and stays the same in every store that was opened with the table.
package store
