package engine

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// fitting finds values that a column cannot hold. CAST takes what the SQL of a job needs: an integer
// that is too large wraps around, a long text is cut. State that is set by hand must not become
// another value unseen. Digits behind the point and fractions of a second that a column does not
// have are rounded or cut as CAST does.
type fitting struct {
	fields []types.Field
	values []int // by field: the column of the query that has the value
	fits   []int // by field: the one that says whether it fits; -1 for types of which a NULL says that it does not
	texts  []int // by field: the one that has what was given, as text
}

// cast adds to the columns cols of a query those that give expr, a SQL expression, as a value of f.
// checked adds what tells whether it fits; it follows all values.
func (c *fitting) cast(cols []string, expr string, f types.Field) []string {
	c.fields, c.values = append(c.fields, f), append(c.values, len(cols))
	return append(cols, fmt.Sprintf("CAST((%s) AS %s) AS %s", expr, f.Type, identifier(f.Name)))
}

// checked adds the columns that check reads; exprs are the expressions given to cast.
func (c *fitting) checked(cols, exprs []string) []string {
	for i, f := range c.fields {
		fits, text := -1, -1
		if isScalar(f.Type) {
			text = len(cols)
			cols = append(cols, fmt.Sprintf("CAST((%s) AS STRING) AS %s", exprs[i], identifier(fmt.Sprintf("text of %d", i))))
			if cond := fitsType(exprs[i], f.Type); cond != "" {
				fits = len(cols)
				cols = append(cols, fmt.Sprintf("%s AS %s", cond, identifier(fmt.Sprintf("fits %d", i))))
			}
		}
		c.fits, c.texts = append(c.fits, fits), append(c.texts, text)
	}
	return cols
}

// check returns an error where a value of row i does not fit its column.
func (c *fitting) check(b *vec.Batch, i int) error {
	for k, f := range c.fields {
		if c.texts[k] < 0 || b.Cols[c.texts[k]].IsNull(i) {
			continue
		}
		fits := !b.Cols[c.values[k]].IsNull(i)
		if at := c.fits[k]; fits && at >= 0 {
			v := b.Cols[at]
			fits = !v.IsNull(i) && v.Value(i) == types.Value(true)
		}
		if !fits {
			return fmt.Errorf("column '%s' is %s, which the value %s does not fit; nothing was written", f.Name,
				f.Type, b.Cols[c.texts[k]].Value(i))
		}
	}
	return nil
}

// isScalar says whether values of t can be shown as a text by CAST and become NULL where CAST cannot hold them.
func isScalar(t types.Type) bool {
	return t.Kind == types.Decimal || fitsType("0", t) != "" || t.Kind == types.Date || t.Kind == types.Time ||
		t.Kind == types.Timestamp || t.Kind == types.TimestampLTZ
}

// fitsType is a SQL condition for expr fitting t, which is not TRUE where it does not; "" where there is
// none. The digits behind the point that DECIMAL(38, 9) has are enough to tell an integer that is cut
// from one that is too large.
func fitsType(expr string, t types.Type) string {
	within := func(low, high string) string {
		return fmt.Sprintf("(CAST((%s) AS DECIMAL(38, 9)) > %s AND CAST((%[1]s) AS DECIMAL(38, 9)) < %[3]s)", expr, low, high)
	}
	switch t.Kind {
	case types.TinyInt:
		return within("-129", "128")
	case types.SmallInt:
		return within("-32769", "32768")
	case types.Int:
		return within("-2147483649", "2147483648")
	case types.BigInt:
		return within("-9223372036854775809", "9223372036854775808")
	case types.Float:
		// An infinite value that is given as such fits.
		return fmt.Sprintf("(NOT (ABS(CAST((%s) AS DOUBLE)) > 3.4028235677973366E38 AND ABS(CAST((%[1]s) AS DOUBLE)) <= 1.7976931348623157E308))", expr)
	case types.Char, types.VarChar:
		if t.Precision < types.MaxLength {
			return fmt.Sprintf("(CHAR_LENGTH(CAST((%s) AS STRING)) <= %d)", expr, t.Precision)
		}
	}
	return ""
}
