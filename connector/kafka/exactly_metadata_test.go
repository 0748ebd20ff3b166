package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// atTime gives a sealed epoch another time.
func atTime(t *testing.T, cs []connector.Committable, at time.Time) []connector.Committable {
	t.Helper()
	var out []connector.Committable
	for _, c := range cs {
		time := regexp.MustCompile(`"at":\d{13}`)
		if !time.Match(c) {
			t.Fatalf("the segment %q does not say when it was sealed", c)
		}
		out = append(out, time.ReplaceAll(c, fmt.Appendf(nil, `"at":%d`, at.UnixMilli())))
	}
	return out
}

// unsealed gives a sealed epoch the form of earlier versions.
func unsealed(t *testing.T, cs []connector.Committable) []connector.Committable {
	t.Helper()
	var out []connector.Committable
	for _, c := range cs {
		at := bytes.LastIndex(c, []byte(`{"at"`))
		if at < 0 {
			t.Fatalf("the segment %q does not say when it was sealed", c)
		}
		out = append(out, slices.Clone(c[:at-2])) // without key, and the length of the value
	}
	return out
}

// forget drops what the broker knows of commits to a topic; all: also the copy that it keeps for longer.
func (r *rig) forget(topic string, all bool) {
	r.t.Helper()
	groups := []string{"tidemark-job-" + topic}
	if all {
		groups = append(groups, groups[0]+"-kept")
	}
	for _, g := range groups {
		resp, err := r.admin.DeleteGroups(context.Background(), g)
		if err := errors.Join(err, resp.Error()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestExactly_MetadataGone commits where the broker has dropped what it knew of earlier commits.
func TestExactly_MetadataGone(t *testing.T) {
	id := connector.CommitID{Lineage: "x", Checkpoint: 8}
	old := time.Now().Add(-8 * 24 * time.Hour)
	for _, c := range []struct {
		what, onUnknown string
		change          func(t *testing.T, cs []connector.Committable) []connector.Committable
		first           bool // nothing was committed before
		anew            bool // the topic was
		copied          bool // what the broker keeps for longer is there
		want            []int
		fails           bool
	}{
		{what: "there were metadata when it was sealed", fails: true, want: []int{1}},
		{what: "the user says that it is not there", onUnknown: "commit", want: []int{1, 2}},
		{what: "the user says that it is there", onUnknown: "skip", want: []int{1}},
		{what: "the first commit of all", first: true, want: []int{2}},
		{what: "the first commit, after a long time", first: true, fails: true,
			change: func(t *testing.T, cs []connector.Committable) []connector.Committable { return atTime(t, cs, old) }},
		{what: "of an earlier version", change: unsealed, want: []int{1, 2}},
		{what: "the topic was made anew", anew: true, want: []int{2}},
		{what: "only the copy is left", copied: true, fails: true, want: []int{1}},
		{what: "only the copy is left, and the user says that it is there", copied: true, onUnknown: "skip", want: []int{1}},
		{what: "only the copy is left, of an earlier topic", copied: true, anew: true, want: []int{2}},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t)
			r.topic("out", 1)
			s := r.exactly("out", nil)
			if !c.first {
				if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 7}, r.seal(s, 1)); err != nil {
					t.Fatal(err)
				}
			}
			cs := r.seal(s, 2)
			if c.change != nil {
				cs = c.change(t, cs)
			}
			if !c.first {
				r.forget("out", !c.copied)
			}
			if c.anew {
				if _, err := r.admin.DeleteTopics(t.Context(), "out"); err != nil {
					t.Fatal(err)
				}
				r.topic("out", 1)
			}
			options := map[string]string{}
			if c.onUnknown != "" {
				options["sink.on-unknown-commit"] = c.onUnknown
			}
			time.Sleep(2 * time.Millisecond) // the next process begins later
			err := r.commitTo(r.exactlyWith("out", nil, options), id, cs)
			var fatal *connector.Fatal
			switch {
			case !c.fails && err != nil:
				t.Fatal(err)
			case c.fails && (!errors.As(err, &fatal) || !strings.Contains(err.Error(), "'sink.on-unknown-commit' = 'skip'") ||
				!strings.Contains(err.Error(), "checkpoint 8") || !strings.Contains(err.Error(), "group 'tidemark-job-out'")):
				t.Fatalf("the error is %v", err)
			}
			sameTexts(t, r.visible("out", len(c.want)), c.want...)
			if c.fails {
				return
			}
			// What was decided is remembered.
			if err := r.commitTo(r.exactly("out", nil), id, cs); err != nil {
				t.Fatal(err)
			}
			sameTexts(t, r.visible("out", len(c.want)), c.want...)
		})
	}
}

