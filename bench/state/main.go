// Command state measures tables that are larger than memory: COUNT and SUM by a BIGINT key, as a
// group aggregation keeps them, over a number of distinct keys, under a budget, with the store below
// on disk. It says how many rows a second went in, what memory the process took at its peak, and what
// the store did. Run it with -memory as well to see what the same costs without a budget:
//
//	go run ./bench/state -keys 100000000 -budget 1073741824
//	go run ./bench/state -keys 100000000 -memory
//
// With -checkpoint it takes checkpoints meanwhile, and goes on from the last one at the end. With -pause
// it measures how long a job stands still at a checkpoint:
//
//	go run ./bench/state -pause
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var (
	keys     = flag.Uint64("keys", 100_000_000, "distinct keys")
	rows     = flag.Uint64("rows", 0, "rows; 0 is as many as keys")
	budget   = flag.Int64("budget", 1<<30, "bytes for all state, its store and what Go needs for both")
	share    = flag.Int64("store", 0, "bytes of the budget for the store's own memory; 0 is an eighth")
	dist     = flag.String("keys-come", "once", "once: each new; random: any of them each time; recent: nine of ten rows have a key of the last million")
	memory   = flag.Bool("memory", false, "no budget, no store: all in memory")
	compress = flag.Bool("compress", true, "compress the store")
	dir      = flag.String("dir", "", "folder of the store; default a temporary one")
	profile  = flag.String("cpuprofile", "", "write a CPU profile")
	every    = flag.Duration("checkpoint", 0, "time between two checkpoints; 0 takes none")
	pause    = flag.Bool("pause", false, "measure the pause of a checkpoint instead")
	rounds   = flag.Int("rounds", 50, "with -pause: how many checkpoints")

	stateBytes = flag.Int64("state", 1<<30, "with -pause: bytes of state")
	dirtyShare = flag.Float64("dirty", 0.01, "with -pause: the share of keys that change between two checkpoints")
	check      = flag.Bool("check", true, "go over all keys at the end and add up")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if *rows == 0 {
		*rows = *keys
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	do := run
	if *pause {
		do = pauses
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	path, err := folder()
	if err != nil {
		return err
	}
	if *dir == "" {
		defer os.RemoveAll(path)
	}
	j, err := start(filepath.Join(path, "store"))
	if err != nil {
		return err
	}
	if *every > 0 && j.st != nil {
		j.cuts = &cuts{to: filepath.Join(path, "checkpoints"), next: time.Now().Add(*every)}
		if err := os.MkdirAll(j.cuts.to, 0o755); err != nil {
			return err
		}
	}
	in, recs := newInput(), make([]uint32, vec.BatchRows)
	begin, last := time.Now(), time.Now()
	var sum uint64
	base := j.t.Base()
	for n := uint64(0); n < *rows; n += vec.BatchRows {
		in.fill(n)
		in.find(j, recs)
		for k, rec := range recs {
			w := j.t.Chunks[rec>>state.ChunkBits][int(rec&state.ChunkMask):]
			w[base]++
			w[base+1] += uint64(k)
			sum += uint64(k)
		}
		if err := j.between(); err != nil {
			return err
		}
		if since := time.Since(last); since > 10*time.Second {
			last = time.Now()
			j.report(n, begin)
		}
	}
	j.report(*rows, begin)
	if j.cuts != nil {
		if err := j.end(path); err != nil {
			return err
		}
	}
	if *check {
		return j.verify(sum)
	}
	return nil
}

// end takes a last checkpoint and goes on from it.
func (j *job) end(path string) error {
	err := j.cuts.wait()
	if err == nil {
		j.cuts.report()
		err = j.cuts.begin(j)
	}
	if err == nil {
		err = j.cuts.wait()
	}
	if err != nil {
		return err
	}
	return j.cuts.restore(filepath.Join(path, "restored"))
}

// input makes keys.
type input struct {
	v   *vec.Vec
	pos []int32
	r   *rand.Rand
}

func newInput() *input {
	in := &input{v: vec.New(types.BigIntType.NotNull(), vec.BatchRows), pos: make([]int32, vec.BatchRows), r: rand.New(rand.NewPCG(1, 2))}
	for i := range in.pos {
		in.pos[i] = int32(i)
	}
	return in
}

// find finds, or adds, the records of the keys.
func (in *input) find(j *job, recs []uint32) {
	j.enc.Encode([]*vec.Vec{in.v}, in.pos, nil)
	j.t.Upsert(j.enc, nil, recs)
}

// fill makes the keys of the rows from number n on.
func (in *input) fill(n uint64) {
	v, r := in.v.I64, in.r
	for i := range v {
		var k uint64
		switch *dist {
		case "once":
			k = (n + uint64(i)) % *keys
		case "random":
			k = r.Uint64N(*keys)
		case "recent":
			k = (n + uint64(i)) % *keys
			if r.IntN(10) > 0 {
				k -= min(k, r.Uint64N(1_000_000))
			}
		default:
			log.Fatalf("keys come %q: once, random or recent", *dist)
		}
		v[i] = spread(k)
	}
}

// spread spreads keys over all numbers, as ids are.
func spread(k uint64) int64 { return int64(k * 0x9E3779B97F4A7C15) }

// verify adds up all records, those on disk too.
func (j *job) verify(sum uint64) error {
	start := time.Now()
	var c state.SweepCursor
	ids := make([]uint32, 1024)
	var got, count, n uint64
	for list := j.t.Sweep(&c, ids); len(list) > 0; list = j.t.Sweep(&c, ids) {
		for _, rec := range list {
			w := j.t.At(rec)[j.t.Base():]
			count, got, n = count+w[0], got+w[1], n+1
		}
	}
	want := (*rows + vec.BatchRows - 1) / vec.BatchRows * vec.BatchRows
	fmt.Printf("all %d keys read in %.1f s\n", n, time.Since(start).Seconds())
	if got != sum || count != want {
		return fmt.Errorf("the sums are wrong: %d rows of %d, sum %d of %d", count, want, got, sum)
	}
	return nil
}

func (j *job) report(n uint64, begin time.Time) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	t := time.Since(begin)
	rss, peak := status()
	fmt.Printf("%5.1f M rows %6.1f s %8.0f rows/s, %5.2f us CPU a row, RSS %d MiB, peak %d MiB, %d hot %d cold keys",
		float64(n)/1e6, t.Seconds(), float64(n)/t.Seconds(), float64(cpu.Microseconds())/float64(n), rss>>10, peak>>10,
		j.t.Len(), j.t.Cold())
	if !*memory {
		m := j.st.Metrics()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		fmt.Printf(", counted %d MiB, heap %d MiB, waited %.1f s; store: %d MB on disk, %d MB written, %d lookups, %d hits, %d tables, debt %d MB",
			j.b.Used()>>20, s.HeapInuse>>20, j.waited.Seconds(), m.DiskBytes/1e6, m.WrittenBytes/1e6, m.Lookups, m.Hits, m.Tables, m.DebtBytes/1e6)
	}
	fmt.Println()
}

// status reads what memory the process has and had at most, KiB.
func status() (rss, peak int) {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			rss, _ = strconv.Atoi(f[1])
		case "VmHWM:":
			peak, _ = strconv.Atoi(f[1])
		}
	}
	return rss, peak
}
