package fn

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// isASCII reports that every byte is a character.
func isASCII(b []byte) bool {
	const high = 0x8080808080808080
	n := len(b)
	if n < 8 {
		var any byte
		for _, c := range b {
			any |= c
		}
		return any < utf8.RuneSelf
	}
	at := 0
	for ; at+16 <= n; at += 16 {
		if (binary.LittleEndian.Uint64(b[at:])|binary.LittleEndian.Uint64(b[at+8:]))&high != 0 {
			return false
		}
	}
	// What is left, at most 15 bytes, with some seen before: no loop, and nothing to guess.
	return (binary.LittleEndian.Uint64(b[min(at, n-8):])|binary.LittleEndian.Uint64(b[n-8:]))&high == 0
}

// runeCount counts characters.
func runeCount(b []byte) int {
	if isASCII(b) {
		return len(b)
	}
	return utf8.RuneCount(b)
}

// offset is the byte position of character n, at most len(b).
func offset(b []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		if b[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, w := utf8.DecodeRune(b[at:])
		at += w
	}
	return at
}

// indexFrom finds sub in b at or after character from, and returns the character it starts at, or
// -1. The empty string is found at 0.
func indexFrom(b, sub []byte, from int) int {
	if len(sub) == 0 {
		return 0
	}
	from = max(from, 0)
	if isASCII(b) {
		if from > len(b) {
			return -1
		}
		if k := bytes.Index(b[from:], sub); k >= 0 {
			return from + k
		}
		return -1
	}
	at := offset(b, from)
	k := bytes.Index(b[at:], sub)
	if k < 0 {
		return -1
	}
	return from + utf8.RuneCount(b[at:at+k])
}

// cache keeps what was compiled from recent texts, such as patterns that are not constant.
type cache[T any] struct {
	compile func(string) (T, error)
	m       map[string]entry[T]
}

type entry[T any] struct {
	v   T
	err error
}

// cacheLimit bounds a cache; a full one starts anew.
const cacheLimit = 1024

func newCache[T any](compile func(string) (T, error)) *cache[T] {
	return &cache[T]{compile: compile, m: map[string]entry[T]{}}
}

func (c *cache[T]) get(key []byte) (T, error) {
	e, ok := c.m[string(key)]
	if !ok {
		if len(c.m) >= cacheLimit {
			clear(c.m)
		}
		e.v, e.err = c.compile(string(key))
		c.m[string(key)] = e
	}
	return e.v, e.err
}
