package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/vec"
)

// Exactly-once into Kafka. Records are sealed into a segment, which belongs to the checkpoint. When the
// checkpoint is complete the segments of all subtasks go into one short transaction, which also
// commits an offset of a group that nobody reads with: its metadata say which checkpoint of which
// lineage went in. Whoever commits after a crash, or is not sure of what became of his last
// transaction, first gets the producer id anew, which ends what an earlier process left open, and
// then reads these metadata. So no downtime is too long, and nothing is open while nobody commits.
// What becomes of metadata that nobody commits for a long time, exactly_metadata.go says.
//
//	segment  = record... sealing
//	record   = key value (1 + length, uvarint, 0 for none; bytes) partition + 1 (uvarint)
//	           timestamp (varint ms, 0 for none) headers (uvarint; each: name, value as key)
//	sealing  = a record without key whose partition + 1 is sealingMark, its value the JSON of sealing;
//	           earlier versions wrote none

// transactionalID names the sink's producer and the group of its metadata.
func (s *sink) transactionalID() string {
	prefix := s.cfg.Options.Get("sink.transactional-id-prefix")
	if prefix == "" {
		prefix = "tidemark-" + s.cfg.Job
	}
	return prefix + "-" + s.cfg.Node
}

// sealer writes the records of one subtask into segments.
type sealer struct {
	connector.Sealer
	w     *writer // encodes, and sends nothing
	buf   []byte
	wrote bool // since the last Prepare
}

func (s *sealer) Write(_ context.Context, b *vec.Batch) error {
	recs, err := s.w.records(b)
	if err != nil {
		return err
	}
	seg, _, err := s.Segment()
	if err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range recs {
		s.buf = appendRecord(s.buf, &recs[i])
	}
	s.wrote = true
	_, err = seg.Write(s.buf)
	return err
}

// Prepare implements connector.Writer.
func (s *sealer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	if s.wrote {
		s.wrote = false
		seg, _, err := s.Segment()
		if err == nil {
			_, err = seg.Write(appendSealing(s.buf[:0], s.w.s.sealing()))
		}
		if err != nil {
			return nil, err
		}
	}
	return s.Sealer.Prepare(ctx)
}

func appendRecord(dst []byte, r *kgo.Record) []byte {
	dst = appendBytes(appendBytes(dst, r.Key), r.Value)
	dst = binary.AppendUvarint(dst, uint64(r.Partition+1))
	var ms int64
	if !r.Timestamp.IsZero() {
		ms = r.Timestamp.UnixMilli()
	}
	dst = binary.AppendVarint(dst, ms)
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = appendBytes(appendBytes(dst, []byte(h.Key)), h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

var errSegment = errors.New("a sealed segment of a Kafka sink is damaged")

// maxField bounds what a damaged length can make us allocate: Kafka's own records are smaller.
const maxField = 1 << 30

func takeBytes(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n == 0 {
		return nil, err
	}
	if n > maxField {
		return nil, errSegment
	}
	b := make([]byte, n-1)
	_, err = io.ReadFull(r, b)
	return b, err
}

// readRecord returns io.EOF at the end of the segment.
func readRecord(r *bufio.Reader) (*kgo.Record, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	rec := &kgo.Record{}
	var err error
	fail := func(e error) {
		if err == nil {
			err = e
		}
	}
	field := func() []byte {
		b, e := takeBytes(r)
		fail(e)
		return b
	}
	rec.Key, rec.Value = field(), field()
	p, e := binary.ReadUvarint(r)
	fail(e)
	if p > math.MaxInt32 && p != sealingMark {
		fail(errSegment)
	}
	rec.Partition = int32(p) - 1
	if p == sealingMark {
		rec.Partition = sealingPartition
	}
	ms, e := binary.ReadVarint(r)
	fail(e)
	if ms != 0 {
		rec.Timestamp = time.UnixMilli(ms)
	}
	n, e := binary.ReadUvarint(r)
	fail(e)
	for ; n > 0 && err == nil; n-- {
		k := field()
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: string(k), Value: field()})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSegment, err)
	}
	return rec, nil
}

