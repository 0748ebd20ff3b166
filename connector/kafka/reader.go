package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// queueBytes is how much one partition's queue may hold before the partition is paused.
	queueBytes = 8 << 20
	// readBytes is how much one Read hands over: what fits the second-level cache.
	readBytes = 512 << 10
	// quietEnd is after how long without records a bounded partition that has not shown its
	// last offset (compaction or a control record took it) is looked at again.
	quietEnd = 2 * time.Second
)

// NewReader implements connector.Source.
func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	opts := append([]kgo.Opt{
		kgo.KeepControlRecords(), // they move the position, see splitReader.Read
		kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}, s.opts...)
	if s.committed() {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{s: s, client: c, admin: kadm.NewClient(c), cancel: cancel, splits: map[string]*splitReader{}, wake: make(chan struct{}, 1), polling: make(chan struct{})}
	go r.poll(ctx)
	return r, nil
}

// reader is the client of one subtask. The goroutine in poll fills the queues of splits.
type reader struct {
	s       *source
	client  *kgo.Client
	admin   *kadm.Client
	cancel  context.CancelFunc
	polling chan struct{} // closed when poll has ended
	wake    chan struct{}
	mu      sync.Mutex
	splits  map[string]*splitReader // guarded by mu
}

// Wake implements connector.Reader.
func (r *reader) Wake() <-chan struct{} { return r.wake }

// Open implements connector.Reader.
func (r *reader) Open(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
	var p partition
	if err := json.Unmarshal(sp.Data, &p); err != nil {
		return nil, fmt.Errorf("BUG: split %s: %w", sp.ID, err)
	}
	s := &splitReader{r: r, p: p, at: sp.Position.Offset, id: sp.ID, lastData: time.Now(), end: -1,
		origin: &vec.Origin{Source: r.s.cfg.Table.Name, Split: sp.ID, Unit: "offset"}}
	r.mu.Lock()
	r.splits[sp.ID] = s
	r.mu.Unlock()
	if p.Stop < 0 || s.at < p.Stop {
		r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Partition: kgo.NewOffset().At(s.at)}})
	}
	return s, nil
}

// poll moves records from the client to the queues until the reader is closed.
func (r *reader) poll(ctx context.Context) {
	defer close(r.polling)
	for {
		fetches := r.client.PollRecords(ctx, 20000)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			r.mu.Lock()
			s := r.splits[splitID(f.Topic, f.Partition)]
			r.mu.Unlock()
			if s == nil {
				return
			}
			if s.put(f) {
				r.client.PauseFetchPartitions(map[string][]int32{f.Topic: {f.Partition}})
			}
		})
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Commit implements connector.Reader.
func (r *reader) Commit(ctx context.Context, positions map[string]connector.Position) error {
	group := r.s.cfg.Options.Get("properties.group.id")
	if group == "" {
		return nil
	}
	offsets := kadm.Offsets{}
	r.mu.Lock()
	for id, pos := range positions {
		if s := r.splits[id]; s != nil && pos.Set {
			offsets.AddOffset(s.p.Topic, s.p.Partition, pos.Offset, -1)
		}
	}
	r.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	resp, err := r.admin.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return fmt.Errorf("commit offsets of group '%s': %w", group, err)
	}
	return resp.Error()
}

// Close implements connector.Reader.
func (r *reader) Close() error {
	r.cancel()
	r.client.Close()
	<-r.polling
	return nil
}

// splitReader is one partition. Read belongs to the subtask, the queue is shared with poll.
type splitReader struct {
	r      *reader
	p      partition
	id     string
	origin *vec.Origin
	at     int64 // offset of the next record to hand over

	mu       sync.Mutex
	queue    []*kgo.Record // guarded by mu, as the fields below
	bytes    int
	paused   bool
	err      error
	end      int64 // high watermark as last seen, -1 unknown
	lastData time.Time

	taken []*kgo.Record
	data  []byte
}

// put queues what was fetched and reports whether the partition should be paused.
func (s *splitReader) put(f kgo.FetchTopicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Err != nil && s.err == nil && !retriable(f.Err) {
		s.err = f.Err
	}
	if f.HighWatermark > 0 {
		s.end = f.HighWatermark
	}
	for _, rec := range f.Records {
		s.queue = append(s.queue, rec)
		s.bytes += len(rec.Key) + len(rec.Value) + 64
	}
	if len(f.Records) > 0 {
		s.lastData = time.Now()
	}
	if s.bytes > queueBytes && !s.paused {
		s.paused = true
		return true
	}
	return false
}

// retriable reports errors after which the client goes on by itself.
func retriable(err error) bool {
	var data *kgo.ErrDataLoss
	return kerr.IsRetriable(err) || errors.As(err, &data) && false || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed)
}

