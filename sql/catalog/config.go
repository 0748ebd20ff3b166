package catalog

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known on machines that have no zone database

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/sql/sqlerr"
)

// maxParallelism is the largest number of key groups, and so of subtasks, as in Flink.
const maxParallelism = 32768

// productPrefix starts the keys that are ours: unlike Flink's, unknown ones are refused.
const productPrefix = "tidemark."

// Config is the configuration of a session: what SET and RESET change. Every key is kept, known
// or not, since Flink does so; keys of the table in keys.go are checked and have defaults. Not
// safe for concurrent use.
type Config struct {
	// DefaultZone is the session time zone until table.local-time-zone is set.
	DefaultZone *time.Location
	// Now is the clock; nil is the wall clock.
	Now func() time.Time
	// Seed makes random functions repeatable; 0 is random.
	Seed uint64

	set        map[string]string
	zone       *time.Location // of table.local-time-zone, nil when not set
	queryStart time.Time
}

// NewConfig returns a configuration in which nothing is set, in the zone of the machine.
func NewConfig() *Config {
	return &Config{DefaultZone: time.Local, set: map[string]string{}}
}

// Set sets a key. It refuses wrong values of known keys and unknown keys of our own; the error
// is an *option.Error.
func (c *Config) Set(key, value string) error {
	key = strings.TrimSpace(key)
	spec, known := keySpec(key)
	if !known && strings.HasPrefix(key, productPrefix) {
		return unknownKey(key)
	}
	if known {
		if err := option.Of(map[string]string{key: value}, []option.Spec{spec}).Check(nil); err != nil {
			return err
		}
	}
	if spec.Name == KeyZone {
		z, err := ParseZone(value, c.DefaultZone)
		if err != nil {
			return &option.Error{Key: key, Msg: err.Error(),
				Hint: "write a zone such as Europe/Berlin, UTC or GMT+02:00"}
		}
		c.zone = z
	}
	if spec.Name == KeyParallelism || spec.Name == KeyMaxParallelism {
		if n, _ := strconv.Atoi(strings.TrimSpace(value)); n < 1 && !(n == -1 && spec.Name != KeyParallelism) || n > maxParallelism {
			return &option.Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, value),
				Hint: fmt.Sprintf("write a number from 1 to %d", maxParallelism)}
		}
	}
	if spec.Name == KeyGeneration && !GenerationName.MatchString(value) {
		return &option.Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, value),
			Hint: "write a name of letters, digits, '.', '_' and '-', at most 64, such as g2"}
	}
	if spec.Name == KeyRuntimeMode && strings.EqualFold(value, "automatic") {
		return &option.Error{Key: key, Msg: "SQL jobs have no automatic runtime mode",
			Hint: "write streaming or batch"}
	}
	c.set[key] = value
	return nil
}

