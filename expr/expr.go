// Package expr holds bound scalar expressions and their vectorised evaluation: the tree that the
// planner builds and a plan carries, the function registry with Flink's typing rules, and the
// compiler that turns trees into programs over batches.
//
//	sql/bind --Resolve--> Expr (in a plan) --Compile--> Program --Eval--> *vec.Vec
//
// Trees are immutable and shared freely. A Program, Programs, Filter or Stage and the kernels in it own
// scratch memory and belong to one goroutine; compile once a subtask. A row that cannot be
// computed (division by zero, a failing CAST) does not stop the others: it is noted in
// EvalCtx.Errs, and only where its value is needed, since AND, OR, CASE, IF and COALESCE evaluate
// an argument for the rows that want it. Nothing is allocated for a batch after the first.
//
// A function is one Func literal, registered by an init: kernel.go has what it is written with.
// Operators and the forms of this package are registered here, the library in package expr/fn.
//
// Stability: internal use.
package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/types"
)

// Expr is a bound expression: every name resolved to a column, every coercion an explicit CAST.
// Trees are immutable and may be shared.
type Expr interface {
	// Type is the result type.
	Type() types.Type
	// String prints the expression for plans and errors, for example `price` * 0.908.
	String() string
}

// Column reads column Index of the input batch.
type Column struct {
	Index int
	Name  string
	T     types.Type
}

// Literal is a constant. Value has the dynamic type that types.Value describes.
type Literal struct {
	Value types.Value
	T     types.Type
}

// Call applies a function or operator of the registry to arguments, already coerced.
//
// Operators are functions with the operator as name: = <> < <= > >= + - * / % || AND OR NOT,
// "IS NULL", "IS TRUE", BETWEEN ... are resolved by the binder to these. Special forms that the
// compiler knows: CASE (cond, value, cond, value, ..., else), CAST and TRY_CAST (the target is T),
// COALESCE, IF, IN, ROW, ARRAY, MAP, ITEM (element access), FIELD (field access: Args[1] is an
// INT literal with the field's index).
type Call struct {
	Fn   string // canonical upper-case name in the registry
	Args []Expr
	T    types.Type
	// Pos is the place in the SQL text, for run-time errors.
	Pos Pos
}

// Pos is a place in the SQL text: the byte offsets of the first byte and after the last. The zero
// Pos is unknown.
type Pos struct{ Start, End int }

// Type implements Expr.
func (e *Column) Type() types.Type { return e.T }

// Type implements Expr.
func (e *Literal) Type() types.Type { return e.T }

// Type implements Expr.
func (e *Call) Type() types.Type { return e.T }

// String implements Expr.
func (e *Column) String() string {
	if e.Name == "" {
		return "$" + strconv.Itoa(e.Index)
	}
	return e.Name
}

// String implements Expr.
func (e *Literal) String() string { return FormatLiteral(e.Value, e.T) }

// FormatLiteral prints a constant in SQL spelling.
func FormatLiteral(v types.Value, t types.Type) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		if t.Kind == types.Symbol {
			return v
		}
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	case bool:
		return strings.ToUpper(strconv.FormatBool(v))
	case types.Int128:
		if t.Kind == types.Decimal {
			return v.DecimalString(t.Scale)
		}
		if t.IsTimestamp() {
			at := time.UnixMilli(v.Hi).Add(time.Duration(v.Lo)).UTC()
			return t.Kind.String() + at.Format(" '2006-01-02 15:04:05.999999999'")
		}
	case int64:
		switch t.Kind {
		case types.Date:
			return time.UnixMilli(v * 86400000).UTC().Format("DATE '2006-01-02'")
		case types.Time:
			return time.UnixMilli(v).UTC().Format("TIME '15:04:05.999'")
		case types.IntervalYearMonth:
			return fmt.Sprintf("INTERVAL '%d' MONTH", v)
		case types.IntervalDayTime:
			return "INTERVAL '" + strconv.FormatFloat(float64(v)/1000, 'f', -1, 64) + "' SECOND"
		}
	}
	return fmt.Sprint(v)
}

var infix = map[string]bool{
	"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true, "+": true, "-": true,
	"*": true, "/": true, "%": true, "||": true, "AND": true, "OR": true, "LIKE": true,
	"IS DISTINCT FROM": true, "IS NOT DISTINCT FROM": true,
}

// grouped are the operators for which a op (b op c) is not a op b op c.
var grouped = map[string]bool{"-": true, "/": true, "%": true}

// String implements Expr.
func (e *Call) String() string {
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = a.String()
		if c, ok := a.(*Call); ok && infix[c.Fn] && (infix[e.Fn] || e.Fn == "NEGATE") &&
			(c.Fn != e.Fn || i > 0 && grouped[c.Fn]) {
			args[i] = "(" + args[i] + ")"
		}
	}
	switch {
	case infix[e.Fn] && len(args) > 1:
		return strings.Join(args, " "+e.Fn+" ")
	case e.Fn == "CAST" || e.Fn == "TRY_CAST":
		return e.Fn + "(" + args[0] + " AS " + e.T.AsNullable().WithoutAttr().String() + ")"
	case e.Fn == "NEGATE":
		return "-" + args[0]
	case e.Fn == "ITEM" && len(args) == 2:
		return args[0] + "[" + args[1] + "]"
	case strings.HasPrefix(e.Fn, "IS ") && len(args) == 1:
		return args[0] + " " + e.Fn
	case e.Fn == "FIELD" && len(args) == 2:
		if l, ok := e.Args[1].(*Literal); ok {
			if i, ok := l.Value.(int64); ok && int(i) < len(e.Args[0].Type().Fields) {
				return args[0] + "." + e.Args[0].Type().Fields[i].Name
			}
		}
	}
	return e.Fn + "(" + strings.Join(args, ", ") + ")"
}

// Walk calls f for e and everything below it, parents first; it goes no deeper where f returns
// false.
func Walk(e Expr, f func(Expr) bool) {
	if !f(e) {
		return
	}
	if c, ok := e.(*Call); ok {
		for _, a := range c.Args {
			Walk(a, f)
		}
	}
}

// Map rebuilds e bottom up with f applied to every node; nodes that do not change are shared.
func Map(e Expr, f func(Expr) Expr) Expr {
	if c, ok := e.(*Call); ok {
		var args []Expr
		for i, a := range c.Args {
			if n := Map(a, f); n != a && args == nil {
				args = append([]Expr{}, c.Args...)
				args[i] = n
			} else if args != nil {
				args[i] = n
			}
		}
		if args != nil {
			n := *c
			n.Args = args
			e = &n
		}
	}
	return f(e)
}

// Columns adds the indexes of the columns that e reads to set.
func Columns(e Expr, set map[int]bool) {
	Walk(e, func(e Expr) bool {
		if c, ok := e.(*Column); ok {
			set[c.Index] = true
		}
		return true
	})
}

// Equal reports whether two expressions are the same, positions in the text aside.
func Equal(a, b Expr) bool {
	switch a := a.(type) {
	case *Column:
		c, ok := b.(*Column)
		return ok && a.Index == c.Index
	case *Literal:
		c, ok := b.(*Literal)
		return ok && a.T.Equal(c.T) && FormatLiteral(a.Value, a.T) == FormatLiteral(c.Value, c.T)
	case *Call:
		c, ok := b.(*Call)
		if !ok || a.Fn != c.Fn || len(a.Args) != len(c.Args) || !a.T.Equal(c.T) {
			return false
		}
		for i := range a.Args {
			if !Equal(a.Args[i], c.Args[i]) {
				return false
			}
		}
		return true
	}
	return false
}
