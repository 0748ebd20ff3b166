package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/types"
)

// Plans are written as lines of fields: kind, label, Computes, the parts of Fed, and inputs by
// number. Changed SQL is tested in test/evolve.
//
//	source orders S f.c.s
//	op count C f.c.s <0
//	sink out T f.c.s <1

func prints(text string) []plan.Fingerprint {
	var out []plan.Fingerprint
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		n := &plan.Node{ID: i, Label: f[1], Schema: types.NewSchema(types.Field{Name: "a", Type: types.IntType})}
		switch f[0] {
		case "source":
			n.Op = &plan.Source{}
		case "sink":
			n.Op = &plan.Sink{}
		default:
			n.Op = &plan.GroupAgg{}
		}
		for _, in := range f[4:] {
			n.Inputs = append(n.Inputs, plan.Edge{From: int(in[1] - '0')})
		}
		out = append(out, plan.Fingerprint{Computes: f[2], Fed: f[3], Describe: f[1], Node: n})
	}
	return out
}

var groups = []state.Spec{{Name: "groups", Version: 2, Key: []types.Field{{Name: "id", Type: types.StringType}},
	Value: []types.Field{{Name: "accumulators", Type: types.BytesType}}}}

func statesOf(fps []plan.Fingerprint) map[int][]state.Spec {
	out := map[int][]state.Spec{}
	for i, fp := range fps {
		if _, ok := fp.Node.Op.(*plan.GroupAgg); ok {
			out[i] = groups
		}
	}
	return out
}

func manifestOf(fps []plan.Fingerprint) *Manifest {
	m := &Manifest{ID: 3}
	for i, fp := range fps {
		o := Operator{ID: uint16(i + 1), Node: i, Label: fp.Node.Label, Computes: fp.Computes, Fed: fp.Fed, Describe: fp.Describe}
		switch fp.Node.Op.(type) {
		case *plan.Source:
			m.Sources = append(m.Sources, Source{Node: i, Table: fp.Node.Label, Splits: []Split{{ID: "0"}}})
		case *plan.Sink:
			m.Sinks = append(m.Sinks, Sink{Node: i, Table: fp.Node.Label, Pending: []Pending{{Checkpoint: 3}}})
		default:
			o.States = groups
		}
		m.Operators = append(m.Operators, o)
	}
	return m
}

// verdicts prints a report in short.
func verdicts(r *Report) string {
	var out []string
	for _, l := range r.Lines {
		out = append(out, l.Label+": "+l.Verdict.String())
	}
	return strings.Join(out, "; ")
}

