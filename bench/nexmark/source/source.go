// Package source is a connector over the Nexmark generator: the bids, auctions or people as rows,
// made in process, for measuring the engine without reading and decoding.
package source

import (
	"context"
	"fmt"
	"io"

	"github.com/tidemark-stream/tidemark/bench/nexmark"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	connector.Register(&connector.Factory{
		Name: "nexmark", Doc: "Bids of the Nexmark generator, made in process.",
		Options: []option.Spec{
			{Name: "events", Kind: option.Int, Default: "0", Doc: "How many events of all kinds are made; 0 is without end."},
			{Name: "rate", Kind: option.Int, Default: "10000", Doc: "Events a second of event time."},
			{Name: "seed", Kind: option.Int, Default: "1", Doc: "Other seeds make other events."},
			{Name: "parts", Kind: option.Int, Default: "1", Doc: "The number of splits, made side by side."},
		},
		NewSource: newSource,
	})
}

// columns are those of a bid, in the generator's order, by name.
var columns = map[string]func(b *nexmark.Bids, v *vec.Vec){
	"auction":  func(b *nexmark.Bids, v *vec.Vec) { v.I64 = b.Auction },
	"bidder":   func(b *nexmark.Bids, v *vec.Vec) { v.I64 = b.Bidder },
	"price":    func(b *nexmark.Bids, v *vec.Vec) { v.I64 = b.Price },
	"dateTime": func(b *nexmark.Bids, v *vec.Vec) { v.I64 = b.DateTime },
	"channel":  func(b *nexmark.Bids, v *vec.Vec) { text(v, &b.Channel) },
	"url":      func(b *nexmark.Bids, v *vec.Vec) { text(v, &b.URL) },
	"extra":    func(b *nexmark.Bids, v *vec.Vec) { text(v, &b.Extra) },
}

func text(v *vec.Vec, t *nexmark.Text) {
	v.ShareBuf(t.Buf)
	v.Refs = t.Refs
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	s := &source{cfg: c, gen: nexmark.Config{Events: c.Options.Int("events"), Rate: c.Options.Int("rate"),
		Seed: uint64(c.Options.Int("seed")), Parts: c.Options.Int("parts")}}
	for _, i := range c.Columns {
		f := c.Table.Columns[i]
		fill := columns[f.Name]
		if fill == nil {
			return nil, fmt.Errorf("a bid has no column '%s'", f.Name)
		}
		if textual := f.Name == "channel" || f.Name == "url" || f.Name == "extra"; textual != f.Type.IsString() ||
			!textual && f.Type.Phys() != types.PI64 {
			return nil, fmt.Errorf("column '%s' of a bid cannot be %s", f.Name, f.Type)
		}
		s.fill = append(s.fill, fill)
	}
	return s, s.gen.Validate()
}

type source struct {
	cfg  connector.SourceConfig
	gen  nexmark.Config
	fill []func(*nexmark.Bids, *vec.Vec)
}

func (s *source) Bounded() bool { return s.gen.Events > 0 }

func (s *source) Guarantee() string { return "the same events are made again" }

func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	var splits []connector.Split
	for p := range max(s.gen.Parts, 1) {
		splits = append(splits, connector.Split{ID: fmt.Sprintf("part-%d", p), Data: []byte{byte(p)}})
	}
	return connector.FixedSplits(splits...), nil
}

func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
		cfg := s.gen
		cfg.Part = int64(sp.Data[0])
		g, err := nexmark.New(cfg)
		if err != nil {
			return nil, err
		}
		r := &reader{s: s, g: g, origin: &vec.Origin{Source: s.cfg.Table.Name, Split: sp.ID, Unit: "row"}}
		for r.at < sp.Position.Offset { // positions are reached by making what lies before
			r.at += int64(g.Bids(&r.bids, int(min(vec.BatchRows, sp.Position.Offset-r.at))))
		}
		return r, nil
	}), nil
}

type reader struct {
	s      *source
	g      *nexmark.Generator
	bids   nexmark.Bids
	origin *vec.Origin
	at     int64
}

// ReadBatch implements connector.BatchReader. The vectors share the generator's memory, which is
// written again by the next call only.
func (r *reader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	n := r.g.Bids(&r.bids, maxRows)
	if n == 0 {
		return io.EOF
	}
	b.N, b.Origin = n, r.origin
	for i, fill := range r.s.fill {
		fill(&r.bids, b.Cols[i])
		b.Cols[i].Resize(n)
	}
	for i := range n {
		b.Pos = append(b.Pos, r.at+int64(i))
	}
	r.at += int64(n)
	return nil
}

// Position implements connector.SplitReader.
func (r *reader) Position() connector.Position { return connector.Position{Offset: r.at, Set: true} }

// Lag implements connector.SplitReader.
func (r *reader) Lag() int64 { return -1 }

// Close implements connector.SplitReader.
func (r *reader) Close() error { return nil }
