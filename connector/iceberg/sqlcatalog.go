package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/tidemark-stream/tidemark/connector"
)

// sqlCatalog is a catalog in two tables of a database, with the layout that Java's and Python's programs
// share. A commit writes the new metadata and then moves the pointer of the table from the old ones to
// them, if it is still there.
type sqlCatalog struct {
	db     *sql.DB
	name   string
	sqlite bool
	props  iceberg.Properties
}

const (
	makeTables = `CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
 table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
 PRIMARY KEY (catalog_name, table_namespace, table_name))`
	makeSpaces = `CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
 property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))`
	whereTable = ` WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`
)

func openSQL(ctx context.Context, name, driver, source string, props iceberg.Properties) (catalogue, error) {
	place := catalogPlace(source)
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("SQL catalog %s: %w", place, err)
	}
	db.SetMaxOpenConns(2)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, statement := range []string{makeTables, makeSpaces} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("SQL catalog %s: %w", place, unopened(driver, source, err)), db.Close())
		}
	}
	return &sqlCatalog{db: db, name: name, sqlite: driver == "sqlite", props: props}, nil
}

// catalogPlace is the address of a database for people, without its password.
func catalogPlace(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return "(its address cannot be read)"
	}
	if u.Scheme == "file" {
		return databaseFile(u)
	}
	u.RawQuery = ""
	return u.Redacted()
}

// databaseFile is the path of a SQLite database.
func databaseFile(u *url.URL) string {
	if p, err := url.PathUnescape(u.Opaque); err == nil && p != "" {
		return p
	}
	return u.Path
}

// unopened marks errors of opening a SQLite database that no restart heals, and says what to do.
func unopened(driver, source string, err error) error {
	u, bad := url.Parse(source)
	if driver != "sqlite" || bad != nil {
		return err
	}
	folder := filepath.Dir(databaseFile(u))
	if info, e := os.Stat(folder); e != nil || !info.IsDir() {
		return connector.Fatalf("%w; the folder %s does not exist: make it, or correct 'uri'", err, folder)
	}
	return err
}

func (c *sqlCatalog) close() error { return c.db.Close() }

// text gives a statement with the database's signs for its arguments, which ? stands for.
func (c *sqlCatalog) text(statement string) string {
	if c.sqlite {
		return statement
	}
	parts := strings.Split(statement, "?")
	for i := range parts[1:] {
		parts[i] += fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, "")
}

// key is how a table is found.
func (c *sqlCatalog) key(ident table.Identifier) []any {
	return []any{c.name, strings.Join(ident[:len(ident)-1], "."), ident[len(ident)-1]}
}

func (c *sqlCatalog) files(location string) table.FSysF { return iceio.LoadFSFunc(c.props, location) }

func (c *sqlCatalog) load(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	var location sql.NullString
	err := c.db.QueryRowContext(ctx, c.text("SELECT metadata_location FROM iceberg_tables"+whereTable), c.key(ident)...).Scan(&location)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !location.Valid {
		return nil, fmt.Errorf("%w: %s", catalog.ErrNoSuchTable, strings.Join(ident, "."))
	}
	if err != nil {
		return nil, err
	}
	return table.NewFromLocation(ctx, ident, location.String, c.files(location.String), c)
}

// LoadTable implements table.CatalogIO.
func (c *sqlCatalog) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	return c.load(ctx, ident)
}

// CommitTable implements table.CatalogIO.
func (c *sqlCatalog) CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	now, err := c.load(ctx, ident)
	if err != nil {
		return nil, "", err
	}
	for _, r := range reqs {
		if err := r.Validate(now.Metadata()); err != nil {
			return nil, "", fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
		}
	}
	meta, err := table.UpdateTableMetadata(now.Metadata(), updates, now.MetadataLocation())
	if err != nil {
		return nil, "", err
	}
	location, err := c.write(ctx, meta, version(now.MetadataLocation())+1)
	if err != nil {
		return nil, "", err
	}
	args := append([]any{location, now.MetadataLocation()}, c.key(ident)...)
	result, err := c.db.ExecContext(ctx, c.text("UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"+whereTable+" AND metadata_location = ?"),
		append(args, now.MetadataLocation())...)
	if err != nil {
		return nil, "", fmt.Errorf("it is not known whether the commit went in: %w", err)
	}
	moved, err := result.RowsAffected()
	if err == nil && moved == 0 {
		err = errors.Join(fmt.Errorf("%w: the table has changed", table.ErrCommitFailed), c.remove(ctx, location))
	}
	return meta, location, err
}

func (c *sqlCatalog) remove(ctx context.Context, location string) error {
	fs, err := c.files(location)(ctx)
	if err != nil {
		return err
	}
	return gone(fs.Remove(location))
}

// version is the number that the name of a metadata file begins with.
func version(location string) int {
	n := 0
	_, _ = fmt.Sscanf(location[strings.LastIndexByte(location, '/')+1:], "%d-", &n)
	return n
}

// write writes metadata to a new file.
func (c *sqlCatalog) write(ctx context.Context, meta table.Metadata, number int) (string, error) {
	places, err := table.LoadLocationProvider(meta.Location(), iceberg.Properties{
		table.WriteMetadataPathKey: meta.Properties().Get(table.WriteMetadataPathKey, meta.Location()+"/metadata")})
	if err != nil {
		return "", err
	}
	location, err := places.NewTableMetadataFileLocation(number)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return "", err
	}
	fs, err := c.files(location)(ctx)
	if err != nil {
		return "", err
	}
	w, ok := fs.(iceio.WriteFileIO)
	if !ok {
		return "", connector.Fatalf("files cannot be written at %s", location)
	}
	return location, w.WriteFile(location, text)
}

func (c *sqlCatalog) create(ctx context.Context, ident table.Identifier, s *iceberg.Schema, spec *iceberg.PartitionSpec, props iceberg.Properties, location string) error {
	space := strings.Join(ident[:len(ident)-1], ".")
	if _, err := c.db.ExecContext(ctx, c.text("INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) VALUES (?, ?, 'exists', 'true') ON CONFLICT DO NOTHING"),
		c.name, space); err != nil {
		return err
	}
	if location == "" {
		location = strings.TrimSuffix(c.props["warehouse"], "/") + "/" + strings.Join(ident, "/")
	}
	meta, err := table.NewMetadata(s, spec, table.UnsortedSortOrder, location, props)
	if err != nil {
		return err
	}
	first, err := c.write(ctx, meta, 0)
	if err != nil {
		return err
	}
	result, err := c.db.ExecContext(ctx, c.text("INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"),
		append(c.key(ident), first)...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return errors.Join(catalog.ErrTableAlreadyExists, c.remove(ctx, first))
}
