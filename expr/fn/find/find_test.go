package find

import (
	"bytes"
	"strings"
	"testing"
)

func FuzzIndex(f *testing.F) {
	f.Add("https://www.nexmark.com/item.htm?query=1&channel_id=42", "channel_id=")
	f.Add(strings.Repeat("_", 100)+"a_", "a_")
	f.Add("aaab", "aab")
	f.Fuzz(func(t *testing.T, s, text string) {
		if text == "" {
			return
		}
		got := New([]byte(text)).Index([]byte(s))
		if want := strings.Index(s, text); got != want {
			t.Errorf("%q in %q: %d, want %d", text, s, got, want)
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	s := []byte("https://www.nexmark.com/tre/vfdq/item100.htm?query=1&channel_id=268435456")
	text := []byte("channel_id=")
	f := New(text)
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			f.Index(s)
		}
	})
	b.Run("bytes", func(b *testing.B) {
		for b.Loop() {
			bytes.Index(s, text)
		}
	})
}
