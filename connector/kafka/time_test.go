package kafka_test

import (
	"fmt"
	"strings"
	"testing"
)

// at makes a record whose event time is s seconds after midnight.
func at(v string, s int) string {
	return fmt.Sprintf(`{"v":"%s","ts":"2024-01-01 00:%02d:%02d"}`, v, s/60, s%60)
}

const eventCols = "v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"

const perMinute = "SELECT DATE_FORMAT(window_start, 'mm') AS m, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) " +
	"GROUP BY window_start, window_end;"

// reads waits until the job has read n rows, and nothing of them waits in it.
func (x *run) reads(n int64) {
	x.r.t.Helper()
	x.r.eventually(func() string {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.jobs) == 0 {
			return "the job has not begun"
		}
		if s := x.jobs[len(x.jobs)-1].Status(); s.RowsRead < n || s.Queued > 0 {
			return fmt.Sprintf("%d rows of %d were read, %d bytes wait", s.RowsRead, n, s.Queued)
		}
		return ""
	})
}

// TestTime_IdlePartitions closes windows when a partition is quiet, if it is told to.
func TestTime_IdlePartitions(t *testing.T) {
	r := newRig(t)
	r.topic("t", 3)
	r.produce("t", rec(0, "-", at("a", 10)), rec(1, "-", at("b", 20)), rec(0, "-", at("c", 70)), rec(0, "-", at("d", 130)))
	stay := r.start(table("t", eventCols, "scan.startup.mode", "earliest-offset", "scan.watermark.idle-timeout", "0 s") + perMinute)
	idle := r.start(table("t", eventCols, "scan.startup.mode", "earliest-offset", "scan.watermark.idle-timeout", "1 s") + perMinute)
	global := r.start(table("t", eventCols, "scan.startup.mode", "earliest-offset")+perMinute, "table.exec.source.idle-timeout", "1 s")
	idle.wait("00 | 2", "01 | 1")
	global.wait("00 | 2", "01 | 1")
	stay.reads(4)
	stay.wait() // partition 2 may still send anything
	// The quiet ones speak again: partition 1 is behind, so the watermark waits for it again.
	r.produce("t", rec(1, "-", at("e", 140)), rec(2, "-", at("f", 150)))
	idle.reads(6)
	global.reads(6)
	r.produce("t", rec(0, "-", at("g", 200)))
	stay.wait("00 | 2", "01 | 1")
	idle.wait("00 | 2", "01 | 1", "02 | 3") // after the timeout
	for _, x := range []*run{stay, idle, global} {
		x.stop()
	}
}

// TestTime_Late judges rows by the combined watermark of the partitions, wherever they are read.
func TestTime_Late(t *testing.T) {
	for _, par := range []string{"1", "2"} {
		t.Run("parallelism "+par, func(t *testing.T) {
			r := newRig(t)
			r.topic("t", 2)
			x := r.start(table("t", eventCols, "scan.startup.mode", "earliest-offset", "scan.watermark.idle-timeout", "0 s")+perMinute, "parallelism.default", par)
			r.produce("t", rec(0, "-", at("a", 10)), rec(0, "-", at("b", 300)))
			r.produce("t", rec(1, "-", at("c", 20)), rec(1, "-", at("d", 70)))
			x.wait("00 | 2") // the watermark is 70 s, that of partition 1
			// Far behind its own partition's watermark, but not behind the combined one; and one that is late.
			r.produce("t", rec(0, "-", at("e", 90)), rec(0, "-", at("late", 30)))
			x.reads(6)
			r.produce("t", rec(1, "-", at("f", 130)))
			x.wait("00 | 2", "01 | 2")
			x.stop()
			if n := x.reports[0].Late; n != 1 {
				t.Errorf("%d late rows, want 1", n)
			}
		})
	}
}

// TestTime_Bounded reads history in the order of event time: nothing is late, however the
// partitions lie.
func TestTime_Bounded(t *testing.T) {
	r := newRig(t)
	r.topic("t", 3)
	for p := range int32(3) {
		for s := range 100 {
			r.produce("t", rec(p, "-", at("x", s*int(p+1))))
		}
	}
	for _, par := range []string{"1", "3"} {
		got := r.rows(table("t", eventCols, all...)+perMinute, "parallelism.default", par)
		if want := "00 | 110\n01 | 90\n02 | 50\n03 | 30\n04 | 20"; strings.Join(got, "\n") != want {
			t.Errorf("parallelism %s: got %v", par, got)
		}
	}
}
