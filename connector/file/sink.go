package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

type sink struct {
	cfg      connector.SinkConfig
	delivery connector.Delivery
	own      string                 // tells files of this run from those of others
	family   atomic.Pointer[string] // see run
	part     []int                  // partition columns in cfg.Schema
	data     []int                  // the others
	to       target
}

// The name of a run stands in those of its files. It begins with what all runs of a job have in common
// that go on one from the other, and that no other job has: it is drawn at the first start, and later
// runs take it over from the output that their checkpoint holds. So a run can tell what dead ones before
// it have left behind, also those that were killed before a checkpoint knew of them.
const (
	familyChars = 8
	ownChars    = 12
)

func (s *sink) run() string { return *s.family.Load() + s.own }

// adopt takes over the family of an earlier run of this job. It happens before the first row.
func (s *sink) adopt(run string) {
	if f := familyOf(run); f != "" {
		s.family.Store(&f)
	}
}

// familyOf is the family of a run, "" if it has none.
func familyOf(run string) string {
	if len(run) != familyChars+ownChars {
		return ""
	}
	return run[:familyChars]
}

// draw makes a random word.
func draw(chars int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, chars)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

// isDead reports whether a file is of one of the runs, or of another one of this run's family. Only who
// has recovered from the job's checkpoint, and so has its lock, may ask.
func (s *sink) isDead(name string, runs map[string]bool) bool {
	run := runOf(name)
	return run != "" && run != s.run() && (runs[run] || familyOf(run) == *s.family.Load())
}

// target is where the files of a sink go. Folders are those of partitions, "" or k=v/k2=v2, below the
// path of the table.
type target interface {
	// writer makes what one subtask writes with.
	writer(ctx context.Context, subtask int) outputs
	// publish makes visible what a committable names, and returns the folders that it is in and the
	// run that wrote it. Again it changes nothing.
	publish(ctx context.Context, c connector.Committable) (folders []string, run string, err error)
	// abort removes what a committable names.
	abort(ctx context.Context, c connector.Committable) error
	// settle ends a commit in a folder: with success not empty, by an empty file of that name.
	settle(ctx context.Context, folder, success string) error
	// clear removes from a folder what other runs have left there.
	clear(ctx context.Context, folder, run string) error
	// sweep removes what the dead runs given, and others of this run's family, have left that nobody sees.
	sweep(ctx context.Context, runs map[string]bool) error
}

// outputs is the files that one subtask writes. It belongs to one goroutine.
type outputs interface {
	create(ctx context.Context, folder, name string) (output, error)
	// crowded returns a file that must be finished now, as memory is short, or nil.
	crowded() output
	// seal makes committables of the files finished since the last time.
	seal(ctx context.Context) ([]connector.Committable, error)
	// close drops what was not sealed.
	close() error
}

// output is a file being written.
type output interface {
	write(ctx context.Context, p []byte) error
	// finish ends the file: it is part of the next seal.
	finish(ctx context.Context) error
}

