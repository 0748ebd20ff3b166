package golden

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// valve lets a number of reads of a job's sources through and then no more, as if there were no data
// at present; so a job is stopped where the test wants it, not when time has passed.
type valve struct {
	mu   sync.Mutex
	left int // reads; negative: it stays open
	shut chan struct{}
}

func newValve(left int) *valve { return &valve{left: left, shut: make(chan struct{})} }

// pass takes one read; false: the valve is shut.
func (v *valve) pass() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.left < 0:
		return true
	case v.left > 0:
		v.left--
		return true
	}
	select {
	case <-v.shut:
	default:
		close(v.shut)
	}
	return false
}

// valves are those of the jobs that run, by the folder of their case.
var valves sync.Map

const (
	throttled = "throttled "     // before the name of a connector: the same with a valve
	valveKey  = "throttle.valve" // option of a throttled table: the key of its valve
)

var throttling sync.Mutex

// throttle returns a source like o whose reads go through the valve that key names.
func throttle(o *plan.Source, key string) *plan.Source {
	throttling.Lock()
	defer throttling.Unlock()
	name := throttled + o.Table.Connector
	if connector.Lookup(name) == nil {
		f := *connector.Lookup(o.Table.Connector)
		inner := f.NewSource
		f.Name = name
		f.NewSource = func(c connector.SourceConfig) (connector.Source, error) {
			s, err := inner(c)
			if err != nil {
				return nil, err
			}
			v, _ := valves.Load(c.Table.Options[valveKey])
			t := &throttledSource{s, v.(*valve)}
			if r, ok := s.(connector.Refetcher); ok {
				return struct {
					*throttledSource
					connector.Refetcher
				}{t, r}, nil
			}
			return t, nil
		}
		connector.Register(&f)
	}
	src, table := *o, *o.Table
	table.Connector = name
	table.Options = maps.Clone(table.Options)
	table.Options[valveKey] = key
	src.Table = &table
	return &src
}

type throttledSource struct {
	connector.Source
	v *valve
}

// NewReader implements connector.Source.
func (s *throttledSource) NewReader(ctx context.Context, subtask int) (connector.Reader, error) {
	r, err := s.Source.NewReader(ctx, subtask)
	return &throttledReader{r, s.v}, err
}

type throttledReader struct {
	connector.Reader
	v *valve
}

// Open implements connector.Reader.
func (r *throttledReader) Open(ctx context.Context, s connector.Split) (connector.SplitReader, error) {
	rd, err := r.Reader.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	if b, ok := rd.(connector.BatchReader); ok {
		return &throttledBatches{b, r.v}, nil
	}
	return &throttledChunks{ChunkReader: rd.(connector.ChunkReader), v: r.v, cut: func(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }}, nil
}

type throttledBatches struct {
	connector.BatchReader
	v *valve
}

// ReadBatch implements connector.BatchReader.
func (r *throttledBatches) ReadBatch(ctx context.Context, b *vec.Batch, maxRows int) error {
	if !r.v.pass() {
		return connector.ErrNoData
	}
	return r.BatchReader.ReadBatch(ctx, b, maxRows)
}

// throttledChunks gives the records of a text one by one.
type throttledChunks struct {
	connector.ChunkReader
	v   *valve
	cut func([]byte) int
	at  connector.Records // the inner chunk
	pos int               // what was given of it
}

// CutBy passes on where records end.
func (r *throttledChunks) CutBy(cut func([]byte) int) {
	r.cut = cut
	if c, ok := r.ChunkReader.(interface{ CutBy(func([]byte) int) }); ok {
		c.CutBy(cut)
	}
}

// Constants implements connector.Constants.
func (r *throttledChunks) Constants() map[string]string {
	if c, ok := r.ChunkReader.(connector.Constants); ok {
		return c.Constants()
	}
	return nil
}

// Read implements connector.ChunkReader.
func (r *throttledChunks) Read(ctx context.Context, out *connector.Records) error {
	if !r.v.pass() {
		return connector.ErrNoData
	}
	if r.pos >= len(r.at.Chunk.Data) {
		r.pos, r.at.Chunk = 0, format.Chunk{}
		if err := r.ChunkReader.Read(ctx, &r.at); err != nil {
			return err
		}
	}
	if r.at.Chunk.Bounds != nil {
		*out = r.at
		r.pos = len(r.at.Chunk.Data)
		return nil
	}
	rest := r.at.Chunk.Data[r.pos:]
	n := len(rest)
	for i, c := range rest {
		if c == '\n' && r.cut(rest[:i+1]) == i+1 {
			n = i + 1
			break
		}
	}
	*out = r.at
	out.Chunk = format.Chunk{Data: rest[:n:n], Base: r.at.Chunk.Base + int64(r.pos), Origin: r.at.Chunk.Origin}
	r.pos += n
	return nil
}

// Position implements connector.SplitReader.
func (r *throttledChunks) Position() connector.Position {
	if r.pos < len(r.at.Chunk.Data) {
		return connector.Position{Offset: r.at.Chunk.Base + int64(r.pos), Set: true}
	}
	return r.ChunkReader.Position()
}
