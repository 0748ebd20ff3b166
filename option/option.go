// Package option declares, checks and reads the options of tables, formats and the session.
// Each option is declared once as a Spec; the error for an unknown or wrong one, the defaults and
// the documentation follow from that.
package option

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Kind is the type of an option's value.
type Kind uint8

// The kinds.
const (
	String Kind = iota
	Int
	Float
	Bool
	Duration // Flink's spelling: 10 s, 500 ms, 1 h, PT10S
	Size     // Flink's spelling: 64 mb, 1 gb
	Enum
	List // separated by semicolons
)

// Spec declares one option.
type Spec struct {
	// Name is the full key. A key that ends in ".*" stands for all keys with that prefix; one
	// part that is "#" stands for any name, as in fields.#.kind.
	Name     string
	Kind     Kind
	Default  string // "" is none
	Required bool
	Secret   bool // never printed
	Values   []string
	Doc      string
	Example  string
}

// Values holds given options and the specs they were checked against. The zero value is empty.
type Values struct {
	given map[string]string
	specs []Spec
}

// Of returns the given options over specs without checking them.
func Of(given map[string]string, specs ...[]Spec) Values {
	v := Values{given: given}
	for _, s := range specs {
		v.specs = append(v.specs, s...)
	}
	return v
}

// Error says which option is wrong, so that the caller can point at it in the text.
type Error struct {
	Key, Msg, Hint string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

// Matches reports whether spec s declares key.
func (s Spec) Matches(key string) bool {
	if strings.HasSuffix(s.Name, ".*") {
		return strings.HasPrefix(key, s.Name[:len(s.Name)-1])
	}
	if !strings.Contains(s.Name, "#") {
		return s.Name == key
	}
	pre, post, _ := strings.Cut(s.Name, "#")
	return len(key) > len(pre)+len(post) && strings.HasPrefix(key, pre) && strings.HasSuffix(key, post)
}

func (v Values) spec(key string) (Spec, bool) {
	for _, s := range v.specs {
		if s.Matches(key) {
			return s, true
		}
	}
	return Spec{}, false
}

// Check refuses unknown keys, missing required ones and malformed values. nearest suggests
// spellings for an unknown key and may be nil.
func (v Values) Check(nearest func(string, []string) []string) error {
	keys := make([]string, 0, len(v.given))
	for k := range v.given {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		s, ok := v.spec(k)
		if !ok {
			return v.unknown(k, nearest)
		}
		if err := s.check(k, v.given[k]); err != nil {
			return err
		}
	}
	for _, s := range v.specs {
		if _, ok := v.given[s.Name]; s.Required && !ok {
			return &Error{Key: s.Name, Msg: fmt.Sprintf("option '%s' is missing", s.Name), Hint: s.Doc}
		}
	}
	return nil
}

func (v Values) unknown(key string, nearest func(string, []string) []string) error {
	var names []string
	for _, s := range v.specs {
		names = append(names, s.Name)
	}
	sort.Strings(names)
	hint := "known are: " + strings.Join(names, ", ")
	if nearest != nil {
		if n := nearest(key, names); len(n) > 0 {
			hint = "did you mean '" + strings.Join(n, "' or '") + "'?"
		}
	}
	return &Error{Key: key, Msg: fmt.Sprintf("unknown option '%s'", key), Hint: hint}
}

func (s Spec) check(key, val string) error {
	var err error
	switch s.Kind {
	case Int:
		_, err = strconv.ParseInt(strings.TrimSpace(val), 10, 64)
	case Float:
		_, err = strconv.ParseFloat(strings.TrimSpace(val), 64)
	case Bool:
		_, err = parseBool(val)
	case Duration:
		_, err = ParseDuration(val)
	case Size:
		_, err = ParseSize(val)
	case Enum:
		for _, a := range s.Values {
			if strings.EqualFold(a, val) {
				return nil
			}
		}
		return &Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, val),
			Hint: "it is one of " + strings.Join(s.Values, ", ")}
	}
	if err != nil {
		return &Error{Key: key, Msg: fmt.Sprintf("option '%s' cannot be '%s'", key, val), Hint: errHint(s.Kind)}
	}
	return nil
}

