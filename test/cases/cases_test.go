// Package cases runs SQL jobs that lie outside the repository: a folder of cases, each with a
// script, its input and the rows that Flink 1.20.3 gave for it, and tables of scalar expressions.
// The folder is named by TIDEMARK_CASES, or is shared/cases beside the repository; without it the
// tests are skipped.
//
// What passes is counted, and floor.txt holds the least that must: it is raised by hand as the
// numbers grow, so that they never go down. Flags: -only REGEX runs a few cases or expressions and
// shows why they fail; -failures FILE writes the names of all that fail.
package cases

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
)

var (
	only     = flag.String("only", "", "run only the cases or expressions that match, and do not check the floor")
	failures = flag.String("failures", "", "file that gets the names of the cases and expressions that fail")
)

// workers is how many cases run at the same time.
const workers = 4

// folder returns where the cases lie, or skips the test.
func folder(t *testing.T) string {
	dir := os.Getenv("TIDEMARK_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "spine.list")); err != nil {
		t.Skipf("NOT RUN: there are no cases in %s; set TIDEMARK_CASES", dir)
	}
	return dir
}

// floors reads the least numbers that must pass.
func floors(t *testing.T) map[string]int {
	raw, err := os.ReadFile("floor.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if m[f[0]], err = strconv.Atoi(f[len(f)-1]); err != nil || len(f) != 2 {
			t.Fatalf("floor.txt: %q is not a name and a number", line)
		}
	}
	return m
}

// checkFloor compares what passed with the floor of that name.
func checkFloor(t *testing.T, name string, passed, of int) {
	t.Helper()
	least, ok := floors(t)[name]
	t.Logf("%s: %d of %d pass; the floor is %d", name, passed, of, least)
	switch {
	case !ok:
		t.Errorf("floor.txt has no number for %s", name)
	case *only != "":
	case passed < least:
		t.Errorf("%s: %d pass, %d did: see the failures above", name, passed, least)
	}
}

// spread runs work for 0..n-1 on a few goroutines.
func spread(n int, work func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// record appends names to the file of failures.
func record(t *testing.T, names []string) {
	if *failures == "" || len(names) == 0 {
		return
	}
	f, err := os.OpenFile(*failures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, strings.Join(names, "\n"))
}

// job is one case: what its meta.json says, and how it went.
type job struct {
	name   string
	Tags   []string
	Sink   string // "append", or "changelog": then the output is folded
	failed string // why; empty where it passed
}

func TestJobs(t *testing.T) {
	dir := folder(t)
	jobs := find(t, dir)
	t.Parallel()
	spread(len(jobs), func(i int) {
		if err := jobs[i].run(filepath.Join(dir, jobs[i].name)); err != nil {
			jobs[i].failed = err.Error()
		}
	})
	raw, err := os.ReadFile(filepath.Join(dir, "spine.list"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, name := range strings.Fields(string(raw)) {
		listed[name] = true
	}
	spine, all := 0, 0
	byTag, ofTag := map[string]int{}, map[string]int{}
	var bad []string
	for _, j := range jobs {
		ok := 0
		if j.failed == "" {
			ok = 1
		} else {
			bad = append(bad, j.name)
		}
		all += ok
		if listed[j.name] {
			spine += ok
		}
		for _, tag := range j.Tags {
			byTag[tag] += ok
			ofTag[tag]++
		}
		if ok == 0 && (listed[j.name] || *only != "") {
			t.Logf("FAIL %s: %s", j.name, j.failed)
		}
	}
	record(t, bad)
	var tags []string
	for tag, n := range ofTag {
		tags = append(tags, fmt.Sprintf("%s %d/%d", tag, byTag[tag], n))
	}
	slices.Sort(tags)
	t.Logf("by tag: %s", strings.Join(tags, ", "))
	checkFloor(t, "spine", spine, len(listed))
	checkFloor(t, "jobs", all, len(jobs))
}

// find lists the cases.
func find(t *testing.T, dir string) []*job {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatal("no cases", err)
	}
	match := regexp.MustCompile(*only)
	var jobs []*job
	for _, meta := range metas {
		j := &job{name: filepath.Base(filepath.Dir(meta))}
		raw, err := os.ReadFile(meta)
		if err == nil {
			err = json.Unmarshal(raw, j)
		}
		if err != nil {
			t.Fatal(err)
		}
		if match.MatchString(j.name) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// run runs the case that lies in dir and compares.
func (j *job) run(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "case.sql"))
	if err != nil {
		return err
	}
	want, err := readRows(filepath.Join(dir, "expected.jsonl"))
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "case-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "out")
	sql := strings.NewReplacer(
		"'connector' = '${CHANGELOG_SINK}'", "'connector' = 'filesystem', 'path' = '${OUT}', 'format' = 'debezium-json'",
		"${LOOKUP_SOURCE}", "filesystem").Replace(string(raw))
	e := engine.New(engine.Options{Dir: dir, Define: map[string]string{"DIR": dir, "OUT": out},
		Stdout: discard{}, Stderr: discard{}})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := e.Script(ctx, "case.sql", sql, engine.Handler{}); err != nil {
		return err
	}
	lines, err := readRows(out)
	if err != nil {
		return err
	}
	if j.Sink != "append" {
		if lines, err = foldChanges(lines, primaryKey(sql)); err != nil {
			return err
		}
	}
	return compareRows(want, lines)
}

// discard takes what print sinks write.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
