package kill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// The ClickHouse of these tests, and the port in front of it, where answers get lost and inserts are cut.
const clickhousePort = "21123"

var house = peers.New("CH_PORT=" + clickhousePort)

const clickhouseSinks = `
CREATE TABLE copies_c ` + copyColumns + ` WITH ('connector' = 'clickhouse', 'url' = '${CH}', 'table-name' = '${OUT}_copies', 'sink.delivery-guarantee' = '${GIVES}',
  'sink.buffer-flush.max-rows' = '100', 'sink.buffer-flush.interval' = '100 ms', 'connection.max-retry-timeout' = '10 s');
CREATE TABLE sums_c ` + sumColumns + ` WITH ('connector' = 'clickhouse', 'url' = '${CH_NATIVE}', 'table-name' = '${OUT}_sums', 'sink.delivery-guarantee' = '${GIVES}',
  'sink.buffer-flush.interval' = '100 ms', 'connection.max-retry-timeout' = '10 s');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO copies_c ` + copyRows + `;
  INSERT INTO sums_c ` + sumWindows + `;
END;
`

const filesToClickHouse = `
SET 'execution.checkpointing.interval' = '200 ms';
SET 'execution.checkpointing.dir' = '${CHECKPOINTS}';
SET 'restart-strategy.exponential-delay.initial-backoff' = '200 ms';
CREATE TABLE src (id BIGINT, k STRING, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json' ${WATCH});
` + clickhouseSinks

// ask runs a statement in ClickHouse and returns its lines. The server may be away, or die meanwhile: then it
// is asked again.
func ask(t testing.TB, statement string) []string {
	t.Helper()
	lines, err := asked(statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return lines
}

func asked(statement string) (lines []string, err error) {
	err = house.Again("clickhouse", func() error {
		resp, err := http.Post("http://127.0.0.1:"+clickhousePort+"/?database=test&default_format=TabSeparated&wait_end_of_query=1&async_insert=0", "", strings.NewReader(statement))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(string(text))
		}
		lines = peers.Lines(string(text))
		return err
	})
	return lines, err
}

func houseTables(t testing.TB, settings string, names ...string) {
	t.Helper()
	for _, n := range names {
		ask(t, "CREATE TABLE IF NOT EXISTS "+n+"_copies (id Int64, k LowCardinality(String), price Int64) ENGINE = MergeTree ORDER BY id"+settings)
		ask(t, "CREATE TABLE IF NOT EXISTS "+n+"_sums (w DateTime64(3, 'UTC'), k String, n Int64, total Int64, newest Int64) ENGINE = MergeTree ORDER BY w"+settings)
	}
}

// counted counts rows without those that are there again.
func counted(t testing.TB, table string) int {
	n, _ := strconv.Atoi(ask(t, "SELECT uniqExact(id) FROM "+table)[0])
	return n
}

// lossy stands in front of ClickHouse's HTTP port. Of the inserts that pass, it cuts some in the middle,
// and of others it loses the answer, when they have happened.
type lossy struct {
	l       net.Listener
	n       atomic.Int64
	halves  atomic.Int64 // inserts of which the server got a part
	unheard atomic.Int64 // inserts that happened, and whose answer was lost
	wg      sync.WaitGroup
	every   int64
}

func newLossy(t testing.TB, every int64) *lossy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{l: l, every: every}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); p.wg.Wait() })
	return p
}

func (p *lossy) url() string { return "http://" + p.l.Addr().String() + "/test" }

func (p *lossy) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", "127.0.0.1:"+clickhousePort)
	if err != nil {
		return
	}
	defer s.Close()
	var deaf atomic.Bool
	p.wg.Go(func() {
		defer c.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := s.Read(buf)
			if n > 0 && deaf.Load() {
				p.unheard.Add(1)
				return
			}
			if _, e := c.Write(buf[:n]); err != nil || e != nil {
				return
			}
		}
	})
	buf := make([]byte, 1<<16)
	cut := false // this insert is to be cut
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		part, body := buf[:n], 0
		if bytes.HasPrefix(part, []byte("POST ")) && bytes.Contains(part, []byte("insert_deduplication_token=")) {
			switch i := p.n.Add(1); {
			case i%p.every == 0:
				deaf.Store(true)
			case i%p.every == p.every/2:
				cut = true
				if body = bytes.Index(part, []byte("\r\n\r\n")) + 4; body < 4 {
					body = n
				}
			}
		}
		// It is cut within its block: ClickHouse 26.7 aborts when a client goes away within the head of a request.
		if cut && n > body {
			s.Write(part[:n-min((n-body+1)/2, 200)])
			p.halves.Add(1)
			return
		}
		if _, err := s.Write(part); err != nil {
			return
		}
	}
}

