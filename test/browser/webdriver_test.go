package browser

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, driven through chromedriver's WebDriver protocol.
type browser struct {
	t    *testing.T
	base string // of the session
}

// flags keep Chromium from looking for anything but the page.
var flags = []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb",
	"--font-render-hinting=none", "--disable-dev-shm-usage"}

// start starts a browser whose window is so many CSS pixels wide and high.
func start(t *testing.T, width, height int, more ...string) *browser {
	t.Helper()
	if os.Getenv("TIDEMARK_BROWSER") == "" && os.Getenv("TIDEMARK_INTEGRATION") == "" {
		t.Skip("NOT TESTED: the page in a browser; set TIDEMARK_BROWSER=1, with chromium and chromedriver installed")
	}
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Fatal("chromedriver is not installed (Debian: chromium-driver)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	// The folder goes last: the browser writes to it until it has ended.
	home, err := os.MkdirTemp("", "tidemark-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		within(t, waitFor, "the browser's folder is gone", func() bool { return os.RemoveAll(home) == nil })
	})
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, driver, fmt.Sprintf("--port=%d", port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t}
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	t.Cleanup(func() {
		if b.base != "" {
			_, _ = b.try("DELETE", "", nil)
		}
		cancel()
		_ = cmd.Wait() // it was killed
	})
	args := append(append([]string{fmt.Sprintf("--window-size=%d,%d", width, height), "--user-data-dir=" + home}, flags...), more...)
	caps := map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"browserName": "chrome",
		"goog:chromeOptions": map[string]any{"args": args}, "goog:loggingPrefs": map[string]any{"browser": "ALL", "performance": "ALL"}}}}
	b.base = base
	var got struct{ SessionID string }
	within(t, 2*time.Minute, "chromedriver answers", func() bool {
		text, err := b.try("POST", "/session", caps)
		return err == nil && json.Unmarshal(text, &got) == nil && got.SessionID != ""
	})
	b.base = base + "/session/" + got.SessionID
	// The window is made exactly that wide: phones are narrower than what Chromium makes of --window-size.
	b.cdp("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
	return b
}

// waitFor is how long the page may take to show something.
const waitFor = time.Minute

// within waits until ok.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", d, what)
		case <-tick.C:
		}
	}
}

