package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
)

// fetcher returns the fetcher of a table over a topic.
func (r *rig) fetcher(topic string) connector.RecordFetcher {
	r.t.Helper()
	f := connector.Lookup("kafka")
	with := map[string]string{"connector": "kafka", "topic": topic, "properties.bootstrap.servers": r.addr, "format": "json",
		"scan.startup.mode": "earliest-offset"}
	s, err := f.NewSource(connector.SourceConfig{Table: &connector.Table{Name: "t", Connector: "kafka", Options: with,
		Columns: []types.Field{{Name: "n", Type: types.IntType}}}, Options: option.Of(with, f.Options, connector.CommonOptions)})
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := s.(connector.Refetcher).NewFetcher(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { out.Close() })
	return out
}

// TestFetch_RecordsByOffset reads records one by one, and counts what that asks of the broker.
func TestFetch_RecordsByOffset(t *testing.T) {
	r := newRig(t)
	r.topic("a-b", 2)
	r.count("a-b", 2, 0, 2000)
	r.produce("a-b", rec(1, "k", "-"))
	f := r.fetcher("a-b")
	asked := 0
	r.c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.c.KeepControl()
		asked++
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range int64(1000) {
		for p := range int64(2) {
			got, err := f.Fetch(ctx, fmt.Sprintf("a-b-%d", p), i)
			if want := fmt.Sprintf(`{"n":%d}`, 2*i+p); err != nil || string(got) != want {
				t.Fatalf("partition %d, offset %d: %q, %v; want %q", p, i, got, err, want)
			}
		}
	}
	if got, err := f.Fetch(ctx, "a-b-1", 1000); got != nil || err != nil {
		t.Errorf("a record without a value: %q, %v", got, err)
	}
	if got, err := f.Fetch(ctx, "a-b-0", 0); string(got) != `{"n":0}` || err != nil {
		t.Errorf("back at the start: %q, %v", got, err)
	}
	if asked > 10 {
		t.Errorf("2,002 records took %d requests", asked)
	}
	for _, c := range []struct {
		split string
		at    int64
		want  string
	}{{"a-b-0", 5000, "OFFSET_OUT_OF_RANGE"}, {"a-b-7", 0, "UNKNOWN_TOPIC_OR_PARTITION"}, {"other-0", 0, "UNKNOWN_TOPIC_OR_PARTITION"}} {
		if got, err := f.Fetch(ctx, c.split, c.at); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, offset %d: %q, %v; want %s", c.split, c.at, got, err, c.want)
		}
	}
}

// TestFetch_GivesUpInTime asks brokers that are away.
func TestFetch_GivesUpInTime(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.count("t", 1, 0, 1)
	f := r.fetcher("t")
	if got, err := f.Fetch(t.Context(), "t-0", 0); err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	r.c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if got, err := f.Fetch(ctx, "t-0", 1); err == nil || time.Since(start) > 20*time.Second {
		t.Errorf("%q, %v after %s", got, err, time.Since(start))
	}
}

// TestDeadLetter_OfRowsRefusedLater has the record's bytes although the row is refused by a cast
// behind the source, at every parallelism.
func TestDeadLetter_OfRowsRefusedLater(t *testing.T) {
	for _, par := range []string{"1", "2"} {
		t.Run("parallelism "+par, func(t *testing.T) {
			r := newRig(t, kfake.SeedTopics(2, "t"))
			for i := range 10 {
				v := fmt.Sprint(i)
				if i%5 == 3 {
					v = "x" + v
				}
				r.produce("t", rec(int32(i%2), "-", fmt.Sprintf(`{"s":"%s", "unread":[%d]}`, v, i)))
			}
			got := r.rows(table("t", "s STRING", with("dead-letter.path", "${DIR}/dead")...)+
				"SELECT n FROM (SELECT CAST(s AS INT) + 0 AS n FROM t) WHERE n >= 0;", "parallelism.default", par)
			r.equal(got, "0", "1", "2", "4", "5", "6", "7", "9")
			text := strings.Join(r.lines("dead"), "\n")
			for _, want := range []string{
				`"split":"t-1","position":1,"unit":"offset","reason":"cannot cast 'x3' to INT","record":"{\"s\":\"x3\", \"unread\":[3]}"`,
				`"split":"t-0","position":4,"unit":"offset","reason":"cannot cast 'x8' to INT","record":"{\"s\":\"x8\", \"unread\":[8]}"`} {
				if !strings.Contains(text, want) {
					t.Errorf("the dead letters\n%s\nlack\n%s", text, want)
				}
			}
		})
	}
}
