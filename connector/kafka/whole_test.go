package kafka_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRestart_UpdatesStayWhole ends a job again and again while it merges two partitions of updates in the
// order of their times. An update is one record and two rows (-U and +U); a checkpoint between them would
// have the whole of it read again. A sum of DOUBLEs depends on the order of rows, so the merge is exact.
func TestRestart_UpdatesStayWhole(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.topic("out", 1)
	const keys, updates = 50, 20_000
	last := map[int]int{}
	var recs []*kgo.Record
	for i := range keys + updates {
		k, text := i%keys, "null"
		if old, there := last[k]; there {
			text = fmt.Sprintf(`{"k":%d,"v":%d,"t":%d}`, k, old, i-1)
		}
		last[k] = i
		op := "u"
		if text == "null" {
			op = "c"
		}
		x := rec(int32(k%2), "-", fmt.Sprintf(`{"before":%s,"after":{"k":%d,"v":%d,"t":%d},"op":"%s"}`, text, k, i, i, op))
		recs = append(recs, x)
	}
	if err := r.cl.ProduceSync(t.Context(), topicOf("t", recs)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, v := range last {
		want += v
	}
	sql := table("t", "k INT, v INT, t BIGINT, ts AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR ts AS ts", "format", "debezium-json", "scan.startup.mode", "earliest-offset",
		"scan.bounded.mode", "latest-offset", "properties.group.id", "g") +
		table("dst", "n BIGINT, total DOUBLE", "topic", "out", "format", "debezium-json") +
		"INSERT INTO dst SELECT COUNT(*), SUM(CAST(v AS DOUBLE)) FROM t;"
	config := []string{"execution.checkpointing.interval", "10 ms", "execution.checkpointing.dir", r.dir + "/checkpoints"}
	random := rand.New(rand.NewPCG(1, 2))
	cut := 0
	for ended := false; !ended; {
		x := r.start(sql, config...)
		limit := time.Minute
		if cut < 25 {
			limit = time.Duration(15+random.IntN(60)) * time.Millisecond
		}
		select {
		case <-x.done: // it has come to its end
			if ended = true; x.err != nil {
				t.Fatal(x.err)
			}
		case <-time.After(limit):
			cut++
			x.cancel()
			<-x.done
		}
	}
	t.Logf("the job was ended %d times", cut)
	var got struct {
		After struct {
			N     int     `json:"n"`
			Total float64 `json:"total"`
		} `json:"after"`
	}
	lines := r.read("out")
	at := lines[len(lines)-1]
	if err := json.Unmarshal([]byte(at[strings.IndexByte(at, '{'):]), &got); err != nil {
		t.Fatalf("%q: %v", at, err)
	}
	if got.After.N != keys || got.After.Total != float64(want) {
		t.Errorf("after %d ends: %d rows with a sum of %v, want %d and %d", cut, got.After.N, got.After.Total, keys, want)
	}
}

func topicOf(topic string, recs []*kgo.Record) []*kgo.Record {
	for _, x := range recs {
		x.Topic = topic
	}
	return recs
}
