package kafka_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// warned reports whether the job has warned of text.
func (x *run) warned(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Contains(strings.Join(x.warns, "\n"), text)
}

// job starts a job from topic t to topic out that takes checkpoints, and goes on from them.
func (r *rig) job(options ...string) *run {
	o := append([]string{"topic", "t", "scan.startup.mode", "earliest-offset", "properties.group.id", "g", "properties.retry.backoff.ms", "20"}, options...)
	return r.start(table("src", "n INT", o...)+table("dst", "n INT", "topic", "out")+"INSERT INTO dst SELECT n FROM src;",
		"execution.checkpointing.interval", "50 ms", "execution.checkpointing.dir", r.dir+"/checkpoints")
}

// until waits until the positions of a job are in a checkpoint and committed for its group, and ends the
// job without another word.
func (r *rig) until(x *run, offsets ...int64) {
	r.t.Helper()
	want := map[int32]int64{}
	for p, at := range offsets {
		want[int32(p)] = at
	}
	r.eventually(func() string {
		select {
		case <-x.done:
			r.t.Fatalf("the job ended: %v", x.err)
		default:
		}
		if got := r.committed("g", "t"); !maps.Equal(got, want) {
			return fmt.Sprintf("committed are %v, want %v", got, want)
		}
		return ""
	})
	x.cancel()
	<-x.done
}

// wrote waits until topic out has these numbers, in any order.
func (r *rig) wrote(want ...string) {
	r.t.Helper()
	byNumber := func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	}
	r.eventually(func() string {
		got := []string{}
		for _, l := range r.read("out") {
			got = append(got, strings.Trim(l[strings.IndexByte(l, ':')+1:], " }"))
		}
		if slices.SortFunc(got, byNumber); !slices.Equal(got, want) {
			return fmt.Sprintf("out has %q, want %q", got, want)
		}
		return ""
	})
}

// refused waits for a job to end with an error, which no restart was tried after.
func (r *rig) refused(x *run, parts ...string) {
	r.t.Helper()
	<-x.done
	for _, p := range parts {
		if x.err == nil || !strings.Contains(x.err.Error(), p) {
			r.t.Errorf("error\n%v\nlacks %q", x.err, p)
		}
	}
	if strings.Contains(strings.Join(x.warns, "\n"), "starts again") {
		r.t.Errorf("the job was started again: %q", x.warns)
	}
}

// ranOnce has a job read 0 to 9, five of each of the two partitions of t, and be killed.
func ranOnce(t *testing.T, options ...string) *rig {
	t.Helper()
	r := newRig(t)
	r.topic("t", 2)
	r.topic("out", 1)
	r.count("t", 2, 0, 10)
	r.until(r.job(options...), 5, 5)
	r.wrote(numbers(0, 9)...)
	return r
}

func TestRestart_NewPartition(t *testing.T) {
	r := ranOnce(t)
	if _, err := r.admin.CreatePartitions(context.Background(), 1, "t"); err != nil {
		t.Fatal(err)
	}
	r.cl.PurgeTopicsFromClient("t") // it knows two partitions
	r.produce("t", rec(2, "-", `{"n":100}`), rec(2, "-", `{"n":101}`), rec(0, "-", `{"n":10}`))
	// Where a job begins says nothing about partitions that came later.
	x := r.job("scan.startup.mode", "latest-offset")
	r.wrote(append(numbers(0, 10), "100", "101")...)
	r.until(x, 6, 5, 2)
}

func TestRestart_NewTopic(t *testing.T) {
	pattern := []string{"topic", "", "topic-pattern", "t.*"}
	r := ranOnce(t, pattern...)
	r.topic("t2", 1)
	r.count("t2", 1, 10, 3)
	x := r.job(append(pattern, "scan.startup.mode", "latest-offset")...)
	r.wrote(numbers(0, 12)...)
	r.until(x, 5, 5)
}

func TestRestart_Vanished(t *testing.T) {
	r := ranOnce(t)
	if err := r.c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	quick := []string{"properties.default.api.timeout.ms", "2500"}
	r.refused(r.job(quick...), "partitions t-0, t-1 do not exist any more", "--fresh")
	r.topic("t", 1)
	r.refused(r.job(quick...), "partition t-1 does not exist any more", "bring it back")
	r.wrote(numbers(0, 9)...)
}

