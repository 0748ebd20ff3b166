package like

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	f := func(s, pattern string, escape rune, want bool) {
		t.Helper()
		m, err := Compile(pattern, escape)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match([]byte(s)); got != want {
			t.Errorf("%q LIKE %q escape %q = %v", s, pattern, escape, got)
		}
	}
	f("", "", 0, true)
	f("", "%", 0, true)
	f("", "_", 0, false)
	f("river", "river", 0, true)
	f("river", "riv%", 0, true)
	f("river", "%ver", 0, true)
	f("river", "%ive%", 0, true)
	f("river", "r_v_r", 0, true)
	f("river", "r%v%r", 0, true)
	f("river", "r%x%r", 0, false)
	f("riverr", "r%_r", 0, true)
	f("rr", "r%_r", 0, false)
	f("ab", "%%a%%%b%%", 0, true)
	f("a%b", "a!%b", '!', true)
	f("axb", "a!%b", '!', false)
	f("a!b", "a!!b", '!', true)
	f(`a\b`, `a\b`, 0, true)
	f("fl\u00fcsse", "fl_sse", 0, true)
	f("\u00fcber", "_ber", 0, true)
	f("\U0001f30a!", "_!", 0, true)
	f("a\nb", "a_b", 0, false)
	f("a\nb", "a%b", 0, true)
	f("aab", "%ab", 0, true)
	f("abab", "%_b", 0, true)
	f("aXbXc", "%X_X%", 0, true)
	f("abcabd", "ab%ab_", 0, true)
	f("aba", "ab%ba", 0, false)
}

func TestCompileBadEscape(t *testing.T) {
	for _, p := range []string{"a!", "a!b"} {
		if _, err := Compile(p, '!'); err == nil || !strings.Contains(err.Error(), "escape") {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestSimilarRegex(t *testing.T) {
	f := func(pattern string, escape rune, want string) {
		t.Helper()
		got, err := SimilarRegex(pattern, escape)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
	f("a_c%", 0, "a.c(?s:.*)")
	f("(a|b)+", 0, "(a|b)+")
	f("a$", 0, `a\$`)
	f("&%&_", '&', "%_")
	f("&*&(", '&', `\*\(`)
	f("[a-c[:DIGIT:]]", 0, `[a-c\d]`)
	f("a]", 0, "error")
	f("[a", 0, "error")
	f("&a", '&', "error")
}

// FuzzMatch compares with the regular expression that a pattern stands for.
func FuzzMatch(f *testing.F) {
	f.Add("river", "r%v_r", false)
	f.Add("a%b", "a!%b", true)
	f.Add("aXbXc", "%X_X%", false)
	f.Fuzz(func(t *testing.T, s, pattern string, escaped bool) {
		if !utf8.ValidString(s) || !utf8.ValidString(pattern) || len(s)+len(pattern) > 60 {
			return
		}
		var escape rune
		if escaped {
			escape = '!'
		}
		m, err := Compile(pattern, escape)
		if err != nil {
			return
		}
		var re strings.Builder
		esc := false
		for _, r := range pattern {
			switch {
			case esc:
				re.WriteString(regexp.QuoteMeta(string(r)))
				esc = false
			case r == escape && escaped:
				esc = true
			case r == '_':
				re.WriteString("[^\n\r\u0085\u2028\u2029]")
			case r == '%':
				re.WriteString("(?s:.*)")
			default:
				re.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		want := regexp.MustCompile(`\A(?:` + re.String() + `)\z`).MatchString(s)
		if got := m.Match([]byte(s)); got != want {
			t.Errorf("%q LIKE %q = %v, regexp says %v", s, pattern, got, want)
		}
	})
}

func BenchmarkLike(b *testing.B) {
	s := []byte("https://www.nexmark.com/channel/item.htm?query=1&channel_id=42")
	for _, p := range []string{"https%", "%channel_id=%", "%item_htm%=__"} {
		m, _ := Compile(p, 0)
		b.Run(p, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Match(s)
			}
		})
	}
}
