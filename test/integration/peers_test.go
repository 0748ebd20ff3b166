package integration

import (
	"bytes"
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
)

// The ports of systems that the suite starts itself.
const (
	kafkaPort = 39092
	flinkPort = 38081
)

// peers are the systems to test with.
var peers struct {
	env    []string // of the scripts
	kafka  string   // bootstrap server
	binary string   // the tidemark command
	own    []string // scripts that started something
}

func TestMain(m *testing.M) {
	if !wanted() {
		os.Exit(m.Run())
	}
	os.Exit(withPeers(m.Run))
}

func wanted() bool { return os.Getenv("TIDEMARK_INTEGRATION") != "" }

// need skips a test without the systems it needs.
func need(t *testing.T) {
	t.Helper()
	if !wanted() {
		t.Skip("SKIPPED: this needs a real Kafka and a real Flink; set TIDEMARK_INTEGRATION=1 to have them started")
	}
}

// withPeers runs f with the systems up.
func withPeers(f func() int) int {
	dir, err := os.MkdirTemp("", "tidemark-integration")
	if err == nil {
		defer os.RemoveAll(dir)
		defer func() {
			for _, name := range peers.own {
				script(context.Background(), name, "wipe").Run()
			}
		}()
		err = start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return f()
}

// start builds the command and starts what does not run yet.
func start(dir string) error {
	peers.binary = filepath.Join(dir, "tidemark")
	build := exec.Command("go", "build", "-o", peers.binary, "../../cmd/tidemark")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	kafka, flink := strconv.Itoa(kafkaPort), strconv.Itoa(flinkPort)
	peers.kafka = os.Getenv("TIDEMARK_KAFKA")
	if peers.kafka != "" {
		_, kafka, _ = strings.Cut(peers.kafka, ":")
	}
	jm := os.Getenv("TIDEMARK_FLINK_JOBMANAGER")
	if jm != "" {
		u, err := url.Parse(jm)
		if err != nil {
			return fmt.Errorf("TIDEMARK_FLINK_JOBMANAGER: %w", err)
		}
		flink = u.Port()
	}
	peers.env = append(os.Environ(), "KAFKA_PORT="+kafka, "FLINK_PORT="+flink)
	if peers.kafka == "" {
		peers.kafka = "127.0.0.1:" + kafka
		if err := own("kafka"); err != nil {
			return err
		}
	}
	if jm == "" {
		return own("flink")
	}
	return nil
}

// own starts a system afresh.
func own(name string) error {
	peers.own = append(peers.own, name)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // it may have to be installed
	defer cancel()
	script(ctx, name, "wipe").Run()
	if out, err := script(ctx, name, "start").CombinedOutput(); err != nil {
		return fmt.Errorf("start %s: %w\n%s", name, err, out)
	}
	return nil
}

// script is a call of a script of test/peers.
func script(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "../peers/"+name, args...)
	cmd.Env = peers.env
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// must runs a command and returns what it wrote.
func must(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, tail(errs.String()))
	}
	return out.String()
}

// tail is the end of a long text.
func tail(s string) string {
	if len(s) > 3000 {
		return "..." + s[len(s)-3000:]
	}
	return s
}

// tidemark is a run of the command over a script. defines are names and values.
func tidemark(ctx context.Context, file string, defines ...string) *exec.Cmd {
	args := []string{"run", file}
	for i := 0; i+1 < len(defines); i += 2 {
		args = append(args, "--define", defines[i]+"="+defines[i+1])
	}
	cmd := exec.CommandContext(ctx, peers.binary, args...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// newTopic makes a topic with Kafka's tool; the name is made unique.
func newTopic(t testing.TB, name string, partitions int) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, time.Now().UnixMilli())
	must(t, script(t.Context(), "kafka", "topics", "--create", "--topic", name, "--partitions", strconv.Itoa(partitions)))
	return name
}

// produce sends lines with Kafka's console producer.
func produce(t testing.TB, topic string, lines []string) {
	t.Helper()
	cmd := producer(t.Context(), topic)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	must(t, cmd)
}

func producer(ctx context.Context, topic string) *exec.Cmd {
	return script(ctx, "kafka", "produce", "--topic", topic, "--batch-size", "131072", "--timeout", "20")
}

// ends returns the number of records of a topic, from the offsets of its partitions.
func ends(t testing.TB, topic string) int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(peers.kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
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
	args := []string{"consume", "--topic", topic, "--from-beginning", "--max-messages", strconv.FormatInt(n, 10), "--timeout-ms", "60000"}
	for _, p := range properties {
		args = append(args, "--property", p)
	}
	out := must(t, script(t.Context(), "kafka", args...))
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
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
