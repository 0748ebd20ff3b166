package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/option"
)

// The keys that others name too.
const (
	KeyInterval      = "execution.checkpointing.interval"
	KeyTimeout       = "execution.checkpointing.timeout"
	KeyTolerable     = "execution.checkpointing.tolerable-failed-checkpoints"
	KeyDir           = "execution.checkpointing.dir"
	KeySavepointDir  = "execution.checkpointing.savepoint-dir"
	KeyFrom          = "execution.state-recovery.path"
	KeyAllowDropped  = "execution.state-recovery.ignore-unclaimed-state"
	KeyStrategy      = "restart-strategy.type"
	KeyStateMemory   = "tidemark.state.memory"
	KeyOutputSize    = "tidemark.checkpointing.output-size"
	KeyCommitTimeout = "tidemark.checkpointing.commit-timeout"
	KeySameRecord    = "tidemark.restart-strategy.same-record"

	keyMinPause      = "execution.checkpointing.min-pause"
	keyRetained      = "execution.checkpointing.num-retained"
	keyConcurrent    = "execution.checkpointing.max-concurrent-checkpoints"
	keyMode          = "execution.checkpointing.mode"
	keyUnaligned     = "execution.checkpointing.unaligned.enabled"
	keyForced        = "execution.checkpointing.unaligned.forced"
	keyAligned       = "execution.checkpointing.aligned-checkpoint-timeout"
	keyIncremental   = "execution.checkpointing.incremental"
	keyExternal      = "execution.checkpointing.externalized-checkpoint-retention"
	keyStorage       = "execution.checkpointing.storage"
	keyBackend       = "state.backend.type"
	keyClaim         = "execution.state-recovery.claim-mode"
	keyExpInitial    = "restart-strategy.exponential-delay.initial-backoff"
	keyExpMax        = "restart-strategy.exponential-delay.max-backoff"
	keyExpMultiplier = "restart-strategy.exponential-delay.backoff-multiplier"
	keyExpReset      = "restart-strategy.exponential-delay.reset-backoff-threshold"
	keyExpJitter     = "restart-strategy.exponential-delay.jitter-factor"
	keyExpAttempts   = "restart-strategy.exponential-delay.attempts-before-reset-backoff"
	keyFixedAttempts = "restart-strategy.fixed-delay.attempts"
	keyFixedDelay    = "restart-strategy.fixed-delay.delay"
	keyRateMax       = "restart-strategy.failure-rate.max-failures-per-interval"
	keyRateInterval  = "restart-strategy.failure-rate.failure-rate-interval"
	keyRateDelay     = "restart-strategy.failure-rate.delay"
)

// Options are the typed options of checkpoints, savepoints, state and restarts.
type Options struct {
	Coordinator CoordinatorOptions
	Restart     RestartOptions
	// Dir is where checkpoints go, SavepointDir where savepoints do: a folder or a URL; "" where
	// not given.
	Dir, SavepointDir string
	// From is the savepoint or checkpoint to start from, "" for the job's newest checkpoint.
	// AllowDropped says that state which no operator wants may be left behind.
	From         string
	AllowDropped bool
	// StateMemory is the budget of the job's state in memory, bytes.
	StateMemory int64
	// Notes explain options that were given and mean nothing here, in the order of their keys.
	Notes []string
}

// declared is an option with its old names.
type declared struct {
	option.Spec
	old []string
	// moot explains, for options without an effect, what happens instead; holds is the value that
	// says nothing else.
	moot, holds string
}

var strategies = []string{"exponential-delay", "exponentialdelay", "fixed-delay", "fixeddelay", "failure-rate", "failurerate",
	"none", "off", "disable"}

