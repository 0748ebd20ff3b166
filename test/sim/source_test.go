package sim

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// The connectors of simulated jobs. Option world is the number of the world whose tables they are.
const (
	sourceName = "sim-source"
	sinkName   = "sim-sink"
)

var worlds sync.Map // by number, as text

func worldOf(o option.Values) (*world, error) {
	w, ok := worlds.Load(o.Get("world"))
	if !ok {
		return nil, fmt.Errorf("no world %s", o.Get("world"))
	}
	return w.(*world), nil
}

func init() {
	connector.Register(&connector.Factory{Name: sourceName,
		Options: []option.Spec{{Name: "world", Required: true}, {Name: "table", Required: true}, {Name: "changes", Required: true}},
		SourceChangelog: func(_ *connector.Table, o option.Values) types.ChangelogMode {
			if o.Get("changes") == "true" {
				return types.Retract
			}
			return types.InsertOnly
		},
		NewSource: func(c connector.SourceConfig) (connector.Source, error) {
			w, err := worldOf(c.Options)
			if err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(c.Options.Get("table"))
			if err != nil {
				return nil, err
			}
			return w.life.newSource(c, n), nil
		}})
}

// source is a made-up table being read in one life.
type source struct {
	l    *life
	cfg  connector.SourceConfig
	no   int
	t    *table
	mu   sync.Mutex
	at   map[string]int64 // by split: behind what was read last
	over map[string]bool  // splits of which everything was read
}

func (l *life) newSource(c connector.SourceConfig, no int) *source {
	return &source{l: l, cfg: c, no: no, t: l.w.job.tables[no], at: map[string]int64{}, over: map[string]bool{}}
}

// Bounded implements connector.Source.
func (s *source) Bounded() bool { return s.l.bounded || !s.l.w.job.live }

// NewEnumerator implements connector.Source. Sources that are only planned with do not count.
func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	s.l.mu.Lock()
	s.l.sources = append(s.l.sources, s)
	s.l.mu.Unlock()
	var splits []connector.Split
	if !s.l.empty {
		for i := range s.t.splits {
			splits = append(splits, connector.Split{ID: strconv.Itoa(i)})
		}
	}
	e := connector.FixedSplits(splits...)
	if s.t.remembers {
		e = &rememberer{Enumerator: e, read: map[string]bool{}}
	}
	return e, nil
}

// rememberer is an enumerator that remembers which splits were read to their end.
type rememberer struct {
	connector.Enumerator
	mu   sync.Mutex
	read map[string]bool
}

// Remember implements connector.Rememberer.
func (e *rememberer) Remember(ended []string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ended {
		e.read[id] = true
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(e.read)), " ")), nil
}

// Recall implements connector.Rememberer.
func (e *rememberer) Recall(memory []byte) error {
	for id := range strings.FieldsSeq(string(memory)) {
		e.read[id] = true
	}
	return nil
}

// Discover implements connector.Enumerator.
func (e *rememberer) Discover(ctx context.Context) ([]connector.Split, bool, error) {
	splits, done, err := e.Enumerator.Discover(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(splits, func(s connector.Split) bool { return e.read[s.ID] }), done, err
}

// NewReader implements connector.Source.
func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	return connector.OpenFunc(func(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
		n, err := strconv.Atoi(sp.ID)
		if err != nil {
			return nil, err
		}
		return &splitReader{s: s, id: sp.ID, rows: s.t.splits[n], at: sp.Position.Offset,
			origin: &vec.Origin{Source: s.cfg.Table.Name, Split: sp.ID, Unit: "row"}}, nil
	}), nil
}

// Guarantee implements connector.Source.
func (s *source) Guarantee() string { return "" }

type splitReader struct {
	s      *source
	id     string
	rows   []row
	at     int64
	waited int64 // the position before which it had nothing at present
	origin *vec.Origin
}

// Position implements connector.SplitReader.
func (r *splitReader) Position() connector.Position {
	return connector.Position{Offset: r.at, Set: true}
}

// Lag implements connector.SplitReader.
func (r *splitReader) Lag() int64 { return int64(len(r.rows)) - r.at }

// Close implements connector.SplitReader.
func (r *splitReader) Close() error { return nil }

// ReadBatch implements connector.BatchReader. How many rows it gives follows from the position, how
// long it takes too, and whether it first has nothing at present.
func (r *splitReader) ReadBatch(_ context.Context, b *vec.Batch, maxRows int) error {
	s := r.s
	if err := s.l.at("read"); err != nil {
		return err
	}
	if r.at >= int64(len(r.rows)) {
		if s.Bounded() {
			return io.EOF
		}
		s.readAll(r.id)
		return connector.ErrNoData
	}
	h := mix(uint64(r.at)*31 + uint64(len(r.rows)))
	if h>>40%5 == 0 && r.waited < r.at {
		r.waited = r.at
		return connector.ErrNoData
	}
	if s.l.checkpoints {
		time.Sleep(time.Duration(h>>32%3000) * time.Microsecond)
	}
	n := min(maxRows, 1+int(h%9), len(r.rows)-int(r.at))
	b.Reset(n)
	b.Origin, b.Pos = r.origin, b.Pos[:0]
	if s.t.changes {
		b.Kinds = b.Kinds[:0]
	}
	for i, x := range r.rows[r.at:][:n] {
		for k, c := range s.cfg.Columns {
			v := b.Cols[k]
			switch c {
			case 0:
				v.I64[i] = x.id
			case 1:
				v.I64[i] = x.k
			case 2:
				if x.null {
					v.SetNull(i)
				} else {
					v.I64[i] = x.v
				}
			case 3:
				v.I64[i] = x.ts
			}
		}
		b.Pos = append(b.Pos, r.at+int64(i))
		if s.t.changes {
			b.Kinds = append(b.Kinds, x.kind)
		}
	}
	r.at += int64(n)
	s.mu.Lock()
	s.at[r.id] = r.at
	s.mu.Unlock()
	return nil
}

// readAll notes that a split has nothing more; when that holds for all of a life, the job is drained.
func (s *source) readAll(id string) {
	s.mu.Lock()
	s.over[id] = true
	s.mu.Unlock()
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for _, o := range s.l.sources {
		o.mu.Lock()
		all := len(o.over) == len(o.t.splits)
		o.mu.Unlock()
		if !all {
			return
		}
	}
	s.l.allRead()
}

// mix is a hash of x.
func mix(x uint64) uint64 {
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}
