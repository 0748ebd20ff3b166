package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-stream/tidemark/object"
)

// pages lists page by page, also from names that are not there.
func pages(t *testing.T, s object.Store) {
	ctx := t.Context()
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("pages/%c/%03d", 'a'+i%3, i))
	}
	for _, n := range want {
		check(t, s.Put(ctx, n, []byte(n)))
	}
	all := func(prefix, after string) (out []object.Info) {
		for next := after; ; {
			found, n, err := object.Page(ctx, s, prefix, next)
			check(t, err)
			out = append(out, found...)
			if next = n; next == "" {
				return out
			}
		}
	}
	names := func(l []object.Info) (out []string) {
		for _, i := range l {
			out = append(out, i.Name)
		}
		return out
	}
	whole := all("pages/", "")
	sorted := names(whole)
	slices.Sort(sorted)
	slices.Sort(want)
	if !slices.Equal(sorted, want) {
		t.Fatalf("%d objects are listed, %d are there", len(sorted), len(want))
	}
	for _, i := range whole {
		at, err := s.Stat(ctx, i.Name)
		check(t, err)
		if at != i || i.ModifiedMs == 0 {
			t.Errorf("listed as %+v, and is %+v", i, at)
		}
	}
	for k := range whole {
		got := names(all("pages/", whole[k].Name))
		if !slices.Equal(got, names(whole[k+1:])) {
			t.Errorf("after %s there are %q, want %q", whole[k].Name, got, names(whole[k+1:]))
		}
	}
	if got := names(all("pages/b/", "pages/b/0105")); len(got) != 6 || got[0] != "pages/b/013" {
		t.Errorf("after a name that is not there: %q", got)
	}
	if got := all("pages/b/", whole[len(whole)-1].Name); len(got) > 0 && whole[len(whole)-1].Name > "pages/b/~" {
		t.Errorf("after the end: %v", got)
	}
	if got := all("pages/none/", ""); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
	part, err := object.Sub(s, "pages/c")
	check(t, err)
	got, _, err := object.Page(ctx, part, "", "026")
	check(t, err)
	if l := names(got); !slices.Equal(l, []string{"029"}) {
		t.Errorf("in a part of the store: %q", l)
	}
}

// readVersions reads ranges of one version of an object and of no other.
func readVersions(t *testing.T, s object.Store) {
	ctx := t.Context()
	check(t, s.Put(ctx, "rv", []byte("0123456789")))
	was, err := s.Stat(ctx, "rv")
	check(t, err)
	for _, c := range []struct {
		offset int64
		want   string
	}{{0, "012"}, {7, "789"}, {0, "0123456789"}} {
		p := make([]byte, len(c.want))
		if err := object.ReadVersion(ctx, s, "rv", was.Version, c.offset, p); err != nil || string(p) != c.want {
			t.Errorf("from %d on: %q, %v", c.offset, p, err)
		}
	}
	p := make([]byte, 4)
	check(t, s.Put(ctx, "rv", []byte("other bytes")))
	if err := object.ReadVersion(ctx, s, "rv", was.Version, 2, p); !errors.Is(err, object.ErrChanged) {
		t.Errorf("of a version that was replaced: %q, %v", p, err)
	}
	check(t, s.Delete(ctx, "rv"))
	if err := object.ReadVersion(ctx, s, "rv", was.Version, 2, p); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("of an object that was deleted: %q, %v", p, err)
	}
}

// uploads puts objects together of parts.
func uploads(t *testing.T, s object.Store) {
	u := object.UploaderOf(s)
	if u == nil {
		t.Skip("the store does not make objects of parts")
	}
	ctx := t.Context()
	first, second := bytes.Repeat([]byte("0123456789abcdef"), object.LeastPart/16), []byte("the last part")
	send := func(name string) (string, []object.Part) {
		id, err := u.Begin(ctx, name)
		check(t, err)
		b, err := u.PutPart(ctx, name, id, 2, second) // in any order
		check(t, err)
		_, err = u.PutPart(ctx, name, id, 1, bytes.Repeat([]byte{'x'}, object.LeastPart))
		check(t, err)
		a, err := u.PutPart(ctx, name, id, 1, first) // in place of it
		check(t, err)
		return id, []object.Part{a, b}
	}
	id, parts := send("up/a b/1")
	if _, err := s.Stat(ctx, "up/a b/1"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("an object that is not complete: %v", err)
	}
	listed, err := u.Uploads(ctx, "up/a")
	if err != nil || len(listed) != 1 || listed[0].Name != "up/a b/1" || listed[0].Begun.IsZero() {
		t.Errorf("uploads: %+v, %v", listed, err)
	}
	for range 3 {
		check(t, u.Complete(ctx, "up/a b/1", id, parts))
	}
	if got := content(t, s, "up/a b/1"); got != string(first)+string(second) {
		t.Errorf("it has %d bytes, or others", len(got))
	}
	check(t, u.Abort(ctx, "up/a b/1", id)) // it does not touch the object
	if listed, err := u.Uploads(ctx, "up/a"); err != nil || len(listed) > 0 {
		t.Errorf("uploads that are left: %+v, %v", listed, err)
	}
	if got := content(t, s, "up/a b/1"); len(got) != len(first)+len(second) {
		t.Errorf("after an abort it has %d bytes", len(got))
	}
	// Another object in its place is not what the upload has made, also of the same size.
	check(t, s.Delete(ctx, "up/a b/1"))
	check(t, s.Put(ctx, "up/a b/1", bytes.Repeat([]byte{'y'}, len(first)+len(second))))
	if err := u.Complete(ctx, "up/a b/1", id, parts); !errors.Is(err, object.ErrUploadGone) {
		t.Errorf("complete, with another object there: %v", err)
	}

	id, parts = send("up/2")
	for range 2 {
		check(t, u.Abort(ctx, "up/2", id))
	}
	if err := u.Complete(ctx, "up/2", id, parts); !errors.Is(err, object.ErrUploadGone) {
		t.Errorf("complete what was aborted: %v", err)
	}
	if _, err := u.PutPart(ctx, "up/2", id, 1, second); !errors.Is(err, object.ErrUploadGone) {
		t.Errorf("a part of what was aborted: %v", err)
	}
	id, _ = send("up/3") // whoever finds it may abort it
	listed, err = u.Uploads(ctx, "")
	check(t, err)
	for _, l := range listed {
		check(t, u.Abort(ctx, l.Name, l.ID))
	}
	if _, err := u.PutPart(ctx, "up/3", id, 1, second); !errors.Is(err, object.ErrUploadGone) {
		t.Errorf("a part of what was listed and aborted: %v", err)
	}
	part, err := object.Sub(s, "up/sub")
	check(t, err)
	pu := object.UploaderOf(part)
	pid, err := pu.Begin(ctx, "x")
	check(t, err)
	p, err := pu.PutPart(ctx, "x", pid, 1, second)
	check(t, err)
	if l, err := pu.Uploads(ctx, ""); err != nil || len(l) != 1 || l[0].Name != "x" {
		t.Errorf("uploads of a part of the store: %+v, %v", l, err)
	}
	check(t, pu.Complete(ctx, "x", pid, []object.Part{p}))
	if got := content(t, s, "up/sub/x"); got != string(second) {
		t.Errorf("it holds %q", got)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := u.Begin(stopped, "up/4"); err == nil {
		t.Error("an upload began although nobody wants it any more")
	}
}
