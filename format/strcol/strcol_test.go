package strcol_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-stream/tidemark/format/strcol"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func check(t *testing.T, v *vec.Vec, want ...string) {
	t.Helper()
	for i, w := range want {
		if got := string(v.Bytes(i)); got != w {
			t.Fatalf("value %d is %q, want %q", i, got, w)
		}
	}
}

func TestColumn_PointsIntoTheChunk(t *testing.T) {
	var c strcol.Column
	data := []byte("one two three")
	v := vec.New(types.StringType, 2)
	c.Bind(v, data, 0)
	c.Set(0, data, 0, 3)
	c.Set(1, data, 4, 7)
	c.Unbind()
	check(t, v, "one", "two")
	if &v.Buf[0] != &data[0] {
		t.Error("the strings were copied")
	}
}

func TestColumn_CopiesOnceNeeded(t *testing.T) {
	var c strcol.Column
	data := []byte("one two three")
	v := vec.New(types.StringType, 3)
	c.Bind(v, data, 0)
	c.Set(0, data, 0, 3)
	c.End(1, append(c.Begin(1), "2\n"...))
	c.Set(2, data, 8, 13)
	c.Unbind()
	check(t, v, "one", "2\n", "three")
	clear(data)
	check(t, v, "one", "2\n", "three")
}

func TestColumn_SecondChunk(t *testing.T) {
	var c strcol.Column
	v := vec.New(types.StringType, 9)
	for i := range 9 {
		data := fmt.Appendf(nil, "chunk %d", i)
		c.Bind(v, data, i)
		c.Set(i, data, 6, 7)
		c.Unbind()
	}
	check(t, v, "0", "1", "2", "3", "4", "5", "6", "7", "8")
}

func TestColumn_KeepsItsBufferFromBatchToBatch(t *testing.T) {
	var c strcol.Column
	data := []byte("one two three")
	v := vec.New(types.StringType, 0)
	batch := func() {
		v.Reset(2)
		c.Bind(v, data, 0)
		c.Set(0, data, 0, 3)
		c.End(1, append(c.Begin(1), "x"...))
		c.Unbind()
	}
	batch()
	if n := testing.AllocsPerRun(100, batch); n > 0 {
		t.Errorf("a batch with a copied string allocates %v times", n)
	}
}