// TestExactly_MetadataGone_SeveralEpochs asks the user about all that may be there, and not about what
// this process has sealed.
func TestExactly_MetadataGone_SeveralEpochs(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	s := r.exactly("out", nil)
	if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, r.seal(s, 1)); err != nil {
		t.Fatal(err)
	}
	a, b := r.seal(s, 2), r.seal(s, 3)
	r.forget("out", true)
	time.Sleep(2 * time.Millisecond)
	s = r.exactlyWith("out", nil, map[string]string{"sink.on-unknown-commit": "skip"})
	c, err := s.NewCommitter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, cs := range [][]connector.Committable{a, b, r.seal(s, 4)} {
		if err := c.Commit(t.Context(), connector.CommitID{Lineage: "x", Checkpoint: int64(2 + i)}, cs); err != nil {
			t.Fatal(err)
		}
	}
	sameTexts(t, r.visible("out", 2), 1, 4)
}

// TestExactly_KeepsMetadata asks the broker to keep what it knows for longer than other offsets.
func TestExactly_KeepsMetadata(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	var mu sync.Mutex
	var kept []time.Duration
	r.c.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if q := req.(*kmsg.OffsetCommitRequest); q.Version >= 2 && q.Version <= 4 {
			kept = append(kept, time.Duration(q.RetentionTimeMillis)*time.Millisecond)
		}
		return nil, nil, false
	})
	s := r.exactly("out", nil)
	for range 2 {
		if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, r.seal(s, 1)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	// After the commit, and at the start of the second committer.
	if len(kept) != 2 || kept[0] < 5*365*24*time.Hour || kept[1] != kept[0] {
		t.Errorf("kept for %v", kept)
	}
}

// TestExactly_StaleKeep has a process that was overtaken ask to keep what it knew: nothing that its
// successor committed is forgotten.
func TestExactly_StaleKeep(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) { staleKeep(t, gone) })
	}
}

