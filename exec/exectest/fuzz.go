package exectest

import (
	"testing"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// FuzzRestore gives a Stateful operator damaged entries and heads, made of those that it saves after
// a script: it must take or refuse them.
func FuzzRestore(f *testing.F, mk func() (op.Operator, error), in types.Schema, script []Step, opt Options) {
	c := &Cluster{Make: mk}
	k := &keeps{Cluster: c}
	if _, err := Drive(k, in, script, Variant{Size: 3}, opt); err != nil {
		f.Fatal(err)
	}
	if c.Entries() == 0 {
		f.Fatal("the script leaves nothing to be saved")
	}
	for at := range c.saved.states {
		s := &Saved{c.saved.states, 0, 1 << 16}
		_ = s.Scan(at, func(_ int, key, value []byte) error {
			f.Add(uint8(at), append([]byte(nil), key...), append([]byte(nil), value...), k.head)
			return nil
		})
	}
	f.Fuzz(func(t *testing.T, at uint8, key, value, head []byte) {
		o, err := mk()
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		ctx := &op.Context{Env: &expr.Env{}, Parallelism: 1, MaxParallelism: 128, Counters: &op.Counters{},
			Now: func() int64 { return 0 }, BatchRows: vec.BatchRows, BatchMode: opt.BatchMode, Saves: true}
		if err := o.Open(ctx, &Discard{}); err != nil {
			t.Fatal(err)
		}
		n := len(o.(op.Stateful).States())
		if n == 0 {
			return
		}
		one := &Saved{states: map[int]map[int]map[string][]byte{int(at) % n: {5: {string(key): value}}}, hi: 128}
		if err := o.(op.Stateful).Restore(one, [][]byte{head}); err != nil {
			return
		}
		var d state.Delta
		if err := o.(op.Stateful).Freeze(&d); err != nil || d.Len() > 0 {
			t.Errorf("%d changes right after a restore (%v)", d.Len(), err)
		}
	})
}

// keeps is a cluster that is saved when the input has ended, before it is told.
type keeps struct {
	*Cluster
	head []byte
}

// Watermark implements op.Operator.
func (k *keeps) Watermark(wm int64) error {
	if wm == vec.MaxTime {
		return nil
	}
	return k.Cluster.Watermark(wm)
}

// Finish implements op.Operator.
func (k *keeps) Finish() error {
	err := k.Save()
	if err == nil {
		k.head, err = k.ops[0].(op.Stateful).Head(nil)
	}
	return err
}
