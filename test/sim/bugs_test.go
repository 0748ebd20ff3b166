package sim

import (
	"context"
	"slices"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// The planted bugs: each makes the real code do what a bug would make it do, by changing what passes
// between the job and its repository. So nothing of them is in the code that is shipped.
const (
	bugOffsets   = "offsets committed too early"
	bugTimer     = "a timer lost"
	bugWatermark = "a watermark not restored"
	bugKeyGroup  = "a key group left behind in a rescale"
	bugTwice     = "a segment committed twice"
	bugTorn      = "a torn manifest taken for whole"
	bugDirty     = "dirty entries missed"
	bugExpired   = "an expired entry revived"
)

var bugs = []string{bugOffsets, bugTimer, bugWatermark, bugKeyGroup, bugTwice, bugTorn, bugDirty, bugExpired}

// plant changes a manifest that is about to be written.
func (l *life) plant(m *checkpoint.Manifest) *checkpoint.Manifest {
	c := *m
	switch l.w.bug {
	case bugOffsets:
		// Where the sources are by now, and not where they were at the cut.
		c.Sources = slices.Clone(m.Sources)
		for i := range c.Sources {
			c.Sources[i].Splits = slices.Clone(c.Sources[i].Splits)
			for k := range c.Sources[i].Splits {
				sp := &c.Sources[i].Splits[k]
				sp.Offset = max(sp.Offset, l.readUpTo(i, sp.ID))
			}
		}
	case bugDirty:
		c.Tail = filter(m.Tail, func(x state.Change) bool { return x.Kind != state.ChangePut || hashOf(x)%8 != 0 })
	case bugExpired:
		c.Tail = filter(m.Tail, func(x state.Change) bool { return x.Kind == state.ChangePut })
	}
	return &c
}

// readUpTo is where the n-th source is in a split.
func (l *life) readUpTo(n int, split string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n >= len(l.sources) {
		return 0
	}
	s := l.sources[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[split]
}

// tear leaves half a manifest where the process ended that wrote it, and all its checksums right.
func (l *life) tear(m *checkpoint.Manifest) {
	c := *m
	c.Tail = c.Tail[:len(c.Tail)/2]
	c.Channels, c.Files, c.Segments = nil, nil, nil
	l.dead.Store(false)
	defer l.dead.Store(true)
	if len(m.Files)+len(m.Segments) == 0 {
		_, _ = l.repo.Save(context.Background(), &c, nil)
	}
}

// spoil changes a manifest that was read and is about to be restored at another parallelism.
func (l *life) spoil(m *checkpoint.Manifest, parallelism int) {
	if l.w.spoils != nil {
		l.w.spoils(m)
	}
	switch l.w.bug {
	case bugWatermark:
		for i := range m.Sources {
			s := &m.Sources[i]
			s.Clock = vec.MinTime
			for k := range s.Splits {
				s.Splits[k].Watermark, s.Splits[k].Shown = vec.MinTime, vec.MinTime
			}
		}
	case bugTimer:
		// What ends first in each operator with windows is never looked at again.
		for i := range m.Tail {
			first := ""
			each(m.Tail[i].Changes, func(x state.Change) {
				if x.Kind == state.ChangePut && len(x.Key) >= 8 && (first == "" || string(x.Key[:8]) < first) {
					first = string(x.Key[:8])
				}
			})
			if first != "" && windowed(m, m.Tail[i].Operator) {
				m.Tail[i] = filter(m.Tail[i:i+1], func(x state.Change) bool {
					return x.Kind != state.ChangePut || len(x.Key) < 8 || string(x.Key[:8]) != first
				})[0]
			}
		}
	case bugKeyGroup:
		if parallelism == m.Parallelism {
			return
		}
		lo, _ := state.Groups(parallelism-1, m.MaxParallelism, parallelism)
		m.Tail = filter(m.Tail, func(x state.Change) bool { return x.Group < lo || x.Group >= lo+m.MaxParallelism/8 })
	case bugTwice:
		for i := range m.Sinks {
			for k := range m.Sinks[i].Pending {
				m.Sinks[i].Pending[k].Lineage += "'"
			}
		}
	}
}

// windowed reports whether the keys of an operator's states begin with the end of a window.
func windowed(m *checkpoint.Manifest, op uint16) bool {
	for _, o := range m.Operators {
		if o.ID == op && len(o.States) > 0 && len(o.States[0].Key) > 0 {
			n := o.States[0].Key[0].Name
			return n == "end" || n == "slice_end" || n == "window_end"
		}
	}
	return false
}

func each(changes []byte, f func(state.Change)) {
	if err := state.EachChange(changes, func(x state.Change) error { f(x); return nil }); err != nil {
		panic(err)
	}
}

// filter returns the changes that keep holds for.
func filter(tail []checkpoint.Tail, keep func(state.Change) bool) []checkpoint.Tail {
	out := slices.Clone(tail)
	for i := range out {
		var d state.Delta
		each(out[i].Changes, func(x state.Change) {
			switch {
			case !keep(x):
			case x.Kind == state.ChangePut:
				d.Put(x.State, x.Group, x.Key, x.Value)
			case x.Kind == state.ChangeDelete:
				d.Delete(x.State, x.Group, x.Key)
			default:
				d.DeletePrefix(x.State, x.Group, x.Key)
			}
		})
		out[i].Changes = d.Take()
	}
	return out
}

func hashOf(x state.Change) uint64 {
	h := uint64(x.Group)
	for _, b := range x.Key {
		h = mix(h ^ uint64(b))
	}
	for _, b := range x.Value {
		h = mix(h ^ uint64(b))
	}
	return h
}
