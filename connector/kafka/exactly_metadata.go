package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-stream/tidemark/connector"
)

// The metadata of a group's offset say what is in the topic, and Kafka drops offsets that nobody has
// committed for offsets.retention.minutes (a week unless set otherwise). Two things are done about it:
//
//   - After each commit, and at a start, the metadata are committed once more, for another group (its
//     name ends with keptSuffix), with a retention of its own of ten years, which version 4 of that
//     request can say (keep). That is no part of the transaction, so nothing fences it: the request of
//     a process that was overtaken may come after the commits of its successor. Hence the other group:
//     only transactions change the offset of the first. Of each lineage the later checkpoint of both
//     counts (merged). A crash in between leaves the copy behind what was committed.
//   - Each segment ends with the time when it was sealed and whether there were metadata then. A
//     committer that finds none but the copy, or none at all, knows from these whether there must have
//     been some. Then nothing can tell whether a segment that the copy does not have was committed, and
//     the user is asked (isThere).
//
// Earlier versions kept the offset of the first group so, and had no copy.

type sealed struct {
	// Lineages are those that wrote the topic, the newest last, with the last checkpoint of each.
	Lineages []sealedLineage `json:"tidemark"`
}

// keptSealed is the copy that brokers keep for longer.
type keptSealed struct {
	sealed
	// Topic is the id of the topic that it is of: one that is made anew has nothing of what the copy
	// says.
	Topic string `json:"topic,omitempty"`
}

type sealedLineage struct {
	ID string `json:"l"`
	N  int64  `json:"n"`
}

// sealedLineages bounds what is remembered: brokers take 4 KiB of metadata.
const sealedLineages = 60

func (s *sealed) has(id connector.CommitID) bool { return s.newest(id.Lineage) >= id.Checkpoint }

// newest is the last checkpoint of a lineage that went in, or -1.
func (s *sealed) newest(lineage string) int64 {
	for _, l := range s.Lineages {
		if l.ID == lineage {
			return l.N
		}
	}
	return -1
}

func (s *sealed) with(id connector.CommitID) *sealed {
	out := &sealed{}
	for _, l := range s.Lineages {
		if l.ID != id.Lineage {
			out.Lineages = append(out.Lineages, l)
		}
	}
	out.Lineages = append(out.Lineages, sealedLineage{id.Lineage, id.Checkpoint})
	out.trim()
	return out
}

func (s *sealed) trim() {
	if n := len(s.Lineages) - sealedLineages; n > 0 {
		s.Lineages = s.Lineages[n:]
	}
}

// merged is what s or the copy has: checkpoints of a lineage only grow, so the later one is right.
func (s *sealed) merged(copied *sealed) *sealed {
	out := &sealed{}
	for _, l := range copied.Lineages {
		if !slices.ContainsFunc(s.Lineages, func(x sealedLineage) bool { return x.ID == l.ID }) {
			out.Lineages = append(out.Lineages, l)
		}
	}
	for _, l := range s.Lineages {
		for _, x := range copied.Lineages {
			if x.ID == l.ID {
				l.N = max(l.N, x.N)
			}
		}
		out.Lineages = append(out.Lineages, l)
	}
	out.trim()
	return out
}

// sealing is what a segment says of itself.
type sealing struct {
	// AtMs is when it was sealed, by the machine's clock.
	AtMs int64 `json:"at"`
	// Marked says that there were metadata then, for the topic with this id.
	Marked bool   `json:"marked,omitempty"`
	Topic  string `json:"topic,omitempty"`
}

const (
	// sealingMark stands in place of a record's partition + 1; no partition has that number.
	sealingMark      = 1 << 40
	sealingPartition = -2
)

// sealing is for a segment that is sealed now.
func (s *sink) sealing() *sealing {
	out := &sealing{AtMs: time.Now().UnixMilli()}
	if topic := s.marked.Load(); topic != nil {
		out.Marked, out.Topic = true, *topic
	}
	return out
}

func appendSealing(dst []byte, s *sealing) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	dst = appendBytes(append(dst, 0), text)
	return append(binary.AppendUvarint(dst, sealingMark), 0, 0) // no time, no headers
}

