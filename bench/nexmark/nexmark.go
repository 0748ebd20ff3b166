// Package nexmark makes the events of the Nexmark auction benchmark: as JSON lines for files, or
// straight into columns. The mix and the distributions follow the public description of Nexmark's
// generator: of every 50 events 1 is a person, 3 are auctions and 46 are bids; half of the bids go
// to a hot auction, three quarters come from a hot bidder, three quarters of the auctions belong
// to a hot seller; prices are log-uniform; padding brings a person, an auction and a bid to about
// 200, 500 and 100 bytes. Event time advances by 1/Rate a second an event.
//
// Everything depends only on the Config: the same Config gives the same events on every machine,
// in files and in columns alike.
//
// A Generator is one cursor and belongs to one goroutine; several may run side by side, one a part
// (Config.Parts). Stability: internal use.
package nexmark

import (
	"errors"
	"fmt"
	"time"
)

// Numbers of events of each kind in a block of Block events.
const (
	PersonsABlock  = 1
	AuctionsABlock = 3
	BidsABlock     = 46
	Block          = PersonsABlock + AuctionsABlock + BidsABlock
)

const (
	firstID       = 1000 // of people and of auctions
	firstCategory = 10
	categories    = 5
	inFlight      = 100  // auctions that get bids at a time
	activePeople  = 1000 // people that sell and bid at a time
	idLead        = 10   // ids that may be used a little before they exist
	hotGroup      = 100  // one hot auction, seller and bidder in so many
	channels      = 10000
	hotSites      = 4
	paddingBytes  = 1 << 20
)

// Config says which events to make. The zero value means the default of each field, except Events.
type Config struct {
	Events int64     // of all three kinds; 0 for no end
	Rate   int64     // events a second of event time; default 10,000
	Start  time.Time // of the first event; default 2025-06-30 23:55:00 UTC
	Seed   uint64    // default 1
	// Parts splits the events among generators that run side by side: the one with Part p makes
	// the blocks of Block events whose number is p modulo Parts, from a seed of its own. One part
	// (0 or 1) makes what the files hold.
	Parts, Part int64
}

// Validate names the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Events < 0:
		return errors.New("events: must not be negative")
	case c.Rate < 0:
		return errors.New("rate: must be positive")
	case c.Part < 0 || c.Part >= max(c.Parts, 1):
		return fmt.Errorf("part %d: there are parts 0 to %d", c.Part, max(c.Parts, 1)-1)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Rate == 0 {
		c.Rate = 10_000
	}
	if c.Start.IsZero() {
		c.Start = time.Date(2025, 6, 30, 23, 55, 0, 0, time.UTC)
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	c.Parts = max(c.Parts, 1)
	return c
}

var (
	firstNames = []string{
		"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
	}
	lastNames = []string{
		"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
	}
	cities = []string{
		"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle",
		"Kent", "Cheyenne",
	}
	states      = []string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	hotChannels = [hotSites]string{"Google", "Facebook", "Baidu", "Apple"}
)