// crashes are the ways in which the server dies, which take turns: at once, or by a fatal error, which it takes
// seconds to write down while it refuses what it is asked.
var crashes = []string{"kill", "abort"}

// crash has the server die; it is started again.
func crash(n int) (done bool) { return house.Crash("clickhouse", crashes[n%len(crashes)]) }

// TestClickHouse kills a job that reads the files of a folder, as they come, and inserts into ClickHouse:
// one table over HTTP, through a proxy that cuts inserts and loses answers, the other one over the
// native protocol. The server crashes now and then.
func TestClickHouse(t *testing.T) {
	house.Need(t, "clickhouse")
	t.Cleanup(func() { house.Wipe() })
	from := time.Now()
	const name = "house"
	houseTables(t, " SETTINGS non_replicated_deduplication_window = 200", name, name+"_ref")
	proxy := newLossy(t, 7)
	in := t.TempDir()
	f := feedFolder(in, 1000)
	defines := map[string]string{"IN": in, "OUT": name, "CH": proxy.url(), "CH_NATIVE": "clickhouse://127.0.0.1:" + nativePort(t) + "/test", "GIVES": "exactly-once",
		"WATCH": ", 'source.monitor-interval' = '100 ms'"}
	r := newRig(t, name, filesToClickHouse, defines)
	r.commits = []string{"commit/clickhouse-begun", "commit/clickhouse-inserted", "commit/clickhouse-noted", "commit/clickhouse-inserted", "commit/untold"}
	starts, _ := house.Starts("clickhouse")
	crashed := 0
	r.killOften(t, kills, func(done int) {
		if done%10 == min(5, kills/2) && crash(crashed+1) {
			crashed++
		}
	})
	n := f.end(t)
	r.finish(t, n, func() int { return counted(t, name+"_copies") })
	took := time.Since(from)

	ref := newRig(t, name+"-ref", filesToClickHouse, with(defines, "OUT", name+"_ref", "CH", "http://127.0.0.1:"+clickhousePort+"/test", "WATCH", ""))
	ref.whole(t)
	r.tell(t)
	started, _ := house.Starts("clickhouse")
	t.Logf("%d rows in, %d kills, the server was killed %d times and started %d times; %d inserts were cut, of %d the answer was lost; %.0f s", n, kills, crashed, started-starts,
		proxy.halves.Load(), proxy.unheard.Load(), took.Seconds())
	for _, table := range []string{"copies", "sums"} {
		same(t, "ClickHouse, "+table, ask(t, "SELECT * FROM "+name+"_"+table), ask(t, "SELECT * FROM "+name+"_ref_"+table))
	}
	if got := len(ask(t, "SELECT id FROM "+name+"_ref_copies")); got != n {
		t.Errorf("the undisturbed run wrote %d rows of %d", got, n)
	}
	if crashed == 0 || proxy.halves.Load() == 0 || proxy.unheard.Load() == 0 {
		t.Error("the server did not die, no insert was cut, or no answer was lost: nothing was proven")
	}
	// Each block that is in has one token; so many were sent again.
	t.Logf("notes of progress: %s", strings.Join(ask(t, "SELECT count(), max(checkpoint) FROM tidemark_progress"), " "))
}

// TestClickHouseForgets kills the same job where the table keeps no tokens and at-least-once is all that
// is promised: the kills must make a difference, and the comparison see it.
func TestClickHouseForgets(t *testing.T) {
	house.Need(t, "clickhouse")
	t.Cleanup(func() { house.Wipe() })
	const name = "forgets"
	houseTables(t, "", name)
	in := t.TempDir()
	f := feedFolder(in, 1000)
	r := newRig(t, name, filesToClickHouse, map[string]string{"IN": in, "OUT": name, "CH": "http://127.0.0.1:" + clickhousePort + "/test",
		"CH_NATIVE": "clickhouse://127.0.0.1:" + nativePort(t) + "/test", "GIVES": "at-least-once", "WATCH": ", 'source.monitor-interval' = '100 ms'"})
	r.atLeast = true
	for range 3 {
		r.kill(t, "sealed/unsaved", 3)
	}
	n := f.end(t)
	from := time.Now() // all rows may be there when the job has only begun to start
	r.finish(t, n, func() int {
		if time.Since(from) < 5*time.Second {
			return 0
		}
		return counted(t, name+"_copies")
	})
	again := ask(t, fmt.Sprintf("SELECT count() - uniqExact(id), uniqExact(id) FROM %s_copies", name))[0]
	if strings.HasPrefix(again, "0\t") {
		t.Error("no row is there twice, so nothing above proves anything")
	}
	t.Logf("%d rows in; there again, and once: %s", n, again)
}

func nativePort(t testing.TB) string {
	n, err := strconv.Atoi(clickhousePort)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(n + 100)
}
