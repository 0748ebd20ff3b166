package dashboard

import (
	"strings"
	"testing"
	"time"
)

const sampleBoard = `# What we look at in the morning.
title: Departures
refresh: 500ms
tiles:
  # The first one.
  - title: Departures in the hour
    kind: number
    value: sum(departures) # of all airports
  - kind: series
    value: departures
    by: origin
    where: {carrier: UA, origin: 7}
    last: 48
    width: 2
  - kind: table
    columns: [origin, departures]
    order: [-departures, origin]
    limit: 20
`

func TestParseBoard(t *testing.T) {
	b, err := ParseBoard("board.yaml", []byte(sampleBoard))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Tiles) != 3 || b.Tiles[1].ID != "t2" || len(b.Tiles[1].By) != 1 || b.Tiles[1].Where["origin"] != "7" || b.Tiles[2].Order[0] != "-departures" {
		t.Errorf("read as %+v", b.Tiles)
	}
	// What is not changed stays as it was written.
	out, err := b.YAML()
	if err != nil || string(out) != sampleBoard {
		t.Errorf("%v, written as\n%s", err, out)
	}
	b.Tiles[0].Title = "Departures"
	b.Tiles = append(b.Tiles[:1], b.Tiles[2])
	if out, err = b.YAML(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# What we look at", "# The first one.", "title: Departures\n    kind: number", "order: [-departures, origin]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is lost in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "carrier") {
		t.Errorf("the tile is still there:\n%s", out)
	}
}

func TestParseBoardRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"colour: red", `board.yaml:1: a board has no key "colour"; it has title, script, refresh, tiles`},
		{"title: x\ntiles:\n  - kind: bars\n    colour: red", `board.yaml:4: a tile has no key "colour"`},
		{"tiles:\n  - title: x", "board.yaml:2: the tile has no kind"},
		{"tiles:\n  - kind: pie", `board.yaml:2: a tile cannot be of kind "pie"`},
		{"tiles:\n  - kind: bars\n    value: x", "board.yaml:2: bars need by"},
		{"tiles:\n  - kind: number\n    value: median(x)", "its aggregate is one of sum, count, min, max, avg"},
		{"tiles:\n  - kind: number\n    value: sum(x", "it is a column, or an aggregate"},
		{"tiles:\n  - kind: number\n    value: sum()", "names no column"},
		{"tiles:\n  - kind: number\n    value: x\n    last: soon", `board.yaml:2: last cannot be "soon"`},
		{"tiles:\n  - kind: table\n    width: 5", "width cannot be 5"},
		{"tiles:\n  - kind: table\n    width: wide", "board.yaml:3: cannot unmarshal"},
		{"tiles:\n  - kind: table\n    kind: bars", "already defined"},
		{"tiles: 3", "board.yaml:1: tiles is a list"},
		{"- a", "board.yaml:1: a board is a list of keys"},
		{"refresh: 1ms", "board.yaml:1: refresh cannot be"},
		{"tiles: [", "board.yaml:1:"},
		{"tiles:\n  - kind: number\n    value: x\n    by: y", "a number has no by"},
		{"tiles:\n  - kind: series\n    value: x\n    from: disk", "from cannot be"},
		{"tiles:\n  - kind: table\n    where:\n      a: b\n      c: null", "board.yaml:5: where compares with texts"},
	} {
		_, err := ParseBoard("board.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, not %s", c.text, err, c.want)
		}
	}
}

func FuzzParseBoard(f *testing.F) {
	f.Add(sampleBoard)
	f.Add("tiles: &a [*a]")
	f.Add("title: tiles\ntiles: # none\n  # yet\n")
	f.Add("tiles:\n- &t {kind: table}\n- *t\n")
	f.Add("title: 'x'\ntiles:\n- kind: bars\n  value: avg( a )\n  by: [a, b]\n  where: {a: ~}\n")
	f.Fuzz(func(t *testing.T, text string) {
		begun := time.Now()
		defer func() {
			if d := time.Since(begun); d > 10*time.Second {
				t.Fatalf("%q takes %s", text, d)
			}
		}()
		b, err := ParseBoard("b", []byte(text))
		if err != nil {
			return
		}
		out, err := b.YAML()
		if err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := ParseBoard("b", out)
		if err != nil {
			t.Fatalf("%q was written as %q, which is refused: %v", text, out, err)
		}
		if len(again.Tiles) != len(b.Tiles) || again.Title != b.Title {
			t.Fatalf("%q was written as %q", text, out)
		}
		for i := range b.Tiles {
			if !b.Tiles[i].equal(&again.Tiles[i]) {
				t.Fatalf("tile %d of %q was written as %q", i, text, out)
			}
		}
	})
}

func TestParseSpan(t *testing.T) {
	for _, c := range []struct {
		text string
		want span
	}{{"", span{}}, {"all", span{all: true}}, {"48", span{windows: 48}}, {"90m", span{ms: 5_400_000}}, {"7d", span{ms: 604_800_000}}} {
		if got, err := parseSpan(c.text); err != nil || got != c.want {
			t.Errorf("%q is %+v, %v", c.text, got, err)
		}
	}
	for _, bad := range []string{"0", "-1", "-3h", "d", "99999999d", "1x", "20001"} {
		if _, err := parseSpan(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
