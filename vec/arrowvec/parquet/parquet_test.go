package parquet_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
	file "github.com/tidemark-stream/tidemark/vec/arrowvec/parquet"
)

// TestWriter reads back what it has written, in several batches, of which some have rows that are not
// selected.
func TestWriter(t *testing.T) {
	row := types.RowType(types.Field{Name: "a", Type: types.IntType}, types.Field{Name: "b", Type: types.StringType})
	s := types.NewSchema(types.Field{Name: "n", Type: types.BigIntType}, types.Field{Name: "d", Type: types.DecimalType(38, 2)},
		types.Field{Name: "s", Type: types.StringType}, types.Field{Name: "t", Type: types.TimestampType(3)}, types.Field{Name: "rows", Type: types.ArrayType(row)})
	var out bytes.Buffer
	w, err := file.New(&out, s)
	if err != nil {
		t.Fatal(err)
	}
	b := vec.NewBatch(s)
	for i := range 3 {
		for k, v := range []types.Value{int64(i), nil, fmt.Sprint("text ", i), int64(1000 * i), []types.Value{[]types.Value{int64(i), "x"}, []types.Value{nil, nil}}} {
			b.Cols[k].AppendValue(v)
		}
		b.N++
	}
	b.Kinds = []types.RowKind{types.Insert, types.UpdateAfter, types.Insert}
	for _, sel := range [][]int32{nil, {2, 0}, {}} {
		b.Sel = sel
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := pqarrow.ReadTable(t.Context(), bytes.NewReader(out.Bytes()), parquet.NewReaderProperties(memory.DefaultAllocator),
		pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	if got.NumRows() != 5 || got.NumCols() != 5 {
		t.Fatalf("%d rows of %d columns", got.NumRows(), got.NumCols())
	}
	for i, want := range []string{"[0 1 2 2 0]", "[(null) (null) (null) (null) (null)]", `["text 0" "text 1" "text 2" "text 2" "text 0"]`} {
		if text := fmt.Sprint(got.Column(i).Data().Chunk(0)); text != want {
			t.Errorf("column %d is %s, want %s", i, text, want)
		}
	}
	if name := got.Schema().Field(3).Type.String(); name != "timestamp[ms]" {
		t.Errorf("the time is a %s", name)
	}
	if name := got.Schema().Field(4).Type.String(); !strings.HasPrefix(name, "list<") {
		t.Errorf("the array is a %s", name)
	}
}

func TestWriter_Refuses(t *testing.T) {
	_, err := file.New(&bytes.Buffer{}, types.NewSchema(types.Field{Name: "i", Type: types.ArrayType(types.Type{Kind: types.IntervalDayTime, Nullable: true})}))
	if err == nil || !strings.Contains(err.Error(), "column 'i': INTERVAL") || !strings.Contains(err.Error(), "cast it to STRING") {
		t.Errorf("an interval: %v", err)
	}
}
