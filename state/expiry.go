package state

import (
	"math"
	"slices"
)

// Expiry removes the records of a table, or the rows of a bag, that have not been used for a time to
// live, those in the store too, at most a quarter of it after they are due. Until then a record is there:
// its owner has to look at its time when he uses it.
//
// What there is is found by its time, so that what does not expire is not read:
//
//   - Records in memory by zones: of each 8 KiB of them the least time that one may have is known. Nobody
//     keeps it up to date, as times only grow: it is looked at anew when it is due.
//   - Entries of the store by an index below it: see IndexState.
//
// Sixteen times in a time to live a pass goes over what is due, a few records at each step.
type Expiry struct {
	t     *Table
	bag   *Bag // nil: t is a table of its own
	at    int  // word of a record: when it was used last, ms
	ttlMs int64
	// drop frees what a record of a table keeps outside of itself, before it is deleted; it removes a row
	// of a bag.
	drop func(rec uint32)

	zones []int64 // by the address of a record
	floor int64   // records that are new are given this time or a later one, as they would have expired

	// The pass at hand: records used last at before, or earlier, expire.
	running bool
	before  int64
	began   int64
	stepped int64 // the last step
	next    int64 // when the next one begins
	zone    int   // where it is in memory
	left    int   // records that it has to look at about
	read    int   // entries of the index that it has read
	was     int   // the same of the pass before
	ids     []uint32

	index index
}

// Dated is a Codec of values that say when they were used last, ms.
type Dated interface {
	Codec
	LastUse(value []byte) (ms int64, ok bool)
}

const (
	// bucketsPerLife is how many buckets of the index there are to a time to live. What is in one is
	// found when all of it is due.
	bucketsPerLife = 8
	// passesPerLife is how many passes there are. One is to be over when the next may begin, so an entry
	// of the store is found after 1/8 for its bucket, 1/16 until a pass begins and 1/16 for the pass.
	passesPerLife = 16
	// minStepRecords and maxStepRecords bound how many records a step looks at, maxStepEntries how many
	// of those in the store, each of which may be a read.
	minStepRecords, maxStepRecords, maxStepEntries = 64, 1 << 13, 1 << 11
	// zoneBits is log2 of the words of a zone.
	zoneBits = 10
	nothing  = math.MaxInt64 // the time of a zone without records
)

// NewExpiry returns what removes the records of t, which is empty, whose word at (counted from word 0 of
// a record) is the time of last use, ms; drop is called with each before it is deleted. With a time to
// live of 0 it does nothing. Where t spills its Codec is Dated.
func NewExpiry(t *Table, at int, ttlMs int64, drop func(rec uint32)) *Expiry {
	e := &Expiry{t: t, at: at, ttlMs: ttlMs, drop: drop, next: math.MinInt64, floor: math.MinInt64}
	if ttlMs <= 0 {
		return e
	}
	if t.count > 0 || len(t.Chunks) > 0 {
		panic("BUG: a table is told that its records expire when it has some")
	}
	t.expiry = e
	e.index.init(e, ttlMs)
	return e
}

// Expire returns what removes the rows of the bag, as NewExpiry does; forget removes one from the bag, and
// its key with the last one.
func (b *Bag) Expire(at int, ttlMs int64, forget func(rec uint32)) *Expiry {
	e := NewExpiry(b.Rows, at, ttlMs, forget)
	e.bag = b
	return e
}

// Step looks at some records: at more than came, the number of records that are new since the last
// step, so that these do not pile up. It is called between two batches; records that nobody touched
// since the last call of Between may move out of memory.
func (e *Expiry) Step(nowMs int64, came int) {
	if e.ttlMs <= 0 || nowMs < math.MinInt64/2 {
		return
	}
	if nowMs-e.ttlMs < e.floor {
		e.setBack(nowMs)
	}
	e.floor = nowMs - e.ttlMs
	look := max(minStepRecords, 2*came)
	if !e.running {
		if !e.index.complete {
			e.index.build(min(maxStepRecords, look+e.share(nowMs, 2*(e.t.Len()+e.cold()))))
		}
		if nowMs < e.next && e.next-nowMs <= e.ttlMs { // unless the clock was set back
			e.stepped = nowMs
			return
		}
		e.begin(nowMs)
	}
	look += e.share(nowMs, 2*e.left)
	if nowMs-e.began > e.ttlMs/passesPerLife {
		look = maxStepRecords
	}
	e.stepped = nowMs
	if e.pass(min(look, maxStepRecords)) {
		e.running = false
	}
}

