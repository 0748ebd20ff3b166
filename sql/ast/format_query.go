package ast

func (p *printer) parenQuery(q *Query) {
	p.w("(")
	p.query(q)
	p.w(")")
}

func (p *printer) query(q *Query) {
	if len(q.With) > 0 {
		p.w("WITH ")
		p.opt(q.Recurse, "RECURSIVE ")
		p.join(len(q.With), ", ", func(i int) {
			c := q.With[i]
			p.ident(c.Name)
			if len(c.Columns) > 0 {
				p.w(" ")
				p.idents(c.Columns)
			}
			p.w(" AS ")
			p.parenQuery(c.Query)
		})
		p.w(" ")
	}
	p.body(q.Body)
	if len(q.OrderBy) > 0 {
		p.w(" ")
		p.orderBy(q.OrderBy)
	}
	if q.Limit != nil {
		p.w(" LIMIT ")
		p.expr(q.Limit, 0)
	}
	if q.Offset != nil {
		p.w(" OFFSET ")
		p.expr(q.Offset, 0)
		p.w(" ROWS")
	}
}

func (p *printer) body(b QueryBody) {
	switch b := b.(type) {
	case *Query:
		p.parenQuery(b)
	case *Select:
		p.selectBlock(b)
	case *SetOp:
		l, nested := b.L.(*SetOp)
		p.setOperand(b.L, nested && b.Op == Intersect && l.Op != Intersect)
		p.w(" ", b.Op.String())
		p.opt(b.All, " ALL")
		p.w(" ")
		r, nested := b.R.(*SetOp)
		p.setOperand(b.R, nested && (b.Op == Intersect || r.Op != Intersect))
	case *Values:
		p.w("VALUES ")
		p.exprs(b.Rows)
	case *TableQuery:
		p.w("TABLE ")
		p.name(b.Name)
	default:
		panic("BUG: ast.Format: query without a text form")
	}
}

func (p *printer) setOperand(b QueryBody, parens bool) {
	p.opt(parens, "(")
	p.body(b)
	p.opt(parens, ")")
}

func (p *printer) selectBlock(s *Select) {
	p.w("SELECT")
	p.hints(s.Hints)
	p.opt(s.Distinct, " DISTINCT")
	p.opt(s.All, " ALL")
	p.w(" ")
	p.join(len(s.Items), ", ", func(i int) { p.selectItem(s.Items[i]) })
	if s.From != nil {
		p.w(" FROM ")
		p.table(s.From)
	}
	p.clause(" WHERE ", s.Where)
	if s.GroupBy != nil {
		p.w(" GROUP BY ")
		p.opt(s.GroupBy.Distinct, "DISTINCT ")
		p.join(len(s.GroupBy.Items), ", ", func(i int) { p.groupItem(s.GroupBy.Items[i]) })
	}
	p.clause(" HAVING ", s.Having)
	if len(s.Windows) > 0 {
		p.w(" WINDOW ")
		p.join(len(s.Windows), ", ", func(i int) {
			p.ident(s.Windows[i].Name)
			p.w(" AS ")
			p.window(s.Windows[i].Spec)
		})
	}
	if s.Qualify != nil {
		// QUALIFY is no reserved word; a parenthesis keeps it from being taken
		// for an alias whatever the condition starts with.
		p.w(" QUALIFY ")
		p.parensIf(true, s.Qualify)
	}
}

func (p *printer) clause(words string, x Expr) {
	if x != nil {
		p.w(words)
		p.expr(x, 0)
	}
}

func (p *printer) selectItem(s *SelectItem) {
	p.expr(s.Expr, 0)
	if s.Alias != nil {
		p.w(" AS ")
		p.ident(*s.Alias)
	}
}

func (p *printer) orderBy(items []*OrderItem) {
	p.w("ORDER BY ")
	p.orderItems(items)
}

func (p *printer) orderItems(items []*OrderItem) {
	p.join(len(items), ", ", func(i int) { p.orderItem(items[i]) })
}

func (p *printer) orderItem(o *OrderItem) {
	p.expr(o.Expr, 0)
	p.opt(o.Desc, " DESC")
	p.opt(o.Nulls != NullsUnset, " "+o.Nulls.String())
}

func (p *printer) groupItem(g *GroupItem) {
	switch g.Kind {
	case GroupExpr:
		p.expr(g.Expr, 0)
		return
	case GroupList:
		p.elems("(", g.Exprs, ")")
		return
	}
	p.w(g.Kind.String(), " (")
	p.join(len(g.Items), ", ", func(i int) { p.groupItem(g.Items[i]) })
	p.w(")")
}

func (p *printer) table(t TableExpr) {
	switch t := t.(type) {
	case *TableRef:
		p.name(t.Name)
		p.hints(t.Hints)
		p.clause(" FOR SYSTEM_TIME AS OF ", t.AsOf)
		p.alias(t.Alias)
		p.sample(t.Sample)
	case *DerivedTable:
		p.opt(t.Lateral, "LATERAL ")
		p.parenQuery(t.Query)
		p.hints(t.Hints)
		p.alias(t.Alias)
		p.sample(t.Sample)
	case *TableFunc:
		p.opt(t.Lateral, "LATERAL ")
		p.opt(t.Wrapped, "TABLE(")
		p.call(t.Call)
		p.opt(t.Wrapped, ")")
		p.alias(t.Alias)
	case *Unnest:
		p.opt(t.Lateral, "LATERAL ")
		p.elems("UNNEST(", t.Args, ")")
		p.opt(t.WithOrdinality, " WITH ORDINALITY")
		p.alias(t.Alias)
	case *Join:
		p.joinExpr(t)
	case *MatchRecognize:
		p.match(t)
	default:
		panic("BUG: ast.Format: table expression without a text form")
	}
}

func (p *printer) alias(a *TableAlias) {
	if a == nil {
		return
	}
	p.w(" AS ")
	p.ident(a.Name)
	if len(a.Columns) > 0 {
		p.idents(a.Columns)
	}
}

func (p *printer) sample(s *Sample) {
	if s == nil {
		return
	}
	p.w(" TABLESAMPLE ", s.Method)
	p.elems("(", []Expr{s.Percent}, ")")
	if s.Seed != nil {
		p.elems(" REPEATABLE(", []Expr{s.Seed}, ")")
	}
}

func (p *printer) joinExpr(j *Join) {
	l, nested := j.L.(*Join)
	p.joinOperand(j.L, nested && l.Kind == CommaJoin && j.Kind != CommaJoin)
	r, nested := j.R.(*Join)
	if j.Kind == CommaJoin {
		p.w(", ")
		p.joinOperand(j.R, nested && r.Kind == CommaJoin)
		return
	}
	p.w(" ")
	p.opt(j.Natural, "NATURAL ")
	p.w(j.Kind.String(), " ")
	p.joinOperand(j.R, nested)
	p.clause(" ON ", j.On)
	if len(j.Using) > 0 {
		p.w(" USING ")
		p.idents(j.Using)
	}
}

func (p *printer) joinOperand(t TableExpr, parens bool) {
	p.opt(parens, "(")
	p.table(t)
	p.opt(parens, ")")
}
