package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/internal/killpoint"
)

// Exactly-once into Iceberg. Files are written in the epoch, and no snapshot has them; the committable
// says what they are. When the checkpoint is complete, the files of all subtasks are added in one commit,
// whose snapshots name, in their summaries, the job, the sink, the lineage and the number of the
// checkpoint, and the committables. Who commits first looks for the committables in the snapshots that
// the table has, back to the one that it had when they were made: those that are there are done. A commit
// that another writer has overtaken is refused by the catalog, as it names the snapshot that it goes on
// from; the table is then loaded and looked at again. So is it when an answer was lost.

// What the summaries of our snapshots say.
const (
	propJob         = "tidemark.job"
	propSink        = "tidemark.sink"
	propLineage     = "tidemark.lineage"
	propCheckpoint  = "tidemark.checkpoint"
	propCommittable = "tidemark.committables"
)

// pendingVersion is that of committables. Later versions read this one.
const pendingVersion = 1

// pending is a committable: the files of one epoch of one writer.
type pending struct {
	V      int    `json:"v"`
	ID     string `json:"id"`     // like no other
	Writer string `json:"writer"` // the steps of one writer follow each other
	Table  string `json:"table"`  // its UUID
	Spec   int    `json:"spec"`
	Keys   []int  `json:"keys,omitempty"` // the fields by which rows are deleted
	Base   int64  `json:"base,omitempty"` // a snapshot that was there before; 0: there was none
	Steps  []step `json:"steps"`
}

// step is what goes into one snapshot.
type step struct {
	Files []*file `json:"files"`
}

func (p *pending) encode() (connector.Committable, error) { return json.Marshal(p) }

// decode reads committables.
func decode(cs []connector.Committable) ([]*pending, error) {
	out := make([]*pending, len(cs))
	for i, c := range cs {
		p := &pending{}
		if err := json.Unmarshal(c, p); err != nil {
			return nil, connector.Fatalf("prepared output of an Iceberg table cannot be read: %w", err)
		}
		if p.V != pendingVersion {
			return nil, connector.Fatalf("prepared output of an Iceberg table has version %d, and this program knows version %d; use a newer one", p.V, pendingVersion)
		}
		for _, st := range p.Steps {
			if slices.Contains(st.Files, nil) {
				return nil, connector.Fatalf("prepared output of an Iceberg table is damaged: a file of %s is missing", p.ID)
			}
		}
		out[i] = p
	}
	return out, nil
}

// prepared makes a committable of an epoch. Where no checkpoint is waited for, it is committed here.
func (s *sink) prepared(ctx context.Context, p *pending, t *target) ([]connector.Committable, error) {
	p.V, p.Table, p.Spec, p.Keys, p.Base = pendingVersion, t.uuid, t.spec.ID(), t.ids, s.base(t)
	c, err := p.encode()
	if err != nil || s.guarantee() == connector.ExactlyOnce {
		return []connector.Committable{c}, err
	}
	err = s.commit(ctx, connector.CommitID{}, []*pending{p})
	if err != nil && s.guarantee() == connector.AtMostOnce && ctx.Err() == nil && classOf(err) == away {
		return nil, s.remove(ctx, []*pending{p}) // dropped, as was asked for
	}
	return nil, err
}

