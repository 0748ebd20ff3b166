package results

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// TestPointer compares random promotions with a pointer that has a generation for each single window.
func TestPointer(t *testing.T) {
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 300 {
		p := Pointer{}
		want := map[int64]string{}
		for w := int64(-3); w < 23; w++ {
			want[w] = Live
		}
		for range r.IntN(12) {
			from, to := int64(r.IntN(22))-1, int64(r.IntN(22))-1
			if from > to {
				from, to = to, from
			}
			switch r.IntN(12) {
			case 0:
				from = vec.MinTime
			case 1:
				to = vec.MaxTime
			case 2:
				from, to = vec.MinTime, vec.MaxTime
			}
			g := []string{Live, "a", "b", "c"}[r.IntN(4)]
			was := p
			p = p.Promote(from, to, g)
			if p.Version != was.Version+1 || p.Prior != was.Version {
				t.Fatalf("seed %d: version %d prior %d after %d", seed, p.Version, p.Prior, was.Version)
			}
			for w := range want {
				if w >= from && w < to {
					want[w] = g
				}
			}
			for i, x := range p.Ranges {
				if x.From >= x.To || i > 0 && (p.Ranges[i-1].To > x.From || p.Ranges[i-1].To == x.From && p.Ranges[i-1].Generation == x.Generation) {
					t.Fatalf("seed %d: ranges are %+v", seed, p.Ranges)
				}
			}
		}
		for w, g := range want {
			if p.Of(w) != g {
				t.Fatalf("seed %d: window %d is of %s and not %s: %+v", seed, w, p.Of(w), g, p)
			}
			n := 0
			for _, name := range p.Generations() {
				for _, c := range p.Covers(name, -100, 100) {
					if w >= c.From && w < c.To {
						if name != g {
							t.Fatalf("seed %d: %s covers window %d, which is of %s", seed, name, w, g)
						}
						n++
					}
				}
			}
			if n != 1 {
				t.Fatalf("seed %d: window %d is covered %d times: %+v", seed, w, n, p)
			}
		}
		doc, _ := json.Marshal(p)
		var again Pointer
		if err := json.Unmarshal(doc, &again); err != nil || fmt.Sprint(again) != fmt.Sprint(p) {
			t.Fatalf("%s is read as %+v, %v", doc, again, err)
		}
	}
}

// TestBack takes promotions back, one after the other, with others in between.
func TestBack(t *testing.T) {
	versions := []Pointer{}
	push := func(p Pointer) { versions = append([]Pointer{p}, versions...) }
	now := func() *Pointer {
		if len(versions) == 0 {
			return &Pointer{}
		}
		return &versions[0]
	}
	push(now().Promote(0, 10, "a"))
	push(now().Promote(0, 5, "b"))
	back := func(want string) {
		t.Helper()
		p, err := Back(versions)
		if err != nil {
			t.Fatal(err)
		}
		if p.Version != now().Version+1 || p.Of(1) != want {
			t.Fatalf("gone back to %+v, which shows %s", p, p.Of(1))
		}
		push(p)
	}
	back("a")
	push(now().Promote(0, 3, "c"))
	back("a")
	back(Live)
	if p, err := Back(versions); err == nil {
		t.Errorf("gone back to %+v", p)
	}
}

func progressAt(at, watermark int64, idle int) connector.Progress {
	p := connector.Progress{Generation: Live, At: at, Watermark: watermark, SplitsIdle: idle, Splits: 3}
	for i := range idle {
		p.IdleSplits = append(p.IdleSplits, fmt.Sprint("s", i))
	}
	return p
}

