package ast

func (p *printer) match(m *MatchRecognize) {
	switch m.Input.(type) {
	case *TableRef, *DerivedTable, *TableFunc:
		p.table(m.Input)
	default:
		p.joinOperand(m.Input, true)
	}
	p.w(" MATCH_RECOGNIZE (")
	if len(m.PartitionBy) > 0 {
		p.w("PARTITION BY ")
		p.exprs(m.PartitionBy)
		p.w(" ")
	}
	if len(m.OrderBy) > 0 {
		p.orderBy(m.OrderBy)
		p.w(" ")
	}
	if len(m.Measures) > 0 {
		p.w("MEASURES ")
		p.join(len(m.Measures), ", ", func(i int) { p.selectItem(m.Measures[i]) })
		p.w(" ")
	}
	p.w(map[bool]string{true: "ALL ROWS PER MATCH ", false: "ONE ROW PER MATCH "}[m.AllRows])
	p.afterMatch(m.After)
	p.w("PATTERN (")
	p.opt(m.StrictStart, "^ ")
	p.pattern(m.Pattern, patternAlt)
	p.opt(m.StrictEnd, " $")
	p.w(") ")
	if m.Within != nil {
		p.w("WITHIN ")
		p.expr(m.Within, 0)
		p.w(" ")
	}
	p.opt(len(m.Subsets) > 0, "SUBSET ")
	p.join(len(m.Subsets), ", ", func(i int) {
		p.ident(m.Subsets[i].Name)
		p.w(" = ")
		p.idents(m.Subsets[i].Vars)
	})
	p.opt(len(m.Subsets) > 0, " ")
	p.w("DEFINE ")
	p.join(len(m.Define), ", ", func(i int) {
		p.ident(m.Define[i].Var)
		p.w(" AS ")
		p.expr(m.Define[i].Cond, 0)
	})
	p.w(")")
	p.alias(m.Alias)
}

func (p *printer) afterMatch(a *AfterMatch) {
	if a == nil {
		return
	}
	p.w("AFTER MATCH SKIP ", a.Skip.String())
	if a.Var != nil {
		p.w(" ")
		p.ident(*a.Var)
	}
	p.w(" ")
}

// Levels of patterns: what a place takes without parentheses.
const (
	patternAlt = iota
	patternSeq
	patternFactor
	patternPrimary
)

func patternLevel(x Pattern) int {
	switch x := x.(type) {
	case *PatternAlt:
		return patternAlt
	case *PatternSeq:
		if len(x.Parts) == 0 {
			return patternPrimary
		}
		return patternSeq
	case *PatternRepeat:
		return patternFactor
	}
	return patternPrimary
}

func (p *printer) pattern(x Pattern, level int) {
	if patternLevel(x) < level {
		p.w("(")
		defer p.w(")")
	}
	switch x := x.(type) {
	case *PatternVar:
		p.ident(x.Var)
	case *PatternSeq:
		p.opt(len(x.Parts) == 0, "()")
		p.join(len(x.Parts), " ", func(i int) { p.pattern(x.Parts[i], patternFactor) })
	case *PatternAlt:
		p.join(len(x.Parts), " | ", func(i int) { p.pattern(x.Parts[i], patternSeq) })
	case *PatternPermute:
		p.w("PERMUTE(")
		p.join(len(x.Parts), ", ", func(i int) { p.pattern(x.Parts[i], patternAlt) })
		p.w(")")
	case *PatternExclude:
		p.w("{- ")
		p.pattern(x.X, patternAlt)
		p.w(" -}")
	case *PatternRepeat:
		p.pattern(x.X, patternPrimary)
		p.repetition(x)
	}
}

func (p *printer) repetition(r *PatternRepeat) {
	switch {
	case r.Min == 0 && r.Max < 0:
		p.w("*")
	case r.Min == 1 && r.Max < 0:
		p.w("+")
	case r.Min == 0 && r.Max == 1:
		p.w("?")
	default:
		p.w("{")
		p.num(r.Min)
		if r.Max != r.Min {
			p.w(",")
			if r.Max >= 0 {
				p.num(r.Max)
			}
		}
		p.w("}")
	}
	p.opt(r.Reluctant, "?")
}
