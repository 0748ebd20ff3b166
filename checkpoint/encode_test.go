package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

var writeOld = flag.Bool("write-manifest", false, "write testdata/manifest-v1.bin, when the format is new")

// whole is a manifest with something in every field.
func whole() *checkpoint.Manifest {
	return &checkpoint.Manifest{
		Version: 1, Job: "hourly \u00fc", Lineage: "4f1d", ID: 41, Savepoint: true, Finished: true,
		Started: time.Date(2026, 11, 29, 23, 15, 0, 123456789, time.UTC), Program: "0.2.0",
		Parallelism: 2, MaxParallelism: 128,
		Operators: []checkpoint.Operator{{
			ID: 3, Node: 2, Label: "GroupAggregate", Computes: "c0ffee", Fed: "f00d", Describe: "COUNT(*) by origin",
			States: []state.Spec{{Name: "groups", Version: 1,
				Key:   []types.Field{{Name: "origin", Type: types.StringType.NotNull()}},
				Value: []types.Field{{Name: "count", Type: types.BytesType, Comment: "accumulator"}}}},
			Parallelism: 2, Heads: [][]byte{{1, 2}, nil}, Ended: true, Books: map[string]int64{"in": 12, "late": 1},
		}, {ID: 7, Node: 5, Label: "Sink"}},
		Sources: []checkpoint.Source{{Node: 0, Table: "flights", Fed: "ab", Done: true, Splits: []checkpoint.Split{
			{ID: "departures-0", Offset: 1 << 40, Set: true, Data: []byte("x\x00"), Watermark: -62135596800000, Idle: true, Ended: true}}}},
		Sinks: []checkpoint.Sink{{Node: 5, Table: "out", Fed: "cd", Pending: []checkpoint.Pending{
			{Lineage: "4f1d", Checkpoint: 40, Committables: [][]byte{[]byte("segment")}}}}},
		Files:    []checkpoint.File{{Name: "000012.sst", Object: "a1-000012.sst", Size: 1234567, Sum: "00112233445566ff", Of: "state of 3"}},
		Segments: []checkpoint.File{{Name: "s1", Object: "s1", Size: 5, Sum: "0000000000000001", Of: "sealed output"}},
		Tail: []checkpoint.Tail{
			{Operator: 3, Changes: bytes.Repeat([]byte("origin JFK 12 "), 100)},
			{Operator: 9, Changes: []byte{0, 1, 2}},
			{Operator: 3, Changes: nil},
		},
		Channels: []checkpoint.Channel{{From: 1, To: 2, Input: 1, Rows: bytes.Repeat([]byte{7, 0, 0, 9}, 300),
			Schema: types.NewSchema(types.Field{Name: "m", Type: types.MapType(types.IntType, types.RowType(
				types.Field{Name: "d", Type: types.DecimalType(20, 4).NotNull()}))})}},
	}
}

func encode(t testing.TB, m *checkpoint.Manifest) []byte {
	t.Helper()
	b, err := checkpoint.EncodeManifest(m, "writer-1")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestManifestSurvives(t *testing.T) {
	for name, want := range map[string]*checkpoint.Manifest{"whole": whole(), "empty": {Version: 1}} {
		data := encode(t, want)
		got, err := checkpoint.DecodeManifest(data, "checkpoints/41")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		clear(data)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the manifest points into the bytes it was read from", name)
		}
	}
	if n := len(encode(t, whole())); n > 2200 {
		t.Errorf("it takes %d bytes: what repeats is not compressed", n)
	}
}

// TestManifestOfVersion1 reads bytes that were written when version 1 was new. They are never
// written again.
func TestManifestOfVersion1(t *testing.T) {
	const path = "testdata/manifest-v1.bin"
	if *writeOld {
		if err := os.WriteFile(path, encode(t, whole()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkpoint.DecodeManifest(data, path)
	if err != nil {
		t.Fatal(err)
	}
	if want := whole(); !reflect.DeepEqual(got, want) {
		t.Errorf("old bytes are read as\n     %+v\nwant %+v", got, want)
	}
}

// TestManifestVersion: what an earlier program would misread is of a version that it refuses.
func TestManifestVersion(t *testing.T) {
	m := whole()
	m.Sources[0].Memory = []byte{1, 2, 3}
	data := encode(t, m)
	got, err := checkpoint.DecodeManifest(data, "it")
	if err != nil || got.Version != 2 || data[8] != 2 || string(got.Sources[0].Memory) != "\x01\x02\x03" {
		t.Errorf("version %d, %d in front, %v", got.Version, data[8], err)
	}
}

func TestManifestDamage(t *testing.T) {
	data := encode(t, whole())
	for i := range data {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			m, err := checkpoint.DecodeManifest(bad, "checkpoints/41")
			if i >= 8 && i < 12 && errors.Is(err, checkpoint.ErrNewer) {
				continue // the version itself
			}
			var d *checkpoint.Damage
			if !errors.As(err, &d) || !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "checkpoints/41") {
				t.Fatalf("byte %d changed: %v, %v", i, m, err)
			}
		}
	}
	for n := range data {
		if m, err := checkpoint.DecodeManifest(data[:n], "x"); !errors.Is(err, checkpoint.ErrDamaged) {
			t.Fatalf("%d bytes of %d: %v, %v", n, len(data), m, err)
		}
	}
	if _, err := checkpoint.DecodeManifest(append(data, 0), "x"); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("a byte too much: %v", err)
	}
}

