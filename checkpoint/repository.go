package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/object"
)

// Names below a job's folder.
const (
	checkpointsFolder = "checkpoints/"
	filesFolder       = "files/"
	lineagesFolder    = "lineages/"
	savepointsFolder  = "savepoints/"
	savepointManifest = "manifest"
	endedName         = "ended"
	overtakenName     = "overtaken"
)

// ErrFenced says that another process writes the checkpoints of the job.
var ErrFenced = errors.New("another process has gone on with this job and writes its checkpoints; this one must end, " +
	"and what it did since its last checkpoint is done again by the other")

// RepositoryOptions say where a repository is.
type RepositoryOptions struct {
	// Store holds the folders of all jobs, Job is the name of this one.
	Store object.Store
	Job   string
	// ReadOnly takes no lock and writes nothing: for tools, beside a job that runs.
	ReadOnly bool
	// Disk is where local files are; nil is that of the operating system.
	Disk object.FS
	// Parallel is how many files are uploaded at a time; 0 is 4, or 1 for a local store, which
	// links. With 1 no goroutine is started.
	Parallel int
	// Now and Draw are for tests: the clock, and random ids of 16 hexadecimal digits.
	Now  func() time.Time
	Draw func() string
}

// Repository is where the checkpoints of a job are kept. One process at a time may open it for
// writing. Its methods may be called from several goroutines; Save, Savepoint and Drop wait for each
// other.
//
// Invariant: the newest manifest is never removed, and a manifest comes after the files that it
// names. So a crash at any point leaves the newest checkpoint whole.
//
// Fencing: a manifest is written if absent, and afterwards there must be no younger one. Of two
// processes that both went on from checkpoint 5 one writes 6; the other finds 6 taken or, where 6
// was dropped since, finds 7. Both then return ErrFenced. The lock only spares people the surprise.
type Repository struct {
	o     RepositoryOptions
	store object.Store // the job's folder
	lock  jobLock

	// write is held by what changes the store, which may take long; it is taken before mu.
	write   sync.Mutex
	mu      sync.Mutex
	entries map[int64]*entry   // the checkpoints that there are; guarded by mu
	have    map[string]*stored // objects under files/ known to be there; guarded by mu
	bad     map[string]*Damage // objects found damaged; guarded by mu
	from    *Snapshot          // where files of another place are; guarded by mu
	attempt int                // number of the last Save; guarded by mu
	saved   int                // attempt of the last Save that succeeded, 0 if none; guarded by mu
	newest  int64              // its id; guarded by mu
	tried   int64              // the greatest id that Save was asked for; guarded by mu
	swept   bool               // orphans were removed since saved became true; guarded by mu
	fenced  bool               // guarded by mu
}

// entry is a checkpoint in the store.
type entry struct {
	loaded bool // files and damage are known
	files  []File
	damage error
}

// stored is a file in the store.
type stored struct {
	size    int64
	sum     string
	attempt int // of the Save that wrote it, 0 for earlier processes
}

