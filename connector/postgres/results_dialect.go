package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// dialect is PostgreSQL's for sqlstore.
type dialect struct{ d *ddl }

// Ident implements sqlstore.Dialect.
func (dialect) Ident(name string) string { return quote(name) }

// String implements sqlstore.Dialect.
func (dialect) String(s string) string { return literal(s) }

// Value implements sqlstore.Dialect.
func (dialect) Value(text string, t types.Type) (string, error) {
	if t.IsNested() {
		return "", fmt.Errorf("a value of type %s cannot be looked for", t.AsNullable())
	}
	if t.IsBinary() {
		return "decode(" + literal(text) + ", 'hex')", nil
	}
	if t.Kind == types.TimestampLTZ {
		text += "+00"
	}
	typ, err := columnType(t)
	return "CAST(" + literal(text) + " AS " + typ + ")", err
}

// Time implements sqlstore.Dialect.
func (dialect) Time(ms int64, t types.Type) string {
	text := string(types.AppendTimestamp(nil, ms, 0, 3))
	if t.Kind == types.TimestampLTZ {
		return "TIMESTAMPTZ '" + text + "+00'"
	}
	return "TIMESTAMP '" + text + "'"
}

// Text implements sqlstore.Dialect.
func (dialect) Text(expr string, t types.Type) string {
	text := "(" + expr + ")::text"
	switch {
	case t.Kind == types.TimestampLTZ:
		text = "((" + expr + ") AT TIME ZONE 'UTC')::text"
	case t.IsBinary():
		text = "encode(" + expr + ", 'hex')"
	}
	return "coalesce('=' || " + text + ", '')"
}

// Millis implements sqlstore.Dialect.
func (dialect) Millis(expr string, _ types.Type) string {
	return "floor(extract(epoch FROM " + expr + ") * 1000)::bigint"
}

// Aggregate implements sqlstore.Dialect.
func (dialect) Aggregate(fn, expr string, t types.Type) (string, types.Type) {
	switch {
	case fn == "count":
		return "count(" + expr + ")", types.BigIntType.NotNull()
	case t.Kind == types.Boolean:
		return map[string]string{"min": "bool_and", "max": "bool_or"}[fn] + "(" + expr + ")", t.AsNullable()
	case fn == "min" || fn == "max":
		return fn + "(" + expr + ")", t.AsNullable()
	case fn == "avg" && t.IsApprox():
		return sumApprox(expr) + " / nullif(count(" + expr + "), 0)", types.DoubleType
	case fn == "avg":
		return "avg(" + expr + ")::float8", types.DoubleType
	case t.IsApprox():
		return sumApprox(expr), types.DoubleType
	case t.Kind == types.Decimal:
		return "sum(" + expr + ")", types.DecimalType(38, t.Scale)
	}
	return "sum(" + expr + ")", types.BigIntType
}

// sumApprox adds up a column of DOUBLE or FLOAT. PostgreSQL's own sum of them is an error where it grows too large, and
// the statement fails for all windows; here it is infinite then, as it is for everybody else. Values that can make it so
// are added up as NUMERIC, which takes them.
func sumApprox(expr string) string {
	const huge, most = "1e290", "1.7976931348623158e308"
	x := "(" + expr + ")::float8"
	rest := "sum(" + x + ") FILTER (WHERE abs(" + x + ") < " + huge + ")"
	large := "sum((" + x + ")::text::numeric) FILTER (WHERE abs(" + x + ") >= " + huge + ")" // NaN is above all; a cast that goes by no text rounds
	all := "(" + large + " + coalesce(" + rest + ", 0)::numeric)"
	return "CASE WHEN " + large + " IS NULL THEN " + rest + " WHEN " + all + " = 'NaN' THEN 'NaN'::float8 WHEN " + all + " > " + most +
		" THEN 'Infinity'::float8 WHEN " + all + " < -" + most + " THEN '-Infinity'::float8 ELSE " + all + "::float8 END"
}

// Distinct implements sqlstore.Dialect.
func (dialect) Distinct(exprs []string) string {
	return "count(DISTINCT (" + strings.Join(exprs, ", ") + "))"
}

// Hash implements sqlstore.Dialect.
func (dialect) Hash(exprs []string) string {
	return "sum(hashtextextended(ROW(" + strings.Join(exprs, ", ") + ")::text, 0))"
}

// Latest implements sqlstore.Dialect.
func (x dialect) Latest(cols []string, where string) string {
	var keys, rest []string
	for _, f := range x.d.l.Key {
		keys = append(keys, quote(f.Name))
	}
	for _, c := range cols {
		rest = append(rest, quote(c))
	}
	if where != "" {
		where = " WHERE " + where
	}
	key := strings.Join(keys, ", ")
	return "SELECT DISTINCT ON (" + key + ") " + key + ", " + strings.Join(rest, ", ") + " FROM " + x.d.name("") + where + " ORDER BY " + key + ", " + quote(x.d.l.Of("revision")) + " DESC"
}

// Table implements sqlstore.Dialect.
func (x dialect) Table() string { return x.d.name("") }

// Progress implements sqlstore.Dialect.
func (x dialect) Progress() string { return x.d.name("_progress") }

// WrittenAfter implements sqlstore.Dialect.
func (dialect) WrittenAfter(ms int64) string {
	if ms == vec.MinTime {
		return ""
	}
	return writtenColumn + " > to_timestamp(" + strconv.FormatInt(ms, 10) + " / 1000.0)"
}