// GenerationName is what generations of results can be called.
var GenerationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Misspelt returns the known key that an unknown one resembles closely, or "". Unknown keys are kept,
// as Flink keeps them, so a slip of the pen deserves a word.
func Misspelt(key string) string {
	if _, known := keySpec(key); known {
		return ""
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	if near := sqlerr.Nearest(key, names); len(near) > 0 && !strings.HasPrefix(key, productPrefix) {
		return near[0]
	}
	return ""
}

// unknownKey refuses a misspelt key of our own.
func unknownKey(key string) error {
	var names []string
	for _, k := range keys {
		if strings.HasPrefix(k.Name, productPrefix) {
			names = append(names, k.Name)
		}
	}
	hint := "known are: " + strings.Join(names, ", ")
	if near := sqlerr.Nearest(key, names); len(near) > 0 {
		hint = "did you mean '" + strings.Join(near, "' or '") + "'?"
	}
	return &option.Error{Key: key, Msg: fmt.Sprintf("unknown key '%s'", key), Hint: hint}
}

// Reset gives a key its default again; the empty key means all keys.
func (c *Config) Reset(key string) {
	if key == "" {
		c.set, c.zone = map[string]string{}, nil
		return
	}
	delete(c.set, key)
	if key == KeyZone {
		c.zone = nil
	}
}

// Clone returns a copy whose changes leave c alone.
func (c *Config) Clone() *Config {
	out := *c
	out.set = maps.Clone(c.set)
	return &out
}

// Has reports whether key was set.
func (c *Config) Has(key string) bool { _, ok := c.set[key]; return ok }

// Get returns what key was set to, its default, or "".
func (c *Config) Get(key string) string { return c.values().Get(key) }

// Bool returns a key as a boolean.
func (c *Config) Bool(key string) bool { return c.values().Bool(key) }

// Int returns a key as a number; 0 where it has no value.
func (c *Config) Int(key string) int { return int(c.values().Int(key)) }

// Duration returns a key as a duration; 0 where it has no value.
func (c *Config) Duration(key string) time.Duration { return c.values().Duration(key) }

// Size returns a key as a number of bytes; 0 where it has no value.
func (c *Config) Size(key string) int64 { return c.values().Size(key) }

// Enum returns a key in the spelling of its declaration.
func (c *Config) Enum(key string) string { return c.values().Enum(key) }

// Prefix returns the keys that were set below prefix, with the prefix cut off.
func (c *Config) Prefix(prefix string) map[string]string { return c.values().Prefix(prefix) }

// All returns a copy of the keys that were set.
func (c *Config) All() map[string]string { return maps.Clone(c.set) }

func (c *Config) values() option.Values { return option.Of(c.set, keys) }

// Zone is the session time zone.
func (c *Config) Zone() *time.Location {
	if c.zone != nil {
		return c.zone
	}
	return c.DefaultZone
}

// BatchMode reports execution.runtime-mode = batch.
func (c *Config) BatchMode() bool { return strings.EqualFold(c.Get(KeyRuntimeMode), "batch") }

// TableOptions returns the options of table t in a statement that gives hints: SET 'tidemark.table.NAME.OPTION' is the
// weakest, then comes WITH, then the hints. Stronger than all is 'tidemark.override.NAME.OPTION', by which a
// backfill bounds sources; its empty value takes the option away.
func (c *Config) TableOptions(t *Table, hints map[string]string) map[string]string {
	out := c.Prefix(productPrefix + "table." + t.Name() + ".")
	maps.Copy(out, t.Options)
	maps.Copy(out, hints)
	for k, v := range c.Prefix(productPrefix + "override." + t.Name() + ".") {
		if out[k] = v; v == "" {
			delete(out, k)
		}
	}
	return out
}

// StartQuery fixes the time that CURRENT_TIMESTAMP and its kin give in batch mode. It is called
// before each statement.
func (c *Config) StartQuery() { c.queryStart = c.now() }

func (c *Config) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Env is what expressions depend on in this session.
func (c *Config) Env() *expr.Env {
	env := &expr.Env{Zone: c.Zone(), Now: c.Now, Seed: c.Seed,
		LegacyCast: strings.EqualFold(c.Get(KeyLegacyCast), "enabled")}
	if c.BatchMode() {
		if c.queryStart.IsZero() {
			c.StartQuery()
		}
		env.QueryStart = c.queryStart
	}
	return env
}

// ParseZone reads a time zone as Flink does: a name of the zone database, UTC, GMT+02:00, +02:00,
// or "default", which is def. Offsets of whole hours become names of the zone database (Etc/GMT-2),
// so that the result's name can be loaded again.
func ParseZone(s string, def *time.Location) (*time.Location, error) {
	s = strings.TrimSpace(s)
	if strings.EqualFold(s, "default") {
		return def, nil
	}
	switch strings.ToUpper(s) {
	case "UTC", "Z", "GMT", "UT":
		return time.UTC, nil
	case "":
		return nil, errors.New("the time zone is empty")
	}
	if offset, ok := parseOffset(s); ok {
		return fixedZone(offset), nil
	}
	z, err := time.LoadLocation(s)
	if err != nil || strings.EqualFold(s, "local") {
		return nil, fmt.Errorf("unknown time zone '%s'", s)
	}
	return z, nil
}

// parseOffset reads [GMT|UTC|UT](+|-)h[h][:mm] and gives seconds east of UTC.
func parseOffset(s string) (int, bool) {
	rest := strings.ToUpper(s)
	for _, p := range [...]string{"GMT", "UTC", "UT"} {
		if cut, ok := strings.CutPrefix(rest, p); ok {
			rest = cut
			break
		}
	}
	if len(rest) < 2 || rest[0] != '+' && rest[0] != '-' {
		return 0, false
	}
	hour, minute, colon := strings.Cut(rest[1:], ":")
	if !colon && len(hour) == 4 {
		hour, minute = hour[:2], hour[2:]
	}
	h, ok := digits(hour, 18)
	m := 0
	if ok && minute != "" {
		m, ok = digits(minute, 59)
	}
	if !ok || colon && minute == "" {
		return 0, false
	}
	seconds := h*3600 + m*60
	if rest[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// digits reads one or two digits up to max.
func digits(s string, max int) (int, bool) {
	if len(s) < 1 || len(s) > 2 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= max
}

func fixedZone(seconds int) *time.Location {
	if seconds == 0 {
		return time.UTC
	}
	sign, abs := '+', seconds
	if seconds < 0 {
		sign, abs = '-', -seconds
	}
	if abs%3600 == 0 {
		// The zone database names offsets by the way west: Etc/GMT-2 is two hours east.
		west := '-'
		if seconds < 0 {
			west = '+'
		}
		if z, err := time.LoadLocation(fmt.Sprintf("Etc/GMT%c%d", west, abs/3600)); err == nil {
			return z
		}
	}
	return time.FixedZone(fmt.Sprintf("%c%02d:%02d", sign, abs/3600, abs/60%60), seconds)
}
