package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// partition is what a split is made of.
type partition struct {
	Topic     string
	Partition int32
	// Start is the offset at which the split begins.
	Start int64
	// Stop is the offset at which the split ends; -1: never.
	Stop int64
}

func splitID(topic string, p int32) string { return topic + "-" + strconv.Itoa(int(p)) }

// parseSplitID is the reverse of splitID.
func parseSplitID(id string) (topic string, p int32, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(id[i+1:], 10, 32)
	return id[:i], int32(n), err == nil
}

type source struct {
	cfg    connector.SourceConfig
	opts   []kgo.Opt
	upsert bool
	keyed  bool // records' keys are wanted
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	opts, err := clientOptions(c.Options)
	if err != nil {
		return nil, err
	}
	s := &source{cfg: c, opts: opts, upsert: c.Table.Connector == "upsert-kafka", keyed: c.Options.Get("key.format") != ""}
	for _, m := range c.Metadata {
		if key := c.Table.Metadata[m].Key; !slices.ContainsFunc(readMetadata, func(f types.Field) bool { return f.Name == key }) {
			return nil, &option.Error{Msg: fmt.Sprintf("metadata '%s' cannot be read from Kafka yet", key)}
		}
	}
	if !s.upsert && c.Options.Enum("scan.startup.mode") == "group-offsets" && !c.Options.Has("properties.group.id") {
		return nil, &option.Error{Key: "scan.startup.mode", Msg: "reading starts at the offsets of a group, but there is no 'properties.group.id'",
			Hint: "give the group, or set 'scan.startup.mode' to earliest-offset or latest-offset"}
	}
	if c.Batch && !s.Bounded() {
		return nil, &option.Error{Key: "scan.bounded.mode", Msg: "batch mode needs sources that end", Hint: "set 'scan.bounded.mode', for example to 'latest-offset'"}
	}
	return s, nil
}

func (s *source) committed() bool {
	return s.cfg.Options.Get("properties.isolation.level") == "read_committed"
}

// Bounded implements connector.Source.
func (s *source) Bounded() bool { return s.cfg.Options.Enum("scan.bounded.mode") != "unbounded" }

// Guarantee implements connector.Source.
func (s *source) Guarantee() string {
	return "records are read again from an offset, in the order of each partition"
}

// NewEnumerator implements connector.Source.
func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	c, err := newClient(s.cfg.Options, s.opts...)
	if err != nil {
		return nil, err
	}
	e := &enumerator{s: s, client: c, admin: c.admin, known: map[string]bool{}, first: true, start: true}
	if p := s.cfg.Options.Get("topic-pattern"); p != "" {
		e.pattern = regexp.MustCompile("^(?:" + p + ")$")
	}
	return e, nil
}

// enumerator finds partitions. Those found first begin where scan.startup says, later ones, which
// are new, at their beginning.
type enumerator struct {
	s       *source
	client  *client
	admin   *kadm.Client
	pattern *regexp.Regexp
	known   map[string]bool
	first   bool // nothing was found yet: errors end the job
	start   bool // partitions found now begin at scan.startup
	// restored are the partitions of the checkpoint, until they were seen to exist.
	restored []string
	last     time.Time
}

// Known implements connector.Enumerator.
func (e *enumerator) Known(ids []string) {
	for _, id := range ids {
		e.known[id] = true
	}
	e.restored = ids
	e.start = false
}

// Close implements connector.Enumerator.
func (e *enumerator) Close() error { e.client.Close(); return nil }

