package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/engine"
)

// TestReplay_OverRestarts computes intervals again between which the job was stopped and started at another
// parallelism, and failed and started by itself.
func TestReplay_OverRestarts(t *testing.T) {
	dir := t.TempDir()
	replayRows(t, filepath.Join(dir, "in"), 3, 3000, 1)
	o := engine.Options{Dir: dir, BatchRows: 64, ReadRate: 20000}
	script := func(par int) string {
		return fmt.Sprintf(replayTables, par, t.Name()) + "SET 'restart-strategy.exponential-delay.initial-backoff' = '1 ms';\n" +
			"EXECUTE STATEMENT SET BEGIN " + replayShapes["rows"] + replayShapes["board"] + replayShapes["counts"] + " END;"
	}
	// after does something to a run when it has read so many rows.
	after := func(rows int64, do func(*engine.Run)) engine.Handler {
		return engine.Handler{JobStarted: func(r *engine.Run) {
			go func() {
				for end := time.Now().Add(time.Minute); r.Status().RowsRead < rows && time.Now().Before(end); {
					time.Sleep(2 * time.Millisecond)
				}
				do(r)
			}()
		}}
	}
	for i, x := range []struct {
		par int
		h   engine.Handler
	}{{1, after(2000, func(r *engine.Run) { r.Stop() })}, {3, after(5000, func(r *engine.Run) { r.Kill(errors.New("killed by a test")) })}, {2, engine.Handler{}}} {
		err := engine.New(o).Script(t.Context(), "job.sql", script(x.par), x.h)
		if err != nil && !strings.Contains(err.Error(), "killed by a test") {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	e := engine.New(o)
	ids := replayIDs(t, e)
	if len(ids) < 6 {
		t.Skipf("the machine was too busy: %d checkpoints", len(ids))
	}
	pars := map[int]bool{}
	for i := 1; i < len(ids); i++ {
		r, err := verify(e, script(2), ids[i-1], ids[i])
		if err != nil {
			if strings.Contains(err.Error(), "does not go on from") {
				continue
			}
			t.Fatalf("%d to %d: %v", ids[i-1], ids[i], err)
		}
		for _, s := range r[0].Sinks {
			if s.Verdict != engine.ReplayEqual && !endedUpserts(&s) {
				t.Fatalf("%d to %d of %v: %s", ids[i-1], ids[i], ids, replayText(r))
			}
		}
		pars[i] = true
	}
	if len(pars) < len(ids)-2 {
		t.Errorf("only %d of %d intervals were computed again", len(pars), len(ids)-1)
	}
	// Over everything, from the first to the one before the last.
	r, err := verify(e, script(3), ids[0], ids[len(ids)-2])
	if err != nil || r[0].Differs() {
		t.Errorf("from %d to %d: %v, %s", ids[0], ids[len(ids)-2], err, replayText(r))
	}
}
