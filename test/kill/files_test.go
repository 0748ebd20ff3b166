package kill

import (
	"path/filepath"
	"testing"
	"time"
)

// fileSinks write below a folder.
const fileSinks = `
CREATE TABLE copies_f ` + copyColumns + ` WITH ('connector' = 'filesystem', 'path' = '${OUT}/copies', 'format' = 'json');
CREATE TABLE sums_f ` + sumColumns + ` WITH ('connector' = 'filesystem', 'path' = '${OUT}/sums', 'format' = 'json');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_f ` + copyRows + `;
  INSERT INTO sums_f ` + sumWindows + `;
END;
`

const filesToFiles = `
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json' ${WATCH});
` + fileSinks

const kafkaToFiles = `
SET 's3.endpoint' = '${S3}';
SET 's3.access-key' = 'test';
SET 's3.secret-key' = 'testsecret';
` + head + fileSinks

// TestFiles kills a job that reads the files of a folder, as they come, and writes files.
func TestFiles(t *testing.T) {
	servers.Need(t)
	from := time.Now()
	in, out, ref := t.TempDir(), t.TempDir(), t.TempDir()
	f := feedFolder(in, 1000)
	r := newRig(t, "files", filesToFiles, map[string]string{"IN": in, "OUT": out, "WATCH": ", 'source.monitor-interval' = '100 ms'"})
	r.commits = []string{"commit/file-moved", "commit/untold"}
	r.killOften(t, kills, nil)
	n := f.end(t)
	r.finish(t, n, func() int { return len(visible(t, filepath.Join(out, "copies"))) })
	took := time.Since(from)
	whole := newRig(t, "files-ref", filesToFiles, map[string]string{"IN": in, "OUT": ref, "WATCH": ""})
	whole.whole(t)
	r.tell(t)
	t.Logf("%d rows in, %d kills, %.0f s", n, kills, took.Seconds())
	compareFolders(t, out, ref, n)
}

// TestS3 kills a job whose checkpoints are in an S3 bucket.
func TestS3(t *testing.T) {
	servers.Need(t, "kafka", "s3")
	from := time.Now()
	in, out, ref := "s3_in", t.TempDir(), t.TempDir()
	newTopics(t, 2, in)
	f := feedTopic(t, in, 1000)
	defines := map[string]string{"IN": in, "KAFKA": kafka, "S3": s3, "CHECKPOINTS": "s3://test/kill"}
	r := newRig(t, "s3", kafkaToFiles, with(defines, "OUT", out, "UNTIL", "unbounded"))
	r.commits = []string{"commit/file-moved", "commit/untold"}
	n := max(kills/2, len(phases))
	r.killOften(t, n, nil)
	rows := f.end(t)
	r.finish(t, rows, func() int { return len(visible(t, filepath.Join(out, "copies"))) })
	took := time.Since(from)
	whole := newRig(t, "s3-ref", kafkaToFiles, with(defines, "OUT", ref, "UNTIL", "latest-offset"))
	whole.whole(t)
	r.tell(t)
	t.Logf("%d rows in, %d kills, %.0f s", rows, n, took.Seconds())
	compareFolders(t, out, ref, rows)
}

// compareFolders compares what two jobs have written, n rows in.
func compareFolders(t testing.TB, out, ref string, n int) {
	t.Helper()
	for _, table := range []string{"copies", "sums"} {
		got, want := visible(t, filepath.Join(out, table)), visible(t, filepath.Join(ref, table))
		same(t, table, got, want)
		if table == "copies" && len(want) != n {
			t.Errorf("the undisturbed run wrote %d rows of %d", len(want), n)
		}
	}
}
