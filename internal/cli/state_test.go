//go:build linux

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const flow = `SET 'execution.checkpointing.interval' = '50 ms';
CREATE TABLE bids (item INT, price INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10000',
  'fields.item.min' = '1', 'fields.item.max' = '5', 'fields.price.min' = '1', 'fields.price.max' = '9');
CREATE TABLE best (item INT, n BIGINT, highest INT) WITH ('connector' = 'blackhole');
INSERT INTO best SELECT item, COUNT(*), MAX(price) FROM bids GROUP BY item;
`

// session runs the command in a folder.
type session struct {
	t   *testing.T
	dir string
}

func (s session) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "TIDEMARK_TEST_COMMAND=1", "TERM=dumb")
	return c
}

// file writes a script.
func (s session) file(name, text string) {
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// does runs the command; what it prints must match all of want.
func (s session) does(status int, args []string, want ...string) string {
	s.t.Helper()
	c := s.command(args...)
	out, _ := c.CombinedOutput()
	s.prints(string(out), want...)
	if got := c.ProcessState.ExitCode(); got != status {
		s.t.Errorf("%v ends with %d:\n%s", args, got, out)
	}
	return string(out)
}

func (s session) prints(out string, want ...string) {
	s.t.Helper()
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out) {
			s.t.Errorf("there is no %q in\n%s", w, out)
		}
	}
}

// sharedText is text that one goroutine writes and another one reads.
type sharedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (x *sharedText) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *sharedText) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// interrupted runs the command until there is a checkpoint, then interrupts it, or kills it.
func (s session) interrupted(with syscall.Signal, checkpoints string, args ...string) string {
	s.t.Helper()
	c := s.command(args...)
	var out sharedText
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		// The checkpoint may be one of an earlier run.
		if list, _ := filepath.Glob(filepath.Join(s.dir, "tidemark-checkpoints", checkpoints, "checkpoints", "0*")); len(list) > 0 && strings.Contains(out.String(), "job "+checkpoints) {
			break
		}
	}
	time.Sleep(100 * time.Millisecond)
	if err := c.Process.Signal(with); err != nil {
		s.t.Fatal(err)
	}
	c.Wait()
	return out.String()
}

