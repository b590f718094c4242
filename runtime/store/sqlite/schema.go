package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

const (
	// applicationID identifies the file as a store in its header. It spells "mcpe".
	applicationID = 0x6d637065
	// schemaVersion is the version of schema.sql, stored in the file as its user_version. A release that changes the
	// schema increments it and migrates older files in prepare.
	schemaVersion = 1
)

//go:embed schema.sql
var schema string

// prepare creates the tables of a new file. It returns an error if this release cannot use an existing file.
func prepare(ctx context.Context, conn *sql.Conn) error {
	return inTransaction(ctx, conn, func() error {
		var id, version, tables int
		var unreleased bool // builds before the first release set no application_id
		err := conn.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema),
			(SELECT count(*) = 2 FROM sqlite_schema WHERE name IN ('logs', 'key_check'))
			FROM pragma_application_id, pragma_user_version`).Scan(&id, &version, &tables, &unreleased)
		switch {
		case err != nil:
			return err
		case id == applicationID && version == schemaVersion:
			return nil
		case id == applicationID && version > schemaVersion:
			return fmt.Errorf("%w: a newer release wrote it (version %d, this release knows %d); upgrade mcpe-gen", ErrVersion, version, schemaVersion)
		case id == applicationID:
			return fmt.Errorf("%w: version %d", ErrCorrupt, version)
		case id == 0 && version == 0 && tables == 0:
			_, err := conn.ExecContext(ctx, fmt.Sprintf("%sPRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, schemaVersion))
			return err
		case id == 0 && unreleased:
			return fmt.Errorf("%w: it was made by an unreleased build of mcpe-gen (schema %d); use a new file", ErrVersion, version)
		}
		return fmt.Errorf("%w: the database belongs to another program", ErrCorrupt)
	})
}
