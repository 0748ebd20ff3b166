package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// readBytes is how much one Read hands over: what fits the second-level cache.
	readBytes = 512 << 10
	// probeAfter is after how long without records a bounded partition that has not shown its
	// last offset (compaction, an aborted transaction or a control record took it) is looked
	// at.
	probeAfter = 300 * time.Millisecond
)

// splitReader is one partition. Its methods belong to the subtask; the queue is shared with the
// reader's goroutine.
type splitReader struct {
	r      *reader
	p      partition
	id     string
	origin *vec.Origin
	at     int64 // offset of the next record to hand over
	from   int64 // where it was opened

	mu       sync.Mutex
	queue    []*kgo.Record // guarded by mu, as the fields below
	bytes    int
	share    int // of the reader's memory
	paused   bool
	err      error
	end      int64 // high watermark as last seen, -1 unknown
	lastData time.Time

	taken []*kgo.Record
	data  []byte
}

// put queues what was fetched, and pauses the partition where that is enough. Pausing and resuming
// happen with mu held: in the other order a partition could stay paused for ever.
func (s *splitReader) put(f kgo.FetchTopicPartition, share int) {
	s.fail(f.Err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = share
	if f.HighWatermark > 0 {
		s.end = f.HighWatermark
	}
	for _, rec := range f.Records {
		s.queue = append(s.queue, rec)
		s.bytes += recordBytes(rec)
	}
	if len(f.Records) > 0 {
		s.lastData = time.Now()
	}
	if s.bytes > share && !s.paused {
		s.paused = true
		s.r.client.PauseFetchPartitions(s.p.set())
	}
}

func (p *partition) set() map[string][]int32 { return map[string][]int32{p.Topic: {p.Partition}} }

func recordBytes(r *kgo.Record) int { return len(r.Key) + len(r.Value) + 64 }

// fail notes an error that the client does not get over by itself.
func (s *splitReader) fail(err error) bool {
	passes := kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicID) // the client says that one when it has waited
	if err == nil || passes || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return true
}

// take moves up to readBytes of records to s.taken.
func (s *splitReader) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.queue) && size < readBytes {
		size += recordBytes(s.queue[n])
		n++
	}
	s.taken = append(s.taken[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.bytes -= size
	if s.paused && s.bytes < s.share/2 {
		s.paused = false
		s.r.client.ResumeFetchPartitions(s.p.set())
	}
	if n == 0 {
		return s.err
	}
	return nil
}

func (s *splitReader) explain(err error) error {
	var loss *kgo.ErrDataLoss
	switch {
	case errors.Is(err, kerr.UnknownTopicID):
		return &connector.Fatal{Err: fmt.Errorf("topic '%s' was deleted and made anew while it was read: the positions of this job say nothing "+
			"about the new topic; start with --fresh: %w", s.p.Topic, err)}
	case errors.As(err, &loss):
		return fmt.Errorf("records of %s that were read are gone from the brokers, as after the election of a leader that "+
			"did not have them; results hold them, a new run would not: %w", s.id, err)
	}
	return s.r.client.explain(err)
}

// Read implements connector.ChunkReader.
func (s *splitReader) Read(ctx context.Context, out *connector.Records) error {
	for {
		if s.p.Stop >= 0 && s.at >= s.p.Stop {
			return io.EOF
		}
		if err := s.take(); errors.Is(err, kerr.OffsetOutOfRange) {
			if err := s.lost(ctx); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return s.explain(err)
		}
		if len(s.taken) == 0 {
			if s.p.Stop < 0 || !s.quiet() {
				return connector.ErrNoData
			}
			if err := s.probe(ctx); err != nil || s.at < s.p.Stop {
				return connector.ErrNoData // an error: the brokers are away, which the client waits for
			}
			continue
		}
		if s.fill(out) {
			return nil
		}
	}
}

// quiet reports whether it is time to look at the partition.
func (s *splitReader) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.lastData) < probeAfter || len(s.queue) > 0 {
		return false
	}
	s.lastData = time.Now()
	return true
}

