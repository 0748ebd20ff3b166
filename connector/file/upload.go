package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
)

// Objects are written so that nobody sees half of one. What is large is sent in parts while rows come;
// the parts are put together at the commit. What is smaller than a part lies in the epoch's segment and
// is sent as a whole at the commit, however long that takes: a store that removes unfinished uploads
// after some days does not hurt it.
//
// A committable is a segment with the files of one subtask and epoch:
//
//	segment = header newline (entry newline bytes)...   header and entry are JSON; bytes are entry.Inline many
const (
	// sendAtATime is how many parts a subtask sends at a time; further ones wait, and the rows with
	// them.
	sendAtATime = 3
	// mostBuffered is how many bytes a subtask holds besides the parts on their way.
	mostBuffered = 64 << 20
	// mostInline is how much of small files a subtask keeps in memory where there are no segments.
	mostInline = 4 << 20
	// abortWithin is how long a writer that ends may take to remove an upload.
	abortWithin = 10 * time.Second
)

// partBytes is how long parts are, if that makes no more of them than there may be. Tests change it.
var partBytes int64 = 8 << 20

// inlineBytes is what a segment takes of a file. Tests change it.
var inlineBytes = 8 << 20

// objectTarget writes objects.
type objectTarget struct {
	s        *sink
	store    object.Store // its root is the path of the table
	up       object.Uploader
	segments connector.Segments
	kept     bool // segments outlive the process
	part     int  // bytes
}

// segmentHeader begins a segment.
type segmentHeader struct {
	Root string `json:"root"` // where the objects are
	Run  string `json:"run"`
}

// segmentEntry is a file of a segment.
type segmentEntry struct {
	Name   string        `json:"name"` // below Root
	Upload string        `json:"upload,omitempty"`
	Parts  []object.Part `json:"parts,omitempty"`
	Inline int           `json:"inline,omitempty"`
}

func newObjectTarget(s *sink) (target, error) {
	if _, err := openBucket(s.cfg.Table, s.cfg.Options); err != nil {
		return nil, err
	}
	store, err := object.Open(strings.TrimRight(s.cfg.Options.Get("path"), "/"), s.cfg.Table.Options)
	if err != nil {
		return nil, &option.Error{Key: "path", Msg: err.Error()}
	}
	if out := s.cfg.Stderr; out != nil {
		tell(store, func(msg string) { fmt.Fprintln(out, msg) })
	}
	most := s.cfg.Options.Size("sink.rolling-policy.file-size")
	t := &objectTarget{s: s, store: store, up: object.UploaderOf(store), segments: s.cfg.Segments, kept: true,
		part: int(max(partBytes, most/(object.MostParts-1000)))}
	if t.up == nil {
		return nil, &option.Error{Key: "path", Msg: fmt.Sprintf("%s cannot be written to in parts, so that a sink cannot use it", store)}
	}
	if t.segments == nil || s.delivery != connector.ExactlyOnce {
		t.segments, t.kept = memorySegments{}, false
	}
	return t, nil
}

// tell names who is told when a store is away for seconds, and when it is back, if the store says that.
func tell(s object.Store, f func(msg string)) {
	if t, ok := s.(interface{ Tell(func(msg string)) }); ok {
		t.Tell(f)
	}
}

// check finds out at the start whether the store can be reached at all.
func (t *objectTarget) check(ctx context.Context) error {
	_, _, err := object.Page(ctx, t.store, "", "")
	return fatal(err)
}

// failed gives an error of the store its kind.
func failed(err error) error {
	var h *object.Hopeless
	switch {
	case err == nil:
		return nil
	case errors.As(err, &h):
		return &connector.Fatal{Err: err}
	case isFatal(err), errors.Is(err, context.Canceled):
		return err
	}
	return &awayError{err}
}

func (t *objectTarget) close() { object.Release(t.store) }

func (t *objectTarget) writer(ctx context.Context, subtask int) outputs {
	o := &objectOutputs{t: t, mark: t.s.marks(subtask), live: map[*objectFile]bool{}, slots: make(chan struct{}, sendAtATime),
		room: mostBuffered}
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return o
}

