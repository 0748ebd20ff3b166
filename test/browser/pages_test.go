package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/types"
)

// TestPages turns the pages of a table by keyboard and on a phone, while rows come.
func TestPages(t *testing.T) {
	yaml := "title: Pages\nrefresh: 200ms\ntiles:\n- {kind: table, columns: [window_start, origin, departures], order: [window_start, origin], limit: 50}\n- {kind: series, value: departures, by: origin, last: all}\n"
	for _, size := range [][2]int{{1440, 900}, {390, 844}} {
		b := start(t, size[0], size[1])
		w := newWorld(t, board())
		w.day() // 40 hours of three airports
		url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Config: config(t, yaml)})
		table := `[data-id="t1"]`
		press := func(name string) {
			t.Helper()
			var ok bool
			b.eval(fmt.Sprintf(`const e = document.querySelector('%s .turns [title="%s page"]'); e.focus(); return document.activeElement === e`, table, name), &ok)
			if !ok {
				t.Fatalf("%s cannot have the focus", name)
			}
			b.keys(keyEnter)
		}
		b.open(url)
		b.sees(table+" .place", "1\u201350 of 120 rows")
		b.sees(table+" tbody tr", "2013-01-30 00:00 EWR")
		press("Next")
		b.sees(table+" .place", "51\u2013100 of 120 rows")
		b.sees(table+" tbody tr", "2013-01-30 16:00 LGA")
		press("Last")
		b.sees(table+" .place", "101\u2013120 of 120 rows")
		b.sees(table+" tbody", "2013-01-31 15:00 LGA provisional")
		var at struct {
			Focus    bool
			Disabled string
			Top      float64
			High     float64
		}
		b.eval(fmt.Sprintf(`const e = document.querySelector('%s .turns [title="Last page"]'); return {Focus: document.activeElement === e, Disabled: e.getAttribute('aria-disabled'), High: e.getBoundingClientRect().height}`, table), &at)
		if !at.Focus || at.Disabled != "true" || size[0] < 500 && at.High < 40 {
			t.Errorf("at the last page: %+v", at)
		}
		// A page that is not the first one is live too, and the first one did not come back.
		w.hour("live", 39, false, 1000)
		w.hour("live", 40, false, 0)
		w.progress("live", wm(41), nil)
		b.sees(table+" .place", "101\u2013123 of 123 rows")
		b.sees(table+" tbody", "2013-01-31 16:00 LGA provisional")
		b.sees(table+" tbody", fmt.Sprintf("2013-01-31 15:00 JFK provisional 1,%03d", departures("JFK", 39)))
		press("Previous")
		b.sees(table+" .place", "51\u2013100 of 123 rows")
		press("First")
		b.sees(table+" .place", "1\u201350 of 123 rows")
		b.sees(table+" tbody tr", "2013-01-30 00:00 EWR")
		// What has the focus keeps it while numbers change.
		var focus bool
		b.eval(`const e = document.querySelector('[data-id="t2"] .toggle'); e.focus(); return document.activeElement === e`, &focus)
		w.hour("live", 41, false, 0)
		w.progress("live", wm(42), nil)
		b.sees(table+" .place", "1\u201350 of 126 rows")
		b.sees(`[data-id="t2"] .values`, fmt.Sprintf("LGA %d", departures("LGA", 41)))
		b.eval(`return document.activeElement === document.querySelector('[data-id="t2"] .toggle')`, &focus)
		if !focus {
			t.Error("the button has lost the focus")
		}
		// The windows of a chart, as a table.
		b.click(`[data-id="t2"] .toggle`)
		b.sees(`[data-id="t2"] .place`, "42 windows")
		b.sees(`[data-id="t2"] tbody`, "Jan 31 17:00\u201318:00")
		var wide []float64
		b.eval("return [document.documentElement.scrollWidth, innerWidth]", &wide)
		if wide[0] > wide[1] {
			t.Errorf("the page is %v wide in a window of %v", wide[0], wide[1])
		}
		b.quiet(url)
	}
}

