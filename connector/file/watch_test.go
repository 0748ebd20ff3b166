package file

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
)

// shelf is a store of names, without content, that lists a thousand at a time.
type shelf struct {
	object.Store // nothing else is asked for
	infos        []object.Info
	requests     atomic.Int64
}

func (s *shelf) String() string  { return "shelf://x" }
func (s *shelf) Requests() int64 { return s.requests.Load() }

func (s *shelf) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.infos, name, func(i object.Info, n string) int { return strings.Compare(i.Name, n) })
}

// put makes an object, or replaces it.
func (s *shelf) put(name, version string, ms int64) {
	i, there := s.find(name)
	if !there {
		s.infos = slices.Insert(s.infos, i, object.Info{Name: name})
	}
	s.infos[i].Version, s.infos[i].ModifiedMs, s.infos[i].Size = version, ms, 1
}

func (s *shelf) remove(name string) {
	if i, there := s.find(name); there {
		s.infos = slices.Delete(s.infos, i, i+1)
	}
}

// Page implements object.Pager.
func (s *shelf) Page(_ context.Context, prefix, after string) (out []object.Info, next string, err error) {
	s.requests.Add(1)
	i, there := s.find(max(after, prefix))
	if there && s.infos[i].Name == after {
		i++
	}
	for ; i < len(s.infos) && strings.HasPrefix(s.infos[i].Name, prefix); i++ {
		if len(out) == 1000 {
			return out, out[999].Name, nil
		}
		out = append(out, s.infos[i])
	}
	return out, "", nil
}

// Stat implements object.Store.
func (s *shelf) Stat(context.Context, string) (object.Info, error) {
	s.requests.Add(1)
	return object.Info{}, object.ErrNotFound
}

// the shelf that tests use.
var theShelf atomic.Pointer[shelf]

func init() {
	object.Register("shelf", func(*url.URL, map[string]string) (object.Store, error) { return theShelf.Load(), nil })
}

// shelfWith fills a shelf: n objects in a hundred folders of hours.
func shelfWith(n int) *shelf {
	s := &shelf{}
	for i := range n {
		s.infos = append(s.infos, object.Info{Name: shelfName(i*100/n, i), Version: fmt.Sprintf(`"%032x"`, i*7919), ModifiedMs: int64(i) * 500, Size: 1})
	}
	theShelf.Store(s)
	return s
}

func shelfName(hour, i int) string {
	return fmt.Sprintf("in/dt=2024-01-%02d/hour=%02d/part-%08d.jsonl", 1+hour/24, hour%24, i)
}

func shelfLake() *lake { return &lake{store: theShelf.Load()} }

