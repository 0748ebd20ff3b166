//go:build unix

package state

import (
	"syscall"
	"unsafe"
)

// hugeWords is from where large pages are asked for: random access to a table of many megabytes
// spends most of its time in misses of the address translation otherwise.
const hugeWords = 1 << 17

func mapMemory(n int) []uint64 {
	b, err := syscall.Mmap(-1, 0, n*8, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		// The system is out of address space or of mappings; the heap may still have room, and
		// if not, Go reports it.
		return make([]uint64, n)
	}
	if n >= hugeWords {
		adviseHuge(b)
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), n)
}

func unmapMemory(w []uint64) {
	// An error says that the memory came from the heap (see mapMemory), which frees it itself.
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*8))
}

// mapping is memory of an arena, with what alignment left over.
type mapping []byte

// hugePage is the size and alignment of the large pages that arenas are made for.
const hugePage = 2 << 20

// mapArena maps words of zeros aligned to hugePage; none of them takes memory before it is used.
func mapArena(words int) (mapping, []uint64) {
	b, err := syscall.Mmap(-1, 0, words*8+hugePage, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, make([]uint64, words)
	}
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (hugePage - 1))
	adviseHuge(b[skip : skip+words*8])
	return b, unsafe.Slice((*uint64)(unsafe.Pointer(&b[skip])), words)
}

func (m mapping) unmap() {
	if m != nil {
		_ = syscall.Munmap(m)
	}
}
