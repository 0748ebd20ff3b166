package expr

import (
	"time"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Env is what the value of an expression depends on besides its input.
type Env struct {
	// Zone is the session time zone (table.local-time-zone).
	Zone *time.Location
	// Now is the clock for processing-time functions; nil means the wall clock.
	Now func() time.Time
	// QueryStart is the fixed time that CURRENT_TIMESTAMP and its kin return in batch mode, or
	// zero in streaming mode, where they are evaluated for each record.
	QueryStart time.Time
	// Seed makes RAND and UUID repeatable in tests; 0 means random.
	Seed uint64
	// LegacyCast is table.exec.legacy-cast-behaviour = enabled: a failing CAST gives NULL.
	LegacyCast bool
}

// Func is one entry of the registry. Everything a function needs stands in one literal.
type Func struct {
	// Name is canonical: upper case, Flink's spelling. Aliases are other accepted names.
	Name    string
	Aliases []string
	// Usage lists call forms, Doc says in a sentence or two what it returns (NULLs and errors
	// included), Category is Flink's documentation category.
	Usage, Doc, Category string
	// Volatile functions (RAND, UUID, NOW ...) are never folded and are marked in plans.
	Volatile bool
	// Infer checks the arguments and returns the argument types to coerce to (an element whose
	// Kind is Null means leave as is) and the result type. Its error says what was expected.
	Infer func(a Args) (Signature, error)
	// Compile makes a kernel for one call. Arguments that are literals can be inspected to
	// specialise. nil for special forms that the compiler treats itself.
	Compile func(c *CompileCtx, call *Call) (Kernel, error)
	// Fuse, where it is set, sees all calls of the function in one program, constants folded, and
	// may return for each what to compute in its place, or nil: several calls that go through the
	// same text can share the way. See Part for functions of which only Fuse makes calls.
	Fuse func(calls []*Call) []Expr
}

// Args is what Infer sees of a call.
type Args struct {
	Exprs []Expr
	Env   *Env
}

// Type returns the type of argument i.
func (a Args) Type(i int) types.Type { return a.Exprs[i].Type() }

// Len is the number of arguments.
func (a Args) Len() int { return len(a.Exprs) }

// AnyNullable reports whether some argument may be NULL, which for most functions is when the
// result may be.
func (a Args) AnyNullable() bool {
	for _, e := range a.Exprs {
		if e.Type().Nullable {
			return true
		}
	}
	return false
}

// Signature is what Infer decides. Params may be nil: no coercion.
type Signature struct {
	Params []types.Type
	Result types.Type
}

// CompileCtx is what a kernel may use at compile time.
type CompileCtx struct {
	Env *Env
}

// Kernel computes one call for the rows sel of a batch of n positions (sel nil: all). args[k]
// holds argument k at the same positions; out has type Call.T, n slots, no bitmap yet. A kernel
// writes the selected positions of out (NULL through out.SetNull) and nothing else. It reports a
// value that it cannot compute with ctx.Fail, and the row's result is then undefined.
type Kernel func(ctx *EvalCtx, args []*vec.Vec, out *vec.Vec, n int, sel []int32)

// RowError is a row that an expression could not be computed for.
type RowError struct {
	Row int // position in the batch
	Err error
	Pos Pos // the expression in the SQL text
}

// EvalCtx is the state of one evaluation. Not safe for concurrent use.
type EvalCtx struct {
	Env   *Env
	Batch *vec.Batch // the input, for functions of the row's context (CURRENT_WATERMARK)
	// Errs collects the rows that failed, in no order, a row perhaps more than once.
	Errs []RowError
	pos  Pos
}

// Fail notes that row i cannot be computed.
func (c *EvalCtx) Fail(i int, err error) {
	c.Errs = append(c.Errs, RowError{Row: i, Err: err, Pos: c.pos})
}