// TestStatus judges windows of ten by progress rows, in a generation that was promoted and in the job's own.
func TestStatus(t *testing.T) {
	j := &Judge{Times: Times{LatenessMs: 5}, Of: map[string]Knowledge{
		Live: {Progress: []connector.Progress{progressAt(4, 32, 0), progressAt(3, 21, 0), progressAt(2, 12, 2), progressAt(1, 8, 1)},
			Missed: []connector.MissedWindow{{Start: 0, End: 10, Rows: 2}, {Start: 50, End: 90, Rows: 4, Windows: 4}}},
		"g": {Progress: []connector.Progress{progressAt(3, vec.MaxTime, 0)}, Since: 2, Corrected: []connector.MissedWindow{{Start: 110, End: 120, Rows: 1}},
			LiveMissed: []connector.MissedWindow{{Start: 120, End: 130, Rows: 6}}}}}
	j.Pointer = j.Pointer.Promote(100, 200, "g")
	for _, c := range []struct {
		start int64
		want  Status
	}{
		{0, Status{State: NeedsBackfill, Generation: Live, Over: true, Idle: true, IdleSplits: []string{"s0", "s1"}, LateRows: 2}},
		{10, Status{State: Final, Generation: Live, Over: true}},
		{20, Status{State: Provisional, Generation: Live, Over: true}},
		{30, Status{State: Provisional, Generation: Live}},
		{60, Status{State: NeedsBackfill, Generation: Live, LateRows: 4}}, // within a run of windows
		{100, Status{State: Final, Generation: "g", Over: true}},
		{110, Status{State: NeedsBackfill, Generation: "g", Over: true, Corrected: true}},
		{120, Status{State: NeedsBackfill, Generation: "g", Over: true, LateRows: 6}},
	} {
		if got := j.Status(c.start, c.start+10); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("window %d is %+v, not %+v", c.start, got, c.want)
		}
	}
	if got := j.NeedsBackfill(vec.MinTime, vec.MaxTime); fmt.Sprint(got) != "[{0 10 2 0} {50 90 4 4} {110 120 1 0} {120 130 6 0}]" {
		t.Errorf("needed are %v", got)
	}
	if got := j.NeedsBackfill(45, 115); fmt.Sprint(got) != "[{50 90 4 4} {110 120 1 0}]" {
		t.Errorf("needed in a range are %v", got)
	}
	// The last ms of a window is what the watermark has to reach.
	if !j.Times.Over(10, 9) || j.Times.Over(10, 8) || !j.Times.Final(10, 14) || j.Times.Final(10, 13) {
		t.Error("the edges of a window")
	}
}

