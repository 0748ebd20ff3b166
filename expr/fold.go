package expr

import (
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Fold computes the constant parts of e and simplifies AND, OR, NOT and CASE over constants.
// Volatile functions stay, and so does what fails, to fail at run time.
func Fold(e Expr, env *Env) Expr {
	return Map(e, func(e Expr) Expr {
		c, ok := e.(*Call)
		if !ok {
			return e
		}
		e = simplify(c)
		if c, ok = e.(*Call); ok && foldable(c) {
			if l := evalConst(c, env); l != nil {
				return l
			}
		}
		return e
	})
}

// foldable reports whether c depends on nothing but constants.
func foldable(c *Call) bool {
	f := Lookup(c.Fn)
	if f == nil || f.Volatile || f.Compile == nil && special[f.Name] == nil {
		return false
	}
	for _, a := range c.Args {
		if _, ok := a.(*Literal); !ok {
			return false
		}
	}
	return true
}

// evalConst runs c over one row; nil if that fails.
func evalConst(c *Call, env *Env) *Literal {
	k := newCompiler(env)
	nd, err := k.call(c)
	if err != nil {
		return nil
	}
	ctx := &EvalCtx{Env: k.env}
	k.p.begin(ctx, &vec.Batch{N: 1})
	v := k.p.eval(nd, 1, nil)
	if len(ctx.Errs) > 0 {
		return nil
	}
	return &Literal{Value: v.Value(0), T: c.T}
}

// simplify drops what cannot matter from the forms of logic.
func simplify(c *Call) Expr {
	switch c.Fn {
	case "AND", "OR":
		return simplifyLogic(c, c.Fn == "OR")
	case "NOT":
		if in, ok := c.Args[0].(*Call); ok {
			if in.Fn == "NOT" {
				return in.Args[0]
			}
			if op, ok := inverse[in.Fn]; ok && (in.Fn == "=" || in.Fn == "<>" || !in.Args[0].Type().IsApprox()) {
				n := *in
				n.Fn = op
				return &n
			}
		}
	case "CASE", "IF":
		return simplifyCase(c)
	case "COALESCE", "IFNULL":
		for i, a := range c.Args {
			if v, ok := Const(a); ok && v == nil && i+1 < len(c.Args) {
				continue
			}
			if i == 0 && a.Type().Nullable && !isConst(a) {
				return c
			}
			if !a.Type().Nullable || isConst(a) || i+1 == len(c.Args) {
				return a
			}
			n := *c
			n.Args = c.Args[i:]
			return &n
		}
	}
	return c
}

var inverse = map[string]string{
	"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
	"IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL",
}

func isConst(e Expr) bool { _, ok := e.(*Literal); return ok }

// simplifyLogic removes the neutral constant and stops at the one that decides; it also flattens
// AND in AND.
func simplifyLogic(c *Call, decides bool) Expr {
	var args []Expr
	changed := false
	for _, a := range c.Args {
		if in, ok := a.(*Call); ok && in.Fn == c.Fn {
			args = append(args, in.Args...)
			changed = true
			continue
		}
		v, ok := Const(a)
		b, isBool := v.(bool)
		if !ok || !isBool {
			args = append(args, a)
			continue
		}
		changed = true
		if b == decides {
			return a
		}
	}
	switch {
	case len(args) == 0:
		return &Literal{Value: !decides, T: types.BooleanType.NotNull()}
	case len(args) == 1:
		return args[0]
	case !changed:
		return c
	}
	n := *c
	n.Args = args
	return &n
}

// simplifyCase drops branches that are never taken, and those behind one that always is.
func simplifyCase(c *Call) Expr {
	var args []Expr
	changed := false
	last := len(c.Args) - 1
	for i := 0; i < last; i += 2 {
		v, ok := Const(c.Args[i])
		if !ok {
			args = append(args, c.Args[i], c.Args[i+1])
			continue
		}
		changed = true
		if v == true {
			last = i + 1
			break
		}
	}
	if !changed {
		return c
	}
	if args = append(args, c.Args[last]); len(args) == 1 {
		return args[0]
	}
	n := *c
	n.Fn, n.Args = "CASE", args
	return &n
}
