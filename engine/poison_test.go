package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestPoisonedRow has rows that cannot be used and that have no position in the input, as they come from
// an aggregation: the job ends with the reason and the place instead of being restarted for ever.
func TestPoisonedRow(t *testing.T) {
	for _, c := range []struct{ what, script, want string }{
		{"a NULL", "CREATE TABLE o (k STRING NOT NULL, n BIGINT) WITH ('connector' = 'blackhole');\n" +
			"INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;",
			"Sink(o), a row computed from several records: column 'k' of table o is NOT NULL"},
		{"a cast", "CREATE TABLE o (k INT, n BIGINT) WITH ('connector' = 'blackhole');\n" +
			"INSERT INTO o SELECT CAST(k AS INT), n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k);",
			", a row computed from several records: cannot cast 'a' to INT"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte("{\"k\":\"a\"}\n{\"k\":null}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			text := "SET 'execution.checkpointing.interval' = '1 s';\n" +
				"SET 'restart-strategy.type' = 'exponential-delay';\n" +
				"SET 'restart-strategy.exponential-delay.initial-backoff' = '10 ms';\n" +
				"CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '" +
				filepath.Join(dir, "in.json") + "');\n" + c.script
			e := engine.New(engine.Options{Dir: dir})
			ended := make(chan error, 1)
			go func() { ended <- e.Script(t.Context(), "flow.sql", text, engine.Handler{}) }()
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "has made the job fail 3 times") {
					t.Errorf("it ended with: %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("the job is restarted on and on")
			}
		})
	}
}
