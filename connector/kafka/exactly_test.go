package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// segments holds each segment in its committable.
type segments struct{}

func (segments) Create() (connector.SegmentWriter, error) { return &segmentWriter{}, nil }
func (segments) Open(_ context.Context, c connector.Committable) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(c)), nil
}

type segmentWriter struct{ bytes.Buffer }

func (w *segmentWriter) Size() int64                          { return int64(w.Len()) }
func (w *segmentWriter) Seal() (connector.Committable, error) { return w.Bytes(), nil }
func (w *segmentWriter) Discard() error                       { return nil }

// exactly makes a sink of (id INT, text STRING) into topic; refused rows go to bad.
func (r *rig) exactly(topic string, bad *[]string) connector.Sink {
	r.t.Helper()
	return r.exactlyWith(topic, bad, nil)
}

// exactlyWith is exactly with more options.
func (r *rig) exactlyWith(topic string, bad *[]string, options map[string]string) connector.Sink {
	r.t.Helper()
	t := &connector.Table{Name: topic, Connector: "kafka", Columns: []types.Field{{Name: "id", Type: types.IntType}, {Name: "text", Type: types.StringType}},
		Options: map[string]string{"connector": "kafka", "topic": topic, "format": "json", "properties.bootstrap.servers": r.addr,
			"sink.delivery-guarantee": "exactly-once"}}
	maps.Copy(t.Options, options)
	f := connector.Lookup("kafka")
	s, err := f.NewSink(connector.SinkConfig{Table: t, Options: option.Of(t.Options, f.Options, connector.CommonOptions), Schema: t.Schema(),
		Segments: segments{}, Job: "job", Node: topic, Bad: func(b format.BadRecord) error {
			if bad == nil {
				return b.Err
			}
			*bad = append(*bad, string(b.Bytes[:min(len(b.Bytes), 12)]))
			return nil
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// seal writes rows of the given ids as one epoch.
func (r *rig) seal(s connector.Sink, ids ...int32) []connector.Committable {
	r.t.Helper()
	w, err := s.NewWriter(context.Background(), 0, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	b := vec.NewBatch(types.NewSchema(types.Field{Name: "id", Type: types.IntType}, types.Field{Name: "text", Type: types.StringType}))
	b.Reset(len(ids))
	for i, id := range ids {
		b.Cols[0].I32[i] = id
		text := fmt.Sprint("text ", id)
		if id < 0 {
			text = strings.Repeat("x", 3<<20) // more than a broker takes
		}
		b.Cols[1].SetBytes(i, []byte(text))
	}
	if err := w.Write(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
	cs, err := w.Prepare(context.Background())
	if err := errors.Join(err, w.Close()); err != nil {
		r.t.Fatal(err)
	}
	return cs
}

func (r *rig) commitTo(s connector.Sink, id connector.CommitID, cs []connector.Committable) error {
	c, err := s.NewCommitter(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	return c.Commit(context.Background(), id, cs)
}

// visible reads n records of the topic as read_committed does, and a little longer.
func (r *rig) visible(topic string, n int) []string {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	var out []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		wait := 300 * time.Millisecond
		if len(out) < n {
			wait = 2 * time.Second
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		fs := cl.PollFetches(ctx)
		cancel()
		if fs.NumRecords() == 0 && len(out) >= n {
			break
		}
		fs.EachRecord(func(rec *kgo.Record) {
			v := string(rec.Value)
			out = append(out, v[:min(len(v), 24)])
		})
	}
	return out
}

func sameTexts(t *testing.T, got []string, ids ...int) {
	t.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, fmt.Sprintf(`{"id":%d,"text":"text %d"}`, id, id))
	}
	for i := range want {
		want[i] = want[i][:min(len(want[i]), 24)]
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestExactly_CommittingAgainChangesNothing(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	s := r.exactly("out", nil)
	a, b := r.seal(s, 1, 2), r.seal(s, 3)
	for range 2 { // each commit is that of another process
		if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 7}, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []connector.CommitID{{Lineage: "x", Checkpoint: 9}, {Lineage: "x", Checkpoint: 9}, {Lineage: "y", Checkpoint: 2}, {Lineage: "x", Checkpoint: 7}} {
		if err := r.commitTo(s, id, b); err != nil {
			t.Fatal(err)
		}
	}
	// Output of another run with the same state is none of what is there, and not skipped.
	for _, id := range []connector.CommitID{{Lineage: "x", Checkpoint: 9, After: 8}, {Lineage: "x", Checkpoint: 8, After: 7}, {Lineage: "x", Checkpoint: 8, After: 8}} {
		var o *connector.Overtaken
		if err := r.commitTo(s, id, r.seal(s, 4)); !errors.As(err, &o) || o.Has != 9 {
			t.Errorf("commit %+v: %v", id, err)
		}
	}
	if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 7, After: 9}, a); err != nil {
		t.Error(err)
	}
	sameTexts(t, r.visible("out", 4), 1, 2, 3, 3) // twice 3: in two lineages
}

// TestExactly_LostAnswers loses requests and answers of transactions in the middle.
func TestExactly_LostAnswers(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	s := r.exactly("out", nil)
	lose := func(key kmsg.Key) {
		r.c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("lost"), true })
	}
	var want []int
	for i, key := range []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.AddOffsetsToTxn, kmsg.Produce, kmsg.InitProducerID, kmsg.OffsetFetch} {
		cs := r.seal(s, int32(2*i), int32(2*i+1))
		lose(key)
		id := connector.CommitID{Lineage: "x", Checkpoint: int64(i + 1), After: int64(i)}
		for try := 0; ; try++ {
			if try > 0 {
				id.After = id.Checkpoint
			}
			err := r.commitTo(s, id, cs)
			if err == nil {
				break
			}
			if try > 5 {
				t.Fatalf("%s: %v", kmsg.NameForKey(int16(key)), err)
			}
		}
		want = append(want, 2*i, 2*i+1)
	}
	sameTexts(t, r.visible("out", len(want)), want...)
}

// TestExactly_AbortedInPlaceOfCommitted has the first transaction end as aborted, with an answer as if it
// were committed: its records come with the next attempt.
func TestExactly_AbortedInPlaceOfCommitted(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	ends := 0
	r.c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if ends++; ends == 1 {
			req.(*kmsg.EndTxnRequest).Commit = false
		}
		return nil, nil, false
	})
	s := r.exactly("out", nil)
	cs := r.seal(s, 1, 2)
	for range 2 {
		if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, cs); err != nil {
			t.Fatal(err)
		}
	}
	sameTexts(t, r.visible("out", 2), 1, 2)
	if ends != 2 {
		t.Errorf("%d transactions were ended", ends)
	}
}

