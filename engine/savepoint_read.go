package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/state"
	"github.com/tidemark-stream/tidemark/state/store"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// Savepoint is a savepoint or checkpoint that is open for reading. Its methods must not be called
// at the same time.
type Savepoint struct {
	*checkpoint.Snapshot
	store *store.Store
	dir   string
}

// given is the session's settings before any script, which say how object stores are reached.
func (e *Engine) given() (map[string]string, error) {
	s, err := e.session("", "", Handler{})
	if err != nil {
		return nil, err
	}
	return s.Config().All(), nil
}

// Savepoints lists the savepoints and checkpoints below a place, in the order of their names. Of
// those that cannot be read the error is joined to the others.
func (e *Engine) Savepoints(ctx context.Context, place string) ([]*checkpoint.Snapshot, error) {
	given, err := e.given()
	if err != nil {
		return nil, err
	}
	s, err := e.store(place, given)
	if err != nil {
		return nil, err
	}
	list, err := s.List(ctx, "")
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		return nil, err
	}
	var out []*checkpoint.Snapshot
	var errs []error
	for _, i := range list {
		dir, name := path.Split(i.Name)
		folder := path.Base(dir)
		if name != "manifest" && folder != "checkpoints" || folder == "files" || strings.HasPrefix(name, ".") {
			continue
		}
		snap, err := checkpoint.OpenSavepoint(ctx, object.Join(s.String(), i.Name), given)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, snap)
	}
	return out, errors.Join(errs...)
}

// IsAt reports whether a savepoint is what is at a place itself, and not below it.
func IsAt(s *checkpoint.Snapshot, place string) bool {
	dir, name := object.Split(s.Location)
	return name == "manifest" && path.Base(strings.TrimRight(filepath.ToSlash(place), "/")) == path.Base(dir)
}

// OpenSavepoint opens the savepoint or checkpoint at a place. Close must be called.
func (e *Engine) OpenSavepoint(ctx context.Context, place string) (*Savepoint, error) {
	given, err := e.given()
	if err != nil {
		return nil, err
	}
	snap, err := e.snapshot(ctx, place, given)
	if err != nil {
		return nil, err
	}
	s := &Savepoint{Snapshot: snap}
	if s.dir, err = os.MkdirTemp(given["io.tmp.dirs"], "tidemark-look-"); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// load copies the files of the state and opens them.
func (s *Savepoint) load(ctx context.Context) error {
	dir := filepath.Join(s.dir, "state")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var files []store.File
	for _, f := range s.Manifest.Files {
		at := filepath.Join(dir, f.Name)
		if err := s.Fetch(ctx, f, at); err != nil {
			return err
		}
		files = append(files, store.File{Name: f.Name, Object: f.Object, Path: at, Size: f.Size, Sum: f.Sum})
	}
	var err error
	if len(files) == 0 {
		s.store, err = store.Open(dir, store.Options{})
	} else {
		s.store, err = store.OpenFiles(dir, files, store.Options{})
	}
	if err != nil {
		return err
	}
	for _, t := range s.Manifest.Tail {
		if err := s.store.Apply(t.Operator, t.Changes); err != nil {
			return err
		}
	}
	return nil
}

// Close gives the copies up.
func (s *Savepoint) Close() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Size is the bytes of the state's files, and of the changes that the manifest holds itself.
func (s *Savepoint) Size() int64 { return SizeOf(s.Manifest) }

// SizeOf is the bytes of a checkpoint's files, and of the changes that its manifest holds itself.
func SizeOf(m *checkpoint.Manifest) int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	for _, f := range m.Segments {
		n += f.Size
	}
	for _, t := range m.Tail {
		n += int64(len(t.Changes))
	}
	return n
}

