//go:build !unix

package state

func mapMemory(n int) []uint64 { return make([]uint64, n) }

func unmapMemory([]uint64) {}

type mapping struct{}

func mapArena(words int) (mapping, []uint64) { return mapping{}, make([]uint64, words) }

func (mapping) unmap() {}

func discard([]uint64) {}
