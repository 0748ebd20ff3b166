package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/exec/op"
	"github.com/tidemark-stream/tidemark/job"
	"github.com/tidemark-stream/tidemark/plan"
	"github.com/tidemark-stream/tidemark/vec"
)

// metric describes one metric with its labels.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

var all []metric

func describe(kind prometheus.ValueType, name, help string, labels ...string) metric {
	m := metric{prometheus.NewDesc(name, help, append([]string{"job_name"}, labels...), nil), kind}
	all = append(all, m)
	return m
}

// The scopes of Flink's reporter, whose names come before those of its metrics.
const (
	scopeJob      = "flink_jobmanager_job_"
	scopeTask     = "flink_taskmanager_job_task_"
	scopeOperator = scopeTask + "operator_"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
	// histogram is of metrics that are made of buckets.
	histogram = prometheus.UntypedValue
)

func jobMetric(kind prometheus.ValueType, name, help string) metric {
	return describe(kind, scopeJob+name, help)
}

func taskMetric(name, help string) metric {
	return describe(gauge, scopeTask+name, help, "task_id", "task_name", "subtask_index")
}

func operatorMetric(kind prometheus.ValueType, name, help string) metric {
	return describe(kind, scopeOperator+name, help, "operator_id", "operator_name", "subtask_index")
}

// Metrics that Flink has.
var (
	uptime         = jobMetric(gauge, "uptime", "Time since the last start, ms.")
	numRestarts    = jobMetric(counter, "numRestarts", "How often the job was started again.")
	completed      = jobMetric(counter, "numberOfCompletedCheckpoints", "Checkpoints and savepoints that were completed.")
	failed         = jobMetric(counter, "numberOfFailedCheckpoints", "Checkpoints and savepoints that failed.")
	lastDuration   = jobMetric(gauge, "lastCheckpointDuration", "From the start of the last checkpoint to its end, ms.")
	lastSize       = jobMetric(gauge, "lastCheckpointSize", "Bytes that the last checkpoint wrote.")
	lastCompleted  = jobMetric(gauge, "lastCompletedCheckpointId", "Number of the last checkpoint.")
	busyTime       = taskMetric("busyTimeMsPerSecond", "Time that the subtask worked, ms a second.")
	backPressured  = taskMetric("backPressuredTimeMsPerSecond", "Time that the subtask waited for those after it, ms a second.")
	idleTime       = taskMetric("idleTimeMsPerSecond", "Time that the subtask had nothing to do, ms a second.")
	recordsIn      = operatorMetric(counter, "numRecordsIn", "Rows taken in; of a source, rows decoded.")
	recordsOut     = operatorMetric(counter, "numRecordsOut", "Rows given out.")
	recordsInRate  = operatorMetric(gauge, "numRecordsInPerSecond", "Rows taken in a second.")
	recordsOutRate = operatorMetric(gauge, "numRecordsOutPerSecond", "Rows given out a second.")
	recordsSend    = operatorMetric(counter, "numRecordsSend", "Rows given to the target of a sink.")
	lateDropped    = operatorMetric(counter, "numLateRecordsDropped", "Rows that came behind the watermark and were dropped.")
	watermarkIn    = operatorMetric(gauge, "currentInputWatermark", "Lowest watermark that came in, ms; -9223372036854775808 before the first.")
	watermarkOut   = operatorMetric(gauge, "currentOutputWatermark", "Watermark passed on last, ms; -9223372036854775808 before the first.")
	watermarkLag   = describe(gauge, scopeOperator+"watermarkLag", "How far the watermark of a source is behind the clock, ms.",
		"operator_id", "operator_name")
	pendingRecords = describe(gauge, scopeOperator+"pendingRecords", "Records of a source that were not read yet.", "operator_id", "operator_name")
	pendingBytes   = describe(gauge, scopeOperator+"pendingBytes", "Bytes of a source that were not read yet.", "operator_id", "operator_name")
	bytesIn        = describe(counter, scopeOperator+"numBytesIn", "Bytes read by a source.", "operator_id", "operator_name")
	recordsInError = describe(counter, scopeOperator+"numRecordsInErrors", "Records of a source that could not be decoded and were skipped.",
		"operator_id", "operator_name")
)

