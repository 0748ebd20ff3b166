package browser

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/types"
)

// away is a store whose target can be taken away.
type away struct {
	*results.Memory
	mu  sync.Mutex
	err error
}

func (a *away) take(err error) {
	a.mu.Lock()
	a.err = err
	a.mu.Unlock()
}

func (a *away) Pointer(ctx context.Context) (results.Pointer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return results.Pointer{}, a.err
	}
	return a.Memory.Pointer(ctx)
}

// TestTargetAway takes the target away while two browsers watch: both say so, keep what they saw, and go on.
func TestTargetAway(t *testing.T) {
	b := start(t, 1024, 700)
	other := start(t, 360, 740)
	w := newWorld(t, board())
	w.day()
	store := &away{Memory: w.store}
	path := config(t, boardYAML)
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: store}}, Config: path})
	for _, x := range []*browser{b, other} {
		x.open(url)
		x.sees(`[data-id="t1"] .when`, "Jan 31 15:00")
	}
	store.take(errors.New("connection refused"))
	for _, x := range []*browser{b, other} {
		x.sees(`[data-id="t1"] .tile-error`, "table board cannot be read: connection refused")
		x.sees(`[data-id="t1"] .when`, "Jan 31 15:00") // as it was
	}
	w.hour("live", 40, false, 100)
	w.progress("live", wm(41), nil)
	store.take(nil)
	for _, x := range []*browser{b, other} {
		x.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
		if text := x.text(`[data-id="t1"] .tile-error`); text != "" {
			t.Errorf("the target is back, and the tile says %s", text)
		}
	}
	// What one of them changes the other one sees, and a file changed by hand both.
	b.click("#edit")
	b.click(`[data-focus="Removet4"]`)
	b.click(`[data-focus="Removet4"]`)
	for _, x := range []*browser{b, other} {
		within(t, waitFor, "the tile is gone", func() bool { return !strings.Contains(x.text("#grid"), "Miles, last 24 h") })
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ from, to, sees string }{
		{"value: avg(delay)", "value: avg(delya)", `table board has no column "delya"`},
		{"kind: bars", "kind: pie", "it is one of number, series, bars, table"},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), change.from, change.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*browser{b, other} {
			x.sees("body", change.sees)
			x.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
		}
	}
	other.dark(true)
	other.shoot(filepath.Join(t.TempDir(), "phone-dark.png"))
	b.quiet(url)
	other.quiet(url)
}

// proxy stands before a page: it may be turned off, and say that the files of the page are other ones.
type proxy struct {
	mu      sync.Mutex
	off     bool
	updated bool
	ended   chan struct{} // closed when what is under way is cut off
}

func (p *proxy) turn(off, updated bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off, p.updated = off, updated
	close(p.ended)
	p.ended = make(chan struct{})
}

func (p *proxy) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		off, updated, ended := p.off, p.updated, p.ended
		p.mu.Unlock()
		if off {
			http.Error(w, "bad gateway", http.StatusBadGateway)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-ended:
			case <-ctx.Done():
			}
			cancel()
		}()
		if updated {
			w = rewriter{w}
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// rewriter says of the page's files that they are other ones.
type rewriter struct{ http.ResponseWriter }

func (r rewriter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r rewriter) Write(b []byte) (int, error) {
	if _, err := r.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(`"page":"`), []byte(`"page":"newer`))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// TestOldTab has a page behind a proxy that answers for a server which is away, and comes back as a newer one.
func TestOldTab(t *testing.T) {
	b := start(t, 1024, 700)
	w := newWorld(t, board())
	w.day()
	s, err := dashboard.New(dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: config(t, boardYAML), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ended: make(chan struct{})}
	addr, stop := runAt(t, s, "127.0.0.1:0", p.before)
	defer stop()
	b.open("http://" + addr)
	b.sees(`[data-id="t1"] .when`, "Jan 31 15:00")
	var none, old any
	b.eval(`window.old = true`, &none)
	p.turn(true, false)
	b.sees("#link", "reconnecting")
	w.hour("live", 40, false, 100)
	w.progress("live", wm(41), nil)
	p.turn(false, false)
	b.sees("#link", "live")
	b.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
	if b.eval(`return window.old === true`, &old); old != true {
		t.Error("the page was loaded anew although it is what it was")
	}
	p.turn(false, true)
	within(t, waitFor, "the page is loaded anew", func() bool { b.eval(`return window.old === true`, &old); return old == false })
	b.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
	b.sees("#link", "live")
}

// TestStrangeKeys shows keys and texts that look like code, are long, or NULL.
func TestStrangeKeys(t *testing.T) {
	for _, size := range [][2]int{{1440, 900}, {360, 740}} {
		b := start(t, size[0], size[1])
		table := sensors()
		l := dashboard.NewLive(table, 0)
		code := `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`
		for i, site := range []types.Value{code, strings.Repeat("longlonglong", 2000), "", nil, `"'&<>` + "\u202e\u0000\n"} {
			l.Add(batch(table, []types.Value{site, int64(1), types.TS(wm(1), 0), types.TS(wm(2), 0), types.I128(10_000 * int64(i+1)), 1.5, code, int64(1)}))
		}
		l.Note(connector.Progress{Lineage: "l", Generation: "live", Watermark: wm(1), MaxTime: wm(1), Splits: 1, SplitsIdle: 1, IdleSplits: []string{code}, At: wm(1),
			Expected: 2, Seen: 1, Missing: []string{code}})
		yaml := "title: \"<b onclick=x>&\"\nrefresh: 200ms\ntiles:\n- {kind: series, value: energy, by: site}\n- {kind: bars, value: energy, by: site}\n- {kind: table, width: 4}\n- {kind: number, value: sum(energy), where: {site: '" + code + "'}}\n"
		url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: table, Store: l, Memory: true}}, Config: config(t, yaml)})
		b.open(url)
		b.sees(`[data-id="t3"] tbody`, "<img src=x onerror=")
		b.sees(`[data-id="t3"] tbody`, "NULL")
		b.sees(`[data-id="t2"]`, "<img src=x onerror=")
		b.sees(`[data-id="t1"] .values`, "<img src=x onerror=")
		b.sees(`[data-id="t1"] .trust`, "missing <img src=x")
		b.sees(`[data-id="t4"] .big`, "1.0000 kWh")
		var bad any
		b.eval(`return window.hacked || document.querySelector('main img, main script') !== null`, &bad)
		if bad != false {
			t.Errorf("a key became code: %v", bad)
		}
		var wide []float64
		b.eval("return [document.documentElement.scrollWidth, innerWidth]", &wide)
		if wide[0] > wide[1] {
			t.Errorf("the page is %v wide in a window of %v", wide[0], wide[1])
		}
		b.shoot(filepath.Join(t.TempDir(), "strange.png"))
		b.quiet(url)
	}
}
