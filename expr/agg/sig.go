// Package agg declares the aggregate functions: their names, arguments and result types as Apache
// Flink has them, and their documentation. The accumulators that compute them live with the
// operators that use them and go by the names given here.
//
// Stability: internal use.
package agg

import (
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

// Signature is a resolved aggregate call.
type Signature struct {
	// Name is the canonical name, for plan.AggCall.Fn.
	Name string
	// Params are the types that the arguments are cast to.
	Params []types.Type
	// Const says which arguments must be constants, not read from a column.
	Const []bool
	// Result is the type of a group with rows in it, nullable where the value may be NULL.
	// Without GROUP BY there is a result for no rows too, which is NULL unless NotNull.
	Result types.Type
	// NotNull says that the value over no rows is not NULL either, as with COUNT.
	NotNull bool
}

// Func documents one aggregate function.
type Func struct {
	Name    string
	Aliases []string
	// Usage lists call forms, Doc says in a sentence or two what it returns.
	Usage, Doc string
	// least and most bound the number of arguments.
	least, most int
	infer       func(name string, args []expr.Expr) (Signature, error)
}

var funcs = []Func{
	{Name: "COUNT", Usage: "COUNT(*) | COUNT([DISTINCT] x)", least: 0, most: 1, infer: count,
		Doc: "Number of rows, or of rows in which x is not NULL."},
	{Name: "SUM", Usage: "SUM([DISTINCT] x)", least: 1, most: 1, infer: sum,
		Doc: "Sum of the values that are not NULL, in the type of x (DECIMAL: 38 digits); NULL when there are none."},
	{Name: "SUM0", Aliases: []string{"$SUM0"}, Usage: "SUM0(x)", least: 1, most: 1, infer: sum0,
		Doc: "SUM that is 0 when there are no values."},
	{Name: "AVG", Usage: "AVG([DISTINCT] x)", least: 1, most: 1, infer: avg,
		Doc: "Mean of the values that are not NULL, in the type of x: for integers the fraction is cut off."},
	{Name: "MIN", Usage: "MIN(x)", least: 1, most: 1, infer: extreme,
		Doc: "Smallest value that is not NULL."},
	{Name: "MAX", Usage: "MAX(x)", least: 1, most: 1, infer: extreme,
		Doc: "Largest value that is not NULL."},
	{Name: "STDDEV_POP", Usage: "STDDEV_POP([DISTINCT] x)", least: 1, most: 1, infer: avg,
		Doc: "Standard deviation of a population, in the type of x."},
	{Name: "STDDEV_SAMP", Aliases: []string{"STDDEV"}, Usage: "STDDEV_SAMP([DISTINCT] x)", least: 1, most: 1,
		infer: avg, Doc: "Standard deviation of a sample, in the type of x; NULL for fewer than two values."},
	{Name: "VAR_POP", Usage: "VAR_POP([DISTINCT] x)", least: 1, most: 1, infer: avg,
		Doc: "Variance of a population, in the type of x."},
	{Name: "VAR_SAMP", Aliases: []string{"VARIANCE"}, Usage: "VAR_SAMP([DISTINCT] x)", least: 1, most: 1,
		infer: avg, Doc: "Variance of a sample, in the type of x; NULL for fewer than two values."},
	{Name: "FIRST_VALUE", Usage: "FIRST_VALUE(x)", least: 1, most: 1, infer: same,
		Doc: "First value that is not NULL, in the order of arrival."},
	{Name: "LAST_VALUE", Usage: "LAST_VALUE(x)", least: 1, most: 1, infer: same,
		Doc: "Last value that is not NULL, in the order of arrival."},
	{Name: "LISTAGG", Usage: "LISTAGG([DISTINCT] x [, separator])", least: 1, most: 2, infer: listagg,
		Doc: "Values that are not NULL, joined by the separator, which is a constant and a comma by default."},
	{Name: "COLLECT", Usage: "COLLECT([DISTINCT] x)", least: 1, most: 1, infer: collect,
		Doc: "MULTISET of the values that are not NULL."},
	{Name: "ARRAY_AGG", Usage: "ARRAY_AGG([DISTINCT] x [RESPECT NULLS | IGNORE NULLS])", least: 1, most: 1,
		infer: arrayAgg, Doc: "ARRAY of the values in the order of arrival, with those that are NULL unless they are ignored."},
	{Name: "JSON_OBJECTAGG", Usage: "JSON_OBJECTAGG(KEY k VALUE v [NULL ON NULL | ABSENT ON NULL])", least: 2, most: 2,
		infer: jsonObject, Doc: "JSON object of the keys and values; NULL values are kept unless ABSENT ON NULL is written."},
	{Name: "JSON_ARRAYAGG", Usage: "JSON_ARRAYAGG(x [ABSENT ON NULL | NULL ON NULL])", least: 1, most: 1,
		infer: jsonArray, Doc: "JSON array of the values in the order of arrival, without those that are NULL unless NULL ON NULL is written."},
	{Name: "APPROX_COUNT_DISTINCT", Usage: "APPROX_COUNT_DISTINCT(x)", least: 1, most: 1, infer: count,
		Doc: "Estimated number of distinct values that are not NULL, from a sketch of fixed size."},
	{Name: "APPROX_PERCENTILE", Usage: "APPROX_PERCENTILE(x, p)", least: 2, most: 2, infer: percentile,
		Doc: "Estimated value below which the share p (0 to 1, a constant, or an ARRAY of them) of the values lies, from a sketch."},
	{Name: "PERCENTILE", Usage: "PERCENTILE(x, p)", least: 2, most: 2, infer: percentile,
		Doc: "Exact value below which the share p (0 to 1, a constant, or an ARRAY of them) of the values lies, interpolated."},
}

var byName = func() map[string]*Func {
	m := map[string]*Func{}
	for i := range funcs {
		m[funcs[i].Name] = &funcs[i]
		for _, a := range funcs[i].Aliases {
			m[a] = &funcs[i]
		}
	}
	return m
}()

// All lists the aggregate functions with their documentation, by name.
func All() []Func {
	out := slices.Clone(funcs)
	slices.SortFunc(out, func(a, b Func) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Is reports whether fn, in any case, is an aggregate function.
func Is(fn string) bool { return byName[strings.ToUpper(fn)] != nil }

// Names lists the accepted names, aliases included.
func Names() []string {
	var out []string
	for n := range byName {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Resolve checks an aggregate call and gives its signature. fn may be in any case. COUNT(*) has
// no arguments. The error is an *expr.Error without position.
func Resolve(fn string, args []expr.Expr, distinct bool) (Signature, error) {
	f := byName[strings.ToUpper(fn)]
	if f == nil {
		return Signature{}, expr.Errorf("unknown aggregate function %s", strings.ToUpper(fn))
	}
	if n := len(args); n < f.least || n > f.most {
		return Signature{}, expr.Errorf("%s does not take %d arguments", f.Name, n).WithHint("usage: %s", f.Usage)
	}
	if distinct && len(args) == 0 {
		return Signature{}, expr.Errorf("%s(DISTINCT *) has no meaning", f.Name).WithHint("usage: %s", f.Usage)
	}
	if f.Name == "APPROX_COUNT_DISTINCT" && distinct {
		return Signature{}, expr.Errorf("%s counts distinct values anyway", f.Name).WithHint("leave DISTINCT out")
	}
	sig, err := f.infer(f.Name, args)
	if e, ok := err.(*expr.Error); ok {
		return Signature{}, e.WithHint("%s; usage: %s", e.Hint, f.Usage)
	}
	sig.Name = f.Name
	return sig, nil
}

// wrongArg is the error of an argument of the wrong type.
func wrongArg(name string, t types.Type, want string) *expr.Error {
	return expr.Errorf("%s cannot be applied to %s", name, t.AsNullable().WithoutAttr()).
		WithHint("it needs %s", want)
}

func argTypes(args []expr.Expr) []types.Type {
	out := make([]types.Type, len(args))
	for i, a := range args {
		out[i] = a.Type().WithoutAttr()
	}
	return out
}

func count(_ string, args []expr.Expr) (Signature, error) {
	return Signature{Params: argTypes(args), Result: types.BigIntType.NotNull(), NotNull: true}, nil
}

// sum keeps the type of its argument, as Flink does, but for DECIMAL, which gets all digits.
func sum(name string, args []expr.Expr) (Signature, error) {
	t := args[0].Type()
	if t.Kind == types.Null {
		t = types.IntType
	}
	if !t.IsNumeric() {
		return Signature{}, wrongArg(name, t, "a number")
	}
	r := t
	if t.Kind == types.Decimal {
		r = types.DecimalType(types.MaxPrecision, t.Scale).WithNullable(t.Nullable)
	}
	return Signature{Params: []types.Type{t}, Result: r}, nil
}

func sum0(name string, args []expr.Expr) (Signature, error) {
	sig, err := sum(name, args)
	sig.Result = sig.Result.NotNull()
	sig.NotNull = true
	return sig, err
}

// minAvgScale is the least scale of a mean of DECIMALs: that of a division.
const minAvgScale = 6

// avg also types the deviations and variances: integers stay integers, as in Flink.
func avg(name string, args []expr.Expr) (Signature, error) {
	sig, err := sum(name, args)
	if err != nil {
		return sig, err
	}
	if r := sig.Result; r.Kind == types.Decimal {
		sig.Result = types.DecimalType(types.MaxPrecision, max(minAvgScale, r.Scale)).WithNullable(r.Nullable)
	}
	// A sample of one value has no deviation.
	if name == "STDDEV_SAMP" || name == "VAR_SAMP" {
		sig.Result = sig.Result.AsNullable()
	}
	return sig, nil
}

func extreme(name string, args []expr.Expr) (Signature, error) {
	t := args[0].Type().WithoutAttr()
	if t.IsNested() {
		return Signature{}, wrongArg(name, t, "a value that can be compared")
	}
	return same(name, args)
}

func same(_ string, args []expr.Expr) (Signature, error) {
	t := args[0].Type().WithoutAttr()
	return Signature{Params: []types.Type{t}, Result: t}, nil
}

func listagg(name string, args []expr.Expr) (Signature, error) {
	t := args[0].Type()
	if !t.IsString() && t.Kind != types.Null {
		return Signature{}, wrongArg(name, t, "a string (CAST(x AS STRING))")
	}
	sig := Signature{Params: []types.Type{types.StringType}, Const: []bool{false}, Result: types.StringType.WithNullable(t.Nullable)}
	if len(args) == 2 {
		if s := args[1].Type(); !s.IsString() {
			return Signature{}, wrongArg(name, s, "a string as separator")
		}
		sig.Params = append(sig.Params, types.StringType)
		sig.Const = append(sig.Const, true)
	}
	return sig, nil
}

func collect(_ string, args []expr.Expr) (Signature, error) {
	t := args[0].Type().WithoutAttr()
	return Signature{Params: []types.Type{t}, Result: types.MultisetType(t).NotNull(), NotNull: true}, nil
}

func arrayAgg(_ string, args []expr.Expr) (Signature, error) {
	t := args[0].Type().WithoutAttr()
	return Signature{Params: []types.Type{t}, Result: types.ArrayType(t)}, nil
}

func jsonObject(name string, args []expr.Expr) (Signature, error) {
	k := args[0].Type()
	if !k.IsString() {
		return Signature{}, wrongArg(name, k, "a string as key")
	}
	return Signature{Params: []types.Type{types.StringType, args[1].Type().WithoutAttr()},
		Result: types.StringType.NotNull(), NotNull: true}, nil
}

func jsonArray(_ string, args []expr.Expr) (Signature, error) {
	return Signature{Params: argTypes(args), Result: types.StringType.NotNull(), NotNull: true}, nil
}

func percentile(name string, args []expr.Expr) (Signature, error) {
	t, p := args[0].Type(), args[1].Type()
	if !t.IsNumeric() && t.Kind != types.Null {
		return Signature{}, wrongArg(name, t, "a number")
	}
	sig := Signature{Const: []bool{false, true}}
	x := types.DoubleType.WithNullable(t.Nullable)
	switch {
	case p.IsNumeric():
		sig.Params = []types.Type{x, types.DoubleType.NotNull()}
		sig.Result = x
	case p.Kind == types.Array && p.Elem.IsNumeric():
		sig.Params = []types.Type{x, types.ArrayType(types.DoubleType.NotNull()).NotNull()}
		sig.Result = types.ArrayType(types.DoubleType).WithNullable(t.Nullable)
	default:
		return Signature{}, wrongArg(name, p, "a share from 0 to 1, or an ARRAY of them")
	}
	return sig, nil
}
