package engine_test

import (
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestSavepoint_ValuesThatDoNotFit sets columns of all lengths to values that they cannot hold: CAST
// would wrap or cut them.
func TestSavepoint_ValuesThatDoNotFit(t *testing.T) {
	f := newFlow(t, `CREATE TABLE t (k VARCHAR(3), a TINYINT, b SMALLINT, c INT, d BIGINT, e DECIMAL(5, 2), f FLOAT, g VARCHAR(4), ts TIMESTAMP(3))
  WITH ('connector' = 'filesystem', 'path' = '${IN}', 'format' = 'json', 'source.monitor-interval' = '10 ms');
CREATE TABLE o (k STRING, a TINYINT, b SMALLINT, c INT, d BIGINT, e DECIMAL(5, 2), f FLOAT, g STRING, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, MAX(a), MAX(b), MAX(c), MAX(d), MAX(e), MAX(f), MAX(g), MAX(ts) FROM t GROUP BY k;`)
	f.put(`{"k":"x","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":"g","ts":"2026-01-01 00:00:00"}`)
	from := f.run("")
	for _, c := range []struct{ column, value, want string }{
		{"max_a", "128", "is TINYINT, which the value 128 does not fit; nothing was written"},
		{"max_a", "-129", "does not fit"},
		{"max_a", "127", ""},
		{"max_a", "max_a + 0.5", ""},
		{"max_b", "40000", "is SMALLINT, which the value 40000"},
		{"max_b", "-32768", ""},
		{"max_c", "99999999999", "column 'max_c' is INT, which the value 99999999999 does not fit; nothing was written"},
		{"max_c", "1e10", "does not fit"},
		{"max_c", "max_d + 2147483647", "does not fit"},
		{"max_c", "2147483647", ""},
		{"max_c", "-2147483648", ""},
		{"max_c", "NULL", ""},
		{"max_c", "'12'", ""},
		{"max_d", "9223372036854775808", "does not fit"},
		{"max_d", "9223372036854775807", ""},
		{"max_d", "1e30", "does not fit"},
		{"max_e", "1000", "is DECIMAL(5, 2), which the value 1000"},
		{"max_e", "999.99", ""},
		{"max_f", "1e39", "is FLOAT, which"},
		{"max_f", "1.5", ""},
		{"max_g", "'abcde'", "which the value abcde does not fit"},
		{"max_g", "'abcd'", ""},
		{"max_ts", "'2026-02-30x'", "2026-02-30x"},
		{"max_ts", "TIMESTAMP '2026-02-03 00:00:00'", ""},
	} {
		_, err := f.edit(from, "GroupAggregate", "groups", engine.Edit{Set: map[string]string{c.column: c.value}})
		if got := ""; err != nil {
			got = err.Error()
			if c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("%s = %s: %s, want %q", c.column, c.value, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%s = %s was written", c.column, c.value)
		}
	}
	_, err := f.edit(from, "GroupAggregate", "groups", engine.Edit{Add: true, Set: map[string]string{"k": "'abcd'"}})
	if err == nil || !strings.Contains(err.Error(), "column 'k' is VARCHAR(3), which the value abcd does not fit") {
		t.Errorf("a long key was added: %v", err)
	}
}