// objectOutputs is the files of one subtask.
type objectOutputs struct {
	t      *objectTarget
	mark   bool
	live   map[*objectFile]bool // open, or finished and not sealed
	held   int                  // bytes of the open ones that were not sent
	room   int                  // how many that may be
	seg    connector.SegmentWriter
	inline int           // bytes of files in seg
	sent   []*objectFile // finished, in parts
	slots  chan struct{} // one for each part on its way

	ctx    context.Context // of what is on its way
	cancel context.CancelFunc
	mu     sync.Mutex
	free   [][]byte // buffers of parts; guarded by mu
}

// objectFile is an object being written.
type objectFile struct {
	o      *objectOutputs
	name   string
	buf    []byte // not sent
	upload string // "" as long as no part was sent
	count  int    // of parts
	done   bool   // it is in the segment, or nothing more follows

	sending sync.WaitGroup
	mu      sync.Mutex
	parts   []object.Part // guarded by mu
	err     error         // guarded by mu
}

func (o *objectOutputs) create(_ context.Context, folder, name string) (output, error) {
	f := &objectFile{o: o, name: path.Join(folder, name)}
	o.live[f] = true
	return f, nil
}

// crowded returns the largest open file that is too small to be sent in parts, when there is too much.
// Larger ones have been sent by then.
func (o *objectOutputs) crowded() output {
	if o.held <= o.room {
		return nil
	}
	var most *objectFile
	for f := range o.live {
		if !f.done && (most == nil || len(f.buf) > len(most.buf)) {
			most = f
		}
	}
	return most
}

func (f *objectFile) write(ctx context.Context, p []byte) error {
	if f.buf == nil {
		f.buf = f.o.buffer()
	}
	f.buf = append(f.buf, p...)
	f.o.held += len(p)
	for len(f.buf) >= f.o.t.part {
		if err := f.send(ctx, f.o.t.part); err != nil {
			return err
		}
	}
	if f.o.held > f.o.room && len(f.buf) >= object.LeastPart {
		return f.send(ctx, len(f.buf))
	}
	return nil
}

// buffer returns an empty buffer.
func (o *objectOutputs) buffer() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := len(o.free) - 1; i >= 0 {
		b := o.free[i]
		o.free = o.free[:i]
		return b
	}
	return nil
}

func (o *objectOutputs) giveBack(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.free) < sendAtATime {
		o.free = append(o.free, b[:0])
	}
}

