package job

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFullChannels goes through what may be sent when.
func TestFullChannels(t *testing.T) {
	in := newInbox()
	plain, a, b := in.addChannel(), in.addChannel(), in.addChannel()
	in.merged([]int{a, b})
	send := func(channel int, bytes int64) {
		t.Helper()
		if in.full(message{channel: channel, bytes: bytes}) || !in.send(message{channel: channel, bytes: bytes}, &stopwatch{}) {
			t.Fatalf("channel %d does not take %d bytes", channel, bytes)
		}
	}
	full := func(why string, channel int) {
		t.Helper()
		if !in.full(message{channel: channel, bytes: 1}) {
			t.Fatalf("channel %d takes more: %s", channel, why)
		}
	}
	take := func(want int) []message {
		t.Helper()
		got := in.take(nil)
		if len(got) != want {
			t.Fatalf("took %d messages, want %d", len(got), want)
		}
		return got
	}

	send(plain, channelBytes+1) // one is always let through
	full("it holds enough", plain)
	send(a, channelBytes-1)
	send(a, 1)
	full("the receiver has not looked", a)
	send(b, channelBytes)
	got := take(4)
	full("the receiver looks", a)
	full("the receiver looks", b)
	take(0)
	// All that it keeps waits for one of the two, which may wait for the other to go on.
	send(a, 1)
	full("the receiver has not looked at what came last", a)
	full("the receiver has not looked at what came last", b)
	full("what it holds is not given back", plain)
	in.done(got[0])
	send(plain, channelBytes)
	take(2)
	in.done(got[3])
	full("the receiver looks", a)
	send(b, channelBytes)
	in.close()
	if in.send(message{channel: a, bytes: 1}, &stopwatch{}) {
		t.Fatal("a closed inbox took a message")
	}
}

// TestSenderWakes has a sender wait for the receiver of an ordered input to look around.
func TestSenderWakes(t *testing.T) {
	in := newInbox()
	a, b := in.addChannel(), in.addChannel()
	in.merged([]int{a, b})
	const messages = 100
	go func() {
		for range messages {
			in.send(message{channel: a, bytes: channelBytes}, &stopwatch{})
		}
	}()
	for got := 0; got < messages; {
		<-in.ready
		n := len(in.take(nil))
		if n > 1 {
			t.Fatalf("%d messages of a full channel at once", n)
		}
		got += n
		in.take(nil) // all seen, nothing given back
	}
}

// TestSend_WaitingIsTheSenders has a sender wait for room: the time is its own, also before it is over.
func TestSend_WaitingIsTheSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInbox()
		c := in.addChannel()
		var waited stopwatch
		full := message{channel: c, bytes: channelBytes}
		in.send(full, &waited)
		if d := waited.read(); d != 0 {
			t.Fatalf("%s before there was anything to wait for", d)
		}
		go in.send(full, &waited)
		synctest.Wait()
		time.Sleep(3 * time.Second)
		if d := waited.read(); d != 3*time.Second {
			t.Errorf("%s after three seconds of waiting", d)
		}
		in.done(in.take(nil)[0])
		synctest.Wait()
		time.Sleep(3 * time.Second)
		if d := waited.read(); d != 3*time.Second {
			t.Errorf("%s after it was over", d)
		}
	})
}
