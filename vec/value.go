package vec

import (
	"fmt"

	"github.com/tidemark-stream/tidemark/types"
)

// Value returns value i in the form that types.Value describes. It allocates: for literals, tests
// and users, never for the data path.
func (v *Vec) Value(i int) types.Value {
	if v.IsNull(i) {
		return nil
	}
	switch v.Phys {
	case types.PBool:
		return v.Bool[i]
	case types.PI32:
		return int64(v.I32[i])
	case types.PI64:
		switch v.Type.Kind {
		case types.Decimal:
			return types.I128(v.I64[i])
		case types.Timestamp, types.TimestampLTZ:
			return types.TS(v.I64[i], 0)
		}
		return v.I64[i]
	case types.PI128:
		return v.I128[i]
	case types.PF32:
		return float64(v.F32[i])
	case types.PF64:
		return v.F64[i]
	case types.PBytes:
		if v.Type.IsString() {
			return string(v.Bytes(i))
		}
		return append([]byte{}, v.Bytes(i)...)
	case types.PList:
		r := v.Refs[i]
		out := make([]types.Value, 0, int(r.Len)*len(v.Kids))
		for k := r.Off; k < r.Off+r.Len; k++ {
			for _, kid := range v.Kids {
				out = append(out, kid.Value(int(k)))
			}
		}
		return out
	case types.PRow:
		out := make([]types.Value, len(v.Kids))
		for k, kid := range v.Kids {
			out[k] = kid.Value(i)
		}
		return out
	}
	return nil
}

// SetValue stores x, in the form that types.Value describes, as value i.
func (v *Vec) SetValue(i int, x types.Value) {
	if x == nil {
		v.SetNull(i)
		return
	}
	v.SetValid(i)
	switch v.Phys {
	case types.PBool:
		v.Bool[i] = x.(bool)
	case types.PI32:
		v.I32[i] = int32(x.(int64))
	case types.PI64:
		switch x := x.(type) {
		case int64:
			v.I64[i] = x
		case types.Int128:
			v.I64[i] = int64(x.Lo)
			if v.Type.IsTimestamp() {
				v.I64[i] = x.Hi
			}
		default:
			panic(fmt.Sprintf("BUG: value %T for %s", x, v.Type))
		}
	case types.PI128:
		v.I128[i] = x.(types.Int128)
	case types.PF32:
		v.F32[i] = float32(x.(float64))
	case types.PF64:
		v.F64[i] = x.(float64)
	case types.PBytes:
		if s, ok := x.(string); ok {
			v.SetString(i, s)
			return
		}
		v.SetBytes(i, x.([]byte))
	case types.PList:
		xs := x.([]types.Value)
		w := len(v.Kids)
		at := v.Kids[0].Len()
		for k, kid := range v.Kids {
			kid.Resize(at + len(xs)/w)
			for e := k; e < len(xs); e += w {
				kid.SetValue(at+e/w, xs[e])
			}
		}
		v.Refs[i] = Ref{uint32(at), uint32(len(xs) / w)}
	case types.PRow:
		for k, kid := range v.Kids {
			kid.SetValue(i, x.([]types.Value)[k])
		}
	}
}

// AppendValue appends x.
func (v *Vec) AppendValue(x types.Value) {
	v.Resize(v.n + 1)
	v.SetValue(v.n-1, x)
}
