//go:build unix

package show

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns is the width of the terminal f.
func columns(f *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	return 100
}