var declarations = []declared{
	{Spec: option.Spec{Name: KeyInterval, Kind: option.Duration, Default: "0 s", Example: "10 s",
		Doc: "time from the start of a checkpoint to the start of the next; 0 means none"}},
	{Spec: option.Spec{Name: keyMinPause, Kind: option.Duration, Default: "0 s",
		Doc: "least time from the end of a checkpoint to the start of the next"}},
	{Spec: option.Spec{Name: KeyTimeout, Kind: option.Duration, Default: "10 min",
		Doc: "time after which a checkpoint is given up"}},
	{Spec: option.Spec{Name: KeyTolerable, Kind: option.Int, Default: "0",
		Doc: "how many checkpoints in a row may fail before the job does"}},
	{Spec: option.Spec{Name: keyRetained, Kind: option.Int, Default: "1",
		Doc: "how many checkpoints are kept"}, old: []string{"state.checkpoints.num-retained"}},
	{Spec: option.Spec{Name: KeyDir, Doc: "folder or URL that checkpoints are written to", Example: "s3://bucket/checkpoints"},
		old: []string{"state.checkpoints.dir", "state.backend.fs.checkpointdir"}},
	{Spec: option.Spec{Name: KeySavepointDir, Doc: "folder or URL that savepoints are written to"},
		old: []string{"state.savepoints.dir", "savepoints.state.backend.fs.dir"}},
	{Spec: option.Spec{Name: KeyFrom, Doc: "savepoint or checkpoint to start from"}, old: []string{"execution.savepoint.path"}},
	{Spec: option.Spec{Name: KeyAllowDropped, Kind: option.Bool, Default: "false",
		Doc: "whether state that no operator wants is left behind at a start"},
		old: []string{"execution.savepoint.ignore-unclaimed-state"}},

	{Spec: option.Spec{Name: keyConcurrent, Kind: option.Int, Default: "1", Doc: "accepted; one checkpoint is taken at a time"},
		moot: "one checkpoint is taken at a time", holds: "1"},
	{Spec: option.Spec{Name: keyMode, Kind: option.Enum, Default: "EXACTLY_ONCE", Values: []string{"EXACTLY_ONCE", "AT_LEAST_ONCE"},
		Doc: "accepted; state is always exactly-once, and sinks choose with sink.delivery-guarantee"},
		moot: "state is always exactly-once; a sink's guarantee is its 'sink.delivery-guarantee'", holds: "EXACTLY_ONCE"},
	{Spec: option.Spec{Name: keyUnaligned, Kind: option.Bool, Default: "false", Doc: "accepted; backpressure holds no checkpoint up"},
		old:  []string{"execution.checkpointing.unaligned"},
		moot: "checkpoints take what is on its way between subtasks with them, so backpressure holds none up", holds: "false"},
	{Spec: option.Spec{Name: keyForced, Kind: option.Bool, Default: "false", Doc: "accepted; see " + keyUnaligned},
		moot: "checkpoints take what is on its way between subtasks with them, so backpressure holds none up", holds: "false"},
	{Spec: option.Spec{Name: keyAligned, Kind: option.Duration, Default: "0 ms", Doc: "accepted; there is no alignment"},
		old:  []string{"execution.checkpointing.alignment-timeout"},
		moot: "checkpoints take what is on its way between subtasks with them, so there is no alignment"},
	{Spec: option.Spec{Name: keyIncremental, Kind: option.Bool, Default: "true", Doc: "accepted; checkpoints are incremental"},
		old: []string{"state.backend.incremental"}, moot: "checkpoints are incremental", holds: "true"},
	{Spec: option.Spec{Name: keyExternal, Kind: option.Enum, Default: "RETAIN_ON_CANCELLATION",
		Values: []string{"RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"},
		Doc:    "accepted; checkpoints outlive the process"},
		moot: "checkpoints outlive the process", holds: "RETAIN_ON_CANCELLATION"},
	{Spec: option.Spec{Name: keyStorage, Default: "filesystem", Doc: "accepted; checkpoints go to " + KeyDir},
		old: []string{"state.checkpoint-storage"}, moot: "checkpoints go to '" + KeyDir + "'", holds: "filesystem"},
	{Spec: option.Spec{Name: keyBackend, Doc: "accepted; state is kept in memory first and on disk beyond " + KeyStateMemory},
		old:  []string{"state.backend"},
		moot: "state is kept in memory and, beyond '" + KeyStateMemory + "', on disk"},
	{Spec: option.Spec{Name: keyClaim, Kind: option.Enum, Default: "NO_CLAIM", Values: []string{"NO_CLAIM", "CLAIM", "LEGACY"},
		Doc: "accepted; a savepoint that a job starts from is left alone"},
		old:  []string{"execution.savepoint-restore-mode"},
		moot: "a savepoint that a job starts from is left alone", holds: "NO_CLAIM"},

	{Spec: option.Spec{Name: KeyStrategy, Kind: option.Enum, Values: strategies,
		Doc: "when a job that failed starts again; exponential-delay with checkpoints, none without"},
		old: []string{"restart-strategy"}},
	{Spec: option.Spec{Name: keyExpInitial, Kind: option.Duration, Default: "1 s", Doc: "delay of the first restart"}},
	{Spec: option.Spec{Name: keyExpMax, Kind: option.Duration, Default: "1 min", Doc: "longest delay"}},
	{Spec: option.Spec{Name: keyExpMultiplier, Kind: option.Float, Default: "1.5", Doc: "growth of the delay with each failure"}},
	{Spec: option.Spec{Name: keyExpReset, Kind: option.Duration, Default: "1 h",
		Doc: "how long a job must run well for its failures to be forgotten"}},
	{Spec: option.Spec{Name: keyExpJitter, Kind: option.Float, Default: "0.1",
		Doc: "share of the delay that chance adds or takes away"}},
	{Spec: option.Spec{Name: keyExpAttempts, Default: "infinite", Doc: "most restarts before failures are forgotten: a number, or infinite"}},
	{Spec: option.Spec{Name: keyFixedAttempts, Kind: option.Int, Default: "1", Doc: "most restarts"}},
	{Spec: option.Spec{Name: keyFixedDelay, Kind: option.Duration, Default: "1 s", Doc: "delay of each restart"}},
	{Spec: option.Spec{Name: keyRateMax, Kind: option.Int, Default: "1", Doc: "most failures within failure-rate-interval"}},
	{Spec: option.Spec{Name: keyRateInterval, Kind: option.Duration, Default: "1 min", Doc: "time that failures are counted in"}},
	{Spec: option.Spec{Name: keyRateDelay, Kind: option.Duration, Default: "1 s", Doc: "delay of each restart"}},

	{Spec: option.Spec{Name: KeyStateMemory, Kind: option.Size, Default: "1 gb", Doc: "memory for state before it goes to disk"}},
	{Spec: option.Spec{Name: KeyOutputSize, Kind: option.Size, Default: "256 mb",
		Doc: "size of sealed output at which a checkpoint is taken before its time; 0 means none"}},
	{Spec: option.Spec{Name: KeyCommitTimeout, Kind: option.Duration, Default: "0 s",
		Doc: "how long the commit of a checkpoint's output is tried before the job fails; 0 means for ever"}},
	{Spec: option.Spec{Name: KeySameRecord, Kind: option.Int, Default: "3",
		Doc: "how often one and the same record may make the job fail before it ends for good; 0 means any number of times"}},
}

