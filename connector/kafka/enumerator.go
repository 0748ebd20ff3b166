package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
)

// answerWithin is how long brokers may take to answer at the start before the job gives up.
const answerWithin = 30 * time.Second

// partition is what a split is made of.
type partition struct {
	Topic     string
	Partition int32
	// Stop is the offset at which the split ends; -1: never.
	Stop int64
}

func splitID(topic string, p int32) string { return topic + "-" + strconv.Itoa(int(p)) }

type source struct {
	cfg    connector.SourceConfig
	opts   []kgo.Opt
	upsert bool
}

func newSource(c connector.SourceConfig) (connector.Source, error) {
	opts, err := clientOptions(c.Options)
	if err != nil {
		return nil, err
	}
	s := &source{cfg: c, opts: opts, upsert: c.Table.Connector == "upsert-kafka"}
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
	c, err := kgo.NewClient(s.opts...)
	if err != nil {
		return nil, err
	}
	e := &enumerator{s: s, client: c, admin: kadm.NewClient(c), known: map[string]bool{}, first: true}
	if p := s.cfg.Options.Get("topic-pattern"); p != "" {
		e.pattern = regexp.MustCompile("^(?:" + p + ")$")
	}
	return e, nil
}

// enumerator finds partitions. Those found first begin where scan.startup says, later ones, which
// are new, at their beginning.
type enumerator struct {
	s       *source
	client  *kgo.Client
	admin   *kadm.Client
	pattern *regexp.Regexp
	known   map[string]bool
	first   bool
	last    time.Time
}

// Known implements connector.Enumerator.
func (e *enumerator) Known(ids []string) {
	for _, id := range ids {
		e.known[id] = true
	}
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
	e.last = time.Now()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	found, err := e.partitions(ctx)
	if err != nil {
		if !e.first && !hopeless(err) {
			return nil, false, nil // brokers are away; the next round will tell
		}
		return nil, false, e.explain(err)
	}
	splits, err := e.place(ctx, found)
	if err != nil {
		return nil, false, e.explain(err)
	}
	e.first = false
	return splits, done, nil
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

func (e *enumerator) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no broker at %s answers within %s: %w", e.s.cfg.Options.Get("properties.bootstrap.servers"), answerWithin, err)
	}
	return err
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
	var out []partition
	for _, t := range topics.Sorted() {
		if e.pattern != nil && !e.pattern.MatchString(t.Topic) {
			continue
		}
		if t.Err != nil {
			if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				return nil, fmt.Errorf("topic '%s' does not exist", t.Topic)
			}
			return nil, fmt.Errorf("topic '%s': %w", t.Topic, t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			if !e.known[splitID(t.Topic, p.Partition)] {
				out = append(out, partition{t.Topic, p.Partition, -1})
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
	if e.first && !e.s.upsert {
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
		given, err := parseOffsets(o.Get("scan." + end + ".specific-offsets"))
		if err != nil {
			return nil, err
		}
		rest, err := e.offsets(ctx, ps, end, map[string]string{"startup": "earliest-offset", "bounded": "latest-offset"}[end])
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			if at, ok := given[p.Partition]; ok {
				rest[splitID(p.Topic, p.Partition)] = at
			}
		}
		return rest, nil
	}
	return e.groupOffsets(ctx, ps, end)
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

// groupOffsets takes what the group has committed; partitions without a commit follow
// auto.offset.reset.
func (e *enumerator) groupOffsets(ctx context.Context, ps []partition, end string) (map[string]int64, error) {
	p := properties(e.s.cfg.Options.Prefix("properties."))
	out := map[string]int64{}
	if group := p["group.id"]; group != "" {
		have, err := e.admin.FetchOffsets(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("offsets of group '%s': %w", group, err)
		}
		have.Each(func(r kadm.OffsetResponse) {
			if r.Err == nil && r.At >= 0 {
				out[splitID(r.Topic, r.Partition)] = r.At
			}
		})
	}
	var left []partition
	for _, x := range ps {
		if _, ok := out[splitID(x.Topic, x.Partition)]; !ok {
			left = append(left, x)
		}
	}
	if len(left) == 0 {
		return out, nil
	}
	mode := map[string]string{"earliest": "earliest-offset", "latest": "latest-offset"}[p.get("auto.offset.reset", "latest")]
	if end == "startup" && !e.s.cfg.Options.Has("scan.startup.mode") && p["auto.offset.reset"] == "" {
		mode = "latest-offset"
	}
	if mode == "" {
		return nil, fmt.Errorf("group '%s' has no offset for %s, and 'properties.auto.offset.reset' is '%s'", p["group.id"],
			splitID(left[0].Topic, left[0].Partition), p["auto.offset.reset"])
	}
	rest, err := e.offsets(ctx, left, end, mode)
	if err != nil {
		return nil, err
	}
	for k, v := range rest {
		out[k] = v
	}
	return out, nil
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
