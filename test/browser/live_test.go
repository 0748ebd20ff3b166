package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestLive watches a board while things happen: rows come, windows become final, a generation is promoted.
func TestLive(t *testing.T) {
	b := start(t, 1440, 900)
	w := newWorld(t, board())
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: config(t, boardYAML)})
	b.open(url)
	number, table := `[data-id="t1"]`, `[data-id="t6"]`
	b.sees(number, "no rows yet")
	b.sees(number+" .trust", "nothing was sealed yet")

	// The first window.
	w.hour("live", 8, false, 0)
	w.progress("live", wm(9), nil)
	want := departures("EWR", 8) + departures("JFK", 8) + departures("LGA", 8)
	b.sees(number+" .big", fmt.Sprint(want, " flights"))
	b.sees(number+" .badges", "provisional")
	b.sees(number+" .trust", "watermark Jan 30 09:00")
	b.sees(number+" .trust", "late 12")
	b.sees(number+" .trust", "duplicates 341")

	// A correction: the same window, another revision.
	w.hour("live", 8, false, 1)
	w.progress("live", wm(10), nil)
	b.sees(number+" .big", fmt.Sprint(want+3, " flights"))
	b.sees(number+" .when", "rev 2")

	// Nothing corrects it any more: without a new row, the watermark says so.
	w.progress("live", wm(11), nil)
	b.sees(number+" .badges", "final")
	b.sees(table+" tbody", "final")
	if text := b.text(table + " tbody"); strings.Contains(text, "provisional") {
		t.Errorf("all windows are over, and the table says %s", text)
	}

	// One of who must report does not, and a split is idle.
	w.hour("live", 11, false, 0)
	w.progress("live", wm(12), func(p *connector.Progress) {
		p.Expected, p.Seen, p.Missing, p.SplitsIdle, p.SplitsPassed, p.IdleSplits = 412, 411, []string{"Store 17"}, 1, 3, []string{"reports-2"}
	})
	b.sees(number+" .trust", "411 of 412, missing Store 17")
	b.sees(number+" .trust", "3 of 4 passed, 1 idle: reports-2")
	b.sees(number+" .badges", "closed while a split was idle")

	// Rows come too late for a window: it needs a backfill, which a promoted generation brings.
	w.progress("live", wm(12), func(p *connector.Progress) {
		p.Missed = []connector.MissedWindow{{Start: wm(8), End: wm(9), Rows: 5}}
	})
	b.sees(table+" tbody", "needs backfill")
	w.hour("g2", 8, true, 40)
	w.progress("g2", vec.MaxTime, func(p *connector.Progress) { p.At++ })
	if text := b.text(table + " tbody"); strings.Contains(text, "g2") {
		t.Errorf("a generation that nobody promoted is shown: %s", text)
	}
	b.click("#view-closed")
	b.sees(number, "no window is final in a reconciled generation yet")
	w.reconciled("g2", wm(8), wm(9))
	w.promote("g2", wm(8), wm(9))
	b.sees(number+" .big", fmt.Sprint(want+120, " flights"))
	b.sees(number+" .trust", "generation g2")
	b.click("#view-all")
	b.sees(table+" tbody", "g2")
	if text := b.text(table + " tbody"); strings.Contains(text, "needs backfill") {
		t.Errorf("after the backfill: %s", text)
	}
	b.sees(number+" .when", "Jan 30 11:00")
	b.sees("#sources", "2013-01-30 08:00 to 2013-01-30 09:00")
	b.quiet(url)
}

