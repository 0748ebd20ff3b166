package iceberg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/vec"
)

// mostOpen bounds how many files a writer has open at a time; the one that has waited longest is
// finished for another.
const mostOpen = 256

// files writes the files of one kind of one writer: one at a time a partition.
type files struct {
	t      *target
	shape  *shape
	parts  *partitioner
	name   string // begins the names of files, like no other
	serial *int
	target int64 // at which size a file is finished
	group  int64 // and a row group
	memory int64 // what all row groups together may hold
	most   int   // how many files may be open
	open   map[string]*output
	clock  int64
	done   []*file

	// How many bytes of values have become how many of files, to foresee the size of a row group.
	rawDone, fileDone int64
}

// newFiles prepares the files of rows whose columns are at in the fields of the table; only those in ids
// where it is not nil.
func newFiles(t *target, at []int, deletes bool, name string, serial *int, memory int64) (*files, error) {
	sh, err := newShape(t, t.schema, at, deletes)
	if err != nil {
		return nil, err
	}
	parts, err := newPartitioner(t.spec, t.schema, t.columns, t.at)
	if err != nil {
		return nil, err
	}
	return &files{t: t, shape: sh, parts: parts, name: name, serial: serial, memory: memory, most: mostOpen, open: map[string]*output{},
		target: t.props.size("target-file-size-bytes", t.props.size("write.target-file-size-bytes", defaultFileSize)),
		group:  t.props.size("write.parquet.row-group-size-bytes", defaultRowGroupSize)}, nil
}

// write writes the rows of b, all with nil.
func (f *files) write(b *vec.Batch, rows []int32) error {
	for _, g := range f.parts.split(b, rows) {
		o := f.open[g.key]
		if o == nil {
			var err error
			if o, err = f.create(g.key); err != nil {
				return err
			}
		}
		rec := f.shape.enc.record(b, g.rows)
		err := o.write(rec)
		rec.Release()
		if err != nil {
			return err
		}
		f.clock++
		o.used = f.clock
		switch {
		case f.size(o) >= f.target:
			err = f.finish(g.key)
		case o.held() >= f.group:
			err = f.endGroup(o)
		}
		if err != nil {
			return err
		}
	}
	return f.relieve()
}

// relieve writes row groups out until what is held lies within bounds, the largest first.
func (f *files) relieve() error {
	for {
		var sum int64
		var most *output
		for _, o := range f.open {
			held := o.held()
			sum += held
			if most == nil || held > most.held() {
				most = o
			}
		}
		if sum <= f.memory || most.group == 0 {
			return nil
		}
		if err := f.endGroup(most); err != nil {
			return err
		}
	}
}

// size is how large a file would be now.
func (f *files) size(o *output) int64 {
	if f.rawDone == 0 {
		return o.sink.n + o.raw
	}
	return o.sink.n + int64(float64(o.raw)*float64(f.fileDone)/float64(f.rawDone))
}

func (f *files) endGroup(o *output) error {
	raw, before := o.raw, o.sink.n
	err := o.endGroup()
	f.learn(raw, o.sink.n-before)
	return err
}

func (f *files) learn(raw, written int64) {
	f.rawDone, f.fileDone = f.rawDone/2+raw, f.fileDone/2+written
}

func (f *files) create(key string) (*output, error) {
	if len(f.open) >= f.most {
		var oldest string
		var least *output
		for k, o := range f.open {
			if least == nil || o.used < least.used {
				oldest, least = k, o
			}
		}
		if err := f.finish(oldest); err != nil {
			return nil, err
		}
	}
	values, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	*f.serial++
	path, err := f.path(fmt.Sprintf("%s-%05d.parquet", f.name, *f.serial), values)
	if err != nil {
		return nil, err
	}
	o, err := f.shape.create(f.t.files.get(), path, values)
	if err != nil {
		return nil, err
	}
	f.open[key] = o
	return o, nil
}

// path is where a file of a partition goes.
func (f *files) path(name string, values [][]byte) (string, error) {
	if strings.EqualFold(f.t.props.get(table.ObjectStoreEnabledKey, ""), "true") {
		p, err := table.LoadLocationProvider(f.t.location, f.t.props.m)
		if err != nil {
			return "", err
		}
		return p.NewDataLocation(name), nil
	}
	root := f.t.props.get(table.WriteDataPathKey, f.t.location+"/data")
	if folder := f.parts.folder(values); folder != "" {
		root += "/" + folder
	}
	return root + "/" + name, nil
}

// finish ends the file of a partition.
func (f *files) finish(key string) error {
	o := f.open[key]
	delete(f.open, key)
	raw, before := o.raw, o.sink.n
	done, err := o.finish()
	f.learn(raw, o.sink.n-before)
	if err != nil {
		return fmt.Errorf("write %s: %w", o.file.Path, err)
	}
	f.done = append(f.done, done)
	return nil
}

// take ends all files and returns those since the last call.
func (f *files) take() ([]*file, error) {
	keys := make([]string, 0, len(f.open))
	for k := range f.open {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if err := f.finish(k); err != nil {
			return nil, err
		}
	}
	out := f.done
	f.done = nil
	return out, nil
}

// drop removes what was not taken.
func (f *files) drop() error {
	var errs []error
	for _, o := range f.open {
		errs = append(errs, o.discard())
	}
	clear(f.open)
	for _, d := range f.done {
		errs = append(errs, gone(f.t.files.get().Remove(d.Path)))
	}
	f.done = nil
	return errors.Join(errs...)
}

// appender is the writer of rows that are only added.
type appender struct {
	s     *sink
	id    string // of the writer, like no other
	epoch int
	files *files
	t     *target
}

// Write implements connector.Writer.
func (w *appender) Write(_ context.Context, b *vec.Batch) error { return w.files.write(b, b.Sel) }

// Flush implements connector.Writer. Exactly once, what is written is only safe when it is prepared.
func (w *appender) Flush(ctx context.Context) error {
	if w.s.guarantee() == connector.ExactlyOnce {
		return nil
	}
	_, err := w.Prepare(ctx)
	return err
}

// Prepare implements connector.Writer.
func (w *appender) Prepare(ctx context.Context) ([]connector.Committable, error) {
	done, err := w.files.take()
	if err != nil || len(done) == 0 {
		return nil, err
	}
	w.epoch++
	return w.s.prepared(ctx, &pending{ID: w.id + "-" + strconv.Itoa(w.epoch), Writer: w.id, Steps: []step{{Files: done}}}, w.t)
}

// Tick implements connector.Writer.
func (w *appender) Tick(context.Context) error { return nil }

// Close implements connector.Writer. Files that were not prepared are removed.
func (w *appender) Close() error { return w.files.drop() }
