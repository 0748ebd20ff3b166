package window_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tidemark-stream/tidemark/exec/exectest"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/exec/window"
	"github.com/tidemark-stream/tidemark/plan"
)

// TestLateness_AgainstMachine counts late rows by how late they are in every operator, whether somebody wants the rows
// or not, and whatever batches they come in.
func TestLateness_AgainstMachine(t *testing.T) {
	shapes := append([]plan.Window{{Kind: plan.Session, Size: 8, TimeCol: 1}, {Kind: plan.Hop, Size: 40, Step: 1, TimeCol: 1}}, phaseShapes...)
	c := exectest.Case{Schema: schema}
	aggs, err := c.Aggs("COUNT(*); SUM(i)", true)
	if err != nil {
		t.Fatal(err)
	}
	count, partly := int64(0), false
	for _, w := range shapes {
		for _, lateness := range []int64{0, 5} {
			for seed := int64(1); seed <= 3; seed++ {
				n := &plan.WindowAgg{Window: w, Keys: []int{3, 0}, Aggs: aggs, EarlyFireMs: -1, LateFireMs: -1, AllowedLatenessMs: lateness,
					Props: []plan.WindowProp{plan.WindowStart, plan.WindowEnd, plan.WindowTime}}
				if lateness > 0 {
					n.LateFireMs = 0
				}
				script := randomScript(rand.New(rand.NewSource(seed)), 400, false)
				want := &lateLog{}
				reference := expectedLate
				if w.Kind == plan.Session {
					reference = sessionsLate
				}
				_, dropped := reference(n, schema, script, want)
				count += want.by.Count()
				partly = partly || want.by.Count() > dropped
				local, _, _ := twoPhase(n)
				makers := map[string]func() (op.Operator, error){"one phase": func() (op.Operator, error) { return window.NewAgg(n, schema, outSchema(schema, n)) }}
				if w.Kind != plan.Session && lateness == 0 {
					makers["local phase"] = local
				}
				for name, mk := range makers {
					for _, wanted := range []bool{false, true} {
						for _, size := range []int{1, 7, 1000} {
							o, err := mk()
							if err != nil {
								t.Fatal(err)
							}
							at := newWitness(o, wanted, -1, -1)
							at.late = wanted && name != "local phase" // whose rows are of another schema
							if _, err := exectest.Drive(at, schema, script, exectest.Variant{Size: size}, exectest.Options{}); err != nil {
								t.Fatal(err)
							}
							if got := at.counters.Late.Load(); got != want.by {
								t.Errorf("%s, %s of %d by %d, lateness %d, seed %d, wanted %v, batches of %d: %v, want %v", name, w.Kind, w.Size, w.Step,
									lateness, seed, wanted, size, got, want.by)
							}
						}
					}
				}
			}
		}
	}
	if count < 500 || !partly {
		t.Errorf("only %d rows were late; some missed a part of their windows only: %v", count, partly)
	}
}

// TestLateBy_Buckets has bounds belong to the bucket that they bound.
func TestLateBy_Buckets(t *testing.T) {
	var l op.LateBy
	for _, ms := range []int64{-3, 0, 1000, 1001, 10_000, 60_000, 60_001, 86_400_000, 86_400_001, 1 << 62} {
		l.Note(ms)
	}
	if got, want := fmt.Sprint(l.Rows), "[3 2 1 1 0 0 1 2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if l.SumMs < 0 || l.Count() != 10 {
		t.Errorf("%d ms of %d rows", l.SumMs, l.Count())
	}
}
