package metrics

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Listen opens the address of --http: HOST:PORT, or :PORT, which nobody but this machine reaches.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--http cannot be '%s': write :PORT, which only this machine reaches, or HOST:PORT", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", address, err)
	}
	return l, nil
}

// Handler serves /metrics, /status and /savepoint. version is that of the program. With local,
// requests must name this machine as their host: a page of the web that a browser on this machine
// shows has no business here.
func (s *Server) Handler(version string, local bool) http.Handler {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector{s}, resultsCollector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Look(version)) })
	mux.HandleFunc("POST /savepoint", s.savepoint)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "GET /status      the jobs as JSON\nGET /metrics     for Prometheus\nPOST /savepoint  write a savepoint of every job, or with ?job=NAME of one\n")
	})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local && !isLocal(r.Host) {
			http.Error(w, "this address is for this machine only", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// Local reports whether only this machine reaches an address.
func Local(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Saved is the answer to POST /savepoint, one a job.
type Saved struct {
	Job       string `json:"job"`
	Savepoint string `json:"savepoint,omitempty"`
	Error     string `json:"error,omitempty"`
}

// savepoint writes savepoints and answers when they are complete.
func (s *Server) savepoint(w http.ResponseWriter, r *http.Request) {
	jobs, err := s.find(r.URL.Query().Get("job"))
	if err != nil {
		answer(w, http.StatusNotFound, []Saved{{Error: err.Error()}})
		return
	}
	var out []Saved
	status := http.StatusOK
	for _, j := range jobs {
		x := Saved{Job: j.name}
		if x.Savepoint, err = j.job.Savepoint(r.Context()); err != nil {
			x.Error = err.Error()
			status = http.StatusConflict
		}
		out = append(out, x)
	}
	answer(w, status, out)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	e.Encode(v) // the only failure is that nobody listens any more
}
