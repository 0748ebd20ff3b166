package file

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

type sink struct {
	cfg  connector.SinkConfig
	root string
	run  string // tells files of this run from those of others
	part []int  // partition columns in cfg.Schema
	data []int  // the others
}

func newSink(c connector.SinkConfig) (connector.Sink, error) {
	s := &sink{cfg: c, root: c.Resolve(localPath(c.Options.Get("path"))),
		run: strconv.FormatUint(rand.Uint64(), 36)}
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
	if info, err := os.Stat(s.root); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; a sink writes a folder of files", s.root)
	}
	return s, os.MkdirAll(s.root, 0o755)
}

// Delivery implements connector.Sink.
func (s *sink) Delivery() (connector.Delivery, string) {
	return connector.ExactlyOnce, "files are written aside and renamed when they are complete"
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(_ context.Context, subtask, _ int) (connector.Writer, error) {
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
	return &writer{s: s, subtask: subtask, enc: enc, open: map[string]*part{}}, nil
}

// writer writes the files of one subtask, one at a time a partition.
type writer struct {
	s       *sink
	subtask int
	serial  int
	enc     format.Encoder
	open    map[string]*part
	ready   []connector.Committable
	out     format.Encoded
	view    vec.Batch
	key     []byte
	rows    map[string][]int32
}

// part is a file being written.
type part struct {
	f           *os.File
	w           *bufio.Writer
	size        int64
	since, last time.Time
	move        move
}

// move is a committable: a finished file and the name it gets.
type move struct {
	Dir, Temp, Name string
}

// Write implements connector.Writer.
func (w *writer) Write(_ context.Context, b *vec.Batch) error {
	w.view = vec.Batch{N: b.N, Sel: b.Sel, Kinds: b.Kinds, Cols: w.view.Cols[:0]}
	for _, i := range w.s.data {
		w.view.Cols = append(w.view.Cols, b.Cols[i])
	}
	if len(w.s.part) == 0 {
		return w.append("", &w.view)
	}
	dirs := w.split(b)
	for _, dir := range dirs {
		sub := w.view
		sub.Sel = w.rows[dir]
		if err := w.append(dir, &sub); err != nil {
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
				key = append(key, filepath.Separator)
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

func (w *writer) append(dir string, b *vec.Batch) error {
	w.out.Reset()
	if err := w.enc.Encode(&w.out, b); err != nil {
		return err
	}
	if len(w.out.Data) == 0 {
		return nil
	}
	p := w.open[dir]
	if p == nil {
		var err error
		if p, err = w.create(dir); err != nil {
			return err
		}
	}
	if _, err := p.w.Write(w.out.Data); err != nil {
		return err
	}
	p.size += int64(len(w.out.Data))
	p.last = time.Now()
	if p.size >= w.s.cfg.Options.Size("sink.rolling-policy.file-size") {
		return w.finish(dir)
	}
	return nil
}

func (w *writer) create(dir string) (*part, error) {
	full := filepath.Join(w.s.root, dir)
	if err := makeFolder(full); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("part-%s-%d-%d", w.s.run, w.subtask, w.serial)
	w.serial++
	m := move{Dir: full, Temp: "." + name + ".inprogress", Name: name}
	f, err := os.OpenFile(filepath.Join(full, m.Temp), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &part{f: f, w: bufio.NewWriterSize(f, 256<<10), since: time.Now(), move: m}
	w.open[dir] = p
	return p, nil
}

// makeFolder makes a folder and those above it that are missing, for good.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	up := filepath.Dir(dir)
	if up != dir {
		if err := makeFolder(up); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return syncFolder(up)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// finish closes the file of dir and makes it a committable.
func (w *writer) finish(dir string) error {
	p := w.open[dir]
	delete(w.open, dir)
	err := p.w.Flush()
	if err == nil {
		err = p.f.Sync()
	}
	if e := p.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = syncFolder(p.move.Dir)
	}
	var c connector.Committable
	if err == nil {
		c, err = json.Marshal(p.move)
	}
	if err != nil {
		return errors.Join(err, p.move.remove())
	}
	w.ready = append(w.ready, c)
	return nil
}

// remove deletes the file under its temporary name.
func (m move) remove() error {
	if err := os.Remove(filepath.Join(m.Dir, m.Temp)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Flush implements connector.Writer. What is written is only safe when it is prepared.
func (w *writer) Flush(context.Context) error { return nil }

// Prepare implements connector.Writer.
func (w *writer) Prepare(context.Context) ([]connector.Committable, error) {
	dirs := make([]string, 0, len(w.open))
	for d := range w.open {
		dirs = append(dirs, d)
	}
	sort.Strings(dirs)
	for _, d := range dirs {
		if err := w.finish(d); err != nil {
			return nil, err
		}
	}
	out := w.ready
	w.ready = nil
	return out, nil
}

// Tick implements connector.Writer: files that were open long enough are finished.
func (w *writer) Tick(context.Context) error {
	o := w.s.cfg.Options
	for dir, p := range w.open {
		if time.Since(p.since) < o.Duration("sink.rolling-policy.rollover-interval") &&
			time.Since(p.last) < o.Duration("sink.rolling-policy.inactivity-interval") {
			continue
		}
		if err := w.finish(dir); err != nil {
			return err
		}
	}
	return nil
}

// Close implements connector.Writer. Files that were not prepared are removed, also those that are
// complete.
func (w *writer) Close() error {
	var errs []error
	for _, p := range w.open {
		p.f.Close()
		errs = append(errs, p.move.remove())
	}
	clear(w.open)
	errs = append(errs, abort(w.ready))
	w.ready = nil
	return errors.Join(errs...)
}

// NewCommitter implements connector.Sink.
func (s *sink) NewCommitter(context.Context) (connector.Committer, error) {
	return &committer{s: s, cleared: map[string]bool{}}, nil
}

// committer renames finished files. INSERT OVERWRITE then removes what earlier runs left in the
// folder.
type committer struct {
	s       *sink
	mu      sync.Mutex
	cleared map[string]bool
}

// Commit implements connector.Committer.
func (c *committer) Commit(_ context.Context, _ connector.CommitID, cs []connector.Committable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirs := map[string]bool{}
	for _, raw := range cs {
		var m move
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("BUG: committable %q: %w", raw, err)
		}
		dirs[m.Dir] = true
		from, to := filepath.Join(m.Dir, m.Temp), filepath.Join(m.Dir, m.Name)
		if err := os.Rename(from, to); err != nil {
			if _, there := os.Stat(to); !os.IsNotExist(err) || there != nil {
				return err
			}
		}
		killpoint.Pass("commit/file-moved")
	}
	for d := range dirs {
		if c.s.cfg.Overwrite && !c.cleared[d] {
			if err := c.clear(d); err != nil {
				return err
			}
		}
		if err := c.seal(d); err != nil {
			return err
		}
	}
	return nil
}

// Finish implements connector.Finisher: INSERT OVERWRITE of a table without partitions, or of one
// partition, replaces what was there also when the query gave no row.
func (c *committer) Finish(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := c.s.root
	if !c.s.cfg.Overwrite || len(c.s.part) > 0 && len(c.s.cfg.StaticPartition) < len(c.s.part) {
		return nil
	}
	for _, k := range c.s.cfg.Table.PartitionKeys {
		dir = filepath.Join(dir, escapePart(k)+"="+escapePart(c.s.cfg.StaticPartition[k]))
	}
	if _, err := os.Stat(dir); c.cleared[dir] || os.IsNotExist(err) {
		return nil
	}
	return c.clear(dir)
}

// clear removes the files of earlier runs from dir.
func (c *committer) clear(dir string) error {
	c.cleared[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name()[0] == '.' || strings.HasPrefix(e.Name(), "part-"+c.s.run+"-") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// seal makes the renames in dir durable and writes the success file.
func (c *committer) seal(dir string) error {
	if c.s.cfg.Options.Get("sink.partition-commit.policy.kind") == "success-file" {
		name := filepath.Join(dir, c.s.cfg.Options.Get("sink.partition-commit.success-file.name"))
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
	}
	return syncFolder(dir)
}

// Abort implements connector.Committer.
func (c *committer) Abort(_ context.Context, cs []connector.Committable) error { return abort(cs) }

func abort(cs []connector.Committable) error {
	var errs []error
	for _, raw := range cs {
		var m move
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("BUG: committable %q: %w", raw, err)
		}
		errs = append(errs, m.remove())
	}
	return errors.Join(errs...)
}

// Close implements connector.Committer.
func (c *committer) Close() error { return nil }

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
