package clickhouse

import (
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// dialect is ClickHouse's for sqlstore.
type dialect struct{ d *ddl }

// Ident implements sqlstore.Dialect.
func (dialect) Ident(name string) string { return quote(name) }

// String implements sqlstore.Dialect.
func (dialect) String(s string) string { return literal(s) }

// Value implements sqlstore.Dialect.
func (x dialect) Value(text string, t types.Type) (string, error) {
	switch {
	case t.IsTimestamp():
		ms, nanos, ok := types.ParseTimestamp([]byte(text))
		if !ok {
			return "", fmt.Errorf("%q is no timestamp", text)
		}
		return "toDateTime64(" + literal(string(types.AppendTimestamp(nil, ms, nanos, 9))) + ", 9, 'UTC')", nil
	case t.IsString():
		return literal(text), nil
	case t.IsBinary():
		return "unhex(" + literal(text) + ")", nil
	case t.IsNested():
		return "", fmt.Errorf("a value of type %s cannot be looked for", t.AsNullable())
	}
	typ, err := columnType(t.NotNull())
	if err != nil {
		return "", err
	}
	return "CAST(" + literal(text) + " AS " + typ + ")", nil
}

// Time implements sqlstore.Dialect.
func (dialect) Time(ms int64, _ types.Type) string {
	return fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", ms)
}

// Text implements sqlstore.Dialect. Strings may be LowCardinality, which the answer must not be.
func (dialect) Text(expr string, t types.Type) string {
	text := "toString(" + expr + ")"
	switch {
	case t.Kind == types.TimestampLTZ:
		text = "toString(toTimeZone(" + expr + ", 'UTC'))"
	case t.IsBinary():
		text = "lower(hex(" + expr + "))"
	}
	return "CAST(ifNull(concat('=', " + text + "), '') AS String)"
}

// Millis implements sqlstore.Dialect.
func (dialect) Millis(expr string, _ types.Type) string {
	return "toUnixTimestamp64Milli(toDateTime64(" + expr + ", 3, 'UTC'))"
}

// Aggregate implements sqlstore.Dialect.
func (dialect) Aggregate(fn, expr string, t types.Type) (string, types.Type) {
	switch {
	case fn == "count":
		return "count(" + expr + ")", types.BigIntType.NotNull()
	case fn == "min" || fn == "max":
		return fn + "(" + expr + ")", t.AsNullable()
	case fn == "avg":
		return "toFloat64(avg(" + expr + "))", types.DoubleType
	case t.IsApprox():
		return "sum(" + expr + ")", types.DoubleType
	case t.Kind == types.Decimal:
		return "sum(" + expr + ")", types.DecimalType(38, t.Scale)
	}
	return "sum(toInt128(" + expr + "))", types.BigIntType
}

// Distinct implements sqlstore.Dialect.
func (dialect) Distinct(exprs []string) string { return "uniqExact(" + strings.Join(exprs, ", ") + ")" }

// Hash implements sqlstore.Dialect. Sums wrap.
func (dialect) Hash(exprs []string) string {
	return "sum(sipHash64(toString(tuple(" + strings.Join(exprs, ", ") + "))))"
}

// Latest implements sqlstore.Dialect: one argMax over the whole row, so that all of its columns are of one
// revision; where a revision has different contents, always the same of them.
func (x dialect) Latest(cols []string, where string) string {
	var keys, rest, out []string
	for _, f := range x.d.l.Key {
		keys = append(keys, quote(f.Name))
	}
	for i, c := range cols {
		rest = append(rest, quote(c))
		out = append(out, fmt.Sprintf("tupleElement(tm_newest, %d) AS %s", i+1, quote(c)))
	}
	key := strings.Join(keys, ", ")
	if where != "" {
		where = " WHERE " + where
	}
	return "SELECT " + key + ", " + strings.Join(out, ", ") + " FROM (SELECT " + key + ", argMax(tuple(" + strings.Join(rest, ", ") + "), tuple(" +
		quote(x.d.l.Of("revision")) + ", " + hashColumn + ")) AS tm_newest FROM " + x.d.name("") + where + " GROUP BY " + key + ")"
}

// Table implements sqlstore.Dialect.
func (x dialect) Table() string { return x.d.name("") }

// Progress implements sqlstore.Dialect: a checkpoint that was committed twice is there twice until a merge.
func (x dialect) Progress() string { return x.d.name("_progress") + " FINAL" }

// WrittenAfter implements sqlstore.Dialect.
func (dialect) WrittenAfter(ms int64) string {
	if ms == vec.MinTime {
		return ""
	}
	return fmt.Sprintf("%s > fromUnixTimestamp64Milli(%d, 'UTC')", writtenColumn, ms)
}
