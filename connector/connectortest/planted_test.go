package connectortest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/connectortest"
	"github.com/tidemark-stream/tidemark/option"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// planted are faults, each with a part of what the suite says of it. The suite fails in a process
// of its own.
var planted = []struct{ fault, says string }{
	{"", ""},
	{"position is of the last row", "from Position() after"},
	{"row positions are one too high", "from the position of row"},
	{"every tenth row twice", "all splits"},
	{"small batches skip a row", "in batches of 1"},
	{"no end", "then nothing for"},
	{"close twice fails", "closed already"},
	{"known is ignored", "are known, and found all the same"},
	{"discovered twice", "gives split even twice"},
	{"splits share a buffer", "beside the others"},
	{"a goroutine stays", "goroutines"},
	{"lag at the end", "Lag is 7 at the end"},
	{"no origin", "no Origin"},
	{"fetch: the record before", "in their order"},
	{"fetch: only upwards", "of one split after the other"},
	{"fetch: an answer for anything", "gives \"1000000000000\" and no error"},
	{"fetch: hangs", "does not return after its context was cancelled"},
	{"sink: visible before commit", "prepared, not committed"},
	{"sink: committed twice is there twice", "committed twice"},
	{"sink: close shows what was not prepared", "closed without Prepare"},
	{"sink: selection ignored", "after Commit"},
	{"sink: abort forgets", "after Abort"},
	{"sink: restart forgets", "Commit: unknown"},
}

const faultVar = "CONNECTORTEST_FAULT"

func TestPlantedFaults(t *testing.T) {
	if fault, ok := os.LookupEnv(faultVar); ok {
		registerPlanted(fault)
		wait := time.Second // those that are to be found must not take long
		if fault == "" {
			wait = time.Minute
		}
		if !strings.HasPrefix(fault, "sink") {
			connectortest.TestSource(t, connectortest.SourceCase{Rows: plantedRows(), Table: plantedTable("planted-source"), Wait: wait,
				Record: func(b []byte) string { return string(b) }})
		}
		if !strings.HasPrefix(fault, "sink") && fault != "" {
			return
		}
		connectortest.TestSink(t, connectortest.SinkCase{Rows: insertRows(jsonText), New: newStore(fault)})
		return
	}
	if testing.Short() {
		t.Skip("SKIPPED: a process for each fault takes a while; run without -short")
	}
	for _, p := range planted {
		t.Run(p.fault, func(t *testing.T) {
			t.Parallel()
			only := "^TestPlantedFaults$"
			if p.fault == "a goroutine stays" {
				only += "/^rows$" // as each part would wait for it
			}
			cmd := exec.Command(os.Args[0], "-test.run="+only)
			cmd.Env = append(os.Environ(), faultVar+"="+p.fault)
			out, err := cmd.CombinedOutput()
			switch {
			case p.fault == "" && err != nil:
				t.Errorf("without a fault: %v\n%s", err, out)
			case p.fault != "" && err == nil:
				t.Error("the suite did not find it")
			case !strings.Contains(string(out), p.says):
				t.Errorf("the suite does not say %q:\n%s", p.says, out)
			}
		})
	}
}

func plantedTable(name string) *connector.Table {
	return &connector.Table{Name: "t", Connector: name, Columns: columns, Options: map[string]string{"connector": name}}
}

const perSplit = 25

func plantedRows() (rows []string) {
	for i := range perSplit {
		rows = append(rows, fmt.Sprintf("%d | even", 2*i), fmt.Sprintf("%d | odd", 2*i+1))
	}
	return rows
}

// store is what a sink of the test writes to.
type store struct {
	fault   string
	mu      sync.Mutex
	staged  map[string][]string // by committable
	visible []string
	serial  int
}

var stores = map[string]*store{}

func registerPlanted(fault string) {
	connector.Register(&connector.Factory{Name: "planted-source", NewSource: func(connector.SourceConfig) (connector.Source, error) {
		return plantedSource{ticks{perSplit}, fault}, nil
	}})
	connector.Register(&connector.Factory{Name: "planted-sink", Options: []option.Spec{{Name: "store"}},
		NewSink: func(c connector.SinkConfig) (connector.Sink, error) {
			s := stores[c.Options.Get("store")]
			if fault == "sink: restart forgets" {
				s.staged = map[string][]string{}
			}
			return s, nil
		}})
}

type plantedSource struct {
	ticks
	fault string
}

func (s plantedSource) NewEnumerator(ctx context.Context) (connector.Enumerator, error) {
	e, err := s.ticks.NewEnumerator(ctx)
	return &plantedEnumerator{e, s.fault}, err
}

// NewFetcher implements connector.Refetcher.
func (s plantedSource) NewFetcher(context.Context) (connector.RecordFetcher, error) {
	return &plantedFetcher{fault: s.fault, last: map[string]int64{}}, nil
}

type plantedFetcher struct {
	fault string
	last  map[string]int64
}

func (f *plantedFetcher) Fetch(ctx context.Context, split string, pos int64) ([]byte, error) {
	switch {
	case f.fault == "fetch: hangs" && ctx.Err() != nil:
		time.Sleep(4 * time.Second)
	case f.fault == "fetch: an answer for anything" && pos > perSplit:
		return []byte("1000000000000"), nil
	case f.fault == "fetch: only upwards" && pos < f.last[split]:
		pos = f.last[split]
	case f.fault == "fetch: the record before" && pos == 5:
		pos--
	}
	f.last[split] = pos
	if pos < 0 || pos >= perSplit || split != "even" && split != "odd" {
		return nil, fmt.Errorf("%s has no record %d", split, pos)
	}
	n := 2 * pos
	if split == "odd" {
		n++
	}
	return fmt.Appendf(nil, "%d | %s", n, split), nil
}

