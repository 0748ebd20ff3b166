package groupagg

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Keyed is the operator of plan.GroupAgg in a single phase, or the global one of two: an Agg whose
// groups are saved. State 0 are the groups, an entry a key:
//
//	key    state.Table.AppendKey
//	value  in the form of state.AppendValue: with a TTL the time of last use (BIGINT, ms); with
//	       retractions the number of rows (BIGINT); the accumulators (BYTES, agg.Set.AppendGroup)
//
// The states after it are the distinct values of groups (agg.Set.ValueSpecs).
type Keyed struct {
	Agg
	words     []*uint64    // memory of owned
	states    []state.Spec // what States returns, once it was asked
	restoring bool
}

const saveVersion = 1

// States implements op.Stateful.
func (o *Keyed) States() []state.Spec {
	if o.states == nil {
		o.states = o.specs()
	}
	return o.states
}

func (o *Keyed) specs() []state.Spec {
	groups := state.Spec{Name: "groups", Version: saveVersion}
	for i, t := range keyTypes(o.inS, o.n.Keys) {
		groups.Key = append(groups.Key, types.Field{Name: o.inS.Fields[o.n.Keys[i]].Name, Type: t})
	}
	add := func(name string, t types.Type) {
		groups.Value = append(groups.Value, types.Field{Name: name, Type: t.NotNull()})
	}
	if o.n.TTLMs > 0 {
		add(state.LastUse, types.BigIntType)
	}
	if o.n.InputRetracts {
		add("rows", types.BigIntType)
	}
	add("accumulators", types.BytesType)
	groups.Parts = map[string][]state.Part{"accumulators": o.set.Parts(o.argS)}
	return append([]state.Spec{groups}, o.set.ValueSpecs(groups.Key)...)
}

// Open implements op.Operator.
func (o *Keyed) Open(c *op.Context, out op.Output) error {
	err := o.Agg.Open(c, out)
	// One group alone is worth it for its values only; in batch mode it is there before any row.
	if err == nil && c.Saves && (len(o.n.Keys) > 0 || o.set.HasValues() && !c.BatchMode) {
		o.st.Spill(o.keeper(), c.Spill)
	}
	return err
}

func (o *Keyed) keeper() *state.Keeper {
	return &state.Keeper{MaxParallelism: o.ctx.MaxParallelism, Codec: o, Check: o.ctx.CheckGroup}
}

// Freeze implements op.Stateful.
func (o *Keyed) Freeze(d *state.Delta) error {
	d.Grow(o.Dirty())
	k := o.keeper()
	k.Freeze(o.st.T, d)
	k.State = 1
	o.st.FreezeValues(k, d)
	return nil
}

// Dirty implements op.Stateful.
func (o *Keyed) Dirty() int { return o.st.DirtyBytes(8 * (o.set.Words() + 3)) }

// Head implements op.Stateful.
func (o *Keyed) Head(dst []byte) ([]byte, error) { return dst, nil }

// Restore implements op.Stateful.
func (o *Keyed) Restore(saved state.Saved, _ [][]byte) error {
	k := o.keeper()
	o.restoring = true
	err := k.Restore(o.st.T, saved)
	if err == nil {
		err = o.st.RestoreValues(k, saved)
	}
	o.restoring = false
	if err != nil {
		return err
	}
	o.count()
	return nil
}

// owned lists the saved words of a record that come before its accumulators; nil is one that this
// run has no use for.
func (o *Keyed) owned(rec uint32) []*uint64 {
	o.words = o.words[:0]
	w := o.st.R.At(rec)
	if o.n.TTLMs > 0 {
		p := new(uint64)
		if o.ttl.at >= 0 {
			p = &w[o.ttl.at]
		}
		o.words = append(o.words, p)
	}
	if o.rowsAt >= 0 {
		o.words = append(o.words, &w[o.rowsAt])
	}
	return o.words
}

// AppendValue implements state.Codec.
func (o *Keyed) AppendValue(dst []byte, rec uint32) []byte {
	le := binary.LittleEndian
	if o.n.TTLMs > 0 || o.rowsAt >= 0 {
		for _, p := range o.owned(rec) {
			dst = le.AppendUint64(append(dst, 1), *p)
		}
	}
	dst = append(dst, 1, 0, 0, 0, 0)
	at := len(dst)
	dst = o.set.AppendGroup(dst, o.st, rec)
	le.PutUint32(dst[at-4:], uint32(len(dst)-at))
	return dst
}

var errSaved = errors.New("a saved group does not have the shape of the operator's groups")

// LoadValue implements state.Codec.
func (o *Keyed) LoadValue(rec uint32, b []byte) error {
	le := binary.LittleEndian
	words := o.owned(rec)
	if len(b) < 9*len(words)+5 {
		return errSaved
	}
	for _, p := range words {
		*p, b = le.Uint64(b[1:]), b[9:]
	}
	if uint64(le.Uint32(b[1:])) != uint64(len(b)-5) {
		return errSaved
	}
	if !o.restoring {
		o.st.Came(rec)
	}
	return o.set.LoadGroup(o.st, rec, b[5:])
}

// LastUse implements state.Dated.
func (o *Keyed) LastUse(b []byte) (int64, bool) {
	if o.n.TTLMs == 0 || len(b) < 9 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(b[1:])), true
}

// DropValue implements state.Dropper.
func (o *Keyed) DropValue(rec uint32) { o.st.Leave(rec) }

// Pinned implements state.Pinner.
func (o *Keyed) Pinned(rec uint32) bool { return o.st.Pinned(rec) }

// Fixed implements state.Fixer.
func (o *Keyed) Fixed() bool { return o.st.Fixed() }

// Weight implements state.Weigher.
func (o *Keyed) Weight() (held, free int64) { return o.st.Weight() }

// Flush implements op.Flusher.
func (o *Local) Flush() error { return o.send() }

var (
	_ op.Stateful = (*Keyed)(nil)
	_ op.Flusher  = (*Local)(nil)
)
