package bind

import (
	"github.com/tidemark-stream/tidemark/sql/ast"
	"github.com/tidemark-stream/tidemark/types"
)

// Default lengths and precisions of types written without.
const (
	decimalPrecision   = 10
	timestampPrecision = 6
)

var plainTypes = map[string]types.Type{
	"BOOLEAN": types.BooleanType, "TINYINT": types.TinyIntType, "SMALLINT": types.SmallIntType,
	"INT": types.IntType, "BIGINT": types.BigIntType, "FLOAT": types.FloatType,
	"DOUBLE": types.DoubleType, "DATE": types.DateType, "STRING": types.StringType,
	"BYTES": types.BytesType, "NULL": types.NullType,
}

// typeOf turns a type as written into a type.
func typeOf(n *ast.TypeName) (types.Type, error) {
	t, err := bareType(n)
	if err != nil {
		return t, err
	}
	return t.WithNullable(n.Null != ast.NotNull), nil
}

func bareType(n *ast.TypeName) (types.Type, error) {
	if t, ok := plainTypes[n.Name]; ok {
		return t, nil
	}
	switch n.Name {
	case "CHAR", "VARCHAR", "BINARY", "VARBINARY":
		return lengthType(n)
	case "DECIMAL":
		return decimalType(n)
	case "TIME":
		p, err := precision(n, 0, 9)
		return types.TimeType(p), err
	case "TIMESTAMP":
		p, err := precision(n, timestampPrecision, 9)
		return types.TimestampType(p), err
	case "TIMESTAMP_LTZ":
		p, err := precision(n, timestampPrecision, 9)
		return types.TimestampLTZType(p), err
	case "TIMESTAMP_TZ":
		return types.Type{}, errAt(n.Span, "type TIMESTAMP WITH TIME ZONE cannot be used").
			WithHint("use TIMESTAMP_LTZ, a point in time shown in the session's time zone")
	case "INTERVAL":
		t, err := intervalType(*n.Interval)
		return t.AsNullable(), err
	case "ARRAY", "MULTISET":
		elem, err := typeOf(n.Elem)
		if n.Name == "ARRAY" {
			return types.ArrayType(elem), err
		}
		return types.MultisetType(elem), err
	case "MAP":
		key, err := typeOf(n.Key)
		if err != nil {
			return key, err
		}
		value, err := typeOf(n.Elem)
		return types.MapType(key, value), err
	case "ROW":
		return rowType(n)
	case "USER":
		return types.Type{}, errAt(n.Span, "unknown type %s", n.Ref).
			WithHint("%s", suggest(n.Ref.Upper(), typeNames, "types are "))
	}
	return types.Type{}, unsupported(n.Span, "type "+n.Name)
}

var typeNames = []string{"CHAR", "VARCHAR", "STRING", "BOOLEAN", "BINARY", "VARBINARY", "BYTES", "DECIMAL",
	"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP",
	"TIMESTAMP_LTZ", "INTERVAL", "ARRAY", "MULTISET", "MAP", "ROW"}

func lengthType(n *ast.TypeName) (types.Type, error) {
	kind := map[string]types.Kind{"CHAR": types.Char, "VARCHAR": types.VarChar, "BINARY": types.Binary,
		"VARBINARY": types.VarBinary}[n.Name]
	length := 1
	// VARCHAR without a length is STRING to a user of Flink's clusters, though the standard
	// says VARCHAR(1) is never what is meant.
	if kind == types.VarChar || kind == types.VarBinary {
		length = types.MaxLength
	}
	if len(n.Params) > 0 {
		length = n.Params[0]
	}
	if length < 1 {
		return types.Type{}, errAt(n.Span, "the length of %s must be 1 or more", n.Name)
	}
	return types.Type{Kind: kind, Nullable: true, Precision: length}, nil
}

func decimalType(n *ast.TypeName) (types.Type, error) {
	p, s := decimalPrecision, 0
	if len(n.Params) > 0 {
		p = n.Params[0]
	}
	if len(n.Params) > 1 {
		s = n.Params[1]
	}
	if p < 1 || p > types.MaxPrecision {
		return types.Type{}, errAt(n.Span, "the precision of DECIMAL goes from 1 to %d, not %d", types.MaxPrecision, p)
	}
	if s < 0 || s > p {
		return types.Type{}, errAt(n.Span, "the scale of DECIMAL(%d, s) goes from 0 to %d, not %d", p, p, s)
	}
	return types.DecimalType(p, s), nil
}

func precision(n *ast.TypeName, def, most int) (int, error) {
	if len(n.Params) == 0 {
		return def, nil
	}
	if p := n.Params[0]; p >= 0 && p <= most {
		return p, nil
	}
	return 0, errAt(n.Span, "the precision of %s goes from 0 to %d, not %d", n.Name, most, n.Params[0])
}

func rowType(n *ast.TypeName) (types.Type, error) {
	var fields []types.Field
	seen := map[string]bool{}
	for _, f := range n.Fields {
		t, err := typeOf(f.Type)
		if err != nil {
			return t, err
		}
		if seen[f.Name.Name] {
			return t, errAt(f.Name.Span, "field %s is named twice", f.Name.Name)
		}
		seen[f.Name.Name] = true
		field := types.Field{Name: f.Name.Name, Type: t}
		if f.Comment != nil {
			field.Comment = f.Comment.Value
		}
		fields = append(fields, field)
	}
	return types.RowType(fields...), nil
}
