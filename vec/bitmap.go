package vec

import "math/bits"

// Bitmap is a set of bits, LSB first within 64-bit words, which on a little-endian machine is
// Arrow's validity layout.
type Bitmap []uint64

// NewBitmap returns a bitmap of n clear bits.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Get reports bit i.
func (b Bitmap) Get(i int) bool { return b[uint(i)>>6]&(1<<(uint(i)&63)) != 0 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[uint(i)>>6] |= 1 << (uint(i) & 63) }

// Clear clears bit i.
func (b Bitmap) Clear(i int) { b[uint(i)>>6] &^= 1 << (uint(i) & 63) }

// Put sets or clears bit i.
func (b Bitmap) Put(i int, on bool) {
	if on {
		b.Set(i)
	} else {
		b.Clear(i)
	}
}

// SetAll sets bits 0 to n-1; what lies beyond in the last word is set too.
func (b Bitmap) SetAll(n int) {
	for i := range b[:(n+63)/64] {
		b[i] = ^uint64(0)
	}
}

// Count returns the number of set bits among the first n.
func (b Bitmap) Count(n int) int {
	c := 0
	for _, w := range b[:n/64] {
		c += bits.OnesCount64(w)
	}
	if n%64 != 0 {
		c += bits.OnesCount64(b[n/64] & (1<<(n%64) - 1))
	}
	return c
}

// And returns the intersection of a and o for n bits in dst, where nil stands for all set and may
// be returned when both are nil.
func And(dst, a, o Bitmap, n int) Bitmap {
	if a == nil && o == nil {
		return nil
	}
	w := (n + 63) / 64
	if cap(dst) < w {
		dst = make(Bitmap, w)
	}
	dst = dst[:w]
	switch {
	case a == nil:
		copy(dst, o[:w])
	case o == nil:
		copy(dst, a[:w])
	default:
		for i := range dst {
			dst[i] = a[i] & o[i]
		}
	}
	return dst
}

// resize grows the bitmap from n bits to m; new bits are set.
func (b Bitmap) resize(n, m int) Bitmap {
	w := (m + 63) / 64
	out := b
	if cap(out) < w {
		out = make(Bitmap, w, 2*w)
		copy(out, b)
	}
	old := len(b)
	out = out[:w]
	for i := old; i < w; i++ {
		out[i] = ^uint64(0)
	}
	if m > n && n%64 != 0 && n/64 < w {
		out[n/64] |= ^uint64(0) << (n % 64)
	}
	return out
}
