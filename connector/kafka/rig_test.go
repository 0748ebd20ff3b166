package kafka_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-stream/tidemark/connector/print"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // the standard connectors and formats
	"github.com/tidemark-stream/tidemark/engine"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestMain fails when goroutines are left after the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks waits for goroutines of this module and of its client to end.
func leaks() int {
	buf := make([]byte, 4<<20)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text := string(buf[:runtime.Stack(buf, true)])
		var left []string
		for _, g := range strings.Split(text, "\n\n")[1:] {
			if strings.Contains(g, "tidemark") || strings.Contains(g, "kgo.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return 0
		}
		if time.Now().After(end) {
			fmt.Printf("%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
			return 1
		}
	}
}

// rig is a Kafka in this process and a client to look at it with.
type rig struct {
	t     *testing.T
	c     *kfake.Cluster
	addr  string
	cl    *kgo.Client
	admin *kadm.Client
	dir   string
}

func newRig(t *testing.T, opts ...kfake.Opt) *rig {
	t.Helper()
	t.Parallel()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, c: c, addr: strings.Join(c.ListenAddrs(), ","), dir: t.TempDir()}
	t.Cleanup(func() { r.c.Close() })
	r.cl, err = kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cl.Close)
	r.admin = kadm.NewClient(r.cl)
	return r
}

func (r *rig) topic(name string, partitions int32, configs ...string) {
	r.t.Helper()
	m := map[string]string{}
	for i := 0; i+1 < len(configs); i += 2 {
		m[configs[i]] = configs[i+1]
	}
	if err := r.c.CreateTopic(name, partitions, m); err != nil {
		r.t.Fatal(err)
	}
}

// rec makes a record from partition, key and value; "-" is none.
func rec(partition int32, key, value string) *kgo.Record {
	rec := &kgo.Record{Partition: partition, Key: []byte(key), Value: []byte(value)}
	if key == "-" {
		rec.Key = nil
	}
	if value == "-" {
		rec.Value = nil
	}
	return rec
}

func (r *rig) produce(topic string, recs ...*kgo.Record) {
	r.t.Helper()
	for _, x := range recs {
		x.Topic = topic
	}
	if err := r.cl.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// count writes n records {"n":i} from first on, spread over the partitions.
func (r *rig) count(topic string, partitions int32, first, n int) {
	r.t.Helper()
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = rec(int32(i)%partitions, "-", fmt.Sprintf(`{"n":%d}`, first+i))
	}
	r.produce(topic, recs...)
}

// read returns all records of a topic as "partition key value", sorted by partition and offset.
func (r *rig) read(topic string) []string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	from := map[int32]kgo.Offset{}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition] = kgo.NewOffset().AtStart()
			left++
		}
	})
	if left == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	var recs []*kgo.Record
	for left > 0 {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatal("the records of " + topic + " do not come")
		}
		f.EachRecord(func(x *kgo.Record) {
			if end, _ := ends.Lookup(topic, x.Partition); x.Offset == end.Offset-1 {
				left--
			}
			if !x.Attrs.IsControl() {
				recs = append(recs, x)
			}
		})
	}
	slices.SortFunc(recs, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	var out []string
	for _, x := range recs {
		show := func(b []byte) string {
			if b == nil {
				return "-"
			}
			return string(b)
		}
		out = append(out, fmt.Sprintf("%d %s %s", x.Partition, show(x.Key), show(x.Value)))
	}
	return out
}

// run is a script being run.
type run struct {
	r       *rig
	mu      sync.Mutex
	rows    map[string]int // folded rows of bare SELECTs
	jobs    []*engine.Run
	reports []*job.Report
	warns   []string
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// start runs a script, in which ${K} is the bootstrap server and ${DIR} a folder. config holds
// settings, key and value in turn.
func (r *rig) start(sql string, config ...string) *run {
	x := &run{r: r, rows: map[string]int{}, done: make(chan struct{})}
	over := map[string]string{"tidemark.epoch.interval": "100 ms"}
	for i := 0; i+1 < len(config); i += 2 {
		over[config[i]] = config[i+1]
	}
	e := engine.New(engine.Options{Dir: r.dir, Config: map[string]string{"table.local-time-zone": "UTC"}, Override: over,
		Define: map[string]string{"DIR": r.dir, "K": r.addr}})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	x.cancel = cancel
	texts := map[*engine.Run]*print.Text{}
	h := engine.Handler{
		JobStarted: func(j *engine.Run) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.jobs = append(x.jobs, j)
			if j.Select != nil {
				texts[j], _ = print.NewText(j.Select.Schema, j.Config.Env())
			}
		},
		Rows: func(j *engine.Run, b *vec.Batch) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			cols := texts[j].Columns(b)
			b.Each(func(i int) {
				cells := make([]string, len(cols))
				for k, c := range cols {
					cells[k] = "NULL"
					if !c.IsNull(i) {
						cells[k] = string(c.Bytes(i))
					}
				}
				row, n := strings.Join(cells, " | "), 1
				if b.Kind(i).Retracts() {
					n = -1
				}
				if x.rows[row] += n; x.rows[row] == 0 {
					delete(x.rows, row)
				}
			})
			return nil
		},
		JobEnded: func(_ *engine.Run, rep *job.Report, err error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if rep != nil {
				x.reports = append(x.reports, rep)
			}
		},
		Warn: func(msg string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.warns = append(x.warns, msg)
		},
	}
	go func() {
		defer close(x.done)
		x.err = e.Script(ctx, "test.sql", sql, h)
	}()
	r.t.Cleanup(func() { cancel(); <-x.done })
	return x
}