// Discover implements connector.Enumerator.
func (e *enumerator) Discover(ctx context.Context) ([]connector.Split, bool, error) {
	every := e.s.cfg.Options.Duration("scan.topic-partition-discovery.interval")
	done := e.s.Bounded() || every <= 0
	if !e.first && time.Since(e.last) < every {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.client.within)
	defer cancel()
	since := time.Now()
	splits, err := e.find(ctx)
	for e.first && e.mayPass(err, since) {
		select {
		case <-ctx.Done():
			return nil, false, e.client.explain(err)
		case <-time.After(100 * time.Millisecond):
			splits, err = e.find(ctx)
		}
	}
	e.last = time.Now()
	if v := (*vanished)(nil); errors.As(err, &v) {
		return nil, false, &connector.Fatal{Err: v}
	}
	if err != nil {
		if !e.first && !hopeless(err) {
			return nil, false, nil // brokers are away; the next round will tell
		}
		return nil, false, e.client.explain(err)
	}
	e.first, e.start = false, false
	return splits, done, nil
}

func (e *enumerator) find(ctx context.Context) ([]connector.Split, error) {
	found, err := e.partitions(ctx)
	if err != nil {
		return nil, err
	}
	return e.place(ctx, found)
}

// hopeless reports errors that waiting does not mend.
func hopeless(err error) bool {
	for _, e := range []error{kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// partitions lists the partitions of the topics that are not known yet.
func (e *enumerator) partitions(ctx context.Context) ([]partition, error) {
	var topics kadm.TopicDetails
	var err error
	if e.pattern != nil {
		topics, err = e.admin.ListTopics(ctx)
	} else {
		topics, err = e.admin.ListTopics(ctx, e.s.cfg.Options.List("topic")...)
	}
	if err != nil {
		return nil, err
	}
	if len(e.restored) > 0 {
		if err := e.missing(topics); err != nil {
			return nil, err
		}
		e.restored = nil
	}
	var out []partition
	for _, t := range topics.Sorted() {
		if e.pattern != nil && !e.pattern.MatchString(t.Topic) {
			continue
		}
		if t.Err != nil {
			if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				return nil, fmt.Errorf("topic '%s' does not exist: %w", t.Topic, t.Err)
			}
			return nil, fmt.Errorf("topic '%s': %w", t.Topic, t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			if !e.known[splitID(t.Topic, p.Partition)] {
				out = append(out, partition{Topic: t.Topic, Partition: p.Partition, Stop: -1})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Topic < out[j].Topic || out[i].Topic == out[j].Topic && out[i].Partition < out[j].Partition
	})
	return out, nil
}

// place decides where new partitions begin and end.
func (e *enumerator) place(ctx context.Context, found []partition) ([]connector.Split, error) {
	if len(found) == 0 {
		return nil, nil
	}
	mode := "earliest-offset"
	if e.start && !e.s.upsert {
		mode = e.s.cfg.Options.Enum("scan.startup.mode")
	}
	starts, err := e.offsets(ctx, found, "startup", mode)
	if err != nil {
		return nil, err
	}
	stop := e.s.cfg.Options.Enum("scan.bounded.mode")
	var stops map[string]int64
	if stop != "unbounded" {
		if stops, err = e.offsets(ctx, found, "bounded", stop); err != nil {
			return nil, err
		}
	}
	var out []connector.Split
	for _, p := range found {
		id := splitID(p.Topic, p.Partition)
		e.known[id] = true
		p.Start = starts[id]
		if stops != nil {
			p.Stop = stops[id]
		}
		data, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		out = append(out, connector.Split{ID: id, Data: data, Position: connector.Position{Offset: starts[id], Set: true}})
	}
	return out, nil
}

// offsets resolves a startup or bounded mode for every partition.
func (e *enumerator) offsets(ctx context.Context, ps []partition, end, mode string) (map[string]int64, error) {
	o := e.s.cfg.Options
	switch mode {
	case "earliest-offset":
		return e.list(ctx, ps, e.admin.ListStartOffsets)
	case "latest-offset":
		if e.s.committed() {
			return e.list(ctx, ps, e.admin.ListCommittedOffsets)
		}
		return e.list(ctx, ps, e.admin.ListEndOffsets)
	case "timestamp":
		at := o.Int("scan." + end + ".timestamp-millis")
		return e.list(ctx, ps, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return e.admin.ListOffsetsAfterMilli(ctx, at, topics...)
		})
	case "specific-offsets":
		return e.specificOffsets(ctx, ps, end)
	}
	out, left, err := e.committedOffsets(ctx, ps)
	if err != nil || len(left) == 0 {
		return out, err
	}
	p := properties(o.Prefix("properties."))
	switch r := p["auto.offset.reset"]; r {
	case "", "earliest", "latest", "none":
	default:
		return nil, &option.Error{Key: "properties.auto.offset.reset", Msg: fmt.Sprintf("'properties.auto.offset.reset' cannot be '%s'", r),
			Hint: "write earliest, latest or none"}
	}
	reset := map[string]string{"earliest": "earliest-offset", "latest": "latest-offset"}[p["auto.offset.reset"]]
	if reset == "" || end == "bounded" {
		return nil, &option.Error{Key: "scan." + end + ".mode", Msg: fmt.Sprintf("group '%s' has committed no offset for %s", p["group.id"],
			splitID(left[0].Topic, left[0].Partition)), Hint: map[string]string{
			"startup": "set 'properties.auto.offset.reset' to earliest or latest, or 'scan.startup.mode' to earliest-offset or latest-offset",
			"bounded": "set 'scan.bounded.mode' to latest-offset"}[end]}
	}
	rest, err := e.offsets(ctx, left, end, reset)
	maps.Copy(out, rest)
	return out, err
}

// specificOffsets are the given ones; other partitions are at the offset that the group has
// committed, else at their beginning, so that a bounded read takes nothing from them.
func (e *enumerator) specificOffsets(ctx context.Context, ps []partition, end string) (map[string]int64, error) {
	given, err := parseOffsets(e.s.cfg.Options.Get("scan." + end + ".specific-offsets"))
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	var left []partition
	for _, p := range ps {
		if at, ok := given[p.Partition]; ok {
			out[splitID(p.Topic, p.Partition)] = at
		} else {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return out, nil
	}
	have, left, err := e.committedOffsets(ctx, left)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, have)
	rest, err := e.offsets(ctx, left, end, "earliest-offset")
	maps.Copy(out, rest)
	return out, err
}

func (e *enumerator) list(ctx context.Context, ps []partition, f func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[string]int64, error) {
	listed, err := f(ctx, topicsOf(ps)...)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, p := range ps {
		l, ok := listed.Lookup(p.Topic, p.Partition)
		if !ok {
			return nil, fmt.Errorf("the offsets of %s are not known", splitID(p.Topic, p.Partition))
		}
		if l.Err != nil {
			return nil, fmt.Errorf("offsets of %s: %w", splitID(p.Topic, p.Partition), l.Err)
		}
		out[splitID(p.Topic, p.Partition)] = l.Offset
	}
	return out, nil
}

// committedOffsets returns what the group has committed, and the partitions without a commit.
func (e *enumerator) committedOffsets(ctx context.Context, ps []partition) (map[string]int64, []partition, error) {
	out := map[string]int64{}
	group := e.s.cfg.Options.Get("properties.group.id")
	if group == "" {
		return out, ps, nil
	}
	have, err := e.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil, fmt.Errorf("offsets of group '%s': %w", group, err)
	}
	var left []partition
	for _, p := range ps {
		if r, ok := have.Lookup(p.Topic, p.Partition); ok && r.At >= 0 {
			if r.Err != nil {
				return nil, nil, fmt.Errorf("offset of group '%s' for %s: %w", group, splitID(p.Topic, p.Partition), r.Err)
			}
			out[splitID(p.Topic, p.Partition)] = r.At
		} else {
			left = append(left, p)
		}
	}
	return out, left, nil
}

func topicsOf(ps []partition) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range ps {
		if !seen[p.Topic] {
			seen[p.Topic] = true
			out = append(out, p.Topic)
		}
	}
	return out
}
