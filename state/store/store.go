package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-stream/tidemark/state"
)

// Compression says how tables are compressed.
type Compression uint8

// The compressions.
const (
	// Fast compresses what costs little time.
	Fast Compression = iota
	// None does not compress: fastest to read, two to four times the bytes.
	None
	// Good compresses the lowest level, which is nine tenths of the bytes, harder.
	Good
)

// Options are what a store can be told.
type Options struct {
	// MemoryBytes is for blocks that were read and for changes that are not in tables yet; 0 is
	// 64 MiB.
	MemoryBytes int64
	Compression Compression
	// ID overrides the id that is drawn for the names of new files; it must never have been used
	// before.
	ID string

	fs     vfs.FS // nil: the system's
	sorted int    // 0: a default
}

// Store is an open store. Lookup, Range, Get, Scan and Metrics may be called by any goroutine;
// Apply, DropOperator and Cut exclude each other.
type Store struct {
	db  *pebble.DB
	dir string
	id  string
	// write is held by whoever changes the content, and while a cut freezes it.
	write sync.Mutex
	// cutting is held during a whole cut and guards what follows.
	cutting sync.Mutex
	known   map[string]File // tables whose names and sums are known, by name
	cuts    int
	piece   int // bytes from which changes are handed to the tree
	sorted  int // bytes from which they are made tables of at once
	opt     *pebble.Options
	files   *files
	order   []ref // memory of ingest; guarded by write
	tables  int   // how many tables ingest has made
	// waiting is how many bytes may wait to be written; ended is told when some were.
	waiting uint64
	ended   chan struct{}

	health
	memory  int64
	counted sync.Once
	lookups atomic.Int64
	hits    atomic.Int64
	applied atomic.Int64
}

var _ state.Cold = (*Store)(nil)

// CountIn counts the store's memory in a budget, the first one that it is told.
func (s *Store) CountIn(b *state.Budget) { s.counted.Do(func() { b.Add(s.memory) }) }

const (
	defaultMemory = 64 << 20
	minMemtable   = 1 << 20
	maxMemtable   = 64 << 20
	// memtables is how many of them may wait to be written before Apply waits too, maxSublevels how
	// many layers of tables may wait to be merged.
	memtables    = 4
	maxSublevels = 32
	// ingestMin and ingestMax bound from how many bytes of changes on tables are made of them at once,
	// past the tree's buffers.
	ingestMin, ingestMax = 512 << 10, 4 << 20
	// never is a limit of the tree's that is not reached.
	never = 1 << 20
)

// Open makes an empty store in the folder dir, which is made if it is missing and must be empty.
func Open(dir string, o Options) (*Store, error) {
	if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
		return nil, fmt.Errorf("state store %s: the folder is not empty, it has %s: remove it, nothing in it is needed "+
			"any more", dir, list[0].Name())
	}
	return open(dir, nil, o)
}

func open(dir string, files []File, o Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("state store: %w", err)
	}
	s := &Store{dir: dir, id: o.ID, known: map[string]File{}, ended: make(chan struct{}, 1)}
	s.failed, s.gone = make(chan struct{}), make(chan struct{})
	if s.id == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // does not fail
		s.id = hex.EncodeToString(b[:])
	}
	for _, f := range files {
		if f.Name != headName {
			s.known[f.Name] = f
		}
	}
	s.opt = s.options(o)
	if err := s.try(func() (err error) { s.db, err = pebble.Open(dir, s.opt); return err }); err != nil {
		s.files.end()
		return nil, s.wrap(err)
	}
	return s, nil
}

