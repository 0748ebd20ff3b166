package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/vec"
)

// Edit says which entries of a state are changed and how: one of set, delete and add.
type Edit struct {
	Operator *checkpoint.Operator
	State    int
	// Set is SQL expressions over the columns of the entry, by value column.
	Set map[string]string
	// Delete removes the entry, and with a group its distinct values.
	Delete bool
	// Where is a SQL condition over the columns of what is set or deleted; "" means all entries.
	Where string
	// Add adds entries: Set has an expression for each column of the key, and for columns of the value
	// that do not begin as if no row had come. With From these are over its columns, and columns
	// that Set does not have are those of the same name.
	Add bool
	// From is a query, which may be over states too, whose rows are added.
	From string
}

// change is what becomes of an entry: rows that are changed or (nil) deleted, by their number.
type change map[int64][][]byte

// Write makes the changes of an edit and writes the result as a savepoint of its own in out, a
// folder or URL where there is none. It returns how many rows were changed and where the new
// savepoint is. The old one stays as it is.
func (e *Engine) Write(ctx context.Context, s *Savepoint, edit Edit, out string) (changed int, place string, err error) {
	if indexed(edit.Operator) {
		return 0, "", fmt.Errorf("the rows of operator %d (%s) cannot be changed: how many there are and where each is are kept beside them", edit.Operator.Node, edit.Operator.Label)
	}
	r, err := s.reader(edit.Operator, edit.State)
	if err != nil {
		return 0, "", err
	}
	w := &editor{e: e, s: s, x: &edit, r: r}
	if edit.Add {
		err = w.add(ctx)
	} else {
		err = w.change(ctx)
	}
	if err == nil && w.n == 0 {
		err = errors.New("no entry is changed, so no savepoint was written")
	}
	if err != nil {
		return 0, "", err
	}
	m := *s.Manifest
	m.Savepoint = true
	m.Tail = append(slices.Clone(m.Tail), checkpoint.Tail{Operator: edit.Operator.ID, Changes: w.d.Take()})
	place, err = e.write(ctx, s, &m, out)
	return w.n, place, err
}

// indexed reports whether an operator keeps its rows in order, with an index by their content (exec/sort).
func indexed(o *checkpoint.Operator) bool {
	return slices.ContainsFunc(o.States, func(sp state.Spec) bool { return sp.Name == "rows by content" || sp.Name == orderedRows })
}

// editor turns an edit into changes of state.
type editor struct {
	e *Engine
	s *Savepoint
	x *Edit
	r *entryReader
	d state.Delta
	n int // rows changed
	// reindexed are the states and key groups whose index by time of last use is made anew.
	reindexed map[[2]int]bool
}

// reindex has the index of a state in a key group made anew, which knows the entries from before.
func (w *editor) reindex(st, group int) {
	if at := [2]int{st, group}; !w.reindexed[at] {
		if w.reindexed == nil {
			w.reindexed = map[[2]int]bool{}
		}
		w.reindexed[at] = true
		state.Reindex(&w.d, st, group)
	}
}

// columns are the columns of the value that the edit gives, by name, and checks that all there are are
// known; keys says whether those of the key may be among them.
func (w *editor) columns(given []string, keys bool) error {
	schema := w.r.schema()
	nk := len(w.r.spec.Key)
	for _, name := range given {
		switch i := schema.Index(name); {
		case i < 0:
			return fmt.Errorf("state '%s' has no column '%s'; there are %s", w.r.spec.Name, name, strings.Join(schema.Names(), ", "))
		case i < nk && !keys:
			return fmt.Errorf("column '%s' is part of the key, which stays what it is: delete the entry and add another one", name)
		}
	}
	return nil
}

