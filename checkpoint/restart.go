package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
)

// Strategy is what happens after a job has failed.
type Strategy uint8

// The strategies, as 'restart-strategy.type' names them.
const (
	ExponentialDelay Strategy = iota
	FixedDelay
	FailureRate
	NoRestart
)

var strategyNames = [...]string{"exponential-delay", "fixed-delay", "failure-rate", "none"}

// String gives the option's spelling.
func (s Strategy) String() string { return strategyNames[s] }

// RestartOptions are the options of all strategies, with Flink's meaning.
type RestartOptions struct {
	Strategy Strategy

	// Of ExponentialDelay: the delay is InitialBackoff times BackoffMultiplier to the number of
	// failures before, at most MaxBackoff, give or take JitterFactor of it. A job that ran well for
	// ResetBackoffThreshold begins anew. Attempts is the most failures in between, math.MaxInt
	// being any number.
	InitialBackoff, MaxBackoff, ResetBackoffThreshold time.Duration
	BackoffMultiplier, JitterFactor                   float64
	Attempts                                          int

	// Of FixedDelay.
	FixedAttempts int
	FixedDelay    time.Duration

	// Of FailureRate: one failure more than MaxFailures within RateInterval ends the job.
	MaxFailures             int
	RateInterval, RateDelay time.Duration

	// SameRecord is how often one and the same record may make the job fail until it ends, under
	// every strategy; 0: any number of times.
	SameRecord int
}

// Positioned is implemented by errors that one record of a source causes.
type Positioned interface {
	error
	// SourcePosition names the record, in the same words in every run: table, split and position.
	// It is "" where they are not known.
	SourcePosition() string
}

// BadData is implemented by errors about what a row contains, where the row may come from many
// records: behind an aggregation for instance.
type BadData interface {
	error
	// BadRow names the row in the same words in every run: where it is, and what it contains.
	// Complaint is where and why such rows cannot be used. Both are "" for other errors.
	BadRow() string
	Complaint() string
}

// Decision is what to do about a failure.
type Decision struct {
	Restart bool
	// Delay is how long to wait before the restart, which is number Attempt in a row.
	Delay   time.Duration
	Attempt int
	// Err is the failure with the reason why the job does not restart.
	Err error
}

// Restart decides whether, and when, a job that has failed starts again. It is a pure state
// machine: time and chance are given. One lives as long as the job does, restarts included. Not
// safe for concurrent use.
type Restart struct {
	o        RestartOptions
	attempts int
	nextMs   int64   // when the latest restart was to happen
	failures []int64 // the latest, ms, oldest first; of FailureRate
	records  map[string]int
	// complaints counts failures without a position since the latest checkpoint, by their complaint:
	// what an aggregation emits need not be the same in every run.
	complaints map[string]int
}

// mostRecords bounds the memory of records that made the job fail.
const mostRecords = 1000

// NewRestart returns a Restart that has seen no failure.
func NewRestart(o RestartOptions) *Restart {
	return &Restart{o: o, nextMs: math.MinInt32, records: map[string]int{}, complaints: map[string]int{}}
}

// Progressed says that the attempt which has failed had completed a checkpoint. It is called before Failed.
func (r *Restart) Progressed() { clear(r.complaints) }

// Failed says that the job failed with err and has been cleaned up. random is a number of [0, 1).
func (r *Restart) Failed(nowMs int64, err error, random float64) Decision {
	if why := r.hopeless(err); why != "" {
		return Decision{Attempt: r.attempts, Err: fmt.Errorf("%w; %s", err, why)}
	}
	switch r.o.Strategy {
	case ExponentialDelay:
		return r.exponential(nowMs, err, random)
	case FixedDelay:
		if r.attempts++; r.attempts <= r.o.FixedAttempts {
			return Decision{Restart: true, Delay: r.o.FixedDelay, Attempt: r.attempts}
		}
		return r.enough(err, fmt.Sprintf("'%s' = %d restarts are used up", keyFixedAttempts, r.o.FixedAttempts))
	case FailureRate:
		return r.rate(nowMs, err)
	}
	return Decision{Err: fmt.Errorf("%w; not restarted, as '%s' = none says", err, KeyStrategy)}
}

