package nexmark

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tidemark-stream/tidemark/vec"
)

// Kind is the kind of an event.
type Kind uint8

// The three kinds.
const (
	PersonEvent Kind = iota
	AuctionEvent
	BidEvent
)

// Bid is one bid. Channel, URL and Extra are places in the generator's Pool.
type Bid struct {
	Auction, Bidder, Price int64
	Channel, URL           vec.Ref
	DateTime               int64 // ms
	Extra                  vec.Ref
}

// Auction is one auction. Its texts are valid until the generator's next event.
type Auction struct {
	ID                    int64
	ItemName, Description []byte
	InitialBid, Reserve   int64
	DateTime, Expires     int64 // ms
	Seller, Category      int64
	Extra                 vec.Ref
}

// Person is one person. Its texts are valid until the generator's next event.
type Person struct {
	ID                         int64
	Name, EmailAddress, CardNo []byte
	City, State                string
	DateTime                   int64 // ms
	Extra                      vec.Ref
}

// Event is one event; only the field that belongs to Kind is set.
type Event struct {
	Kind    Kind
	Person  Person
	Auction Auction
	Bid     Bid
}

// Generator makes events, in the order of their time.
type Generator struct {
	cfg     Config
	r       rng
	id      int64 // of the next event
	startMs int64
	scratch []byte
	one     Bids // of Next

	pool  []byte                    // padding, then channel names and addresses
	sites [channels + hotSites]site // the hot ones last
}

// site is a channel's name and address in the pool.
type site struct{ name, url vec.Ref }

// New returns a generator that stands before the first event of its part.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("nexmark: %w", err)
	}
	cfg = cfg.withDefaults()
	g := &Generator{cfg: cfg, startMs: cfg.Start.UnixMilli(), r: rng{cfg.Seed}}
	g.fillPool()
	if cfg.Part > 0 {
		// Far from any state that part 0 reaches.
		g.r = rng{(&rng{cfg.Seed ^ uint64(cfg.Part)<<32}).next()}
	}
	g.id = cfg.Part * Block
	return g, nil
}

func (g *Generator) fillPool() {
	g.pool = make([]byte, paddingBytes, paddingBytes+channels*128)
	for i := range g.pool {
		g.pool[i] = byte('a' + g.r.intn(26))
	}
	for i, name := range hotChannels {
		g.sites[channels+i] = site{url: g.address(), name: g.put(name)}
	}
	for i := range channels {
		c := &g.sites[i]
		c.url = g.address()
		if g.r.intn(10) > 0 {
			c.url.Len += g.put("&channel_id=" + strconv.Itoa(g.r.intn(math.MaxInt32))).Len
		}
		c.name = g.put("channel-" + strconv.Itoa(i))
	}
}

func (g *Generator) put(s string) vec.Ref {
	at := len(g.pool)
	g.pool = append(g.pool, s...)
	return vec.Ref{Off: uint32(at), Len: uint32(len(s))}
}

func (g *Generator) address() vec.Ref {
	at := len(g.pool)
	g.pool = append(g.pool, "https://www.nexmark.com/"...)
	for range 3 {
		g.pool = append(g.r.word(g.pool, 5, '_'), '/')
	}
	g.pool = append(g.pool, "item.htm?query=1"...)
	return vec.Ref{Off: uint32(at), Len: uint32(len(g.pool) - at)}
}

// Pool returns the bytes that the texts of bids, and the Extra of all events, point into. It never
// changes; it must not be written to.
func (g *Generator) Pool() []byte { return g.pool }

// Position returns the number of the next event, counted over all parts.
func (g *Generator) Position() int64 { return g.id }

func (g *Generator) done() bool { return g.cfg.Events > 0 && g.id >= g.cfg.Events }

// advance moves on by n events, all of the same block.
func (g *Generator) advance(n int64) {
	g.id += n
	if g.cfg.Parts > 1 && g.id%Block == 0 {
		g.id += (g.cfg.Parts - 1) * Block
	}
}

