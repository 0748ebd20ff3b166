package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
	"github.com/tidemark-stream/tidemark/types"
)

// scope is where an expression stands: what its names may mean, and what is allowed in it.
type scope struct {
	b   *Binder
	rel *relation
	// clause names the place for messages, such as WHERE.
	clause string
	// aggs collects aggregate calls; nil where they are not allowed.
	aggs *aggregator
	// inAggregate names the aggregate call whose argument is being bound, or is empty.
	inAggregate string
	// subs takes sub-queries as values; nil where they are not allowed.
	subs *subqueries
}

// item binds an expression that passes a bare column, or the time of a window, on with its time
// attribute: an item of a select list, a descriptor, a group key.
func (s *scope) item(e ast.Expr) (expr.Expr, error) {
	switch e := e.(type) {
	case *ast.Name:
		return s.name(e)
	case *ast.FuncCall:
		if fn := e.Name.Upper(); e.Over == nil && len(e.Name.Parts) == 1 {
			if _, _, ok := splitWindowAux(fn); ok {
				return s.windowAux(fn, e)
			}
		}
	}
	return s.bind(e)
}

// bind binds an expression. Columns in it are plain values: a time attribute is lost.
func (s *scope) bind(e ast.Expr) (expr.Expr, error) {
	out, err := s.dispatch(e)
	if err != nil {
		return nil, err
	}
	return s.b.plain(out), nil
}

// plain strips the time attribute of a value.
func (b *Binder) plain(e expr.Expr) expr.Expr {
	switch e := e.(type) {
	case *expr.Column:
		if e.T.Attr != types.NoTime {
			c := *e
			c.T = c.T.WithoutAttr()
			if at, ok := b.columnPos[e]; ok {
				b.columnPos[&c] = at
			}
			return &c
		}
	case *expr.Call:
		if e.T.Attr != types.NoTime && e.Fn != "PROCTIME" {
			c := *e
			c.T = c.T.WithoutAttr()
			return &c
		}
	}
	return e
}

func (s *scope) dispatch(e ast.Expr) (expr.Expr, error) {
	switch e := e.(type) {
	case *ast.Name:
		return s.name(e)
	case *ast.NullLit, *ast.BoolLit, *ast.StringLit, *ast.BinaryLit, *ast.NumberLit, *ast.TemporalLit,
		*ast.IntervalLit:
		return literalExpr(s.b.literal(e))
	case *ast.IntervalExpr:
		return s.intervalExpr(e)
	case *ast.TimeDiff:
		return s.timeDiff(e)
	case *ast.Unary:
		return s.unary(e)
	case *ast.Binary:
		return s.binary(e)
	case *ast.Between:
		return s.between(e)
	case *ast.In:
		return s.in(e)
	case *ast.Like:
		return s.like(e)
	case *ast.Is:
		return s.is(e)
	case *ast.IsDistinct:
		return s.isDistinct(e)
	case *ast.Case:
		return s.caseExpr(e)
	case *ast.Cast:
		return s.cast(e)
	case *ast.FuncCall:
		return s.call(e)
	case *ast.ArrayCtor:
		return s.constructor("ARRAY", e.Elems, e.Span)
	case *ast.MapCtor:
		return s.constructor("MAP", e.Elems, e.Span)
	case *ast.Row:
		return s.row(e)
	case *ast.Index:
		return s.resolveArgs("ITEM", e.Span, e.X, e.Index)
	case *ast.Field:
		return s.field(e)
	case *ast.Quantified:
		return s.quantified(e)
	case *ast.Symbol:
		return symbol(e.Word), nil
	case *ast.Subquery:
		if s.subs != nil {
			return s.scalar(e)
		}
	}
	return nil, s.refuse(e)
}