// probe moves the position to behind offsets that hold no record for us, which the client does
// not tell of, until one that does or the stop.
func (s *splitReader) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	topics, err := s.r.client.admin.ListTopics(ctx, s.p.Topic)
	if err != nil {
		return err
	}
	t := topics[s.p.Topic]
	leader := t.Partitions[s.p.Partition].Leader
	if t.Err != nil || leader < 0 {
		return fmt.Errorf("no leader of %s", s.id)
	}
	for s.at < s.p.Stop {
		next, err := s.fetchAt(ctx, t.ID, leader)
		if err != nil || next == s.at {
			return err
		}
		s.at = next
	}
	return nil
}

// fetchAt asks the leader what is at the position, and returns the offset of the next record, as
// far as the answer tells.
func (s *splitReader) fetchAt(ctx context.Context, id [16]byte, leader int32) (int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, readBytes
	opts := kgo.ProcessFetchPartitionOpts{Offset: s.at, Topic: s.p.Topic, Partition: s.p.Partition}
	if s.r.s.committed() {
		req.IsolationLevel, opts.IsolationLevel = 1, kgo.ReadCommitted()
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = s.p.Topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.p.Partition, s.at, readBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	raw, err := s.r.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := raw.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.ThrottleMillis > 0 {
		return s.at, nil
	}
	rp := &resp.Topics[0].Partitions[0]
	fp, next := kgo.ProcessFetchPartition(opts, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return 0, fp.Err
	}
	end := fp.HighWatermark
	if req.IsolationLevel == 1 {
		end = fp.LastStableOffset
	}
	switch {
	case len(fp.Records) > 0:
		return max(s.at, min(fp.Records[0].Offset, s.p.Stop)), nil
	case len(rp.RecordBatches) == 0 && end >= s.p.Stop:
		return s.p.Stop, nil // nothing follows
	}
	return max(s.at, next), nil
}

// fill makes records of s.taken. It returns false when none was left after control records and
// those at or behind the stop offset.
func (s *splitReader) fill(out *connector.Records) bool {
	c := &out.Chunk
	*c = format.Chunk{Origin: s.origin, Bounds: c.Bounds[:0], Positions: c.Positions[:0]}
	out.TimeMs = out.TimeMs[:0]
	keyed := s.r.s.keyed
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
			continue // the client went back to where it was sure of
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
		key := cfg.Table.Metadata[m].Key
		if k == len(out.Metadata) {
			at := slices.IndexFunc(readMetadata, func(f types.Field) bool { return f.Name == key })
			out.Metadata = append(out.Metadata, vec.New(readMetadata[at].Type, 0))
		}
		v := out.Metadata[k]
		v.Reset(len(recs))
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
		expr.SetTimestamp(v, i, rec.Timestamp.UnixMilli(), 0)
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
		v.SetValue(i, headers(rec))
	}
}

// headers returns the headers as a map: of several with one name the last counts.
func headers(rec *kgo.Record) []types.Value {
	kv := make([]types.Value, 0, 2*len(rec.Headers))
next:
	for _, h := range rec.Headers {
		value := append([]byte{}, h.Value...)
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == h.Key {
				kv[i+1] = value
				continue next
			}
		}
		kv = append(kv, h.Key, value)
	}
	return kv
}

// Position implements connector.SplitReader.
func (s *splitReader) Position() connector.Position {
	return connector.Position{Offset: s.at, Set: true}
}

// Lag implements connector.SplitReader.
func (s *splitReader) Lag() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.p.Stop >= 0:
		return max(0, s.p.Stop-s.at)
	case s.end < 0:
		return -1
	}
	return max(0, s.end-s.at)
}

// Close implements connector.SplitReader.
func (s *splitReader) Close() error {
	s.r.do(func() {
		if s.r.splits[s.id] != s {
			return
		}
		delete(s.r.splits, s.id)
		s.r.client.RemoveConsumePartitions(s.p.set())
		s.r.client.ResumeFetchPartitions(s.p.set()) // for the next time it is opened
	})
	return nil
}
