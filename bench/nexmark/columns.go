package nexmark

import "github.com/tidemark-stream/tidemark/vec"

// Text is a column of strings: Refs are places in Buf.
type Text struct {
	Buf  []byte
	Refs []vec.Ref
}

func (t *Text) add(s []byte) {
	t.Refs = append(t.Refs, vec.Ref{Off: uint32(len(t.Buf)), Len: uint32(len(s))})
	t.Buf = append(t.Buf, s...)
}

func (t *Text) addString(s string) {
	t.Refs = append(t.Refs, vec.Ref{Off: uint32(len(t.Buf)), Len: uint32(len(s))})
	t.Buf = append(t.Buf, s...)
}

// Bids is a batch of bids in columns, each as long as the batch. The buffers of the texts are the
// generator's Pool, shared by all batches: nothing of them is copied.
type Bids struct {
	Auction, Bidder, Price []int64
	Channel, URL           Text
	DateTime               []int64 // ms
	Extra                  Text
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (c *Bids) resize(n int) {
	c.Auction, c.Bidder, c.Price = resize(c.Auction, n), resize(c.Bidder, n), resize(c.Price, n)
	c.DateTime = resize(c.DateTime, n)
	c.Channel.Refs, c.URL.Refs = resize(c.Channel.Refs, n), resize(c.URL.Refs, n)
	c.Extra.Refs = resize(c.Extra.Refs, n)
}

// Bids fills c, whose memory it reuses, with the next n bids, fewer at the end, and returns their
// number. Auctions and people between them are passed over.
func (g *Generator) Bids(c *Bids, n int) int {
	c.resize(n)
	c.Channel.Buf, c.URL.Buf, c.Extra.Buf = g.pool, g.pool, g.pool
	i := 0
	for i < n && !g.done() {
		rem := g.id % Block
		if rem < PersonsABlock+AuctionsABlock {
			if rem < PersonsABlock {
				g.skipPerson()
			} else {
				g.skipAuction()
			}
			g.advance(1)
			continue
		}
		// the bids left in this block
		run := min(Block-rem, int64(n-i))
		if g.cfg.Events > 0 {
			run = min(run, g.cfg.Events-g.id)
		}
		g.bids(c, i, int(run))
		i += int(run)
		g.advance(run)
	}
	c.resize(i)
	for k, draw := range c.Price {
		c.Price[k] = price(uint64(draw))
	}
	return i
}

// Auctions is a batch of auctions in columns. Extra's buffer is the generator's Pool.
type Auctions struct {
	ID                    []int64
	ItemName, Description Text
	InitialBid, Reserve   []int64
	DateTime, Expires     []int64 // ms
	Seller, Category      []int64
	Extra                 Text
}

// Auctions fills c, whose memory it reuses, with the next n auctions, fewer at the end, and
// returns their number.
func (g *Generator) Auctions(c *Auctions, n int) int {
	for _, s := range []*[]int64{&c.ID, &c.InitialBid, &c.Reserve, &c.DateTime, &c.Expires, &c.Seller, &c.Category} {
		*s = (*s)[:0]
	}
	for _, t := range []*Text{&c.ItemName, &c.Description, &c.Extra} {
		t.Refs = t.Refs[:0]
	}
	c.ItemName.Buf, c.Description.Buf, c.Extra.Buf = c.ItemName.Buf[:0], c.Description.Buf[:0], g.pool
	var e Event
	for len(c.ID) < n && g.Next(&e) {
		if e.Kind != AuctionEvent {
			continue
		}
		a := &e.Auction
		c.ID = append(c.ID, a.ID)
		c.ItemName.add(a.ItemName)
		c.Description.add(a.Description)
		c.InitialBid, c.Reserve = append(c.InitialBid, a.InitialBid), append(c.Reserve, a.Reserve)
		c.DateTime, c.Expires = append(c.DateTime, a.DateTime), append(c.Expires, a.Expires)
		c.Seller, c.Category = append(c.Seller, a.Seller), append(c.Category, a.Category)
		c.Extra.Refs = append(c.Extra.Refs, a.Extra)
	}
	return len(c.ID)
}

// Persons is a batch of people in columns. Extra's buffer is the generator's Pool.
type Persons struct {
	ID                                      []int64
	Name, EmailAddress, CardNo, City, State Text
	DateTime                                []int64 // ms
	Extra                                   Text
}

// Persons fills c, whose memory it reuses, with the next n people, fewer at the end, and returns
// their number.
func (g *Generator) Persons(c *Persons, n int) int {
	c.ID, c.DateTime = c.ID[:0], c.DateTime[:0]
	for _, t := range []*Text{&c.Name, &c.EmailAddress, &c.CardNo, &c.City, &c.State} {
		t.Refs, t.Buf = t.Refs[:0], t.Buf[:0]
	}
	c.Extra.Buf, c.Extra.Refs = g.pool, c.Extra.Refs[:0]
	var e Event
	for len(c.ID) < n && g.Next(&e) {
		if e.Kind != PersonEvent {
			continue
		}
		p := &e.Person
		c.ID, c.DateTime = append(c.ID, p.ID), append(c.DateTime, p.DateTime)
		c.Name.add(p.Name)
		c.EmailAddress.add(p.EmailAddress)
		c.CardNo.add(p.CardNo)
		c.City.addString(p.City)
		c.State.addString(p.State)
		c.Extra.Refs = append(c.Extra.Refs, p.Extra)
	}
	return len(c.ID)
}
