package nexmark

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidemark-stream/tidemark/vec"
)

// Counts is how many events of each kind were written.
type Counts struct {
	Persons, Auctions, Bids int64
	LastMs                  int64 // event time of the last one
}

// SideRows is the number of rows of side_input.csv.
const SideRows = 10_000

// WriteFiles writes person.json, auction.json, bid.json and side_input.csv into dir. With more
// than one file a kind the first three are folders of that many files, which get the lines in
// turn. cfg.Parts must be 1 or 0.
func WriteFiles(dir string, cfg Config, files int) (n Counts, err error) {
	if cfg.Parts > 1 {
		return n, errors.New("nexmark: files hold all parts")
	}
	if cfg.Events == 0 {
		return n, errors.New("nexmark: files need an end: set Events")
	}
	g, err := New(cfg)
	if err != nil {
		return n, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return n, err
	}
	var out [3]*lines
	for i, name := range []string{"person.json", "auction.json", "bid.json"} {
		if out[i], err = createLines(filepath.Join(dir, name), max(files, 1)); err != nil {
			return n, err
		}
		defer func() { err = errors.Join(err, out[i].close()) }()
	}
	var e Event
	for g.Next(&e) {
		o := out[e.Kind]
		switch e.Kind {
		case PersonEvent:
			o.person(&e.Person, g.pool)
			n.Persons++
			n.LastMs = e.Person.DateTime
		case AuctionEvent:
			o.auction(&e.Auction, g.pool)
			n.Auctions++
			n.LastMs = e.Auction.DateTime
		default:
			o.bid(&e.Bid, g.pool)
			n.Bids++
			n.LastMs = e.Bid.DateTime
		}
		if err := o.end(); err != nil {
			return n, err
		}
	}
	return n, writeSideInput(filepath.Join(dir, "side_input.csv"))
}

func writeSideInput(path string) error {
	var b []byte
	for i := range SideRows {
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, ',')
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return os.WriteFile(path, b, 0o644)
}

// lines writes JSON objects, one a line, to files in turn.
type lines struct {
	f    []*os.File
	w    []*bufio.Writer
	b    []byte
	next int
}

func createLines(path string, files int) (*lines, error) {
	o := &lines{}
	for i := range files {
		p := path
		if files > 1 {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return nil, err
			}
			p = filepath.Join(path, "part-"+strconv.Itoa(i)+".json")
		}
		f, err := os.Create(p)
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		o.f, o.w = append(o.f, f), append(o.w, bufio.NewWriterSize(f, 1<<20))
	}
	return o, nil
}

func (o *lines) close() error {
	var err error
	for i := range o.w {
		err = errors.Join(err, o.w[i].Flush(), o.f[i].Close())
	}
	return err
}

func (o *lines) end() error {
	o.b = append(o.b, '}', '\n')
	_, err := o.w[o.next].Write(o.b)
	o.b = o.b[:0]
	if o.next++; o.next == len(o.w) {
		o.next = 0
	}
	return err
}

func (o *lines) key(k string) {
	if len(o.b) == 0 {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), k...), '"', ':')
}

func (o *lines) num(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// text writes a string that needs no escaping, as all of ours.
func (o *lines) text(k string, v []byte) {
	o.key(k)
	o.b = append(append(append(o.b, '"'), v...), '"')
}

func (o *lines) ref(k string, pool []byte, r vec.Ref) { o.text(k, pool[r.Off:r.Off+r.Len]) }

func (o *lines) time(k string, ms int64) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = time.UnixMilli(ms).UTC().AppendFormat(o.b, "2006-01-02 15:04:05.000")
	o.b = append(o.b, '"')
}

func (o *lines) person(p *Person, pool []byte) {
	o.num("id", p.ID)
	o.text("name", p.Name)
	o.text("emailAddress", p.EmailAddress)
	o.text("creditCard", p.CardNo)
	o.text("city", []byte(p.City))
	o.text("state", []byte(p.State))
	o.time("dateTime", p.DateTime)
	o.ref("extra", pool, p.Extra)
}

func (o *lines) auction(a *Auction, pool []byte) {
	o.num("id", a.ID)
	o.text("itemName", a.ItemName)
	o.text("description", a.Description)
	o.num("initialBid", a.InitialBid)
	o.num("reserve", a.Reserve)
	o.time("dateTime", a.DateTime)
	o.time("expires", a.Expires)
	o.num("seller", a.Seller)
	o.num("category", a.Category)
	o.ref("extra", pool, a.Extra)
}

func (o *lines) bid(b *Bid, pool []byte) {
	o.num("auction", b.Auction)
	o.num("bidder", b.Bidder)
	o.num("price", b.Price)
	o.ref("channel", pool, b.Channel)
	o.ref("url", pool, b.URL)
	o.time("dateTime", b.DateTime)
	o.ref("extra", pool, b.Extra)
}