// committer puts segments into transactions.
type committer struct {
	s *sink

	mu sync.Mutex
	cl *client // nil: the state of the last transaction is not known
	at *sealed // what the metadata say, with cl
	// gone: the offset that transactions commit was not there, with cl; at is the copy of it, or empty.
	gone bool
	id   [16]byte // of the topic: newer requests name it so
	// settled: cl knows the partitions of the topic.
	settled bool
	// lost: the metadata were gone when they were asked for first, so what was sealed before may be in
	// the topic or not.
	lost bool
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	refused := map[int]error{} // by number of the record among those of all segments
	suspect := map[int]bool{}
	for try := 0; ; try++ {
		err := c.once(ctx, &id, cs, suspect, refused)
		if err == nil {
			return nil
		}
		c.drop()
		var data *refusal
		switch {
		case errors.As(err, &data):
			try = 0 // another record is known now, so this ends
		case ctx.Err() != nil || errors.As(err, new(*connector.Fatal)):
			return err
		case !kerr.IsRetriable(err) && try >= 4 || try >= 8:
			return fmt.Errorf("topic '%s': %w", c.s.topic, err)
		}
		wait := min(100*time.Millisecond<<try, 5*time.Second)
		if !connector.Pause(ctx, wait) {
			return err
		}
	}
}

// refusal says that the transaction was given up because of single records.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// open gets the producer id, which ends what was left open, and reads the metadata.
func (c *committer) open(ctx context.Context) error {
	if c.cl != nil {
		return nil
	}
	name := c.s.transactionalID()
	opts := append(slices.Clone(c.s.opts), kgo.TransactionalID(name), kgo.TransactionTimeout(c.s.transactionTimeout()), kgo.MaxVersions(versions()))
	switch c.s.cfg.Options.Get("sink.partitioner") {
	case "round-robin":
		opts = append(opts, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case "fixed":
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	cl, err := newClient(c.s.cfg.Options, opts...)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, cl.within)
	defer cancel()
	_, _, err = cl.ProducerID(within)
	if err == nil {
		c.id, err = topicID(within, cl, c.s.topic)
	}
	if err == nil {
		c.at, c.gone, err = readBoth(within, cl, name, c.s.topic, c.id)
	}
	if err != nil {
		cl.Close()
		return cl.explain(err)
	}
	c.cl = cl
	c.keep(ctx)
	return nil
}

func topicID(ctx context.Context, cl *client, topic string) ([16]byte, error) {
	topics, err := cl.admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	return topics[topic].ID, err
}

// drop forgets the client: what became of its transaction is not known.
func (c *committer) drop() {
	if c.cl != nil {
		c.cl.Close()
	}
	c.cl, c.at, c.gone, c.settled = nil, nil, false, false
}

// once tries one transaction.
func (c *committer) once(ctx context.Context, id *connector.CommitID, cs []connector.Committable, suspect map[int]bool,
	refused map[int]error) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := id.Overtaken(c.at.newest(id.Lineage)); err != nil {
		return err
	}
	if c.at.has(*id) {
		return nil
	}
	there, err := c.isThere(ctx, *id, cs)
	if err != nil {
		return err
	}
	if err := c.cl.BeginTransaction(); err != nil {
		return err
	}
	next := c.at.with(*id)
	sent := 0
	if !there {
		sent, err = c.send(ctx, cs, suspect, refused)
	}
	killpoint.Pass("commit/kafka-sent")
	if err == nil && sent > 0 {
		err = c.mark(ctx, next)
	}
	killpoint.Pass("commit/kafka-marked")
	if err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = c.cl.AbortBufferedRecords(end)
		_ = c.cl.EndTransaction(end, kgo.TryAbort)
		return err
	}
	// The outcome of the end must be known or the client dropped, so it is not cut short by ctx.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.s.transactionTimeout())
	defer cancel()
	id.After = max(id.After, id.Checkpoint)
	if err := c.end(end, *id, sent); err != nil {
		return c.cl.explain(err)
	}
	killpoint.Pass("commit/kafka-ended")
	c.at, c.gone = next, false
	c.keep(ctx)
	return nil
}