// TestManifestDamageIsNamed changes one byte of each section.
func TestManifestDamageIsNamed(t *testing.T) {
	data := encode(t, whole())
	at := 24 + 32*5 + 8
	for i, want := range []string{
		"the header in object o is damaged",
		"checkpoint 41: the changes of operator 3 (GroupAggregate) in object o",
		"checkpoint 41: the changes of operator 9 in object o",
		"", // no bytes
		"checkpoint 41: the rows on their way from node 1 to node 2 in object o",
	} {
		size := int(binary.LittleEndian.Uint64(data[24+32*i+8:]))
		if size == 0 {
			continue
		}
		bad := bytes.Clone(data)
		bad[at+size/2] ^= 4
		_, err := checkpoint.DecodeManifest(bad, "o")
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("section %d: %v\nwant an error that begins with %q", i, err, want)
		}
		at += size
	}
}

func TestManifestOfLaterVersion(t *testing.T) {
	data := encode(t, whole())
	binary.LittleEndian.PutUint32(data[8:], checkpoint.FormatVersion+1)
	_, err := checkpoint.DecodeManifest(data, "checkpoints/7")
	if !errors.Is(err, checkpoint.ErrNewer) || errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "format version 3") {
		t.Errorf("got %v", err)
	}
}

// seal makes the checksums right again, so that what lies behind them is reached. It reports false
// where the bytes are not of a manifest, or would be too large once decompressed.
func seal(data []byte) bool {
	le := binary.LittleEndian
	if len(data) < 64 {
		return false
	}
	copy(data, "\x89TMCKP\r\n")
	le.PutUint32(data[8:], 1)
	le.PutUint64(data[16:], uint64(len(data)))
	n := int(le.Uint32(data[12:])) % 20
	end := 24 + 32*n
	if n == 0 || end+8 > len(data) {
		return false
	}
	le.PutUint32(data[12:], uint32(n))
	at := end + 8
	for i := range n {
		e := data[24+32*i:]
		size := int(le.Uint64(e[8:]) % uint64(len(data)-at+1))
		if i == n-1 {
			size = len(data) - at
		}
		le.PutUint64(e[8:], uint64(size))
		le.PutUint64(e[24:], xxh3.Hash(data[at:at+size]))
		if le.Uint64(e[16:]) > 1<<20 {
			return false
		}
		at += size
	}
	le.PutUint64(data[end:], xxh3.Hash(data[:end]))
	return true
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add(encode(f, whole()), false)
	f.Add(encode(f, whole()), true)
	f.Add(encode(f, &checkpoint.Manifest{}), true)
	f.Add([]byte(nil), false)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		data = bytes.Clone(data)
		if sealed && !seal(data) {
			return
		}
		m, err := checkpoint.DecodeManifest(data, "o")
		if err != nil {
			if !errors.Is(err, checkpoint.ErrDamaged) && !errors.Is(err, checkpoint.ErrNewer) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, err := checkpoint.DecodeManifest(encode(t, m), "o")
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
		m.Version, again.Version = 0, 0
		if a, b := fmt.Sprintf("%+v", m), fmt.Sprintf("%+v", again); a != b {
			t.Fatalf("read\n%s\nthen\n%s", a, b)
		}
	})
}

func BenchmarkManifest(b *testing.B) {
	m := whole()
	r := rand.New(rand.NewPCG(1, 1))
	m.Tail = nil
	for i := range 100 {
		changes := make([]byte, 10_000)
		for j := range changes {
			changes[j] = byte(r.IntN(16))
		}
		m.Tail = append(m.Tail, checkpoint.Tail{Operator: uint16(i % 4), Changes: changes})
	}
	data := encode(b, m)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(1_000_000)
		b.ReportAllocs()
		for b.Loop() {
			encode(b, m)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(1_000_000)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := checkpoint.DecodeManifest(data, "o"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