// Specs declares the options of checkpoints, savepoints, state and restarts, those with old names
// under these too.
func Specs() []option.Spec {
	var out []option.Spec
	for _, d := range declarations {
		out = append(out, d.Spec)
		for _, name := range d.old {
			s := d.Spec
			s.Name, s.Doc = name, "old name of "+d.Name
			out = append(out, s)
		}
	}
	return out
}

// ReadOptions reads the options from a session's configuration, other keys of which are ignored.
// Errors are *option.Error.
func ReadOptions(config map[string]string) (Options, error) {
	r := optionReader{given: map[string]string{}, as: map[string]string{}}
	for _, d := range declarations {
		r.take(config, d)
	}
	v := option.Of(r.given, Specs())
	if err := v.Check(nil); err != nil {
		return Options{}, r.rename(err)
	}
	r.v = v
	o := Options{
		Coordinator: CoordinatorOptions{
			Interval:          r.duration(KeyInterval, 10*time.Millisecond, true),
			MinPause:          r.duration(keyMinPause, 0, true),
			Timeout:           r.duration(KeyTimeout, 10*time.Millisecond, false),
			TolerableFailures: r.int(KeyTolerable, 0),
			Retained:          r.int(keyRetained, 1),
			OutputBytes:       v.Size(KeyOutputSize),
			CommitTimeout:     r.duration(KeyCommitTimeout, 0, true),
		},
		Dir: strings.TrimSpace(v.Get(KeyDir)), SavepointDir: strings.TrimSpace(v.Get(KeySavepointDir)),
		From: strings.TrimSpace(v.Get(KeyFrom)), AllowDropped: v.Bool(KeyAllowDropped),
		StateMemory: v.Size(KeyStateMemory),
	}
	r.int(keyConcurrent, 1)
	o.Restart = r.restart(o.Coordinator.Interval > 0)
	if len(r.errs) > 0 {
		return Options{}, r.rename(r.errs[0])
	}
	o.Notes = r.notes()
	return o, nil
}

// optionReader collects what is wrong with options.
type optionReader struct {
	given map[string]string // by present name
	as    map[string]string // present name to the one given
	v     option.Values
	errs  []error
}