// Metrics that only Tidemark has.
var (
	up              = describe(gauge, "tidemark_job_running", "1 while the job runs, 0 while it waits to be started again and after its end.")
	checkpointPause = describe(gauge, "tidemark_checkpoint_pause_seconds", "How long rows stood still for the last checkpoint.")
	checkpointReqs  = describe(gauge, "tidemark_checkpoint_requests", "Requests to the store that the last checkpoint took.")
	checkpointAge   = describe(gauge, "tidemark_checkpoint_age_seconds", "Time since the start of the last checkpoint.")
	stateBytes      = describe(gauge, "tidemark_state_bytes", "Bytes of state.", "operator_id", "operator_name", "subtask_index")
	stateEntries    = describe(gauge, "tidemark_state_entries", "Entries of state.", "operator_id", "operator_name", "subtask_index")
	dropped         = describe(counter, "tidemark_rows_dropped_total", "Rows that were not used, by reason.", "operator_id", "operator_name", "reason")
	deadLetters     = describe(counter, "tidemark_dead_letters_total", "Records and rows that went to the dead-letter output.")
	queued          = describe(gauge, "tidemark_queued_bytes", "Bytes in channels to the subtask.", "task_id", "task_name", "subtask_index")
	splitWatermark  = describe(gauge, "tidemark_split_watermark_seconds", "Watermark of a split that has not ended, seconds since 1970.",
		"table", "split")
	splitIdle  = describe(gauge, "tidemark_split_idle", "1 where a split that has not ended is idle.", "table", "split")
	splitsDone = describe(counter, "tidemark_splits_done_total", "Splits read to their end.")
	lateBy     = describe(histogram, "tidemark_late_seconds", "By how much rows missed a window; a row that missed several counts once, by the one that it missed by most.",
		"operator_id", "operator_name")
)

// maxSplits is how many splits of a job have series of their own: there may be very many files.
const maxSplits = 200

// collector makes metrics of what jobs say when they are asked.
type collector struct{ s *Server }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range all {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range c.s.look() {
		e := emitter{ch: ch, job: l.w.name}
		e.job1(&l)
		e.splits(&l)
		for i := range l.now.Nodes {
			e.node(&l, i)
		}
		for _, s := range l.now.Sources {
			e.source(&l, s)
		}
		for t, x := range l.now.Tasks {
			e.task(&l, t, x)
		}
	}
}

// emitter emits the metrics of one job.
type emitter struct {
	ch  chan<- prometheus.Metric
	job string
}

func (e emitter) add(m metric, v float64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, append([]string{e.job}, labels...)...)
}