// TestWatch_HundredThousandObjects watches a folder of 100,000 objects: what a look costs, how soon
// what is found, and what a checkpoint holds.
func TestWatch_HundredThousandObjects(t *testing.T) {
	const n = 100_000
	s := shelfWith(n)
	table := shelfLake().table("in", "source.monitor-interval", "1 h")
	e := enumeratorOf(t, table)
	var ids []string
	most := 0
	for first := true; ; first = false {
		if !first {
			e.watch.wereRead(keysOf(ids[len(ids)-min(len(ids), maxUnread):]))
		}
		at := s.Requests()
		splits, _, err := e.Discover(t.Context())
		must(t, err)
		for _, sp := range splits {
			ids = append(ids, sp.ID)
		}
		most = max(most, len(splits))
		if r := s.Requests() - at; first && r > n/1000+2 || !first && r > 0 {
			t.Fatalf("a look took %d requests", r)
		}
		if len(splits) == 0 {
			break
		}
	}
	if len(ids) != n || most > maxUnread {
		t.Fatalf("%d objects were handed out, %d at a time", len(ids), most)
	}
	for i := 1; i < n; i++ {
		if ids[i-1] >= ids[i] {
			t.Fatalf("%s comes before %s, which is older", ids[i-1], ids[i])
		}
	}
	memory, err := e.Remember(ids)
	must(t, err)
	names, err := json.Marshal(ids)
	must(t, err)
	t.Logf("a checkpoint remembers %d objects in %d bytes; their names would take %d", n, len(memory), len(names))
	if len(memory) > 7*n {
		t.Errorf("%d bytes for %d objects", len(memory), n)
	}
	// A later start knows all of them by that.
	e = enumeratorOf(t, table)
	must(t, e.Recall(memory))
	if got := discover(t, e); len(got) > 0 {
		t.Fatalf("%d objects are found again", len(got))
	}
	look := func(what string, looks int, want ...string) {
		t.Helper()
		var got []string
		for k := range looks {
			at := s.Requests()
			got = append(got, discover(t, e)...)
			if r := s.Requests() - at; r > sweepPages+hotFolders+2 {
				t.Errorf("%s: look %d took %d requests", what, k+1, r)
			}
			if len(got) == len(want) && len(want) > 0 {
				break
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q in %d looks, want %q", what, got, looks, want)
		}
	}
	const sweep = n/1000/sweepPages + 1
	now := int64(n * 500)
	s.put("in/dt=2024-01-09/hour=00/next", "v", now)
	look("at the end", 1, "next")
	s.put("in/dt=2024-01-02/hour=05/zz", "v", now) // as old as the one before
	look("late, in an old folder", sweep, "zz")
	s.put("in/dt=2024-01-02/hour=05/zzz", "v", now)
	look("in that folder again", 1, "zzz")
	s.put("in/dt=2024-01-01/hour=00/aa", "v", 0) // older than all others, as of an upload that took long
	look("with an old time", sweep, "aa")
	s.put(shelfName(50, 50_000), "another", now)
	look("replaced", sweep, "part-00050000.jsonl")
	s.remove(shelfName(60, 60_000))
	look("deleted", sweep)
	e.watch.wereRead(keysOf(ids))
	memory, err = e.Remember(nil)
	must(t, err)
	if keys, err := decodeSeen(memory); err != nil || len(keys) >= n {
		t.Errorf("what was deleted or replaced is remembered: %d, %v", len(keys), err)
	}
}

// TestWatch_Unread hands out more when objects were read to their end, however it hears of that.
func TestWatch_Unread(t *testing.T) {
	const n = 3*maxUnread + 10
	shelfWith(n)
	table := shelfLake().table("in", "source.monitor-interval", "1 h")
	e := enumeratorOf(t, table)
	var ids []string
	hand := func(what string, want int) (out []string) {
		t.Helper()
		splits, _, err := e.Discover(t.Context())
		must(t, err)
		for _, sp := range splits {
			out = append(out, sp.ID)
		}
		if ids = append(ids, out...); len(out) != want {
			t.Errorf("%s: %d objects are handed out, want %d", what, len(out), want)
		}
		return out
	}
	first := hand("at first", maxUnread)
	hand("none was read", 0)
	e.o.read = keysOf(first)
	_, err := e.Remember(first) // by a checkpoint before the next look
	must(t, err)
	second := hand("remembered", maxUnread)
	e.o.read = keysOf(second[:7])
	hand("read", 7)
	memory, err := e.Remember(second[:7])
	must(t, err)
	hand("read and remembered", 0)
	// A start knows which of them were not read.
	e = enumeratorOf(t, table)
	must(t, e.Recall(memory))
	open := ids[maxUnread+7:]
	e.Known(open)
	hand("after a start", 0)
	e.o.read = keysOf(open[:5])
	hand("read after a start", 5)
}

func keysOf(ids []string) (keys []uint64) {
	for _, id := range ids {
		keys = append(keys, seenKey(id))
	}
	return keys
}

// TestWatch_FindsWhateverComes makes, replaces and deletes objects at random for many looks: each version
// that stays is found once.
func TestWatch_FindsWhateverComes(t *testing.T) {
	for seed := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := shelfWith(15_000)
		e := enumeratorOf(t, shelfLake().table("in", "source.monitor-interval", "1 h"))
		found := map[string]int{}
		look := func() {
			e.last = e.last.AddDate(-1, 0, 0)
			splits, _, err := e.Discover(t.Context())
			must(t, err)
			for _, sp := range splits {
				found[sp.ID]++
				e.o.read = append(e.o.read, seenKey(sp.ID))
			}
		}
		version := 0
		for range 60 {
			look()
			for range rnd.IntN(30) {
				version++
				switch i := rnd.IntN(len(s.infos)); rnd.IntN(5) {
				case 0:
					s.remove(s.infos[i].Name)
				case 1:
					s.put(s.infos[i].Name, fmt.Sprint("v", version), rnd.Int64N(1e7))
				case 2:
					s.put(shelfName(100+version/50, version), fmt.Sprint("v", version), rnd.Int64N(1e7))
				default:
					s.put(s.infos[i].Name+"x", fmt.Sprint("v", version), rnd.Int64N(1e7))
				}
			}
		}
		for range 10 { // a sweep, and a backlog
			look()
		}
		for _, i := range s.infos {
			if n := found[e.o.id(i)]; n != 1 {
				t.Fatalf("seed %d: %s was found %d times", seed, e.o.id(i), n)
			}
		}
		for id, n := range found {
			if n != 1 {
				t.Fatalf("seed %d: %s was found %d times", seed, id, n)
			}
		}
	}
}