func (s *Store) options(o Options) *pebble.Options {
	mem := o.MemoryBytes
	if mem <= 0 {
		mem = defaultMemory
	}
	s.memory = mem
	table := min(max(mem/8, minMemtable), maxMemtable)
	// Large batches are sorted and written to tables as they are, past the sorted buffers, which
	// costs a third less and makes fewer, larger tables.
	s.piece = int(2 * table)
	s.sorted = int(min(max(mem/64, ingestMin), ingestMax))
	if o.sorted > 0 {
		s.sorted = o.sorted
	}
	s.waiting = uint64(memtables * table)
	tell := func() {
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	s.files = newFiles(o.fs)
	opt := &pebble.Options{
		FS:                          s.files,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		DisableWAL:                  true,
		CacheSize:                   max(mem-2*table, mem/4),
		MemTableSize:                uint64(table),
		MemTableStopWritesThreshold: never,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       never,
		LBaseMaxBytes:               max(64<<20, 4*table),
		MaxOpenFiles:                1 << 12,
		Logger:                      quiet{s},
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		EventListener: &pebble.EventListener{
			BackgroundError: s.fail,
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.kill(i.Details) },
			FlushEnd:        func(i pebble.FlushInfo) { s.worked(i.Err); tell() },
			CompactionEnd:   func(i pebble.CompactionInfo) { s.worked(i.Err); tell() },
		},
	}
	compress := sstable.SnappyCompression
	low := compress
	switch o.Compression {
	case None:
		compress, low = sstable.NoCompression, sstable.NoCompression
	case Good:
		low = sstable.ZstdCompression
	}
	for i := range opt.Levels {
		l := &opt.Levels[i]
		l.BlockSize = 4 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.Compression = profile(compress)
		if i == len(opt.Levels)-1 {
			l.Compression = profile(low)
			// Most keys that are looked for are there, and then in the lowest level, where filters
			// would take a tenth of the memory that its blocks do, and be read for nothing.
			l.FilterPolicy = pebble.NoFilterPolicy
		}
		// Few and large files make few requests of a checkpoint; too large ones are written anew,
		// and sent again, for little.
		opt.TargetFileSizes[i] = int64(min(8<<20<<i, 64<<20))
	}
	return opt
}

func profile(p *block.CompressionProfile) func() *sstable.CompressionProfile {
	return func() *sstable.CompressionProfile { return p }
}

// DamageError says that a file of a store does not hold what was written to it.
type DamageError struct {
	Dir string
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("state store %s is damaged: %v: go on from an older checkpoint", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

func (s *Store) wrap(err error) error {
	var d *DamageError
	switch {
	case err == nil || errors.As(err, &d):
		return err
	case pebble.IsCorruptionError(err):
		// The rest of the text is a trace for the tree's own people.
		text, _, _ := strings.Cut(err.Error(), "\n")
		return &DamageError{Dir: s.dir, Err: errors.New(text)}
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("state store %s: %w: make room on that disk", s.dir, err)
	}
	return fmt.Errorf("state store %s: %w", s.dir, err)
}

// DropOperator removes all entries of an operator.
func (s *Store) DropOperator(op uint16) error {
	s.write.Lock()
	defer s.write.Unlock()
	lo := binary.BigEndian.AppendUint16(nil, op)
	hi := state.Successor(lo)
	if hi == nil {
		hi = bytes.Repeat([]byte{0xFF}, 1<<10) // above all keys of operator 65535
	}
	return s.wrap(s.db.DeleteRange(lo, hi, pebble.NoSync))
}

// Get appends the value of one entry to dst and reports whether there is one.
func (s *Store) Get(dst []byte, op uint16, st, group int, key []byte) ([]byte, bool, error) {
	if s.abandoned() {
		return dst, false, s.broken()
	}
	k := append(state.AppendStoreKey(nil, op, st, group), key...)
	v, closer, err := s.db.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, s.wrap(err)
	}
	dst = append(dst, v...)
	return dst, true, s.wrap(closer.Close())
}

// Lookup implements state.Cold. Many keys are looked for by several goroutines, as each may wait for
// the disk; found is called by that of the caller only.
func (s *Store) Lookup(keys [][]byte, found func(i int, value []byte) error) error {
	if err := s.broken(); err != nil {
		return err
	}
	n := min(runtime.GOMAXPROCS(0), len(keys)/lookupKeys)
	if n <= 1 {
		return s.lookup(keys, 0, found)
	}
	type part struct {
		ends, at []int // end of each value in values, and its key
		values   []byte
		err      error
	}
	parts := make([]part, n)
	var wg sync.WaitGroup
	for w := range parts {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p := &parts[w]
			lo, hi := w*len(keys)/n, (w+1)*len(keys)/n
			p.err = s.lookup(keys[lo:hi], lo, func(i int, value []byte) error {
				p.values = append(p.values, value...)
				p.ends, p.at = append(p.ends, len(p.values)), append(p.at, i)
				return nil
			})
		}()
	}
	wg.Wait()
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
		from := 0
		for k, i := range p.at {
			if err := found(i, p.values[from:p.ends[k]]); err != nil {
				return err
			}
			from = p.ends[k]
		}
	}
	return nil
}

