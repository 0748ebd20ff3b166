//go:build unix && !linux

package state

func adviseHuge([]byte) {}

func discard([]uint64) {}
