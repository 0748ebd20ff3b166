package dashboard

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// The page loads nothing from elsewhere, and neither text in it nor a table's content can become code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"manifest-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	maxBody   = 64 << 10
	keepAlive = 15 * time.Second
)

//go:embed static
var static embed.FS

// asset is one file of the page.
type asset struct {
	body, kind, tag string
}

var assets, pageEdition = readAssets()

// readAssets reads the files of the page. edition is another one where any of them is: a page that is open since
// before the program was updated loads itself anew.
func readAssets() (out map[string]asset, edition string) {
	out = map[string]asset{}
	all := sha256.New()
	list, err := static.ReadDir("static")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, e := range list {
		text, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			panic("BUG: " + err.Error())
		}
		sum := sha256.Sum256(text)
		all.Write(sum[:])
		kind := mime.TypeByExtension(path.Ext(e.Name()))
		switch path.Ext(e.Name()) { // whatever the machine's tables say
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		case ".LICENSE":
			kind = "text/plain; charset=utf-8"
		}
		out[e.Name()] = asset{string(text), kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out, hex.EncodeToString(all.Sum(nil)[:8])
}

// Handler serves the page, its data and its events. It may stand below any path that ends with a slash
// (http.StripPrefix): the page's addresses are relative.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, "index.html") })
	mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET /api/board", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		text := s.describe()
		s.mu.Unlock()
		answer(w, http.StatusOK, text)
	})
	mux.HandleFunc("GET /api/data", s.serveData)
	mux.HandleFunc("GET /api/events", s.serveEvents)
	mux.HandleFunc("GET /api/board.yaml", s.serveYAML)
	mux.HandleFunc("GET /api/tiles/{id}/rows", s.servePage)
	mux.HandleFunc("POST /api/preview", s.change(s.preview))
	mux.HandleFunc("PUT /api/board", s.change(s.putBoard))
	mux.HandleFunc("POST /api/tiles", s.change(s.addTile))
	mux.HandleFunc("PUT /api/tiles/{id}", s.change(s.putTile))
	mux.HandleFunc("DELETE /api/tiles/{id}", s.change(s.removeTile))
	mux.HandleFunc("POST /api/tiles/{id}/move", s.change(s.moveTile))
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if s.o.Local && !isLocal(r.Host) {
			http.Error(w, "this address is for this machine only", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := assets[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Cache-Control", "no-cache") // asked for again, and answered with 304
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(a.body))
}

// isLocal reports whether a host names this machine.
func isLocal(host string) bool {
	h := hostName(host)
	ip := net.ParseIP(h)
	return strings.EqualFold(h, "localhost") || ip != nil && ip.IsLoopback()
}

func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

// mayChange reports whether a page of that host may change the board. A name that is not known could have
// been made to point here by a page of somebody else's; an address cannot.
func (s *Server) mayChange(host string) bool {
	h := hostName(host)
	return isLocal(host) || net.ParseIP(h) != nil || slices.ContainsFunc(s.o.Hosts, func(x string) bool { return strings.EqualFold(x, h) })
}

func answer(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the only failure is that nobody listens any more
}

func refuse(w http.ResponseWriter, status int, err error) {
	text, _ := json.Marshal(map[string]string{"error": err.Error()}) // a string always is JSON
	answer(w, status, text)
}

// described is the board as the page gets it.
type described struct {
	Edition  int64           `json:"edition"`
	Board    *Board          `json:"board"`
	Sources  []describedFrom `json:"sources"`
	Editable bool            `json:"editable"`
	// Saved is the name of the file that changes go to; "": they are kept in memory.
	Saved   string `json:"saved,omitempty"`
	Broken  string `json:"broken,omitempty"`
	Version string `json:"version,omitempty"`
	// Script is the SQL file that writes the tables, for commands.
	Script string `json:"script"`
	// Page is the edition of the page's files.
	Page string `json:"page"`
	Now  int64  `json:"now"`
	// Refresh is how often tables are looked at, ms.
	Refresh int64 `json:"refreshMs"`
}

type describedFrom struct {
	Name    string       `json:"name"`
	Table   string       `json:"table"`
	Memory  bool         `json:"memory,omitempty"`
	Columns []ColumnInfo `json:"columns"`
	Comment string       `json:"comment,omitempty"`
}

// describe is the board with its sources, as JSON. mu is held.
func (s *Server) describe() []byte {
	every, _ := refreshOf(s.board.Refresh)
	d := described{Edition: s.edition, Board: s.board, Sources: []describedFrom{}, Editable: !s.o.ReadOnly, Broken: s.broken,
		Version: s.o.Version, Script: cmp.Or(s.o.Script, s.board.Script, "FILE.sql"), Page: pageEdition, Now: s.now().UnixMilli(), Refresh: every.Milliseconds()}
	if s.o.Config != "" {
		d.Saved = path.Base(s.o.Config)
	}
	for i := range s.sources {
		x := &s.sources[i]
		d.Sources = append(d.Sources, describedFrom{x.key(), x.Table.Name, x.Memory, x.columns(), x.Table.Comment})
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

func (s *Server) serveYAML(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	text := s.text
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text) // the only failure is that nobody listens any more
}

func viewOf(r *http.Request) (view, error) {
	switch v := view(r.URL.Query().Get("view")); v {
	case viewAll, viewClosed:
		return v, nil
	default:
		return "", fmt.Errorf("there is no view %q; leave it out for everything, or ask for closed", v)
	}
}

// snapshot is a whole view.
type snapshot struct {
	Edition int64                      `json:"edition"`
	At      int64                      `json:"at"`
	Now     int64                      `json:"now"`
	Sources map[string]json.RawMessage `json:"sources"`
	Tiles   map[string]json.RawMessage `json:"tiles"`
}

// fresh looks at the tables if nobody has since the last interval.
func (s *Server) fresh(r *http.Request, v view) {
	s.mu.Lock()
	every, _ := refreshOf(s.board.Refresh)
	pic := s.seen[v]
	stale := pic == nil || pic.edition != s.edition || s.now().Sub(pic.at) >= every
	s.mu.Unlock()
	if stale {
		s.poll(r.Context(), v)
	}
}

// snapshot is the view as it was seen last. mu is held.
func (s *Server) snapshot(v view) []byte {
	pic := s.seen[v]
	if pic == nil {
		pic = &picture{}
	}
	text, err := json.Marshal(snapshot{pic.edition, pic.at.UnixMilli(), s.now().UnixMilli(), pic.sources, pic.tiles})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

func (s *Server) serveData(w http.ResponseWriter, r *http.Request) {
	v, err := viewOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.fresh(r, v)
	s.mu.Lock()
	text := s.snapshot(v)
	s.mu.Unlock()
	answer(w, http.StatusOK, text)
}

// event is one server-sent event.
type event struct {
	name string
	data []byte
}

// viewer is one page that is open. What it is too slow to take ends it: the browser comes again and gets
// a whole picture.
type viewer struct {
	view view
	ch   chan event // closed, with mu held, when the viewer is given up
}

// tell sends an event to the viewers of a view; nil: to all. mu is held.
func (s *Server) tell(e event, v *view) {
	for w := range s.viewers {
		if v != nil && w.view != *v {
			continue
		}
		select {
		case w.ch <- e:
		default:
			delete(s.viewers, w)
			close(w.ch)
		}
	}
}

// hangUp ends all viewers.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.viewers {
		delete(s.viewers, w)
		close(w.ch)
	}
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	v, err := viewOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of proxies
	out := http.NewResponseController(w)
	me := &viewer{view: v, ch: make(chan event, 256)}
	s.mu.Lock()
	first, edition := []event{{"board", s.describe()}}, s.edition
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.viewers, me)
		s.mu.Unlock()
	}()
	send := func(es ...event) error {
		for _, e := range es {
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, e.data); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	if send(first...) != nil {
		return
	}
	s.fresh(r, v)
	s.mu.Lock()
	first = first[:0]
	if s.edition != edition {
		first = append(first, event{"board", s.describe()})
	}
	first = append(first, event{"snapshot", s.snapshot(v)})
	s.viewers[me] = true // from here on it hears of changes
	s.mu.Unlock()
	if send(first...) != nil {
		return
	}
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-t.C:
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil || out.Flush() != nil {
				return
			}
		case e, ok := <-me.ch:
			if !ok || send(e) != nil {
				return
			}
		}
	}
}

// conflict says that somebody else was faster.
var errConflict = errors.New("the board was changed meanwhile; look at it again")

// statusOf is the status of an answer that refuses.
func statusOf(err error) int {
	if errors.Is(err, errConflict) {
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// change guards a request that changes something.
func (s *Server) change(f func(r *http.Request, body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case s.o.ReadOnly:
			refuse(w, http.StatusForbidden, errors.New("the board is read-only"))
			return
		case !s.mayChange(r.Host):
			refuse(w, http.StatusForbidden, fmt.Errorf("the board is not changed under the name %s; start with --host %s if that is meant", hostName(r.Host), hostName(r.Host)))
			return
		case kind != "application/json":
			refuse(w, http.StatusUnsupportedMediaType, errors.New("send application/json"))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("at most %d bytes", maxBody))
			return
		}
		out, err := f(r, body)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		text, err := json.Marshal(out)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		answer(w, http.StatusOK, text)
	}
}

// strictly reads JSON that has no other keys than x.
func strictly(body []byte, x any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(x); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more than one value")
	}
	return nil
}