func TestStop_ThenLookPlanAndStart(t *testing.T) {
	s := session{t, t.TempDir()}
	s.file("flow.sql", flow)
	s.prints(s.interrupted(syscall.SIGKILL, "flow.sql", "run", "flow.sql"), `^job flow.sql starts for the first time\n$`)
	out := s.interrupted(syscall.SIGINT, "flow.sql", "run", "flow.sql", "--http", ":0")
	s.prints(out, `(?m)^http://127.0.0.1:\d+/status and /metrics show what the jobs do$`, `(?m)^job flow.sql goes on from checkpoint \d+ of 20`,
		`(?m)^With the runs that this one went on from:$`, `(?m)^\d+ checkpoints?; the last, \d+, took .* and wrote .* requests?\.$`,
		`(?m)^Savepoint: /.*/savepoints/.*$`, `(?m)^  tidemark run --from /.* flow.sql$`, `(?m)^The next run of job flow.sql goes on from checkpoint \d+\.$`)
	found := regexp.MustCompile(`(?m)^Savepoint: (.*)$`).FindStringSubmatch(out)
	if found == nil {
		t.Fatal("there is no savepoint")
	}
	at := found[1]

	s.file("wide.sql", "SET 'parallelism.default' = '2';\n"+flow)
	s.file("changed.sql", strings.Replace(flow, "MAX", "AVG", 1))
	s.does(0, []string{"plan", "--from", at, "wide.sql"}, `(?m)^at parallelism 2, where it was 1`, `(?m)^GlobalGroupAggregate\(by item\) +reused$`, `The job would start`)
	s.does(1, []string{"plan", "--from", at, "changed.sql"}, `(?m)^GroupAggregate\(by item\) +starts empty`, `(?m)^GroupAggregate\(by item\) +dropped`,
		`would not start: 1 of these would be left behind`, `(?m)^  tidemark run --from /.* --allow-dropped-state changed.sql$`)
	s.does(0, []string{"plan", "--from", at, "--allow-dropped-state", "changed.sql"}, `(?m)^  tidemark run --from /.* --allow-dropped-state changed.sql$`)
	s.does(0, []string{"plan", "flow.sql"}, `^job flow.sql from checkpoint \d+ of `)
	s.does(0, []string{"plan", "wide.sql"}, `^job wide.sql has no checkpoint yet`)
	s.does(1, []string{"plan", "--from", "nowhere", "flow.sql"}, `there is no savepoint at .*nowhere`)

	s.does(0, []string{"state", "ls", "tidemark-checkpoints"}, `\| checkpoint \|`, `\| savepoint +\| .* \| tidemark-checkpoints/flow.sql/savepoints/`)
	s.does(0, []string{"state", "ls", at}, `^savepoint \d+ of job flow.sql`, `\| +1 \| GroupAggregate\(by item\) \| groups \| +5 \|`, "`1/groups`", `\| bids +\| rows +\| +\d+ \|`)
	s.does(0, []string{"state", "ls", at, "-o", "json"}, `\{"operator":1,"label":"GroupAggregate\(by item\)","state":"groups","entries":5,`)
	s.does(0, []string{"state", "show", at, "groupagg", "-o", "json", "-n", "1"}, `^\{"item":\d,"row_count":\d+,"count_price":\d+,"max_price":\d\}\n$`)
	s.does(0, []string{"state", "query", at, "SELECT MIN(item), MAX(item), COUNT(*) FROM `1/groups`", "-o", "csv"}, `^1,5,5\n$`)
	s.does(1, []string{"state", "query", at, "SELECT * FROM `1/rows`"}, "the states are `1/groups`")
	s.does(1, []string{"state", "show", at, "9"}, `there is no operator "9"; there are 0 \(Source\(bids\)\), 1 \(GroupAggregate`)
	s.does(0, []string{"state", "set", at, "1", "--delete", "--where", "item > 3", "--out", "fixed"}, `^2 entries deleted; the new savepoint is /.*/fixed\n$`)
	s.does(1, []string{"state", "set", at, "1", "--set", "item=3", "--where", "TRUE", "--out", "other"}, `column 'item' is part of the key`)
	s.does(1, []string{"state", "set", at, "1", "--add", "--delete", "--out", "other"}, `either added or deleted`)
	s.does(1, []string{"state", "set", at, "1", "--add", "--set", "item=3", "--out", "other"}, `is there already \(item = 3\)`)
	s.does(0, []string{"state", "set", "fixed", "1", "--set", "max_price=99", "--set", "row_count = 1000000", "--where", "item = 1", "--out", "richer"}, `^1 entry changed; the new savepoint is /.*/richer\n$`)
	s.does(0, []string{"state", "set", "richer", "1", "--add", "--set", "item=70", "--set", "row_count=7", "--out", "more"}, `^1 entry added; the new savepoint is /.*/more\n$`)
	s.does(0, []string{"state", "set", "more", "1", "--from", "SELECT item + 70 AS item, row_count FROM `1/groups` WHERE item < 3", "--out", "most"}, `^2 entries added; `)
	s.does(0, []string{"state", "query", "most", "SELECT item, row_count > 9999, max_price FROM `1/groups` WHERE item = 1 OR item >= 70 ORDER BY item", "-o", "csv"},
		`^1,true,99\n70,false,\n71,true,\n72,false,\n$`)
	parquet := s.does(0, []string{"state", "show", "most", "1", "-o", "parquet"}, `^PAR1`)
	if !strings.HasSuffix(parquet, "PAR1") || !strings.Contains(parquet, "max_price") {
		t.Errorf("this is no Parquet file: %q", parquet)
	}
	s.does(1, []string{"state", "query", "most", "SHOW TABLES", "-o", "parquet"}, `--output parquet needs a SELECT`)
	s.does(1, []string{"state", "ls", "most", "-o", "parquet"}, `--output cannot be 'parquet'; it is table, json or csv`)
	s.does(1, []string{"state", "set", at, "1", "--delete", "--where", "TRUE", "--out", "fixed"}, `there is a savepoint at .* already`)
	s.file("again.sql", flow)
	s.prints(s.interrupted(syscall.SIGINT, "again.sql", "run", "--from", "most", "again.sql"), `^job again.sql starts from /.*/most`)
	s.prints(s.interrupted(syscall.SIGINT, "flow.sql", "run", "--fresh", "flow.sql"), `^job flow.sql starts afresh, as --fresh says; checkpoint \d+ is ignored\nflow.sql stopped`)
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "just now", 999 * time.Millisecond: "just now", 4900 * time.Millisecond: "4 s ago",
		90 * time.Second: "1 min 30 s ago"} {
		if got := ago(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{"a/b-c.sql": "a/b-c.sql", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'"} {
		if got := quoted(in); got != want {
			t.Errorf("quoted(%q) is %s, want %s", in, got, want)
		}
	}
}