// committer makes the files of committables part of the table.
type committer struct {
	s    *sink
	done func() error
	mu   sync.Mutex // one commit at a time
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, id connector.CommitID, cs []connector.Committable) error {
	ps, err := decode(cs)
	if err != nil || len(ps) == 0 {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.commit(ctx, id, ps)
}

// Abort implements connector.Committer.
func (c *committer) Abort(ctx context.Context, cs []connector.Committable) error {
	ps, err := decode(cs)
	if err != nil || len(ps) == 0 {
		return err
	}
	return c.s.remove(ctx, ps)
}

// Close implements connector.Committer.
func (c *committer) Close() error { return c.done() }

// remove deletes files that no snapshot has. That their commit has failed does not say so: the catalog
// may have carried it out before its answer was lost.
func (s *sink) remove(ctx context.Context, ps []*pending) error {
	t, err := s.load(ctx)
	if err != nil {
		return err
	}
	left, err := news(ctx, t, ps)
	if err != nil {
		return err
	}
	files, err := t.FS(ctx)
	if err != nil {
		return err
	}
	named := committables(t.Metadata().Snapshots()) // also those that the table was rolled back from
	var errs []error
	for _, p := range left {
		if named[p.ID] {
			continue
		}
		for _, st := range p.Steps {
			for _, f := range st.Files {
				errs = append(errs, gone(files.Remove(f.Path)))
			}
		}
	}
	return errors.Join(errs...)
}

// commit adds the files of ps, once.
func (s *sink) commit(ctx context.Context, id connector.CommitID, ps []*pending) error {
	patience := s.patience()
	for {
		err := s.tryCommit(ctx, id, ps)
		if err == nil {
			return nil
		}
		if err := patience.again(ctx, err); err != nil {
			return fmt.Errorf("commit to Iceberg table '%s': %w", s.name(), err)
		}
	}
}

func (s *sink) tryCommit(ctx context.Context, id connector.CommitID, ps []*pending) error {
	t, err := s.load(ctx)
	if err != nil {
		return err
	}
	s.renew(ctx, t)
	if err := s.overtaken(t, id, ps); err != nil {
		return err
	}
	left, err := news(ctx, t, ps)
	if err != nil || len(left) == 0 {
		return err
	}
	killpoint.Pass("commit/iceberg-loaded")
	tx := t.NewTransaction()
	if err := s.stage(ctx, t, tx, id, left); err != nil {
		return err
	}
	// The library must not try again by itself: what it goes on from has to be looked at first.
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return err
	}
	killpoint.Pass("commit/iceberg-staged")
	after, err := tx.Commit(ctx)
	if err != nil {
		return err
	}
	killpoint.Pass("commit/iceberg-committed")
	if snap := after.CurrentSnapshot(); snap != nil {
		s.committed.Store(snap.SnapshotID)
	}
	return nil
}

// overtaken is the error where another run of the same lineage has committed what only this one may.
func (s *sink) overtaken(t *table.Table, id connector.CommitID, ps []*pending) error {
	if id.After == 0 {
		return nil
	}
	for _, snap := range t.Metadata().Snapshots() {
		if snap.Summary == nil {
			continue
		}
		p := snap.Summary.Properties
		if p[propLineage] != id.Lineage || p[propJob] != s.cfg.Job || p[propSink] != s.cfg.Node {
			continue
		}
		ids := strings.Fields(p[propCommittable])
		if slices.ContainsFunc(ps, func(p *pending) bool { return slices.Contains(ids, p.ID) }) {
			continue // it is this commit
		}
		n, _ := strconv.ParseInt(p[propCheckpoint], 10, 64)
		if err := id.Overtaken(n); err != nil {
			return err
		}
	}
	return nil
}

// renew gives the writers what the table says now of where its files go.
func (s *sink) renew(ctx context.Context, t *table.Table) {
	s.mu.Lock()
	target := s.target
	s.mu.Unlock()
	if target != nil && t.Metadata().TableUUID().String() == target.uuid {
		_ = target.files.renew(ctx, t) // the older place may still do
	}
}

