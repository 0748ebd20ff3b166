package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
)

// model is what a store should hold: values by complete key.
type model map[string]string

func (m model) apply(op uint16, b []byte) {
	_ = state.EachChange(b, func(c state.Change) error {
		k := string(append(state.AppendStoreKey(nil, op, c.State, c.Group), c.Key...))
		switch c.Kind {
		case state.ChangePut:
			m[k] = string(c.Value)
		case state.ChangeDelete:
			delete(m, k)
		case state.ChangeDeletePrefix:
			for o := range m {
				if strings.HasPrefix(o, k) {
					delete(m, o)
				}
			}
		}
		return nil
	})
}

func contents(t *testing.T, s *Store) model {
	t.Helper()
	m := model{}
	last := ""
	if err := s.Range(nil, nil, func(k, v []byte) error {
		if string(k) <= last && last != "" {
			return fmt.Errorf("key %x after %x", k, last)
		}
		last = string(k)
		m[last] = string(v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

func randomChanges(r *rand.Rand, d *state.Delta, n int) {
	for range n {
		key := []byte(fmt.Sprintf("%c%03d", 'a'+rune(r.Intn(3)), r.Intn(300)))
		st, group := r.Intn(2), []int{0, 1, 255, 256, 65535}[r.Intn(5)]
		switch x := r.Intn(60); {
		case x == 0:
			d.DeletePrefix(st, group, key[:1])
		case x < 10:
			d.Delete(st, group, key)
		default:
			d.Put(st, group, key, fmt.Appendf(nil, "%d", r.Intn(1000)))
		}
	}
}

func open0(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// place copies the files of a cut to a new folder, as a restore does.
func place(t *testing.T, c *Cut) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range c.Files {
		size, digits, err := sum(f.Path)
		if err != nil || size != f.Size || digits != f.Sum {
			t.Fatalf("file %s: %d bytes, sum %s, %v; the cut says %d, %s", f.Name, size, digits, err, f.Size, f.Sum)
		}
		b, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), b, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func reopen(t *testing.T, c *Cut) *Store {
	t.Helper()
	s, err := OpenFiles(place(t, c), c.Files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func cut(t *testing.T, s *Store) *Cut {
	t.Helper()
	c, err := s.Cut(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestStore_AgainstMap applies changes, cuts, and goes on from cuts, also from older ones.
func TestStore_AgainstMap(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	s, want := open0(t, t.TempDir(), Options{MemoryBytes: 8 << 20}), model{}
	objects := map[string]string{} // sum by object
	type point struct {
		c    *Cut
		want model
	}
	var points []point
	var d state.Delta
	for step := range 60 {
		op := uint16(r.Intn(3))
		randomChanges(r, &d, r.Intn(400))
		want.apply(op, d.Bytes())
		if err := s.Apply(op, d.Bytes()); err != nil {
			t.Fatal(err)
		}
		d.Reset()
		if r.Intn(20) == 0 {
			drop := uint16(r.Intn(3))
			maps.DeleteFunc(want, func(k, _ string) bool { return binary.BigEndian.Uint16([]byte(k)) == drop })
			if err := s.DropOperator(drop); err != nil {
				t.Fatal(err)
			}
		}
		if got := contents(t, s); !maps.Equal(got, want) {
			t.Fatalf("step %d: %d entries, want %d", step, len(got), len(want))
		}
		if r.Intn(3) == 0 {
			c := cut(t, s)
			for _, f := range c.Files {
				if old, ok := objects[f.Object]; ok && old != f.Sum {
					t.Fatalf("object %s had the sum %s and has %s now", f.Object, old, f.Sum)
				}
				objects[f.Object] = f.Sum
			}
			points = append(points, point{c, maps.Clone(want)})
		}
		if r.Intn(6) == 0 && len(points) > 0 {
			p := points[r.Intn(len(points))]
			s, want = reopen(t, p.c), maps.Clone(p.want)
			if got := contents(t, s); !maps.Equal(got, want) {
				t.Fatalf("step %d: the cut has %d entries, want %d", step, len(got), len(want))
			}
		}
	}
	for i, p := range points {
		if got := contents(t, reopen(t, p.c)); !maps.Equal(got, p.want) {
			t.Errorf("cut %d changed afterwards: %d entries, want %d", i, len(got), len(p.want))
		}
		if err := p.c.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestStore_Reads(t *testing.T) {
	s := open0(t, t.TempDir(), Options{})
	var d state.Delta
	for g := range 4 {
		for i := range 100 {
			d.Put(1, g, fmt.Appendf(nil, "k%02d", i), fmt.Appendf(nil, "v%d-%d", g, i))
		}
	}
	d.Put(0, 2, []byte("other state"), nil)
	d.Put(2, 2, []byte("other state"), nil)
	for _, op := range []uint16{6, 7, 8} {
		if err := s.Apply(op, d.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		got, ok, err := s.Get([]byte("to "), 7, 1, 3, []byte("k42"))
		if !ok || err != nil || string(got) != "to v3-42" {
			t.Errorf("Get = %q %v %v", got, ok, err)
		}
		if _, ok, err := s.Get(nil, 7, 1, 9, []byte("k42")); ok || err != nil {
			t.Errorf("Get of nothing = %v %v", ok, err)
		}
		n := 0
		if err := s.Scan(7, 1, 1, 3, func(g int, k, v []byte) error {
			if want := fmt.Sprintf("k%02d v%d-%d %d", n%100, 1+n/100, n%100, 1+n/100); fmt.Sprintf("%s %s %d", k, v, g) != want {
				t.Fatalf("entry %d is %s %s %d, want %s", n, k, v, g, want)
			}
			n++
			return nil
		}); err != nil || n != 200 {
			t.Errorf("Scan: %d entries, %v", n, err)
		}
		var keys [][]byte
		for i := range 300 {
			keys = append(keys, append(state.AppendStoreKey(nil, 7, 1, 2), fmt.Sprintf("k%03d", i)...))
			if i%2 == 0 && i < 200 {
				keys = append(keys, append(state.AppendStoreKey(nil, 7, 1, 3), fmt.Sprintf("k%02d", i/2)...))
			}
		}
		slices.SortFunc(keys, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
		n = 0
		if err := s.Lookup(keys, func(i int, v []byte) error {
			if want := fmt.Sprintf("v3-%d", n); string(v) != want || !strings.HasSuffix(string(keys[i]), fmt.Sprintf("k%02d", n)) {
				t.Fatalf("key %q has the value %q, want %s", keys[i], v, want)
			}
			n++
			return nil
		}); err != nil || n != 100 {
			t.Errorf("Lookup found %d, %v", n, err)
		}
	}
	check()
	cut(t, s)
	check()
	stop := errors.New("stop")
	if err := s.Scan(7, 1, 0, 4, func(int, []byte, []byte) error { return stop }); err != stop {
		t.Errorf("Scan returned %v", err)
	}
	if m := s.Metrics(); m.DiskBytes == 0 || m.Tables == 0 || m.Applied != 1206 || m.Hits != 200 || m.Flushes == 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestCut_WhileApplyGoesOn: each cut holds whole deltas, a prefix of what was applied, at least all
// that was applied before it began.
func TestCut_WhileApplyGoesOn(t *testing.T) {
	s := open0(t, t.TempDir(), Options{MemoryBytes: 8 << 20})
	const deltas, each = 60, 2000
	var mu sync.Mutex
	done, fail := 0, error(nil)
	applied := func() int { mu.Lock(); defer mu.Unlock(); return done }
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		var d state.Delta
		for n := range deltas {
			d.Reset()
			for i := range each {
				d.Put(0, i%128, binary.BigEndian.AppendUint32(nil, uint32(i)), fmt.Appendf(nil, "%0100d", n))
			}
			err := s.Apply(1, d.Bytes())
			mu.Lock()
			done, fail = n+1, err
			mu.Unlock()
		}
	}()
	for applied() < deltas {
		before := applied()
		c := cut(t, s)
		values := map[string]int{}
		for _, v := range contents(t, reopen(t, c)) {
			values[v]++
		}
		if len(values) > 1 || before > 0 && len(values) == 0 {
			t.Fatalf("a cut holds values of %d deltas", len(values))
		}
		for v, n := range values {
			var got int
			_, _ = fmt.Sscan(strings.TrimLeft(v, "0")+" 0", &got)
			if n != each || got < before-1 {
				t.Fatalf("a cut begun after %d deltas holds %d entries of delta %d", before, n, got)
			}
		}
		_ = c.Release()
	}
	wg.Wait()
	if fail != nil {
		t.Fatal(fail)
	}
}

// TestCut_Incremental: what did not change keeps its object and is not new.
func TestCut_Incremental(t *testing.T) {
	s := open0(t, t.TempDir(), Options{})
	var d state.Delta
	for i := range 20000 {
		d.Put(0, 0, binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 30))
	}
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	first := cut(t, s)
	d.Reset()
	d.Put(0, 0, []byte{0, 0, 0, 9}, []byte("changed"))
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	second := cut(t, s)
	if second.New != 2 || second.NewBytes > first.NewBytes/10 {
		t.Errorf("the second cut has %d new files of %d bytes; the first had %d bytes", second.New, second.NewBytes, first.NewBytes)
	}
	again := reopen(t, second)
	third := cut(t, again)
	old := map[string]string{}
	for _, f := range second.Files {
		old[f.Name] = f.Object
	}
	fresh := 0
	for _, f := range third.Files {
		if f.Name != headName && old[f.Name] != "" && old[f.Name] != f.Object {
			t.Errorf("after reopening, %s is called %s, not %s", f.Name, f.Object, old[f.Name])
		}
		if old[f.Name] != f.Object {
			fresh++
		}
	}
	if third.New != fresh {
		t.Errorf("after reopening, a cut has %d new objects and counts %d", fresh, third.New)
	}
	if third.Files[len(third.Files)-1].Object == second.Files[len(second.Files)-1].Object {
		t.Error("two heads have one name")
	}
}

func TestOpen_RefusesFolderInUse(t *testing.T) {
	dir := t.TempDir()
	_ = os.WriteFile(filepath.Join(dir, "x"), nil, 0o644)
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
}

// TestDamage flips bytes and cuts files off: each is told as damage, when the store is opened or
// when it is read.
func TestDamage(t *testing.T) {
	s := open0(t, t.TempDir(), Options{})
	var d state.Delta
	for i := range 5000 {
		d.Put(0, 0, binary.BigEndian.AppendUint32(nil, uint32(i)), fmt.Appendf(nil, "%d", i*i))
	}
	if err := s.Apply(1, d.Bytes()); err != nil {
		t.Fatal(err)
	}
	c := cut(t, s)
	for _, f := range c.Files {
		for _, at := range []int64{0, 7, f.Size / 3, f.Size / 2, f.Size - 4, -1} {
			dir := place(t, c)
			path := filepath.Join(dir, f.Name)
			b, _ := os.ReadFile(path)
			if at < 0 {
				b = b[:len(b)/2]
			} else {
				b[at] ^= 0x10
			}
			_ = os.Chmod(path, 0o644)
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := OpenFiles(dir, c.Files, Options{})
			if err == nil {
				n := 0
				err = s.Range(nil, nil, func(_, _ []byte) error { n++; return nil })
				if err == nil && n != 5000 {
					t.Errorf("%s with byte %d changed: %d entries and no error", f.Name, at, n)
				}
				_ = s.Close()
				if err == nil {
					continue // a byte that nobody reads, or that is checked against another
				}
			}
			var damage *DamageError
			if !errors.As(err, &damage) {
				t.Errorf("%s with byte %d changed: %v is not told as damage", f.Name, at, err)
			}
		}
	}
	dir := place(t, c)
	_ = os.Remove(filepath.Join(dir, c.Files[0].Name))
	if _, err := OpenFiles(dir, c.Files, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with a file missing: %v", err)
	}
}

func FuzzParseHead(f *testing.F) {
	s := &Store{id: "id"}
	dir := f.TempDir()
	_ = os.WriteFile(filepath.Join(dir, "MANIFEST-000001"), []byte("content"), 0o644)
	if _, err := s.pack(dir, []string{"MANIFEST-000001"}, 1); err != nil {
		f.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(dir, headName))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := parseHead(b)
		for _, x := range files {
			if err == nil && (strings.ContainsRune(x.name, filepath.Separator) || x.name == "") {
				t.Errorf("name %q", x.name)
			}
		}
	})
}

// TestCut_OldBytes reads a cut that was written by the first version of this package.
func TestCut_OldBytes(t *testing.T) {
	const old = "testdata/v1"
	if os.Getenv("WRITE_TESTDATA") != "" {
		s := open0(t, t.TempDir(), Options{ID: "0123456789abcdef"})
		var d state.Delta
		for i := range 50 {
			d.Put(i%3, i%7, fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i))
		}
		if err := s.Apply(3, d.Bytes()); err != nil {
			t.Fatal(err)
		}
		for _, f := range cut(t, s).Files {
			b, _ := os.ReadFile(f.Path)
			if err := os.WriteFile(filepath.Join(old, f.Name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	var files []File
	list, _ := os.ReadDir(old)
	for _, e := range list {
		b, _ := os.ReadFile(filepath.Join(old, e.Name()))
		files = append(files, File{Name: e.Name(), Object: "old-" + e.Name(), Size: int64(len(b))})
		_ = os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644)
	}
	s, err := OpenFiles(dir, files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 50 {
		v, ok, err := s.Get(nil, 3, i%3, i%7, fmt.Appendf(nil, "key %d", i))
		if !ok || err != nil || string(v) != fmt.Sprintf("value %d", i) {
			t.Fatalf("key %d: %q %v %v", i, v, ok, err)
		}
	}
}