// TestUnknownTable shows a table of another job, for which nobody made a board, from memory.
func TestUnknownTable(t *testing.T) {
	b := start(t, 1440, 900)
	table := sensors()
	l := dashboard.NewLive(table, 5000)
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: table, Store: l, Memory: true}}})
	b.open(url)
	b.sees(`[data-id="t1"]`, "no rows yet")
	for h := range int64(30) {
		for phase := range int64(3) {
			e := types.I128((7_000+h*h*37+phase*900)*10_000 + 1234)
			l.Add(batch(table, []types.Value{"north", phase + 1, types.TS(wm(h), 0), types.TS(wm(h+1), 0), e, 3.5 + float64(h)/7, nil, int64(1)}))
		}
	}
	l.Note(connector.Progress{Lineage: "l", Generation: "live", Watermark: wm(29), MaxTime: wm(29), Splits: 1, SplitsPassed: 1, At: wm(29)})
	b.sees("#title", "sensor_power")
	b.sees(`[data-id="t1"] .values`, "north · 1 38,117.1234 kWh provisional")
	b.sees(`[data-id="t1"] .badges`, "unsealed")
	b.sees(`[data-id="t1"] .trust`, "in memory 90 of at most 5,000 keys")
	b.sees(`[data-id="t4"] thead`, "energy kWh")
	b.shoot(filepath.Join(t.TempDir(), "memory.png"))
	// A correction, and the end.
	l.Add(batch(table, []types.Value{"north", int64(1), types.TS(wm(29), 0), types.TS(wm(30), 0), types.I128(10_000), 9.9, "mended", int64(2)}))
	l.Note(connector.Progress{Lineage: "l", Checkpoint: 1, Generation: "live", Watermark: vec.MaxTime, Splits: 1, SplitsDone: 1, At: wm(30)})
	b.sees(`[data-id="t1"] .values`, "north · 1 1.0000 kWh final rev 2")
	b.sees(`[data-id="t1"] .trust`, "watermark input ended")
	b.quiet(url)
}

// TestKeyboard reads a chart, edits the board and reaches everything without a mouse.
func TestKeyboard(t *testing.T) {
	b := start(t, 1440, 900)
	w := newWorld(t, board())
	w.day()
	path := config(t, boardYAML)
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: path})
	b.open(url)
	b.sees(`[data-id="t5"] .readout`, "Jan 31 15:00")
	// Everything that can have the focus is reached by Tab, in the order of the page, and shows it.
	seen := map[string]bool{}
	last := 0.0
	for range 30 {
		b.keys(keyTab)
		var at struct {
			Name    string
			Top     float64
			Outline string
		}
		b.eval(`const e = document.activeElement, r = e.getBoundingClientRect();
			return {Name: e.id || e.className || e.tagName, Top: r.top + scrollY, Outline: getComputedStyle(e).outlineStyle}`, &at)
		if at.Name == "BODY" {
			break
		}
		seen[at.Name] = true
		if at.Outline == "none" {
			t.Errorf("%s has the focus and does not show it", at.Name)
		}
		if at.Name != "skip" && at.Top < last-60 {
			t.Errorf("%s comes behind something lower on the page", at.Name)
		}
		last = max(last, at.Top)
	}
	for _, want := range []string{"skip", "view-all", "view-closed", "edit", "plot", "scroll"} {
		if !seen[want] {
			t.Errorf("Tab does not reach %s; it reached %v", want, seen)
		}
	}
	// Arrow keys read a chart window by window.
	var none any
	b.eval(`document.querySelector('[data-id="t5"] .plot').focus()`, &none)
	b.keys(keyLeft, keyLeft)
	b.sees(`[data-id="t5"] .readout`, "Jan 31 13:00")
	b.keys(keyEsc)
	b.sees(`[data-id="t5"] .readout`, "Jan 31 15:00")
	b.click(`[data-id="t5"] .toggle`)
	b.sees(`[data-id="t5"] tbody`, "Jan 31 06:00–07:00")
	b.sees(`[data-id="t5"] tbody`, "needs backfill")

	// The board is edited: a tile is added in the dialog, saved to the file, and removed again.
	b.eval(`document.querySelector('#edit').focus()`, &none)
	b.keys(keyEnter)
	b.sees("#notice", "Changes are saved to board.yaml")
	b.click(".add")
	b.sees(".editor h2", "A new tile")
	b.click(`.editor input[name=kind][value=number]`)
	b.eval(`const f = document.querySelector('.editor form'); f.elements.fn.value = 'max'; f.elements.column.value = 'distance'; f.elements.title.value = 'Farthest';
		f.dispatchEvent(new Event('input', {bubbles: true}))`, &none)
	b.sees(".editor .preview", "Farthest")
	b.sees(".editor .preview .big", "miles")
	b.shootView(filepath.Join(images(t), "dashboard-edit.png"))
	b.click(".editor .main")
	b.sees(`[data-id="t7"]`, "Farthest")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "value: max(distance)") || !strings.HasPrefix(string(text), "# Departures from New York.") {
		t.Errorf("%v, the file is\n%s", err, text)
	}
	b.click(`[data-focus="Removet7"]`)
	b.sees(`[data-focus="Removet7"]`, "Really remove?")
	b.click(`[data-focus="Removet7"]`)
	within(t, waitFor, "the tile is gone", func() bool { return b.text(`[data-id="t7"]`) == "" })
	// A column that is not there is refused, with the reason in the dialog.
	b.click(`[data-focus="Changet1"]`)
	b.eval(`const f = document.querySelector('.editor form'); f.elements.last.value = 'soon'; f.dispatchEvent(new Event('input', {bubbles: true}))`, &none)
	b.sees(".editor > .tile-error", `last cannot be "soon"`)
	b.keys(keyEsc)
	b.quietBut(url, "400")
}

