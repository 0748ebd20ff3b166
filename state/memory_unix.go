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
