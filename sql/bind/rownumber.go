package bind

import (
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/sql/logical"
	"github.com/tidemark-stream/tidemark/types"
)

// rowNumber binds ROW_NUMBER() OVER (PARTITION BY k ORDER BY time) of a select list: a hidden column of the
// rows, behind FROM and WHERE.
func (s *scope) rowNumber(e *ast.FuncCall) (expr.Expr, error) {
	w := e.Over
	switch {
	case len(e.Args) > 0:
		return nil, errAt(e.Span, "ROW_NUMBER takes no arguments")
	case s.clause != "the select list" || s.aggs != nil:
		return nil, unsupported(e.Span, "ROW_NUMBER but in the select list of a query without GROUP BY")
	case w.Name != nil || w.Frame != nil || w.AllowPartial != nil:
		return nil, unsupported(w.Span, "this OVER clause")
	case len(w.OrderBy) == 0:
		return nil, errAt(w.Span, "ROW_NUMBER needs ORDER BY").WithHint("write OVER (PARTITION BY id ORDER BY ts)")
	case len(w.OrderBy) > 1:
		return nil, unsupported(w.OrderBy[1].Span, "ROW_NUMBER by more than one column")
	}
	n := &logical.RowNumber{Desc: w.OrderBy[0].Desc, Pos: pos(e.Span)}
	p := &logical.Project{Input: s.rel.node}
	cols := append([]column{}, s.rel.cols...)
	for i, c := range cols {
		p.Exprs = append(p.Exprs, &expr.Column{Index: i, Name: c.name, T: s.rel.node.Schema().Fields[i].Type})
		p.Names = append(p.Names, c.name)
	}
	place := func(x ast.Expr, clause string) (int, error) {
		in := &scope{b: s.b, rel: s.rel, clause: clause}
		k, err := in.bind(x)
		if err != nil {
			return 0, err
		}
		if c, ok := k.(*expr.Column); ok {
			return c.Index, nil
		}
		p.Exprs, p.Names = append(p.Exprs, k), append(p.Names, "part$"+itoa(len(p.Exprs)))
		cols = append(cols, column{name: p.Names[len(p.Names)-1], typ: k.Type(), hidden: true})
		return len(cols) - 1, nil
	}
	for _, x := range w.PartitionBy {
		k, err := place(x, "PARTITION BY")
		if err != nil {
			return nil, err
		}
		n.Keys = append(n.Keys, k)
	}
	var err error
	if n.Order, err = place(w.OrderBy[0].Expr, "ORDER BY"); err != nil {
		return nil, err
	}
	if cols[n.Order].typ.Attr == types.NoTime {
		return nil, unsupported(w.OrderBy[0].Span, "ROW_NUMBER by a column that is no time attribute").
			WithHint("order by the column of WATERMARK FOR, or by a PROCTIME() column")
	}
	n.Input = p
	if identity(p) {
		n.Input = s.rel.node
	}
	t := types.BigIntType.NotNull()
	cols = append(cols, column{name: logical.RowNumberColumn, typ: t, hidden: true})
	s.rel = &relation{node: n, cols: cols}
	return &expr.Column{Index: len(cols) - 1, Name: logical.RowNumberColumn, T: t}, nil
}
