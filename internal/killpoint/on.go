//go:build killpoints

package killpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	target string // "" for none
	left   atomic.Int64
)

func init() {
	at := os.Getenv("TIDEMARK_KILL_AT")
	if at == "" {
		return
	}
	place, count, _ := strings.Cut(at, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 || place == "" {
		fmt.Fprintf(os.Stderr, "TIDEMARK_KILL_AT is %q; write phase:n or phase/point:n\n", at)
		os.Exit(2)
	}
	target = place
	left.Store(n)
}

// Pass kills the process if this is the place and the passing that was asked for. It does not come
// back then.
func Pass(place string) {
	if target == "" || place != target && !strings.HasPrefix(place, target+"/") {
		return
	}
	if left.Add(-1) != 0 {
		return
	}
	// One write to standard error, which is not buffered: who asked can see where it happened.
	fmt.Fprintln(os.Stderr, "killed at "+place)
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
