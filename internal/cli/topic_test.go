package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/types"
)

// topicSQL writes revisions to a topic; of a Kafka at ${K}.
const topicSQL = `SET 'execution.checkpointing.interval' = '1 s';
CREATE TABLE s (origin STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
CREATE TABLE board (
  origin STRING, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT COMMENT 'unit: flights', ` + "`the \"mean\"`" + ` DECIMAL(10, 2),
  rev BIGINT METADATA FROM 'revision', generation STRING METADATA, as_of TIMESTAMP_LTZ(3) METADATA FROM 'watermark', is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA,
  PRIMARY KEY (origin, ws) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'board', 'properties.bootstrap.servers' = '${K}', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'origin',
  'sink.delivery-guarantee' = 'exactly-once');
INSERT INTO board SELECT origin, window_start, window_end, SUM(n), CAST(AVG(n) AS DECIMAL(10, 2)) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY origin, window_start, window_end;`

func TestTopicScript(t *testing.T) {
	table := &connector.Table{Name: "the `b`", Columns: []types.Field{{Name: "a b", Type: types.StringType.NotNull()}, {Name: "n", Type: types.DecimalType(10, 2)}},
		Options: map[string]string{"connector": "kafka", "topic": "it's", "scan.bounded.mode": "latest-offset", "properties.isolation.level": "read_uncommitted"}}
	script, from := topicScript(table)
	want := "CREATE TABLE `the ``b``` (\n  `a b` STRING,\n  `n` DECIMAL(10, 2),\n  `record time` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL\n) WITH (\n" +
		"  'connector' = 'kafka',\n  'properties.isolation.level' = 'read_committed',\n  'scan.startup.mode' = 'earliest-offset',\n  'topic' = 'it''s'\n);\nSELECT * FROM `the ``b```;\n"
	if script != want || from != "" {
		t.Errorf("%q from %q", script, from)
	}
	table.Options["scan.startup.mode"] = "latest-offset"
	if _, from = topicScript(table); from != "latest-offset" {
		t.Errorf("from %q", from)
	}
}

// seen is what the page shows of the first source and its first tile.
type seen struct {
	Sources map[string]dashboard.Status
	Tiles   map[string]dashboard.Data
}

// TestDashboardOfATopic serves a page over a topic: what is committed, newest revisions, a generation that comes, brokers
// that go and come back.
func TestDashboardOfATopic(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "board"))
	if err != nil {
		t.Fatal(err)
	}
	address := cluster.ListenAddrs()[0]
	defer func() { cluster.Close() }()
	dir := t.TempDir()
	script, page := filepath.Join(dir, "board.sql"), filepath.Join(dir, "board.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(script, topicSQL)
	write(page, "refresh: 100ms\ntiles:\n- {kind: number, value: sum(n)}\n- {kind: table, columns: [origin, ws, n, 'the \"mean\"']}\n")
	f := dashboardFlags{settings: settings{define: []string{"K=" + address}}, config: page, address: "127.0.0.1:0", ask: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	url, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- f.serve(ctx, script, func(u string) { url <- u }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var at string
	select {
	case at = <-url:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	var last string
	sees := func(what string, ok func(s *seen) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			r, err := http.Get(at + "api/data")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r.Body)
			r.Body.Close()
			var s seen
			if err == nil {
				err = json.Unmarshal(text, &s)
			}
			if err != nil {
				t.Fatal(err)
			}
			if last = string(text); ok(&s) {
				return
			}
		}
		t.Fatalf("%s is not seen: %s", what, last)
	}
	sees("an empty topic", func(s *seen) bool { return s.Tiles["t1"].Empty != "" && s.Sources["board"].Held.Behind == nil })

	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID("job"), kgo.DefaultProduceTopic("board"))
	if err != nil {
		t.Fatal(err)
	}
	transaction := func(commit kgo.TransactionEndTry, rows ...string) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := cl.ProduceSync(context.Background(), &kgo.Record{Key: []byte(r[:14]), Value: []byte(r)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(context.Background(), commit); err != nil {
			t.Fatal(err)
		}
	}
	cell := func(origin string, h, n, rev int, generation, asOf string) string {
		return fmt.Sprintf(`{"origin":%q,"ws":"2013-01-01 %02d:00:00","we":"2013-01-01 %02d:00:00","n":%d,"the \"mean\"":1.50,"rev":%d,"generation":%q,"as_of":"2013-01-01 %sZ","is_final":false,"is_deleted":false}`,
			origin, h, h+1, n, rev, generation, asOf)
	}
	transaction(kgo.TryCommit, cell("EWR", 1, 10, 1, "live", "01:30:00"), cell("JFK", 1, 5, 1, "live", "01:40:00"), cell("EWR", 1, 12, 2, "live", "01:50:00"))
	transaction(kgo.TryAbort, cell("EWR", 1, 99, 3, "live", "01:55:00"))
	sees("the newest committed revisions", func(s *seen) bool { n := s.Tiles["t1"].Number; return n != nil && n.Value == 17.0 && n.State == "p" })
	transaction(kgo.TryCommit, cell("EWR", 2, 1, 1, "live", "02:00:00"), cell("JFK", 2, 1, 1, "live", "02:00:00"))
	sees("the first window as final", func(s *seen) bool {
		d := s.Tiles["t2"]
		return d.Tally != nil && d.Tally.Final == 2 && d.Tally.Provisional == 2 && s.Sources["board"].Progress["live"].Rows == 5 &&
			d.Table.Rows[0].Cells[3] == "1.50"
	})
	transaction(kgo.TryCommit, cell("EWR", 1, 40, 1, "g2", "02:00:00"))
	sees("the newer generation", func(s *seen) bool {
		return s.Sources["board"].Default == "g2" && s.Tiles["t1"].Number.Value == 40.0 && len(s.Tiles["t1"].Generations) == 1
	})
	cl.Close()

	// What is no revision stops the reading, which says where.
	plain, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("board"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.ProduceSync(context.Background(), &kgo.Record{Value: []byte("what?")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	sees("what cannot be read", func(s *seen) bool {
		return strings.Contains(s.Tiles["t1"].Error, "table board cannot be read") && strings.Contains(s.Tiles["t1"].Error, "what?") && s.Tiles["t1"].Number.Value == 40.0
	})
	cluster.Close()
	sees("that nobody answers", func(s *seen) bool {
		e := s.Tiles["t1"].Error
		return strings.Contains(e, "table board cannot be read") && !strings.Contains(e, "what?")
	})
}
