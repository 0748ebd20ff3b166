package browser

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// output collects what a command writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestRun watches the example's board as `tidemark run --http` makes it, from memory.
func TestRun(t *testing.T) {
	b := start(t, 1440, 900)
	dir := t.TempDir()
	bin := filepath.Join(dir, "tidemark")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	example, err := filepath.Abs("../../examples/flights")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(example, "board.sql"))
	if err != nil {
		t.Fatal(err)
	}
	// It reads the example's data and writes nothing there.
	script := strings.ReplaceAll(string(text), "examples/flights/data", filepath.Join(example, "data"))
	script = strings.ReplaceAll(script, "'examples/flights", "'"+dir)
	if err := os.WriteFile(filepath.Join(dir, "board.sql"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(example, "board.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "board.yaml"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	var out output
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "run", "--http", "127.0.0.1:0", "--stay", "--board", "board.yaml", "board.sql")
	cmd.Dir, cmd.Stderr, cmd.Stdout = dir, &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/board/`)
	within(t, waitFor, "the page is announced", func() bool { return address.MatchString(out.String()) })
	url := address.FindString(out.String())
	b.open(url)
	b.sees("#title", "Departures from New York")
	within(t, waitFor, "the job has ended", func() bool { return strings.Contains(out.String(), "served until Ctrl-C") })
	b.sees(`[data-id="t5"] .trust`, "watermark input ended")
	b.sees(`[data-id="t5"] .badges`, "unsealed")
	b.sees(`[data-id="t5"] .badges`, "final")
	b.sees(`[data-id="t5"] .badges`, "need backfill")
	b.sees(`[data-id="t5"] .trust`, "duplicates 123")
	b.sees(`[data-id="t7"] tbody tr`, "2013-01-02 04:00 EWR final 4 4 0 179.0")
	b.shoot(filepath.Join(images(t), "dashboard-run.png"))
	b.quiet(strings.TrimSuffix(url, "board/"))
}
