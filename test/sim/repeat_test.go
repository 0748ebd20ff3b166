package sim

import "testing"

// TestRepeats runs seeds again: what happens, process by process, is what happened before. A few do not
// repeat themselves, since Go chooses at random between channels that are ready at the same time.
func TestRepeats(t *testing.T) {
	const seeds = 12
	var other []uint64
	for seed := uint64(101); seed < 101+seeds; seed++ {
		if was := simulate(t, seed, "").String(); simulate(t, seed, "").String() != was {
			other = append(other, seed)
		}
	}
	if len(other) > seeds/4 {
		t.Errorf("seeds %v of %d went otherwise the second time", other, seeds)
	}
}
