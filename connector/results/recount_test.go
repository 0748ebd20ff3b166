package results

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
)

// recountTable has an exact and an approximate value.
func recountTable() *connector.Table {
	return &connector.Table{Name: "board", Columns: []types.Field{{Name: "k", Type: types.StringType.NotNull()}, {Name: "w", Type: types.TimestampType(3).NotNull()},
		{Name: "d", Type: types.DecimalType(12, 2)}, {Name: "x", Type: types.DoubleType}, {Name: "rev", Type: types.BigIntType.NotNull()}, {Name: "n", Type: types.BigIntType}},
		Results: &connector.Results{Key: []string{"k", "w"}, WindowStart: "w", Column: map[string]string{"revision": "rev", "input_count": "n"}}}
}

// TestTally adds up as stores do: decimals with all digits, NULLs left out.
func TestTally(t *testing.T) {
	l, err := LayoutOf(recountTable())
	if err != nil {
		t.Fatal(err)
	}
	y := NewTally(l)
	for _, row := range []map[string]string{{"d": "0.10", "x": "0.5", "n": "3"}, {"d": "0.2", "n": "9223372036854775807"}, {"x": "1e300", "n": "1"}} {
		if err := y.Add(1000, func(c string) (string, bool) { v, ok := row[c]; return v, ok }); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.Add(-5, func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	if err := y.Add(0, func(string) (string, bool) { return "no number", true }); err == nil || !strings.Contains(err.Error(), "column ") {
		t.Errorf("added %v", err)
	}
	got := y.Totals()
	if len(got) != 3 || got[0].Window != -5 || got[0].Keys != 1 || got[0].Sums["d"] != "" || got[2].Keys != 3 || got[2].Sums["d"] != "0.30" ||
		got[2].Sums["n"] != "9223372036854775811" || got[2].Sums["x"] != "1e+300" {
		t.Errorf("%+v", got)
	}
}

// TestRecount compares windows that are equal, differ, are missing on either side, and are known to be short of rows.
func TestRecount(t *testing.T) {
	l, err := LayoutOf(recountTable())
	if err != nil {
		t.Fatal(err)
	}
	total := func(w, keys int64, d, x, n string) Total {
		return Total{Window: w, Keys: keys, Sums: map[string]string{"d": d, "x": x, "n": n}}
	}
	got := []Total{total(0, 2, "1.50", "0.3", "7"), total(10, 1, "1.00", "1", "1"), total(20, 1, "1.00", "1", "1"), total(30, 1, "1.00", "1", "5")}
	source := []Total{total(0, 2, "1.5", "0.30000000000000004", "7"), total(20, 1, "1.00", "1.1", "2"), total(30, 2, "2.00", "2", "9"), total(40, 3, "", "", "3")}
	missed := []connector.MissedWindow{{Start: 30, End: 40, Rows: 4}, {Start: 40, End: 50, Rows: 3}}
	r := (&Counted{Totals: source, Inputs: []byte(`[]`)}).Recount(l, got, Late(missed))
	if r.Passed || r.Windows != 4 || r.SourceWindows != 4 || r.Keys != 5 || r.SourceKeys != 8 || r.Same != 1 || r.Differing != 4 || r.Explained != 2 || r.Sums["n"] != "14" || r.SourceSums["n"] != "21" {
		t.Errorf("%+v", r)
	}
	var b strings.Builder
	if err := r.Text(&b, "live"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NOT EQUAL: 4 windows with 5 keys, by the sources 4 with 8; 1 windows equal, 4 differ, 2 of these because live had not got all rows", "the sources have no rows for it",
		"sum(x) 1, by the sources 1.1; sum(n) 1, by the sources 2", "4 rows came too late for it", "missing in live; 3 rows came too late"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
	if r := (&Counted{Totals: source[:1]}).Recount(l, got[:1], Late(nil)); !r.Passed {
		t.Errorf("sums of doubles depend on their order: %+v", r)
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{{"nan", "NaN", true}, {"inf", "+Inf", true}, {"-Infinity", "-inf", true}, {"Infinity", "-inf", false}, {"nan", "1", false}, {"inf", "1e308", false},
		{"1" + strings.Repeat("0", 310), "+Inf", true}, {"", "nan", false}, {"1e308", "1e308", true}} {
		r := (&Counted{Totals: []Total{total(0, 1, "1", c.b, "1")}}).Recount(l, []Total{total(0, 1, "1", c.a, "1")}, Late(nil))
		if r.Passed != c.same {
			t.Errorf("%s and %s: %+v", c.a, c.b, r)
		}
	}
	if r := (&Counted{}).Recount(l, nil, Late(nil)); r.Passed {
		t.Error("nothing was compared, and it passed")
	}
	if r := (&Counted{Why: "it does not end"}).Recount(l, got, Late(nil)); r.Passed || r.Why == "" || r.Windows != 0 {
		t.Errorf("%+v", r)
	}
}

// TestAddSums keeps what is no number, or infinite, in the sum over all windows, in whatever order they come.
func TestAddSums(t *testing.T) {
	for _, c := range []struct{ in, want string }{{"1 2.5", "3.5"}, {"nan 1", "NaN"}, {"1 nan 2", "NaN"}, {"inf 5 -3", "+Inf"}, {"5 -Infinity", "-Inf"}, {"inf -inf", "NaN"}, {"inf - 1", "+Inf"}, {"- 1", "1"}} {
		to := map[string]string{}
		for _, x := range strings.Fields(c.in) {
			if x == "-" {
				x = ""
			}
			addSums(to, map[string]string{"x": x})
		}
		if to["x"] != c.want {
			t.Errorf("%s: %s, want %s", c.in, to["x"], c.want)
		}
	}
}
