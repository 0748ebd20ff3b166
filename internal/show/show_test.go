package show

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/types"
)

func TestTable_AlignsAndCuts(t *testing.T) {
	var b strings.Builder
	tab := NewTable(&b, types.NewSchema(types.Field{Name: "city", Type: types.StringType},
		types.Field{Name: "n", Type: types.BigIntType}))
	for _, r := range [][]string{{"Z\u00fcrich", "12"}, {"\u6771\u4eac", "1234"}, {"a\nb", "5"}} {
		if err := tab.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	want := `+--------+------+
| city   | n    |
+--------+------+
| Z` + "\u00fc" + `rich |   12 |
| ` + "\u6771\u4eac" + `   | 1234 |
| a\nb   |    5 |
+--------+------+
3 rows
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTable_NeverCutsNumbers(t *testing.T) {
	var b strings.Builder
	tab := NewTable(&b, types.NewSchema(types.Field{Name: "n", Type: types.BigIntType}))
	for _, r := range []string{"1", "22"} {
		if err := tab.Add([]string{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := tab.Add([]string{"123456789"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "| 123456789 |") {
		t.Errorf("the late number is cut:\n%s", b.String())
	}
}

func TestNumbers(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Count(1234567), "1,234,567")
	f(Count(-1234), "-1,234")
	f(Count(999), "999")
	f(Short(4100000), "4.1M")
	f(Bytes(5968337), "5.97 MB")
	f(Plural(1, "row", "rows"), "1 row")
}
