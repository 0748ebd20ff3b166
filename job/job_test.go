package job_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	_ "github.com/tidemark-stream/tidemark/connector/standard" // formats and files
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// readings is a plan that reads (k BIGINT, ts TIMESTAMP(3)) from path, exchanges by k where keyed,
// and collects.
func readings(path string, dist plan.Distribution, ordered bool, options map[string]string) *plan.Plan {
	k := types.Field{Name: "k", Type: types.BigIntType}
	ts := types.Field{Name: "ts", Type: types.TimestampType(3)}
	t := &connector.Table{Name: "readings", Connector: "filesystem", Columns: []types.Field{k, ts},
		Options: map[string]string{"connector": "filesystem", "path": path, "format": "json"}}
	for o, v := range options {
		t.Options[o] = v
	}
	cols := []expr.Expr{&expr.Column{Index: 0, Name: "k", T: k.Type}, &expr.Column{Index: 1, Name: "ts", T: ts.Type}}
	s := types.NewSchema(k, ts)
	src := &plan.Node{ID: 0, Schema: s, Mode: types.InsertOnly, RowTime: 1, NeedStamps: true, NeedPos: true, Label: "Source",
		Op: &plan.Source{Table: t, Columns: []int{0, 1}, Project: cols, RowTime: 1, Limit: -1,
			Watermark: &expr.Call{Fn: "CAST", T: types.BigIntType, Args: []expr.Expr{cols[0]}}}}
	src.Op.(*plan.Source).Watermark = cols[0] // the key is the watermark: easy to say in a test
	calc := &plan.Node{ID: 1, Schema: s, Mode: types.InsertOnly, RowTime: 1, Label: "Calc", Op: &plan.Calc{},
		Inputs: []plan.Edge{{From: 0, Dist: dist, Keys: []int{0}, Ordered: ordered}}}
	sink := &plan.Node{ID: 2, Schema: s, Mode: types.InsertOnly, RowTime: -1, Label: "Sink", Op: &plan.Sink{Collect: true},
		Inputs: []plan.Edge{{From: 1}}}
	return &plan.Plan{Nodes: []*plan.Node{src, calc, sink}}
}

func write(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func rec(k int) string { return fmt.Sprintf(`{"k":%d,"ts":"2024-01-01 00:00:00.000"}`, k) }

// collect runs p and returns k@stamp of every row, in the order of arrival.
func collect(t *testing.T, p *plan.Plan, o job.Options) ([]string, *job.Report, error) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	o.Collect = func(_ *plan.Node, b *vec.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		b.Each(func(i int) {
			s := "-"
			if st := b.Stamp(i); st != vec.MinTime {
				s = fmt.Sprint(st)
			}
			got = append(got, fmt.Sprintf("%d@%s", b.Cols[0].I64[i], s))
		})
		return nil
	}
	j, err := job.Start(context.Background(), p, o)
	if err != nil {
		return nil, nil, err
	}
	r, err := j.Wait()
	return got, r, err
}

func TestJob_StampsBySplit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", rec(10), rec(5), rec(30))
	for _, batch := range []int{1, 2, 100} {
		got, r, err := collect(t, readings(dir, plan.Forward, false, nil), job.Options{BatchRows: batch})
		if err != nil {
			t.Fatal(err)
		}
		if s := strings.Join(got, " "); s != "10@- 5@10 30@10" {
			t.Errorf("batch %d: %s", batch, s)
		}
		if len(r.Unbalanced) > 0 || r.RowsRead != 3 || r.RowsOut != 3 {
			t.Errorf("batch %d: %v, read %d, out %d", batch, r.Unbalanced, r.RowsRead, r.RowsOut)
		}
	}
}

func TestJob_OrderedMergeIsTheSameForEveryParallelism(t *testing.T) {
	dir := t.TempDir()
	var lines [5][]string
	x := uint64(1)
	for i := range 3000 {
		x = x*6364136223846793005 + 1442695040888963407
		f := int(x>>33) % 5
		lines[f] = append(lines[f], rec(i-int(x>>40)%50))
	}
	for f, ls := range lines {
		write(t, dir, fmt.Sprintf("%d.json", f), ls...)
	}
	var first string
	for _, par := range []int{1, 2, 3} {
		for _, batch := range []int{1, 7, 512} {
			p := readings(dir, plan.Single, true, nil)
			got, _, err := collect(t, p, job.Options{Parallelism: par, BatchRows: batch})
			if err != nil {
				t.Fatal(err)
			}
			s := strings.Join(got, " ")
			if first == "" {
				first = s
			}
			if s != first {
				want := strings.Split(first, " ")
				for i := range got {
					if i >= len(want) || got[i] != want[i] {
						t.Fatalf("parallelism %d, batch %d: row %d of %d is %s, want %s", par, batch, i, len(got), got[i], want[min(i, len(want)-1)])
					}
				}
				t.Fatalf("parallelism %d, batch %d: %d rows of %d", par, batch, len(got), len(want))
			}
		}
	}
}

