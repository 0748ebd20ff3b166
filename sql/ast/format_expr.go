package ast

import (
	"encoding/hex"
	"strings"
)

// Binding powers as in the parser; an operand that binds less tightly than its
// place needs gets parentheses.
const (
	powOr      = 22
	powAnd     = 24
	powNot     = 26
	powIs      = 28
	powCompare = 30
	powRange   = 32
	powAdd     = 40
	powMul     = 60
	powUnary   = 80
	powAtom    = 100
)

func binaryPower(op string) int {
	switch op {
	case "OR":
		return powOr
	case "AND":
		return powAnd
	case "+", "-":
		return powAdd
	case "*", "/", "%", "||":
		return powMul
	case "MULTISET UNION DISTINCT", "MULTISET UNION ALL", "MULTISET EXCEPT DISTINCT", "MULTISET EXCEPT ALL":
		return 14
	case "MULTISET INTERSECT DISTINCT", "MULTISET INTERSECT ALL":
		return 18
	}
	return powCompare
}

func power(x Expr) int {
	switch x := x.(type) {
	case *Binary:
		return binaryPower(x.Op)
	case *Unary:
		if x.Op == "NOT" {
			return powNot
		}
		return powUnary
	case *Is, *IsDistinct:
		return powIs
	case *Between, *In, *Like:
		return powRange
	case *Quantified:
		return powCompare
	}
	return powAtom
}

// expr writes x, in parentheses if it binds less tightly than min.
func (p *printer) expr(x Expr, min int) {
	if power(x) < min {
		p.w("(")
		defer p.w(")")
	}
	switch x := x.(type) {
	case *Unary:
		p.unary(x)
	case *Binary:
		bp := binaryPower(x.Op)
		p.expr(x.L, bp)
		p.w(" ", x.Op, " ")
		p.expr(x.R, bp+1)
	case *Between:
		p.expr(x.X, powRange)
		p.opt(x.Negated, " NOT")
		p.w(" BETWEEN ")
		p.opt(x.Symmetric, "SYMMETRIC ")
		p.expr(x.Lo, powRange+1)
		p.w(" AND ")
		p.expr(x.Hi, powRange+1)
	case *In:
		p.expr(x.X, powRange)
		p.opt(x.Negated, " NOT")
		p.w(" IN ")
		p.queryOrList(x.Query, x.List)
	case *Quantified:
		p.expr(x.X, powCompare)
		p.w(" ", x.Op, " ", x.Quantifier, " ")
		p.queryOrList(x.Query, x.List)
	case *Like:
		p.like(x)
	case *Is:
		p.expr(x.X, powIs)
		p.w(" IS ")
		p.opt(x.Negated, "NOT ")
		p.w(x.Test.String())
	case *IsDistinct:
		p.expr(x.X, powIs)
		p.w(" IS ")
		p.opt(x.Negated, "NOT ")
		p.w("DISTINCT FROM ")
		p.expr(x.Y, powCompare+1)
	default:
		p.atom(x)
	}
}

func (p *printer) unary(x *Unary) {
	p.w(x.Op)
	inner, signed := x.X.(*Unary)
	if len(x.Op) > 1 || signed && inner.Op == x.Op {
		// Two minus signs without a blank would start a comment.
		p.w(" ")
	}
	p.expr(x.X, power(x))
}

func (p *printer) like(x *Like) {
	p.expr(x.X, powRange)
	p.opt(x.Negated, " NOT")
	p.w(" ", x.Kind.String(), " ")
	p.expr(x.Pattern, powRange+1)
	if x.Escape != nil {
		p.w(" ESCAPE ")
		p.expr(x.Escape, powRange+1)
	}
}

func (p *printer) queryOrList(q *Query, list []Expr) {
	if q != nil {
		p.parenQuery(q)
		return
	}
	p.w("(")
	p.exprs(list)
	p.w(")")
}

func (p *printer) exprs(list []Expr) {
	p.join(len(list), ", ", func(i int) { p.expr(list[i], 0) })
}

