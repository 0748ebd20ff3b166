//go:build !unix

package state

func mapMemory(n int) []uint64 { return make([]uint64, n) }

func unmapMemory([]uint64) {}