// change sets and deletes.
func (w *editor) change(ctx context.Context) error {
	x := w.x
	if err := w.columns(slices.Sorted(maps.Keys(x.Set)), false); err != nil {
		return err
	}
	schema := w.r.schema()
	w.r.numbered = true
	cols := []string{identifier(numbers[0].Name), identifier(numbers[1].Name)}
	var set []int // by column of the query: which of the value
	var exprs []string
	var fit fitting
	for i, f := range schema.Fields {
		if expr, ok := x.Set[f.Name]; ok {
			set = append(set, i-len(w.r.spec.Key))
			cols, exprs = fit.cast(cols, expr, f), append(exprs, expr)
		}
	}
	cols = fit.checked(cols, exprs)
	text := "SELECT " + strings.Join(cols, ", ") + " FROM " + identifier(StateTable(x.Operator, x.State))
	if x.Where != "" {
		text += " WHERE " + x.Where
	}
	changes := map[int64]change{}
	err := w.e.query(ctx, w.s, text, w.r, Handler{Rows: func(_ *Run, b *vec.Batch) error {
		for _, i := range b.Selected() {
			entry, row := b.Cols[0].I64[i], b.Cols[1].I64[i]
			if err := fit.check(b, int(i)); err != nil {
				return err
			}
			var cells [][]byte
			if !x.Delete {
				cells = make([][]byte, len(w.r.value.cols))
				for k, at := range set {
					var err error
					if cells[at], err = cellOf(b.Cols[len(numbers)+k], int(i), w.r.value.cols[at].Field); err != nil {
						return err
					}
				}
			}
			if changes[entry] == nil {
				changes[entry] = change{}
			}
			changes[entry][row] = cells
			w.n++
		}
		return nil
	}})
	if err != nil {
		return err
	}
	at := int64(-1)
	return w.s.store.Scan(x.Operator.ID, x.State, 0, w.s.Manifest.MaxParallelism, func(group int, key, value []byte) error {
		at++
		c := changes[at]
		if c == nil {
			return nil
		}
		return w.apply(c, group, key, value)
	})
}

// apply changes an entry.
func (w *editor) apply(c change, group int, key, value []byte) error {
	x := w.x
	rows, ok := w.r.value.rows(value)
	if !ok {
		return w.r.oddValue(key)
	}
	var left [][]byte
	for i, row := range rows {
		cells, there := c[int64(i)]
		switch {
		case there && cells == nil:
			continue
		case there:
			var err error
			if row, err = w.r.value.change(row, cells); err != nil {
				return err
			}
		}
		left = append(left, row)
	}
	if len(left) > 0 {
		w.d.Put(x.State, group, key, w.r.value.join(left))
		w.reindex(x.State, group)
		return nil
	}
	w.d.Delete(x.State, group, key)
	w.reindex(x.State, group)
	for _, st := range valuesOf(x.Operator, x.State) {
		if err := w.deleteValues(st, group, key); err != nil {
			return err
		}
		w.reindex(st, group)
	}
	return nil
}

// deleteValues deletes the distinct values, which state st holds, of the group with a key: those of its run,
// where it may have one.
func (w *editor) deleteValues(st, group int, key []byte) error {
	run, runs := w.r.run(key)
	if !runs {
		w.d.DeletePrefix(st, group, key)
		return nil
	}
	values, err := w.s.reader(w.x.Operator, st)
	if err != nil {
		return err
	}
	from := append(state.AppendStoreKey(nil, w.x.Operator.ID, st, group), key[:len(key)-len(run)]...)
	return w.s.store.Range(from, state.Successor(from), func(k, _ []byte) error {
		k = k[state.StoreHead:]
		if of, _ := values.run(k); bytes.Equal(of, run) {
			w.d.Delete(st, group, k)
		}
		return nil
	})
}

