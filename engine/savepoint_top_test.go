package engine_test

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestState_OfTop reads the rows of ORDER BY with LIMIT over a changelog, which lie in their order, and refuses to
// change them: there is an index of them.
func TestState_OfTop(t *testing.T) {
	f := newFlow(t, source+
		"CREATE TABLE top (k INT, n BIGINT) WITH ('connector' = 'blackhole');\n"+
		"INSERT INTO top SELECT k, COUNT(*) AS n FROM src GROUP BY k ORDER BY n DESC LIMIT 2;")
	f.put(order(1, "1.00", `"a"`), order(2, "2.00", `"b"`), order(3, "3.00", `"c"`))
	at := f.run("")
	_, sp := f.look(at)
	o, err := sp.Operator("topn")
	if err != nil {
		t.Fatal(err)
	}
	// The order, the number and the kind come before the row.
	names, rows := f.query(at, "SELECT kind, k, n FROM `"+engine.StateTable(o, 0)+"` ORDER BY k")
	if got := strings.Join(names, ",") + " " + strings.Join(rows, " "); got != "kind,k,n 0|1|1 0|2|1 0|3|1" {
		t.Errorf("shown: %s", got)
	}
	_, err = f.edit(at, "topn", "rows by content", engine.Edit{Delete: true})
	if err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("deleted: %v", err)
	}
}