func TestRestart_Retention(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []string
		want    []string
		warning string
	}{
		{"fail", nil, nil, ""},
		{"earliest", []string{"scan.on-data-loss", "earliest"}, strings.Fields("11 13 15 16 17 18 19 30"),
			"table src: 3 records of t-0, from offset 5 on, were deleted before they were read; reading goes on at offset 8, after 3 records"},
		{"latest", []string{"scan.on-data-loss", "latest"}, strings.Fields("11 13 15 17 19 30"),
			"table src: 3 records of t-0, from offset 5 on, were deleted before they were read; reading goes on at offset 10, after 5 records"},
		// A position of a checkpoint is none of the group's.
		{"group", []string{"scan.startup.mode", "group-offsets", "properties.auto.offset.reset", "earliest"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ranOnce(t)
			r.count("t", 2, 10, 10)
			if err := r.c.DeleteRecords("t", 0, 8); err != nil {
				t.Fatal(err)
			}
			x := r.job(c.options...)
			if c.want == nil {
				r.refused(x, "offset 5 of t-0 is not there: 3 records, the offsets 5 to 7", "'scan.on-data-loss' = 'earliest'")
				return
			}
			// All of what there is was read when this comes through.
			r.eventually(func() string {
				if at := r.committed("g", "t"); at[0] != 10 || at[1] != 10 {
					return fmt.Sprintf("committed are %v", at)
				}
				return ""
			})
			r.produce("t", rec(0, "-", `{"n":30}`))
			r.wrote(append(numbers(0, 9), c.want...)...)
			r.until(x, 11, 10)
			if !x.warned(c.warning) {
				t.Errorf("no warning %q", c.warning)
			}
			r.job() // the loss is behind it
			r.produce("t", rec(0, "-", `{"n":31}`))
			r.wrote(append(append(numbers(0, 9), c.want...), "31")...)
		})
	}
}

func TestRestart_TopicMadeAnew(t *testing.T) {
	for _, way := range []string{"fail", "earliest", "latest"} {
		t.Run(way, func(t *testing.T) {
			r := ranOnce(t)
			if err := r.c.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			r.topic("t", 2)
			r.cl.PurgeTopicsFromClient("t") // it knows the other one
			r.produce("t", rec(0, "-", `{"n":20}`), rec(1, "-", `{"n":21}`))
			x := r.job("scan.on-data-loss", way)
			if way == "fail" {
				r.refused(x, "offset 5 of t-", "is not there: the partition ends at offset 1", "made anew", "--fresh")
				return
			}
			r.eventually(func() string {
				if at := r.committed("g", "t"); at[0] != 1 || at[1] != 1 {
					return fmt.Sprintf("committed are %v", at)
				}
				return ""
			})
			r.produce("t", rec(1, "-", `{"n":30}`))
			if way == "earliest" {
				r.wrote(append(numbers(0, 9), "20", "21", "30")...)
			} else {
				r.wrote(append(numbers(0, 9), "30")...)
			}
			r.until(x, 1, 2)
			if !x.warned("offset 5 of t-1 is beyond its end, 1") {
				t.Error("no warning")
			}
		})
	}
}

func TestRestart_GroupOffsets(t *testing.T) {
	r := ranOnce(t)
	r.count("t", 2, 10, 10)
	group := []string{"scan.startup.mode", "group-offsets"}
	run := func(options ...string) *run { // a job without checkpoints, which commits where it ended
		r.commit("g", "t", 5, 5)
		return r.start(table("src", "n INT", append([]string{"topic", "t", "properties.group.id", "g", "scan.bounded.mode", "latest-offset"},
			append(group, options...)...)...) + "SELECT n FROM src;")
	}
	x := run()
	<-x.done
	if x.err != nil {
		t.Fatal(x.err)
	}
	r.equal(x.sorted(), numbers(10, 19)...)

	if err := r.c.DeleteRecords("t", 1, 7); err != nil {
		t.Fatal(err)
	}
	r.refused(run(), "offset 5 of t-1 is not there: 2 records, the offsets 5 to 6")
	x = run("properties.auto.offset.reset", "earliest")
	<-x.done
	r.equal(x.sorted(), strings.Fields("10 12 14 15 16 17 18 19")...)
	x = run("properties.auto.offset.reset", "latest")
	<-x.done
	r.equal(x.sorted(), strings.Fields("10 12 14 16 18")...)
	x = run("properties.auto.offset.reset", "latest", "scan.on-data-loss", "earliest") // what the table says counts more
	<-x.done
	r.equal(x.sorted(), strings.Fields("10 12 14 15 16 17 18 19")...)
	r.refused(run("properties.auto.offset.reset", "none"), "offset 5 of t-1 is not there")
	r.refused(run("properties.group.id", "nobody"), "group 'nobody' has committed no offset for t-0", "auto.offset.reset")
	r.refused(run("properties.group.id", "nobody", "properties.auto.offset.reset", "first"), "cannot be 'first'")
}

// TestRestart_MadeAnewMeanwhile makes a topic anew while it is read: nothing of the new one would come.
func TestRestart_MadeAnewMeanwhile(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.topic("out", 1)
	r.count("t", 1, 0, 5)
	x := r.job("properties.metadata.max.age.ms", "100", "scan.on-data-loss", "earliest")
	r.wrote(numbers(0, 4)...)
	if err := r.c.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	r.topic("t", 1)
	r.refused(x, "topic 't'")
	r.wrote(numbers(0, 4)...)
}
