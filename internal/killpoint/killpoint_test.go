package killpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const program = `package main

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/internal/killpoint"
)

func main() {
	for i := range 3 {
		fmt.Println(i)
		killpoint.Pass("commit/first")
		killpoint.Pass("commit/second")
	}
}
`

// TestPass runs a small program, without and with the tag.
func TestPass(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: builds programs")
	}
	// Below this folder, as the package is internal; patterns such as ./... leave hidden folders out.
	dir, err := os.MkdirTemp(".", ".program-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tags, at, out, errs string
		killed              bool
	}{
		{"", "commit:1", "0 1 2", "", false},
		{"killpoints", "", "0 1 2", "", false},
		{"killpoints", "comm:1", "0 1 2", "", false},
		{"killpoints", "commit:7", "0 1 2", "", false},
		{"killpoints", "commit:1", "0", "killed at commit/first", true},
		{"killpoints", "commit:4", "0 1", "killed at commit/second", true},
		{"killpoints", "commit/second:3", "0 1 2", "killed at commit/second", true},
	} {
		binary := filepath.Join(t.TempDir(), "program")
		if out, err := exec.Command("go", "build", "-tags", c.tags, "-o", binary, "./"+dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "TIDEMARK_KILL_AT="+c.at)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		killed := false
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		} else if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(string(out)), " "); got != c.out || strings.TrimSpace(errs.String()) != c.errs || killed != c.killed {
			t.Errorf("tags %q at %q: printed %q and %q, killed %t; want %q and %q, %t", c.tags, c.at, got, errs.String(), killed, c.out, c.errs, c.killed)
		}
	}
}