func errHint(k Kind) string {
	switch k {
	case Int:
		return "write a whole number"
	case Float:
		return "write a number"
	case Bool:
		return "write true or false"
	case Duration:
		return "write a number and a unit: 500 ms, 10 s, 5 min, 1 h, 2 d"
	case Size:
		return "write a number and a unit: 64 kb, 128 mb, 1 gb"
	}
	return ""
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("not a boolean: %s", s)
}

// Has reports whether key was given.
func (v Values) Has(key string) bool { _, ok := v.given[key]; return ok }

// Get returns the value of key, its default, or "".
func (v Values) Get(key string) string {
	if s, ok := v.given[key]; ok {
		return s
	}
	s, _ := v.spec(key)
	return s.Default
}

// Enum returns the value of key in the spelling of its spec.
func (v Values) Enum(key string) string {
	got := v.Get(key)
	s, _ := v.spec(key)
	for _, a := range s.Values {
		if strings.EqualFold(a, got) {
			return a
		}
	}
	return got
}

// Int returns key as a number; 0 without value.
func (v Values) Int(key string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(v.Get(key)), 10, 64)
	return n
}

// Float returns key as a number; 0 without value.
func (v Values) Float(key string) float64 {
	n, _ := strconv.ParseFloat(strings.TrimSpace(v.Get(key)), 64)
	return n
}

// Bool returns key as a boolean; false without value.
func (v Values) Bool(key string) bool { b, _ := parseBool(v.Get(key)); return b }

// Duration returns key as a duration; 0 without value.
func (v Values) Duration(key string) time.Duration { d, _ := ParseDuration(v.Get(key)); return d }

// Size returns key in bytes; 0 without value.
func (v Values) Size(key string) int64 { n, _ := ParseSize(v.Get(key)); return n }

// List returns the parts of key separated by semicolons.
func (v Values) List(key string) []string {
	s := v.Get(key)
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ";")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// Prefix returns the given options whose key starts with prefix, the prefix cut off.
func (v Values) Prefix(prefix string) map[string]string {
	out := map[string]string{}
	for k, s := range v.given {
		if strings.HasPrefix(k, prefix) {
			out[k[len(prefix):]] = s
		}
	}
	return out
}

// All returns every given option.
func (v Values) All() map[string]string { return v.given }

// Scoped returns the options below prefix ("json.") over the specs of a format.
func (v Values) Scoped(prefix string, specs []Spec) Values { return Of(v.Prefix(prefix), specs) }

var durationUnits = map[string]time.Duration{
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"": time.Millisecond, "ms": time.Millisecond, "milli": time.Millisecond, "millis": time.Millisecond,
	"millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"\u00b5s": time.Microsecond, "us": time.Microsecond, "micro": time.Microsecond, "micros": time.Microsecond,
	"microsecond": time.Microsecond, "microseconds": time.Microsecond,
	"ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
}

// ParseDuration reads Flink's spelling of a duration: a whole number and a unit (none is ms), or
// the time part of ISO-8601 (PT1H30M).
func ParseDuration(s string) (time.Duration, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.HasPrefix(s, "pt") {
		return time.ParseDuration(s[2:])
	}
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	u, ok := durationUnits[strings.TrimSpace(s[i:])]
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil || !ok {
		return 0, fmt.Errorf("not a duration: %q", s)
	}
	if n > int64(1<<63-1)/int64(u) {
		return 0, fmt.Errorf("duration too long: %q", s)
	}
	return time.Duration(n) * u, nil
}

var sizeUnits = map[string]int64{
	"": 1, "b": 1, "bytes": 1, "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
	"m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
	"gibibytes": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tebibytes": 1 << 40,
}

// ParseSize reads Flink's spelling of a number of bytes: 64 mb, 1 gb, 4096.
func ParseSize(s string) (int64, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	u, ok := sizeUnits[strings.TrimSpace(s[i:])]
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil || !ok || n > int64(1<<63-1)/u {
		return 0, fmt.Errorf("not a size: %q", s)
	}
	return n * u, nil
}