// TestExactly_AllRefused commits an epoch of which no record may be written.
func TestExactly_AllRefused(t *testing.T) {
	r := newRig(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000"}))
	r.topic("out", 1)
	var bad []string
	s := r.exactly("out", &bad)
	c, err := s.NewCommitter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, ids := range [][]int32{{-1}, {2}} {
		if err := c.Commit(t.Context(), connector.CommitID{Lineage: "x", Checkpoint: int64(i + 1)}, r.seal(s, ids...)); err != nil {
			t.Fatal(err)
		}
	}
	sameTexts(t, r.visible("out", 1), 2)
	if len(bad) != 1 {
		t.Errorf("refused: %q", bad)
	}
}

// TestExactly_LeftOpen begins where a process died in the middle of a transaction.
func TestExactly_LeftOpen(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	dead, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.TransactionalID("tidemark-job-out"))
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	if err := dead.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := dead.ProduceSync(context.Background(), &kgo.Record{Topic: "out", Value: []byte("half")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s := r.exactly("out", nil)
	if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, r.seal(s, 1)); err != nil {
		t.Fatal(err)
	}
	sameTexts(t, r.visible("out", 1), 1)
}

// TestExactly_RefusedRecord finds the record that is too large among its neighbours.
func TestExactly_RefusedRecord(t *testing.T) {
	r := newRig(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000"}))
	r.topic("out", 1)
	var bad []string
	s := r.exactly("out", &bad)
	if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, r.seal(s, 1, -1, 2)); err != nil {
		t.Fatal(err)
	}
	sameTexts(t, r.visible("out", 2), 1, 2)
	if len(bad) != 1 || bad[0] != `{"id":-1,"te` {
		t.Errorf("refused: %q", bad)
	}
}
