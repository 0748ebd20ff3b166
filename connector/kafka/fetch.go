package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-stream/tidemark/connector"
)

const (
	// refetchBytes is how much is asked for with one record: those that follow are kept, for
	// they are likely to be wanted next.
	refetchBytes = 256 << 10
	// refetchKept is how many partitions a fetcher keeps records of.
	refetchKept = 8
	// refetchPause is how long it waits before it asks again after an answer that may be better
	// soon.
	refetchPause = 50 * time.Millisecond
)

// NewFetcher implements connector.Refetcher.
func (s *source) NewFetcher(context.Context) (connector.RecordFetcher, error) {
	c, err := newClient(s.cfg.Options, s.opts...)
	if err != nil {
		return nil, err
	}
	return &fetcher{client: c}, nil
}

// fetcher reads single records with a client of its own, as no group and without a position: what
// the readers do is not touched.
type fetcher struct {
	client *client
	kept   []*fetched // the one used last comes last
}

// fetched is what the last answer about a partition held.
type fetched struct {
	split string
	recs  []*kgo.Record
}

// Fetch implements connector.RecordFetcher: it returns the value of a record.
func (f *fetcher) Fetch(ctx context.Context, split string, offset int64) ([]byte, error) {
	topic, p, ok := parseSplitID(split)
	if !ok {
		return nil, fmt.Errorf("BUG: no topic and partition in %q", split)
	}
	x := f.partition(split)
	if rec := x.at(offset); rec != nil {
		return rec.Value, nil
	}
	for {
		recs, err := f.ask(ctx, topic, p, offset)
		if err == nil {
			x.recs = recs
			if rec := x.at(offset); rec != nil {
				return rec.Value, nil
			}
			return nil, fmt.Errorf("offset %d of %s is not there any more: compaction or retention took it", offset, split)
		}
		if !kerr.IsRetriable(err) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, f.client.explain(err)
		}
		select {
		case <-ctx.Done():
			return nil, f.client.explain(err)
		case <-time.After(refetchPause):
		}
	}
}

// partition returns what is kept of a partition, that of the oldest being dropped where there are
// many.
func (f *fetcher) partition(split string) *fetched {
	x := &fetched{split: split}
	if at := slices.IndexFunc(f.kept, func(x *fetched) bool { return x.split == split }); at >= 0 {
		x = f.kept[at]
		f.kept = slices.Delete(f.kept, at, at+1)
	} else if len(f.kept) == refetchKept {
		f.kept = slices.Delete(f.kept, 0, 1)
	}
	f.kept = append(f.kept, x)
	return x
}

func (x *fetched) at(offset int64) *kgo.Record {
	at, ok := slices.BinarySearchFunc(x.recs, offset, func(r *kgo.Record, o int64) int { return cmp.Compare(r.Offset, o) })
	if !ok {
		return nil
	}
	return x.recs[at]
}

// ask asks the leader of a partition for the records from offset on. A topic and its leader are
// looked up each time: the client knows them for a while.
func (f *fetcher) ask(ctx context.Context, topic string, partition int32, offset int64) ([]*kgo.Record, error) {
	topics, err := f.client.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	t := topics[topic]
	leader, known := t.Partitions[partition]
	switch {
	case t.Err != nil:
		return nil, t.Err
	case !known:
		return nil, kerr.UnknownTopicOrPartition
	case leader.Leader < 0:
		return nil, kerr.LeaderNotAvailable
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, refetchBytes // a record that is larger comes all the same
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, t.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, refetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	raw, err := f.client.Broker(int(leader.Leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := raw.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, kerr.RequestTimedOut // throttled
	}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: topic, Partition: partition},
		&resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return fp.Records, fp.Err
}

// Close implements connector.RecordFetcher.
func (f *fetcher) Close() error {
	f.client.Close()
	return nil
}
