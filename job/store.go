package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/state/store"
)

// Repository is where checkpoints are kept; *checkpoint.Repository is one.
type Repository interface {
	// Save writes a checkpoint: the files that it names and that no checkpoint before has, which
	// paths, by object name, holds; then the manifest.
	Save(ctx context.Context, m *checkpoint.Manifest, paths map[string]string) (checkpoint.Saved, error)
	// Drop removes the checkpoints whose ids are below id.
	Drop(ctx context.Context, id int64) error
	// Fetch writes a file of a checkpoint to path.
	Fetch(ctx context.Context, f checkpoint.File, path string) error
}

// ender is a Repository that is told when a job has come to its end with a checkpoint, and everything
// was committed.
type ender interface {
	End(ctx context.Context, id int64) error
}

// overtaker is a Repository that is told when another run of the lineage was found in a target.
type overtaker interface {
	Overtake(ctx context.Context, lineage string, id int64, why string) error
}

// openStore opens the store of the job's state: empty, or with the files of the checkpoint that the
// job goes on from.
func openStore(ctx context.Context, o CheckpointOptions) (s *store.Store, err error) {
	defer func() {
		// The LSM ends the process, as it thinks, where it cannot write what it begins with.
		if p := recover(); p != nil {
			err = fmt.Errorf("open the store of the state in %s: %v", o.WorkDir, p)
		}
	}()
	dir := filepath.Join(o.WorkDir, "state")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	so := store.Options{MemoryBytes: o.StoreMemory}
	if o.From == nil || len(o.From.Files) == 0 {
		return store.Open(dir, so)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var files []store.File
	for _, f := range o.From.Files {
		path := filepath.Join(dir, f.Name)
		if err := o.Repo.Fetch(ctx, f, path); err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", o.From.ID, err)
		}
		files = append(files, store.File{Name: f.Name, Object: f.Object, Path: path, Size: f.Size, Sum: f.Sum})
	}
	return store.OpenFiles(dir, files, so)
}

// cutStore writes everything that was applied to files and notes where they are.
func (c *checkpoints) cutStore(ctx context.Context, paths map[string]string) error {
	if c.lastCut != nil {
		if err := c.lastCut.Release(); err != nil {
			return err
		}
		c.lastCut = nil
	}
	k, err := c.store.Cut(ctx)
	if err != nil {
		return err
	}
	c.lastCut = k
	c.files = nil
	for _, f := range k.Files {
		c.files = append(c.files, checkpoint.File{Name: f.Name, Object: f.Object, Size: f.Size, Sum: f.Sum, Of: "state"})
		paths[f.Object] = f.Path
	}
	return nil
}
