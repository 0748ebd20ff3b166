// Command state measures tables that are larger than memory: COUNT and SUM by a BIGINT key, as a
// group aggregation keeps them, over a number of distinct keys, under a budget, with the store below
// on disk. It says how many rows a second went in, what memory the process took at its peak, and what
// the store did. Run it with -memory as well to see what the same costs without a budget:
//
//	go run ./bench/state -keys 100000000 -budget 1073741824
//	go run ./bench/state -keys 100000000 -memory
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var (
	keys     = flag.Uint64("keys", 100_000_000, "distinct keys")
	rows     = flag.Uint64("rows", 0, "rows; 0 is as many as keys")
	budget   = flag.Int64("budget", 1<<30, "bytes for all state")
	share    = flag.Int64("store", 0, "bytes of the budget for the store's own memory; 0 is an eighth")
	dist     = flag.String("keys-come", "once", "once: each new; random: any of them each time; recent: nine of ten rows have a key of the last million")
	memory   = flag.Bool("memory", false, "no budget, no store: all in memory")
	compress = flag.Bool("compress", true, "compress the store")
	dir      = flag.String("dir", "", "folder of the store; default a temporary one")
	profile  = flag.String("cpuprofile", "", "write a CPU profile")
	check    = flag.Bool("check", true, "go over all keys at the end and add up")
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
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// job is a table and the part of a job that freezes it and applies what was frozen.
type job struct {
	t      *state.Table
	enc    *state.Encoder
	k      *state.Keeper
	b      *state.Budget
	sp     *state.Spill
	st     *store.Store
	jobs   chan frozen
	free   chan *state.Delta
	err    chan error
	waited time.Duration
}

type frozen struct {
	d *state.Delta
	n uint64
}

// AppendValue implements state.Codec.
func (j *job) AppendValue(dst []byte, rec uint32) []byte {
	w := j.t.At(rec)[j.t.Base():]
	for _, x := range w {
		dst = append(dst, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56))
	}
	return dst
}

// LoadValue implements state.Codec.
func (j *job) LoadValue(rec uint32, v []byte) error {
	w := j.t.At(rec)[j.t.Base():]
	for i := range w {
		b := v[8*i:]
		w[i] = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 |
			uint64(b[6])<<48 | uint64(b[7])<<56
	}
	return nil
}

// DropValue implements state.Dropper.
func (j *job) DropValue(uint32) {}

func start() (*job, error) {
	j := &job{jobs: make(chan frozen, 1), free: make(chan *state.Delta, 2), err: make(chan error, 1)}
	mem := state.NewMemory()
	if !*memory {
		j.b = state.NewBudget(*budget)
		mem = j.b.NewMemory()
	}
	l := state.NewLayout([]types.Type{types.BigIntType.NotNull()}, false)
	j.t, j.enc = state.NewTable(mem, l, []uint64{0, 0}), state.NewEncoder(l)
	if *memory {
		return j, nil
	}
	path := *dir
	if path == "" {
		p, err := os.MkdirTemp("", "state-bench")
		if err != nil {
			return nil, err
		}
		path = p
	}
	if *share == 0 {
		*share = *budget / 8
	}
	j.b.Add(*share)
	c := store.Fast
	if !*compress {
		c = store.None
	}
	var err error
	if j.st, err = store.Open(path, store.Options{MemoryBytes: *share, Compression: c}); err != nil {
		return nil, err
	}
	j.k = &state.Keeper{MaxParallelism: 128, Codec: j, Check: func(int) {}}
	j.sp = state.NewSpill(j.b, j.st, state.SpillOptions{Operator: 1, Hi: 128})
	j.k.Spill(j.t, j.sp)
	j.free <- &state.Delta{}
	j.free <- &state.Delta{}
	go func() {
		for f := range j.jobs {
			err := j.st.Apply(1, f.d.Bytes())
			if err != nil {
				j.err <- err
				return
			}
			j.b.Add(-int64(f.d.Size()))
			f.d.Reset()
			j.sp.Applied(f.n)
			j.free <- f.d
		}
		j.err <- nil
	}()
	return j, nil
}

// freeze hands the changes on; it waits where the store cannot keep up.
func (j *job) freeze() error {
	start := time.Now()
	select {
	case d := <-j.free:
		j.waited += time.Since(start)
		j.k.Freeze(j.t, d)
		j.b.Add(int64(d.Size()))
		j.jobs <- frozen{d, j.sp.Frozen()}
		return nil
	case err := <-j.err:
		return err
	}
}

func run() error {
	j, err := start()
	if err != nil {
		return err
	}
	if !*memory {
		debug.SetMemoryLimit(*budget)
	}
	v := vec.New(types.BigIntType.NotNull(), vec.BatchRows)
	pos, recs := make([]int32, vec.BatchRows), make([]uint32, vec.BatchRows)
	for i := range pos {
		pos[i] = int32(i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	begin, last := time.Now(), time.Now()
	var sum uint64
	base := j.t.Base()
	for n := uint64(0); n < *rows; n += vec.BatchRows {
		fill(v.I64, n, r)
		j.enc.Encode([]*vec.Vec{v}, pos, nil)
		j.t.Upsert(j.enc, nil, recs)
		for k, rec := range recs {
			w := j.t.Chunks[rec>>state.ChunkBits][int(rec&state.ChunkMask):]
			w[base]++
			w[base+1] += uint64(k)
			sum += uint64(k)
		}
		if !*memory {
			j.sp.Between()
			if j.sp.NeedsFreeze() {
				if err := j.freeze(); err != nil {
					return err
				}
			}
		}
		if since := time.Since(last); since > 10*time.Second {
			last = time.Now()
			j.report(n, begin)
		}
	}
	j.report(*rows, begin)
	if *check {
		return j.verify(sum)
	}
	return nil
}

func fill(v []int64, n uint64, r *rand.Rand) {
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
		v[i] = int64(k * 0x9E3779B97F4A7C15) // spread, as ids are
	}
}

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