func newSink(c connector.SinkConfig) (connector.Sink, error) {
	s := &sink{cfg: c, delivery: connector.DeliveryOf(c.Options), own: draw(ownChars)}
	s.adopt(draw(familyChars) + s.own)
	part := map[string]bool{}
	for _, k := range c.Table.PartitionKeys {
		part[k] = true
		s.part = append(s.part, c.Schema.Index(k))
	}
	for i, f := range c.Schema.Fields {
		if !part[f.Name] {
			s.data = append(s.data, i)
		}
	}
	var err error
	if isObjects(c.Options.Get("path")) {
		s.to, err = newObjectTarget(s)
	} else {
		s.to, err = newFolderTarget(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// delivery says what a table gives, and how.
func delivery(o option.Values) (connector.Delivery, string) {
	d, remote := connector.DeliveryOf(o), isObjects(o.Get("path"))
	switch {
	case d == connector.AtMostOnce:
		return d, "files appear whole as soon as they are complete; one that cannot be written is dropped"
	case d == connector.AtLeastOnce:
		return d, "files appear whole before the checkpoint that they belong to is complete: after a crash their rows are written again"
	case remote:
		return d, "parts of objects are sent while rows come, and put together when they are complete"
	}
	return d, "files are written aside and renamed when they are complete"
}

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) { return delivery(s.cfg.Options) }

// marks reports whether every epoch has a committable, also without rows: by those of its checkpoint the
// next run of the job knows what the one before has left behind.
func (s *sink) marks(subtask int) bool {
	return subtask == 0 && s.cfg.Segments != nil && s.delivery == connector.ExactlyOnce
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(ctx context.Context, subtask, _ int) (connector.Writer, error) {
	f, o, err := formatOf(s.cfg.Table, s.cfg.Options)
	if err != nil {
		return nil, err
	}
	var schema types.Schema
	for _, i := range s.data {
		schema.Fields = append(schema.Fields, s.cfg.Schema.Fields[i])
	}
	if f.NewEncoder == nil {
		return nil, fmt.Errorf("format '%s' cannot be written", f.Name)
	}
	enc, err := f.NewEncoder(format.EncoderConfig{Schema: schema, Options: o, Delimiter: "\n"})
	if err != nil {
		return nil, err
	}
	return &writer{s: s, subtask: subtask, enc: enc, open: map[string]*part{}, to: s.to.writer(ctx, subtask),
		most: s.cfg.Options.Size("sink.rolling-policy.file-size")}, nil
}

// writer writes the files of one subtask, one at a time a partition.
type writer struct {
	s       *sink
	subtask int
	serial  int
	most    int64 // bytes of a file
	enc     format.Encoder
	open    map[string]*part // by folder
	to      outputs
	out     format.Encoded
	view    vec.Batch
	key     []byte
	rows    map[string][]int32
}

// part is a file being written.
type part struct {
	output
	size        int64
	since, last time.Time
}

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *vec.Batch) error {
	w.view = vec.Batch{N: b.N, Sel: b.Sel, Kinds: b.Kinds, Cols: w.view.Cols[:0]}
	for _, i := range w.s.data {
		w.view.Cols = append(w.view.Cols, b.Cols[i])
	}
	if len(w.s.part) == 0 {
		return w.append(ctx, "", &w.view)
	}
	dirs := w.split(b)
	for _, dir := range dirs {
		sub := w.view
		sub.Sel = w.rows[dir]
		if err := w.append(ctx, dir, &sub); err != nil {
			return err
		}
	}
	return nil
}

// split groups the rows of b by partition folder.
func (w *writer) split(b *vec.Batch) []string {
	if w.rows == nil {
		w.rows = map[string][]int32{}
	}
	for k := range w.rows {
		w.rows[k] = w.rows[k][:0]
	}
	b.Each(func(i int) {
		key := w.key[:0]
		for n, c := range w.s.part {
			if n > 0 {
				key = append(key, '/')
			}
			key = append(key, escapePart(w.s.cfg.Table.PartitionKeys[n])...)
			key = append(key, '=')
			v := b.Cols[c]
			text := ""
			if !v.IsNull(i) {
				text = partText(v, i)
			}
			if text == "" {
				text = w.s.cfg.Options.Get("partition.default-name")
			}
			key = append(key, escapePart(text)...)
		}
		w.key = key
		w.rows[string(key)] = append(w.rows[string(key)], int32(i))
	})
	var dirs []string
	for k, rows := range w.rows {
		if len(rows) > 0 {
			dirs = append(dirs, k)
		}
	}
	sort.Strings(dirs)
	return dirs
}

// partText prints a partition value as Flink names folders.
func partText(v *vec.Vec, i int) string {
	switch x := v.Value(i).(type) {
	case string:
		return x
	default:
		l := expr.FormatLiteral(x, v.Type)
		if _, q, ok := strings.Cut(l, "'"); ok {
			return strings.TrimSuffix(q, "'")
		}
		return strings.ToLower(l)
	}
}

func (w *writer) append(ctx context.Context, dir string, b *vec.Batch) error {
	w.out.Reset()
	if err := w.enc.Encode(&w.out, b); err != nil {
		return err
	}
	if len(w.out.Data) == 0 {
		return nil
	}
	p := w.open[dir]
	if p == nil {
		name := fmt.Sprintf("%s%d-%d", partPrefix(w.s.run()), w.subtask, w.serial)
		w.serial++
		o, err := w.to.create(ctx, dir, name)
		if err != nil {
			return w.lose(err)
		}
		p = &part{output: o, since: time.Now()}
		w.open[dir] = p
	}
	if err := p.write(ctx, w.out.Data); err != nil {
		return w.lose(err)
	}
	p.size += int64(len(w.out.Data))
	p.last = time.Now()
	if p.size >= w.most {
		return w.finish(ctx, dir)
	}
	if o := w.to.crowded(); o != nil {
		for dir, p := range w.open {
			if p.output == o {
				return w.finish(ctx, dir)
			}
		}
	}
	return nil
}

// partPrefix is what the names of a run's files begin with.
func partPrefix(run string) string { return "part-" + run + "-" }

// runOf is the run of a file's name, "" if it is none of ours.
func runOf(name string) string {
	parts := strings.Split(name, "-")
	if len(parts) != 4 || parts[0] != "part" {
		return ""
	}
	return parts[1]
}

// lose passes an error on, unless rows may be lost.
func (w *writer) lose(err error) error {
	if err == nil || w.s.delivery != connector.AtMostOnce || isFatal(err) {
		return err
	}
	slog.Warn(fmt.Sprintf("table %s: output is lost: %v", w.s.cfg.Table.Name, err))
	return nil
}

func isFatal(err error) bool {
	var f *connector.Fatal
	return errors.As(err, &f)
}

// finish ends the file of dir.
func (w *writer) finish(ctx context.Context, dir string) error {
	p := w.open[dir]
	delete(w.open, dir)
	return w.lose(p.finish(ctx))
}

// Flush implements connector.Writer. What is to be committed is only safe when it is prepared.
func (w *writer) Flush(ctx context.Context) error {
	if w.s.delivery == connector.ExactlyOnce {
		return nil
	}
	_, err := w.Prepare(ctx)
	return err
}

// Prepare implements connector.Writer.
func (w *writer) Prepare(ctx context.Context) ([]connector.Committable, error) {
	dirs := make([]string, 0, len(w.open))
	for d := range w.open {
		dirs = append(dirs, d)
	}
	sort.Strings(dirs)
	for _, d := range dirs {
		if err := w.finish(ctx, d); err != nil {
			return nil, err
		}
	}
	cs, err := w.to.seal(ctx)
	if w.s.delivery == connector.ExactlyOnce || err != nil {
		return cs, w.lose(err)
	}
	return nil, w.lose(w.show(ctx, cs))
}

// show makes files visible where nobody commits.
func (w *writer) show(ctx context.Context, cs []connector.Committable) error {
	folders := map[string]bool{}
	for _, c := range cs {
		in, _, err := w.s.to.publish(ctx, c)
		if err != nil {
			return err
		}
		for _, f := range in {
			folders[f] = true
		}
	}
	for f := range folders {
		if err := w.s.to.settle(ctx, f, w.s.successFile()); err != nil {
			return err
		}
	}
	return nil
}

// successFile is the name of the file that marks complete folders, or "".
func (s *sink) successFile() string {
	if s.cfg.Options.Get("sink.partition-commit.policy.kind") != "success-file" {
		return ""
	}
	return s.cfg.Options.Get("sink.partition-commit.success-file.name")
}

// Tick implements connector.Writer: files that were open long enough are finished.
func (w *writer) Tick(ctx context.Context) error {
	o := w.s.cfg.Options
	for dir, p := range w.open {
		if time.Since(p.since) < o.Duration("sink.rolling-policy.rollover-interval") &&
			time.Since(p.last) < o.Duration("sink.rolling-policy.inactivity-interval") {
			continue
		}
		if err := w.finish(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// Close implements connector.Writer. Files that were not prepared are removed, also those that are
// complete.
func (w *writer) Close() error {
	clear(w.open)
	return w.to.close()
}

// folderPath is a partition's folder as a path of the system.
func folderPath(root, folder string) string { return filepath.Join(root, filepath.FromSlash(folder)) }

// escapePart encodes the characters that Flink does not leave in a folder's name.
func escapePart(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == 0x7f || strings.IndexByte("\"#%'*/:=?\\{[]^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unescapePart(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