func (g *Generator) at(id int64) int64 { return g.startMs + id*1000/g.cfg.Rate }

// Next makes the next event; false after the last.
func (g *Generator) Next(e *Event) bool {
	if g.done() {
		return false
	}
	switch rem := g.id % Block; {
	case rem < PersonsABlock:
		e.Kind = PersonEvent
		g.person(&e.Person)
	case rem < PersonsABlock+AuctionsABlock:
		e.Kind = AuctionEvent
		g.auction(&e.Auction)
	default:
		e.Kind = BidEvent
		c := &g.one
		c.resize(1)
		g.bids(c, 0, 1)
		e.Bid = Bid{
			Auction: c.Auction[0], Bidder: c.Bidder[0], Price: price(uint64(c.Price[0])),
			Channel: c.Channel.Refs[0], URL: c.URL.Refs[0], DateTime: c.DateTime[0], Extra: c.Extra.Refs[0],
		}
	}
	g.advance(1)
	return true
}

// lastPerson is the number, from 0, of the newest person at event id.
func lastPerson(id int64) int64 { return id / Block }

func lastAuction(id int64) int64 {
	epoch, off := id/Block, id%Block
	switch {
	case off < PersonsABlock:
		epoch, off = epoch-1, AuctionsABlock-1
	case off >= PersonsABlock+AuctionsABlock:
		off = AuctionsABlock - 1
	default:
		off -= PersonsABlock
	}
	return epoch*AuctionsABlock + off
}

// anyPerson draws one of those who are active at event id.
func (g *Generator) anyPerson(id int64) int64 {
	n := lastPerson(id) + 1
	if n >= activePeople {
		return n - activePeople + int64(g.r.intn(activePeople+idLead))
	}
	return int64(g.r.intn(int(n) + idLead))
}

// extra draws padding that brings have bytes to want, give or take a fifth of the padding.
func (g *Generator) extra(have, want int) vec.Ref {
	want -= have
	d := int(math.Round(float64(want) * 0.2))
	n := want - d + g.r.intn(2*d)
	return vec.Ref{Off: uint32(g.r.intn(paddingBytes - n)), Len: uint32(n)}
}

// block is what all bids of a block of events have in common.
type block struct {
	hotAuction, hotBidder     int64
	firstAuction, firstPerson int64 // of those that may be drawn
	auctions, people          divisor
}

func (g *Generator) block(id int64) block {
	newest, people := lastAuction(id), lastPerson(id)+1
	b := block{
		hotAuction:   newest/hotGroup*hotGroup + firstID,
		firstAuction: max(newest-inFlight, 0) + firstID,
		hotBidder:    (people-1)/hotGroup*hotGroup + 1 + firstID,
		firstPerson:  max(people-activePeople, 0) + firstID,
	}
	b.auctions = newDivisor(uint64(newest + firstID - b.firstAuction + 1 + idLead))
	b.people = newDivisor(uint64(people + firstID - b.firstPerson + idLead))
	return b
}