func (*plantedFetcher) Close() error { return nil }

type plantedEnumerator struct {
	connector.Enumerator
	fault string
}

func (e *plantedEnumerator) Known(ids []string) {
	if e.fault != "known is ignored" {
		e.Enumerator.Known(ids)
	}
}

func (e *plantedEnumerator) Discover(ctx context.Context) ([]connector.Split, bool, error) {
	if e.fault == "discovered twice" {
		return []connector.Split{{ID: "even"}, {ID: "odd"}}, true, nil
	}
	return e.Enumerator.Discover(ctx)
}

var shared = vec.New(types.StringType, 5)

func (s plantedSource) NewReader(context.Context, int) (connector.Reader, error) {
	if s.fault == "a goroutine stays" {
		go func() { select {} }()
	}
	return connector.OpenFunc(func(_ context.Context, sp connector.Split) (connector.SplitReader, error) {
		return &plantedReader{tickReader: tickReader{ticks: s.ticks, at: sp.Position.Offset,
			origin: &vec.Origin{Source: "ticks", Split: sp.ID, Unit: "row"}}, fault: s.fault}, nil
	}), nil
}

type plantedReader struct {
	tickReader
	fault  string
	closed bool
}

func (r *plantedReader) ReadBatch(ctx context.Context, b *vec.Batch, maxRows int) error {
	from := r.at
	if r.fault == "small batches skip a row" && maxRows == 1 && r.at == 7 {
		r.at++
	}
	if err := r.tickReader.ReadBatch(ctx, b, maxRows); err != nil {
		if r.fault == "no end" {
			return connector.ErrNoData
		}
		return err
	}
	switch r.fault {
	case "row positions are one too high":
		for i := range b.Pos {
			b.Pos[i]++
		}
	case "every tenth row twice":
		if from%10 == 0 {
			for _, c := range b.Cols {
				c.Append(c, 0)
			}
			b.Pos = append(b.Pos, b.Pos[b.N-1]+1)
			b.N++
		}
	case "splits share a buffer":
		for i := range b.N {
			shared.Resize(max(shared.Len(), b.N))
			shared.SetString(i, r.origin.Split)
		}
		b.Cols[1] = shared
	case "no origin":
		b.Origin = nil
	}
	return nil
}

func (r *plantedReader) Position() connector.Position {
	p := r.tickReader.Position()
	if r.fault == "position is of the last row" && p.Offset > 0 {
		p.Offset--
	}
	return p
}

func (r *plantedReader) Lag() int64 {
	if l := r.tickReader.Lag(); l > 0 || r.fault != "lag at the end" {
		return l
	}
	return 7
}

func (r *plantedReader) Close() error {
	if r.closed && r.fault == "close twice fails" {
		return errors.New("closed already")
	}
	r.closed = true
	return nil
}

func newStore(fault string) func(testing.TB) connectortest.Target {
	return func(testing.TB) connectortest.Target {
		s := &store{fault: fault, staged: map[string][]string{}}
		name := fmt.Sprint(len(stores))
		stores[name] = s
		table := plantedTable("planted-sink")
		table.Options["store"] = name
		return connectortest.Target{Table: table, Visible: func() []string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return append([]string{}, s.visible...)
		}}
	}
}

func (s *store) NewWriter(context.Context, int, int) (connector.Writer, error) {
	return &storeWriter{s: s}, nil
}
func (s *store) NewCommitter(context.Context) (connector.Committer, error) { return s, nil }
func (s *store) Delivery() (connector.Delivery, string) {
	return connector.ExactlyOnce, "in memory"
}

func (s *store) Commit(_ context.Context, _ connector.CommitID, cs []connector.Committable) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cs {
		rows, ok := s.staged[string(c)]
		if !ok {
			return fmt.Errorf("unknown %s", c)
		}
		s.visible = append(s.visible, rows...)
		if s.fault != "sink: committed twice is there twice" {
			s.staged[string(c)] = nil
		}
	}
	return nil
}

func (s *store) Abort(_ context.Context, cs []connector.Committable) error {
	if s.fault == "sink: abort forgets" {
		s.Commit(context.Background(), connector.CommitID{}, cs)
	}
	return nil
}
func (s *store) Close() error { return nil }

type storeWriter struct {
	s    *store
	rows []string
}

func (w *storeWriter) Write(_ context.Context, b *vec.Batch) error {
	add := func(i int) {
		text := "\x00"
		if !b.Cols[1].IsNull(i) {
			text = string(b.Cols[1].Bytes(i))
		}
		w.rows = append(w.rows, jsonText(int(b.Cols[0].I64[i]), text))
	}
	if w.s.fault == "sink: selection ignored" {
		for i := range b.N {
			add(i)
		}
		return nil
	}
	b.Each(add)
	return nil
}

func (w *storeWriter) Flush(context.Context) error { return nil }
func (w *storeWriter) Tick(context.Context) error  { return nil }

func (w *storeWriter) Prepare(context.Context) ([]connector.Committable, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if len(w.rows) == 0 {
		return nil, nil
	}
	w.s.serial++
	c := fmt.Sprint(w.s.serial)
	w.s.staged[c] = w.rows
	if w.s.fault == "sink: visible before commit" {
		w.s.visible = append(w.s.visible, w.rows...)
	}
	w.rows = nil
	return []connector.Committable{[]byte(c)}, nil
}

func (w *storeWriter) Close() error {
	if w.s.fault == "sink: close shows what was not prepared" {
		w.s.visible = append(w.s.visible, w.rows...)
	}
	w.rows = nil
	return nil
}
