package checkpoint

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/option"
)

func TestOptionDefaults(t *testing.T) {
	o, err := ReadOptions(map[string]string{"table.exec.state.ttl": "1 h"})
	if err != nil {
		t.Fatal(err)
	}
	c, r := o.Coordinator, o.Restart
	if c != (CoordinatorOptions{Timeout: 10 * time.Minute, Retained: 1, OutputBytes: 256 << 20}) {
		t.Errorf("%+v", c)
	}
	if want := (RestartOptions{Strategy: NoRestart, InitialBackoff: time.Second, MaxBackoff: time.Minute, ResetBackoffThreshold: time.Hour,
		BackoffMultiplier: 1.5, JitterFactor: 0.1, Attempts: math.MaxInt, FixedAttempts: 1, FixedDelay: time.Second, MaxFailures: 1,
		RateInterval: time.Minute, RateDelay: time.Second, SameRecord: 3}); r != want {
		t.Errorf("%+v", r)
	}
	if o.Dir != "" || o.SavepointDir != "" || o.From != "" || o.AllowDropped || o.StateMemory != 1<<30 || o.Notes != nil {
		t.Errorf("%+v", o)
	}
}

func TestOptionNames(t *testing.T) {
	o, err := ReadOptions(map[string]string{
		"execution.checkpointing.interval":                     "10 s",
		"execution.checkpointing.min-pause":                    "500 ms",
		"execution.checkpointing.timeout":                      "2 min",
		"execution.checkpointing.tolerable-failed-checkpoints": "4",
		"state.checkpoints.num-retained":                       "3",
		"state.checkpoints.dir":                                "old",
		"execution.checkpointing.dir":                          "s3://bucket/x", // the present name wins
		"state.savepoints.dir":                                 "save",
		"execution.savepoint.path":                             "save/1",
		"execution.savepoint.ignore-unclaimed-state":           "true",
		"tidemark.state.memory":                                "64 mb",
		"tidemark.checkpointing.output-size":                   "1 mb",
		"tidemark.checkpointing.commit-timeout":                "5 min",
		"restart-strategy":                                     "Fixed-Delay",
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (CoordinatorOptions{10 * time.Second, 500 * time.Millisecond, 2 * time.Minute, 4, 3, 1 << 20, 5 * time.Minute}); o.Coordinator != want {
		t.Errorf("%+v", o.Coordinator)
	}
	if o.Dir != "s3://bucket/x" || o.SavepointDir != "save" || o.From != "save/1" || !o.AllowDropped || o.StateMemory != 64<<20 ||
		o.Restart.Strategy != FixedDelay {
		t.Errorf("%+v", o)
	}
}

func TestOptionsWithoutEffect(t *testing.T) {
	o, err := ReadOptions(map[string]string{
		"execution.checkpointing.unaligned":                  "true",
		"execution.checkpointing.unaligned.forced":           "false", // as it is
		"execution.checkpointing.mode":                       "at_least_once",
		"state.backend.incremental":                          "false",
		"execution.checkpointing.max-concurrent-checkpoints": "3",
		"state.backend.type":                                 "rocksdb",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `'state.backend.incremental' = 'false' has no effect: checkpoints are incremental
'execution.checkpointing.max-concurrent-checkpoints' = '3' has no effect: one checkpoint is taken at a time
'execution.checkpointing.mode' = 'at_least_once' has no effect: state is always exactly-once; a sink's guarantee is its 'sink.delivery-guarantee'
'execution.checkpointing.unaligned' = 'true' has no effect: checkpoints take what is on its way between subtasks with them, so backpressure holds none up
'state.backend.type' = 'rocksdb' has no effect: state is kept in memory and, beyond 'tidemark.state.memory', on disk`
	if got := strings.Join(o.Notes, "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"execution.checkpointing.interval", "often", "option 'execution.checkpointing.interval' cannot be 'often'; write a number and a unit: 500 ms, 10 s, 5 min, 1 h, 2 d"},
		{"execution.checkpointing.interval", "9 ms", "option 'execution.checkpointing.interval' cannot be '9 ms'; write at least 10ms, or 0 for none"},
		{"execution.checkpointing.timeout", "0", "write at least 10ms"},
		{"execution.checkpointing.tolerable-failed-checkpoints", "-1", "write a number from 0 to"},
		{"state.checkpoints.num-retained", "0", "option 'state.checkpoints.num-retained' cannot be '0'; write a number from 1 to"},
		{"execution.checkpointing.max-concurrent-checkpoints", "0", "write a number from 1 to"},
		{"execution.checkpointing.mode", "twice", "it is one of EXACTLY_ONCE, AT_LEAST_ONCE"},
		{"execution.checkpointing.unaligned", "perhaps", "option 'execution.checkpointing.unaligned' cannot be 'perhaps'; write true or false"},
		{"restart-strategy", "always", "option 'restart-strategy' cannot be 'always'; it is one of exponential-delay,"},
		{"restart-strategy.exponential-delay.backoff-multiplier", "1.0", "write a number above 1"},
		{"restart-strategy.exponential-delay.backoff-multiplier", "NaN", "write a number above 1"},
		{"restart-strategy.exponential-delay.jitter-factor", "1.1", "write a number from 0 to 1"},
		{"restart-strategy.exponential-delay.initial-backoff", "2 min", "write at most 'restart-strategy.exponential-delay.max-backoff' = 1m0s"},
		{"restart-strategy.exponential-delay.attempts-before-reset-backoff", "some", "write a number of at least 1, or infinite"},
		{"restart-strategy.failure-rate.max-failures-per-interval", "0", "write a number from 1 to"},
		{"tidemark.state.memory", "much", "write a number and a unit: 64 kb"},
	} {
		_, err := ReadOptions(map[string]string{c.key: c.value})
		var e *option.Error
		if !errors.As(err, &e) || e.Key != c.key || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v", c.key, c.value, err)
		}
	}
}

// TestSpecs checks that every option has one meaning and that its default is one it may have.
func TestSpecs(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs() {
		if seen[s.Name] || s.Doc == "" {
			t.Errorf("%s is declared twice or without a word", s.Name)
		}
		seen[s.Name] = true
		if s.Default != "" {
			if err := option.Of(map[string]string{s.Name: s.Default}, []option.Spec{s}).Check(nil); err != nil {
				t.Errorf("default of %s: %v", s.Name, err)
			}
		}
	}
}
