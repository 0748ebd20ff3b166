package job

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// lettersOut keeps letters as the text of a file of them.
type lettersOut struct{ lines []string }

func (o *lettersOut) put(l *deadLetter) error {
	b, err := json.Marshal(l)
	o.lines = append(o.lines, string(b))
	return err
}

func (*lettersOut) sync() error  { return nil }
func (*lettersOut) close() error { return nil }

// TestDeadLetters_OfATarget counts rows that a target refuses, also at the commit, in the books of the
// sink, and completes their letters where the rows say what they came from.
func TestDeadLetters_OfATarget(t *testing.T) {
	table := &connector.Table{Name: "out", Options: map[string]string{"dead-letter.path": "x"}}
	other := &connector.Table{Name: "other"}
	out := &lettersOut{}
	d, _, _ := newTestRefetcher(&fakeFetcher{})
	d.j.p = &plan.Plan{Nodes: []*plan.Node{{ID: 0, Op: &plan.Sink{Table: other}}, {ID: 1, Op: &plan.Sink{Table: table}}}}
	d.j.o.Env = &expr.Env{}
	d.j.ctx, d.j.books = context.Background(), [][]*op.Counters{{{}}, {{}, {}}}
	d.outs["out"] = out
	bad := d.record(table, nil)
	why := errors.New("no")
	for _, b := range []format.BadRecord{
		{Bytes: []byte(`{"id":9007199254740993,"v":"a"}`), Err: why},
		{Bytes: []byte(`{"id":2}`), Err: why, Origin: &vec.Origin{Source: "t", Split: "s", Unit: "byte"}, Pos: 7},
		{Bytes: []byte(`no JSON`), Err: why},
	} {
		if err := bad(b); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := d.j.books[1][0].Drops[op.DropDeadLetter].Load(), d.j.books[0][0].Drops[op.DropDeadLetter].Load(); a != 3 || b != 0 {
		t.Errorf("%d counted, %d of the other sink", a, b)
	}
	want := []string{
		`{"table":"out","reason":"no","record":"{\"id\":9007199254740993,\"v\":\"a\"}","row":{"id":9007199254740993,"v":"a"},`,
		`{"table":"out","split":"s","position":7,"unit":"byte","reason":"no","record":"s@7","row":{"id":2},`,
		`{"table":"out","reason":"no","record":"no JSON","time"`,
	}
	for i, w := range want {
		if !strings.HasPrefix(out.lines[i], w) {
			t.Errorf("letter %d is\n%s, want\n%s", i, out.lines[i], w)
		}
	}
}
