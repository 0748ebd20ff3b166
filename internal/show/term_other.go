//go:build !unix

package show

import "os"

// size is the size of the terminal f, which is not known here.
func size(*os.File) (cols, rows int, ok bool) { return 100, 24, false }

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
