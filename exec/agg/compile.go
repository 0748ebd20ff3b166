package agg

import (
	"fmt"
	"slices"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// maxFilters is how many different FILTERs aggregates over one DISTINCT may have: bits of a word.
const maxFilters = 64

// source is where the values of an aggregate come from: rows, or a set of distinct values.
type source struct {
	s    *Set
	call *plan.AggCall
	in   types.Schema
	cols []int // where the slot finds its arguments
	sel  int   // the selection that feeds it; -1 for a set
	v    *valueSpec
	bit  int
}

func (s *Set) compile(c *plan.AggCall, in types.Schema) (output, error) {
	src := &source{s: s, call: c, in: in}
	var cols []int
	for _, a := range c.Args {
		if a >= 0 {
			cols = append(cols, a)
		}
	}
	src.cols = cols
	var notNull []int
	keepsNull := c.Fn == "ARRAY_AGG" || c.Fn == "JSON_ARRAYAGG" || c.Fn == "JSON_OBJECTAGG" ||
		c.Fn == "SINGLE_VALUE"
	for _, col := range cols {
		if in.Fields[col].Type.Nullable && !keepsNull {
			notNull = append(notNull, col)
		}
	}
	switch {
	case c.Distinct && c.Fn != "MIN" && c.Fn != "MAX":
		src.v, src.bit = s.valuesOf(in, cols, notNull, c.Filter)
		if src.bit >= maxFilters {
			return nil, fmt.Errorf("more than %d different FILTERs over one DISTINCT are not supported yet",
				maxFilters)
		}
		src.sel = -1
		src.cols = nil
		for i := range cols {
			src.cols = append(src.cols, i)
		}
	default:
		src.sel = s.selection(selection{filter: c.Filter, notNull: notNull})
	}
	return src.output()
}

// slot returns the slot described by key for this source.
func (f *source) slot(key string, make func() slot) int {
	if f.v == nil {
		return f.s.slotFor(key, f.sel, make)
	}
	key = fmt.Sprintf("%s of set %d filter %d", key, f.s.index(f.v), f.bit)
	n := len(f.s.slots)
	i := f.s.slotFor(key, -1, make)
	if i == n {
		_, isCount := f.s.slots[i].(countSlot)
		f.v.consumers = append(f.v.consumers, consumer{filter: f.bit, slot: i, values: !isCount, heap: -1})
	}
	return i
}

func (f *source) count() int {
	return f.slot("count", func() slot { return countSlot{} })
}

func (s *Set) count(sel selection) int {
	return s.slotFor("count", s.selection(sel), func() slot { return countSlot{} })
}

// present says when the result is NULL: where no value came, if that can be.
func (f *source) present() present {
	if !f.call.T.Nullable && !f.s.opt.Retract {
		return present{f.s, -1}
	}
	return present{f.s, f.count()}
}

func (f *source) arg() types.Type { return f.in.Fields[f.call.Args[0]].Type }

func (f *source) output() (output, error) {
	c := f.call
	switch c.Fn {
	case "COUNT":
		n := f.count()
		return &countOut{f.s, n, f.v == nil && c.Filter < 0 && f.s.selections[f.sel].notNull == nil}, nil
	case "SUM", "SUM0", "$SUM0":
		return f.sum()
	case "AVG":
		return f.avg()
	case "MIN", "MAX":
		return f.extreme(c.Fn == "MAX")
	case "FIRST_VALUE", "LAST_VALUE":
		return f.pick(c.Fn == "LAST_VALUE")
	case "SINGLE_VALUE":
		i := f.slot("single", func() slot { return &single{pick{col: f.cols[0]}} })
		return &singleOut{f.s, i}, nil
	case "LISTAGG", "STRING_AGG":
		sep := ","
		if len(c.Consts) > 1 && c.Consts[1] != nil {
			s, ok := c.Consts[1].Value.(string)
			if !ok {
				return nil, fmt.Errorf("the separator must be a string that is not NULL")
			}
			sep = s
		} else if len(f.cols) > 1 {
			return nil, fmt.Errorf("a separator that is not a constant is not supported yet")
		}
		return &joinOut{f.list(f.cols[:1]), sep}, nil
	case "ARRAY_AGG":
		return &arrayOut{f.list(f.cols)}, nil
	case "COLLECT":
		return &multisetOut{f.list(f.cols)}, nil
	case "JSON_ARRAYAGG", "JSON_OBJECTAGG":
		return f.json()
	case "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP":
		return f.variance()
	case "APPROX_COUNT_DISTINCT", "APPROX_PERCENTILE", "PERCENTILE":
		return f.sketch()
	}
	return nil, fmt.Errorf("not supported yet")
}

func (f *source) sumSlot(square bool) (int, error) {
	t, col := f.arg(), f.cols[0]
	key := fmt.Sprintf("sum%v of %d", square, col)
	switch {
	case t.Kind == types.Decimal:
		return f.slot(key, func() slot {
			return &sumDecimal{col: col, wide: t.Phys() == types.PI128, square: square}
		}), nil
	case t.IsInteger() && t.Phys() == types.PI32:
		return f.slot(key, func() slot { return &sumInt[int32]{col, square} }), nil
	case t.IsInteger():
		return f.slot(key, func() slot { return &sumInt[int64]{col, square} }), nil
	case t.Kind == types.Double:
		f.s.ordered = true
		return f.slot(key, func() slot { return &sumDouble[float64]{col, square} }), nil
	case t.Kind == types.Float:
		f.s.ordered = true
		return f.slot(key, func() slot { return &sumFloat{col, square} }), nil
	}
	return 0, fmt.Errorf("%s cannot be added up", t)
}

func (f *source) sum() (output, error) {
	p := f.present()
	if f.call.Fn != "SUM" {
		p.n = -1
	}
	i, err := f.sumSlot(false)
	switch t := f.arg(); {
	case err != nil:
		return nil, err
	case t.Kind == types.Decimal:
		return &sumDecimalOut{wideOut{p, i}}, nil
	case t.IsInteger():
		return &intOut{p, i, f.call.T.Kind}, nil
	default:
		return &floatOut{present: p, slot: i, single: t.Kind == types.Float}, nil
	}
}

func (f *source) avg() (output, error) {
	p := present{f.s, f.count()}
	t := f.arg()
	if t.Kind == types.Float {
		// Flink adds FLOATs up in DOUBLE for AVG.
		f.s.ordered = true
		col := f.cols[0]
		i := f.slot(fmt.Sprintf("double sum of %d", col), func() slot { return &sumDouble[float32]{col, false} })
		return &floatOut{present: p, slot: i, avg: true}, nil
	}
	i, err := f.sumSlot(false)
	switch {
	case err != nil:
		return nil, err
	case t.Kind == types.Decimal:
		return &avgDecimalOut{p, i, f.call.T.Scale - t.Scale}, nil
	case t.IsInteger():
		return &avgIntOut{p, i, f.call.T.Kind}, nil
	default:
		return &floatOut{present: p, slot: i, avg: true}, nil
	}
}

func (f *source) variance() (output, error) {
	p := present{f.s, f.count()}
	sum, err := f.sumSlot(false)
	if err != nil {
		return nil, err
	}
	sq, err := f.sumSlot(true)
	if err != nil {
		return nil, err
	}
	fn := f.call.Fn
	return &varianceOut{present: p, sum: sum, squares: sq, arg: f.arg(), scale: f.call.T.Scale,
		sample: fn == "STDDEV_SAMP" || fn == "VAR_SAMP",
		root:   fn == "STDDEV_POP" || fn == "STDDEV_SAMP"}, nil
}

func (f *source) extreme(max bool) (output, error) {
	if f.s.opt.Retract {
		return f.heap(max), nil
	}
	t, col := f.arg(), f.cols[0]
	p := f.present()
	key := fmt.Sprintf("extreme %v of %d", max, col)
	if f.s.opt.Sliding {
		return f.deque(max, key, p, t)
	}
	switch t.Phys() {
	case types.PI32:
		return &intOut{p, f.slot(key, func() slot { return &extreme[int32]{col, max} }), types.Int}, nil
	case types.PI64:
		return &intOut{p, f.slot(key, func() slot { return &extreme[int64]{col, max} }), types.BigInt}, nil
	case types.PI128:
		return &wideOut{p, f.slot(key, func() slot { return &extreme128{col, max} })}, nil
	case types.PF32:
		return &floatOut{present: p, slot: f.slot(key, func() slot { return &extremeFloat[float32]{col, max} })}, nil
	case types.PF64:
		return &floatOut{present: p, slot: f.slot(key, func() slot { return &extremeFloat[float64]{col, max} })}, nil
	case types.PBool:
		return &boolOut{p, f.slot(key, func() slot { return &extremeBool{col, max} })}, nil
	case types.PBytes:
		return &bytesOut{p, f.slot(key, func() slot { return &extremeBytes{col, max} })}, nil
	}
	return nil, fmt.Errorf("values of %s cannot be compared", t)
}

func (f *source) deque(max bool, key string, p present, t types.Type) (output, error) {
	q := &deque{max: max}
	switch t.Phys() {
	case types.PI32, types.PI64:
		q.empty = (&extreme[int64]{max: max}).init()[0]
	case types.PF32, types.PF64:
		q.float, q.empty = true, unset
	default:
		return nil, fmt.Errorf("no sliding extremes of %s", t)
	}
	return &dequeOut{p, f.slot(key, func() slot { return q })}, nil
}

// heap is MIN or MAX of rows that may be taken back.
func (f *source) heap(max bool) output {
	s := f.s
	col := f.call.Args[0]
	t := f.arg().WithoutAttr()
	var notNull []int
	if t.Nullable {
		notNull = []int{col}
	}
	v, bit := s.valuesOf(f.in, []int{col}, notNull, f.call.Filter)
	key := fmt.Sprintf("heap %v of set %d filter %d", max, s.index(v), bit)
	n := len(s.slots)
	i := s.slotFor(key, -1, func() slot { return &heapSlot{max: max} })
	c := consumer{filter: bit, slot: i, heap: v.heaps}
	if i == n {
		v.consumers = append(v.consumers, c)
		v.heaps++
	} else {
		k := slices.IndexFunc(v.consumers, func(o consumer) bool { return o.slot == i })
		c = v.consumers[k]
	}
	return &heapOut{set: s, v: v, c: c}
}

func (f *source) pick(last bool) (output, error) {
	f.s.ordered, f.s.listed = true, true
	if f.s.opt.Retract {
		return &endOut{f.list(f.cols), last}, nil
	}
	i := f.slot(fmt.Sprintf("pick %v of %d", last, f.cols[0]), func() slot {
		return &pick{col: f.cols[0], last: last}
	})
	return &pickOut{f.s, i}, nil
}

func (f *source) list(cols []int) listOut {
	f.s.ordered, f.s.listed = true, true
	i := f.slot(fmt.Sprintf("list of %v", cols), func() slot { return &list{cols: cols} })
	return listOut{f.s, i}
}

func (f *source) json() (output, error) {
	o := &jsonOut{object: f.call.Fn == "JSON_OBJECTAGG"}
	for _, a := range f.call.Args {
		o.types = append(o.types, f.in.Fields[a].Type.WithoutAttr())
	}
	if t := o.types[len(o.types)-1]; !jsonKinds(t) {
		return nil, fmt.Errorf("a value of %s in JSON is not supported yet; cast it to STRING", t)
	}
	o.absent = slices.Contains(f.call.Options, "ABSENT ON NULL") ||
		!o.object && !slices.Contains(f.call.Options, "NULL ON NULL")
	o.raw = slices.Contains(f.call.Options, "FORMAT JSON")
	o.listOut = f.list(f.cols)
	return o, nil
}

func (f *source) sketch() (output, error) {
	c := f.call
	if f.s.opt.Retract && c.Fn != "PERCENTILE" {
		return nil, fmt.Errorf("a sketch cannot take rows back; " +
			"use COUNT(DISTINCT ...) or PERCENTILE over this input, which has updates")
	}
	if c.Fn == "APPROX_COUNT_DISTINCT" {
		t := f.arg()
		return &hllOut{f.s, f.slot(fmt.Sprintf("hll of %d", f.cols[0]), func() slot {
			return newHLL(f.cols[0], t)
		})}, nil
	}
	shares, array, err := shares(c)
	if err != nil {
		return nil, err
	}
	if f.arg().Kind != types.Double {
		return nil, fmt.Errorf("needs an argument of DOUBLE, not %s", f.arg())
	}
	if c.Fn == "PERCENTILE" {
		return &percentileOut{listOut: f.list(f.cols[:1]), shares: shares, array: array}, nil
	}
	i := f.slot(fmt.Sprintf("quantiles of %d", f.cols[0]), func() slot { return &quantiles{f.cols[0]} })
	return &quantilesOut{f.s, i, shares, array}, nil
}

// shares reads the second argument of a percentile.
func shares(c *plan.AggCall) (list []float64, array bool, err error) {
	if len(c.Consts) < 2 || c.Consts[1] == nil {
		return nil, false, fmt.Errorf("the share must be a constant")
	}
	values, array := c.Consts[1].Value.([]types.Value)
	if !array {
		values = []types.Value{c.Consts[1].Value}
	}
	for _, v := range values {
		var p float64
		switch v := v.(type) {
		case float64:
			p = v
		case int64:
			p = float64(v)
		default:
			return nil, false, fmt.Errorf("the share must be a number")
		}
		if !(p >= 0 && p <= 1) {
			return nil, false, fmt.Errorf("the share must be from 0 to 1, not %v", p)
		}
		list = append(list, p)
	}
	return list, array, nil
}
