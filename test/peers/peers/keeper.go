package peers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Real servers die, also when nobody has killed them. What a test finds out about the program must not depend on
// that, so whatever was started here is looked at all the time, and started again when it has ended; clients ask
// again. Nothing is forgiven by it: a server that comes back has the data that it had promised to keep.

const (
	lookEvery = 300 * time.Millisecond
	// settle is how long after a server came back its clients may still fail: they wait longer and longer between
	// their attempts, and may have to ask how what they had begun has ended.
	settle = 70 * time.Second
	// patience is how long Again asks: a server may die more than once, on a machine with much else to do.
	patience = 3 * time.Minute
	// lingering is how long a server that says that it is about to end may take to do so.
	lingering = 30 * time.Second
)

// keeper is the part of Peers that starts systems again.
type keeper struct {
	stop chan struct{} // closed to end the goroutine; nil while there is none
	done chan struct{}

	starting atomic.Bool // a system is being started again, with mu held

	mu   sync.Mutex
	keep map[string]*kept
}

// kept is a system that was started.
type kept struct {
	on     bool // it was started and not wiped
	held   bool // a test has killed or stopped it, and starts it again itself
	coming bool // a test starts it again
	meant  bool // a test has it end now
	down   time.Time
	back   time.Time
	starts int // how often it was started again
	deaths int // how many of them were for no reason that a test knows of
	failed int // attempts to start it in a row
	away   time.Duration
}

// watch looks after a system from now on.
func (p *Peers) watch(name string) {
	k := &p.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keep == nil {
		k.keep = map[string]*kept{}
	}
	if k.keep[name] == nil {
		k.keep[name] = &kept{}
	}
	k.keep[name].on = true
	if k.stop != nil {
		return
	}
	k.stop, k.done = make(chan struct{}), make(chan struct{})
	go func(stop, done chan struct{}) {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(lookEvery):
			}
			k.mu.Lock()
			for _, name := range slices.Sorted(maps.Keys(k.keep)) {
				p.tend(name, k.keep[name])
			}
			k.mu.Unlock()
		}
	}(k.stop, k.done)
}

// Adopt looks after a system that runs already, as if it had been started here, but does not wipe it.
func (p *Peers) Adopt(name string) error {
	if err := p.run(name, "status"); err != nil {
		return err
	}
	p.watch(name)
	return nil
}

// unwatch ends the looking after, and returns when nothing is being started any more.
func (p *Peers) unwatch() {
	k := &p.keeper
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.stop = nil
	for _, s := range k.keep {
		*s = kept{starts: s.starts, deaths: s.deaths, away: s.away}
	}
	k.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}

// tend starts a system again if it has ended. The caller holds keeper.mu.
func (p *Peers) tend(name string, s *kept) {
	if !s.on || s.held || s.failed > 4 {
		return
	}
	if p.up(name, s) {
		s.coming = false
		if s.meant && time.Since(s.down) > lingering {
			_ = p.run(name, killOf(name)...) // it hangs on its way to its end
		}
		return
	}
	p.keeper.starting.Store(true)
	defer p.keeper.starting.Store(false)
	at, why := time.Now(), ""
	if !s.meant && !s.coming {
		why = p.why(name)
	}
	said, err := p.saying(name, "start")
	switch {
	case err != nil:
		s.failed++
		fmt.Fprintf(os.Stderr, "%s could not be started again, attempt %d: %v\n", name, s.failed, err)
		return
	case strings.Contains(said, "already runs"):
		return // it was on its way to its end, and seemed to be there; or a test was faster
	case why != "":
		s.deaths++
		fmt.Fprintf(os.Stderr, "%s has ended by itself at %s:\n%s\n", name, at.Format("15:04:05.000"), indent(why))
	}
	s.starts, s.failed, s.meant, s.coming = s.starts+1, 0, false, false
	s.back = time.Now()
	s.away += s.back.Sub(s.down)
	s.down = time.Time{}
}

// up looks whether a system runs. The caller holds keeper.mu.
func (p *Peers) up(name string, s *kept) bool {
	if p.run(name, "status") == nil {
		if !s.meant {
			s.down = time.Time{}
		}
		return true
	}
	if s.down.IsZero() {
		s.down = time.Now()
	}
	return false
}

