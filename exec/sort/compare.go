package sort

import (
	"bytes"
	"cmp"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// compareRows orders row i of a and row j of b by keys.
func compareRows(keys []plan.SortKey, a []*vec.Vec, i int, b []*vec.Vec, j int) int {
	for _, k := range keys {
		if c := compareKey(k, a[k.Col], i, b[k.Col], j); c != 0 {
			return c
		}
	}
	return 0
}

func compareKey(k plan.SortKey, a *vec.Vec, i int, b *vec.Vec, j int) int {
	na, nb := a.IsNull(i), b.IsNull(j)
	switch {
	case na && nb:
		return 0
	case na || nb:
		if na == k.NullsFirst {
			return -1
		}
		return 1
	}
	c := compareValue(a, i, b, j)
	if k.Desc {
		return -c
	}
	return c
}

// compareValue orders two values that are not NULL. NaN is greater than every number.
func compareValue(a *vec.Vec, i int, b *vec.Vec, j int) int {
	switch a.Phys {
	case types.PBool:
		switch {
		case a.Bool[i] == b.Bool[j]:
			return 0
		case b.Bool[j]:
			return -1
		}
		return 1
	case types.PI32:
		return cmp.Compare(a.I32[i], b.I32[j])
	case types.PI64:
		return cmp.Compare(a.I64[i], b.I64[j])
	case types.PI128:
		return a.I128[i].Cmp(b.I128[j])
	case types.PF32:
		return compareFloat(float64(a.F32[i]), float64(b.F32[j]))
	case types.PF64:
		return compareFloat(a.F64[i], b.F64[j])
	case types.PBytes:
		return bytes.Compare(a.Bytes(i), b.Bytes(j))
	case types.PList:
		return compareList(a, i, b, j)
	case types.PRow:
		for k, kid := range a.Kids {
			if c := compareKey(plan.SortKey{NullsFirst: true}, kid, i, b.Kids[k], j); c != 0 {
				return c
			}
		}
	}
	return 0
}

func compareList(a *vec.Vec, i int, b *vec.Vec, j int) int {
	ra, rb := a.Refs[i], b.Refs[j]
	for k := uint32(0); k < min(ra.Len, rb.Len); k++ {
		for n, kid := range a.Kids {
			c := compareKey(plan.SortKey{NullsFirst: true}, kid, int(ra.Off+k), b.Kids[n], int(rb.Off+k))
			if c != 0 {
				return c
			}
		}
	}
	return cmp.Compare(ra.Len, rb.Len)
}

func compareFloat(x, y float64) int {
	if x != x || y != y {
		return -cmp.Compare(x, y) // cmp puts NaN first
	}
	return cmp.Compare(x, y)
}
