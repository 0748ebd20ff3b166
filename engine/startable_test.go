package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestCheck_Start: what would keep a job from starting is told by a check already, at its place, and in the same words
// by a run.
func TestCheck_Start(t *testing.T) {
	const gen = "CREATE TABLE g (k STRING, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
	for name, c := range map[string]struct{ script, want string }{
		"exactly once without checkpoints": {gen + "CREATE TABLE o (k STRING, v BIGINT) WITH ('connector' = 'clickhouse', 'url' = 'http://127.0.0.1:1/x',\n" +
			"'table-name' = 'o', 'sink.delivery-guarantee' = 'exactly-once');\nINSERT INTO o SELECT * FROM g",
			"s.sql:3:21: table `o`: exactly-once needs checkpoints, and none are taken here"},
		"results without checkpoints": {gen + "CREATE TABLE o (k STRING, v BIGINT, revision BIGINT METADATA, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'postgres', 'url' = 'postgres://127.0.0.1:1/x',\n" +
			"'table-name' = 'o', 'sink.delivery-guarantee' = 'exactly-once');\nINSERT INTO o SELECT k, COUNT(*) FROM g GROUP BY k",
			"s.sql:3:21: table `o`: exactly-once needs checkpoints, and none are taken here"},
		"a property of Kafka": {gen + "CREATE TABLE o (k STRING, v BIGINT) WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = '127.0.0.1:1', 'format' = 'json',\n" +
			"'properties.compression.type' = 'best');\nINSERT INTO o SELECT * FROM g",
			"s.sql:3:1: 'best' is not a compression"},
		"no dead-letter table": {gen + "CREATE TABLE f (k STRING) WITH ('connector' = 'filesystem', 'path' = 'x.json', 'format' = 'json',\n'dead-letter.table' = 'd');\n" +
			"CREATE TABLE o (k STRING) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT * FROM f",
			"s.sql:3:1: dead-letter output of table f: there is no table 'd'"},
		"a column of a dead-letter table": {gen + "CREATE TABLE f (k STRING) WITH ('connector' = 'filesystem', 'path' = 'x.json', 'format' = 'json',\n'dead-letter.table' = 'd');\n" +
			"CREATE TABLE d (nothing STRING) WITH ('connector' = 'print');\nCREATE TABLE o (k STRING) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT * FROM f",
			"s.sql:3:1: dead-letter output of table f: column 'nothing' of dead-letter table 'd' is none of"},
		"options of checkpoints": {"SET 'execution.checkpointing.interval' = '10 s';\nSET 'state.checkpoints.num-retained' = '0';\n" + gen + "CREATE TABLE o (k STRING, v BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT * FROM g",
			"num-retained"},
		"what is expected": {"SET 'tidemark.completeness.o.expected' = 'nobody';\n" + gen + "CREATE TABLE o (k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), v BIGINT, revision BIGINT METADATA, PRIMARY KEY (k, window_end) NOT ENFORCED) WITH ('connector' = 'print');\n" +
			"CREATE TABLE p (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n" +
			"INSERT INTO o SELECT k, window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end",
			"'tidemark.completeness.o.expected' = 'nobody': it cannot be read"},
		"what is expected for ever": {"SET 'tidemark.completeness.o.expected' = 'n';\nCREATE TABLE n (k STRING) WITH ('connector' = 'datagen');\n" + gen + "CREATE TABLE o (k STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), v BIGINT, revision BIGINT METADATA, PRIMARY KEY (k, window_end) NOT ENFORCED) WITH ('connector' = 'print');\n" +
			"CREATE TABLE p (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n" +
			"INSERT INTO o SELECT k, window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end",
			"'tidemark.completeness.o.expected' = 'n': it does not end"},
		"what is expected of no results": {"SET 'tidemark.completeness.o.expected' = 'g';\n" + gen + "CREATE TABLE o (k STRING, v BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT * FROM g",
			"'tidemark.completeness.o.expected' is about results, and table o holds none"},
	} {
		t.Run(name, func(t *testing.T) {
			e := engine.New(engine.Options{Dir: t.TempDir()})
			_, _, err := e.Check("s.sql", c.script, "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check: %v, want %q", err, c.want)
			}
			run := e.Script(context.Background(), "s.sql", c.script, engine.Handler{})
			if err != nil && (run == nil || run.Error() != err.Error()) {
				t.Errorf("run: %v, check: %v", run, err)
			}
		})
	}
}

// TestCheck_Unheeded: keys about tables that do not exist are named in the end, by a check and by a run.
func TestCheck_Unheeded(t *testing.T) {
	script := "SET 'tidemark.emit.bord.early-fire' = '1 s';\nSET 'tidemark.table.board.sink.parallelism' = '1';\nSET 'tidemark.table.BOARD.path' = 'x';\n" +
		"CREATE TABLE g (k STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\nCREATE TABLE board (k STRING) WITH ('connector' = 'blackhole');\nINSERT INTO board SELECT * FROM g"
	want := []string{"'tidemark.emit.bord.early-fire' is set, and there is no table bord; did you mean board?",
		"'tidemark.table.BOARD.path' is set, and there is no table BOARD; write the name as it is, without backquotes: board"}
	want = append([]string{"'table.exec.emit.allow-latenes' is set, and no such key is known; did you mean 'table.exec.emit.allow-lateness'?"}, want...)
	e := engine.New(engine.Options{Dir: t.TempDir(), Override: map[string]string{"table.exec.emit.allow-latenes": "1 s"}})
	_, found, err := e.Check("s.sql", script, "")
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("check: %q, %v", found, err)
	}
	var warned []string
	if err = e.Script(context.Background(), "s.sql", script, engine.Handler{Warn: func(w string) { warned = append(warned, w) }}); err != nil || !slices.Equal(warned, want) {
		t.Errorf("run: %q, %v", warned, err)
	}
}