func TestMatch(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want, detail string }{
		"same": {"source a S 1.c.s\nop n C 2.c.s <0\nsink t T 3.c.s <1", "source a S 1.c.s\nop n C 2.c.s <0\nsink t T 3.c.s <1",
			"a: reused; n: reused; t: reused", ""},
		"input": {"source a S 1.c.s\nop n C 2.c.s <0\nsink t T 3.c.s <1", "source a S 1.c.s\nop n C 4.c.s <0\nsink t T 5.c.s <1",
			"a: reused; n: reused, input changed; t: reused, input changed", ""},
		"other columns": {"op n C 2.c.s", "op n C 4.d.s", "n: starts empty; n: dropped", "it computes of other columns"},
		"other tables":  {"op n C 2.c.s", "op n C 4.c.r", "n: starts empty; n: dropped", "it is not in the checkpoint"},
		"one more table": {"op n C 2.c.s", "op n C 4.c.r.s",
			"n: reused, input changed", ""},
		"two that are alike in all": {"op n C 2.c.s\nop m C 2.c.s", "op x C 2.c.s\nop y C 2.c.s\nop z C 2.c.s",
			"x: reused; y: reused; z: starts empty", "it is not in the checkpoint"},
		"two that may be meant": {"op n C 2.c.s\nop m C 3.c.s", "op x C 4.c.s", "x: starts empty; n: dropped; m: dropped",
			"its input has changed, and 2 operators compute this"},
		"two that may have it": {"op n C 2.c.s", "op x C 4.c.s\nop y C 5.c.s", "x: starts empty; y: starts empty; n: dropped",
			"its input has changed, and 2 operators compute this"},
		"one of two is settled": {"op n C 2.c.s\nop m C 3.c.s", "op x C 2.c.s\nop y C 5.c.s", "x: reused; y: reused, input changed", ""},
		"the tables decide": {"op n C 2.c.s\nop m C 3.c.r.s", "op x C 4.c.r.s\nop y C 5.c.s",
			"x: reused, input changed; y: reused, input changed", ""},
		"local phases come":  {"op n C 2.c.s", "op l local:C 1.c.s\nop n C 2.c.s", "n: reused", ""},
		"local phases go":    {"op l local:C 1.c.s\nop n C 2.c.s", "op n C 2.c.s", "n: reused", ""},
		"everything is gone": {"source a S 1.c.s\nop n C 2.c.s\nsink t T 3.c.s", "source b R 7.c.r", "b: starts empty; n: dropped; a: dropped; t: dropped", "it was not read before"},
	} {
		t.Run(name, func(t *testing.T) {
			news := prints(c.new)
			r, err := Match(manifestOf(prints(c.old)), news, statesOf(news))
			if err != nil {
				t.Fatal(err)
			}
			if got := verdicts(r); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.detail != "" && !strings.Contains(r.String(), c.detail) {
				t.Errorf("no word of %q:\n%s", c.detail, r)
			}
			err = r.Dropped(false)
			var d *DroppedError
			if lost := strings.Count(c.want, "dropped"); lost == 0 && err != nil || lost > 0 && (!errors.As(err, &d) || len(d.Lost) != lost) {
				t.Errorf("dropped: %v", err)
			}
			if err := r.Dropped(true); err != nil {
				t.Error(err)
			}
			if r.Same != (c.old == c.new) {
				t.Errorf("same: %t", r.Same)
			}
		})
	}
}

func TestMatchTakes(t *testing.T) {
	m := manifestOf(prints("source a S 1.c.s\nop m D 9.c.s <0\nop n C 2.c.s <0"))
	news := prints("source a S 1.c.s\nop n C 4.c.s <0")
	r, err := Match(m, news, statesOf(news))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Taken(); len(got) != 2 || got[0] != &m.Operators[0] || got[1] != &m.Operators[2] {
		t.Errorf("%v", got)
	}
	want := "operator  state                  remark\n" +
		"a         reused\n" +
		"n         reused, input changed  its results go on from those of the old input\n" +
		"m         dropped                m\n"
	if got := r.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	err = r.Dropped(false)
	if err == nil || err.Error() != "checkpoint 3 holds what the changed job would leave behind: the state of m; start with "+
		"--allow-dropped-state (or 'execution.state-recovery.ignore-unclaimed-state' = 'true') if that is meant" {
		t.Error(err)
	}
}

// TestMatchEnded checks operators whose input had ended: they have no state any more, which matters
// only where there is new input.
func TestMatchEnded(t *testing.T) {
	m := manifestOf(prints("op n C 2.c.s"))
	m.Operators[0].Ended = true
	for fed, want := range map[string]string{"2.c.s": "n: reused", "4.c.s": "n: starts empty"} {
		news := prints("op n C " + fed)
		r, err := Match(m, news, statesOf(news))
		if err != nil || verdicts(r) != want || r.Dropped(false) != nil {
			t.Errorf("%s: %s, %v", fed, verdicts(r), err)
		}
	}
}

