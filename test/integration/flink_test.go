package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/test/peers/peers"
)

// orders is the input of the SQL files: events mostly in order, none later than their watermark
// allows, so that the answer does not depend on when Flink sends watermarks.
func orders(n int) string {
	r := rand.New(rand.NewPCG(5, 5))
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	now := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	first := now
	var b strings.Builder
	for i := range n {
		now = now.Add(time.Duration(r.IntN(180)) * time.Millisecond)
		ts := now
		if r.IntN(3) == 0 {
			ts = now.Add(-time.Duration(r.IntN(8000)) * time.Millisecond)
			if ts.Before(first) {
				ts = first
			}
		}
		customer := min(r.IntN(400), r.IntN(400), r.IntN(400))
		fmt.Fprintf(&b, `{"id":%d,"customer":"c%03d","city":"%s","product":"%s","price":%d.%02d,"qty":%d,"rate":%s,"note":%s,"ts":"%s"}`+"\n",
			i, customer, pick("Oslo", "Riga", "Bern", "Rome", "Bari", "K\u00f6ln"), pick("pasta", "salad", "tea", "bread"),
			1+r.IntN(99), r.IntN(100), 1+r.IntN(9), pick("0.5", "0.25", "1.75", "3", "1e-7", "12345678.9", "1e10", "0.1"),
			pick("null", `"7"`, `"12"`, `"300"`, `"abc 12"`, `"x 1y"`, `""`), ts.Format("2006-01-02 15:04:05.000"))
	}
	return b.String()
}

// TestSameAnswers runs the SQL files on Flink and here, and compares the answers row by row.
func TestSameAnswers(t *testing.T) {
	need(t)
	files, err := filepath.Glob("sql/*.sql")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d SQL files, want ten: %v", len(files), err)
	}
	in := write(t, "orders.jsonl", orders(20_000))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "tidemark"), filepath.Join(dir, "flink")
			peers.Output(t, tidemark(t.Context(), file, "IN", in, "OUT", ours))
			from := time.Now()
			again(t, "flink", func() error {
				if err := os.RemoveAll(theirs); err != nil {
					return err
				}
				out, err := servers.Command(t.Context(), "flink", "sql", "--define", "IN="+in, "--define", "OUT="+theirs, file).CombinedOutput()
				if err != nil {
					err = fmt.Errorf("Flink: %w\n%s", err, peers.Tail(string(out)))
				}
				return err
			})
			got, want := answer(t, ours), answer(t, theirs)
			if !slices.Equal(got, want) {
				t.Errorf("%d rows, Flink has %d; the first that differs: %s", len(got), len(want), firstDifference(got, want))
			}
			if len(want) == 0 {
				t.Error("Flink gives no rows, so nothing is compared")
			}
			t.Logf("%d rows are the same (Flink took %.1f s)", len(want), time.Since(from).Seconds())
		})
	}
}

// answer returns the lines of the visible files of a folder, sorted. Changes are folded: how many
// there were on the way to a result is not part of it.
func answer(t *testing.T, dir string) []string {
	t.Helper()
	rows := map[string]int{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.ContainsAny(d.Name()[:1], "._") {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			fold(rows, l)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for row, n := range rows {
		if n < 0 {
			t.Errorf("%s: %d of %s", dir, n, row)
		}
		for range n {
			out = append(out, row)
		}
	}
	slices.Sort(out)
	return out
}

// fold adds a line to rows; a line of debezium-json takes out what was before and adds what is
// after.
func fold(rows map[string]int, line string) {
	var change struct {
		Before, After json.RawMessage
		Op            string
	}
	if json.Unmarshal([]byte(line), &change) != nil || change.Op == "" {
		rows[line]++
		return
	}
	if s := string(change.Before); s != "" && s != "null" {
		rows[s]--
	}
	if s := string(change.After); s != "" && s != "null" {
		rows[s]++
	}
}
