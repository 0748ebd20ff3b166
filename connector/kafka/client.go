package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-stream/tidemark/option"
)

// answerWithin is how long brokers may take to answer at the start before the job gives up, unless
// 'properties.default.api.timeout.ms' says otherwise.
const answerWithin = 30 * time.Second

// minMetadataAge is how often metadata may be asked for. A leader that moved is found again after
// this time.
const minMetadataAge = 250 * time.Millisecond

// client is a connection to the brokers that can say why there is none.
type client struct {
	*kgo.Client
	admin   *kadm.Client
	brokers string
	within  time.Duration
	mu      sync.Mutex
	dialErr error // of the last connection that failed, nil after one that succeeded; guarded by mu
}

func newClient(o option.Values, opts ...kgo.Opt) (*client, error) {
	p := properties(o.Prefix("properties."))
	c := &client{brokers: p["bootstrap.servers"], within: answerWithin}
	if n, ok, err := p.number("default.api.timeout.ms"); err != nil {
		return nil, err
	} else if ok {
		c.within = ms(n)
	}
	k, err := kgo.NewClient(append(opts[:len(opts):len(opts)], kgo.WithHooks(c))...)
	if err != nil {
		return nil, err
	}
	c.Client, c.admin = k, kadm.NewClient(k)
	return c, nil
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *client) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(err, context.Canceled) {
		c.dialErr = err
	}
}

// explain adds to an error why no broker could be reached.
func (c *client) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer *kerr.Error
	var user *option.Error
	switch {
	case err == nil || errors.As(err, &answer) || errors.As(err, &user):
		return err // they answered
	case c.dialErr != nil:
		return fmt.Errorf("no connection to the brokers at %s: %w", c.brokers, c.dialErr)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the brokers at %s did not answer within %s: %w", c.brokers, c.within, err)
	}
	return fmt.Errorf("brokers at %s: %w", c.brokers, err)
}

// clientOptions turns properties.* into the options of a client that reads or writes.
func clientOptions(o option.Values) ([]kgo.Opt, error) {
	p := properties(o.Prefix("properties."))
	var seeds []string
	for _, s := range strings.Split(p["bootstrap.servers"], ",") {
		if s = strings.TrimSpace(s); s != "" {
			seeds = append(seeds, s)
		}
	}
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID(p.get("client.id", "tidemark")), kgo.MetadataMinAge(minMetadataAge), kgo.DisableClientMetrics()}
	for key, f := range map[string]func(int64) kgo.Opt{
		"fetch.min.bytes":           func(n int64) kgo.Opt { return kgo.FetchMinBytes(int32(n)) },
		"fetch.max.bytes":           func(n int64) kgo.Opt { return kgo.FetchMaxBytes(int32(n)) },
		"max.partition.fetch.bytes": func(n int64) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) },
		"fetch.max.wait.ms":         func(n int64) kgo.Opt { return kgo.FetchMaxWait(ms(n)) },
		"metadata.max.age.ms":       func(n int64) kgo.Opt { return kgo.MetadataMaxAge(max(ms(n), minMetadataAge)) },
		"connections.max.idle.ms":   func(n int64) kgo.Opt { return kgo.ConnIdleTimeout(ms(n)) },
		"retry.backoff.ms": func(n int64) kgo.Opt {
			return kgo.RetryBackoffFn(func(try int) time.Duration { return min(ms(n)<<min(try, 5), 10*time.Second) })
		},
	} {
		n, ok, err := p.number(key)
		if err != nil {
			return nil, err
		}
		if ok {
			opts = append(opts, f(n))
		}
	}
	if r := p["client.rack"]; r != "" {
		opts = append(opts, kgo.Rack(r))
	}
	security, err := p.security()
	return append(opts, security...), err
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// properties are those of Kafka's own client.
type properties map[string]string

func (p properties) get(key, def string) string {
	if s, ok := p[key]; ok {
		return s
	}
	return def
}

func (p properties) number(key string) (int64, bool, error) {
	s, ok := p[key]
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 {
		return 0, false, &option.Error{Key: "properties." + key, Msg: fmt.Sprintf("option 'properties.%s' cannot be '%s'", key, s), Hint: "write a whole number"}
	}
	return n, true, nil
}

// security reads security.protocol, sasl.* and ssl.*.
func (p properties) security() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	protocol := strings.ToUpper(p.get("security.protocol", "PLAINTEXT"))
	switch protocol {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		return nil, &option.Error{Key: "properties.security.protocol", Msg: fmt.Sprintf("'%s' is not a security protocol", protocol),
			Hint: "it is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"}
	}
	if strings.HasSuffix(protocol, "SSL") {
		c, err := p.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(c))
	}
	if strings.HasPrefix(protocol, "SASL") {
		m, err := p.sasl()
		if err != nil {
			return nil, err
		}
		opts = append(opts, m)
	}
	return opts, nil
}

var jaasPair = regexp.MustCompile(`(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"`)

func (p properties) sasl() (kgo.Opt, error) {
	login := map[string]string{}
	for _, m := range jaasPair.FindAllStringSubmatch(p["sasl.jaas.config"], -1) {
		login[m[1]] = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
	}
	user, pass := login["username"], login["password"]
	mechanism := strings.ToUpper(p.get("sasl.mechanism", "GSSAPI"))
	switch mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		return nil, &option.Error{Key: "properties.sasl.mechanism", Msg: fmt.Sprintf("the mechanism '%s' is not supported", mechanism),
			Hint: "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"}
	}
	if user == "" {
		return nil, &option.Error{Key: "properties.sasl.jaas.config", Msg: "no username in 'properties.sasl.jaas.config'",
			Hint: `write org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`}
	}
	switch mechanism {
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()), nil
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()), nil
	}
	return kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()), nil
}

// tls reads PEM files and texts; Java's key stores are refused with the way out.
func (p properties) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	ca, err := p.pem("ssl.truststore", "ssl.truststore.certificates")
	if err != nil {
		return nil, err
	}
	if ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, &option.Error{Key: "properties.ssl.truststore.location", Msg: "the trust store holds no certificate in PEM form"}
		}
	}
	chain, err := p.pem("ssl.keystore", "ssl.keystore.certificate.chain")
	if err != nil {
		return nil, err
	}
	if chain != nil {
		key := chain
		if k := p["ssl.keystore.key"]; k != "" {
			key = []byte(k)
		}
		cert, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, &option.Error{Key: "properties.ssl.keystore.location", Msg: "the key store is not usable: " + err.Error()}
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if v, ok := p["ssl.endpoint.identification.algorithm"]; ok && v == "" {
		c.InsecureSkipVerify = true // the chain is still verified below, only the host name is not
		c.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(opts)
			return err
		}
	}
	return c, nil
}

func (p properties) pem(store, inline string) ([]byte, error) {
	if s := p[inline]; s != "" {
		return []byte(s), nil
	}
	path := p[store+".location"]
	if path == "" {
		return nil, nil
	}
	if t := strings.ToUpper(p.get(store+".type", "JKS")); t != "PEM" {
		return nil, &option.Error{Key: "properties." + store + ".type", Msg: fmt.Sprintf("a %s of type %s cannot be read", strings.TrimPrefix(store, "ssl."), t),
			Hint: fmt.Sprintf("convert it to PEM and set 'properties.%s.type' = 'PEM'", store)}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &option.Error{Key: "properties." + store + ".location", Msg: err.Error()}
	}
	return b, nil
}
