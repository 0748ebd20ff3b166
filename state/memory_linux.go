package state

import (
	"syscall"
	"unsafe"
)

const madvHugePage = 14

// adviseHuge is advice only: kernels without large pages refuse it.
func adviseHuge(b []byte) { _ = syscall.Madvise(b, madvHugePage) }

// discard gives the pages of a chunk back to the system; what it holds is undefined then.
func discard(w []uint64) {
	_ = syscall.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*8), syscall.MADV_DONTNEED)
}
