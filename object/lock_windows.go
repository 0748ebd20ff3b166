package object

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file, false if another open file of it is locked. The locked byte lies far
// behind the content, which others may still read.
func tryLock(f *os.File) (bool, error) {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}
