package file

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemark-stream/tidemark/object"
)

// A look for new objects costs few requests also where there are many objects. Up to sweepPages pages
// (of 1,000) all of them are listed each time. Beyond, a look lists what follows the last name of all,
// and the newest names of the folders that had news lately: that finds what is written as time goes on,
// at once. What comes between old names (late objects, replaced ones, names that are random) is found
// by a sweep over all names, sweepPages pages a look: with 100,000 objects it takes ten looks. Times
// of objects decide nothing: S3 gives an object the time at which its upload began.
const (
	sweepPages = 10
	hotFolders = 8
	// maxUnread is how many files or objects of a watched folder that are not read to their end are handed
	// out at a time: the job opens all of them, as it reads the one whose watermark is lowest, and each
	// holds a chunk and a batch. A larger backlog waits, in the order of its times.
	maxUnread = 256
)

// progress is how far an object is.
type progress uint8

const (
	waiting progress = iota // found, not handed out
	handed                  // being read, or waiting for it
	read                    // to its end; the next checkpoint will say so
	kept                    // the checkpoint says so
)

// sight is what is remembered of an object.
type sight struct {
	sweep uint32 // that met it last
	state progress
}

// watch finds the objects of a source that were not seen.
type watch struct {
	o     *objects
	seen  map[uint64]sight // by seenKey
	kept  seenSet          // those of state kept
	queue []object.Info    // found and waiting
	mixed bool             // queue is not sorted
	alone bool             // the path is an object itself

	sweep  uint32 // number of the sweep under way, or next
	next   string // where it goes on; "" begins one
	pages  int    // of the sweep under way
	end    string // the last name that it has listed
	size   int    // pages of the last whole sweep
	last   string // name that ended the last whole sweep, or what was listed behind it
	hot    []hot  // the one that had news last comes first
	unread int    // handed out and not read to their end
}

// hot is a folder that had news.
type hot struct {
	folder string
	last   string // name in it that was listed last
}

func newWatch(o *objects) *watch { return &watch{o: o, seen: map[uint64]sight{}, sweep: 1} }

// look lists, and queues what was not seen.
func (w *watch) look(ctx context.Context) error {
	if done, err := w.lookAlone(ctx); done || err != nil {
		return err
	}
	limit := sweepPages
	if w.size == 0 { // nothing is known yet
		limit = -1
	} else if w.size > sweepPages {
		if err := w.lookHot(ctx); err != nil {
			return err
		}
	}
	for n := 0; n != limit; n++ {
		whole, err := w.sweepPage(ctx)
		if whole || err != nil {
			return err
		}
	}
	return nil
}

