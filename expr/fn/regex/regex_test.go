package regex

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t").Replace(s)
}

// all lists every match with its groups.
func all(re *Regexp, s []byte) string {
	var b strings.Builder
	for at := 0; at <= len(s); {
		m := re.Find(s, at)
		if m == nil {
			break
		}
		b.WriteByte('<')
		for g := 0; g <= re.Groups(); g++ {
			if g > 0 {
				b.WriteByte('|')
			}
			if m[2*g] < 0 {
				b.WriteByte('~')
			} else {
				b.Write(s[m[2*g]:m[2*g+1]])
			}
		}
		b.WriteByte('>')
		at = Next(s, m[0], m[1])
	}
	return b.String()
}

func TestAgainstJava(t *testing.T) {
	f, err := os.Open("testdata/java.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fast, slow := 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		p := strings.Split(sc.Text(), "\t")
		re, err := Compile(unescape(p[0]))
		if err != nil {
			t.Errorf("%s: %v", p[0], err)
			continue
		}
		if re.fast != nil {
			fast++
		}
		if re.slow != nil {
			slow++
		}
		if got := all(re, []byte(unescape(p[1]))); got != unescape(p[2]) {
			t.Errorf("%s: got %q", sc.Text(), got)
		}
	}
	if fast < 5 || slow < 5 {
		t.Errorf("engines used: %d anchored, %d backtracking", fast, slow)
	}
}

func TestErrors(t *testing.T) {
	for _, p := range []string{"(", ")", "[", "a**", "*a", `\y`, "(?q)", "a{2,1}", "a{", `\`, "[a&&b]", `\p{Nonsense}`} {
		if _, err := Compile(p); err == nil {
			t.Errorf("%q compiles", p)
		}
	}
}

func TestCompileFull(t *testing.T) {
	re, err := CompileFull("a|ab")
	if err != nil {
		t.Fatal(err)
	}
	if !re.Match([]byte("ab")) || re.Match([]byte("abc")) || re.Match([]byte("ab\n")) {
		t.Error("full match")
	}
}

// FuzzFind compares with package regexp on patterns that both languages read alike.
func FuzzFind(f *testing.F) {
	f.Add("(&|^)id=([^&]*)", "a&id=3&id=4")
	f.Add("a(b|c)*d+?", "abcbcdd")
	f.Add("ab+[x-z]*q", "abbxq abq")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 40 || len(s) > 60 || !utf8.ValidString(s) || !utf8.ValidString(pattern) {
			return
		}
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		got := all(re, []byte(s))
		if strings.ContainsAny(pattern, `\.$[{`) || strings.Contains(pattern, "(?") || re.slow != nil {
			return
		}
		std, err := regexp.Compile(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		var first string
		if m := std.FindStringSubmatch(s); m != nil {
			first = m[0]
			if !strings.HasPrefix(got, "<"+first) {
				t.Errorf("%q in %q: %q, want %q", pattern, s, got, first)
			}
		} else if got != "" {
			t.Errorf("%q in %q: %q, want nothing", pattern, s, got)
		}
	})
}

// FuzzAnchored compares every group of every match of the fast form with package regexp, on patterns
// put together of what the form consists of.
func FuzzAnchored(f *testing.F) {
	pre := []string{"", "(&|^)", "(?:x|^)", "&", "([&?])", "(^|a)", "^", "([a&]|^)"}
	lit := []string{"id=", "ab", "a_b", "x=y", "&id"}
	rest := []string{"", "([^&]*)", "([a-c]+)", "=", "([0-9]*)", "(=[x-z]*)", "&", "((a)[^a]+)", "(x*)y", "[^=]+="}
	f.Add("q=1&id=42&id=7", uint8(1), uint8(0), uint8(1), uint8(0))
	f.Add("id=id=&id=&&id=ab", uint8(7), uint8(4), uint8(3), uint8(1))
	f.Add("aab_ab=aabb&", uint8(5), uint8(1), uint8(2), uint8(6))
	f.Fuzz(func(t *testing.T, s string, p, l, r1, r2 uint8) {
		if len(s) > 200 {
			return
		}
		pattern := pre[int(p)%len(pre)] + lit[int(l)%len(lit)] + rest[int(r1)%len(rest)] + rest[int(r2)%len(rest)]
		re, err := Compile(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		want := regexp.MustCompile(pattern).FindStringSubmatchIndex(s)
		fast := re.fast
		for _, engine := range []string{"fast", "general"} {
			if engine == "general" {
				re.fast = nil
			} else if fast == nil {
				continue
			}
			got := re.Find([]byte(s), 0)
			if !slices.Equal(got, want) {
				t.Errorf("%s by the %s engine in %q: %v, want %v", pattern, engine, s, got, want)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	s := []byte("https://www.nexmark.com/trefz/vfdq/item.htm?query=1&channel_id=268435456")
	for _, p := range []string{`(&|^)channel_id=([^&]*)`, `channel_id=(\d+)`, `[a-z]+_id=([^&]*)`, `\.(com|org)/(.*?)/`} {
		re, err := Compile(p)
		if err != nil {
			b.Fatal(err)
		}
		std := regexp.MustCompile(p)
		if want := std.FindSubmatchIndex(s); !bytes.Equal(s[want[2]:want[3]], s[re.Find(s, 0)[2]:re.Find(s, 0)[3]]) {
			b.Fatal("wrong")
		}
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				re.Find(s, 0)
			}
		})
	}
}
