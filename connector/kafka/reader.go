package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

const (
	// queueBytes is how much the queues of a reader may hold together before full partitions
	// are paused; each may hold its share, within the bounds below it.
	queueBytes    = 64 << 20
	queueBytesMin = 1 << 20
	queueBytesMax = 8 << 20
	// openTogether is how long the first of several splits waits for the others.
	openTogether = 5 * time.Millisecond
	// pollRecords is how many records are moved at a time.
	pollRecords = 20000
	// lookAfter is after how long without any record the topics are looked at, if not earlier by
	// 'properties.metadata.max.age.ms': the client does not say when one was deleted.
	lookAfter = 10 * time.Second
	// goneAfter is how often in a row a topic must be missing; a broker that just started may
	// not know its topics yet.
	goneAfter = 3
)

// NewReader implements connector.Source.
func (s *source) NewReader(context.Context, int) (connector.Reader, error) {
	opts := append([]kgo.Opt{
		kgo.KeepControlRecords(), // they move the position
		kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}, s.opts...)
	if s.committed() {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	c, err := newClient(s.cfg.Options, opts...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{s: s, client: c, cancel: cancel, lookAfter: lookAfter, splits: map[string]*splitReader{}, gone: map[string]int{},
		wake: make(chan struct{}, 1), calls: make(chan func()), polled: make(chan struct{}), interrupt: func() {}}
	if n, ok, _ := properties(s.cfg.Options.Prefix("properties.")).number("metadata.max.age.ms"); ok {
		r.lookAfter = min(lookAfter, max(ms(n), 100*time.Millisecond))
	}
	go r.poll(ctx)
	return r, nil
}

// reader is the client of one subtask. Its goroutine, poll, moves records from the client to the
// queues of splits and makes all changes of what is read, so that no record of a split that was
// closed reaches the same split opened again.
type reader struct {
	s      *source
	client *client
	cancel context.CancelFunc
	// lookAfter is as the constant.
	lookAfter time.Duration
	wake      chan struct{}
	calls     chan func()
	polled    chan struct{} // closed when poll has ended

	mu        sync.Mutex
	waiting   int            // calls that poll has not made yet; guarded by mu, as the next
	opened    []*splitReader // that poll has not added yet
	interrupt func()         // ends the current wait for records

	// Of poll:
	splits map[string]*splitReader
	gone   map[string]int // how often in a row a topic was missing
}

// Wake implements connector.Reader.
func (r *reader) Wake() <-chan struct{} { return r.wake }

// Open implements connector.Reader.
func (r *reader) Open(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
	var p partition
	if err := json.Unmarshal(sp.Data, &p); err != nil {
		return nil, fmt.Errorf("BUG: split %s: %w", sp.ID, err)
	}
	s := &splitReader{r: r, p: p, at: p.Start, id: sp.ID, lastData: time.Now(), end: -1,
		origin: &vec.Origin{Source: r.s.cfg.Table.Name, Split: sp.ID, Unit: "offset"}}
	if sp.Position.Set {
		s.at = sp.Position.Offset
	}
	if p.Stop >= 0 && s.at >= p.Stop {
		return s, nil
	}
	s.from = s.at
	r.mu.Lock()
	r.opened = append(r.opened, s)
	r.interrupt()
	r.mu.Unlock()
	return s, nil
}

// add begins to read the splits opened. They are given to the client together, as it takes a second
// to learn of a topic that it gets while it learns of others.
func (r *reader) add() {
	r.mu.Lock()
	some := len(r.opened) > 0
	r.mu.Unlock()
	if !some {
		return
	}
	time.Sleep(openTogether)
	r.mu.Lock()
	opened := r.opened
	r.opened = nil
	r.mu.Unlock()
	at := map[string]map[int32]kgo.Offset{}
	for _, s := range opened {
		r.splits[s.id] = s
		if at[s.p.Topic] == nil {
			at[s.p.Topic] = map[int32]kgo.Offset{}
		}
		at[s.p.Topic][s.p.Partition] = kgo.NewOffset().At(s.from)
	}
	r.client.AddConsumePartitions(at)
}

// do has poll call f while no record is on its way.
func (r *reader) do(f func()) {
	r.mu.Lock()
	r.waiting++
	r.interrupt()
	r.mu.Unlock()
	done := make(chan struct{})
	select {
	case r.calls <- func() { f(); close(done) }:
		<-done
	case <-r.polled:
	}
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
}

// poll works until the reader is closed.
func (r *reader) poll(ctx context.Context) {
	defer close(r.polled)
	for {
		r.add()
		poll, cancel := context.WithTimeout(ctx, r.lookAfter)
		r.mu.Lock()
		if len(r.opened) > 0 {
			cancel()
		}
		calls := r.waiting > 0
		r.interrupt = cancel
		r.mu.Unlock()
		if calls {
			select {
			case f := <-r.calls:
				r.add()
				f()
			case <-time.After(time.Millisecond): // it was made already
			case <-ctx.Done():
			}
		} else {
			r.deliver(r.client.PollRecords(poll, pollRecords))
			if errors.Is(poll.Err(), context.DeadlineExceeded) {
				r.look(ctx)
			}
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// deliver queues what was fetched and wakes the subtask.
func (r *reader) deliver(fetches kgo.Fetches) {
	share := min(max(queueBytes/max(len(r.splits), 1), queueBytesMin), queueBytesMax)
	some := false
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Topic == "" || f.Partition < 0 { // an error of all partitions, or of a topic
			for _, s := range r.splits {
				if f.Topic == "" || s.p.Topic == f.Topic {
					some = s.fail(f.Err) || some
				}
			}
			return
		}
		if s := r.splits[splitID(f.Topic, f.Partition)]; s != nil {
			s.put(f, share)
			some = true
		}
	})
	if some {
		r.awake()
	}
}

func (r *reader) awake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// look finds topics that were deleted: nothing more would ever come from them.
func (r *reader) look(ctx context.Context) {
	var topics []string
	for _, s := range r.splits {
		topics = append(topics, s.p.Topic)
	}
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.lookAfter)
	defer cancel()
	have, err := r.client.admin.ListTopics(ctx, topics...)
	if err != nil {
		return // brokers are away
	}
	for _, s := range r.splits {
		if t, ok := have[s.p.Topic]; !ok || !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			r.gone[s.id] = 0
			continue
		}
		if r.gone[s.id]++; r.gone[s.id] >= goneAfter {
			s.fail(&connector.Fatal{Err: fmt.Errorf("topic '%s' does not exist any more", s.p.Topic)})
			r.awake()
		}
	}
}

// Commit implements connector.Reader.
func (r *reader) Commit(ctx context.Context, positions map[string]connector.Position) error {
	group := r.s.cfg.Options.Get("properties.group.id")
	if group == "" || r.s.cfg.Options.Get("properties.commit.offsets.on.checkpoint") == "false" {
		return nil
	}
	offsets := kadm.Offsets{}
	for id, pos := range positions {
		if topic, p, ok := parseSplitID(id); ok && pos.Set {
			offsets.AddOffset(topic, p, pos.Offset, -1)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	resp, err := r.client.admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group '%s': %w", group, r.client.explain(err))
	}
	return nil
}

// Close implements connector.Reader.
func (r *reader) Close() error {
	r.cancel()
	r.client.Close()
	<-r.polled
	return nil
}