func (e emitter) count(m metric, v int64, labels ...string) { e.add(m, float64(v), labels...) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// job1 emits what there is once a job.
func (e emitter) job1(l *look) {
	running := 0.0
	if !l.ended && !l.now.Ended {
		running = 1
	}
	e.add(up, running)
	e.add(uptime, ms(l.now.Elapsed))
	e.count(numRestarts, int64(l.restarts))
	e.count(deadLetters, l.now.Dead)
	if !l.saves {
		return
	}
	c := l.checkpoints
	e.count(completed, c.Completed)
	e.count(failed, c.Failed)
	if c.Last == 0 {
		return
	}
	e.count(lastCompleted, c.Last)
	e.add(lastDuration, ms(c.LastTook))
	e.count(lastSize, c.LastBytes)
	e.add(checkpointPause, c.LastPause.Seconds())
	e.count(checkpointReqs, c.LastRequests)
	e.add(checkpointAge, l.at.Sub(c.LastAt).Seconds())
}

func (e emitter) splits(l *look) {
	e.count(splitsDone, int64(l.now.SplitsDone))
	seen := map[[2]string]bool{} // a table may be read twice
	for _, s := range l.now.Splits {
		k := [2]string{s.Table, s.Split}
		if seen[k] || len(seen) == maxSplits {
			continue
		}
		seen[k] = true
		if known(s.Watermark) {
			e.add(splitWatermark, float64(s.Watermark)/1000, s.Table, s.Split)
		}
		idle := 0.0
		if s.Idle {
			idle = 1
		}
		e.add(splitIdle, idle, s.Table, s.Split)
	}
}

func (e emitter) node(l *look, i int) {
	b := &l.now.Nodes[i]
	id, name := strconv.Itoa(b.Node.ID), b.Node.Label
	_, sink := b.Node.Op.(*plan.Sink)
	for k, x := range b.Subtasks {
		sub := strconv.Itoa(k)
		var was job.SubtaskBooks
		if i < len(l.rate.status.Nodes) && k < len(l.rate.status.Nodes[i].Subtasks) {
			was = l.rate.status.Nodes[i].Subtasks[k]
		}
		e.count(recordsIn, x.RowsIn, id, name, sub)
		e.add(recordsInRate, l.perSecond(x.RowsIn, was.RowsIn), id, name, sub)
		if sink {
			e.count(recordsSend, x.RowsIn, id, name, sub)
		} else {
			e.count(recordsOut, x.RowsOut, id, name, sub)
			e.add(recordsOutRate, l.perSecond(x.RowsOut, was.RowsOut), id, name, sub)
		}
		e.count(lateDropped, x.Late, id, name, sub)
		if l.now.Timed {
			if len(b.Node.Inputs) > 0 {
				e.count(watermarkIn, inputWatermark(&l.now, i), id, name, sub)
			}
			if !sink {
				e.count(watermarkOut, x.Watermark, id, name, sub)
			}
		}
		if b.StateEntries > 0 || b.StateBytes > 0 || b.Node.StateGrowth != "" {
			e.count(stateBytes, x.StateBytes, id, name, sub)
			e.count(stateEntries, x.StateEntries, id, name, sub)
		}
	}
	if _, ok := b.Node.Op.(*plan.WindowAgg); ok {
		e.late(&b.LateBy, id, name)
	}
	reasons(b, func(why op.DropReason, n int64) {
		e.count(dropped, n, id, name, strings.ReplaceAll(why.String(), " ", "_"))
	})
}

// late emits by how much rows were late for the windows of an operator.
func (e emitter) late(l *op.LateBy, labels ...string) {
	buckets, n := map[float64]uint64{}, uint64(0)
	for i, bound := range connector.LateBounds {
		n += uint64(l.Rows[i])
		buckets[float64(bound)/1000] = n
	}
	e.ch <- prometheus.MustNewConstHistogram(lateBy.desc, uint64(l.Count()), float64(l.SumMs)/1000, buckets, append([]string{e.job}, labels...)...)
}

func (e emitter) source(l *look, s job.SourceStatus) {
	id, name := strconv.Itoa(s.Node.ID), s.Node.Label
	e.count(bytesIn, s.Bytes, id, name)
	e.count(recordsInError, s.Skipped, id, name)
	switch {
	case s.Lag < 0:
	case s.Unit == "bytes":
		e.count(pendingBytes, s.Lag, id, name)
	default:
		e.count(pendingRecords, s.Lag, id, name)
	}
	if wm := l.now.Nodes[s.Node.ID].Watermark; known(wm) && wm < vec.MaxTime {
		e.add(watermarkLag, ms(l.at.Sub(time.UnixMilli(wm))), id, name)
	}
}

func (e emitter) task(l *look, t int, x job.TaskStatus) {
	var names []string
	for _, n := range x.Nodes {
		names = append(names, n.Label)
	}
	id, name := strconv.Itoa(t), strings.Join(names, " -> ")
	for i, s := range l.shares(t) {
		sub := strconv.Itoa(i)
		e.add(busyTime, 1000*s.busy, id, name, sub)
		e.add(backPressured, 1000*s.backpressured, id, name, sub)
		e.add(idleTime, 1000*s.idle, id, name, sub)
		e.count(queued, x.Queued[i], id, name, sub)
	}
}
