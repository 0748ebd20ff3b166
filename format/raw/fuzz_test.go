package raw_test

import (
	"testing"

	"github.com/tidemark-stream/tidemark/format/formattest"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte("a\x00=\xd8\x00\xde\n\n"))
	formattest.Fuzz(f, "raw", "a STRING", "charset=UTF-16")
}
