package engine_test

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestReplay_OfATopic computes the intervals of a job again that reads a topic while it grows: nothing differs, and what
// retention has removed is told.
func TestReplay_OfATopic(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "facts"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	address := cluster.ListenAddrs()[0]
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	text := fmt.Sprintf(replayTables, 2, t.Name()) + "CREATE TABLE topic (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND) WITH (" +
		"'connector' = 'kafka', 'topic' = 'facts', 'properties.bootstrap.servers' = '" + address + "', 'properties.group.id' = 'g', 'format' = 'json', " +
		"'scan.startup.mode' = 'earliest-offset', 'scan.on-data-loss' = 'earliest');\n" +
		strings.ReplaceAll("EXECUTE STATEMENT SET BEGIN "+replayShapes["rows"]+replayShapes["windows"]+replayShapes["counts"]+" END;", "facts", "topic")
	const rounds, perRound = 6, 900
	e := engine.New(engine.Options{Dir: t.TempDir(), BatchRows: 64})
	err = e.Script(t.Context(), "job.sql", text, engine.Handler{JobStarted: func(run *engine.Run) {
		go func() {
			r := rand.New(rand.NewSource(1))
			at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
			for round := range rounds {
				var recs []*kgo.Record
				for i := range perRound {
					ts := at.Add(time.Duration(round*perRound+i)*100*time.Millisecond - time.Duration(r.Intn(8000))*time.Millisecond)
					recs = append(recs, &kgo.Record{Topic: "facts", Partition: int32(i % 3),
						Value: []byte(fmt.Sprintf(`{"k":%d,"v":%d,"ts":"%s"}`, r.Intn(40), r.Intn(1000)-500, ts.Format("2006-01-02 15:04:05.000")))})
				}
				if err := cl.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
					run.Kill(err)
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			for end := time.Now().Add(time.Minute); run.Status().RowsRead < rounds*perRound && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			run.Stop()
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ids := replayIDs(t, e)
	if len(ids) < 3 {
		t.Skipf("the machine was too busy: %d checkpoints", len(ids))
	}
	equal, read := 0, int64(0)
	check := func(from, to int64) {
		t.Helper()
		r, err := verify(e, text, from, to)
		if err != nil {
			t.Fatalf("%d to %d of %v: %v", from, to, ids, err)
		}
		read += r[0].Sources[0].Now
		for _, s := range r[0].Sinks {
			if s.Verdict == engine.ReplayDiffers || s.Table == "rows_out" && s.Verdict != engine.ReplayEqual {
				t.Errorf("%d to %d of %v: %s", from, to, ids, replayText(r))
			}
			if s.Verdict == engine.ReplayEqual {
				equal++
			}
		}
	}
	for i := 1; i < len(ids); i++ {
		check(ids[i-1], ids[i])
	}
	if read == 0 || equal < 2*(len(ids)-1) {
		t.Errorf("%d rows were read again, and of %d sinks %d were equal", read, 3*(len(ids)-1), equal)
	}
	check(ids[0], ids[len(ids)-1])

	offsets := kadm.Offsets{}
	for p := range int32(3) {
		offsets.Add(kadm.Offset{Topic: "facts", Partition: p, At: rounds * perRound / 3})
	}
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(e, text, ids[0], ids[len(ids)-1]); err == nil || !strings.Contains(err.Error(), "facts") {
		t.Errorf("the records are gone: %v", err)
	}
}
