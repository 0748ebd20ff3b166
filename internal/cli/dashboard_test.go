package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
)

// TestDashboardRefuses says what is missing before anything is served.
func TestDashboardRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain.sql", "CREATE TABLE t (a INT) WITH ('connector' = 'blackhole'); INSERT INTO t VALUES (1);")
	files := write("files.sql", `CREATE TABLE s (k STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
CREATE TABLE r (k STRING, ws TIMESTAMP(3), n BIGINT, revision BIGINT METADATA, PRIMARY KEY (k, ws) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO r SELECT k, window_start, SUM(n) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end;`)
	for _, c := range []struct {
		name, config, script, want string
	}{
		{"neither a script nor a board", "", "", "give a script, or --config"},
		{"a board without a script", write("none.yaml", "tiles: []"), "", "none.yaml names no script"},
		{"a board with a mistake", write("bad.yaml", "tiles:\n  - kind: pie"), "", `bad.yaml:2: a tile cannot be of kind "pie"`},
		{"a board whose script is not there", write("gone.yaml", "script: gone.sql"), "", filepath.Join(dir, "gone.sql")},
		{"a script without results", "", plain, "writes no table of results"},
		{"a target that cannot be looked at", "", files, "the revisions of table r cannot be looked at: connector 'filesystem'"},
	} {
		f := dashboardFlags{config: c.config, address: "127.0.0.1:0"}
		err := f.serve(context.Background(), c.script, func(string) { t.Errorf("%s: it is served", c.name) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %s", c.name, err, c.want)
		}
	}
}

// TestLookedAt has a page make no tables, and wait for nobody.
func TestLookedAt(t *testing.T) {
	job := &connector.Table{Name: "r", Options: map[string]string{"sink.create": "true", "url": "u"}}
	page := lookedAt(job)
	if page.Options["sink.create"] != "" || page.Options["url"] != "u" || page.Options["connection.max-retry-timeout"] != "1 s" {
		t.Errorf("the page opens it with %v", page.Options)
	}
	if len(job.Options) != 2 || job.Options["sink.create"] != "true" {
		t.Errorf("the job's own options are %v", job.Options)
	}
}
