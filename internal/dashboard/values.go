package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// maxSafe is the largest integer that a browser's numbers hold exactly.
const maxSafe = 1<<53 - 1

// jsonValue is how a value of results.Rows goes to the browser: numbers that it could not hold exactly
// are texts, times are texts in the form of SQL.
func jsonValue(v any) any {
	switch x := v.(type) {
	case int64:
		if x > maxSafe || x < -maxSafe {
			return strconv.FormatInt(x, 10)
		}
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
	case time.Time:
		return timeText(x)
	}
	return v
}

// maxCell is how much of a text a table shows, bytes.
const maxCell = 4000

// clip cuts long texts.
func clip(v any) any {
	s, ok := v.(string)
	if !ok || len(s) <= maxCell {
		return v
	}
	return strings.ToValidUTF8(s[:maxCell], "") + "\u2026"
}

func timeText(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02 15:04:05")
	}
	return strings.TrimRight(t.Format("2006-01-02 15:04:05.000000000"), "0")
}

// msOf reads a point in time from a value of a window column; ok is false for what is none.
func msOf(v any) (ms int64, ok bool) {
	switch x := v.(type) {
	case time.Time:
		return x.UnixMilli(), true
	case int64:
		return x, true
	case string:
		for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.RFC3339Nano, "2006-01-02"} {
			if t, err := time.Parse(layout, x); err == nil {
				return t.UnixMilli(), true
			}
		}
	}
	return 0, false
}

// textOf is a value as text.
func textOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		return timeText(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// between stands between the parts of a name.
const between = " \u00b7 "

// nameOf is a value as a part of the name of a line or a bar. Names tell values apart by their text alone: NULL is NULL, and
// texts that could be taken for that, for nothing or for two parts are written as SQL writes texts.
func nameOf(v any) string {
	s := textOf(v)
	if _, ok := v.(string); !ok {
		return s
	}
	if strings.EqualFold(s, "NULL") || s != strings.TrimSpace(s) || s == "" || s[0] == '\'' || strings.Contains(s, between) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}

// numberOf reads a number; ok is false for NULL and what is none.
func numberOf(v any) (f float64, ok bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	case string:
		f, err := strconv.ParseFloat(x, 64)
		return f, err == nil
	}
	return 0, false
}

// adder adds up partial aggregates of windows, exactly where they are exact.
type adder struct {
	fn    string
	any   bool
	whole int64
	big   *big.Rat // takes over when whole would overflow, and for decimals
	scale int
	float float64
	isF   bool
	best  any // of min and max
	count int64
}

// add takes the aggregate of one window; count is the number of values behind an average, whose v is
// their sum.
func (a *adder) add(v any, count int64) {
	if v == nil {
		return
	}
	if a.fn == "min" || a.fn == "max" {
		if c := compareValues(v, a.best); !a.any || a.fn == "min" && c < 0 || a.fn == "max" && c > 0 {
			a.best = v
		}
		a.any = true
		return
	}
	a.any = true
	a.count += count
	switch x := v.(type) {
	case int64:
		if s := a.whole + x; a.big == nil && (s > a.whole) == (x > 0) {
			a.whole = s
			return
		}
		a.rat().Add(a.big, new(big.Rat).SetInt64(x))
	case float64:
		a.float += x
		a.isF = true
	case string:
		r, ok := new(big.Rat).SetString(x)
		if !ok {
			return
		}
		if _, digits, ok := strings.Cut(x, "."); ok {
			a.scale = max(a.scale, len(digits))
		}
		a.rat().Add(a.big, r)
	}
}

func (a *adder) rat() *big.Rat {
	if a.big == nil {
		a.big = new(big.Rat).SetInt64(a.whole)
	}
	return a.big
}

func (a *adder) sumFloat() float64 {
	exact, _ := a.rat().Float64()
	return exact + a.float
}

// result is the aggregate of all, nil where there was nothing.
func (a *adder) result() any {
	if !a.any {
		return nil
	}
	switch a.fn {
	case "min", "max":
		return a.best
	case "avg":
		if a.count == 0 {
			return nil
		}
		if a.isF {
			return a.sumFloat() / float64(a.count)
		}
		f, _ := new(big.Rat).Quo(a.rat(), new(big.Rat).SetInt64(a.count)).Float64()
		return f
	}
	if a.isF {
		return a.sumFloat()
	}
	if a.big != nil {
		return a.big.FloatString(a.scale)
	}
	return a.whole
}

// compareValues orders values of one column; NULL comes first.
func compareValues(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	if x, ok := a.(time.Time); ok {
		if y, ok := b.(time.Time); ok {
			return x.Compare(y)
		}
	}
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	}
	if x, ok := a.(bool); ok {
		if y, ok := b.(bool); ok {
			return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y))
		}
	}
	x, okA := numberOf(a)
	y, okB := numberOf(b)
	if okA && okB {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(textOf(a), textOf(b))
}
