package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/types"
)

// registry maps upper-case names and aliases to functions. It is filled by init functions only,
// so it is read without a lock.
var registry = map[string]*Func{}

// Register adds f under its name and its aliases. It panics where a name is taken: two functions
// of one name are a bug.
func Register(f Func) {
	if f.Name == "" || f.Infer == nil {
		panic("BUG: function without a name or without Infer: " + f.Name)
	}
	p := &f
	for _, n := range append([]string{f.Name}, f.Aliases...) {
		k := strings.ToUpper(n)
		if registry[k] != nil {
			panic("BUG: function " + k + " is registered twice")
		}
		registry[k] = p
	}
}

// parts are functions that no text can name.
var parts = map[string]*Func{}

// RegisterPart adds a function that stands for a step common to several calls; a Func.Fuse makes
// calls of it. Only Name, Volatile and Compile matter.
func RegisterPart(f Func) {
	if parts[f.Name] != nil || registry[f.Name] != nil || f.Compile == nil {
		panic("BUG: part " + f.Name + " is registered twice or cannot be compiled")
	}
	parts[f.Name] = &f
}

// Lookup returns the function called name, in any case, or nil.
func Lookup(name string) *Func {
	if f := registry[name]; f != nil {
		return f
	}
	return registry[strings.ToUpper(name)]
}

// All returns every function once, by name.
func All() []*Func {
	var out []*Func
	for k, f := range registry {
		if k == strings.ToUpper(f.Name) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *Func) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Error is a mistake in an expression that the user can correct.
type Error struct {
	Pos  Pos
	Msg  string // lower case, without a full stop
	Hint string // what to write instead; may be empty
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + " (" + e.Hint + ")"
}

// Errorf makes an Error without position, which Resolve fills in.
func Errorf(format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...)}
}

// WithHint sets the hint and returns the error.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Sig is a Signature with the given result and parameters.
func Sig(result types.Type, params ...types.Type) Signature {
	return Signature{Params: params, Result: result}
}

// Any is a parameter that is left as it is.
var Any = types.NullType

// InferFixed is the Infer of a function with one signature: exactly these parameters, to which
// arguments are cast implicitly, and this result, which is NULL only where an argument may be.
func InferFixed(result types.Type, params ...types.Type) func(Args) (Signature, error) {
	return InferOptional(len(params), result, params...)
}

// InferOptional is InferFixed where only the first min parameters must be given.
func InferOptional(min int, result types.Type, params ...types.Type) func(Args) (Signature, error) {
	return func(a Args) (Signature, error) {
		if err := a.Count(min, len(params)); err != nil {
			return Signature{}, err
		}
		for i := range a.Exprs {
			if params[i].Kind != types.Null && !CanCoerce(a.Type(i), params[i]) {
				return Signature{}, a.Mismatch(i, params[i].AsNullable().String())
			}
		}
		return Signature{
			Params: params[:a.Len()],
			Result: result.WithNullable(result.Nullable && a.AnyNullable()),
		}, nil
	}
}

// Count checks the number of arguments; max < 0 means no limit.
func (a Args) Count(min, max int) error {
	if n := len(a.Exprs); n >= min && (n <= max || max < 0) {
		return nil
	}
	switch {
	case max < 0:
		return Errorf("needs at least %d argument(s), not %d", min, len(a.Exprs))
	case min == max:
		return Errorf("needs %d argument(s), not %d", min, len(a.Exprs))
	}
	return Errorf("needs %d to %d arguments, not %d", min, max, len(a.Exprs))
}

// Mismatch is the error of argument i that has the wrong type.
func (a Args) Mismatch(i int, want string) *Error {
	return Errorf("argument %d is %s, but must be %s", i+1, a.Type(i).AsNullable(), want)
}
