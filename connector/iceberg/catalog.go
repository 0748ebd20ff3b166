package iceberg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/option"
)

// catalogue is what a sink needs of a catalog.
type catalogue interface {
	load(ctx context.Context, ident table.Identifier) (*table.Table, error)
	// create makes a table and its namespace. location may be empty.
	create(ctx context.Context, ident table.Identifier, s *iceberg.Schema, spec *iceberg.PartitionSpec, props iceberg.Properties, location string) error
	close() error
}

// opener opens a catalog.
type opener func(ctx context.Context) (catalogue, error)

// spellings are other names of properties.
var spellings = map[string]string{"s3.access-key": propAccess, "s3.secret-key": propSecret, "client.region": propRegion}

// propertiesOf are the options that catalogs and stores understand.
func propertiesOf(o option.Values) iceberg.Properties {
	props := iceberg.Properties{}
	for k, v := range o.All() {
		if n := spellings[k]; n != "" {
			k = n
		}
		switch {
		case strings.HasPrefix(k, "s3."), strings.HasPrefix(k, "header."), strings.HasPrefix(k, "rest."):
		case k == "warehouse", k == "credential", k == "token", k == "scope", k == "oauth2-server-uri", k == "prefix":
		default:
			continue
		}
		props[k] = v
	}
	return props
}

// openerOf checks the options that say which catalog is meant. It connects to nothing.
func openerOf(o option.Values, resolve func(string) string) (opener, error) {
	uri, props, name := o.Get("uri"), propertiesOf(o), o.Get("catalog-name")
	if uri == "" {
		return nil, refuse("uri", "write where the catalog is", "option 'uri' is missing")
	}
	if (props[propAccess] == "") != (props[propSecret] == "") {
		return nil, refuse("s3.access-key-id", "give both, or none", "'s3.access-key-id' and 's3.secret-access-key' belong together: one of them is missing")
	}
	switch o.Enum("catalog-type") {
	case "rest":
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, refuse("uri", "write http://host:port, with a path where there is one", "'%s' is no address of a REST catalog", uri)
		}
		return func(ctx context.Context) (catalogue, error) { return openREST(ctx, name, uri, props) }, nil
	case "jdbc", "sql":
		driver, source, err := database(uri, o.Get("jdbc.user"), o.Get("jdbc.password"), resolve)
		if err != nil {
			return nil, refuse("uri", "write jdbc:sqlite:path, sqlite:///path, or jdbc:postgresql://host/database", "%s", err)
		}
		if props["warehouse"] == "" && o.Get("location") == "" && o.Bool("sink.create-table") {
			return nil, refuse("warehouse", "write a folder or s3://bucket/path; it is not needed with 'sink.create-table' = 'false'", "option 'warehouse' is missing")
		}
		if w := props["warehouse"]; w != "" && !strings.Contains(w, "://") {
			// Other engines, elsewhere, must find the files.
			abs, err := filepath.Abs(resolve(plain(w)))
			if err != nil {
				return nil, refuse("warehouse", "write a folder, or s3://bucket/path", "%s", err)
			}
			props["warehouse"] = abs
		}
		return func(ctx context.Context) (catalogue, error) { return openSQL(ctx, name, driver, source, props) }, nil
	}
	return nil, refuse("catalog-type", "use 'rest', 'jdbc' or 'sql'", "catalogs of type '%s' are not supported yet", o.Get("catalog-type"))
}

// database understands the address of a SQL catalog as Java's and Python's programs spell it.
func database(uri, user, password string, resolve func(string) string) (driver, source string, err error) {
	rest := strings.TrimPrefix(uri, "jdbc:")
	scheme, path, ok := strings.Cut(rest, ":")
	if !ok {
		return "", "", fmt.Errorf("'%s' is no address of a database", uri)
	}
	scheme, _, _ = strings.Cut(scheme, "+") // postgresql+psycopg2
	switch scheme {
	case "sqlite":
		path = strings.TrimPrefix(path, "///") // sqlite:////absolute, sqlite:///relative
		path = strings.TrimPrefix(path, "file:")
		if path == "" || strings.Contains(path, ":memory:") {
			return "", "", errors.New("a SQLite catalog in memory would be lost with the process")
		}
		path, _, _ = strings.Cut(path, "?")
		return "sqlite", "file:" + (&url.URL{Path: resolve(path)}).EscapedPath() + "?_pragma=busy_timeout(20000)&_txlock=immediate", nil
	case "postgresql", "postgres":
		u, err := url.Parse("postgres:" + path)
		if err != nil || u.Host == "" {
			return "", "", fmt.Errorf("'%s' is no address of a PostgreSQL database", uri)
		}
		q := u.Query()
		if v := q.Get("user"); v != "" && user == "" {
			user = v
		}
		if v := q.Get("password"); v != "" && password == "" {
			password = v
		}
		q.Del("user")
		q.Del("password")
		u.RawQuery = q.Encode()
		switch {
		case user != "" && password != "":
			u.User = url.UserPassword(user, password)
		case user != "":
			u.User = url.User(user)
		}
		return "pgx", u.String(), nil
	}
	return "", "", fmt.Errorf("databases of type '%s' are not supported yet", scheme)
}

// restCatalog is a REST catalog.
type restCatalog struct{ *rest.Catalog }

func openREST(ctx context.Context, name, uri string, props iceberg.Properties) (catalogue, error) {
	opts := []rest.Option{rest.WithWarehouseLocation(props["warehouse"]), rest.WithPrefix(props["prefix"]), rest.WithScope(props["scope"]),
		rest.WithCredential(props["credential"]), rest.WithOAuthToken(props["token"])}
	if v := props["oauth2-server-uri"]; v != "" {
		u, err := url.Parse(v)
		if err != nil {
			return nil, connector.Fatalf("'oauth2-server-uri' = '%s': %w", v, err)
		}
		opts = append(opts, rest.WithAuthURI(u))
	}
	if strings.EqualFold(props["rest.sigv4-enabled"], "true") {
		opts = append(opts, rest.WithSigV4RegionSvc(props["rest.signing-region"], props["rest.signing-name"]))
	}
	more := iceberg.Properties{}
	for k, v := range props {
		if strings.HasPrefix(k, "s3.") || strings.HasPrefix(k, "header.") || strings.HasPrefix(k, "rest.") {
			more[k] = v
		}
	}
	opts = append(opts, rest.WithAdditionalProps(more))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := rest.NewCatalog(ctx, name, uri, opts...)
	if err != nil {
		return nil, fmt.Errorf("REST catalog %s: %w", uri, err)
	}
	return restCatalog{c}, nil
}

func (c restCatalog) load(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	return c.LoadTable(ctx, ident)
}

func (c restCatalog) create(ctx context.Context, ident table.Identifier, s *iceberg.Schema, spec *iceberg.PartitionSpec, props iceberg.Properties, location string) error {
	space := ident[:len(ident)-1]
	for i := range space {
		if err := c.CreateNamespace(ctx, space[:i+1], nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
			if there, e := c.CheckNamespaceExists(ctx, space[:i+1]); e != nil || !there {
				return fmt.Errorf("create namespace '%s': %w", strings.Join(space[:i+1], "."), err)
			}
		}
	}
	opts := []catalog.CreateTableOpt{catalog.WithPartitionSpec(spec), catalog.WithProperties(props)}
	if location != "" {
		opts = append(opts, catalog.WithLocation(location))
	}
	_, err := c.CreateTable(ctx, ident, s, opts...)
	return err
}

func (c restCatalog) close() error { return c.Close() }
