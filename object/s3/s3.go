// Package s3 keeps objects in an S3 bucket, at AWS or at any server that speaks its protocol. It
// registers itself for s3://bucket/prefix (and s3a:// and s3p://, as Flink spells them).
//
// Requests that fail in passing are sent again with growing pauses; a body whose connection breaks
// is read on from where it broke. Put-if-absent is a conditional write; a server that does not know
// those is found out by a probe, and then it is done as well as it can be without, which Limits
// says.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tidemark-stream/tidemark/object"
	"github.com/tidemark-stream/tidemark/option"
)

// Options are the options of the session that say how S3 is reached, with Flink's names. What is
// not given comes from the environment, as for all programs that use AWS: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3, profiles, roles of the machine.
var Options = []option.Spec{
	{Name: "s3.endpoint", Doc: "Address of the server, where it is not AWS; https:// where it does not say.", Example: "http://localhost:9000"},
	{Name: "s3.access-key", Doc: "Access key; with 's3.secret-key'.", Secret: true},
	{Name: "s3.secret-key", Doc: "Secret key.", Secret: true},
	{Name: "s3.session-token", Doc: "Session token of temporary keys.", Secret: true},
	{Name: "s3.region", Doc: "Region of the bucket; us-east-1 if nothing says which."},
	{Name: "s3.path.style.access", Kind: option.Bool, Doc: "The bucket is part of the path and not of the host name; true by default with 's3.endpoint'."},
}

// older are other spellings that Flink takes.
var older = map[string]string{
	"s3.access.key": "s3.access-key", "s3.secret.key": "s3.secret-key", "s3.path-style-access": "s3.path.style.access",
	"s3.endpoint.region": "s3.region",
}

// TableOptions are Options and the other spellings that Flink has of them, for tables.
func TableOptions() []option.Spec {
	out := slices.Clone(Options)
	for _, k := range slices.Sorted(maps.Keys(older)) {
		s := Options[slices.IndexFunc(Options, func(s option.Spec) bool { return s.Name == older[k] })]
		out = append(out, option.Spec{Name: k, Kind: s.Kind, Secret: s.Secret, Doc: "The same as '" + s.Name + "'."})
	}
	return out
}

const (
	attempts = 8 // of a request; pauses grow to maxPause, so a minute of trouble is survived
	maxPause = 20 * time.Second
	// dialTimeout is how long a connection may take to be made.
	dialTimeout = 10 * time.Second
	// partSize is the size from which a file is written in parts, and of those. Parts are sent one
	// after the other: files of the state's LSM are smaller, and several are sent at a time.
	partSize = 64 << 20
	// mostParts is what S3 allows.
	mostParts = 10_000
	// mostDeletes is how many objects one request may delete.
	mostDeletes = 1000
)

// Config are the settings of a store. Access, Secret and Region may be empty: see Options.
type Config struct {
	Bucket, Prefix        string // Prefix has no slash at its ends
	Endpoint, Region      string
	Access, Secret, Token string
	PathStyle             bool
	Disk                  object.FS     // where local files are; nil is the operating system's
	HTTP                  HTTPDoer      // nil is a client with timeouts
	PartSize              int64         // 0 is 64 MiB
	MaxPause              time.Duration // between two attempts; 0 is 20 s
}

// HTTPDoer sends requests.
type HTTPDoer interface {
	Do(*http.Request) (*http.Response, error)
}

func init() {
	for _, scheme := range []string{"s3", "s3a", "s3p"} {
		object.Register(scheme, open)
	}
}

func open(u *url.URL, given map[string]string) (object.Store, error) {
	mine := map[string]string{}
	for k, v := range given {
		if n := older[k]; n != "" {
			k = n
		}
		if strings.HasPrefix(k, "s3.") && slices.ContainsFunc(Options, func(s option.Spec) bool { return s.Name == k }) {
			mine[k] = v
		}
	}
	o := option.Of(mine, Options)
	if err := o.Check(nil); err != nil {
		return nil, err
	}
	c := Config{
		Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: o.Get("s3.endpoint"), Region: o.Get("s3.region"),
		Access: o.Get("s3.access-key"), Secret: o.Get("s3.secret-key"), Token: o.Get("s3.session-token"),
		PathStyle: o.Bool("s3.path.style.access") || !o.Has("s3.path.style.access") && o.Has("s3.endpoint"),
	}
	return New(context.Background(), c)
}

// Store is an object.Store in a bucket.
type Store struct {
	c        Config
	client   *s3.Client
	where    string // the server, to tell whether two stores are at the same
	idle     func() // closes connections that nobody uses; nil: they are somebody else's
	requests atomic.Int64
	mood     mood

	mu          sync.Mutex // held during the probe
	conditional condition
}

