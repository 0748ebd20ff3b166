// Package connectortest is the conformance suite of connectors: ours, and those that users write. A
// test of a connector hands it a table and says what must come out; the suite then reads and writes
// it in the ways the runtime does, and in some that only happen when things go wrong.
//
//	func TestConformance(t *testing.T) {
//		connectortest.TestSource(t, connectortest.SourceCase{Table: table, Rows: want})
//	}
//
// Stability: stable.
package connectortest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// factory returns the connector of t, its options, and fails when the definition is refused.
func factory(t testing.TB, table *connector.Table) (*connector.Factory, option.Values) {
	t.Helper()
	f, o := lookup(t, table)
	if f.Check != nil {
		if err := f.Check(table, o); err != nil {
			t.Fatalf("Check refuses the table: %v", err)
		}
	}
	return f, o
}

// lookup finds the connector of a table, without the check, which may ask servers.
func lookup(t testing.TB, table *connector.Table) (*connector.Factory, option.Values) {
	t.Helper()
	f := connector.Lookup(table.Connector)
	if f == nil {
		t.Fatalf("connector '%s' is not registered", table.Connector)
	}
	return f, option.Of(table.Options, f.Options, connector.CommonOptions)
}

// show prints a value for comparison.
func show(v types.Value) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("x'%x'", x)
	case []types.Value:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = show(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// line prints row i of some columns.
func line(cols []*vec.Vec, i int) string {
	parts := make([]string, len(cols))
	for k, c := range cols {
		parts[k] = show(c.Value(i))
	}
	return strings.Join(parts, " | ")
}

// sameRows compares rows in order.
func sameRows(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(s []string) string {
		if i < len(s) {
			return fmt.Sprintf("%q", s[i])
		}
		return "the end"
	}
	t.Errorf("%s: %d rows, want %d; at row %d there is %s, want %s", what, len(got), len(want), i, at(got), at(want))
}

// sameSet compares rows in any order.
func sameSet(t testing.TB, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	sameRows(t, what, got, want)
}

// longest is how long is waited for what must come soon: machines that run tests may have much else to do.
const longest = time.Minute

// noLeaks fails when the number of goroutines does not come back, within a time, to what it was.
func noLeaks(t testing.TB, within time.Duration) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(within); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				return
			}
		}
	})
}
