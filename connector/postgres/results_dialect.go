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
	case fn == "avg":
		return "avg(" + expr + ")::float8", types.DoubleType
	case t.IsApprox():
		return "sum(" + expr + "::float8)", types.DoubleType
	case t.Kind == types.Decimal:
		return "sum(" + expr + ")", types.DecimalType(38, t.Scale)
	}
	return "sum(" + expr + ")", types.BigIntType
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
