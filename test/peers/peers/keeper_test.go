package peers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server is a script that stands for a system: it runs while its file is there.
const server = `#!/usr/bin/env bash
cd "$(dirname "$0")"
case $1 in
  start) if [[ -e runs ]]; then echo 'already runs'; else touch runs; fi ;;
  status) [[ -e runs ]] ;;
  kill) rm runs ;;
  why) echo 'something fatal' ;;
  wipe) rm -f runs ;;
esac
`

// TestKeeper has a system end by itself, by a test that leaves it to the keeper, and by one that does not.
func TestKeeper(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the scripts need bash")
	}
	p := New()
	p.dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(p.dir, "server"), []byte(server), 0o755); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(p.dir, "runs")
	if err := p.run("server", "start"); err != nil {
		t.Fatal(err)
	}
	p.started["server"] = nil
	p.watch("server")
	if p.Away() || p.Excuses("it is what it is") {
		t.Error("it is up, and counts as away")
	}
	if err := p.Again("server", func() error { return errors.New("no such table") }); err == nil || err.Error() != "no such table" {
		t.Errorf("what has nothing to do with the server: %v", err)
	}

	// By itself. Who asks meanwhile asks again.
	if err := os.Remove(runs); err != nil {
		t.Fatal(err)
	}
	asked := 0
	err := p.Again("server", func() error {
		asked++
		_, err := os.Stat(runs)
		return err
	})
	if err != nil || asked < 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if !p.Excuses("") {
		t.Error("it was away a moment ago, and that excuses nothing")
	}
	if n, _ := p.Starts("server"); n != 1 || !strings.Contains(p.told(), "started 1 times, 1 of them after it had ended by itself") {
		t.Errorf("%d starts; %s", n, p.told())
	}

	// A test kills it.
	if !p.Crash("server", "kill") {
		t.Error("it was not killed")
	}
	if err := p.Await(); err != nil {
		t.Error(err)
	}
	if n, away := p.Starts("server"); n != 2 || away <= 0 || !strings.Contains(p.told(), "started 2 times, 1 of them") {
		t.Errorf("%d starts, away %s; %s", n, away, p.told())
	}

	// A test kills it and starts it itself: nobody else does.
	if err := p.Run("server", "kill"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * lookEvery)
	if _, err := os.Stat(runs); err == nil || !p.Away() {
		t.Error("it was started behind the back of the test")
	}
	if err := p.Run("server", "start"); err != nil {
		t.Fatal(err)
	}
	if n, _ := p.Starts("server"); n != 2 {
		t.Errorf("%d starts", n)
	}
	if err := p.Wipe(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(runs); err == nil || p.Away() {
		t.Error("it was not wiped, or counts as away")
	}
}

func TestGone(t *testing.T) {
	for text, want := range map[string]bool{
		"Code: 236. DB::Exception: The server is shutting down due to a fatal error. (ABORTED)": true,
		"FATAL:  the database system is starting up":                                            true,
		"dial tcp 127.0.0.1:1: connect: connection refused":                                     true,
		"COORDINATOR_LOAD_IN_PROGRESS: The coordinator is loading":                              true,
		"Code: 60. DB::Exception: Table test.a does not exist. (UNKNOWN_TABLE)":                 false,
		"3 rows, want 4": false,
	} {
		if gone.MatchString(text) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
}
