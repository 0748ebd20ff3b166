package postgres

import (
	"slices"
	"strconv"
	"strings"
)

// statements are the texts that write rows of one shape.
type statements struct {
	copy, insert, remove string
	all                  []int // every column, of insert
	keys                 []int // those of remove
}

// statements builds the texts for a table.
func (s *shape) statements(t *table) statements {
	out := statements{keys: s.keys}
	table := t.name
	for i := range s.cols {
		out.all = append(out.all, i)
	}
	names := s.list(out.all, func(c column, _ int) string { return quote(c.name) }, ", ")
	if s.copies() {
		out.copy = "COPY " + table + " (" + names + ") FROM STDIN (FORMAT binary); " + s.guard(t)
	}
	var b strings.Builder
	b.WriteString("INSERT INTO " + table + " (" + names + ") SELECT ")
	b.WriteString(s.list(out.all, func(c column, n int) string { return c.value("u.c" + strconv.Itoa(n)) }, ", "))
	b.WriteString(" FROM " + s.unnest(out.all))
	if !s.upserts() {
		out.insert = b.String()
		return out
	}
	b.WriteString(" ON CONFLICT (" + s.list(s.keys, func(c column, _ int) string { return quote(c.name) }, ", ") + ") DO ")
	var set []string
	for i, c := range s.cols {
		if !slices.Contains(s.keys, i) {
			set = append(set, quote(c.name)+" = excluded."+quote(c.name))
		}
	}
	if len(set) == 0 {
		b.WriteString("NOTHING")
	} else {
		b.WriteString("UPDATE SET " + strings.Join(set, ", "))
	}
	out.insert = b.String()
	out.remove = "DELETE FROM " + table + " AS t USING " + s.unnest(s.keys) + " WHERE " +
		s.list(s.keys, func(c column, n int) string {
			return "t." + quote(c.name) + " = " + c.value("u.c"+strconv.Itoa(n))
		}, " AND ")
	return out
}

// changed is the name that a guard's error has.
const changed = "tidemark_types_changed"

// guard is a statement that fails where the columns have other types than t says. COPY takes the
// bytes of one type for another without a word; the two run as one transaction, in which COPY's lock
// keeps the types as they are.
func (s *shape) guard(t *table) string {
	var names, oids []string
	for _, c := range t.cols {
		if slices.ContainsFunc(s.cols, func(o column) bool { return o.name == c.name }) {
			names, oids = append(names, literal(c.name)), append(oids, c.oid)
		}
	}
	return "SELECT CASE (SELECT string_agg(atttypid::text, ',' ORDER BY attnum) FROM pg_catalog.pg_attribute WHERE attrelid = " +
		literal(t.name) + "::regclass AND attname IN (" + strings.Join(names, ", ") + ")) WHEN '" + strings.Join(oids, ",") +
		"' THEN 'pg_catalog.pg_class' ELSE '" + changed + "' END::regclass"
}

// literal makes a string of SQL, whatever standard_conforming_strings says.
func literal(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// unnest is the table of the parameters, arrays of the given columns.
func (s *shape) unnest(cols []int) string {
	return "unnest(" + s.list(cols, func(c column, n int) string { return "$" + strconv.Itoa(n) + "::" + wires[c.wire].name + "[]" }, ", ") +
		") AS u(" + s.list(cols, func(_ column, n int) string { return "c" + strconv.Itoa(n) }, ", ") + ")"
}

func (s *shape) list(cols []int, f func(c column, n int) string, sep string) string {
	var parts []string
	for n, c := range cols {
		parts = append(parts, f(s.cols[c], n+1))
	}
	return strings.Join(parts, sep)
}

// value is SQL's expression for a value that came as ref.
func (c column) value(ref string) string {
	if c.cast == "" {
		return ref
	}
	return ref + "::" + c.cast
}
