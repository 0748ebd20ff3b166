//go:build linux

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/internal/show/vt"
)

// TestMain is also the command itself, for tests that run it on a terminal.
func TestMain(m *testing.M) {
	if os.Getenv("TIDEMARK_TEST_COMMAND") != "" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// onTerminal is the command running on a terminal.
type onTerminal struct {
	t    *testing.T
	vt   *vt.Terminal
	pty  *os.File // the side of the person
	tty  *os.File
	cmd  *exec.Cmd
	was  *unix.Termios
	read chan struct{} // closed when nothing more comes
}

// start runs the command with args on a terminal of the given size.
func start(t *testing.T, cols, rows int, args ...string) *onTerminal {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { pty.Close() })
	if err := unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	o := &onTerminal{t: t, vt: vt.New(cols, rows), pty: pty, tty: tty, read: make(chan struct{})}
	o.resize(cols, rows)
	if o.was, err = unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.cmd = exec.Command(self, args...)
	o.cmd.Env = append(os.Environ(), "TIDEMARK_TEST_COMMAND=1", "TERM=xterm")
	o.cmd.Stdin, o.cmd.Stdout, o.cmd.Stderr = tty, tty, tty
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.cmd.Process.Kill() })
	go func() {
		defer close(o.read)
		buf := make([]byte, 4096)
		for {
			n, err := pty.Read(buf)
			o.vt.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return o
}

func (o *onTerminal) resize(cols, rows int) {
	o.t.Helper()
	o.vt.Resize(cols, rows)
	if err := unix.IoctlSetWinsize(int(o.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}); err != nil {
		o.t.Fatal(err)
	}
}

var (
	status = regexp.MustCompile(`(?m)^(stopping  )?[0-9][^|]* rows in [^|]*?late \d+$`)
	spent  = regexp.MustCompile(`in [0-9.]+ m?s: .*`)
)

// steady replaces what differs from run to run.
func steady(s string) string {
	return spent.ReplaceAllString(status.ReplaceAllString(s, "STATUS"), "in TIME")
}

// sees waits until the screen ends with want. Above it may be what has scrolled off before: a
// terminal that gets higher shows it again.
func (o *onTerminal) sees(want string) {
	o.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := "\n" + steady(o.vt.Screen())
		if strings.HasSuffix(got, want) {
			return
		}
		if time.Now().After(end) {
			o.t.Fatalf("the screen is\n%s\nwant\n%s", got, want)
		}
	}
}

// ends waits for the end and returns the exit status. The terminal must be as it was.
func (o *onTerminal) ends() int {
	o.t.Helper()
	done := make(chan error, 1)
	go func() { done <- o.cmd.Wait() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		o.t.Fatalf("the command does not end; the screen is\n%s", o.vt.Screen())
	}
	now, e := unix.IoctlGetTermios(int(o.tty.Fd()), unix.TCGETS)
	if e != nil || *now != *o.was {
		o.t.Errorf("the terminal's settings were %v and are %v (%v)", o.was, now, e)
	}
	o.tty.Close() // now the reader sees the end of what was written
	<-o.read
	if col, _, seen := o.vt.Cursor(); col != 0 || !seen {
		o.t.Errorf("the cursor is in column %d, seen: %v", col, seen)
	}
	var status *exec.ExitError
	if errors.As(err, &status) {
		return status.ExitCode()
	}
	return 0
}