// send sends the first n bytes of the buffer as the next part, when there is room on the way.
func (f *objectFile) send(ctx context.Context, n int) error {
	if err := f.failure(); err != nil {
		return err
	}
	o := f.o
	if f.upload == "" {
		up, err := o.t.up.Begin(ctx, f.name)
		if err != nil {
			return failed(err)
		}
		f.upload = up
		killpoint.Pass("cut/upload-begun")
	}
	select {
	case o.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	data := f.buf[:n:n]
	f.buf = append(o.buffer(), f.buf[n:]...)
	o.held -= n
	f.count++
	number := f.count
	f.mu.Lock()
	f.parts = append(f.parts, object.Part{})
	f.mu.Unlock()
	f.sending.Add(1)
	go func() {
		defer f.sending.Done()
		part, err := o.t.up.PutPart(o.ctx, f.name, f.upload, number, data)
		<-o.slots
		o.giveBack(data)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.parts[number-1] = part
		if f.err == nil {
			f.err = failed(err)
		}
	}()
	return nil
}

func (f *objectFile) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// finish puts a small file into the segment, and sends what is left of a large one.
func (f *objectFile) finish(ctx context.Context) error {
	o := f.o
	f.done = true
	if f.upload == "" && len(f.buf) <= inlineBytes && (o.t.kept || o.inline+len(f.buf) <= mostInline) {
		err := o.add(segmentEntry{Name: f.name, Inline: len(f.buf)}, f.buf)
		o.held -= len(f.buf)
		o.inline += len(f.buf)
		o.giveBack(f.buf)
		f.buf = nil
		delete(o.live, f)
		return err
	}
	if len(f.buf) > 0 {
		if err := f.send(ctx, len(f.buf)); err != nil {
			return err
		}
	}
	o.sent = append(o.sent, f)
	return nil
}

// add writes a file into the segment of the epoch.
func (o *objectOutputs) add(e segmentEntry, data []byte) error {
	if err := o.begin(); err != nil {
		return err
	}
	head, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := o.seg.Write(append(head, '\n')); err != nil {
		return err
	}
	_, err = o.seg.Write(data)
	return err
}

// begin begins the segment of the epoch, if there is none.
func (o *objectOutputs) begin() (err error) {
	if o.seg != nil {
		return nil
	}
	if o.seg, err = o.t.segments.Create(); err != nil {
		return err
	}
	head, err := json.Marshal(segmentHeader{Root: o.t.store.String(), Run: o.t.s.run()})
	if err == nil {
		_, err = o.seg.Write(append(head, '\n'))
	}
	return err
}

func (o *objectOutputs) seal(context.Context) ([]connector.Committable, error) {
	for _, f := range o.sent {
		f.sending.Wait()
		if err := f.failure(); err != nil {
			return nil, err
		}
		if err := o.add(segmentEntry{Name: f.name, Upload: f.upload, Parts: f.parts}, nil); err != nil {
			return nil, err
		}
		delete(o.live, f)
	}
	o.sent, o.inline = nil, 0
	if o.mark {
		if err := o.begin(); err != nil {
			return nil, err
		}
	}
	if o.seg == nil {
		return nil, nil
	}
	c, err := o.seg.Seal()
	o.seg = nil
	if err != nil {
		return nil, err
	}
	return []connector.Committable{c}, nil
}

func (o *objectOutputs) close() error {
	o.cancel()
	var errs []error
	for f := range o.live {
		f.sending.Wait()
		if f.upload != "" {
			errs = append(errs, o.t.abortUpload(context.Background(), f.name, f.upload))
		}
	}
	clear(o.live)
	o.sent = nil
	if o.seg != nil {
		errs = append(errs, o.seg.Discard())
		o.seg = nil
	}
	object.Release(o.t.store)
	return errors.Join(errs...)
}

// each reads the files of a committable. What f does not read of a file's bytes is skipped.
func (t *objectTarget) each(ctx context.Context, c connector.Committable, f func(h segmentHeader, e segmentEntry, data io.Reader) error) (h segmentHeader, err error) {
	rc, err := t.segments.Open(ctx, c)
	if err != nil {
		return h, err
	}
	defer rc.Close()
	r := bufio.NewReaderSize(rc, 64<<10)
	line := func(v any) error {
		text, err := r.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return io.EOF
		}
		if err == nil {
			err = json.Unmarshal(text, v)
		}
		if err != nil {
			return &connector.Fatal{Err: fmt.Errorf("sealed output for %s is damaged: %w", t.store, err)}
		}
		return nil
	}
	if err := line(&h); err != nil {
		return h, err
	}
	for {
		var e segmentEntry
		if err := line(&e); err == io.EOF {
			return h, nil
		} else if err != nil {
			return h, err
		}
		data := io.LimitReader(r, int64(e.Inline))
		if err := f(h, e, data); err != nil {
			return h, err
		}
		if _, err := io.Copy(io.Discard, data); err != nil {
			return h, err
		}
	}
}

func (t *objectTarget) publish(ctx context.Context, c connector.Committable) (folders []string, run string, err error) {
	h, err := t.each(ctx, c, func(h segmentHeader, e segmentEntry, data io.Reader) error {
		store, err := t.at(h.Root)
		if err != nil {
			return err
		}
		if e.Upload != "" {
			err = t.complete(ctx, store, e)
		} else {
			err = put(ctx, store, e, data)
		}
		if err != nil {
			return err
		}
		killpoint.Pass("commit/object-made")
		if store == t.store {
			dir := path.Dir(e.Name)
			if dir == "." {
				dir = ""
			}
			folders = append(folders, dir)
		}
		return nil
	})
	return folders, h.Run, err
}

// at is the store that output was prepared for: the path of the table may have changed since.
func (t *objectTarget) at(root string) (object.Store, error) {
	if root == t.store.String() {
		return t.store, nil
	}
	return object.Open(root, t.s.cfg.Table.Options)
}

