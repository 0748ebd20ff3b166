//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package object

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file, false if another open file of it is locked.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
