package nexmark

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The sums were taken from the files of the first version of this generator, with which the
// published figures were measured: other bytes would make them incomparable.
func TestWriteFiles_BytesNeverChange(t *testing.T) {
	cases := []struct {
		cfg   Config
		files int
		sums  map[string]string
	}{
		{Config{Events: 20_000}, 1, map[string]string{
			"auction.json":   "ff1743e6546c73579ef240f0325d1168e71ef09b9971d5d9da42f880f00c33b3",
			"bid.json":       "f05e48e963d3d4cffda644673f2b17c9bb4a925854eeefac90cd2b9f011072b9",
			"person.json":    "faed48fc5eafd8293164675d291abd74eb50a4660e9a0002c5578c8499e90635",
			"side_input.csv": "75d5ef7cd7b75a2add6bae1f74dd16cf729ee46437b48043aff2a7cd8876e191",
		}},
		{Config{Events: 7000, Seed: 7, Rate: 100, Start: time.Date(2024, 2, 28, 23, 0, 0, 0, time.UTC)}, 2, map[string]string{
			"side_input.csv":           "75d5ef7cd7b75a2add6bae1f74dd16cf729ee46437b48043aff2a7cd8876e191",
			"auction.json/part-0.json": "551ca81aed65f9dbf58fb44e569ff67c3dfa19d4d70f632b809d3f4871559f32",
			"auction.json/part-1.json": "972cdc129725425a97b328438fba2504941a65fbd75040794819c315a2a010fc",
			"bid.json/part-0.json":     "56fe658ec70cea2830a731f1ffc9e3d2009862f7d3011b13ac077390c7892ced",
			"bid.json/part-1.json":     "19d305528609e1e7554e216a3524f90760aa5022bb20f94a0c9f550a7c759427",
			"person.json/part-0.json":  "c5d23a69c9f323ccdecef4dc923cc67b8b0f3b0a86452cfd91c6352ec4ddbfb6",
			"person.json/part-1.json":  "6f1b6a55f2c3db81e348a329da89603ea2b893a9df55c2e8c481785413032526",
		}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("events=%d", c.cfg.Events), func(t *testing.T) {
			dir := t.TempDir()
			n, err := WriteFiles(dir, c.cfg, c.files)
			if err != nil {
				t.Fatal(err)
			}
			if n.Persons*Block != c.cfg.Events || n.Persons+n.Auctions+n.Bids != c.cfg.Events {
				t.Errorf("counts %+v", n)
			}
			for name, want := range c.sums {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
					t.Errorf("%s: sum %x, want %s", name, sum, want)
				}
			}
		})
	}
}

func newGenerator(t testing.TB, cfg Config) *Generator {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestColumns_SameEventsAsNext(t *testing.T) {
	cfg := Config{Events: 12_345}
	for _, size := range []int{1, 7, 46, 2048} {
		one, bids := newGenerator(t, cfg), newGenerator(t, cfg)
		auctions, people := newGenerator(t, cfg), newGenerator(t, cfg)
		var b Bids
		var a Auctions
		var p Persons
		ib, ia, ip := 0, 0, 0
		nb, na, np := 0, 0, 0
		var e Event
		for one.Next(&e) {
			switch e.Kind {
			case BidEvent:
				if ib == nb {
					nb, ib = bids.Bids(&b, size), 0
				}
				got := Bid{b.Auction[ib], b.Bidder[ib], b.Price[ib], b.Channel.Refs[ib], b.URL.Refs[ib], b.DateTime[ib], b.Extra.Refs[ib]}
				if got != e.Bid {
					t.Fatalf("batches of %d: bid %+v, want %+v", size, got, e.Bid)
				}
				ib++
			case AuctionEvent:
				if ia == na {
					na, ia = auctions.Auctions(&a, size), 0
				}
				r := a.Description.Refs[ia]
				if a.ID[ia] != e.Auction.ID || a.Expires[ia] != e.Auction.Expires ||
					string(a.Description.Buf[r.Off:r.Off+r.Len]) != string(e.Auction.Description) ||
					a.Extra.Refs[ia] != e.Auction.Extra {
					t.Fatalf("batches of %d: auction %d differs", size, e.Auction.ID)
				}
				ia++
			default:
				if ip == np {
					np, ip = people.Persons(&p, size), 0
				}
				r := p.EmailAddress.Refs[ip]
				if p.ID[ip] != e.Person.ID || p.DateTime[ip] != e.Person.DateTime ||
					string(p.EmailAddress.Buf[r.Off:r.Off+r.Len]) != string(e.Person.EmailAddress) {
					t.Fatalf("batches of %d: person %d differs", size, e.Person.ID)
				}
				ip++
			}
		}
		if n := bids.Bids(&b, size) + auctions.Auctions(&a, size) + people.Persons(&p, size); n != 0 {
			t.Errorf("batches of %d: %d events after the end", size, n)
		}
	}
}

func TestParts_CoverAllBlocksOnce(t *testing.T) {
	const events, parts = 10_000, 3
	seen := map[int64]int{} // event time, which tells the event apart at this rate
	total := 0
	for p := range int64(parts) {
		g := newGenerator(t, Config{Events: events, Rate: 1000, Parts: parts, Part: p})
		var c Bids
		last := int64(0)
		for n := g.Bids(&c, 100); n > 0; n = g.Bids(&c, 100) {
			total += n
			for _, ms := range c.DateTime {
				if ms < last {
					t.Fatalf("part %d: time goes back", p)
				}
				last = ms
				seen[ms]++
			}
		}
	}
	if total != events/Block*BidsABlock || len(seen) != total {
		t.Errorf("%d bids at %d times, want %d", total, len(seen), events/Block*BidsABlock)
	}
}

func TestPrice_FastIsExact(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 300_000
	}
	r := rng{42}
	for range n {
		draw := r.next()
		u := float64(draw>>11) / (1 << 53)
		if got, want := price(draw), slowPrice(u); got != want {
			t.Fatalf("price of %v: %d, want %d", u, got, want)
		}
	}
}