// errNotCommitted says that a transaction was not committed although nobody reported an error.
var errNotCommitted = errors.New("the transaction ended without being committed")

// end commits the transaction, into which so many records went; one without any is none.
//
// The client takes a transaction for empty, and aborts it without an error, where it does not know a
// partition that records went to. It hands the first records to a topic over before it knows its
// partitions for this purpose, and their answer may come in between. So two things are done: what runs
// with its metadata held still is run once before the first commit, which waits until it knows them; and
// the offset that is committed with the records has to be there afterwards.
func (c *committer) end(ctx context.Context, id connector.CommitID, sent int) error {
	if sent == 0 {
		return c.cl.EndTransaction(ctx, kgo.TryAbort)
	}
	if !c.settled {
		c.cl.PurgeTopicsFromProducing("") // a topic that there is not
		c.settled = true
	}
	if err := c.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	now, err := readSealed(ctx, c.cl, c.s.transactionalID(), c.s.topic, c.id)
	if err == nil && !now.has(id) {
		err = errNotCommitted
	}
	return err
}

// send produces the records of all segments but those refused, and counts them. Suspects go one by one,
// to find out which of a batch that was refused are to blame.
func (c *committer) send(ctx context.Context, cs []connector.Committable, suspect map[int]bool, refused map[int]error) (sent int, err error) {
	var mu sync.Mutex
	var first error
	fresh := map[int]error{}
	at := 0
	for _, sc := range cs {
		seg, err := c.s.cfg.Segments.Open(ctx, sc)
		if err != nil {
			return 0, err
		}
		err = eachRecord(seg, func(rec *kgo.Record) error {
			n := at
			at++
			if refused[n] != nil {
				return nil
			}
			sent++
			rec.Topic = c.s.topic
			if !suspect[n] {
				c.cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
					if err == nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if isRefused(err) {
						fresh[n] = err
					} else if first == nil {
						first = err
					}
				})
				return nil
			}
			if err := c.cl.Flush(ctx); err != nil {
				return err
			}
			err := c.cl.ProduceSync(ctx, rec).FirstErr()
			if isRefused(err) {
				if bad := c.s.cfg.Bad(format.BadRecord{Bytes: rec.Value, Err: fmt.Errorf("topic '%s': %w: %w", c.s.topic, connector.ErrRefused, err)}); bad != nil {
					return &connector.Fatal{Err: bad}
				}
				refused[n] = err
				return &refusal{err}
			}
			return err
		})
		seg.Close()
		if err != nil {
			return 0, c.cl.explain(err)
		}
	}
	if err := c.cl.Flush(ctx); err != nil {
		return 0, err
	}
	mu.Lock()
	defer mu.Unlock()
	for n := range fresh {
		suspect[n] = true
	}
	for _, err := range fresh {
		return 0, &refusal{err}
	}
	return sent, c.cl.explain(first)
}

func eachRecord(r io.Reader, f func(rec *kgo.Record) error) error {
	b := bufio.NewReaderSize(r, 1<<18)
	for {
		rec, err := readRecord(b)
		if err == io.EOF {
			return nil
		}
		if err == nil && rec.Partition != sealingPartition {
			err = f(rec)
		}
		if err != nil {
			return err
		}
	}
}

// isRefused reports whether the broker, or the client in its place, refuses a record for what it is.
func isRefused(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.InvalidTimestamp} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Abort implements connector.Committer: segments that no checkpoint holds are nobody's.
func (c *committer) Abort(context.Context, []connector.Committable) error { return nil }

// Close implements connector.Committer.
func (c *committer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	return nil
}

// transactionTimeout is after how long the broker gives up a transaction that nobody ends.
func (s *sink) transactionTimeout() time.Duration {
	n, ok, err := properties(s.cfg.Options.Prefix("properties.")).number("transaction.timeout.ms")
	if err != nil || !ok {
		n = 60_000
	}
	return ms(max(n, 1000))
}
