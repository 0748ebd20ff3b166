package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// The ports of systems that the suite starts itself.
const (
	kafkaPort = "22092"
	flinkPort = "22081"
)

// servers are the systems to test with: TIDEMARK_KAFKA (a bootstrap server) and
// TIDEMARK_FLINK_JOBMANAGER (a URL) name some that run already.
var servers = peers.New("KAFKA_PORT="+portOf("tcp://"+os.Getenv("TIDEMARK_KAFKA"), kafkaPort),
	"FLINK_PORT="+portOf(os.Getenv("TIDEMARK_FLINK_JOBMANAGER"), flinkPort))

var (
	bootstrap string // Kafka's
	binary    string // the tidemark command
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tidemark-integration")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "tidemark")
		return servers.Main(m, build, start)
	}())
}

// need skips a test without the systems it needs.
func need(t *testing.T) {
	t.Helper()
	if !peers.Wanted() {
		t.Skip("SKIPPED: this needs a real Kafka and a real Flink; set TIDEMARK_INTEGRATION=1 to have them started")
	}
}

// portOf is the port of a URL, or the suite's own.
func portOf(address, own string) string {
	if u, err := url.Parse(address); err == nil && u.Port() != "" {
		return u.Port()
	}
	return own
}

func build() error {
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/tidemark").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// start starts what does not run yet.
func start() error {
	if bootstrap = os.Getenv("TIDEMARK_KAFKA"); bootstrap == "" {
		bootstrap = "127.0.0.1:" + kafkaPort
		if err := servers.Start("kafka"); err != nil {
			return err
		}
	} else if servers.Adopt("kafka") != nil {
		fmt.Fprintln(os.Stderr, "Kafka was started by somebody else: if it dies it stays dead")
	}
	if os.Getenv("TIDEMARK_FLINK_JOBMANAGER") == "" {
		return servers.Start("flink")
	}
	if servers.Adopt("flink") != nil {
		fmt.Fprintln(os.Stderr, "Flink was started by somebody else: if it dies it stays dead")
	}
	return nil
}

// again calls f until it succeeds, as long as a server is away.
func again(t testing.TB, name string, f func() error) {
	t.Helper()
	if err := servers.Again(name, f); err != nil {
		t.Fatal(err)
	}
}

// tidemark is a run of the command over a script. defines are names and values.
func tidemark(ctx context.Context, file string, defines ...string) *exec.Cmd {
	args := []string{"run", file}
	for i := 0; i+1 < len(defines); i += 2 {
		args = append(args, "--define", defines[i]+"="+defines[i+1])
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// newTopic makes a topic with Kafka's tool; the name is made unique.
func newTopic(t testing.TB, name string, partitions int) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, time.Now().UnixMilli())
	servers.Tool(t, "kafka", "topics", "--create", "--if-not-exists", "--topic", name, "--partitions", strconv.Itoa(partitions))
	return name
}

// produce sends lines with Kafka's console producer.
func produce(t testing.TB, topic string, lines []string) {
	t.Helper()
	cmd := producer(t.Context(), topic)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	peers.Output(t, cmd)
}

func producer(ctx context.Context, topic string) *exec.Cmd {
	return servers.Command(ctx, "kafka", "produce", "--topic", topic, "--batch-size", "131072", "--timeout", "20")
}

// ends returns the number of records of a topic, from the offsets of its partitions.
func ends(t testing.TB, topic string) int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var listed kadm.ListedOffsets
	again(t, "kafka", func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if listed, err = kadm.NewClient(cl).ListEndOffsets(ctx, topic); err == nil {
			err = listed.Error()
		}
		return err
	})
	var n int64
	listed.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// consume reads everything there is with Kafka's console consumer. properties go to its formatter.
func consume(t testing.TB, topic string, properties ...string) []string {
	t.Helper()
	n := ends(t, topic)
	if n == 0 {
		return nil
	}
	args := []string{"consume", "--topic", topic, "--from-beginning", "--max-messages", strconv.FormatInt(n, 10), "--timeout-ms", "120000"}
	for _, p := range properties {
		args = append(args, "--property", p)
	}
	return peers.Lines(servers.Tool(t, "kafka", args...))
}

// write makes a file of the test.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