// add adds entries.
func (w *editor) add(ctx context.Context) error {
	if sp := w.r.spec; sp.Name == heldRows || isNumbered(sp) {
		return fmt.Errorf("entries of '%s' are numbered in the order in which their rows came; adding some is not supported", sp.Name)
	}
	if err := w.placed(); err != nil {
		return err
	}
	text, given, fit, err := w.added(ctx)
	if err != nil {
		return err
	}
	schema := w.r.schema()
	nk := len(w.r.spec.Key)
	where := make([]int, schema.Len()) // by column: which of the query, -1 for none
	for i, f := range schema.Fields {
		where[i] = slices.Index(given, f.Name)
		if i < nk && where[i] < 0 && w.r.spec.Key[i].Name != runField.Name {
			return fmt.Errorf("column '%s' of the key has to be given", f.Name)
		}
	}
	now := time.Now().UnixMilli()
	fresh := map[string][]byte{} // entries, by their keys
	err = w.e.query(ctx, w.s, text, nil, Handler{Rows: func(_ *Run, b *vec.Batch) error {
		for _, i := range b.Selected() {
			if err := fit.check(b, int(i)); err != nil {
				return err
			}
			cols := make([]*vec.Vec, nk)
			for k := range cols {
				if where[k] >= 0 {
					cols[k] = b.Cols[where[k]]
				} else { // of no run
					cols[k] = vec.New(runField.Type, int(i)+1)
					cols[k].SetNull(int(i))
				}
			}
			key, hash, err := w.r.key(cols, int(i))
			if err != nil {
				return err
			}
			cells := make([][]byte, len(w.r.value.cols))
			for k := range cells {
				if at := where[nk+k]; at >= 0 {
					if cells[k], err = cellOf(b.Cols[at], int(i), w.r.value.cols[k].Field); err != nil {
						return err
					}
				}
			}
			row, err := w.r.value.fresh(cells, now)
			if err != nil {
				return err
			}
			if err := w.put(fresh, state.KeyGroup(hash, w.s.Manifest.MaxParallelism), key, row); err != nil {
				return err
			}
			w.n++
		}
		return nil
	}})
	return err
}