// TestRestart takes the server away and brings it back: the page connects again by itself.
func TestRestart(t *testing.T) {
	b := start(t, 1024, 700)
	w := newWorld(t, board())
	w.day()
	s, err := dashboard.New(dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: config(t, boardYAML), Local: true})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop := runAt(t, s, "127.0.0.1:0")
	b.open("http://" + addr)
	b.sees("#link", "live")
	stop()
	b.sees("#link", "reconnecting")
	_, _ = runAt(t, s, addr)
	w.hour("live", 40, false, 100)
	w.progress("live", wm(41), nil)
	b.sees("#link", "live")
	b.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
}

// TestAccessible checks what can be checked by itself: names, and contrast of text in both schemes.
func TestAccessible(t *testing.T) {
	b := start(t, 1440, 900)
	w := newWorld(t, board())
	w.day()
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: config(t, boardYAML)})
	b.open(url)
	b.sees(`[data-id="t6"] tbody`, "provisional")
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		var bad []string
		b.eval(contrastScript, &bad)
		for _, x := range bad {
			t.Errorf("dark %v: %s", dark, x)
		}
	}
	var nameless []string
	b.eval(`return [...document.querySelectorAll('button, a, input, select, [tabindex="0"]')].filter((e) => !(e.innerText || e.getAttribute('aria-label') || e.closest('label'))).map((e) => e.outerHTML.slice(0, 80))`, &nameless)
	for _, x := range nameless {
		t.Errorf("has no name: %s", x)
	}
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-reduced-motion", "value": "reduce"}}})
	w.hour("live", 40, false, 5)
	w.progress("live", wm(41), nil)
	b.sees(`[data-id="t1"] .when`, "Jan 31 16:00")
	var moving json.RawMessage
	b.eval(`return document.getAnimations().length`, &moving)
	if string(moving) != "0" {
		t.Errorf("%s things move although less motion is asked for", moving)
	}
}

// contrastScript lists texts whose contrast with what is behind them is below 4.5.
const contrastScript = `
const lum = (c) => { const v = c.map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
const bad = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest('.skip, script, noscript, :disabled')) continue;
  let back = e, bg;
  while (back && (bg = rgb(getComputedStyle(back).backgroundColor)).length === 4 && bg[3] === 0) back = back.parentElement;
  const a = lum(rgb(getComputedStyle(e).color)), b = lum(bg);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push(walk.currentNode.data.trim().slice(0, 30) + ' has contrast ' + ratio.toFixed(2));
}
return [...new Set(bad)];
`
