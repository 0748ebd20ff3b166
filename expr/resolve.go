package expr

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// Resolve makes the call of the function or operator fn, whose name may be in any case: it looks
// fn up, infers the type, and casts the arguments to the parameters' types. A keyword argument (a
// time unit, BOTH, LEADING) is a Literal of kind types.Symbol with the upper-case word as value.
// Errors are of type *Error and have pos.
func Resolve(fn string, args []Expr, env *Env, pos Pos) (Expr, error) {
	if fn == "-" && len(args) == 1 {
		fn = "NEGATE"
	}
	f := Lookup(fn)
	if f == nil {
		e := Errorf("unknown function %s", strings.ToUpper(fn))
		e.Pos = pos
		if near := nearest(strings.ToUpper(fn)); len(near) > 0 {
			e.Hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return nil, e
	}
	if f.Name == "CASE" && len(args)%2 == 0 {
		args = append(slices.Clone(args), &Literal{T: types.NullType})
	}
	sig, err := f.Infer(Args{Exprs: args, Env: env})
	if err != nil {
		return nil, argError(f, args, err, pos)
	}
	if r := rewrites[f.Name]; r != nil {
		return r(args, env, pos)
	}
	out := args
	for i, p := range sig.Params {
		if i >= len(args) || p.Kind == types.Null {
			continue
		}
		c := coerce(args[i], p, env, pos)
		if c == args[i] {
			continue
		}
		if &out[0] == &args[0] {
			out = slices.Clone(args)
		}
		out[i] = c
	}
	return &Call{Fn: f.Name, Args: out, T: sig.Result, Pos: pos}, nil
}

// rewrites holds the functions that are resolved to calls of others.
var rewrites = map[string]func(args []Expr, env *Env, pos Pos) (Expr, error){}

// argError gives an error of Infer its position, the call as it was typed and the usage.
func argError(f *Func, args []Expr, err error, pos Pos) error {
	e, ok := err.(*Error)
	if !ok {
		e = &Error{Msg: err.Error()}
	} else {
		c := *e
		e = &c
	}
	if e.Pos == (Pos{}) {
		e.Pos = pos
	}
	ts := make([]string, len(args))
	for i, a := range args {
		ts[i] = a.Type().AsNullable().WithoutAttr().String()
	}
	e.Msg = f.Name + "(" + strings.Join(ts, ", ") + "): " + e.Msg
	if e.Hint == "" && f.Usage != "" {
		e.Hint = "usage: " + f.Usage
	}
	return e
}

// nearest returns up to three registered names that fn may be a slip for.
func nearest(fn string) []string {
	limit := len(fn)/3 + 1
	type cand struct {
		name string
		d    int
	}
	var found []cand
	for name := range registry {
		if !isWord(name) {
			continue
		}
		d := editDistance(fn, name)
		if d <= limit && d < len(fn) {
			found = append(found, cand{name, d})
		}
	}
	slices.SortFunc(found, func(a, b cand) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, c := range found[:min(3, len(found))] {
		out = append(out, c.name)
	}
	return out
}

func isWord(s string) bool {
	return s[0] >= 'A' && s[0] <= 'Z' && !strings.Contains(s, " ")
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between a
// and b.
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			d := prev[j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			cur[j] = min(d, prev[j]+1, cur[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
