package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// Fingerprints are kept in checkpoints, so what is hashed and how stays as it is; the tests hold it
// with fixed values.

// hash gives 16 hexadecimal digits that differ where one of the parts differs.
func hash(what string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{what}, parts...) {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// text is a description in the making.
type text []string

func (t *text) add(parts ...string) { *t = append(*t, parts...) }

// String joins the parts.
func (t text) String() string { return strings.Join(t, "") }

func set(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

func mapKeys(m map[string]string) iter.Seq[string] { return maps.Keys(m) }

// typeText is a type without what does not change values: whether it may be NULL, and its being a
// time attribute.
func typeText(t types.Type) string { return t.AsNullable().WithoutAttr().String() }

func schemaText(s types.Schema) string {
	out := make([]string, s.Len())
	for i, f := range s.Fields {
		out[i] = typeText(f.Type)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func places(cols []int) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = "#" + strconv.Itoa(c)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

type columnTypes = types.Schema

// numbering gives the columns that an operator uses numbers by their order in the input, so that
// others may come and go in between.
type numbering struct {
	of     map[int]int
	schema columnTypes
}

func number(cols []int, s columnTypes) numbering {
	n := numbering{map[int]int{}, s}
	cols = slices.Clone(cols)
	slices.Sort(cols)
	for _, c := range slices.Compact(cols) {
		n.of[c] = len(n.of)
	}
	return n
}

// name is a column's number with its type.
func (n numbering) name(col int) string {
	return "#" + strconv.Itoa(n.of[col]) + " " + typeText(n.schema.Fields[col].Type)
}

func exprColumns(es ...expr.Expr) []int {
	found := map[int]bool{}
	for _, e := range es {
		if e != nil {
			expr.Columns(e, found)
		}
	}
	return slices.Collect(maps.Keys(found))
}

// origin identifies the value of an expression: a column is what it was before.
func origin(e expr.Expr, col func(int) string) string {
	if c, ok := e.(*expr.Column); ok {
		return col(c.Index)
	}
	return hash("expression", canon(e, col))
}

// commutes are the operators whose operands may change places.
var commutes = map[string]bool{"=": true, "<>": true, "+": true, "*": true, "AND": true, "OR": true}

// mirrored are comparisons and what they are read from right to left.
var mirrored = map[string]string{">": "<", ">=": "<="}

// canon prints an expression so that spellings of the same print the same. col says what a column
// is.
func canon(e expr.Expr, col func(int) string) string {
	switch e := e.(type) {
	case *expr.Column:
		return col(e.Index)
	case *expr.Literal:
		return expr.FormatLiteral(e.Value, e.T) + " " + typeText(e.T)
	case *expr.Call:
		fn, args := e.Fn, e.Args
		if fn == "AND" || fn == "OR" {
			args = operands(nil, fn, e)
		}
		texts := make([]string, len(args))
		for i, a := range args {
			texts[i] = canon(a, col)
		}
		if m := mirrored[fn]; m != "" && len(texts) == 2 {
			fn = m
			slices.Reverse(texts)
		}
		if commutes[fn] {
			slices.Sort(texts)
		}
		return fn + "(" + strings.Join(texts, ", ") + ") " + typeText(e.T)
	}
	panic("BUG: no fingerprint of " + e.String())
}

// operands appends the operands of nested calls of fn.
func operands(to []expr.Expr, fn string, e expr.Expr) []expr.Expr {
	c, ok := e.(*expr.Call)
	if !ok || c.Fn != fn {
		return append(to, e)
	}
	for _, a := range c.Args {
		to = operands(to, fn, a)
	}
	return to
}

// placeKeys are the options that say where a table's data is; how it is reached and read may
// change without its being another table.
var placeKeys = []string{"topic", "topic-pattern", "path", "url", "database-name", "schema-name", "catalog-name",
	"catalog-database", "catalog-table", "table-name", "table", "stream", "collection", "index"}

// placeOf names the data of a table, whatever the table is called, or the table itself where its
// connector has no place (datagen, print).
func placeOf(t *connector.Table) string {
	var out []string
	for _, k := range placeKeys {
		v, ok := t.Options[k]
		if !ok {
			continue
		}
		if k == "topic" {
			topics := strings.Split(v, ";")
			for i := range topics {
				topics[i] = strings.TrimSpace(topics[i])
			}
			v = strings.Join(set(topics), ";")
		}
		if k == "path" && len(v) > 1 {
			v = strings.TrimRight(v, "/")
		}
		out = append(out, k+"="+v)
	}
	if len(out) == 0 {
		out = []string{"table " + t.Name}
	}
	return t.Connector + " " + strings.Join(out, " ")
}
