// Command nexgen writes Nexmark events as JSON lines:
//
//	go run ./bench/nexmark/cmd/nexgen -n 5000000 -dir /tmp/nexmark
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tidemark-stream/tidemark/bench/nexmark"
)

func main() {
	n := flag.Int64("n", 1_000_000, "events of all three kinds")
	dir := flag.String("dir", ".", "folder for person.json, auction.json, bid.json, side_input.csv")
	parts := flag.Int("parts", 1, "files of each kind; more than 1: person.json and so on are folders")
	rate := flag.Int64("rate", 10_000, "events a second of event time")
	start := flag.String("start", "2025-06-30 23:55:00", "event time of the first event (UTC)")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()
	if err := run(*dir, *parts, *start, nexmark.Config{Events: *n, Rate: *rate, Seed: *seed}); err != nil {
		fmt.Fprintln(os.Stderr, "nexgen:", err)
		os.Exit(1)
	}
}

func run(dir string, parts int, start string, cfg nexmark.Config) error {
	t, err := time.Parse("2006-01-02 15:04:05", start)
	if err != nil {
		return err
	}
	cfg.Start = t
	c, err := nexmark.WriteFiles(dir, cfg, parts)
	if err != nil {
		return err
	}
	fmt.Printf("persons=%d auctions=%d bids=%d last=%s\n", c.Persons, c.Auctions, c.Bids,
		time.UnixMilli(c.LastMs).UTC().Format("2006-01-02 15:04:05.000"))
	return nil
}
