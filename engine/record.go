package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/sql"
	"github.com/tidemark-stream/tidemark/sql/parse"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// RecordQuestion asks what happened to a record: one at a place, or those with certain values.
type RecordQuestion struct {
	// Table is the source table; "": the script's only one, or its only one with a watermark.
	Table string
	// Split and Position name a record (topic-partition and offset; path and byte); Split "" leaves them out.
	Split    string
	Position int64
	// Values are columns and the text that they must have; At is the event time, likewise.
	Values map[string]string
	At     string
	// Limit is how many records to tell of.
	Limit int
}

// RecordAnswer is what happened to one record, as a run that reads all tables from their beginning sees it: the split
// whose watermark is lowest first. A live run may have judged otherwise where splits were apart then.
type RecordAnswer struct {
	Table, Split string
	Position     int64
	// Row is the record's columns, nil where it could not be decoded: then Record is its text.
	Row    map[string]string
	Record string `json:",omitempty"`
	// Timed says that the table has a watermark. Time is the event time, ms, NoTime that there is none. Zone is where
	// clocks show it and watermarks, "" for UTC; windows have local times.
	Timed  bool
	Time   int64
	NoTime bool
	Zone   string
	// Watermark is that of the record's split when it came, vec.MinTime before the first; Others that of the other
	// splits, by name, as far as they had been read. Judged is false where that was not looked at, as the record did not
	// become a row with a time.
	Judged    bool
	Watermark int64
	Others    map[string]int64
	// Driver is the record that had moved the watermark so far, its event time and how many records before; DriverAgo is 0
	// where it is not known.
	DriverPosition, DriverTime, DriverAgo int64
	// Combined is the watermark of the table, and Holds the split that held it there: the one that was lowest.
	Combined int64
	Holds    string
	// Jobs are what the jobs that read the table did with it.
	Jobs []RecordFate

	refused string // by the table itself: why it could not be decoded or projected
}

// RecordWindow is a window that a record belongs to.
type RecordWindow struct {
	Start, End int64 // local time of the window
	LatenessMs int64 // that is allowed
	// LateBy is by how much the record missed it, judged by Watermark, ms; negative: it was in time.
	LateBy    int64
	Watermark int64
	// Keep is the delay of the watermark by which it would have been in time, ms; 0 where it was, or nobody knows.
	Keep int64
}

// follower sees the watermarks of the splits of a table.
type follower struct {
	t  *timed
	at map[string]*followed
}

type followed struct {
	wm            int64 // the greatest that a row has asked for
	driver        int64 // position of that record
	driverTime    int64
	driven, count int64
}

