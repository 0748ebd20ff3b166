package results

import (
	"strings"
	"testing"
	"time"
)

// TestClaimJob lets one of two jobs begin a generation, the same job again, and another one when the claim has ended.
func TestClaimJob(t *testing.T) {
	m, err := NewMemory(recountTable())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := func(place string, minutes int, generation string) error {
		started := at.Add(time.Duration(minutes) * time.Minute)
		return ClaimJob(t.Context(), m, generation, JobClaim{Place: place, Run: place, Started: started, Until: started.Add(10 * time.Minute)})
	}
	if err := claim("a", 0, Live); err != nil {
		t.Fatal(err)
	}
	if err := claim("a", 1, Live); err != nil {
		t.Errorf("the same job again: %v", err)
	}
	if err := claim("b", 2, "v2"); err != nil {
		t.Errorf("another generation: %v", err)
	}
	// A clock that is behind makes nobody the first.
	for _, minutes := range []int{2, -3} {
		if err := claim("b", minutes, Live); err == nil || !strings.Contains(err.Error(), "with checkpoints in a") {
			t.Errorf("another job at minute %d: %v", minutes, err)
		}
	}
	if err := claim("b", 11, Live); err != nil {
		t.Errorf("the claim has ended: %v", err)
	}
}
