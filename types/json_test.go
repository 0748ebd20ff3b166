package types

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// randomType makes a type of depth at most d, of any kind.
func randomType(r *rand.Rand, d int) Type {
	t := Type{Kind: Kind(r.IntN(int(Descriptor) + 1)), Nullable: r.IntN(2) == 0}
	if t.IsNested() && d == 0 {
		t.Kind = BigInt
	}
	if t.Kind == Null {
		t.Nullable = true
	}
	sub := func() *Type { e := randomType(r, d-1); return &e }
	switch t.Kind {
	case Decimal:
		t.Precision = 1 + r.IntN(MaxPrecision)
		t.Scale = r.IntN(t.Precision + 1)
	case Char, VarChar, Binary, VarBinary:
		t.Precision = []int{1, 20, MaxLength}[r.IntN(3)]
	case Time:
		t.Precision = r.IntN(10)
	case Timestamp, TimestampLTZ:
		t.Precision = r.IntN(10)
		t.Attr = TimeAttr(r.IntN(3))
	case IntervalYearMonth, IntervalDayTime:
		t.Unit = Interval(r.IntN(len(unitNames)))
		t.Precision = r.IntN(10)
	case Array, Multiset:
		t.Elem = sub()
	case Map:
		t.Key, t.Elem = sub(), sub()
	case Row:
		for i := range r.IntN(4) {
			t.Fields = append(t.Fields, Field{
				Name: []string{"a", "`b` \"c\"", "\u00e9\n", ""}[i], Type: *sub(), Comment: []string{"", "why <not>"}[r.IntN(2)],
			})
		}
	}
	return t
}

func TestTypeSurvivesJSON(t *testing.T) {
	seen := map[Kind]int{}
	for seed := uint64(1); seed <= 5000; seed++ {
		want := randomType(rand.New(rand.NewPCG(seed, 1)), 3)
		seen[want.Kind]++
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var got Type
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s\n got %#v\nwant %#v", seed, text, got, want)
		}
	}
	for k := Null; k <= Descriptor; k++ {
		if seen[k] == 0 {
			t.Errorf("no type of kind %d was made", k)
		}
	}
}

func TestSchemaSurvivesJSON(t *testing.T) {
	for _, want := range []Schema{
		{},
		NewSchema(Field{Name: "a", Type: StringType.NotNull(), Comment: "first"},
			Field{Name: "b", Type: RowType(Field{Name: "x", Type: DecimalType(20, 3)})}),
	} {
		text, err := json.Marshal(struct{ S Schema }{want})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ S Schema }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got.S, want) {
			t.Errorf("%s: got %#v", text, got.S)
		}
	}
}

// TestTypeJSONIsForEver holds the text itself: bytes written by earlier versions must be read.
func TestTypeJSONIsForEver(t *testing.T) {
	want := MapType(DecimalType(10, 2).NotNull(), ArrayType(RowType(
		Field{Name: "at", Type: Type{Kind: TimestampLTZ, Precision: 3, Attr: RowTime}},
		Field{Name: "i", Type: Type{Kind: IntervalDayTime, Nullable: true, Unit: UnitDayToSecond}})))
	const text = `{"kind":"MAP","key":{"kind":"DECIMAL","notNull":true,"precision":10,"scale":2},` +
		`"elem":{"kind":"ARRAY","elem":{"kind":"ROW","fields":[` +
		`{"name":"at","type":{"kind":"TIMESTAMP_LTZ","notNull":true,"precision":3,"attr":"ROWTIME"}},` +
		`{"name":"i","type":{"kind":"INTERVAL_DAY_TIME","unit":"DAY TO SECOND"}}]}}}`
	if got, err := json.Marshal(want); err != nil || string(got) != text {
		t.Errorf("written as %s (%v)\nwant %s", got, err, text)
	}
	var got Type
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read as %#v (%v)", got, err)
	}
}

func TestTypeJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"INTEGER"}`:                            `no kind is called "INTEGER"`,
		`{}`:                                            `no kind is called ""`,
		`{"kind":"ARRAY"}`:                              "has other parts",
		`{"kind":"INT","elem":{"kind":"INT"}}`:          "has other parts",
		`{"kind":"MAP","elem":{"kind":"INT"}}`:          "has other parts",
		`{"kind":"DECIMAL","precision":39}`:             "cannot have precision 39",
		`{"kind":"DECIMAL","precision":3,"scale":4}`:    "scale 4",
		`{"kind":"TIMESTAMP","precision":-1}`:           "cannot have precision -1",
		`{"kind":"TIMESTAMP","attr":"LATE"}`:            "no time attribute",
		`{"kind":"INTERVAL_DAY_TIME","unit":"WEEK"}`:    "no interval is called",
		`{"kind":"INT","unsigned":true}`:                "unsigned",
		`{"kind":"ROW","fields":[{"name":"a"}]}`:        "has no type",
		`{"kind":"ARRAY","elem":{"kind":"SOMETHING"}}`:  "SOMETHING",
		`{"kind":"MULTISET","elem":{"kind":"MAP"}}`:     "has other parts",
		`{"kind":"ROW","elem":{"kind":"INT"}}`:          "has other parts",
		`{"kind":"VARCHAR","precision":9999999999}`:     "precision",
		`{"kind":"INTERVAL_DAY_TIME","precision":1000}`: "precision",
	} {
		var got Type
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}
