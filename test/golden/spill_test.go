package golden

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-stream/tidemark/state"
)

// TestRestart_Spills: in runs with restarts and, in a third of their starts, no memory for state, rows of
// joins do leave memory.
func TestRestart_Spills(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "join.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, cs := parseCases(string(raw))
	before, runs := state.Evictions(), 0
	for _, c := range cs {
		if notRestarted(c) != "" {
			continue
		}
		dir := t.TempDir()
		writeSections(t, c, dir)
		for seed := range uint64(2) {
			r := &restarting{t: t, dir: dir, out: filepath.Join(dir, "out"), rng: rand.New(rand.NewPCG(seed, 7)), folded: map[string]int{}}
			r.script(c.sql)
			runs++
		}
	}
	n := state.Evictions() - before
	t.Logf("%d rows left memory in %d runs", n, runs)
	if n == 0 {
		t.Error("no row left memory")
	}
}