// why is what the log of a system says of its end.
func (p *Peers) why(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := p.command(ctx, name, "why").Output()
	if err != nil || len(strings.TrimSpace(string(out))) == 0 {
		return "its log says nothing"
	}
	return Tail(strings.TrimRight(string(out), "\n"))
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// Crash has a system die, by the command of its script ("kill"), and comes back at once; it is then started again
// by itself, and counts as away until then. It reports whether there was something to kill: it may be down.
func (p *Peers) Crash(name string, command ...string) bool {
	k := &p.keeper
	if k.starting.Load() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.keep[name]
	if s == nil || !s.on || s.held || s.meant || !p.up(name, s) {
		return false
	}
	s.meant, s.down = true, time.Now()
	if err := p.run(name, command...); err != nil {
		s.meant = false // it has ended by itself just now
		return false
	}
	return true
}

// note takes notice of what a test does with a system itself: one that it kills or stops is left alone until it
// is started.
func (p *Peers) note(name string, args []string) {
	k := &p.keeper
	if len(args) == 0 || !slices.Contains([]string{"kill", "stop", "start"}, args[0]) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.keep[name]
	if s == nil || !s.on {
		return
	}
	if s.held = args[0] != "start"; s.held {
		s.down = time.Now()
	} else {
		s.coming, s.back, s.down = true, time.Now(), time.Time{}
	}
}

// Away reports whether a system is down, or was until a moment ago, so that its clients may fail.
func (p *Peers) Away() bool {
	k := &p.keeper
	if k.starting.Load() {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, s := range k.keep {
		if s.on && (s.held || s.meant || time.Since(s.back) < settle || !p.up(name, s)) {
			return true
		}
	}
	return false
}

// Await waits until all systems run.
func (p *Peers) Await() error {
	var down string
	for end := time.Now().Add(startWithin); time.Now().Before(end); <-time.After(lookEvery) {
		down = ""
		p.keeper.mu.Lock()
		for name, s := range p.keeper.keep {
			if s.on && (s.meant || !p.up(name, s)) {
				down = name
			}
		}
		p.keeper.mu.Unlock()
		if down == "" {
			return nil
		}
	}
	return fmt.Errorf("%s does not come back", down)
}

// gone matches what clients say of a server that has died, is about to, or is not quite there yet.
var gone = regexp.MustCompile(`(?i)shutting down|starting up|connection refused|connection reset|broken pipe|\bEOF\b|closed the connection|recovery mode|` +
	`server closed|terminating connection|crash of another|use of closed|i/o timeout|not available|not ?coordinator|coordinator.*load|disconnected|unable to (dial|request)|` +
	`could not connect|connection to server|Empty reply|503 Service|\(ABORTED\)`)

// Again calls f until it succeeds, for as long as it fails because a system is away: because that is down, or f's
// error says so. Whatever else f says is returned at once. f may be called after it has done what it is to do, as
// the answer may have been lost.
func (p *Peers) Again(name string, f func() error) error {
	from, ending := time.Now(), time.Time{}
	for {
		began := time.Now()
		err := f()
		if err == nil {
			return nil
		}
		text := err.Error()
		if !gone.MatchString(text) && !p.down(name, began) || time.Since(from) > patience {
			return err
		}
		switch {
		case !strings.Contains(text, "shutting down"):
			ending = time.Time{}
		case ending.IsZero():
			ending = time.Now()
		case time.Since(ending) > lingering:
			// It hangs while it writes down its fatal error.
			fmt.Fprintf(os.Stderr, "%s is shutting down for more than %s:\n%s\n", name, lingering, indent(p.why(name)))
			p.Crash(name, killOf(name)...)
			ending = time.Time{}
		}
		<-time.After(lookEvery)
	}
}

// Excuses reports whether a program that ended with a text may have done so because a system is away: because one
// is, or was until a moment ago. If the text says so, it may take a while to be seen.
func (p *Peers) Excuses(text string) bool {
	for end := time.Now().Add(lingering); ; <-time.After(lookEvery) {
		switch {
		case p.Away():
			return true
		case !gone.MatchString(text) || time.Now().After(end):
			return false
		}
	}
}

func killOf(name string) []string {
	if name == "kafka" {
		return []string{"kill", "1"}
	}
	return []string{"kill"}
}

// down reports whether a system is down, or was since a moment.
func (p *Peers) down(name string, since time.Time) bool {
	k := &p.keeper
	if k.starting.Load() {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.keep[name]
	return s != nil && s.on && (s.held || s.meant || s.back.After(since) || !p.up(name, s))
}

// Starts is how often a system was started again so far, and for how long it was away in all.
func (p *Peers) Starts(name string) (times int, away time.Duration) {
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	if s := p.keeper.keep[name]; s != nil {
		return s.starts, s.away
	}
	return 0, 0
}

// told says of each system that was started again how often, "" if none was.
func (p *Peers) told() string {
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.keeper.keep)) {
		if s := p.keeper.keep[name]; s.starts > 0 {
			all = append(all, fmt.Sprintf("%s was started %d times, %d of them after it had ended by itself", name, s.starts, s.deaths))
		}
	}
	return strings.Join(all, "; ")
}
