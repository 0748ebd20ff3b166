package kill

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// catalog is the Iceberg REST catalog of the S3 server.
const catalog = "http://127.0.0.1:21341"

// icebergJob reads the files of a folder, as they come, and writes each row, and windows of a second, into
// tables that are appended to, and the sums of each key into one of which rows are replaced.
const icebergJob = `
SET 'execution.checkpointing.interval' = '300 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json' ${WATCH});
CREATE TABLE copies ` + copyColumns + ` WITH (${LAKE}, 'catalog-table' = 'copies');
CREATE TABLE sums ` + sumColumns + ` PARTITIONED BY (k) WITH (${LAKE}, 'catalog-table' = 'sums');
CREATE TABLE latest (k STRING, n BIGINT, total BIGINT, newest BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (${LAKE}, 'catalog-table' = 'latest', 'upsert-enabled' = 'true');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies ` + copyRows + `;
  INSERT INTO sums ` + sumWindows + `;
  INSERT INTO latest SELECT k, COUNT(*), SUM(price), MAX(id) FROM src GROUP BY k;
END;
`

// lake is a catalog with tables.
type lake struct {
	options string // of tables
	env     []string
	space   string
}

// rows reads a table with another engine.
func (l *lake) rows(t testing.TB, engine, table string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	again(t, "s3", func() error {
		out.Reset()
		errs.Reset()
		cmd := servers.Command(t.Context(), "iceberg-readers", "read", engine, l.space+"."+table)
		cmd.Env = append(cmd.Env, l.env...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s reads %s: %w\n%s", engine, table, err, peers.Tail(errs.String()))
		}
		return nil
	})
	return peers.Lines(out.String())
}

// killIceberg kills the job n times and compares its tables with those of an undisturbed run.
func killIceberg(t *testing.T, name string, n int, killed, whole *lake) {
	from := time.Now()
	in := t.TempDir()
	f := feedFolder(in, 1000)
	r := newRig(t, name, icebergJob, map[string]string{"IN": in, "WATCH": ", 'source.monitor-interval' = '100 ms'", "LAKE": killed.options})
	r.commits = []string{"commit/iceberg-loaded", "commit/iceberg-staged", "commit/iceberg-committed", "commit/untold"}
	r.killOften(t, n, nil)
	rows := f.end(t)
	r.finish(t, rows, func() int { return len(killed.rows(t, "pyiceberg", "copies")) })
	took := time.Since(from)
	ref := newRig(t, name+"-ref", icebergJob, map[string]string{"IN": in, "WATCH": "", "LAKE": whole.options})
	ref.whole(t)
	r.tell(t)
	t.Logf("%d rows in, %d kills, %.0f s", rows, n, took.Seconds())
	for _, table := range []string{"copies", "sums", "latest"} {
		for _, engine := range []string{"duckdb", "pyiceberg"} {
			if table == "latest" && engine == "pyiceberg" {
				continue // it does not apply equality deletes
			}
			want := whole.rows(t, engine, table)
			same(t, engine+" "+table, killed.rows(t, engine, table), want)
			if table == "copies" && len(want) != rows {
				t.Errorf("the undisturbed run wrote %d rows of %d", len(want), rows)
			}
		}
	}
}

// TestIcebergSQL has a SQL catalog in a file and a warehouse in a folder.
func TestIcebergSQL(t *testing.T) {
	servers.Need(t)
	servers.Have(t, "iceberg-readers")
	dir := t.TempDir()
	at := func(space string) *lake {
		db := "sqlite:///" + filepath.Join(dir, "catalog.db")
		return &lake{space: space, env: []string{"ICEBERG_CATALOG=" + db},
			options: fmt.Sprintf("'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = '%s', 'warehouse' = '%s', 'catalog-database' = '%s'", db, filepath.Join(dir, "lake"), space)}
	}
	killIceberg(t, "iceberg", kills, at("killed"), at("whole"))
	leftovers(t, filepath.Join(dir, "lake"))
}

// TestIcebergREST has a REST catalog and a warehouse in S3.
func TestIcebergREST(t *testing.T) {
	servers.Need(t, "s3")
	servers.Have(t, "iceberg-readers")
	at := func(space string) *lake {
		return &lake{space: space, env: []string{"ICEBERG_CATALOG=" + catalog, "S3_ENDPOINT=" + s3, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testsecret"},
			options: fmt.Sprintf("'connector' = 'iceberg', 'catalog-type' = 'rest', 'uri' = '%s', 'warehouse' = 's3://warehouse', 'credential' = 'test:testsecret', "+
				"'s3.endpoint' = '%s', 's3.access-key-id' = 'test', 's3.secret-access-key' = 'testsecret', 's3.region' = 'us-east-1', 'catalog-database' = '%s'", catalog, s3, space)}
	}
	killIceberg(t, "iceberg-rest", max(kills/2, len(phases)), at("killed"), at("whole"))
}

// leftovers tells how many files a killed job has left that no snapshot has, at most; it is no error.
func leftovers(t testing.TB, dir string) {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".parquet") {
			n++
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d data and delete files lie in the warehouse", n)
}
