package expr

import "github.com/tidemark-stream/tidemark/types"

// CommonType returns the least restrictive type that all of ts convert to without loss of
// meaning, as for the branches of CASE or the columns of UNION; ok is false when there is none.
func CommonType(ts ...types.Type) (t types.Type, ok bool) {
	if len(ts) == 0 {
		return t, false
	}
	t = ts[0].WithoutAttr()
	same := true
	for _, o := range ts[1:] {
		same = same && o.Attr == ts[0].Attr
		if t, ok = common2(t, o.WithoutAttr()); !ok {
			return types.Type{}, false
		}
	}
	if same && t.IsTimestamp() && t.EqualIgnoreNull(ts[0]) {
		t.Attr = ts[0].Attr
	}
	return t, true
}

func common2(a, b types.Type) (types.Type, bool) {
	null := a.Nullable || b.Nullable
	var t types.Type
	ok := true
	switch {
	case a.EqualIgnoreNull(b) && !a.IsNested():
		t = a
	case a.Kind == types.Null:
		t, null = b, true
	case b.Kind == types.Null:
		t, null = a, true
	case a.IsNumeric() && b.IsNumeric():
		t = commonNumeric(a, b)
	case a.IsString() && b.IsString():
		t = commonLength(a, b, types.Char, types.VarChar)
	case a.IsBinary() && b.IsBinary():
		t = commonLength(a, b, types.Binary, types.VarBinary)
	case a.IsInterval() && a.Kind == b.Kind:
		t = a
		if a.Unit != b.Unit {
			t.Unit = types.UnitNone
		}
	case a.IsTemporal() && b.IsTemporal():
		t, ok = commonTime(a, b)
	case a.IsNested() && a.Kind == b.Kind:
		t, ok = commonNested(a, b)
	default:
		return t, false
	}
	return t.WithNullable(null), ok
}

func commonNumeric(a, b types.Type) types.Type {
	if a.IsApprox() || b.IsApprox() {
		switch {
		case a.Kind == types.Double || b.Kind == types.Double ||
			a.Kind == types.Decimal || b.Kind == types.Decimal:
			return types.DoubleType
		}
		return types.FloatType
	}
	if a.Kind != types.Decimal && b.Kind != types.Decimal {
		if a.Kind > b.Kind {
			return a
		}
		return b
	}
	a, b = AsDecimal(a), AsDecimal(b)
	whole := min(max(a.Precision-a.Scale, b.Precision-b.Scale), types.MaxPrecision)
	scale := min(max(a.Scale, b.Scale), types.MaxPrecision-whole)
	return types.DecimalType(whole+scale, scale)
}

// AsDecimal returns the DECIMAL that holds every value of an exact numeric type.
func AsDecimal(t types.Type) types.Type {
	p := 0
	switch t.Kind {
	case types.TinyInt:
		p = 3
	case types.SmallInt:
		p = 5
	case types.Int:
		p = 10
	case types.BigInt:
		p = 19
	default:
		return t
	}
	return types.DecimalType(p, 0).WithNullable(t.Nullable)
}

func commonLength(a, b types.Type, fixed, varying types.Kind) types.Type {
	t := a
	t.Precision = max(a.Precision, b.Precision)
	if a.Kind != fixed || b.Kind != fixed || a.Precision != b.Precision {
		t.Kind = varying
	}
	return t
}

func commonTime(a, b types.Type) (types.Type, bool) {
	if a.Kind == b.Kind {
		a.Precision = max(a.Precision, b.Precision)
		return a, true
	}
	if a.Kind == types.Time || b.Kind == types.Time {
		return a, false
	}
	// DATE gives way to a timestamp, TIMESTAMP to TIMESTAMP_LTZ.
	if b.Kind > a.Kind {
		a, b = b, a
	}
	if b.Kind != types.Date {
		a.Precision = max(a.Precision, b.Precision)
	}
	return a, true
}

func commonNested(a, b types.Type) (types.Type, bool) {
	t := a
	ok := true
	if a.Elem != nil {
		e, k := common2(*a.Elem, *b.Elem)
		t.Elem, ok = &e, k
	}
	if a.Key != nil && ok {
		e, k := common2(*a.Key, *b.Key)
		t.Key, ok = &e, k
	}
	if len(a.Fields) != len(b.Fields) {
		return t, false
	}
	if len(a.Fields) > 0 {
		t.Fields = make([]types.Field, len(a.Fields))
		for i, f := range a.Fields {
			ft, k := common2(f.Type, b.Fields[i].Type)
			if !k {
				return t, false
			}
			f.Type = ft
			t.Fields[i] = f
		}
	}
	return t, ok
}