// lookAlone looks at the object whose name is the path; true: there is one, and so no folder.
func (w *watch) lookAlone(ctx context.Context) (bool, error) {
	o := w.o
	if o.glob != nil || o.path == "" || w.size > 0 && !w.alone {
		return false, nil
	}
	i, err := o.store.Stat(ctx, o.path)
	if errors.Is(err, object.ErrNotFound) {
		w.alone = false
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.alone = true
	w.meet(i)
	w.sweep++
	return true, nil
}

// sweepPage goes one page on with the sweep; true: that was the last.
func (w *watch) sweepPage(ctx context.Context) (bool, error) {
	found, next, err := object.Page(ctx, w.o.store, w.o.prefix, w.next)
	if err != nil {
		return false, err
	}
	w.pages++
	for _, i := range found {
		w.meet(i)
		w.end = i.Name
	}
	if w.next = next; next != "" {
		return false, nil
	}
	w.last = w.end
	w.forget()
	w.size, w.pages = w.pages, 0
	w.sweep++
	return true, nil
}

// lookHot lists what is behind the last name of all, and of folders that had news.
func (w *watch) lookHot(ctx context.Context) error {
	var err error
	if w.last, err = w.behind(ctx, w.o.prefix, w.last); err != nil {
		return err
	}
	for _, h := range slices.Clone(w.hot) { // it changes meanwhile
		last, err := w.behind(ctx, h.folder, h.last)
		if err != nil {
			return err
		}
		if at := slices.IndexFunc(w.hot, func(x hot) bool { return x.folder == h.folder }); at >= 0 {
			w.hot[at].last = last
		}
	}
	return nil
}

// behind lists what follows a name, and returns the last one then.
func (w *watch) behind(ctx context.Context, prefix, last string) (string, error) {
	for after := last; ; {
		found, next, err := object.Page(ctx, w.o.store, prefix, after)
		if err != nil {
			return last, err
		}
		for _, i := range found {
			w.meet(i)
			last = i.Name
		}
		if next == "" {
			return last, nil
		}
		after = next
	}
}

// meet takes note of a listed object.
func (w *watch) meet(i object.Info) {
	if !w.o.wants(i.Name) {
		return
	}
	k := seenKey(w.o.id(i))
	x, known := w.seen[k]
	x.sweep = w.sweep
	w.seen[k] = x
	if known {
		return
	}
	w.queue, w.mixed = append(w.queue, i), true
	if w.size > sweepPages {
		w.warm(i.Name)
	}
}

func older(a, b object.Info) int {
	return cmp.Or(cmp.Compare(a.ModifiedMs, b.ModifiedMs), strings.Compare(a.Name, b.Name))
}

// warm notes that a folder has news.
func (w *watch) warm(name string) {
	folder := name[:strings.LastIndexByte(name, '/')+1]
	if len(folder) < len(w.o.prefix) {
		return // the whole of it
	}
	h := hot{folder, name}
	if at := slices.IndexFunc(w.hot, func(x hot) bool { return x.folder == folder }); at >= 0 {
		h.last = max(name, w.hot[at].last)
		w.hot = slices.Delete(w.hot, at, at+1)
	}
	w.hot = slices.Insert(w.hot, 0, h)
	w.hot = w.hot[:min(len(w.hot), hotFolders)]
}

// forget drops what the sweep that has ended did not meet: it is not there any more.
func (w *watch) forget() {
	gone := false
	for k, x := range w.seen {
		if x.sweep < w.sweep && x.state >= read {
			delete(w.seen, k)
			gone = gone || x.state == kept
		}
	}
	if gone {
		w.kept.retain(func(k uint64) bool { return w.seen[k].state == kept })
	}
	w.queue = slices.DeleteFunc(w.queue, func(i object.Info) bool {
		k := seenKey(w.o.id(i))
		if w.seen[k].sweep == w.sweep {
			return false
		}
		delete(w.seen, k)
		return true
	})
}

// take returns objects to be read, the oldest first, so that no more than most are unread; -1 is no
// bound.
func (w *watch) take(most int) []object.Info {
	if w.mixed {
		slices.SortFunc(w.queue, older)
		w.mixed = false
	}
	n := len(w.queue)
	if most >= 0 {
		n = min(n, max(0, most-w.unread))
	}
	out := w.queue[:n:n]
	w.queue = w.queue[n:]
	for _, i := range out {
		k := seenKey(w.o.id(i))
		x := w.seen[k]
		x.state = handed
		w.seen[k] = x
	}
	w.unread += n
	return out
}

// wereRead takes note of objects that were read to their end.
func (w *watch) wereRead(keys []uint64) {
	for _, k := range keys {
		x, ok := w.seen[k]
		if !ok || x.state != handed {
			continue
		}
		x.state = read
		w.seen[k] = x
		w.unread = max(0, w.unread-1)
	}
}

// keep takes note of an object that a checkpoint need not name.
func (w *watch) keep(k uint64) {
	x := w.seen[k]
	if x.state == handed { // what wereRead will be told of it comes too late
		w.unread = max(0, w.unread-1)
	}
	x.state = kept
	w.seen[k] = x
	w.kept.add(k)
}

// encode is the set of the objects that a checkpoint need not name.
func (w *watch) encode() []byte { return w.kept.encode() }
