package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Verdict is what becomes of the state of an operator.
type Verdict uint8

// The verdicts.
const (
	// Reused: the operator does the same with the same input.
	Reused Verdict = iota
	// ReusedInputChanged: it does the same with another input, so that results mix both.
	ReusedInputChanged
	// Migrated: the state is read in an older form.
	Migrated
	// StartsEmpty: there is no state for the operator.
	StartsEmpty
	// Dropped: there is state that no operator wants.
	Dropped
)

var verdictNames = [...]string{"reused", "reused, input changed", "migrated", "starts empty", "dropped"}

// String gives the words of a report.
func (v Verdict) String() string { return verdictNames[v] }

// Line is what a report says about one operator.
type Line struct {
	// Node is the operator's number in the plan, -1 for what is dropped.
	Node    int
	Label   string
	Verdict Verdict
	// Detail says how or why, or is "".
	Detail string
	lost   string // in front of Label, where it is dropped
}

// Report says what becomes of a checkpoint in a plan.
type Report struct {
	// Lines say operator by operator what becomes of the state: in the order of the plan, then what
	// is dropped. Operators without state have none.
	Lines []Line
	// Same says that the plans are the same: each operator has taken the place of one that did the
	// same with the same input, and none is left over. Otherwise books do not balance.
	Same  bool
	from  *Manifest
	taken map[int]*Operator
}

// Taken is, by node of the plan, the operator of the checkpoint whose place it takes, with state,
// books and end; operators without state are among them.
func (r *Report) Taken() map[int]*Operator { return r.taken }

// Dropped returns a *DroppedError where something of the checkpoint would be left behind, unless
// that is allowed.
func (r *Report) Dropped(allowed bool) error {
	var lost []Line
	for _, l := range r.Lines {
		if l.Verdict == Dropped {
			lost = append(lost, l)
		}
	}
	if allowed || lost == nil {
		return nil
	}
	return &DroppedError{Checkpoint: r.from, Lost: lost}
}

// String prints the report as a table.
func (r *Report) String() string {
	rows := [][]string{{"operator", "state", "remark"}}
	for _, l := range r.Lines {
		rows = append(rows, []string{l.Label, l.Verdict.String(), l.Detail})
	}
	var wide [2]int
	for _, row := range rows {
		for i := range wide {
			wide[i] = max(wide[i], len([]rune(row[i])))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", wide[0], row[0], wide[1], row[1], row[2])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// heldRows is the name of the state in which windows keep rows that are not theirs to judge yet:
// hardly ever there are any, and an operator refuses those that it cannot read.
const heldRows = "held rows"

// readable compares the states of a checkpoint with those of the operator that is to read them:
// how they are migrated ("" not at all), or why they cannot be read.
func readable(was, now []state.Spec) (how, why string) {
	if len(was) != len(now) {
		return "", fmt.Sprintf("it keeps %s, where there were %s", specNames(now), specNames(was))
	}
	var hows []string
	for i := range was {
		w, n := was[i], now[i]
		switch {
		case w.Name != n.Name:
			return "", fmt.Sprintf("it keeps %s, where there were %s", specNames(now), specNames(was))
		case !slices.EqualFunc(w.Key, n.Key, sameType):
			return "", fmt.Sprintf("the keys of its %s are %s and were %s", n.Name, fieldTypes(n.Key), fieldTypes(w.Key))
		case w.Version > n.Version:
			return "", fmt.Sprintf("its %s were written by a newer version of the program (encoding %d, known is %d)", n.Name, w.Version, n.Version)
		case slices.EqualFunc(w.Value, n.Value, sameType) || n.Name == heldRows:
		default:
			c, ok := state.Convert(w, n)
			if !ok {
				return "", fmt.Sprintf("its %s hold %s and held %s", n.Name, fieldTypes(n.Value), fieldTypes(w.Value))
			}
			if c != nil {
				hows = append(hows, c.String())
			}
		}
		if w.Version < n.Version {
			hows = append(hows, fmt.Sprintf("the encoding of its %s from %d to %d", n.Name, w.Version, n.Version))
		}
	}
	return strings.Join(hows, "; "), ""
}

func specNames(specs []state.Spec) string {
	var out []string
	for _, s := range specs {
		out = append(out, s.Name)
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, " and ")
}

func fieldTypes(fs []types.Field) string {
	var out []string
	for _, f := range fs {
		s := f.Type.AsNullable().WithoutAttr().String()
		if f.Name != "" {
			s = f.Name + " " + s
		}
		out = append(out, s)
	}
	return "(" + strings.Join(out, ", ") + ")"
}
