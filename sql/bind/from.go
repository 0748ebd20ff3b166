package bind

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/catalog"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// ctes are the common table expressions that a query sees, innermost first.
type ctes struct {
	cte   *ast.CTE
	outer *ctes // what the CTE itself sees, and what is beyond it
	rel   *relation
}

func (c *ctes) find(name string) *ctes {
	for ; c != nil; c = c.outer {
		if c.cte.Name.Name == name {
			return c
		}
	}
	return nil
}

// from binds a table expression.
func (b *Binder) from(t ast.TableExpr, with *ctes) (*relation, error) {
	b.ttl.input(b.inputName(t, with))
	switch t := t.(type) {
	case *ast.TableRef:
		return b.tableRef(t, with)
	case *ast.DerivedTable:
		return b.derived(t, with)
	case *ast.TableFunc:
		return b.tableFunc(t, with)
	case *ast.Join:
		return b.join(t, with)
	case *ast.Unnest:
		return nil, unsupported(t.Span, "UNNEST")
	case *ast.MatchRecognize:
		return nil, unsupported(t.Span, "MATCH_RECOGNIZE")
	}
	return nil, unsupported(t.Pos(), "this table expression")
}

func (b *Binder) tableRef(t *ast.TableRef, with *ctes) (*relation, error) {
	switch {
	case t.AsOf != nil:
		return nil, unsupported(t.AsOf.Pos(), "FOR SYSTEM_TIME AS OF")
	case t.Sample != nil:
		return nil, unsupported(t.Sample.Span, "TABLESAMPLE")
	}
	rel, err := b.named(t.Name, t.Hints, with)
	if err != nil {
		return nil, err
	}
	return alias(rel, t.Alias)
}

// alias renames a relation as [AS] t (a, b) says.
func alias(rel *relation, a *ast.TableAlias) (*relation, error) {
	if a == nil {
		return rel, nil
	}
	rel, err := rel.renamed(a.Columns, "table "+a.Name.Name)
	if err != nil {
		return nil, err
	}
	return rel.qualified([]string{a.Name.Name}), nil
}

// named binds a table, view or CTE by its name.
func (b *Binder) named(n *ast.Name, hints []*ast.Hint, with *ctes) (*relation, error) {
	if len(n.Parts) == 1 {
		if c := with.find(n.Parts[0].Name); c != nil {
			if len(hints) > 0 {
				return nil, errAt(hints[0].Span, "a hint needs a table, but %s is defined by WITH", n)
			}
			rel, err := b.bindCTE(c)
			if err != nil {
				return nil, err
			}
			return rel.qualified([]string{c.cte.Name.Name}), nil
		}
	}
	path := b.cat.Qualify(n.Strings())
	switch o := b.cat.Lookup(n.Strings()).(type) {
	case *catalog.Table:
		given, err := b.optionsHint(hints)
		if err != nil {
			return nil, err
		}
		scan := &logical.Scan{Table: o, Hints: given, Pos: pos(n.Span)}
		if err := b.checkTable(o, hints, n.Span, reading); err != nil {
			return nil, err
		}
		if scan.Upsert, err = b.tableOptions(o, hints, n.Span).upsert(); err != nil {
			return nil, err
		}
		return relationOf(scan).qualified(path), nil
	case *catalog.View:
		if len(hints) > 0 {
			return nil, errAt(hints[0].Span, "a hint needs a table, but %s is a view", n).
				WithHint("write the hint at the table inside the view's definition")
		}
		rel, err := b.view(o, n)
		if err != nil {
			return nil, err
		}
		return rel.qualified(path), nil
	}
	return nil, b.unknownTable(n, with)
}

// unknownTable is the error of a name that is no table, with the nearest ones.
func (b *Binder) unknownTable(n *ast.Name, with *ctes) error {
	path := b.cat.Qualify(n.Strings())
	err := errAt(n.Span, "unknown table %s", n)
	switch {
	case len(path) > 3:
		return err.WithHint("a table's name has at most three parts: catalog, database and table")
	case path[0] != b.cat.Name:
		return errAt(n.Parts[0].Span, "unknown catalog %s", path[0]).WithHint("the only catalog is %s", b.cat.Name)
	case !b.cat.HasDatabase(path[1]):
		return errAt(n.Parts[max(0, len(n.Parts)-2)].Span, "unknown database %s", path[1]).
			WithHint("%s", suggest(path[1], b.cat.Databases(), "databases are "))
	}
	names := b.cat.Objects(path[1])
	for c := with; c != nil; c = c.outer {
		names = append(names, c.cte.Name.Name)
	}
	if len(names) == 0 {
		return err.WithHint("no table is defined yet: write CREATE TABLE %s (...) WITH ('connector' = '...') first", n)
	}
	slices.Sort(names)
	return err.WithHint("%s", suggest(n.Last().Name, names, "tables are "))
}

// bindCTE binds a CTE at its first use; later uses share the tree.
func (b *Binder) bindCTE(c *ctes) (*relation, error) {
	if c.rel != nil {
		return c.rel, nil
	}
	rel, err := b.query(c.cte.Query, c.outer)
	if err != nil {
		return nil, err
	}
	if c.rel, err = rel.renamed(c.cte.Columns, "the query of "+c.cte.Name.Name); err != nil {
		return nil, err
	}
	return c.rel, nil
}

// view binds a view's query where the view was defined: its own database, no CTEs around it.
func (b *Binder) view(v *catalog.View, at *ast.Name) (*relation, error) {
	full := strings.Join(v.Path, ".")
	if slices.Contains(b.views, full) {
		return nil, errAt(at.Span, "view %s reads itself", at)
	}
	database := b.cat.Database
	b.cat.Database = v.Path[1]
	b.views = append(b.views, full)
	defer func() {
		b.cat.Database = database
		b.views = b.views[:len(b.views)-1]
	}()
	rel, err := b.query(v.Query, nil)
	if err != nil {
		return nil, sqlerr.New(at.Span, "view %s cannot be used any more", at).WithDetail("%s", err)
	}
	rel = rel.withUniqueNames()
	if len(v.Columns) == 0 {
		return rel, nil
	}
	if len(v.Columns) != len(rel.cols) {
		return nil, errAt(at.Span, "view %s was defined with %d columns, but its query has %d now",
			at, len(v.Columns), len(rel.cols))
	}
	for i, name := range v.Columns {
		rel.cols[i].name = name
	}
	return rel.projected(), nil
}

func (b *Binder) derived(t *ast.DerivedTable, with *ctes) (*relation, error) {
	switch {
	case t.Lateral:
		return nil, unsupported(t.Span, "LATERAL")
	case t.Sample != nil:
		return nil, unsupported(t.Sample.Span, "TABLESAMPLE")
	}
	rel, err := b.query(t.Query, with)
	if err != nil {
		return nil, err
	}
	if t.Alias == nil {
		return rel.qualified(nil), nil
	}
	return alias(rel, t.Alias)
}
