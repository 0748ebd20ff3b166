package state

import "syscall"

const madvHugePage = 14

// adviseHuge is advice only: kernels without large pages refuse it.
func adviseHuge(b []byte) { _ = syscall.Madvise(b, madvHugePage) }
