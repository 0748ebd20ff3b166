package clickhouse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestPlacesOfRefusedRows has the record of a row that the server refuses when it is inserted, long after it
// was sealed, and also at once.
func TestPlacesOfRefusedRows(t *testing.T) {
	for _, d := range []def{once(), atLeast()} {
		f := newFake(t)
		base := "" // of the token of the block
		f.set(func(sql, token string) fault {
			if !strings.HasPrefix(sql, "INSERT INTO `db`.`kv`") {
				return fault{}
			}
			if base == "" {
				base = token
			}
			if strings.HasPrefix("/1/1/0", strings.TrimPrefix(token, base)) { // the halves that row 7 is in
				return fault{code: 469, msg: "Constraint c is violated"}
			}
			return fault{}
		})
		r := f.rig()
		s := r.open(d).(*sink)
		var got []string
		s.cfg.Bad = func(b format.BadRecord) error {
			got = append(got, fmt.Sprintf("%s %s %s %d", b.Bytes, b.Origin.Split, b.Origin.Unit, b.Pos))
			return nil
		}
		in := batch(pair, pairs(0, 10)...)
		in.Origin, in.Pos = &vec.Origin{Source: "t", Split: "a.json", Unit: "byte"}, []int64{0, 10, 20, 30, 40, 50, 60, 777, 80, 90}
		w := r.writer(s)
		must(t, w.Write(t.Context(), in))
		if s.guarantee() == connector.ExactlyOnce {
			cs, err := w.Prepare(t.Context())
			must(t, err)
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		} else {
			must(t, w.Flush(t.Context()))
		}
		if want := `[{"id":7,"v":"v7"} a.json byte 777]`; fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", s.guarantee(), got, want)
		}
		f.has(append(texts(0, 7), texts(8, 2)...))
	}
}

// TestFirstSegments reads a segment of version 1, which says nothing of places.
func TestFirstSegments(t *testing.T) {
	f := newFake(t)
	f.cols = [][2]string{{"id", "Int64"}, {"v", "Nullable(String)"}}
	b := testBlock(1, 4, true, true)
	seg := append(binary.LittleEndian.AppendUint32([]byte(segmentFirst), uint32(len(b))), b...)
	r := f.rig()
	s := r.open(once()).(*sink)
	m := &connectortest.Segments{}
	s.cfg.Segments = m
	w, err := m.Create()
	must(t, err)
	_, err = w.Write(seg)
	must(t, err)
	c, err := w.Seal()
	must(t, err)
	must(t, r.committer(s).Commit(t.Context(), id("l", 1), []connector.Committable{c}))
	f.has(texts(1, 3))
	sr, err := readSegment(bytes.NewReader(seg))
	must(t, err)
	block, err := sr.next()
	must(t, err)
	if o, _ := (&sealedPlaces{block: block, raw: sr.places}).Of(0); o != nil {
		t.Errorf("a place from nowhere: %v", o)
	}
}
