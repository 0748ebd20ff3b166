package main

import (
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/bench/nexmark"
)

func TestRun_CountsEveryBid(t *testing.T) {
	dir := t.TempDir()
	// several chunks, so that lines are cut in two
	c, err := nexmark.WriteFiles(dir, nexmark.Config{Events: 20_000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range []string{"0,1,2,3,4,5,6", "2"} {
		rows, err := run(filepath.Join(dir, "bid.json"), columns)
		if err != nil || rows != c.Bids {
			t.Errorf("columns %s: %d rows, %v, want %d", columns, rows, err, c.Bids)
		}
	}
	if _, err := run(filepath.Join(dir, "bid.json"), "7"); err == nil {
		t.Error("column 7 was taken")
	}
}
