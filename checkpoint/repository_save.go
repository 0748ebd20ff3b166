package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/object"
)

// Saved says what writing a checkpoint took: Bytes in Files, the manifest included, by Requests.
type Saved struct {
	Bytes, Requests int64
	Files           int
}

// Save writes a checkpoint: first the files of m that the store does not have, which paths gives by
// File.Object, then the manifest. The name of an object is never used for other content. When Save
// returns nil the checkpoint is complete and survives everything. After an error, unless it is
// ErrFenced, it may or may not be there, and harms nobody; its id must not be used again.
func (r *Repository) Save(ctx context.Context, m *Manifest, paths map[string]string) (Saved, error) {
	if r.o.ReadOnly {
		return Saved{}, errReadOnly
	}
	r.write.Lock()
	defer r.write.Unlock()
	before := r.store.Requests()
	saved, err := r.save(ctx, m, paths)
	saved.Requests = r.store.Requests() - before
	if errors.Is(err, ErrFenced) {
		r.mu.Lock()
		r.fenced = true
		r.mu.Unlock()
	}
	if err != nil {
		return saved, hopeless(fmt.Errorf("write checkpoint %d to %s: %w", m.ID, r, err))
	}
	return saved, nil
}

// hopeless makes an error a *connector.Fatal if trying again would not help: who writes may not, or there
// is no such place. A full disk may have room again.
func hopeless(err error) error {
	var code interface{ ErrorCode() string }
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
	case errors.As(err, &code) && slices.Contains([]string{"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "NoSuchBucket",
		"SignatureDoesNotMatch"}, code.ErrorCode()):
	default:
		return err
	}
	return &connector.Fatal{Err: err}
}

