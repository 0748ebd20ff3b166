// Package browser drives the dashboard in a real headless Chromium.
package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/internal/dashboard"
)

const boardYAML = `# Departures from New York.
title: Departures from New York
script: board.sql
refresh: 200ms
tiles:
  - title: Departures in the hour
    kind: number
    value: sum(departures)
  - title: Mean delay in the hour
    kind: number
    value: avg(delay)
  - title: By airport
    kind: bars
    value: departures
    by: origin
  - title: Miles, last 24 h
    kind: number
    value: sum(distance)
    last: 24h
  - title: Departures an hour
    kind: series
    value: departures
    by: origin
    width: 2
  - title: Newest windows
    kind: table
    columns: [window_start, origin, departures, delay, distance]
    limit: 60
    width: 2
`

// images is where pictures are kept with TIDEMARK_PICTURES=1; else they are thrown away.
func images(t *testing.T) string {
	if os.Getenv("TIDEMARK_PICTURES") == "" {
		return t.TempDir()
	}
	dir, err := filepath.Abs("../../docs/images")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func config(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "board.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPictures(t *testing.T) {
	b := start(t, 1440, 900)
	w := newWorld(t, board())
	w.day()
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Script: "board.sql", Config: config(t, boardYAML)})
	dir := images(t)
	b.open(url)
	b.sees(`[data-id="t1"] .big`, "flights")
	b.sees(`[data-id="t6"] tbody`, "provisional")
	b.shoot(filepath.Join(dir, "dashboard.png"))
	b.dark(true)
	b.shoot(filepath.Join(dir, "dashboard-dark.png"))
	b.dark(false)
	b.quiet(url)
}

func TestPhone(t *testing.T) {
	b := start(t, 360, 740)
	w := newWorld(t, board())
	w.day()
	url := serve(t, dashboard.Options{Sources: []dashboard.Source{{Table: board(), Store: w.store}}, Script: "board.sql", Config: config(t, boardYAML)})
	b.open(url)
	b.sees(`[data-id="t1"] .big`, "flights")
	b.sees(`[data-id="t6"] tbody`, "provisional")
	var wide []float64
	b.eval("return [document.documentElement.scrollWidth, innerWidth]", &wide)
	if wide[1] != 360 || wide[0] > 360 {
		t.Errorf("the page is %v wide in a window of %v", wide[0], wide[1])
	}
	b.shoot(filepath.Join(images(t), "dashboard-phone.png"))
	b.quiet(url)
}
