package exectest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/expr/agg"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// Case is one test of a text file. Lines of a file:
//
//	# a comment
//	case NAME
//	schema k BIGINT, v INT NOT NULL      the columns of the input
//	key k                                anything else: an argument for the test, in Args
//	+I 1 5                               a row; also -U, +U, -D
//	wm 10                                a watermark
//	proc 10                              processing time
//	----
//	1 5                                  what is expected, as the test defines it
//
// A case ends at the next one. Values are numbers, words, 'quoted words' and NULL; timestamps are
// milliseconds.
type Case struct {
	Name   string
	Line   int
	Schema types.Schema
	Args   map[string]string
	Script []Step
	Want   []string
}

// Cases reads all files that match pattern.
func Cases(t *testing.T, pattern string) []Case {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files match %s (%v)", pattern, err)
	}
	var out []Case
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		cs, err := Parse(string(b))
		if err != nil {
			t.Fatalf("%s:%v", f, err)
		}
		out = append(out, cs...)
	}
	return out
}

// Parse reads cases. The error starts with the line number.
func Parse(text string) ([]Case, error) {
	var out []Case
	var c *Case
	want := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch {
		case line == "" || line[0] == '#':
		case word == "case":
			out = append(out, Case{Name: rest, Line: i + 1, Args: map[string]string{}})
			c, want = &out[len(out)-1], false
		case c == nil:
			return nil, fmt.Errorf("%d: text before the first case", i+1)
		case want:
			c.Want = append(c.Want, line)
		case line == "----":
			want = true
		default:
			if err := c.line(word, rest); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
		}
	}
	return out, nil
}

func (c *Case) line(word, rest string) (err error) {
	switch word {
	case "schema":
		c.Schema, err = ParseSchema(rest)
	case "wm", "proc":
		var ms int64
		ms, err = strconv.ParseInt(rest, 10, 64)
		c.Script = append(c.Script, Step{Time: ms, Proc: word == "proc"})
	case "+I", "-U", "+U", "-D":
		kind := map[string]types.RowKind{"+I": types.Insert, "-U": types.UpdateBefore,
			"+U": types.UpdateAfter, "-D": types.Delete}[word]
		words := Split(rest)
		if len(words) != c.Schema.Len() {
			return fmt.Errorf("%d values for %d columns", len(words), c.Schema.Len())
		}
		s := Step{Kind: kind}
		for i, w := range words {
			x, err := ParseValue(w, c.Schema.Fields[i].Type)
			if err != nil {
				return err
			}
			s.Vals = append(s.Vals, x)
		}
		c.Script = append(c.Script, s)
	default:
		c.Args[word] = rest
	}
	return err
}

// Split cuts a line at blanks outside of quotes.
func Split(line string) []string {
	var out []string
	quoted, cur, any := false, "", false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
			cur += "'"
		case r == ' ' && !quoted:
			if any {
				out = append(out, cur)
			}
			cur, any = "", false
		default:
			cur += string(r)
			any = true
		}
	}
	if any {
		out = append(out, cur)
	}
	return out
}

// ParseValue reads a value of type t.
func ParseValue(w string, t types.Type) (types.Value, error) {
	if w == "NULL" {
		return nil, nil
	}
	switch t.Phys() {
	case types.PBool:
		return strconv.ParseBool(w)
	case types.PF32, types.PF64:
		return strconv.ParseFloat(w, 64)
	case types.PBytes:
		return strings.Trim(w, "'"), nil
	case types.PI32, types.PI64, types.PI128:
		if t.Kind == types.Decimal {
			whole, frac, _ := strings.Cut(w, ".")
			frac += strings.Repeat("0", t.Scale-len(frac))
			x := types.Int128{}
			neg := strings.HasPrefix(whole, "-")
			for _, d := range strings.TrimPrefix(whole, "-") + frac {
				y := x
				for range 9 {
					x = x.Add(y)
				}
				x = x.Add(types.I128(int64(d - '0')))
			}
			if neg {
				x = x.Neg()
			}
			return x, nil
		}
		n, err := strconv.ParseInt(w, 10, 64)
		if t.IsTimestamp() {
			return types.TS(n, 0), err
		}
		return n, err
	}
	return nil, fmt.Errorf("values of %s cannot be written in a test", t)
}