// lookupKeys is from how many keys on a goroutine of their own is worth it.
const lookupKeys = 128

// lookup looks for keys, the first of which is number base.
func (s *Store) lookup(keys [][]byte, base int, found func(i int, value []byte) error) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return s.wrap(err)
	}
	hits := 0
	for i, k := range keys {
		if !it.SeekPrefixGE(k) {
			if it.Error() != nil {
				break
			}
			continue
		}
		var v []byte
		if v, err = it.ValueAndErr(); err == nil {
			hits++
			err = found(base+i, v)
		}
		if err != nil {
			break
		}
	}
	s.lookups.Add(int64(len(keys)))
	s.hits.Add(int64(hits))
	if e := it.Close(); e != nil {
		return s.wrap(e)
	}
	return err
}

// Range implements state.Cold.
func (s *Store) Range(lo, hi []byte, f func(key, value []byte) error) error {
	if s.abandoned() {
		return s.broken() // an iterator may want a lock that is held for ever
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return s.wrap(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, e := it.ValueAndErr()
		if e != nil {
			break // Close tells
		}
		if err = f(it.Key(), v); err != nil {
			break
		}
	}
	if e := it.Close(); e != nil {
		return s.wrap(e)
	}
	return err
}

// Scan calls f with the entries of a state in the key groups from lo up to but not including hi,
// by group and then by the bytes of the key. key and value are valid during the call.
func (s *Store) Scan(op uint16, st, lo, hi int, f func(group int, key, value []byte) error) error {
	from, to := state.AppendStoreKey(nil, op, st, lo), state.AppendStoreKey(nil, op, st, hi)
	return s.Range(from, to, func(k, v []byte) error {
		return f(int(binary.BigEndian.Uint16(k[3:])), k[state.StoreHead:], v)
	})
}

// Metrics are figures of a store.
type Metrics struct {
	// DiskBytes is the size of the files in use, MemoryBytes that of blocks and changes in memory.
	DiskBytes, MemoryBytes int64
	// Applied counts changes, Flushes and Compactions what made tables of them.
	Applied, Flushes, Compactions int64
	// WrittenBytes is what was written to tables in all; DebtBytes what is to be compacted.
	WrittenBytes, DebtBytes int64
	// Lookups counts keys that were looked for, Hits those that were there.
	Lookups, Hits int64
	Tables        int64
}

// Metrics returns the figures of now.
func (s *Store) Metrics() Metrics {
	if s.abandoned() {
		return Metrics{}
	}
	m := s.db.Metrics()
	t := m.Total()
	return Metrics{
		DiskBytes: int64(m.DiskSpaceUsage()), MemoryBytes: m.BlockCache.Size + int64(m.MemTable.Size),
		Applied: s.applied.Load(), Flushes: m.Flush.Count, Compactions: m.Compact.Count,
		WrittenBytes: int64(t.TableBytesFlushed + t.TableBytesCompacted + t.TableBytesIngested), DebtBytes: int64(m.Compact.EstimatedDebt),
		Lookups: s.lookups.Load(), Hits: s.hits.Load(), Tables: t.TablesCount,
	}
}

// Close ends the store. Its folder may be removed then; cuts that were not released are in it.
func (s *Store) Close() error {
	if s.abandoned() {
		s.files.end()
		return nil // its locks are held for ever, and its memory ends with the process
	}
	err := s.wrap(s.try(s.db.Close))
	s.files.end()
	if s.broken() != nil {
		return nil // everybody was told already, and what is open on a full disk is of no use
	}
	return err
}

// cutDir is where the files of a cut lie until they are released.
func (s *Store) cutDir(n int) string { return filepath.Join(s.dir, "cuts", fmt.Sprint(n)) }
