// Package sqlstore is what the stores of results in SQL databases share: the statements that read cells,
// totals and generations, and the values of their answers. What a database spells in its own way is its
// Dialect.
package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Dialect is how a database spells things.
type Dialect interface {
	// Ident quotes a name.
	Ident(name string) string
	// String makes a text of SQL; Value one of a type, from its text; Time one of a timestamp column.
	String(s string) string
	Value(text string, t types.Type) (string, error)
	Time(ms int64, t types.Type) string
	// Text is an expression's value as text: "" for NULL, else "=" and the value. Timestamps are in UTC,
	// bytes hexadecimal.
	Text(expr string, t types.Type) string
	// Millis is a timestamp as a number of ms, as its column shows it.
	Millis(expr string, t types.Type) string
	// Aggregate is sum, count, min, max or avg of a column; what type it gives.
	Aggregate(fn, expr string, t types.Type) (string, types.Type)
	// Distinct counts distinct tuples.
	Distinct(exprs []string) string
	// Hash adds up a hash of the rows' columns: an integer of any size.
	Hash(exprs []string) string
	// Latest is a subquery: of each key the newest revision among the rows of the table that meet where
	// ("" is all), deleted ones included, with the columns cols besides the key.
	Latest(cols []string, where string) string
	// Table and Progress are the tables, quoted. Condition on when a row was written: after a time, in ms.
	Table() string
	Progress() string
	WrittenAfter(ms int64) string
}

// builder makes statements.
type builder struct {
	d Dialect
	l *results.Layout
}

// inRange bounds the start of a window; "" where nothing is bounded.
func (b *builder) inRange(from, to int64) string {
	var parts []string
	start := b.d.Ident(b.l.Start.Name)
	if b.l.Start.Name == "" {
		return ""
	}
	if from != vec.MinTime {
		parts = append(parts, start+" >= "+b.d.Time(from, b.l.Start.Type))
	}
	if to != vec.MaxTime {
		parts = append(parts, start+" < "+b.d.Time(to, b.l.Start.Type))
	}
	return and(parts...)
}

func and(parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return s == "" }), " AND ")
}

func where(parts ...string) string {
	if c := and(parts...); c != "" {
		return " WHERE " + c
	}
	return ""
}

// of is the condition that a row is of a generation.
func (b *builder) of(generation string) string {
	g := b.l.Of("generation")
	switch {
	case g != "":
		return b.d.Ident(g) + " = " + b.d.String(generation)
	case generation == results.Live:
		return ""
	}
	return "1 = 0"
}

// through is the condition that a row is of the generation that counts for its window.
func (b *builder) through(p *results.Pointer) string {
	all := p.Generations()
	if b.l.Of("generation") == "" {
		return ""
	}
	if len(p.Ranges) == 0 || !b.l.Windowed {
		return b.of(p.Base())
	}
	g := b.d.Ident(b.l.Of("generation"))
	var in []string
	for _, name := range all {
		in = append(in, b.d.String(name))
	}
	var cases strings.Builder
	for _, r := range p.Ranges {
		fmt.Fprintf(&cases, " WHEN %s THEN %s", b.inRange(r.From, r.To), b.d.String(r.Generation))
	}
	// The list alone tells which parts of the table have to be read.
	return fmt.Sprintf("%s IN (%s) AND %s = CASE%s ELSE %s END", g, strings.Join(in, ", "), g, cases.String(), b.d.String(p.Base()))
}

// named are the columns of the query, whose columns must exist.
func (b *builder) field(name string) (types.Field, error) {
	f, ok := b.l.Column(name)
	if !ok {
		var names []string
		for _, f := range b.l.Table.Columns {
			names = append(names, f.Name)
		}
		return f, fmt.Errorf("table %s has no column %s; there are %s", b.l.Table.Name, name, strings.Join(names, ", "))
	}
	return f, nil
}