func TestObjects_Wants(t *testing.T) {
	shelfWith(0)
	for _, c := range []struct {
		path, name string
		want       bool
	}{
		{"in", "in/a", true}, {"in", "in/x/y/a", true}, {"in", "in/.a", false}, {"in", "in/x/_y/a", false}, {"_in", "_in/a", true},
		{"", "a/b", true}, {"", "_a/b", false}, {"in/*.gz", "in/a.gz", true}, {"in/*.gz", "in/x/a.gz", false}, {"in/*", "in/x/a.gz", true},
		{"in/*", "in/x/.a", false}, {"in/*", "in/_x", true}, {"i[nm]/?", "im/a", true}, {"i[nm]/?", "im/ab", false}, {"in/*/c", "in/b/c", true},
		{"in/*/c", "in/c", false}, {"in", "in//a", false},
	} {
		o := sourceOf(t, shelfLake().table(c.path)).objects
		if !strings.HasPrefix(c.name, o.prefix) {
			if c.want {
				t.Errorf("%s: what is listed begins with %q, not %s", c.path, o.prefix, c.name)
			}
			continue
		}
		if got := o.wants(c.name); got != c.want {
			t.Errorf("%s wants %s: %t", c.path, c.name, got)
		}
	}
}

// TestEnumerator_BacklogWaits bounds the files of a watched folder that are open, and begins with those
// that were written first.
func TestEnumerator_BacklogWaits(t *testing.T) {
	const n = maxUnread + 30
	dir := t.TempDir()
	for i := range n { // the names ascend and the times descend
		p := filepath.Join(dir, fmt.Sprintf("%04d.jsonl", i))
		at := time.Unix(int64(1_700_000_000-i), 0)
		must(t, os.WriteFile(p, []byte("{}\n"), 0o644), os.Chtimes(p, at, at))
	}
	table := &connector.Table{Name: "t", Connector: "filesystem", Options: map[string]string{"connector": "filesystem", "path": dir, "source.monitor-interval": "1 h"}}
	f := connector.Lookup("filesystem")
	src, err := f.NewSource(connector.SourceConfig{Table: table, Options: option.Of(table.Options, f.Options, connector.CommonOptions), Limit: -1,
		Resolve: func(p string) string { return p }})
	must(t, err)
	e, err := src.NewEnumerator(t.Context())
	must(t, err)
	r, err := src.NewReader(t.Context(), 0)
	must(t, err)
	hand := func(want int) []connector.Split {
		t.Helper()
		splits, done, err := e.Discover(t.Context())
		must(t, err)
		if len(splits) != want || done {
			t.Fatalf("%d files are handed out, want %d; done %t", len(splits), want, done)
		}
		return splits
	}
	first := hand(maxUnread)
	if got := filepath.Base(first[0].ID); got != fmt.Sprintf("%04d.jsonl", n-1) {
		t.Errorf("the first is %s", got)
	}
	hand(0)
	for _, sp := range first[:20] {
		s, err := r.Open(t.Context(), sp)
		must(t, err)
		var rec connector.Records
		for err == nil {
			err = s.(connector.ChunkReader).Read(t.Context(), &rec)
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		must(t, s.Close())
	}
	hand(20)
	hand(0)
	again, err := src.NewEnumerator(t.Context())
	must(t, err)
	memory, err := e.(connector.Rememberer).Remember([]string{first[0].ID})
	must(t, err)
	must(t, again.(connector.Rememberer).Recall(memory))
	var open []string
	for _, sp := range first[1:] {
		open = append(open, sp.ID)
	}
	again.Known(open)
	e = again
	hand(1) // of 30 that were not known, room is for one
}