func (r *Repository) save(ctx context.Context, m *Manifest, paths map[string]string) (saved Saved, err error) {
	r.mu.Lock()
	fenced := r.fenced
	r.attempt++
	r.tried = max(r.tried, m.ID)
	attempt := r.attempt
	r.mu.Unlock()
	if fenced {
		return saved, ErrFenced
	}
	c := *m
	c.Files, c.Segments = slices.Clone(m.Files), slices.Clone(m.Segments)
	if err := r.upload(ctx, attempt, [][]File{c.Files, c.Segments}, paths, &saved); err != nil {
		return saved, err
	}
	data, err := EncodeManifest(&c, r.o.Draw())
	if err != nil {
		return saved, err
	}
	saved.Bytes += int64(len(data))
	saved.Files++
	err = r.putOnce(ctx, checkpointName(m.ID), data)
	if errors.Is(err, object.ErrExists) {
		return saved, ErrFenced
	}
	if err != nil {
		return saved, err
	}
	ids, err := r.ids(ctx)
	if err != nil {
		return saved, err
	}
	if len(ids) > 0 && ids[len(ids)-1] > m.ID {
		// The name was free because a process that has gone on further had dropped it.
		return saved, errors.Join(ErrFenced, r.store.Delete(ctx, checkpointName(m.ID)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(ids)
	r.loaded(r.entries[m.ID], &c, nil)
	r.saved, r.newest = attempt, m.ID
	return saved, nil
}

// upload brings files to the store that are not there, and completes sizes and sums that the caller
// left empty.
func (r *Repository) upload(ctx context.Context, attempt int, lists [][]File, paths map[string]string, saved *Saved) error {
	var missing []*File
	seen := map[string]bool{}
	r.mu.Lock()
	for _, list := range lists {
		for i := range list {
			f := &list[i]
			if f.Object == "" {
				f.Object = f.Name
			}
			h := r.have[f.Object]
			switch {
			case h == nil && !seen[f.Object]:
				seen[f.Object] = true
				missing = append(missing, f)
			case h != nil && f.Sum == "":
				f.Size, f.Sum = h.size, h.sum
			}
		}
	}
	r.mu.Unlock()
	return r.each(missing, func(f *File) error {
		if err := r.put(ctx, r.store, filesFolder, f, paths[f.Object]); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.have[f.Object] = &stored{size: f.Size, sum: f.Sum, attempt: attempt}
		delete(r.bad, f.Object)
		saved.Files++
		saved.Bytes += f.Size
		return nil
	})
}

// each calls do for files, for as many at a time as the options say, until one fails.
func (r *Repository) each(files []*File, do func(*File) error) error {
	if r.o.Parallel <= 1 || len(files) <= 1 {
		for _, f := range files {
			if err := do(f); err != nil {
				return err
			}
		}
		return nil
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := 0
	for range min(r.o.Parallel, len(files)) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil
				mu.Unlock()
				if stop || i >= len(files) {
					return
				}
				if err := do(files[i]); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return first
}

// put writes one file below folder of a store: from a path on the local disk, or else from where the
// repository has or knows it.
func (r *Repository) put(ctx context.Context, to object.Store, folder string, f *File, path string) error {
	if err := object.CheckName(folder + f.Object); err != nil {
		return err
	}
	if path == "" {
		r.mu.Lock()
		own, from := r.have[f.Object], r.from
		r.mu.Unlock()
		if own != nil && to != r.store {
			f.Size, f.Sum = own.size, own.sum
			return r.copied(ctx, r.store, to, folder, f)
		}
		if x := from.file(f.Object); x != nil {
			f.Size, f.Sum = x.Size, x.Sum
			return r.copied(ctx, from.store, to, folder, f)
		}
		return fmt.Errorf("BUG: file %s is neither in the store nor on the local disk", f.Object)
	}
	info, err := r.o.Disk.Stat(path)
	if err != nil {
		return err
	}
	if f.Sum == "" {
		if f.Size, f.Sum, err = sumFile(r.o.Disk, path); err != nil {
			return err
		}
	}
	if info.Size() != f.Size {
		return fmt.Errorf("file %s has %d bytes and should have %d: it was changed after it was written, or the disk is damaged",
			path, info.Size(), f.Size)
	}
	return to.PutFile(ctx, folder+f.Object, path)
}

// copied copies a file between stores. One that is not there any more is damage of where it was.
func (r *Repository) copied(ctx context.Context, from, to object.Store, folder string, f *File) error {
	err := object.CopyTo(ctx, from, filesFolder+f.Object, to, folder+f.Object)
	if errors.Is(err, object.ErrNotFound) {
		return &Damage{Object: object.Join(from.String(), filesFolder+f.Object), Of: f.Of, Detail: "it is missing"}
	}
	return err
}

// Drop removes the checkpoints whose id is below below, then the files that no checkpoint names any
// more, also those that crashed processes left. It does nothing before a checkpoint was saved, since
// another process might still need what looks left over. If a damaged one was met, two that can be
// read are kept.
func (r *Repository) Drop(ctx context.Context, below int64) error {
	if r.o.ReadOnly {
		return errReadOnly
	}
	r.write.Lock()
	defer r.write.Unlock()
	r.mu.Lock()
	saved, newest := r.saved, r.newest
	fenced := r.fenced
	r.mu.Unlock()
	if saved == 0 || fenced {
		return nil
	}
	if err := r.drop(ctx, min(below, newest)); err != nil {
		return fmt.Errorf("remove old checkpoints from %s: %w", r, err)
	}
	return nil
}

func (r *Repository) drop(ctx context.Context, below int64) error {
	// What is kept must be known, since it names files.
	unread, err := r.know(ctx, below)
	if err != nil {
		return err
	}
	r.mu.Lock()
	gone := r.choose(below)
	named := map[string]bool{}
	for id, e := range r.entries {
		if slices.Contains(gone, id) {
			continue
		}
		for _, f := range e.files {
			named[f.Object] = true
		}
	}
	sweep := !r.swept
	files := map[string]bool{}
	var manifests []string
	for _, id := range gone {
		e := r.entries[id]
		manifests = append(manifests, checkpointName(id))
		sweep = sweep || !e.loaded || len(e.files) == 0 && e.damage != nil
		for _, f := range e.files {
			files[f.Object] = true
		}
	}
	for name, h := range r.have {
		if h.attempt > 0 && h.attempt <= r.saved {
			files[name] = true // of an attempt that failed, perhaps
		}
	}
	r.mu.Unlock()
	if len(manifests) > 0 {
		if err := r.store.Delete(ctx, manifests...); err != nil {
			return err
		}
		r.mu.Lock()
		for _, id := range gone {
			delete(r.entries, id)
		}
		r.mu.Unlock()
	}
	if sweep && !unread {
		there, err := r.listFiles(ctx)
		if err != nil {
			return err
		}
		r.mu.Lock()
		for name := range there {
			if h := r.have[name]; h == nil || h.attempt <= r.saved {
				files[name] = true
			}
		}
		r.mu.Unlock()
	}
	err = r.remove(ctx, files, named)
	r.mu.Lock()
	defer r.mu.Unlock()
	// Files whose removal failed have nobody left who names them: they are looked for next time.
	r.swept = err == nil && (r.swept || sweep && !unread)
	return err
}

// know loads the checkpoints from below on. unread says that one cannot be read, so that it is not
// known which files it needs.
func (r *Repository) know(ctx context.Context, below int64) (unread bool, err error) {
	for _, id := range r.IDs() {
		r.mu.Lock()
		e := r.entries[id]
		loaded := e == nil || e.loaded
		r.mu.Unlock()
		if !loaded && id >= below {
			if _, err := r.Load(ctx, id); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				return false, err
			}
		}
		r.mu.Lock()
		unread = unread || id >= below && e != nil && (!e.loaded || e.damage != nil && len(e.files) == 0)
		r.mu.Unlock()
	}
	return unread, nil
}

// choose returns the checkpoints below below that go: all of them, or, where a damaged one was met,
// so many that two are left which can be read.
func (r *Repository) choose(below int64) []int64 {
	ids := slices.Sorted(maps.Keys(r.entries))
	damaged := false
	for _, id := range ids {
		damaged = damaged || r.entries[id].damage != nil
	}
	good := 0
	var gone []int64
	for _, id := range slices.Backward(ids) {
		e := r.entries[id]
		if id < below && (!damaged || good >= 2) {
			gone = append(gone, id)
		} else if e.loaded && e.damage == nil {
			good++
		}
	}
	slices.Reverse(gone)
	return gone
}

// remove deletes files that are not named.
func (r *Repository) remove(ctx context.Context, files, named map[string]bool) error {
	var names []string
	for _, f := range slices.Sorted(maps.Keys(files)) {
		if !named[f] {
			names = append(names, filesFolder+f)
		}
	}
	if len(names) == 0 {
		return nil
	}
	r.mu.Lock()
	for _, n := range names {
		delete(r.have, n[len(filesFolder):])
	}
	r.mu.Unlock()
	return r.store.Delete(ctx, names...)
}
