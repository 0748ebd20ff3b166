package job

import (
	"math"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// digest is what the rows of a sink add up to: see checkpoint.SinkDigest.
type digest struct {
	rows int64
	sum  uint64
}

func (d digest) plus(o digest) digest { return digest{d.rows + o.rows, d.sum + o.sum} }

// digester adds up the rows that one subtask of a sink is given. How a row is hashed is version
// checkpoint.DigestVersion: it is compared with what earlier programs wrote.
//
//	h = 0; for each column h = mix((h XOR x) + step), where x is
//	    integers, dates, times, booleans: the value as 64 bits; 128-bit values: both halves, one after the other
//	    FLOAT, DOUBLE: the bits of the DOUBLE, one NaN, one zero
//	    strings: their XXH3; all else: the XXH3 of state.AppendValue
//	    NULL: a constant
type digester struct {
	total digest
	h     []uint64
	buf   []byte
}

const (
	digestStep = 0x9e3779b97f4a7c15
	digestNull = 0x6a09e667f3bcc909
)

func digestMix(h, x uint64) uint64 { return vec.Mix((h ^ x) + digestStep) }

// add takes the rows of b.
func (d *digester) add(b *vec.Batch) {
	rows := b.Selected()
	if cap(d.h) < len(rows) {
		d.h = make([]uint64, 2*len(rows))
	}
	h := d.h[:len(rows)]
	clear(h)
	for _, v := range b.Cols {
		d.column(h, rows, v)
	}
	if b.Kinds == nil {
		d.total.rows += int64(len(rows))
		for _, x := range h {
			d.total.sum += x
		}
		return
	}
	for k, i := range rows {
		if b.Kinds[i].Retracts() {
			d.total.rows--
			d.total.sum -= h[k]
		} else {
			d.total.rows++
			d.total.sum += h[k]
		}
	}
}

// column mixes the values of v into h, which has an element for each of rows.
func (d *digester) column(h []uint64, rows []int32, v *vec.Vec) {
	if v.Valid != nil || v.Phys == types.PNone {
		for k, i := range rows {
			if v.IsNull(int(i)) {
				h[k] = digestMix(h[k], digestNull)
			} else {
				h[k] = d.value(h[k], v, int(i))
			}
		}
		return
	}
	switch v.Phys {
	case types.PI64:
		for k, i := range rows {
			h[k] = digestMix(h[k], uint64(v.I64[i]))
		}
	case types.PI32:
		for k, i := range rows {
			h[k] = digestMix(h[k], uint64(int64(v.I32[i])))
		}
	case types.PBytes:
		for k, i := range rows {
			h[k] = digestMix(h[k], xxh3.Hash(v.Bytes(int(i))))
		}
	default:
		for k, i := range rows {
			h[k] = d.value(h[k], v, int(i))
		}
	}
}

// value mixes value i of v, which is not NULL, into h.
func (d *digester) value(h uint64, v *vec.Vec, i int) uint64 {
	switch v.Phys {
	case types.PBool:
		if v.Bool[i] {
			return digestMix(h, 1)
		}
		return digestMix(h, 0)
	case types.PI32:
		return digestMix(h, uint64(int64(v.I32[i])))
	case types.PI64:
		return digestMix(h, uint64(v.I64[i]))
	case types.PI128:
		return digestMix(digestMix(h, uint64(v.I128[i].Hi)), v.I128[i].Lo)
	case types.PF32:
		return digestMix(h, doubleBits(float64(v.F32[i])))
	case types.PF64:
		return digestMix(h, doubleBits(v.F64[i]))
	case types.PBytes:
		return digestMix(h, xxh3.Hash(v.Bytes(i)))
	}
	d.buf = state.AppendValue(d.buf[:0], v, i)
	return digestMix(h, xxh3.Hash(d.buf))
}

func doubleBits(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(f)
}

// digests reports whether what sinks are given is added up: where two checkpoints are kept that it can be told
// between, and where such an interval is computed again.
func (j *Job) digests() bool {
	return j.o.Until != nil || j.sealed() != nil && j.checkpoints.o.Coordinator.Retained > 1
}

// restoreDigests has the sinks count on from where the checkpoint was that the job goes on from.
func (c *checkpoints) restoreDigests() {
	from := c.o.From
	if from == nil {
		return
	}
	for _, n := range c.j.p.Nodes {
		sh := c.j.sinks[n.ID]
		if sh == nil {
			continue
		}
		sh.digest = checkpoint.SinkDigest{Version: checkpoint.DigestVersion, Since: from.ID}
		for i := range from.Sinks {
			m := &from.Sinks[i]
			if c.nodes[m.Node] == n && m.Digest != nil && m.Digest.Version == checkpoint.DigestVersion {
				sh.digest = *m.Digest
			}
		}
	}
}

// digestAt is the digest of a sink at a cut.
func (j *Job) digestAt(n *plan.Node, f *frozen) *checkpoint.SinkDigest {
	if !j.digests() {
		return nil
	}
	d := j.sinks[n.ID].digest
	d.Version = checkpoint.DigestVersion
	d.Rows += f.digests[n.ID].rows
	d.Sum += checkpoint.Uint64(f.digests[n.ID].sum)
	return &d
}
