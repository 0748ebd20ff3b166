package kill

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// head makes the source of the jobs that read Kafka.
const head = `
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '${IN}', 'properties.bootstrap.servers' = '${KAFKA}', 'format' = 'json',
  'properties.group.id' = '${IN}', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = '${UNTIL}');
`

// inserts are the queries of all jobs: each row, and windows of a second.
const (
	copyRows    = `SELECT id, UPPER(k), price * 2 FROM src`
	sumWindows  = `SELECT window_start, k, COUNT(*), SUM(price), MAX(id) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k`
	copyColumns = `(id BIGINT, k STRING, price BIGINT)`
	sumColumns  = `(w TIMESTAMP(3), k STRING, n BIGINT, total BIGINT, newest BIGINT)`
)

const kafkaSinks = `
CREATE TABLE copies_k ` + copyColumns + ` WITH ('connector' = 'kafka', 'topic' = '${OUT}-copies', 'properties.bootstrap.servers' = '${KAFKA}',
  'format' = 'json', 'sink.delivery-guarantee' = '${KAFKA_DELIVERY}', 'sink.transactional-id-prefix' = '${OUT}', 'properties.transaction.timeout.ms' = '${TXN}');
CREATE TABLE sums_k ` + sumColumns + ` WITH ('connector' = 'kafka', 'topic' = '${OUT}-sums', 'properties.bootstrap.servers' = '${KAFKA}',
  'format' = 'json', 'sink.delivery-guarantee' = '${KAFKA_DELIVERY}', 'sink.transactional-id-prefix' = '${OUT}', 'properties.transaction.timeout.ms' = '${TXN}');
`

const kafkaAndPostgres = head + kafkaSinks + `
CREATE TABLE copies_p ` + copyColumns + ` WITH ('connector' = 'postgres', 'url' = '${PG}', 'table-name' = '${OUT}_copies', 'sink.delivery-guarantee' = 'exactly-once');
CREATE TABLE sums_p ` + sumColumns + ` WITH ('connector' = 'postgres', 'url' = '${PG}', 'table-name' = '${OUT}_sums', 'sink.delivery-guarantee' = 'exactly-once');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_k ` + copyRows + `;
  INSERT INTO sums_k ` + sumWindows + `;
  INSERT INTO copies_p ` + copyRows + `;
  INSERT INTO sums_p ` + sumWindows + `;
END;
`

const onlyKafka = head + kafkaSinks + `
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_k ` + copyRows + `;
  INSERT INTO sums_k ` + sumWindows + `;
END;
`

// topics makes the topics of a job's input and of its output, killed and not.
func topics(t testing.TB, name string) (in string) {
	t.Helper()
	in = name + "_in"
	newTopics(t, 2, in, name+"-copies", name+"-sums", name+"_ref-copies", name+"_ref-sums")
	return in
}

// with is a copy of defines with more.
func with(defines map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range defines {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// TestKafkaAndPostgres kills a job that writes into both, while the broker and the database crash now
// and then.
func TestKafkaAndPostgres(t *testing.T) {
	servers.Need(t, "kafka", "postgres")
	from := time.Now()
	const name = "both"
	in := topics(t, name)
	for _, n := range []string{name, name + "_ref"} {
		query(t, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s_copies (id bigint, k text, price bigint); "+
			"CREATE TABLE IF NOT EXISTS %[1]s_sums (w timestamp, k text, n bigint, total bigint, newest bigint)", n))
	}
	defines := map[string]string{"IN": in, "KAFKA": kafka, "PG": postgres, "TXN": "60000", "KAFKA_DELIVERY": "exactly-once"}
	_, brokerWas := servers.Starts("kafka")
	_, databaseWas := servers.Starts("postgres")
	f := feedTopic(t, in, 1000)
	r := newRig(t, name, kafkaAndPostgres, with(defines, "OUT", name, "UNTIL", "unbounded"))
	broker, database := 0, 0
	r.commits = []string{"commit/kafka-sent", "commit/kafka-marked", "commit/kafka-ended", "commit/postgres-begun", "commit/postgres-noted",
		"commit/postgres-committed", "commit/untold"}
	r.killOften(t, kills, func(done int) {
		if done%40 == min(20, kills/2) && servers.Crash("kafka", "kill", "1") {
			broker++
		}
		if done%40 == min(39, kills*3/4) && servers.Crash("postgres", "kill") {
			database++
		}
	})
	if err := servers.Await(); err != nil {
		t.Fatal(err)
	}
	n := f.end(t)
	r.finish(t, n, func() int { return count(t, name+"_copies") })
	took := time.Since(from)

	ref := newRig(t, name+"-ref", kafkaAndPostgres, with(defines, "OUT", name+"_ref", "UNTIL", "latest-offset"))
	ref.whole(t)
	r.tell(t)
	_, brokerAway := servers.Starts("kafka")
	_, databaseAway := servers.Starts("postgres")
	t.Logf("%d rows in, %d kills, the broker crashed %d times (%.0f s away), the database %d times (%.0f s), %.0f s in all", n, kills, broker,
		(brokerAway - brokerWas).Seconds(), database, (databaseAway - databaseWas).Seconds(), took.Seconds())
	if broker == 0 || database == 0 {
		t.Error("the broker or the database did not crash: nothing was proven")
	}
	rows := consume(t, name+"-copies", name+"-sums", name+"_ref-copies", name+"_ref-sums")
	for i, table := range []string{"copies", "sums"} {
		same(t, "Kafka, "+table, rows[i], rows[i+2])
		same(t, "PostgreSQL, "+table, query(t, "SELECT * FROM "+name+"_"+table), query(t, "SELECT * FROM "+name+"_ref_"+table))
	}
	if got := count(t, name+"_ref_copies"); got != n {
		t.Errorf("the undisturbed run wrote %d rows of %d", got, n)
	}
}

func count(t testing.TB, table string) int {
	t.Helper()
	n, err := strconv.Atoi(query(t, "SELECT count(*) FROM "+table)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
