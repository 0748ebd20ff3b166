package bind

import (
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
)

// tvfParams are the parameters of the window table functions in order; those from optional on
// may be left out.
var tvfParams = map[string]struct {
	names    []string
	optional int
	usage    string
}{
	"TUMBLE": {[]string{"DATA", "TIMECOL", "SIZE", "OFFSET"}, 3,
		"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"},
	"HOP": {[]string{"DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"}, 4,
		"TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)), the slide before the size"},
	"CUMULATE": {[]string{"DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"}, 4,
		"TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)), the step before the largest size"},
	"SESSION": {[]string{"DATA", "TIMECOL", "GAP"}, 3,
		"TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE))"},
}

// tableFunc binds a window table function in FROM.
func (b *Binder) tableFunc(t *ast.TableFunc, with *ctes) (*relation, error) {
	fn := t.Call.Name.Upper()
	if t.Lateral {
		return nil, unsupported(t.Span, "LATERAL TABLE")
	}
	params, ok := tvfParams[fn]
	if !ok {
		if fn == "UNNEST" {
			return nil, unsupported(t.Span, "UNNEST")
		}
		return nil, errAt(t.Call.Name.Span, "unknown table function %s", fn).
			WithHint("%s", suggest(fn, []string{"TUMBLE", "HOP", "CUMULATE", "SESSION"}, "table functions are "))
	}
	args, err := tvfArgs(fn, t.Call)
	if err != nil {
		return nil, err
	}
	data, ok := args["DATA"].(*ast.TableArg)
	if q, sub := args["DATA"].(*ast.Subquery); sub {
		data, ok = &ast.TableArg{Span: q.Span, Query: q.Query}, true
	}
	if !ok {
		return nil, errAt(args["DATA"].Pos(), "the first argument of %s must be a table", fn).
			WithHint("write %s", params.usage)
	}
	rel, err := b.tableArg(data, with)
	if err != nil {
		return nil, err
	}
	node := &logical.WindowTVF{Input: rel.node, Pos: pos(t.Call.Span)}
	node.Window.Kind = windowKinds[fn]
	if err := b.tvfTime(node, rel, fn, args["TIMECOL"], params.usage); err != nil {
		return nil, err
	}
	s := &scope{b: b, rel: &relation{}, clause: fn}
	if err := s.tvfSizes(&node.Window, fn, args); err != nil {
		return nil, err
	}
	if err := b.tvfPartition(node, rel, fn, data); err != nil {
		return nil, err
	}
	return alias(tvfOutput(node, rel), t.Alias)
}

// tvfArgs gives the arguments their names, whether they were written by position or by name.
func tvfArgs(fn string, call *ast.FuncCall) (map[string]ast.Expr, error) {
	p := tvfParams[fn]
	out := map[string]ast.Expr{}
	for i, arg := range call.Args {
		named, ok := arg.(*ast.NamedArg)
		if !ok {
			if i >= len(p.names) {
				return nil, errAt(arg.Pos(), "%s takes at most %d arguments", fn, len(p.names)).WithHint("write %s", p.usage)
			}
			out[p.names[i]] = arg
			continue
		}
		name := strings.ToUpper(named.Name.Name)
		known := false
		for _, n := range p.names {
			known = known || n == name
		}
		if !known {
			return nil, errAt(named.Name.Span, "%s has no parameter %s", fn, named.Name.Name).
				WithHint("%s", suggest(name, p.names, "its parameters are "))
		}
		if out[name] != nil {
			return nil, errAt(named.Span, "parameter %s of %s is given twice", name, fn)
		}
		out[name] = named.Value
	}
	for _, n := range p.names[:p.optional] {
		if out[n] == nil {
			return nil, errAt(call.Span, "%s lacks its argument %s", fn, n).WithHint("write %s", p.usage)
		}
	}
	return out, nil
}

