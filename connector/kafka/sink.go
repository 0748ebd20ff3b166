package kafka

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	return &sink{cfg: c, opts: opts, topic: topics[0], upsert: c.Table.Connector == "upsert-kafka"}, nil
}

// producerOptions adds what only producers understand.
func producerOptions(o option.Values) ([]kgo.Opt, error) {
	opts, err := clientOptions(o)
	if err != nil {
		return nil, err
	}
	p := properties(o.Prefix("properties."))
	opts = append(opts, kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(64<<20), kgo.ProducerLinger(5*time.Millisecond))
	for key, f := range map[string]func(int64) kgo.Opt{
		"linger.ms":           func(n int64) kgo.Opt { return kgo.ProducerLinger(ms(n)) },
		"batch.size":          func(n int64) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(min(max(n, 1<<10), math.MaxInt32))) },
		"buffer.memory":       func(n int64) kgo.Opt { return kgo.MaxBufferedBytes(int(n)) },
		"delivery.timeout.ms": func(n int64) kgo.Opt { return kgo.RecordDeliveryTimeout(ms(max(n, 1000))) },
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
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) { return nil, nil }

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) {
	if s.cfg.Options.Enum("sink.delivery-guarantee") == "none" {
		return connector.AtMostOnce, "records are sent and not waited for"
	}
	why := "an idempotent producer, flushed before source positions are committed; after a crash records may be written again"
	if s.upsert {
		why += ", which rewrites the same keys"
	}
	return connector.AtLeastOnce, why
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, subtask, _ int) (connector.Writer, error) {
	w := &writer{s: s, wait: s.cfg.Options.Enum("sink.delivery-guarantee") != "none", metaAt: len(s.cfg.Table.Columns), partition: -1}
	if err := w.encoders(); err != nil {
		return nil, err
	}
	opts := s.opts
	switch s.cfg.Options.Get("sink.partitioner") {
	case "round-robin":
		opts = append(opts[:len(opts):len(opts)], kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case "fixed":
		opts = append(opts[:len(opts):len(opts)], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	var err error
	if w.client, err = kgo.NewClient(opts...); err != nil {
		return nil, err
	}
	if err := w.open(ctx, subtask); err != nil {
		w.client.Close()
		return nil, err
	}
	return w, nil
}

// writer sends the rows of one subtask. Acknowledgements come on the client's goroutine.
type writer struct {
	s         *sink
	client    *kgo.Client
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
	kinds     []types.RowKind

	mu  sync.Mutex
	err error // the first failed record; guarded by mu
}

// open looks at the topic, so that a missing one is found before the first row.
func (w *writer) open(ctx context.Context, subtask int) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	topics, err := kadm.NewClient(w.client).ListTopics(ctx, w.s.topic)
	if err != nil {
		return fmt.Errorf("brokers at %s: %w", w.s.cfg.Options.Get("properties.bootstrap.servers"), err)
	}
	t := topics[w.s.topic]
	if t.Err != nil || len(t.Partitions) == 0 {
		return w.create(ctx, t.Err)
	}
	if w.s.cfg.Options.Get("sink.partitioner") == "fixed" {
		w.partition = int32(subtask % len(t.Partitions))
	}
	return nil
}

// create makes a missing topic, as brokers do for producers when auto.create.topics.enable is on.
func (w *writer) create(ctx context.Context, missing error) error {
	if w.s.cfg.Options.Get("properties.allow.auto.create.topics") == "false" {
		return fmt.Errorf("topic '%s' does not exist", w.s.topic)
	}
	configs := map[string]*string{}
	if w.s.upsert {
		compact := "compact"
		configs["cleanup.policy"] = &compact
	}
	resp, err := kadm.NewClient(w.client).CreateTopic(ctx, -1, -1, configs, w.s.topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil && !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
		return fmt.Errorf("topic '%s' does not exist (%v) and cannot be created: %w", w.s.topic, missing, err)
	}
	if w.partition < 0 && w.s.cfg.Options.Get("sink.partitioner") == "fixed" {
		w.partition = 0
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
	isKey := map[int]bool{}
	for _, k := range keys {
		isKey[t.Schema().Index(k)] = true
	}
	var vs, ks types.Schema
	for i, c := range t.Columns {
		if isKey[i] {
			w.keyCols = append(w.keyCols, i)
			kc := c
			kc.Name = strings.TrimPrefix(c.Name, o.Get("key.fields-prefix"))
			ks.Fields = append(ks.Fields, kc)
		}
		if !isKey[i] || o.Enum("value.fields-include") != "EXCEPT_KEY" {
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

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *vec.Batch) error {
	if err := w.failed(); err != nil {
		return err
	}
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
		return err
	}
	if w.key != nil {
		w.kview = vec.Batch{N: b.N, Sel: b.Sel, Cols: w.kview.Cols[:0]}
		for _, c := range w.keyCols {
			w.kview.Cols = append(w.kview.Cols, b.Cols[c])
		}
		w.kout.Reset()
		w.kout.Data = make([]byte, 0, cap(w.kout.Data))
		if err := w.key.Encode(&w.kout, &w.kview); err != nil {
			return err
		}
	}
	return w.produce(ctx, b)
}

func (w *writer) produce(ctx context.Context, b *vec.Batch) error {
	n := b.Rows()
	if len(w.vout.Ends) != n || w.key != nil && len(w.kout.Ends) != n {
		return fmt.Errorf("BUG: %d rows made %d records", n, len(w.vout.Ends))
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
	for i := range recs {
		w.client.Produce(ctx, &recs[i], w.acked)
	}
	return nil
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
		key := m.Key
		if key == "" {
			key = m.Name
		}
		switch key {
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
	if err == nil || !w.wait {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("record of topic '%s': %w", rec.Topic, err)
	}
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Flush implements connector.Writer.
func (w *writer) Flush(ctx context.Context) error {
	if !w.wait {
		return nil
	}
	if err := w.client.Flush(ctx); err != nil {
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
func (w *writer) Close() error { w.client.Close(); return nil }