// ParseSchema reads columns: name TYPE [NOT NULL], separated by commas.
func ParseSchema(s string) (types.Schema, error) {
	var out types.Schema
	for _, f := range strings.Split(strings.ReplaceAll(s, ", ", ",\x00"), ",\x00") {
		name, typ, _ := strings.Cut(strings.TrimSpace(f), " ")
		t, err := ParseType(typ)
		if err != nil {
			return out, err
		}
		out.Fields = append(out.Fields, types.Field{Name: name, Type: t})
	}
	return out, nil
}

// ParseType reads a type without blanks inside, such as DECIMAL(10,2).
func ParseType(s string) (types.Type, error) {
	s, notNull := strings.CutSuffix(strings.TrimSpace(s), " NOT NULL")
	name, args, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	var p, q int
	fmt.Sscanf(args, "%d,%d", &p, &q)
	t, ok := map[string]types.Type{
		"BOOLEAN": types.BooleanType, "TINYINT": types.TinyIntType, "SMALLINT": types.SmallIntType,
		"INT": types.IntType, "BIGINT": types.BigIntType, "FLOAT": types.FloatType,
		"DOUBLE": types.DoubleType, "STRING": types.StringType, "DATE": types.DateType,
		"DECIMAL": types.DecimalType(p, q), "TIMESTAMP": types.TimestampType(p),
		"TIMESTAMP_LTZ": types.TimestampLTZType(p),
	}[name]
	if !ok {
		return t, fmt.Errorf("unknown type %q", s)
	}
	return t.WithNullable(!notNull), nil
}

// Columns returns the positions of the named columns, separated by blanks.
func (c *Case) Columns(names string) []int {
	var out []int
	for _, n := range strings.Fields(names) {
		i := c.Schema.Index(n)
		if i < 0 {
			panic(fmt.Sprintf("case %s (line %d): no column %s", c.Name, c.Line, n))
		}
		out = append(out, i)
	}
	return out
}

// Aggs reads aggregates separated by ";": FN([DISTINCT ]col[ col ...]) [FILTER col] [sep 'x'].
func (c *Case) Aggs(s string, grouped bool) ([]plan.AggCall, error) {
	var out []plan.AggCall
	for _, f := range strings.Split(s, ";") {
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		a, err := ParseAgg(f, c.Schema, grouped)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// ParseAgg reads one aggregate over rows of schema in and types it as the SQL front end does.
func ParseAgg(f string, in types.Schema, grouped bool) (plan.AggCall, error) {
	fn, rest, _ := strings.Cut(f, "(")
	args, rest, _ := strings.Cut(rest, ")")
	a := plan.AggCall{Fn: fn, Filter: -1, Name: f}
	args, a.Distinct = strings.CutPrefix(args, "DISTINCT ")
	var exprs []expr.Expr
	for _, n := range Split(args) {
		if n == "*" {
			continue
		}
		if i := in.Index(n); i >= 0 {
			exprs = append(exprs, &expr.Column{Index: i, Name: n, T: in.Fields[i].Type})
			a.Args, a.Consts = append(a.Args, i), append(a.Consts, nil)
			continue
		}
		l := &expr.Literal{Value: strings.Trim(n, "'"), T: types.StringType.NotNull()}
		if x, err := strconv.ParseFloat(n, 64); err == nil {
			l = &expr.Literal{Value: x, T: types.DoubleType.NotNull()}
		}
		exprs = append(exprs, l)
		a.Args, a.Consts = append(a.Args, -1), append(a.Consts, l)
	}
	for _, e := range exprs {
		a.ArgTypes = append(a.ArgTypes, e.Type())
	}
	if w := strings.Fields(rest); len(w) > 1 && w[0] == "FILTER" {
		a.Filter = in.Index(w[1])
	}
	if strings.Contains(rest, "ON NULL") {
		a.Options = []string{strings.TrimSpace(rest)}
	}
	sig, err := agg.Resolve(fn, exprs, a.Distinct)
	if err != nil {
		return a, err
	}
	a.T = sig.Result
	if !sig.NotNull && (!grouped || a.Filter >= 0) {
		a.T = a.T.AsNullable()
	}
	return a, nil
}