// Operator finds an operator by its number in the plan, its label, or a part of the label that no
// other has.
func (s *Savepoint) Operator(name string) (*checkpoint.Operator, error) {
	var found []*checkpoint.Operator
	var known []string
	for i := range s.Manifest.Operators {
		o := &s.Manifest.Operators[i]
		if fmt.Sprint(o.Node) == name || o.Label == name {
			return o, nil
		}
		if strings.Contains(strings.ToLower(o.Label), strings.ToLower(name)) {
			found = append(found, o)
		}
		known = append(known, fmt.Sprintf("%d (%s)", o.Node, o.Label))
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		known = known[:0]
		for _, o := range found {
			known = append(known, fmt.Sprintf("%d (%s)", o.Node, o.Label))
		}
		return nil, fmt.Errorf("%q may be one of the operators %s: give its number", name, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("there is no operator %q; there are %s", name, strings.Join(known, ", "))
}

// State finds a state of an operator by name; "" is the only one, or the first.
func State(o *checkpoint.Operator, name string) (int, error) {
	if len(o.States) == 0 {
		return 0, fmt.Errorf("operator %d (%s) keeps no keyed state", o.Node, o.Label)
	}
	if name == "" {
		return 0, nil
	}
	var known []string
	for i, sp := range o.States {
		if strings.EqualFold(sp.Name, name) {
			return i, nil
		}
		known = append(known, "'"+sp.Name+"'")
	}
	return 0, fmt.Errorf("operator %d (%s) keeps no '%s'; it keeps %s", o.Node, o.Label, name, strings.Join(known, ", "))
}

// Measure returns the number of entries of a state, and their bytes before compression.
func (s *Savepoint) Measure(o *checkpoint.Operator, st int) (entries, bytes int64, err error) {
	err = s.store.Scan(o.ID, st, 0, s.Manifest.MaxParallelism, func(_ int, key, value []byte) error {
		entries++
		bytes += int64(len(key) + len(value))
		return nil
	})
	return entries, bytes, err
}

// EntrySchema is the columns of the entries of a state: those of the key, then those of the value.
// Bytes whose parts are known, such as accumulators, are a column a part; other bytes are hexadecimal
// text. Names that come twice get a number.
func EntrySchema(sp state.Spec) types.Schema {
	sp, _ = withRun(sp)
	return (&entryReader{spec: sp, value: newValueReader(sp)}).schema()
}

// Entries calls f with the entries of a state in batches of EntrySchema, which are valid during the
// call.
func (s *Savepoint) Entries(ctx context.Context, o *checkpoint.Operator, st int, f func(b *vec.Batch) error) error {
	r, err := s.reader(o, st)
	if err != nil {
		return err
	}
	return s.entries(ctx, o, st, r, f)
}

func (s *Savepoint) entries(ctx context.Context, o *checkpoint.Operator, st int, r *entryReader, f func(b *vec.Batch) error) error {
	b := vec.NewBatch(r.schema())
	b.Reset(0)
	flush := func() error {
		if b.N == 0 {
			return nil
		}
		err := f(b)
		b.Reset(0)
		return err
	}
	r.entry = 0
	err := s.store.Scan(o.ID, st, 0, s.Manifest.MaxParallelism, func(_ int, key, value []byte) error {
		if err := r.add(b, key, value); err != nil {
			return err
		}
		if b.N < vec.BatchRows {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// Flying is the rows that were on their way from an operator to another, which a checkpoint keeps with the state.
type Flying struct {
	From, To    int // numbers of operators in the plan
	Rows, Bytes int64
}

// InFlight returns what was on its way, of each pair of operators.
func (s *Savepoint) InFlight() (out []Flying, err error) {
	for i := range s.Manifest.Channels {
		ch := &s.Manifest.Channels[i]
		n, err := job.InFlight(ch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Location, err)
		}
		if k := slices.IndexFunc(out, func(f Flying) bool { return f.From == ch.From && f.To == ch.To }); k >= 0 {
			out[k].Rows, out[k].Bytes = out[k].Rows+n, out[k].Bytes+int64(len(ch.Rows))
			continue
		}
		out = append(out, Flying{ch.From, ch.To, n, int64(len(ch.Rows))})
	}
	return out, nil
}