// readSealing returns what a segment says of itself, nil if it is of an earlier version.
func readSealing(r io.Reader) (*sealing, error) {
	b := bufio.NewReaderSize(r, 1<<18)
	for {
		rec, err := readRecord(b)
		switch {
		case err == io.EOF:
			return nil, nil
		case err != nil:
			return nil, err
		case rec.Partition == sealingPartition:
			out := &sealing{}
			if err := json.Unmarshal(rec.Value, out); err != nil {
				return nil, fmt.Errorf("%w: %w", errSegment, err)
			}
			return out, nil
		}
	}
}

// readBoth reads what is in the topic. gone says that only the copy may tell: what was committed last
// may be missing in it.
func readBoth(ctx context.Context, cl *client, group, topic string, id [16]byte) (at *sealed, gone bool, err error) {
	first, err := readSealed(ctx, cl, group, topic, id)
	if err != nil {
		return nil, false, err
	}
	gone = len(first.Lineages) == 0
	copied, err := readSealed(ctx, cl, group+keptSuffix, topic, id)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		// Rights that name groups one by one may leave it out. Then there is no copy.
		return &first.sealed, gone, nil
	case err != nil:
		return nil, false, err
	case copied.Topic != hex.EncodeToString(id[:]):
		return &first.sealed, gone, nil
	}
	return first.merged(&copied.sealed), gone, nil
}

// readSealed reads the metadata of the group's offset of partition 0 of the topic.
func readSealed(ctx context.Context, cl *client, group, topic string, id [16]byte) (*keptSealed, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Group = group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	req.Topics = []kmsg.OffsetFetchRequestTopic{t}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = topic, id, []int32{0}
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{gt}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		resp, err := req.RequestWith(ctx, cl.Client)
		if err != nil {
			return nil, err
		}
		text, code := sealedText(resp)
		err = kerr.ErrorForCode(code)
		if errors.Is(err, kerr.GroupIDNotFound) {
			err = nil // nothing was committed yet
		}
		switch {
		case err == nil:
			out := &keptSealed{}
			if text != "" && json.Unmarshal([]byte(text), out) != nil {
				return nil, &connector.Fatal{Err: fmt.Errorf("group '%s' has offsets that no sink of Tidemark committed (%q); "+
					"choose another 'sink.transactional-id-prefix'", group, text)}
			}
			return out, nil
		case !kerr.IsRetriable(err) && !errors.Is(err, kerr.UnstableOffsetCommit):
			return nil, fmt.Errorf("offsets of group '%s': %w", group, err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// sealedText finds the metadata, and the error, in an answer of any version.
func sealedText(r *kmsg.OffsetFetchResponse) (text string, code int16) {
	meta := func(m *string) {
		if m != nil {
			text = *m
		}
	}
	code = r.ErrorCode
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			meta(p.Metadata)
			code = max(code, p.ErrorCode)
		}
	}
	for _, g := range r.Groups {
		if g.ErrorCode != 0 {
			code = g.ErrorCode
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				meta(p.Metadata)
				if p.ErrorCode != 0 {
					code = p.ErrorCode
				}
			}
		}
	}
	return text, code
}