// TestNull tells NULL from texts that say the same.
func TestNull(t *testing.T) {
	b := start(t, 1440, 900)
	table := sensors()
	l := dashboard.NewLive(table, 0)
	for i, site := range []types.Value{nil, "NULL", "", "north"} {
		for h := range int64(3) {
			l.Add(batch(table, []types.Value{site, int64(1), types.TS(wm(h), 0), types.TS(wm(h+1), 0), types.I128(10_000 * int64(i+1)), nil, map[bool]types.Value{true: nil, false: "NULL"}[i%2 == 0], int64(1)}))
		}
	}
	yaml := "title: Null\nrefresh: 200ms\ntiles:\n- {kind: bars, value: energy, by: site}\n- {kind: series, value: energy, by: site}\n- {kind: table, columns: [site, note, energy], last: 1}\n- {kind: number, value: max(peak)}\n"
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: table, Store: l, Memory: true}}, Config: config(t, yaml)})
	b.open(url)
	b.sees(`[data-id="t1"]`, "north 4.0000 kWh")
	b.sees(`[data-id="t1"]`, "'' 3.0000 kWh")
	b.sees(`[data-id="t1"]`, "'NULL' 2.0000 kWh")
	b.sees(`[data-id="t1"]`, "NULL 1.0000 kWh")
	b.sees(`[data-id="t2"] .values`, "'NULL' 2.0000 kWh")
	b.sees(`[data-id="t3"] tbody`, "NULL provisional NULL 1.0000")
	b.sees(`[data-id="t3"] tbody`, "'NULL' provisional 'NULL' 2.0000")
	b.sees(`[data-id="t4"] .big`, "NULL")
	var marked []string
	b.eval(`return [...document.querySelectorAll('main .null')].filter((e) => getComputedStyle(e).fontStyle === 'italic').map((e) => e.closest('article').dataset.id)`, &marked)
	if got := strings.Join(marked, " "); !strings.HasPrefix(got, "t1 t2 t3") || strings.Count(got, "t1") != 1 || strings.Count(got, "t2") != 1 || !strings.HasSuffix(got, "t4") {
		t.Errorf("set apart as NULL: %s", got)
	}
	b.quiet(url)
}

// pgError is an error as drivers of PostgreSQL have them.
type pgError struct{ state, text string }

func (e pgError) Error() string    { return e.text }
func (e pgError) SQLState() string { return e.state }

// TestTroubles has a target fail in the ways that targets do: each time the page says the cause and what helps, keeps
// what it has seen, and goes on by itself.
func TestTroubles(t *testing.T) {
	b := start(t, 1024, 700)
	w := newWorld(t, board())
	w.day()
	store := &away{Memory: w.store}
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: store}}, Script: "board.sql", Config: config(t, boardYAML)})
	b.open(url)
	b.sees(`[data-id="t1"] .when`, "Jan 31 15:00")
	for _, c := range []struct {
		err            error
		says, remedies string
	}{
		{fmt.Errorf("dial tcp 10.0.0.7:5432: %w", syscall.ECONNREFUSED), "its server does not answer", "Start the server, or look at the network between. The page tries again by itself"},
		{pgError{"28P01", `password authentication failed for user "app"`}, "its server refuses the user or the password", "start it again then"},
		{pgError{"42P01", `relation "board" does not exist`}, "is not in its target", "The job that writes it makes it"},
		{pgError{"42703", `column "delay" does not exist`}, "it has other columns than the script says", "start the page with the script that the job runs"},
		{errors.New("a riddle"), "table board cannot be read: a riddle", ""},
	} {
		store.take(c.err)
		b.sees(`[data-id="t1"] .tile-error`, c.says)
		b.sees(`[data-id="t1"] .tile-error`, c.err.Error())
		b.sees(`[data-id="t1"] .tile-error`, c.remedies)
		b.sees(`[data-id="t1"] .when`, "Jan 31 15:00")
		store.take(nil)
		within(t, waitFor, "the trouble is over", func() bool { return b.text(`[data-id="t1"] .tile-error`) == "" })
	}
	// What needs a backfill says which windows, and what to do; the badge leads there.
	b.sees("#sources", "1 window needs a backfill")
	b.sees("#sources", "Jan 31 06:00\u201307:00 (7)")
	b.sees("#sources", "tidemark backfill board.sql --generation NAME --needed")
	b.click(`[data-id="t6"] .badges a.backfill`)
	var hash json.RawMessage
	b.eval(`return location.hash`, &hash)
	if string(hash) != `"#source-board"` {
		t.Errorf("the badge leads to %s", hash)
	}
	w.progress("live", wm(42), func(p *connector.Progress) {
		p.Missed = []connector.MissedWindow{{Start: wm(31), End: wm(32), Rows: 1}}
	})
	b.sees("#sources", "2 windows need a backfill")
	b.quiet(url)
}
