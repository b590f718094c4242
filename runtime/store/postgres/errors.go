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

// Errors that an operator can act upon. Errors of this package match them with [errors.Is].
var (
	// ErrConfig reports an invalid connection string or option.
	ErrConfig = errors.New("postgres: bad configuration")
	// ErrUnreachable reports that no connection could be made: the server, the network or the login failed.
	ErrUnreachable = errors.New("postgres: cannot connect")
	// ErrRights reports that the role lacks a privilege, which the message names.
	ErrRights = errors.New("postgres: the role lacks a right")
	// ErrVersion reports that this build must not use the schema. A newer release changed it, or a build before the
	// first release created it.
	ErrVersion = errors.New("postgres: the version of the schema is not supported")
	// ErrServer reports that the server is too old or its database has an unsuitable encoding.
	ErrServer = errors.New("postgres: unsupported server version or encoding")
	// ErrReadOnly reports that the server accepts no writes: it is a standby, or a setting makes it read-only.
	ErrReadOnly = errors.New("postgres: server is read-only")
	// ErrForeign reports that the schema belongs to another program.
	ErrForeign = errors.New("postgres: schema belongs to another program")
	// ErrKey reports that the key is missing, wrong, or of an invalid length.
	ErrKey = errors.New("postgres: wrong or missing encryption key")
	// ErrCorrupt reports that data in the database are damaged.
	ErrCorrupt = errors.New("postgres: damaged data")
)

// classify wraps the driver's error with one of the errors above, if one applies.
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

// again reports whether a transaction failed because of a conflict and may be retried.
func again(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// unsent reports whether the statement did not reach the server.
func unsent(err error) bool {
	var dial *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &dial)
}

// lost reports whether a statement was sent but not answered, so that its transaction may be committed.
func lost(err error) bool {
	if err == nil || unsent(err) {
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

// uncertain adds ErrUncertain to an error after which the write may be committed.
func uncertain(err error) error {
	if lost(err) {
		return fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return classify(err)
}

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// gone reports whether the log does not exist any more.
func gone(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGone
}

// generationOver reports whether begin_write refused the generation or the timeline.
func generationOver(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGeneration
}
