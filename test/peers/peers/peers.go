// Package peers calls the scripts of test/peers for tests: it starts real systems afresh, once for
// all tests of a program, runs their tools, and wipes what it started.
//
//	var servers = peers.New("KAFKA_PORT=49092")
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//
//	func TestX(t *testing.T) {
//		servers.Need(t, "kafka") // skips the test, aloud, unless TIDEMARK_INTEGRATION is set
//		peers.Output(t, servers.Command(t.Context(), "kafka", "topics", "--list"))
//	}
//
// An instance is its port, so each program takes ports that no other does. Of two runs of the same program
// on one machine the later waits for the end of the other.
package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Variable is the environment variable with which tests may start real systems.
const Variable = "TIDEMARK_INTEGRATION"

// startWithin is how long a system may take to start: it may have to be installed.
const startWithin = 10 * time.Minute

// Wanted reports whether tests may start real systems.
func Wanted() bool { return os.Getenv(Variable) != "" }

// Peers are the systems that a program tests with. Its methods may be called at the same time.
type Peers struct {
	env []string
	dir string // of the scripts, "" for those of this repository

	mu sync.Mutex
	// By script: how installing and starting it went.
	installed, started map[string]error

	keeper keeper
}

// New returns peers whose scripts see the given variables ("KAFKA_PORT=49092") besides the
// environment. Nothing is started.
func New(env ...string) *Peers {
	return &Peers{env: env, installed: map[string]error{}, started: map[string]error{}}
}

// Main runs the tests of a program and then wipes what they started; its result is for os.Exit. before
// are done first, if real systems are wanted; a failure of one ends it.
func (p *Peers) Main(m *testing.M, before ...func() error) int {
	defer p.Wipe()
	if Wanted() {
		for _, f := range before {
			if err := f(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	return m.Run()
}

// Need starts systems afresh, those that were not yet, or skips the test, also where one cannot be had.
func (p *Peers) Need(t testing.TB, names ...string) {
	t.Helper()
	if !Wanted() {
		t.Skipf("SKIPPED: this runs real programs (%s); set %s=1 to have them started", strings.Join(append(names, "the command"), ", "), Variable)
	}
	p.Have(t, names...)
	for _, name := range names {
		if err := p.Start(name); err != nil {
			t.Fatal(err)
		}
	}
	before := p.told()
	t.Cleanup(func() {
		if told := p.told(); told != before && told != "" {
			t.Logf("up to here %s", told)
		}
	})
}

// Have installs programs that are not started, such as readers of tables, or skips the test.
func (p *Peers) Have(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := p.install(name); err != nil {
			t.Skipf("SKIPPED: %s cannot be installed on this machine: %v", name, err)
		}
	}
}

// install fetches a system, once. That it cannot be fetched says something of the machine, and nothing of
// what is tested.
func (p *Peers) install(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err, there := p.installed[name]
	if !there {
		err = p.Run(name, "install")
		p.installed[name] = err
	}
	return err
}

// Start starts a system afresh, unless it was started before: then it says how that went. From then on it is
// started again whenever it has ended, unless by a test that killed or stopped it by Run or Command.
func (p *Peers) Start(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err, there := p.started[name]
	if there {
		return err
	}
	if err := takeTurn(); err != nil {
		return err
	}
	_ = p.Run(name, "wipe") // of a program that was killed
	err = p.Run(name, "start")
	p.started[name] = err
	if err == nil {
		p.watch(name)
	}
	return err
}

// takeTurn waits until no other run of the tests of this folder, be it in another copy of the repository, has
// systems started: it would wipe them. The turn ends with the process.
var takeTurn = sync.OnceValue(func() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	of, err := filepath.Rel(filepath.Dir(filepath.Dir(folder())), dir)
	if err != nil {
		return err
	}
	name := filepath.Join(os.TempDir(), "tidemark-peers-"+strings.ReplaceAll(filepath.ToSlash(of), "/", "-")+".lock")
	turn, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	if err = syscall.Flock(int(turn.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == syscall.EWOULDBLOCK {
		fmt.Fprintf(os.Stderr, "waiting for another run of the tests of %s, which holds %s\n", of, name)
		err = syscall.Flock(int(turn.Fd()), syscall.LOCK_EX)
	}
	return err
})

// turn is the file that is locked by takeTurn; it stays open.
var turn *os.File

// Started reports whether a system was started here, so that a test may kill it.
func (p *Peers) Started(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	err, there := p.started[name]
	return there && err == nil
}

// Wipe ends what was started and removes what it wrote.
func (p *Peers) Wipe() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unwatch()
	var errs []error
	for name := range p.started {
		errs = append(errs, p.Run(name, "wipe"))
	}
	clear(p.started)
	return errors.Join(errs...)
}

// Command is a call of a script.
func (p *Peers) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	p.note(name, args)
	return p.command(ctx, name, args...)
}

func (p *Peers) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	dir := p.dir
	if dir == "" {
		dir = folder()
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name), args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Run calls a script that says nothing worth knowing unless it fails.
func (p *Peers) Run(name string, args ...string) error {
	p.note(name, args)
	return p.run(name, args...)
}

func (p *Peers) run(name string, args ...string) error {
	_, err := p.saying(name, args...)
	return err
}

// saying is run, and returns what the script says.
func (p *Peers) saying(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	out, err := p.command(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("test/peers/%s %s: %w\n%s", name, strings.Join(args, " "), err, Tail(string(out)))
	}
	return string(out), err
}

// folder finds the scripts: the tests of a package run in its folder, somewhere below the root.
var folder = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for err == nil {
		at := filepath.Join(dir, "test", "peers")
		if _, err := os.Stat(filepath.Join(at, "lib", "common.sh")); err == nil {
			return at
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	panic("BUG: no test/peers above the folder in which the test runs")
})

// Output runs a command and returns what it wrote to its standard output. The test ends if it fails.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	text, err := said(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Tool runs a command of a system's script and returns what it wrote to its standard output. It is run again as long as
// it fails because the system is away.
func (p *Peers) Tool(t testing.TB, name string, args ...string) (text string) {
	t.Helper()
	err := p.Again(name, func() (err error) {
		text, err = said(p.Command(t.Context(), name, args...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// said runs a command and returns what it wrote to its standard output. An error has the end of what it wrote to the
// other one.
func said(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, Tail(errs.String()))
	}
	return out.String(), nil
}

// Lines are the lines of what a command wrote.
func Lines(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return slices.Collect(strings.SplitSeq(text, "\n"))
}

// Tail is the end of a long text, for messages.
func Tail(s string) string {
	if len(s) > 4000 {
		return "..." + s[len(s)-4000:]
	}
	return s
}
