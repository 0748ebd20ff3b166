package state

import "fmt"

// Codec turns what a record of a table holds besides its key into bytes and back.
type Codec interface {
	// AppendValue appends the value of a record.
	AppendValue(dst []byte, rec uint32) []byte
	// LoadValue fills a record that has its key and the initial words from a value of
	// AppendValue.
	LoadValue(rec uint32, value []byte) error
}

// Keeper saves and restores the records of a tracked table: each is an entry of a keyed state.
type Keeper struct {
	// State is the index in the operator's States, MaxParallelism the number of key groups.
	State, MaxParallelism int
	// Prefix stands before the keys of this table: several tables share a state, for instance the
	// end of a slice.
	Prefix []byte
	Codec  Codec
	// Check panics where a key group does not belong to the subtask; see op.Context.CheckGroup.
	Check func(group int)

	checked []bool // groups that were
}

// Freeze adds the changes of t since the last time to d.
func (k *Keeper) Freeze(t *Table, d *Delta) {
	var key []byte
	owned := t.track != nil && t.track.owner != nil
	before := d.Len()
	x := t.expiry
	if x != nil {
		x.index.freeze(d)
	}
	t.Changes(func(rec uint32) {
		var buf []byte
		var group int
		if owned {
			var hash uint32
			key, hash = t.SavedKey(key[:0], rec)
			group = k.group(hash)
			buf = append(append(d.BeginPut(k.State, group), k.Prefix...), key...)
		} else {
			group = k.group(t.Hash(rec))
			buf = t.AppendKey(append(d.BeginPut(k.State, group), k.Prefix...), rec)
		}
		at, end := len(d.buf), len(buf)
		d.EndPut(k.Codec.AppendValue(buf, rec), end)
		if x != nil {
			x.index.save(d, group, rec, d.buf[at:end])
		}
	}, func(hash uint32, gone []byte) {
		key = append(append(key[:0], k.Prefix...), gone...)
		d.Delete(k.State, KeyGroup(hash, k.MaxParallelism), key)
	})
	if t.unindex && d.Len() > before {
		t.dropIndex(k, d)
	}
}

// group is the key group of a hash, checked.
func (k *Keeper) group(hash uint32) int {
	g := KeyGroup(hash, k.MaxParallelism)
	if g >= len(k.checked) || !k.checked[g] {
		k.Check(g)
		if len(k.checked) == 0 {
			k.checked = make([]bool, k.MaxParallelism)
		}
		k.checked[g] = true
	}
	return g
}

// Load adds one saved entry, whose key has no prefix any more, to t.
func (k *Keeper) Load(t *Table, key, value []byte) error {
	rec, rest, err := t.UpsertKey(key, 0)
	if err == nil && len(rest) > 0 {
		err = errKey
	}
	if err == nil {
		err = k.Codec.LoadValue(rec, value)
	}
	if err != nil {
		return fmt.Errorf("entry %x: %w", key, err)
	}
	t.Saved(rec)
	return nil
}
