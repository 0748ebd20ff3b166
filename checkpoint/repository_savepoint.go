package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tidemark-stream/tidemark/object"
)

// Snapshot is a savepoint, or a checkpoint, that was opened by its place alone.
type Snapshot struct {
	Manifest *Manifest
	// Location is where its manifest is.
	Location string

	store object.Store // files/ is in here
	disk  object.FS
}

// Fetch writes a file of the snapshot to path, which does not exist, and checks what it reads.
func (s *Snapshot) Fetch(ctx context.Context, f File, path string) error {
	err := fetch(ctx, s.store, s.disk, f, path)
	var d *Damage
	if errors.As(err, &d) {
		d.Checkpoint = s.Manifest.ID
	}
	return err
}

// Check reads all files of the snapshot and compares them with their checksums. A *Damage says which
// one is not what was written.
func (s *Snapshot) Check(ctx context.Context) error {
	for _, f := range allFiles(s.Manifest) {
		at := object.Join(s.store.String(), filesFolder+f.Object)
		size, sum, err := sumObject(ctx, s.store, filesFolder+f.Object)
		d := &Damage{Object: at, Checkpoint: s.Manifest.ID, Of: f.Of}
		switch {
		case errors.Is(err, object.ErrNotFound):
			d.Detail = "it is missing"
		case err != nil:
			return fmt.Errorf("read %s: %w", at, err)
		case size != f.Size:
			d.Detail = fmt.Sprintf("it has %d bytes of %d", size, f.Size)
		case sum != f.Sum:
			d.Detail = fmt.Sprintf("the checksum is %s, not %s", sum, f.Sum)
		default:
			continue
		}
		return d
	}
	return nil
}

// sumObject is the size and checksum of an object.
func sumObject(ctx context.Context, s object.Store, name string) (size int64, sum string, err error) {
	r, err := s.Open(ctx, name, 0)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	h := xxh3.New()
	size, err = io.Copy(h, r)
	return size, fmt.Sprintf("%016x", h.Sum64()), err
}

// file is what the snapshot says of an object, nil if it is none of its.
func (s *Snapshot) file(name string) *File {
	if s == nil {
		return nil
	}
	all := allFiles(s.Manifest)
	if i := slices.IndexFunc(all, func(f File) bool { return f.Object == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// From makes the files of a snapshot known: Fetch finds them, and Save copies them, so that the
// job's own checkpoints need nothing of the snapshot. nil forgets it.
func (r *Repository) From(s *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = s
}

// Savepoint writes m with copies of all its files into a folder of its own, and returns where it is:
// in dir, or with nil below savepoints/ of the job. Files come from paths, by File.Object, or from
// where the repository has them. Nothing here removes savepoints.
func (r *Repository) Savepoint(ctx context.Context, m *Manifest, paths map[string]string, dir object.Store) (string, Saved, error) {
	if r.o.ReadOnly {
		return "", Saved{}, errReadOnly
	}
	r.write.Lock()
	defer r.write.Unlock()
	var folder string
	if dir == nil {
		dir, folder = r.store, fmt.Sprintf("%s%d-%s", savepointsFolder, m.ID, r.o.Draw()[:6])
	} else {
		folder = fmt.Sprintf("savepoint-%s-%d-%s", JobFolder(m.Job), m.ID, r.o.Draw()[:6])
	}
	to, err := object.Sub(dir, folder)
	if err != nil {
		return "", Saved{}, err
	}
	before := to.Requests()
	saved, err := r.savepoint(ctx, m, paths, to)
	saved.Requests = to.Requests() - before
	if err != nil {
		if list, lerr := to.List(ctx, ""); lerr == nil { // what remains of it is no savepoint
			for _, i := range list {
				to.Delete(ctx, i.Name)
			}
		}
		return "", saved, fmt.Errorf("write savepoint %s: %w", to, err)
	}
	return to.String(), saved, nil
}

func (r *Repository) savepoint(ctx context.Context, m *Manifest, paths map[string]string, to object.Store) (saved Saved, err error) {
	c := *m
	c.Savepoint = true
	c.Files, c.Segments = slices.Clone(m.Files), slices.Clone(m.Segments)
	seen := map[string]bool{}
	var files []*File
	for _, list := range [][]File{c.Files, c.Segments} {
		for i := range list {
			if f := &list[i]; f.Object == "" {
				f.Object = f.Name
			}
			if f := &list[i]; !seen[f.Object] {
				seen[f.Object] = true
				files = append(files, f)
			}
		}
	}
	err = r.each(files, func(f *File) error {
		if err := r.put(ctx, to, filesFolder, f, paths[f.Object]); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		saved.Files++
		saved.Bytes += f.Size
		return nil
	})
	if err != nil {
		return saved, err
	}
	data, err := EncodeManifest(&c, r.o.Draw())
	if err != nil {
		return saved, err
	}
	saved.Bytes += int64(len(data))
	saved.Files++
	return saved, to.PutIfAbsent(ctx, savepointManifest, data)
}

// OpenSavepoint opens the savepoint, or the checkpoint, at a location: the folder of a savepoint, a
// manifest itself (.../checkpoints/0000000041), or a job's folder, of which the newest checkpoint is
// taken. given are the options that say how object stores are reached.
func OpenSavepoint(ctx context.Context, location string, given map[string]string) (*Snapshot, error) {
	return OpenSavepointIn(ctx, location, func(l string) (object.Store, error) { return object.Open(l, given) }, object.OS{})
}

// OpenSavepointIn is OpenSavepoint with stores of the caller's making, over the local disk given.
func OpenSavepointIn(ctx context.Context, location string, open func(string) (object.Store, error), disk object.FS) (*Snapshot, error) {
	s, err := open(location)
	if err != nil {
		return nil, err
	}
	snap, err := snapshotAt(ctx, s, savepointManifest, s, disk)
	if !errors.Is(err, object.ErrNotFound) {
		return snap, err
	}
	if folder, name := object.Split(location); folder != "" {
		if snap, err = manifestAt(ctx, folder, name, open, disk); !errors.Is(err, object.ErrNotFound) {
			return snap, err
		}
	}
	list, err := s.List(ctx, checkpointsFolder)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no savepoint at %s: give the folder of a savepoint, which holds a file %q, "+
			"or a checkpoint, as .../%s: %w", location, savepointManifest, checkpointName(41), object.ErrNotFound)
	}
	return snapshotAt(ctx, s, list[len(list)-1].Name, s, disk)
}

// manifestAt opens the manifest called name in a folder.
func manifestAt(ctx context.Context, folder, name string, open func(string) (object.Store, error), disk object.FS) (*Snapshot, error) {
	s, err := open(folder)
	if err != nil {
		return nil, err
	}
	if name == savepointManifest {
		return snapshotAt(ctx, s, name, s, disk)
	}
	job, last := object.Split(folder)
	if last+"/" != checkpointsFolder || job == "" || strings.HasPrefix(name, ".") {
		return nil, object.ErrNotFound
	}
	files, err := open(job)
	if err != nil {
		return nil, err
	}
	return snapshotAt(ctx, s, name, files, disk)
}

func snapshotAt(ctx context.Context, s object.Store, name string, files object.Store, disk object.FS) (*Snapshot, error) {
	at := object.Join(s.String(), name)
	data, err := s.Get(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	m, err := DecodeManifest(data, at)
	if err != nil {
		return nil, err
	}
	return &Snapshot{Manifest: m, Location: at, store: files, disk: disk}, nil
}
