//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package object

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("files cannot be locked on this operating system, so that two runs of a job cannot be told apart; keep its checkpoints in an object store")
}
