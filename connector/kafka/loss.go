package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
)

// onDataLoss is the option that says what to do when records that a job has not read are gone.
const onDataLoss = "scan.on-data-loss"

// vanishedAfter is how long a partition must be missing at a start: brokers that just started do not
// know all topics yet.
const vanishedAfter = 2 * time.Second

// vanished is the error of partitions that a checkpoint has positions in and the brokers do not have.
type vanished struct{ ids []string }

// Error implements error.
func (v *vanished) Error() string {
	what, them := "partition "+v.ids[0]+" does", "it"
	if len(v.ids) > 1 {
		what, them = "partitions "+strings.Join(v.ids, ", ")+" do", "them"
	}
	return fmt.Sprintf("%s not exist any more, but the checkpoint has a position in %s: the topic was deleted, or made anew with "+
		"fewer partitions; bring %[2]s back, or start with --fresh, which forgets all positions and state", what, them)
}

// missing returns the partitions of the checkpoint that topics lack, or nil. A checkpoint of a table
// with other topics never comes here: positions are taken for the same topics only.
func (e *enumerator) missing(topics kadm.TopicDetails) error {
	v := &vanished{}
	for _, id := range e.restored {
		topic, p, ok := parseSplitID(id)
		t, listed := topics[topic]
		if listed && t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("topic '%s': %w", topic, t.Err)
		}
		if _, has := t.Partitions[p]; ok && !(listed && has && t.Err == nil) {
			v.ids = append(v.ids, id)
		}
	}
	if len(v.ids) == 0 {
		return nil
	}
	slices.Sort(v.ids)
	return v
}

// mayPass reports whether the first look for partitions should be repeated after err: a topic was just
// made, a leader is being elected, a broker has just started.
func (e *enumerator) mayPass(err error, since time.Time) bool {
	if v := (*vanished)(nil); errors.As(err, &v) {
		return time.Since(since) < min(vanishedAfter, e.client.within/2)
	}
	return err != nil && kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition)
}

// whenLost is what to do where the position is not there: fail, earliest or latest. Positions that a
// group committed, at which nothing was read yet, follow the rule of Kafka's own clients.
func (s *splitReader) whenLost() string {
	o := s.r.s.cfg.Options
	if !o.Has(onDataLoss) && !s.r.s.upsert && s.at == s.p.Start && o.Enum("scan.startup.mode") == "group-offsets" {
		if r := properties(o.Prefix("properties."))["auto.offset.reset"]; r == "earliest" || r == "latest" {
			return r
		}
	}
	return o.Enum(onDataLoss)
}

// lost goes on where there are records after the brokers have said that the position is out of range,
// or says why not.
func (s *splitReader) lost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.r.client.within)
	defer cancel()
	start, end, err := s.bounds(ctx)
	if err != nil {
		return s.r.client.explain(err)
	}
	if start <= s.at && s.at <= end {
		// A follower was behind, or the topic has grown meanwhile.
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		s.reopen(s.at)
		return nil
	}
	way := s.whenLost()
	if way == "fail" {
		return &connector.Fatal{Err: errors.New(s.lossText(start, end))}
	}
	to := start
	if way == "latest" {
		to = end
	}
	table := s.r.s.cfg.Table.Name
	switch {
	case s.at < start:
		s.r.s.cfg.Warning("table %s: %d records of %s, from offset %d on, were deleted before they were read; reading goes on at offset %d, "+
			"after %d records that are not read", table, start-s.at, s.id, s.at, to, to-s.at)
	default:
		s.r.s.cfg.Warning("table %s: offset %d of %s is beyond its end, %d: the topic was made anew, or its brokers have lost records; "+
			"reading goes on at offset %d, after %d records of it that are not read", table, s.at, s.id, end, to, to-start)
		if s.p.Stop > end {
			s.p.Stop = end // no record of this topic is at the stop that the other one had
		}
	}
	s.reopen(to)
	return nil
}

// lossText says what is gone and how to go on.
func (s *splitReader) lossText(start, end int64) string {
	remedy := "set '" + onDataLoss + "' = 'earliest' to go on with what is left, or 'latest' with what comes from now on"
	if s.at == s.p.Start && !s.r.s.upsert {
		remedy += "; a new job can set 'scan.startup.mode' = 'earliest-offset'"
	}
	if s.at < start {
		return fmt.Sprintf("offset %d of %s is not there: %d records, the offsets %[1]d to %[4]d, were deleted before they were read, "+
			"as by the topic's retention; %s", s.at, s.id, start-s.at, start-1, remedy)
	}
	return fmt.Sprintf("offset %d of %s is not there: the partition ends at offset %d. The topic was deleted and made anew, or its "+
		"brokers have lost records, so how many were not read cannot be told; %s, or start with --fresh", s.at, s.id, end, remedy)
}

// bounds asks for the first offset and the one behind the last.
func (s *splitReader) bounds(ctx context.Context) (start, end int64, err error) {
	for {
		if start, err = s.bound(ctx, s.r.client.admin.ListStartOffsets); err == nil {
			end, err = s.bound(ctx, s.r.client.admin.ListEndOffsets)
		}
		if err == nil || !kerr.IsRetriable(err) {
			return start, end, err
		}
		select {
		case <-ctx.Done():
			return 0, 0, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *splitReader) bound(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	listed, err := list(ctx, s.p.Topic)
	if err != nil {
		return 0, err
	}
	l, ok := listed.Lookup(s.p.Topic, s.p.Partition)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	return l.Offset, l.Err
}

// reopen goes on at another offset.
func (s *splitReader) reopen(to int64) {
	s.at, s.from = to, to
	s.r.do(func() {
		if s.r.splits[s.id] != s {
			return
		}
		s.r.client.RemoveConsumePartitions(s.p.set())
		s.mu.Lock()
		clear(s.queue)
		s.queue, s.bytes, s.err = s.queue[:0], 0, nil
		s.paused, s.lastData = false, time.Now()
		s.mu.Unlock()
		s.r.client.ResumeFetchPartitions(s.p.set())
		s.r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.p.Topic: {s.p.Partition: kgo.NewOffset().At(to)}})
	})
}
