package engine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// keyShape is how the bytes of a key are made: leading columns of fixed width (the bounds of a
// window), then one or two keys in the form of state.Table.AppendKey, the first with the columns up
// to cut.
type keyShape struct{ prefix, cut int }

// prefixes are the columns that keys of windows may begin with.
var prefixes = [][]string{{"slice_end", "part"}, {"slice_end"}, {"window_end", "window_start"}, {"window_end"}, {"window_start"}}

// shapes lists how the keys of a state may be made, the likely ones first. Which it is tell the
// bytes.
func shapes(o *checkpoint.Operator, st int) []keyShape {
	sp := o.States[st]
	n := len(sp.Key)
	if sp.Name == heldRows {
		return []keyShape{{prefix: n, cut: n}}
	}
	cut := n
	switch {
	case isValues(sp):
		// Of a group, whose state comes before.
		for i := st - 1; i >= 0; i-- {
			if !isValues(o.States[i]) {
				cut = min(n, len(o.States[i].Key))
				break
			}
		}
	case strings.HasSuffix(sp.Name, " rows"):
		// The key of a join, then the whole row, in which the key's columns come again.
		for cut = 0; repeats(sp.Key[cut:]); cut++ {
		}
	}
	var out []keyShape
	for _, w := range []string{"slices", "windows", "running"} {
		if !strings.HasPrefix(sp.Name, w) {
			continue
		}
		for _, p := range prefixes {
			if n >= len(p) && slices.EqualFunc(p, sp.Key[:len(p)], func(name string, f types.Field) bool { return f.Name == name }) {
				out = append(out, keyShape{len(p), max(cut, len(p))})
			}
		}
	}
	return append(out, keyShape{0, cut})
}

// heldRows is the state of rows that windows keep for later, which are numbered.
const heldRows = "held rows"

// repeats reports whether a name comes twice.
func repeats(fs []types.Field) bool {
	seen := map[string]bool{}
	for _, f := range fs {
		if seen[f.Name] {
			return true
		}
		seen[f.Name] = true
	}
	return false
}

// entryReader turns the entries of a state into rows.
type entryReader struct {
	spec  state.Spec
	shape keyShape
	parts []*state.Table // that read the keys after the prefix
	rec   [1]uint32
	value []*vec.Vec // of the value's columns, one row each
}

// sampled is how many entries the shape of a state's keys is found by.
const sampled = 1000

var errEnough = fmt.Errorf("enough entries were seen")

// reader finds out how the keys of a state are made.
func (s *Savepoint) reader(o *checkpoint.Operator, st int) (*entryReader, error) {
	sp := o.States[st]
	var left []*entryReader
	for _, sh := range shapes(o, st) {
		left = append(left, newEntryReader(sp, sh))
	}
	var odd []byte
	n := 0
	err := s.store.Scan(o.ID, st, 0, s.Manifest.MaxParallelism, func(_ int, key, _ []byte) error {
		kept := left[:0:0]
		for _, r := range left {
			if r.fits(key) {
				kept = append(kept, r)
			}
		}
		if left = kept; len(left) == 0 {
			odd = slices.Clone(key)
			return errEnough
		}
		if n++; n >= sampled {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return nil, err
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("the keys of '%s' of operator %d (%s) have a form that this version cannot read (%x)", sp.Name, o.Node, o.Label, odd)
	}
	return left[0], nil
}

func newEntryReader(sp state.Spec, sh keyShape) *entryReader {
	r := &entryReader{spec: sp, shape: sh}
	for i, cols := range [][]types.Field{sp.Key[sh.prefix:sh.cut], sp.Key[sh.cut:]} {
		if sp.Name == heldRows || i == 1 && len(cols) == 0 {
			continue
		}
		var t []types.Type
		for _, f := range cols {
			t = append(t, f.Type)
		}
		r.parts = append(r.parts, state.NewTable(state.NewMemory(), state.NewLayout(t, false), nil))
	}
	for _, f := range sp.Value {
		r.value = append(r.value, vec.New(f.Type, 1))
	}
	return r
}

// prefixWidth is the width of a column of fixed width before the keys.
func prefixWidth(f types.Field) int {
	if f.Type.Phys() == types.PI32 {
		return 4
	}
	return 8
}

// fits reports whether a key has the reader's shape.
func (r *entryReader) fits(key []byte) bool {
	for _, f := range r.spec.Key[:r.shape.prefix] {
		w := prefixWidth(f)
		if len(key) < w {
			return false
		}
		key = key[w:]
	}
	for _, t := range r.parts {
		t.Reset()
		_, rest, err := t.UpsertKey(key, 0)
		if err != nil {
			return false
		}
		key = rest
	}
	return len(key) == 0
}

// add adds an entry as a row of b.
func (r *entryReader) add(b *vec.Batch, key, value []byte) error {
	at := b.N
	whole := key
	for _, c := range b.Cols {
		c.Resize(at + 1)
	}
	col := 0
	for _, f := range r.spec.Key[:r.shape.prefix] {
		w := prefixWidth(f)
		if len(key) < w {
			return r.odd(whole)
		}
		switch {
		case w == 4:
			b.Cols[col].I32[at] = int32(binary.BigEndian.Uint32(key))
		case r.spec.Name == heldRows:
			b.Cols[col].I64[at] = int64(binary.BigEndian.Uint64(key))
		default: // a time, whose bytes are in its order
			b.Cols[col].I64[at] = int64(binary.BigEndian.Uint64(key) ^ 1<<63)
		}
		b.Cols[col].SetValid(at)
		key = key[w:]
		col++
	}
	for _, t := range r.parts {
		t.Reset()
		rec, rest, err := t.UpsertKey(key, 0)
		if err != nil {
			return r.odd(whole)
		}
		key = rest
		r.rec[0] = rec
		for i := range t.Layout().Types {
			r.column(t, i, r.spec.Key[col].Type, b.Cols[col], at)
			col++
		}
	}
	if len(key) > 0 {
		return r.odd(whole)
	}
	for i, f := range r.spec.Value {
		if _, ok := state.CheckValue(value, f.Type); !ok {
			return fmt.Errorf("the value of entry %x of '%s' has a form that this version cannot read", whole, r.spec.Name)
		}
		v := r.value[i]
		if !isBytes(f.Type) {
			value = state.DecodeValue(value, b.Cols[col+i], at)
			continue
		}
		value = state.DecodeValue(value, v, 0)
		setHex(b.Cols[col+i], at, v, 0)
	}
	if len(value) > 0 {
		return fmt.Errorf("the value of entry %x of '%s' is longer than its columns", whole, r.spec.Name)
	}
	b.N++
	return nil
}

// column stores a column of the key.
func (r *entryReader) column(t *state.Table, i int, typ types.Type, out *vec.Vec, at int) {
	if isBytes(typ) {
		v := vec.New(typ, 1)
		t.KeyColumn(i, r.rec[:], v, 0)
		setHex(out, at, v, 0)
		return
	}
	out.SetValid(at)
	t.KeyColumn(i, r.rec[:], out, at)
}

func setHex(out *vec.Vec, at int, v *vec.Vec, i int) {
	if v.IsNull(i) {
		out.SetNull(at)
		return
	}
	out.SetValid(at)
	out.SetBytes(at, []byte(hex.EncodeToString(v.Bytes(i))))
}

func (r *entryReader) odd(key []byte) error {
	return fmt.Errorf("the key of entry %x of '%s' has another form than the others", key, r.spec.Name)
}
