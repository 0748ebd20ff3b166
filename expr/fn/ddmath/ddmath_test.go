package ddmath

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var funcs = map[string]func(float64) float64{
	"sin": Sin, "cos": Cos, "tan": Tan, "asin": Asin, "acos": Acos, "atan": Atan, "sinh": Sinh,
	"cosh": Cosh, "tanh": Tanh, "exp": Exp, "log": Log, "log10": Log10,
	"pow": func(x float64) float64 { return Pow(x, 2.3) },
}

// TestAgainstJava allows the share of last-digit differences that remains by the nature of Java's
// own rounding errors.
func TestAgainstJava(t *testing.T) {
	f, err := os.Open("testdata/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, off := map[string]int{}, map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.Fields(sc.Text())
		if p[0] == "#" {
			continue
		}
		x, _ := strconv.ParseFloat(p[1], 64)
		want, _ := strconv.ParseFloat(p[2], 64)
		got := funcs[p[0]](x)
		n[p[0]]++
		if got != want {
			off[p[0]]++
			if math.Abs(got-want) > 4.5e-16*math.Abs(want) {
				t.Errorf("%s(%v) = %v, want %v", p[0], x, got, want)
			}
		}
	}
	for name := range funcs {
		limit := 0.02
		if name[0] == 'a' || name[len(name)-1] == 'h' {
			limit = 0.2
		}
		if n[name] < 50 || float64(off[name]) > limit*float64(n[name]) {
			t.Errorf("%s: %d of %d differ", name, off[name], n[name])
		}
	}
}

func TestSpecial(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	same := func(name string, got, want float64) {
		t.Helper()
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for name, f := range funcs {
		same(name+" of NaN", f(nan), nan)
	}
	same("exp(1000)", Exp(1000), inf)
	same("exp(-1000)", Exp(-1000), 0)
	same("exp(-740)", Exp(-740), math.Exp(-740))
	same("log(0)", Log(0), -inf)
	same("log(-1)", Log(-1), nan)
	same("log10(1000)", Log10(1000), 3)
	same("pow(-2, 3)", Pow(-2, 3), -8)
	same("pow(-1, 0.5)", Pow(-1, 0.5), nan)
	same("pow(2, 1023)", Pow(2, 1023), 0x1p1023)
	same("pow(10, -5)", Pow(10, -5), 1e-5)
	same("asin(1)", Asin(1), math.Pi/2)
	same("atan(inf)", Atan(inf), math.Pi/2)
	same("sin(1e9)", Sin(1e9), math.Sin(1e9))
	same("sinh(0)", Sinh(0), 0)
	same("exp(709.5)", Exp(709.5), 1.3549863193146328e308)
}

func BenchmarkFuncs(b *testing.B) {
	for _, name := range []string{"exp", "log", "pow", "sin"} {
		f := funcs[name]
		b.Run(name, func(b *testing.B) {
			x := 1.0
			for b.Loop() {
				x = 1 + math.Abs(f(x))*1e-3
			}
		})
	}
}