// TestJob_SubtasksWaitForOneAnother reads splits that differ in length, begin at the same time and
// show their watermark late, each a multiple of what a subtask may be ahead: all must end.
func TestJob_SubtasksWaitForOneAnother(t *testing.T) {
	dir := t.TempDir()
	rows := 0
	for f := range 7 {
		var lines []string
		for i := range 100 * (f + 1) {
			lines = append(lines, rec(i/(f%3+1)))
		}
		rows += len(lines)
		write(t, dir, fmt.Sprintf("%d.json", f), lines...)
	}
	for _, gap := range []string{"1", "10", "1000"} {
		for _, ordered := range []bool{false, true} {
			p := readings(dir, plan.Hash, ordered, map[string]string{"scan.watermark.emit.on-event.gap": gap})
			got, r, err := collect(t, p, job.Options{Parallelism: 3, BatchRows: 1})
			if err != nil || len(got) != rows || len(r.Unbalanced) > 0 {
				t.Fatalf("gap %s, ordered %t: %d rows of %d, %v, %v", gap, ordered, len(got), rows, r.Unbalanced, err)
			}
		}
	}
}

func TestJob_HashKeepsEveryRow(t *testing.T) {
	dir := t.TempDir()
	for f := range 4 {
		var lines []string
		for i := range 2500 {
			lines = append(lines, rec(f*2500+i))
		}
		write(t, dir, fmt.Sprintf("%d.json", f), lines...)
	}
	got, r, err := collect(t, readings(dir, plan.Hash, false, nil), job.Options{Parallelism: 3, BatchRows: 100})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range got {
		k, _, _ := strings.Cut(g, "@")
		seen[k] = true
	}
	if len(got) != 10000 || len(seen) != 10000 || len(r.Unbalanced) > 0 {
		t.Errorf("%d rows, %d different; %v", len(got), len(seen), r.Unbalanced)
	}
}