// query is the statement of q, with the types of its columns. Without a generation, p says which.
func (b *builder) query(q results.Query, p *results.Pointer) (string, []types.Field, error) {
	gen := b.of(q.Generation)
	if q.Generation == "" {
		gen = b.through(p)
	}
	keyed, after, err := b.conditions(q)
	if err != nil {
		return "", nil, err
	}
	var from string
	switch window := b.inRange(q.From, q.To); {
	case q.History:
		if d := b.l.Of("is_deleted"); d != "" && !q.Deleted {
			after = append(after, "NOT "+b.d.Ident(d))
		}
		from = b.d.Table() + where(append(append([]string{gen, window}, keyed...), after...)...)
	case b.l.Windowed:
		from = b.latest(and(append([]string{gen, window}, keyed...)...), q.Deleted, after)
	default: // the newest revision first, then its window
		from = b.latest(and(append([]string{gen}, keyed...)...), q.Deleted, append(after, window))
	}
	cols, out, group, err := b.columns(q)
	if err != nil {
		return "", nil, err
	}
	order, err := b.order(q, cols)
	if err != nil {
		return "", nil, err
	}
	sql := "SELECT " + strings.Join(cols, ", ") + " FROM " + from + group + order
	if q.Limit > 0 {
		sql += " LIMIT " + strconv.Itoa(q.Limit)
	}
	return sql, out, nil
}

// latest is what to select from: the newest revisions that meet before, which then have to meet after.
func (b *builder) latest(before string, deleted bool, after []string) string {
	var cols []string
	for _, f := range b.l.Rest() {
		cols = append(cols, f.Name)
	}
	if d := b.l.Of("is_deleted"); d != "" && !deleted {
		after = append(slices.Clone(after), "NOT "+b.d.Ident(d))
	}
	return "(" + b.d.Latest(cols, before) + ") AS latest" + where(after...)
}

// conditions are those of Where: of columns of the key, which hold for all revisions of a row, and others.
func (b *builder) conditions(q results.Query) (keyed, after []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(q.Where)) {
		f, err := b.field(name)
		if err != nil {
			return nil, nil, err
		}
		v, err := b.d.Value(q.Where[name], f.Type)
		if err != nil {
			return nil, nil, fmt.Errorf("column %s of table %s: %w", name, b.l.Table.Name, err)
		}
		c := b.d.Ident(name) + " = " + v
		if b.l.IsKey(name) {
			keyed = append(keyed, c)
		} else {
			after = append(after, c)
		}
	}
	return keyed, after, nil
}

// columns are the expressions of SELECT, as text, what they are, and GROUP BY.
func (b *builder) columns(q results.Query) (cols []string, out []types.Field, group string, err error) {
	if len(q.Group) == 0 && len(q.Sums) == 0 {
		for _, f := range b.l.Table.Columns {
			cols, out = append(cols, b.d.Text(b.d.Ident(f.Name), f.Type)), append(out, f)
		}
		return cols, out, "", nil
	}
	var by []string
	for _, name := range q.Group {
		f, err := b.field(name)
		if err != nil {
			return nil, nil, "", err
		}
		by = append(by, b.d.Ident(name))
		cols, out = append(cols, b.d.Text(b.d.Ident(name), f.Type)), append(out, f)
	}
	for _, s := range q.Sums {
		e, t, err := b.sum(s)
		if err != nil {
			return nil, nil, "", err
		}
		name := s.Fn + "(" + s.Column + ")"
		cols, out = append(cols, b.d.Text(e, t)), append(out, types.Field{Name: name, Type: t})
	}
	if len(by) > 0 {
		group = " GROUP BY " + strings.Join(by, ", ")
	}
	return cols, out, group, nil
}

// sum is the expression of an aggregate. A count without a column counts rows.
func (b *builder) sum(s results.Sum) (string, types.Type, error) {
	if s.Fn == "count" && (s.Column == "" || s.Column == "*") {
		return "count(*)", types.BigIntType.NotNull(), nil
	}
	f, err := b.field(s.Column)
	if err != nil {
		return "", types.Type{}, err
	}
	switch s.Fn {
	case "sum", "avg":
		if !f.Type.IsNumeric() {
			return "", types.Type{}, fmt.Errorf("column %s of table %s is %s, which cannot be added up", s.Column, b.l.Table.Name, f.Type.AsNullable())
		}
	case "count", "min", "max":
	default:
		return "", types.Type{}, fmt.Errorf("there is no aggregate %s; there are sum, count, min, max and avg", s.Fn)
	}
	e, t := b.d.Aggregate(s.Fn, b.d.Ident(s.Column), f.Type)
	return e, t, nil
}