// news returns the committables that no snapshot of the table has.
func news(ctx context.Context, t *table.Table, ps []*pending) ([]*pending, error) {
	left := map[string]*pending{}
	base := map[int64]bool{} // back to which snapshots to look
	for _, p := range ps {
		if id := t.Metadata().TableUUID().String(); p.Table != id {
			return nil, connector.Fatalf("prepared output is for the table with the UUID %s, and the one of this name is now another (%s), so that it cannot be committed; "+
				"bring the older table back, or start the job afresh", p.Table, id)
		}
		left[p.ID] = p
		base[p.Base] = true
	}
	oldest := len(base)
	s := t.CurrentSnapshot()
	for ; s != nil && len(left) > 0; s = parent(t, s) {
		if base[s.SnapshotID] {
			if oldest--; oldest == 0 {
				break
			}
		}
		if s.Summary != nil {
			for _, id := range strings.Fields(s.Summary.Properties[propCommittable]) {
				delete(left, id)
			}
		}
		if s.ParentSnapshotID != nil && parent(t, s) == nil {
			// What came before has expired.
			if err := search(ctx, t, left); err != nil {
				return nil, err
			}
			break
		}
	}
	var out []*pending
	for _, p := range ps {
		if left[p.ID] != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// committables are the ids that snapshots name.
func committables(snapshots []table.Snapshot) map[string]bool {
	out := map[string]bool{}
	for _, s := range snapshots {
		if s.Summary == nil {
			continue
		}
		for _, id := range strings.Fields(s.Summary.Properties[propCommittable]) {
			out[id] = true
		}
	}
	return out
}

func parent(t *table.Table, s *table.Snapshot) *table.Snapshot {
	if s.ParentSnapshotID == nil {
		return nil
	}
	return t.SnapshotByID(*s.ParentSnapshotID)
}

// search finds out of which committables the table has had files, where the snapshots that would say so
// have expired: in the manifests of those that are left. A file that none has and that is not there any
// more was in and has been replaced by others since.
func search(ctx context.Context, t *table.Table, left map[string]*pending) error {
	owner := map[string]string{} // of files
	for id, p := range left {
		for _, st := range p.Steps {
			for _, f := range st.Files {
				owner[f.Path] = id
			}
		}
	}
	files, err := t.FS(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for s := t.CurrentSnapshot(); s != nil; s = parent(t, s) {
		manifests, err := s.Manifests(files)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if seen[m.FilePath()] {
				continue
			}
			seen[m.FilePath()] = true
			for e, err := range m.Entries(files, false) {
				if err != nil {
					return err
				}
				if id, ok := owner[e.DataFile().FilePath()]; ok {
					delete(left, id)
				}
			}
		}
	}
	for path, id := range owner {
		if left[id] == nil {
			continue
		}
		f, err := files.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return connector.Fatalf("the snapshots since checkpoint output %s was written have expired, and its file %s is gone: it was committed and rewritten since, or removed; "+
				"if it is in the table, start from a newer checkpoint", id, path)
		}
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// stage writes the manifests of a commit.
func (s *sink) stage(ctx context.Context, t *table.Table, tx *table.Transaction, id connector.CommitID, ps []*pending) error {
	props := iceberg.Properties{propJob: s.cfg.Job, propSink: s.cfg.Node}
	if id.Lineage != "" {
		props[propLineage] = id.Lineage
	}
	if id.Checkpoint != 0 {
		props[propCheckpoint] = strconv.FormatInt(id.Checkpoint, 10)
	}
	var ids []string
	for _, p := range ps {
		ids = append(ids, p.ID)
	}
	props[propCommittable] = strings.Join(ids, " ")
	for _, st := range merge(ps) {
		var data, deletes []iceberg.DataFile
		for _, f := range st {
			spec := t.Metadata().PartitionSpecByID(f.p.Spec)
			if spec == nil {
				return connector.Fatalf("prepared output is partitioned as spec %d says, which the table does not have any more", f.p.Spec)
			}
			df, err := f.dataFile(*spec, t.Schema(), f.p.Keys)
			if err != nil {
				return connector.AsFatal(err)
			}
			if f.Deletes {
				deletes = append(deletes, df)
			} else {
				data = append(data, df)
			}
		}
		var err error
		if len(deletes) == 0 {
			err = tx.AddDataFiles(ctx, data, props, table.WithoutAutoNameMapping(), table.WithoutDuplicateCheck())
		} else {
			err = tx.NewRowDelta(props).AddRows(data...).AddDeletes(deletes...).Commit(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// owned is a file and the committable that it is of.
type owned struct {
	*file
	p *pending
}

// merge puts steps together that may go into one snapshot: those of several writers, never two of one.
func merge(ps []*pending) [][]owned {
	var out [][]owned
	next := map[string]int{} // by writer
	for _, p := range ps {
		for _, st := range p.Steps {
			n := next[p.Writer]
			// Rows that are only added need no order.
			if len(p.Keys) > 0 {
				next[p.Writer]++
			}
			if n == len(out) {
				out = append(out, nil)
			}
			for _, f := range st.Files {
				out[n] = append(out[n], owned{f, p})
			}
		}
	}
	return out
}