// mark adds the offset with the metadata to the transaction.
func (c *committer) mark(ctx context.Context, at *sealed) error {
	name := c.s.transactionalID()
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	pid, epoch, err := c.cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = name, pid, epoch, name
	addResp, err := add.RequestWith(ctx, c.cl.Client)
	if err == nil {
		err = kerr.ErrorForCode(addResp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("add group '%s' to the transaction: %w", name, err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = name, pid, epoch, name
	meta := string(text)
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = 0, at.Lineages[len(at.Lineages)-1].N, &meta
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = c.s.topic, c.id, []kmsg.TxnOffsetCommitRequestTopicPartition{p}
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{t}
	for {
		resp, err := req.RequestWith(ctx, c.cl.Client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.ConcurrentTransactions) {
			return fmt.Errorf("commit the offset of group '%s': %w", name, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// keptSuffix makes the name of the group of the copy.
const keptSuffix = "-kept"

// kept is how long a broker keeps the metadata although nobody commits. (More than that and it may
// overflow what the broker computes with.)
const kept = 10 * 365 * 24 * time.Hour

// versions are those of requests that committers send: the last one of OffsetCommit that says how long
// offsets are kept is 4.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 4)
	return v
}

// keep asks the broker to keep a copy of the metadata for longer than it keeps offsets. It is no loss of rows
// where it refuses: then isThere finds out if it is one.
func (c *committer) keep(ctx context.Context) {
	if len(c.at.Lineages) == 0 {
		return
	}
	topic := hex.EncodeToString(c.id[:])
	c.s.marked.Store(&topic)
	text, err := json.Marshal(keptSealed{*c.at, topic})
	if err != nil {
		return
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = c.s.transactionalID()+keptSuffix, -1, kept.Milliseconds()
	meta := string(text)
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = 0, c.at.Lineages[len(c.at.Lineages)-1].N, &meta
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = c.s.topic, []kmsg.OffsetCommitRequestTopicPartition{p}
	req.Topics = []kmsg.OffsetCommitRequestTopic{t}
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = req.RequestWith(within, c.cl.Client)
}

// isThere reports whether the segments of a checkpoint that the metadata do not have are to be taken
// for committed. They are not, unless the metadata are gone and the user says so.
func (c *committer) isThere(ctx context.Context, id connector.CommitID, cs []connector.Committable) (bool, error) {
	if !c.gone && !c.lost {
		return false, nil
	}
	var s *sealing
	if len(cs) > 0 { // they were sealed at the same time
		seg, err := c.s.cfg.Segments.Open(ctx, cs[0])
		if err != nil {
			return false, err
		}
		s, err = readSealing(seg)
		seg.Close()
		if err != nil {
			return false, err
		}
	}
	switch {
	case s == nil:
		return false, nil
	case c.lost && s.AtMs >= c.s.made.UnixMilli():
		return false, nil // sealed by this process, so committed by nobody else
	case c.lost:
	case s.Marked && s.Topic != hex.EncodeToString(c.id[:]):
		return false, nil // the topic was made anew
	case s.Marked:
		c.lost = true
	default:
		c.lost = time.Since(time.UnixMilli(s.AtMs)) >= c.retention(ctx)
	}
	if !c.lost {
		return false, nil
	}
	switch c.s.cfg.Options.Enum("sink.on-unknown-commit") {
	case "commit":
		return false, nil
	case "skip":
		return true, nil
	}
	group := c.s.transactionalID()
	return false, &connector.Fatal{Err: fmt.Errorf("topic '%s': whether the output of checkpoint %d, sealed at %s, is in it already is not known: "+
		"group '%s', whose offset says what is, has no offsets any more (a broker drops them after offsets.retention.minutes, here %s); "+
		"look whether the records are there, and start once with 'sink.on-unknown-commit' = 'skip' if they are, 'commit' if not",
		c.s.topic, id.Checkpoint, time.UnixMilli(s.AtMs).UTC().Format("2006-01-02 15:04:05 UTC"), group, c.retention(ctx))}
}

// assumedRetention is what is taken for the broker's retention of offsets where it does not say: the
// shortest default that there was.
const assumedRetention = 24 * time.Hour

// retention is how long the broker keeps offsets.
func (c *committer) retention(ctx context.Context) time.Duration {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const key = "offsets.retention.minutes"
	found, err := c.cl.admin.ListBrokers(within)
	if err != nil || len(found) == 0 {
		return assumedRetention
	}
	configs, err := c.cl.admin.DescribeBrokerConfigs(within, found[0].NodeID)
	if err != nil {
		return assumedRetention
	}
	for _, of := range configs {
		for _, x := range of.Configs {
			if x.Key != key || x.Value == nil {
				continue
			}
			if n, err := strconv.ParseInt(*x.Value, 10, 64); err == nil && n > 0 {
				return time.Duration(n) * time.Minute
			}
		}
	}
	return assumedRetention
}
