package expr

// Volatile reports whether e may give another value when it is computed again.
func Volatile(e Expr) bool {
	found := false
	Walk(e, func(e Expr) bool {
		if c, ok := e.(*Call); ok {
			f := Lookup(c.Fn)
			found = found || f != nil && f.Volatile
		}
		return !found
	})
	return found
}

// Same reports whether computing a gives what computing b gives: they are equal and not volatile, or
// one and the same.
func Same(a, b Expr) bool { return a == b || Equal(a, b) && !Volatile(a) }

// fuse lets functions replace calls that do better together.
func fuse(es []Expr) []Expr {
	var funcs []*Func
	calls := map[*Func][]*Call{}
	seen := map[*Call]bool{}
	for _, e := range es {
		Walk(e, func(e Expr) bool {
			c, ok := e.(*Call)
			if !ok || seen[c] {
				return ok
			}
			seen[c] = true
			if f := Lookup(c.Fn); f != nil && f.Fuse != nil {
				if calls[f] == nil {
					funcs = append(funcs, f)
				}
				calls[f] = append(calls[f], c)
			}
			return true
		})
	}
	by := map[Expr]Expr{}
	for _, f := range funcs {
		if len(calls[f]) < 2 {
			continue
		}
		for i, e := range f.Fuse(calls[f]) {
			if e != nil {
				by[calls[f][i]] = e
			}
		}
	}
	if len(by) == 0 {
		return es
	}
	out := make([]Expr, len(es))
	for i, e := range es {
		// What stands within a call that is replaced stays as it is.
		out[i] = Map(e, func(e Expr) Expr {
			if to := by[e]; to != nil {
				return to
			}
			return e
		})
	}
	return out
}