// order is ORDER BY: columns of the query, or of whole rows. Without any, rows come by key and revision.
func (b *builder) order(q results.Query, cols []string) (string, error) {
	grouped := len(q.Group) > 0 || len(q.Sums) > 0
	names := q.Order
	if len(names) == 0 {
		names = q.Group
		if !grouped {
			names = append(slices.Clone(b.l.R.Key), b.l.Of("generation"), b.l.Of("revision"))
		}
	}
	var out []string
	for _, n := range names {
		if n == "" {
			continue
		}
		name, desc := strings.CutPrefix(n, "-")
		e := b.d.Ident(name)
		if i := slices.IndexFunc(q.Sums, func(s results.Sum) bool { return name == s.Column || name == s.Fn+"("+s.Column+")" }); i >= 0 && !slices.Contains(q.Group, name) {
			var err error
			if e, _, err = b.sum(q.Sums[i]); err != nil {
				return "", err
			}
		} else if _, err := b.field(name); err != nil {
			return "", err
		} else if grouped && !slices.Contains(q.Group, name) {
			return "", fmt.Errorf("column %s of table %s cannot be sorted by, as rows are not grouped by it", name, b.l.Table.Name)
		}
		if desc {
			e += " DESC"
		} else {
			e += " ASC"
		}
		out = append(out, e+" NULLS LAST")
	}
	if len(out) == 0 {
		return "", nil
	}
	return " ORDER BY " + strings.Join(out, ", "), nil
}

// window is the start of a row's window in ms; 0 where there is none.
func (b *builder) window(f types.Field) string {
	if f.Name == "" {
		return "0"
	}
	return b.d.Millis(b.d.Ident(f.Name), f.Type)
}

// number is an integer as text.
func (b *builder) number(expr string) string { return b.d.Text(expr, types.BigIntType) }

// totals adds up the newest revisions of a generation by window.
func (b *builder) totals(generation string, from, to int64) (string, []types.Type) {
	var hashed []string
	for _, f := range slices.Concat(b.l.Key, b.l.Values) {
		hashed = append(hashed, b.d.Ident(f.Name))
	}
	w := b.window(b.l.Start)
	cols := []string{b.number(w), b.number("count(*)"), b.d.Text(b.d.Hash(hashed), types.DecimalType(38, 0))}
	var sums []types.Type
	for _, f := range b.l.Summed() {
		e, t := b.d.Aggregate("sum", b.d.Ident(f.Name), f.Type)
		cols, sums = append(cols, b.d.Text(e, t)), append(sums, t)
	}
	before, after := and(b.of(generation), b.inRange(from, to)), []string(nil)
	if !b.l.Windowed {
		before, after = b.of(generation), []string{b.inRange(from, to)}
	}
	sql := "SELECT " + strings.Join(cols, ", ") + " FROM " + b.latest(before, false, after)
	if b.l.Start.Name == "" {
		return sql + " HAVING count(*) > 0", sums
	}
	return sql + " GROUP BY " + w + " ORDER BY " + w, sums
}

// generations counts the rows of each.
func (b *builder) generations() string {
	g := b.d.String(results.Live)
	if c := b.l.Of("generation"); c != "" {
		g = b.d.Ident(c)
	}
	var key []string
	for _, f := range b.l.Key {
		key = append(key, b.d.Ident(f.Name))
	}
	rev := b.d.Ident(b.l.Of("revision"))
	sql := "SELECT " + strings.Join([]string{b.d.Text(g, types.StringType), b.number("min(" + b.window(b.l.Start) + ")"), b.number("max(" + b.window(b.l.Start) + ")"),
		b.number(b.d.Distinct(key)), b.number(b.d.Distinct(append(key, rev)))}, ", ") + " FROM " + b.d.Table()
	if b.l.Of("generation") == "" {
		return sql + " HAVING count(*) > 0"
	}
	return sql + " GROUP BY " + g + " ORDER BY " + g
}

// corrected lists windows that got revisions.
func (b *builder) corrected(generation string, from, to, after int64) string {
	start, end := b.window(b.l.Start), b.window(b.l.End)
	if b.l.End.Name == "" {
		end = start
	}
	return "SELECT " + strings.Join([]string{b.number("tm_s"), b.number("max(tm_e)"), b.number("count(*)")}, ", ") +
		" FROM (SELECT " + start + " AS tm_s, " + end + " AS tm_e FROM " + b.d.Table() +
		where(b.of(generation), b.inRange(from, to), b.d.WrittenAfter(after)) + ") AS w WHERE tm_s IS NOT NULL GROUP BY tm_s ORDER BY tm_s"
}
