package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// content is bytes that differ from place to place.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7 ^ byte(i>>16)*31
	}
	return b
}

// remote is an object that is read by ranges.
type remote struct {
	data   []byte
	mu     sync.Mutex
	gets   int
	before func(offset int64) error
}

func (r *remote) get(ctx context.Context, offset int64, p []byte) error {
	r.mu.Lock()
	r.gets++
	before := r.before
	r.mu.Unlock()
	if before != nil {
		if err := before(offset); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	copy(p, r.data[offset:])
	return nil
}

func TestStream_ReadsEveryByteOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ size, offset, most int }{
		{0, 0, 0}, {1, 0, 1}, {1, 1, 0}, {2 << 20, 0, 1}, {2<<20 + 1, 0, 3}, {20 << 20, 0, 5}, {20 << 20, 12345, 5}, {9 << 20, 9<<20 - 3, 1},
	} {
		r := &remote{data: content(c.size)}
		s := newStream(t.Context(), newReadAhead(aheadMemory), int64(c.size), int64(c.offset), firstRange, r.get)
		got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(s, 5)))
		for err == nil {
			p := make([]byte, rnd.IntN(3<<20)+1)
			var n int
			n, err = s.Read(p)
			got = append(got, p[:n]...)
		}
		if err != io.EOF || !bytes.Equal(got, r.data[c.offset:]) {
			t.Errorf("%+v: %d bytes, %v", c, len(got), err)
		}
		if r.gets > c.most {
			t.Errorf("%+v: %d requests", c, r.gets)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if s.shared.free != aheadMemory {
			t.Errorf("%+v: %d bytes are not given back", c, aheadMemory-s.shared.free)
		}
	}
}

// TestStream_MemoryIsBounded reads many objects at a time with memory for few.
func TestStream_MemoryIsBounded(t *testing.T) {
	shared := newReadAhead(10 << 20)
	r := &remote{data: content(20 << 20)}
	var open []*stream
	for range 20 {
		s := newStream(t.Context(), shared, int64(len(r.data)), 0, firstRange, r.get)
		defer s.Close()
		open = append(open, s)
	}
	got := make([]int, len(open))
	p := make([]byte, 700<<10)
	for left := len(open); left > 0; {
		left = 0
		held, reserved := int64(0), int64(0)
		for i, s := range open {
			n, err := s.Read(p)
			if !bytes.Equal(p[:n], r.data[got[i]:got[i]+n]) || err != nil && err != io.EOF {
				t.Fatalf("object %d differs after %d bytes, or %v", i, got[i], err)
			}
			if got[i] += n; got[i] < len(r.data) {
				left++
			}
			for _, b := range append(s.asked[:len(s.asked):len(s.asked)], s.cur) {
				if b != nil {
					held += int64(len(b.buf))
					reserved += b.reserved
				}
			}
		}
		if reserved > 10<<20 || held > 10<<20+int64(len(open))*leastRange {
			t.Fatalf("%d bytes are held, %d of them reserved", held, reserved)
		}
	}
}

func TestStream_FailsWhereItFails(t *testing.T) {
	broken := errors.New("broken")
	r := &remote{data: content(30 << 20), before: func(offset int64) error {
		if offset > 10<<20 {
			return broken
		}
		return nil
	}}
	s := newStream(t.Context(), newReadAhead(aheadMemory), int64(len(r.data)), 0, firstRange, r.get)
	defer s.Close()
	got, err := io.ReadAll(s)
	if err != broken || len(got) < 10<<20 || !bytes.Equal(got, r.data[:len(got)]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := s.Read(make([]byte, 1)); err != broken {
		t.Errorf("the next read: %v", err)
	}
}

// TestStream_EndsWithItsCall waits no longer than the call that reads, and goes on with the next one.
func TestStream_EndsWithItsCall(t *testing.T) {
	hold := make(chan struct{})
	r := &remote{data: content(1000), before: func(int64) error { <-hold; return nil }}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s := newStream(ctx, newReadAhead(aheadMemory), 1000, 0, firstRange, r.get)
	defer s.Close()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(hold)
	s.call = t.Context()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, r.data) || r.gets != 1 {
		t.Errorf("%d bytes by %d requests, %v", len(got), r.gets, err)
	}
}

// TestStream_PeekCostsOneRequest: who only looks at the beginning does not have the rest sent.
func TestStream_PeekCostsOneRequest(t *testing.T) {
	r := &remote{data: content(20 << 20)}
	s := newStream(t.Context(), newReadAhead(aheadMemory), int64(len(r.data)), 0, firstRange, r.get)
	if _, err := io.ReadFull(s, make([]byte, chunkBytes)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if r.gets != 1 {
		t.Errorf("%d requests", r.gets)
	}
}