func TestDivisor_SameAsOperator(t *testing.T) {
	r := rng{3}
	for range 200_000 {
		n, x := r.next()>>(r.next()%64)|1, r.next()
		for _, x := range []uint64{x, 0, n - 1, n, x / n * n, x/n*n - 1, 1<<64 - 1} {
			if got := newDivisor(n).mod(x); got != x%n {
				t.Fatalf("%d mod %d: %d, want %d", x, n, got, x%n)
			}
		}
	}
}

func TestDistribution_HotKeysAndPrices(t *testing.T) {
	g := newGenerator(t, Config{Events: 1_000_000})
	var c Bids
	hotAuction, hotBidder, hotChannel, dear, n := 0, 0, 0, 0, 0
	for g.Bids(&c, 4096) > 0 {
		for i := range c.Auction {
			n++
			if (c.Auction[i]-firstID)%hotGroup == 0 {
				hotAuction++
			}
			if (c.Bidder[i]-firstID)%hotGroup == 1 {
				hotBidder++
			}
			if r := c.Channel.Refs[i]; string(g.Pool()[r.Off:r.Off+8]) != "channel-" {
				hotChannel++
			}
			if c.Price[i] >= 100_000 { // the middle of the logarithmic range
				dear++
			}
		}
	}
	for _, x := range []struct {
		what   string
		got    int
		lo, hi float64
	}{
		{"hot auctions", hotAuction, 0.50, 0.51},
		{"hot bidders", hotBidder, 0.75, 0.76},
		{"hot channels", hotChannel, 0.495, 0.505},
		{"upper prices", dear, 0.495, 0.505},
	} {
		if share := float64(x.got) / float64(n); share < x.lo || share > x.hi {
			t.Errorf("%s: %.3f of the bids, want %.3f to %.3f", x.what, share, x.lo, x.hi)
		}
	}
}

func TestBids_AllocatesNothing(t *testing.T) {
	g := newGenerator(t, Config{})
	var c Bids
	g.Bids(&c, 2048)
	if n := testing.AllocsPerRun(50, func() { g.Bids(&c, 2048) }); n != 0 {
		t.Errorf("%.0f allocations a batch", n)
	}
}

func TestConfig_Refuses(t *testing.T) {
	for _, cfg := range []Config{{Events: -1}, {Rate: -1}, {Parts: 2, Part: 2}, {Part: 1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	if _, err := WriteFiles(t.TempDir(), Config{}, 1); err == nil {
		t.Error("files without an end were taken")
	}
}

func BenchmarkBids(b *testing.B) {
	g := newGenerator(b, Config{})
	var c Bids
	g.Bids(&c, 2048)
	b.ReportAllocs()
	b.ResetTimer()
	rows := 0
	for b.Loop() {
		rows += g.Bids(&c, 2048)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
}

func BenchmarkNext(b *testing.B) {
	g := newGenerator(b, Config{})
	var e Event
	for b.Loop() {
		g.Next(&e)
	}
}
