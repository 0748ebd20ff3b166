package exectest

import (
	"fmt"
	"math"
	"math/big"
	"sort"
	"strings"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
)

// Evaluate is the slow reference of aggregates: it computes call over the changes of a group, in
// the order of their arrival, from the values themselves. It shares no code with the operators. A
// value that is taken back is the first equal one.
func Evaluate(call plan.AggCall, changes []Step) types.Value {
	var vals []types.Value
	n := int64(0)
	for _, s := range changes {
		r, d := s.Vals, int64(1)
		if s.Kind.Retracts() {
			d = -1
		}
		if call.Filter >= 0 && r[call.Filter] != true {
			continue
		}
		if len(call.Args) == 0 {
			n += d
			continue
		}
		x := r[call.Args[0]]
		if x == nil && call.Fn != "ARRAY_AGG" {
			continue
		}
		n += d
		if d > 0 {
			vals = append(vals, x)
			continue
		}
		for i, v := range vals {
			if fmt.Sprint(v) == fmt.Sprint(x) {
				vals = append(vals[:i:i], vals[i+1:]...)
				break
			}
		}
	}
	if call.Distinct {
		seen := map[string]bool{}
		all := vals
		vals = nil
		for _, v := range all {
			if k := fmt.Sprint(v); !seen[k] {
				seen[k] = true
				vals = append(vals, v)
			}
		}
		n = int64(len(vals))
	}
	if call.Fn == "COUNT" || call.Fn == "APPROX_COUNT_DISTINCT" {
		if call.Fn != "COUNT" {
			d := map[string]bool{}
			for _, v := range vals {
				d[fmt.Sprint(v)] = true
			}
			n = int64(len(d))
		}
		return n
	}
	if call.Fn == "COLLECT" {
		return collect(vals)
	}
	if len(vals) == 0 {
		return nil
	}
	switch call.Fn {
	case "FIRST_VALUE":
		return vals[0]
	case "LAST_VALUE":
		return vals[len(vals)-1]
	case "ARRAY_AGG":
		return vals
	case "LISTAGG":
		var s []string
		for _, v := range vals {
			s = append(s, v.(string))
		}
		return strings.Join(s, ",")
	case "MIN", "MAX":
		best := vals[0]
		for _, v := range vals {
			if c := compare(v, best); c != 0 && (c > 0) == (call.Fn == "MAX") {
				best = v
			}
		}
		return best
	}
	return number(call, vals)
}

func collect(vals []types.Value) types.Value {
	out := []types.Value{}
	at := map[string]int{}
	for _, v := range vals {
		k := fmt.Sprint(v)
		if i, ok := at[k]; ok {
			out[i] = out[i].(int64) + 1
			continue
		}
		at[k] = len(out) + 1
		out = append(out, v, int64(1))
	}
	return out
}

func number(call plan.AggCall, vals []types.Value) types.Value {
	t := call.ArgTypes[0]
	n := len(vals)
	switch {
	case t.IsApprox():
		sum := 0.0
		for _, v := range vals {
			sum += v.(float64)
		}
		if call.Fn == "AVG" {
			return sum / float64(n)
		}
		if call.Fn == "VAR_POP" {
			sq := 0.0
			for _, v := range vals {
				sq += v.(float64) * v.(float64)
			}
			return (sq - sum*sum/float64(n)) / float64(n)
		}
		return sum
	case t.Kind == types.Decimal:
		sum := new(big.Int)
		for _, v := range vals {
			sum.Add(sum, v.(types.Int128).Big())
		}
		if call.Fn == "AVG" {
			r := new(big.Rat).SetFrac(sum, new(big.Int).Mul(big.NewInt(int64(n)),
				new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil)))
			f, _ := new(big.Int).SetString(strings.Replace(r.FloatString(call.T.Scale), ".", "", 1), 10)
			return types.I128(f.Int64())
		}
		lo := new(big.Int).And(sum, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		return types.Int128{Lo: lo, Hi: new(big.Int).Rsh(sum, 64).Int64()}
	}
	sum := int64(0)
	for _, v := range vals {
		sum += v.(int64)
	}
	if call.Fn == "AVG" {
		sum /= int64(n)
	}
	switch call.T.Kind {
	case types.TinyInt:
		return int64(int8(sum))
	case types.SmallInt:
		return int64(int16(sum))
	case types.Int:
		return int64(int32(sum))
	}
	return sum
}

func compare(a, b types.Value) int {
	less := false
	switch a := a.(type) {
	case int64:
		less = a < b.(int64)
	case float64:
		less = a < b.(float64)
	case string:
		less = a < b.(string)
	case types.Int128:
		less = a.Less(b.(types.Int128))
	case bool:
		less = !a && b.(bool)
	}
	if less {
		return -1
	}
	if fmt.Sprint(a) == fmt.Sprint(b) {
		return 0
	}
	return 1
}

// Table is the changes of groups, by key.
type Table struct {
	changes map[string][]Step
	keys    map[string][]types.Value
}

// NewTable returns a table without groups.
func NewTable() *Table {
	return &Table{changes: map[string][]Step{}, keys: map[string][]types.Value{}}
}

// Apply gives a change to the group key. A group without rows is forgotten.
func (t *Table) Apply(key []types.Value, s Step) {
	k := fmt.Sprint(key)
	t.changes[k] = append(t.changes[k], s)
	t.keys[k] = key
	if n := Evaluate(plan.AggCall{Fn: "COUNT", Filter: -1}, t.changes[k]).(int64); n <= 0 {
		delete(t.changes, k)
		delete(t.keys, k)
	}
}

// Results evaluates aggregates for every group: key values, results, then extra, as text, sorted.
func (t *Table) Results(keyTypes []types.Type, calls []plan.AggCall, extra ...types.Value) []string {
	out := []string{}
	for k, rows := range t.changes {
		var s []string
		for i, x := range t.keys[k] {
			s = append(s, Text(x, keyTypes[i]))
		}
		for _, c := range calls {
			s = append(s, Text(Evaluate(c, rows), c.T))
		}
		for _, x := range extra {
			s = append(s, Text(x, types.BigIntType))
		}
		out = append(out, strings.Join(s, " "))
	}
	sort.Strings(out)
	return out
}
