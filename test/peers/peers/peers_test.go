package peers

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCommand finds the scripts, and hands their variables on: no system is started for it.
func TestCommand(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the scripts need bash")
	}
	p := New("KAFKA_PORT=4711", "KAFKA_NODES=3")
	got := Output(t, p.Command(t.Context(), "kafka", "bootstrap"))
	if want := "127.0.0.1:4711,127.0.0.1:4713,127.0.0.1:4715\n"; got != want {
		t.Errorf("the bootstrap servers are %q, want %q", got, want)
	}
	err := p.Run("kafka", "no-such-command")
	if err == nil || !strings.Contains(err.Error(), "test/peers/kafka no-such-command") || !strings.Contains(err.Error(), "KAFKA_PORT") {
		t.Errorf("an unknown command: %v", err)
	}
	if p.Started("kafka") {
		t.Error("Kafka was started")
	}
	if err := p.Wipe(); err != nil {
		t.Errorf("nothing is wiped: %v", err)
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "\n": nil, "a": {"a"}, "a\n\nb\n": {"a", "", "b"}} {
		if got := Lines(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