// placed makes sure that the key group of an entry follows from its key as this program takes it to.
func (w *editor) placed() error {
	x, n := w.x, 0
	err := w.s.store.Scan(x.Operator.ID, x.State, 0, w.s.Manifest.MaxParallelism, func(group int, key, _ []byte) error {
		if hash, ok := w.r.hash(key); !ok || state.KeyGroup(hash, w.s.Manifest.MaxParallelism) != group {
			return fmt.Errorf("where entries of '%s' belong does not follow from their keys; adding some is not supported", w.r.spec.Name)
		}
		if n++; n >= sampled {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return err
}

// put adds a row under a key: an entry, or where an entry holds several rows one more of them.
func (w *editor) put(fresh map[string][]byte, group int, key, row []byte) error {
	x := w.x
	old, there := fresh[string(key)]
	if !there {
		var err error
		if old, there, err = w.s.get(x.Operator, x.State, group, key); err != nil {
			return err
		}
	}
	var rows [][]byte
	switch {
	case !there:
	case !w.r.value.array:
		return fmt.Errorf("an entry that is to be added is there already (%s): set its values instead", w.r.describe(key))
	default:
		var ok bool
		if rows, ok = w.r.value.rows(old); !ok {
			return w.r.oddValue(key)
		}
	}
	if owner := groupsOf(x.Operator, x.State); owner >= 0 && !there {
		run, _ := w.r.run(key)
		prefix := append(slices.Clone(key[:len(key)-w.r.tail(key)]), run...)
		if _, ok, err := w.s.get(x.Operator, owner, group, prefix); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("there is no entry in '%s' that a value could be added to (%s)", x.Operator.States[owner].Name, w.r.describe(key)))
		}
	}
	value := w.r.value.join(append(rows, row))
	fresh[string(key)] = value
	w.d.Put(x.State, group, key, value)
	w.reindex(x.State, group)
	return nil
}

// added returns the query that gives the entries to be added, the names of its columns, and what
// checks its values.
func (w *editor) added(ctx context.Context) (text string, given []string, fit *fitting, err error) {
	x := w.x
	given = slices.Sorted(maps.Keys(x.Set))
	from := "(VALUES (0)) AS added (zero)"
	if x.From != "" {
		from = "(" + x.From + ") AS added"
		names, err := w.e.columnsOf(ctx, w.s, x.From)
		if err != nil {
			return "", nil, nil, err
		}
		for _, name := range names {
			if x.Set[name] == "" {
				given = append(given, name)
			}
		}
	}
	if err := w.columns(given, true); err != nil {
		return "", nil, nil, err
	}
	schema := w.r.schema()
	var cols, exprs []string
	fit = &fitting{}
	for _, name := range given {
		expr := x.Set[name]
		if expr == "" {
			expr = identifier(name)
		}
		cols, exprs = fit.cast(cols, expr, schema.Fields[schema.Index(name)]), append(exprs, expr)
	}
	cols = fit.checked(cols, exprs)
	if len(cols) == 0 { // the only entry of a state without a key, as if no row had come
		cols = []string{"zero"}
	}
	return "SELECT " + strings.Join(cols, ", ") + " FROM " + from, given, fit, nil
}

// columnsOf returns the names of the columns of a query.
func (e *Engine) columnsOf(ctx context.Context, s *Savepoint, query string) (names []string, err error) {
	err = e.query(ctx, s, "SELECT * FROM ("+query+") AS added WHERE FALSE", nil, Handler{
		JobStarted: func(r *Run) {
			if r.Select != nil {
				names = r.Select.Schema.Names()
			}
		},
		Rows: func(*Run, *vec.Batch) error { return nil },
	})
	return names, err
}

// get returns the value of an entry.
func (s *Savepoint) get(o *checkpoint.Operator, st, group int, key []byte) (value []byte, there bool, err error) {
	from := append(state.AppendStoreKey(nil, o.ID, st, group), key...)
	err = s.store.Range(from, append(slices.Clone(from), 0), func(_, v []byte) error {
		value, there = slices.Clone(v), true
		return nil
	})
	return value, there, err
}

// isNumbered says of the states of Sort and Limit that their keys are numbers given to rows.
func isNumbered(sp state.Spec) bool {
	return sp.Name == "rows" && len(sp.Key) == 1 && sp.Key[0].Name == "number" && len(sp.Value) > 0 && sp.Value[0].Name == "kind"
}

// valuesOf lists the states of the distinct values of the groups that state st holds: their keys begin
// with that of the group, and they go with it.
func valuesOf(o *checkpoint.Operator, st int) []int {
	var out []int
	if isValues(o.States[st]) {
		return nil
	}
	for i := st + 1; i < len(o.States) && isValues(o.States[i]); i++ {
		out = append(out, i)
	}
	return out
}

// groupsOf is the state of the groups whose distinct values state st holds, -1 for other states.
func groupsOf(o *checkpoint.Operator, st int) int {
	if !isValues(o.States[st]) {
		return -1
	}
	for st--; st >= 0 && isValues(o.States[st]); st-- {
	}
	return st
}

func isValues(sp state.Spec) bool { return strings.Contains(sp.Name, "values of") }

// write writes a savepoint that has the files of s.
func (e *Engine) write(ctx context.Context, s *Savepoint, m *checkpoint.Manifest, out string) (string, error) {
	given, err := e.given()
	if err != nil {
		return "", err
	}
	to, err := e.store(out, given)
	if err != nil {
		return "", err
	}
	if _, err := to.Stat(ctx, "manifest"); !errors.Is(err, object.ErrNotFound) {
		if err == nil {
			err = fmt.Errorf("there is a savepoint at %s already; give a place where there is none", to)
		}
		return "", err
	}
	done := map[string]bool{}
	for _, f := range slices.Concat(m.Files, m.Segments) {
		if done[f.Object] {
			continue
		}
		done[f.Object] = true
		at := filepath.Join(s.dir, "copy")
		if err := s.Fetch(ctx, f, at); err != nil {
			return "", err
		}
		err := to.PutFile(ctx, "files/"+f.Object, at)
		if e := os.Remove(at); err == nil {
			err = e
		}
		if err != nil {
			return "", err
		}
	}
	data, err := checkpoint.EncodeManifest(m, fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
	if err != nil {
		return "", err
	}
	return to.String(), to.PutIfAbsent(ctx, "manifest", data)
}
