package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// liveTargets are the options of tables in real databases: those that TIDEMARK_POSTGRES and TIDEMARK_CLICKHOUSE name, or,
// with TIDEMARK_INTEGRATION, some that are started for the test.
func liveTargets(t *testing.T) map[string]string {
	pg, ch := os.Getenv("TIDEMARK_POSTGRES"), os.Getenv("TIDEMARK_CLICKHOUSE")
	if pg == "" || ch == "" {
		servers := peers.New("CH_PORT=31123", "PG_PORT=31432")
		servers.Need(t, "clickhouse", "postgres")
		t.Cleanup(func() {
			if err := servers.Wipe(); err != nil {
				t.Error(err)
			}
		})
		pg, ch = "postgres://postgres@127.0.0.1:31432/test?sslmode=disable", "http://127.0.0.1:31123"
	}
	return map[string]string{"postgres": "'connector' = 'postgres', 'url' = '" + pg + "'", "clickhouse": "'connector' = 'clickhouse', 'url' = '" + ch + "', 'database-name' = 'test'"}
}

// TestReplay_AgainstTargets compares intervals that are computed again with the revisions in real databases, over values of
// many types: nothing differs until the input does, and then the cells are told.
func TestReplay_AgainstTargets(t *testing.T) {
	for name, with := range liveTargets(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			replayRows(t, filepath.Join(dir, "in"), 2, 6000, 1)
			text := fmt.Sprintf(`
SET 'execution.checkpointing.interval' = '50 ms';
SET 'execution.checkpointing.num-retained' = '1000';
CREATE TABLE facts (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE board (k INT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, mean DOUBLE, total DECIMAL(20, 3), best STRING, positive BOOLEAN, newest TIMESTAMP(3), third FLOAT,
  revision BIGINT METADATA, generation STRING METADATA, is_final BOOLEAN METADATA, is_deleted BOOLEAN METADATA, emit_reason STRING METADATA, input_count BIGINT METADATA,
  PRIMARY KEY (k, window_start) NOT ENFORCED) WITH (%s, 'table-name' = 'replay_%d', 'sink.create' = 'true', 'sink.delivery-guarantee' = 'exactly-once');
INSERT INTO board SELECT /*+ EMIT('allowed-lateness'='15 s', 'early-fire'='30 ms', 'late-fire'='20 ms') */ k, window_start, window_end, COUNT(*), AVG(CAST(v AS DOUBLE)),
  SUM(CAST(v AS DECIMAL(10, 3))), CASE WHEN MAX(v) > 400 THEN CONCAT('top ', CAST(MAX(v) AS STRING)) END, MAX(v) > 0, MAX(ts), CAST(MIN(v) AS FLOAT) / 3
FROM TABLE(TUMBLE(TABLE facts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;`, with, time.Now().UnixNano())
			o := engine.Options{Dir: dir, BatchRows: 64, ReadRate: 6000}
			if err := engine.New(o).Script(t.Context(), "job.sql", text, engine.Handler{}); err != nil {
				t.Fatal(err)
			}
			e := engine.New(o)
			ids := replayIDs(t, e)
			if len(ids) < 6 {
				t.Skipf("SKIPPED: the machine was too busy: %d checkpoints", len(ids))
			}
			step, inTarget := max(1, len(ids)/8), 0
			for i := step; i < len(ids); i += step {
				r, err := verify(e, text, ids[i-step], ids[i])
				if err != nil {
					t.Fatal(err)
				}
				s := r[0].Sinks[0]
				if s.Verdict != engine.ReplayEqual {
					t.Fatalf("%d to %d: %s", ids[i-step], ids[i], replayText(r))
				}
				if strings.Contains(s.By, "target") {
					inTarget++
				}
			}
			if inTarget == 0 {
				t.Error("no interval was compared with the target")
			}
			// Another value in a row that was read between two checkpoints.
			from, to := ids[len(ids)/2-2], ids[len(ids)/2+2]
			path, begin, end := between(t, e, dir, from, to)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			digit := begin + bytes.IndexByte(b[begin:end], ',') + len(`,"v":`)
			if b[digit] == '-' {
				digit++
			}
			b[digit] = '1' + (b[digit]-'0')%9
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := verify(e, text, from, to)
			if err != nil {
				t.Fatal(err)
			}
			if s := r[0].Sinks[0]; s.Verdict != engine.ReplayDiffers || len(s.Changes) == 0 || len(s.Changes[0].Old) == 0 {
				t.Errorf("the input has changed: %s", replayText(r))
			}
		})
	}
}
