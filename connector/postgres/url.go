package postgres

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-stream/tidemark/option"
)

// jdbcParameters are what the driver of Java takes in a URL and what that is here. Those without
// meaning here are ignored, as the driver itself ignores what it does not know.
var jdbcParameters = map[string]string{
	"user": "user", "password": "password", "sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert",
	"sslkey": "sslkey", "sslpassword": "sslpassword", "currentSchema": "search_path", "ApplicationName": "application_name",
	"connectTimeout": "connect_timeout", "loginTimeout": "connect_timeout", "options": "options", "channelBinding": "channel_binding",
}

// configOf reads where the database is.
func configOf(o option.Values) (*pgconn.Config, error) {
	raw := strings.TrimSpace(o.Get("url"))
	dsn := raw
	switch {
	case strings.HasPrefix(raw, "jdbc:"):
		var err error
		if dsn, err = fromJDBC(raw); err != nil {
			return nil, err
		}
	case o.Get("connector") == "jdbc":
		return nil, &option.Error{Key: "url", Msg: "a URL of the jdbc connector begins with jdbc:", Hint: "write jdbc:postgresql://host:5432/database"}
	case !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://"):
		return nil, &option.Error{Key: "url", Msg: "the URL of a PostgreSQL database begins with postgres://", Hint: "write postgres://host:5432/database"}
	}
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, &option.Error{Key: "url", Msg: "the URL of the database cannot be used: " + err.Error()}
	}
	if u := o.Get("username"); u != "" {
		c.User = u
	}
	if o.Has("password") {
		c.Password = o.Get("password")
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "tidemark"
	}
	c.RuntimeParams["client_encoding"] = "UTF8" // as strings are here, whatever the database has
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	return c, nil
}

// fromJDBC turns a JDBC URL into one of PostgreSQL.
func fromJDBC(raw string) (string, error) {
	dialect, rest, ok := strings.Cut(strings.TrimPrefix(raw, "jdbc:"), ":")
	if !ok || dialect != "postgresql" {
		return "", &option.Error{Key: "url", Msg: fmt.Sprintf("the JDBC dialect '%s' is not supported yet; only PostgreSQL is", dialect),
			Hint: "write jdbc:postgresql://host:5432/database"}
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, database := "localhost", rest
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		hosts, database, _ = strings.Cut(after, "/")
	}
	database = strings.TrimPrefix(database, "/")
	given, err := url.ParseQuery(query)
	if err != nil {
		return "", &option.Error{Key: "url", Msg: "the parameters of the URL cannot be read: " + err.Error()}
	}
	out := url.Values{}
	for k, v := range given {
		name, known := jdbcParameters[k]
		if value := v[len(v)-1]; known && value != "" && (name != "connect_timeout" || value != "0") {
			out.Set(name, value)
		}
	}
	if out.Get("sslmode") == "" && given.Has("ssl") && given.Get("ssl") != "false" {
		out.Set("sslmode", "verify-full")
		if strings.HasSuffix(given.Get("sslfactory"), "NonValidatingFactory") {
			out.Set("sslmode", "require")
		}
	}
	targets := map[string]string{"primary": "read-write", "master": "read-write", "preferSecondary": "prefer-standby", "secondary": "standby"}
	if t := targets[given.Get("targetServerType")]; t != "" {
		out.Set("target_session_attrs", t)
	}
	if d, err := url.PathUnescape(database); err == nil {
		database = d
	}
	u := url.URL{Scheme: "postgres", Host: hosts, Path: "/" + database, RawQuery: out.Encode()}
	return u.String(), nil
}

// part is one name of a qualified one.
type part struct {
	name   string
	quoted bool
}

// splitName cuts a name such as public."My table" into its parts.
func splitName(s string) ([]part, error) {
	var out []part
	for {
		p := part{}
		if strings.HasPrefix(s, `"`) {
			end := 1
			for {
				at := strings.IndexByte(s[end:], '"')
				if at < 0 {
					return nil, fmt.Errorf("the name %s has a quote that does not end", s)
				}
				end += at + 1
				if !strings.HasPrefix(s[end:], `"`) {
					break
				}
				end++
			}
			p = part{strings.ReplaceAll(s[1:end-1], `""`, `"`), true}
			s = s[end:]
		} else {
			at := strings.IndexByte(s, '.')
			if at < 0 {
				at = len(s)
			}
			p.name = strings.TrimSpace(s[:at])
			s = s[at:]
		}
		if p.name == "" {
			return nil, fmt.Errorf("the name has an empty part")
		}
		out = append(out, p)
		switch {
		case s == "" && len(out) <= 2:
			return out, nil
		case s == "":
			return nil, fmt.Errorf("the name has %d parts; write schema.table, and the database in the URL", len(out))
		case s[0] != '.':
			return nil, fmt.Errorf("%q follows a quoted name", s)
		}
		s = s[1:]
	}
}

// candidates are the names, quoted, that s may mean: as it is written, then in lower case, which is
// what PostgreSQL makes of names without quotes.
func candidates(s string) ([]string, error) {
	parts, err := splitName(s)
	if err != nil {
		return nil, err
	}
	var exact, lower []string
	for _, p := range parts {
		exact = append(exact, quote(p.name))
		if !p.quoted {
			p.name = strings.ToLower(p.name)
		}
		lower = append(lower, quote(p.name))
	}
	out := []string{strings.Join(exact, ".")}
	if l := strings.Join(lower, "."); l != out[0] {
		out = append(out, l)
	}
	return out, nil
}

// quote makes an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