// setBack is told that the clock was: what is used from now on may lie before what passes have been over,
// and before what the one at hand takes for expired.
func (e *Expiry) setBack(nowMs int64) {
	e.abort()
	e.next = nowMs
	x := &e.index
	if nowMs < e.floor {
		// Records that are new were given a later time, and others may be used in buckets that were
		// removed, and that they were in.
		for z := range e.zones {
			e.zones[z] = min(e.zones[z], nowMs-e.ttlMs)
		}
		x.unindexed()
	}
	x.from, x.to = 0, 0
}

// abort gives up the pass at hand.
func (e *Expiry) abort() {
	e.running = false
	e.index.count, e.index.first, e.index.firstEnd = 0, e.index.first[:0], e.index.firstEnd[:0]
}

// share is what a step has to look at of so many records, if they are to take a time between two passes.
func (e *Expiry) share(nowMs int64, records int) int {
	f := float64(nowMs-e.stepped) / (float64(e.ttlMs)/passesPerLife + 1)
	return int(min(max(f, 0), 1) * float64(records))
}

func (e *Expiry) begin(nowMs int64) {
	e.running, e.began, e.stepped = true, nowMs, nowMs
	e.before = nowMs - e.ttlMs
	e.next = nowMs + max(e.ttlMs/passesPerLife, 1)
	e.zone, e.was, e.read = 0, e.read, 0
	due := 0
	for _, oldest := range e.zones {
		if oldest <= e.before {
			due++
		}
	}
	e.left = due<<zoneBits/int(e.t.stride) + max(e.was, e.cold()/bucketsPerLife)
	e.index.begin()
}

// cold is about how many records are in the store only.
func (e *Expiry) cold() int {
	if e.bag != nil {
		return e.bag.Cold()
	}
	return e.t.Cold()
}

// pass looks at up to about n records and reports whether these were the last of the pass.
func (e *Expiry) pass(n int) bool {
	for ; e.zone < len(e.zones) && n > 0; e.zone++ {
		if e.zones[e.zone] <= e.before {
			n -= e.scan(e.zone)
		}
	}
	if n <= 0 {
		return false
	}
	looked, end := e.index.expire(min(n, maxStepEntries))
	e.read += looked
	return end
}

// lower says that a record has the given time, or a later one.
func (e *Expiry) lower(rec uint32, ms int64) {
	z := int(rec >> zoneBits)
	for z >= len(e.zones) {
		e.zones = append(e.zones, nothing)
	}
	if ms < e.zones[z] {
		e.zones[z] = ms
	}
}

// came says that a record was filled from an entry of the store, which the index has, or is about to have.
func (e *Expiry) came(rec uint32) {
	used := int64(e.t.word(rec, e.at))
	e.lower(rec, used)
	if e.index.mark > 0 {
		e.t.At(rec)[e.index.mark] = e.index.bucket(used)
	}
}

// scan removes the records of a zone that have expired, and returns how many there were.
func (e *Expiry) scan(z int) (n int) {
	t := e.t
	chunk, stride := z>>(ChunkBits-zoneBits), int(t.stride)
	oldest := int64(nothing)
	ids := e.ids[:0]
	if chunk < len(t.Chunks) {
		base := uint32(chunk) << ChunkBits
		words := t.Chunks[chunk]
		if chunk == len(t.Chunks)-1 {
			words = words[:t.next-base]
		}
		from := z << zoneBits & ChunkMask
		pos := (from + stride - 1) / stride * stride
		if chunk == 0 {
			pos = max(pos, stride) // no record has address 0
		}
		for ; pos < from+1<<zoneBits && pos+stride <= len(words); pos += stride {
			if words[pos]&live == 0 {
				continue
			}
			n++
			if used := int64(words[pos+e.at]); used > e.before {
				oldest = min(oldest, used)
			} else {
				ids = append(ids, base+uint32(pos))
			}
		}
	}
	e.zones[z], e.ids = oldest, ids
	for _, rec := range ids {
		e.remove(rec)
	}
	return n
}

func (e *Expiry) remove(rec uint32) {
	e.drop(rec)
	if e.bag == nil {
		e.t.Delete(rec)
	}
}

// look removes a record if it has expired.
func (e *Expiry) look(rec uint32) {
	if int64(e.t.word(rec, e.at)) <= e.before {
		e.remove(rec)
	}
}

// reset is told that the table was emptied.
func (e *Expiry) reset() {
	e.zones = slices.Delete(e.zones, 0, len(e.zones))
	e.abort()
}