func (b *Binder) tableArg(a *ast.TableArg, with *ctes) (*relation, error) {
	if a.OrderBy != nil {
		return nil, unsupported(a.Span, "ORDER BY of a table argument")
	}
	if a.Query != nil {
		rel, err := b.query(a.Query, with)
		if err != nil {
			return nil, err
		}
		return rel.qualified(nil), nil
	}
	return b.named(a.Name, a.Hints, with)
}

// tvfTime binds DESCRIPTOR(ts).
func (b *Binder) tvfTime(node *logical.WindowTVF, rel *relation, fn string, arg ast.Expr, usage string) error {
	d, ok := arg.(*ast.Descriptor)
	if !ok || len(d.Columns) != 1 {
		return errAt(arg.Pos(), "the time column of %s must be a DESCRIPTOR of one column", fn).
			WithHint("write %s", usage)
	}
	s := &scope{b: b, rel: rel, clause: "DESCRIPTOR"}
	x, err := s.name(d.Columns[0])
	if err != nil {
		return err
	}
	c, ok := x.(*expr.Column)
	if !ok {
		return errAt(d.Span, "%s needs a column, not a field of one", fn).
			WithHint("add a computed column for it to the table, and WATERMARK FOR that")
	}
	return b.timeColumn(&node.Window, c, fn, d.Columns[0].Span, rel)
}

// tvfSizes binds the intervals.
func (s *scope) tvfSizes(w *plan.Window, fn string, args map[string]ast.Expr) error {
	var err error
	size := "SIZE"
	if fn == "SESSION" {
		size = "GAP"
	}
	if w.Size, err = s.length(args[size], fn); err != nil {
		return err
	}
	for _, n := range []string{"SLIDE", "STEP"} {
		if args[n] == nil {
			continue
		}
		if w.Step, err = s.length(args[n], fn); err != nil {
			return err
		}
	}
	if fn == "CUMULATE" && w.Size%w.Step != 0 {
		return errAt(args["SIZE"].Pos(), "the largest size of CUMULATE must be a multiple of its step").
			WithHint("the step comes first: CUMULATE(TABLE t, DESCRIPTOR(ts), step, size)")
	}
	if args["OFFSET"] == nil {
		return nil
	}
	if w.Offset, err = s.interval(args["OFFSET"], fn); err != nil {
		return err
	}
	if w.Offset >= w.Size || -w.Offset >= w.Size {
		return errAt(args["OFFSET"].Pos(), "the offset of %s must be smaller than its size", fn)
	}
	return nil
}

// tvfPartition binds PARTITION BY of the table argument, which sessions go by.
func (b *Binder) tvfPartition(node *logical.WindowTVF, rel *relation, fn string, data *ast.TableArg) error {
	if len(data.PartitionBy) == 0 {
		return nil
	}
	if fn != "SESSION" {
		return errAt(data.PartitionBy[0].Pos(), "%s takes no PARTITION BY", fn).
			WithHint("its windows are the same for all keys; write the column in GROUP BY")
	}
	s := &scope{b: b, rel: rel, clause: "PARTITION BY"}
	for _, e := range data.PartitionBy {
		x, err := s.bind(e)
		if err != nil {
			return err
		}
		c, ok := x.(*expr.Column)
		if !ok {
			return errAt(e.Pos(), "PARTITION BY of %s needs a column", fn).
				WithHint("compute it in a view, or pass (SELECT ...) as the table")
		}
		node.Window.PartitionKeys = append(node.Window.PartitionKeys, c.Index)
	}
	return nil
}

// tvfOutput is the scope behind a window function: the input's columns, whose time attributes are
// lost, and those of the window.
func tvfOutput(node *logical.WindowTVF, in *relation) *relation {
	out := relationOf(node)
	for i, c := range in.cols {
		c.typ = c.typ.WithoutAttr()
		c.win = notWindow
		out.cols[i] = c
	}
	n := len(in.cols)
	out.cols[n].win, out.cols[n+1].win, out.cols[n+2].win = windowStart, windowEnd, windowTime
	return out
}
