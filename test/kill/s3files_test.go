package kill

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/object"
	_ "github.com/tidemark-stream/tidemark/object/s3" // registers s3://
	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// objectsToObjects reads objects, writes objects, and has its checkpoints beside them. Rows of the table
// wide have 300 kB, so that some of its objects are made of several parts.
const objectsToObjects = `
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
SET 's3.endpoint' = '${S3}';
SET 's3.access-key' = 'test';
SET 's3.secret-key' = 'testsecret';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json' ${WATCH});
CREATE TABLE copies_o ` + copyColumns + ` PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = '${OUT}/copies', 'format' = 'json');
CREATE TABLE sums_o ` + sumColumns + ` WITH ('connector' = 'filesystem', 'path' = '${OUT}/sums', 'format' = 'json');
CREATE TABLE wide_o (id BIGINT, pad STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/wide', 'format' = 'json');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_o SELECT id, CASE WHEN price < 700 THEN 'low' ELSE 'high' END, price * 2 FROM src;
  INSERT INTO sums_o ` + sumWindows + `;
  INSERT INTO wide_o SELECT id, REPEAT(k, 100000) FROM src WHERE MOD(id, 100) = 0;
END;
`

// bucket opens a folder of the test's bucket.
func bucket(t testing.TB, folder string) object.Store {
	t.Helper()
	s, err := object.Open("s3://test/"+folder, map[string]string{"s3.endpoint": s3, "s3.access-key": "test", "s3.secret-key": "testsecret"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// feedBucket makes a folder of a bucket grow. Every seventh object is late: its name comes before those
// that are there.
func feedBucket(s object.Store, perSecond int) *feeder {
	n := 0
	return feedEvery(perSecond, 500*time.Millisecond, func(from, to int) error {
		if from == to {
			return nil
		}
		var b strings.Builder
		for i := from; i < to; i++ {
			b.WriteString(order(i) + "\n")
		}
		name := fmt.Sprintf("m%d/%09d.jsonl", n%3, from)
		if n++; n%7 == 0 {
			name = fmt.Sprintf("a/%09d.jsonl", 999_999_999-from)
		}
		return servers.Again("s3", func() error { return s.Put(context.Background(), name, []byte(b.String())) })
	})
}

// objectRows reads the rows of all objects of a folder. Long ones are shown by a hash. An object that was
// seen once stays as it is, so seen keeps its rows from call to call.
func objectRows(t testing.TB, s object.Store, seen map[string][]string) (rows []string, parts int) {
	t.Helper()
	var list []object.Info
	again(t, "s3", func() (err error) {
		list, err = s.List(t.Context(), "")
		return err
	})
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, i := range list {
		if base := i.Name[strings.LastIndexByte(i.Name, '/')+1:]; strings.ContainsAny(base[:1], "._") {
			continue
		}
		if i.Size > object.LeastPart {
			parts++
		}
		if _, ok := seen[i.Name]; ok {
			continue
		}
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var text []byte
			err := servers.Again("s3", func() (err error) {
				text, err = s.Get(t.Context(), i.Name, 0, -1)
				return err
			})
			folder, _, _ := strings.Cut(i.Name, "/")
			if !strings.Contains(i.Name, "/") {
				folder = ""
			}
			var lines []string
			for _, l := range peers.Lines(string(text)) {
				if len(l) > 1000 {
					l = fmt.Sprintf("%s ... %x", l[:30], sha256.Sum256([]byte(l)))
				}
				lines = append(lines, folder+l)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v", i.Name, err)
			}
			seen[i.Name] = lines
		})
	}
	wait.Wait()
	for _, l := range seen {
		rows = append(rows, l...)
	}
	return rows, parts
}

// TestS3Files kills a job that reads objects of a bucket as they come and writes objects, with its
// checkpoints in the bucket too.
func TestS3Files(t *testing.T) {
	servers.Need(t, "s3")
	from := time.Now()
	f := feedBucket(bucket(t, "s3files/in"), 1000)
	defines := map[string]string{"S3": s3, "CHECKPOINTS": "s3://test/s3files/checkpoints", "IN": "s3://test/s3files/in"}
	r := newRig(t, "s3files", objectsToObjects, with(defines, "OUT", "s3://test/s3files/out", "WATCH", ", 'source.monitor-interval' = '100 ms'"))
	r.commits = []string{"commit/object-made", "commit/untold"}
	r.killOften(t, kills, nil)
	n := f.end(t)
	seen := map[string]map[string][]string{"copies": {}, "sums": {}, "wide": {}}
	out := bucket(t, "s3files/out/copies")
	r.finish(t, n, func() int { rows, _ := objectRows(t, out, seen["copies"]); return len(rows) })
	took := time.Since(from)
	whole := newRig(t, "s3files-ref", objectsToObjects, with(defines, "OUT", "s3://test/s3files/ref", "WATCH", ""))
	whole.whole(t)
	r.tell(t)
	t.Logf("%d rows in, %d kills, %.0f s", n, kills, took.Seconds())
	for _, table := range []string{"copies", "sums", "wide"} {
		got, parts := objectRows(t, bucket(t, "s3files/out/"+table), seen[table])
		want, _ := objectRows(t, bucket(t, "s3files/ref/"+table), map[string][]string{})
		same(t, table, got, want)
		t.Logf("%s: %d objects, %d of them of several parts", table, len(seen[table]), parts)
		if table == "copies" && len(want) != n {
			t.Errorf("the undisturbed run wrote %d rows of %d", len(want), n)
		}
	}
	// Only a run that was killed before its first checkpoint may have left uploads.
	left, err := object.UploaderOf(bucket(t, "s3files/out")).Uploads(t.Context(), "")
	if err != nil || len(left) > 0 {
		t.Errorf("uploads that nobody has completed or aborted: %d, %v, %v", len(left), left, err)
	}
}
