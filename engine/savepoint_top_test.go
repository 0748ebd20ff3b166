package engine_test

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestState_OfTop refuses to change the rows of ORDER BY with LIMIT over a changelog, of which there is an index.
func TestState_OfTop(t *testing.T) {
	f := newFlow(t, source+
		"CREATE TABLE top (k INT, n BIGINT) WITH ('connector' = 'blackhole');\n"+
		"INSERT INTO top SELECT k, COUNT(*) AS n FROM src GROUP BY k ORDER BY n DESC LIMIT 2;")
	f.put(order(1, "1.00", `"a"`), order(2, "2.00", `"b"`), order(3, "3.00", `"c"`))
	at := f.run("")
	_, err := f.edit(at, "topn", "rows by content", engine.Edit{Delete: true})
	if err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("deleted: %v", err)
	}
}
