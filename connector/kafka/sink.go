package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

type sink struct {
	cfg    connector.SinkConfig
	opts   []kgo.Opt
	topic  string
	upsert bool
	made   time.Time
	marked atomic.Pointer[string] // the id of the topic, once the group is known to have metadata for it
}

func newSink(c connector.SinkConfig) (connector.Sink, error) {
	topics := c.Options.List("topic")
	if len(topics) != 1 {
		return nil, &option.Error{Key: "topic", Msg: "a sink writes one topic"}
	}
	opts, err := producerOptions(c.Options)
	if err != nil {
		return nil, err
	}
	if err := c.CheckSealed(); err != nil {
		return nil, err
	}
	return &sink{cfg: c, opts: opts, topic: topics[0], upsert: c.Table.Connector == "upsert-kafka", made: time.Now()}, nil
}

// deliveryTimeout is how long a record may wait for its acknowledgement. The client's own limit
// counts from the record's timestamp, which may be one of the past here.
func (p properties) deliveryTimeout() (time.Duration, error) {
	n, ok, err := p.number("delivery.timeout.ms")
	if !ok {
		n = 120_000 // as Kafka's client has it
	}
	return ms(max(n, 1000)), err
}

// producerOptions adds what only producers understand.
func producerOptions(o option.Values) ([]kgo.Opt, error) {
	opts, err := clientOptions(o)
	if err != nil {
		return nil, err
	}
	p := properties(o.Prefix("properties."))
	opts = append(opts, kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(64<<20), kgo.ProducerLinger(5*time.Millisecond))
	if _, err := p.deliveryTimeout(); err != nil {
		return nil, err
	}
	for key, f := range map[string]func(int64) kgo.Opt{
		"linger.ms": func(n int64) kgo.Opt { return kgo.ProducerLinger(ms(n)) },
		// Kafka's batch.size is a wish; this is the bound on a request, so also on a record.
		"max.request.size": func(n int64) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(min(max(n, 1<<10), 90<<20))) },
		"buffer.memory":    func(n int64) kgo.Opt { return kgo.MaxBufferedBytes(int(max(n, 1<<20))) },
	} {
		n, ok, err := p.number(key)
		if err != nil {
			return nil, err
		}
		if ok {
			opts = append(opts, f(n))
		}
	}
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[p.get("compression.type", "none")]
	if !ok {
		return nil, &option.Error{Key: "properties.compression.type", Msg: fmt.Sprintf("'%s' is not a compression", p["compression.type"]), Hint: "it is one of none, gzip, snappy, lz4, zstd"}
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch p.get("acks", "all") {
	case "all", "-1":
		if strings.EqualFold(p.get("enable.idempotence", "true"), "false") {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, &option.Error{Key: "properties.acks", Msg: fmt.Sprintf("'%s' is not a number of acknowledgements", p["acks"]), Hint: "it is one of all, 1, 0"}
	}
	return opts, nil
}

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) {
	if s.exactly() {
		return &committer{s: s}, nil
	}
	return nil, nil
}

