package state

// FindLead is UpsertLead without adding: recs[k] is 0 where t does not have in memory the key of ids[k]
// of o with the lead lead[k].
func (t *Table) FindLead(o *Table, ids, lead, recs []uint32) {
	key := make([]uint64, t.layout.words)
	for k, id := range ids {
		copy(key, o.At(id))
		key[1] = uint64(lead[k])
		key[0] = key[0]&keyBits&^hashBits | uint64(o.hashOf(key))
		recs[k] = t.lookupFrom(o, key, key, false)
	}
}
