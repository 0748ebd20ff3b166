package engine

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Edit says which entries of a state are changed and how.
type Edit struct {
	Operator *checkpoint.Operator
	State    int
	// Set is SQL expressions over the columns of the entry, by value column; Delete removes the
	// entry instead, and with a group its distinct values.
	Set    map[string]string
	Delete bool
	// Where is a SQL condition over the columns; "" means all entries.
	Where string
}

// Write makes the changes of an edit and writes the result as a savepoint of its own in out, a
// folder or URL where there is none. It returns how many entries were changed and where the new
// savepoint is. The old one stays as it is.
func (e *Engine) Write(ctx context.Context, s *Savepoint, edit Edit, out string) (changed int, place string, err error) {
	query, err := edit.query()
	if err != nil {
		return 0, "", err
	}
	r, err := s.reader(edit.Operator, edit.State)
	if err != nil {
		return 0, "", err
	}
	values := map[string][]byte{}
	err = e.Query(ctx, s, query, Handler{Rows: func(_ *Run, b *vec.Batch) error {
		for _, i := range b.Selected() {
			key, value, err := r.encode(b, i)
			if err != nil {
				return err
			}
			values[string(key)] = value
		}
		return nil
	}})
	if err != nil {
		return 0, "", err
	}
	if len(values) == 0 {
		return 0, "", errors.New("no entry is changed, so no savepoint was written")
	}
	var d state.Delta
	found := 0
	of := valuesOf(edit.Operator, edit.State)
	err = s.store.Scan(edit.Operator.ID, edit.State, 0, s.Manifest.MaxParallelism, func(group int, key, _ []byte) error {
		value, ok := values[string(key)]
		if !ok {
			return nil
		}
		found++
		if !edit.Delete {
			d.Put(edit.State, group, key, value)
			return nil
		}
		d.Delete(edit.State, group, key)
		for _, st := range of {
			d.DeletePrefix(st, group, key)
		}
		return nil
	})
	if err == nil && found != len(values) {
		err = fmt.Errorf("%d of %d entries were not found again by their keys", len(values)-found, len(values))
	}
	if err != nil {
		return 0, "", err
	}
	m := *s.Manifest
	m.Savepoint = true
	m.Tail = append(slices.Clone(m.Tail), checkpoint.Tail{Operator: edit.Operator.ID, Changes: d.Take()})
	place, err = e.write(ctx, s, &m, out)
	return len(values), place, err
}

// valuesOf lists the states of the distinct values of the groups that state st holds: their keys begin
// with that of the group, and they go with it.
func valuesOf(o *checkpoint.Operator, st int) []int {
	var out []int
	if isValues(o.States[st]) {
		return nil
	}
	for i := st + 1; i < len(o.States) && isValues(o.States[i]); i++ {
		out = append(out, i)
	}
	return out
}

func isValues(sp state.Spec) bool { return strings.Contains(sp.Name, "values of") }

// query selects the entries that change, with their new values.
func (x *Edit) query() (string, error) {
	sp := x.Operator.States[x.State]
	schema := EntrySchema(sp)
	left := map[string]bool{}
	for name := range x.Set {
		left[name] = true
	}
	var cols []string
	for i, f := range schema.Fields {
		expr, set := x.Set[f.Name]
		delete(left, f.Name)
		switch {
		case !set:
			cols = append(cols, identifier(f.Name))
		case i < len(sp.Key):
			return "", fmt.Errorf("column '%s' is part of the key, which stays what it is: only values can be set, and entries deleted", f.Name)
		default:
			cols = append(cols, fmt.Sprintf("CAST((%s) AS %s) AS %s", expr, f.Type, identifier(f.Name)))
		}
	}
	for name := range left {
		return "", fmt.Errorf("state '%s' has no column '%s'; its values are %s", sp.Name, name, strings.Join(schema.Names()[len(sp.Key):], ", "))
	}
	text := "SELECT " + strings.Join(cols, ", ") + " FROM " + identifier(StateTable(x.Operator, x.State))
	if x.Where != "" {
		text += " WHERE " + x.Where
	}
	return text, nil
}

// encode turns row i of a batch of EntrySchema into the bytes of an entry.
func (r *entryReader) encode(b *vec.Batch, i int32) (key, value []byte, err error) {
	col := 0
	for _, f := range r.spec.Key[:r.shape.prefix] {
		v := b.Cols[col]
		switch {
		case prefixWidth(f) == 4:
			key = binary.BigEndian.AppendUint32(key, uint32(v.I32[i]))
		case r.spec.Name == heldRows:
			key = binary.BigEndian.AppendUint64(key, uint64(v.I64[i]))
		default:
			key = binary.BigEndian.AppendUint64(key, uint64(v.I64[i])^1<<63)
		}
		col++
	}
	for _, t := range r.parts {
		t.Reset()
		enc := state.NewEncoder(t.Layout())
		var cols []*vec.Vec
		for range t.Layout().Types {
			v, err := bytesOf(b.Cols[col], int(i), r.spec.Key[col])
			if err != nil {
				return nil, nil, err
			}
			cols = append(cols, v)
			col++
		}
		at := []int32{i}
		if len(cols) == 0 {
			at = []int32{0}
		}
		enc.Encode(cols, at, nil)
		t.Upsert(enc, []int32{0}, r.rec[:])
		key = t.AppendKey(key, r.rec[0])
	}
	for k, f := range r.spec.Value {
		v, err := bytesOf(b.Cols[col+k], int(i), f)
		if err != nil {
			return nil, nil, err
		}
		if v.IsNull(int(i)) && !f.Type.Nullable {
			return nil, nil, fmt.Errorf("column '%s' cannot be NULL", f.Name)
		}
		value = state.AppendValue(value, v, int(i))
	}
	return key, value, nil
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
	out.SetBytes(i, b)
	return out, nil
}

// write writes a savepoint that has the files of s.
func (e *Engine) write(ctx context.Context, s *Savepoint, m *checkpoint.Manifest, out string) (string, error) {
	given, err := e.given()
	if err != nil {
		return "", err
	}
	to, err := e.store(out, given)
	if err != nil {
		return "", err
	}
	if _, err := to.Stat(ctx, "manifest"); !errors.Is(err, object.ErrNotFound) {
		if err == nil {
			err = fmt.Errorf("there is a savepoint at %s already; give a place where there is none", to)
		}
		return "", err
	}
	done := map[string]bool{}
	for _, f := range slices.Concat(m.Files, m.Segments) {
		if done[f.Object] {
			continue
		}
		done[f.Object] = true
		at := filepath.Join(s.dir, "copy")
		if err := s.Fetch(ctx, f, at); err != nil {
			return "", err
		}
		err := to.PutFile(ctx, "files/"+f.Object, at)
		if e := os.Remove(at); err == nil {
			err = e
		}
		if err != nil {
			return "", err
		}
	}
	data, err := checkpoint.EncodeManifest(m, fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
	if err != nil {
		return "", err
	}
	return to.String(), to.PutIfAbsent(ctx, "manifest", data)
}