// try sends a command and returns its value.
func (b *browser) try(method, path string, body any) (json.RawMessage, error) {
	var in io.Reader
	if method == "POST" {
		if body == nil {
			body = map[string]any{}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(text)
	}
	q, err := http.NewRequest(method, b.base+path, in)
	if err != nil {
		return nil, err
	}
	r, err := (&http.Client{Timeout: 3 * time.Minute}).Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var out struct{ Value json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", method, path, out.Value)
	}
	return out.Value, nil
}

func (b *browser) do(method, path string, body any) json.RawMessage {
	b.t.Helper()
	out, err := b.try(method, path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// cdp sends a command of Chromium's own protocol.
func (b *browser) cdp(cmd string, params map[string]any) json.RawMessage {
	b.t.Helper()
	return b.do("POST", "/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params})
}

// dark says what the machine prefers.
func (b *browser) dark(on bool) {
	b.t.Helper()
	v := map[bool]string{true: "dark", false: "light"}[on]
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": v}}})
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.do("POST", "/url", map[string]any{"url": url})
}

// eval runs the body of a function in the page.
func (b *browser) eval(script string, out any) {
	b.t.Helper()
	text := b.do("POST", "/execute/sync", map[string]any{"script": script, "args": []any{}})
	if err := json.Unmarshal(text, out); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
}

// text is what an element shows, "" where there is none.
func (b *browser) text(selector string) string {
	// While a page comes there may be nothing to ask.
	text, err := b.try("POST", "/execute/sync", map[string]any{"args": []any{},
		"script": fmt.Sprintf("const e = document.querySelector(%q); return e ? e.innerText.replace(/\\s+/g, ' ').trim() : ''", selector)})
	var out string
	if err != nil || json.Unmarshal(text, &out) != nil {
		return ""
	}
	return out
}

// sees waits until an element shows a text.
func (b *browser) sees(selector, want string) {
	b.t.Helper()
	got := ""
	deadline := time.Now().Add(waitFor)
	for time.Now().Before(deadline) {
		if got = b.text(selector); strings.Contains(got, want) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	b.t.Fatalf("%s shows %q, not %q", selector, got, want)
}

func (b *browser) click(selector string) {
	b.t.Helper()
	var ok bool
	b.eval(fmt.Sprintf("const e = document.querySelector(%q); if (!e) return false; e.scrollIntoView({block: 'center'}); e.click(); return true", selector), &ok)
	if !ok {
		b.t.Fatalf("there is no %s to click", selector)
	}
}

// keys sends keys to what has the focus.
func (b *browser) keys(keys ...string) {
	b.t.Helper()
	var acts []any
	for _, k := range keys {
		acts = append(acts, map[string]any{"type": "keyDown", "value": k}, map[string]any{"type": "keyUp", "value": k})
	}
	b.do("POST", "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keys", "actions": acts}}})
}

const (
	keyTab   = "\ue004"
	keyLeft  = "\ue012"
	keyEnter = "\ue007"
	keyEsc   = "\ue00c"
)

// shoot takes a picture of the whole page.
func (b *browser) shoot(path string) {
	b.t.Helper()
	var size []float64
	b.eval("return [innerWidth, document.documentElement.scrollHeight]", &size)
	b.shootPart(path, size)
}

// shootView takes a picture of what the window shows of the page when that is at its top.
func (b *browser) shootView(path string) {
	b.t.Helper()
	var size []float64
	b.eval("scrollTo(0, 0); return [innerWidth, innerHeight]", &size)
	b.shootPart(path, size)
}

func (b *browser) shootPart(path string, size []float64) {
	b.t.Helper()
	var got struct{ Data string }
	text := b.cdp("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
	if err := json.Unmarshal(text, &got); err != nil {
		b.t.Fatal(err)
	}
	picture, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(got.Data)))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, paletted(picture)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// paletted gives a picture the 256 colours that it has most of, so that its file is small.
func paletted(in image.Image) image.Image {
	count := map[color.RGBA]int{}
	box := in.Bounds()
	at := func(x, y int) color.RGBA {
		r, g, b, _ := in.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var colors color.Palette
	for _, c := range all[:min(len(all), 256)] {
		colors = append(colors, c)
	}
	out := image.NewPaletted(box, colors)
	known := map[color.RGBA]uint8{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := at(x, y)
			i, ok := known[c]
			if !ok {
				i = uint8(colors.Index(c))
				known[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	return out
}

// quiet fails the test for what the console complains of, such as a violated policy, and for requests to
// anywhere but the page's own host.
func (b *browser) quiet(host string) {
	b.t.Helper()
	b.quietBut(host, "")
}

// quietBut is quiet, but for failed requests with a status.
func (b *browser) quietBut(host, status string) {
	b.t.Helper()
	var logs []struct{ Level, Message string }
	if err := json.Unmarshal(b.do("POST", "/se/log", map[string]any{"type": "browser"}), &logs); err != nil {
		b.t.Fatal(err)
	}
	for _, l := range logs {
		if status != "" && strings.Contains(l.Message, "status of "+status) {
			continue
		}
		if l.Level == "SEVERE" || strings.Contains(l.Message, "Content Security Policy") {
			b.t.Errorf("the console says: %s", l.Message)
		}
	}
	if err := json.Unmarshal(b.do("POST", "/se/log", map[string]any{"type": "performance"}), &logs); err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, l := range logs {
		var m struct {
			Message struct {
				Method string
				Params struct{ Request struct{ URL string } }
			}
		}
		if json.Unmarshal([]byte(l.Message), &m) != nil || m.Message.Method != "Network.requestWillBeSent" {
			continue
		}
		if strings.HasPrefix(m.Message.Params.Request.URL, host) {
			n++
		}
		if u := m.Message.Params.Request.URL; strings.HasPrefix(u, "http") && !strings.HasPrefix(u, host) {
			b.t.Errorf("the page asks for %s", u)
		}
	}
	if n == 0 {
		b.t.Error("no request was seen at all")
	}
}
