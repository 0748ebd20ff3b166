package engine

import (
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	ny, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, local, instant, refused string }{
		{"2013-01-31", "2013-01-31 00:00:00", "2013-01-31 05:00:00", ""},
		{" 2013-07-31T12:30 ", "2013-07-31 12:30:00", "2013-07-31 16:30:00", ""},
		{"2013-01-31 12:30:01.25", "2013-01-31 12:30:01.250", "2013-01-31 17:30:01.250", ""},
		{"1359633600000", "2013-01-31 12:00:00", "2013-01-31 12:00:00", ""},
		{"2013-01-03T00:00:00Z", "", "2013-01-03 00:00:00", "'2013-01-03 00:00:00'"},
		{"2013-01-03 08:00:00+05:30", "", "2013-01-03 02:30:00", "'2013-01-03 08:00:00'"},
		{"2013-01-03 08:00 -0500", "", "2013-01-03 13:00:00", "'2013-01-03 08:00:00'"},
		{"2013-02-31", "", "", "is no time"},
		{"noon", "", "", "is no time"},
		{"20130131", "", "", "is no time"},
	} {
		ms, err := ParseTime(c.text)
		switch {
		case c.local != "" && (err != nil || FormatTime(ms) != c.local):
			t.Errorf("%q is %s locally, %v, want %s", c.text, FormatTime(ms), err, c.local)
		case c.local == "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%q: %v, want %q", c.text, err, c.refused)
		}
		ms, err = ParseInstant(c.text, ny)
		if (err == nil) != (c.instant != "") || err == nil && FormatTime(ms) != c.instant {
			t.Errorf("%q is the instant %s, %v, want %s", c.text, FormatTime(ms), err, c.instant)
		}
	}
	b := BackfillOptions{From: "2013-01-03T10:00", To: "1359633600000"}
	if err := b.localTimes(); err != nil || b.From != "2013-01-03 10:00:00" || b.To != "2013-01-31 12:00:00" {
		t.Errorf("%+v, %v", b, err)
	}
}
