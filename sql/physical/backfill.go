package physical

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/opt"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// backfilled keeps the windows that a backfill is about, by column start.
func (b *builder) backfilled(in *node, start int, t *table) *node {
	var conds []expr.Expr
	cond := func(fn string, args ...expr.Expr) expr.Expr {
		return &expr.Call{Fn: fn, T: types.BooleanType.AsNullable(), Args: args}
	}
	bound := func(fn string, ms int64) expr.Expr {
		f := in.Schema.Fields[start]
		return cond(fn, &expr.Column{Index: start, Name: f.Name, T: f.Type}, &expr.Literal{Value: types.TS(ms, 0), T: types.TimestampType(3).NotNull()})
	}
	for _, x := range [...]struct{ key, fn string }{{catalog.KeyBackfillFrom, ">="}, {catalog.KeyBackfillTo, "<"}} {
		text := strings.TrimSpace(b.cfg.Get(x.key))
		if text == "" {
			continue
		}
		if start < 0 {
			b.fail(t.pos, "'%s' bounds windows, but table `%s` has no column with their start", x.key, t.cat.Name()).
				WithHint("select window_start into it, or leave out the bounds")
			return nil
		}
		ms, ok := timestampMs(text)
		if !ok {
			b.fail(t.pos, "'%s' cannot be '%s'", x.key, text).WithHint("write 2013-01-31 or 2013-01-31 12:00:00")
			return nil
		}
		conds = append(conds, bound(x.fn, ms))
	}
	key := catalog.KeyBackfillWindows + t.cat.Name()
	spans, err := spansOf(b.cfg.Get(key))
	if err != nil || spans != nil && start < 0 {
		if err == nil {
			err = fmt.Errorf("the table has no column with the start of a window")
		}
		b.fail(t.pos, "'%s' does not say which windows of table `%s` are written: %s", key, t.cat.Name(), err)
		return nil
	}
	var some expr.Expr
	for _, x := range spans {
		var one expr.Expr = &expr.Literal{Value: true, T: types.BooleanType.NotNull()}
		switch {
		case x[0] != vec.MinTime && x[1] != vec.MaxTime:
			one = cond("AND", bound(">=", x[0]), bound("<", x[1]))
		case x[0] != vec.MinTime:
			one = bound(">=", x[0])
		case x[1] != vec.MaxTime:
			one = bound("<", x[1])
		}
		if some == nil {
			some = one
		} else {
			some = cond("OR", some, one)
		}
	}
	if some != nil {
		conds = append(conds, some)
	}
	if conds == nil {
		return in
	}
	exprs := make([]expr.Expr, in.Schema.Len())
	for i, f := range in.Schema.Fields {
		exprs[i] = &expr.Column{Index: i, Name: f.Name, T: f.Type}
	}
	return b.calcOver(in, opt.And(conds...), exprs, in.Schema.Names())
}

// spansOf reads FROM/TO, FROM/TO: numbers of ms, nothing being open. nil stands for all.
func spansOf(text string) ([][2]int64, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out [][2]int64
	for part := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(strings.TrimSpace(part), "/")
		span := [2]int64{vec.MinTime, vec.MaxTime}
		for i, s := range [2]string{from, to} {
			if s == "" {
				continue
			}
			var err error
			if span[i], err = strconv.ParseInt(s, 10, 64); err != nil {
				ok = false
			}
		}
		if !ok {
			return nil, fmt.Errorf("%q is not FROM/TO in ms", part)
		}
		out = append(out, span)
	}
	return out, nil
}

// timestampMs reads the text of a local time.
func timestampMs(text string) (int64, bool) {
	for _, layout := range [...]string{"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05.999", "2006-01-02T15:04", "2006-01-02T15:04:05.999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}