func TestMatchStates(t *testing.T) {
	with := func(change func(s *state.Spec)) []state.Spec {
		s := groups[0]
		s.Key, s.Value = append([]types.Field{}, s.Key...), append([]types.Field{}, s.Value...)
		change(&s)
		return []state.Spec{s}
	}
	used := append([]types.Field{{Name: state.LastUse, Type: types.BigIntType}}, groups[0].Value...)
	held := state.Spec{Name: heldRows, Value: []types.Field{{Name: "x", Type: types.IntType}}}
	for name, c := range map[string]struct {
		was, now     []state.Spec
		want, detail string
	}{
		"names of columns": {with(func(s *state.Spec) { s.Key[0].Name = "other" }), groups, "n: reused", ""},
		"nullable":         {with(func(s *state.Spec) { s.Key[0].Type = types.StringType.NotNull() }), groups, "n: reused", ""},
		"older":            {with(func(s *state.Spec) { s.Version = 1 }), groups, "n: migrated", "the encoding of its groups from 1 to 2"},
		"newer": {with(func(s *state.Spec) { s.Version = 3 }), groups, "n: starts empty; n: dropped",
			"its groups were written by a newer version of the program (encoding 3, known is 2)"},
		"keys": {with(func(s *state.Spec) { s.Key[0].Type = types.IntType }), groups, "n: starts empty; n: dropped",
			"the keys of its groups are (id STRING) and were (id INT)"},
		"values": {with(func(s *state.Spec) { s.Value[0].Type = types.IntType }), groups, "n: starts empty; n: dropped",
			"its groups hold (accumulators BYTES) and held (accumulators INT)"},
		"a time to live that went": {with(func(s *state.Spec) { s.Value = used }), groups, "n: migrated",
			"when its groups were used last is forgotten"},
		"a time to live that came": {groups, with(func(s *state.Spec) { s.Value = used }), "n: migrated",
			"its groups count as used now"},
		"a time to live and an older encoding": {groups, with(func(s *state.Spec) { s.Value, s.Version = used, 3 }), "n: migrated",
			"its groups count as used now; the encoding of its groups from 2 to 3"},
		"one less": {nil, groups, "n: starts empty", "it keeps groups, where there were nothing"},
		"held rows": {append([]state.Spec{held}, groups...), append([]state.Spec{{Name: heldRows}}, groups...),
			"n: reused", ""},
	} {
		news := prints("op n C 2.c.s")
		m := manifestOf(news)
		m.Operators[0].States = c.was
		r, err := Match(m, news, map[int][]state.Spec{0: c.now})
		if err != nil || verdicts(r) != c.want || !strings.Contains(r.String(), c.detail) {
			t.Errorf("%s: %s, %v\n%s", name, verdicts(r), err, r)
		}
	}
}

// TestMatchChannels checks that rows on their way find the same way again, or nothing starts.
func TestMatchChannels(t *testing.T) {
	old := prints("source a S 1.c.s\nop n C 2.c.s <0\nop m D 3.c.s <1")
	m := manifestOf(old)
	m.Channels = []Channel{{From: 1, To: 2, Schema: old[1].Node.Schema}}
	match := func(text string) error {
		news := prints(text)
		_, err := Match(m, news, statesOf(news))
		return err
	}
	for text, ok := range map[string]bool{
		"source a S 1.c.s\nop n C 2.c.s <0\nop m D 3.c.s <1":                       true,
		"source b R 7.c.r\nsource a S 1.c.s\nop n C 2.c.s <1\nop m D 3.c.s <2":     true,
		"source a S 1.c.s\nop m D 3.c.s <0":                                        false, // n is gone
		"source a S 1.c.s\nop n C 2.c.s <0\nop x E 4.c.s <1\nop m D 3.c.s <2":      false, // x in between
		"source a S 1.c.s\nop n C 2.c.s <0\nop filter F 5.c.s <1\nop m D 6.c.s <2": false,
	} {
		if err := match(text); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "checkpoint 3 holds rows on their way") {
			t.Errorf("%s: %v", text, err)
		}
	}
	m.Channels[0].Schema = types.NewSchema(types.Field{Name: "a", Type: types.StringType})
	if match("source a S 1.c.s\nop n C 2.c.s <0\nop m D 3.c.s <1") == nil {
		t.Error("rows of other columns are taken")
	}
}
