package expr_test

import (
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

var utc = &expr.Env{Zone: time.UTC}

func TestSmoke(t *testing.T) {
	b := &vec.Batch{N: 3, Cols: []*vec.Vec{vec.New(types.BigIntType, 3)}}
	b.Cols[0].I64[0], b.Cols[0].I64[1], b.Cols[0].I64[2] = 1, 2, 3
	b.Cols[0].SetNull(1)
	col := &expr.Column{Index: 0, Name: "a", T: types.BigIntType}
	dec := &expr.Literal{Value: types.I128(908), T: types.DecimalType(3, 3).NotNull()}
	e, err := expr.Resolve("*", []expr.Expr{dec, col}, utc, expr.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	e, err = expr.Cast(e, types.StringType, false, utc, expr.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := expr.Compile(e, utc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := &expr.EvalCtx{}
	v := p.Eval(ctx, b)
	t.Log(e, e.Type(), v.Value(0), v.Value(1), v.Value(2), ctx.Errs)
}