// watched returns a script over a folder that is watched, and a function that adds a file to it.
func watched(t *testing.T, query string) (script string, add func(name, text string)) {
	t.Helper()
	dir := t.TempDir()
	add = func(name, text string) {
		t.Helper()
		// A name with an underscore is not data: files must appear whole.
		if err := os.WriteFile(filepath.Join(dir, "_"+name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "_"+name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script = filepath.Join(t.TempDir(), "job.sql")
	text := fmt.Sprintf("CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '%s', 'format' = 'json', "+
		"'source.monitor-interval' = '100 ms');\n%s;\n", dir, query)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return script, add
}

func TestLive_TableChangesInItsPlace(t *testing.T) {
	t.Parallel()
	script, add := watched(t, "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k")
	add("1.json", `{"k":"Oslo","v":1}`+"\n"+`{"k":"Bern","v":20}`+"\n"+`{"k":"Oslo","v":2}`+"\n")
	o := start(t, 60, 12, "run", script)
	o.sees(`
STATUS
  +------+---+-------+
  | k    | n | total |
  +------+---+-------+
  | Oslo | 2 |     3 |
  | Bern | 1 |    20 |
  +------+---+-------+
2 rows
`)
	add("2.json", `{"k":"Oslo","v":1000}`+"\n"+`{"k":"Rome","v":7}`+"\n")
	o.sees(`
STATUS
  +------+---+-------+
  | k    | n | total |
  +------+---+-------+
* | Oslo | 3 |  1003 |
  | Bern | 1 |    20 |
+ | Rome | 1 |     7 |
  +------+---+-------+
3 rows
`)
	if _, err := o.pty.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if code := o.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	want := `
+------+---+-------+
| k    | n | total |
+------+---+-------+
| Oslo | 3 |  1003 |
| Bern | 1 |    20 |
| Rome | 1 |     7 |
+------+---+-------+
3 rows
job.sql stopped in TIME
`
	if got := steady(o.vt.All()); !strings.HasPrefix(got, want[1:]) {
		t.Errorf("Ctrl-C leaves\n%s", got)
	}
}

func TestLive_SurvivesResize(t *testing.T) {
	t.Parallel()
	script, add := watched(t, "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k")
	add("1.json", `{"k":"Oslo","v":1}`+"\n"+`{"k":"Bern","v":20}`+"\n"+`{"k":"Rome","v":2}`+"\n")
	o := start(t, 40, 12, "run", "-q", script)
	whole := `
  +------+---+-------+
  | k    | n | total |
  +------+---+-------+
  | Oslo | 1 |     1 |
  | Bern | 1 |    20 |
  | Rome | 1 |     2 |
  +------+---+-------+
3 rows
`
	o.sees(whole)
	o.resize(16, 7)
	cut := strings.ReplaceAll(`
  +------+---+~
  | k    | n |~
  +------+---+~
  | Oslo | 1 |~
  +------+---+~
... 2 more rows
`, "~", "\u2026")
	o.sees(cut)
	o.resize(40, 12)
	o.sees(whole)
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := o.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	want := strings.ReplaceAll(whole, "\n  ", "\n")
	if got := "\n" + o.vt.Screen(); !strings.HasSuffix(got, want) {
		t.Errorf("SIGTERM leaves\n%s\nwant%s", got, want)
	}
}

func TestLive_FailureLeavesTheTable(t *testing.T) {
	t.Parallel()
	script, add := watched(t, "SELECT k, COUNT(*) AS n FROM t WHERE 10 / v > 0 GROUP BY k")
	add("1.json", `{"k":"Oslo","v":1}`+"\n")
	o := start(t, 60, 20, "run", "-q", script)
	o.sees(`
  +------+---+
  | k    | n |
  +------+---+
  | Oslo | 1 |
  +------+---+
1 row
`)
	add("2.json", `{"k":"Oslo","v":0}`+"\n")
	if code := o.ends(); code != 1 {
		t.Errorf("exit status %d", code)
	}
	want := `
+------+---+
| k    | n |
+------+---+
| Oslo | 1 |
+------+---+
1 row
error: `
	if got := o.vt.All(); !strings.HasPrefix(got, want[1:]) || !strings.Contains(got, "division by zero") {
		t.Errorf("the failure leaves\n%s", got)
	}
}

func TestLive_NewestOfRowsThatOnlyCome(t *testing.T) {
	t.Parallel()
	script, add := watched(t, "SET 'sql-client.execution.max-table-result.rows' = '10'; SELECT v FROM t")
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "{\"v\":%d}\n", i)
	}
	add("1.json", text.String())
	o := start(t, 100, 10, "run", "-q", script)
	o.sees(`
  +-----+
  | v   |
  +-----+
  | 497 |
  | 498 |
  | 499 |
  +-----+
... 7 rows before these
490 older rows are not kept: the limit is 10 (SET 'sql-client.execution.max-table-result.rows')
`)
	if _, err := o.pty.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := o.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestLive_BoundedEndsAsATable is about a job that is over before a live table is of use.
func TestLive_BoundedEndsAsATable(t *testing.T) {
	t.Parallel()
	const query = "SELECT k, COUNT(*) AS n FROM (VALUES ('b'), ('a'), ('b')) AS t(k) GROUP BY k"
	table := `
+---+---+
| k | n |
+---+---+
| b | 2 |
| a | 1 |
+---+---+
2 rows
`
	changes := `
+----+---+---+
| op | k | n |
+----+---+---+
| +I | b | 2 |
| +I | a | 1 |
+----+---+---+
2 rows
`
	for _, c := range []struct{ output, mode, want string }{
		{"auto", "", table}, {"live", "", table}, {"table", "changelog", table},
		{"auto", "changelog", changes}, {"auto", "TABLEAU", changes}, {"changelog", "table", changes},
		{"auto", "table", table}, {"csv", "table", "\nb,2\na,1\n"},
	} {
		args := []string{"sql", "-o", c.output, "-e", query}
		if c.mode != "" {
			args = append(args, "--set", "sql-client.execution.result-mode="+c.mode)
		}
		o := start(t, 60, 20, args...)
		if code := o.ends(); code != 0 {
			t.Errorf("%q: exit status %d", args, code)
		}
		if got := o.vt.All(); got != c.want[1:] {
			t.Errorf("%q prints\n%s\nwant%s", args, got, c.want)
		}
	}
}

func TestOutput_LiveNeedsATerminal(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "sql", "-o", "live", "-e", "SELECT 1")
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_COMMAND=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--output live draws on a terminal") {
		t.Errorf("%v: %s", err, out)
	}
}