// atom writes what needs no parentheses anywhere.
func (p *printer) atom(x Expr) {
	switch x := x.(type) {
	case *Name:
		p.name(x)
	case *Star:
		if x.Qualifier != nil {
			p.name(x.Qualifier)
			p.w(".")
		}
		p.w("*")
	case *NumberLit, *StringLit, *BinaryLit, *BoolLit, *NullLit, *DefaultLit, *TemporalLit, *IntervalLit:
		p.literal(x)
	case *IntervalExpr:
		p.intervalExpr(x)
	case *TimeDiff:
		p.w("(")
		p.expr(x.L, powAdd)
		p.w(" - ")
		p.expr(x.R, powAdd+1)
		p.w(") ")
		p.qualifier(x.Qualifier)
	case *Case:
		p.caseExpr(x)
	case *Cast:
		p.opt(x.Try, "TRY_")
		p.w("CAST(")
		p.expr(x.X, 0)
		p.w(" AS ")
		p.typ(x.Type)
		p.w(")")
	case *FuncCall:
		p.call(x)
	case *ArrayCtor:
		p.elems("ARRAY[", x.Elems, "]")
	case *MapCtor:
		p.elems("MAP[", x.Elems, "]")
	case *MultisetCtor:
		p.elems("MULTISET[", x.Elems, "]")
	case *Row:
		p.opt(x.Explicit, "ROW")
		p.elems("(", x.Elems, ")")
	case *QueryCtor:
		p.w(x.Kind)
		p.parenQuery(x.Query)
	case *Subquery:
		p.parenQuery(x.Query)
	case *Exists:
		p.w(map[bool]string{false: "EXISTS ", true: "UNIQUE "}[x.Unique])
		p.parenQuery(x.Query)
	case *Index:
		if n, ok := x.X.(*Name); ok {
			p.name(n)
		} else {
			p.operand(x.X)
		}
		p.elems("[", []Expr{x.Index}, "]")
	case *Field:
		p.operand(x.X)
		p.w(".")
		p.ident(x.Name)
	case *FieldStar:
		p.operand(x.X)
		p.w(".*")
	default:
		p.argument(x)
	}
}

func (p *printer) elems(open string, list []Expr, end string) {
	p.w(open)
	p.exprs(list)
	p.w(end)
}

// operand writes x before [ or a dot.
func (p *printer) operand(x Expr) {
	switch f := x.(type) {
	case *Index, *Field, *Subquery, *ArrayCtor, *MapCtor, *MultisetCtor, *Cast, *Row:
		p.expr(x, powAtom)
	case *FuncCall:
		p.parensIf(f.Over != nil || f.NoParens, x)
	default:
		p.parensIf(true, x)
	}
}

func (p *printer) parensIf(on bool, x Expr) {
	p.opt(on, "(")
	p.expr(x, 0)
	p.opt(on, ")")
}

func (p *printer) literal(x Expr) {
	switch x := x.(type) {
	case *NumberLit:
		p.w(x.Text)
	case *StringLit:
		p.str(x)
	case *BinaryLit:
		p.w("X'", strings.ToUpper(hex.EncodeToString(x.Value)), "'")
	case *BoolLit:
		switch {
		case x.Unknown:
			p.w("UNKNOWN")
		case x.Value:
			p.w("TRUE")
		default:
			p.w("FALSE")
		}
	case *NullLit:
		p.w("NULL")
	case *DefaultLit:
		p.w("DEFAULT")
	case *TemporalLit:
		p.w(x.Kind.String(), " ", QuoteString(x.Value))
	case *IntervalLit:
		p.w("INTERVAL ")
		p.opt(x.Negative, "-")
		p.w(QuoteString(x.Value), " ")
		p.qualifier(x.Qualifier)
	}
}

func (p *printer) intervalExpr(x *IntervalExpr) {
	p.w("INTERVAL ")
	value := x.Value
	if u, ok := value.(*Unary); ok && u.Op == "-" {
		p.w("-")
		value = u.X
	}
	switch value.(type) {
	case *NumberLit, *Name:
		p.expr(value, 0)
	default:
		p.parensIf(true, value)
	}
	p.w(" ")
	p.qualifier(x.Qualifier)
}

func (p *printer) caseExpr(x *Case) {
	p.w("CASE")
	if x.Operand != nil {
		p.w(" ")
		p.expr(x.Operand, 0)
	}
	for _, when := range x.Whens {
		p.w(" WHEN ")
		p.exprs(when.Conds)
		p.w(" THEN ")
		p.expr(when.Result, 0)
	}
	if x.Else != nil {
		p.w(" ELSE ")
		p.expr(x.Else, 0)
	}
	p.w(" END")
}