// OpenRepository opens the folder of a job, which need not exist. A *LockedError says that another
// process runs the job.
func OpenRepository(ctx context.Context, o RepositoryOptions) (*Repository, error) {
	if o.Job == "" {
		return nil, errors.New("checkpoints: the job has no name; give it a 'pipeline.name'")
	}
	if o.Disk == nil {
		o.Disk = object.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Draw == nil {
		o.Draw = drawID
	}
	if o.Parallel == 0 {
		o.Parallel = 4
		if _, ok := o.Store.(object.Locker); ok {
			o.Parallel = 1
		}
	}
	sub, err := object.Sub(o.Store, JobFolder(o.Job))
	if err != nil {
		return nil, err
	}
	r := &Repository{o: o, store: sub, entries: map[int64]*entry{}, have: map[string]*stored{}, bad: map[string]*Damage{}}
	if !o.ReadOnly {
		if r.lock, err = lockJob(ctx, sub, o); err != nil {
			return nil, err
		}
	}
	if err := r.refresh(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func drawID() string {
	var b [8]byte
	rand.Read(b[:]) // it never returns an error
	return hex.EncodeToString(b[:])
}

// Close gives the lock back.
func (r *Repository) Close() error {
	if r.lock == nil {
		return nil
	}
	return r.lock.release(context.Background())
}

// Hold keeps the lock until ctx ends, and then returns nil. ErrFenced says that another process has
// it now. Where the operating system keeps the lock it only waits.
func (r *Repository) Hold(ctx context.Context) error {
	if r.lock == nil {
		<-ctx.Done()
		return nil
	}
	err := r.lock.hold(ctx)
	if errors.Is(err, ErrFenced) {
		r.mu.Lock()
		r.fenced = true
		r.mu.Unlock()
	}
	return err
}

// String is where the job's checkpoints are.
func (r *Repository) String() string { return r.store.String() }

// JobFolder is the name of a job's folder: the job's name with everything escaped that is not safe
// in names of files and objects.
func JobFolder(job string) string {
	var b strings.Builder
	for i := range len(job) {
		switch c := job[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	s := b.String()
	if len(s) > 200 { // file systems end names at 255 bytes
		s = fmt.Sprintf("%s-%016x", s[:180], xxh3.HashString(job))
	}
	return s
}

// PlaceOf is where a checkpoint lies below its job's folder.
func PlaceOf(id int64) string { return checkpointName(id) }

func checkpointName(id int64) string { return fmt.Sprintf("%s%010d", checkpointsFolder, id) }

// ids lists the checkpoints in the store, ascending.
func (r *Repository) ids(ctx context.Context) ([]int64, error) {
	list, err := r.store.List(ctx, checkpointsFolder)
	if err != nil {
		return nil, fmt.Errorf("checkpoints of %s: %w", r, err)
	}
	var out []int64
	for _, i := range list {
		text := i.Name[len(checkpointsFolder):]
		// Anything else in the folder is not ours.
		if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 && checkpointName(id) == i.Name {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// refresh brings entries to what the store lists.
func (r *Repository) refresh(ctx context.Context) error {
	ids, err := r.ids(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(ids)
	return nil
}

func (r *Repository) take(ids []int64) {
	for id := range r.entries {
		if _, found := slices.BinarySearch(ids, id); !found {
			delete(r.entries, id)
		}
	}
	for _, id := range ids {
		if r.entries[id] == nil {
			r.entries[id] = &entry{}
		}
	}
}

// IDs are the checkpoints that there are, ascending. Each may turn out to be damaged.
func (r *Repository) IDs() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Last is the greatest id that there is, 0 if none. Ids are never used again, since sinks tell by
// them what they have: the next checkpoint takes a greater one.
func (r *Repository) Last() int64 {
	r.mu.Lock()
	last := r.tried
	r.mu.Unlock()
	if ids := r.IDs(); len(ids) > 0 {
		last = max(last, ids[len(ids)-1])
	}
	return last
}

// Load reads a checkpoint. A *Damage says what is wrong with it.
func (r *Repository) Load(ctx context.Context, id int64) (*Manifest, error) {
	name := checkpointName(id)
	data, err := r.store.Get(ctx, name, 0, -1)
	var m *Manifest
	if err == nil {
		m, err = DecodeManifest(data, object.Join(r.String(), name))
		if err == nil && m.ID != id {
			err = &Damage{Object: object.Join(r.String(), name), Detail: fmt.Sprintf("it holds checkpoint %d", m.ID)}
		}
	}
	var d *Damage
	if errors.As(err, &d) {
		d.Checkpoint = id
	}
	if errors.Is(err, object.ErrNotFound) {
		err = fmt.Errorf("there is no checkpoint %d in %s (there are: %s): %w", id, r, idList(r.IDs()), object.ErrNotFound)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[id]; e != nil && (err == nil || d != nil) {
		r.loaded(e, m, err)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func idList(ids []int64) string {
	if len(ids) == 0 {
		return "none"
	}
	var b []string
	for _, id := range ids {
		b = append(b, strconv.FormatInt(id, 10))
	}
	return strings.Join(b, ", ")
}

// loaded notes what an entry's manifest says.
func (r *Repository) loaded(e *entry, m *Manifest, damage error) {
	e.loaded, e.damage = true, damage
	if m == nil {
		return
	}
	e.files = allFiles(m)
	for _, f := range e.files {
		if r.have[f.Object] == nil {
			r.have[f.Object] = &stored{size: f.Size, sum: f.Sum}
		}
	}
}

// allFiles are the files that a manifest names.
func allFiles(m *Manifest) []File { return slices.Concat(m.Files, m.Segments) }

// Newest returns the newest checkpoint that can be read, nil if there is none, and what is wrong
// with those that are younger. With damage and no checkpoint it is for people to decide: starting
// with nothing is not going on.
func (r *Repository) Newest(ctx context.Context) (*Manifest, []*Damage, error) {
	return r.before(ctx, 1<<62)
}

// Before is Newest among the checkpoints older than id.
func (r *Repository) Before(ctx context.Context, id int64) (*Manifest, []*Damage, error) {
	return r.before(ctx, id)
}

// looks is how often a reader looks again when checkpoints were dropped while it looked.
const looks = 100

func (r *Repository) before(ctx context.Context, below int64) (m *Manifest, damage []*Damage, err error) {
	for range looks {
		var dropped bool
		if m, damage, dropped, err = r.look(ctx, below); err != nil || !dropped {
			return m, damage, err
		}
	}
	return nil, damage, fmt.Errorf("checkpoints of %s are dropped faster than they can be read", r)
}

// look is before, once. dropped says that a checkpoint which it met is gone, so that what it found
// says nothing.
func (r *Repository) look(ctx context.Context, below int64) (found *Manifest, damage []*Damage, dropped bool, err error) {
	if err := r.refresh(ctx); err != nil {
		return nil, nil, false, err
	}
	var there map[string]int64 // sizes of what is under files/
	for _, id := range slices.Backward(r.IDs()) {
		if id >= below {
			continue
		}
		m, err := r.Load(ctx, id)
		if errors.Is(err, object.ErrNotFound) {
			return nil, nil, true, nil
		}
		var d *Damage
		if err != nil && !errors.As(err, &d) {
			return nil, damage, false, err
		}
		if d == nil && len(m.Files)+len(m.Segments) > 0 {
			if there == nil {
				if there, err = r.listFiles(ctx); err != nil {
					return nil, damage, false, err
				}
			}
			d = r.incomplete(m, there)
		}
		if d == nil {
			for _, d := range damage {
				d.Older = id
			}
			return m, damage, false, nil
		}
		if r.o.ReadOnly {
			if _, err := r.store.Stat(ctx, checkpointName(id)); errors.Is(err, object.ErrNotFound) {
				return nil, nil, true, nil
			}
		}
		damage = append(damage, d)
	}
	return nil, damage, false, nil
}

func (r *Repository) listFiles(ctx context.Context) (map[string]int64, error) {
	list, err := r.store.List(ctx, filesFolder)
	if err != nil {
		return nil, fmt.Errorf("files of %s: %w", r, err)
	}
	out := make(map[string]int64, len(list))
	for _, i := range list {
		out[i.Name[len(filesFolder):]] = i.Size
	}
	return out, nil
}

// incomplete checks that the files of a manifest are there. Their content is checked by Fetch.
func (r *Repository) incomplete(m *Manifest, there map[string]int64) *Damage {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range allFiles(m) {
		size, ok := there[f.Object]
		var why string
		switch {
		case !ok:
			why = "it is missing"
		case size != f.Size:
			why = fmt.Sprintf("it has %d bytes of %d", size, f.Size)
		case r.bad[f.Object] != nil:
			why = r.bad[f.Object].Detail
		default:
			continue
		}
		d := &Damage{Object: r.fileName(f), Checkpoint: m.ID, Of: f.Of, Detail: why}
		delete(r.have, f.Object)
		if e := r.entries[m.ID]; e != nil {
			e.damage = d
		}
		return d
	}
	return nil
}

func (r *Repository) fileName(f File) string { return object.Join(r.String(), filesFolder+f.Object) }

// Listed is a checkpoint or savepoint as List tells of it.
type Listed struct {
	ID       int64
	Manifest *Manifest // nil if it cannot be read
	Err      error     // why
}

// List reads all checkpoints, oldest first.
func (r *Repository) List(ctx context.Context) ([]Listed, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	var out []Listed
	for _, id := range r.IDs() {
		m, err := r.Load(ctx, id)
		if errors.Is(err, object.ErrNotFound) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out = append(out, Listed{ID: id, Manifest: m, Err: err})
	}
	return out, nil
}

// Fetch writes a file of a checkpoint to path, which does not exist, and checks what it reads. A
// *Damage says that the object is not what was written.
func (r *Repository) Fetch(ctx context.Context, f File, path string) error {
	r.mu.Lock()
	from, own := r.from, r.have[f.Object] != nil
	r.mu.Unlock()
	if !own && from.file(f.Object) != nil {
		return from.Fetch(ctx, f, path)
	}
	err := fetch(ctx, r.store, r.o.Disk, f, path)
	var d *Damage
	if errors.As(err, &d) {
		r.blame(d, f)
	}
	return err
}

// blame notes that a file is damaged, and completes the damage by the checkpoints that it spoils.
func (r *Repository) blame(d *Damage, f File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.have, f.Object) // uploaded again, where the file is still on the local disk
	r.bad[f.Object] = d
	for id, e := range r.entries {
		names := slices.ContainsFunc(e.files, func(x File) bool { return x.Object == f.Object })
		switch {
		case names:
			e.damage = d
			d.Checkpoint = max(d.Checkpoint, id)
		case e.loaded && e.damage == nil:
			d.Older = max(d.Older, id)
		}
	}
	if d.Older > d.Checkpoint {
		d.Older = 0
	}
}

// fetch writes a file to path and checks it. f.Size and f.Sum are what it must have.
func fetch(ctx context.Context, s object.Store, disk object.FS, f File, path string) error {
	at := object.Join(s.String(), filesFolder+f.Object)
	err := s.GetFile(ctx, filesFolder+f.Object, path)
	if errors.Is(err, object.ErrNotFound) {
		return &Damage{Object: at, Of: f.Of, Detail: "it is missing"}
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", at, err)
	}
	size, sum, err := sumFile(disk, path)
	if err == nil && (size != f.Size || sum != f.Sum) {
		d := &Damage{Object: at, Of: f.Of, Detail: fmt.Sprintf("the checksum is %s, not %s", sum, f.Sum)}
		if size != f.Size {
			d.Detail = fmt.Sprintf("it has %d bytes of %d", size, f.Size)
		}
		err = d
	}
	if err != nil {
		return errors.Join(err, disk.Remove(path))
	}
	return nil
}

// sumFile is the size and checksum of a local file.
func sumFile(disk object.FS, path string) (size int64, sum string, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := xxh3.New()
	size, err = io.Copy(h, f)
	if err != nil {
		return 0, "", fmt.Errorf("read %s: %w", path, err)
	}
	return size, fmt.Sprintf("%016x", h.Sum64()), nil
}

// Lineage is what an object under lineages/ says.
type Lineage struct {
	ID      string    `json:"lineage"`
	Started time.Time `json:"started"`
	By      string    `json:"by"`
	// After is the last checkpoint that there was.
	After int64 `json:"after,omitempty"`
}

// NewLineage opens a lineage: for every start that does not go on from the newest checkpoint. Its id
// has never been given before.
func (r *Repository) NewLineage(ctx context.Context) (string, error) {
	if r.o.ReadOnly {
		return "", errReadOnly
	}
	l := Lineage{ID: r.o.Draw(), Started: r.o.Now().UTC(), By: processNote(r.o.Now()), After: r.Last()}
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	list, err := r.store.List(ctx, lineagesFolder)
	if err != nil {
		return "", fmt.Errorf("lineages of %s: %w", r, err)
	}
	n := int64(0)
	if len(list) > 0 {
		n, _ = strconv.ParseInt(list[len(list)-1].Name[len(lineagesFolder):], 10, 64)
	}
	name := fmt.Sprintf("%s%010d", lineagesFolder, n+1)
	if err := r.putOnce(ctx, name, text); err != nil {
		if errors.Is(err, object.ErrExists) {
			err = ErrFenced
		}
		return "", fmt.Errorf("open a lineage in %s: %w", r, err)
	}
	return l.ID, nil
}

// End notes that the job has come to its end with checkpoint id, whose output is committed: a start
// that finds that checkpoint has nothing to do for the run before it.
func (r *Repository) End(ctx context.Context, id int64) error {
	if r.o.ReadOnly {
		return errReadOnly
	}
	if err := r.store.Put(ctx, endedName, strconv.AppendInt(nil, id, 10)); err != nil {
		return fmt.Errorf("note in %s that the job has come to its end: %w", r, err)
	}
	return nil
}

// Overtake notes that another run has gone on from a checkpoint of the lineage, and was met when the output of checkpoint
// id was to be committed, as why says: no start goes on with that or a later one here, as output that was prepared here
// would be taken for what that run has committed.
func (r *Repository) Overtake(ctx context.Context, lineage string, id int64, why string) error {
	if r.o.ReadOnly {
		return errReadOnly
	}
	text, err := json.Marshal(overtaken{lineage, id, why})
	if err == nil {
		err = r.store.Put(ctx, overtakenName, text)
	}
	if err != nil {
		return fmt.Errorf("note in %s that the job was overtaken: %w", r, err)
	}
	return nil
}

type overtaken struct {
	Lineage    string `json:"lineage"`
	Checkpoint int64  `json:"checkpoint"`
	Why        string `json:"why"`
}

// Overtaken returns what Overtake noted of the lineage of m, where m is the checkpoint that it noted or a later one, or "".
func (r *Repository) Overtaken(ctx context.Context, m *Manifest) (why string, err error) {
	text, err := r.store.Get(ctx, overtakenName, 0, -1)
	if errors.Is(err, object.ErrNotFound) {
		return "", nil
	}
	var o overtaken
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return "", fmt.Errorf("read from %s whether the job was overtaken: %w", r, err)
	}
	if o.Lineage != m.Lineage || m.ID < o.Checkpoint {
		return "", nil
	}
	return o.Why, nil
}

// Unsettled reports whether the job came to its end with m, and what it had prepared may not be
// committed: its process was ended in between.
func (r *Repository) Unsettled(ctx context.Context, m *Manifest) (bool, error) {
	if m == nil || !m.Finished || !m.Ends {
		return false, nil
	}
	text, err := r.store.Get(ctx, endedName, 0, -1)
	if errors.Is(err, object.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read from %s whether the job has come to its end: %w", r, err)
	}
	return string(text) != strconv.FormatInt(m.ID, 10), nil
}

// putOnce writes an object if it is absent. An answer that was lost and a request that was sent
// again look like someone else's object; the content, which is like no other, tells.
func (r *Repository) putOnce(ctx context.Context, name string, data []byte) error {
	err := r.store.PutIfAbsent(ctx, name, data)
	if !errors.Is(err, object.ErrExists) {
		return err
	}
	if there, gerr := r.store.Get(ctx, name, 0, -1); gerr == nil && string(there) == string(data) {
		return nil
	}
	return err
}

// processNote tells people which process this is.
func processNote(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return fmt.Sprintf("process %d on %s since %s", os.Getpid(), host, now.UTC().Format("2006-01-02 15:04:05 UTC"))
}

var errReadOnly = errors.New("BUG: the checkpoints were opened for reading")