// staleKeep is the test; gone: the broker has dropped what transactions committed.
func staleKeep(t *testing.T, gone bool) {
	r := newRig(t)
	r.topic("out", 1)
	var mu sync.Mutex
	var asked []*kmsg.OffsetCommitRequest
	r.c.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, req.(*kmsg.OffsetCommitRequest))
		return nil, nil, false
	})
	at := func(n int64) connector.CommitID { return connector.CommitID{Lineage: "x", Checkpoint: n} }
	s := r.exactly("out", nil)
	a := r.seal(s, 1)
	if err := r.commitTo(s, at(1), a); err != nil {
		t.Fatal(err)
	}
	b := r.seal(s, 2) // sealed when there were metadata
	mu.Lock()
	stale := asked[0]
	mu.Unlock()
	if err := r.commitTo(r.exactly("out", nil), at(2), b); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.MaxVersions(kversion.V2_0_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	resp, err := stale.RequestWith(t.Context(), cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if gone { // a long time goes by
		r.forget("out", false)
	}
	time.Sleep(2 * time.Millisecond)
	err = r.commitTo(r.exactly("out", nil), at(2), b)
	if !gone && err != nil || gone && !errors.As(err, new(*connector.Fatal)) {
		t.Errorf("gone %t: the commit says %v", gone, err)
	}
	if err := r.commitTo(r.exactly("out", nil), at(1), a); err != nil {
		t.Error(err)
	}
	sameTexts(t, r.visible("out", 2), 1, 2)
}

// TestExactly_CopyForbidden goes without the copy where the group of it may not be used.
func TestExactly_CopyForbidden(t *testing.T) {
	r := newRig(t)
	r.topic("out", 1)
	refused := 0
	r.c.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.c.KeepControl()
		q := req.(*kmsg.OffsetFetchRequest)
		resp := q.ResponseKind().(*kmsg.OffsetFetchResponse)
		if q.Group == "tidemark-job-out-kept" {
			resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
			refused++
			return resp, nil, true
		}
		if len(q.Groups) == 1 && q.Groups[0].Group == "tidemark-job-out-kept" {
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = q.Groups[0].Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, g)
			refused++
			return resp, nil, true
		}
		return nil, nil, false
	})
	s := r.exactly("out", nil)
	cs := r.seal(s, 1)
	for range 2 {
		if err := r.commitTo(s, connector.CommitID{Lineage: "x", Checkpoint: 1}, cs); err != nil {
			t.Fatal(err)
		}
	}
	sameTexts(t, r.visible("out", 1), 1)
	if refused != 2 {
		t.Errorf("%d requests were refused", refused)
	}
}

// TestExactly_BrokerDropsOffsets commits again after a real broker has dropped the offsets that it
// keeps for a minute: what was kept for longer is still known, and what was not is not guessed.
func TestExactly_BrokerDropsOffsets(t *testing.T) {
	broker := peers.New("KAFKA_PORT=23092", "KAFKA_EXTRA=offsets.retention.minutes=1\noffsets.retention.check.interval.ms=500")
	t.Cleanup(func() {
		if err := broker.Wipe(); err != nil {
			t.Error(err)
		}
	})
	broker.Need(t, "kafka")
	r := &rig{t: t, addr: "127.0.0.1:23092"}
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r.cl, r.admin = cl, kadm.NewClient(cl)
	run := time.Now().UnixMilli()
	type epoch struct {
		topic string
		cs    []connector.Committable
	}
	var epochs []epoch
	id := connector.CommitID{Lineage: "x", Checkpoint: 7}
	for _, name := range []string{"kept", "dropped"} {
		topic := fmt.Sprintf("%s-%d", name, run)
		if _, err := r.admin.CreateTopics(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		s := r.exactly(topic, nil)
		cs := r.seal(s, 1, 2)
		if err := r.commitTo(s, id, cs); err != nil {
			t.Fatal(err)
		}
		epochs = append(epochs, epoch{topic, cs})
	}
	// As if the second process had died right behind its transaction, without asking to keep a copy.
	if _, err := r.admin.DeleteGroups(t.Context(), "tidemark-job-"+epochs[1].topic+"-kept"); err != nil {
		t.Fatal(err)
	}
	left := func(topic string) int {
		offsets, err := r.admin.FetchOffsets(t.Context(), "tidemark-job-"+topic)
		if err != nil && !strings.Contains(err.Error(), "GROUP_ID_NOT_FOUND") {
			t.Fatal(err)
		}
		return len(slices.Collect(maps.Keys(offsets)))
	}
	for end := time.Now().Add(3 * time.Minute); left(epochs[0].topic)+left(epochs[1].topic) > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the broker does not drop the offset")
		}
	}
	for i, e := range epochs {
		err := r.commitTo(r.exactly(e.topic, nil), id, e.cs)
		if i == 0 && err != nil {
			t.Error(err)
		}
		if i == 1 && (err == nil || !strings.Contains(err.Error(), "here 1m0s") || !errors.As(err, new(*connector.Fatal))) {
			t.Errorf("without its offset: %v", err)
		}
		sameTexts(t, r.visible(e.topic, 2), 1, 2)
	}
}
