package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
)

// isObjects reports whether a path is in an object store.
func isObjects(p string) bool {
	return strings.Contains(p, "://") && !strings.HasPrefix(p, "file:")
}

// bucket is the root of an object store and the path of a table in it.
type bucket struct {
	store object.Store
	root  string // how names are shown: s3://bucket/
	path  string // without slashes at its ends; "" is everything
}

// openBucket opens the store of a table. Nothing is asked of it.
func openBucket(t *connector.Table, o option.Values) (*bucket, error) {
	p := o.Get("path")
	scheme, rest, _ := strings.Cut(p, "://")
	name, key, _ := strings.Cut(rest, "/")
	store, err := object.Open(scheme+"://"+name, t.Options)
	if err != nil {
		return nil, &option.Error{Key: "path", Msg: err.Error()}
	}
	b := &bucket{store: store, root: store.String() + "/", path: strings.Trim(key, "/")}
	for part := range strings.SplitSeq(b.path, "/") {
		if part == "." || part == ".." || part == "" && b.path != "" {
			return nil, &option.Error{Key: "path", Msg: fmt.Sprintf("%s: no part of a path in an object store may be empty, . or ..", p)}
		}
	}
	return b, nil
}

// at is the full path of an object.
func (b *bucket) at(name string) string { return b.root + name }

// fatal makes an error that no restart heals one that ends the job.
func fatal(err error) error {
	var h *object.Hopeless
	if errors.As(err, &h) {
		return &connector.Fatal{Err: err}
	}
	return err
}

// objects is a source of objects.
type objects struct {
	*bucket
	pattern *regexp.Regexp // of the full path; nil takes all
	glob    []string       // parts of the path, if it is a pattern; else nil
	prefix  string         // what names begin with
	watched bool
	skip    bool // objects that are gone are passed over
	warn    func(format string, args ...any)
	shared  *readAhead

	mu    sync.Mutex
	infos map[string]object.Info // of objects that were asked for without being listed; guarded by mu
	read  []uint64               // keys of the splits read to their end since taken; guarded by mu
}

// onDataLoss is the option that says what becomes of a job whose objects are gone.
const onDataLoss = "scan.on-data-loss"

func newObjects(s *source, c connector.SourceConfig) (*objects, error) {
	b, err := openBucket(c.Table, c.Options)
	if err != nil {
		return nil, err
	}
	tell(b.store, func(msg string) { c.Warning("%s", msg) })
	o := &objects{bucket: b, pattern: s.pattern, watched: s.watch > 0, skip: c.Options.Enum(onDataLoss) == "skip",
		warn: c.Warning, shared: newReadAhead(aheadMemory), infos: map[string]object.Info{}, prefix: b.path}
	if i := strings.IndexAny(b.path, "*?["); i >= 0 {
		if _, err := path.Match(b.path, ""); err != nil {
			return nil, &option.Error{Key: "path", Msg: fmt.Sprintf("pattern %s: %v", c.Options.Get("path"), err)}
		}
		o.glob, o.prefix = strings.Split(b.path, "/"), b.path[:i]
	} else if o.prefix != "" {
		o.prefix += "/"
	}
	return o, nil
}

// wants reports whether an object that begins with the prefix is one of the source. Below the path,
// names that begin with a dot or an underscore are not data, as for files.
func (o *objects) wants(name string) bool {
	below := name
	switch {
	case o.glob != nil:
		parts := strings.Split(name, "/")
		if len(parts) < len(o.glob) {
			return false
		}
		for i, g := range o.glob {
			if ok, _ := path.Match(g, parts[i]); !ok {
				return false
			}
		}
		below = strings.Join(parts[len(o.glob):], "/")
	case name == o.path:
		below = ""
	default:
		below = strings.TrimPrefix(name, o.prefix)
	}
	for below != "" {
		part, rest, _ := strings.Cut(below, "/")
		if part == "" || part[0] == '.' || part[0] == '_' {
			return false
		}
		below = rest
	}
	return o.pattern == nil || o.pattern.MatchString(o.at(name))
}

// The id of a split is the path of its object and the version that was listed, so that an object which
// was replaced is another split.
const etagMark = "?etag="

func (o *objects) id(i object.Info) string {
	return o.at(i.Name) + etagMark + strings.Trim(i.Version, `"`)
}

// splitID takes the id of a split apart.
func (o *objects) splitID(id string) (name, version string, err error) {
	at := strings.LastIndex(id, etagMark)
	if at < len(o.root) || !strings.HasPrefix(id, o.root) {
		return "", "", fmt.Errorf("%s is no object of this table", id)
	}
	return id[len(o.root):at], id[at+len(etagMark):], nil
}

// split describes an object to those who read it.
func (o *objects) split(i object.Info) connector.Split {
	data := binary.AppendUvarint(nil, uint64(i.Size))
	return connector.Split{ID: o.id(i), Data: binary.AppendUvarint(data, uint64(max(0, i.ModifiedMs)))}
}

// info is what the split of an object says of it. Without its data the store is asked.
func (o *objects) info(ctx context.Context, sp connector.Split) (object.Info, error) {
	name, version, err := o.splitID(sp.ID)
	if err != nil {
		return object.Info{}, err
	}
	size, n := binary.Uvarint(sp.Data)
	if n > 0 {
		ms, _ := binary.Uvarint(sp.Data[n:])
		return object.Info{Name: name, Version: version, Size: int64(size), ModifiedMs: int64(ms)}, nil
	}
	o.mu.Lock()
	i, ok := o.infos[sp.ID]
	o.mu.Unlock()
	if ok {
		return i, nil
	}
	if i, err = o.store.Stat(ctx, name); err != nil {
		return i, err
	}
	if strings.Trim(i.Version, `"`) != version {
		return i, fmt.Errorf("read %s: %w", o.at(name), object.ErrChanged)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.infos) >= maxFetching {
		clear(o.infos)
	}
	o.infos[sp.ID] = i
	return i, nil
}