func (r *Restart) enough(err error, why string) Decision {
	return Decision{Attempt: r.attempts, Err: fmt.Errorf("%w; not restarted: %s", err, why)}
}

// hopeless says why a restart would not help, or "".
func (r *Restart) hopeless(err error) string {
	var fatal *connector.Fatal
	if errors.As(err, &fatal) {
		return "not restarted, since that would not help: mend the cause and start the job again"
	}
	if strings.HasPrefix(err.Error(), "BUG: ") || strings.Contains(err.Error(), ": BUG: ") {
		return "not restarted, since this is a bug of the program: please report it"
	}
	if r.o.SameRecord == 0 {
		return ""
	}
	what, n := r.repeated(err)
	if n < r.o.SameRecord {
		return ""
	}
	return fmt.Sprintf("not restarted: %s has made the job fail %d times; give its table a dead-letter output "+
		"('dead-letter.path' or 'dead-letter.table'), which takes such records, and start the job again", what, n)
}

// repeated counts the failure and returns how often the same data has been its cause, and what that
// is; 0 where the cause is not data.
func (r *Restart) repeated(err error) (what string, n int) {
	var at Positioned
	if errors.As(err, &at) && at.SourcePosition() != "" {
		return at.SourcePosition(), count(r.records, at.SourcePosition())
	}
	var bad BadData
	if !errors.As(err, &bad) || bad.BadRow() == "" {
		return "", 0
	}
	// The same row may fail again after checkpoints: it is counted like a record.
	n = count(r.records, bad.BadRow()+": "+bad.Complaint())
	if alike := count(r.complaints, bad.Complaint()); alike > n {
		return "a row like " + bad.BadRow(), alike
	}
	return bad.BadRow(), n
}

// count adds one to what m, which is bounded, has of key.
func count(m map[string]int, key string) int {
	if len(m) >= mostRecords {
		clear(m)
	}
	m[key]++
	return m[key]
}

func (r *Restart) exponential(nowMs int64, err error, random float64) Decision {
	if nowMs <= r.nextMs {
		// Another failure of the attempt that is being restarted already.
		return Decision{Restart: true, Delay: time.Duration(r.nextMs-nowMs) * time.Millisecond, Attempt: r.attempts}
	}
	if nowMs-r.nextMs >= r.o.ResetBackoffThreshold.Milliseconds() {
		r.attempts = 0
	}
	first, most := float64(r.o.InitialBackoff.Milliseconds()), float64(r.o.MaxBackoff.Milliseconds())
	ms := math.Min(first*math.Pow(r.o.BackoffMultiplier, float64(r.attempts)), math.MaxInt32*1000.0)
	ms += ms * r.o.JitterFactor * (2*random - 1)
	ms = math.Max(first, math.Min(ms, most))
	if r.attempts++; r.attempts > r.o.Attempts {
		return r.enough(err, fmt.Sprintf("'%s' = %d restarts did not help, and the job never ran for '%s' = %s between them",
			keyExpAttempts, r.o.Attempts, keyExpReset, r.o.ResetBackoffThreshold))
	}
	r.nextMs = nowMs + int64(ms)
	return Decision{Restart: true, Delay: time.Duration(ms) * time.Millisecond, Attempt: r.attempts}
}

func (r *Restart) rate(nowMs int64, err error) Decision {
	if len(r.failures) > r.o.MaxFailures {
		r.failures = append(r.failures[:0], r.failures[1:]...)
	}
	r.failures = append(r.failures, nowMs)
	r.attempts++
	if len(r.failures) > r.o.MaxFailures && nowMs-r.failures[0] <= r.o.RateInterval.Milliseconds() {
		return r.enough(err, fmt.Sprintf("it failed more often than '%s' = %d times in '%s' = %s",
			keyRateMax, r.o.MaxFailures, keyRateInterval, r.o.RateInterval))
	}
	return Decision{Restart: true, Delay: r.o.RateDelay, Attempt: r.attempts}
}
