package agg

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
)

func col(t types.Type) expr.Expr { return &expr.Column{Name: "x", T: t} }

// TestResolve checks Flink's result types.
func TestResolve(t *testing.T) {
	for _, x := range []struct {
		fn   string
		arg  types.Type
		want string
	}{
		{"count", types.StringType, "BIGINT NOT NULL"},
		{"sum", types.TinyIntType, "TINYINT"},
		{"sum", types.IntType, "INT"},
		{"sum", types.BigIntType.NotNull(), "BIGINT NOT NULL"},
		{"sum", types.FloatType, "FLOAT"},
		{"sum", types.DecimalType(10, 2), "DECIMAL(38, 2)"},
		{"$sum0", types.IntType, "INT NOT NULL"},
		{"avg", types.IntType, "INT"},
		{"avg", types.DecimalType(10, 2), "DECIMAL(38, 6)"},
		{"avg", types.DecimalType(20, 8), "DECIMAL(38, 8)"},
		{"stddev", types.DoubleType.NotNull(), "DOUBLE"},
		{"var_pop", types.IntType, "INT"},
		{"min", types.StringType, "STRING"},
		{"max", types.TimestampType(3), "TIMESTAMP(3)"},
		{"first_value", types.DateType, "DATE"},
		{"collect", types.IntType, "MULTISET<INT> NOT NULL"},
		{"array_agg", types.IntType, "ARRAY<INT>"},
		{"listagg", types.CharType(3), "STRING"},
		{"json_arrayagg", types.IntType, "STRING NOT NULL"},
		{"approx_count_distinct", types.IntType, "BIGINT NOT NULL"},
	} {
		sig, err := Resolve(x.fn, []expr.Expr{col(x.arg)}, false)
		if err != nil || sig.Result.String() != x.want {
			t.Errorf("%s(%s) is %s, %v; want %s", x.fn, x.arg, sig.Result, err, x.want)
		}
	}
	sig, err := Resolve("stddev", []expr.Expr{col(types.DoubleType)}, false)
	if err != nil || sig.Name != "STDDEV_SAMP" {
		t.Errorf("STDDEV is %s, %v", sig.Name, err)
	}
	p := &expr.Literal{Value: 0.5, T: types.DoubleType.NotNull()}
	sig, err = Resolve("approx_percentile", []expr.Expr{col(types.IntType), p}, false)
	if err != nil || sig.Result.String() != "DOUBLE" || !sig.Const[1] {
		t.Errorf("APPROX_PERCENTILE: %+v, %v", sig, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, x := range []struct {
		fn       string
		args     []expr.Expr
		distinct bool
		want     string
	}{
		{"sum", []expr.Expr{col(types.StringType)}, false, "SUM cannot be applied to STRING"},
		{"sum", nil, false, "usage: SUM"},
		{"count", nil, true, "COUNT(DISTINCT *)"},
		{"max", []expr.Expr{col(types.ArrayType(types.IntType))}, false, "compared"},
		{"listagg", []expr.Expr{col(types.IntType)}, false, "CAST(x AS STRING)"},
		{"median", nil, false, "unknown aggregate function MEDIAN"},
		{"percentile", []expr.Expr{col(types.IntType), col(types.StringType)}, false, "share"},
	} {
		if _, err := Resolve(x.fn, x.args, x.distinct); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.fn, err, x.want)
		}
	}
}

func TestAllDocumented(t *testing.T) {
	for _, f := range All() {
		if f.Doc == "" || f.Usage == "" || !Is(f.Name) {
			t.Errorf("%s lacks documentation", f.Name)
		}
	}
}
