package file

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
	"github.com/tidemark-stream/tidemark/object"
)

// folderTarget writes files of the local disk: aside, under a name that begins with a dot, and renames
// them at the commit.
type folderTarget struct {
	s    *sink
	root string
}

func newFolderTarget(s *sink) (target, error) {
	root := s.cfg.Resolve(localPath(s.cfg.Options.Get("path")))
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; a sink writes a folder of files", root)
	}
	return &folderTarget{s, root}, os.MkdirAll(root, 0o755)
}

// move is a committable: a finished file and the name it gets. One without a name only says which run
// it is of.
type move struct {
	Dir, Temp, Name string
	Run             string `json:",omitempty"`
}

// aside is the name of a file that is not committed.
func aside(name string) string { return "." + name + inProgress }

const inProgress = ".inprogress"

// remove deletes the file under its temporary name.
func (m move) remove() error {
	if m.Name == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(m.Dir, m.Temp)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func moveOf(c connector.Committable) (m move, err error) {
	if err = json.Unmarshal(c, &m); err != nil {
		err = fmt.Errorf("BUG: committable %q: %w", c, err)
	}
	return m, err
}

func (t *folderTarget) writer(_ context.Context, subtask int) outputs {
	return &folderOutputs{t: t, mark: t.s.marks(subtask), live: map[*folderFile]bool{}}
}

// folderOutputs is the files of one subtask.
type folderOutputs struct {
	t    *folderTarget
	mark bool
	live map[*folderFile]bool // open or finished, not sealed
	done []connector.Committable
}

// folderFile is a file being written.
type folderFile struct {
	o    *folderOutputs
	f    *os.File
	w    *bufio.Writer
	move move
}

func (o *folderOutputs) create(_ context.Context, folder, name string) (output, error) {
	full := folderPath(o.t.root, folder)
	if err := object.MakeFolder(full); err != nil {
		return nil, err
	}
	m := move{Dir: full, Temp: aside(name), Name: name}
	f, err := os.OpenFile(filepath.Join(full, m.Temp), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	out := &folderFile{o: o, f: f, w: bufio.NewWriterSize(f, 256<<10), move: m}
	o.live[out] = true
	return out, nil
}

func (o *folderOutputs) crowded() output { return nil }

func (f *folderFile) write(_ context.Context, p []byte) error {
	_, err := f.w.Write(p)
	return err
}

func (f *folderFile) finish(context.Context) error {
	err := f.w.Flush()
	if err == nil {
		err = f.f.Sync()
	}
	if e := f.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = object.OS{}.SyncDir(f.move.Dir)
	}
	var c connector.Committable
	if err == nil {
		c, err = json.Marshal(f.move)
	}
	if err != nil {
		delete(f.o.live, f)
		return errors.Join(err, f.move.remove())
	}
	f.o.done = append(f.o.done, c)
	return nil
}

func (o *folderOutputs) seal(context.Context) ([]connector.Committable, error) {
	out := o.done
	o.done = nil
	clear(o.live)
	if o.mark {
		c, err := json.Marshal(move{Run: o.t.s.run()})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (o *folderOutputs) close() error {
	var errs []error
	for f := range o.live {
		f.f.Close() // finished ones are closed already
		errs = append(errs, f.move.remove())
	}
	clear(o.live)
	o.done = nil
	return errors.Join(errs...)
}

func (t *folderTarget) publish(_ context.Context, c connector.Committable) ([]string, string, error) {
	m, err := moveOf(c)
	if err != nil {
		return nil, "", err
	}
	if m.Name == "" {
		return nil, m.Run, nil
	}
	from, to := filepath.Join(m.Dir, m.Temp), filepath.Join(m.Dir, m.Name)
	if err := os.Rename(from, to); err != nil {
		if _, there := os.Stat(to); !os.IsNotExist(err) || there != nil {
			return nil, "", err
		}
	}
	killpoint.Pass("commit/file-moved")
	return []string{m.Dir}, runOf(m.Name), nil
}

func (t *folderTarget) abort(_ context.Context, c connector.Committable) error {
	m, err := moveOf(c)
	if err != nil {
		return err
	}
	return m.remove()
}

// full is the path of a folder, which may be one of a committable and whole already.
func (t *folderTarget) full(folder string) string {
	if filepath.IsAbs(folder) || folder == t.root {
		return folder
	}
	return folderPath(t.root, folder)
}

// settle makes the renames in a folder durable and writes the success file.
func (t *folderTarget) settle(_ context.Context, folder, success string) error {
	dir := t.full(folder)
	if success != "" {
		if err := os.WriteFile(filepath.Join(dir, success), nil, 0o644); err != nil {
			return err
		}
	}
	return object.OS{}.SyncDir(dir)
}

func (t *folderTarget) clear(_ context.Context, folder, run string) error {
	dir := t.full(folder)
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name()[0] == '.' || strings.HasPrefix(e.Name(), partPrefix(run)) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the files that runs have left aside.
func (t *folderTarget) sweep(_ context.Context, runs map[string]bool) error {
	return filepath.WalkDir(t.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // somebody else is removing something
			}
			return err
		}
		name, ok := strings.CutSuffix(d.Name(), inProgress)
		if !ok || d.IsDir() || name[:min(1, len(name))] != "." || !t.s.isDead(name[1:], runs) {
			return nil
		}
		if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}
