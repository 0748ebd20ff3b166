package engine_test

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestCheck_Warnings has check tell of metadata that cannot be given, as EXPLAIN does, with no target to compare with.
func TestCheck_Warnings(t *testing.T) {
	const text = `CREATE TABLE o (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE board (k BIGINT, n BIGINT, revision BIGINT METADATA, emit_reason STRING METADATA, input_count BIGINT METADATA, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print');
INSERT INTO board SELECT k, COUNT(*) FROM o GROUP BY k;`
	jobs, findings, err := engine.New(engine.Options{}).Check("a.sql", text, "")
	if err != nil || jobs != 1 || len(findings) != 1 || !strings.HasPrefix(findings[0], "a.sql: warning: table board: emit_reason is 'update' or 'delete'") {
		t.Errorf("%d jobs, %q, %v", jobs, findings, err)
	}
	jobs, findings, err = engine.New(engine.Options{}).Check("a.sql", strings.ReplaceAll(text, " emit_reason STRING METADATA, input_count BIGINT METADATA,", ""), "")
	if err != nil || jobs != 1 || len(findings) != 0 {
		t.Errorf("without them: %d jobs, %q, %v", jobs, findings, err)
	}
}
