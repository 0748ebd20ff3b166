package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/vec"
)

// topicConnector is the connector whose tables of results are read as streams of revisions.
const topicConnector = "kafka"

const (
	topicLook = 250 * time.Millisecond
	topicAsk  = 5 * time.Second // between looks whether a broker is there
	// topicQuiet is the time without a row after which what is left cannot be read yet: it is of an open transaction.
	// How much is left of an empty partition is not known, so that takes longer.
	topicQuiet, topicEmpty = time.Second, 3 * time.Second
)

// topicReader reads a topic of revisions into the memory of the page.
type topicReader struct {
	table  *connector.Table
	script string
	into   *dashboard.Topic
	pause  func(ctx context.Context, failures int) // between a failure and the next reading
	ask    time.Duration                           // between looks whether a broker is there
}

// openTopic makes a reader of t, which keeps so many keys.
func openTopic(t *connector.Table, keys int) *topicReader {
	script, from := topicScript(t)
	return &topicReader{table: t, script: script, into: dashboard.NewTopic(t, keys, from), pause: topicPause}
}

func topicPause(ctx context.Context, failures int) {
	select {
	case <-ctx.Done():
	case <-time.After(min(time.Second<<min(failures, 6), 30*time.Second)):
	}
}

// topicScript is SQL that reads the revisions of t, and behind their columns the time of the record. from says where it
// begins, "" at the beginning of the topic: that is where it does unless the table says otherwise.
func topicScript(t *connector.Table) (script, from string) {
	var b strings.Builder
	name := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
	text := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	fmt.Fprintf(&b, "CREATE TABLE %s (", name(t.Name))
	for _, f := range t.Columns {
		fmt.Fprintf(&b, "\n  %s %s,", name(f.Name), f.Type.AsNullable())
	}
	fmt.Fprintf(&b, "\n  %s %s METADATA FROM 'timestamp' VIRTUAL\n) WITH (", name(dashboard.RecordTime.Name), dashboard.RecordTime.Type)
	options := map[string]string{"properties.isolation.level": "read_committed", "scan.startup.mode": "earliest-offset"}
	for k, v := range t.Options {
		if k != "properties.isolation.level" && !strings.HasPrefix(k, "scan.bounded.") {
			options[k] = v
		}
	}
	if mode := options["scan.startup.mode"]; mode != "earliest-offset" {
		from = mode
	}
	for i, k := range slices.Sorted(maps.Keys(options)) {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %s = %s", text(k), text(options[k]))
	}
	fmt.Fprintf(&b, "\n);\nSELECT * FROM %s;\n", name(t.Name))
	return b.String(), from
}

// run reads until ctx ends. After a failure, which the page shows, it begins again.
func (r *topicReader) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		begun := time.Now()
		err := r.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the reading has ended")
		}
		if time.Since(begun) > time.Minute {
			failures = 0
		}
		r.into.Failed(err)
		r.pause(ctx, failures)
		r.into.Again()
	}
}

// read reads once.
func (r *topicReader) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var mu sync.Mutex
	last := time.Now() // when rows came; guarded by mu
	quiet := func(d time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		return time.Since(last) > d
	}
	return engine.New(engine.Options{}).Script(ctx, r.table.Name, r.script, engine.Handler{
		JobStarted: func(j *engine.Run) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r.look(ctx, j, quiet)
			}()
		},
		Rows: func(_ *engine.Run, b *vec.Batch) error {
			mu.Lock()
			last = time.Now()
			mu.Unlock()
			r.into.Add(b)
			return nil
		},
	})
}

// look tells the page how much is left to read, and whether brokers are away: the reading waits for them and says nothing.
func (r *topicReader) look(ctx context.Context, j *engine.Run, quiet func(time.Duration) bool) {
	tick := time.NewTicker(topicLook)
	defer tick.Stop()
	asked, away := time.Now(), error(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(asked) >= r.ask && quiet(r.ask) {
			away = r.reachable(ctx)
			asked = time.Now()
		}
		if away != nil {
			r.into.Failed(away)
			continue
		}
		left, known := int64(-1), false
		for _, s := range j.Status().Sources {
			left, known = s.Lag, s.Lag >= 0
		}
		r.into.Behind(left, known && (left == 0 || quiet(topicQuiet)) || quiet(topicEmpty))
	}
}

// reachable is nil where one of the brokers that are known by name takes a connection.
func (r *topicReader) reachable(ctx context.Context) error {
	var errs []error
	for _, broker := range strings.Split(r.table.Options["properties.bootstrap.servers"], ",") {
		d := net.Dialer{Timeout: 3 * time.Second}
		c, err := d.DialContext(ctx, "tcp", strings.TrimSpace(broker))
		if err == nil {
			return c.Close()
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no broker answers, what is shown is from before: %w", errors.Join(errs...))
}