// complete makes an object of its parts.
func (t *objectTarget) complete(ctx context.Context, store object.Store, e segmentEntry) error {
	err := object.UploaderOf(store).Complete(ctx, e.Name, e.Upload, e.Parts)
	if !errors.Is(err, object.ErrUploadGone) {
		return failed(err)
	}
	var size int64
	for _, p := range e.Parts {
		size += p.Size
	}
	return &connector.Fatal{Err: fmt.Errorf("%w, and so are the %d bytes of it that the checkpoint counts on: a rule of the bucket removes uploads "+
		"that are not completed in time and the job was away for longer, or somebody has removed it or the object itself; "+
		"start from an older savepoint, or with --fresh, and give the rule (AbortIncompleteMultipartUpload) more days than a downtime may last", err, size)}
}

// put writes a small object, unless it is there already.
func put(ctx context.Context, store object.Store, e segmentEntry, data io.Reader) error {
	b, err := io.ReadAll(data)
	if err == nil && len(b) < e.Inline {
		err = &connector.Fatal{Err: fmt.Errorf("sealed output for %s/%s is damaged: %w", store, e.Name, io.ErrUnexpectedEOF)}
	}
	if err != nil {
		return err
	}
	// Nobody else writes an object of this name, so that it does no harm where there are no conditions.
	if object.LimitsOf(store) != "" {
		return failed(store.Put(ctx, e.Name, b))
	}
	err = store.PutIfAbsent(ctx, e.Name, b)
	if !errors.Is(err, object.ErrExists) {
		return failed(err)
	}
	there, err := store.Get(ctx, e.Name, 0, -1)
	if err == nil && !bytes.Equal(there, b) {
		err = &connector.Fatal{Err: fmt.Errorf("%s is there already, with other content than what the checkpoint holds for it: "+
			"somebody has written into the folder of this table", object.Join(store.String(), e.Name))}
	}
	return failed(err)
}

func (t *objectTarget) abort(ctx context.Context, c connector.Committable) error {
	_, err := t.each(ctx, c, func(h segmentHeader, e segmentEntry, _ io.Reader) error {
		if e.Upload == "" {
			return nil
		}
		store, err := t.at(h.Root)
		if err != nil {
			return err
		}
		return object.UploaderOf(store).Abort(ctx, e.Name, e.Upload)
	})
	return err
}

func (t *objectTarget) abortUpload(ctx context.Context, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, abortWithin)
	defer cancel()
	return t.up.Abort(ctx, name, id)
}

func (t *objectTarget) settle(ctx context.Context, folder, success string) error {
	if success == "" {
		return nil
	}
	return failed(t.store.Put(ctx, path.Join(folder, success), nil))
}

func (t *objectTarget) clear(ctx context.Context, folder, run string) error {
	prefix := folder
	if prefix != "" {
		prefix += "/"
	}
	var old []string
	for after := ""; ; {
		found, next, err := object.Page(ctx, t.store, prefix, after)
		if err != nil {
			return failed(err)
		}
		for _, i := range found {
			name := i.Name[len(prefix):]
			if !strings.Contains(name, "/") && name[0] != '.' && !strings.HasPrefix(name, partPrefix(run)) {
				old = append(old, i.Name)
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	return failed(t.store.Delete(ctx, old...))
}

// sweep aborts the uploads that runs have left.
func (t *objectTarget) sweep(ctx context.Context, runs map[string]bool) error {
	left, err := t.up.Uploads(ctx, "")
	if err != nil {
		return err
	}
	for _, u := range left {
		if !t.s.isDead(path.Base(u.Name), runs) {
			continue
		}
		if err := t.up.Abort(ctx, u.Name, u.ID); err != nil {
			return err
		}
	}
	return nil
}

// memorySegments keeps segments in their committables, where those need not outlive the process.
type memorySegments struct{}

type memorySegment struct{ bytes.Buffer }

// Create implements connector.Segments.
func (memorySegments) Create() (connector.SegmentWriter, error) { return &memorySegment{}, nil }

// Open implements connector.Segments.
func (memorySegments) Open(_ context.Context, c connector.Committable) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(c)), nil
}

// Size implements connector.SegmentWriter.
func (m *memorySegment) Size() int64 { return int64(m.Len()) }

// Seal implements connector.SegmentWriter.
func (m *memorySegment) Seal() (connector.Committable, error) { return m.Bytes(), nil }

// Discard implements connector.SegmentWriter.
func (m *memorySegment) Discard() error { return nil }
