package dashboard

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/connector/results"
)

// pageText is the answer to a question for a page: the place and the number of its rows, how many there are, and its keys.
func pageText(t *testing.T, text string) string {
	t.Helper()
	var d Data
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if d.Error != "" {
		return d.Error
	}
	var keys []string
	for _, r := range d.Table.Rows {
		keys = append(keys, fmt.Sprint(r.Cells[0]))
	}
	return fmt.Sprint(d.Table.From, "+", len(d.Table.Rows), " of ", d.Table.Total, ": ", strings.Join(keys, " "))
}

// TestPages turns the pages of a table.
func TestPages(t *testing.T) {
	f := newFake()
	for k := range 23 {
		f.add(1, int64(k), 1, "live", false, fmt.Sprintf("k%02d", k))
	}
	f.progress(connector.Progress{Generation: "live", Watermark: 2 * hourMs})
	now := time.UnixMilli(100 * hourMs)
	s, h := testServer(t, f, Options{Board: testBoard(t, "tiles:\n  - {kind: table, columns: [origin, n], order: [-n], limit: 5}\n  - {kind: number, value: sum(n)}\n"), Now: func() time.Time { return now }})
	page := func(query string) string {
		t.Helper()
		return pageText(t, get(t, h.URL+"/api/tiles/t1/rows?from="+query))
	}
	var d struct{ Tiles map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(get(t, h.URL+"/api/data")), &d); err != nil {
		t.Fatal(err)
	}
	expect(t, pageText(t, string(d.Tiles["t1"])), "0+5 of 23: k22 k21 k20 k19 k18")
	expect(t, page("5"), "5+5 of 23: k17 k16 k15 k14 k13")
	expect(t, page("20"), "20+3 of 23: k02 k01 k00")
	expect(t, page("900"), "20+3 of 23: k02 k01 k00") // there were more when the page was turned
	expect(t, page("0&view=closed"), "0+0 of 0: ")

	// The same page for another one who looks is not read again, until something is sealed.
	asked := f.queries
	expect(t, page("5"), "5+5 of 23: k17 k16 k15 k14 k13")
	if f.queries != asked {
		t.Errorf("%d questions for a page that was known", f.queries-asked)
	}
	f.add(1, 99, 1, "live", false, "new")
	f.progress(connector.Progress{Generation: "live", Watermark: 2 * hourMs})
	now = now.Add(time.Minute)
	expect(t, page("5"), "5+5 of 24: k18 k17 k16 k15 k14")

	// What fails is said in the answer, and not remembered.
	f.with(func() { f.broken = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) })
	f.progress(connector.Progress{Generation: "live", Watermark: 2 * hourMs})
	now = now.Add(time.Minute)
	expect(t, page("5"), "table board cannot be read: its server does not answer (dial: connection refused)")
	f.with(func() { f.broken = nil })
	expect(t, page("5"), "5+5 of 24: k18 k17 k16 k15 k14")
	for _, bad := range []string{"t1/rows?from=-1", "t1/rows?from=x", "t1/rows?from=20000", "t1/rows", "t2/rows?from=5", "t9/rows?from=5", "t1/rows?from=5&view=odd"} {
		r, err := http.Get(h.URL + "/api/tiles/" + bad)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode == http.StatusOK {
			t.Errorf("%s: %s %v %s", bad, r.Status, err, text)
		}
	}
	for k := range 3 * maxPages {
		if _, err := s.page(context.Background(), pageKey{viewAll, "t1", k}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.pages) > maxPages {
		t.Errorf("%d pages are remembered", len(s.pages))
	}
}

// TestNames has names that could be taken for others.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		v    any
		want string
	}{{nil, "NULL"}, {"NULL", "'NULL'"}, {"null", "'null'"}, {"'NULL'", "'''NULL'''"}, {"", "''"}, {"''", "''''''"}, {" x", "' x'"}, {"x", "x"}, {"O'Hare", "O'Hare"}, {"a \u00b7 b", "'a \u00b7 b'"},
		{int64(-7), "-7"}, {true, "true"}, {0.5, "0.5"}, {"nullable", "nullable"}} {
		got := nameOf(c.v)
		expect(t, got, c.want)
		if was, ok := seen[got]; ok {
			t.Errorf("%v and %v are both called %s", was, c.v, got)
		}
		seen[got] = fmt.Sprintf("%T %v", c.v, c.v)
	}
	// NULL and the text NULL are two lines, and so are keys of several columns that read alike when put together.
	l := NewLive(testTable(), 0)
	null := row("", 1, 1, 1, "live", false, false)
	null[0] = nil
	l.Add(batchOf(null, row("NULL", 1, 2, 1, "live", false, false), row("a \u00b7 x", 1, 3, 1, "y", false, false), row("a", 1, 4, 1, "x \u00b7 y", false, false)))
	d, _ := shown(t, l, "- {kind: bars, value: n, by: [origin, gen]}\n- {kind: series, value: n, by: [origin, gen]}\n")
	var names []string
	for _, b := range d[0].Bars {
		names = append(names, b.Name)
	}
	expect(t, strings.Join(names, ", "), "a \u00b7 'x \u00b7 y', 'a \u00b7 x' \u00b7 y, 'NULL' \u00b7 live, NULL \u00b7 live")
	if d[1].Error != "" || len(d[1].Series.Lines) != 4 {
		t.Errorf("%+v", d[1])
	}
}

