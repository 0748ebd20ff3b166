package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
	"github.com/tidemark-stream/tidemark/internal/dashboard"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

const hour = int64(3_600_000)

// first is the start of the first window: 2013-01-30.
var first = time.Date(2013, 1, 30, 0, 0, 0, 0, time.UTC).UnixMilli()

func column(name string, t types.Type) types.Field { return types.Field{Name: name, Type: t} }

// board is the table of departures an airport and hour.
func board() *connector.Table {
	return &connector.Table{Name: "board", Connector: "memory", PrimaryKey: []string{"origin", "window_start", "generation", "revision"},
		Columns: []types.Field{column("origin", types.StringType), column("window_start", types.TimestampType(3)), column("window_end", types.TimestampType(3)),
			column("departures", types.BigIntType), column("delay", types.DoubleType), column("distance", types.BigIntType),
			column("revision", types.BigIntType), column("generation", types.StringType), column("is_final", types.BooleanType)},
		Results: &connector.Results{Key: []string{"origin", "window_start"}, WindowStart: "window_start", WindowEnd: "window_end",
			Column: map[string]string{"revision": "revision", "generation": "generation", "is_final": "is_final"},
			Units:  map[string]string{"delay": "minutes", "distance": "miles", "departures": "flights"}, Generation: "live", LatenessMs: 2 * hour}}
}

// world is a table of results in which things happen.
type world struct {
	t          *testing.T
	store      *results.Memory
	checkpoint int64
	revision   map[string]int64
	last       connector.Progress
}

func newWorld(t *testing.T, table *connector.Table) *world {
	t.Helper()
	s, err := results.NewMemory(table)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, store: s, revision: map[string]int64{}}
}

// departures is what an airport has in an hour: few at night, and not quite the same each day.
func departures(origin string, h int64) int64 {
	x := fnv.New32a()
	fmt.Fprint(x, origin, h)
	base := map[string]float64{"EWR": 20, "JFK": 18, "LGA": 15}[origin]
	day := math.Sin((float64(h%24) - 6) / 18 * math.Pi)
	if h%24 < 5 {
		return int64(x.Sum32() % 2)
	}
	return int64(base*max(day, 0.1)) + int64(x.Sum32()%5)
}

var origins = []string{"EWR", "JFK", "LGA"}

// hour writes the windows of an hour in the next revision; more is added to what the airports have.
func (w *world) hour(generation string, h int64, final bool, more int64) {
	for _, o := range origins {
		w.revision[fmt.Sprint(generation, o, h)]++
		n := departures(o, h) + more
		at := time.UnixMilli(first + h*hour).UTC()
		w.store.Add([]any{o, at, at.Add(time.Hour), n, float64(n)/1.7 + 1.3, n * 731, w.revision[fmt.Sprint(generation, o, h)], generation, final})
	}
}

// progress seals a checkpoint whose watermark is at an hour.
func (w *world) progress(generation string, watermark int64, f func(p *connector.Progress)) {
	w.checkpoint++
	p := connector.Progress{Job: "board", Table: "board", Lineage: "l" + generation, Checkpoint: w.checkpoint, Generation: generation, Watermark: watermark,
		MaxTime: watermark + 5*60_000, SplitsPassed: 4, Splits: 4, Expected: 3, Seen: 3, Late: 12, Duplicates: 341, Rows: 1000 + w.checkpoint,
		At: time.Now().UnixMilli() + w.checkpoint}
	if f != nil {
		f(&p)
	}
	w.last = p
	w.store.AddProgress(p)
}

func wm(h int64) int64 { return first + h*hour }

// day lets two days pass up to hour 40: hour 21 closed while a split was idle, hour 30 missed rows, and those from
// hour 38 on may be corrected.
func (w *world) day() {
	for h := int64(0); h < 40; h++ {
		w.hour("live", h, h < 38, 0)
		if h == 33 {
			w.hour("live", h, true, 1)
		}
	}
	w.progress("live", wm(20), nil)
	w.progress("live", wm(22), func(p *connector.Progress) { p.SplitsPassed, p.SplitsIdle, p.IdleSplits = 3, 1, []string{"reports-2"} })
	w.progress("live", wm(36), func(p *connector.Progress) {
		p.Missed = []connector.MissedWindow{{Start: wm(30), End: wm(31), Rows: 7}}
	})
	w.progress("live", wm(40), nil)
}

// serve serves a page until the test ends.
func serve(t *testing.T, o dashboard.Options) string {
	t.Helper()
	o.Local = true
	s, err := dashboard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s)
}

func run(t *testing.T, s *dashboard.Server) string {
	addr, stop := runAt(t, s, "127.0.0.1:0")
	t.Cleanup(stop)
	return "http://" + addr
}

// runAt serves at an address until stop is called, through what before makes of the page.
func runAt(t *testing.T, s *dashboard.Server, address string, before ...func(http.Handler) http.Handler) (addr string, stop func()) {
	t.Helper()
	var l net.Listener
	within(t, waitFor, "the address is free", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	page := s.Handler()
	for _, f := range before {
		page = f(page)
	}
	h := httptest.NewUnstartedServer(page)
	h.Listener.Close()
	h.Listener = l
	h.Start()
	return l.Addr().String(), func() {
		cancel()
		<-ended
		h.CloseClientConnections()
		h.Close()
	}
}

// reconciled notes that a generation was found equal for windows.
func (w *world) reconciled(generation string, from, to int64) {
	doc, err := json.Marshal(map[string]any{"equal": true, "from": from, "to": to})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Note(context.Background(), results.Record{Kind: "reconcile", Name: generation, At: time.Now().UnixMilli(), Document: doc}); err != nil {
		w.t.Fatal(err)
	}
}

// promote lets a generation count for windows.
func (w *world) promote(generation string, from, to int64) {
	ctx := context.Background()
	p, err := w.store.Pointer(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	next := p.Promote(from, to, generation)
	next.At = time.Now().UnixMilli()
	if err := w.store.Point(ctx, next); err != nil {
		w.t.Fatal(err)
	}
}

// sensors is a table of another job, which nobody has made a board for.
func sensors() *connector.Table {
	return &connector.Table{Name: "sensor_power", Connector: "memory",
		Columns: []types.Field{column("site", types.StringType), column("phase", types.IntType), column("starts", types.TimestampType(3)), column("ends", types.TimestampType(3)),
			column("energy", types.DecimalType(18, 4)), column("peak", types.DoubleType), column("note", types.StringType), column("rev", types.BigIntType)},
		Results: &connector.Results{Key: []string{"site", "phase", "starts"}, WindowStart: "starts", WindowEnd: "ends",
			Column: map[string]string{"revision": "rev"}, Units: map[string]string{"energy": "kWh", "peak": "kW"}, Generation: "live"}}
}

// batch makes a batch of a table's rows, as a job hands them to its sink.
func batch(t *connector.Table, rows ...[]types.Value) *vec.Batch {
	b := vec.NewBatch(t.Schema())
	for _, r := range rows {
		for i, c := range b.Cols {
			c.AppendValue(r[i])
		}
		b.N++
	}
	return b
}