// condition says what is known of conditional writes.
type condition uint8

const (
	unknown condition = iota
	works
	ignored // the server takes no notice, or refuses
)

// New makes the store of a bucket. No request is sent.
func New(ctx context.Context, c Config) (*Store, error) {
	if c.Bucket == "" {
		return nil, errors.New("location s3://: the bucket is missing: s3://bucket/folder")
	}
	if (c.Access == "") != (c.Secret == "") {
		return nil, errors.New("'s3.access-key' and 's3.secret-key' belong together: one of them is missing")
	}
	if c.Prefix != "" {
		if err := object.CheckName(c.Prefix); err != nil {
			return nil, err
		}
		c.Prefix += "/"
	}
	if c.Endpoint != "" && !strings.Contains(c.Endpoint, "://") {
		c.Endpoint = "https://" + c.Endpoint
	}
	if c.Disk == nil {
		c.Disk = object.OS{}
	}
	if c.PartSize == 0 {
		c.PartSize = partSize
	}
	if c.MaxPause == 0 {
		c.MaxPause = maxPause
	}
	var idle func()
	if c.HTTP == nil {
		c.HTTP, idle = newClient()
	}
	var load []func(*config.LoadOptions) error
	if c.Access != "" {
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.Access, c.Secret, c.Token)))
	}
	if c.Region != "" {
		load = append(load, config.WithRegion(c.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("settings for s3://%s: %w", c.Bucket, err)
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	s := &Store{c: c, where: c.Endpoint + " " + cfg.Region, idle: idle}
	s.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		o.UsePathStyle = c.PathStyle
		o.HTTPClient = s
		o.Retryer = patient{retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = attempts
			r.MaxBackoff = c.MaxPause
			r.Backoff = retry.NewExponentialJitterBackoff(c.MaxPause)
		}), s}
		// The signature covers the content already; servers of others often lack the newer sums.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if o.BaseEndpoint == nil && cfg.BaseEndpoint == nil {
			s.conditional = works // AWS has them
		}
	})
	return s, nil
}

// newClient makes a client as the SDK's, whose idle connections can be closed.
func newClient() (HTTPDoer, func()) {
	t := awshttp.NewBuildableClient().GetTransport()
	t.ResponseHeaderTimeout = time.Minute // a server that hangs is asked again
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dialTimeout
	// As many parts of objects are read and written at a time.
	t.MaxIdleConnsPerHost = 32
	c := &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		// Only these keep the method. Keys of one host are not for another.
		if s := r.Response.StatusCode; s != http.StatusTemporaryRedirect && s != http.StatusPermanentRedirect || len(via) > 10 {
			return http.ErrUseLastResponse
		}
		if via[len(via)-1].URL.Host != r.URL.Host {
			r.Header.Del("X-Amz-Security-Token")
		}
		return nil
	}}
	return c, t.CloseIdleConnections
}

// Requests implements object.Store.
func (s *Store) Requests() int64 { return s.requests.Load() }

// String implements object.Store.
func (s *Store) String() string {
	return strings.TrimSuffix("s3://"+s.c.Bucket+"/"+s.c.Prefix, "/")
}

// key is the name of an object in the bucket.
func (s *Store) key(name string) (*string, error) {
	if err := object.CheckName(name); err != nil {
		return nil, err
	}
	return aws.String(s.c.Prefix + name), nil
}

func (s *Store) bucket() *string { return aws.String(s.c.Bucket) }

// Stat implements object.Store.
func (s *Store) Stat(ctx context.Context, name string) (object.Info, error) {
	key, err := s.key(name)
	if err != nil {
		return object.Info{}, err
	}
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket(), Key: key})
	if err != nil {
		return object.Info{}, s.fail("look at", name, err)
	}
	return object.Info{Name: name, Size: aws.ToInt64(out.ContentLength), Version: aws.ToString(out.ETag),
		ModifiedMs: seconds(out.LastModified)}, nil
}