func literalExpr(l *expr.Literal, err error) (expr.Expr, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func symbol(word string) *expr.Literal {
	return &expr.Literal{Value: word, T: types.Type{Kind: types.Symbol}}
}

// refuse is the error of what parses but is no value, or none yet.
func (s *scope) refuse(e ast.Expr) error {
	at := e.Pos()
	switch e := e.(type) {
	case *ast.Star, *ast.FieldStar:
		return errAt(at, "* cannot stand here").WithHint("it stands in a select list, or as COUNT(*)")
	case *ast.Subquery:
		return unsupported(at, "a sub-query as a value in "+s.clause)
	case *ast.Exists:
		if e.Unique {
			return unsupported(at, "UNIQUE (sub-query)")
		}
		return unsupported(at, "EXISTS (sub-query)")
	case *ast.QueryCtor:
		return unsupported(at, e.Kind+" of a sub-query")
	case *ast.MultisetCtor:
		return unsupported(at, "MULTISET[...]")
	case *ast.NamedArg:
		return errAt(at, "named arguments are for table functions only").WithHint("write the value alone")
	case *ast.TableArg:
		return errAt(at, "a table cannot stand here").WithHint("tables are arguments of table functions in FROM")
	case *ast.Descriptor:
		return errAt(at, "DESCRIPTOR cannot stand here").WithHint("it is an argument of table functions in FROM")
	case *ast.DefaultLit:
		return errAt(at, "DEFAULT cannot stand here").WithHint("columns have no default but NULL; write NULL")
	case *ast.ModelArg:
		return unsupported(at, "MODEL")
	}
	return unsupported(at, "this expression")
}

// name binds a column, or a field of one.
func (s *scope) name(n *ast.Name) (expr.Expr, error) {
	i, used, err := s.rel.resolve(n)
	if err != nil {
		return nil, err
	}
	c := s.rel.column(i)
	s.b.columnPos[c] = n.Span
	if used == len(n.Parts) {
		return c, nil
	}
	out := s.b.plain(c)
	for k := used; k < len(n.Parts); k++ {
		at := sqlerr.Span{Start: n.Span.Start, End: n.Parts[k].Span.End}
		if out, err = fieldOf(out, n.Parts[k], at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *scope) field(e *ast.Field) (expr.Expr, error) {
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	return fieldOf(x, e.Name, e.Span)
}

// fieldOf accesses a field of a row. It may be NULL where the row may.
func fieldOf(x expr.Expr, name ast.Ident, at sqlerr.Span) (expr.Expr, error) {
	t := x.Type()
	if t.Kind != types.Row {
		return nil, errAt(name.Span, "%s has no field %s: it is %s", x, name.Name, t.AsNullable()).
			WithHint("only a ROW has fields; elements of an ARRAY or a MAP are read with [ ]")
	}
	var names []string
	for i, f := range t.Fields {
		if f.Name == name.Name {
			return &expr.Call{Fn: "FIELD", Args: []expr.Expr{x, intLiteral(int64(i))},
				T: f.Type.WithNullable(f.Type.Nullable || t.Nullable), Pos: pos(at)}, nil
		}
		names = append(names, f.Name)
	}
	return nil, errAt(name.Span, "%s has no field %s", x, name.Name).
		WithHint("%s", suggest(name.Name, names, "its fields are "))
}

// binds binds several expressions.
func (s *scope) binds(es []ast.Expr) ([]expr.Expr, error) {
	out := make([]expr.Expr, len(es))
	for i, e := range es {
		var err error
		if out[i], err = s.bind(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// resolve makes the call of a function or operator.
func (s *scope) resolve(fn string, at sqlerr.Span, args ...expr.Expr) (expr.Expr, error) {
	out, err := expr.Resolve(fn, args, s.b.env, pos(at))
	if err != nil {
		return nil, wrap(at, err)
	}
	return s.b.plain(out), nil
}

// resolveArgs binds the arguments, then makes the call.
func (s *scope) resolveArgs(fn string, at sqlerr.Span, es ...ast.Expr) (expr.Expr, error) {
	args, err := s.binds(es)
	if err != nil {
		return nil, err
	}
	return s.resolve(fn, at, args...)
}

func (s *scope) constructor(fn string, elems []ast.Expr, at sqlerr.Span) (expr.Expr, error) {
	if len(elems) == 0 {
		return nil, errAt(at, "%s[] has no type without elements", fn).
			WithHint("write CAST(NULL AS %s<...>), or give it an element", fn)
	}
	return s.resolveArgs(fn, at, elems...)
}

// row makes a ROW; its fields are called EXPR$0, EXPR$1 and so on.
func (s *scope) row(e *ast.Row) (expr.Expr, error) {
	args, err := s.binds(e.Elems)
	if err != nil {
		return nil, err
	}
	if len(args) == 1 && !e.Explicit {
		return args[0], nil
	}
	return rowOf(args, e.Span), nil
}

func rowOf(args []expr.Expr, at sqlerr.Span) expr.Expr {
	var fields []types.Field
	for i, a := range args {
		fields = append(fields, types.Field{Name: "EXPR$" + itoa(i), Type: a.Type()})
	}
	return &expr.Call{Fn: "ROW", Args: args, T: types.RowType(fields...).NotNull(), Pos: pos(at)}
}

func (s *scope) cast(e *ast.Cast) (expr.Expr, error) {
	x, err := s.bind(e.X)
	if err != nil {
		return nil, err
	}
	t, err := typeOf(e.Type)
	if err != nil {
		return nil, err
	}
	out, err := expr.Cast(x, t, e.Try, s.b.env, pos(e.Span))
	return out, wrap(e.Span, err)
}

// condition binds a BOOLEAN: of WHERE, HAVING, FILTER, WHEN.
func (s *scope) condition(e ast.Expr) (expr.Expr, error) {
	x, err := s.bind(e)
	if err != nil {
		return nil, err
	}
	return boolean(x, e.Pos(), s.clause)
}

func boolean(x expr.Expr, at sqlerr.Span, clause string) (expr.Expr, error) {
	switch x.Type().Kind {
	case types.Boolean:
		return x, nil
	case types.Null:
		return &expr.Literal{T: types.BooleanType}, nil
	}
	return nil, errAt(at, "%s needs a BOOLEAN, but this is %s", clause, x.Type().AsNullable()).
		WithHint("write a comparison")
}

// coerceTo converts x where Flink does so on its own; what says whose type t is.
func (b *Binder) coerceTo(x expr.Expr, t types.Type, at sqlerr.Span) (expr.Expr, bool) {
	from := x.Type()
	if !expr.CanCoerce(from, t) {
		return nil, false
	}
	if from.Kind == types.Null {
		return &expr.Literal{T: t.AsNullable().WithoutAttr()}, true
	}
	if from.EqualIgnoreNull(t) {
		return b.plain(x), true
	}
	out, err := expr.Cast(b.plain(x), t.WithoutAttr(), false, b.env, pos(at))
	return out, err == nil
}
