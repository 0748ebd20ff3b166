package window

import (
	"github.com/tidemark-stream/tidemark/vec"
)

// hold keeps row r of b until the windows that it is late for have fired. Such rows come only with
// hops and cumulates, when a batch crosses the end of a window: the row's stamp says that the
// window is over, the operator has not been told yet, and other windows of the same slice still
// want the row.
func (o *Agg) hold(b *vec.Batch, r int32) {
	o.held.Gather(b, []int32{r})
}

// firstHeld is the first stamp of a held row, or never.
func (o *Agg) firstHeld() int64 {
	first := int64(never)
	for _, s := range o.held.Stamps {
		first = min(first, s)
	}
	return first
}

// release adds the held rows of stamp at, when all windows that are over at that watermark have
// fired.
func (o *Agg) release(at int64) error {
	var free, stay []int32
	for i, s := range o.held.Stamps {
		if s == at {
			free = append(free, int32(i))
		} else {
			stay = append(stay, int32(i))
		}
	}
	b := o.held
	o.held = vec.NewBatch(o.inS)
	o.held.Gather(b, stay)
	b.Sel = free
	wm := o.wm
	o.wm = max(o.wm, at)
	err := o.assign(b, free)
	if err == nil {
		err = o.apply(b)
	}
	o.wm = wm
	return err
}