// take finds an option under its present name or, with less weight, an old one.
func (r *optionReader) take(config map[string]string, d declared) {
	for _, name := range append([]string{d.Name}, d.old...) {
		if s, ok := config[name]; ok {
			r.given[d.Name], r.as[d.Name] = s, name
			return
		}
	}
}

// rename makes an error speak of the key that was given.
func (r *optionReader) rename(err error) error {
	var e *option.Error
	if errors.As(err, &e) && r.as[e.Key] != "" {
		e.Msg = strings.ReplaceAll(e.Msg, "'"+e.Key+"'", "'"+r.as[e.Key]+"'")
		e.Key = r.as[e.Key]
	}
	return err
}

func (r *optionReader) wrong(key, hint string) {
	r.errs = append(r.errs, &option.Error{Key: key,
		Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, strings.TrimSpace(r.v.Get(key))), Hint: hint})
}

// duration reads a duration of at least least, or 0 where zero allows it.
func (r *optionReader) duration(key string, least time.Duration, zero bool) time.Duration {
	d := r.v.Duration(key)
	if d < least && !(zero && d == 0) {
		hint := "write at least " + least.String()
		if zero {
			hint += ", or 0 for none"
		}
		r.wrong(key, hint)
	}
	return d
}

func (r *optionReader) int(key string, least int64) int {
	n := r.v.Int(key)
	if n < least || n > math.MaxInt32 {
		r.wrong(key, fmt.Sprintf("write a number from %d to %d", least, math.MaxInt32))
	}
	return int(n)
}

func (r *optionReader) restart(checkpoints bool) RestartOptions {
	v := r.v
	o := RestartOptions{
		InitialBackoff:        r.duration(keyExpInitial, time.Millisecond, false),
		MaxBackoff:            r.duration(keyExpMax, time.Millisecond, false),
		ResetBackoffThreshold: r.duration(keyExpReset, time.Millisecond, false),
		BackoffMultiplier:     v.Float(keyExpMultiplier), JitterFactor: v.Float(keyExpJitter),
		Attempts:      math.MaxInt,
		FixedAttempts: r.int(keyFixedAttempts, 0), FixedDelay: r.duration(keyFixedDelay, 0, true),
		MaxFailures: r.int(keyRateMax, 1), RateInterval: r.duration(keyRateInterval, time.Millisecond, false),
		RateDelay:  r.duration(keyRateDelay, 0, true),
		SameRecord: r.int(KeySameRecord, 0),
	}
	switch strings.ToLower(v.Enum(KeyStrategy)) {
	case "fixed-delay", "fixeddelay":
		o.Strategy = FixedDelay
	case "failure-rate", "failurerate":
		o.Strategy = FailureRate
	case "none", "off", "disable":
		o.Strategy = NoRestart
	case "":
		if !checkpoints {
			o.Strategy = NoRestart
		}
	}
	if s := strings.TrimSpace(v.Get(keyExpAttempts)); !strings.EqualFold(s, "infinite") {
		if n := v.Int(keyExpAttempts); n < 1 {
			r.wrong(keyExpAttempts, "write a number of at least 1, or infinite")
		} else if n < math.MaxInt32 { // Flink's spelling of infinite
			o.Attempts = int(n)
		}
	}
	if !(o.BackoffMultiplier > 1) || math.IsInf(o.BackoffMultiplier, 0) {
		r.wrong(keyExpMultiplier, "write a number above 1")
	}
	if !(o.JitterFactor >= 0 && o.JitterFactor <= 1) {
		r.wrong(keyExpJitter, "write a number from 0 to 1")
	}
	if o.InitialBackoff > o.MaxBackoff {
		r.wrong(keyExpInitial, fmt.Sprintf("write at most '%s' = %s", keyExpMax, o.MaxBackoff))
	}
	return o
}

// notes explains the given options that have no effect.
func (r *optionReader) notes() []string {
	var out []string
	byName := map[string]declared{}
	for _, d := range declarations {
		byName[d.Name] = d
	}
	for _, key := range slices.Sorted(maps.Keys(r.given)) {
		d := byName[key]
		if d.moot == "" || d.holds != "" && strings.EqualFold(strings.TrimSpace(r.given[key]), d.holds) {
			continue
		}
		out = append(out, fmt.Sprintf("'%s' = '%s' has no effect: %s", r.as[key], r.given[key], d.moot))
	}
	return out
}
