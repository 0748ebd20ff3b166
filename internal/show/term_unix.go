//go:build unix

package show

import (
	"os"

	"golang.org/x/sys/unix"
)

// size is the size of the terminal f in cells. Terminals that do not know theirs, such as serial
// lines, are taken for 80 by 24; ok is false where f is no terminal.
func size(f *os.File) (cols, rows int, ok bool) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 80, 24, false
	}
	cols, rows = int(ws.Col), int(ws.Row)
	if cols == 0 {
		cols = 80
	}
	if rows == 0 {
		rows = 24
	}
	return cols, rows, true
}

func isTerminal(f *os.File) bool {
	_, _, ok := size(f)
	return ok
}