// List implements object.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]object.Info, error) {
	if err := object.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	var out []object.Info
	in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: aws.String(s.c.Prefix + prefix)}
	for {
		page, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, s.fail("list", prefix, err)
		}
		for _, o := range page.Contents {
			if info, ok := s.listed(&o); ok {
				out = append(out, info)
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			break
		}
		in.ContinuationToken = page.NextContinuationToken
	}
	slices.SortFunc(out, func(a, b object.Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Delete implements object.Store: up to 1,000 objects by one request, where the server has that.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	keys := make([]types.ObjectIdentifier, len(names))
	for i, n := range names {
		key, err := s.key(n)
		if err != nil {
			return err
		}
		keys[i].Key = key
	}
	for len(keys) > 0 {
		n := min(len(keys), mostDeletes)
		if err := s.deleteSome(ctx, keys[:n]); err != nil {
			return s.fail("delete", strings.TrimPrefix(*keys[0].Key, s.c.Prefix), err)
		}
		keys = keys[n:]
	}
	return nil
}

func (s *Store) deleteSome(ctx context.Context, keys []types.ObjectIdentifier) error {
	if len(keys) > 1 {
		out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: s.bucket(),
			Delete: &types.Delete{Objects: keys, Quiet: aws.Bool(true)}})
		if err == nil {
			for _, e := range out.Errors {
				if aws.ToString(e.Code) != "NoSuchKey" {
					return fmt.Errorf("%s: %s: %s", aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
				}
			}
			return nil
		}
		if c := status(err); c < 400 || c >= 500 && c != http.StatusNotImplemented || c == http.StatusForbidden || ctx.Err() != nil {
			return err
		}
		// The server does not take this form of it.
	}
	for _, k := range keys {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: k.Key})
		if err != nil && !errors.Is(s.fail("", "", err), object.ErrNotFound) {
			return err
		}
	}
	return nil
}

// status is the HTTP status of an error, 0 if there was no answer.
func status(err error) int {
	var r *awshttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// code is S3's name of an error.
func code(err error) string {
	var e interface{ ErrorCode() string }
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// hints say what to do about errors that have one cause, and that trying again does not heal.
var hints = map[string]string{
	"NoSuchBucket":                       "make the bucket first",
	"InvalidBucketName":                  "no bucket can have that name",
	"AccessDenied":                       "the keys may not do this",
	"AllAccessDisabled":                  "the keys may not do this",
	"InvalidAccessKeyId":                 "the server does not know 's3.access-key' (or AWS_ACCESS_KEY_ID)",
	"SignatureDoesNotMatch":              "see to 's3.secret-key' (or AWS_SECRET_ACCESS_KEY)",
	"ExpiredToken":                       "the temporary keys have run out: set 's3.access-key', 's3.secret-key' and 's3.session-token' anew",
	"PermanentRedirect":                  "the bucket is in another region: set 's3.region'",
	"AuthorizationHeaderMalformed":       "the bucket is in another region: set 's3.region'",
	"IllegalLocationConstraintException": "the bucket is in another region: set 's3.region'",
}

// refusals are answers that another try gets again.
var refusals = map[string]bool{"EntityTooSmall": true, "EntityTooLarge": true, "InvalidPart": true, "InvalidPartOrder": true,
	"InvalidArgument": true, "InvalidRequest": true, "MalformedXML": true, "KeyTooLongError": true, "MethodNotAllowed": true}

// hintOf says what to do about an error, "" where trying again may heal it.
func hintOf(err error) string {
	if h := hints[code(err)]; h != "" {
		return h
	}
	switch s := status(err); {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server speaks HTTP without TLS: write 'http://' in front of 's3.endpoint'"
	case refusals[code(err)]:
		return "the server does not do this"
	case s == http.StatusForbidden: // a HEAD has no text that says why
		return "the keys are wrong, or may not do this"
	case s == http.StatusMovedPermanently:
		return hints["PermanentRedirect"]
	case s == 0 && strings.Contains(err.Error(), "get identity: get credentials"):
		return "there are no keys: set 's3.access-key' and 's3.secret-key', or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	}
	return ""
}

// fail gives an error its place and its kind.
func (s *Store) fail(what, name string, err error) error {
	if err == nil {
		return nil
	}
	at := s.String() + "/" + name
	switch {
	case code(err) != "NoSuchBucket" && status(err) == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", what, at, object.ErrNotFound)
	case status(err) == http.StatusPreconditionFailed:
		return fmt.Errorf("%s %s: %w", what, at, object.ErrExists)
	}
	if hint := hintOf(err); hint != "" {
		if errors.Is(err, http.ErrSchemeMismatch) {
			err = s.cause(err)
		}
		return &object.Hopeless{Err: fmt.Errorf("%s %s: %w; %s", what, at, err, hint)}
	}
	if e := s.unanswered(err); e != nil {
		err = e
	}
	return fmt.Errorf("%s %s: %w", what, at, err)
}

var _ interface {
	object.Store
	object.Copier
	object.Limited
} = (*Store)(nil)

var _ io.ReadCloser = (*reader)(nil)
