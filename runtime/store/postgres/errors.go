package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Errors that an operator can act on. Use [errors.Is] to test for them.
var (
	// ErrConfig indicates an invalid connection string or option.
	ErrConfig = errors.New("postgres: bad configuration")
	// ErrUnreachable indicates that a connection failed because of the server, the network or the login.
	ErrUnreachable = errors.New("postgres: cannot connect")
	// ErrRights indicates that the role lacks the privilege named in the message.
	ErrRights = errors.New("postgres: the role lacks a right")
	// ErrVersion indicates that this build cannot use the schema. Either a newer release changed it, or a build from
	// before the first release created it.
	ErrVersion = errors.New("postgres: the version of the schema is not supported")
	// ErrServer indicates that the server is too old or the database has an unsupported encoding.
	ErrServer = errors.New("postgres: unsupported server version or encoding")
	// ErrReadOnly indicates that the server does not accept writes, because it is a standby or is configured as
	// read-only.
	ErrReadOnly = errors.New("postgres: server is read-only")
	// ErrForeign indicates that the schema belongs to another program.
	ErrForeign = errors.New("postgres: schema belongs to another program")
	// ErrKey indicates that the key is missing, is wrong, or has an invalid length.
	ErrKey = errors.New("postgres: wrong or missing encryption key")
	// ErrCorrupt indicates that data in the database is damaged.
	ErrCorrupt = errors.New("postgres: damaged data")
)

// classify wraps a driver error with the corresponding error of this package, if any.
func classify(err error) error {
	var pg *pgconn.PgError
	var parse *pgconn.ParseConfigError
	var dial *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sealed.ErrKey):
		return fmt.Errorf("%w: %w", ErrKey, err)
	case errors.Is(err, sealed.ErrForm):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.As(err, &parse):
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case errors.As(err, &pg):
		switch pg.Code {
		case stateGeneration:
			return fmt.Errorf("%w: %w", engine.ErrNewEpoch, err)
		case stateFenced:
			return fmt.Errorf("%w: %w", engine.ErrFenced, err)
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w", ErrRights, err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
		if errors.As(err, &dial) {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return err
	case errors.As(err, &dial):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// isConflict reports whether a transaction failed because of a conflict and can be retried.
func isConflict(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// isUnsent reports whether the statement did not reach the server.
func isUnsent(err error) bool {
	var dial *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &dial)
}

// mayBeCommitted reports whether a statement was sent but its response was lost. The transaction may then have been
// committed.
func mayBeCommitted(err error) bool {
	if err == nil || isUnsent(err) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// The server ended the session: 57P01 to 57P03 and class 08 can occur at any time.
		return strings.HasPrefix(pg.Code, "57P0") || strings.HasPrefix(pg.Code, "08")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		pgconn.Timeout(err) || errors.Is(err, pgconn.ErrConnClosed)
}

// wrapUncertain wraps err with ErrUncertain if the write may have been committed.
func wrapUncertain(err error) error {
	if mayBeCommitted(err) {
		return fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return classify(err)
}

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// isMissingLog reports whether the log no longer exists.
func isMissingLog(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGone
}

// isOldGeneration reports whether begin_write rejected the generation or the timeline.
func isOldGeneration(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGeneration
}
