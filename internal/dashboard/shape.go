package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// several refuses to choose between rows that fall on one point.
func (t *tile) several(what string) error {
	return fmt.Errorf("several rows fall together in %s; say how they add up, as in sum(%s), or tell them apart with by", what, t.value.column)
}

// number makes the number of the newest window, or of all windows that the tile names.
func (t *tile) number(d *Data, ps []point) error {
	d.Number = &NumberData{}
	n := d.Number
	last := ps[len(ps)-1]
	own := newest(ps, 1)
	switch {
	case t.span.all || t.span.ms > 0:
		own = ps
	case t.span.windows > 0:
		own = newest(ps, t.span.windows)
	}
	if t.value.fn == "" {
		own = newest(ps, 1)
		if len(own) > 1 {
			return t.several("one window")
		}
	}
	sum := adder{fn: t.value.fn}
	for _, p := range own {
		sum.add(p.v, p.count)
		d.Tally.count(p.state)
		n.Revision = max(n.Revision, p.revision)
		n.Idle = n.Idle || p.idle
	}
	n.Value = jsonValue(sum.result())
	if t.value.fn == "" {
		n.Value = jsonValue(own[0].v)
	}
	n.State = string(d.Tally.worst())
	n.Timed, n.From, n.To = last.w.known, own[0].w.start, last.w.end
	if len(own) > 1 {
		n.Revision = 0 // of no single cell
	}
	states := strings.Builder{}
	course := windowsOf(ps)
	for _, w := range course[max(0, len(course)-maxSpark):] {
		part, tally := adder{fn: t.value.fn}, Tally{}
		for _, p := range w {
			part.add(p.v, p.count)
			tally.count(p.state)
		}
		n.Spark = append(n.Spark, jsonValue(part.result()))
		states.WriteByte(tally.worst())
	}
	n.Windows = len(windowsOf(own))
	n.States = states.String()
	d.Idle = idleWindows(own)
	return nil
}

// windowsOf cuts points, which are sorted, into windows.
func windowsOf(ps []point) (out [][]point) {
	for i := 0; i < len(ps); {
		k := i + 1
		for k < len(ps) && ps[k].w == ps[i].w {
			k++
		}
		out = append(out, ps[i:k])
		i = k
	}
	return out
}

func idleWindows(ps []point) (n int) {
	for _, w := range windowsOf(ps) {
		if slices.ContainsFunc(w, func(p point) bool { return p.idle }) {
			n++
		}
	}
	return n
}

// series makes lines: of each name a value a window.
func (t *tile) series(d *Data, ps []point) error {
	s := &SeriesData{}
	d.Series = s
	windows := windowsOf(ps)
	lines := map[string]*Line{}
	idle := strings.Builder{}
	for i, w := range windows {
		s.Start, s.End, s.Gen = append(s.Start, w[0].w.start), append(s.End, w[0].w.end), append(s.Gen, w[0].gen)
		mark := byte('0')
		for _, p := range w {
			if p.idle {
				mark = '1'
			}
			l := lines[p.by]
			if l == nil {
				l = &Line{Name: p.by, Values: make([]any, len(windows)), Revisions: make([]int64, len(windows)), States: strings.Repeat(" ", len(windows))}
				lines[p.by] = l
			}
			if l.States[i] != ' ' {
				return t.several("window " + timeOf(p.w.start) + ", " + cmp.Or(p.by, "without by"))
			}
			l.Values[i], l.Revisions[i] = jsonValue(t.single(p)), p.revision
			l.States = l.States[:i] + string(p.state) + l.States[i+1:]
			d.Tally.count(p.state)
		}
		idle.WriteByte(mark)
	}
	s.Idle = idle.String()
	d.Idle = strings.Count(s.Idle, "1")
	names := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(lines[b]), weight(lines[a])), cmp.Compare(a, b))
	})
	limit := cmp.Or(t.Limit, defaultLines)
	if len(names) > limit {
		d.Note = fmt.Sprintf("%d smaller lines are not shown (limit %d)", len(names)-limit, limit)
		names = names[:limit]
	}
	slices.Sort(names) // so that colours stay with their names
	for _, n := range names {
		s.Lines = append(s.Lines, *lines[n])
	}
	return nil
}

// single is the value of a point by itself.
func (t *tile) single(p point) any {
	if t.value.fn != "avg" {
		return p.v
	}
	a := adder{fn: "avg"}
	a.add(p.v, p.count)
	return a.result()
}

// weight orders lines by their size.
func weight(l *Line) (sum float64) {
	for _, v := range l.Values {
		f, _ := numberOf(v)
		sum += max(f, -f)
	}
	return sum
}

func timeOf(ms int64) string { return timeText(time.UnixMilli(ms)) }

// bars makes a bar a name, of all windows that the tile shows.
func (t *tile) bars(d *Data, ps []point) error {
	type pile struct {
		sum      adder
		tally    Tally
		only     any
		revision int64
		n        int
		idle     bool
	}
	piles := map[string]*pile{}
	for _, p := range ps {
		x := piles[p.by]
		if x == nil {
			x = &pile{sum: adder{fn: t.value.fn}}
			piles[p.by] = x
		}
		if x.n > 0 && t.value.fn == "" {
			return t.several(p.by)
		}
		x.sum.add(p.v, p.count)
		x.tally.count(p.state)
		x.only, x.revision = p.v, p.revision
		x.idle = x.idle || p.idle
		x.n++
	}
	for name, x := range piles {
		b := Bar{Name: name, Value: x.sum.result(), State: string(x.tally.worst()), Windows: x.n, Idle: x.idle}
		if t.value.fn == "" {
			b.Value = x.only
		}
		if x.n == 1 {
			b.Revision = x.revision
		}
		d.Tally.count(x.tally.worst())
		d.Bars = append(d.Bars, b)
	}
	slices.SortFunc(d.Bars, func(a, b Bar) int {
		return cmp.Or(compareValues(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	limit := cmp.Or(t.Limit, defaultBars)
	if len(d.Bars) > limit {
		d.Note = fmt.Sprintf("%d smaller bars are not shown (limit %d)", len(d.Bars)-limit, limit)
		d.Bars = d.Bars[:limit]
	}
	for i := range d.Bars {
		d.Bars[i].Value = jsonValue(d.Bars[i].Value)
	}
	d.Idle = idleWindows(ps)
	return nil
}
