package fn

import (
	"bytes"
	"strconv"

	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

func init() {
	expr.Register(expr.Func{
		Name: "PARSE_URL", Usage: "PARSE_URL(url, part [, key])", Category: catString,
		Doc: "A part of the URL as it stands: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO; with " +
			"QUERY and a key the value of that parameter. NULL where the part or the parameter is missing, and for " +
			"what is not a URL of a known protocol (http, https, ftp, file, jar, mailto).",
		Infer: sig(maybe(types.StringType), 2, str, str, str), Compile: kernel(slicing(0, parseURL)),
	})
}

// urlParts are places in a URL, of which from < 0 says missing. They split it as java.net.URL does.
type urlParts struct {
	s                                                           []byte
	protocol, host, path, query, ref, file, authority, userInfo [2]int
}

var missing = [2]int{-1, -1}

// splitURL cuts a URL up; ok is false where java.net.URL would throw.
func splitURL(s []byte) (u urlParts, ok bool) {
	u = urlParts{s: s, query: missing, ref: missing, authority: missing, userInfo: missing}
	end := len(s)
	for end > 0 && s[end-1] <= ' ' {
		end--
	}
	start := 0
	for start < end && s[start] <= ' ' {
		start++
	}
	if hasFold(s[start:end], "url:") {
		start += 4
	}
	colon := bytes.IndexByte(s[start:end], ':')
	if colon < 0 || bytes.ContainsAny(s[start:start+colon], "/?#") {
		return u, false
	}
	u.protocol = [2]int{start, start + colon}
	if !knownProtocol(s[start : start+colon]) {
		return u, false
	}
	at := start + colon + 1
	if k := bytes.IndexByte(s[at:end], '#'); k >= 0 {
		u.ref = [2]int{at + k + 1, end}
		end = at + k
	}
	pathEnd := end
	if k := bytes.IndexByte(s[at:end], '?'); k >= 0 {
		u.query = [2]int{at + k + 1, end}
		pathEnd = at + k
	}
	u.host = [2]int{at, at}
	if bytes.HasPrefix(s[at:pathEnd], []byte("//")) {
		at += 2
		stop := pathEnd
		if k := bytes.IndexByte(s[at:pathEnd], '/'); k >= 0 {
			stop = at + k
		}
		if !u.setAuthority(at, stop) {
			return u, false
		}
		at = stop
	}
	u.path = [2]int{at, pathEnd}
	u.file = [2]int{at, end}
	return u, true
}

func (u *urlParts) setAuthority(from, to int) bool {
	u.authority = [2]int{from, to}
	host := from
	if k := bytes.IndexByte(u.s[from:to], '@'); k >= 0 {
		if bytes.LastIndexByte(u.s[from:to], '@') != k {
			u.authority = missing // Java gives up on two of them
			u.host = [2]int{from, from}
			return true
		}
		u.userInfo = [2]int{from, from + k}
		host = from + k + 1
	}
	end := to
	if host < to && u.s[host] == '[' {
		k := bytes.IndexByte(u.s[host:to], ']')
		if k < 0 {
			return false
		}
		end = host + k + 1
		if end < to && u.s[end] != ':' {
			return false
		}
	} else if k := bytes.IndexByte(u.s[host:to], ':'); k >= 0 {
		end = host + k
	}
	if end+1 < to {
		if p, err := strconv.Atoi(string(u.s[end+1 : to])); err != nil || p < -1 {
			return false
		}
	}
	u.host = [2]int{host, end}
	return true
}

func hasFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && bytes.EqualFold(s[:len(prefix)], []byte(prefix))
}

func knownProtocol(p []byte) bool {
	for _, k := range [...]string{"http", "https", "ftp", "file", "jar", "mailto"} {
		if len(p) == len(k) && hasFold(p, k) {
			return true
		}
	}
	return false
}

func (u *urlParts) part(name []byte) [2]int {
	switch string(name) {
	case "HOST":
		return u.host
	case "PATH":
		return u.path
	case "QUERY":
		return u.query
	case "REF":
		return u.ref
	case "PROTOCOL":
		return u.protocol
	case "FILE":
		return u.file
	case "AUTHORITY":
		return u.authority
	case "USERINFO":
		return u.userInfo
	}
	return missing
}

func parseURL(args []*vec.Vec, i int) (from, to int, ok bool) {
	u, ok := splitURL(text(args, 0, i))
	if !ok {
		return 0, 0, false
	}
	p := u.part(text(args, 1, i))
	if p[0] < 0 {
		return 0, 0, false
	}
	if len(args) == 2 {
		return p[0], p[1], true
	}
	if string(text(args, 1, i)) != "QUERY" {
		return 0, 0, false
	}
	return parameter(u.s, p[0], p[1], text(args, 2, i))
}

// parameter finds the value of key in the query s[from:to].
func parameter(s []byte, from, to int, key []byte) (int, int, bool) {
	for at := from; at <= to; {
		end := to
		if k := bytes.IndexByte(s[at:to], '&'); k >= 0 {
			end = at + k
		}
		if kv := s[at:end]; len(kv) > len(key) && kv[len(key)] == '=' && bytes.HasPrefix(kv, key) {
			return at + len(key) + 1, end, true
		}
		at = end + 1
	}
	return 0, 0, false
}