func TestJob_ManyFilesWaitForTheirTurn(t *testing.T) {
	dir := t.TempDir()
	const files = 150
	for f := range files {
		write(t, dir, fmt.Sprintf("%03d.json", f), rec(f*10), rec(f*10+1), rec(f*10+2))
	}
	got, _, err := collect(t, readings(dir, plan.Forward, false, nil), job.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3*files {
		t.Fatalf("%d rows", len(got))
	}
	for i := 3; i < len(got); i += 3 {
		if !strings.HasPrefix(got[i], fmt.Sprintf("%d@", i/3*10)) {
			t.Fatalf("row %d is %s: files are not read in the order of their time", i, got[i])
		}
	}
}

func TestJob_BadRecord(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", rec(1), `{"k": oops`, rec(2), `{"k":3,"ts":null}`)
	_, _, err := collect(t, readings(dir, plan.Forward, false, nil), job.Options{})
	if err == nil || !strings.Contains(err.Error(), "a.json, byte 39") || !strings.Contains(err.Error(), "dead-letter.path") {
		t.Errorf("the job does not say where it stopped and what to do: %v", err)
	}
	dead := filepath.Join(dir, "_dead")
	got, r, err := collect(t, readings(dir, plan.Forward, false, map[string]string{"dead-letter.path": dead}), job.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "1@- 2@1" {
		t.Errorf("rows %s", s)
	}
	src := r.Nodes[0]
	if src.RowsIn != 4 || src.RowsOut != 2 || src.Drops[op.DropDeadLetter] != 2 || len(r.Unbalanced) > 0 {
		t.Errorf("books: in %d, out %d, dead %d, %v", src.RowsIn, src.RowsOut, src.Drops[op.DropDeadLetter], r.Unbalanced)
	}
	files, _ := filepath.Glob(dead + "/*.jsonl")
	if len(files) != 1 {
		t.Fatalf("dead-letter files: %v", files)
	}
	text, _ := os.ReadFile(files[0])
	for _, want := range []string{`"record":"{\"k\": oops"`, `"position":39`, `"split":`, `event time is NULL`, `"record":"{\"k\":3,\"ts\":null}"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the dead letters lack %s:\n%s", want, text)
		}
	}
}

func TestJob_WatchedFolderStops(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", rec(1))
	p := readings(dir, plan.Forward, false, map[string]string{"source.monitor-interval": "1 ms"})
	rows := make(chan int, 10)
	j, err := job.Start(context.Background(), p, job.Options{Collect: func(_ *plan.Node, b *vec.Batch) error {
		rows <- b.Rows()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-rows
	write(t, dir, ".b", rec(2), rec(3))
	if err := os.Rename(filepath.Join(dir, ".b"), filepath.Join(dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	if n := <-rows; n != 2 {
		t.Errorf("%d rows of the new file", n)
	}
	j.Stop()
	r, err := j.Wait()
	if err != nil || !r.Stopped || r.RowsOut != 3 {
		t.Errorf("stopped %v, %d rows out, %v", r.Stopped, r.RowsOut, err)
	}
}

func TestJob_ComputedColumnsOfSeveralSplits(t *testing.T) {
	dir := t.TempDir()
	for f := range 3 {
		var lines []string
		for i := range 40 + f*10 {
			lines = append(lines, rec(i*3+f))
		}
		write(t, dir, fmt.Sprintf("%d.json", f), lines...)
	}
	for _, ordered := range []bool{false, true} {
		p := readings(dir, plan.Forward, ordered, nil)
		src := p.Nodes[0].Op.(*plan.Source)
		k := src.Project[0]
		plus, err := expr.Resolve("+", []expr.Expr{k, &expr.Literal{Value: int64(1000), T: types.BigIntType.NotNull()}}, &expr.Env{}, expr.Pos{})
		if err != nil {
			t.Fatal(err)
		}
		s := types.NewSchema(append(append([]types.Field{}, p.Nodes[0].Schema.Fields...), types.Field{Name: "k2", Type: plus.Type()})...)
		src.Project = append(src.Project, plus)
		for _, n := range p.Nodes {
			n.Schema = s
		}
		rows := 0
		j, err := job.Start(context.Background(), p, job.Options{BatchRows: 7, Collect: func(_ *plan.Node, b *vec.Batch) error {
			b.Each(func(i int) {
				rows++
				if b.Cols[2].I64[i] != b.Cols[0].I64[i]+1000 {
					t.Errorf("k = %d, k + 1000 = %d", b.Cols[0].I64[i], b.Cols[2].I64[i])
				}
			})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Wait(); err != nil || rows != 150 {
			t.Errorf("%d rows, %v", rows, err)
		}
	}
}

func TestJob_ManyNewFilesAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", rec(0))
	p := readings(dir, plan.Forward, false, map[string]string{"source.monitor-interval": "1 ms"})
	var mu sync.Mutex
	rows, all := 0, make(chan struct{})
	j, err := job.Start(context.Background(), p, job.Options{Collect: func(_ *plan.Node, b *vec.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if rows += b.Rows(); rows == 301 {
			close(all)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	aside := t.TempDir() // a file that is read while it is being written has no end yet
	for i := range 300 {
		name := fmt.Sprintf("b%03d.json", i)
		write(t, aside, name, rec(i))
		if err := os.Rename(filepath.Join(aside, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Errorf("only %d of 301 rows came", rows)
	}
	j.Stop()
	if r, err := j.Wait(); err != nil || !r.Stopped {
		t.Errorf("stop: %v", err)
	}
}

func TestJob_PeriodicWatermarks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", rec(1), rec(2), rec(3), rec(4))
	p := readings(dir, plan.Forward, false, map[string]string{"scan.watermark.emit.strategy": "on-periodic"})
	got, _, err := collect(t, p, job.Options{BatchRows: 2, WatermarkInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "1@- 2@- 3@2 4@2" {
		t.Errorf("shown between batches, once an hour: %s", s)
	}
	got, _, err = collect(t, p, job.Options{BatchRows: 2})
	if s := strings.Join(got, " "); err != nil || s != "1@- 2@1 3@2 4@3" {
		t.Errorf("with an interval of 0: %s, %v", s, err)
	}
}
