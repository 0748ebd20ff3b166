package postgres

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestSegment_KeepsPlaces seals rows of several files, and rows from nowhere between them.
func TestSegment_KeepsPlaces(t *testing.T) {
	enc := tuplesOf()
	whole := enc.appendHeader(nil)
	var want []string
	for n := range 5 {
		in := batch(pair, put(int64(n), "a"), put(int64(n), "b"), put(int64(n), "c"))
		if n != 2 {
			in.Origin, in.Pos = &vec.Origin{Source: "t", Split: fmt.Sprint("f", n/3), Unit: "byte"}, []int64{int64(n), 5, 6}
			in.Sel = []int32{0, 2}
			want = append(want, fmt.Sprintf("f%d %d", n/3, n), fmt.Sprintf("f%d 6", n/3))
		} else {
			want = append(want, "?", "?", "?")
		}
		var r rows
		enc.rows(&r, in)
		whole = appendFrames(whole, &r)
	}
	s, err := readSegment(bytes.NewReader(whole))
	must(t, err)
	var got []string
	for err == nil {
		var part rows
		err = s.read(&part, 2, 1<<20)
		for i := range part.len() {
			text := "?"
			if o, pos := part.places.Of(i); o != nil {
				text = fmt.Sprintf("%s %d", o.Split, pos)
			}
			got = append(got, text)
		}
	}
	if err != io.EOF || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: %v, want %v", err, got, want)
	}
	// Version 1, which has no places, is read.
	var r rows
	enc.rows(&r, batch(pair, put(int64(1), "a")))
	first := bytes.Replace(appendFrames(enc.appendHeader(nil), &r), []byte(segmentMagic), []byte(segmentFirst), 1)
	must(t, readAll(first))
}

// TestRefused_Places has the record of a row that the database refuses.
func TestRefused_Places(t *testing.T) {
	for _, g := range []string{"at-least-once", "exactly-once"} {
		r := live(t)
		r.exec("CREATE TABLE picky (id bigint, v text, CHECK (id <> 7))")
		s := r.open(def{name: "picky", cols: pair, options: map[string]string{"sink.delivery-guarantee": g}}).(*sink)
		var got []string
		s.cfg.Bad = func(b format.BadRecord) error {
			got = append(got, fmt.Sprintf("%s %s %d", b.Bytes, b.Origin.Split, b.Pos))
			return nil
		}
		w := r.writer(s)
		for lo := 0; lo < 10; lo += 5 {
			var rows []row
			for i := lo; i < lo+5; i++ {
				rows = append(rows, put(int64(i), "x"))
			}
			in := batch(pair, rows...)
			in.Origin, in.Pos = &vec.Origin{Source: "t", Split: "a.json", Unit: "byte"}, []int64{int64(lo), 1, 100 + int64(lo), 3, 4}
			must(t, w.Write(t.Context(), in))
		}
		cs, err := w.Prepare(t.Context())
		must(t, err)
		if s.guarantee() == connector.ExactlyOnce {
			must(t, r.committer(s).Commit(t.Context(), id("l", 1), cs))
		}
		if want := `[{"id":7,"v":"x"} a.json 105]`; fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", g, got, want)
		}
	}
}