// sorted returns the rows so far.
func (x *run) sorted() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := []string{}
	for row, n := range x.rows {
		for range n {
			out = append(out, row)
		}
		if n < 0 {
			out = append(out, fmt.Sprintf("%d of %s", n, row))
		}
	}
	slices.SortFunc(out, func(a, b string) int { // numbers by value
		x, e1 := strconv.Atoi(a)
		y, e2 := strconv.Atoi(b)
		if e1 == nil && e2 == nil {
			return x - y
		}
		return strings.Compare(a, b)
	})
	return out
}

// wait waits until the rows are those wanted.
func (x *run) wait(want ...string) {
	x.r.t.Helper()
	x.r.eventually(func() string {
		select {
		case <-x.done:
			if x.err != nil {
				x.r.t.Fatalf("the job failed: %v", x.err)
			}
		default:
		}
		if got := x.sorted(); !slices.Equal(got, want) {
			return fmt.Sprintf("rows %q, want %q", got, want)
		}
		return ""
	})
}

// stop ends the jobs cleanly.
func (x *run) stop() {
	x.r.t.Helper()
	x.mu.Lock()
	jobs := slices.Clone(x.jobs)
	x.mu.Unlock()
	for _, j := range jobs {
		j.Stop()
	}
	<-x.done
	if x.err != nil {
		x.r.t.Fatal(x.err)
	}
}

// eventually tries until check returns "" or a minute has passed.
func (r *rig) eventually(check func() string) {
	r.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		msg := check()
		if msg == "" {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal(msg)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// rows runs a bounded script and returns the rows of its SELECTs.
func (r *rig) rows(sql string, config ...string) []string {
	r.t.Helper()
	x := r.start(sql, config...)
	<-x.done
	if x.err != nil {
		r.t.Fatalf("%v\nin\n%s", x.err, sql)
	}
	for _, rep := range x.reports {
		for _, u := range rep.Unbalanced {
			r.t.Errorf("the books do not balance: %s", u)
		}
	}
	return x.sorted()
}

// fails runs a script that must not work and returns why.
func (r *rig) fails(sql string, parts ...string) {
	r.t.Helper()
	x := r.start(sql)
	<-x.done
	if x.err == nil {
		r.t.Fatalf("no error from\n%s", sql)
	}
	for _, p := range parts {
		if !strings.Contains(x.err.Error(), p) {
			r.t.Errorf("error\n%v\nlacks %q", x.err, p)
		}
	}
}

func (r *rig) equal(got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// lines returns the lines of all files of a folder, sorted.
func (r *rig) lines(dir string) []string {
	var out []string
	files, _ := filepath.Glob(filepath.Join(r.dir, dir, "*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
	slices.Sort(out)
	return out
}

// numbers is first..last as text.
func numbers(first, last int) []string {
	out := []string{}
	for i := first; i <= last; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// table is the definition of a JSON table t with the given columns; options are appended to those
// of every table here, or replace them.
func table(name, columns string, options ...string) string {
	with := map[string]string{"connector": "kafka", "properties.bootstrap.servers": "${K}", "topic": name, "format": "json"}
	for i := 0; i+1 < len(options); i += 2 {
		if options[i+1] == "" {
			delete(with, options[i])
			continue
		}
		with[options[i]] = options[i+1]
	}
	var parts []string
	for k, v := range with {
		parts = append(parts, fmt.Sprintf("'%s' = '%s'", k, strings.ReplaceAll(v, "'", "''")))
	}
	slices.Sort(parts)
	return fmt.Sprintf("CREATE TABLE %s (%s) WITH (%s);\n", name, columns, strings.Join(parts, ", "))
}

// all are the options of a source that reads everything there is.
var all = []string{"scan.startup.mode", "earliest-offset", "scan.bounded.mode", "latest-offset"}

func with(more ...string) []string { return append(slices.Clone(all), more...) }