// take moves up to readBytes of records to s.taken.
func (s *splitReader) take() error {
	s.mu.Lock()
	n, size := 0, 0
	for n < len(s.queue) && size < readBytes {
		size += len(s.queue[n].Value) + len(s.queue[n].Key) + 64
		n++
	}
	s.taken = append(s.taken[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.bytes -= size
	resume := s.paused && s.bytes < queueBytes/2
	if resume {
		s.paused = false
	}
	err := s.err
	s.mu.Unlock()
	if resume {
		s.r.client.ResumeFetchPartitions(map[string][]int32{s.p.Topic: {s.p.Partition}})
	}
	if n == 0 && err != nil {
		return s.explain(err)
	}
	return nil
}

func (s *splitReader) explain(err error) error {
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("offset %d of %s is gone: retention has deleted it, or the topic was made anew; start with 'scan.startup.mode' = 'earliest-offset' to go on with what is left: %w", s.at, s.id, err)
	}
	return err
}

// Read implements connector.ChunkReader.
func (s *splitReader) Read(ctx context.Context, out *connector.Records) error {
	for {
		if s.p.Stop >= 0 && s.at >= s.p.Stop {
			s.drop()
			return io.EOF
		}
		if err := s.take(); err != nil {
			return err
		}
		if len(s.taken) == 0 {
			if s.p.Stop >= 0 && s.reachedQuietly(ctx) {
				s.at = s.p.Stop
				continue
			}
			return connector.ErrNoData
		}
		if s.fill(out) {
			return nil
		}
	}
}

// reachedQuietly reports whether a bounded partition has nothing left before its stop although the
// last offset was never seen.
func (s *splitReader) reachedQuietly(ctx context.Context) bool {
	s.mu.Lock()
	quiet := time.Since(s.lastData) > quietEnd && len(s.queue) == 0
	s.mu.Unlock()
	if !quiet {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ends, err := s.r.admin.ListEndOffsets(ctx, s.p.Topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(s.queue) > 0 {
		s.lastData = time.Now() // brokers are away: their silence says nothing
		return false
	}
	l, ok := ends.Lookup(s.p.Topic, s.p.Partition)
	return ok && l.Err == nil && l.Offset >= s.p.Stop && time.Since(s.lastData) > 2*quietEnd
}

// fill makes records of s.taken. It returns false when none was left after control records and
// those at or behind the stop offset.
func (s *splitReader) fill(out *connector.Records) bool {
	c := &out.Chunk
	*c = format.Chunk{Origin: s.origin, Bounds: c.Bounds[:0], Positions: c.Positions[:0]}
	out.TimeMs = out.TimeMs[:0]
	keyed := s.r.s.cfg.Options.Get("key.format") != ""
	if keyed {
		if out.Keys == nil {
			out.Keys = &format.Chunk{}
		}
		*out.Keys = format.Chunk{Origin: s.origin, Bounds: out.Keys.Bounds[:0], Positions: out.Keys.Positions[:0]}
	}
	kept := s.taken[:0]
	data := s.data[:0]
	for _, rec := range s.taken {
		if s.p.Stop >= 0 && rec.Offset >= s.p.Stop {
			s.at = s.p.Stop
			break
		}
		if rec.Offset < s.at {
			continue // handed over before the client went back
		}
		s.at = rec.Offset + 1
		if rec.Attrs.IsControl() {
			continue
		}
		kept = append(kept, rec)
		c.Positions = append(c.Positions, rec.Offset)
		out.TimeMs = append(out.TimeMs, rec.Timestamp.UnixMilli())
		c.Bounds = append(c.Bounds, bound(&data, rec.Value))
		if keyed {
			out.Keys.Bounds = append(out.Keys.Bounds, bound(&data, rec.Key))
			out.Keys.Positions = append(out.Keys.Positions, rec.Offset)
		}
	}
	s.data = data
	c.Data = data
	if keyed {
		out.Keys.Data = data
	}
	s.metadata(out, kept)
	return len(kept) > 0
}

// bound appends b to data and says where it lies.
func bound(data *[]byte, b []byte) vec.Ref {
	if b == nil {
		return format.NullRecord
	}
	at := len(*data)
	*data = append(*data, b...)
	return vec.Ref{Off: uint32(at), Len: uint32(len(b))}
}

// metadata fills the wanted metadata columns.
func (s *splitReader) metadata(out *connector.Records, recs []*kgo.Record) {
	cfg := &s.r.s.cfg
	for k, m := range cfg.Metadata {
		md := cfg.Table.Metadata[m]
		if k == len(out.Metadata) {
			out.Metadata = append(out.Metadata, vec.New(md.Type, 0))
		}
		v := out.Metadata[k]
		v.Reset(len(recs))
		key := md.Key
		if key == "" {
			key = md.Name
		}
		for i, rec := range recs {
			setMetadata(v, i, key, rec)
		}
	}
}

func setMetadata(v *vec.Vec, i int, key string, rec *kgo.Record) {
	switch key {
	case "topic":
		v.SetString(i, rec.Topic)
	case "partition":
		v.I32[i] = rec.Partition
	case "offset":
		v.I64[i] = rec.Offset
	case "timestamp":
		if v.Phys == types.PI64 {
			v.I64[i] = rec.Timestamp.UnixMilli()
		} else {
			v.I128[i] = types.TS(rec.Timestamp.UnixMilli(), 0)
		}
	case "leader-epoch":
		if rec.LeaderEpoch < 0 {
			v.SetNull(i)
			return
		}
		v.I32[i] = rec.LeaderEpoch
	case "timestamp-type":
		name := "CreateTime"
		switch rec.Attrs.TimestampType() {
		case 1:
			name = "LogAppendTime"
		case -1:
			name = "NoTimestampType"
		}
		v.SetString(i, name)
	case "headers":
		var kv []types.Value
		for _, h := range rec.Headers {
			kv = append(kv, h.Key, append([]byte{}, h.Value...))
		}
		v.SetValue(i, kv)
	}
}

// drop stops fetching a partition that has ended.
func (s *splitReader) drop() {
	s.r.client.RemoveConsumePartitions(map[string][]int32{s.p.Topic: {s.p.Partition}})
}

// Position implements connector.SplitReader.
func (s *splitReader) Position() connector.Position {
	return connector.Position{Offset: s.at, Set: true}
}

// Lag implements connector.SplitReader.
func (s *splitReader) Lag() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end < 0 {
		return -1
	}
	return max(0, s.end-s.at)
}

// Close implements connector.SplitReader.
func (s *splitReader) Close() error {
	s.drop()
	s.r.mu.Lock()
	delete(s.r.splits, s.id)
	s.r.mu.Unlock()
	return nil
}