// bids makes c's bids i to i+n-1, all of the same block. Prices are still the draws that price
// makes them of: a loop over many of them is faster.
//
// There are no branches on what was drawn, which a processor could only guess: both outcomes are
// computed, and the state moves on by the draws that were used.
func (g *Generator) bids(c *Bids, i, n int) {
	blk := g.block(g.id)
	r := rng{g.r.s}
	auctions, bidders, prices, times := c.Auction[i:i+n], c.Bidder[i:i+n], c.Price[i:i+n], c.DateTime[i:i+n]
	names, urls, extras := c.Channel.Refs[i:i+n], c.URL.Refs[i:i+n], c.Extra.Refs[i:i+n]
	ms := g.at(g.id)
	over := g.id * 1000 % g.cfg.Rate
	for k := range auctions {
		auction, used := blk.hotAuction, uint64(0)
		cold := r.next()&1 == 0
		other := blk.firstAuction + int64(blk.auctions.mod(mix(r.s+step)))
		if cold {
			auction, used = other, step
		}
		r.s += used

		bidder, used := blk.hotBidder, uint64(0)
		cold = r.next()&3 == 0
		other = blk.firstPerson + int64(blk.people.mod(mix(r.s+step)))
		if cold {
			bidder, used = other, step
		}
		r.s += used

		auctions[k], bidders[k], prices[k], times[k] = auction, bidder, int64(r.next()), ms
		for over += 1000; over >= g.cfg.Rate; over -= g.cfg.Rate {
			ms++
		}
		coin, draw := r.next(), r.next()
		at, hot := draw%channels, channels+draw%hotSites
		if coin&1 != 0 {
			at = hot
		}
		s := &g.sites[at]
		names[k], urls[k] = s.name, s.url
		// extra(32, 100), its numbers folded
		e := r.next() % bidExtras
		extras[k] = vec.Ref{Off: uint32(extraDivisors[e].mod(r.next())), Len: uint32(bidExtraMin + e)}
	}
	g.r = r
}

// The padding of a bid is at least bidExtraMin bytes, at most bidExtras-1 more.
const (
	bidExtraMin = 54
	bidExtras   = 28
)

var extraDivisors = func() (t [bidExtras]divisor) {
	for i := range t {
		t[i] = newDivisor(uint64(paddingBytes - bidExtraMin - i))
	}
	return t
}()

func (g *Generator) auction(a *Auction) {
	id := g.id
	seller := lastPerson(id) / hotGroup * hotGroup
	if g.r.intn(4) == 0 {
		seller = g.anyPerson(id)
	}
	first := price(g.r.next())
	ms := g.at(id)
	horizon := g.at(id+inFlight*Block/AuctionsABlock) - ms
	b := g.r.word(g.scratch[:0], 20, ' ')
	name := len(b)
	b = g.r.word(b, 100, ' ')
	g.scratch = b
	a.ID = lastAuction(id) + firstID
	a.ItemName, a.Description = b[:name], b[name:]
	a.InitialBid, a.Reserve = first, first+price(g.r.next())
	a.DateTime, a.Expires = ms, ms+1+int64(g.r.intn(int(max(horizon*2, 1))))
	a.Seller = seller + firstID
	a.Category = int64(firstCategory + g.r.intn(categories))
	a.Extra = g.extra(48+len(b), 500)
}

func (g *Generator) skipAuction() {
	if g.r.intn(4) == 0 {
		g.r.skip(1) // seller
	}
	g.r.skip(1) // first price
	g.r.skipWord(20)
	g.r.skipWord(100)
	g.r.skip(5) // reserve, expiry, category, padding
}

func (g *Generator) person(p *Person) {
	b := append(g.scratch[:0], firstNames[g.r.intn(len(firstNames))]...)
	b = append(append(b, ' '), lastNames[g.r.intn(len(lastNames))]...)
	name := len(b)
	b = append(g.r.word(b, 7, '.'), '@')
	b = append(g.r.word(b, 5, '-'), ".com"...)
	mail := len(b)
	for i := range 4 {
		if i > 0 {
			b = append(b, ' ')
		}
		n := g.r.intn(10000)
		b = append(b, byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
	}
	g.scratch = b
	p.ID = lastPerson(g.id) + firstID
	p.Name, p.EmailAddress, p.CardNo = b[:name], b[name:mail], b[mail:]
	p.City, p.State = cities[g.r.intn(len(cities))], states[g.r.intn(len(states))]
	p.DateTime = g.at(g.id)
	p.Extra = g.extra(8+len(b)+len(p.City)+len(p.State), 200)
}

func (g *Generator) skipPerson() {
	g.r.skip(2) // name
	g.r.skipWord(7)
	g.r.skipWord(5)
	g.r.skip(8) // card, city, state, padding
}
