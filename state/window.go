package state

// What windows need besides tables that spill record by record: they let whole tables go at once, and
// read the entries that belong to a slice in the order of the store.

// Groups returns the key groups, from lo up to but not including hi, of the subtask.
func (s *Spill) Groups() (lo, hi int) { return s.lo, s.hi }

// Epoch is the number that Frozen will return after the Freeze that comes next or is under way.
func (s *Spill) Epoch() uint64 { return s.epoch }

// Has reports whether the store has the changes of freeze number n and of all before.
func (s *Spill) Has(n uint64) bool { return s.applied.Load() >= n }

// Hold says that what the operator may let go besides its tables was was bytes large and is now
// bytes: others bear less of what is over the budget.
func (s *Spill) Hold(was, now int64) {
	if s.budget != nil {
		s.budget.spillable.Add(now - was)
	}
}

// Full reports whether the budget is all but used up.
func (s *Spill) Full() bool {
	b := s.budget
	return b != nil && b.Used() >= b.limit-b.slack()
}

// Excess is how many bytes should go of held ones, which Hold knows of: none while there is room, or
// where they are so few that it is not theirs that are too many. Letting go of a quarter of the
// budget at a time makes few, large parts.
func (s *Spill) Excess(held int64) int64 {
	if !s.Full() || held == 0 || held < s.budget.limit/smallTable {
		return 0
	}
	b := s.budget
	share := float64(held) / float64(max(b.spillable.Load(), held))
	return max(1, int64(share*float64(b.Used()-b.limit/4*3)))
}

// Much reports whether dirty bytes of held ones are so many that freezing them at once would take a
// large part of the budget, which is more than half used.
func (s *Spill) Much(dirty, held int64) bool {
	b := s.budget
	if b == nil || b.Used() < b.limit/2 {
		return false
	}
	share := float64(held) / float64(max(b.spillable.Load(), held, 1))
	return dirty > max(int64(share*float64(b.dirtyRoom())), 1<<16)
}

// Entries calls f with the entries of a state in a key group whose keys begin with prefix, from the
// first after the key after on (nil: from the first), in order, until f returns false. key is what
// follows the prefix, as is after. An error is a *ColdError.
func (s *Spill) Entries(state, group int, prefix, after []byte, f func(key, value []byte) bool) error {
	lo := append(AppendStoreKey(nil, s.op, state, group), prefix...)
	head := len(lo)
	hi := Successor(lo)
	if after != nil {
		lo = append(append(lo[:head:head], after...), 0)
	}
	err := s.cold.Range(lo, hi, func(key, value []byte) error {
		if !f(key[head:], value) {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return &ColdError{err}
	}
	return nil
}

// First finds the first entry of a state from the key from of a key group on, in any of the
// subtask's key groups. ok is false where there is none.
func (s *Spill) First(state, group int, from []byte) (at int, key []byte, ok bool, err error) {
	lo := append(AppendStoreKey(nil, s.op, state, group), from...)
	err = s.cold.Range(lo, AppendStoreKey(nil, s.op, state, s.hi), func(k, _ []byte) error {
		at, key, ok = int(k[3])<<8|int(k[4]), append(key, k[StoreHead:]...), true
		return errEnough
	})
	if err != nil && err != errEnough {
		return 0, nil, false, &ColdError{err}
	}
	return at, key, ok, nil
}

// Spilled reports whether records of t may be in the store only.
func (t *Table) Spilled() bool { return t.spill != nil && t.spill.cold }

// FindFrom finds those keys of the records ids of o, a table of the same layout, that t has in
// memory: recs[k] is 0 where there is no such record.
func (t *Table) FindFrom(o *Table, ids, recs []uint32) {
	n := t.layout.words
	for k, id := range ids {
		w := o.At(id)[:n]
		recs[k] = t.lookupFrom(o, w, w, false)
	}
}

// Weight is the memory that the records take, bytes, and how much of it is free for other records.
func (r *Records) Weight() (held, free int64) {
	for _, c := range r.Chunks {
		held += int64(len(c)) * 8
	}
	return held, int64(r.freed) * int64(r.stride) * 8
}

// Recall brings those of keys, in the form of AppendKey, into memory that are in the store only, and
// appends their records to recs.
func (t *Table) Recall(keys [][]byte, recs []uint32) ([]uint32, error) {
	sp := t.spill
	if sp == nil || !sp.cold {
		return recs, nil
	}
	if t.reader == nil {
		t.reader = newKeyReader(t.layout)
	}
	for _, k := range keys {
		rest, err := t.reader.read(k, 0)
		if err != nil || len(rest) > 0 {
			return recs, errKey
		}
		t.lookup(t.reader.w, &t.reader.e, true)
	}
	added := append(sp.guess[:0], sp.fresh...)
	sp.guess = added
	sp.resolve()
	for _, rec := range added {
		if t.At(rec)[0]&flagSaved == 0 {
			t.remove(rec)
			continue
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// Dismiss lets a record go that Recall brought into memory and nobody has changed.
func (t *Table) Dismiss(rec uint32) { t.spill.out(rec) }
