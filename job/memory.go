package job

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
)

// memory is how checkpoints hold the splits of a source that were read to their end where its
// enumerator can remember them: without their names, which would be more with every object of a folder
// that is watched.
//
// A split is told to the enumerator by the first checkpoint that is written after its end was part of a
// cut. So what a manifest holds is of its own cut and of those before, also where these failed.
type memory struct {
	r connector.Rememberer

	mu   sync.Mutex
	ends []string // part of a cut, and not told yet
	n    int      // told, in this run and before
}

// tell takes note of splits whose end is part of the cut being taken.
func (m *memory) tell(ends map[string]connector.Position) {
	if len(ends) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends = slices.AppendSeq(m.ends, maps.Keys(ends))
}

// told is what the checkpoint of the last cut holds, and of how many splits.
func (m *memory) told() ([]byte, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.r.Remember(m.ends)
	if err == nil {
		m.n += len(m.ends)
		m.ends = nil
	}
	return b, m.n, err
}

// recall gives the enumerator what a checkpoint holds, and the ended splits that it names.
func (s *sourceShared) recall(from *checkpoint.Source, ended []string) error {
	if s.memory == nil {
		if from.Memory != nil {
			return fmt.Errorf("the checkpoint remembers what was read in a form that connector '%s' does not read any more: "+
				"start with --fresh, or with the program that wrote it", s.table.Connector)
		}
		return nil
	}
	if from.Memory != nil {
		if err := s.memory.r.Recall(from.Memory); err != nil {
			return fmt.Errorf("what was read before: %w", err)
		}
	}
	s.memory.n = from.Remembered + len(ended)
	if len(ended) == 0 {
		return nil
	}
	_, err := s.memory.r.Remember(ended) // now: the first look for splits must not find them
	return err
}