// WhyRecord finds records of a table and tells what happened to them: the jobs that read the table run dry, and the
// records are followed through their operators. Sources are read from their beginning to what they hold now. The engine must
// be this call's own.
func (e *Engine) WhyRecord(ctx context.Context, name, text string, q RecordQuestion) ([]RecordAnswer, error) {
	if err := e.readWhole(name, text); err != nil {
		return nil, err
	}
	t, jobs, err := e.readers(name, text, q.Table)
	if err != nil {
		return nil, err
	}
	if err := t.whole(); err != nil {
		return nil, err
	}
	out, err := e.findRecords(ctx, t, q)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	for i := range jobs {
		if err := e.follow(ctx, &jobs[i], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readWhole bounds the sources of a script, from their beginning to what they hold now, and has jobs aggregate in one
// phase, so that each row can be followed.
func (e *Engine) readWhole(name, text string) error {
	set := map[string]string{"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
	err := e.plan(&source{name: name, text: text}, func(_ *sql.Session, r *sql.Result) error {
		for _, n := range r.Plan.Nodes {
			if src, ok := n.Op.(*plan.Source); ok {
				if err := boundSource(src.Table, time.Time{}, set); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if e.o.Override = maps.Clone(e.o.Override); e.o.Override == nil {
		e.o.Override = map[string]string{}
	}
	maps.Copy(e.o.Override, set)
	return nil
}

// reading is a job that reads the table of a record.
type reading struct {
	s    *sql.Session
	plan *plan.Plan
}

// readers finds the table that a record is of, and the jobs of a script that read it.
func (e *Engine) readers(name, text, table string) (*timed, []reading, error) {
	tables := map[string]*timed{}
	watermarked := map[string]bool{}
	jobs := map[string][]reading{}
	err := e.plan(&source{name: name, text: text}, func(s *sql.Session, r *sql.Result) error {
		for _, n := range r.Plan.Nodes {
			src, ok := n.Op.(*plan.Source)
			if !ok {
				continue
			}
			at := src.Table.Name
			if tables[at] == nil {
				tables[at] = &timed{plan: r.Plan, node: n, s: s}
			}
			watermarked[at] = watermarked[at] || src.RowTime >= 0 && src.Watermark != nil
			if l := jobs[at]; len(l) == 0 || l[len(l)-1].plan != r.Plan {
				jobs[at] = append(l, reading{s, r.Plan})
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	names := slices.Sorted(maps.Keys(tables))
	if table == "" {
		withTime := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !watermarked[n] })
		switch {
		case len(names) == 0:
			return nil, nil, fmt.Errorf("no job of %s reads a table", name)
		case len(names) == 1:
			table = names[0]
		case len(withTime) == 1:
			table = withTime[0]
		default:
			return nil, nil, fmt.Errorf("%s reads several tables; say which one the record is of with --source: %s", name, strings.Join(names, ", "))
		}
	}
	if tables[table] == nil {
		return nil, nil, fmt.Errorf("no job of %s reads a table %s; they read %s", name, table, strings.Join(names, ", "))
	}
	return tables[table], jobs[table], nil
}

// whole has all columns of the table read, and not only those that the job needs.
func (t *timed) whole() error {
	stmts, err := parse.Script("SELECT * FROM `" + strings.ReplaceAll(t.node.Op.(*plan.Source).Table.Name, "`", "``") + "`")
	if err != nil {
		return err
	}
	r, err := t.s.Execute(stmts[0])
	if err != nil {
		return err
	}
	for _, n := range r.Plan.Nodes {
		if _, ok := n.Op.(*plan.Source); ok {
			t.plan, t.node = r.Plan, n
		}
	}
	// What the format is told to pass over is to be found as well.
	src := *t.node.Op.(*plan.Source)
	table := *src.Table
	table.Options = maps.Clone(table.Options)
	for k := range table.Options {
		if strings.HasSuffix(k, "ignore-parse-errors") {
			table.Options[k] = "false"
		}
	}
	node := *t.node
	src.Table, node.Op = &table, &src
	t.node = &node
	return nil
}

// findRecords reads the table and finds the records that are asked for, also those that cannot be used.
func (e *Engine) findRecords(ctx context.Context, t *timed, q RecordQuestion) ([]RecordAnswer, error) {
	match, err := t.matcher(q)
	if err != nil {
		return nil, err
	}
	f := &follower{t: t, at: map[string]*followed{}}
	var out []RecordAnswer
	add := func(a RecordAnswer) error {
		out = append(out, a)
		if len(out) >= q.Limit || q.Split != "" {
			return errSampled
		}
		return nil
	}
	var enough error
	look := func(r *timedRows, i int, why string) {
		s := f.of(r.split())
		if enough == nil && match(r, i) {
			a := f.answer(r, i, s)
			a.refused, a.Judged = why, a.Timed && !a.NoTime && why == ""
			enough = add(a)
		}
	}
	t.refused = func(r *timedRows, x *job.TraceRefusal) error {
		switch {
		case enough != nil:
		case r != nil:
			look(r, x.Row, x.Err.Error())
		case x.At != nil && matchBytes(x, q):
			enough = add(RecordAnswer{Table: t.table(), Split: x.At.Split, Position: x.Pos, Record: clipped(x.Bytes), refused: x.Err.Error()})
		}
		return enough
	}
	err = e.read(ctx, t, func(r *timedRows) error {
		s := f.of(r.split())
		r.b.Each(func(i int) {
			look(r, i, "")
			s.see(r, i)
		})
		return enough
	})
	if err != nil && !errors.Is(err, errSampled) {
		return nil, err
	}
	return out, nil
}

func (t *timed) table() string { return t.node.Op.(*plan.Source).Table.Name }

// projected are rows as they were decoded, with what the table computes from them.
func (t *timed) projected(env *expr.Env) (func(b *vec.Batch) *timedRows, error) {
	src := t.node.Op.(*plan.Source)
	progs, err := expr.CompileAll(src.Project, env)
	if err != nil {
		return nil, err
	}
	text, err := expr.CompileTexts(t.node.Schema, places(t.node.Schema.Len()), env)
	if err != nil {
		return nil, err
	}
	ec, tc := &expr.EvalCtx{Env: env}, &expr.EvalCtx{Env: env}
	return func(b *vec.Batch) *timedRows {
		ec.Batch, ec.Errs = b, ec.Errs[:0]
		out := &vec.Batch{N: b.N, Cols: slices.Clone(progs.EvalAll(ec, b)), Origin: b.Origin, Pos: b.Pos}
		r := &timedRows{b: out}
		if src.RowTime >= 0 {
			r.times = out.Cols[src.RowTime]
		}
		r.texts = sync.OnceValue(func() []*vec.Vec {
			tc.Batch, tc.Errs = out, tc.Errs[:0]
			return text.EvalAll(tc, out)
		})
		return r
	}, nil
}

// of returns what is known of a split.
func (f *follower) of(split string) *followed {
	s := f.at[split]
	if s == nil {
		s = &followed{wm: vec.MinTime}
		f.at[split] = s
	}
	return s
}

// see takes note of a row.
func (s *followed) see(r *timedRows, i int) {
	s.count++
	if r.marks == nil || r.times.IsNull(i) {
		return
	}
	if !r.marks.IsNull(i) && r.marks.I64[i] > s.wm {
		s.wm, s.driver, s.driverTime, s.driven = r.marks.I64[i], r.position(i), r.times.I64[i], s.count
	}
}

// position is the place of row i in its split, -1 if unknown.
func (r *timedRows) position(i int) int64 {
	if r.b.Pos == nil {
		return -1
	}
	return r.b.Pos[i]
}

// matcher returns what tells the records that are asked for.
func (t *timed) matcher(q RecordQuestion) (func(r *timedRows, i int) bool, error) {
	s, src := t.node.Schema, t.node.Op.(*plan.Source)
	cols := map[int]string{}
	for name, v := range q.Values {
		c := s.Index(name)
		if c < 0 {
			return nil, fmt.Errorf("table %s has no column %s; there are %s", src.Table.Name, name, strings.Join(s.Names(), ", "))
		}
		cols[c] = v
	}
	at := int64(0)
	if q.At != "" {
		if src.RowTime < 0 {
			return nil, fmt.Errorf("--at: table %s has no event time (a WATERMARK); ask for the values of its columns", src.Table.Name)
		}
		var err error
		if t.instants() {
			at, err = ParseInstant(q.At, t.s.Config().Zone())
		} else {
			at, err = ParseTime(q.At)
		}
		if err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
	}
	if q.Split == "" && len(cols) == 0 && q.At == "" {
		return nil, errors.New("say which record: by its place, or by values of its columns")
	}
	return func(r *timedRows, i int) bool {
		if q.Split != "" && (r.split() != q.Split || r.position(i) != q.Position) {
			return false
		}
		if q.At != "" && (r.times.IsNull(i) || r.times.I64[i] != at) {
			return false
		}
		for c, v := range cols {
			if r.text(c, i) != v {
				return false
			}
		}
		return true
	}, nil
}

// matchBytes is the matcher for records that could not be decoded: by their place, else by what their text says.
func matchBytes(x *job.TraceRefusal, q RecordQuestion) bool {
	if q.Split != "" {
		return x.At.Split == q.Split && x.Pos == q.Position
	}
	if len(q.Values) == 0 {
		return false // a time is not looked for in text
	}
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(x.Bytes))
	dec.UseNumber()
	object := dec.Decode(&fields) == nil
	for name, v := range q.Values {
		if have, ok := fields[name]; object && ok {
			if fmt.Sprint(have) != v {
				return false
			}
		} else if object || !holdsWord(string(x.Bytes), v) {
			return false
		}
	}
	return true
}

// holdsWord reports whether text has word, and not as a part of a longer one.
func holdsWord(text, word string) bool {
	part := func(r rune, size int) bool { return size > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	for at := 0; word != ""; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		at += i
		if !part(utf8.DecodeLastRuneInString(text[:at])) && !part(utf8.DecodeRuneInString(text[at+len(word):])) {
			return true
		}
		at++
	}
	return false
}

// clipped is the text of a record, shortened.
func clipped(b []byte) string {
	const most = 1000
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "\uFFFD") + "..."
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// answer tells of row i, which s has not seen yet.
func (f *follower) answer(r *timedRows, i int, s *followed) RecordAnswer {
	src := f.t.node.Op.(*plan.Source)
	a := RecordAnswer{Table: src.Table.Name, Split: r.split(), Position: r.position(i), Row: map[string]string{},
		Timed: src.RowTime >= 0, Watermark: s.wm, Combined: s.wm, Holds: r.split()}
	for c, field := range f.t.node.Schema.Fields {
		a.Row[field.Name] = r.text(c, i)
	}
	if !a.Timed {
		return a
	}
	a.Zone = f.t.zone()
	if r.b.Stamps != nil {
		a.Watermark = r.b.Stamps[i]
	}
	if s.driven > 0 && s.wm == a.Watermark {
		a.DriverPosition, a.DriverTime, a.DriverAgo = s.driver, s.driverTime, s.count-s.driven+1
	}
	a.Others = map[string]int64{}
	a.Combined = a.Watermark
	for name, x := range f.at {
		if name == r.split() {
			continue
		}
		a.Others[name] = x.wm
		if x.wm < a.Combined {
			a.Combined, a.Holds = x.wm, name
		}
	}
	if a.NoTime = r.times.IsNull(i); !a.NoTime {
		a.Time = r.times.I64[i]
	}
	return a
}

// zone is the time zone of the table's event time, "" where that is not an instant or it is UTC.
func (t *timed) zone() string {
	if !t.instants() {
		return ""
	}
	if z := t.s.Config().Env().Zone; z != nil && z.String() != "UTC" {
		return z.String()
	}
	return ""
}

// instants reports whether the event time is one of instants, which clocks show by zone.
func (t *timed) instants() bool {
	src := t.node.Op.(*plan.Source)
	return src.RowTime >= 0 && t.node.Schema.Fields[src.RowTime].Type.Kind == types.TimestampLTZ
}
