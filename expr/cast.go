package expr

import (
	"github.com/tidemark-stream/tidemark/types"
)

// Cast makes CAST(e AS t), or TRY_CAST, as Flink allows it. The result is nullable where e is
// (TRY_CAST: always). Errors are of type *Error and have pos.
func Cast(e Expr, t types.Type, try bool, env *Env, pos Pos) (Expr, error) {
	from := e.Type()
	if err := castAllowed(from, t); err != nil {
		err.Pos = pos
		return nil, err
	}
	fn := "CAST"
	if try {
		fn = "TRY_CAST"
	}
	t = t.WithNullable(from.Nullable || try || from.Kind == types.Null)
	if !try && from.Equal(t) {
		return e, nil
	}
	return &Call{Fn: fn, Args: []Expr{e}, T: t, Pos: pos}, nil
}

// ImplicitCast converts e to t where Flink does so on its own, as for the columns of a sink. It
// leaves e as it is where its type is t apart from nullability; a NULL in a NOT NULL column is
// for the sink to refuse.
func ImplicitCast(e Expr, t types.Type) (Expr, error) {
	if !CanCoerce(e.Type(), t) {
		return nil, Errorf("%s is not converted to %s on its own", e.Type().AsNullable(), t.AsNullable()).
			WithHint("write CAST(... AS %s)", t.AsNullable())
	}
	return coerce(e, t, nil, Pos{}), nil
}

// coerce casts e to t, whose nullability it ignores, without asking whether that is allowed.
// Literals are converted on the spot, unless env, whose time zone may matter, is nil.
func coerce(e Expr, t types.Type, env *Env, pos Pos) Expr {
	from := e.Type()
	t = t.WithoutAttr()
	if from.EqualIgnoreNull(t) && from.Attr != types.ProcTime {
		return e
	}
	t = t.WithNullable(from.Nullable || from.Kind == types.Null)
	if from.Kind == types.Null {
		return &Literal{T: t}
	}
	c := &Call{Fn: "CAST", Args: []Expr{e}, T: t, Pos: pos}
	if _, ok := e.(*Literal); ok && env != nil {
		return Fold(c, env)
	}
	return c
}

// CanCoerce reports whether from converts to to implicitly, by the rules that Flink has for
// arguments of functions and for columns of sinks. Nullability does not matter.
func CanCoerce(from, to types.Type) bool {
	if from.Kind == types.Null || from.EqualIgnoreNull(to) {
		return true
	}
	switch to.Kind {
	case types.VarChar, types.Char:
		return from.IsString() && (to.Kind == types.VarChar || from.Kind == types.Char)
	case types.VarBinary, types.Binary:
		return from.IsBinary() && (to.Kind == types.VarBinary || from.Kind == types.Binary)
	case types.Decimal, types.Double:
		return from.IsNumeric()
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt:
		return from.IsInteger() && from.Kind <= to.Kind
	case types.Float:
		return from.IsNumeric() && from.Kind != types.Double
	case types.Date, types.Time:
		return from.Kind == to.Kind || from.Kind == types.Timestamp
	case types.Timestamp, types.TimestampLTZ:
		return from.IsTimestamp()
	case types.IntervalYearMonth, types.IntervalDayTime:
		return from.Kind == to.Kind
	case types.Array, types.Map, types.Multiset, types.Row:
		return from.Kind == to.Kind && eachChild(from, to, CanCoerce)
	}
	return false
}

// eachChild reports whether f holds for each pair of components of two types of one kind.
func eachChild(from, to types.Type, f func(a, b types.Type) bool) bool {
	if from.Elem != nil && !f(*from.Elem, *to.Elem) || from.Key != nil && !f(*from.Key, *to.Key) ||
		len(from.Fields) != len(to.Fields) {
		return false
	}
	for i := range from.Fields {
		if !f(from.Fields[i].Type, to.Fields[i].Type) {
			return false
		}
	}
	return true
}

// castAllowed refuses what CAST cannot convert.
func castAllowed(from, to types.Type) *Error {
	switch {
	case from.IsNumeric() && to.IsTimestamp():
		return Errorf("the cast from NUMERIC type to %s type is not allowed", to.Kind).
			WithHint("use TO_TIMESTAMP(FROM_UNIXTIME(numeric_col)) or TO_TIMESTAMP_LTZ(numeric_col, precision) instead")
	case from.Kind == types.Timestamp && to.IsNumeric():
		return Errorf("the cast from %s type to NUMERIC type is not allowed", from.Kind).
			WithHint("use UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) instead")
	case from.Kind == types.TimestampLTZ && to.IsNumeric():
		return Errorf("the cast from %s type to NUMERIC type is not allowed", from.Kind)
	case !canCast(from, to):
		return Errorf("cannot cast %s to %s", from.AsNullable(), to.AsNullable())
	}
	return nil
}

func canCast(from, to types.Type) bool {
	if from.Kind == types.Null || CanCoerce(from, to) {
		return true
	}
	switch to.Kind {
	case types.Char, types.VarChar:
		return from.Kind < types.Symbol
	case types.Boolean:
		return from.IsString() || from.IsNumeric()
	case types.Binary, types.VarBinary:
		return from.IsString() || from.IsBinary()
	case types.TinyInt, types.SmallInt, types.Int, types.BigInt, types.Float, types.Double,
		types.Decimal:
		return from.IsNumeric() || from.IsString() || from.Kind == types.Boolean
	case types.Date:
		return from.IsString() || from.IsTimestamp()
	case types.Time:
		return from.IsString() || from.IsTimestamp()
	case types.Timestamp, types.TimestampLTZ:
		return from.IsString() || from.IsTemporal()
	case types.Array, types.Multiset, types.Map, types.Row:
		return from.Kind == to.Kind && eachChild(from, to, canCast)
	}
	return false
}