func (s *sink) exactly() bool { return connector.DeliveryOf(s.cfg.Options) == connector.ExactlyOnce }

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) {
	if s.exactly() {
		return connector.ExactlyOnce, "a short transaction a checkpoint, with the checkpoint's name in it; readers with " +
			"isolation.level = read_committed see each record once"
	}
	if connector.DeliveryOf(s.cfg.Options) == connector.AtMostOnce {
		return connector.AtMostOnce, "records are sent, and those that fail are forgotten"
	}
	why := "an idempotent producer, flushed before source positions are committed; after a crash records may be written again"
	if s.upsert {
		why += ", which rewrites the same keys"
	}
	return connector.AtLeastOnce, why
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, subtask, _ int) (connector.Writer, error) {
	w := &writer{s: s, wait: connector.DeliveryOf(s.cfg.Options) != connector.AtMostOnce, metaAt: len(s.cfg.Table.Columns), partition: -1}
	if err := w.encoders(); err != nil {
		return nil, err
	}
	var err error
	if w.timeout, err = properties(s.cfg.Options.Prefix("properties.")).deliveryTimeout(); err != nil {
		return nil, err
	}
	if s.exactly() {
		return s.newSealer(ctx, w, subtask)
	}
	opts := s.opts
	switch s.cfg.Options.Get("sink.partitioner") {
	case "round-robin":
		opts = append(opts[:len(opts):len(opts)], kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case "fixed":
		opts = append(opts[:len(opts):len(opts)], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if w.client, err = newClient(s.cfg.Options, opts...); err != nil {
		return nil, err
	}
	if err := w.open(ctx, subtask); err != nil {
		w.client.Close()
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.watched = make(chan struct{})
	go w.watch()
	return w, nil
}

// writer sends the rows of one subtask. Acknowledgements come on the client's goroutine.
type writer struct {
	s         *sink
	client    *client
	wait      bool
	partition int32 // of sink.partitioner = fixed
	value     format.Encoder
	key       format.Encoder
	valueCols []int
	keyCols   []int
	metaAt    int
	vout      format.Encoded
	kout      format.Encoded
	view      vec.Batch
	kview     vec.Batch

	timeout time.Duration
	ctx     context.Context // of records; cancelled when one was not acknowledged in time
	cancel  context.CancelCauseFunc
	watched chan struct{} // closed when watch has ended
	sent    atomic.Int64
	acks    atomic.Int64 // records that were acknowledged or refused

	mu  sync.Mutex
	err error // the first failed record; guarded by mu
}

// watch ends the writer when records wait and none was acknowledged for the timeout.
func (w *writer) watch() {
	defer close(w.watched)
	t := time.NewTicker(min(w.timeout/4, time.Second))
	defer t.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-t.C:
		}
		if acks := w.acks.Load(); acks != last || w.sent.Load() == acks {
			last, since = acks, time.Now()
		}
		if time.Since(since) >= w.timeout {
			err := w.client.explain(fmt.Errorf("no record was acknowledged within %s", w.timeout))
			w.fail(fmt.Errorf("records of topic '%s': %w ('properties.delivery.timeout.ms')", w.s.topic, err))
			w.cancel(err)
			return
		}
	}
}

// open looks at the topic, so that a missing one is found, or made, before the first row.
func (w *writer) open(ctx context.Context, subtask int) error {
	ctx, cancel := context.WithTimeout(ctx, w.client.within)
	defer cancel()
	n, err := w.partitions(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if err = w.create(ctx); err == nil {
			n, err = w.partitions(ctx)
		}
	}
	for err != nil && kerr.IsRetriable(err) { // a topic just made, or a leader being elected
		select {
		case <-ctx.Done():
			return w.client.explain(err)
		case <-time.After(100 * time.Millisecond):
			n, err = w.partitions(ctx)
		}
	}
	if err != nil {
		return w.client.explain(err)
	}
	if w.s.cfg.Options.Get("sink.partitioner") == "fixed" {
		w.partition = int32(subtask % n)
	}
	return nil
}

// partitions returns the number of partitions of the topic.
func (w *writer) partitions(ctx context.Context) (int, error) {
	topics, err := w.client.admin.ListTopics(ctx, w.s.topic)
	if err != nil {
		return 0, err
	}
	t := topics[w.s.topic]
	if t.Err == nil && len(t.Partitions) == 0 {
		return 0, kerr.LeaderNotAvailable
	}
	if t.Err != nil {
		return 0, fmt.Errorf("topic '%s': %w", w.s.topic, t.Err)
	}
	return len(t.Partitions), nil
}

// create makes a missing topic, as brokers do for producers when auto.create.topics.enable is on.
func (w *writer) create(ctx context.Context) error {
	if w.s.cfg.Options.Get("properties.allow.auto.create.topics") == "false" {
		return fmt.Errorf("topic '%s' does not exist, and 'properties.allow.auto.create.topics' is false", w.s.topic)
	}
	configs := map[string]*string{}
	if w.s.upsert {
		compact := "compact"
		configs["cleanup.policy"] = &compact
	}
	resp, err := w.client.admin.CreateTopic(ctx, -1, -1, configs, w.s.topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("topic '%s' does not exist and cannot be created: %w", w.s.topic, err)
	}
	return nil
}

// encoders makes the encoders of values and keys.
func (w *writer) encoders() error {
	o, t := w.s.cfg.Options, w.s.cfg.Table
	keys := o.List("key.fields")
	if w.s.upsert {
		keys = t.PrimaryKey
	}
	var vs, ks types.Schema
	for _, k := range keys {
		at := t.Schema().Index(k)
		w.keyCols = append(w.keyCols, at)
		c := t.Columns[at]
		c.Name = strings.TrimPrefix(k, o.Get("key.fields-prefix"))
		ks.Fields = append(ks.Fields, c)
	}
	for i, c := range t.Columns {
		if !slices.Contains(w.keyCols, i) || o.Enum("value.fields-include") != "EXCEPT_KEY" {
			w.valueCols = append(w.valueCols, i)
			vs.Fields = append(vs.Fields, c)
		}
	}
	name, prefix := o.Get("format"), ""
	if v := o.Get("value.format"); v != "" {
		name, prefix = v, "value."
	}
	var err error
	if w.value, err = encoder(o, name, prefix, vs); err != nil {
		return err
	}
	if len(w.keyCols) > 0 {
		w.key, err = encoder(o, o.Get("key.format"), "key.", ks)
	}
	return err
}

func encoder(o option.Values, name, prefix string, s types.Schema) (format.Encoder, error) {
	f := format.Lookup(name)
	if f == nil || f.NewEncoder == nil {
		return nil, fmt.Errorf("format '%s' cannot be written", name)
	}
	return f.NewEncoder(format.EncoderConfig{Schema: s, Options: o.Scoped(prefix+name+".", f.Options)})
}

// newSealer makes a writer that seals: it only looks at the topic now.
func (s *sink) newSealer(ctx context.Context, w *writer, subtask int) (connector.Writer, error) {
	var err error
	if w.client, err = newClient(s.cfg.Options, s.opts...); err != nil {
		return nil, err
	}
	defer w.client.Close()
	if err := w.open(ctx, subtask); err != nil {
		return nil, err
	}
	return &sealer{Sealer: connector.Sealer{Segments: s.cfg.Segments}, w: w}, nil
}

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *vec.Batch) error {
	if err := w.failed(); err != nil {
		return err
	}
	recs, err := w.records(b)
	if err != nil {
		return err
	}
	w.sent.Add(int64(len(recs)))
	for i := range recs {
		w.client.Produce(w.ctx, &recs[i], w.acked)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return w.failed()
}

// records encodes the selected rows of b.
func (w *writer) records(b *vec.Batch) ([]kgo.Record, error) {
	w.view = vec.Batch{N: b.N, Sel: b.Sel, Kinds: b.Kinds, Cols: w.view.Cols[:0]}
	for _, c := range w.valueCols {
		w.view.Cols = append(w.view.Cols, b.Cols[c])
	}
	if w.s.upsert {
		w.view.Kinds = nil // deletions are records without value
	}
	w.vout.Reset()
	// Records are sent later, so their bytes are new for every batch.
	w.vout.Data = make([]byte, 0, cap(w.vout.Data))
	if err := w.value.Encode(&w.vout, &w.view); err != nil {
		return nil, err
	}
	if w.key != nil {
		w.kview = vec.Batch{N: b.N, Sel: b.Sel, Cols: w.kview.Cols[:0]}
		for _, c := range w.keyCols {
			w.kview.Cols = append(w.kview.Cols, b.Cols[c])
		}
		w.kout.Reset()
		w.kout.Data = make([]byte, 0, cap(w.kout.Data))
		if err := w.key.Encode(&w.kout, &w.kview); err != nil {
			return nil, err
		}
	}
	n := b.Rows()
	if len(w.vout.Ends) != n || w.key != nil && len(w.kout.Ends) != n {
		return nil, fmt.Errorf("BUG: %d rows made %d records", n, len(w.vout.Ends))
	}
	recs := make([]kgo.Record, n)
	nulls := w.vout.Nulls
	from, kfrom, k := 0, 0, 0
	b.Each(func(i int) {
		rec := &recs[k]
		rec.Topic, rec.Partition = w.s.topic, w.partition
		rec.Value = w.vout.Data[from:w.vout.Ends[k]:w.vout.Ends[k]]
		from = w.vout.Ends[k]
		if len(nulls) > 0 && nulls[0] == k {
			rec.Value, nulls = nil, nulls[1:]
		}
		if w.key != nil {
			rec.Key = w.kout.Data[kfrom:w.kout.Ends[k]:w.kout.Ends[k]]
			kfrom = w.kout.Ends[k]
		}
		if w.s.upsert && b.Kind(i).Retracts() {
			rec.Value = nil
		}
		w.metadata(rec, b, i)
		k++
	})
	return recs, nil
}

// metadata sets headers and timestamp from the writable metadata columns.
func (w *writer) metadata(rec *kgo.Record, b *vec.Batch, i int) {
	at := w.metaAt
	for _, m := range w.s.cfg.Table.Metadata {
		if m.Virtual || at >= len(b.Cols) {
			continue
		}
		v := b.Cols[at]
		at++
		if v.IsNull(i) {
			continue
		}
		switch m.Key {
		case "timestamp":
			t, _ := expr.TimestampAt(v, i)
			rec.Timestamp = time.UnixMilli(t)
		case "headers":
			kv, _ := v.Value(i).([]types.Value)
			for x := 0; x+1 < len(kv); x += 2 {
				name, _ := kv[x].(string)
				value, _ := kv[x+1].([]byte)
				rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: value})
			}
		}
	}
}

func (w *writer) acked(rec *kgo.Record, err error) {
	w.acks.Add(1)
	if err != nil && w.wait {
		w.fail(fmt.Errorf("record of topic '%s': %w", rec.Topic, w.client.explain(err)))
	}
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Flush implements connector.Writer.
func (w *writer) Flush(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	if err := w.client.Flush(ctx); err != nil {
		if failed := w.failed(); failed != nil {
			return failed
		}
		return err
	}
	return w.failed()
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	return nil, w.Flush(ctx)
}

// Tick implements connector.Writer.
func (w *writer) Tick(context.Context) error { return w.failed() }

// Close implements connector.Writer.
func (w *writer) Close() error {
	w.cancel(errClosed)
	<-w.watched
	w.client.Close()
	return nil
}

var errClosed = errors.New("the writer was closed")
