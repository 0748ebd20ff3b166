package jsonpath

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const doc = `{
  "name": "Elbe", "km": 1094.20, "tags": ["river", "tide", null, 7],
  "mouth": {"sea": "North Sea", "at": {"lat": 53.9e0}},
  "gauges": [{"id": 1, "m": null}, {"id": 2}, {"m": 3, "id": "x\u00e9\/"}],
  "a.b": true, "dup": 1, "dup": {"x": 2}
}`

func TestPath(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		p, err := Compile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if p.Definite {
			raw, valid := p.Find([]byte(doc))
			if !valid {
				t.Fatal("not JSON")
			}
			got.Write(AppendCompact(nil, raw))
		}
		var list strings.Builder
		valid, exists := p.All([]byte(doc), func(raw []byte) {
			list.Write(AppendCompact(nil, raw))
			list.WriteByte(';')
		})
		if !valid {
			t.Fatal("not JSON")
		}
		if p.Definite {
			if l := strings.TrimSuffix(list.String(), ";"); l != got.String() || exists != (l != "") {
				t.Errorf("%s: All %s, Find %s", path, l, got.String())
			}
		} else {
			got = list
			if !exists {
				got.WriteString("missing")
			}
		}
		if got.String() != want {
			t.Errorf("%s: %s", path, got.String())
		}
	}
	f("$.name", `"Elbe"`)
	f("name", `"Elbe"`)
	f("lax $.km", `1094.2`)
	f("strict $['name']", `"Elbe"`)
	f(`$["a.b"]`, `true`)
	f("$.['a.b']", `true`)
	f("$.nothing", ``)
	f("$.name.x", ``)
	f("$.tags[1]", `"tide"`)
	f("$.tags[-1]", `7`)
	f("$.tags[9]", ``)
	f("$.tags.x", ``)
	f("$.mouth.at.lat", `53.9`)
	f("$.dup", `{"x":2}`)
	f("$.dup.x", `2`)
	f("$.gauges[2].id", `"x`+"\u00e9"+`/"`)
	f("$.tags[*]", `"river";"tide";null;7;`)
	f("$.gauges[*].m", `null;3;`)
	f("$.gauges[*].id", `1;2;"x`+"\u00e9"+`/";`)
	f("$.mouth.*", `"North Sea";{"lat":53.9};`)
	f("$.tags[1:3]", `"tide";null;`)
	f("$.tags[-2:]", `null;7;`)
	f("$.tags[:1]", `"river";`)
	f("$..id", `1;2;"x`+"\u00e9"+`/";`)
	f("$..at.lat", `53.9;`)
	f("$.nothing[*]", `missing`)
	f("$.name[*]", ``)
}

func TestPathErrors(t *testing.T) {
	for _, p := range []string{"", "foo $.a", "$.", "$[", "$['a", "$[x]", "$a", "$[?(@.a)]", "$[1,2]", "$.a.length()"} {
		if _, err := Compile(p); err == nil {
			t.Errorf("%q compiles", p)
		}
	}
}

func TestCheck(t *testing.T) {
	f := func(s string, want Kind) {
		t.Helper()
		if got := Check([]byte(s)); got != want {
			t.Errorf("%q: %d", s, got)
		}
	}
	f(`"a"`, String)
	f(` {} `, Object)
	f(`[1, 2]`, Array)
	f(`1`, Number)
	f(`-0.5e+3`, Number)
	f(`null`, Null)
	f(`true x`, Bool)
	f(``, Invalid)
	f(`{"a"}`, Invalid)
	f(`{"a":1,}`, Invalid)
	f(`01`, Invalid)
	f(`1.`, Invalid)
	f(`nul`, Invalid)
	f(`"a`, Invalid)
	f("\"a\nb\"", Invalid)
	f(`"\x"`, Invalid)
	f(`'a'`, Invalid)
	f(`{a:1}`, Invalid)
	f(strings.Repeat("[", 1001)+strings.Repeat("]", 1001), Invalid)
	f(strings.Repeat("[", 900)+strings.Repeat("]", 900), Array)
}

func TestAppendText(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := string(AppendText(nil, []byte(raw))); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
	f(`"a\tb\u0041\ud83c\udf0a"`, "a\tbA\U0001f30a")
	f(`12345678901234567890123`, "12345678901234567890123")
	f(`1e2`, "100.0")
	f(`-0`, "0")
	f(`true`, "true")
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(doc))
	f.Add([]byte(`[1,-2.5e7,"a\u1234\\",true,null,{"k":[]}]`))
	p, _ := Compile("$.a[1].b")
	all, _ := Compile("$..a[*]")
	f.Fuzz(func(t *testing.T, s []byte) {
		p.Find(s)
		all.All(s, func([]byte) {})
		if !utf8.Valid(s) {
			return
		}
		var v any
		dec := json.NewDecoder(bytes.NewReader(s))
		dec.UseNumber()
		want := dec.Decode(&v) == nil
		if got := Check(s) != Invalid; got != want && json.Valid(s) != got {
			// A word that runs into a number is an error here only.
			if want && !json.Valid(s) {
				return
			}
			t.Errorf("%q: valid %v, want %v", s, got, want)
		}
		if !json.Valid(s) {
			return
		}
		c := scanner{s: s}
		i := c.space(0)
		out := AppendCompact(nil, s[i:c.skip(i)])
		if Check(out) == Invalid && !bytes.Contains(out, []byte("Infinity")) {
			t.Errorf("%q becomes %q", s, out)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	s := []byte(`{"event":"bid","auction":1000,"bidder":{"id":7,"name":"abc def","tags":["a","b","c"]},"url":"https://www.nexmark.com/abc/def/item.htm?query=1","price":123.45}`)
	for _, spec := range []string{"$.bidder.name", "$.bidder.tags[1]", "$.price"} {
		p, _ := Compile(spec)
		b.Run(spec, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				p.Find(s)
			}
		})
	}
}
