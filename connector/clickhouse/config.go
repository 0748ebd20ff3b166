package clickhouse

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tidemark-stream/tidemark/option"
)

// config is where the servers are and how to talk to them.
type config struct {
	native   bool     // the native protocol, else HTTP
	hosts    []string // host:port
	path     string   // of the URL in front of the query, for proxies; HTTP only
	database string
	table    string
	user     string
	password string
	tls      *tls.Config // nil: none
	compress string      // none, lz4, zstd
	settings map[string]string
	timeout  time.Duration // of one request
	patience time.Duration
	tries    int
}

const urlHint = "write http://host:8123/database, https://host:8443/database, or clickhouse://host:9000/database for the native protocol"

func urlError(format string, args ...any) error {
	return &option.Error{Key: "url", Msg: fmt.Sprintf(format, args...), Hint: urlHint}
}

// configOf reads the options.
func configOf(o option.Values) (*config, error) {
	c := &config{user: "default", compress: o.Enum("compression"), settings: o.Prefix("clickhouse.settings."),
		timeout: o.Duration("connection.request-timeout"), patience: o.Duration("connection.max-retry-timeout"), tries: int(o.Int("sink.max-retries"))}
	secure, err := c.address(strings.TrimSpace(o.Get("url")))
	if err != nil {
		return nil, err
	}
	if o.Has("username") {
		c.user = o.Get("username")
	}
	if o.Has("password") {
		c.password = o.Get("password")
	}
	if d := o.Get("database-name"); d != "" {
		c.database = d
	}
	if err := c.name(o.Get("table-name")); err != nil {
		return nil, err
	}
	if c.timeout <= 0 || c.patience < 0 {
		return nil, &option.Error{Key: "connection.request-timeout", Msg: "timeouts cannot be 0", Hint: "write 5 min"}
	}
	for _, key := range []string{"insert_deduplication_token", "database", "query", "query_id", "user", "password", "decompress"} {
		if _, ok := c.settings[key]; ok {
			return nil, &option.Error{Key: "clickhouse.settings." + key, Msg: "the sink sets '" + key + "' itself", Hint: "leave it out"}
		}
	}
	return c, c.secure(o, secure)
}

// address reads the URL, which may name several hosts.
func (c *config) address(raw string) (secure bool, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	port := ""
	switch scheme {
	case "http":
		port = "8123"
	case "https":
		port, secure = "8443", true
	case "clickhouse":
		port, c.native = "9000", true
	case "clickhouses":
		port, c.native, secure = "9440", true, true
	default:
		ok = false
	}
	if !ok {
		return false, urlError("the URL of a ClickHouse server cannot begin with %.40q", scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	given, err := url.ParseQuery(query)
	if err != nil {
		return false, urlError("the parameters of the URL cannot be read: %v", err)
	}
	for k, v := range given {
		switch {
		case k == "secure" && c.native:
			if secure = v[0] == "true" || v[0] == "1"; secure {
				port = "9440"
			}
		case k == "database":
			c.database = v[0]
		default:
			return false, &option.Error{Key: "url", Msg: fmt.Sprintf("the parameter '%s' of the URL is not known", k), Hint: "write 'clickhouse.settings." + k + "' = '...' for settings of the server"}
		}
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		u, err := url.Parse("x://" + hosts[:at] + "@h")
		if err != nil {
			return false, urlError("the user in the URL cannot be read")
		}
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
		hosts = hosts[at+1:]
	}
	if at := strings.LastIndexByte(path, '/'); at >= 0 && !c.native {
		c.path, path = "/"+path[:at], path[at+1:]
	}
	if d, err := url.PathUnescape(path); err == nil && d != "" {
		c.database = d
	}
	for h := range strings.SplitSeq(hosts, ",") {
		h = strings.TrimSpace(h)
		if h == "" {
			return false, urlError("the URL names no host")
		}
		if name, p, err := net.SplitHostPort(h); err == nil {
			if name == "" || p == "" {
				return false, urlError("%.80q is no host and port", h)
			}
			c.hosts = append(c.hosts, h)
			continue
		}
		c.hosts = append(c.hosts, net.JoinHostPort(strings.Trim(h, "[]"), port))
	}
	return secure, nil
}

// name reads the table's name, which may have a database in front.
func (c *config) name(s string) error {
	p := typeParser{s: s}
	var parts []string
	for {
		w := p.word()
		if w == "" {
			break
		}
		parts = append(parts, w)
		if !p.take('.') {
			break
		}
	}
	switch {
	case p.at < len(p.s) || len(parts) == 0 || len(parts) > 2:
		return &option.Error{Key: "table-name", Msg: fmt.Sprintf("%.80q is no name of a table", s), Hint: "write table or database.table, with backquotes around names that have other characters than letters, digits and _"}
	case len(parts) == 2:
		c.database, c.table = parts[0], parts[1]
	default:
		c.table = parts[0]
	}
	if c.database == "" {
		c.database = "default"
	}
	return nil
}

// secure reads the options of TLS.
func (c *config) secure(o option.Values, secure bool) error {
	given := ""
	for _, k := range []string{"tls.ca-file", "tls.certificate-file", "tls.key-file", "tls.server-name", "tls.verify"} {
		if o.Has(k) {
			given = k
		}
	}
	if !secure {
		if given != "" {
			return &option.Error{Key: given, Msg: "'" + given + "' is given and the URL does not ask for TLS", Hint: "write https://, or clickhouses:// for the native protocol"}
		}
		return nil
	}
	c.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.Get("tls.server-name"), InsecureSkipVerify: !o.Bool("tls.verify")}
	if file := o.Get("tls.ca-file"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return &option.Error{Key: "tls.ca-file", Msg: "the certificates cannot be read: " + err.Error()}
		}
		c.tls.RootCAs = x509.NewCertPool()
		if !c.tls.RootCAs.AppendCertsFromPEM(pem) {
			return &option.Error{Key: "tls.ca-file", Msg: file + " has no certificate in PEM form"}
		}
	}
	cert, key := o.Get("tls.certificate-file"), o.Get("tls.key-file")
	if cert == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return &option.Error{Key: "tls.certificate-file", Msg: "the certificate and its key cannot be read: " + err.Error(), Hint: "give both 'tls.certificate-file' and 'tls.key-file'"}
	}
	c.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// quote makes an identifier of SQL.
func quote(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// literal makes a string of SQL.
func literal(s string) string {
	return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
}