// stateError is an error as drivers of PostgreSQL have them.
type stateError string

func (e stateError) Error() string    { return "ERROR: (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

// TestTrouble sorts what targets say.
func TestTrouble(t *testing.T) {
	src := &Source{Table: testTable()}
	for _, c := range []struct {
		err          error
		says, remedy string
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "its server does not answer", "Start the server"},
		{fmt.Errorf("read: %w", io.EOF), "its server does not answer", "Start the server"},
		{&net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}, "the name of its server is not known", "Correct the host"},
		{fmt.Errorf("query: %w", context.DeadlineExceeded), "has not answered in time", "with last"},
		{x509.UnknownAuthorityError{}, "certificate", "authority"},
		{stateError("28P01"), "refuses the user or the password", "start it again"},
		{stateError("42P01"), "is not in its target", "tidemark ddl"},
		{stateError("42703"), "other columns than the script says", "with the script that the job runs"},
		{stateError("42501"), "may not read it", "Grant"},
		{stateError("53300"), "takes no more queries", "by itself"},
		{stateError("57P03"), "does not answer", "by itself"},
		{stateError("3D000"), "its database is not there", "Make the database"},
		{errors.New("Unknown table (code 60)"), "is not in its target", "tidemark ddl"},
		{errors.New("Authentication failed (code 516)"), "refuses the user or the password", "username"},
		{errors.New("Missing columns (code 47)"), "other columns than the script says", "change the table back"},
		{stateError("XX000"), "table board cannot be read: ERROR", ""},
		{errors.New("something else"), "table board cannot be read: something else", ""},
	} {
		err := unreadable(src, c.err)
		if !strings.HasPrefix(err.Error(), "table board cannot be read: ") || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.err.Error()) || !errors.Is(err, c.err) {
			t.Errorf("%v is said as %s", c.err, err)
		}
		if got := remedyOf(err); !strings.Contains(got, c.remedy) || (c.remedy == "") != (got == "") {
			t.Errorf("%v: the remedy is %q", c.err, got)
		}
		if again := unreadable(src, err); again.Error() != err.Error() {
			t.Errorf("said twice: %s", again)
		}
	}
}

// TestPatience has a target that takes long to fail: others are not kept waiting for it at each look.
func TestPatience(t *testing.T) {
	b := newBooks(&Source{Table: testTable(), Store: NewLive(testTable(), 0)})
	at := time.UnixMilli(100 * hourMs)
	slow := errors.New("slow")
	for _, c := range []struct {
		took  time.Duration
		err   error
		after time.Duration
		want  error
	}{{0, slow, 0, nil}, {20 * time.Second, slow, 19 * time.Second, slow}, {20 * time.Second, slow, 20 * time.Second, nil}, {20 * time.Second, nil, 0, nil}} {
		b.note(c.err, at.Add(c.took), at)
		if got := b.trouble(at.Add(c.took + c.after)); got != c.want {
			t.Errorf("after %s of %v: %v", c.took, c.err, got)
		}
	}
}

// lost is a reader whose target may be away.
type lost struct {
	Reader
	err error
}

func (l *lost) Pointer(ctx context.Context) (results.Pointer, error) {
	if l.err != nil {
		return results.Pointer{}, l.err
	}
	return l.Reader.Pointer(ctx)
}

// TestBackAgain has a target come back as it was: its tiles say so at the next look.
func TestBackAgain(t *testing.T) {
	f := newFake()
	f.hours()
	l := &lost{Reader: f}
	s, err := New(Options{Sources: []Source{{Table: testTable(), Store: l}}, Board: testBoard(t, "tiles:\n  - {kind: table}\n"), Now: func() time.Time { return time.UnixMilli(100 * hourMs) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, away := range []error{nil, syscall.ECONNREFUSED, nil} {
		l.err = away
		s.poll(context.Background(), viewAll)
		var d Data
		if err := json.Unmarshal(s.seen[viewAll].tiles["t1"], &d); err != nil {
			t.Fatal(err)
		}
		if (d.Error != "") != (away != nil) || len(d.Table.Rows) != 12 {
			t.Errorf("while it says %v the tile says %q, and has %d rows", away, d.Error, len(d.Table.Rows))
		}
	}
}

// TestNeeded says which windows need a backfill.
func TestNeeded(t *testing.T) {
	f := newFake()
	f.hours()
	s, h := testServer(t, f, Options{Board: testBoard(t, testYAML), Script: "board.sql"})
	if text := get(t, h.URL+"/api/board"); !strings.Contains(text, `"script":"board.sql"`) {
		t.Error(text)
	}
	get(t, h.URL+"/api/data")
	expect(t, fmt.Sprint(*s.books["board"].needed()), "{1 4 [{14400000 18000000 4}]}")
	var many []connector.MissedWindow
	for i := range int64(20) {
		many = append(many, connector.MissedWindow{Start: (10 + i) * hourMs, End: (11 + i) * hourMs, Rows: 2})
	}
	f.progress(connector.Progress{Generation: "live", Watermark: 40 * hourMs, Missed: many})
	s.poll(context.Background(), viewAll)
	if n := s.books["board"].needed(); n.Windows != 21 || n.Rows != 44 || len(n.First) != maxNeeded {
		t.Errorf("%+v", n)
	}
	if n := newBooks(&Source{Table: testTable(), Store: NewLive(testTable(), 0)}).needed(); n != nil {
		t.Errorf("%+v", n)
	}
}
