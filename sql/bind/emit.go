package bind

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// emitKeys are the keys of the hint EMIT and of SET 'tidemark.emit.SINK.*'.
var emitKeys = []option.Spec{
	{Name: "allowed-lateness", Kind: option.Duration},
	{Name: "early-fire", Kind: option.Duration},
	{Name: "early-fire-rows", Kind: option.Int},
	{Name: "late-fire", Kind: option.Duration},
	{Name: "late-fire-rows", Kind: option.Int},
	{Name: "late-sink"},
	{Name: "final-only", Kind: option.Bool},
	{Name: "unmatched-after", Kind: option.Duration},
	{Name: "unmatched-sink"},
}

// emitHint reads the hints EMIT of a select block; nil without one. Several are like one with all their options.
func (b *Binder) emitHint(q *ast.Select) (*logical.Emit, error) {
	e := &logical.Emit{}
	var given []*ast.Option
	for _, h := range q.Hints {
		if !strings.EqualFold(h.Name.Name, "EMIT") {
			continue
		}
		if len(h.Options) == 0 || len(h.Args) > 0 {
			return nil, errAt(h.Span, "the hint EMIT needs options").WithHint("write EMIT('allowed-lateness' = '10 min')")
		}
		hint := &logical.EmitHint{Pos: pos(h.Span)}
		for _, o := range h.Options {
			if slices.ContainsFunc(given, func(p *ast.Option) bool { return p.Key.Value == o.Key.Value }) {
				return nil, errAt(o.Key.Span, "option '%s' is given twice", o.Key.Value)
			}
			given = append(given, o)
			if err := b.emitOption(e, "", o.Key.Value, o.Value.Value, o.Key.Span, o.Value.Span); err != nil {
				return nil, err
			}
			hint.Options = append(hint.Options, logical.EmitOption{Key: o.Key.Value, Value: o.Value.Value, Pos: pos(o.Span)})
		}
		e.Hints = append(e.Hints, hint)
	}
	if given == nil {
		return nil, nil
	}
	for _, o := range given {
		if err := contradiction(e, "", o.Key.Value, o.Span); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// contradiction refuses an option where e asks for one result of a window, and it for more than one. prefix is what
// stands before the key where it is written.
func contradiction(e *logical.Emit, prefix, key string, at sqlerr.Span) error {
	if e.FinalOnly == nil || !*e.FinalOnly || !strings.HasPrefix(key, "early-fire") && !strings.HasPrefix(key, "late-fire") {
		return nil
	}
	return errAt(at, "'%s%s' has no effect beside '%sfinal-only', which shows a window once", prefix, key, prefix).
		WithHint("leave out one of them")
}

// sinkEmit reads SET 'tidemark.emit.SINK.*' for an INSERT into the table called name; nil where nothing
// is set.
func (b *Binder) sinkEmit(name string, at sqlerr.Span) (*logical.Emit, error) {
	prefix := "tidemark.emit." + name + "."
	set := b.cfg.Prefix(prefix)
	if len(set) == 0 {
		return nil, nil
	}
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e := &logical.Emit{Hints: []*logical.EmitHint{{Set: prefix + keys[0], Pos: pos(at)}}}
	for _, k := range keys {
		if err := b.emitOption(e, prefix, k, set[k], at, at); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		if err := contradiction(e, prefix, k, at); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// emitOption sets one key in e. prefix is what stands before the key where it is written.
func (b *Binder) emitOption(e *logical.Emit, prefix, key, value string, keyAt, valueAt sqlerr.Span) error {
	i := slices.IndexFunc(emitKeys, func(s option.Spec) bool { return s.Name == key })
	if i < 0 {
		var names []string
		for _, s := range emitKeys {
			names = append(names, s.Name)
		}
		return errAt(keyAt, "unknown option '%s%s' of EMIT", prefix, key).WithHint("%s", suggest(key, names, "its options are "))
	}
	wrong := func(hint string) error {
		return errAt(valueAt, "option '%s%s' cannot be '%s'", prefix, key, value).WithHint("%s", hint)
	}
	switch emitKeys[i].Kind {
	case option.Duration:
		d, err := option.ParseDuration(value)
		if err != nil || d < 0 {
			return wrong("write a number and a unit: 500 ms, 10 s, 5 min")
		}
		ms := d.Milliseconds()
		switch key {
		case "allowed-lateness":
			e.LatenessMs = &ms
		case "early-fire":
			e.EarlyMs = &ms
		case "late-fire":
			e.LateMs = &ms
		default:
			return unsupported(keyAt, "'"+prefix+key+"'")
		}
	case option.Int:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 1 {
			return wrong("write a number of rows, 1 or more")
		}
		if key == "early-fire-rows" {
			e.EarlyRows = &n
		} else {
			e.LateRows = &n
		}
	case option.Bool:
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "true", "false":
			on := strings.EqualFold(strings.TrimSpace(value), "true")
			e.FinalOnly = &on
		default:
			return wrong("write 'true' or 'false'")
		}
	default:
		if key != "late-sink" {
			return unsupported(keyAt, "'"+prefix+key+"'")
		}
		return b.lateSink(e, value, valueAt)
	}
	return nil
}

// lateSink finds the table that takes late rows.
func (b *Binder) lateSink(e *logical.Emit, name string, at sqlerr.Span) error {
	n := ast.NewName(strings.Split(name, ".")...)
	n.Span = at
	for i := range n.Parts {
		n.Parts[i].Name, n.Parts[i].Span = strings.Trim(n.Parts[i].Name, "`"), at
	}
	t, err := b.target(n)
	if err != nil {
		return err
	}
	if err := b.checkTable(t, nil, at, writing); err != nil {
		return err
	}
	if _, results := t.FilledColumns(b.cfg.TableOptions(t, nil)); results {
		return errAt(at, "table %s holds revisions of results, and late rows have none", t.Name()).
			WithHint("take a table of its own for late rows")
	}
	e.LateSink, e.LateSinkPos = t, pos(at)
	return nil
}

// withEmit returns n, the tree of a query, with what e says noted at its aggregations, and how many there are. What was
// said within the query before is stronger.
func (b *Binder) withEmit(n logical.Node, e *logical.Emit) (logical.Node, int) {
	if e == nil {
		return n, 0
	}
	found := 0
	done := map[logical.Node]logical.Node{}
	var walk func(n logical.Node) logical.Node
	walk = func(n logical.Node) logical.Node {
		if d := done[n]; d != nil {
			return d
		}
		out := n
		switch n := n.(type) {
		case *logical.Filter:
			c := *n
			c.Input, out = walk(n.Input), &c
		case *logical.Project:
			c := *n
			c.Input, out = walk(n.Input), &c
		case *logical.WindowTVF:
			c := *n
			c.Input, out = walk(n.Input), &c
		case *logical.Sort:
			c := *n
			c.Input, out = walk(n.Input), &c
		case *logical.RowNumber:
			c := *n
			c.Input, out = walk(n.Input), &c
		case *logical.Join:
			c := *n
			c.L, c.R, out = walk(n.L), walk(n.R), &c
		case *logical.Union:
			c := &logical.Union{}
			for _, in := range n.All {
				c.All = append(c.All, walk(in))
			}
			out = c
		case *logical.Aggregate:
			c := *n
			c.Input, out = walk(n.Input), &c
			c.Emit = n.Emit.Over(e)
			found++
			if c.Late == nil && c.Emit.LateSink != nil && !b.cfg.BatchMode() {
				b.late(&c)
			}
		}
		done[n] = out
		return out
	}
	return walk(n), found
}

// late notes how the rows that a is given go into the table of a.Emit. Columns of the table are found by
// name in the rows behind FROM and WHERE.
func (b *Binder) late(a *logical.Aggregate) {
	at := sqlerr.Span{Start: a.Emit.LateSinkPos.Start, End: a.Emit.LateSinkPos.End}
	t := a.Emit.LateSink
	l := &logical.Late{Table: t, Pos: a.Emit.LateSinkPos}
	a.Late = l
	rows := a.Input
	made, _ := a.Input.(*logical.Project)
	if a.Made && made != nil {
		c := *made
		c.Exprs, c.Names = slices.Clone(made.Exprs), slices.Clone(made.Names)
		made, rows, a.Input = &c, made.Input, &c
	} else {
		made = nil
	}
	s := rows.Schema()
	spec := t.SpecOf(b.cfg.TableOptions(t, nil))
	filled, _ := t.FilledColumns(spec.Options)
	keyOf := map[string]string{}
	for _, f := range filled {
		keyOf[f.Name] = f.Key
	}
	take := func(name string, want types.Type) {
		e, ok := b.lateColumn(l, made, s, name, keyOf[name])
		l.Names = append(l.Names, name)
		if !ok {
			if l.Err == nil {
				l.Err = errAt(at, "the late rows for table %s have no column %s", t.Name(), name).
					WithHint("%s", suggest(name, append(s.Names(), catalog.LateKeys()...), "they have "))
				l.Lacks = want.Nullable
			}
			l.Lacks = l.Lacks && want.Nullable
			l.Exprs = append(l.Exprs, &expr.Literal{T: want.AsNullable().WithoutAttr()})
			return
		}
		x, ok := b.coerceTo(e, want, at)
		if !ok {
			l.Err, l.Lacks = errAt(at, "column %s of table %s is %s, but that of the late rows is %s", name, t.Name(),
				bare(want.AsNullable()), bare(e.Type().AsNullable())).WithHint("declare it as %s", bare(e.Type().AsNullable())), false
			x = &expr.Literal{T: want.AsNullable().WithoutAttr()}
		}
		l.Exprs = append(l.Exprs, x)
	}
	for _, c := range spec.Columns {
		take(c.Name, c.Type)
	}
	for _, m := range spec.Metadata {
		if m.Virtual {
			continue
		}
		if s.Index(m.Name) >= 0 {
			take(m.Name, m.Type)
			continue
		}
		l.Names, l.Exprs = append(l.Names, m.Name), append(l.Exprs, &expr.Literal{T: m.Type.AsNullable()})
	}
	l.Width = len(l.Cols)
	for i, e := range l.Exprs { // lateColumn did not know Width yet
		l.Exprs[i] = expr.Map(e, func(e expr.Expr) expr.Expr {
			if c, ok := e.(*expr.Column); ok && c.Index < 0 {
				return &expr.Column{Index: l.Width - 1 - c.Index, Name: c.Name, T: c.T}
			}
			return e
		})
	}
}

// lateColumn is the column of a late row that a table calls name: over l.Cols, or -1-k for plan.LateColumns[k].
// made is the projection below the aggregation, which gets the column where it lacks it; nil: it has all
// columns of s. The window that a row missed goes before a column of the row with that name.
func (b *Binder) lateColumn(l *logical.Late, made *logical.Project, s types.Schema, name, key string) (expr.Expr, bool) {
	own := key
	at := s.Index(name)
	if own == "" && (at < 0 || name == "window_start" || name == "window_end") {
		own = name
	}
	if own != "" {
		if k := slices.Index(catalog.LateKeys(), own); k >= 0 {
			f := plan.LateColumns[k]
			return &expr.Column{Index: -1 - k, Name: f.Name, T: f.Type}, true
		}
	}
	if at < 0 {
		return nil, false
	}
	f := s.Fields[at]
	if made != nil {
		in := slices.IndexFunc(made.Exprs, func(e expr.Expr) bool {
			c, ok := e.(*expr.Column)
			return ok && c.Index == at
		})
		if in < 0 {
			in = len(made.Exprs)
			made.Exprs = append(made.Exprs, &expr.Column{Index: at, Name: f.Name, T: f.Type})
			used := map[string]bool{}
			for _, n := range made.Names {
				used[n] = true
			}
			made.Names = append(made.Names, uniqueName(f.Name, used))
		}
		at = in
	}
	c := slices.Index(l.Cols, at)
	if c < 0 {
		c = len(l.Cols)
		l.Cols = append(l.Cols, at)
	}
	return &expr.Column{Index: c, Name: f.Name, T: f.Type}, true
}
