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

// keyShape is how the bytes of a key are made of its columns.
type keyShape []state.KeyPart

// prefixes are the columns that keys of windows may begin with.
var prefixes = [][]string{{"slice_end", "part"}, {"slice_end"}, {"window_end", "window_start"}, {"window_end"}, {"window_start"}}

// shapes lists how the keys of a state may be made, the likely ones first. Which it is tell the
// bytes: savepoints of earlier versions do not say it.
func shapes(o *checkpoint.Operator, st int) []keyShape {
	sp := o.States[st]
	n := len(sp.Key)
	var out []keyShape
	if sp.KeyParts != nil {
		out = append(out, sp.KeyParts)
	}
	if sp.Name == heldRows {
		return append(out, keyShape{{Columns: n, Form: state.KeyU64}})
	}
	if sp.Name == orderedRows {
		return append(out, keyShape{{Columns: 1, Form: keyOrder}, {Columns: 1, Form: state.KeyU64}})
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
	for _, w := range []string{"slices", "windows", "running"} {
		if !strings.HasPrefix(sp.Name, w) {
			continue
		}
		for _, p := range prefixes {
			if n >= len(p) && slices.EqualFunc(p, sp.Key[:len(p)], func(name string, f types.Field) bool { return f.Name == name }) {
				out = append(out, shapeOf(sp.Key, len(p), max(cut, len(p))))
			}
		}
	}
	return append(out, shapeOf(sp.Key, 0, cut))
}

// shapeOf is the shape of keys with prefix columns of fixed width, then a key of a table with the columns
// up to cut, and another one with the others if there are any.
func shapeOf(key []types.Field, prefix, cut int) keyShape {
	var out keyShape
	for _, f := range key[:prefix] {
		form := state.KeyTime
		if f.Type.Phys() == types.PI32 {
			form = state.KeyU32
		}
		out = append(out, state.KeyPart{Columns: 1, Form: form})
	}
	out = append(out, state.KeyPart{Columns: cut - prefix, Form: state.KeyTable})
	if cut < len(key) {
		out = append(out, state.KeyPart{Columns: len(key) - cut, Form: state.KeyTable})
	}
	return out
}

// heldRows is the state of rows that windows keep for later, which are numbered.
const heldRows = "held rows"

// orderedRows is the state of rows that are kept in the order in which they are to come out: the bytes of
// their sort keys, then their number. The sort keys are columns of the row as well.
const (
	orderedRows               = "ordered rows"
	keyOrder    state.KeyForm = "order"
)

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

// entryReader turns the entries of a state into rows, and rows into entries.
type entryReader struct {
	of    *checkpoint.Operator
	st    int
	spec  state.Spec
	shape keyShape
	parts []keyReader
	value *valueReader
	// numbered: the rows have their entry and their place in it as leading columns.
	numbered bool
	entry    int64
}

// keyReader reads and makes one part of a key.
type keyReader struct {
	state.KeyPart
	fields []types.Field
	table  *state.Table // of KeyTable
	enc    *state.Encoder
	rec    [1]uint32
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
	left[0].of, left[0].st = o, st
	return left[0], nil
}

// keyRun is the form of the number of a run: parts of a slice that left memory have one (4 bytes, big
// endian), those that did not have none. What the entries of a key hold adds up.
const keyRun state.KeyForm = "run"

// runField is the column of it.
var runField = types.Field{Name: "run", Type: types.IntType}

// withRun adds the number of a run to the key of states of windows that may have one.
func withRun(sp state.Spec) (state.Spec, bool) {
	name := sp.Name
	if isValues(sp) {
		name, _, _ = strings.Cut(name, ": ")
	}
	if !slices.Contains([]string{"slices", "windows", "running"}, name) {
		return sp, false
	}
	sp.Key = append(slices.Clone(sp.Key), runField)
	return sp, true
}

func newEntryReader(sp state.Spec, sh keyShape) *entryReader {
	sp, runs := withRun(sp)
	if runs {
		sh = append(slices.Clone(sh), state.KeyPart{Columns: 1, Form: keyRun})
	}
	r := &entryReader{spec: sp, shape: sh, value: newValueReader(sp)}
	at := 0
	for _, p := range sh {
		k := keyReader{KeyPart: p, fields: sp.Key[at : at+p.Columns]}
		at += p.Columns
		if p.Form == state.KeyTable {
			var t []types.Type
			for _, f := range k.fields {
				t = append(t, f.Type)
			}
			l := state.NewLayout(t, false)
			k.table, k.enc = state.NewTable(state.NewMemory(), l, nil), state.NewEncoder(l)
		}
		r.parts = append(r.parts, k)
	}
	return r
}

// width is the number of bytes of each column of a form of fixed width.
func (k *keyReader) width() int {
	if k.Form == state.KeyU32 {
		return 4
	}
	return 8
}

// skip returns what follows the part at the start of key.
func (k *keyReader) skip(key []byte) (rest []byte, ok bool) {
	if k.Form == keyRun {
		return nil, len(key) == 0 || len(key) == 4
	}
	if k.Form == keyOrder {
		if n := len(key) - 8; n >= 0 {
			return key[n:], true
		}
		return nil, false
	}
	if k.Form != state.KeyTable {
		if n := k.width() * k.Columns; n <= len(key) {
			return key[n:], true
		}
		return nil, false
	}
	k.table.Reset()
	rec, rest, err := k.table.UpsertKey(key, 0)
	k.rec[0] = rec
	return rest, err == nil
}

// read stores the columns of the part at the start of key as row at of cols.
func (k *keyReader) read(cols []*vec.Vec, at int, key []byte) (rest []byte, ok bool) {
	if rest, ok = k.skip(key); !ok {
		return nil, false
	}
	for i, f := range k.fields {
		c := cols[i]
		if k.Form == keyRun {
			if len(key) == 0 {
				c.SetNull(at)
				continue
			}
			c.SetValid(at)
			c.I32[at] = int32(binary.BigEndian.Uint32(key))
			continue
		}
		if k.Form == keyOrder {
			c.SetValid(at)
			c.SetString(at, hex.EncodeToString(key[:len(key)-len(rest)]))
			continue
		}
		if k.Form == state.KeyTable {
			if isBytes(f.Type) {
				v := vec.New(f.Type, 1)
				k.table.KeyColumn(i, k.rec[:], v, 0)
				setHex(c, at, v, 0)
				continue
			}
			c.SetValid(at)
			k.table.KeyColumn(i, k.rec[:], c, at)
			continue
		}
		c.SetValid(at)
		x := uint64(0)
		if k.width() == 4 {
			x = uint64(int64(int32(binary.BigEndian.Uint32(key[4*i:]))))
		} else {
			x = binary.BigEndian.Uint64(key[8*i:])
		}
		if k.Form == state.KeyTime {
			x ^= 1 << 63
		}
		switch c.Phys {
		case types.PI32:
			c.I32[at] = int32(x)
		case types.PI64:
			c.I64[at] = int64(x)
		default:
			return nil, false
		}
	}
	return rest, true
}

// append appends the bytes of the part whose columns are row i of cols. hash is that of a table's key.
func (k *keyReader) append(dst []byte, cols []*vec.Vec, i int) (out []byte, hash uint32, err error) {
	if k.Form == keyRun {
		if cols[0].IsNull(i) {
			return dst, 0, nil
		}
		return binary.BigEndian.AppendUint32(dst, uint32(cols[0].I32[i])), 0, nil
	}
	if k.Form != state.KeyTable {
		for at, f := range k.fields {
			v := cols[at]
			if v.IsNull(i) {
				return nil, 0, fmt.Errorf("column '%s' cannot be NULL", f.Name)
			}
			x := uint64(0)
			if v.Phys == types.PI32 {
				x = uint64(int64(v.I32[i]))
			} else {
				x = uint64(v.I64[i])
			}
			switch k.Form {
			case state.KeyU32:
				dst = binary.BigEndian.AppendUint32(dst, uint32(x))
			case state.KeyTime:
				dst = binary.BigEndian.AppendUint64(dst, x^1<<63)
			default:
				dst = binary.BigEndian.AppendUint64(dst, x)
			}
		}
		return dst, 0, nil
	}
	at := []int32{int32(i)}
	var of []*vec.Vec
	for n, f := range k.fields {
		v, err := bytesOf(cols[n], i, f)
		if err != nil {
			return nil, 0, err
		}
		of = append(of, v)
	}
	if len(of) == 0 {
		at[0] = 0
	}
	k.table.Reset()
	k.enc.Encode(of, at, nil)
	k.table.Upsert(k.enc, []int32{0}, k.rec[:])
	return k.table.AppendKey(dst, k.rec[0]), k.enc.Hash(0), nil
}

// fits reports whether a key has the reader's shape.
func (r *entryReader) fits(key []byte) bool {
	ok := true
	for i := range r.parts {
		if key, ok = r.parts[i].skip(key); !ok {
			return false
		}
	}
	return len(key) == 0
}

// schema is the columns of the rows that add makes: those of the key, then those of the value.
// Columns of bytes are hexadecimal text. Names that come twice get a number.
func (r *entryReader) schema() types.Schema {
	var out types.Schema
	if r.numbered {
		out.Fields = slices.Clone(numbers)
	}
	seen := map[string]int{}
	add := func(f types.Field) {
		f.Type = shown(f.Type)
		if f.Name == "" {
			f.Name = "column"
		}
		seen[f.Name]++
		if n := seen[f.Name]; n > 1 {
			f.Name = fmt.Sprintf("%s_%d", f.Name, n)
		}
		out.Fields = append(out.Fields, f)
	}
	for _, f := range r.spec.Key {
		add(f)
	}
	for _, c := range r.value.cols {
		add(c.Field)
	}
	return out
}

// numbers are the columns by which a row is found again.
var numbers = []types.Field{{Name: "entry number", Type: types.BigIntType}, {Name: "row number", Type: types.BigIntType}}

// shown is the type of a column whose values have type t: bytes are shown as text.
func shown(t types.Type) types.Type {
	if isBytes(t) {
		return types.StringType
	}
	return t.WithoutAttr().AsNullable()
}

// add adds an entry as rows of b: one, or where an entry holds several things, one each.
func (r *entryReader) add(b *vec.Batch, key, value []byte) error {
	rows, ok := r.value.rows(value)
	if !ok {
		return r.oddValue(key)
	}
	for i, row := range rows {
		cells, ok := r.value.cells(row)
		if !ok {
			return r.oddValue(key)
		}
		for _, c := range b.Cols {
			c.Resize(b.N + 1)
		}
		cols := b.Cols
		if r.numbered {
			for k, n := range []int64{r.entry, int64(i)} {
				cols[k].SetValid(b.N)
				cols[k].I64[b.N] = n
			}
			cols = cols[len(numbers):]
		}
		if err := r.addKey(cols, b.N, key); err != nil {
			return err
		}
		for k, c := range cells {
			setCell(cols[len(r.spec.Key)+k], b.N, r.value.cols[k].Type, c)
		}
		b.N++
	}
	r.entry++
	return nil
}

// addKey stores the columns of a key as row at.
func (r *entryReader) addKey(cols []*vec.Vec, at int, key []byte) error {
	rest, ok := key, true
	for i := range r.parts {
		if rest, ok = r.parts[i].read(cols, at, rest); !ok {
			return r.odd(key)
		}
		cols = cols[r.parts[i].Columns:]
	}
	if len(rest) > 0 {
		return r.odd(key)
	}
	return nil
}

// key makes the key of row i of columns of r.schema, without numbers. hash is that of the columns
// that decide on the key group: those of the first key of a table.
func (r *entryReader) key(cols []*vec.Vec, i int) (key []byte, hash uint32, err error) {
	hashed := false
	for k := range r.parts {
		p := &r.parts[k]
		var h uint32
		if key, h, err = p.append(key, cols, i); err != nil {
			return nil, 0, err
		}
		if p.Form == state.KeyTable && !hashed {
			hash, hashed = h, true
		}
		cols = cols[p.Columns:]
	}
	return key, hash, nil
}

// hash is that of the columns of a key that decide on its key group, if some do.
func (r *entryReader) hash(key []byte) (hash uint32, ok bool) {
	for i := range r.parts {
		p := &r.parts[i]
		if key, ok = p.skip(key); !ok {
			return 0, false
		}
		if p.Form == state.KeyTable {
			return p.table.Hash(p.rec[0]), true
		}
	}
	return 0, false
}

// tail is the number of bytes of a key behind the part that decides on the key group.
func (r *entryReader) tail(key []byte) int {
	ok := true
	for i := range r.parts {
		if key, ok = r.parts[i].skip(key); !ok {
			panic("BUG: a key that was made cannot be read")
		}
		if r.parts[i].Form == state.KeyTable {
			break
		}
	}
	return len(key)
}

// run is the number of the run at the end of a key; ok is false where keys have none.
func (r *entryReader) run(key []byte) (run []byte, ok bool) {
	last := len(r.parts) - 1
	if r.parts[last].Form != keyRun {
		return nil, false
	}
	for i := range r.parts[:last] {
		if key, ok = r.parts[i].skip(key); !ok {
			panic("BUG: a key that was read cannot be read")
		}
	}
	return key, true
}

// describe names an entry by its key, for people.
func (r *entryReader) describe(key []byte) string {
	keys := types.Schema{Fields: r.schema().Fields[:len(r.spec.Key)]}
	b := vec.NewBatch(keys)
	for _, c := range b.Cols {
		c.Resize(1)
	}
	if err := r.addKey(b.Cols, 0, key); err != nil {
		return fmt.Sprintf("key %x", key)
	}
	var out []string
	for i, f := range keys.Fields {
		out = append(out, fmt.Sprintf("%s = %v", f.Name, b.Cols[i].Value(0)))
	}
	return strings.Join(out, ", ")
}

// setCell stores a value in the form of state.AppendValue, of type t.
func setCell(out *vec.Vec, at int, t types.Type, cell []byte) {
	if !isBytes(t) {
		state.DecodeValue(cell, out, at)
		return
	}
	v := vec.New(t, 1)
	state.DecodeValue(cell, v, 0)
	setHex(out, at, v, 0)
}

// cellOf is setCell the other way round.
func cellOf(v *vec.Vec, i int, f types.Field) ([]byte, error) {
	b, err := bytesOf(v, i, f)
	if err != nil {
		return nil, err
	}
	return state.AppendValue(nil, b, i), nil
}

func setHex(out *vec.Vec, at int, v *vec.Vec, i int) {
	if v.IsNull(i) {
		out.SetNull(at)
		return
	}
	out.SetValid(at)
	out.SetBytes(at, []byte(hex.EncodeToString(v.Bytes(i))))
}

// bytesOf returns a vector whose row i is that of v, for columns of bytes read from hexadecimal
// text.
func bytesOf(v *vec.Vec, i int, f types.Field) (*vec.Vec, error) {
	if !isBytes(f.Type) {
		return v, nil
	}
	out := vec.New(f.Type, i+1)
	if v.IsNull(i) {
		out.SetNull(i)
		return out, nil
	}
	b, err := hex.DecodeString(string(v.Bytes(i)))
	if err != nil {
		return nil, fmt.Errorf("column '%s' is bytes in hexadecimal, which %q is not", f.Name, v.Bytes(i))
	}
	if n := f.Type.Precision; n > 0 && (len(b) > n || f.Type.Kind == types.Binary && len(b) < n) {
		return nil, fmt.Errorf("column '%s' is %s, which %d bytes do not fit; nothing was written", f.Name, f.Type, len(b))
	}
	out.SetBytes(i, b)
	return out, nil
}

func isBytes(t types.Type) bool { return t.Kind == types.VarBinary || t.Kind == types.Binary }

func (r *entryReader) odd(key []byte) error {
	return fmt.Errorf("the key of entry %x of '%s' has another form than the others", key, r.spec.Name)
}

func (r *entryReader) oddValue(key []byte) error {
	return fmt.Errorf("the value of entry %x of '%s' has a form that this version cannot read", key, r.spec.Name)
}