// open begins to read an object.
func (o *objects) open(ctx context.Context, sp connector.Split) (*splitReader, error) {
	i, err := o.info(ctx, sp)
	if err != nil {
		return nil, fatal(o.gone(err, sp))
	}
	full := o.at(i.Name)
	s := &splitReader{path: full, size: i.Size, about: about{i.Size, i.ModifiedMs}}
	at, first := sp.Position.Offset, firstRange
	if compressed(full) {
		at = 0
	}
	if sp.Data == nil { // a single record is wanted
		first = leastRange
	}
	if at > i.Size {
		return nil, fatal(o.gone(fmt.Errorf("read %s: %w", full, object.ErrChanged), sp))
	}
	st := newStream(ctx, o.shared, i.Size, at, first, func(ctx context.Context, offset int64, p []byte) error {
		return object.ReadVersion(ctx, o.store, i.Name, i.Version, offset, p)
	})
	s.in, s.stream, s.at = st, st, at
	s.lost = func(err error, begun bool) error { return o.lost(err, sp, begun) }
	s.ended = func() {
		o.mu.Lock()
		o.read = append(o.read, seenKey(sp.ID))
		o.mu.Unlock()
	}
	return s, nil
}

// lost says what becomes of a read that failed: io.EOF passes over what is gone. begun says that
// records of the object were read before, in this run or an earlier one.
func (o *objects) lost(err error, sp connector.Split, begun bool) error {
	replaced, deleted := errors.Is(err, object.ErrChanged), errors.Is(err, object.ErrNotFound)
	switch {
	case replaced && !begun && o.watched:
		return io.EOF // what is there now is a split of its own
	case (replaced || deleted) && o.skip:
		at := "before it was read"
		if begun {
			at = fmt.Sprintf("when it was read up to byte %d", sp.Position.Offset)
		}
		o.warn("%s was replaced or deleted %s; the rest of it is not read", sp.ID, at)
		return io.EOF
	}
	return fatal(o.gone(err, sp))
}

// gone explains an error of reading where an object is not what it was.
func (o *objects) gone(err error, sp connector.Split) error {
	what := ""
	switch {
	case errors.Is(err, object.ErrChanged):
		what = "replaced by another"
	case errors.Is(err, object.ErrNotFound):
		what = "deleted"
	default:
		return err
	}
	when := "after it was listed and before it was read"
	if sp.Position.Offset > 0 {
		when = fmt.Sprintf("while it was read; byte %d would have been next", sp.Position.Offset)
	}
	return &connector.Fatal{Err: fmt.Errorf("the object was %s %s: objects must stay as they are until they were read; "+
		"to go on without what is gone, set '%s' = 'skip' (%w)", what, when, onDataLoss, err)}
}

// takeRead returns the splits that were read to their end since the last call.
func (o *objects) takeRead() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.read
	o.read = nil
	return out
}

// objectEnumerator finds objects. Each version of one is a split.
type objectEnumerator struct {
	o        *objects
	interval time.Duration // 0: bounded
	watch    *watch
	last     time.Time

	mu sync.Mutex // held by Discover and Remember, which may overlap
}

func newObjectEnumerator(o *objects, interval time.Duration) *objectEnumerator {
	return &objectEnumerator{o: o, interval: interval, watch: newWatch(o)}
}

// Discover implements connector.Enumerator.
func (e *objectEnumerator) Discover(ctx context.Context) ([]connector.Split, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch.wereRead(e.o.takeRead())
	if e.interval > 0 && !e.last.IsZero() && time.Since(e.last) < e.interval {
		return e.hand(), false, nil
	}
	e.last = time.Now()
	if err := e.watch.look(ctx); err != nil {
		return nil, false, fatal(err)
	}
	if e.interval > 0 {
		return e.hand(), false, nil
	}
	out := e.hand()
	if len(out) == 0 && len(e.watch.seen) == 0 && e.o.glob == nil {
		return nil, false, &connector.Fatal{Err: fmt.Errorf("%s does not exist: there is no object and no folder of that name, or nothing is in it", e.o.at(e.o.path))}
	}
	return out, true, nil
}

// hand returns splits to be read.
func (e *objectEnumerator) hand() []connector.Split {
	most := maxUnread
	if e.interval <= 0 {
		most = -1
	}
	var out []connector.Split
	for _, i := range e.watch.take(most) {
		out = append(out, e.o.split(i))
	}
	return out
}

// Known implements connector.Enumerator: none of these was read to its end.
func (e *objectEnumerator) Known(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		e.watch.seen[seenKey(id)] = sight{state: handed}
	}
	e.watch.unread += len(ids)
}

// Remember implements connector.Rememberer: about six bytes for each object that is still there.
func (e *objectEnumerator) Remember(ended []string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ended {
		e.watch.keep(seenKey(id))
	}
	return e.watch.encode(), nil
}

// Recall implements connector.Rememberer.
func (e *objectEnumerator) Recall(memory []byte) error {
	keys, err := decodeSeen(memory)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range keys {
		e.watch.keep(k)
	}
	return nil
}

// Close implements connector.Enumerator.
func (e *objectEnumerator) Close() error {
	object.Release(e.o.store)
	return nil
}