// TestZone has windows of a local time with an hour that comes twice.
func TestZone(t *testing.T) {
	times := TimesOf(&connector.Results{Zone: "Europe/Berlin", LatenessMs: 3_600_000})
	local := func(s string) int64 {
		at, err := time.Parse("2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	for _, c := range [][2]string{{"2024-01-10 11:00", "2024-01-10 12:00"}, {"2024-07-10 10:00", "2024-07-10 12:00"}, {"2024-10-27 00:30", "2024-10-27 02:30"}, {"2024-10-27 01:30", "2024-10-27 02:30"}} {
		if got := times.Local(local(c[0])); got != local(c[1]) {
			t.Errorf("%s is %s there", c[0], time.UnixMilli(got).UTC())
		}
	}
	for _, c := range [][2]string{{"2024-07-10 12:00", "2024-07-10 10:00"}, {"2024-10-27 03:00", "2024-10-27 02:00"}, {"2024-01-10 12:00", "2024-01-10 11:00"}} {
		if got := times.Closed(local(c[0])); got != local(c[1])-1 {
			t.Errorf("windows that end at %s are over at %s", c[0], time.UnixMilli(got).UTC())
		}
	}
	if times.Final(local("2024-07-10 12:00"), local("2024-07-10 10:59")) || !times.Final(local("2024-07-10 12:00"), local("2024-07-10 11:00")) {
		t.Error("lateness in a zone")
	}
	if times.Local(vec.MaxTime) != vec.MaxTime || times.Closed(vec.MinTime) != vec.MinTime {
		t.Error("the ends of time have no zone")
	}
}

func total(w, keys int64, hash uint64, sum string) Total {
	return Total{Window: w, Keys: keys, Hash: hash, Sums: map[string]string{"v": sum}}
}

// TestZone_ClocksAreSet asks, at the hours when clocks are set in New York, when the windows around them are
// over and final.
func TestZone_ClocksAreSet(t *testing.T) {
	ny, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) int64 {
		x, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return x.UnixMilli()
	}
	const hour = 60 * 60 * 1000
	for _, c := range []struct {
		name, end, over string // local; an instant
	}{
		{"the hour before clocks are set forward", "2024-03-10 02:00:00", "2024-03-10 07:00:00"},
		{"the hour after that", "2024-03-10 04:00:00", "2024-03-10 08:00:00"},
		{"an hour that is there twice", "2024-11-03 02:00:00", "2024-11-03 07:00:00"},
		{"the hour before that", "2024-11-03 01:00:00", "2024-11-03 05:00:00"},
		{"the hour after that", "2024-11-03 03:00:00", "2024-11-03 08:00:00"},
		{"any hour", "2024-06-01 12:00:00", "2024-06-01 16:00:00"},
	} {
		for _, late := range []int64{0, hour / 2, hour, 3 * hour} {
			x := Times{Zone: ny, LatenessMs: late}
			end, over := at(c.end), at(c.over)-1
			if x.Over(end, over-1) || !x.Over(end, over) {
				t.Errorf("%s: not over at %s", c.name, c.over)
			}
			if x.Final(end, over+late-1) || !x.Final(end, over+late) {
				t.Errorf("%s: not final %d ms after %s", c.name, late, c.over)
			}
			if x.Final(end, vec.MinTime) || !x.Final(end, vec.MaxTime) {
				t.Errorf("%s: without a watermark, or at the end", c.name)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	want := []Total{total(0, 2, 7, "1.50"), total(10, 1, 8, "2.00"), total(20, 1, 9, "")}
	for _, c := range []struct {
		name    string
		got     []Total
		missed  []connector.MissedWindow
		equal   bool
		differs int
		says    string
	}{
		{"the same", want, nil, true, 0, "EQUAL: 3 windows, 4 keys"},
		{"nothing", nil, nil, false, 3, "NOTHING"},
		{"a sum", []Total{want[0], total(10, 1, 88, "2.25"), want[2]}, nil, false, 1, "sum(v) 2.25, 2.00"},
		{"only a text", []Total{want[0], total(10, 1, 88, "2.00"), want[2]}, nil, false, 1, "no numbers"},
		{"a window more, explained", append(slices.Clone(want), total(30, 1, 1, "1")), []connector.MissedWindow{{Start: 30, End: 40, Rows: 5}}, true, 1, "5 rows came too late there"},
		{"a window more", append(slices.Clone(want), total(30, 1, 1, "1")), []connector.MissedWindow{{Start: 40, End: 50, Rows: 5}}, false, 1, "missing there"},
		{"a window less is never explained", want[:2], []connector.MissedWindow{{Start: 20, End: 30, Rows: 5}}, false, 1, "missing here"},
		{"a run of windows", []Total{want[0], total(10, 2, 88, "3"), want[2]}, []connector.MissedWindow{{Start: 0, End: 20, Rows: 5}, {Start: 90, End: 100, Rows: 1}}, true, 1, "2 keys"},
		{"an overlap explains nothing", []Total{want[0], total(10, 2, 88, "3"), want[2]}, []connector.MissedWindow{{Start: 5, End: 15, Rows: 5}, {Start: 90, End: 100, Rows: 1}}, false, 1, "2 keys"},
	} {
		r := Compare(c.got, want, c.missed, "")
		r.Generation, r.Against, r.From, r.To = "g", "live", vec.MinTime, vec.MaxTime
		var text strings.Builder
		if err := r.Text(&text); err != nil {
			t.Fatal(err)
		}
		if r.Equal() != c.equal || r.Differing != c.differs || !strings.Contains(text.String(), c.says) {
			t.Errorf("%s: %+v\n%s", c.name, r, &text)
		}
	}
	if r := Compare(want, want, nil, ""); r.Sums["v"] != "3.50" || r.AgainstSums["v"] != "3.50" {
		t.Errorf("sums are %v", r.Sums)
	}
}

func TestMayPromote(t *testing.T) {
	record := func(kind string, at int64, doc any) Record {
		b, _ := json.Marshal(doc)
		return Record{Kind: kind, Name: "g", At: at, Document: b}
	}
	equal := Reconciliation{From: 0, To: 100, Passed: true, Against: Live}
	bad := Reconciliation{From: 50, To: 60, Differing: 3, Explained: 1, Against: Live}
	for _, c := range []struct {
		name     string
		records  []Record // newest first
		from, to int64
		why      string
	}{
		{"nothing", nil, 0, 10, "never reconciled"},
		{"of another generation", []Record{{Kind: KindReconcile, Name: "h", Document: []byte("{}")}}, 0, 10, "never reconciled"},
		{"equal", []Record{record(KindReconcile, 5, equal), record(KindBackfill, 4, struct{}{})}, 0, 100, ""},
		{"part of it", []Record{record(KindReconcile, 5, equal)}, 10, 20, ""},
		{"more than that", []Record{record(KindReconcile, 5, equal)}, 10, 120, "only"},
		{"written again", []Record{record(KindBackfill, 6, struct{}{}), record(KindReconcile, 5, equal)}, 10, 20, "written again"},
		{"a backfill that failed", []Record{record(KindBackfill, 6, map[string]string{"error": "disk full"}), record(KindReconcile, 7, equal)}, 10, 20, "disk full"},
		{"a newer one differs", []Record{record(KindReconcile, 6, bad), record(KindReconcile, 5, equal)}, 50, 60, "2 windows"},
		{"a newer one elsewhere", []Record{record(KindReconcile, 6, bad), record(KindReconcile, 5, equal)}, 0, 50, ""},
		{"under way", []Record{record(KindBackfill, 6, Made{Begun: true, Started: time.UnixMilli(6)}), record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{})}, 10, 20, "has not come to its end"},
		{"dropped since", []Record{record(KindPrune, 6, PruneReport{Dropped: []string{"f", "g"}}), record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{})}, 10, 20, "never reconciled"},
		{"another was dropped", []Record{record(KindPrune, 6, PruneReport{Dropped: []string{"f"}}), record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{})}, 10, 20, ""},
		{"would have been dropped", []Record{record(KindPrune, 6, PruneReport{Dropped: []string{"g"}, DryRun: true}), record(KindReconcile, 5, equal)}, 10, 20, ""},
		{"dropped and made again", []Record{record(KindBackfill, 7, Made{Begun: true}), record(KindPrune, 6, PruneReport{Dropped: []string{"g"}}), record(KindReconcile, 5, equal)}, 10, 20, "has not come to its end"},
		{"whole for less", []Record{record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{Windows: []Span{{0, 15}, {15, 18}}})}, 10, 20, "whole for windows from 1970-01-01 00:00:00.000 to 1970-01-01 00:00:00.018 only"},
		{"whole for that", []Record{record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{Windows: []Span{{0, 15}, {15, 20}}})}, 10, 20, ""},
		{"whole for nothing", []Record{record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{Windows: []Span{}})}, 10, 20, "windows none only"},
		{"a job that goes on", []Record{record(KindReconcile, 5, equal), record(KindBackfill, 4, Made{Moving: true})}, 10, 20, "the job goes on"},
		{"conflicts", []Record{record(KindReconcile, 5, Reconciliation{From: 0, To: 100, Conflicts: 2, Against: Live})}, 10, 20, "2 of its keys"},
		{"spans", []Record{record(KindReconcile, 5, Reconciliation{Spans: []Span{{0, 10}, {40, 50}}, From: 0, To: 50, Passed: true})}, 10, 20, "never reconciled"},
		{"in a span", []Record{record(KindReconcile, 5, Reconciliation{Spans: []Span{{0, 10}, {40, 50}}, From: 0, To: 50, Passed: true})}, 42, 50, ""},
		{"damaged", []Record{{Kind: KindReconcile, Name: "g", Document: []byte("x")}}, 0, 10, "not understood"},
	} {
		err := MayPromote(c.records, "g", c.from, c.to)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestToDrop(t *testing.T) {
	v1 := (&Pointer{}).Promote(0, 10, "a")
	v1.At = 1000
	v2 := v1.Promote(0, 10, "b")
	v2.At = 5000
	gens := []Generation{{Name: Live}, {Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	records := []Record{{Kind: KindBackfill, Name: "c", At: 9000}, {Kind: KindBackfill, Name: "d", At: 100}}
	for _, c := range []struct {
		grace time.Duration
		keep  []string
		want  string
	}{{0, nil, "[a c d]"}, {3 * time.Second, nil, "[a d]"}, {6 * time.Second, nil, "[d]"}, {0, []string{"d"}, "[a c]"}} {
		drop, kept := ToDrop(gens, []Pointer{v2, v1}, records, PruneOptions{Grace: c.grace, Keep: c.keep}, 10000)
		if fmt.Sprint(drop) != c.want || kept["b"] != "it is shown" || !strings.Contains(kept["e"], "nobody") {
			t.Errorf("grace %v: drops %v and keeps %v", c.grace, drop, kept)
		}
	}
}

// TestToDrop_MadeAgain keeps what was shown, replaced, and made again since, for the time of grace.
func TestToDrop_MadeAgain(t *testing.T) {
	p := Pointer{}
	v1 := p.Promote(0, 10, "g2")
	v1.At = 1000
	v2 := Pointer{Version: 2, At: 2000}
	records := []Record{{Kind: KindBackfill, Name: "g2", At: 9500}, {Kind: KindBackfill, Name: "g2", At: 500}}
	for grace, want := range map[time.Duration]int{time.Second: 0, 100 * time.Millisecond: 1} {
		drop, kept := ToDrop([]Generation{{Name: "g2"}}, []Pointer{v2, v1}, records, PruneOptions{Grace: grace}, 10000)
		if len(drop) != want {
			t.Errorf("grace %s: dropped %v, kept %v", grace, drop, kept)
		}
	}
}

func TestMeasures(t *testing.T) {
	p := progressAt(4, 9000, 1)
	p.MaxTime = 9500
	got := map[string]float64{}
	for _, m := range MeasureProgress(Times{}, &p, 10500) {
		got[m.Name] = m.Value
	}
	if got["lag_seconds"] != 1.5 || got["source_age_seconds"] != 1 || got["splits_idle"] != 1 {
		t.Errorf("measures are %v", got)
	}
	p.Watermark = vec.MaxTime
	for _, m := range MeasureProgress(Times{}, &p, 10500) {
		if m.Name == "lag_seconds" {
			t.Error("a lag at the end of the input")
		}
	}
}

// TestSettled asks which windows a job can correct no more.
func TestSettled(t *testing.T) {
	const h = 3_600_000
	hour := &connector.WindowGrid{Size: h, Step: h}
	for _, c := range []struct {
		name      string
		times     Times
		grid      *connector.WindowGrid
		watermark int64
		want      int64
	}{
		{"in a window", Times{}, hour, 3*h + 5, 3 * h},
		{"at the last millisecond", Times{}, hour, 4*h - 1, 4 * h},
		{"one before that", Times{}, hour, 4*h - 2, 3 * h},
		{"within the lateness", Times{LatenessMs: h}, hour, 4*h - 1, 3 * h},
		{"hops", Times{}, &connector.WindowGrid{Size: 4 * h, Step: h}, 10*h + 5, 7 * h},
		{"an offset", Times{}, &connector.WindowGrid{Size: h, Step: h, Offset: 600_000}, 3*h + 5, 2*h + 600_000},
		{"cumulating", Times{}, &connector.WindowGrid{Size: 24 * h, Step: h, Cumulative: true}, 30*h + 5, 24 * h},
		{"before the first row", Times{}, hour, vec.MinTime, vec.MinTime},
		{"no grid", Times{LatenessMs: 5}, nil, 100 * h, 100*h - 4},
	} {
		if got := c.times.settled(c.watermark, c.grid); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
	ny, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) int64 {
		x, err := time.Parse("2006-01-02 15:04:05", s)
		if err != nil {
			t.Fatal(err)
		}
		return x.UnixMilli()
	}
	// In the first of two hours from one to two the window of these is not over when its local time is.
	for _, c := range [][2]string{{"2024-11-03 05:59:59", "2024-11-03 01:00:00"}, {"2024-11-03 06:20:00", "2024-11-03 01:00:00"}, {"2024-11-03 07:00:00", "2024-11-03 02:00:00"}} {
		if got := (Times{Zone: ny}).settled(at(c[0]), hour); got != at(c[1]) {
			t.Errorf("%s: %s", c[0], time.UnixMilli(got).UTC())
		}
	}
}

func TestJoin(t *testing.T) {
	got := Join([]Span{{30, 40}, {0, 10}, {5, 5}, {10, 20}, {35, 50}})
	if !slices.Equal(got, []Span{{0, 20}, {30, 50}}) {
		t.Errorf("joined: %v", got)
	}
	if got := (Span{15, 35}).Clip(got); !slices.Equal(got, []Span{{15, 20}, {30, 35}}) {
		t.Errorf("clipped: %v", got)
	}
}

// TestClaim begins backfills of one generation at several places.
func TestClaim(t *testing.T) {
	table := &connector.Table{Name: "t", Results: &connector.Results{Key: []string{"k"}, Column: map[string]string{"revision": "revision", "generation": "generation"}}}
	table.Columns = []types.Field{{Name: "k", Type: types.StringType.NotNull()}, {Name: "revision", Type: types.BigIntType.NotNull()}, {Name: "generation", Type: types.StringType.NotNull()}}
	m, err := NewMemory(table)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(place, run string, at int64) error {
		made := Made{Begun: true, Started: time.UnixMilli(at), Place: place, Run: run}
		return Claim(t.Context(), m, "g", made, made)
	}
	end := func(place string, at int64) {
		b, _ := json.Marshal(Made{Started: time.UnixMilli(at), Place: place})
		if err := m.Note(t.Context(), Record{Kind: KindBackfill, Name: "g", At: at, Document: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := claim("a", "1", 1000); err != nil {
		t.Fatal(err)
	}
	if err := claim("b", "2", 2000); err == nil || !strings.Contains(err.Error(), "keeps its checkpoints in a:") || !strings.Contains(err.Error(), "prune --drop g") {
		t.Errorf("a second one elsewhere: %v", err)
	}
	if err := claim("a", "3", 3000); err != nil {
		t.Errorf("the first goes on after a crash: %v", err)
	}
	end("a", 4000)
	if err := claim("b", "4", 5000); err != nil {
		t.Errorf("behind its end: %v", err)
	}
	if _, err := PruneAll(t.Context(), m, PruneOptions{Drop: []string{"g"}, Before: vec.MinTime}); err != nil {
		t.Fatal(err)
	}
	if err := claim("c", "5", time.Now().UnixMilli()+5); err != nil {
		t.Errorf("behind its being dropped: %v", err)
	}
	if err := claim("c", "6", time.Now().UnixMilli()+6); err != nil {
		t.Errorf("again: %v", err)
	}
}
